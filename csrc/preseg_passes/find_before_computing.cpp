// SPDX-License-Identifier: BSD-3-Clause
// A few positions of a table that is computed for them alone: frontends spell x[rows, columns] as a
// lookup in all elements of x side by side,
//
//   index_select(reshape(f(x, broadcast(row)), {-1}), rows * n + columns)
//       ->    f(index_select(reshape(x, {-1}), at), index_select(row, at / n))
//
// The table would be written whole, as a lookup reads it at any position. Here elementwise
// operations and reshapes that merge dimensions are computed of what is found: in an input of the
// fusion, of which a reshape is a view, and in operands that are broadcast along the merged
// dimensions, which have few elements. (Where no dimensions were merged, see look_up_in_inputs.cpp
// and sink_lookups.cpp.)
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ops/elementwise.h>
#include <ops/indexing.h>
#include <ops/shape.h>
#include <preseg_passes/known_positions.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace nvfuser {

namespace {

// Of so many of the table's elements at most one is looked up.
constexpr int64_t kElementsPerPosition = 4;
constexpr int kMostOperations = 32;

// Neighbouring dimensions that one position counts the elements of.
struct Span {
  size_t first;
  size_t count;
  bool holds(size_t dim) const {
    return dim >= first && dim < first + count;
  }
};

class Finder {
 public:
  explicit Finder(const IndexSelectOp* op)
      : op_(op), span_{static_cast<size_t>(op->dim()), 1}, index_(op->index()) {}

  // What is found, computed of what is found in inputs; null if it can't be, or not for less.
  TensorView* run() {
    TensorView* table = op_->lookup();
    const auto all = knownElements(table);
    const auto wanted = knownElements(op_->output(0)->as<TensorView>());
    const bool fits = all.value_or(0) > 0 && wanted.has_value() &&
                      *wanted * kElementsPerPosition <= *all && knownPositions(index_).empty();
    if (!fits || !canFind(table, span_) || !merges_) {
      return nullptr;
    }
    TensorView* found = find(table, span_);
    return computes_ ? zeroOutside(found, *constInt(logicalIds(table)[span_.first]->extent()))
                     : found;
  }

 private:
  // The dimensions of a reshape's operand that a span of its result is made of.
  static std::optional<Span> beforeMerging(const ReshapeOp* op, const Span& span) {
    const auto made = piecesOf(logicalIds(op->output(0)), logicalIds(op->input(0)));
    Span out{0, 0};
    for (size_t dim = 0; dim < made.size(); ++dim) {
      if (!span.holds(dim) && made[dim].size() != 1) {
        return std::nullopt;
      }
      out.first += dim < span.first ? 1 : 0;
      out.count += span.holds(dim) ? made[dim].size() : 0;
    }
    return made.empty() ? std::nullopt : std::optional(out);
  }

  // One element of the operand is that of all along some dimension of the span.
  static bool isShared(const TensorView* in, const TensorView* tv, const Span& span) {
    for (size_t dim = span.first; dim < span.first + span.count; ++dim) {
      if (logicalIds(in)[dim]->isBroadcast() && !logicalIds(tv)[dim]->isBroadcast()) {
        return true;
      }
    }
    return false;
  }

  static bool isInOneOrder(const TensorView* tv) {
    const auto& contiguity = tv->domain()->contiguity();
    return !tv->domain()->hasAllocation() &&
           std::all_of(contiguity.begin(), contiguity.end(),
                       [](const auto& is_dense) { return is_dense.value_or(true); });
  }

  static bool hasKnownSizes(const TensorView* tv, const Span& span) {
    const auto dims = logicalIds(tv);
    const auto first = dims.begin() + static_cast<std::ptrdiff_t>(span.first);
    return std::all_of(first, first + static_cast<std::ptrdiff_t>(span.count),
                       [](const IterDomain* id) { return constInt(id->extent()).has_value(); });
  }

  bool canFind(const TensorView* tv, const Span& span) {
    if (!hasKnownSizes(tv, span)) {
      return false;
    }
    if (tv->isFusionInput()) {
      return isInOneOrder(tv);
    }
    const Expr* e = tv->definition();
    if (e == nullptr || ++operations_ > kMostOperations) {
      return false;
    }
    if (const auto* op = tryAs<ReshapeOp>(e)) {
      const auto before = beforeMerging(op, span);
      merges_ = merges_ || (before.has_value() && before->count > 1);
      return before.has_value() && canFind(op->input(0)->as<TensorView>(), *before);
    }
    if (e->kind() != ExprKind::ElementwiseOp && !isPlainCopy(e)) {
      return false;
    }
    computes_ = computes_ || !(isPlainCopy(e) || definedBy(tv, OpType::Cast) != nullptr);
    const auto is_plain = [](const IterDomain* id) {
      return !id->isSymbolicType() && !id->hasExpandedExtent();
    };
    return std::all_of(e->inputs().begin(), e->inputs().end(), [&](const Val* v) {
      if (!v->isTensor()) {
        return true;
      }
      const auto* in = v->as<TensorView>();
      const auto in_dims = logicalIds(in);
      return std::all_of(in_dims.begin(), in_dims.end(), is_plain) &&
             (isShared(in, tv, span) ? hasKnownSizes(in, span) : canFind(in, span));
    });
  }

  TensorView* find(TensorView* tv, const Span& span) {
    if (tv->isFusionInput()) {
      return lookUp(tv, span, index_);
    }
    Expr* e = tv->definition();
    if (const auto* op = tryAs<ReshapeOp>(e)) {
      return find(op->input(0)->as<TensorView>(), *beforeMerging(op, span));
    }
    if (isPlainCopy(e)) {
      return find(e->input(0)->as<TensorView>(), span);
    }
    std::vector<Val*> operands;
    for (Val* v : e->inputs()) {
      if (v->isTensor()) {
        auto* in = v->as<TensorView>();
        v = isShared(in, tv, span) ? findShared(in, tv, span) : find(in, span);
      }
      operands.push_back(v);
    }
    return elementwiseAsIs(static_cast<ElementwiseOp*>(e)->op(), tv->dtype(), operands)
        ->as<TensorView>();
  }

  // In a tensor without the dimensions of the span that it is broadcast along: of the position what
  // counts along the others is left.
  TensorView* findShared(TensorView* in, const TensorView* tv, const Span& span) {
    const auto dims = logicalIds(tv);
    const auto in_dims = logicalIds(in);
    std::vector<bool> squeezed(dims.size(), false);
    TensorView* position = nullptr;
    size_t count = 0;
    int64_t behind = 1; // elements along all dimensions behind
    int64_t kept = 1;   // and along those that are kept
    for (size_t end = span.first + span.count; end > span.first;) {
      size_t begin = end; // of neighbours that are kept
      int64_t extent = 1;
      for (; begin > span.first && !in_dims[begin - 1]->isBroadcast(); --begin, ++count) {
        extent *= *constInt(dims[begin - 1]->extent());
      }
      if (begin < end) {
        TensorView* along = scaled(OpType::Div, index_, behind);
        along = begin == span.first ? along : scaled(OpType::Mod, along, extent);
        along = scaled(OpType::Mul, along, kept);
        position = position == nullptr ? along : add(position, along);
        behind *= extent;
        kept *= extent;
        end = begin;
        continue;
      }
      squeezed[--end] = true;
      behind *= *constInt(dims[end]->extent());
    }
    if (count == 0) {
      squeezed[span.first] = false; // one element for all positions
      return squeeze(in, squeezed);
    }
    return lookUp(squeeze(in, squeezed), {span.first, count}, position);
  }

  static TensorView* scaled(OpType op, TensorView* tv, int64_t by) {
    Val* constant = constantOf(static_cast<double>(by), tv->dtype());
    return by == 1 && op != OpType::Mod
               ? tv
               : elementwiseAsIs(op, tv->dtype(), {tv, constant})->as<TensorView>();
  }

  TensorView* lookUp(TensorView* in, const Span& span, TensorView* position) const {
    std::vector<Val*> sizes;
    int64_t merged = 1;
    const auto dims = logicalIds(in);
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      if (span.holds(dim)) {
        merged *= *constInt(dims[dim]->extent());
      }
      if (!span.holds(dim) || dim + 1 == span.first + span.count) {
        sizes.push_back(span.holds(dim) ? IrBuilder::create<Val>(merged) : dims[dim]->extent());
      }
    }
    TensorView* table = span.count == 1 ? in : reshape(in, sizes);
    return index_select(table, position, static_cast<int64_t>(span.first));
  }

  // Of a position outside 0 is found, of which an operation may make something else.
  TensorView* zeroOutside(TensorView* found, int64_t extent) const {
    Val* is_inside =
        logical_and(ge(index_, constantOf(0, index_->dtype())),
                    lt(index_, constantOf(static_cast<double>(extent), index_->dtype())));
    std::vector<bool> is_new(logicalIds(found).size(), true);
    is_new[span_.first] = false;
    auto* inside = broadcast(is_inside->as<TensorView>(), is_new);
    return where(inside, found, constantOf(0, found->dtype()))->as<TensorView>();
  }

  const IndexSelectOp* op_;
  const Span span_; // of the table
  TensorView* index_;
  int operations_ = 0;
  bool merges_ = false;
  bool computes_ = false;
};

class BeforeComputing : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    const auto* op = tryAs<IndexSelectOp>(e);
    if (op == nullptr || logicalIds(op->index()).size() != 1) {
      return;
    }
    if (TensorView* found = Finder(op).run()) {
      replace(op->output(0)->as<TensorView>(), found);
    }
  }
};

} // namespace

void findBeforeComputing(Fusion* fusion) {
  BeforeComputing(fusion).run();
}

} // namespace nvfuser
