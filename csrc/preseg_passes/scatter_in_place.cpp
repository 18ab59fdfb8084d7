// SPDX-License-Identifier: BSD-3-Clause
// A scatter is a copy of a tensor in which some elements are written. Long rows are copied by a
// kernel of their own, at the speed of any copy; another kernel, whose loops run over the index,
// writes the elements into that copy. There is no copy where nothing else reads the tensor: it is
// computed for this scatter alone, or is an input that the result is written into.
//
// Here each such scatter gets the tensor whose memory it updates, and is marked. Segments are cut
// between the two kernels (scheduler/registry.h), and plans give both tensors one piece of memory.
#include <preseg_passes/scatter_in_place.h>

#include <ir/builder.h>
#include <ops/shape_internal.h>
#include <preseg_passes/passes.h>
#include <tensor/layout.h>
#include <transform/cache.h>

#include <algorithm>

namespace nvfuser {

namespace {

using Ids = TensorDomain::Ids;

// As good as equal: the source may be longer than the index, which takes its beginning.
bool canBeSliced(const IterDomain* source, const IterDomain* index) {
  return !source->isBroadcast() || source->hasExpandedExtent() || index->isBroadcast();
}

// It writes its result to memory, where nobody else has it.
bool makesMemory(const Expr* e) {
  switch (e->kind()) {
    case ExprKind::ElementwiseOp:
    case ExprKind::FullOp:
    case ExprKind::PadOp:
    case ExprKind::CatOp:
    case ExprKind::ScanOp:
      return true;
    case ExprKind::LoadStoreOp:
      return static_cast<const LoadStoreOp*>(e)->type() == LoadStoreOpType::Set;
    case ExprKind::ScatterOp:
      return e->as<ScatterOp>()->isInPlace();
    default:
      return false;
  }
}

class InPlaceMaker {
 public:
  InPlaceMaker(Fusion* fusion, const std::vector<InPlaceWrite>& writes, bool overlap)
      : fusion_(fusion), writes_(writes), overlap_(overlap) {}

  void make(ScatterOp* e) {
    TensorView* out = e->out();
    TensorView* self = e->self();
    TensorView* index = e->index();
    Val* src = e->src();
    const int64_t dim = e->dim();
    const bool in_self = isMadeForScatter(fusion_, e) || isWrittenTo(self, out);
    fusion_->removeExpr(e);
    if (src->isTensor()) {
      src = asLargeAs(index, src->as<TensorView>());
    }
    IrBuilder::create<ScatterOp>(out, in_self ? self : copyOf(self, out), index, src, dim,
                                 /*in_place=*/true);
  }

  // With the layout of the result.
  static TensorView* copyOf(TensorView* self, TensorView* out) {
    TensorView* copy = newTensorLike(out);
    adoptLayout(copy, out);
    IrBuilder::create<LoadStoreOp>(LoadStoreOpType::Set, copy, self);
    return copy;
  }

 private:
  // The result is what this input becomes.
  bool isWrittenTo(const TensorView* self, const TensorView* out) const {
    const auto count = std::count_if(writes_.begin(), writes_.end(),
                                     [&](const InPlaceWrite& w) { return w.output == out; });
    return count == 1 && !overlap_ &&
           std::any_of(writes_.begin(), writes_.end(),
                       [&](const InPlaceWrite& w) { return w.output == out && w.input == self; });
  }

  // The part of the source that has the shape of the index.
  static TensorView* asLargeAs(const TensorView* index, TensorView* src) {
    std::vector<Val*> starts;
    std::vector<Val*> stops;
    ops_utils::DecidedTypes types;
    for (const IterDomain* id : logicalIds(index)) {
      starts.push_back(src->container()->zeroVal());
      stops.push_back(id->getMaybeExpandedExtent());
      types.emplace_back(id->hasExpandedExtent() ? IterType::Iteration : id->iterType());
    }
    const Ids dims = logicalIds(src);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!stops[d]->sameAs(dims[d]->getMaybeExpandedExtent())) {
        return ops_utils::sliceTo(src, starts, stops, types, stops);
      }
    }
    return src;
  }

  Fusion* fusion_;
  const std::vector<InPlaceWrite>& writes_;
  const bool overlap_;
};

} // namespace

std::vector<ScatterOp*> scattersOf(const Fusion* fusion) {
  std::vector<ScatterOp*> out;
  for (Expr* e : fusion->exprs()) {
    if (auto* scatter = tryAs<ScatterOp>(e)) {
      out.push_back(scatter);
    }
  }
  return out;
}

bool canBeInPlace(const ScatterOp* scatter) {
  const TensorView* out = scatter->out();
  const Ids dims = logicalIds(out);
  const Ids self = logicalIds(scatter->self());
  const Ids index = logicalIds(scatter->index());
  if (dims.empty() || out->hasRoot() || out->domain()->memoryOrder().empty() ||
      dataTypeSizeBits(out->dtype()) < 8) {
    return false;
  }
  for (size_t d = 0; d < dims.size(); ++d) {
    // A copy of one element into all of a dimension is no plain copy.
    if (self[d]->isBroadcast() != dims[d]->isBroadcast()) {
      return false;
    }
    if (scatter->src()->isTensor() && !canBeSliced(logicalIds(scatter->src())[d], index[d])) {
      return false;
    }
  }
  return true;
}

bool isMadeForScatter(const Fusion* fusion, const ScatterOp* scatter) {
  const TensorView* self = scatter->self();
  const TensorView* out = scatter->out();
  return !self->isFusionInput() && !self->isFusionOutput() && makesMemory(self->definition()) &&
         fusion->liveUses(self).size() == 1 &&
         self->domain()->memoryOrder() == out->domain()->memoryOrder() &&
         self->getContiguity() == out->getContiguity();
}

void scatterInPlace(Fusion* fusion, uint64_t which, const std::vector<InPlaceWrite>& writes,
                    bool overlap) {
  const FusionGuard guard(fusion);
  InPlaceMaker maker(fusion, writes, overlap);
  const std::vector<ScatterOp*> scatters = scattersOf(fusion);
  for (size_t i = 0; i < std::min<size_t>(scatters.size(), 64); ++i) {
    if ((which >> i & 1) != 0 && canBeInPlace(scatters[i])) {
      maker.make(scatters[i]);
    }
  }
}

bool isScatteredInto(const InPlaceWrite& write) {
  const auto* scatter = tryAs<ScatterOp>(write.output->definition());
  return scatter != nullptr && scatter->isInPlace() && scatter->self() == write.input;
}

void scatterIntoCopy(Fusion* fusion, const InPlaceWrite& write) {
  const FusionGuard guard(fusion);
  TensorView* copy = InPlaceMaker::copyOf(write.input, write.output);
  fusion->replaceExprInput(write.output->definition(), write.input, copy);
}

} // namespace nvfuser
