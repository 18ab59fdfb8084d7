// SPDX-License-Identifier: BSD-3-Clause
// Inlining: computing producers inside their consumers' loops.
//
// Meaning of the positions that are set here: compute_at_pos k of a tensor says that its first k
// loop axes are shared with the loops of each of its consumers; max_producer_pos k of a tensor says
// that some producer is computed inside the tensor's first k loops.
#pragma once

#include <fusion.h>
#include <transform/replay.h>
#include <transform/tensor_graph.h>

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

// Finds how deep tensors can be inlined. Valid as long as the fusion's graph and loop domains stay
// as they are; making one is linear in the size of the fusion.
class MaxPosCalculator {
 public:
  // `uninlinable`: loop axes that the caller wants to stay outside.
  explicit MaxPosCalculator(const Fusion* fusion,
                            std::unordered_set<const IterDomain*> uninlinable = {});

  // The deepest position of `tv` that is legal for all its consumers (without consumers: all its
  // axes). Never past a vectorized axis (with best_effort: nor an unrolled one) of the tensor or
  // the consumer, a reduction of the tensor, an axis without partner in the consumer, or a
  // broadcast that different consumers concretize differently. The position itself is computed
  // without regard to positions that are set already, so axes that the tensor lacks must stand
  // between the shared ones in all consumers alike.
  int64_t maxPosition(const TensorView* tv, bool best_effort) const;
  // The same, at most `limit`, where the caller knows whether the first axes, by their place in
  // each of the consumers, are the same loops.
  int64_t maxPosition(
      const TensorView* tv, bool best_effort, int64_t limit,
      const std::function<bool(const std::vector<LoopAxisMap>&, int64_t)>& agree) const;
  // The same for one consumer.
  int64_t maxPosition(const TensorView* producer, const TensorView* consumer,
                      bool best_effort) const;

  const TensorGraph& graph() const {
    return graph_;
  }

 private:
  void findUnmappable(const Fusion* fusion);
  bool mayInline(const TensorView* tv, IterDomain* id, bool best_effort, bool as_producer) const;
  bool repeatsReduction(const TensorView* producer, int64_t axis, const TensorView* consumer,
                        int64_t at) const;
  bool widensSum(const TensorView* producer, int64_t axis, const TensorView* consumer,
                 int64_t at) const;
  void findSummed();
  std::unordered_set<IterDomain*> widerAxes(const TensorView* producer,
                                            const TensorView* consumer) const;

  TensorGraph graph_;
  std::unordered_set<const IterDomain*> uninlinable_;
  // Broadcast logical domains that different consumers concretize to different domains, and
  // dimensions that a consumer has again after they were reduced
  std::unordered_set<const IterDomain*> unmappable_;
  // or squeezed, and broadcasts that one consumer squeezes and another one gives iterations.
  std::unordered_set<const IterDomain*> reentered_;
  // Tensors that have one.
  std::unordered_set<const TensorView*> has_unmappable_;
  // Broadcast logical domains that some tensor computed of them has as a dimension.
  std::unordered_set<const IterDomain*> iterates_;
  // Logical domains that a reduction of some tensor computed of them takes away, in loops over no
  // more than them.
  std::unordered_set<const IterDomain*> summed_;
};

// Inlines all (or the selected) tensors as deep as possible.
void inlineMost(const std::unordered_set<const IterDomain*>& uninlinable = {});
void inlineMost(const std::vector<TensorView*>& selected,
                const std::unordered_set<const IterDomain*>& uninlinable = {});
void inlineMost(const std::unordered_set<TensorView*>& selected,
                const std::unordered_set<const IterDomain*>& uninlinable = {});

// Inlines all tensors at the positions that correspond to the reference's first `pos` loop axes
// (-1: all). Error unless best_effort: such a position is not legal.
void inlineAllAt(TensorView* reference, int64_t pos, bool best_effort = false,
                 const std::unordered_set<const IterDomain*>& uninlinable = {});
// Only the selected tensors.
void inlineSelectedAt(const std::unordered_set<TensorView*>& selected, TensorView* reference,
                      int64_t pos, bool best_effort = false,
                      const std::unordered_set<const IterDomain*>& uninlinable = {});

// One tensor; `pos` -1 with best_effort is the deepest position. Positions only grow. Fusion inputs
// are not computed, so nothing happens to them.
void inlineTensorAt(const MaxPosCalculator& calculator, TensorView* tv, int64_t pos,
                    bool best_effort);

// Inlines each of the tensors at most at the given position (-1: as deep as possible), consumers
// before producers: a tensor whose consumers are in different loops, because one of them is
// computed inside loops that the tensor lacks, is only inlined as far as those loops agree.
void inlineTensors(const MaxPosCalculator& calculator,
                   const std::unordered_map<TensorView*, int64_t>& positions);

} // namespace nvfuser
