// SPDX-License-Identifier: BSD-3-Clause
// TensorGraph: who produces and who consumes whom, for one state of a fusion. Only what outputs
// depend on counts; building it is linear, asking it is constant time. A scheduler that computes
// tensors several times says which of them are versions of one: all of these have the same loops.
#pragma once

#include <fusion.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace nvfuser {

class TensorGraph {
 public:
  // `versions`: a tensor that was made again, and what it was made like.
  explicit TensorGraph(const Fusion* fusion,
                       const std::vector<std::pair<TensorView*, TensorView*>>& versions = {});

  // Producers before consumers.
  const std::vector<TensorView*>& tensors() const& {
    return tensors_;
  }
  std::vector<TensorView*> tensors() && {
    return std::move(tensors_);
  }
  const std::vector<TensorView*>& producersOf(const TensorView* tv) const;
  const std::vector<TensorView*>& consumersOf(const TensorView* tv) const;
  // Tensors with the same values.
  const std::vector<TensorView*>& versionsOf(const TensorView* tv) const;
  bool has(const TensorView* tv) const {
    return links_.count(tv) != 0;
  }

 private:
  struct Links {
    std::vector<TensorView*> producers;
    std::vector<TensorView*> consumers;
    std::vector<TensorView*> versions;
  };
  const Links& links(const TensorView* tv) const;

  std::vector<TensorView*> tensors_;
  std::unordered_map<const TensorView*, Links> links_;
};

} // namespace nvfuser
