// SPDX-License-Identifier: BSD-3-Clause
// Every op builder.
#pragma once

#include <ops/creation.h>
#include <ops/elementwise.h>
#include <ops/indexing.h>
#include <ops/library.h>
#include <ops/random.h>
#include <ops/reduction.h>
#include <ops/scan.h>
#include <ops/shape.h>
