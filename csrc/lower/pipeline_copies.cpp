// SPDX-License-Identifier: BSD-3-Clause
// Pass: copies into circular buffers are issued ahead.
//
// By the threads that compute (distance 2):
//
//   for i: copy(i); wait(i); use(i)        copy(0); copy(1)
//                                    ->    for i:
//                                            if i + 2 < n: copy(i + 2)
//                                            wait(i); use(i)
//
// By warps of their own (warp_specialize), as far ahead as buffers are empty:
//
//   loading threads: for i: wait until empty; copy(i)        computing threads: for i: wait(i);
//   use(i); set empty
//
// The copies have no effect but on their buffers, whose place and whose mbarriers follow from the
// number of the iteration, so another iteration's copies are those of this one with another index.
#include <base/error.h>
#include <ir/builder.h>
#include <kernel/traverse.h>
#include <lower/moved.h>

#include <algorithm>

namespace nvfuser {

namespace {

using B = IrBuilder;
using Part = CopyStep::Part;

class Pipeliner : public StatementRewriter {
 public:
  explicit Pipeliner(LowerContext& ctx) : ctx_(ctx), kernel_(ctx.kernel()) {}

  Statements pipelined(const Statements& nest) {
    return kernel_->load_warps.exist() ? specialized(nest) : run(nest);
  }

 private:
  void rewrite(Expr* e, Statements& out) override {
    rewriteBodies(e);
    if (auto* loop = tryAs<ForLoop>(e)) {
      pipeline(loop, out);
    }
    out.push_back(e);
  }

  bool isCircular(int buffer) const {
    return buffer >= 0 && kernel_->async_buffers[static_cast<size_t>(buffer)].isCircular();
  }

  // The circular buffer whose copies an innermost statement issues or announces, or -1.
  int bufferFilledBy(const Expr* e) const {
    int buffer = -1;
    if (const auto* step = tryAs<CopyStep>(e)) {
      const Part part = step->part();
      const bool loads = part == Part::WaitUntilEmpty || part == Part::Expect ||
                         part == Part::Announced || part == Part::Commit;
      buffer = loads ? step->buffer() : -1;
    } else if (const auto* box = tryAs<BulkCopy>(e)) {
      buffer = box->buffer();
    } else if (const auto* piece = tryAs<LinearBulkCopy>(e)) {
      buffer = piece->buffer();
    } else if (e->kind() == ExprKind::LoadStoreOp) {
      const auto* to = tryAs<TensorIndex>(e->output(0));
      const AsyncBuffer* found = to == nullptr ? nullptr : ctx_.asyncBuffer(to->view());
      buffer = found == nullptr ? -1 : static_cast<int>(found - kernel_->async_buffers.data());
    }
    return isCircular(buffer) ? buffer : -1;
  }

  static bool hasStatements(Expr* e) {
    const auto bodies = bodiesOf(e);
    return std::any_of(bodies.begin(), bodies.end(),
                       [](const auto* body) { return !body->empty(); });
  }

  // The statements for which `keep` holds, with the loops and branches around them.
  template <class Keep>
  static Statements filtered(const Statements& in, const Keep& keep) {
    Statements out;
    for (Expr* e : in) {
      Expr* copy = copyWithBodies(e, [&](const Statements& body) { return filtered(body, keep); });
      if (copy == nullptr ? keep(e) : hasStatements(copy)) {
        out.push_back(copy == nullptr ? e : copy);
      }
    }
    return out;
  }

  // --- by the threads that compute ---

  void pipeline(ForLoop* loop, Statements& before) {
    const auto& buffers = kernel_->async_buffers;
    for (size_t r = 0; r < buffers.size(); ++r) {
      if (buffers[r].isCircular() && buffers[r].iteration_loop == loop->loopId() &&
          buffers[r].distance > 0) {
        pipelineBuffer(static_cast<int>(r), loop, before);
      }
    }
  }

  void pipelineBuffer(int number, ForLoop* loop, Statements& before) {
    const AsyncBuffer& buffer = kernel_->async_buffers[static_cast<size_t>(number)];
    auto isCommit = [&](const Expr* e) {
      const auto* step = tryAs<CopyStep>(e);
      return step != nullptr && step->part() == Part::Commit && step->buffer() == number;
    };
    const Statements loads = filtered(
        loop->body(), [&](const Expr* e) { return bufferFilledBy(e) == number && !isCommit(e); });
    if (loads.empty()) {
      return; // a copy of the loop for another circular buffer's loads
    }
    before.push_back(firstIterations(buffer, number, loop, loads));
    Val* following = B::addExpr(loop->index(), B::index(buffer.distance));
    Statements ahead = guarded(following, loop, Mover(ctx_, loop->index(), following).moved(loads));
    if (!buffer.bulk) {
      ahead.push_back(B::create<CopyStep>(Part::Commit, number));
    }
    loop->body() = withPrefetch(loop->body(), number, ahead);
  }

  // An iteration that there may not be.
  Statements guarded(Val* iteration, const ForLoop* loop, Statements loads) const {
    Val* exists = B::ltExpr(iteration, loop->extent());
    if (loop->extent()->isConstInt()) {
      exists = ctx_.simplified(exists);
      if (isTrue(exists)) {
        return loads;
      }
    }
    // As it is: within the loop, where the simplifier's knowledge comes from, it may be true.
    auto* guard = B::create<IfThenElse>(exists);
    guard->thenBody() = std::move(loads);
    return {guard};
  }

  // The iterations 0 to distance - 1, before the loop.
  Expr* firstIterations(const AsyncBuffer& buffer, int number, const ForLoop* loop,
                        const Statements& loads) const {
    Val* index = buffer.distance == 1 ? kernel_->zeroVal()
                                      : B::create<NamedScalar>("a" + std::to_string(loop->loopId()),
                                                               DataType::Index);
    auto* first = B::create<ForLoop>(loop->iterDomain(), index, B::index(buffer.distance),
                                     ParallelType::Serial, -1);
    const Val* iterations = loop->extent();
    const bool all_exist = iterations->isConstInt() && iterations->intValue() >= buffer.distance;
    first->body() = Mover(ctx_, loop->index(), index).moved(loads);
    if (!all_exist) {
      first->body() = guarded(index, loop, first->body());
    }
    if (!buffer.bulk) {
      first->body().push_back(B::create<CopyStep>(Part::Commit, number));
    }
    return first;
  }

  // The body of the loop with the copies of a later iteration. Bulk copies wait for empty buffers
  // themselves, and threads that read what they copied themselves fill a buffer that they have
  // read: both begin before they wait for this iteration's. Others come after the barrier at which
  // everybody has left the buffer that they fill.
  Statements withPrefetch(const Statements& body, int number, const Statements& ahead) const {
    const AsyncBuffer& buffer = kernel_->async_buffers[static_cast<size_t>(number)];
    Statements rest = filtered(body, [&](const Expr* e) { return bufferFilledBy(e) != number; });
    Statements* at = &rest;
    auto position = findWait(at, number);
    NVF_ERROR(position != at->end(), "no wait for the copies of buffer ", number);
    if (!buffer.bulk) {
      const auto next = std::find_if(std::next(position), at->end(),
                                     [](const Expr* e) { return e->kind() != ExprKind::CopyStep; });
      if (next != at->end() && (*next)->kind() == ExprKind::BlockSync) {
        position = std::next(next);
      } else {
        tryAs<CopyStep>(*position)->count = buffer.distance;
      }
    }
    at->insert(position, ahead.begin(), ahead.end());
    return rest;
  }

  // The wait for the circular buffer's copies; `list` becomes the list that it stands in.
  Statements::iterator findWait(Statements*& list, int number) const {
    const auto found = std::find_if(list->begin(), list->end(), [&](const Expr* e) {
      const auto* step = tryAs<CopyStep>(e);
      return step != nullptr && step->buffer() == number &&
             (step->part() == Part::WaitUntilFull || step->part() == Part::Wait);
    });
    if (found != list->end()) {
      return found;
    }
    for (Expr* e : *list) {
      if (auto* loop = tryAs<ForLoop>(e); loop != nullptr && loop->isTrivial()) {
        Statements* inner = &loop->body();
        const auto deeper = findWait(inner, number);
        if (deeper != inner->end()) {
          list = inner;
          return deeper;
        }
      }
    }
    return list->end();
  }

  // --- by warps of their own ---

  Statements specialized(const Statements& nest) {
    Statements head;
    Statements rest;
    for (Expr* e : nest) {
      const auto* step = tryAs<CopyStep>(e);
      const auto* alloc = tryAs<Allocate>(e);
      const bool is_init = step != nullptr && step->part() == Part::Init;
      const bool is_shared = alloc != nullptr && alloc->memoryType() == MemoryType::Shared;
      (is_init || is_shared ? head : rest).push_back(e);
    }
    const LoadWarps& warps = kernel_->load_warps;
    auto it = kernel_->parallel_extents.find(warps.type);
    const std::string extent =
        it == kernel_->parallel_extents.end() ? "1" : it->second->toInlineString();
    auto* branch = B::create<IfThenElse>(B::create<NamedScalar>(
        "(((nvfuser_index_t)" + std::string(parallelTag(warps.type)) + ") >= " + extent + "LL)",
        DataType::Bool));
    branch->thenBody() =
        withoutRepeatedGuard(filtered(rest, [&](const Expr* e) { return bufferFilledBy(e) >= 0; }));
    branch->elseBody() = filtered(rest, [&](const Expr* e) { return bufferFilledBy(e) < 0; });
    if (warps.load_registers > 0) {
      setRegisters(branch->thenBody(), Part::GiveRegisters, warps.load_registers);
      setRegisters(branch->elseBody(), Part::TakeRegisters, warps.compute_registers);
    }
    head.push_back(branch);
    return head;
  }

  static void setRegisters(Statements& list, Part part, int64_t count) {
    auto* step = B::create<CopyStep>(part);
    step->count = count;
    list.insert(list.begin(), step);
  }

  // If the same thread issues all copies, the others need not run through the loops.
  Statements withoutRepeatedGuard(const Statements& loads) const {
    Val* condition = nullptr;
    if (!isGuardedBy(loads, condition) || condition == nullptr) {
      return loads;
    }
    auto* guard = B::create<IfThenElse>(condition);
    guard->thenBody() = unguarded(loads, condition);
    return {guard};
  }

  // Every innermost statement is under the same condition.
  static bool isGuardedBy(const Statements& list, Val*& condition) {
    return std::all_of(list.begin(), list.end(), [&](const Expr* e) {
      if (const auto* loop = tryAs<ForLoop>(e)) {
        return isGuardedBy(loop->body(), condition);
      }
      const auto* branch = tryAs<IfThenElse>(e);
      if (branch == nullptr || !branch->elseBody().empty()) {
        return false;
      }
      condition = condition == nullptr ? branch->condition() : condition;
      return condition->sameAs(branch->condition());
    });
  }

  static Statements unguarded(const Statements& list, const Val* condition) {
    Statements out;
    for (Expr* e : list) {
      if (auto* loop = tryAs<ForLoop>(e)) {
        loop->body() = unguarded(loop->body(), condition);
        out.push_back(loop);
      } else {
        const auto& body = static_cast<IfThenElse*>(e)->thenBody();
        out.insert(out.end(), body.begin(), body.end());
      }
    }
    return out;
  }

  LowerContext& ctx_;
  Kernel* kernel_;
};

} // namespace

Statements pipelineCopies(LowerContext& ctx, const Statements& nest) {
  const auto& buffers = ctx.kernel()->async_buffers;
  const bool circular = std::any_of(buffers.begin(), buffers.end(),
                                    [](const AsyncBuffer& r) { return r.isCircular(); });
  return circular ? Pipeliner(ctx).pipelined(nest) : nest;
}

} // namespace nvfuser
