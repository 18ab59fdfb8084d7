// SPDX-License-Identifier: BSD-3-Clause
// Pass: loads of circular-buffered registers run one iteration ahead.
//
//   for i: T = load(i); use T        next = load(0)
//                              ->    for i:
//                                      T = next
//                                      if i + 1 < n: next = load(i + 1)
//                                      use T
//
// The loads of the next iteration are under way while this one computes. They have no effect but on
// their registers, and their guards move along with them. A loop that may not run at all guards the
// first ones.
#include <base/error.h>
#include <ir/builder.h>
#include <kernel/traverse.h>
#include <lower/moved.h>

#include <algorithm>

namespace nvfuser {

namespace {

class LoadPrefetcher : public StatementRewriter {
 public:
  explicit LoadPrefetcher(LowerContext& ctx) : ctx_(ctx) {
    for (const Expr* e : ctx.kernel()->exprs()) {
      auto* tv = tryAs<TensorView>(e->output(0));
      if (tv != nullptr && tv->isCircularBuffered() && tv->getMemoryType() == MemoryType::Local &&
          !isReduction(e)) {
        place(tv);
      }
    }
  }

 private:
  void rewrite(Expr* e, Statements& out) override {
    rewriteBodies(e);
    auto* loop = tryAs<ForLoop>(e);
    if (loop != nullptr && loads_.count(loop->loopId()) != 0) {
      prefetchLoads(loop, out);
    }
    out.push_back(e);
  }

  // The innermost loop that the tensor is inlined into and that is a loop in the text.
  void place(TensorView* tv) {
    const TensorLoops& loops = ctx_.loops(tv);
    for (size_t i = loops.shared; i-- > 0;) {
      const Loop* l = loops.path[i];
      if (!isParallelTypeThread(l->type) && !l->extent->isOneInt()) {
        loads_[l->id].insert(tv);
        return;
      }
    }
  }

  bool isAhead(const TensorView* tv) const {
    return current_->count(tv) != 0;
  }

  // Writes nothing but buffers that are loaded ahead.
  bool isLoad(const Expr* e) const {
    if (const auto bodies = bodiesOf(e); !bodies.empty()) {
      return std::all_of(bodies.begin(), bodies.end(), [&](const Statements* list) {
        return std::all_of(list->begin(), list->end(), [&](const Expr* x) { return isLoad(x); });
      });
    }
    const auto* target =
        e->kind() == ExprKind::LoadStoreOp ? tryAs<TensorIndex>(e->output(0)) : nullptr;
    return target != nullptr && isAhead(target->view());
  }

  // Loads that share a guard with something else get one of their own.
  Statements separated(const Statements& in) const {
    Statements out;
    for (Expr* e : in) {
      auto* branch = tryAs<IfThenElse>(e);
      if (branch == nullptr || !branch->elseBody().empty()) {
        out.push_back(e);
        continue;
      }
      IfThenElse* last = nullptr;
      bool last_loads = false;
      for (Expr* x : branch->thenBody()) {
        const bool loads = isLoad(x);
        if (last == nullptr || loads != last_loads) {
          last = IrBuilder::create<IfThenElse>(branch->condition());
          last_loads = loads;
          out.push_back(last);
        }
        last->thenBody().push_back(x);
      }
    }
    return out;
  }

  void prefetchLoads(ForLoop* loop, Statements& before) {
    current_ = &loads_.at(loop->loopId());
    next_.clear();
    Statements declarations;
    Statements first;
    Statements ahead;
    Statements rest;
    Statements copies;
    Val* following = IrBuilder::addExpr(loop->index(), ctx_.kernel()->oneVal());
    for (Expr* e : separated(loop->body())) {
      if (const auto* a = tryAs<Allocate>(e)) {
        if (isAhead(a->tv())) {
          auto* next = IrBuilder::create<TensorView>(a->tv()->domain(), a->tv()->dtype());
          next_[a->tv()] = next;
          declarations.push_back(a->copyFor(next));
          copies.push_back(IrBuilder::create<BufferCopy>(a->tv(), next));
        }
        rest.push_back(e);
      } else if (isLoad(e)) {
        addMoved(first, e, loop->index(), ctx_.kernel()->zeroVal());
        addMoved(ahead, e, loop->index(), following);
      } else {
        rest.push_back(e);
      }
    }
    if (first.empty()) {
      return; // its loads are deeper in the loop
    }
    before.insert(before.end(), declarations.begin(), declarations.end());
    loadFirst(loop, first, before);
    auto* guard = IrBuilder::create<IfThenElse>(IrBuilder::ltExpr(following, loop->extent()));
    guard->thenBody() = std::move(ahead);
    // Declarations come first.
    const auto statements = std::find_if(
        rest.begin(), rest.end(), [](const Expr* e) { return e->kind() != ExprKind::Allocate; });
    copies.push_back(guard);
    rest.insert(statements, copies.begin(), copies.end());
    loop->body() = std::move(rest);
  }

  // The guards of a load may rely on its loop running at all.
  void loadFirst(const ForLoop* loop, const Statements& loads, Statements& out) const {
    if (loop->extent()->isConstInt()) {
      out.insert(out.end(), loads.begin(), loads.end());
      return;
    }
    // As it is: within the loop, where the simplifier's knowledge comes from, this is true.
    auto* guard =
        IrBuilder::create<IfThenElse>(IrBuilder::ltExpr(ctx_.kernel()->zeroVal(), loop->extent()));
    guard->thenBody() = loads;
    out.push_back(guard);
  }

  // A copy of a load with another loop index, into the buffer of the next iteration.
  void addMoved(Statements& out, Expr* e, Val* index, Val* to) {
    const auto target = [&](TensorView* tv) {
      const auto it = next_.find(tv);
      return it == next_.end() ? tv : it->second;
    };
    const Statements copies = Mover(ctx_, index, to, target).moved(Statements{e});
    out.insert(out.end(), copies.begin(), copies.end());
  }

  LowerContext& ctx_;
  std::unordered_map<int, std::unordered_set<const TensorView*>> loads_; // by loop
  const std::unordered_set<const TensorView*>* current_ = nullptr;
  std::unordered_map<const TensorView*, TensorView*> next_;
};

} // namespace

Statements prefetchLoads(LowerContext& ctx, const Statements& nest) {
  return LoadPrefetcher(ctx).run(nest);
}

} // namespace nvfuser
