// See rebuild.h.
#include <ops/rebuild.h>

#include <base/error.h>
#include <base/hash.h>
#include <ir/builder.h>
#include <ir/cloner.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <ops/all_ops.h>
#include <ops/indexing_internal.h>
#include <ops/library_internal.h>
#include <ops/reduction_internal.h>
#include <ops/shape_internal.h>
#include <ops/utils.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_set>

namespace nvfuser {

using namespace ops_utils;

// ---- Decisions

size_t Concretization::hash() const {
  uint64_t h = reshapes.size();
  const auto add_flags = [&](const std::vector<bool>& flags) {
    h = hashCombine(h, flags.size());
    for (const bool b : flags) {
      h = hashCombine(h, b ? 1 : 2);
    }
  };
  for (const ReshapePattern& r : reshapes) {
    h = hashCombine(h, r.empty ? 1 : 2);
    add_flags(r.in_takes_part);
    add_flags(r.out_is_one);
    for (const auto& g : r.groups) {
      h = hashCombine(h, hashCombine(g.in_end, g.out_end));
    }
  }
  add_flags(symbolic_is_broadcast);
  add_flags(input_is_expanded_to_nothing);
  add_flags(input_size_is_one);
  add_flags(makes_nothing);
  return h;
}

namespace {

bool isOpenReshape(const Expr* e) {
  return e->kind() == ExprKind::ReshapeOp && !e->output(0)->as<TensorView>()->hasRoot();
}

template <class Visit>
void forEachSymbolic(const Fusion& fusion, Visit visit) {
  for (const TensorView* tv : fusion.allTvs()) {
    for (IterDomain* id : tv->getLogicalDomain()) {
      if (id->isSymbolicType()) {
        visit(id);
      }
    }
  }
}

// Extents of an input's expanded dimensions that may be 0.
std::vector<Val*> expandedExtents(const Val* input) {
  std::vector<Val*> out;
  if (input->isTensor()) {
    for (const IterDomain* id : input->as<TensorView>()->getLogicalDomain()) {
      if (id->hasExpandedExtent() && constInt(id->expandedExtent()).value_or(0) == 0) {
        out.push_back(id->expandedExtent());
      }
    }
  }
  return out;
}

// Dimensions of inputs whose size is not known before it runs.
template <class Visit>
void forEachOpenSize(const Fusion& fusion, Visit visit) {
  for (const Val* v : fusion.inputs()) {
    if (!v->isTensor()) {
      continue;
    }
    for (const IterDomain* id : logicalIds(v->as<TensorView>())) {
      const bool has_size = id->isIteration() || id->hasExpandedExtent();
      if (has_size && !id->getMaybeExpandedExtent()->isConst()) {
        visit(id);
      }
    }
  }
}

// Whether iteration domains that happen to be of size 1 disappear.
bool dropsIterations(const ReshapePattern& r) {
  return r.groups.empty() && std::any_of(r.in_takes_part.begin(), r.in_takes_part.end(),
                                         [](bool takes_part) { return takes_part; });
}

// `ones`: sizes that are decided to be 1, of dimensions that become broadcasts.
ReshapePattern reshapePattern(const TensorView* in, const std::vector<Val*>& new_shape,
                              ScalarEvaluator& sizes,
                              const std::unordered_set<const Val*>& ones = {}) {
  ReshapePattern pattern;
  std::vector<int64_t> in_sizes;
  std::vector<int64_t> out_sizes;
  int64_t in_elements = 1;
  int64_t out_elements = 1;
  for (const IterDomain* id : logicalIds(in)) {
    const int64_t size = sizes.evaluateInt(id->getMaybeExpandedExtent());
    in_elements *= size;
    const bool takes_part = size != 1 || (id->isIteration() && ones.count(id->extent()) == 0);
    pattern.in_takes_part.push_back(takes_part);
    if (takes_part) {
      in_sizes.push_back(size);
    }
  }
  for (const Val* extent : new_shape) {
    const int64_t size = sizes.evaluateInt(extent);
    NVF_CHECK(size >= 0, "reshape: the new size ", extent->toInlineString(), " is ", size, ".");
    out_elements *= size;
    pattern.out_is_one.push_back(size == 1);
    if (size != 1) {
      out_sizes.push_back(size);
    }
  }
  NVF_CHECK(in_elements == out_elements,
            "reshape: Total element counts across view operation must match. The input ",
            in->toString(), " has ", in_elements, " elements, the new shape ", out_elements, ".");
  pattern.empty = in_elements == 0;
  if (pattern.empty) {
    pattern.in_takes_part.clear();
    return pattern;
  }
  // Greedy from the left: a group closes as soon as the products agree. Iteration domains that
  // happen to be of size 1 join the group that follows, so that the pattern does not depend on it.
  size_t i = 0;
  size_t o = 0;
  while (o < out_sizes.size()) {
    ReshapePattern::Group group{i, i, o, o + 1};
    int64_t in_product = 1;
    int64_t out_product = out_sizes[o];
    while (in_product != out_product) {
      if (in_product < out_product) {
        in_product *= in_sizes.at(group.in_end++);
      } else {
        out_product *= out_sizes.at(group.out_end++);
      }
    }
    i = group.in_end;
    o = group.out_end;
    pattern.groups.push_back(group);
  }
  // Only ones are left. They join the last group.
  if (!pattern.groups.empty()) {
    pattern.groups.back().in_end = in_sizes.size();
  }
  return pattern;
}

} // namespace

bool needsConcretization(const Fusion& fusion) {
  bool found = false;
  forEachSymbolic(fusion, [&](const IterDomain*) { found = true; });
  for (const Val* v : fusion.inputs()) {
    found = found || !expandedExtents(v).empty();
  }
  const auto& exprs = fusion.exprs();
  return found || std::any_of(exprs.begin(), exprs.end(), isOpenReshape);
}

Concretization concretizationInfo(const Fusion& fusion, ScalarEvaluator& sizes,
                                  SizesOfOne ones_of_inputs) {
  Concretization info;
  forEachSymbolic(fusion, [&](const IterDomain* id) {
    info.symbolic_is_broadcast.push_back(sizes.evaluateInt(id->extent()) == 1);
  });
  for (const Val* v : fusion.inputs()) {
    const std::vector<Val*> expanded = expandedExtents(v);
    info.input_is_expanded_to_nothing.push_back(
        std::any_of(expanded.begin(), expanded.end(),
                    [&](const Val* extent) { return sizes.evaluateInt(extent) == 0; }));
  }
  std::unordered_set<const Val*> ones;
  const auto decide_reshapes = [&] {
    info.reshapes.clear();
    for (const Expr* e : fusion.exprs()) {
      if (isOpenReshape(e)) {
        info.reshapes.push_back(reshapePattern(e->input(0)->as<TensorView>(),
                                               e->as<ReshapeOp>()->newShape(), sizes, ones));
      }
    }
  };
  decide_reshapes();
  if (ones_of_inputs == SizesOfOne::MayBeBroadcasts &&
      std::any_of(info.reshapes.begin(), info.reshapes.end(), dropsIterations)) {
    forEachOpenSize(fusion, [&](const IterDomain* id) {
      const bool is_one = sizes.evaluateInt(id->getMaybeExpandedExtent()) == 1;
      info.input_size_is_one.push_back(is_one);
      if (is_one) {
        ones.insert(id->getMaybeExpandedExtent());
      }
    });
    decide_reshapes();
  }
  return info;
}

bool mayMakeNothing(const Fusion& fusion) {
  std::unordered_set<const Val*> given;
  for (const Val* v : fusion.inputs()) {
    if (v->isTensor()) {
      for (const IterDomain* id : logicalIds(v->as<TensorView>())) {
        given.insert(id->getMaybeExpandedExtent());
      }
    }
  }
  for (const TensorView* tv : fusion.allTvs()) {
    for (const IterDomain* id : logicalIds(tv)) {
      const Val* size = id->getMaybeExpandedExtent();
      if (constInt(size).value_or(0) == 0 && given.count(size) == 0) {
        return true;
      }
    }
  }
  return false;
}

std::vector<bool> exprsWithoutElement(const Fusion& fusion, ScalarEvaluator& sizes) {
  std::unordered_map<const Val*, bool> known;
  const auto is_zero = [&](const IterDomain* id) {
    const Val* size = id->getMaybeExpandedExtent();
    auto [it, is_new] = known.try_emplace(size, false);
    if (is_new) {
      const std::optional<ScalarValue> value = sizes.evaluate(size);
      it->second = value.has_value() && sizes.evaluateInt(size) == 0;
    }
    return it->second;
  };
  std::vector<bool> out;
  bool any = false;
  for (const Expr* e : fusion.exprs()) {
    out.push_back(std::all_of(e->outputs().begin(), e->outputs().end(), [&](const Val* v) {
      const Ids ids = logicalIds(v->as<TensorView>());
      return std::any_of(ids.begin(), ids.end(), is_zero);
    }));
    any = any || out.back();
  }
  return any ? out : std::vector<bool>();
}

// ---- Replay

namespace {

// Merges and splits one group of a reshape. Returns the output's domains.
Ids reshapeGroup(const Ids& in, const std::vector<Val*>& out_sizes) {
  if (in.size() == 1 && out_sizes.size() == 1) {
    return in;
  }
  IterDomain* merged = in.front();
  for (size_t i = 1; i < in.size(); ++i) {
    const bool last = i + 1 == in.size() && out_sizes.size() == 1;
    Val* product = IrBuilder::mulExpr(merged->extent(), in[i]->extent());
    // A constant size that the user gave says more than the product.
    Val* extent = last && out_sizes[0]->isConst() ? out_sizes[0] : product;
    auto* out = IterDomainBuilder(extent).isRfactor(true).build();
    IrBuilder::create<Merge>(out, merged, in[i]);
    merged = out;
  }
  // Split off the innermost sizes.
  Ids reversed;
  for (size_t o = out_sizes.size(); o-- > 1;) {
    Val* outer_size = nullptr;
    if (o == 1) {
      outer_size = out_sizes[0];
    } else {
      outer_size = IrBuilder::ceilDivExpr(merged->extent(), out_sizes[o]);
    }
    auto* outer = IterDomainBuilder(outer_size).isRfactor(true).build();
    auto* inner = IterDomainBuilder(out_sizes[o]).isRfactor(true).build();
    IrBuilder::create<Split>(outer, inner, merged, out_sizes[o], /*inner_split=*/true);
    reversed.push_back(inner);
    merged = outer;
  }
  reversed.push_back(merged);
  return {reversed.rbegin(), reversed.rend()};
}

// The view that a reshape between tensors without broadcasts is.
TensorView* regroup(TensorView* in, const ReshapePattern& pattern, const std::vector<Val*>& sizes) {
  const bool is_identity = std::all_of(
      pattern.groups.begin(), pattern.groups.end(),
      [](const auto& g) { return g.in_end - g.in_begin == 1 && g.out_end - g.out_begin == 1; });
  if (is_identity) {
    return in;
  }
  Ids root = copyDimensions(logicalIds(in));
  Ids logical;
  std::vector<Val*> out_sizes;
  for (size_t o = 0; o < sizes.size(); ++o) {
    if (!pattern.out_is_one[o]) {
      out_sizes.push_back(sizes[o]);
    }
  }
  const auto at = [](size_t i) { return static_cast<std::ptrdiff_t>(i); };
  for (const auto& g : pattern.groups) {
    const Ids ids =
        reshapeGroup({root.begin() + at(g.in_begin), root.begin() + at(g.in_end)},
                     {out_sizes.begin() + at(g.out_begin), out_sizes.begin() + at(g.out_end)});
    logical.insert(logical.end(), ids.begin(), ids.end());
  }
  std::vector<Val*> extents;
  for (const IterDomain* id : logical) {
    extents.push_back(id->extent());
  }
  auto* out = makeTensor(std::move(root), std::move(logical), in->dtype());
  IrBuilder::create<ReshapeOp>(out, in, std::move(extents));
  return out;
}

// The first element along some dimensions, which are broadcasts then.
TensorView* firstAlong(TensorView* in, const std::vector<bool>& dims) {
  if (std::none_of(dims.begin(), dims.end(), [](bool b) { return b; })) {
    return in;
  }
  Fusion* fusion = in->fusion();
  std::vector<Val*> stops = shape(in);
  for (size_t d = 0; d < dims.size(); ++d) {
    stops[d] = dims[d] ? fusion->oneVal() : stops[d];
  }
  return sliceTo(in, std::vector<Val*>(dims.size(), fusion->zeroVal()), stops);
}

TensorView* concreteReshape(TensorView* in, const ReshapePattern& pattern,
                            const std::vector<Val*>& sizes) {
  if (pattern.empty) {
    Ids ids;
    for (size_t d = 0; d < sizes.size(); ++d) {
      ids.push_back(makeDimension(
          sizes[d], pattern.out_is_one[d] ? IterType::Broadcast : IterType::Iteration));
    }
    auto* filled = makeTensor(std::move(ids), in->dtype());
    IrBuilder::create<FullOp>(filled, zeroOf(in->dtype()));
    return filled;
  }
  TensorView* const original = in;
  std::vector<bool> dropped;
  for (const bool takes_part : pattern.in_takes_part) {
    // Without any group, what takes part are iteration domains of size 1.
    dropped.push_back(!takes_part || pattern.groups.empty());
  }
  if (std::any_of(dropped.begin(), dropped.end(), [](bool b) { return b; })) {
    // A broadcast of the definition may have got a loop since, over a size of 1 that nothing shows.
    std::vector<bool> has_loop = dropped;
    for (size_t d = 0; d < dropped.size(); ++d) {
      has_loop[d] = !pattern.in_takes_part[d] && logicalIds(in)[d]->isIteration();
    }
    in = squeezeDims(firstAlong(in, has_loop), dropped, /*squeeze_expanded=*/true);
  }
  in = materializeExpanded(in, std::vector<bool>(static_cast<size_t>(rank(in)), true));
  in = regroup(in, pattern, sizes);
  in = broadcast(in, pattern.out_is_one);
  return in == original ? set(in) : in;
}

} // namespace

TensorView* ops_utils::constantReshape(TensorView* in, const std::vector<Val*>& sizes) {
  const auto moves = [](const Val* size) { return constInt(size).value_or(0) > 1; };
  const Ids ids = logicalIds(in);
  const bool in_moves = std::all_of(ids.begin(), ids.end(), [&](const IterDomain* id) {
    return id->isIteration() && moves(id->extent());
  });
  if (!in_moves || ids.empty() || !std::all_of(sizes.begin(), sizes.end(), moves)) {
    return nullptr;
  }
  ScalarEvaluator constants;
  TensorView* out = regroup(in, reshapePattern(in, sizes, constants), sizes);
  return out == in ? nullptr : out;
}

namespace {

// Builds the new fusion expression by expression.
class Replay {
 public:
  Replay(const Fusion& from, const Concretization& decisions, Fusion* to)
      : from_(from), decisions_(decisions), to_(to), cloner_(to) {}

  void run() {
    size_t next = 0;
    forEachSymbolic(from_, [&](const IterDomain* id) {
      types_[id] =
          decisions_.symbolic_is_broadcast.at(next++) ? IterType::Broadcast : IterType::Iteration;
    });
    if (!decisions_.input_size_is_one.empty()) {
      next = 0;
      forEachOpenSize(from_, [&](const IterDomain* id) {
        if (decisions_.input_size_is_one.at(next++)) {
          cloner_.map(id->getMaybeExpandedExtent(), to_->oneVal());
          cloner_.map(id, makeDimension(to_->oneVal()));
        }
      });
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
      if (decisions_.makes_nothing.empty() || !decisions_.makes_nothing.at(i)) {
        replay(e);
        continue;
      }
      for (Val* out : e->outputs()) {
        replaced(out->as<TensorView>(), nothingLike(out->as<TensorView>()));
      }
      next_reshape_ += isOpenReshape(e) ? 1 : 0;
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
    Ids ids;
    for (const IterDomain* id : logicalIds(tv)) {
      Val* size = cloner_.clone(id->getMaybeExpandedExtent());
      const IterType type = id->hasExpandedExtent() ? IterType::Iteration : typeOf(id);
      ids.push_back(makeDimension(size, size->isOneInt() ? IterType::Broadcast : type));
    }
    return zeros(std::move(ids), tv->dtype());
  }

  static TensorView* zeros(Ids ids, DataType dtype) {
    auto* out = makeTensor(std::move(ids), dtype);
    IrBuilder::create<FullOp>(out, zeroOf(dtype));
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
      out.push_back(cloner_.clone(id->getMaybeExpandedExtent()));
    }
    return out;
  }

  // Domains of a tensor that is made from scalars.
  Ids freshDomain(const TensorView* tv) {
    Ids out;
    for (const IterDomain* id : logicalIds(tv)) {
      out.push_back(makeDimension(cloner_.clone(id->extent()), typeOf(id)));
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
    if (const auto* op = dynamic_cast<const LibraryOp*>(e)) {
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
          parts.own.push_back({cloner_.clone(ids[d]->extent()), typeOf(ids[d])});
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
        return expandTo(mapped(e->input(0)), cloner_.clone(e->as<ExpandOp>()->shape()));
      case ExprKind::ReshapeOp:
        return reshaped(e->as<ReshapeOp>());
      case ExprKind::SliceOp: {
        const auto* op = e->as<SliceOp>();
        return sliceTo(mapped(op->input(0)), cloner_.clone(op->starts()),
                       cloner_.clone(op->stops()), typesOf(old_out, mapped(op->input(0))),
                       sizesOf(old_out));
      }
      case ExprKind::PadOp:
        return padded(e->as<PadOp>(), old_out);
      case ExprKind::CatOp: {
        const auto* op = e->as<CatOp>();
        std::vector<TensorView*> tensors;
        for (const Val* v : op->inputs()) {
          tensors.push_back(mapped(v));
        }
        return catPadded(tensors, op->dim(), cloner_.clone(op->ends()));
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
    const Ids old_in = logicalIds(op->in()->as<TensorView>());
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
      return zeros(std::move(kept), in->dtype());
    }
    // What takes the place of tensors without elements has loops where these were expanded. Along
    // such a dimension all elements are the same: the first one is left.
    const Ids old_ids = logicalIds(op->input(0)->as<TensorView>());
    std::vector<bool> has_loop(ids.size(), false);
    for (size_t d = 0; d < ids.size(); ++d) {
      if (!op->isSqueezeDim()[d] || ids[d]->isBroadcast()) {
        continue;
      }
      NVF_CHECK(old_ids[d]->hasExpandedExtent(), "squeeze: dimension ", d, " of ",
                op->input(0)->toString(), " can't be squeezed: its size is not 1.");
      has_loop[d] = true;
    }
    in = firstAlong(in, has_loop);
    return squeezeDims(in, op->isSqueezeDim(), op->squeezeExpanded());
  }

  TensorView* reshaped(const ReshapeOp* op) {
    if (!isOpenReshape(op)) {
      // Constant before: behind another reshape the extents may be computed now.
      ScalarEvaluator constants;
      const ReshapePattern pattern =
          reshapePattern(op->input(0)->as<TensorView>(), op->newShape(), constants);
      return concreteReshape(mapped(op->input(0)), pattern, cloner_.clone(op->newShape()));
    }
    const ReshapePattern& pattern = decisions_.reshapes.at(next_reshape_++);
    return concreteReshape(mapped(op->input(0)), pattern, cloner_.clone(op->newShape()));
  }

  TensorView* padded(const PadOp* op, const TensorView* old_out) {
    return padBy(mapped(op->in()), cloner_.clone(op->left()), cloner_.clone(op->right()),
                 cloner_.clone(op->value()), typesOf(old_out), sizesOf(old_out));
  }

  // What users set on tensors besides the ops: memory order, memory type, source location.
  void copyAttributes(const TensorView* from, TensorView* to) {
    to->setSourceLocation(from->sourceLocation());
    to->setCpuScalar(from->isCpuScalar());
    const TensorDomain* domain = from->domain();
    if (!domain->hasAllocation()) {
      return;
    }
    const Ids& logical = domain->logical();
    Ids allocation;
    TensorDomain::Contiguity contiguity;
    for (size_t p = 0; p < domain->allocation().size(); ++p) {
      const auto position = std::find(logical.begin(), logical.end(), domain->allocation()[p]);
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
  std::unordered_map<const IterDomain*, IterType> types_;
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

// ---- Constraints

namespace {

// Constraints of the pairs of dimensions of one producer and consumer.
void addPairs(const Expr* e, const TensorView* producer, const TensorView* consumer,
              std::vector<ExtentConstraint>& out) {
  const Ids ids = logicalIds(producer);
  for (const auto& [id, consumer_id] : producerConsumerPairs(producer, consumer)) {
    // A broadcast meets any size, except where ops want equal sizes; a slice may shorten an
    // expanded one.
    const bool any_size =
        id->isBroadcast() && (e->kind() == ExprKind::SliceOp ||
                              (!id->hasExpandedExtent() && e->kind() != ExprKind::CatOp));
    if (any_size) {
      continue;
    }
    Val* a = id->getMaybeExpandedExtent();
    Val* b = consumer_id->getMaybeExpandedExtent();
    if (!a->sameAs(b)) {
      const auto dim = std::find(ids.begin(), ids.end(), id) - ids.begin();
      out.push_back({e, producer, consumer, dim, a, b, ExtentConstraint::Relation::Equal});
    }
  }
}

// Sizes of `small` that may not exceed those of `large`; `except` is a dimension that may, or -1.
void addBounds(const Expr* e, const TensorView* small, const TensorView* large, int64_t except,
               std::vector<ExtentConstraint>& out) {
  const Ids a = logicalIds(small);
  const Ids b = logicalIds(large);
  for (size_t d = 0; d < a.size(); ++d) {
    Val* lesser = a[d]->getMaybeExpandedExtent();
    Val* greater = b.at(d)->getMaybeExpandedExtent();
    if (static_cast<int64_t>(d) != except && !lesser->sameAs(greater)) {
      out.push_back({e, small, large, static_cast<int64_t>(d), lesser, greater,
                     ExtentConstraint::Relation::AtMost});
    }
  }
}

// Operands of one op among each other.
void addOperandPairs(const LibraryOp* op, std::vector<ExtentConstraint>& out) {
  for (const std::vector<OperandDim>& same : operandDims(op->dims(), op->operands())) {
    const OperandDim* reference = nullptr; // one that is not repeated, if there is any
    for (const OperandDim& d : same) {
      const bool repeated = d.repeats && d.id->isBroadcast() && !d.id->hasExpandedExtent();
      if (!repeated && (reference == nullptr || (reference->repeats && !d.repeats))) {
        reference = &d;
      }
    }
    for (const OperandDim& d : same) {
      if (reference == nullptr || &d == reference ||
          (d.repeats && d.id->isBroadcast() && !d.id->hasExpandedExtent())) {
        continue;
      }
      Val* a = d.id->getMaybeExpandedExtent();
      Val* b = reference->id->getMaybeExpandedExtent();
      if (!a->sameAs(b)) {
        out.push_back({op, d.tv, reference->tv, d.dim, a, b, ExtentConstraint::Relation::Equal,
                       reference->dim});
      }
    }
  }
  if (op->op() == LibraryOpType::TopK) {
    const auto* in = op->input(0)->as<TensorView>();
    const auto dim = op->attributes().front();
    const Ids ids = logicalIds(in);
    Val* size = ids.empty() ? in->container()->oneVal()
                            : ids[static_cast<size_t>(dim)]->getMaybeExpandedExtent();
    out.push_back({op, op->output(0)->as<TensorView>(), in, dim, op->input(1), size,
                   ExtentConstraint::Relation::AtMost, dim, "k is out of range"});
  }
}

} // namespace

std::vector<ExtentConstraint> extentConstraints(const Fusion& fusion) {
  std::vector<ExtentConstraint> out;
  for (const Expr* e : fusion.exprs()) {
    for (const TensorView* consumer : tensorOutputs(e)) {
      for (const TensorView* producer : tensorInputs(e)) {
        addPairs(e, producer, consumer, out);
      }
    }
    if (e->kind() == ExprKind::GatherOp && !e->as<GatherOp>()->exact()) {
      const auto* op = e->as<GatherOp>();
      addBounds(e, op->index(), op->lookup(), op->dim(), out);
    } else if (e->kind() == ExprKind::ScatterOp) {
      const auto* op = e->as<ScatterOp>();
      addBounds(e, op->index(), op->self(), op->dim(), out);
      if (op->src()->isTensor()) {
        addBounds(e, op->index(), op->src()->as<TensorView>(), -1, out);
      }
    } else if (const auto* op = dynamic_cast<const LibraryOp*>(e)) {
      addOperandPairs(op, out);
    }
  }
  return out;
}

} // namespace nvfuser
