// SPDX-License-Identifier: BSD-3-Clause
// LibraryOp: an operation that a library evaluates. Which one, and what its operands are, says its
// row of the table (ir/library_table.h).
#pragma once

#include <ir/expr_base.h>
#include <ir/library_table.h>

#include <string>
#include <vector>

namespace nvfuser {

class TensorView;

class LibraryOp : public ExprBase<LibraryOp, ExprKind::LibraryOp> {
 public:
  // `operands` and `attributes` as in the table; operands that are left out are null. `outputs` may
  // be fewer than the table's results.
  LibraryOp(IrBuilderPasskey, LibraryOpType op, const std::vector<TensorView*>& outputs,
            const std::vector<Val*>& operands, std::vector<int64_t> attributes);
  LibraryOpType op() const {
    return op_;
  }
  const LibraryOpInfo& info() const {
    return libraryOpInfo(op_);
  }
  // Null where one is left out.
  std::vector<Val*> operands() const;
  const std::vector<int64_t>& attributes() const {
    return attributes_;
  }
  // Whether the result holds block scales in the 128x4 layout that products of scaled matrices read
  // (swizzled and padded): its elements are not where its sizes and strides say.
  bool isSwizzled(size_t result) const;
  // Which dimensions of the operands (as consumers see them) and results are the same.
  LibraryDims dims() const;

  static constexpr auto fieldList() {
    return std::tuple{Field{"op", &LibraryOp::op_}, Field{"present", &LibraryOp::present_},
                      Field{"attributes", &LibraryOp::attributes_}};
  }
  std::string opName() const override {
    return info().name;
  }
  using ExprBase::ExprBase;

 private:
  LibraryOpType op_{};
  std::vector<bool> present_; // per operand of the table
  std::vector<int64_t> attributes_;
};

// Ranks of operands; -1 for scalars and null.
std::vector<int64_t> operandRanks(const std::vector<Val*>& operands);

} // namespace nvfuser
