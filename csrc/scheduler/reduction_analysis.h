// SPDX-License-Identifier: BSD-3-Clause
// What the reduction schedulers know about a fusion before shapes: which dimensions are reduced,
// what is computed in which pass over the rows, and which tensors don't fit in.
//
// A *pass* (names say stage) ends where a reduction over the row is complete: x and x * x are in
// pass 0, what reads their sums is in pass 1. Tensors with reduced dimensions that are read in a
// later pass than the one they are made in are kept on chip (persistent) or computed again.
#pragma once

#include <fusion.h>
#include <id_model/id_graph.h>
#include <id_model/layout.h>
#include <scheduler/reduction_sets.h>
#include <segment/segment.h>
#include <transform/tensor_graph.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

struct RowDims;

class ReductionAnalysis {
 public:
  // `why` receives the reason if the fusion is not of the kind.
  static std::shared_ptr<const ReductionAnalysis> run(Fusion* fusion, std::string* why);

  // First outputs of the reductions, in topological order; the widest is the reference.
  std::vector<TensorView*> reductions;
  // By dimension of the reference's logical domain.
  std::vector<bool> reduced;
  // The innermost dimension in memory is reduced.
  bool fastest_dim = false;
  // Something of a later pass has reduced dimensions: rows are visited more than once.
  bool normalization = false;
  // Sums of columns over the rows of each block (preseg_passes/column_reductions.h).
  std::vector<TensorView*> partials;
  // Tensors at which a cut separates what doesn't fit together.
  ConflictingTensors conflicts;
  // Sets of reductions whose reduced dimensions have nothing to do with each other (ReductionSets).
  int num_sets = 1;

  // The widest reduction of rows. There is one if `why` stayed empty.
  TensorView* reference() const {
    return reference_;
  }
  // Its dimensions of one kind (kept, or reduced), as their loops nest: in the order that they have
  // in memory.
  void orderAsLoops(std::vector<IterDomain*>& ids) const;
  int stage(const TensorView* tv) const {
    return stages_.at(tv);
  }
  // Pass that the loops of an expression belong to: its inputs' latest.
  int stageOf(const Expr* e) const;
  // An operand of the first reductions is computed of an input that has other rows, rather than of
  // what all rows share and of single values.
  bool reducesRowsFirst() const;
  // The tensor has a dimension (not a broadcast one) that is reduced somewhere.
  bool hasReducedDims(const TensorView* tv) const {
    return with_reduced_.count(tv) != 0;
  }
  // What each thread has all of (RowDims in preseg_passes/column_reductions.h).
  bool hasShortDims() const {
    return !short_groups_.empty();
  }
  bool isShortDim(const IterDomain* id) const {
    return short_groups_.count(axisOf(id)) != 0;
  }
  // What rows consist of that are reduced by themselves as well (subrowDimsOf).
  bool hasSubrows() const {
    return !subrow_groups_.empty();
  }
  // It has one element for each subrow, which the threads of a subrow have.
  bool isOfSubrows(const TensorView* tv) const {
    return of_subrows_.count(tv) != 0;
  }
  // Of the reference: there is a subrow for each of its positions.
  bool isSubrowDim(const IterDomain* id) const {
    return subrow_groups_.count(axisOf(id)) != 0;
  }
  // Of the reference: threads share it.
  bool isAlongRow(const IterDomain* id) const {
    return isReducedDim(id) && !isShortDim(id);
  }
  // Elements of a tensor for each position along the row.
  int64_t elementsOfPosition(const TensorView* tv) const;
  // Of a tensor that has all short dimensions.
  int64_t shortElements() const;
  // Innermost in memory first: those of its short dimensions that are contiguous.
  std::vector<IterDomain*> contiguousShortRun(const TensorView* tv) const;
  // The set of reductions that it has a reduced dimension of (else -1).
  int setOf(const TensorView* tv) const {
    auto it = sets_.find(tv);
    return it == sets_.end() ? -1 : it->second;
  }
  // It has all that threads share: each element is read by the thread that it was loaded or
  // computed by.
  bool hasWholeRows(const TensorView* tv) const {
    return with_whole_rows_.count(tv) != 0;
  }
  // It has dimensions that are not reduced: its values are others in every row.
  bool differsByRow(const TensorView* tv) const;
  // The input differs by row, but has some elements of each alone, or lacks some dimensions of it.
  bool isPartOfRow(const TensorView* input) const;
  // Of what the kernel runs over; a reduction of all dimensions has one row.
  bool hasSeveralRows() const;
  bool isReducedDim(const IterDomain* id) const {
    return reduced_groups_.count(axisOf(id)) != 0;
  }
  // Slices or pads make dimensions of the reference's size of some of its dimensions. It is read in
  // the reference's loops, where they come to it.
  bool isCut(const TensorView* tv) const;
  // Groups of the tensor's dimensions in the graph of all iterations.
  const IdGraph& graph() const {
    return graph_;
  }
  // Its dimension has the size of the reference's.
  bool areOfOneSize(const IterDomain* id, const IterDomain* of_reference) const {
    return sizes_.same(id, of_reference);
  }
  // Of the tensor's dimensions (without reduced ones) that which neighbouring threads run along:
  // the reference's innermost one. -1: it has none.
  int64_t innermostDim(const TensorView* tv, bool along_reduced) const;
  // All of a vector of a row reads one element: the weight of a channel in a row of several.
  bool isOneOfVector(const TensorView* tv) const {
    return fastest_dim && hasReducedDims(tv) && innermostDim(tv, true) < 0;
  }
  // It has the elements of a row, or some, and neighbouring rows read the same ones.
  bool isSharedByNeighbours(const TensorView* tv) const {
    return hasReducedDims(tv) && innermostDim(tv, false) < 0;
  }
  // Innermost in memory first: the tensor's dimensions that run along the reference's (from its
  // innermost reduced dimension, or iterated one if `along_reduced` is false) and are contiguous.
  std::vector<IterDomain*> contiguousRun(const TensorView* tv, bool along_reduced) const;
  // As many of the innermost dimensions of a row lie in one piece in some input or output that has
  // all dimensions.
  size_t longestRunAlongRows() const;
  bool hasAllDims(const TensorView* tv) const;
  // The tensor has each dimension that the kernel runs over, and is contiguous along the rows, or
  // along what is not reduced: across the rows. An input may be the same for several rows.
  bool liesAlongRows(const TensorView* tv) const {
    return hasAllDims(tv) && !contiguousRun(tv, true).empty();
  }
  bool liesAcrossRows(const TensorView* tv, bool is_input) const {
    return (hasAllDims(tv) || (is_input && hasAllDimsOfRows(tv))) &&
           !contiguousRun(tv, false).empty();
  }
  // Positions among inputs and then outputs of those that lie across the rows, and may change
  // threads in shared memory. None if no other tensor lies along them.
  std::vector<int64_t> acrossRows(const Fusion* fusion) const;
  // Of the kept dimensions in the order of loops: the inner ones, which all of these have. The rows
  // of a tile lie along them.
  std::vector<const IterDomain*> dimsOfTiles(const Fusion* fusion,
                                             const std::vector<int64_t>& exchanged) const;
  // The tensor has all that the kernel runs over in one piece, with one row after the other.
  bool liesAsRowsDo(const TensorView* tv) const;
  // All along the rows, or across them: what contiguousRun() is made of.
  ContiguousRun runAlong(const TensorView* tv, bool along_reduced) const {
    return runOf(tv, {along_reduced ? Kind::AlongRow : Kind::Kept});
  }
  ContiguousRun runAlongShort(const TensorView* tv) const {
    return runOf(tv, {Kind::Short});
  }

 private:
  class Steps;
  bool collect(Fusion* fusion, std::string* why);
  bool fitAll(const Fusion* fusion, std::string* why);
  void findKinds(const Fusion* fusion);
  bool areRowsFastest(const Fusion* fusion, const RowDims& dims) const;
  bool reducesAsReference(const TensorView* tv, std::string* why) const;
  bool reducesSubrows(const TensorView* tv) const;
  bool hasAllOf(const TensorView* tv, const std::unordered_set<IdGroup>& seen,
                std::string* why) const;
  bool haveSetsInCommon(const Fusion* fusion) const;
  bool fitTogether(const Fusion* fusion) const;
  bool joinSets(Fusion* fusion);
  bool mapsToReference(const TensorView* other);
  bool fits(const Expr* e, std::string* why) const;
  bool hasAxesOfReference(const TensorView* tv, const Expr* e, std::string* why) const;
  bool standsAlongTwoAxes(const TensorView* tv) const;
  bool leadsToReference(const Expr* e) const;
  bool isReadCutAndWhole(const TensorView* in, const Expr* e) const;
  bool hasSizeOfReference(const IterDomain* id) const;
  bool fitsAsPartial(const TensorView* tv, std::string* why) const;
  void findCutDims(const std::vector<Expr*>& exprs);
  IdGroup axisOf(const IterDomain* id) const;
  bool isCut(const IterDomain* id) const;
  DomainNumber numberOf(const IterDomain* id) const;
  void findStages(const std::vector<Expr*>& exprs);
  void findConflicts(const std::vector<Expr*>& exprs);
  bool isFastestDim(const Fusion* fusion, int set) const;
  enum class Kind : uint8_t { Kept, AlongRow, Short };
  // Those of a row, and none that the reference lacks.
  bool hasAllDimsOfRows(const TensorView* tv) const;
  Kind kindOf(IdGroup group) const;
  std::vector<IdGroup> orderInMemory(const TensorView* tv, Kind kind,
                                     const std::vector<IdGroup>& axes) const;
  bool areRowsLong() const;
  void findLoopOrder(const Fusion* fusion);
  ContiguousRun runOf(const TensorView* tv, const std::vector<Kind>& kinds) const;
  std::vector<IterDomain*> dimsOfRun(const TensorView* tv, Kind kind) const;

  TensorView* reference_ = nullptr;
  std::map<Kind, std::vector<IdGroup>> axes_; // the reference's, as their loops nest
  IdGraph graph_;
  IdGraph sizes_; // all in one group have one size
  std::unordered_map<IdGroup, const IterDomain*> reference_dims_;
  // What slices and pads take, by group of sizes: the axis that it becomes, -1 if it is none or if
  // there are several ways to come to it.
  std::unordered_map<IdGroup, IdGroup> cut_dims_;
  // What has one element along a dimension that is padded is read as what is broadcast is, with
  // loops that lack it, rather than in those of what it is padded to: statistics of a row whose
  // pairs are taken apart and joined again (interleaved rotary embeddings) are broadcast as well.
  bool reads_ones_anywhere_ = false;
  std::unordered_map<DomainNumber, std::vector<const Resize*>> resizes_to_;
  std::unordered_set<IdGroup> reduced_groups_;
  std::unordered_set<IdGroup> short_groups_;  // of those that are reduced
  std::unordered_set<IdGroup> subrow_groups_; // likewise
  std::unordered_set<const TensorView*> of_subrows_;
  std::unordered_set<IdGroup> kept_groups_;
  std::unordered_map<const TensorView*, int> stages_;
  std::unordered_map<const TensorView*, int> sets_;
  std::unordered_set<const TensorView*> with_reduced_;
  std::unordered_set<const TensorView*> with_whole_rows_;
};

} // namespace nvfuser
