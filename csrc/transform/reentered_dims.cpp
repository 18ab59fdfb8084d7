// SPDX-License-Identifier: BSD-3-Clause
// See reentered_dims.h.
#include <transform/reentered_dims.h>

#include <algorithm>
#include <unordered_map>

namespace nvfuser {

namespace {

class ReenteredDims {
 public:
  ReenteredDims(const TensorGraph& graph, const std::function<bool(const IterDomain*)>& is_dim)
      : graph_(graph), order_(graph.tensors()) {
    for (const TensorView* tv : order_) {
      place(tv, is_dim);
    }
  }

  std::vector<std::pair<const TensorView*, const IterDomain*>> find() {
    if (!comes_back_) {
      return {};
    }
    computeLate();
    for (const TensorView* tv : order_) {
      computeWithProducers(tv);
    }
    std::vector<std::pair<const TensorView*, const IterDomain*>> out;
    for (const TensorView* tv : order_) {
      const auto& consumers = graph_.consumersOf(tv);
      const bool later =
          std::any_of(consumers.begin(), consumers.end(), [&](const TensorView* consumer) {
            return dim_.at(consumer) != nullptr && computed_.at(consumer) > computed_.at(tv);
          });
      if (dim_.at(tv) != nullptr && later) {
        out.emplace_back(tv, dim_.at(tv));
      }
    }
    return out;
  }

 private:
  void place(const TensorView* tv, const std::function<bool(const IterDomain*)>& is_dim) {
    const IterDomain*& own = dim_[tv];
    own = nullptr;
    for (const IterDomain* id : tv->getMaybeRootDomain()) {
      own = id->isReduction() && is_dim(id) ? id : own;
    }
    for (const IterDomain* id : tv->getLogicalDomain()) {
      own = is_dim(id) ? id : own;
    }
    int& at = stage_[tv];
    for (const TensorView* producer : graph_.producersOf(tv)) {
      at = std::max(at, stage_.at(producer) + leaves(producer, tv));
    }
    last_ = std::max(last_, at);
    comes_back_ = comes_back_ || (at > 0 && own != nullptr);
  }

  int leaves(const TensorView* producer, const TensorView* consumer) const {
    if (producer->isFusionInput()) {
      return 0; // it is read, in no loop of its own
    }
    const IterDomain* id = dim_.at(producer);
    return id != nullptr && (id->isReduction() || dim_.at(consumer) == nullptr) ? 1 : 0;
  }

  bool shares(const TensorView* producer, const TensorView* tv) const {
    return dim_.at(producer) != nullptr && leaves(producer, tv) == 0;
  }

  // Everything is computed as late as possible, but with what it is computed from if nothing else
  // needs it later.
  void computeLate() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      int& at = computed_[*it];
      int& until = needed_[*it];
      at = last_;
      until = stage_.at(*it);
      for (const TensorView* consumer : graph_.consumersOf(*it)) {
        at = std::min(at, computed_.at(consumer) - leaves(*it, consumer));
        until = std::max(until, dim_.at(consumer) == nullptr ? 0 : needed_.at(consumer));
      }
    }
  }

  void computeWithProducers(const TensorView* tv) {
    int earliest = last_;
    for (const TensorView* producer : graph_.producersOf(tv)) {
      earliest = shares(producer, tv) ? std::min(earliest, computed_.at(producer)) : earliest;
    }
    int with_producers = std::max(stage_.at(tv), earliest);
    for (const TensorView* producer : graph_.producersOf(tv)) {
      // One that is needed until then only comes along.
      if (shares(producer, tv) && needed_.at(producer) > with_producers) {
        with_producers = std::max(with_producers, computed_.at(producer));
      }
    }
    if (needed_.at(tv) <= with_producers) {
      pull(tv, with_producers);
    }
  }

  void pull(const TensorView* tv, int to) {
    if (computed_.at(tv) > to) {
      computed_[tv] = to;
      for (const TensorView* producer : graph_.producersOf(tv)) {
        if (shares(producer, tv)) {
          pull(producer, to);
        }
      }
    }
  }

  const TensorGraph& graph_;
  const std::vector<TensorView*>& order_;
  std::unordered_map<const TensorView*, const IterDomain*> dim_; // null: the tensor lacks it
  // How often the dimension was left, at least, before a tensor is computed.
  std::unordered_map<const TensorView*, int> stage_;
  int last_ = 0;
  bool comes_back_ = false;
  std::unordered_map<const TensorView*, int> computed_;
  std::unordered_map<const TensorView*, int> needed_;
};

} // namespace

std::vector<std::pair<const TensorView*, const IterDomain*>> reenteredDims(
    const TensorGraph& graph, const std::function<bool(const IterDomain*)>& is_dim) {
  return ReenteredDims(graph, is_dim).find();
}

} // namespace nvfuser
