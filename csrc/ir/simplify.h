// The one simplifier of scalar integer expressions (extents, indices, predicates): constant
// folding, flattening of sums and products, division and modulo by known factors, range analysis.
// A wrong rewrite is a silent wrong answer: every rule is property-tested against the evaluator.
#pragma once

#include <ir/nodes.h>

#include <cstdint>
#include <optional>
#include <unordered_map>

namespace nvfuser {

// Inclusive bounds of a scalar; nullopt = unbounded on that side.
struct Range {
  std::optional<int64_t> min;
  std::optional<int64_t> max;
};

// What is known about free scalars. Extents are >= 0 unless said otherwise.
class Assumptions {
 public:
  void setRange(const Val* v, Range r) {
    ranges_[v] = r;
  }
  // v < bound (both symbolic): a loop index below its extent.
  void setUpperBound(const Val* v, Val* bound) {
    bounds_[v] = bound;
  }
  Range range(const Val* v) const;
  Val* upperBound(const Val* v) const;

 private:
  std::unordered_map<const Val*, Range> ranges_;
  std::unordered_map<const Val*, Val*> bounds_;
};

// An equal, usually shorter expression in the active container. C++ truncating division and
// modulo; index arithmetic does not overflow by contract (lowering.md).
Val* simplify(Val* v, const Assumptions& assumptions = {});
// True only if provable.
bool provablyEqual(Val* a, Val* b, const Assumptions& assumptions = {});
bool provablyTrue(Val* predicate, const Assumptions& assumptions = {});
bool provablyDivisible(Val* value, Val* factor, const Assumptions& assumptions = {});
Range rangeOf(Val* v, const Assumptions& assumptions = {});

} // namespace nvfuser
