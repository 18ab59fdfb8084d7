// SPDX-License-Identifier: BSD-3-Clause
// A reshape that merges or splits whole dimensions carries no work, but a kernel that reduces rows
// takes none: [n, c, h, w] seen as rows of a group [n, g, c / g * h * w], normalized, and seen as
// [n, c, h, w] again. With a dimension for each factor [n, g, c / g, h, w] the reshapes are gone:
// the row is several dimensions. A factor of an input's dimension has a stride as any dimension
// has, and an output is dense either way, so that views at both ends take no kernel.
#include <preseg_passes/passes.h>

#include <id_model/id_model.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <ops/elementwise.h>
#include <ops/shape_internal.h>
#include <preseg_passes/axis_factors.h>
#include <preseg_passes/meet_reductions.h>
#include <transform/cache.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace nvfuser {

namespace {

using Ids = TensorDomain::Ids;

// Slices of inputs that meet reductions, whose kernels read a tensor in one way: a part of a tensor
// has strides as the whole has.
class SliceMover {
 public:
  SliceMover(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
             const IdGraph& sizes, MovedViews& moved)
      : fusion_(fusion), kept_(kept), sizes_(sizes), moved_(moved) {}

  void run() {
    const auto wanted = meetReductions(fusion_);
    const std::vector<Expr*> exprs = fusion_->exprs();
    for (Expr* e : exprs) {
      if (e->kind() != ExprKind::SliceOp) {
        continue;
      }
      auto* source = e->input(0)->as<TensorView>();
      auto* part = e->output(0)->as<TensorView>();
      if (source->isFusionInput() && !source->isCpuScalar() && kept_.count(source) == 0 &&
          source->dtype() != DataType::Float4_e2m1fn && wanted.count(part) != 0 &&
          !part->isFusionOutput() && isInside(part)) {
        view(source, part, static_cast<const SliceOp*>(e)->starts());
      }
    }
  }

 private:
  // For certain; and all dimensions are what they look like.
  bool isInside(const TensorView* part) const {
    const auto* slice = static_cast<const SliceOp*>(part->definition());
    const auto cuts = [](const Val* v) { return v->isConst() && v->intValue() <= 0; };
    const Ids sliced = logicalIds(slice->input(0));
    const auto& logical = part->getLogicalDomain();
    for (size_t d = 0; d < logical.size(); ++d) {
      const IterDomain* id = logical[d];
      const auto* resize = tryAs<Resize>(id->definition());
      const bool is_inside = resize == nullptr || (cuts(resize->left()) && cuts(resize->right())) ||
                             isBetweenEnds(slice->starts()[d], slice->stops()[d], sliced[d]);
      if (id->hasExpandedExtent() || id->isSymbolicType() || id->isReduction() || !is_inside) {
        return false;
      }
    }
    return true;
  }

  // Of the dimension, or of one that has the same size.
  bool isBetweenEnds(const Val* start, const Val* stop, const IterDomain* id) const {
    const auto fits = [&](const IterDomain* of) {
      return ops_utils::isNormalizedRange(start, stop, of->extent());
    };
    if (fits(id) || !sizes_.contains(id)) {
      return fits(id);
    }
    const std::vector<IterDomain*>& same = sizes_.members(sizes_.group(id));
    return std::any_of(same.begin(), same.end(), fits);
  }

  void view(TensorView* source, TensorView* part, const std::vector<Val*>& starts) {
    const Ids dims = logicalIds(source);
    const Ids& memory = source->getMaybeAllocationDomain();
    Ids logical;
    std::unordered_map<const IterDomain*, IterDomain*> of;
    std::unordered_set<const IterDomain*> cut;
    for (size_t i = 0; i < dims.size(); ++i) {
      const IterDomain* id = part->getLogicalDomain()[i];
      logical.push_back(IterDomainBuilder(id).isRfactor(false).build());
      of[dims[i]] = logical.back();
      if (id->definition() != nullptr) {
        cut.insert(dims[i]);
      }
    }
    Ids allocation;
    for (const IterDomain* id : memory) {
      allocation.push_back(of.at(id));
    }
    // What lies around a dimension that is cut has gaps. Contiguity looks past dimensions of
    // size 1.
    TensorDomain::Contiguity contiguity = source->getContiguity();
    bool has_gaps = false;
    for (size_t i = memory.size(); i-- > 0;) {
      const Val* extent = allocation[i]->extent();
      if (allocation[i]->isBroadcast()) {
        contiguity.at(i) = std::nullopt;
      } else if (has_gaps && contiguity.at(i).has_value()) {
        contiguity.at(i) = false;
        has_gaps = !extent->isConstInt() || extent->intValue() == 1;
      }
      has_gaps |= cut.count(memory[i]) != 0;
    }
    TensorView* input = tensorInMemory(logical, allocation, contiguity, source->dtype());
    input->setSourceLocation(part->sourceLocation());
    fusion_->addInput(input);
    const std::vector<Expr*> uses = part->uses();
    for (Expr* use : uses) {
      fusion_->replaceExprInput(use, part, input);
    }
    moved_.inputs.push_back({input, source, starts});
  }

  Fusion* fusion_;
  const std::unordered_set<const TensorView*>& kept_;
  const IdGraph& sizes_;
  MovedViews& moved_;
};

// Slices and pads of what depends on reductions, of which no other reduction is made: they take a
// kernel whose input is in memory, so that it has their dimensions whatever it was made with. A
// gradient of a cat that was normalized in groups is sliced where no group begins; gradients of the
// scales and shifts of channels are padded to be parts of one projection's.
std::unordered_set<const Expr*> partsAtEnds(const Fusion* fusion) {
  const std::vector<Expr*>& exprs = fusion->exprs();
  std::unordered_set<const TensorView*> reduced; // depends on reductions
  for (const Expr* e : exprs) {
    const auto ins = tensorInputs(e);
    if (isReduction(e) ||
        std::any_of(ins.begin(), ins.end(), [&](auto* in) { return reduced.count(in) != 0; })) {
      const auto outs = tensorOutputs(e);
      reduced.insert(outs.begin(), outs.end());
    }
  }
  std::unordered_set<const TensorView*> needed; // by reductions
  std::unordered_set<const Expr*> out;
  for (size_t i = exprs.size(); i-- > 0;) {
    const Expr* e = exprs[i];
    const auto outs = tensorOutputs(e);
    const auto ins = tensorInputs(e);
    if (isReduction(e) ||
        std::any_of(outs.begin(), outs.end(), [&](auto* tv) { return needed.count(tv) != 0; })) {
      needed.insert(ins.begin(), ins.end());
    } else if ((e->kind() == ExprKind::SliceOp || e->kind() == ExprKind::PadOp) &&
               reduced.count(ins.front()) != 0) {
      out.insert(e);
    }
  }
  return out;
}

class ViewMover {
 public:
  ViewMover(Fusion* fusion, const std::unordered_set<const TensorView*>& kept, MovedViews& moved)
      : fusion_(fusion),
        kept_(kept),
        ends_(partsAtEnds(fusion)),
        factors_(fusion, kept, ends_),
        moved_(moved) {
    reshapes_.insert(factors_.solved().begin(), factors_.solved().end());
  }

  void run() {
    if (reshapes_.empty()) {
      return;
    }
    const std::vector<Expr*> exprs = fusion_->exprs();
    const std::vector<Val*> inputs = fusion_->inputs();
    for (Val* v : inputs) {
      if (v->isTensor() && isSplit(v->as<TensorView>())) {
        viewInput(v->as<TensorView>());
      }
    }
    for (Expr* e : exprs) {
      rewrite(e);
    }
    const std::vector<Val*> outputs = fusion_->outputs();
    for (Val* v : outputs) {
      if (instead_.count(v) == 0) {
        made_.insert(v);
      }
    }
    for (Val* v : outputs) {
      if (instead_.count(v) != 0 && v->isFusionOutput()) {
        replaceOutput(v->as<TensorView>());
      }
    }
    fusion_->removeDeadUses();
  }

 private:
  bool isSplit(const TensorView* tv) const {
    const auto& logical = tv->getLogicalDomain();
    return std::any_of(logical.begin(), logical.end(),
                       [&](const IterDomain* id) { return factors_.isSplit(id); });
  }

  Val* insteadOf(Val* v) const {
    auto it = instead_.find(v);
    return it == instead_.end() ? v : it->second;
  }

  Ids factorsOf(const IterDomain* id) const {
    const std::vector<Val*> extents = factors_.factorsOf(id);
    if (extents.size() == 1) {
      return {IterDomainBuilder(id).parallelType(ParallelType::Serial).build()};
    }
    Ids out;
    for (Val* extent : extents) {
      out.push_back(IterDomainBuilder(id->isBroadcast() ? id->extent() : extent)
                        .iterType(id->iterType())
                        .build());
    }
    return out;
  }

  struct Factored {
    Ids logical;
    std::unordered_map<const IterDomain*, Ids> of; // by the dimension of the tensor
  };

  Factored factored(const Ids& ids) const {
    Factored out;
    for (const IterDomain* id : ids) {
      Ids factors = factorsOf(id);
      out.logical.insert(out.logical.end(), factors.begin(), factors.end());
      out.of.emplace(id, std::move(factors));
    }
    return out;
  }

  static Ids inOrder(const Factored& dims, const Ids& order) {
    Ids out;
    for (const IterDomain* id : order) {
      const Ids& factors = dims.of.at(id);
      out.insert(out.end(), factors.begin(), factors.end());
    }
    return out;
  }

  TensorView* newTensor(TensorView* like, TensorDomain* domain) const {
    auto* out = IrBuilder::create<TensorView>(domain, like->dtype());
    out->setSourceLocation(like->sourceLocation());
    return out;
  }

  // The same memory: within a dimension the factors are contiguous to each other.
  void viewInput(TensorView* source) {
    const Factored dims = factored(source->getLogicalDomain());
    const Ids& memory = source->getMaybeAllocationDomain();
    TensorDomain::Contiguity contiguity;
    for (size_t i = 0; i < memory.size(); ++i) {
      const Ids& factors = dims.of.at(memory[i]);
      contiguity.insert(contiguity.end(), factors.size() - 1,
                        memory[i]->isBroadcast() ? std::optional<bool>() : true);
      contiguity.push_back(source->getContiguity().at(i));
    }
    TensorView* view =
        tensorInMemory(dims.logical, inOrder(dims, memory), contiguity, source->dtype());
    view->setSourceLocation(source->sourceLocation());
    fusion_->addInput(view);
    instead_[source] = view;
    moved_.inputs.push_back({view, source, {}});
  }

  // With the dimensions that it had.
  TensorView* merged(TensorView* tv) {
    TensorView*& out = merged_[tv];
    if (out != nullptr) {
      return out;
    }
    TensorView* in = insteadOf(tv)->as<TensorView>();
    Ids root;
    for (const IterDomain* id : logicalIds(in)) {
      root.push_back(
          IterDomainBuilder(id).isRfactor(false).parallelType(ParallelType::Serial).build());
    }
    Ids logical;
    std::vector<Val*> extents;
    size_t next = 0;
    for (const IterDomain* id : logicalIds(tv)) {
      IterDomain* whole = root.at(next++);
      for (size_t i = factors_.factorsOf(id).size(); i > 1; --i) {
        whole = IterDomain::merge(whole, root.at(next++), /*is_rfactor=*/true);
      }
      logical.push_back(whole);
      extents.push_back(whole->extent());
    }
    auto* domain = IrBuilder::create<TensorDomain>(
        root, logical, logical, TensorDomain::contiguityFilledWith(logical, true));
    out = newTensor(tv, domain);
    IrBuilder::create<ReshapeOp>(out, in, std::move(extents));
    return out;
  }

  void rewrite(Expr* e) {
    if (ends_.count(e) != 0 && isSplit(e->input(0)->as<TensorView>())) {
      copyExprWith(fusion_, e, {{e->input(0), merged(e->input(0)->as<TensorView>())}});
      return;
    }
    if (reshapes_.count(e) != 0) {
      instead_[e->output(0)] = insteadOf(e->input(0));
      return;
    }
    if ((e->kind() == ExprKind::SliceOp || e->kind() == ExprKind::PadOp) &&
        isSplit(e->output(0)->as<TensorView>())) {
      instead_[e->output(0)] = partWithFactors(e);
      return;
    }
    std::unordered_map<Val*, Val*> replaced;
    for (Val* in : e->inputs()) {
      if (Val* other = insteadOf(in); other != in) {
        replaced[in] = other;
      }
    }
    for (TensorView* out : tensorOutputs(e)) {
      if (isSplit(out)) {
        replaced[out] = instead_[out] = likeWithFactors(out);
      }
    }
    if (!replaced.empty() && !rewriteDims(e, replaced)) {
      copyExprWith(fusion_, e, replaced);
    }
  }

  // A slice or a pad, which changes dimensions that are factors themselves.
  TensorView* partWithFactors(const Expr* e) const {
    const auto* slice = tryAs<SliceOp>(e);
    const auto* pad = tryAs<PadOp>(e);
    auto* in = insteadOf(e->input(0))->as<TensorView>();
    const auto* out = e->output(0)->as<TensorView>();
    const Ids dims = logicalIds(out);
    const Ids before = logicalIds(e->input(0));
    const Ids factors = logicalIds(in);
    std::vector<Val*> first;
    std::vector<Val*> second;
    std::vector<Val*> sizes;
    ops_utils::DecidedTypes types;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (tryAs<Resize>(dims[d]->definition()) != nullptr || before[d]->hasExpandedExtent()) {
        first.push_back(slice != nullptr ? slice->starts()[d] : pad->left()[d]);
        second.push_back(slice != nullptr ? slice->stops()[d] : pad->right()[d]);
        sizes.push_back(dims[d]->getMaybeExpandedExtent());
        types.emplace_back(dims[d]->iterType());
        continue;
      }
      for (size_t i = factors_.factorsOf(dims[d]).size(); i > 0; --i) { // all of each
        Val* extent = factors.at(sizes.size())->getMaybeExpandedExtent();
        first.push_back(fusion_->zeroVal());
        second.push_back(slice != nullptr ? extent : fusion_->zeroVal());
        sizes.push_back(extent);
        types.emplace_back(std::nullopt);
      }
    }
    TensorView* made = slice != nullptr
                           ? ops_utils::sliceTo(in, first, second, types, sizes)
                           : ops_utils::padBy(in, first, second, pad->value(), types, sizes);
    made->setSourceLocation(out->sourceLocation());
    return made;
  }

  TensorView* likeWithFactors(TensorView* tv) const {
    const Factored dims = factored(tv->getMaybeRootDomain());
    const Ids logical = tv->hasRoot() ? inOrder(dims, tv->getLogicalDomain()) : dims.logical;
    auto* domain =
        IrBuilder::create<TensorDomain>(tv->hasRoot() ? dims.logical : Ids{}, logical, logical,
                                        TensorDomain::contiguityFilledWith(logical, true));
    if (tv->domain()->hasAllocation()) {
      domain->setAllocationDomain(inOrder(dims, tv->getAllocationDomain()),
                                  TensorDomain::contiguityFilledWith(logical, true));
    }
    return newTensor(tv, domain);
  }

  // Operations that say something of each dimension.
  bool rewriteDims(const Expr* e, const std::unordered_map<Val*, Val*>& replaced) {
    const auto now = [&](Val* v) {
      auto it = replaced.find(v);
      return it == replaced.end() ? v : it->second;
    };
    Val* out = now(e->output(0));
    switch (e->kind()) {
      case ExprKind::BroadcastOp:
        IrBuilder::create<BroadcastOp>(
            out, now(e->input(0)),
            flagsOfFactors(e->output(0), static_cast<const BroadcastOp*>(e)->isBroadcastDim()));
        return true;
      case ExprKind::SqueezeOp: {
        const auto* op = static_cast<const SqueezeOp*>(e);
        IrBuilder::create<SqueezeOp>(out, now(e->input(0)),
                                     flagsOfFactors(e->input(0), op->isSqueezeDim()),
                                     op->squeezeExpanded());
        return true;
      }
      case ExprKind::ExpandOp: {
        std::vector<Val*> shape;
        for (const IterDomain* id : out->as<TensorView>()->getLogicalDomain()) {
          shape.push_back(id->getMaybeExpandedExtent());
        }
        IrBuilder::create<ExpandOp>(out, now(e->input(0)), std::move(shape));
        return true;
      }
      case ExprKind::GatherOp:
        IrBuilder::create<GatherOp>(out->as<TensorView>(), now(e->input(0))->as<TensorView>(),
                                    now(e->input(1))->as<TensorView>(),
                                    firstFactor(e->output(0), lookedUpDim(e)),
                                    static_cast<const GatherOp*>(e)->exact());
        return true;
      case ExprKind::IndexSelectOp:
      case ExprKind::EmbeddingFwdOp:
        IrBuilder::create<IndexSelectOp>(out->as<TensorView>(), now(e->input(0))->as<TensorView>(),
                                         now(e->input(1))->as<TensorView>(),
                                         firstFactor(e->input(0), lookedUpDim(e)));
        return true;
      case ExprKind::CatOp: {
        const auto* cat = static_cast<const CatOp*>(e);
        std::vector<Val*> inputs;
        std::ranges::transform(e->inputs(), std::back_inserter(inputs), now);
        IrBuilder::create<CatOp>(out, inputs, firstFactor(e->output(0), cat->dim()), cat->ends());
        return true;
      }
      case ExprKind::ScanOp: {
        const auto* scan = static_cast<const ScanOp*>(e);
        IrBuilder::create<ScanOp>(scan->op(), scan->init(), firstFactor(e->output(0), scan->dim()),
                                  out->as<TensorView>(), now(e->input(0))->as<TensorView>());
        return true;
      }
      default:
        return false;
    }
  }

  // The position of a dimension's first factor among those of all.
  int64_t firstFactor(const Val* tv, int64_t dim) const {
    const Ids dims = logicalIds(tv);
    size_t first = 0;
    for (size_t i = 0; i < static_cast<size_t>(dim); ++i) {
      first += factors_.factorsOf(dims[i]).size();
    }
    return static_cast<int64_t>(first);
  }

  std::vector<bool> flagsOfFactors(const Val* tv, const std::vector<bool>& flags) const {
    const Ids dims = logicalIds(tv);
    std::vector<bool> out;
    for (size_t i = 0; i < flags.size(); ++i) {
      out.insert(out.end(), factors_.factorsOf(dims[i]).size(), flags[i]);
    }
    return out;
  }

  // The made tensor takes the order in memory of the returned one, whatever it has of another that
  // it is made for.
  void replaceOutput(TensorView* returned) {
    auto* made = instead_.at(returned)->as<TensorView>();
    const bool is_reordered =
        returned->domain()->hasAllocation() || made->domain()->hasAllocation();
    if (!is_reordered && made->isFusionOutput() && made_.count(made) != 0 &&
        kept_.count(made) == 0) {
      fusion_->removeOutput(returned); // both are the same memory
      returned->setMemoryType(MemoryType::Local);
      moved_.makeInstead(returned, made);
      return;
    }
    if (made->isFusionInput() || (is_reordered && made->hasReduction()) ||
        !made_.insert(made).second) {
      made = set(made);
      made->setSourceLocation(returned->sourceLocation());
      made_.insert(made);
    }
    const Ids logical = logicalIds(made);
    // Dimensions of the made tensor by those of the returned one: factors in the same order.
    std::unordered_map<const IterDomain*, Ids> of;
    size_t next = 0;
    for (const IterDomain* id : logicalIds(returned)) {
      const size_t count = factors_.factorsOf(id).size();
      for (size_t i = 0; i < count; ++i) {
        of[id].push_back(logical.at(next++));
      }
    }
    made->setMemoryType(MemoryType::Global);
    fusion_->replaceOutput(returned, made);
    returned->setMemoryType(MemoryType::Local);
    if (is_reordered) {
      Ids memory;
      for (const IterDomain* id :
           TensorDomain::noReductions(returned->getMaybeAllocationDomain())) {
        memory.insert(memory.end(), of.at(id).begin(), of.at(id).end());
      }
      made->setAllocationDomain(memory, true);
    }
    moved_.makeInstead(returned, made);
  }

  Fusion* fusion_;
  const std::unordered_set<const TensorView*>& kept_;
  const std::unordered_set<const Expr*> ends_;
  const AxisFactors factors_;
  std::unordered_set<const Expr*> reshapes_;
  std::unordered_map<const Val*, Val*> instead_;
  std::unordered_set<const Val*> made_; // outputs
  std::unordered_map<const TensorView*, TensorView*> merged_;
  MovedViews& moved_;
};

// Each needs time that grows with the definition.
constexpr int kMostRounds = 4;

} // namespace

void moveViewsToEnds(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                     MovedViews& moved, PassLog* log) {
  FusionGuard guard(fusion);
  const auto pass = [&](const char* name, const std::function<void()>& step) {
    log == nullptr ? step() : (*log)(name, step);
  };
  const auto slice = [&] {
    // What is sliced has the size of what it goes together with, until the slices move.
    const IdGraph sizes = buildDimensionGraph(fusion, IdMappingMode::Exact);
    pass("slice inputs", [&] { sliceInputs(fusion); });
    pass("move slices", [&] { SliceMover(fusion, kept, sizes, moved).run(); });
  };
  const auto has_slices = [&] { return fusion->hasExpr(ExprKind::SliceOp); };
  // What was sliced is an input that a reshape may read, which is then a view that a slice reads.
  size_t known = 0;
  int rounds = 0;
  do {
    known = moved.inputs.size();
    if (has_slices()) {
      slice();
    }
    pass("move views to the ends", [&] { ViewMover(fusion, kept, moved).run(); });
  } while (moved.inputs.size() != known && has_slices() && ++rounds < kMostRounds);
}

} // namespace nvfuser
