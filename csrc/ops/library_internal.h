// SPDX-License-Identifier: BSD-3-Clause
// What the builders of library ops share, and concretization with them: the domains of the results
// follow from those of the operands by the shape rule of the op (ir/library_table.h).
#pragma once

#include <ops/utils.h>

#include <optional>
#include <vector>

namespace nvfuser::ops_utils {

struct LibraryOpParts {
  // A dimension of a result that no operand has.
  struct OwnDim {
    Val* extent;
    std::optional<IterType> type = std::nullopt;
  };
  LibraryOpType op;
  std::vector<Val*> operands; // as in the table; null if left out
  std::vector<int64_t> attributes;
  std::vector<DataType> dtypes; // of the results
  std::vector<OwnDim> own;      // of all results, in order
};

// Error: sizes known now that do not agree.
std::vector<TensorView*> makeLibraryOp(const LibraryOpParts& parts);

// An operand's dimension in which others have the same size. `extent` is as the operand has it.
struct OperandDim {
  const TensorView* tv;
  int64_t dim;
  IterDomain* id;
  bool repeats; // the size may be 1
};
// By number of the dimension (LibraryDims).
std::vector<std::vector<OperandDim>> operandDims(const LibraryDims& dims,
                                                 const std::vector<Val*>& operands);

// Errors that name the op and the operand.
void checkRankAtLeast(const char* op_name, const char* operand, const TensorView* tv,
                      int64_t least);
// Ranks and offsets of grouped_mm.
void checkGroupedOperands(const TensorView* mat1, const TensorView* mat2,
                          const TensorView* offsets);
void checkSameDtype(const char* op_name, const std::vector<TensorView*>& operands);

} // namespace nvfuser::ops_utils
