// SPDX-License-Identifier: BSD-3-Clause
// Analyses shared by the passes.
#include <lower/context.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/visitor.h>
#include <lower/vector_conditions.h>

#include <algorithm>

namespace nvfuser {

Val* roundedUp(Val* v, int64_t unit) {
  Val* factor = IrBuilder::index(unit);
  return IrBuilder::mulExpr(IrBuilder::ceilDivExpr(v, factor), factor);
}

bool dependsOn(const Val* v, const Val* symbol) {
  return !symbol->isConst() &&
         holdsBehind(v, [&](const Val* each) { return each->sameAs(symbol); });
}

bool isTrue(const Val* condition) {
  const bool* known = std::get_if<bool>(&condition->value());
  return known != nullptr && *known;
}

bool readsTensor(const Val* v) {
  return holdsBehind(v, [](const Val* each) { return each->kind() == ValKind::TensorIndex; });
}

bool accumulates(const Expr* e, const Val* index) {
  const auto* to = e->outputs().empty() ? nullptr : tryAs<TensorIndex>(e->output(0));
  return to != nullptr && to->view()->getMemoryType() == MemoryType::Local &&
         !dependsOn(to->index(), index) &&
         std::any_of(e->inputs().begin(), e->inputs().end(), [&](const Val* v) {
           const auto* from = tryAs<TensorIndex>(v);
           return from != nullptr && from->view() == to->view() &&
                  from->index()->sameAs(to->index());
         });
}

void collectTerms(Val* condition, std::vector<Val*>& terms) {
  const auto* op = tryAs<ElementwiseOp>(condition->definition());
  if (op != nullptr && op->op() == OpType::LogicalAnd) {
    collectTerms(op->in(0), terms);
    collectTerms(op->in(1), terms);
  } else {
    terms.push_back(condition);
  }
}

LowerContext::LowerContext(Kernel* kernel) : kernel_(kernel) {
  ids_ = std::make_unique<IdModel>(kernel);
  NVF_CHECK(ids_->selfMapped() == nullptr, "two dimensions of ",
            ids_->selfMapped() == nullptr ? std::string() : ids_->selfMapped()->toString(),
            " stand for the same iteration, because a tensor is read along both of them; such a "
            "fusion has to "
            "be cut at that tensor");
  loops_ = std::make_unique<LoopModel>(kernel, *ids_);
  findSingles();
  findResizedTwice();
  Assumptions assumptions;
  std::map<ParallelType, Val*> thread_extents;
  std::unordered_set<int> uneven;
  for (const Loop& l : loops_->all()) {
    if (isParallelTypeThread(l.type)) {
      auto [it, fresh] = thread_extents.try_emplace(l.type, l.extent);
      if (!fresh && !it->second->sameAs(l.extent)) {
        uneven.insert(static_cast<int>(l.type));
      }
    }
  }
  for (const Loop& l : loops_->all()) {
    if (l.type == ParallelType::Vectorize) {
      divisible_parts_.insert(l.group);
    }
    if (l.index->isConst()) {
      continue;
    }
    assumptions.setRange(l.index, {0, std::nullopt});
    const std::optional<LaunchNumber> number = kernel->launchNumber(l.extent);
    if (number.has_value() && number->padded != nullptr && isParallelTypeThread(l.type)) {
      if (std::none_of(members_.begin(), members_.end(),
                       [&](const Members& m) { return m.index->sameAs(l.index); })) {
        auto* member = IrBuilder::createIn<NamedScalar>(
            kernel, "member_of_" + std::string(parallelTag(l.type)), DataType::Index);
        assumptions.setRange(member, {0, std::nullopt});
        assumptions.setUpperBound(member, l.extent);
        members_.push_back({l.index, l.extent, member});
      }
      continue;
    }
    // All loops that are bound to one thread dimension share its index, which runs to the longest.
    if (uneven.count(static_cast<int>(l.type)) == 0) {
      assumptions.setUpperBound(l.index, l.extent);
    }
  }
  simplifier_ = std::make_unique<Simplifier>(std::move(assumptions));
}

// One element cut out of a dimension: what it was cut from is indexed through it, though no loop
// may be left of it where the element is broadcast. Where a tensor has only some dimensions of
// those that were flattened, what its loops repeat is another element, which is no tensor's: the
// consumer's says which. Where several dimensions of size 1 share a loop, this is over one of them,
// and the others are indexed all the same.
void LowerContext::findSingles() {
  const IdGraph& graph = ids_->exact();
  std::unordered_set<IdGroup> of_tensors;
  for (const TensorView* tv : kernel_->allTvs()) {
    for (const IterDomain* id : tv->getLogicalDomain()) {
      of_tensors.insert(graph.group(id));
      const Expr* def = id->definition();
      if (id->isBroadcast() && def != nullptr && def->kind() == ExprKind::Resize) {
        cut_elements_.insert(graph.group(id));
      }
    }
  }
  for (IdGroup g : graph.groups()) {
    const auto& ids = graph.members(g);
    const auto& definitions = graph.definitions(g);
    const bool cut = std::any_of(definitions.begin(), definitions.end(),
                                 [](const Expr* e) { return e->kind() == ExprKind::Resize; });
    const bool is_broadcast =
        std::all_of(ids.begin(), ids.end(), [](auto* id) { return id->isBroadcast(); });
    if (is_broadcast && cut) {
      if (of_tensors.count(g) != 0) {
        singles_.zeros.push_back(g);
      } else {
        singles_.others.insert(g);
      }
    } else if (!is_broadcast && ids_->extent(g)->isOneInt()) {
      singles_.ones.push_back(g);
    }
  }
}

// Only these need to be told apart by tensor: the others have one indexer for all tensors in the
// same loops.
void LowerContext::findResizedTwice() {
  const IdGraph& graph = ids_->exact();
  for (IdGroup g : graph.groups()) {
    std::unordered_set<IdGroup> from;
    for (const Expr* e : graph.definitions(g)) {
      if (e->kind() == ExprKind::Resize &&
          !from.insert(graph.group(e->input(0)->as<IterDomain>())).second) {
        resized_twice_.insert(g);
      }
    }
  }
}

Indexer& LowerContext::indexer(const TensorView* tv) {
  if (auto it = indexer_of_.find(tv); it != indexer_of_.end()) {
    return *it->second;
  }
  Indexer& made = makeIndexer(tv);
  indexer_of_.emplace(tv, &made);
  return made;
}

namespace {

// Whether the resize is of dimensions of which the tensor has one element, whatever its loops do.
bool isOfOneElement(const TensorView* tv, const Resize& resize, const Indexer& indexer) {
  const auto before = domainsBetween({}, {resize.in()});
  const auto& dims = tv->getLogicalDomain();
  return indexer.base() != nullptr && std::all_of(before.begin(), before.end(), [&](auto* id) {
           return id->isBroadcast() || indexer.isThroughElement(id) ||
                  std::find(dims.begin(), dims.end(), id) == dims.end();
         });
}

} // namespace

Indexer& LowerContext::makeIndexer(const TensorView* tv) {
  const TensorLoops& loops = this->loops(tv);
  std::vector<const Resize*> all;
  for (const IterDomain* id : tv->domain()->allIds()) {
    if (const auto* resize = tryAs<Resize>(id->definition())) {
      all.push_back(resize);
    }
  }
  std::vector<int> key;
  for (const Loop* l : loops.path) {
    key.push_back(l->id);
  }
  std::vector<const Resize*> twice;
  for (const Resize* resize : all) {
    if (resized_twice_.count(ids_->exact().group(resize->out())) != 0) {
      twice.push_back(resize);
      key.push_back(-1 - resize->out()->name());
    }
  }
  auto& slot = indexers_[key];
  if (slot == nullptr) {
    std::vector<std::pair<IdGroup, Val*>> known;
    for (const Loop* l : loops.path) {
      known.emplace_back(l->group, l->index);
    }
    slot = std::make_unique<Indexer>(ids_->exact(), *ids_, std::move(known), divisible_parts_,
                                     singles_, std::move(twice));
  }
  Indexer* indexer = all.empty() ? slot.get() : &indexerThroughElements(tv, all, *slot);
  for (const Resize* resize : all) {
    NVF_ERROR(!indexer->passesOver(*resize) || isOfOneElement(tv, *resize, *indexer),
              "the loops of ", tv->toString(), " pass over its ", resize->toString());
  }
  return *indexer;
}

// As by its loops, but for what is computed for one element of what they run over.
Indexer& LowerContext::indexerThroughElements(const TensorView* tv,
                                              const std::vector<const Resize*>& resizes,
                                              Indexer& of_loops) {
  Indexer* base = &of_loops;
  for (const Expr* use : tv->uses()) {
    for (const TensorView* consumer : tensorOutputs(use)) {
      if (base == &of_loops && loops_->knows(consumer)) {
        base = &onLoops(indexer(consumer), of_loops);
      }
    }
  }
  std::vector<const Resize*> cuts;
  for (const Resize* resize : resizes) {
    const IdGroup element = ids_->exact().group(resize->out());
    // What only the loops of a tensor repeat is no element of its own.
    const bool is_cut = resize->out()->isBroadcast() && !resize->in()->isBroadcast() &&
                        cut_elements_.count(element) != 0;
    if (is_cut && (base->isThroughElement(element) || of_loops.runsOver(*resize))) {
      cuts.push_back(resize);
    }
  }
  if (cuts.empty() && base == &of_loops) {
    return of_loops;
  }
  auto own = std::make_unique<Indexer>(*base, cuts, tv->domain()->allIds());
  return own->isAsBase() ? *base : *cut_indexers_.emplace_back(std::move(own));
}

// A reader's elements in the loops of what it reads, which may be other ones.
Indexer& LowerContext::onLoops(Indexer& reader, Indexer& loops) {
  if (reader.base() == nullptr) {
    return loops; // no elements
  }
  if (&reader.ofLoops() == &loops) {
    return reader;
  }
  Indexer& base = onLoops(*reader.base(), loops);
  return *cut_indexers_.emplace_back(std::make_unique<Indexer>(base, reader));
}

std::vector<const Loop*> LowerContext::bufferLoops(const TensorView* tv) const {
  const TensorLoops& loops = this->loops(tv);
  std::unordered_set<const Loop*> shared(
      loops.path.begin(), loops.path.begin() + static_cast<std::ptrdiff_t>(loops.shared));
  std::vector<const Loop*> out;
  for (size_t i = 0; i < loops.own.size(); ++i) {
    const Loop* l = loops.own[i];
    // A reduced axis is gone from the result.
    if (l->extent->isOneInt() || tv->getLoopDomain()[i]->isReduction()) {
      continue;
    }
    const bool inside = shared.count(l) == 0;
    if (tv->getMemoryType() == MemoryType::Shared) {
      // One buffer per block: all that the block's threads hold.
      if (isParallelTypeThreadDim(l->type) || (inside && !isParallelTypeBlockDim(l->type))) {
        out.push_back(l);
      }
    } else if (inside && !isParallelTypeThread(l->type)) {
      out.push_back(l);
    }
  }
  return out;
}

std::vector<LowerContext::BufferDim> LowerContext::bufferDims(const TensorView* tv) const {
  if (tv->getMemoryType() == MemoryType::Shared && tv->domain()->hasAllocation()) {
    if (std::optional<std::vector<BufferDim>> dims = allocatedDims(tv)) {
      return *dims;
    }
  }
  std::vector<BufferDim> out;
  const std::vector<Loop*>& own = loops(tv).own;
  for (const Loop* l : bufferLoops(tv)) {
    const auto axis = static_cast<size_t>(std::find(own.begin(), own.end(), l) - own.begin());
    const bool is_broadcast = tv->getLoopDomain()[axis]->isBroadcast();
    out.push_back({l->group, l->extent, is_broadcast && !isParallelTypeThread(l->type)});
  }
  return out;
}

namespace {

// The domain and what it is made of. What is a dimension of the tensor again is made of nothing:
// the inner part of two that were merged and split by as much does not contain the outer one.
void addWithAncestors(const IdGraph& graph, const std::unordered_set<IdGroup>& dimensions,
                      const IterDomain* id, std::unordered_set<IdGroup>& out) {
  const IdGroup group = graph.group(id);
  if (!out.insert(group).second || id->definition() == nullptr || dimensions.count(group) != 0) {
    return;
  }
  for (const Val* in : id->definition()->inputs()) {
    addWithAncestors(graph, dimensions, in->as<IterDomain>(), out);
  }
}

} // namespace

// The allocation domain without what leads to loops that have no dimension in the buffer only.
// Nullopt if it has none of that for one of these, or has it together with what is in the buffer:
// then it is not an order of what one block holds.
std::optional<std::vector<LowerContext::BufferDim>> LowerContext::allocatedDims(
    const TensorView* tv) const {
  const std::vector<const Loop*> buffer = bufferLoops(tv);
  const IdGraph& graph = ids_->exact();
  std::unordered_set<IdGroup> dimensions;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    dimensions.insert(graph.group(id));
  }
  std::unordered_set<IdGroup> inside;
  std::vector<std::unordered_set<IdGroup>> outside; // of each such loop
  for (size_t i = 0; i < loops(tv).own.size(); ++i) {
    const Loop* l = loops(tv).own[i];
    const IterDomain* id = tv->getLoopDomain()[i];
    if (std::find(buffer.begin(), buffer.end(), l) != buffer.end()) {
      addWithAncestors(graph, dimensions, id, inside);
    } else if (!l->extent->isOneInt()) {
      addWithAncestors(graph, dimensions, id, outside.emplace_back());
    }
  }
  std::vector<BufferDim> out;
  for (const IterDomain* id : tv->getAllocationDomain()) {
    const IdGroup group = graph.group(id);
    const bool leads_inside = inside.count(group) != 0;
    const bool leads_outside =
        std::any_of(outside.begin(), outside.end(),
                    [&](const auto& ancestors) { return ancestors.count(group) != 0; });
    if (leads_outside && leads_inside) {
      return std::nullopt;
    }
    if (leads_outside) {
      continue;
    }
    if (!ids_->extent(group)->isOneInt()) {
      out.push_back({group, ids_->extent(group)});
    }
  }
  for (const auto& ancestors : outside) {
    const auto& allocation = tv->getAllocationDomain();
    if (std::none_of(allocation.begin(), allocation.end(),
                     [&](const IterDomain* id) { return ancestors.count(graph.group(id)) != 0; })) {
      return std::nullopt;
    }
  }
  return out;
}

Val* LowerContext::bufferSize(const TensorView* tv) const {
  Val* size = kernel_->oneVal();
  for (const BufferDim& dim : bufferDims(tv)) {
    size = IrBuilder::mulExpr(size, dim.extent);
  }
  const bool has_one_more =
      tv->getMemoryType() == MemoryType::Shared && kernel_->unaligned_loads.count(tv) != 0;
  return has_one_more ? IrBuilder::addExpr(size, IrBuilder::index(vectorWidth(tv))) : size;
}

const AsyncBuffer* LowerContext::asyncBuffer(const TensorView* tv) const {
  for (const AsyncBuffer& buffer : kernel_->async_buffers) {
    if (std::find(buffer.tensors.begin(), buffer.tensors.end(), tv) != buffer.tensors.end()) {
      return &buffer;
    }
  }
  return nullptr;
}

Val* LowerContext::stageOf(const AsyncBuffer& buffer) const {
  return simplified(IrBuilder::modExpr(buffer.iteration, IrBuilder::index(buffer.stages)));
}

Val* LowerContext::parityOf(const AsyncBuffer& buffer) const {
  Val* fills = IrBuilder::divExpr(buffer.iteration, IrBuilder::index(buffer.stages));
  return simplified(IrBuilder::modExpr(fills, IrBuilder::index(2)));
}

const BulkAccess* LowerContext::bulkAccess(const TensorView* tv) {
  const Expr* copy = tv->definition();
  if (!isBulkCopy(copy)) {
    return nullptr;
  }
  auto it = bulk_.find(tv);
  if (it == bulk_.end()) {
    it = bulk_.emplace(tv, findBulkAccess(*this, static_cast<const LoadStoreOp*>(copy))).first;
  }
  return &it->second;
}

// Each buffer begins where a box may begin.
Val* LowerContext::stageSize(const TensorView* tv) {
  const BulkAccess* access = bulkAccess(tv);
  const int64_t bytes = dataTypeSizeBytes(tv->dtype());
  const int64_t alignment =
      std::max(kSharedLineBytes, access == nullptr ? 0 : bulkAlignment(*access));
  return simplified(roundedUp(bufferSize(tv), std::max<int64_t>(alignment / bytes, 1)));
}

int LowerContext::vectorWidth(const TensorView* tv) const {
  int width = 1;
  auto consider = [&](const TensorView* t) {
    if (t->definition() == nullptr) {
      return;
    }
    for (const Loop* l : loops(t).own) {
      if (l->type == ParallelType::Vectorize && l->extent->isConstInt()) {
        width = std::max(width, static_cast<int>(l->extent->intValue()));
      }
    }
  };
  consider(tv);
  for (const TensorView* c : consumerTvsOf(tv)) {
    consider(c);
  }
  return width;
}

Val* LowerContext::condition(Val* v) const {
  v = simplified(v);
  for (const Loop& l : loops_->all()) {
    const bool runs =
        l.type == ParallelType::Serial && l.extent->isConstInt() && !l.index->isConst();
    if (runs && divisible_parts_.count(l.group) != 0) {
      VectorConditions vectors(kernel_, *simplifier_, l.index, l.extent->intValue());
      v = vectors.rewritten(v);
    }
  }
  return simplified(v);
}

TensorView* LowerContext::outputOf(const Expr* e) {
  return e->output(0)->as<TensorView>();
}

const std::vector<const ThreadReduce*>& GridReduces::of(const TensorView* tv) const {
  static const std::vector<const ThreadReduce*> none;
  auto it = of_.find(tv);
  return it == of_.end() ? none : it->second;
}

void GridReduces::set(const TensorView* tv, std::vector<const ThreadReduce*> reduces) {
  if (!reduces.empty()) {
    of_[tv] = std::move(reduces);
  }
}

} // namespace nvfuser
