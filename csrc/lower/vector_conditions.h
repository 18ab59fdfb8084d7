// SPDX-License-Identifier: BSD-3-Clause
// Conditions inside a loop over the elements of a vector that hold for all of the elements or for
// none.
#pragma once

#include <algebra/simplify.h>
#include <kernel/kernel.h>

#include <optional>

namespace nvfuser {

// Where everything that an index is compared with is a multiple of a vector's width (the kernel
// checks at launch that extents are), comparing the first element's index decides for the whole
// vector. Rewrites conditions in that way, so that they need not be evaluated for each element.
class VectorConditions {
 public:
  // `element`: index of the loop over the elements, which runs `width` times.
  VectorConditions(const Kernel* kernel, Simplifier& simplifier, Val* element, int64_t width)
      : kernel_(kernel), simplifier_(simplifier), element_(element), width_(width) {}

  // An equal condition.
  Val* rewritten(Val* condition);

 private:
  // A multiple of the width plus the element's number; or the same for all elements.
  enum class Kind { Same, Aligned };
  struct Term {
    Kind kind;
    Val* first; // value for element 0
  };
  std::optional<Term> classify(Val* v);
  std::optional<Term> comparison(OpType op, const Term& a, const Term& b);
  bool isMultiple(const Val* v) const;
  bool isNotNegative(Val* v);
  bool dependsOnElement(const Val* v) const;

  const Kernel* kernel_;
  Simplifier& simplifier_;
  Val* element_;
  int64_t width_;
};

} // namespace nvfuser
