// SPDX-License-Identifier: BSD-3-Clause
// See shared_rows.h.
#include <scheduler/shared_rows.h>

#include <ir/builder.h>
#include <ir/visitor.h>
#include <transform/cache.h>

#include <algorithm>
#include <map>

namespace nvfuser {

namespace {

class BroadcastMover {
 public:
  BroadcastMover(Fusion* fusion, const std::function<bool(const TensorView*)>& is_shared_load)
      : fusion_(fusion), is_shared_load_(is_shared_load) {}

  std::unordered_set<const TensorView*> run() {
    const std::vector<Expr*> exprs = fusion_->exprs();
    for (Expr* e : exprs) {
      const auto* broadcast = dynamic_cast<const BroadcastOp*>(e);
      if (broadcast == nullptr || !isComputedOfLoads(e->input(0)->as<TensorView>())) {
        continue;
      }
      auto* out = e->output(0)->as<TensorView>();
      TensorView* moved = versionAlongRows(e->input(0)->as<TensorView>(), *broadcast);
      for (Expr* use : std::vector<Expr*>(out->uses())) {
        copyExprWith(fusion_, use, {{out, moved}});
      }
      if (out->isFusionOutput()) {
        IrBuilder::createIn<LoadStoreOp>(fusion_, LoadStoreOpType::Set, out, moved);
      }
    }
    return broadcasts_;
  }

 private:
  // Element by element of such loads.
  bool isComputedOfLoads(const TensorView* tv) const {
    if (is_shared_load_(tv)) {
      return true;
    }
    const Expr* def = tv->definition();
    const std::vector<TensorView*> inputs =
        def == nullptr ? std::vector<TensorView*>{} : tensorInputs(def);
    return !inputs.empty() && def->kind() == ExprKind::ElementwiseOp &&
           std::all_of(inputs.begin(), inputs.end(),
                       [&](const TensorView* in) { return isComputedOfLoads(in); });
  }

  // Has the dimensions of what `like` makes.
  TensorView* versionAlongRows(TensorView* tv, const BroadcastOp& like) {
    TensorView*& version = versions_[{tv, like.isBroadcastDim()}];
    if (version != nullptr) {
      return version;
    }
    version = newTensorLike(like.output(0)->as<TensorView>(), tv->dtype());
    if (is_shared_load_(tv)) {
      IrBuilder::createIn<BroadcastOp>(fusion_, version, tv, like.isBroadcastDim());
      broadcasts_.insert(version);
      return version;
    }
    std::unordered_map<Val*, Val*> replacements{{tv, version}};
    for (TensorView* in : tensorInputs(tv->definition())) {
      replacements[in] = versionAlongRows(in, like);
    }
    copyExprWith(fusion_, tv->definition(), replacements);
    return version;
  }

  Fusion* fusion_;
  const std::function<bool(const TensorView*)>& is_shared_load_;
  std::map<std::pair<const TensorView*, std::vector<bool>>, TensorView*> versions_;
  std::unordered_set<const TensorView*> broadcasts_;
};

} // namespace

std::unordered_set<const TensorView*> broadcastLoads(
    Fusion* fusion, const std::function<bool(const TensorView*)>& is_shared_load) {
  return BroadcastMover(fusion, is_shared_load).run();
}

} // namespace nvfuser
