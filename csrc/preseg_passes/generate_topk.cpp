// SPDX-License-Identifier: BSD-3-Clause
// A library's topk needs its rows in memory, and what is computed of its results needs another
// kernel. Of short rows and for small k it is k maxima, which the kernel takes that makes the rows.
//
// An element and its position are one integer of 64 bits, a *key*, so that each step is a single
// reduction. The high half has the order of the elements, the low half that of the positions,
// backwards: the largest key is the first of the largest elements, and no two keys are equal. The
// next one is the largest of those below it. As a topk has at most as many results as rows have
// elements, there always is one, and what stands for the others, the least integer, is no key.
//
// Floats are ordered by their bits: those of negative ones grow with the magnitude, so all but the
// sign is inverted. NaN comes after infinity, as in torch. 0 is larger than -0, which equals it.
#include <preseg_passes/generate_topk.h>

#include <ir/builder.h>
#include <ir/library_op.h>
#include <ops/creation.h>
#include <ops/elementwise.h>
#include <ops/reduction.h>
#include <ops/shape.h>
#include <ops/utils.h>
#include <transform/cache.h>

#include <algorithm>
#include <limits>

namespace nvfuser {

namespace {

// Each step is a reduction, of which a kernel has at most 16 (segment/kernel_size.cpp): half of
// them are left to what computes the rows. Times: docs/measurements/topk.md.
constexpr int64_t kLargestK = 8;
constexpr int64_t kLastPosition = std::numeric_limits<int32_t>::max();
constexpr int64_t kHighHalf = int64_t{1} << 32;
constexpr int64_t kNoKey = std::numeric_limits<int64_t>::min();

// Types of 64 bits take two reductions a step: they stay in the library, and so do those that it
// refuses.
bool fitsHalfAKey(DataType dtype) {
  return dtype == DataType::Float || dtype == DataType::Half || dtype == DataType::BFloat16 ||
         dtype == DataType::Int32;
}

size_t rowDim(const LibraryOp* topk) {
  return static_cast<size_t>(topk->attributes().front());
}

bool isLargest(const LibraryOp* topk) {
  return topk->attributes()[1] != 0;
}

// Unsorted results come in the order that torch's have.
bool isSorted(const LibraryOp* topk) {
  return topk->attributes()[2] != 0;
}

TensorView* elementInput(const LibraryOp* topk) {
  return topk->input(0)->as<TensorView>();
}

// The library reads a reshaped tensor where it is. Rows that a reshape makes of several dimensions
// would be copied by a kernel of their own first.
bool isReshaped(const TensorView* tv) {
  return tv->definition() != nullptr && tv->definition()->kind() == ExprKind::ReshapeOp;
}

bool canBeGenerated(const LibraryOp* topk) {
  if (topk->op() != LibraryOpType::TopK) {
    return false;
  }
  const std::vector<IterDomain*> dims = logicalIds(elementInput(topk));
  const int64_t k = constInt(topk->input(1)).value_or(0);
  return isSorted(topk) && !dims.empty() && dims[rowDim(topk)]->isIteration() && k >= 1 &&
         k <= kLargestK && fitsHalfAKey(elementInput(topk)->dtype()) &&
         !isReshaped(elementInput(topk));
}

Val* constant(int64_t value, DataType dtype = DataType::Int) {
  return IrBuilder::create<Val>(value, dtype);
}

class TopKMaker {
 public:
  TopKMaker(Fusion* fusion, LibraryOp* topk)
      : fusion_(fusion),
        topk_(topk),
        dim_(rowDim(topk)),
        rank_(logicalIds(elementInput(topk)).size()),
        dtype_(elementInput(topk)->dtype()),
        is_float_(isFloatingPoint(dtype_)) {}

  void make() {
    const std::vector<Val*> results = topk_->outputs();
    TensorView* keys = joined(largest(keysOf(elementInput(topk_))));
    fusion_->removeExpr(topk_);
    makeAs(results.front(), elementsOf(keys));
    if (results.size() > 1) {
      makeAs(results[1], positionsOf(keys));
    }
  }

 private:
  static TensorView* make(OpType op, DataType dtype, const std::vector<Val*>& operands) {
    return elementwiseAsIs(op, dtype, operands)->as<TensorView>();
  }

  static TensorView* converted(TensorView* tv, DataType dtype) {
    return tv->dtype() == dtype ? tv : castOp(dtype, tv);
  }

  // The tensor along the rows' dimension, of size 1 in all others.
  TensorView* alongRows(TensorView* tv) const {
    std::vector<bool> others(rank_, true);
    others[dim_] = false;
    return broadcast(tv, others);
  }

  // Integers of 32 bits in the order of the elements, smallest first where those are wanted. It is
  // its own inverse but for the types.
  static TensorView* inOrder(TensorView* bits) {
    Val* sign = constant(31, DataType::Int32);
    TensorView* is_negative = make(OpType::BitwiseRightShift, DataType::Int32, {bits, sign});
    TensorView* inverted = make(OpType::BitwiseAnd, DataType::Int32,
                                {is_negative, constant(kLastPosition, DataType::Int32)});
    return make(OpType::BitwiseXor, DataType::Int32, {bits, inverted});
  }

  TensorView* keysOf(TensorView* in) const {
    TensorView* order = nullptr;
    if (is_float_) {
      constexpr int64_t kNan = 0x7fc00000;
      TensorView* x = converted(in, DataType::Float);
      TensorView* is_nan = make(OpType::IsNan, DataType::Bool, {x});
      order = make(OpType::Where, DataType::Int32,
                   {is_nan, constant(kNan, DataType::Int32),
                    inOrder(make(OpType::BitCast, DataType::Int32, {x}))});
    } else {
      order = in;
    }
    if (!isLargest(topk_)) {
      order = make(OpType::BitwiseNot, DataType::Int32, {order});
    }
    Val* wide = castOp(DataType::Int, order);
    TensorView* high = make(OpType::Mul, DataType::Int, {wide, constant(kHighHalf)});
    TensorView* low = iota(rowExtent(topk_), constant(kLastPosition), constant(-1));
    return make(OpType::Add, DataType::Int, {high, alongRows(low)});
  }

  // The k largest keys of each row.
  std::vector<TensorView*> largest(TensorView* keys) const {
    const std::vector<int64_t> axes{static_cast<int64_t>(dim_)};
    std::vector<TensorView*> out;
    const int64_t k = constInt(topk_->input(1)).value();
    for (int64_t i = 0; i < k; ++i) {
      TensorView* left = keys;
      if (i > 0) {
        TensorView* is_left = make(OpType::Lt, DataType::Bool, {keys, column(out.back())});
        left = make(OpType::Where, DataType::Int, {is_left, keys, constant(kNoKey)});
      }
      out.push_back(max(left, axes));
    }
    return out;
  }

  // A value for each row, with the rows' dimension again, of size 1. What it meets there differs:
  // the row, or the results. One tensor for both would make one dimension of them in the analyses
  // of schedulers.
  TensorView* column(TensorView* of_rows) const {
    std::vector<bool> along(rank_, false);
    along[dim_] = true;
    return broadcast(of_rows, along);
  }

  // One tensor with a dimension for them.
  TensorView* joined(const std::vector<TensorView*>& keys) const {
    TensorView* out = column(keys.back());
    if (keys.size() == 1) {
      return out;
    }
    TensorView* at = alongRows(iota(constant(static_cast<int64_t>(keys.size()))));
    for (auto i = static_cast<int64_t>(keys.size()) - 2; i >= 0; --i) {
      TensorView* is_at = make(OpType::Eq, DataType::Bool, {at, constant(i)});
      TensorView* key = column(keys[static_cast<size_t>(i)]);
      out = make(OpType::Where, DataType::Int, {is_at, key, out});
    }
    return out;
  }

  TensorView* elementsOf(TensorView* keys) const {
    TensorView* high = make(OpType::BitwiseRightShift, DataType::Int, {keys, constant(32)});
    TensorView* order = castOp(DataType::Int32, high);
    if (!isLargest(topk_)) {
      order = make(OpType::BitwiseNot, DataType::Int32, {order});
    }
    return is_float_ ? converted(make(OpType::BitCast, DataType::Float, {inOrder(order)}), dtype_)
                     : order;
  }

  static TensorView* positionsOf(TensorView* keys) {
    Val* last = constant(kLastPosition);
    TensorView* low = make(OpType::BitwiseAnd, DataType::Int, {keys, last});
    return make(OpType::Sub, DataType::Int, {last, low});
  }

  // Gives a result of the topk the definition of `by`.
  void makeAs(Val* result, TensorView* by) const {
    by->setSourceLocation(result->as<TensorView>()->sourceLocation());
    copyExprWith(fusion_, by->definition(), {{by, result}});
  }

  Fusion* fusion_;
  LibraryOp* topk_;
  const size_t dim_;
  const size_t rank_;
  const DataType dtype_;
  const bool is_float_;
};

} // namespace

std::vector<LibraryOp*> generatableTopKs(const Fusion* fusion) {
  std::vector<LibraryOp*> out;
  for (Expr* e : fusion->exprs()) {
    auto* op = tryAs<LibraryOp>(e);
    if (op != nullptr && canBeGenerated(op)) {
      out.push_back(op);
    }
  }
  return out;
}

Val* rowExtent(const LibraryOp* topk) {
  return logicalIds(elementInput(topk))[rowDim(topk)]->extent();
}

void generateTopK(Fusion* fusion, uint64_t which) {
  const FusionGuard guard(fusion);
  const std::vector<LibraryOp*> topks = generatableTopKs(fusion);
  for (size_t i = 0; i < std::min<size_t>(topks.size(), 64); ++i) {
    if ((which >> i & 1) != 0) {
      TopKMaker(fusion, topks[i]).make();
    }
  }
  fusion->removeDeadUses();
}

} // namespace nvfuser
