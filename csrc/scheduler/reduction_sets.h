// SPDX-License-Identifier: BSD-3-Clause
// What the reductions of one kernel have to do with each other: which is the widest, which reduce
// parts of the rows of others, and which reduce other dimensions altogether.
#pragma once

#include <fusion.h>
#include <id_model/id_graph.h>

#include <set>
#include <unordered_map>
#include <vector>

namespace nvfuser {

// Of these outputs of reductions the first of those that run over the most dimensions (of size 1
// excluded).
TensorView* widestReduction(const std::vector<TensorView*>& reductions);

// Rows that consist of *subrows*: some reductions reduce each of them, such as the channels of a
// group in the gradient of a group norm, others whole rows, or what is left of the subrows. Which
// of the reference's dimensions there is a subrow for each position of; empty if these are not the
// first ones of the row.
std::set<IdGroup> subrowDimsOf(const TensorView* reference,
                               const std::vector<TensorView*>& reductions, const IdGraph& graph);

// Reductions whose reduced dimensions have nothing to do with each other, such as the sums of two
// tensors that nothing else connects, or the statistics of one tensor that scale another one. They
// share a kernel if these dimensions are equally many, equally large and in the same order: each
// set of them gets loops of its own, which are all scheduled like those of the first set.
class ReductionSets {
 public:
  // Sets over the dimensions of a permissive graph; none if some reduced dimensions are common to
  // two of them and others are not.
  ReductionSets(std::vector<TensorView*> reductions, const IdGraph& graph);

  // The widest reduction of each set.
  const std::vector<TensorView*>& references() const {
    return references_;
  }
  // The set that a tensor has reduced dimensions of. -1: of none; kSeveral: of more than one.
  int setOf(const TensorView* tv) const;
  static constexpr int kSeveral = -2;

 private:
  bool add(TensorView* reference, std::vector<TensorView*>& left);

  const IdGraph& graph_;
  std::vector<TensorView*> references_;
  std::unordered_map<IdGroup, int> set_of_group_;
};

} // namespace nvfuser
