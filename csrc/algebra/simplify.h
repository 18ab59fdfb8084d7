// SPDX-License-Identifier: BSD-3-Clause
// The one simplifier of scalar integer expressions (extents, indices, predicates): constant
// folding, flattening of sums and products, division and modulo by known factors, range analysis.
// A wrong rewrite is a silent wrong answer: every rule is property-tested against the evaluator.
//
// How it works: expressions are read into polynomials over atoms (scalars, quotients, remainders,
// minima, ...), rules apply while these are built, and the result is written back as scalars. Two
// expressions with the same polynomial are equal, whatever they looked like.
//
// Contract of the arithmetic:
// * Div and Mod truncate as in C++; CeilDiv rounds up.
// * Nothing overflows (lowering.md). If constants of a rewrite would, nothing is rewritten.
// * Divisors are not zero. Inside a kernel every loop that runs has an extent of at least 1, and
//   extents of 0 never reach a launch. An expression that divides by zero may change its value.
// * Symbolic scalars of dtype Index are extents or indices and so not negative, unless they are
//   inputs of the fusion. Other symbolic integers can be anything.
#pragma once

#include <ir/nodes.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nvfuser {

// Inclusive bounds of a scalar; nullopt = unbounded on that side.
struct Range {
  std::optional<int64_t> min;
  std::optional<int64_t> max;
};

// What is known about free scalars. Extents are >= 0 unless said otherwise. Facts about a
// NamedScalar hold for every NamedScalar with the same text.
class Assumptions {
 public:
  void setRange(const Val* v, Range r);
  // v < bound (both symbolic): a loop index below its extent. If v is not negative the bound is
  // known to be positive.
  void setUpperBound(const Val* v, Val* bound);
  // The range given for v; without one, what its dtype says.
  Range range(const Val* v) const;
  Val* upperBound(const Val* v) const;

  // All bounds, in the order in which they were set.
  const std::vector<std::pair<const Val*, Val*>>& bounds() const {
    return bound_order_;
  }

 private:
  std::unordered_map<const Val*, Range> ranges_;
  std::unordered_map<const Val*, Val*> bounds_;
  std::unordered_map<std::string, Range> named_ranges_;
  std::unordered_map<std::string, Val*> named_bounds_;
  std::vector<std::pair<const Val*, Val*>> bound_order_;
};

// Simplifies many expressions of one container under the same assumptions; equal subexpressions of
// the results are the same node.
class Simplifier {
 public:
  explicit Simplifier(Assumptions assumptions = {});
  ~Simplifier();

  Val* simplify(Val* v);
  bool provablyEqual(Val* a, Val* b);
  bool provablyTrue(Val* predicate);
  bool provablyDivisible(Val* value, Val* factor);
  Range rangeOf(Val* v);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// An equal, usually shorter expression in v's container, of v's dtype; v itself if nothing changes.
// Its text depends on the names of the scalars in it and on the assumptions only.
Val* simplify(Val* v, const Assumptions& assumptions = {});
// True only if provable.
bool provablyEqual(Val* a, Val* b, const Assumptions& assumptions = {});
bool provablyTrue(Val* predicate, const Assumptions& assumptions = {});
bool provablyDivisible(Val* value, Val* factor, const Assumptions& assumptions = {});
Range rangeOf(Val* v, const Assumptions& assumptions = {});

} // namespace nvfuser
