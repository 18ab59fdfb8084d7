// Pass: is the schedule legal? Errors are in terms of the user's call. Along the way the kernel
// learns its launch extents and what must be checked at launch.
#include <base/error.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <lower/context.h>
#include <lower/scans.h>

#include <algorithm>

namespace nvfuser {

namespace {

class ScheduleChecker {
 public:
  explicit ScheduleChecker(LowerContext& ctx) : ctx_(ctx), kernel_(ctx.kernel()) {}

  void run() {
    for (const Expr* e : kernel_->exprs()) {
      TensorView* tv = LowerContext::outputOf(e);
      checkTypes(e, tv);
      collectExtents(tv);
      checkVectors(e, tv);
      checkLines(e, tv);
      checkAsyncCopy(e, tv);
      for (TensorView* producer : tensorInputs(e)) {
        checkThreads(producer, tv);
      }
    }
  }

 private:
  void checkTypes(const Expr* e, const TensorView* tv) {
    std::unordered_set<int> seen;
    for (const Loop* l : ctx_.loops(tv).path) {
      const ParallelType type = l->type;
      if (isParallelTypeThread(type)) {
        NVF_CHECK(seen.insert(static_cast<int>(type)).second, describeLoops(tv), ": ", type,
                  " is bound to more than one loop axis");
      }
      NVF_CHECK(type != ParallelType::Bulk || isBulkCopy(e), describeLoops(tv),
                ": only tma copies have axes bound to tma; use cache_after or cache_before with "
                "LoadStoreOpType.tma");
      NVF_CHECK(type != ParallelType::Mma && type != ParallelType::Group, describeLoops(tv), ": ",
                type, " can't be used on a loop axis of this operation");
    }
  }

  // Scatters go along a line one element after the other, and scans too unless threads share it.
  void checkLines(const Expr* e, const TensorView* tv) {
    int64_t dim = -1;
    if (isThreadScan(ctx_, e)) {
      checkThreadScan(ctx_, e);
      return;
    }
    if (const auto* scan = dynamic_cast<const ScanOp*>(e)) {
      dim = scan->dim();
    } else if (const auto* scatter = dynamic_cast<const ScatterOp*>(e)) {
      dim = scatter->dim();
      NVF_CHECK(tv->getMemoryType() == MemoryType::Global, describeLoops(tv),
                ": a scatter writes to global memory");
    } else {
      return;
    }
    const IterDomain* along = tv->getLogicalDomain().at(static_cast<size_t>(dim));
    const Loop* innermost = ctx_.loops(tv).path.back();
    NVF_CHECK(tv->getLoopDomain().back() == along && innermost == ctx_.loops(tv).own.back() &&
                  innermost->type == ParallelType::Serial,
              describeLoops(tv), ": the loop along the dimension of a ", e->opName(),
              " must be the innermost one and serial, and not be split or merged");
  }

  void collectExtents(const TensorView* tv) {
    for (const Loop* l : ctx_.loops(tv).path) {
      if (!isParallelTypeThread(l->type)) {
        continue;
      }
      if (isParallelTypeBlockDim(l->type) && l->domain->isClustered()) {
        checkCluster(tv, l);
        kernel_->cluster_extents[l->type] = l->extent;
      }
      const LaunchNumber* number = kernel_->launchNumber(l->extent);
      Val* launched = number != nullptr && number->padded != nullptr ? number->padded : l->extent;
      Val*& extent = kernel_->parallel_extents[l->type];
      if (extent == nullptr || extent->sameAs(launched)) {
        extent = launched;
      } else if (!provablyEqual(extent, launched)) {
        extent = ctx_.simplified(IrBuilder::maxExpr(extent, launched));
      }
    }
  }

  void checkCluster(const TensorView* tv, const Loop* l) const {
    constexpr int64_t kMostBlocks = 16;
    const LaunchNumber* number = kernel_->launchNumber(l->extent);
    if (number != nullptr && number->most <= kMostBlocks) {
      return;
    }
    NVF_CHECK(l->extent->isConstInt() && std::get<int64_t>(l->extent->value()) <= kMostBlocks,
              describeLoops(tv), ": a cluster needs a constant extent of at most ", kMostBlocks,
              " blocks, got ", l->extent->toInlineString());
  }

  void checkVectors(const Expr* e, TensorView* tv) {
    const TensorLoops& loops = ctx_.loops(tv);
    for (size_t i = 0; i < loops.own.size(); ++i) {
      const Loop* l = loops.own[i];
      if (l->type != ParallelType::Vectorize || l->extent->isOneInt()) {
        continue;
      }
      NVF_CHECK(loops.path.back() == l, describeLoops(tv),
                ": the vectorized axis must be the innermost one");
      const auto* welford = dynamic_cast<const WelfordOp*>(e);
      if (e->kind() == ExprKind::OnlineSoftmaxOp ||
          (welford != nullptr && !welford->combinesParts())) {
        checkVectorOfSums(e, tv, l);
        continue;
      }
      NVF_CHECK(e->kind() == ExprKind::LoadStoreOp, describeLoops(tv),
                ": only copies can be vectorized, but this tensor is computed by ", e->opName(),
                "; use cache_after or cache_before and vectorize the copy");
      NVF_CHECK(l->extent->isConstInt(), describeLoops(tv),
                ": the vectorized axis needs a constant extent, got ", l->extent->toInlineString());
      const int64_t width = std::get<int64_t>(l->extent->value());
      const int64_t bits = width * dataTypeSizeBits(tv->dtype());
      NVF_CHECK((width & (width - 1)) == 0 && bits <= 128 && bits % 8 == 0, describeLoops(tv),
                ": a vector of ", width, " elements is ", bits,
                " bits; vector accesses take 1, 2, 4, 8 or 16 bytes");
      auto* in = static_cast<TensorView*>(e->input(0));
      checkVectorMemory(tv, tv, l, width);
      checkVectorMemory(in, tv, l, width);
    }
  }

  void checkAsyncCopy(const Expr* e, TensorView* tv) {
    if (isBulkCopy(e)) {
      kernel_->bulk_copied.push_back(ctx_.bulkAccess(tv)->memory);
    } else if (isSmallAsyncCopy(e)) {
      checkSmallAsyncCopy(e, tv);
    }
    checkCircularBuffer(e, tv);
  }

  void checkSmallAsyncCopy(const Expr* e, const TensorView* tv) {
    NVF_CHECK(e->input(0)->isFusionInput() && tv->getMemoryType() == MemoryType::Shared,
              describeLoops(tv),
              ": cp_async copies an input of the fusion to a tensor in shared memory; use "
              "set_memory_type(MemoryType.shared)");
    int64_t bits = dataTypeSizeBits(tv->dtype());
    for (const Loop* l : ctx_.loops(tv).own) {
      if (l->type == ParallelType::Vectorize) {
        bits *= std::get<int64_t>(l->extent->value());
      }
    }
    NVF_CHECK(bits == 32 || bits == 64 || bits == 128, describeLoops(tv),
              ": cp_async copies 4, 8 or 16 bytes at once, got ", bits,
              " bits; vectorize its innermost axis accordingly");
  }

  void checkCircularBuffer(const Expr* e, const TensorView* tv) {
    const CircularBuffer& buffer = tv->circularBuffer();
    if (buffer.stages < 2) {
      return;
    }
    if (tv->getMemoryType() == MemoryType::Local) {
      NVF_CHECK(buffer.stages == 2 && buffer.distance == 1, "circular_buffer of ",
                describeLoops(tv), ": registers take 2 stages and a distance of 1, got ",
                buffer.stages, " and ", buffer.distance);
      NVF_CHECK(buffer.warps == ParallelType::Serial, "warp_specialize of ", describeLoops(tv),
                ": it must be in shared memory and loaded by tma");
      return;
    }
    NVF_CHECK(isBulkCopy(e) || (isSmallAsyncCopy(e) && buffer.warps == ParallelType::Serial),
              buffer.warps == ParallelType::Serial ? "circular_buffer of " : "warp_specialize of ",
              describeLoops(tv), ": a circular buffer in shared memory is loaded by ",
              buffer.warps == ParallelType::Serial ? "cp_async or tma" : "tma");
    NVF_CHECK(isBulkCopy(e) || buffer.distance > 0, "circular_buffer of ", describeLoops(tv),
              ": cp_async needs a prefetch distance of at least 1");
  }

  // Values that are taken in together: into one sum of exponentials or one mean, or
  // each into its own mean.
  // There are no parts of such a vector.
  void checkVectorOfSums(const Expr* e, const TensorView* tv, const Loop* l) {
    const IterDomain* vector = tv->getLoopDomain().back();
    for (const IterDomain* id : tv->domain()->allIds()) {
      NVF_CHECK(id->definition() == nullptr || id->definition()->kind() != ExprKind::Align,
                describeLoops(tv),
                ": rows that are aligned begin and end within vectors, which cannot be taken in as "
                "a whole");
    }
    const bool one_sum = e->kind() == ExprKind::OnlineSoftmaxOp;
    const bool fits = one_sum ? vector->isReduction() : !e->as<WelfordOp>()->combinesParts();
    NVF_CHECK(fits && l->extent->isConstInt(), describeLoops(tv), ": only ",
              one_sum ? "a reduced" : "an", " axis of constant extent can be taken in by vectors");
    const auto* split = dynamic_cast<const Split*>(vector->definition());
    if (split != nullptr && split->inner() == vector) {
      requireDivisible(ctx_.ids().extent(ctx_.ids().exact().group(split->in())), l->extent);
    }
  }

  // The vectorized group must be the innermost part of the tensor's innermost contiguous dimension.
  void checkVectorMemory(TensorView* memory, const TensorView* tv, const Loop* l, int64_t width) {
    if (memory->getMemoryType() == MemoryType::Local) {
      return;
    }
    if (memory->getMemoryType() == MemoryType::Shared) {
      std::vector<MemoryDim> dims;
      for (const LowerContext::BufferDim& dim : ctx_.bufferDims(memory)) {
        dims.push_back({dim.group, true});
      }
      const IdGroup innermost = dims.empty() ? -1 : dims.back().group;
      std::vector<Val*> divided;
      if (!dims.empty()) {
        dims.pop_back();
      }
      NVF_CHECK(innermost >= 0 && endsIn(innermost, l->group, dims, divided), describeLoops(tv),
                ": the vectorized axis is not the innermost one of ", describeLoops(memory));
      for (Val* value : divided) {
        requireDivisible(value, ctx_.ids().extent(l->group));
      }
      return;
    }
    std::vector<MemoryDim> dims = memoryDims(memory, tv);
    NVF_CHECK(!dims.empty() && dims.back().contiguous, describeLoops(memory),
              ": its innermost dimension is not contiguous, so it can't be accessed by vectors");
    const IdGroup innermost = dims.back().group;
    dims.pop_back();
    std::vector<Val*> divided;
    const bool runs_along = innermost >= 0 && endsIn(innermost, l->group, dims, divided);
    const bool is_one_row = !runs_along && innermost >= 0 && dims.empty() &&
                            memory->isFusionInput() && tv->getMemoryType() != MemoryType::Global &&
                            dataTypeSizeBits(memory->dtype()) >= 8 &&
                            runsAlongAlignedRows(innermost, l->group, divided);
    if (is_one_row) {
      kernel_->unaligned_loads[tv] = ctx_.ids().extent(innermost);
    }
    NVF_CHECK(runs_along || is_one_row, describeLoops(tv),
              ": the vectorized axis does not run along the innermost dimension of ",
              describeLoops(memory));
    for (Val* value : divided) {
      requireDivisible(value, ctx_.ids().extent(l->group));
    }
    kernel_->vector_accesses.push_back({memory, static_cast<int>(width)});
  }

  // A dimension in memory: the iteration over it, or -1 if the access has none, and whether its
  // stride is that of the next one inwards times that one's extent (or 1).
  struct MemoryDim {
    IdGroup group;
    bool contiguous;
  };

  // The last is the innermost.
  std::vector<MemoryDim> memoryDims(const TensorView* memory, const TensorView* tv) {
    const auto& allocation = memory->getMaybeAllocationDomain();
    const IdGraph& graph = ctx_.ids().exact();
    std::vector<MemoryDim> dims;
    for (size_t i = 0; i < allocation.size(); ++i) {
      const IterDomain* id = allocation[i];
      if (id->isBroadcast() || id->isReduction() || id->extent()->isOneInt()) {
        continue;
      }
      MemoryDim dim{-1, memory->getContiguity().at(i).value_or(false)};
      if (memory == tv) {
        dim.group = graph.group(id);
      } else {
        for (auto [p, c] : producerConsumerPairs(memory, tv)) {
          if (p == id && !c->isBroadcast()) {
            dim.group = graph.group(c);
          }
        }
      }
      dims.push_back(dim);
    }
    return dims;
  }

  // True if consecutive iterations of `part` are consecutive iterations of `whole`, after which
  // memory goes on with the dimensions `outwards`. `divided` then must be multiples of the extent
  // of `part`: iterations on the way that a vector must not straddle the end of, and where resizes
  // begin and end.
  bool endsIn(IdGroup whole, IdGroup part, const std::vector<MemoryDim>& outwards,
              std::vector<Val*>& divided) {
    for (const bool through_resizes : {false, true}) {
      std::unordered_set<IdGroup> seen;
      if (endsIn(whole, part, outwards, through_resizes, divided, seen)) {
        return true;
      }
    }
    return false;
  }

  bool endsIn(IdGroup whole, IdGroup part, const std::vector<MemoryDim>& outwards,
              bool through_resizes, std::vector<Val*>& divided, std::unordered_set<IdGroup>& seen) {
    if (whole == part) {
      return true;
    }
    if (!seen.insert(whole).second) {
      return false;
    }
    const IdGraph& graph = ctx_.ids().exact();
    const size_t before = divided.size();
    // The inner side of a merge is the fast one. Its end may lie within a vector if memory goes on
    // there with the outer side: such ways, which ask for nothing, first.
    for (const Expr* use : graph.uses(whole)) {
      if (const auto* s = dynamic_cast<const Split*>(use); s != nullptr && leavesNothing(s)) {
        // The inner part of a dimension that a reshape takes apart: memory goes on with the outer
        // part.
        std::vector<MemoryDim> rest = outwards;
        rest.push_back({graph.group(s->outer()), true});
        std::unordered_set<IdGroup> seen_here = seen;
        if (endsIn(graph.group(s->inner()), part, rest, through_resizes, divided, seen_here)) {
          return true;
        }
        divided.resize(before);
      }
      const auto* m = dynamic_cast<const Merge*>(use);
      std::vector<MemoryDim> rest = outwards;
      if (m != nullptr && graph.group(m->inner()) == whole &&
          goesOnWith(graph.group(m->outer()), rest, kMaxDecompositions) &&
          endsIn(graph.group(m->out()), part, rest, through_resizes, divided, seen)) {
        return true;
      }
    }
    for (const Expr* use : graph.uses(whole)) {
      IdGroup next = -1;
      // What lies together before the end that a vector must not straddle.
      Val* together = ctx_.ids().extent(whole);
      if (const auto* s = dynamic_cast<const Split*>(use)) {
        next = graph.group(s->inner());
      } else if (const auto* m = dynamic_cast<const Merge*>(use);
                 m != nullptr && graph.group(m->inner()) == whole) {
        next = graph.group(m->out());
        for (IdGroup part : partMemoryGoesOnWith(graph.group(m->outer()), outwards)) {
          together = IrBuilder::mulExpr(ctx_.ids().extent(part), together);
        }
      }
      if (const auto* a = dynamic_cast<const Align*>(use);
          a != nullptr && graph.group(a->inY()) == whole && alignsRows(a, outwards) &&
          endsIn(graph.group(a->outY()), part, {}, through_resizes, divided, seen)) {
        return true;
      }
      divided.push_back(ctx_.simplified(together));
      if (const auto* r = dynamic_cast<const Resize*>(use); r != nullptr && through_resizes) {
        next = graph.group(r->out());
        divided.push_back(ctx_.ids().canonical(r->left()));
        divided.push_back(ctx_.ids().extent(next));
      }
      if (next >= 0 && endsIn(next, part, {}, through_resizes, divided, seen)) {
        return true;
      }
      divided.resize(before);
    }
    return false;
  }

  // The rows lie one after the other in memory, as many elements apart as the alignment counts.
  bool alignsRows(const Align* a, const std::vector<MemoryDim>& outwards) {
    const IdGraph& graph = ctx_.ids().exact();
    std::vector<MemoryDim> rest = outwards;
    Val* elements = ctx_.ids().extent(graph.group(a->inY()));
    return goesOnWith(graph.group(a->inX()), rest, kMaxDecompositions) && rest.empty() &&
           provablyEqual(elements, ctx_.ids().canonical(a->stride()));
  }

  // The elements of rows that are aligned by how others lie in memory: vectors begin anywhere.
  bool runsAlongAlignedRows(IdGroup elements, IdGroup part, std::vector<Val*>& divided) {
    const IdGraph& graph = ctx_.ids().exact();
    const auto& uses = graph.uses(elements);
    return std::any_of(uses.begin(), uses.end(), [&](const Expr* use) {
      const auto* a = dynamic_cast<const Align*>(use);
      return a != nullptr && graph.group(a->inY()) == elements &&
             endsIn(graph.group(a->outY()), part, {}, divided);
    });
  }

  // The inner part of `outer` with which memory goes on, if not with all of it.
  std::vector<IdGroup> partMemoryGoesOnWith(IdGroup outer, const std::vector<MemoryDim>& rest,
                                            int decompositions = kMaxDecompositions) {
    const IdGraph& graph = ctx_.ids().exact();
    for (const Expr* def : graph.definitions(outer)) {
      const auto* m = dynamic_cast<const Merge*>(def);
      if (m == nullptr || decompositions == 0 || graph.group(m->inner()) == outer ||
          graph.group(m->outer()) == outer) {
        continue;
      }
      const IdGroup inner = graph.group(m->inner());
      std::vector<MemoryDim> after = rest;
      if (!goesOnWith(inner, after, kMaxDecompositions)) {
        if (std::vector<IdGroup> part = partMemoryGoesOnWith(inner, rest, decompositions - 1);
            !part.empty()) {
          return part;
        }
        continue;
      }
      std::vector<IdGroup> part =
          partMemoryGoesOnWith(graph.group(m->outer()), after, decompositions - 1);
      part.push_back(inner);
      return part;
    }
    return {};
  }

  bool leavesNothing(const Split* s) const {
    return s->isOfReshape() ||
           provablyDivisible(ctx_.ids().extent(ctx_.ids().exact().group(s->in())),
                             s->inner()->extent());
  }

  static constexpr int kMaxDecompositions = 64;

  // Whether memory goes on with `outer`: the next of its dimensions, the inner part of that, a
  // merge of several, or nothing but broadcasts. What is left of memory then is in `rest`.
  bool goesOnWith(IdGroup outer, std::vector<MemoryDim>& rest, int decompositions) {
    const IdGraph& graph = ctx_.ids().exact();
    const auto& ids = graph.members(outer);
    if (std::all_of(ids.begin(), ids.end(), [](auto* id) { return id->isBroadcast(); })) {
      return true;
    }
    if (rest.empty() || rest.back().group < 0 || decompositions == 0) {
      return false;
    }
    const MemoryDim next = rest.back();
    if (next.group == outer) {
      rest.pop_back();
      return next.contiguous;
    }
    for (const Expr* def : graph.definitions(outer)) {
      const auto* m = dynamic_cast<const Merge*>(def);
      std::vector<MemoryDim> after = rest;
      if (m == nullptr || graph.group(m->inner()) == outer || graph.group(m->outer()) == outer) {
        continue; // a merge with a broadcast is the other side
      }
      if (goesOnWith(graph.group(m->inner()), after, decompositions - 1) &&
          goesOnWith(graph.group(m->outer()), after, decompositions - 1)) {
        rest = std::move(after);
        return true;
      }
    }
    for (const Expr* use : graph.uses(next.group)) {
      const auto* s = dynamic_cast<const Split*>(use);
      if (s == nullptr || !leavesNothing(s)) {
        continue;
      }
      std::vector<MemoryDim> after = rest;
      after.back() = {graph.group(s->outer()), true};
      after.push_back({graph.group(s->inner()), next.contiguous});
      if (goesOnWith(outer, after, decompositions - 1)) {
        rest = std::move(after);
        return true;
      }
    }
    return false;
  }

  void requireDivisible(Val* value, Val* factor) {
    if (provablyDivisible(value, factor)) {
      return;
    }
    for (const DivisibilityCheck& c : kernel_->divisibility_checks) {
      if (c.value->sameAs(value) && c.factor->sameAs(factor)) {
        return;
      }
    }
    kernel_->divisibility_checks.push_back({value, factor, "vectorized access"});
  }

  // Registers belong to one thread, shared memory to one block: a consumer must find what it reads
  // there.
  void checkThreads(const TensorView* producer, const TensorView* consumer) {
    if (producer->isFusionInput() || producer->getMemoryType() == MemoryType::Global) {
      NVF_CHECK(producer->isFusionInput(), describeLoops(producer),
                " is an output in global memory and is read again by ", describeLoops(consumer),
                " in the same kernel; insert a copy with cache_before or cache_fork");
      return;
    }
    const bool shared = producer->getMemoryType() == MemoryType::Shared;
    const TensorLoops& mine = ctx_.loops(producer);
    const TensorLoops& theirs = ctx_.loops(consumer);
    for (size_t i = mine.shared; i < mine.path.size(); ++i) {
      const Loop* l = mine.path[i];
      // The combination gives the result of a reduced axis to all threads.
      if (l->extent->isOneInt() || !isParallelTypeThread(l->type) || isReduced(producer, l) ||
          (shared && isParallelTypeThreadDim(l->type))) {
        continue;
      }
      const bool found = std::any_of(theirs.path.begin(), theirs.path.end(), [&](const Loop* t) {
        return t->type == l->type && t->group == l->group;
      });
      NVF_CHECK(found, describeLoops(producer), " binds a loop axis to ", l->type,
                ", but its consumer ", describeLoops(consumer),
                " does not bind the same iterations to it: other threads would read what one "
                "thread wrote. Put it "
                "into ",
                isParallelTypeThreadDim(l->type) ? "shared memory" : "another kernel",
                ", inline it, or parallelize both alike");
    }
  }

  bool isReduced(const TensorView* tv, const Loop* l) const {
    const TensorLoops& loops = ctx_.loops(tv);
    for (size_t i = 0; i < loops.own.size(); ++i) {
      if (loops.own[i] == l) {
        return tv->getLoopDomain()[i]->isReduction();
      }
    }
    return false;
  }

  LowerContext& ctx_;
  Kernel* kernel_;
};

} // namespace

void checkSchedule(LowerContext& ctx) {
  ScheduleChecker(ctx).run();
}

} // namespace nvfuser
