// SPDX-License-Identifier: BSD-3-Clause
// See streamed_stores.h.
#include <lower/streamed_stores.h>

#include <ir/builder.h>
#include <kernel/accesses.h>
#include <lower/moved.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

using B = IrBuilder;

class StoreFinder {
 public:
  explicit StoreFinder(const LowerContext& ctx)
      : ctx_(ctx),
        x_(B::create<NamedScalar>(std::string(parallelTag(ParallelType::TIDx)), DataType::Index)) {}

  void run(const Statements& nest) {
    collectReads(nest);
    find(nest);
  }

 private:
  void collectReads(const Statements& list) {
    for (const Expr* e : list) {
      for (const Val* v : accessesOf(e).read) {
        if (v != nullptr) {
          forElementsIn(v, [&](const TensorIndex* each) { read_.insert(each->view()); });
        }
      }
      for (const Statements* body : bodiesOf(e)) {
        collectReads(*body);
      }
    }
  }

  void find(const Statements& list) {
    for (Expr* e : list) {
      if (auto* loop = tryAs<ThreadLoop>(e)) {
        findIn(loop);
      } else {
        for (const Statements* body : bodiesOf(e)) {
          find(*body);
        }
      }
    }
  }

  // Threads lie along x alone, and each writes one element.
  void findIn(ThreadLoop* loop) {
    const std::array<int64_t, 3>& extents = ctx_.kernel()->thread_loops.extents;
    if (extents[0] <= 1 || extents[1] != 1 || extents[2] != 1 || loop->pieces.first != nullptr ||
        loop->transposed.to != nullptr) {
      return;
    }
    for (const Expr* e : loop->body()) {
      if (e->kind() != ExprKind::ElementwiseOp && e->kind() != ExprKind::LoadStoreOp) {
        continue;
      }
      const auto* out = tryAs<TensorIndex>(e->output(0));
      if (out == nullptr || !out->view()->isFusionOutput() || read_.count(out->view()) != 0 ||
          dataTypeSizeBits(out->dtype()) < 8 || isWrittenTwice(loop, out->view())) {
        continue;
      }
      Val* next = Mover(ctx_, x_, B::addExpr(x_, B::index(1))).moved(out->index());
      if (!ctx_.simplified(B::subExpr(next, out->index()))->isOneInt()) {
        continue;
      }
      Val* first = ctx_.simplified(Mover(ctx_, x_, B::index(0)).moved(out->index()));
      loop->streamed.push_back(B::create<TensorIndex>(out->view(), first));
    }
  }

  static bool isWrittenTwice(const ThreadLoop* loop, const TensorView* tv) {
    int writes = 0;
    const auto count = [&](const auto& self, const Statements& list) -> void {
      for (const Expr* e : list) {
        for (const Val* v : accessesOf(e).written) {
          const auto* element = v == nullptr ? nullptr : tryAs<TensorIndex>(v);
          writes += element != nullptr && element->view() == tv ? 1 : 0;
        }
        for (const Statements* body : bodiesOf(e)) {
          self(self, *body);
        }
      }
    };
    count(count, loop->body());
    return writes > 1;
  }

  const LowerContext& ctx_;
  Val* x_;
  std::unordered_set<const TensorView*> read_;
};

} // namespace

void findStreamedStores(const LowerContext& ctx, const Statements& nest) {
  if (ctx.kernel()->streamsOutputs()) {
    StoreFinder(ctx).run(nest);
  }
}

} // namespace nvfuser
