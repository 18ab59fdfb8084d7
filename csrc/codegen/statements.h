// SPDX-License-Identifier: BSD-3-Clause
// The statements of a kernel without the loops and branches around them.
#pragma once

#include <kernel/kernel.h>

#include <vector>

namespace nvfuser::codegen {

// In order of execution, all branches.
std::vector<const Expr*> flatStatements(const Kernel* kernel);

// The tensor of an access; null for a scalar.
const TensorView* tensorOf(const Val* v);

} // namespace nvfuser::codegen
