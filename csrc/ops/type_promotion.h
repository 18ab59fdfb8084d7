// SPDX-License-Identifier: BSD-3-Clause
// Type promotion: which dtype an elementwise op computes in and which it gives.
#pragma once

#include <ir/nodes.h>

#include <vector>

namespace nvfuser {

// The dtype that both of two operands of equal priority are converted to. Error: they do not mix
// (UInt64 with another integer, the small integer types).
DataType promoteTypes(DataType a, DataType b);

// The common dtype of operands, without any change of precision. Tensors of rank > 0 decide over
// tensors of rank 0, and these over scalars: `higher` ones are only overruled by a wider category.
DataType commonDtype(const std::vector<Val*>& operands);

// What an op with this rule makes of its operands.
struct PromotedTypes {
  // Parallel to the operands: the dtype each is to be converted to.
  std::vector<DataType> operands;
  DataType result = DataType::Null;
};

// `op_name` is for error messages. Not for TypeRule::Cast.
PromotedTypes promoteOperands(TypeRule rule, const char* op_name,
                              const std::vector<Val*>& operands);

// True if a scalar of dtype `from` can stand for one of dtype `to` without a cast: both are floats,
// both are integers, both are complex, or both are bools.
bool sameCategory(DataType from, DataType to);

// False for the pairs that no cast exists for: fp8 and fp4 to anything but Double, Float, Half and
// BFloat16.
bool isLegalCast(DataType from, DataType to);

} // namespace nvfuser
