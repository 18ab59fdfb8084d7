// SPDX-License-Identifier: BSD-3-Clause
// What is summed of products with factors that are the same for a whole row has one factor for each
// term, which is computed once for the row:
//
//   (g * w - a - (x - m) * r * b) * r   ->   (g * w) * r + (x - m) * (-b * (r * r)) + (-a * r)
//
// where r, a and b are broadcasts of what reductions gave, as in the backward passes of
// normalizations: two operations for each element, whichever way the gradient was spelled. A factor
// is the product of what it is made of, in one order, and what all terms share is computed once:
// all spellings give the same. That is done where it leaves fewer operations, of at least two terms
// that differ along long rows. Then a rounding of the difference of terms becomes one of each term;
// what is subtracted was rounded as the result of a reduction, so that the error keeps its order of
// magnitude.
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ops/elementwise.h>
#include <ops/shape.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
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

// A factor taken apart into what is multiplied.
struct Monomial {
  std::vector<TensorView*> early = {}; // depends on no reduction
  std::vector<TensorView*> late = {};
  std::vector<Val*> scalars = {};
  double constant = 1;
  bool is_negative = false;
};

bool isBefore(const TensorView* a, const TensorView* b) {
  return a->name() < b->name();
}

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
  explicit TermCollector(const Fusion* fusion) : exprs_(fusion->exprs()) {
    for (const Expr* e : exprs_) {
      if (isReduction(e) ||
          std::ranges::any_of(e->inputs(), [&](const Val* v) { return reduced_.count(v) != 0; })) {
        reduced_.insert(e->outputs().begin(), e->outputs().end());
      }
      for (const Val* in : std::unordered_set<const Val*>(e->inputs().begin(), e->inputs().end())) {
        ++readers_[in];
      }
    }
  }

  // Consumers first: what is part of a larger sum is collected there.
  void run() {
    for (size_t i = exprs_.size(); i-- > 0;) {
      const auto* op = tryAs<ElementwiseOp>(exprs_[i]);
      if (op != nullptr && op->out()->isTensor() && isStep(op) && replaced_.count(op->out()) == 0) {
        collect(op->out()->as<TensorView>());
      }
    }
  }

 private:
  using Flags = std::vector<bool>;

  bool isReadOnce(const Val* v) const {
    const auto it = readers_.find(v);
    return !v->isFusionOutput() && it != readers_.end() && it->second == 1;
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
    return op != nullptr && is_inside && isStep(op) && op->out()->dtype() == root_->dtype()
               ? op
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
    inside_.clear();
    steps_ = 0;
    if (flags_.empty() || !hasLongRows() || !addTerms(root, {}) || terms_.size() < 2 ||
        !areDifferent()) {
      return;
    }
    if (operationsAfter().count() < before_.count()) {
      computeAs(root, sumOfTerms());
      replaced_.insert(inside_.begin(), inside_.end());
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
    if (tv != root_) {
      inside_.push_back(tv);
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

  void addTo(Monomial& monomial, TensorView* tv) const {
    constexpr size_t kMostFactors = 12;
    const auto* op = tryAs<ElementwiseOp>(tv->definition());
    const bool is_product = op != nullptr && op->op() == OpType::Mul &&
                            monomial.early.size() + monomial.late.size() < kMostFactors;
    if (!(is_product || definedBy(tv, OpType::Neg) != nullptr) || !areOfType(op)) {
      (reduced_.count(tv) != 0 ? monomial.late : monomial.early).push_back(tv);
      return;
    }
    monomial.is_negative = monomial.is_negative != (op->op() == OpType::Neg);
    for (Val* in : op->inputs()) {
      if (in->isTensor()) {
        addTo(monomial, in->as<TensorView>());
      } else {
        addTo(monomial, in);
      }
    }
  }

  static void addTo(Monomial& monomial, Val* scalar) {
    if (const auto constant = realConstant(scalar)) {
      monomial.constant *= *constant;
    } else {
      monomial.scalars.push_back(scalar);
    }
  }

  Monomial takenApart(const Factor& factor) const {
    Monomial out;
    out.is_negative = factor.is_negative;
    for (TensorView* tv : factor.of_row) {
      addTo(out, tv);
    }
    for (Val* scalar : factor.scalars) {
      addTo(out, scalar);
    }
    std::ranges::sort(out.early, isBefore);
    std::ranges::sort(out.late, isBefore);
    return out;
  }

  // Takes what all of them have out of them.
  static std::vector<TensorView*> takeCommon(const std::vector<Monomial*>& monomials) {
    std::vector<TensorView*> common = monomials.front()->early;
    for (const Monomial* each : monomials) {
      std::vector<TensorView*> both;
      std::ranges::set_intersection(common, each->early, std::back_inserter(both), isBefore);
      common = std::move(both);
    }
    for (Monomial* each : monomials) {
      std::vector<TensorView*> rest;
      std::ranges::set_difference(each->early, common, std::back_inserter(rest), isBefore);
      each->early = std::move(rest);
    }
    return common;
  }

  static Val* times(Val* product, Val* factor) {
    return product == nullptr ? factor : made(OpType::Mul, product, factor);
  }

  // Of the row, without its sign. What reductions gave comes first: a sum of gradients by
  // deviations is small where the reciprocal deviation is large, whose third power might overflow.
  static TensorView* product(const Monomial& monomial, Val* common) {
    Val* out = nullptr;
    for (TensorView* tv : monomial.late) {
      out = times(out, tv);
    }
    for (TensorView* tv : monomial.early) {
      out = times(out, tv);
    }
    out = common == nullptr ? out : times(out, common);
    if (monomial.constant != 1) {
      out = made(OpType::Mul, out, constantOf(monomial.constant, out->dtype()));
    }
    return scaled(out, monomial.scalars)->as<TensorView>();
  }

  static Val* scaled(Val* tv, const std::vector<Val*>& scalars) {
    for (Val* scalar : scalars) {
      tv = made(OpType::Mul, tv, scalar);
    }
    return tv;
  }

  static Val* sumWith(Val* sum, Val* term, bool is_negative) {
    if (sum == nullptr) {
      return is_negative ? elementwiseAsIs(OpType::Neg, term->dtype(), {term}) : term;
    }
    return made(is_negative ? OpType::Sub : OpType::Add, sum, term);
  }

  TensorView* sumOfTerms() const {
    std::vector<Monomial> of_constants;
    std::vector<Monomial> of_terms;
    for (const Factor& each : constants_) {
      of_constants.push_back(takenApart(each));
    }
    for (const Term& each : terms_) {
      of_terms.push_back(takenApart(each.factor));
    }
    std::vector<Monomial*> all;
    for (Monomial& each : of_constants) {
      all.push_back(&each);
    }
    for (size_t t = 0; t < terms_.size(); ++t) {
      if (!terms_[t].factor.of_row.empty()) {
        all.push_back(&of_terms[t]);
      }
    }
    Val* common = nullptr;
    if (!all.empty()) {
      for (TensorView* tv : takeCommon(all)) {
        common = times(common, tv);
      }
    }
    Val* sum = nullptr;
    for (const Monomial& each : of_constants) {
      sum = sumWith(sum, product(each, common), each.is_negative);
    }
    sum = sum == nullptr ? nullptr : broadcast(sum->as<TensorView>(), flags_);
    for (size_t t = 0; t < terms_.size(); ++t) {
      const auto& [tv, factor] = terms_[t];
      Val* own = factor.of_row.empty()
                     ? scaled(tv, factor.scalars)
                     : made(OpType::Mul, tv, broadcast(product(of_terms[t], common), flags_));
      sum = sumWith(sum, own, of_terms[t].is_negative);
    }
    return sum->as<TensorView>();
  }

  static constexpr int kMostSteps = 24; // operations that are one sum

  const std::vector<Expr*> exprs_;
  std::unordered_set<const Val*> reduced_; // depends on reductions
  std::unordered_map<const Val*, int> readers_;
  std::unordered_set<const Val*> replaced_; // parts of sums that are computed otherwise now
  // Of the sum that is collected.
  TensorView* root_ = nullptr;
  Flags flags_;
  int steps_ = 0;
  Operations before_;
  std::vector<Term> terms_;
  std::vector<Factor> constants_; // the same for all of the row
  std::vector<const Val*> inside_;
};

} // namespace

void collectTerms(Fusion* fusion) {
  const FusionGuard guard(fusion);
  fusion->removeDeadUses();
  TermCollector(fusion).run();
  fusion->removeDeadUses();
}

} // namespace nvfuser
