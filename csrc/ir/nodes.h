// SPDX-License-Identifier: BSD-3-Clause
// All node classes.
#pragma once

#include <ir/base_nodes.h>
#include <ir/domain.h>
#include <ir/exprs.h>
#include <ir/library_op.h>
#include <ir/tensor_view.h>
