// SPDX-License-Identifier: BSD-3-Clause
// Lookups and scatters that move no data between rows, as operations that say so. A gather whose
// index has the table's other dimensions is a take_along_axis, whose loops are those of both. A
// scatter of one element into each row is a selection of that element and of what the row has:
// where(iota == index, src, self), which is computed with what comes before and after it. What src
// computes of a lookup at the same index is computed of that element itself.
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ops/creation.h>
#include <ops/elementwise.h>
#include <ops/indexing.h>
#include <ops/shape.h>
#include <preseg_passes/rewriter.h>

namespace nvfuser {

namespace {

class LookupSimplifier : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    TensorView* by = nullptr;
    switch (e->kind()) {
      case ExprKind::GatherOp:
        by = alongAxis(e->as<GatherOp>());
        break;
      case ExprKind::SqueezeOp:
        by = squeezeOf(e->as<SqueezeOp>());
        break;
      case ExprKind::ScatterOp:
        by = selectionOf(e->as<ScatterOp>());
        break;
      default:
        break;
    }
    if (by != nullptr) {
      replace(e->output(0)->as<TensorView>(), by);
    }
  }

  static TensorView* alongAxis(const GatherOp* e) {
    if (e->exact() || !haveSameRows(e->lookup(), e->index(), e->dim())) {
      return nullptr;
    }
    return take_along_axis(e->lookup(), e->index(), e->dim());
  }

  // A gather makes a dimension of size 1 of a broadcast one; what squeezes it away can't tell.
  static TensorView* squeezeOf(const SqueezeOp* e) {
    const Expr* before = e->input(0)->definition();
    if (before == nullptr || before->kind() != ExprKind::GatherOp ||
        !e->isSqueezeDim()[static_cast<size_t>(before->as<GatherOp>()->dim())]) {
      return nullptr;
    }
    TensorView* found = alongAxis(before->as<GatherOp>());
    return found == nullptr ? nullptr : squeeze(found, e->isSqueezeDim());
  }

  // Where the table is no input: one of those is written to in place, or copied by a library.
  static TensorView* selectionOf(const ScatterOp* e) {
    TensorView* table = e->self();
    TensorView* index = e->index();
    const auto dim = static_cast<size_t>(e->dim());
    auto* source = e->src()->isTensor() ? e->src()->as<TensorView>() : nullptr;
    if (table->isFusionInput() || !logicalIds(index)[dim]->isOne() ||
        !haveSameRows(table, index, e->dim()) ||
        (source != nullptr &&
         !(logicalIds(source)[dim]->isOne() && hasOneForEach(source, index, dim)))) {
      return nullptr;
    }
    std::vector<bool> others(logicalIds(table).size(), true);
    others[dim] = false;
    TensorView* position = broadcast(iota(logicalIds(table)[dim]->extent()), others);
    int operations = 0;
    Val* value = castOp(table->dtype(), atIndex(e->src(), e, operations));
    return where(eq(position, index), value, table);
  }

  // Of each row of the index, or the same for all rows.
  static bool hasOneForEach(const TensorView* source, const TensorView* index, size_t dim) {
    const auto of_source = logicalIds(source);
    const auto rows = logicalIds(index);
    bool same = of_source.size() == rows.size();
    for (size_t d = 0; same && d < rows.size(); ++d) {
      const Val* extent = of_source[d]->getMaybeExpandedExtent();
      same = d == dim || haveSameSize(of_source[d], rows[d]) ||
             (of_source[d]->hasExpandedExtent() && extent->sameAs(rows[d]->extent()));
    }
    return same;
  }

  // `v` without the lookups at the scatter's index, as it is where the position is that index.
  static Val* atIndex(Val* v, const ScatterOp* scatter, int& operations) {
    if (const auto* found = tryAs<GatherOp>(v->definition())) {
      const bool is_there = found->exact() && found->dim() == scatter->dim() &&
                            isSameColumn(found->index(), scatter->index()) &&
                            haveSameRows(found->lookup(), scatter->index(), scatter->dim()) &&
                            haveSameSize(logicalIds(found->lookup())[size_t(found->dim())],
                                         logicalIds(scatter->self())[size_t(found->dim())]);
      return is_there ? found->lookup() : v;
    }
    const auto* op = tryAs<ElementwiseOp>(v->definition());
    if (op == nullptr || ++operations > kMostOperations) {
      return v;
    }
    std::vector<Val*> operands;
    for (Val* in : op->inputs()) {
      operands.push_back(atIndex(in, scatter, operations));
    }
    return operands == op->inputs() ? v : elementwiseAsIs(op->op(), v->dtype(), operands);
  }

  static bool isSameColumn(const TensorView* a, const TensorView* b) {
    const auto* of_a = tryAs<BroadcastOp>(a->definition());
    const auto* of_b = tryAs<BroadcastOp>(b->definition());
    return a == b || (of_a != nullptr && of_b != nullptr && of_a->input(0) == of_b->input(0) &&
                      of_a->isBroadcastDim() == of_b->isBroadcastDim());
  }

  // They are computed for each element instead of once for a row.
  static constexpr int kMostOperations = 4;
};

} // namespace

void simplifyLookups(Fusion* fusion) {
  LookupSimplifier(fusion).run();
}

} // namespace nvfuser
