// SPDX-License-Identifier: BSD-3-Clause
// What arguments look like to the IR: their layouts as TensorViews see them, and the values that
// they give to the symbols of a definition.
#pragma once

#include <ir/evaluator.h>
#include <ir/tensor_view.h>
#include <runtime/kernel_args.h>
#include <tensor/layout.h>

#include <span>

namespace nvfuser {

// The layout of an argument as the TensorView sees it: packed fp4 arguments count bytes, fp4
// TensorViews values.
TensorLayout layoutOfArgument(const TensorView* tv, const ArgView& arg);

// Binds the extents of a fusion's tensor inputs, and its scalar inputs. Error: an extent that is
// bound differently by two inputs. The arguments must have passed checkInputs.
void bindInputs(std::span<Val* const> inputs, std::span<const ArgView> args,
                ScalarEvaluator& evaluator);

} // namespace nvfuser
