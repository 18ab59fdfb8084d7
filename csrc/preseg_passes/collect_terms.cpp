// SPDX-License-Identifier: BSD-3-Clause
// What is summed of products with factors that are the same for a whole row has one factor for each
// term, which is computed once for the row:
//
//   (g * w - a - (x - m) * r * b) * r   ->   (g * w) * r + (x - m) * (-r * b * r) + (-a * r)
//
// where r, a and b are broadcasts of what reductions gave, as in the backward passes of
// normalizations: two operations for each element, whichever way the gradient was spelled. That is
// done where it leaves fewer operations, of at least two terms that differ along long rows. Then a
// rounding of the difference of terms becomes one of each term; what is subtracted was rounded as
// the result of a reduction, so that the error keeps its order of magnitude.
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ops/elementwise.h>
#include <ops/shape.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace nvfuser {

namespace {

// What a term is multiplied by: values of a row before their broadcast, and scalars.
struct Factor {
  std::vector<TensorView*> of_row = {};
  std::vector<Val*> scalars = {};
  bool is_negative = false;

  bool isOne() const {
    return of_row.empty() && scalars.empty();
  }
};

struct Term {
  TensorView* tv = nullptr;
  Factor factor;
};

// Operations on elements. A product that is added to something takes none of its own.
struct Operations {
  int sums = 0;
  int products = 0;
  int fused = 0;

  int count() const {
    return sums + products - fused;
  }
};

class TermCollector {
 public:
  explicit TermCollector(Fusion* fusion) : fusion_(fusion), exprs_(fusion->exprs()) {
    for (const Expr* e : exprs_) {
      if (isReduction(e) || std::ranges::any_of(e->inputs(), [&](const Val* v) {
            return reduced_.count(v) != 0;
          })) {
        reduced_.insert(e->outputs().begin(), e->outputs().end());
      }
    }
  }

  // Consumers first: what is part of a larger sum is collected there.
  void run() {
    for (size_t i = exprs_.size(); i-- > 0;) {
      const auto* op = tryAs<ElementwiseOp>(exprs_[i]);
      if (op != nullptr && op->out()->isTensor() && isStep(op) && isRead(op->out())) {
        collect(op->out()->as<TensorView>());
      }
    }
  }

 private:
  using Flags = std::vector<bool>;

  bool isRead(const Val* v) const {
    return v->isFusionOutput() || !fusion_->liveUses(v).empty();
  }
  bool isReadOnce(const Val* v) const {
    return !v->isFusionOutput() && fusion_->liveUses(v).size() == 1;
  }

  static bool isStep(const ElementwiseOp* op) {
    const DataType type = op->out()->dtype();
    if (type != DataType::Float && type != DataType::Double) {
      return false;
    }
    switch (op->op()) {
      case OpType::Add:
      case OpType::Sub:
      case OpType::Mul:
      case OpType::Neg:
        return true;
      default:
        return false;
    }
  }

  // The sum that the tensor is, if it is more than one operation on this way.
  const ElementwiseOp* stepBehind(const TensorView* tv) const {
    const auto* op = tryAs<ElementwiseOp>(tv->definition());
    const bool is_inside = tv == root_ || isReadOnce(tv);
    return op != nullptr && is_inside && isStep(op) && op->out()->dtype() == root_->dtype() ? op
                                                                                            : nullptr;
  }

  static const BroadcastOp* broadcastOf(const Val* v) {
    return tryAs<BroadcastOp>(v->definition());
  }
  bool isOfRow(const Val* v) const {
    const BroadcastOp* op = broadcastOf(v);
    return op != nullptr && op->isBroadcastDim() == flags_ && v->dtype() == root_->dtype();
  }
  static TensorView* beforeBroadcast(const Val* v) {
    return broadcastOf(v)->input(0)->as<TensorView>();
  }

  void collect(TensorView* root) {
    root_ = root;
    flags_.clear();
    steps_ = 0;
    findFlags(root);
    before_ = {};
    terms_.clear();
    constants_.clear();
    steps_ = 0;
    if (flags_.empty() || !hasLongRows() || !addTerms(root, {}) || terms_.size() < 2 ||
        !areDifferent()) {
      return;
    }
    if (operationsAfter().count() < before_.count()) {
      computeAs(root, sumOfTerms());
    }
  }

  // What is computed once for each takes little. A row of unknown length is one.
  bool hasLongRows() const {
    constexpr int64_t kShort = 32; // elements
    const auto dims = logicalIds(root_);
    int64_t elements = 1;
    for (size_t d = 0; d < dims.size(); ++d) {
      const Val* extent = dims[d]->getMaybeExpandedExtent();
      if (flags_[d] && !extent->isConstInt()) {
        return true;
      }
      elements *= flags_[d] ? extent->intValue() : 1;
    }
    return elements >= kShort;
  }

  // Which dimensions the row's values are broadcast along: those of results of reductions.
  void findFlags(const TensorView* tv) {
    const ElementwiseOp* op = stepBehind(tv);
    if (op == nullptr || ++steps_ > kMostSteps) {
      return;
    }
    for (const Val* in : op->inputs()) {
      const BroadcastOp* spread = in->isTensor() ? broadcastOf(in) : nullptr;
      if (spread != nullptr && flags_.empty() && reduced_.count(in) != 0) {
        flags_ = spread->isBroadcastDim();
      } else if (in->isTensor() && spread == nullptr) {
        findFlags(in->as<TensorView>());
      }
    }
  }

  bool addTerms(TensorView* tv, Factor factor) {
    const ElementwiseOp* op = stepBehind(tv);
    if (isOfRow(tv)) {
      factor.of_row.push_back(beforeBroadcast(tv));
      constants_.push_back(std::move(factor));
      return reduced_.count(tv) != 0;
    }
    if (op == nullptr || (op->op() == OpType::Mul && !scales(op))) {
      before_.products += isOwnProduct(tv) ? 1 : 0;
      terms_.push_back({tv, std::move(factor)});
      return true;
    }
    if (++steps_ > kMostSteps || !areOfType(op)) {
      return false;
    }
    if (op->op() == OpType::Neg) {
      factor.is_negative = !factor.is_negative;
      return addTerms(op->in(0)->as<TensorView>(), std::move(factor));
    }
    if (op->op() == OpType::Mul) {
      ++before_.products;
      const size_t by = isFactor(op->in(0)) ? 0 : 1;
      if (op->in(by)->isTensor()) {
        factor.of_row.push_back(beforeBroadcast(op->in(by)));
      } else {
        factor.scalars.push_back(op->in(by));
      }
      return addTerms(op->in(1 - by)->as<TensorView>(), std::move(factor));
    }
    ++before_.sums;
    before_.fused += isOwnProduct(op->in(0)) || isOwnProduct(op->in(1)) ? 1 : 0;
    Factor second = factor;
    second.is_negative = factor.is_negative != (op->op() == OpType::Sub);
    return addTerms(op->in(0)->as<TensorView>(), std::move(factor)) &&
           addTerms(op->in(1)->as<TensorView>(), std::move(second));
  }

  bool isFactor(const Val* v) const {
    return !v->isTensor() || isOfRow(v);
  }
  bool scales(const ElementwiseOp* op) const {
    return isFactor(op->in(0)) != isFactor(op->in(1));
  }
  // Sums have tensors alone; what scales them may be a scalar.
  static bool areOfType(const ElementwiseOp* op) {
    const bool takes_scalars = op->op() == OpType::Mul;
    return std::ranges::all_of(op->inputs(), [&](const Val* in) {
      return in->isTensor() ? in->dtype() == op->out()->dtype() : takes_scalars;
    });
  }
  // That an addition computes on the way.
  bool isOwnProduct(const Val* v) const {
    return definedBy(v, OpType::Mul) != nullptr && isReadOnce(v);
  }

  bool areDifferent() const {
    std::unordered_set<const TensorView*> seen;
    return std::ranges::all_of(terms_, [&](const Term& term) {
      return seen.insert(term.tv).second && term.factor.scalars.size() <= 2;
    });
  }

  // In the order in which they are added: first the row's own, then the others by their factors.
  Operations operationsAfter() const {
    Operations out;
    bool is_first = constants_.empty();
    for (const Term& term : terms_) {
      const bool is_own = isOwnProduct(term.tv);
      const bool is_scaled = !term.factor.isOne();
      out.products += (is_own ? 1 : 0) + (is_scaled ? 1 : 0);
      out.sums += is_first ? 0 : 1;
      out.fused += !is_first && (is_scaled || is_own) ? 1 : 0;
      is_first = false;
    }
    return out;
  }

  static Val* made(OpType op, Val* a, Val* b) {
    return elementwiseAsIs(op, a->dtype(), {a, b});
  }

  // Of the row, without its sign.
  TensorView* product(const Factor& factor) const {
    Val* out = factor.of_row.front();
    for (size_t i = 1; i < factor.of_row.size(); ++i) {
      out = made(OpType::Mul, out, factor.of_row[i]);
    }
    for (Val* scalar : factor.scalars) {
      out = made(OpType::Mul, out, scalar);
    }
    return out->as<TensorView>();
  }

  Val* scaled(const Term& term) const {
    Val* out = term.tv;
    if (term.factor.of_row.empty()) {
      for (Val* scalar : term.factor.scalars) {
        out = made(OpType::Mul, out, scalar);
      }
      return out;
    }
    return made(OpType::Mul, out, broadcast(product(term.factor), flags_));
  }

  TensorView* sumOfTerms() const {
    Val* sum = nullptr;
    for (const Factor& constant : constants_) {
      Val* own = product(constant);
      if (sum == nullptr) {
        sum = constant.is_negative ? elementwiseAsIs(OpType::Neg, own->dtype(), {own}) : own;
      } else {
        sum = made(constant.is_negative ? OpType::Sub : OpType::Add, sum, own);
      }
    }
    sum = sum == nullptr ? nullptr : broadcast(sum->as<TensorView>(), flags_);
    for (const Term& term : terms_) {
      Val* own = scaled(term);
      if (sum == nullptr) {
        sum = term.factor.is_negative ? elementwiseAsIs(OpType::Neg, own->dtype(), {own}) : own;
      } else {
        sum = made(term.factor.is_negative ? OpType::Sub : OpType::Add, sum, own);
      }
    }
    return sum->as<TensorView>();
  }

  static constexpr int kMostSteps = 24; // operations that are one sum

  Fusion* fusion_;
  const std::vector<Expr*> exprs_;
  std::unordered_set<const Val*> reduced_; // depends on reductions
  // Of the sum that is collected.
  TensorView* root_ = nullptr;
  Flags flags_;
  int steps_ = 0;
  Operations before_;
  std::vector<Term> terms_;
  std::vector<Factor> constants_; // the same for all of the row
};

} // namespace

void collectTerms(Fusion* fusion) {
  const FusionGuard guard(fusion);
  fusion->removeDeadUses();
  TermCollector(fusion).run();
  fusion->removeDeadUses();
}

} // namespace nvfuser
