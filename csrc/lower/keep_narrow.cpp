// Pass: 16-bit values that are read before and after a combination of threads stay 16 bits wide.
//
// Both stages of a normalization widen the elements of the row. A compiler that sees that they are
// the same computes them once, and keeps twice the registers for as long as the statistics take.
// So the combination names these registers, and the kernel claims that it might change them.
#include <lower/context.h>

#include <algorithm>
#include <set>

namespace nvfuser {

namespace {

struct ByName {
  bool operator()(const TensorView* a, const TensorView* b) const {
    return a->name() < b->name();
  }
};
using Views = std::set<TensorView*, ByName>;

void collectRead(const Expr* e, Views& views) {
  if (const auto* loop = dynamic_cast<const ForLoop*>(e)) {
    for (const Expr* x : loop->body()) {
      collectRead(x, views);
    }
  } else if (const auto* branch = dynamic_cast<const IfThenElse*>(e)) {
    for (const auto* body : {&branch->thenBody(), &branch->elseBody()}) {
      for (const Expr* x : *body) {
        collectRead(x, views);
      }
    }
  }
  for (const Val* v : e->inputs()) {
    const auto* element = dynamic_cast<const TensorIndex*>(v);
    if (element != nullptr && element->view()->getMemoryType() == MemoryType::Local &&
        dataTypeSizeBits(element->view()->dtype()) == 16) {
      views.insert(element->view());
    }
  }
}

} // namespace

// Loops over rows are left alone: their rows come from shared memory or a turn ahead.
void keepNarrow(const Statements& nest) {
  std::vector<Views> of_each(nest.size());
  for (size_t i = 0; i < nest.size(); ++i) {
    collectRead(nest[i], of_each[i]);
  }
  Views before;
  for (size_t i = 0; i < nest.size(); ++i) {
    if (auto* reduce = dynamic_cast<ThreadReduce*>(nest[i])) {
      Views after;
      for (size_t k = i + 1; k < nest.size(); ++k) {
        after.insert(of_each[k].begin(), of_each[k].end());
      }
      std::set_intersection(before.begin(), before.end(), after.begin(), after.end(),
                            std::back_inserter(reduce->narrow), ByName());
    }
    const auto* loop = dynamic_cast<const ForLoop*>(nest[i]);
    if (loop != nullptr && loop->isTrivial()) {
      keepNarrow(loop->body());
    }
    before.insert(of_each[i].begin(), of_each[i].end());
  }
}

} // namespace nvfuser
