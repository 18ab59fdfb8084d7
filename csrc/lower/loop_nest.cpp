// SPDX-License-Identifier: BSD-3-Clause
// Pass: order the expressions and put loops around them.
//
// Statements (expressions, with reductions taken apart) that share a loop must be contiguous. Level
// by level, those with the same loop at that depth are taken as one item, the items are ordered
// topologically (earliest definition first), and each item is nested one level deeper. What waits
// for other threads comes after all that can go before it, so that loads are under way when the
// first of them is waited for.
#include <base/error.h>
#include <ir/builder.h>
#include <ir/visitor.h>
#include <lower/context.h>
#include <lower/reductions.h>
#include <lower/scans.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace nvfuser {

namespace {

// Items that do not depend on each other are joined in two cases. "Loops" over threads, blocks and
// one iteration are no loops: reductions in different ones are taken as one item, so that they
// share a barrier. Loops over the same elements of the same registers become one: what is read is
// converted once, and no guard keeps the compiler from computing the two together.
class NestMaker {
 public:
  NestMaker(LowerContext& ctx, std::vector<NestedStatement> statements, bool threads_in_loops)
      : ctx_(ctx), statements_(std::move(statements)), threads_in_loops_(threads_in_loops) {
    asynchronous_ = std::any_of(statements_.begin(), statements_.end(),
                                [](const NestedStatement& s) { return s.copies; });
    for (const Expr* e : ctx.kernel()->exprs()) {
      for (const TensorView* tv : tensorOutputs(e)) {
        if (tv->getMemoryType() == MemoryType::Local) {
          for (const Loop* l : ctx.bufferLoops(tv)) {
            register_groups_.insert(l->group);
          }
        }
      }
    }
  }

  LoopNest run(GridReduces grid_reduces) {
    std::vector<size_t> all(statements_.size());
    std::iota(all.begin(), all.end(), 0);
    Statements body = nest(all, 0);
    shareIndices(body);
    return {std::move(body), std::move(stands_in_), std::move(grid_reduces)};
  }

 private:
  // Statements that are in one loop at this depth, or a single one.
  struct Item {
    Loop* loop = nullptr;
    std::vector<size_t> statements;
    std::unordered_set<size_t> followers;
    size_t waits_for = 0;
    bool deferred = false;
    bool copies = true;                // all of its statements copy asynchronously
    bool loads = true;                 // all of its statements load rows
    bool loads_single = true;          // or single elements
    bool combines = false;             // has cross-thread reductions
    int64_t register_bits = 0;         // of the arrays that are filled in it
    std::set<const TensorView*> reads; // arrays that it runs along
    int64_t reductions_before = 0;     // across threads, one after the other

    bool isGone() const { // part of another one
      return statements.empty();
    }
    // Asynchronous copies come first, then loads of rows and of what is one element of each; what
    // is put off comes last, and of it reductions across threads behind loops, which others may
    // wait for.
    int order() const {
      return deferred && loop == nullptr ? 5
             : deferred                  ? 4
             : copies                    ? 0
             : loads                     ? 1
             : loads_single              ? 2
                                         : 3;
    }
  };
  using Ready = std::set<std::pair<int, size_t>>;

  Statements nest(const std::vector<size_t>& statements, size_t depth) {
    std::vector<Item> items = itemsOf(statements, depth);
    const bool have_loads =
        std::any_of(items.begin(), items.end(), [](const Item& i) { return i.loads; });
    // What is loaded in front of a loop over memory would take registers in it.
    if (!have_loads || std::any_of(statements.begin(), statements.end(),
                                   [&](size_t s) { return iterates(statements_[s], depth); })) {
      for (Item& item : items) {
        item.loads = false;
        item.loads_single = false;
      }
    }
    joinItems(items);
    Ready ready;
    size_t done = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].isGone()) {
        ++done;
      } else if (items[i].waits_for == 0) {
        ready.emplace(items[i].order(), i);
      }
    }
    Statements out;
    while (!ready.empty()) {
      const std::vector<size_t> taken = takeNext(items, ready);
      for (size_t i : taken) {
        ++done;
        if (Expr* statement = statementOf(items[i], depth)) {
          out.push_back(statement);
        }
        for (size_t next : items[i].followers) {
          if (--items[next].waits_for == 0) {
            ready.emplace(items[next].order(), next);
          }
        }
      }
    }
    const auto first = std::find_if(statements.begin(), statements.end(),
                                    [&](size_t s) { return statements_[s].statement != nullptr; });
    NVF_CHECK(done == items.size(), "the inlined tensors of this schedule can't be ordered: ",
              statements_[*first].statement->toString(),
              " and its neighbours would have to be computed before and after each other");
    return out;
  }

  // Null where nothing is to be done.
  Expr* statementOf(const Item& item, size_t depth) {
    if (item.loop == nullptr) {
      return statements_[item.statements.front()].statement;
    }
    const Loop* l = item.loop;
    auto* loop = IrBuilder::create<ForLoop>(l->domain, l->index, l->extent, l->type, l->id);
    loop->setIndexesRegisters(register_groups_.count(l->group) != 0);
    loop->body() = nest(item.statements, depth + 1);
    return loop;
  }

  const ThreadReduce* reductionOf(const Item& item) const {
    return item.loop != nullptr
               ? nullptr
               : tryAs<ThreadReduce>(statements_[item.statements.front()].statement);
  }

  // The next item, and with a cross-thread reduction all others of its scope that could come next.
  std::vector<size_t> takeNext(const std::vector<Item>& items, Ready& ready) const {
    std::vector<size_t> out{ready.begin()->second};
    ready.erase(ready.begin());
    if (const ThreadReduce* first = reductionOf(items[out.front()])) {
      for (auto it = ready.begin(); it != ready.end();) {
        const ThreadReduce* other = reductionOf(items[it->second]);
        if (other != nullptr && isSameScope(first, other)) {
          out.push_back(it->second);
          it = ready.erase(it);
        } else {
          ++it;
        }
      }
    }
    return out;
  }

  void joinItems(std::vector<Item>& items) {
    countReductions(items);
    for (size_t i = 0; i < items.size(); ++i) {
      for (size_t k = i + 1; k < items.size(); ++k) {
        const bool reduces = !asynchronous_ && mayJoin(items[i], items[k]);
        if ((reduces || mayShareLoop(items[i], items[k])) && !leadsTo(items, i, k) &&
            !leadsTo(items, k, i)) {
          join(items, i, k);
        }
      }
    }
  }

  static bool isNoLoop(const Loop* l) {
    return isParallelTypeThread(l->type) || l->extent->isOneInt();
  }

  // In a loop from this depth on that stays one, since its index is not that of registers.
  bool iterates(const NestedStatement& nested, size_t depth) const {
    return std::any_of(
        nested.path.begin() + static_cast<std::ptrdiff_t>(std::min(depth, nested.path.size())),
        nested.path.end(),
        [&](const Loop* l) { return !isNoLoop(l) && register_groups_.count(l->group) == 0; });
  }

  static bool mayJoin(const Item& a, const Item& b) {
    // What is interleaved lives at the same time.
    constexpr int64_t kMostRegisterBits = 64 * 32;
    return !a.isGone() && !b.isGone() && a.loop != nullptr && b.loop != nullptr && a.combines &&
           b.combines && isNoLoop(a.loop) && isNoLoop(b.loop) && a.loop->type == b.loop->type &&
           a.register_bits + b.register_bits <= kMostRegisterBits;
  }

  static void countReductions(std::vector<Item>& items) {
    std::vector<size_t> waits_for;
    std::vector<size_t> ready;
    for (size_t i = 0; i < items.size(); ++i) {
      waits_for.push_back(items[i].waits_for);
      if (items[i].waits_for == 0) {
        ready.push_back(i);
      }
    }
    while (!ready.empty()) {
      const Item& item = items[ready.back()];
      ready.pop_back();
      for (const size_t next : item.followers) {
        items[next].reductions_before = std::max(items[next].reductions_before,
                                                 item.reductions_before + (item.combines ? 1 : 0));
        if (--waits_for[next] == 0) {
          ready.push_back(next);
        }
      }
    }
  }

  // Two loops over the same elements of something that both read from registers. None of them waits
  // for a reduction that the other does not: what it computes may be reduced together with that.
  bool mayShareLoop(const Item& a, const Item& b) const {
    return a.reductions_before == b.reductions_before &&
           std::any_of(a.reads.begin(), a.reads.end(),
                       [&](const TensorView* tv) { return b.reads.count(tv) != 0; }) &&
           a.loop->group == b.loop->group && a.loop->type == b.loop->type &&
           a.loop->extent->sameAs(b.loop->extent) && a.order() == b.order() &&
           std::none_of(statements_.begin(), statements_.end(), [&](const NestedStatement& s) {
             return isIn(s, a.loop) && isIn(s, b.loop);
           });
  }

  static bool isIn(const NestedStatement& s, const Loop* loop) {
    return std::find(s.path.begin(), s.path.end(), loop) != s.path.end();
  }

  // Arrays in registers that statements read at the loop's index.
  std::set<const TensorView*> registersRead(const Loop* loop,
                                            const std::vector<size_t>& statements) const {
    std::set<const TensorView*> out;
    if (threads_in_loops_ || loop == nullptr) {
      return out;
    }
    const bool is_none = isNoLoop(loop);
    if (!is_none && (loop->index->isConst() || register_groups_.count(loop->group) == 0)) {
      return out;
    }
    for (size_t s : statements) {
      const Expr* e = statements_[s].statement;
      if (const auto* step = tryAs<ReduceStep>(e)) {
        e = step->reduction();
      }
      if (e == nullptr || !e->isTensorExpr()) {
        continue;
      }
      for (const TensorView* in : tensorInputs(e)) {
        if (in->getMemoryType() != MemoryType::Local) {
          continue;
        }
        const auto loops = ctx_.bufferLoops(in);
        if (std::any_of(loops.begin(), loops.end(),
                        [&](const Loop* l) { return is_none || l->group == loop->group; })) {
          out.insert(in);
        }
      }
    }
    return out;
  }

  static bool leadsTo(const std::vector<Item>& items, size_t from, size_t to) {
    std::vector<size_t> stack{from};
    std::unordered_set<size_t> seen;
    while (!stack.empty()) {
      const size_t i = stack.back();
      stack.pop_back();
      if (i == to) {
        return true;
      }
      if (seen.insert(i).second) {
        stack.insert(stack.end(), items[i].followers.begin(), items[i].followers.end());
      }
    }
    return false;
  }

  void join(std::vector<Item>& items, size_t into, size_t from) {
    Item& a = items[into];
    Item& b = items[from];
    stands_in_[b.loop->id] = a.loop->id;
    if (!isNoLoop(a.loop) && firstOf(a.loop) != firstOf(b.loop)) {
      first_of_[firstOf(b.loop)] = firstOf(a.loop);
    }
    a.statements.insert(a.statements.end(), b.statements.begin(), b.statements.end());
    std::sort(a.statements.begin(), a.statements.end());
    a.register_bits += b.register_bits;
    a.reads.merge(b.reads);
    for (size_t next : b.followers) {
      if (!a.followers.insert(next).second) {
        --items[next].waits_for;
      }
    }
    for (Item& before : items) {
      if (before.followers.erase(from) != 0 && before.followers.insert(into).second) {
        ++a.waits_for;
      }
    }
    b = Item();
  }

  // Of the loops that have become one.
  Loop* firstOf(Loop* loop) const {
    for (auto it = first_of_.find(loop); it != first_of_.end(); it = first_of_.find(loop)) {
      loop = it->second;
    }
    return loop;
  }

  // Loops that have become one have the index of the first, wherever else they are.
  void shareIndices(Statements& body) const {
    std::unordered_map<int, Val*> index_of;
    for (const auto& [loop, other] : first_of_) {
      loop->index = firstOf(loop)->index;
      index_of[loop->id] = loop->index;
    }
    if (!index_of.empty()) {
      setIndices(body, index_of);
    }
  }

  static void setIndices(Statements& body, const std::unordered_map<int, Val*>& index_of) {
    for (Expr* e : body) {
      if (auto* loop = tryAs<ForLoop>(e)) {
        const auto index = index_of.find(loop->loopId());
        if (index != index_of.end()) {
          loop->setIndex(index->second);
        }
        setIndices(loop->body(), index_of);
      }
    }
  }

  std::vector<Item> itemsOf(const std::vector<size_t>& statements, size_t depth) {
    std::vector<Item> items;
    std::map<std::pair<const Loop*, bool>, size_t> item_of_loop;
    std::unordered_map<size_t, size_t> item_of;
    for (size_t s : statements) {
      const auto& path = statements_[s].path;
      Loop* loop = depth < path.size() ? path[depth] : nullptr;
      size_t i = items.size();
      if (loop != nullptr) {
        const bool apart = statements_[s].apart && isParallelTypeBlockDim(loop->type);
        i = item_of_loop.try_emplace({loop, apart}, items.size()).first->second;
      }
      if (i == items.size()) {
        items.emplace_back();
        items.back().loop = loop;
      }
      items[i].statements.push_back(s);
      items[i].deferred = items[i].deferred || statements_[s].deferred;
      items[i].copies = items[i].copies && statements_[s].copies;
      items[i].loads = items[i].loads && statements_[s].loads;
      items[i].loads_single = items[i].loads_single && statements_[s].loads_single;
      if (const Expr* e = statements_[s].statement) {
        items[i].combines = items[i].combines || e->kind() == ExprKind::ThreadReduce;
        items[i].register_bits += registerBits(e);
      }
      item_of[s] = i;
    }
    for (Item& item : items) {
      item.reads = registersRead(item.loop, item.statements);
    }
    for (size_t s : statements) {
      for (size_t before : statements_[s].after) {
        auto it = item_of.find(before);
        if (it != item_of.end() && it->second != item_of[s] &&
            items[it->second].followers.insert(item_of[s]).second) {
          ++items[item_of[s]].waits_for;
        }
      }
    }
    return items;
  }

  // Of arrays that a statement fills.
  int64_t registerBits(const Expr* e) const {
    if (const auto* step = tryAs<ReduceStep>(e)) {
      if (step->part() != ReduceStep::Part::Init) {
        return 0;
      }
      e = step->reduction();
    }
    int64_t bits = 0;
    for (const TensorView* tv : tensorOutputs(e)) {
      int64_t elements = 1;
      for (const Loop* l : ctx_.bufferLoops(tv)) {
        elements *= l->extent->isConstInt() ? l->extent->intValue() : 1;
      }
      if (elements > 1 && tv->getMemoryType() == MemoryType::Local) {
        bits += elements * dataTypeSizeBits(tv->dtype());
      }
    }
    return bits;
  }

  LowerContext& ctx_;
  std::vector<NestedStatement> statements_;
  std::unordered_map<int, int> stands_in_;    // as in LoopNest
  std::unordered_map<Loop*, Loop*> first_of_; // or one nearer to it
  bool asynchronous_ = false;
  bool threads_in_loops_ = false;
  std::unordered_set<IdGroup> register_groups_; // that registers have a dimension of
};

} // namespace

LoopNest makeLoopNest(LowerContext& ctx, bool threads_in_loops) {
  StatementsToNest statements = statementsToNest(ctx);
  LoopNest nest = NestMaker(ctx, std::move(statements.list), threads_in_loops)
                      .run(std::move(statements.grid_reduces));
  mergeThreadReduces(ctx, nest.body);
  placeThreadScans(ctx, nest.body);
  return nest;
}

} // namespace nvfuser
