// SPDX-License-Identifier: BSD-3-Clause
// Evaluates scalar expressions (extents, split factors, pad widths) for given inputs.
#pragma once

#include <ir/nodes.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

class ScalarEvaluator {
 public:
  ScalarEvaluator() = default;
  // Nothing is ever bound: what is not known of constants alone is remembered, too.
  static ScalarEvaluator ofConstants() {
    ScalarEvaluator out;
    out.keeps_unknown_ = true;
    return out;
  }
  // Binds a scalar; a constant must agree. The value is converted to the scalar's dtype. Named
  // scalars are bound by their text. Binding a computed scalar overrides its definition.
  void bind(const Val* v, ScalarValue value);
  // The value, or nullopt if it depends on something unbound or on an integer division by zero.
  // Iterative and memoized. Branches that a `where`, `and` or `or` does not need may be unknown.
  std::optional<ScalarValue> evaluate(const Val* v);
  // Integer value. Error naming the scalar if it can't be evaluated.
  int64_t evaluateInt(const Val* v);
  bool evaluateBool(const Val* v);
  void clear() {
    bound_.clear();
    named_.clear();
    known_.clear();
    unknown_.clear();
  }

 private:
  const ScalarValue* lookup(const Val* v) const;
  ScalarValue evaluateOrThrow(const Val* v);

  std::unordered_map<const Val*, ScalarValue> bound_;
  std::unordered_map<std::string, ScalarValue> named_;
  // Values of computed scalars, from what was bound when they were asked for.
  std::unordered_map<const Val*, ScalarValue> known_;
  std::unordered_set<const Val*> unknown_;
  bool keeps_unknown_ = false;
};

// A constant in the place of a computed scalar whose value is known; else the scalar itself.
Val* constantIfKnown(Val* scalar, ScalarEvaluator& known);

// One op of the elementwise table on constant scalars, computed as the device library would compute
// it in `out_dtype`; nullopt if the op has no scalar evaluation or divides an integer by zero.
// Integers wrap at the width of `out_dtype`. UInt64 values are held as the int64_t of the same
// bits.
std::optional<ScalarValue> evaluateOp(OpType op, DataType out_dtype,
                                      const std::vector<ScalarValue>& operands);

// Converts a scalar to a dtype's category (Int: int64_t, Float: double rounded to that dtype, ...).
// Float to integer truncates and saturates, NaN gives 0. Complex to real drops the imaginary part.
ScalarValue convertScalar(const ScalarValue& v, DataType dtype);

// As text: "3", "true", "0.5", "(1,2)".
std::string scalarToString(const ScalarValue& v);

} // namespace nvfuser
