// SPDX-License-Identifier: BSD-3-Clause
// Sizes that must agree when a fusion runs, as its expressions say.
#pragma once

#include <fusion.h>

#include <cstdint>
#include <vector>

namespace nvfuser {

// Two extents that must be equal when the fusion runs: a dimension as the producer of an op has it
// and as its consumer assumes. Equal nodes and constants are left out; operands of one op appear
// paired through its result, or, of an op that a library evaluates, with each other. Or (AtMost)
// one operand's that may not exceed another's. Both are named producer and consumer all the same.
struct ExtentConstraint {
  enum class Relation { Equal, AtMost };
  const Expr* op;
  const TensorView* producer;
  const TensorView* consumer;
  int64_t dim; // of the producer
  Val* producer_extent;
  Val* consumer_extent;
  Relation relation = Relation::Equal;
  int64_t consumer_dim = -1; // where it is another one than the producer's
  const char* rule = "";     // AtMost: what is wrong where it does not hold
};
// Of a fusion without Symbolic domains.
std::vector<ExtentConstraint> extentConstraints(const Fusion& fusion);

} // namespace nvfuser
