// SPDX-License-Identifier: BSD-3-Clause
// Pass: declare registers and shared memory. A buffer is declared at the head of the innermost loop
// that its producer and all its consumers share, and has one element for every iteration of the
// loops inside of that.
#include <base/error.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ir/visitor.h>
#include <lower/context.h>

#include <algorithm>
#include <iterator>

namespace nvfuser {

namespace {

constexpr int64_t kMaxRegisterElements = 4096;
constexpr int64_t kSharedUnit = 16;

class Allocator {
 public:
  Allocator(LowerContext& ctx, const LoopNest& nest)
      : ctx_(ctx), nest_(nest), shared_bytes_(ctx.kernel()->shared_bytes) {}

  Statements run() {
    for (const Expr* e : ctx_.kernel()->exprs()) {
      for (TensorView* tv : tensorOutputs(e)) {
        place(tv);
      }
    }
    placeOverTensors(nest_.body, ctx_.kernel()->shared_bytes);
    ctx_.kernel()->shared_bytes = shared_bytes_;
    Statements out = nest_.body;
    declare(out, kTopLevel);
    return out;
  }

 private:
  // Reductions that take the memory of tensors (lower/reductions.cpp), the first of which is at
  // `begin`.
  void placeOverTensors(const Statements& body, Val* begin) {
    for (Expr* e : body) {
      if (auto* loop = tryAs<ForLoop>(e)) {
        placeOverTensors(loop->body(), begin);
      }
      auto* reduce = tryAs<ThreadReduce>(e);
      if (reduce != nullptr && reduce->bytes_over_tensors != nullptr) {
        reduce->workspace = begin == nullptr ? ctx_.kernel()->zeroVal() : begin;
        Val* end = IrBuilder::addExpr(reduce->workspace, reduce->bytes_over_tensors);
        shared_bytes_ = IrBuilder::maxExpr(shared_bytes_, end);
      }
    }
  }

  void place(TensorView* tv) {
    const TensorLoops& loops = ctx_.loops(tv);
    if (tv->getMemoryType() == MemoryType::Global) {
      NVF_CHECK(
          tv->isFusionOutput(), describeLoops(tv),
          " is in global memory but is not an output of the fusion: an intermediate tensor of one "
          "kernel lives in registers or shared memory");
      return;
    }
    // What copies fill ahead of a loop is declared before it.
    const bool early = loops.shared == 0 || ctx_.asyncBuffer(tv) != nullptr;
    const int at = early ? kTopLevel : nest_.loopId(loops.path[loops.shared - 1]);
    at_[at].push_back(allocation(tv));
  }

  Allocate* allocation(TensorView* tv) {
    Val* size = ctx_.bufferSize(tv);
    const AsyncBuffer* buffer = ctx_.asyncBuffer(tv);
    if (buffer != nullptr && buffer->isCircular()) {
      size = IrBuilder::mulExpr(ctx_.stageSize(tv), IrBuilder::index(buffer->stages));
    }
    const int width = ctx_.vectorWidth(tv);
    auto* alloc = IrBuilder::create<Allocate>(tv, tv->getMemoryType(), size, width);
    if (tv->getMemoryType() == MemoryType::Shared) {
      Val* bytes = IrBuilder::mulExpr(size, IrBuilder::index(dataTypeSizeBytes(tv->dtype())));
      Val* offset = shared_bytes_ == nullptr ? ctx_.kernel()->zeroVal() : shared_bytes_;
      offset = ctx_.simplified(roundedUp(offset, std::max(kSharedLineBytes, alignmentOfBoxes(tv))));
      alloc->setSharedOffset(offset);
      shared_bytes_ = IrBuilder::addExpr(offset, roundedUp(bytes, kSharedUnit));
      return alloc;
    }
    NVF_CHECK(size->isConstInt(), describeLoops(tv),
              " lives in registers, but the loops inside its compute-at position have the extent ",
              size->toInlineString(),
              ", which is not a constant: inline it deeper, split by constants, or put it into "
              "shared memory");
    NVF_CHECK(size->intValue() <= kMaxRegisterElements, describeLoops(tv), " would take ",
              size->intValue(), " registers a thread");
    return alloc;
  }

  // Of a buffer that bulk copies write or read; 0: it is none.
  int64_t alignmentOfBoxes(const TensorView* tv) const {
    int64_t alignment = 0;
    auto consider = [&](const TensorView* issuer) {
      if (const BulkAccess* access = ctx_.bulkAccess(issuer)) {
        alignment = std::max(alignment, bulkAlignment(*access));
      }
    };
    consider(tv);
    for (const TensorView* c : consumerTvsOf(tv)) {
      consider(c);
    }
    return alignment;
  }

  // Puts the declarations that belong into loop `at` in front of its body. A loop that only
  // initializes a reduction is another statement of the same loop and has none.
  // Returns the definitions that the body computes.
  std::unordered_set<const Expr*> declare(Statements& body, int at) {
    std::unordered_set<const Expr*> computed;
    for (Expr* e : body) {
      const auto* step = tryAs<ReduceStep>(e);
      if (auto* loop = tryAs<ForLoop>(e)) {
        computed.merge(declare(loop->body(), loop->loopId()));
      } else if (step != nullptr && step->part() == ReduceStep::Part::Accumulate) {
        computed.insert(step->reduction());
      } else {
        computed.insert(e);
      }
    }
    if (auto it = at_.find(at); it != at_.end()) {
      Statements here;
      std::copy_if(it->second.begin(), it->second.end(), std::back_inserter(here), [&](Expr* a) {
        return computed.count(static_cast<Allocate*>(a)->tv()->definition()) != 0;
      });
      body.insert(body.begin(), here.begin(), here.end());
    }
    return computed;
  }

  static constexpr int kTopLevel = -1;
  LowerContext& ctx_;
  const LoopNest& nest_;
  std::map<int, Statements> at_;
  Val* shared_bytes_; // so far
};

} // namespace

Statements insertAllocations(LowerContext& ctx, const LoopNest& nest) {
  return Allocator(ctx, nest).run();
}

} // namespace nvfuser
