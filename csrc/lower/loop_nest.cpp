// Pass: order the expressions and put loops around them.
//
// Works (expressions, with reductions taken apart) that share a loop must be contiguous. Level by
// level, those with the same loop at that depth are taken as one item, the items are ordered
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
#include <numeric>
#include <queue>

namespace nvfuser {

namespace {

class NestMaker {
 public:
  NestMaker(const LowerContext& ctx, std::vector<Work> works) : works_(std::move(works)) {
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

  Statements run() {
    std::vector<size_t> all(works_.size());
    std::iota(all.begin(), all.end(), 0);
    return nest(all, 0);
  }

 private:
  // Works that stand in one loop at this depth, or a single one.
  struct Item {
    Loop* loop = nullptr;
    std::vector<size_t> works;
    std::unordered_set<size_t> followers;
    size_t waits_for = 0;
    bool deferred = false;
    bool early = true;
  };

  Statements nest(const std::vector<size_t>& works, size_t depth) {
    std::vector<Item> items = itemsOf(works, depth);
    using Key =
        std::pair<int, size_t>; // asynchronous copies come first, what is put off comes last
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    auto makeReady = [&](size_t i) {
      ready.emplace(items[i].deferred ? 2 : items[i].early ? 0 : 1, i);
    };
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].waits_for == 0) {
        makeReady(i);
      }
    }
    Statements out;
    size_t done = 0;
    while (!ready.empty()) {
      const size_t i = ready.top().second;
      ready.pop();
      ++done;
      if (items[i].loop == nullptr) {
        if (Expr* statement = works_[items[i].works.front()].statement) {
          out.push_back(statement);
        }
      } else {
        const Loop* l = items[i].loop;
        auto* loop = IrBuilder::create<ForLoop>(l->domain, l->index, l->extent, l->type, l->id);
        loop->setIndexesRegisters(register_groups_.count(l->group) != 0);
        loop->body() = nest(items[i].works, depth + 1);
        out.push_back(loop);
      }
      for (size_t next : items[i].followers) {
        if (--items[next].waits_for == 0) {
          makeReady(next);
        }
      }
    }
    const auto first = std::find_if(works.begin(), works.end(),
                                    [&](size_t w) { return works_[w].statement != nullptr; });
    NVF_CHECK(done == items.size(), "the inlined tensors of this schedule can't be ordered: ",
              works_[*first].statement->toString(),
              " and its neighbours would have to be computed before and after each other");
    return out;
  }

  std::vector<Item> itemsOf(const std::vector<size_t>& works, size_t depth) {
    std::vector<Item> items;
    std::unordered_map<const Loop*, size_t> item_of_loop;
    std::unordered_map<size_t, size_t> item_of_work;
    for (size_t w : works) {
      const auto& path = works_[w].path;
      Loop* loop = depth < path.size() ? path[depth] : nullptr;
      size_t i = items.size();
      if (loop != nullptr) {
        i = item_of_loop.try_emplace(loop, items.size()).first->second;
      }
      if (i == items.size()) {
        items.emplace_back();
        items.back().loop = loop;
      }
      items[i].works.push_back(w);
      items[i].deferred = items[i].deferred || works_[w].deferred;
      items[i].early = items[i].early && works_[w].early;
      item_of_work[w] = i;
    }
    for (size_t w : works) {
      for (size_t before : works_[w].after) {
        auto it = item_of_work.find(before);
        if (it != item_of_work.end() && it->second != item_of_work[w] &&
            items[it->second].followers.insert(item_of_work[w]).second) {
          ++items[item_of_work[w]].waits_for;
        }
      }
    }
    return items;
  }

  std::vector<Work> works_;
  std::unordered_set<IdGroup> register_groups_; // that registers have a dimension of
};

} // namespace

Statements makeLoopNest(LowerContext& ctx) {
  Statements nest = NestMaker(ctx, makeWorks(ctx)).run();
  mergeThreadReduces(ctx, nest);
  placeThreadScans(ctx, nest);
  return nest;
}

} // namespace nvfuser
