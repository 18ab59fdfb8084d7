// SPDX-License-Identifier: BSD-3-Clause
// Pass: what registers keep for a loop that loads ahead has arrived when the loop begins.
//
//   T = load(); for i: next = load(i + 1); use T
//                              ->    T = load(); wait for T; for i: next = load(i + 1); use T
//
// A warp waits for its loads by counters, of which there are six: where those before the loop share
// one with those of the next iteration, each iteration waits for loads that only the next one needs
// (docs/measurements/normalizations.md).
#include <ir/builder.h>
#include <lower/context.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace nvfuser {

namespace {

class LoadWaiter {
 public:
  // Statements that all threads come to: nothing below a branch.
  Statements run(const Statements& nest) {
    Statements out;
    for (Expr* e : nest) {
      auto* loop = tryAs<ForLoop>(e);
      if (loop != nullptr && loop->isTrivial()) {
        loop->body() = run(loop->body());
      } else if (loop != nullptr && prefetchesLoads(loop)) {
        waitBefore(loop, out);
      } else {
        collect(e);
      }
      out.push_back(e);
    }
    return out;
  }

 private:
  static bool prefetchesLoads(const ForLoop* loop) {
    return std::any_of(loop->body().begin(), loop->body().end(),
                       [](const Expr* e) { return e->kind() == ExprKind::BufferCopy; });
  }

  void waitBefore(const ForLoop* loop, Statements& out) {
    std::unordered_set<const TensorView*> first_iteration;
    for (const Expr* e : loop->body()) {
      if (const auto* copy = tryAs<BufferCopy>(e)) {
        first_iteration.insert(copy->from());
      }
    }
    for (TensorView* tv : loaded_) {
      if (first_iteration.count(tv) == 0) {
        out.push_back(IrBuilder::create<WaitForLoads>(tv));
      }
    }
    loaded_.clear();
  }

  void collect(const Expr* e) {
    for (const Statements* body : bodiesOf(e)) {
      std::for_each(body->begin(), body->end(), [&](const Expr* inner) { collect(inner); });
      // Nobody outside sees the registers that are declared there.
      for (const Expr* inner : *body) {
        if (const auto* declared = tryAs<Allocate>(inner)) {
          std::erase(loaded_, declared->tv());
        }
      }
    }
    if (e->kind() == ExprKind::LoadStoreOp) {
      const auto* to = tryAs<TensorIndex>(e->output(0));
      const auto* from = tryAs<TensorIndex>(e->input(0));
      if (to != nullptr && from != nullptr && isLocal(to) && !isLocal(from) &&
          std::find(loaded_.begin(), loaded_.end(), to->view()) == loaded_.end()) {
        loaded_.push_back(to->view());
      }
    }
  }

  static bool isLocal(const TensorIndex* at) {
    return at->view()->getMemoryType() == MemoryType::Local;
  }

  std::vector<TensorView*> loaded_;
};

} // namespace

Statements waitForEarlierLoads(const Statements& nest) {
  return LoadWaiter().run(nest);
}

} // namespace nvfuser
