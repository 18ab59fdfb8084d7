// SPDX-License-Identifier: BSD-3-Clause
// How iterations lie in memory: what is contiguous, for how many elements, and from which
// alignment. Everything that asks for it asks here: schedulers before there are loops, lowering
// afterwards.
//
// A tensor in memory is a number in mixed radix. Its digits are the dimensions of the allocation
// domain, the most significant (outermost) one first; where all are contiguous the number is the
// address, in elements. What accesses the tensor counts with digits of its own, the axes: loops, or
// before these are made the dimensions of the tensor whose loops all others will have. Transforms
// relate the two: (outer, inner) of a merge or of a split count like the whole. A *run* is what the
// innermost axes and the innermost dimensions in memory have in common: its iterations are
// neighbours in memory.
//
// Units: lengths and extents count elements (of a packed type: of the type's own elements), as
// scalars of the fusion, constants where known. Alignment is not asked in bytes: a vector of `w`
// elements is aligned if the tensor's address is a multiple of w elements, if w divides all of
// ContiguousRun::multiples, and if it divides the strides of the dimensions outside of the run.
#pragma once

#include <id_model/id_model.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nvfuser {

// --- a tensor in memory; the same before and after scheduling ---

struct MemoryDim {
  IterDomain* id = nullptr; // of the allocation domain
  // Among the dimensions of the allocation domain that are not reduced: the number of its stride.
  size_t position = 0;
  // Among those of the logical domain; -1: it is made of several, or of a part of one.
  int64_t logical = -1;
  // The stride is what the dimensions inwards take, 1 for the innermost one. (Where nothing is said
  // it is not.)
  bool contiguous = false;
};

// The most significant first. Reductions have no place in memory, broadcasts (expanded ones too)
// one element.
std::vector<MemoryDim> memoryDims(const TensorView* tv);

// --- runs ---

// A domain by its number: a group of an IdGraph, a term of AxisTerms.
using DomainNumber = int;

// How a domain is made of others.
struct DomainStep {
  enum class Kind : uint8_t { Merge, SplitOuter, SplitInner, Resize, Align };
  Kind kind = Kind::Merge;
  // Merge: the outer operand. Split: the whole. Resize: what was resized. Align: the rows.
  DomainNumber a = -1;
  // Merge: the inner operand. SplitInner: the outer part (-1: nothing runs over it). Align: the
  // elements of a row.
  DomainNumber b = -1;
  // SplitInner: the extent of the part, null if it is not known. Resize: where the elements begin
  // and where they end, as two numbers that are multiples of whatever divides both places.
  Val* v0 = nullptr;
  Val* v1 = nullptr;
  // Split: the parts have no more iterations than the whole. Align: rows are as far apart as they
  // are long.
  bool exact = true;
};

// The graph that relates axes and memory. A domain may be made in several ways.
class DomainSteps {
 public:
  virtual ~DomainSteps() = default;
  virtual std::vector<DomainStep> stepsTo(DomainNumber domain) const = 0;
  // One iteration, which counts nothing.
  virtual bool isOne(DomainNumber domain) const = 0;
};

// A digit of a number in memory.
struct MemoryDigit {
  DomainNumber domain = -1; // -1: no axis runs over it
  Val* extent = nullptr;
  bool contiguous = false;
};

struct ContiguousRun {
  // How many of the digits in memory the run has, from the innermost; of the last it may have a
  // part. 0: neighbouring iterations are not neighbours in memory.
  size_t digits = 0;
  // Products of extents: a vector along the axes lies in one piece, within bounds and aligned to
  // its own size (where the run begins at a multiple of it) if its width divides them all. The
  // first is the length of the run.
  std::vector<std::vector<Val*>> multiples;
  // It has all iterations of the axes.
  bool covers_axes = false;
  // Slices or pads lie in between.
  bool resized = false;

  bool empty() const {
    return digits == 0;
  }
  // Everything that the axes run over is one piece of memory, made of whole dimensions.
  bool isOnePiece() const {
    return covers_axes && multiples.size() == 1;
  }
};

// The longest run of the axes along the memory. Both have the most significant first.
ContiguousRun contiguousRun(std::span<const MemoryDigit> memory, std::span<const DomainNumber> axes,
                            const DomainSteps& steps);

// --- the graph of a scheduled fusion ---

// A dimension in memory as one tensor's computation runs over it.
struct AccessedDim {
  // Of the dimensions in memory that it is (MemoryDim::position), outermost first.
  std::vector<size_t> positions;
  // Of the tensor that accesses the memory, and its group; null and -1 if it does not run over this
  // dimension: positions in it are data.
  IterDomain* id = nullptr;
  IdGroup group = -1;
  Val* extent = nullptr;
  bool contiguous = false;
};

class Layout : public DomainSteps {
 public:
  explicit Layout(const IdModel& ids) : ids_(ids) {}

  // The memory of a tensor as `by` accesses it: the tensor itself, which it writes, or an operand
  // of its definition; null: all positions are data. The most significant first; without
  // broadcasts.
  std::vector<AccessedDim> accessedDims(const TensorView* memory, const TensorView* by) const;

  // Dimensions in one piece that something merges become one. `merged` says which domain to
  // take for a merge of the two, null if that is of no use.
  void joinContiguous(std::vector<AccessedDim>& dims,
                      const std::function<IterDomain*(const Merge*)>& merged) const;

  // The run of one axis along these dimensions; those of one iteration count nothing.
  ContiguousRun runOf(IdGroup axis, std::span<const AccessedDim> memory) const;
  // The axis runs along rows that are aligned by how others lie in memory (Align); these elements
  // are such a row. A vector of them begins anywhere.
  ContiguousRun runInAlignedRow(IdGroup axis, IdGroup elements) const;

  // Where a tile stands in a buffer, both given by their dimensions, the most significant first.
  // The same iterations may be split and merged in other ways.
  struct TilePlace {
    size_t before = 0;                // dimensions of the buffer around the tile
    const Swizzle* swizzle = nullptr; // by which the buffer permutes it
  };
  // Nullopt: the innermost dimensions of the buffer are not the tile, or not in this order.
  std::optional<TilePlace> placeOf(const std::vector<IdGroup>& tile,
                                   const std::vector<IdGroup>& buffer) const;

  std::vector<DomainStep> stepsTo(DomainNumber group) const override;
  bool isOne(DomainNumber group) const override;

 private:
  const IdGraph& graph() const {
    return ids_.exact();
  }
  bool leavesNothing(const Split* split) const;

  const IdModel& ids_;
};

// --- which box of a tensor a tile is ---

// A tile is all iterations of some loop axes of a tensor, for one iteration of the other axes; a
// box of a tensor in memory has consecutive iterations of each of its dimensions. This is what a
// tile has of one dimension.
struct TileBox {
  // Consecutive iterations, and the axes of the tile that run over them, outermost first.
  int64_t extent = 1;
  std::vector<IdGroup> axes;
  // Of an iteration behind the end of one of these splits (extent, factor) a box would have other
  // elements, if that leaves a rest.
  std::vector<std::pair<Val*, Val*>> divided;
  // Boxes begin at multiples of so many iterations, each of so many elements in one piece.
  std::vector<std::pair<Val*, int64_t>> begins;
  const Swizzle* swizzle = nullptr; // that takes part of the tile
  std::string why_not;              // it is no box; empty: it is one
};

class TileBoxes {
 public:
  // `is_tile` tells the axes of the tile.
  TileBoxes(const TensorView* tv, const IdModel& ids,
            std::function<bool(const IterDomain*)> is_tile);

  // Of a dimension of the tensor, or a merge of several. `elements`: in one piece, for each of its
  // iterations.
  TileBox of(const IterDomain* dim, int64_t elements) const;
  // The merge of the tensor's own that is this domain; null: none is.
  IterDomain* mergeAs(const IterDomain* merged) const;

 private:
  TileBox boxOf(const IterDomain* id, bool may_run_over, int64_t elements) const;
  TileBox axisBox(const IterDomain* id) const;
  TileBox splitBox(const Split* s, bool may_run_over, int64_t elements) const;
  TileBox mergeBox(const Merge* m, const IterDomain* id, int64_t elements) const;

  const IdModel& ids_;
  std::function<bool(const IterDomain*)> is_tile_;
  std::unordered_map<const Val*, const Expr*> use_of_;
  std::unordered_map<IdGroup, IterDomain*> merges_;
};

} // namespace nvfuser
