// Evaluates scalar expressions (extents, split factors, pad widths) for given inputs.
#pragma once

#include <ir/nodes.h>

#include <optional>
#include <unordered_map>

namespace nvfuser {

class ScalarEvaluator {
 public:
  // Binds a symbolic (or named) scalar; a constant must agree.
  void bind(const Val* v, ScalarValue value);
  // The value, or nullopt if it depends on something unbound. Iterative and memoized.
  std::optional<ScalarValue> evaluate(const Val* v);
  // Integer value. Error naming the scalar if it can't be evaluated.
  int64_t evaluateInt(const Val* v);
  bool evaluateBool(const Val* v);
  void clear() {
    known_.clear();
  }

 private:
  std::unordered_map<const Val*, ScalarValue> known_;
};

// One op of the elementwise table on constant scalars, computed as the device library would compute
// it in `out_dtype`; nullopt if the op has no scalar evaluation or divides by zero.
std::optional<ScalarValue> evaluateOp(
    OpType op,
    DataType out_dtype,
    const std::vector<ScalarValue>& operands);

// Converts a scalar to a dtype's category (Int: int64_t, Float: double rounded to that dtype, ...).
ScalarValue convertScalar(const ScalarValue& v, DataType dtype);

} // namespace nvfuser
