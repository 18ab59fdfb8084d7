// SPDX-License-Identifier: BSD-3-Clause
// Which part of another tensor one is, through slices, stacks, reshapes, permutations and
// expansions: an index map of factors of dimensions.
#pragma once

#include <ir/exprs.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace nvfuser {

using Extents = std::vector<int64_t>;
int64_t productOf(const Extents& extents);

// A part of a tensor whose dimensions are split into factors: one element of some, all of the
// others, which are the part's dimensions in any order. All sizes are known.
struct Part {
  struct Factor {
    int64_t extent = 0;
    std::optional<int64_t> taken = std::nullopt;
    bool repeats = false; // of no dimension: all its elements are the same part of the source

    bool operator==(const Factor& other) const = default;
  };
  using Factors = std::vector<size_t>; // slowest first

  TensorView* source = nullptr;
  // Of the source's dimensions, slowest first, and then those that repeat what these are.
  std::vector<Factor> factors = {};
  std::vector<Factors> dims = {}; // of the part; without factors of size 1

  Extents extentsOf(const Factors& some) const;
  // All factors in the order of the dimensions, where nothing of the source is missing, nothing is
  // there twice, and its innermost elements are neighbours still. Otherwise empty.
  Factors orderOfAll() const;
  // It is the source itself.
  bool isAll() const;
};

// Remembers what it found: while it is asked, definitions of tensors stay as they are.
class PartFinder {
 public:
  // Of itself, if it is no part of anything; no source if sizes are not known.
  const Part& partOf(TensorView* tv);
  // What a slice of the tensor would be; null if that is no part.
  std::optional<Part> partOf(TensorView* tv, const std::vector<Val*>& starts,
                             const std::vector<Val*>& stops);
  // What is put side by side, as one part. Null if it is none.
  std::optional<Part> joinedBy(const CatOp* cat);

 private:
  Part partOfInput(TensorView* tv);
  Part viewedPart(const Expr* view, const std::function<bool(Part&)>& follow);

  std::unordered_map<const TensorView*, Part> parts_;
};

} // namespace nvfuser
