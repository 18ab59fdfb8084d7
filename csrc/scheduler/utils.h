// SPDX-License-Identifier: BSD-3-Clause
// Public header of schedule utilities: inlining, propagation of transforms and of parallel types.
#pragma once

#include <transform/inlining.h>
#include <transform/propagate.h>
