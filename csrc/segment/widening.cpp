// See widening.h.
#include <segment/widening.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/visitor.h>
#include <transform/cache.h>

#include <algorithm>
#include <map>
#include <utility>

namespace nvfuser {

bool isWideningCast(const Expr* e) {
  const auto* op = dynamic_cast<const ElementwiseOp*>(e);
  return op != nullptr && op->op() == OpType::Cast && op->in(0)->isTensor() &&
         dataTypeSizeBits(op->in(0)->dtype()) < dataTypeSizeBits(op->out()->dtype());
}

void separateWideningCasts(Fusion* fusion) {
  fusion->removeDeadUses();
  const std::vector<Expr*> exprs = fusion->exprs();
  for (const Expr* cast : exprs) {
    if (!isWideningCast(cast)) {
      continue;
    }
    auto* tv = cast->output(0)->as<TensorView>();
    const std::vector<Expr*> uses = tv->uses();
    for (size_t i = tv->isFusionOutput() ? 0 : 1; i < uses.size(); ++i) {
      copyExprWith(fusion, uses[i], {{tv, recompute(tv, cast->inputs())}});
    }
  }
}

namespace {

int64_t concreteDims(const TensorView* tv) {
  const auto logical = TensorDomain::noReductions(tv->getLogicalDomain());
  return std::count_if(logical.begin(), logical.end(),
                       [](const IterDomain* id) { return !id->isBroadcast(); });
}

} // namespace

InputBits::InputBits(const std::vector<Expr*>& exprs) {
  for (const Expr* e : exprs) {
    if (const std::optional<Cost> cost = costOf(e)) {
      known_[e->output(0)->as<TensorView>()] = *cost;
    }
  }
}

std::optional<InputBits::Cost> InputBits::costOf(const TensorView* tv) const {
  const bool of_library =
      tv->definition() != nullptr && tv->definition()->kind() == ExprKind::LibraryOp;
  if (tv->isFusionInput() || of_library) {
    return Cost{dataTypeSizeBits(tv->dtype()), 0};
  }
  auto it = known_.find(tv);
  return it == known_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<InputBits::Cost> InputBits::costOf(const Expr* e) const {
  constexpr int64_t kMostOps = 16;
  switch (e->kind()) {
    case ExprKind::ElementwiseOp:
    case ExprKind::BroadcastOp:
    case ExprKind::ExpandOp:
    case ExprKind::SqueezeOp:
      break;
    case ExprKind::LoadStoreOp:
      if (static_cast<const LoadStoreOp*>(e)->type() == LoadStoreOpType::Set) {
        break;
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
  if (!e->output(0)->isTensor()) {
    return std::nullopt;
  }
  const int64_t dims = concreteDims(e->output(0)->as<TensorView>());
  Cost sum{0, 1};
  for (const TensorView* in : tensorInputs(e)) {
    if (concreteDims(in) < dims) {
      continue;
    }
    const std::optional<Cost> cost = costOf(in);
    if (!cost.has_value()) {
      return std::nullopt;
    }
    sum.bits += cost->bits;
    sum.ops += cost->ops;
  }
  return sum.ops > kMostOps ? std::nullopt : std::optional(sum);
}

bool InputBits::areFewFor(const Expr* e, bool or_as_many) const {
  if (!e->output(0)->isTensor()) {
    return false;
  }
  const auto* out = e->output(0)->as<TensorView>();
  auto it = known_.find(out);
  const int64_t allowed = 2 * dataTypeSizeBits(out->dtype()) + (or_as_many ? 1 : 0);
  return it != known_.end() && it->second.bits < allowed;
}

namespace {

// Levels: how many reductions lie, one after the other, between the inputs and a tensor. Copies are
// met by no level but the one that they were made for, and never copied themselves.
class LevelRepeater {
 public:
  explicit LevelRepeater(Fusion* fusion)
      : fusion_(fusion), exprs_(fusion->exprs()), bits_(exprs_) {}

  void run() {
    for (Expr* e : exprs_) {
      int level = 0;
      for (const TensorView* in : tensorInputs(e)) {
        level = std::max(level, levelOf(in));
      }
      for (const TensorView* out : tensorOutputs(e)) {
        levels_[out] = level + (isReduction(e) ? 1 : 0);
      }
      std::unordered_map<Val*, Val*> replaced;
      for (TensorView* in : tensorInputs(e)) {
        if (TensorView* copy = copyAt(in, level); copy != in) {
          replaced[in] = copy;
        }
      }
      if (!replaced.empty()) {
        copyExprWith(fusion_, e, replaced);
      }
    }
  }

 private:
  int levelOf(const TensorView* tv) const {
    auto it = levels_.find(tv);
    return it == levels_.end() ? 0 : it->second;
  }

  TensorView* copyAt(TensorView* tv, int level) {
    if (levelOf(tv) == level || tv->definition() == nullptr || !bits_.areFewFor(tv->definition())) {
      return tv;
    }
    TensorView*& copy = copies_[{tv, level}];
    if (copy == nullptr) {
      std::vector<Val*> inputs = tv->definition()->inputs();
      for (Val*& in : inputs) {
        if (in->isTensor()) {
          in = copyAt(in->as<TensorView>(), level);
        }
      }
      copy = recompute(tv, inputs);
    }
    return copy;
  }

  Fusion* fusion_;
  const std::vector<Expr*> exprs_;
  const InputBits bits_;
  std::unordered_map<const TensorView*, int> levels_;
  std::map<std::pair<TensorView*, int>, TensorView*> copies_;
};

} // namespace

void repeatAfterReductions(Fusion* fusion) {
  FusionGuard guard(fusion);
  LevelRepeater(fusion).run();
}

} // namespace nvfuser
