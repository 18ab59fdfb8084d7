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

// The tensors that a statement reads: its operands, those of scalars computed in it (a cat chooses
// between more than two so), and what holds the positions that it reads at.
std::vector<const TensorView*> tensorsReadBy(const Expr* e);

} // namespace nvfuser::codegen
