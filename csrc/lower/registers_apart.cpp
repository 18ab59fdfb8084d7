// SPDX-License-Identifier: BSD-3-Clause
// Pass, for blocks whose threads run in loops: finds the registers that lie in memory and that a
// loop accesses beside accumulators that fit into the processor's registers.
//
//   for j:
//     for tx:
//       S[tx] = S[tx] + x          stays in the processor's registers if the compiler sees that
//       R[j, tx] = R[j, tx] + y    this does not write it
//
// Both are arrays of the function, and compilers do not tell vectors of one from those of another:
// S would be stored and loaded again in each iteration, and each addition wait for that. So the
// printer hides where R is (nvf::apart). Elsewhere it does not: then R could be any tensor.
#include <kernel/accesses.h>
#include <lower/context.h>

#include <algorithm>
#include <unordered_map>

namespace nvfuser {

namespace {

class Finder {
 public:
  explicit Finder(ThreadLoops& threads) : threads_(threads) {}

  void run(const Statements& list, const ForLoop* around) {
    for (const Expr* e : list) {
      if (const auto* allocate = tryAs<Allocate>(e)) {
        if (threads_.registers.count(allocate->tv()) != 0) {
          bytes_[allocate->tv()] = allocate->size()->intValue() * threads_.threads() *
                                   dataTypeSizeBytes(allocate->tv()->dtype());
        }
      } else if (const auto* loop = tryAs<ForLoop>(e)) {
        run(loop->body(), loop->isTrivial() ? around : loop);
      } else if (const auto* branch = tryAs<IfThenElse>(e)) {
        run(branch->thenBody(), around);
        run(branch->elseBody(), around);
      } else if (const auto* threads = tryAs<ThreadLoop>(e);
                 threads != nullptr && around != nullptr) {
        visit(threads->body(), around);
      }
    }
  }

 private:
  // What a loop over threads does in each iteration of the loop around it.
  void visit(const Statements& body, const ForLoop* around) {
    std::vector<const TensorView*> large;
    bool is_beside = false;
    for (const Expr* e : body) {
      if (!isElementOp(e)) {
        continue;
      }
      for (const std::vector<Val*>* values : {&e->inputs(), &e->outputs()}) {
        for (const Val* v : *values) {
          const auto* element = tryAs<TensorIndex>(v);
          if (element != nullptr && isLarge(element->view())) {
            large.push_back(element->view());
          }
        }
      }
      is_beside = is_beside || (accumulates(e, around->index()) &&
                                isSmall(e->output(0)->as<TensorIndex>()->view()));
    }
    if (is_beside) {
      threads_.apart.insert(large.begin(), large.end());
    }
  }

  bool isLarge(const TensorView* tv) const {
    const auto it = bytes_.find(tv);
    return it != bytes_.end() && it->second > ThreadLoops::kMostProcessorBytes;
  }

  bool isSmall(const TensorView* tv) const {
    return bytes_.count(tv) != 0 && !isLarge(tv);
  }

  ThreadLoops& threads_;
  std::unordered_map<const TensorView*, int64_t> bytes_; // of the registers of all threads
};

} // namespace

void findRegistersApart(LowerContext& ctx, const Statements& nest) {
  Finder(ctx.kernel()->thread_loops).run(nest, nullptr);
}

} // namespace nvfuser
