// SPDX-License-Identifier: BSD-3-Clause
// Replay: how the dimensions of two neighbouring tensors correspond, and making one's loops follow
// the other's. Everything here looks at one producer-consumer pair; propagate.h walks the graph.
#pragma once

#include <ir/tensor_view.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace nvfuser {

using IterDomainMap = std::unordered_map<IterDomain*, IterDomain*>;

// Which logical domain of the producer is which root (or, without root, logical) domain of the
// consumer. Dimensions that only one side has (made by broadcast, removed by squeeze or a
// reduction) have no partner. A broadcast of the producer is partner of what it is broadcast to.
class PairwiseLogicalMap {
 public:
  PairwiseLogicalMap(const TensorView* producer, const TensorView* consumer);

  // (producer, consumer), in the order of the dimensions. By value from a temporary, so that a
  // range-for over one is safe.
  const std::vector<std::pair<IterDomain*, IterDomain*>>& pairs() const& {
    return pairs_;
  }
  std::vector<std::pair<IterDomain*, IterDomain*>> pairs() && {
    return std::move(pairs_);
  }
  IterDomainMap producerToConsumer() const;
  IterDomainMap consumerToProducer() const;

 private:
  std::vector<std::pair<IterDomain*, IterDomain*>> pairs_;
};

// Which loop axes of two neighbours are the same iteration (a broadcast counts as what it is
// broadcast to). A merge with a dimension that the other side lacks counts as its other operand.
struct LoopAxisMap {
  // Axis of the other tensor, or -1.
  std::vector<int64_t> producer_to_consumer;
  std::vector<int64_t> consumer_to_producer;
  // The axis is made (at least in part) of dimensions that the other tensor has too.
  std::vector<bool> producer_shared;
  std::vector<bool> consumer_shared;

  // Number of leading producer axes that lie in the consumer's first `consumer_pos` axes and cover
  // everything there that the two tensors share.
  int64_t producerPosition(int64_t consumer_pos) const;
  // The same in the other direction: the shortest prefix of the consumer that holds the producer's
  // first `producer_pos` axes, or -1 if the orders differ so that no prefix does.
  int64_t consumerPosition(int64_t producer_pos) const;
};
LoopAxisMap mapLoopAxes(const TensorView* producer, const TensorView* consumer);

// Gives `producer` the loops of `consumer`'s first `consumer_pos` loop axes, as far as it has their
// dimensions; axes that do not take part follow in their old order. View transforms of the consumer
// (between its root and logical domains) become loop transforms of the producer. Nothing changes if
// the loops agree already. Returns the number of leading axes of the producer that correspond.
int64_t replayProducerAsConsumer(TensorView* producer, TensorView* consumer, int64_t consumer_pos);
// The same with the roles swapped. View transforms of the consumer are followed where the
// producer's loops have the same ones; otherwise the dimensions under them stay as they are.
int64_t replayConsumerAsProducer(TensorView* consumer, TensorView* producer, int64_t producer_pos);

// Gives a tensor the loops of another version of it, which has the same dimensions.
int64_t replayAsVersion(TensorView* version, TensorView* other, int64_t pos);

// Makes the loops of `tv` those of the reference, as far as it has their dimensions: `map` says
// which logical domain of it stands for which root (or logical) domain of the reference. Returns
// for each loop of `tv` the axis of the reference that it is, or -1.
std::vector<int64_t> replayAs(TensorView* tv, const TensorView* reference, IterDomainMap map);

// Repeats the transforms from `from` to `loop` on the domains `onto` (one for each of `from`),
// parallel types included, and returns the counterparts of `loop`.
std::vector<IterDomain*> replayOnCopy(const std::vector<IterDomain*>& from,
                                      const std::vector<IterDomain*>& loop,
                                      const std::vector<IterDomain*>& onto);

} // namespace nvfuser
