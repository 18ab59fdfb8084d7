// SPDX-License-Identifier: BSD-3-Clause
// IdModel: the graph of all iteration domains of a fusion, and canonical extents.
//
// The exact graph joins a producer's logical domains with its consumers' root domains, op by op.
// Fusion inputs are left out of it: they are not computed, and an input that is read along two
// different axes of one consumer (x[i] + x[j]) must not make those axes equal. An access of a
// producer therefore goes in two steps, from the loops to the consumer's root domain, and from
// there to the producer (see indexing.h). Extents are joined through inputs as well: they only say
// how large, not which.
#pragma once

#include <id_model/id_graph.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

// The graph of a whole fusion, inputs included, for inspection: exact, or permissive, which also
// joins broadcasts with what they are broadcast to. (Other modes give the exact graph.)
IdGraph buildGraph(const Fusion* fusion, IdMappingMode mode);
// The same of the tensors' dimensions alone, whatever a schedule has made of them: in its loops a
// merge with a broadcast counts as the other dimension.
IdGraph buildDimensionGraph(const Fusion* fusion, IdMappingMode mode);

class IdModel {
 public:
  explicit IdModel(Fusion* fusion);

  const IdGraph& exact() const {
    return exact_;
  }
  // The outputs of a transform like this one over other domains of the exact graph, to which they
  // are added if it has none like them.
  std::vector<IterDomain*> repeat(const Expr* transform, const std::vector<IterDomain*>& inputs);
  // Declares two domains of the exact graph to be one iteration, for loops that were joined. Where
  // nothing but that relates them (the dimensions of producers and consumers are joined already),
  // each tensor in these loops still runs over all its elements if the extents are equal, which the
  // caller sees to, and if no tensor has both, or what follows from both: false if one has.
  bool identify(IterDomain* a, IterDomain* b);
  // The extent of a group in canonical form: constants where known, else extents of fusion inputs.
  Val* extent(IdGroup g) const;
  // A domain's extent in canonical form, also for domains of inputs.
  Val* extent(const IterDomain* id) const;
  // Any extent-like scalar rewritten over canonical extents.
  Val* canonical(Val* v) const;

  // A resize by this width may add iterations. (Unknown signs: it may.)
  bool mayGrow(Val* width) const;

  // Two dimensions of one tensor fell into one group: such a tensor has no unambiguous index.
  // Null if there is none.
  const TensorView* selfMapped() const {
    return self_mapped_;
  }
  std::string toString() const;

 private:
  void addCuts(const Expr* e);
  void findSelfMapped();
  void joinExtents(const Fusion* fusion);

  IdGraph exact_;
  std::vector<TensorView*> tensors_;
  const TensorView* self_mapped_ = nullptr;
  std::unordered_set<const Val*> cuts_; // the widths of slices, which cut off
  std::vector<Val*> assumed_; // extents that the schedule takes for known numbers, canonical
  mutable std::unordered_map<const Val*, Val*> canonical_;
  mutable std::unordered_map<IdGroup, Val*> group_extents_;
};

} // namespace nvfuser
