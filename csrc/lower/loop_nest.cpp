// Pass: order the expressions and put loops around them.
//
// Expressions that share a loop must be contiguous. Level by level, the expressions with the same loop at
// that depth are taken as one item, the items are ordered topologically (earliest definition first),
// and each item is nested one level deeper. What fills shared memory waits for everything else that can go before it,
// so that loads of other tensors are under way when the first of them is waited for.
#include <base/error.h>
#include <ir/builder.h>
#include <ir/visitor.h>
#include <lower/context.h>

#include <algorithm>
#include <queue>

namespace nvfuser {

namespace {

class NestMaker {
 public:
  explicit NestMaker(LowerContext& ctx) : ctx_(ctx) {}

  Statements nest(const std::vector<Expr*>& exprs, size_t depth) {
    struct Item {
      Loop* loop = nullptr; // null: a single expression
      bool fills_shared = false;
      std::vector<Expr*> exprs;
      std::unordered_set<size_t> after; // items that must follow
      size_t waits_for = 0;
    };
    std::vector<Item> items;
    std::unordered_map<const Loop*, size_t> item_of_loop;
    std::unordered_map<const Val*, size_t> item_of_output;
    std::vector<size_t> item_of_expr;
    for (Expr* e : exprs) {
      const auto& path = ctx_.loops(LowerContext::outputOf(e)).path;
      Loop* loop = depth < path.size() ? path[depth] : nullptr;
      size_t i = items.size();
      if (loop != nullptr) {
        i = item_of_loop.try_emplace(loop, items.size()).first->second;
      }
      if (i == items.size()) {
        items.emplace_back();
        items.back().loop = loop;
      }
      items[i].exprs.push_back(e);
      item_of_expr.push_back(i);
      for (const Val* out : e->outputs()) {
        item_of_output[out] = i;
      }
      items[i].fills_shared = items[i].fills_shared ||
          LowerContext::outputOf(e)->getMemoryType() == MemoryType::Shared;
    }
    for (size_t k = 0; k < exprs.size(); ++k) {
      for (const Val* in : exprs[k]->inputs()) {
        auto it = item_of_output.find(in);
        if (it != item_of_output.end() && it->second != item_of_expr[k] &&
            items[it->second].after.insert(item_of_expr[k]).second) {
          ++items[item_of_expr[k]].waits_for;
        }
      }
    }
    using Rank = std::pair<bool, size_t>;
    std::priority_queue<Rank, std::vector<Rank>, std::greater<>> ready;
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].waits_for == 0) {
        ready.emplace(items[i].fills_shared, i);
      }
    }
    Statements out;
    size_t done = 0;
    while (!ready.empty()) {
      const size_t i = ready.top().second;
      ready.pop();
      ++done;
      if (items[i].loop == nullptr) {
        out.push_back(items[i].exprs.front());
      } else {
        const Loop* l = items[i].loop;
        auto* loop = IrBuilder::create<ForLoop>(l->domain, l->index, l->extent, l->type, l->id);
        loop->body() = nest(items[i].exprs, depth + 1);
        out.push_back(loop);
      }
      for (size_t next : items[i].after) {
        if (--items[next].waits_for == 0) {
          ready.emplace(items[next].fills_shared, next);
        }
      }
    }
    NVF_CHECK(
        done == items.size(),
        "the inlined tensors of this schedule can't be ordered: ",
        exprs.front()->output(0)->toString(),
        " and its neighbours would have to be computed before and after each other");
    return out;
  }

 private:
  LowerContext& ctx_;
};

} // namespace

Statements makeLoopNest(LowerContext& ctx) {
  return NestMaker(ctx).nest(ctx.kernel()->exprs(), 0);
}

} // namespace nvfuser
