// SPDX-License-Identifier: BSD-3-Clause
// Pass: which buffers in shared memory asynchronous copies fill together, and when
// (AsyncBuffer).
//
// All accesses to such a buffer are in the body of one loop, the innermost that its load and its
// readers share. In iteration i of that body its copies are issued, waited for and read. Where a
// buffer is circular, iteration i uses slot i % stages, and the pass
// "pipeline copies" moves the copies ahead.
#include <base/error.h>
#include <ir/builder.h>
#include <ir/visitor.h>
#include <lower/context.h>
#include <lower/reductions.h>
#include <lower/scans.h>
#include <machine.h>

#include <algorithm>

namespace nvfuser {

namespace {

constexpr int64_t kBarrierBytes = 8;
constexpr int64_t kAlignment = 16;
constexpr int64_t kWarpGroup = 4 * kWarp;

bool isPrinted(const Loop* l) {
  return !isParallelTypeThread(l->type) && !l->extent->isOneInt();
}

class AsyncBufferFinder {
 public:
  explicit AsyncBufferFinder(LowerContext& ctx) : ctx_(ctx), kernel_(ctx.kernel()) {}

  void run() {
    for (const Expr* e : kernel_->exprs()) {
      TensorView* tv = LowerContext::outputOf(e);
      if (tv->getMemoryType() != MemoryType::Shared) {
        continue;
      }
      if (isBulkCopy(e) || (isSmallAsyncCopy(e) && tv->isCircularBuffered())) {
        add(tv, isBulkCopy(e));
      }
    }
    for (AsyncBuffer& buffer : kernel_->async_buffers) {
      if (buffer.bulk) {
        placeBarriers(buffer);
      }
    }
    findLoadWarps();
  }

 private:
  using B = IrBuilder;

  void add(TensorView* tv, bool bulk) {
    AsyncBuffer buffer;
    buffer.tensors = {tv};
    buffer.bulk = bulk;
    buffer.stages = tv->circularBuffer().stages;
    buffer.distance = tv->circularBuffer().distance;
    const TensorLoops& loops = ctx_.loops(tv);
    buffer.loop = loops.shared == 0 ? -1 : loops.path[loops.shared - 1]->id;
    buffer.iteration = iterationOf(tv);
    for (size_t i = 0; i < loops.shared; ++i) {
      buffer.iteration_loop = isPrinted(loops.path[i]) ? loops.path[i]->id : buffer.iteration_loop;
    }
    if (bulk) {
      const BulkAccess& access = *ctx_.bulkAccess(tv);
      buffer.bytes = bytesOf(tv);
      buffer.counts_by_copy = access.is_linear && mayRunOver(ctx_, access);
      buffer.issuers = issuersOf(tv);
    }
    if (buffer.isCircular()) {
      NVF_CHECK(buffer.iteration_loop >= 0, tv->toString(),
                ": a circular buffer is inlined into a serial loop, ahead of whose iterations it "
                "is loaded");
      if (AsyncBuffer* other = sameBuffer(tv, buffer)) {
        other->tensors.push_back(tv);
        if (bulk) {
          other->bytes = B::addExpr(other->bytes, buffer.bytes);
          other->counts_by_copy = other->counts_by_copy || buffer.counts_by_copy;
        }
        return;
      }
    }
    kernel_->async_buffers.push_back(buffer);
  }

  // Circular buffers that are filled in the same iterations are filled together.
  AsyncBuffer* sameBuffer(const TensorView* tv, const AsyncBuffer& buffer) {
    for (AsyncBuffer& other : kernel_->async_buffers) {
      if (!other.isCircular() || other.loop != buffer.loop || other.bulk != buffer.bulk) {
        continue;
      }
      const bool same = other.stages == buffer.stages && other.distance == buffer.distance;
      NVF_CHECK(same || buffer.bulk, tv->toString(),
                ": circular buffers that cp_async loads in the same loop "
                "have the same stages and prefetch distance, but ",
                other.tensors.front()->toString(), " has ", other.stages, " and ", other.distance);
      // By each thread, or by one for all.
      if (same && (!buffer.bulk || (!bindsThreads(tv) && !bindsThreads(other.tensors.front())))) {
        return &other;
      }
    }
    return nullptr;
  }

  bool bindsThreads(const TensorView* tv) const {
    const TensorLoops& loops = ctx_.loops(tv);
    return std::any_of(loops.own.begin(), loops.own.end(), [](const Loop* l) {
      return isParallelTypeThreadDim(l->type) && !l->extent->isOneInt();
    });
  }

  Val* iterationOf(const TensorView* tv) const {
    const TensorLoops& loops = ctx_.loops(tv);
    Val* iteration = kernel_->zeroVal();
    for (size_t i = 0; i < loops.shared; ++i) {
      const Loop* l = loops.path[i];
      if (isPrinted(l)) {
        iteration = B::addExpr(B::mulExpr(iteration, l->extent), l->index);
      }
    }
    return ctx_.simplified(iteration);
  }

  // All boxes of an iteration, those outside of the tensor too. Threads have their own even in
  // loops that are around the iteration.
  Val* bytesOf(const TensorView* tv) const {
    const TensorLoops& loops = ctx_.loops(tv);
    Val* bytes = B::index(ctx_.bulkAccess(tv)->box_bytes);
    for (size_t i = 0; i < loops.path.size(); ++i) {
      const Loop* l = loops.path[i];
      const bool inside = i >= loops.shared && l->type != ParallelType::Bulk;
      if (isParallelTypeThreadDim(l->type) || (inside && !isParallelTypeBlockDim(l->type))) {
        bytes = B::mulExpr(bytes, l->extent);
      }
    }
    return ctx_.simplified(bytes);
  }

  Val* issuersOf(const TensorView* tv) const {
    Val* threads = kernel_->oneVal();
    for (const Loop* l : ctx_.loops(tv).own) {
      threads = isParallelTypeThreadDim(l->type) ? B::mulExpr(threads, l->extent) : threads;
    }
    return ctx_.simplified(threads);
  }

  void placeBarriers(AsyncBuffer& buffer) {
    const int64_t count = buffer.isCircular() ? 2 * buffer.stages : 1;
    const int64_t bytes = (count * kBarrierBytes + kAlignment - 1) / kAlignment * kAlignment;
    buffer.barriers = kernel_->shared_bytes == nullptr ? kernel_->zeroVal() : kernel_->shared_bytes;
    kernel_->shared_bytes = B::addExpr(buffer.barriers, B::index(bytes));
  }

  // --- warps that do nothing but load ---

  void findLoadWarps() {
    const TensorView* first = nullptr;
    for (const AsyncBuffer& buffer : kernel_->async_buffers) {
      for (const TensorView* tv : buffer.tensors) {
        const CircularBuffer& buffer = tv->circularBuffer();
        if (buffer.warps == ParallelType::Serial) {
          continue;
        }
        if (first == nullptr) {
          first = tv;
        }
        const CircularBuffer& other = first->circularBuffer();
        NVF_CHECK(buffer.warps == other.warps && buffer.registers == other.registers,
                  "warp_specialize of ", tv->toString(),
                  ": one kernel has one group of warps that load, but for ", first->toString(),
                  " it is along ", other.warps, " or has other numbers of registers");
      }
    }
    if (first == nullptr) {
      return;
    }
    for (const AsyncBuffer& buffer : kernel_->async_buffers) {
      for (const TensorView* tv : buffer.tensors) {
        NVF_CHECK(!buffer.isCircular() || tv->circularBuffer().warps != ParallelType::Serial,
                  "warp_specialize of ", first->toString(), ": ", tv->toString(),
                  " is a circular buffer too, but loaded by the threads that compute; use "
                  "warp_specialize for all of them");
      }
    }
    NVF_CHECK(kernel_->cluster_extents.empty(), "warp_specialize of ", first->toString(),
              ": not in a kernel of clusters");
    for (const Expr* e : kernel_->exprs()) {
      NVF_CHECK(!reducesBlocks(e), "warp_specialize of ", first->toString(),
                ": not in a kernel that reduces over blocks, as it does for ",
                LowerContext::outputOf(e)->toString());
      NVF_CHECK(!isThreadScan(ctx_, e), "warp_specialize of ", first->toString(),
                ": not in a kernel whose threads share a scan, as they do for ",
                LowerContext::outputOf(e)->toString());
    }
    placeLoadWarps(first);
  }

  bool reducesBlocks(const Expr* e) const {
    if (!isReduction(e)) {
      return false;
    }
    const ReductionShape shape = reductionShape(ctx_, LowerContext::outputOf(e));
    return std::any_of(shape.grid.begin(), shape.grid.end(), [](bool b) { return b; });
  }

  void placeLoadWarps(const TensorView* tv) {
    const CircularBuffer& buffer = tv->circularBuffer();
    LoadWarps& warps = kernel_->load_warps;
    warps.type = buffer.warps;
    warps.compute_threads = 1;
    int64_t inner = 1; // threads of one layer
    int64_t up_to = 1; // of one layer and those before it
    for (const ParallelType type : {ParallelType::TIDx, ParallelType::TIDy, ParallelType::TIDz}) {
      const int64_t extent = threads(tv, type);
      warps.compute_threads *= extent;
      inner *= type < buffer.warps ? extent : 1;
      up_to *= type <= buffer.warps ? extent : 1;
    }
    const int64_t unit = buffer.registers.has_value() ? kWarpGroup : kWarp;
    NVF_CHECK(up_to % unit == 0, "warp_specialize of ", tv->toString(),
              ": the threads that compute, up to ", buffer.warps, ", must fill whole ",
              buffer.registers.has_value() ? "groups of four warps" : "warps", ", which there are ",
              up_to, " of");
    warps.extra = (unit + inner - 1) / inner;
    NVF_CHECK(warps.extra * inner % unit == 0, "warp_specialize of ", tv->toString(),
              ": layers of ", inner, " threads along ", buffer.warps, " can not fill groups of ",
              unit);
    warps.load_threads = warps.compute_threads / threads(tv, buffer.warps) * warps.extra;
    if (buffer.registers.has_value()) {
      warps.load_registers = buffer.registers->first;
      warps.compute_registers = buffer.registers->second;
    }
  }

  int64_t threads(const TensorView* tv, ParallelType type) const {
    auto it = kernel_->parallel_extents.find(type);
    if (it == kernel_->parallel_extents.end()) {
      return 1;
    }
    NVF_CHECK(it->second->isConstInt(), "warp_specialize of ", tv->toString(), ": the extent of ",
              type, " must be a constant, got ", it->second->toInlineString());
    return it->second->intValue();
  }

  LowerContext& ctx_;
  Kernel* kernel_;
};

} // namespace

void makeAsyncBuffers(LowerContext& ctx) {
  AsyncBufferFinder(ctx).run();
}

} // namespace nvfuser
