// SPDX-License-Identifier: BSD-3-Clause
// A lookup reads its table at any position, so that no kernel that computes the table can do it. If
// the table is computed element by element from inputs of the fusion, the lookup goes before: what
// is found there is computed with. take_along_axis(f(x, row), index) becomes
// f(take_along_axis(x, index), row), and the kernel that reduces rows of x also reads the elements
// that are looked up. A table that is permuted is looked up in as it was before, and what is found
// is permuted. Many positions may stand for one element of the table: index_select and
// embeddings repeat nothing but widening casts and copies, unless they find fewer rows than there
// are (the nodes of a batch in a graph), so that no table is written.
//
// sum(where(iota == index, x, 0)) along the iota is such a lookup: one of 32000 elements is read
// rather than all of them compared.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ir/evaluator.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ops/elementwise.h>
#include <ops/indexing.h>
#include <ops/reduction.h>
#include <ops/shape.h>
#include <preseg_passes/input_bits.h>
#include <preseg_passes/marked_element.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace nvfuser {

namespace {

// Rows are found, and fewer than there are by all lookups together, and nothing else needs any.
bool findsFewRows(const Fusion* fusion, const Expr* lookup) {
  const TensorView* table = lookedUpTensor(lookup);
  const std::optional<int64_t> all = knownElements(table);
  if (!all.has_value() || table->isFusionOutput()) {
    return false;
  }
  int64_t found = 0;
  for (const Expr* use : fusion->liveUses(table)) {
    const auto elements = lookedUpTensor(use) == table && findsRows(use)
                              ? knownElements(use->output(0))
                              : std::nullopt;
    if (!elements.has_value()) {
      return false;
    }
    found += *elements;
  }
  return found < *all;
}

class LookupMover {
 public:
  LookupMover(Fusion* fusion, Expr* lookup)
      : fusion_(fusion),
        lookup_(lookup),
        dim_(static_cast<size_t>(lookedUpDim(lookup))),
        selects_(lookup->kind() == ExprKind::IndexSelectOp ||
                 lookup->kind() == ExprKind::EmbeddingFwdOp),
        may_compute_(!selects_ || findsFewRows(fusion, lookup)) {}

  // False if the table is no input, and what is found cannot be computed of what is found in these.
  bool run() {
    TensorView* table = lookedUpTensor(lookup_);
    Order order(logicalIds(table).size());
    std::iota(order.begin(), order.end(), 0);
    as_it_is_ = order;
    if (!reachesInputs(table, order)) {
      return false;
    }
    if (table->isFusionInput()) {
      return true;
    }
    FusionGuard guard(fusion_);
    auto* out = lookup_->output(0)->as<TensorView>();
    const std::vector<Val*> inputs = foundInputs(table->definition(), order);
    Val* inside = computes_ ? isInside(table) : nullptr;
    fusion_->removeExpr(lookup_);
    if (inside == nullptr) {
      compute(table->definition(), out, inputs);
      return true;
    }
    TensorView* value = newTensorLike(out);
    compute(table->definition(), value, inputs);
    Val* zero = IrBuilder::create<Val>(convertScalar(int64_t{0}, out->dtype()), out->dtype());
    IrBuilder::create<ElementwiseOp>(OpType::Where, out, std::vector<Val*>{inside, value, zero});
    return true;
  }

 private:
  // For each dimension of a tensor which of the lookup's table it is: the table may be permuted.
  using Order = std::vector<int64_t>;

  // Of what is permuted.
  static Order orderBefore(const std::vector<int64_t>& permutation, const Order& order) {
    Order out(order.size());
    for (size_t d = 0; d < order.size(); ++d) {
      out[static_cast<size_t>(permutation[d])] = order[d];
    }
    return out;
  }

  // The dimension that is looked up.
  size_t dimIn(const Order& order) const {
    const auto it = std::ranges::find(order, static_cast<int64_t>(dim_));
    return static_cast<size_t>(it - order.begin());
  }

  // Whether all tensors that would be looked up in are inputs of the fusion. (A table is not its
  // own index: the two are indexed in different ways.)
  bool reachesInputs(const TensorView* tv, const Order& order) {
    if (tv->isFusionInput()) {
      return tv != lookup_->input(1);
    }
    const Expr* definition = tv->definition();
    if (definition == nullptr || ++operations_ > kMostOperations) {
      return false;
    }
    if (const std::vector<int64_t> permutation = permutationOf(definition); !permutation.empty()) {
      return keepsDims() &&
             reachesInputs(definition->input(0)->as<TensorView>(), orderBefore(permutation, order));
    }
    if (!mayRepeat(definition)) {
      return false;
    }
    computes_ = computes_ || (!isPlainCopy(definition) && !isWideningCast(definition));
    const auto dims = logicalIds(tv);
    for (const Val* v : definition->inputs()) {
      if (!v->isTensor()) {
        continue;
      }
      const auto* in = v->as<TensorView>();
      if (positionsAlong(in, order) != nullptr || rowToLookUpIn(in, order) != nullptr) {
        continue;
      }
      const auto in_dims = logicalIds(in);
      if (in_dims.size() != dims.size()) {
        return false;
      }
      const bool is_shared = isSharedAlong(in, tv, dimIn(order));
      for (size_t i = 0; i < dims.size(); ++i) {
        const bool same = is_shared || in_dims[i]->isBroadcast() == dims[i]->isBroadcast();
        if (dims[i]->isSymbolicType() || in_dims[i]->isSymbolicType() ||
            in_dims[i]->hasExpandedExtent() || !same) {
          return false;
        }
      }
      if (is_shared ? !keepsDims() : !reachesInputs(in, order)) {
        return false;
      }
    }
    return true;
  }

  // Of a position outside 0 is found, of which an operation may make something else. A scalar, or a
  // tensor with the dimensions of what is found; that of a select counts from the end if negative.
  Val* isInside(const TensorView* table) {
    Val* position = lookup_->input(1);
    if (position->isTensor()) {
      position = castOp(DataType::Int, position->as<TensorView>());
    }
    Val* extent = logicalIds(table)[dim_]->extent();
    const bool from_end = lookup_->kind() == ExprKind::SelectOp;
    Val* first = from_end ? neg(extent) : fusion_->zeroVal();
    Val* inside = logical_and(ge(position, first), lt(position, extent));
    const size_t rank = lookup_->output(0)->as<TensorView>()->getLogicalDomain().size();
    if ((from_end || selects_) && inside->isTensor() && rank > 0) {
      std::vector<bool> is_new(rank, true); // but the dimensions of positions
      const size_t of_positions = selects_ ? logicalIds(position).size() : 0;
      std::fill_n(is_new.begin() + static_cast<std::ptrdiff_t>(dim_), of_positions, false);
      inside = broadcast(inside->as<TensorView>(), is_new);
    }
    return inside;
  }

  bool mayRepeat(const Expr* e) const {
    return isPlainCopy(e) || isWideningCast(e) ||
           (may_compute_ && e->kind() == ExprKind::ElementwiseOp);
  }

  // All positions read the same element of the operand.
  static bool isSharedAlong(const TensorView* in, const TensorView* tv, size_t dim) {
    return logicalIds(in)[dim]->isBroadcast() && !logicalIds(tv)[dim]->isBroadcast();
  }

  // A tensor along the dimension that is the same in all others; null if it is none.
  TensorView* repeatedRow(const TensorView* tv, const Order& order) const {
    const auto* repeated = tryAs<BroadcastOp>(tv->definition());
    if (repeated == nullptr || !keepsDims() || order != as_it_is_) {
      return nullptr;
    }
    const std::vector<bool>& is_new = repeated->isBroadcastDim();
    for (size_t d = 0; d < is_new.size(); ++d) {
      if (is_new[d] == (d == dim_)) {
        return nullptr;
      }
    }
    return repeated->input(0)->as<TensorView>();
  }

  // What is found in numbers is computed of the position. (A row's one element that differs from
  // the others is spelled iota == index.)
  const IotaOp* positionsAlong(const TensorView* tv, const Order& order) const {
    const TensorView* row = repeatedRow(tv, order);
    return row == nullptr ? nullptr : tryAs<IotaOp>(row->definition());
  }

  // One element of it for each row of the table (biases of classes, logits of samples): the
  // positions are an index into that row alone.
  TensorView* rowToLookUpIn(const TensorView* tv, const Order& order) const {
    if (!keepsDims()) {
      return nullptr;
    }
    const auto index = logicalIds(lookup_->input(1));
    const bool is_one_of_each =
        index.size() == 2 && index[dim_]->isOne() && !index[1 - dim_]->isBroadcast();
    return is_one_of_each ? repeatedRow(tv, order) : nullptr;
  }

  // Such an operand goes with what is found as it went with the table.
  bool keepsDims() const {
    const auto* gather = tryAs<GatherOp>(lookup_);
    return gather != nullptr && gather->exact();
  }

  std::vector<Val*> foundInputs(const Expr* definition, const Order& order) {
    if (const std::vector<int64_t> permutation = permutationOf(definition); !permutation.empty()) {
      TensorView* in = definition->input(0)->as<TensorView>();
      return {permute(found(in, orderBefore(permutation, order)), permutation)};
    }
    const auto* tv = definition->output(0)->as<TensorView>();
    std::vector<Val*> out;
    for (Val* v : definition->inputs()) {
      const bool looked_up = v->isTensor() && !isSharedAlong(v->as<TensorView>(), tv, dimIn(order));
      out.push_back(looked_up ? found(v->as<TensorView>(), order) : v);
    }
    return out;
  }

  // What the lookup finds in `table`.
  TensorView* found(TensorView* table, const Order& order) {
    TensorView*& out = found_[{table, order}];
    if (out == nullptr) {
      out = lookUpIn(table, order);
    }
    return out;
  }

  TensorView* lookUpIn(TensorView* table, const Order& order) {
    Val* index = lookup_->input(1); // a tensor where dimensions are kept
    if (const IotaOp* iota = positionsAlong(table, order)) {
      TensorView* position = castOp(table->dtype(), index->as<TensorView>());
      return add(mul(position, iota->step()), iota->start())->as<TensorView>();
    }
    if (TensorView* row = rowToLookUpIn(table, order)) {
      std::vector<bool> is_new(2, false);
      is_new[dim_] = true;
      TensorView* positions = squeeze(index->as<TensorView>(), is_new);
      return broadcast(index_select(row, positions, 0), is_new);
    }
    if (order != as_it_is_ && table->isFusionInput()) {
      return take_along_axis(table, permute(index->as<TensorView>(), order),
                             static_cast<int64_t>(dimIn(order)));
    }
    if (order != as_it_is_) {
      return foundPermuted(table, order);
    }
    auto* like = newTensorLike(lookup_->output(0)->as<TensorView>());
    auto* out = IrBuilder::createIn<TensorView>(fusion_, like->domain(), table->dtype());
    if (table->isFusionInput()) {
      copyExprWith(fusion_, lookup_, {{lookedUpTensor(lookup_), table}, {lookup_->output(0), out}});
    } else {
      compute(table->definition(), out, foundInputs(table->definition(), order));
    }
    return out;
  }

  // Of a table that is computed, with dimensions in that order.
  TensorView* foundPermuted(TensorView* table, const Order& order) {
    const std::vector<Val*> inputs = foundInputs(table->definition(), order);
    const auto* op = tryAs<ElementwiseOp>(table->definition());
    return op == nullptr ? inputs.front()->as<TensorView>()
                         : elementwiseAsIs(op->op(), table->dtype(), inputs)->as<TensorView>();
  }

  void compute(const Expr* definition, TensorView* out, const std::vector<Val*>& inputs) {
    if (const auto* op = tryAs<ElementwiseOp>(definition)) {
      IrBuilder::createIn<ElementwiseOp>(fusion_, op->op(), out, inputs);
    } else {
      IrBuilder::createIn<LoadStoreOp>(fusion_, LoadStoreOpType::Set, out, inputs.front());
    }
  }

  static constexpr int kMostOperations = 32;

  Fusion* fusion_;
  Expr* lookup_;
  const size_t dim_;
  const bool selects_; // one row for each position
  const bool may_compute_;
  int operations_ = 0;
  bool computes_ = false; // more than copies
  Order as_it_is_;
  std::map<std::pair<TensorView*, Order>, TensorView*> found_;
};

// ---- sums of selections

// where(iota == index, table, 0), where the iota counts along a dimension.
struct Selection {
  TensorView* table = nullptr;
  MarkedElement marked;
};

std::optional<Selection> selectionOf(const Val* v) {
  const ElementwiseOp* where = definedBy(v, OpType::Where);
  if (where == nullptr || !where->in(1)->isTensor() || realConstant(where->in(2)) != 0) {
    return std::nullopt;
  }
  auto* table = where->in(1)->as<TensorView>();
  const auto marked = markedElement(where->in(0), table);
  return marked.has_value() ? std::optional(Selection{table, *marked}) : std::nullopt;
}

void lookUp(Fusion* fusion, ReductionOp* sum_op) {
  TensorView* out = sum_op->out();
  const auto selection = selectionOf(sum_op->in());
  if (!selection.has_value() || selection->table->dtype() != out->dtype() || out->hasRoot()) {
    return;
  }
  const auto [index, dim] = selection->marked;
  if (!out->getLogicalDomain()[dim]->isReduction()) {
    return;
  }
  TensorView* found = take_along_axis(selection->table, index, static_cast<int64_t>(dim));
  if (!LookupMover(fusion, found->definition()).run()) {
    fusion->removeExpr(found->definition());
    return;
  }
  std::vector<int64_t> others; // dimensions that are summed as well
  std::vector<bool> squeezed;
  for (size_t i = 0; i < out->getLogicalDomain().size(); ++i) {
    squeezed.push_back(i == dim);
    if (out->getLogicalDomain()[i]->isReduction() && i != dim) {
      others.push_back(static_cast<int64_t>(i < dim ? i : i - 1));
    }
  }
  found = squeeze(found, squeezed);
  // A sum is not -0.
  Val* zero = IrBuilder::create<Val>(convertScalar(int64_t{0}, out->dtype()), out->dtype());
  Val* total = others.empty() ? found : sum(found, others);
  computeInstead(sum_op, OpType::Add, {total, zero});
}

} // namespace

void lookUpSelections(Fusion* fusion) {
  const FusionGuard guard(fusion);
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* e : exprs) {
    auto* op = tryAs<ReductionOp>(e);
    if (op != nullptr && op->op() == OpType::Add) {
      lookUp(fusion, op);
    }
  }
}

void lookUpInInputs(Fusion* fusion) {
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* e : exprs) {
    if (lookedUpTensor(e) != nullptr) {
      LookupMover(fusion, e).run();
    }
  }
}

} // namespace nvfuser
