// SPDX-License-Identifier: BSD-3-Clause
// See rewriter.h.
#include <preseg_passes/rewriter.h>

#include <ir/builder.h>
#include <ir/evaluator.h>
#include <ir/logical_map.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>
#include <ops/elementwise.h>
#include <ops/utils.h>
#include <transform/cache.h>

#include <algorithm>
#include <cmath>

namespace nvfuser {

void Rewriter::run() {
  const FusionGuard guard(fusion_);
  const std::vector<Expr*> exprs = fusion_->exprs();
  for (Expr* e : exprs) {
    const std::unordered_map<Val*, Val*> changed = changedOperands(e);
    rewrite(changed.empty() ? e : copyExprWith(fusion_, e, changed));
  }
}

namespace {

bool readsAtPositions(const Expr* e) {
  return lookedUpTensor(e) != nullptr || e->kind() == ExprKind::ScatterOp;
}

} // namespace

// What an operation looks up in, where, and what it puts there are read in different ways: they
// stay different tensors, if only by a copy.
std::unordered_map<Val*, Val*> Rewriter::changedOperands(const Expr* e) const {
  std::unordered_map<Val*, Val*> changed;
  std::unordered_map<const Val*, const Val*> operand_for;
  for (Val* in : e->inputs()) {
    if (current(in) == in) {
      operand_for[in] = in;
    }
  }
  for (Val* in : e->inputs()) {
    Val* by = current(in);
    if (by != in && (!readsAtPositions(e) || operand_for.try_emplace(by, in).first->second == in)) {
      changed[in] = by;
    }
  }
  return changed;
}

Val* Rewriter::current(Val* v) const {
  // What took the place of another tensor may have been replaced later.
  for (auto it = replaced_.find(v); it != replaced_.end(); it = replaced_.find(v)) {
    v = it->second;
  }
  return v;
}

bool Rewriter::replace(TensorView* tv, TensorView* by) {
  by = current(by)->as<TensorView>();
  const bool is_single = tv->definition() != nullptr && tv->definition()->outputs().size() == 1;
  if (tv == by || tv->dtype() != by->dtype() || !haveSameDims(tv, by)) {
    return false;
  }
  if (tv->isFusionOutput() ? !is_single : tv->domain()->hasAllocation()) {
    return false;
  }
  if (by->sourceLocation().empty()) {
    by->setSourceLocation(tv->sourceLocation());
  }
  if (!tv->isFusionOutput()) {
    replaced_[tv] = by;
  } else if (!takeOver(tv, by)) {
    fusion_->removeExpr(tv->definition());
    if (tv->hasRoot() || tv->hasReduction()) {
      tv->setDomain(tv->domain()->copyOfKept());
    }
    IrBuilder::create<LoadStoreOp>(LoadStoreOpType::Set, tv, by);
    replaced_[tv] = by;
  }
  return true;
}

// The output is computed as `by` was, and read where that was.
bool Rewriter::takeOver(TensorView* output, TensorView* by) {
  Expr* definition = by->definition();
  if (definition == nullptr || definition->outputs().size() != 1 || by->isFusionOutput() ||
      by->domain()->hasAllocation() ||
      std::any_of(by->uses().begin(), by->uses().end(), readsAtPositions)) {
    return false;
  }
  if (!isByPosition(definition) || definition->kind() == ExprKind::LoadStoreOp ||
      output->hasRoot() || output->hasReduction()) {
    return false;
  }
  // The output's own definition goes, which may read `by`.
  copyExprWith(fusion_, definition, {{by, output}});
  const std::vector<Expr*> uses = by->uses();
  for (Expr* use : uses) {
    copyExprWith(fusion_, use, {{by, output}});
  }
  replaced_[by] = output;
  return true;
}

bool Rewriter::share(Expr* e) {
  const bool is_output = std::any_of(e->outputs().begin(), e->outputs().end(),
                                     [](const Val* v) { return v->isFusionOutput(); });
  if (is_output && (e->outputs().size() > 1 || isPlainCopy(e))) {
    return false;
  }
  const Expr* first = common_.firstLike(e);
  bool is_shared = first != nullptr;
  for (size_t i = 0; is_shared && i < e->outputs().size(); ++i) {
    is_shared = replace(e->output(i)->as<TensorView>(), first->output(i)->as<TensorView>());
  }
  return is_shared;
}

Val* Rewriter::make(OpType op, DataType dtype, const std::vector<Val*>& operands,
                    const TensorView* like) {
  Val* out = elementwiseAsIs(op, dtype, operands);
  if (out->isTensor()) {
    out->as<TensorView>()->setSourceLocation(like->sourceLocation());
    rewrite(out->definition());
  }
  return current(out);
}

void ElementwiseRewriter::rewrite(Expr* e) {
  const auto* op = tryAs<ElementwiseOp>(e);
  if (op == nullptr || !op->out()->isTensor()) {
    return;
  }
  out_ = op->out()->as<TensorView>();
  TensorView* const out = out_;
  if (TensorView* by = simpler(op)) {
    replace(out, by);
  }
}

TensorView* ElementwiseRewriter::made(OpType op, const std::vector<Val*>& operands) {
  TensorView* const of = out_;
  auto* result = make(op, of->dtype(), operands, of)->as<TensorView>();
  out_ = of;
  return result;
}

const ElementwiseOp* definedBy(const Val* v, OpType op) {
  if (!v->isTensor() || v->definition() == nullptr ||
      v->definition()->kind() != ExprKind::ElementwiseOp) {
    return nullptr;
  }
  const auto* e = static_cast<const ElementwiseOp*>(v->definition());
  return e->op() == op ? e : nullptr;
}

std::optional<double> realConstant(const Val* v) {
  if (!v->isScalar() || !v->isConst()) {
    return std::nullopt;
  }
  if (const auto* d = std::get_if<double>(&v->value())) {
    return *d;
  }
  if (const auto* i = std::get_if<int64_t>(&v->value())) {
    return static_cast<double>(*i);
  }
  return std::nullopt;
}

std::optional<WithConstant> splitConstant(const ElementwiseOp* op) {
  for (const size_t i : {1, 0}) {
    if (const auto c = realConstant(op->in(i)); c.has_value() && op->in(1 - i)->isTensor()) {
      return WithConstant{*c, op->in(1 - i)};
    }
  }
  return std::nullopt;
}

std::optional<std::vector<int64_t>> knownSizes(const TensorView* tv) {
  std::vector<int64_t> sizes;
  for (const IterDomain* id : logicalIds(tv)) {
    const auto extent = constInt(id->getMaybeExpandedExtent());
    if (!extent.has_value()) {
      return std::nullopt;
    }
    sizes.push_back(*extent);
  }
  return sizes;
}

std::optional<int64_t> knownElements(const Val* tensor) {
  int64_t elements = 1;
  for (const IterDomain* id : logicalIds(tensor)) {
    const auto extent = constInt(id->extent());
    if (!extent.has_value()) {
      return std::nullopt;
    }
    elements *= *extent;
  }
  return elements;
}

std::vector<std::vector<size_t>> piecesOf(const std::vector<IterDomain*>& dims,
                                          const std::vector<IterDomain*>& pieces) {
  std::vector<std::vector<size_t>> out;
  size_t next = 0;
  for (const IterDomain* id : dims) {
    out.emplace_back();
    if (next < pieces.size() && pieces[next]->extent()->sameAs(id->extent())) {
      out.back().push_back(next++);
      continue;
    }
    const auto whole = constInt(id->extent());
    int64_t product = 1;
    while (whole.has_value() && product < *whole && next < pieces.size()) {
      product *= constInt(pieces[next]->extent()).value_or(*whole + 1);
      out.back().push_back(next++);
    }
    if (product != whole) {
      return {};
    }
  }
  return next == pieces.size() ? out : std::vector<std::vector<size_t>>{};
}

std::optional<int> exponentOf(double x) {
  int exponent = 0;
  const bool is_power = std::abs(std::frexp(x, &exponent)) == 0.5;
  return is_power ? std::optional(exponent - 1) : std::nullopt;
}

bool holdsAll(DataType of, DataType in) {
  if (of == in || isBoolean(of)) {
    return of == in || (isFloatingPoint(in) || isIntegral(in));
  }
  switch (of) {
    case DataType::Half:
    case DataType::BFloat16:
    case DataType::Float8_e4m3fn:
    case DataType::Float8_e5m2:
      return in == DataType::Float || in == DataType::Double;
    case DataType::Float:
      return in == DataType::Double;
    case DataType::Int32:
      return in == DataType::Int || in == DataType::Index || in == DataType::Double;
    default:
      return false;
  }
}

bool haveSameSize(const IterDomain* a, const IterDomain* b) {
  return a->iterType() == b->iterType() &&
         a->getMaybeExpandedExtent()->sameAs(b->getMaybeExpandedExtent());
}

bool haveSameRows(const TensorView* a, const TensorView* b, int64_t dim) {
  const auto of_a = logicalIds(a);
  const auto of_b = logicalIds(b);
  bool same = of_a.size() == of_b.size();
  for (size_t d = 0; same && d < of_a.size(); ++d) {
    same = static_cast<int64_t>(d) == dim || haveSameSize(of_a[d], of_b[d]);
  }
  return same;
}

void computeAs(TensorView* tv, TensorView* other) {
  if (tv->hasRoot()) { // it was permuted
    tv->setDomain(tv->domain()->copyOfKept());
  }
  copyExprWith(tv->fusion(), other->definition(), {{other, tv}});
}

void computeInstead(ReductionOp* reduction, OpType op, const std::vector<Val*>& operands) {
  TensorView* out = reduction->out();
  out->fusion()->removeExpr(reduction);
  out->setDomain(out->domain()->copyOfKept());
  IrBuilder::create<ElementwiseOp>(op, out, operands);
}

bool isPlainCopy(const Expr* e) {
  if (e->kind() != ExprKind::LoadStoreOp) {
    return false;
  }
  const auto* copy = static_cast<const LoadStoreOp*>(e);
  return copy->type() == LoadStoreOpType::Set && copy->cacheOp() == CacheOp::Unspecified &&
         copy->out()->isTensor() && !copy->out()->as<TensorView>()->hasRoot();
}

std::vector<int64_t> permutationOf(const Expr* e) {
  const auto* copy = tryAs<LoadStoreOp>(e);
  const auto* out = copy == nullptr ? nullptr : tryAs<TensorView>(copy->out());
  if (out == nullptr || !out->hasRoot() || copy->type() != LoadStoreOpType::Set) {
    return {};
  }
  const auto& root = out->getRootDomain();
  std::vector<int64_t> order;
  for (IterDomain* id : out->getLogicalDomain()) {
    const auto it = std::find(root.begin(), root.end(), id);
    if (it == root.end()) {
      return {};
    }
    order.push_back(it - root.begin());
  }
  return order;
}

bool haveSameDims(const TensorView* a, const TensorView* b) {
  const auto of_a = logicalIds(a);
  const auto of_b = logicalIds(b);
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                    [](const IterDomain* x, const IterDomain* y) {
                      return x->iterType() == y->iterType() &&
                             x->hasExpandedExtent() == y->hasExpandedExtent();
                    });
}

TensorView* stackedAt(const CatOp* cat, int64_t position) {
  const auto count = static_cast<int64_t>(cat->inputs().size());
  if (position < 0 || position >= count) {
    return nullptr;
  }
  const auto* pad = tryAs<PadOp>(cat->input(static_cast<size_t>(position))->definition());
  if (pad == nullptr) {
    return nullptr;
  }
  auto* part = pad->in()->as<TensorView>();
  const auto ids = logicalIds(part);
  const auto has_width = [](const Val* v, int64_t width) {
    return v->isConstInt() && v->intValue() == width;
  };
  for (size_t d = 0; d < ids.size(); ++d) {
    const bool is_stacked = static_cast<int64_t>(d) == cat->dim();
    if (!has_width(pad->left()[d], is_stacked ? position : 0) ||
        !has_width(pad->right()[d], is_stacked ? count - 1 - position : 0) ||
        (is_stacked && (!ids[d]->isBroadcast() || ids[d]->hasExpandedExtent()))) {
      return nullptr;
    }
  }
  return part;
}

Val* constantOf(double value, DataType dtype) {
  return IrBuilder::create<Val>(convertScalar(ScalarValue(value), dtype), dtype);
}

bool Unsigned::holds(const Val* v) const {
  if (const auto c = realConstant(v)) {
    return !std::signbit(*c);
  }
  return known_.count(v) != 0;
}

void Unsigned::visit(const Expr* e) {
  switch (e->kind()) {
    case ExprKind::ElementwiseOp:
      if (!holdsFor(static_cast<const ElementwiseOp*>(e))) {
        return;
      }
      break;
    case ExprKind::ReductionOp: {
      // Of nothing: 0 and 1; the least and greatest number of others.
      const OpType op = static_cast<const ReductionOp*>(e)->op();
      if ((op != OpType::Add && op != OpType::Mul) || !holds(e->input(0))) {
        return;
      }
      break;
    }
    case ExprKind::WelfordOp:
      known_.insert(e->output(1)); // squared deviations
      return;
    default:
      if (!(movesElements(e) || e->kind() == ExprKind::FullOp) || !holds(e->input(0))) {
        return;
      }
  }
  known_.insert(e->output(0));
}

bool Unsigned::holdsFor(const ElementwiseOp* op) const {
  const auto all = [&] {
    return std::all_of(op->inputs().begin(), op->inputs().end(),
                       [&](const Val* in) { return holds(in); });
  };
  if (!isFloatingPoint(op->out()->dtype())) {
    return false;
  }
  switch (op->op()) {
    case OpType::Abs:
    case OpType::Exp:
    case OpType::Exp2:
    case OpType::Sech2:
    case OpType::Sigmoid:
      return true;
    case OpType::Mul:
      return op->in(0) == op->in(1) || all();
    case OpType::Add:
    case OpType::Div:
    case OpType::TrueDiv:
    case OpType::Sqrt:
    case OpType::Rsqrt:
    case OpType::Reciprocal:
    case OpType::Maximum:
    case OpType::Minimum:
      return all();
    case OpType::Where:
      return holds(op->in(1)) && holds(op->in(2));
    case OpType::Cast:
      return isBoolean(op->in(0)->dtype()) || holds(op->in(0));
    case OpType::Pow:
      return holds(op->in(0));
    default:
      return false;
  }
}

} // namespace nvfuser
