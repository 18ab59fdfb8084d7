// SPDX-License-Identifier: BSD-3-Clause
// See streamed_stores.h.
#include <lower/streamed_stores.h>

#include <ir/builder.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/moved.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

namespace {

using B = IrBuilder;

class StoreFinder {
 public:
  explicit StoreFinder(const LowerContext& ctx)
      : ctx_(ctx),
        x_(B::create<NamedScalar>(std::string(parallelTag(ParallelType::TIDx)), DataType::Index)),
        block_(B::create<NamedScalar>(std::string(parallelTag(ParallelType::BIDx)),
                                      DataType::Index)) {}

  void run(const Statements& nest) {
    collectReads(nest);
    find(nest);
  }

 private:
  void collectReads(const Statements& list) {
    forEachStatement(list, [&](const Expr* e) {
      for (const Val* v : accessesOf(e).read) {
        if (v != nullptr) {
          forElementsIn(v, [&](const TensorIndex* each) { read_.insert(each->view()); });
        }
      }
    });
  }

  void find(const Statements& list, int loops = 0) {
    for (Expr* e : list) {
      if (auto* loop = tryAs<ThreadLoop>(e)) {
        if (isAlongX(loop)) {
          findIn(loop);
          if (loops <= 1) { // else a block has several rows, one after the other
            fetchAhead(loop);
          }
        }
      } else {
        const auto* around = tryAs<ForLoop>(e);
        const bool is_loop = around != nullptr && !around->isTrivial();
        for (const Statements* body : bodiesOf(e)) {
          find(*body, loops + (is_loop ? 1 : 0));
        }
      }
    }
  }

  bool isAlongX(const ThreadLoop* loop) const {
    const std::array<int64_t, 3>& extents = ctx_.kernel()->thread_loops.extents;
    return extents[0] > 1 && extents[1] == 1 && extents[2] == 1 && loop->pieces.first == nullptr &&
           loop->transposed.to == nullptr;
  }

  // Threads have neighbours.
  bool isUnitStride(Val* index) const {
    return stepAlong(ctx_, x_, index)->isOneInt();
  }

  TensorIndex* ofFirstThread(TensorView* tv, Val* index) const {
    return B::create<TensorIndex>(tv, ctx_.simplified(Mover(ctx_, x_, B::index(0)).moved(index)));
  }

  // In the second of the loops that read an input by rows of blocks.
  void fetchAhead(ThreadLoop* loop) {
    std::unordered_set<const TensorView*> here;
    for (const Expr* e : loop->body()) {
      for (const Val* v : accessesOf(e).read) {
        const auto* element = v == nullptr ? nullptr : tryAs<TensorIndex>(v);
        if (element == nullptr || !element->view()->isFusionInput() ||
            !dependsOn(element->index(), block_) || !here.insert(element->view()).second ||
            ++loops_that_read_[element->view()] != 2 || !isUnitStride(element->index())) {
          continue;
        }
        Val* next = Mover(ctx_, block_, B::addExpr(block_, B::index(1))).moved(element->index());
        loop->fetched_ahead.push_back(ofFirstThread(element->view(), next));
      }
    }
  }

  void findIn(ThreadLoop* loop) {
    for (const Expr* e : loop->body()) {
      if (!isElementOp(e)) {
        continue;
      }
      const auto* out = tryAs<TensorIndex>(e->output(0));
      if (out == nullptr || !out->view()->isFusionOutput() || read_.count(out->view()) != 0 ||
          dataTypeSizeBits(out->dtype()) < 8 || isWrittenTwice(loop, out->view()) ||
          out->dtype() == DataType::Bool) { // in an array of the function it is no byte
        continue;
      }
      if (isUnitStride(out->index())) {
        loop->streamed.push_back(ofFirstThread(out->view(), out->index()));
      }
    }
  }

  static bool isWrittenTwice(const ThreadLoop* loop, const TensorView* tv) {
    std::ptrdiff_t writes = 0;
    forEachStatement(loop->body(), [&](const Expr* e) {
      const std::vector<const TensorView*> written = tensorAccessesOf(e).written;
      writes += std::count(written.begin(), written.end(), tv);
    });
    return writes > 1;
  }

  const LowerContext& ctx_;
  Val* x_;
  Val* block_;
  std::unordered_set<const TensorView*> read_;
  std::unordered_map<const TensorView*, int> loops_that_read_;
};

} // namespace

void findStreamedStores(const LowerContext& ctx, const Statements& nest) {
  if (ctx.kernel()->streamsOutputs()) {
    StoreFinder(ctx).run(nest);
  }
}

} // namespace nvfuser
