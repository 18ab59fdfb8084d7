// SPDX-License-Identifier: BSD-3-Clause
// TensorView::computeAt: replays the consumer's loops on everything between the two tensors, then
// inlines.
#include <transform/inlining.h>

#include <base/error.h>
#include <ir/describe.h>
#include <transform/propagate.h>
#include <transform/replay.h>

#include <unordered_set>

namespace nvfuser {

namespace {

// `from`, `to` and the tensors on paths between them; empty if there is no path.
std::unordered_set<TensorView*> tensorsBetween(const TensorGraph& graph, TensorView* from,
                                               TensorView* to) {
  std::unordered_set<TensorView*> below{from};
  std::unordered_set<TensorView*> above{to};
  const auto& order = graph.tensors();
  for (TensorView* tv : order) {
    for (TensorView* p : graph.producersOf(tv)) {
      if (below.count(p) != 0) {
        below.insert(tv);
      }
    }
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    for (TensorView* c : graph.consumersOf(*it)) {
      if (above.count(c) != 0) {
        above.insert(*it);
      }
    }
  }
  std::unordered_set<TensorView*> out;
  // NOLINTNEXTLINE(bugprone-nondeterministic-pointer-iteration-order): any order fills the set
  for (TensorView* tv : below) {
    if (above.count(tv) != 0) {
      out.insert(tv);
    }
  }
  return out;
}

} // namespace

TensorView* TensorView::computeAt(TensorView* consumer, int64_t position, ComputeAtMode mode) {
  NVF_CHECK(consumer != this, "Cannot compute ", describeLoops(this), " at itself");
  const int64_t n = consumer->nDims();
  const int64_t pos = position < 0 ? position + n + 1 : position;
  NVF_CHECK(pos >= 0 && pos <= n, "Cannot compute ", describeLoops(this), " at position ", position,
            " of ", describeLoops(consumer), ", which has ", n, " loop axes");
  const TensorGraph graph(fusion());
  const std::unordered_set<TensorView*> selected = tensorsBetween(graph, this, consumer);
  NVF_CHECK(selected.count(this) != 0, "Cannot compute ", describeLoops(this), " at ",
            describeLoops(consumer), ", which does not depend on it");
  std::unordered_map<TensorView*, int64_t> reached{{consumer, pos}};
  for (const PropagationStep& step : maxInfoSpanningTree(graph, consumer, selected)) {
    const int64_t from_pos = reached.at(step.from);
    reached[step.to] = step.backward ? replayProducerAsConsumer(step.to, step.from, from_pos)
                                     : replayConsumerAsProducer(step.to, step.from, from_pos);
  }
  if (mode == ComputeAtMode::MostInlined) {
    inlineMost(selected);
    return this;
  }
  std::unordered_set<TensorView*> producers = selected;
  producers.erase(consumer);
  inlineSelectedAt(producers, consumer, pos, mode == ComputeAtMode::BestEffort);
  return this;
}

} // namespace nvfuser
