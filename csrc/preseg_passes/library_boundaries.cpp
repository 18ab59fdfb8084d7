// SPDX-License-Identifier: BSD-3-Clause
// See library_boundaries.h.
#include <preseg_passes/library_boundaries.h>

#include <base/error.h>
#include <definition/library_views.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/visitor.h>
#include <preseg_passes/generate_topk.h>

#include <algorithm>
#include <map>

namespace nvfuser {

namespace {

class Cutter {
 public:
  Cutter(Fusion* fusion, const std::unordered_set<const TensorView*>& kept)
      : fusion_(fusion), kept_(kept) {
    for (const LibraryOp* op : generatableTopKs(fusion)) {
      may_be_generated_.insert(op);
    }
  }

  std::vector<LibraryBoundary> run() {
    const std::vector<Expr*> exprs = fusion_->exprs();
    for (const Expr* e : exprs) {
      if (isOfLibrary(e)) {
        findReaders(e);
      }
    }
    for (Expr* e : exprs) {
      for (TensorView* tv : tensorOutputs(e)) {
        if (kept_.count(tv) == 0 && tv->dtype() != DataType::Float4_e2m1fn &&
            logicalIds(tv).size() == tv->getMaybeAllocationDomain().size()) {
          cutAt(tv, isOfLibrary(e));
        }
      }
    }
    return std::move(boundaries_);
  }

 private:
  bool isOfLibrary(const Expr* e) const {
    return e->kind() == ExprKind::LibraryOp && may_be_generated_.count(e) == 0;
  }

  // The views of operands that nothing else needs are evaluated with the operation.
  void findReaders(const Expr* op) {
    of_library_.insert(op);
    for (const TensorView* operand : tensorInputs(op)) {
      const std::vector<Expr*> views = viewsBehind(operand);
      if (!areNeededByOthers(fusion_, views, op)) {
        of_library_.insert(views.begin(), views.end());
      }
    }
  }

  // Readers on the other side see an input.
  void cutAt(TensorView* tv, bool is_of_library) {
    const std::vector<Expr*>& uses = tv->uses();
    std::vector<Expr*> others;
    std::copy_if(uses.begin(), uses.end(), std::back_inserter(others),
                 [&](const Expr* use) { return (of_library_.count(use) != 0) != is_of_library; });
    if (others.empty() || of_library_.count(tv->definition()) != is_of_library) {
      return;
    }
    TensorView* stand_in = sameMemoryAs(tv);
    for (Expr* use : others) {
      Expr* copy = fusion_->replaceExprInput(use, tv, stand_in);
      if (of_library_.erase(use) != 0) {
        of_library_.insert(copy);
      }
    }
    fusion_->addInput(stand_in);
    if (!tv->isFusionOutput()) {
      fusion_->addHiddenOutput(tv);
    }
    boundaries_.push_back({tv, stand_in});
  }

  Fusion* fusion_;
  const std::unordered_set<const TensorView*>& kept_;
  std::unordered_set<const Expr*> may_be_generated_;
  std::unordered_set<const Expr*> of_library_; // operations, and views of their operands
  std::vector<LibraryBoundary> boundaries_;
};

} // namespace

std::vector<LibraryBoundary> cutAtLibraries(Fusion* fusion,
                                            const std::unordered_set<const TensorView*>& kept) {
  const FusionGuard guard(fusion);
  fusion->removeDeadUses();
  return Cutter(fusion, kept).run();
}

void joinAtLibraries(Fusion* fusion, const std::vector<LibraryBoundary>& boundaries,
                     const std::vector<TensorView*>& outputs, const std::vector<OutputPart>& parts,
                     MovedViews& views) {
  const FusionGuard guard(fusion);
  std::map<TensorView*, std::vector<TensorView*>> parts_of; // what nobody makes as a whole
  for (const OutputPart& part : parts) {
    parts_of[part.whole].push_back(part.part);
  }
  std::unordered_set<const TensorView*> between; // stand-ins and views of them
  for (const LibraryBoundary& boundary : boundaries) {
    between.insert(boundary.stand_in);
  }
  std::vector<InputView> of_arguments;
  for (const InputView& view : views.inputs) {
    if (between.count(view.source) == 0) {
      of_arguments.push_back(view);
      continue;
    }
    between.insert(view.view);
    fusion->removeInput(view.view);
    IrBuilder::create<MemoryViewOp>(view.view, view.source, view.starts);
  }
  views.inputs = std::move(of_arguments);
  const std::unordered_set<const TensorView*> kept(outputs.begin(), outputs.end());
  for (const LibraryBoundary& boundary : boundaries) {
    TensorView* made = views.madeFor(boundary.made);
    const auto its_parts = parts_of.find(made);
    NVF_ERROR(made->isFusionOutput() || its_parts != parts_of.end(), "nobody makes ",
              boundary.made->toString());
    if (its_parts != parts_of.end() && tryAs<MemoryJoinOp>(made->definition()) == nullptr) {
      if (made->definition() != nullptr) {
        fusion->removeExpr(made->definition());
      }
      IrBuilder::create<MemoryJoinOp>(made, its_parts->second);
    }
    fusion->removeInput(boundary.stand_in);
    if (made != boundary.made) {
      IrBuilder::create<MemoryViewOp>(boundary.stand_in, made, std::vector<Val*>());
    } else {
      const std::vector<Expr*> uses = boundary.stand_in->uses();
      for (Expr* use : uses) {
        fusion->replaceExprInput(use, boundary.stand_in, made);
      }
    }
  }
  for (const LibraryBoundary& boundary : boundaries) {
    TensorView* made = views.madeFor(boundary.made);
    if (kept.count(made) != 0) {
      continue;
    }
    const auto its_parts = parts_of.find(made);
    const std::vector<TensorView*> written =
        its_parts == parts_of.end() ? std::vector{made} : its_parts->second;
    for (TensorView* tv : written) {
      if (tv->isFusionOutput()) { // two boundaries may be one tensor
        fusion->removeOutput(tv);
        tv->setMemoryType(MemoryType::Local);
      }
    }
  }
}

} // namespace nvfuser
