// See greedy.h.
#include <scheduler/greedy.h>

#include <base/error.h>
#include <id_model/id_model.h>
#include <ir/builder.h>
#include <ir/visitor.h>
#include <transform/inlining.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

constexpr int64_t kThreads = 128;

bool isLineOp(const Expr* e) {
  return e->kind() == ExprKind::ScanOp || e->kind() == ExprKind::ScatterOp;
}

int64_t lineDim(const Expr* e) {
  return e->kind() == ExprKind::ScanOp ? e->as<ScanOp>()->dim() : e->as<ScatterOp>()->dim();
}

// What the first scan or scatter demands of everything else.
class LineAnalysis {
 public:
  explicit LineAnalysis(Fusion* fusion)
      : fusion_(fusion), graph_(buildGraph(fusion, IdMappingMode::Permissive)) {
    for (Expr* e : fusion->exprs()) {
      if (isLineOp(e)) {
        first_ = e;
        break;
      }
    }
  }

  const Expr* first() const {
    return first_;
  }
  int64_t dim() const {
    return lineDim(first_);
  }

  // Empty if the expression can be computed in the loops of the first one.
  std::string whyNot(const Expr* e) const {
    for (const Val* v : linesOf(e)) {
      if (v->isTensor() && !hasSameLoops(v->as<TensorView>())) {
        return v->toString() + " has other dimensions than " + first_->output(0)->toString();
      }
    }
    switch (e->kind()) {
      case ExprKind::ElementwiseOp:
        return "";
      case ExprKind::LoadStoreOp: {
        const bool plain = static_cast<const LoadStoreOp*>(e)->type() == LoadStoreOpType::Set &&
                           !e->output(0)->as<TensorView>()->hasRoot();
        return plain ? "" : e->opName() + " is not elementwise";
      }
      case ExprKind::ScanOp:
        return lineDim(e) == dim() ? "" : "scans go along different dimensions";
      case ExprKind::ScatterOp:
        return lineDim(e) == dim() ? whyNotScatter(e->as<ScatterOp>())
                                   : "scatters go along different dimensions";
      default:
        return e->opName() + " is not elementwise";
    }
  }

  // Tensors that must be in memory, but are computed here, or must be written whole before they are
  // read.
  std::vector<TensorView*> misplaced(const Expr* e) const {
    std::vector<TensorView*> out;
    if (const auto* scatter = dynamic_cast<const ScatterOp*>(e)) {
      for (Val* v : {scatter->input(1), scatter->src()}) {
        if (v->isTensor() && !v->isFusionInput()) {
          out.push_back(v->as<TensorView>());
        }
      }
      if (!fusion_->liveUses(scatter->out()).empty()) {
        out.push_back(scatter->out());
      }
    }
    return out;
  }

 private:
  // Operands and results that have the loops of the expression.
  static std::vector<Val*> linesOf(const Expr* e) {
    std::vector<Val*> out = e->outputs();
    if (e->kind() == ExprKind::ScatterOp) {
      out.push_back(e->input(0));
    } else {
      out.insert(out.end(), e->inputs().begin(), e->inputs().end());
    }
    return out;
  }

  bool hasSameLoops(const TensorView* tv) const {
    const auto& wanted = first_->output(0)->as<TensorView>()->getLogicalDomain();
    const auto ids = TensorDomain::noReductions(tv->getLogicalDomain());
    if (ids.size() != wanted.size()) {
      return false;
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!ids[i]->isBroadcast() && !graph_.same(ids[i], wanted[i])) {
        return false;
      }
    }
    return true;
  }

  std::string whyNotScatter(const ScatterOp* scatter) const {
    const std::vector<TensorView*> tensors = misplaced(scatter);
    return tensors.empty() ? "" : tensors.front()->toString() + " must be in memory for a scatter";
  }

  Fusion* fusion_;
  IdGraph graph_;
  const Expr* first_ = nullptr;
};

} // namespace

bool hasLineOps(const Fusion* fusion) {
  const auto& exprs = fusion->exprs();
  return std::any_of(exprs.begin(), exprs.end(), isLineOp);
}

std::vector<TensorView*> greedyConflicts(Fusion* fusion) {
  const LineAnalysis lines(fusion);
  std::vector<TensorView*> out;
  auto add = [&](TensorView* tv) {
    if (tv->definition() != nullptr && !tv->isFusionInput() &&
        std::find(out.begin(), out.end(), tv) == out.end()) {
      out.push_back(tv);
    }
  };
  std::unordered_set<const Expr*> fitting;
  for (const Expr* e : fusion->exprs()) {
    if (lines.whyNot(e).empty()) {
      fitting.insert(e);
    }
  }
  for (const Expr* e : fusion->exprs()) {
    for (TensorView* tv : lines.misplaced(e)) {
      add(tv);
    }
    for (TensorView* in : tensorInputs(e)) {
      if (in->definition() != nullptr && fitting.count(e) != fitting.count(in->definition())) {
        add(in);
      }
    }
  }
  return out;
}

std::string GreedyScheduler::whyNot(Fusion* fusion) const {
  if (!hasLineOps(fusion)) {
    return "there is no scan or scatter";
  }
  const LineAnalysis lines(fusion);
  for (const Expr* e : fusion->exprs()) {
    if (std::string why = lines.whyNot(e); !why.empty()) {
      return why;
    }
  }
  return "";
}

std::unique_ptr<HeuristicParams> GreedyScheduler::computeHeuristics(Fusion*, SchedulerRuntimeInfo&,
                                                                    HeuristicCache*) const {
  return std::make_unique<HeuristicParams>(SchedulerType::Greedy);
}

void GreedyScheduler::schedule(Fusion* fusion, const HeuristicParams&) const {
  FusionGuard guard(fusion);
  const std::string why = whyNot(fusion);
  NVF_CHECK(why.empty(), "The greedy scheduler cannot take this fusion: ", why);
  const int64_t dim = LineAnalysis(fusion).dim();
  // Outputs that are read here as well are written from a register.
  const std::vector<Val*> outputs = fusion->outputs();
  std::unordered_set<Val*> done;
  for (Val* v : outputs) {
    auto* tv = v->as<TensorView>();
    if (!tv->isFusionInput() && done.insert(tv).second && !fusion->liveUses(tv).empty()) {
      tv->cacheFork();
    }
  }
  for (TensorView* tv : TensorGraph(fusion).tensors()) {
    if (tv->isFusionInput()) {
      continue;
    }
    tv->reorder(std::unordered_map<int64_t, int64_t>{{dim, -1}});
    if (tv->nDims() > 1) {
      tv->flatten(0, tv->nDims() - 2);
      tv->split(0, kThreads);
      tv->axis(0)->parallelize(ParallelType::BIDx);
      tv->axis(1)->parallelize(ParallelType::TIDx);
    }
  }
  inlineMost();
}

} // namespace nvfuser
