// SPDX-License-Identifier: BSD-3-Clause
// Pass: is the schedule legal? Errors are in terms of the user's call. Along the way the kernel
// learns its launch extents and what must be checked at launch.
#include <base/error.h>
#include <id_model/layout.h>
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
  explicit ScheduleChecker(LowerContext& ctx)
      : ctx_(ctx), kernel_(ctx.kernel()), layout_(ctx.ids()) {}

  void run() {
    for (const Val* input : kernel_->inputs()) {
      if (input->isTensor()) {
        checkMemory(input->as<TensorView>());
      }
    }
    for (const Expr* e : kernel_->exprs()) {
      TensorView* tv = LowerContext::outputOf(e);
      checkMemory(tv);
      checkCopy(e, tv);
      checkTypes(e, tv);
      collectExtents(tv);
      checkVectors(e, tv);
      checkScanAxis(e, tv);
      checkAsyncCopy(e, tv);
      for (TensorView* producer : tensorInputs(e)) {
        checkThreads(producer, tv);
      }
    }
  }

 private:
  // Memory that the schedule can name but kernels cannot use.
  void checkMemory(const TensorView* tv) const {
    NVF_CHECK(tv->getMemoryType() != MemoryType::Tensor, tv->toString(),
              ": tensor memory (MemoryType.tensor) is not supported: no instruction of these "
              "kernels reads or writes it; use MemoryType.local or MemoryType.shared");
    NVF_CHECK(tv->getMemoryType() != MemoryType::Symmetric, tv->toString(),
              ": symmetric memory (MemoryType.symmetric) is not supported: a kernel runs on one "
              "device; use MemoryType.global");
  }

  // Ways to copy, and cache operators, that nothing implements.
  void checkCopy(const Expr* e, const TensorView* tv) const {
    const auto* copy = tryAs<LoadStoreOp>(e);
    if (copy == nullptr) {
      return;
    }
    NVF_CHECK(copy->type() != LoadStoreOpType::LdMatrix, tv->toString(),
              ": ldmatrix (LoadStoreOpType.load_matrix) is not supported: it loads operands of "
              "tensor cores, which these kernels do not use; use LoadStoreOpType.set");
    const CacheOp cache_op = copy->cacheOp();
    if (cache_op == CacheOp::Unspecified) {
      return;
    }
    const MemoryType from = copy->in()->as<TensorView>()->getMemoryType();
    NVF_CHECK(from == MemoryType::Global || tv->getMemoryType() == MemoryType::Global,
              tv->toString(), ": cache_op ", cache_op,
              " is only for copies from or to global memory");
    NVF_CHECK(!isBulkCopy(e), tv->toString(), ": tma copies have no cache_op, got ", cache_op);
    NVF_CHECK(!isSmallAsyncCopy(e) || cache_op == CacheOp::AllLevels, tv->toString(),
              ": cp_async has the cache_op all_levels and no other, got ", cache_op);
  }

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
      NVF_CHECK(type != ParallelType::Stream, tv->toString(),
                ": an axis bound to streams (ParallelType.stream) is not supported: a kernel runs "
                "in one stream; leave the axis serial or bind it to blocks");
      NVF_CHECK(!isParallelTypeDeviceDim(type) || l->extent->isOneInt(), tv->toString(), ": ", type,
                " is bound to an axis of extent ", l->extent->toInlineString(),
                ", but several devices are not supported: only an extent of 1 can be");
    }
  }

  // Scatters go along their axis one element after the other, and scans too unless threads share
  // it.
  void checkScanAxis(const Expr* e, const TensorView* tv) {
    int64_t dim = -1;
    if (isThreadScan(ctx_, e)) {
      checkThreadScan(ctx_, e);
      return;
    }
    if (const auto* scan = tryAs<ScanOp>(e)) {
      NVF_CHECK(!loopsOfScan(ctx_, scan).empty(), describeLoops(tv),
                ": the loops along the dimension of a scan must be the innermost ones, serial and "
                "in order, and not be merged with others");
      return;
    }
    if (const auto* scatter = tryAs<ScatterOp>(e)) {
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
    const TensorLoops& loops = ctx_.loops(tv);
    // A loop is of a cluster if one of the tensors in it says so.
    for (size_t i = 0; i < loops.own.size(); ++i) {
      const Loop* l = loops.own[i];
      if (isParallelTypeBlockDim(l->type) && tv->getLoopDomain()[i]->isClustered()) {
        checkCluster(tv, l);
        kernel_->cluster_extents[l->type] = l->extent;
      }
    }
    for (const Loop* l : loops.path) {
      if (!isParallelTypeThread(l->type)) {
        continue;
      }
      const std::optional<LaunchNumber> number = kernel_->launchNumber(l->extent);
      Val* launched = number.has_value() && number->padded != nullptr ? number->padded : l->extent;
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
    const std::optional<LaunchNumber> number = kernel_->launchNumber(l->extent);
    if (number.has_value() && number->most <= kMostBlocks) {
      return;
    }
    NVF_CHECK(l->extent->isConstInt() && l->extent->intValue() <= kMostBlocks, describeLoops(tv),
              ": a cluster needs a constant extent of at most ", kMostBlocks, " blocks, got ",
              l->extent->toInlineString());
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
      NVF_CHECK(std::find(loops.path.begin() + static_cast<ptrdiff_t>(loops.shared),
                          loops.path.end(), l) != loops.path.end(),
                tv->toString(),
                ": it is inlined into the vectorized axis of its consumer; bind axes to vectorize "
                "before inlining, which then stops outside of them");
      const auto* welford = tryAs<WelfordOp>(e);
      if (e->kind() == ExprKind::OnlineSoftmaxOp ||
          (welford != nullptr && !welford->combinesParts())) {
        checkVectorOfSums(e, tv, l);
        continue;
      }
      const bool is_copy =
          e->kind() == ExprKind::LoadStoreOp || e->kind() == ExprKind::ScatterStoreOp;
      NVF_CHECK(is_copy, describeLoops(tv),
                ": only copies can be vectorized, but this tensor is computed by ", e->opName(),
                "; use cache_after or cache_before and vectorize the copy");
      NVF_CHECK(l->extent->isConstInt(), describeLoops(tv),
                ": the vectorized axis needs a constant extent, got ", l->extent->toInlineString());
      const int64_t width = l->extent->intValue();
      const int64_t bits = width * dataTypeSizeBits(tv->dtype());
      NVF_CHECK((width & (width - 1)) == 0 && bits <= 128 && bits % 8 == 0, describeLoops(tv),
                ": a vector of ", width, " elements is ", bits,
                " bits; vector accesses take 1, 2, 4, 8 or 16 bytes");
      checkVectorMemory(tv, tv, l, width);
      if (e->input(0)->isTensor()) {
        checkVectorMemory(e->input(0)->as<TensorView>(), tv, l, width);
      }
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
        bits *= l->extent->intValue();
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

  // Values that are accumulated together: into one sum of exponentials or one mean, or
  // each into its own mean.
  // There are no parts of such a vector.
  void checkVectorOfSums(const Expr* e, const TensorView* tv, const Loop* l) {
    const IterDomain* vector = tv->getLoopDomain().back();
    for (const IterDomain* id : tv->domain()->allIds()) {
      NVF_CHECK(id->definition() == nullptr || id->definition()->kind() != ExprKind::Align,
                describeLoops(tv),
                ": rows that are aligned begin and end within vectors, which cannot be "
                "accumulated as a whole");
    }
    const bool one_sum = e->kind() == ExprKind::OnlineSoftmaxOp;
    const bool fits = one_sum ? vector->isReduction() : !e->as<WelfordOp>()->combinesParts();
    NVF_CHECK(fits && l->extent->isConstInt(), describeLoops(tv), ": only ",
              one_sum ? "a reduced" : "an",
              " axis of constant extent can be accumulated by vectors");
    const auto* split = tryAs<Split>(vector->definition());
    if (split != nullptr && split->inner() == vector) {
      requireDivisible(ctx_.ids().extent(ctx_.ids().exact().group(split->in())), l->extent);
    }
  }

  // The vectorized axis must run along the tensor's innermost dimensions in memory.
  void checkVectorMemory(TensorView* memory, const TensorView* tv, const Loop* l, int64_t width) {
    if (memory->getMemoryType() == MemoryType::Local) {
      return;
    }
    if (memory->getMemoryType() == MemoryType::Shared) {
      std::vector<AccessedDim> dims;
      for (const LowerContext::BufferDim& dim : ctx_.bufferDims(memory)) {
        dims.push_back({{}, nullptr, dim.group, dim.extent, true});
      }
      const ContiguousRun run = layout_.runOf(l->group, dims);
      NVF_CHECK(!run.empty(), describeLoops(tv),
                ": the vectorized axis is not the innermost one of ", describeLoops(memory));
      requireMultiples(run, l);
      return;
    }
    std::vector<AccessedDim> dims = layout_.accessedDims(memory, tv);
    std::erase_if(dims, [](const AccessedDim& dim) { return dim.extent->isOneInt(); });
    NVF_CHECK(!dims.empty() && dims.back().contiguous, describeLoops(memory),
              ": its innermost dimension is not contiguous, so it can't be accessed by vectors");
    ContiguousRun run = layout_.runOf(l->group, dims);
    const IdGroup elements = dims.back().group;
    if (run.empty() && elements >= 0 && dims.size() == 1 && memory->isFusionInput() &&
        tv->getMemoryType() != MemoryType::Global && dataTypeSizeBits(memory->dtype()) >= 8) {
      run = layout_.runInAlignedRow(l->group, elements);
      if (!run.empty()) {
        kernel_->unaligned_loads[tv] = ctx_.ids().extent(elements);
      }
    }
    NVF_CHECK(!run.empty(), describeLoops(tv),
              ": the vectorized axis does not run along the innermost dimension of ",
              describeLoops(memory));
    requireMultiples(run, l);
    kernel_->vector_accesses.push_back({memory, static_cast<int>(width)});
  }

  void requireMultiples(const ContiguousRun& run, const Loop* vector) {
    for (const std::vector<Val*>& factors : run.multiples) {
      Val* product = kernel_->oneVal();
      for (Val* factor : factors) {
        product = IrBuilder::mulExpr(factor, product);
      }
      requireDivisible(ctx_.simplified(product), ctx_.ids().extent(vector->group));
    }
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
      // A cross-thread reduction gives the result of a reduced axis to all threads.
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
  Layout layout_;
};

} // namespace

void checkSchedule(LowerContext& ctx) {
  ScheduleChecker(ctx).run();
}

} // namespace nvfuser
