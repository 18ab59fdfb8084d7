// SPDX-License-Identifier: BSD-3-Clause
// Registers for 16-bit values that hold them as float.
//
// Between two operations of a thread, a value of 16 bits that arithmetic reads is kept as the float
// that it is: rounded, but not packed. On a GPU the rounding then is one instruction (two values
// would be packed into a word by it, and one of them is 0) instead of a conversion and a
// permutation of bytes, and selections need no permutations either. On the host, vectors are not
// made narrow and wide again. What is stored, or kept in arrays, is packed.
//
// A sum, difference or product of bfloat16 values that is rounded to bfloat16 needs no rounding of
// its own: a float has more than twice as many digits, so that rounding twice gives what rounding
// once does, and the float that a bfloat16 value is has it in its upper half. There a GPU computes
// in bfloat16 (nvf::mulIn).
#pragma once

#include <kernel/kernel.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser::codegen {

class WideRegisters {
 public:
  explicit WideRegisters(const Kernel* kernel);

  // Single registers of half or bfloat16 that are written by conversions, selections and copies,
  // and that a conversion reads, directly or through selections and copies. Where one of two values
  // that are selected between is of these, or made by a conversion or such a selection, both are.
  bool holds(const TensorView* tv) const {
    return wide_.count(tv) != 0;
  }
  // A selection between values of which one is held as float, or will be.
  bool selectsFloats(const ElementwiseOp* where) const;
  // A float register whose values are all values of this 16-bit type: made of such values by
  // operations that do not round.
  bool isExact(const TensorView* tv, DataType in) const;
  // A float register whose operations compute in bfloat16: their operands are such values, and so
  // is what everything that reads the register makes of it.
  bool isComputedInBFloat16(const TensorView* tv) const {
    return in_bfloat16_.count(tv) != 0;
  }

 private:
  using Statements = std::vector<const Expr*>;
  void findCandidates(const Statements& statements);
  void findWide(const Statements& statements);
  void findComputedInBFloat16(const Statements& statements);
  bool computesInBFloat16(const Expr* e) const;

  std::unordered_set<const TensorView*> candidates_;
  std::unordered_set<const TensorView*> made_as_float_; // of 16 bits
  std::unordered_set<const TensorView*> wide_;
  std::unordered_set<const TensorView*> in_bfloat16_; // float registers
  // Of float registers that nothing but elementwise operations and copies writes.
  std::unordered_map<const TensorView*, Statements> writers_;
};

} // namespace nvfuser::codegen
