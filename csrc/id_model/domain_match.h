// SPDX-License-Identifier: BSD-3-Clause
// Which domains of two neighbours are the same iteration, when a broadcast counts as what it is
// broadcast to: from the dimensions that the op pairs through equal transforms towards the loops.
#pragma once

#include <ir/nodes.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace nvfuser {

struct DomainMatch {
  DomainMatch(const TensorView* producer, const TensorView* consumer);
  // Of two tensors with the same dimensions that are computed alike.
  static DomainMatch ofVersions(const TensorView* tv, const TensorView* version);

  // (producer, consumer), inputs of transforms before their outputs; each domain at most once. A
  // merge with a dimension that the other tensor lacks stands for its other operand, which then has
  // no partner.
  std::vector<std::pair<IterDomain*, IterDomain*>> pairs;
  // Domains that are made only of dimensions that the other tensor lacks.
  std::unordered_set<const IterDomain*> only_producer;
  std::unordered_set<const IterDomain*> only_consumer;

  // The consumer's loop axis for each of the producer's, or -1.
  std::vector<int64_t> producerToConsumerAxes() const;

 private:
  DomainMatch(const TensorView* producer, const TensorView* consumer,
              const std::vector<IterDomain*>& dims_of_consumer,
              const std::vector<std::pair<IterDomain*, IterDomain*>>& pairs_of_dims);

  const TensorView* producer_;
  const TensorView* consumer_;
};

} // namespace nvfuser
