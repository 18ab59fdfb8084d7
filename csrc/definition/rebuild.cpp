// SPDX-License-Identifier: BSD-3-Clause
// See rebuild.h.
#include <definition/rebuild.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/cloner.h>
#include <ir/describe.h>
#include <ir/visitor.h>
#include <ops/all_ops.h>
#include <ops/indexing_internal.h>
#include <ops/library_internal.h>
#include <ops/reduction_internal.h>
#include <ops/reshape_pattern.h>
#include <ops/shape_internal.h>
#include <ops/utils.h>

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

namespace nvfuser {

using namespace ops_utils;

namespace {

// Builds the new fusion expression by expression.
class Replay {
 public:
  Replay(const Fusion& from, const Concretization& decisions, Fusion* to)
      : from_(from), decisions_(decisions), to_(to), cloner_(to) {}

  void run() {
    size_t next = 0;
    for (const IterDomain* id : symbolicDomains(from_)) {
      types_[id] =
          decisions_.symbolic_is_broadcast.at(next++) ? IterType::Broadcast : IterType::Iteration;
    }
    next = 0;
    for (const auto& dim : openSliceDims(from_)) {
      if (decisions_.slice_takes_all.at(next++)) {
        takes_all_.insert(dim);
      }
    }
    next = 0;
    for (const auto& dim : openExpandDims(from_)) {
      if (decisions_.expands_to_one.at(next++)) {
        to_one_.insert(dim);
      }
    }
    if (!decisions_.input_sizes.empty()) {
      decideSizes();
    }
    for (size_t i = 0; i < from_.inputs().size(); ++i) {
      Val* v = from_.inputs()[i];
      to_->addInput(copyOfInput(v));
      if (decisions_.input_is_expanded_to_nothing.at(i)) {
        stand_ins_[v] = nothingLike(v->as<TensorView>());
      }
    }
    for (size_t i = 0; i < from_.exprs().size(); ++i) {
      Expr* e = from_.exprs()[i];
      switch (decisions_.elements.empty() ? Elements::Some : decisions_.elements.at(i)) {
        case Elements::Some:
          replay(e);
          break;
        case Elements::None:
          for (Val* out : e->outputs()) {
            replaced(out->as<TensorView>(), nothingLike(out->as<TensorView>()));
          }
          next_reshape_ += isOpenReshape(e) ? 1 : 0;
          break;
        case Elements::MadeOfNone:
          startValues(e);
          break;
      }
    }
    while (to_->numStatefulRng() < from_.numStatefulRng()) {
      to_->nextStatefulRngIndex();
    }
    addOutputs();
  }

  void exportMapping(std::unordered_map<const Val*, Val*>* mapping) {
    for (const Val* v : from_.vals()) {
      if (Val* counterpart = cloner_.lookup(v)) {
        mapping->emplace(v, counterpart);
      }
    }
  }

 private:
  void decideSizes() {
    const std::vector<IterDomain*> dims = dimensionsOfOpenSize(from_);
    for (size_t i = 0; i < dims.size(); ++i) {
      const InputSize& decided = decisions_.input_sizes.at(i);
      const Val* extent = dims[i]->getMaybeExpandedExtent();
      if (decided.size == 1) {
        cloner_.map(dims[i], makeDimension(to_->oneVal()));
      }
      if (decided.size != InputSize::kOpen) {
        cloner_.map(extent, IrBuilder::index(decided.size));
      } else if (decided.same_as != i) {
        cloner_.map(extent, cloner_.clone(dims[decided.same_as]->getMaybeExpandedExtent()));
      }
    }
  }

  // With the dimensions that were decided.
  Val* copyOfInput(Val* v) {
    Val* copy = cloner_.clone(v);
    if (copy->isTensor()) {
      TensorDomain* domain = copy->as<TensorView>()->domain();
      TensorDomain::Contiguity contiguity = domain->contiguity();
      for (size_t i = 0; i < contiguity.size(); ++i) {
        if (domain->maybeAllocation()[i]->isBroadcast()) {
          contiguity[i] = std::nullopt;
        }
      }
      domain->setContiguity(contiguity);
    }
    return copy;
  }

  // What ops read.
  TensorView* mapped(const Val* v) {
    auto it = stand_ins_.find(v);
    return it == stand_ins_.end() ? cloner_.lookup(v)->as<TensorView>() : it->second;
  }

  Val* read(Val* v) {
    return v->isTensor() ? mapped(v) : cloner_.clone(v);
  }

  std::vector<Val*> mappedInputs(const Expr* e) {
    std::vector<Val*> out;
    for (Val* v : e->inputs()) {
      out.push_back(read(v));
    }
    return out;
  }

  // Zeros in the dimensions of a tensor of `from` that has no element. Those that it is expanded
  // along get loops, so that none is read.
  TensorView* nothingLike(const TensorView* tv) {
    without_element_.insert(tv);
    return filledLike(tv, zeroOf(tv->dtype()));
  }

  // What accumulating starts from: of Welford's results zeros.
  void startValues(Expr* e) {
    if (const auto* op = tryAs<ScatterOp>(e)) {
      replaced(op->out(), set(mapped(op->self())));
      return;
    }
    const auto* reduction = tryAs<ReductionOp>(e);
    for (Val* v : e->outputs()) {
      const auto* out = v->as<TensorView>();
      Val* value = reduction == nullptr ? zeroOf(out->dtype()) : cloner_.clone(reduction->init());
      replaced(out, filledLike(out, value));
    }
  }

  // Where the tensor is expanded there are loops.
  TensorView* filledLike(const TensorView* tv, Val* value) {
    Ids ids;
    for (const IterDomain* id : logicalIds(tv)) {
      Val* size = sizeOf(id->getMaybeExpandedExtent());
      const IterType type = id->hasExpandedExtent() ? IterType::Iteration : typeOf(id);
      ids.push_back(makeDimension(size, size->isOneInt() ? IterType::Broadcast : type));
    }
    return filled(std::move(ids), tv->dtype(), value);
  }

  static TensorView* filled(Ids ids, DataType dtype, Val* value) {
    auto* out = makeTensor(std::move(ids), dtype);
    IrBuilder::create<FullOp>(out, value);
    return out;
  }

  // The decided type of a domain of `from`.
  IterType typeOf(const IterDomain* id) const {
    return id->isSymbolicType() ? types_.at(id) : id->iterType();
  }

  DecidedTypes typesOf(const TensorView* tv) const {
    DecidedTypes out;
    for (const IterDomain* id : logicalIds(tv)) {
      out.push_back(typeOf(id));
    }
    return out;
  }

  // The same of what is made of `in`: what takes the place of tensors without elements has loops
  // where these were expanded.
  DecidedTypes typesOf(const TensorView* tv, const TensorView* in) const {
    DecidedTypes out = typesOf(tv);
    const Ids old_ids = logicalIds(tv);
    const Ids ids = logicalIds(in);
    for (size_t d = 0; d < ids.size(); ++d) {
      if (old_ids[d]->hasExpandedExtent() && !ids[d]->isBroadcast()) {
        out[d] = IterType::Iteration;
      }
    }
    return out;
  }

  // Sizes as the definition has them: what is computed from them later refers to the same scalars.
  std::vector<Val*> sizesOf(const TensorView* tv) {
    std::vector<Val*> out;
    for (const IterDomain* id : logicalIds(tv)) {
      out.push_back(sizeOf(id->getMaybeExpandedExtent()));
    }
    return out;
  }

  std::vector<Val*> sizesOf(const std::vector<Val*>& sizes) {
    std::vector<Val*> out;
    for (Val* size : sizes) {
      out.push_back(sizeOf(size));
    }
    return out;
  }

  // What is computed of sizes that are constants now is one: a part may have turned out to be all.
  Val* sizeOf(Val* size) {
    return constantIfKnown(cloner_.clone(size), constants_);
  }

  // Domains of a tensor that is made from scalars.
  Ids freshDomain(const TensorView* tv) {
    Ids out;
    for (const IterDomain* id : logicalIds(tv)) {
      out.push_back(makeDimension(sizeOf(id->extent()), typeOf(id)));
    }
    return out;
  }

  void replay(Expr* e) {
    if (e->kind() == ExprKind::WelfordOp) {
      const auto* op = e->as<WelfordOp>();
      const WelfordResult result = welfordDims(mapped(op->in()), reductionFlags(op->outAvg()));
      replaced(op->outAvg(), result.avg);
      replaced(op->outM2(), result.var_sum);
      replaced(op->outN(), result.n);
      return;
    }
    if (const auto* op = tryAs<LibraryOp>(e)) {
      replayLibraryOp(op);
      return;
    }
    const auto* old_out = e->output(0)->as<TensorView>();
    replaced(old_out, replayed(e, old_out));
  }

  void replayLibraryOp(const LibraryOp* op) {
    LibraryOpParts parts{
        .op = op->op(), .operands = {}, .attributes = op->attributes(), .dtypes = {}, .own = {}};
    for (Val* v : op->operands()) {
      parts.operands.push_back(v == nullptr ? nullptr : cloner_.clone(v));
    }
    const LibraryDims dims = op->dims();
    const auto operand_dims = operandDims(dims, op->operands());
    for (size_t r = 0; r < op->outputs().size(); ++r) {
      const auto* out = op->output(r)->as<TensorView>();
      parts.dtypes.push_back(out->dtype());
      const Ids ids = logicalIds(out);
      for (size_t d = 0; d < ids.size(); ++d) {
        if (operand_dims[static_cast<size_t>(dims.results[r][d].number)].empty()) {
          parts.own.push_back({sizeOf(ids[d]->extent()), typeOf(ids[d])});
        }
      }
    }
    const std::vector<TensorView*> results = makeLibraryOp(parts);
    for (size_t r = 0; r < results.size(); ++r) {
      replaced(op->output(r)->as<TensorView>(), results[r]);
    }
  }

  // An op that turned out to do nothing needs a tensor of its own all the same: outputs and aliases
  // are per tensor.
  void replaced(const TensorView* old_out, TensorView* out) {
    copyAttributes(old_out, out);
    cloner_.map(old_out, out);
  }

  static std::vector<bool> reductionFlags(const TensorView* tv) {
    std::vector<bool> out;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      out.push_back(id->isReduction());
    }
    return out;
  }

  TensorView* sliced(const SliceOp* op, const TensorView* old_out) {
    TensorView* in = mapped(op->input(0));
    std::vector<Val*> starts = sizesOf(op->starts());
    std::vector<Val*> stops = sizesOf(op->stops());
    const Ids old_dims = logicalIds(op->input(0));
    for (size_t d = 0; d < starts.size(); ++d) {
      // The end may be the size of another tensor by now, which is the same number.
      const bool took_all = op->starts()[d]->isZeroInt() &&
                            op->stops()[d]->sameAs(old_dims[d]->getMaybeExpandedExtent());
      if (took_all || takes_all_.count({op, d}) != 0) {
        starts[d] = in->container()->zeroVal();
        stops[d] = logicalIds(in)[d]->getMaybeExpandedExtent();
      }
    }
    return sliceTo(in, starts, stops, typesOf(old_out, in), sizesOf(old_out));
  }

  TensorView* expanded(const ExpandOp* op) {
    std::vector<Val*> shape = sizesOf(op->shape());
    for (size_t d = 0; d < shape.size(); ++d) {
      if (to_one_.count({op, d}) != 0) {
        shape[d] = to_->oneVal();
      }
    }
    return expandTo(mapped(op->input(0)), shape);
  }

  TensorView* replayed(Expr* e, const TensorView* old_out) {
    switch (e->kind()) {
      case ExprKind::ElementwiseOp:
        return elementwiseAsIs(e->as<ElementwiseOp>()->op(), old_out->dtype(), mappedInputs(e))
            ->as<TensorView>();
      case ExprKind::LoadStoreOp:
        return copy(e->as<LoadStoreOp>(), old_out);
      case ExprKind::BroadcastOp:
        return broadcast(mapped(e->input(0)), e->as<BroadcastOp>()->isBroadcastDim());
      case ExprKind::SqueezeOp:
        return squeezed(e->as<SqueezeOp>());
      case ExprKind::ExpandOp:
        return expanded(e->as<ExpandOp>());
      case ExprKind::ReshapeOp:
        return reshaped(e->as<ReshapeOp>());
      case ExprKind::SliceOp:
        return sliced(e->as<SliceOp>(), old_out);
      case ExprKind::PadOp:
        return padded(e->as<PadOp>(), old_out);
      case ExprKind::CatOp: {
        const auto* op = e->as<CatOp>();
        std::vector<TensorView*> tensors;
        for (const Val* v : op->inputs()) {
          tensors.push_back(mapped(v));
        }
        return catPadded(tensors, op->dim(), sizesOf(op->ends()));
      }
      case ExprKind::FullOp: {
        auto* out = makeTensor(freshDomain(old_out), old_out->dtype());
        IrBuilder::create<FullOp>(out, cloner_.clone(e->input(0)));
        return out;
      }
      case ExprKind::IotaOp: {
        auto* out = makeTensor(freshDomain(old_out), old_out->dtype());
        const std::vector<Val*> in = mappedInputs(e);
        IrBuilder::create<IotaOp>(out, in[0], in[1], in[2]);
        return out;
      }
      case ExprKind::RngOp: {
        const auto* op = e->as<RngOp>();
        auto* out = makeTensor(freshDomain(old_out), old_out->dtype());
        IrBuilder::create<RngOp>(op->rng(), out, cloner_.clone(op->parameter(0)),
                                 cloner_.clone(op->parameter(1)), cloner_.clone(op->seed()),
                                 cloner_.clone(op->offset()), op->statefulIndex());
        return out;
      }
      case ExprKind::ReductionOp: {
        const auto* op = e->as<ReductionOp>();
        return reduceDims(op->op(), mapped(op->in()), reductionFlags(old_out));
      }
      case ExprKind::ScanOp: {
        const auto* op = e->as<ScanOp>();
        return scanDim(op->op(), cloner_.clone(op->init()), op->dim(), mapped(op->in()));
      }
      case ExprKind::GatherOp: {
        const auto* op = e->as<GatherOp>();
        return gatherDim(mapped(op->lookup()), mapped(op->index()), op->dim(), op->exact());
      }
      case ExprKind::IndexSelectOp: {
        const auto* op = e->as<IndexSelectOp>();
        return indexSelectDim(mapped(op->lookup()), mapped(op->index()), op->dim());
      }
      case ExprKind::SelectOp: {
        const auto* op = e->as<SelectOp>();
        return selectDim(mapped(op->lookup()), read(op->index()), op->dim());
      }
      case ExprKind::ScatterOp: {
        const auto* op = e->as<ScatterOp>();
        return scatterDim(mapped(op->self()), mapped(op->index()), read(op->src()), op->dim());
      }
      case ExprKind::EmbeddingFwdOp: {
        const auto* op = e->as<EmbeddingFwdOp>();
        return embeddingRows(mapped(op->weight()), mapped(op->index()));
      }
      default:
        NVF_THROW("no replay of ", e->opName());
    }
  }

  // A plain copy, a permutation, or an expanded broadcast made real.
  TensorView* copy(const LoadStoreOp* op, const TensorView* old_out) {
    auto* in = mapped(op->in());
    const Ids old_in = logicalIds(op->in());
    const Ids& logical = old_out->getLogicalDomain();
    if (old_out->hasRoot()) {
      const Ids& root = old_out->getRootDomain();
      std::vector<int64_t> dims;
      for (IterDomain* id : logical) {
        const auto position = std::find(root.begin(), root.end(), id);
        NVF_ERROR(position != root.end(), "a copy that is no permutation");
        dims.push_back(position - root.begin());
      }
      return permuteTo(in, dims);
    }
    std::vector<bool> materialized;
    for (size_t d = 0; d < old_in.size(); ++d) {
      materialized.push_back(old_in[d]->isBroadcast() && !logical[d]->isBroadcast());
    }
    TensorView* out = materializeExpanded(in, materialized);
    if (out != in) {
      return out;
    }
    return op->type() == LoadStoreOpType::SegmenterSet ? segment_set(in) : set(in);
  }

  TensorView* squeezed(const SqueezeOp* op) {
    TensorView* in = mapped(op->input(0));
    const Ids ids = logicalIds(in);
    if (op->squeezeExpanded() && without_element_.count(op->input(0)) != 0) {
      Ids kept;
      for (size_t d = 0; d < ids.size(); ++d) {
        if (!op->isSqueezeDim()[d]) {
          kept.push_back(copyDimension(ids[d]));
        }
      }
      return filled(std::move(kept), in->dtype(), zeroOf(in->dtype()));
    }
    // What takes the place of tensors without elements has loops where these were expanded. Along
    // such a dimension all elements are the same: the first one is left.
    const Ids old_ids = logicalIds(op->input(0));
    std::vector<bool> has_loop(ids.size(), false);
    for (size_t d = 0; d < ids.size(); ++d) {
      if (!op->isSqueezeDim()[d] || ids[d]->isBroadcast()) {
        continue;
      }
      NVF_CHECK(old_ids[d]->hasExpandedExtent(), "squeeze: dimension ", d, " of ",
                describe(op->input(0)), " can't be squeezed: its size is not 1.");
      has_loop[d] = true;
    }
    in = firstAlong(in, has_loop);
    return squeezeDims(in, op->isSqueezeDim(), op->squeezeExpanded());
  }

  TensorView* reshaped(const ReshapeOp* op) {
    if (!isOpenReshape(op)) {
      // Constant before: after another reshape the extents may be computed now.
      ScalarEvaluator constants;
      const ReshapePattern pattern =
          reshapePattern(op->input(0)->as<TensorView>(), op->newShape(), constants);
      return concreteReshape(mapped(op->input(0)), pattern, sizesOf(op->newShape()));
    }
    const ReshapePattern& pattern = decisions_.reshapes.at(next_reshape_++);
    return concreteReshape(mapped(op->input(0)), pattern, sizesOf(op->newShape()));
  }

  TensorView* padded(const PadOp* op, const TensorView* old_out) {
    return padBy(mapped(op->in()), sizesOf(op->left()), sizesOf(op->right()),
                 cloner_.clone(op->value()), typesOf(old_out), sizesOf(old_out));
  }

  // What users set on tensors besides the ops: memory order, memory type, source location.
  void copyAttributes(const TensorView* from, TensorView* to) {
    to->setSourceLocation(from->sourceLocation());
    to->copyInputLabel(from);
    to->setCpuScalar(from->isCpuScalar());
    const TensorDomain* domain = from->domain();
    if (!domain->isOrderGiven()) {
      return;
    }
    const Ids& logical = domain->logical();
    Ids allocation;
    TensorDomain::Contiguity contiguity;
    for (size_t p = 0; p < domain->maybeAllocation().size(); ++p) {
      const auto position = std::find(logical.begin(), logical.end(), domain->maybeAllocation()[p]);
      if (position == logical.end()) {
        return; // a memory order of scheduled domains: it does not survive
      }
      IterDomain* id = to->getLogicalDomain().at(static_cast<size_t>(position - logical.begin()));
      allocation.push_back(id);
      contiguity.push_back(id->isBroadcast()
                               ? std::nullopt
                               : std::optional<bool>(domain->contiguity()[p].value_or(true)));
    }
    to->domain()->setAllocationDomain(std::move(allocation), std::move(contiguity));
  }

  void addOutputs() {
    for (size_t i = 0; i < from_.outputs().size(); ++i) {
      const OutputAlias& alias = from_.outputAliases()[i];
      Val* out = cloner_.lookup(from_.outputs()[i]);
      if (alias.input == nullptr) {
        to_->addOutput(out);
        continue;
      }
      to_->addOutput(out, cloner_.lookup(alias.input)->as<TensorView>());
      if (!alias.hidden) {
        to_->addOutput(out); // makes the entry just added a visible one
      }
    }
  }

  const Fusion& from_;
  const Concretization& decisions_;
  Fusion* to_;
  IrCloner cloner_;
  ScalarEvaluator constants_ = ScalarEvaluator::ofConstants();
  std::unordered_map<const IterDomain*, IterType> types_;
  std::set<std::pair<const SliceOp*, size_t>> takes_all_; // dimensions
  std::set<std::pair<const ExpandOp*, size_t>> to_one_;
  std::unordered_map<const Val*, TensorView*> stand_ins_; // for inputs without an element
  std::unordered_set<const Val*> without_element_;        // of `from`
  size_t next_reshape_ = 0;
};

} // namespace

void concretize(const Fusion& from, const Concretization& decisions, Fusion* to,
                std::unordered_map<const Val*, Val*>* mapping) {
  FusionGuard guard(to);
  Replay replay(from, decisions, to);
  replay.run();
  if (mapping != nullptr) {
    replay.exportMapping(mapping);
  }
}

} // namespace nvfuser
