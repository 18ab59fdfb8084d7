// SPDX-License-Identifier: BSD-3-Clause
// See library_op.h.
#include <ir/library_op.h>

#include <base/error.h>
#include <ir/tensor_view.h>

namespace nvfuser {

LibraryOp::LibraryOp(IrBuilderPasskey key, LibraryOpType op,
                     const std::vector<TensorView*>& outputs, const std::vector<Val*>& operands,
                     std::vector<int64_t> attributes)
    : ExprBase(key), op_(op), attributes_(std::move(attributes)) {
  const LibraryOpInfo& row = info();
  NVF_ERROR(operands.size() == row.operands.size(), row.name, ": operand count");
  NVF_ERROR(attributes_.size() == row.attributes.size(), row.name, ": attribute count");
  NVF_ERROR(!outputs.empty() && outputs.size() <= row.results.size(), row.name, ": result count");
  for (TensorView* tv : outputs) {
    addOutput(tv);
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    present_.push_back(operands[i] != nullptr);
    if (operands[i] != nullptr) {
      addInput(operands[i]);
    } else {
      NVF_ERROR(row.operands[i].isOptional(), row.name, ": ", row.operands[i].name, " is missing");
    }
  }
}

std::vector<Val*> LibraryOp::operands() const {
  std::vector<Val*> out;
  size_t next = 0;
  for (const bool present : present_) {
    out.push_back(present ? input(next++) : nullptr);
  }
  return out;
}

bool LibraryOp::isSwizzled(size_t result) const {
  switch (op_) {
    case LibraryOpType::NvBlockQuantize:
      return result == 1 && attributes_.front() != 0;
    case LibraryOpType::NvGroupedBlockQuantize:
      return result == 1;
    case LibraryOpType::PreprocessGroupedMatmulInputSf:
      return true;
    default:
      return false;
  }
}

LibraryDims LibraryOp::dims() const {
  return libraryDims(op_, operandRanks(operands()), attributes_);
}

std::vector<int64_t> operandRanks(const std::vector<Val*>& operands) {
  std::vector<int64_t> ranks;
  for (const Val* v : operands) {
    const bool is_tensor = v != nullptr && v->isTensor();
    ranks.push_back(is_tensor ? static_cast<int64_t>(logicalIds(v).size()) : -1);
  }
  return ranks;
}

} // namespace nvfuser
