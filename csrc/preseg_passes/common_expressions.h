// SPDX-License-Identifier: BSD-3-Clause
// Value numbering: an operation is written down as a list of numbers, in which operands and sizes
// stand for themselves by a number that equal ones have in common. Equal lists, equal results.
#pragma once

#include <fusion.h>
#include <ir/exprs.h>

#include <memory>

namespace nvfuser {

class CommonExpressions {
 public:
  CommonExpressions();
  ~CommonExpressions();
  // The first expression asked about that computes the same; null if this is the first. Random
  // numbers, what a library computes, what is added up in an order that is open, and boundaries
  // that were asked for are like no other.
  Expr* firstLike(Expr* e);

 private:
  class Numbering;
  std::unique_ptr<Numbering> numbering_;
};

} // namespace nvfuser
