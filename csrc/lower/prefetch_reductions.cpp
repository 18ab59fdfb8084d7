// SPDX-License-Identifier: BSD-3-Clause
// Pass: circular-buffered reductions run one iteration ahead.
//
//   for i: T = reduction of row i; use T        next = own part of row 0; begin(next)
//                                         ->    for i:
//                                                 if i + 1 < n: next = own part of row i + 1
//                                                 T = end()
//                                                 if i + 1 < n: begin(next)
//                                                 use T
//
// `begin` sends what this block has to the other blocks of its cluster, `end` waits for what they
// send. In between each thread has what uses the result before and what comes before the next one.
//
// All statements of the loop that do not depend on the result run an iteration ahead, once for each
// iteration and in their order: loads, copies into circular buffers and their waits, sums over the
// iterations. Registers that pass from them to the others have two versions (`next`). A circular
// buffer in shared memory that is read both before and after the cluster reduction holds the rows
// of both iterations, so that its copies run at most stages - 2 iterations ahead of the first
// readers.
#include <base/error.h>
#include <ir/builder.h>
#include <ir/visitor.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/moved.h>

#include <algorithm>

namespace nvfuser {

namespace {

using B = IrBuilder;
using Tensors = std::unordered_set<const TensorView*>;

bool meet(const Tensors& a, const Tensors& b) {
  return std::any_of(a.begin(), a.end(), [&](const TensorView* tv) { return b.count(tv) != 0; });
}

// What a statement, with all that it contains, reads and writes.
struct BodyAccesses {
  Tensors reads;
  Tensors writes;
  bool has_barrier = false; // of the block

  explicit BodyAccesses(const Expr* statement) {
    forEachStatement(statement, [&](const Expr* e) {
      const TensorAccesses accesses = tensorAccessesOf(e);
      reads.insert(accesses.read.begin(), accesses.read.end());
      writes.insert(accesses.written.begin(), accesses.written.end());
      has_barrier = has_barrier || isBarrier(e);
    });
  }

  bool touches(const Tensors& tensors) const {
    return meet(reads, tensors) || meet(writes, tensors);
  }
};

std::string nameOf(const ThreadReduce* reduce) {
  return "circularBuffer of " + reduce->terms.front().buffers.front()->toString();
}

// The body of a loop, taken apart: the cluster reduction, what runs ahead, and what stays.
class Body {
 public:
  Body(const LowerContext& ctx, const Statements& statements, const ThreadReduce* reduction)
      : ctx_(ctx), all_(statements), name_(nameOf(reduction)) {
    for (const ReduceTerm& term : reduction->terms) {
      results_.insert(term.buffers.begin(), term.buffers.end());
    }
    for (size_t i = 0; i < all_.size(); ++i) {
      accesses_.emplace_back(all_[i]);
      if (all_[i] == reduction) {
        reduction_ = i;
      } else if (const auto* a = tryAs<Allocate>(all_[i])) {
        if (a->memoryType() == MemoryType::Local) {
          own_registers_.insert(a->tv());
        }
      }
    }
    findConsumers();
    check();
  }

  size_t reduction() const {
    return reduction_;
  }
  bool isConsumer(size_t i) const {
    return is_consumer_[i];
  }
  const Tensors& results() const {
    return results_;
  }
  // Registers that what runs ahead fills for what stays.
  bool isCarried(const TensorView* tv) const {
    return results_.count(tv) != 0 || (own_registers_.count(tv) != 0 &&
                                       isUsed(tv, /*by_consumers=*/false) && isUsed(tv, true));
  }
  bool isUsed(const TensorView* tv, bool by_consumers) const {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (i != reduction_ && is_consumer_[i] == by_consumers && accesses_[i].touches({tv})) {
        return true;
      }
    }
    return false;
  }

 private:
  void findConsumers() {
    is_consumer_.assign(all_.size(), false);
    for (size_t i = 0; i < all_.size(); ++i) {
      const auto* step = tryAs<CopyStep>(all_[i]);
      is_consumer_[i] = (i > reduction_ && (accesses_[i].touches(results_) || step != nullptr)) ||
                        (step != nullptr && step->part() == CopyStep::Part::SetEmpty);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < all_.size(); ++i) {
        if (i != reduction_ && !is_consumer_[i] && mustBeConsumer(accesses_[i])) {
          is_consumer_[i] = changed = true;
        }
      }
    }
  }

  // It uses what one that stays makes, or makes for it what there is only one of.
  bool mustBeConsumer(const BodyAccesses& mine) const {
    Tensors only_one;
    std::copy_if(mine.writes.begin(), mine.writes.end(), std::inserter(only_one, only_one.end()),
                 [&](const TensorView* tv) { return !isOfTwoIterations(tv); });
    for (size_t i = 0; i < all_.size(); ++i) {
      if (i != reduction_ && is_consumer_[i] &&
          (mine.touches(withoutResults(accesses_[i].writes)) ||
           meet(accesses_[i].reads, only_one))) {
        return true;
      }
    }
    return false;
  }

  Tensors withoutResults(Tensors tensors) const {
    std::erase_if(tensors, [&](const TensorView* tv) { return results_.count(tv) != 0; });
    return tensors;
  }

  bool isOfTwoIterations(const TensorView* tv) const {
    const AsyncBuffer* buffer = ctx_.asyncBuffer(tv);
    return own_registers_.count(tv) != 0 || (buffer != nullptr && buffer->isCircular());
  }

  void check() const {
    for (size_t i = 0; i < all_.size(); ++i) {
      const BodyAccesses& accesses = accesses_[i];
      NVF_CHECK(!is_consumer_[i] || !meet(accesses.writes, results_), name_,
                ": what it reduces depends on an earlier iteration, or on what follows it");
      NVF_CHECK(i <= reduction_ || !accesses.has_barrier, name_,
                ": after it, threads wait for each other in the same loop");
      const auto* step = tryAs<CopyStep>(all_[i]);
      NVF_CHECK(step == nullptr || step->buffer() >= 0, name_,
                ": copies of the same loop fill a buffer that is not circular");
      for (const TensorView* tv : accesses.writes) {
        const AsyncBuffer* buffer = ctx_.asyncBuffer(tv);
        NVF_CHECK(buffer == nullptr || is_consumer_[i] || !isUsed(tv, /*by_consumers=*/true) ||
                      buffer->distance + 2 <= buffer->stages,
                  name_, ": ", tv->toString(),
                  " is read in the iteration after it is waited for, and ", buffer->stages,
                  " stages leave room for a distance of ", buffer->stages - 2, ", not ",
                  buffer->distance);
      }
    }
  }

  const LowerContext& ctx_;
  const Statements& all_;
  const std::string name_; // for errors
  std::vector<BodyAccesses> accesses_;
  size_t reduction_ = SIZE_MAX;
  Tensors results_;
  Tensors own_registers_; // declared in the loop
  std::vector<bool> is_consumer_;
};

class ReductionPrefetcher : public StatementRewriter {
 public:
  explicit ReductionPrefetcher(LowerContext& ctx) : ctx_(ctx) {
    for (const Expr* e : ctx.kernel()->exprs()) {
      const TensorView* tv = LowerContext::outputOf(e);
      if (isReduction(e) && tv->isCircularBuffered()) {
        ahead_.insert(tv);
      }
    }
  }

  bool hasAny() const {
    return !ahead_.empty();
  }

 private:
  void rewrite(Expr* e, Statements& out) override {
    rewriteBodies(e);
    if (auto* loop = tryAs<ForLoop>(e)) {
      if (const ThreadReduce* reduction = reductionIn(loop)) {
        prefetchReductions(loop, reduction, out);
      }
    }
    out.push_back(e);
  }

  // The cluster reduction of such reductions, and of no others, in the body of a loop; null: there
  // is none.
  const ThreadReduce* reductionIn(const ForLoop* loop) const {
    if (loop->isTrivial()) {
      return nullptr;
    }
    const auto found = std::find_if(loop->body().begin(), loop->body().end(), [&](const Expr* e) {
      const auto* reduce = tryAs<ThreadReduce>(e);
      return reduce != nullptr && termsAhead(reduce) > 0;
    });
    if (found == loop->body().end()) {
      return nullptr;
    }
    const auto* reduce = static_cast<const ThreadReduce*>(*found);
    NVF_CHECK(termsAhead(reduce) == reduce->terms.size(), nameOf(reduce),
              ": it is combined together with reductions that do not run ahead");
    NVF_CHECK(reduce->phase_stride > 0, nameOf(reduce),
              ": a reduction that runs ahead combines words over the blocks of a cluster");
    return reduce;
  }

  size_t termsAhead(const ThreadReduce* reduce) const {
    return static_cast<size_t>(
        std::count_if(reduce->terms.begin(), reduce->terms.end(),
                      [&](const ReduceTerm& t) { return ahead_.count(t.buffers.front()) != 0; }));
  }

  void prefetchReductions(ForLoop* loop, const ThreadReduce* whole, Statements& before) {
    const Body body(ctx_, loop->body(), whole);
    Statements declarations;
    Statements current; // what the iteration before has left for this one
    Statements ahead;
    Statements consumers;
    next_.clear();
    for (size_t i = 0; i < loop->body().size(); ++i) {
      Expr* e = loop->body()[i];
      const auto* a = tryAs<Allocate>(e);
      if (i == body.reduction()) {
        continue;
      }
      if (a == nullptr) {
        (body.isConsumer(i) ? consumers : ahead).push_back(e);
      } else if (body.isCarried(a->tv())) {
        before.push_back(declareNext(a));
        declarations.push_back(e);
        if (body.results().count(a->tv()) == 0) {
          current.push_back(B::create<BufferCopy>(a->tv(), next_.at(a->tv())));
        }
      } else {
        (body.isUsed(a->tv(), /*by_consumers=*/true) ? declarations : ahead).push_back(e);
      }
    }
    Val* following = B::addExpr(loop->index(), ctx_.kernel()->oneVal());
    ThreadReduce* begin = part(whole, ThreadReduce::Part::Begin);
    Statements first = moved(loop, ctx_.kernel()->zeroVal(), ahead);
    first.push_back(begin);
    before.push_back(guarded(ctx_.kernel()->zeroVal(), loop, first));

    Statements out = std::move(declarations);
    out.insert(out.end(), current.begin(), current.end());
    out.push_back(guarded(following, loop, moved(loop, following, ahead)));
    out.push_back(part(whole, ThreadReduce::Part::End));
    out.push_back(guarded(following, loop, {begin}));
    out.insert(out.end(), consumers.begin(), consumers.end());
    loop->body() = std::move(out);
  }

  Allocate* declareNext(const Allocate* a) {
    TensorView*& next = next_[a->tv()];
    next = B::create<TensorView>(a->tv()->domain(), a->tv()->dtype());
    return a->copyFor(next);
  }

  // An iteration that there may not be. Its statements are in a scope of their own.
  static IfThenElse* guarded(Val* iteration, const ForLoop* loop, const Statements& statements) {
    auto* guard = B::create<IfThenElse>(B::ltExpr(iteration, loop->extent()));
    guard->thenBody() = statements;
    return guard;
  }

  TensorView* nextOf(TensorView* tv) const {
    const auto it = next_.find(tv);
    return it == next_.end() ? tv : it->second;
  }

  Statements moved(const ForLoop* loop, Val* to, const Statements& statements) const {
    return Mover(ctx_, loop->index(), to, [&](TensorView* tv) { return nextOf(tv); })
        .moved(statements);
  }

  // Half of a cluster reduction: the first is of the next iteration.
  ThreadReduce* part(const ThreadReduce* whole, ThreadReduce::Part part) const {
    auto* out = B::create<ThreadReduce>(whole->threads(), whole->cluster(), whole->grid());
    out->terms = whole->terms;
    out->region = whole->region;
    out->phase_barrier = whole->phase_barrier;
    out->phase_stride = whole->phase_stride;
    out->workspace = whole->workspace;
    out->part = part;
    if (part == ThreadReduce::Part::Begin) {
      for (ReduceTerm& term : out->terms) {
        for (size_t i = 0; i < term.buffers.size(); ++i) {
          const auto* first = term.first[i]->as<TensorIndex>();
          term.buffers[i] = nextOf(term.buffers[i]);
          term.first[i] = B::create<TensorIndex>(term.buffers[i], first->index());
        }
      }
    }
    return out;
  }

  LowerContext& ctx_;
  Tensors ahead_; // results of reductions
  std::unordered_map<const TensorView*, TensorView*> next_;
};

} // namespace

Statements prefetchReductions(LowerContext& ctx, const Statements& nest) {
  ReductionPrefetcher prefetcher(ctx);
  return prefetcher.hasAny() ? prefetcher.run(nest) : nest;
}

} // namespace nvfuser
