// Pass: loads that the schedule wants early are issued before a combination of threads.
//
//   t: { x = load(); sum += x }             t: { x = load(); sum += x }
//   combine sum                        ->   t: { w = load() }
//   t: { w = load(); out = x * sum * w }    combine sum
//                                           t: { out = x * sum * w }
//
// Where such a load could have loops of its own it needs no pass. It cannot where its place depends
// on the row, as that of weights does which go with aligned rows: then it shares the loops of what
// reads it.
#include <lower/context.h>

#include <algorithm>

namespace nvfuser {

namespace {

bool isEarly(const TensorView* tv) {
  return tv != nullptr && tv->isLoadedEarly();
}

// Nothing but loads of such tensors from memory that the kernel only reads.
bool isEarlyLoad(const Expr* e) {
  auto all = [](const Statements& list) {
    return !list.empty() && std::all_of(list.begin(), list.end(), isEarlyLoad);
  };
  if (const auto* loop = dynamic_cast<const ForLoop*>(e)) {
    return all(loop->body());
  }
  if (const auto* branch = dynamic_cast<const IfThenElse*>(e)) {
    return all(branch->thenBody()) && (branch->elseBody().empty() || all(branch->elseBody()));
  }
  if (const auto* allocate = dynamic_cast<const Allocate*>(e)) {
    return isEarly(allocate->tv());
  }
  const auto* target =
      e->kind() == ExprKind::LoadStoreOp ? dynamic_cast<const TensorIndex*>(e->output(0)) : nullptr;
  return target != nullptr && isEarly(target->view());
}

void takeEarlyLoads(Statements& from, Statements& to) {
  const auto rest = std::stable_partition(from.begin(), from.end(), isEarlyLoad);
  to.insert(to.end(), from.begin(), rest);
  from.erase(from.begin(), rest);
}

} // namespace

Statements loadEarly(const Statements& nest) {
  Statements out;
  size_t first_combination = nest.size();
  for (Expr* e : nest) {
    auto* loop = dynamic_cast<ForLoop*>(e);
    const bool is_after = first_combination < out.size();
    if (loop != nullptr && loop->isTrivial() && is_after) {
      ForLoop* early = loop->emptyCopy();
      takeEarlyLoads(loop->body(), early->body());
      if (!early->body().empty()) {
        out.insert(out.begin() + static_cast<std::ptrdiff_t>(first_combination++), early);
      }
    } else if (loop != nullptr && loop->isTrivial()) {
      loop->body() = loadEarly(loop->body());
    }
    if (is_after && isEarlyLoad(e)) {
      out.insert(out.begin() + static_cast<std::ptrdiff_t>(first_combination++), e);
      continue;
    }
    if (e->kind() == ExprKind::ThreadReduce && !is_after) {
      first_combination = out.size();
    }
    out.push_back(e);
  }
  return out;
}

} // namespace nvfuser
