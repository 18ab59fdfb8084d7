// SPDX-License-Identifier: BSD-3-Clause
// Words for messages; see describe.h.
#include <ir/describe.h>

#include <base/string_utils.h>
#include <ir/printer.h>

namespace nvfuser {

namespace {

// " at script.py:12", as far as it is known where a tensor was defined.
std::string location(const Val* v) {
  const auto* tv = tryAs<TensorView>(v);
  return tv == nullptr || tv->sourceLocation().empty() ? std::string()
                                                       : " at " + tv->sourceLocation();
}

// "x" or "input 1"; empty of what is no input.
std::string nameOfInput(const Val* v) {
  const InputLabel* label = v->inputLabel();
  if (label != nullptr && !label->name.empty()) {
    return label->name;
  }
  if (label != nullptr && label->position >= 0) {
    return "input " + std::to_string(label->position);
  }
  return v->isFusionInput() ? "an input" : "";
}

// "x" or "the result of add at script.py:12".
std::string nameOfTensor(const TensorView* tv) {
  const std::string input = nameOfInput(tv);
  if (!input.empty()) {
    return input;
  }
  return tv->definition() == nullptr
             ? "a tensor"
             : "the result of " + pythonOpName(tv->definition()) + location(tv);
}

} // namespace

std::string describeType(const TensorView* tv) {
  std::vector<std::string> sizes;
  for (const IterDomain* id : logicalIds(tv)) {
    sizes.push_back(sizeText(id->getMaybeExpandedExtent()));
  }
  return std::string(torchName(tv->dtype())) + " [" + join(sizes) + "]";
}

std::string describeLoops(const TensorView* tv) {
  return nameOfTensor(tv) + " (" + std::string(torchName(tv->dtype())) + " " +
         tv->domain()->toString() + ")";
}

std::string describe(const Val* v) {
  if (const auto* tv = tryAs<TensorView>(v)) {
    return nameOfTensor(tv) + " (" + describeType(tv) + ")";
  }
  const std::string input = nameOfInput(v);
  return input.empty() ? v->toInlineString() : input;
}

std::string describe(const Expr* e) {
  std::vector<std::string> operands;
  for (const Val* v : e->inputs()) {
    const std::string input = nameOfInput(v);
    const bool computed = v->isTensor() && v->definition() != nullptr;
    operands.push_back(!input.empty() ? input
                       : computed     ? "result of " + pythonOpName(v->definition())
                                      : sizeText(v));
  }
  return pythonOpName(e) + "(" + join(operands) + ")" +
         (e->outputs().empty() ? std::string() : location(e->output(0)));
}

std::string pythonOpName(const Expr* e) {
  const auto byOperator = [](OpType op, const char* add, const char* mul, const char* min,
                             const char* max) {
    return op == OpType::Add ? add : op == OpType::Mul ? mul : op == OpType::Minimum ? min : max;
  };
  if (const auto* reduction = tryAs<ReductionOp>(e)) {
    return byOperator(reduction->op(), "sum", "prod", "min", "max");
  }
  if (const auto* scan = tryAs<ScanOp>(e)) {
    return byOperator(scan->op(), "cumsum", "cumprod", "cummin", "cummax");
  }
  if (const auto* copy = tryAs<LoadStoreOp>(e)) {
    const auto* out = tryAs<TensorView>(copy->out());
    if (out != nullptr && out->hasRoot()) {
      return "permute";
    }
    return copy->type() == LoadStoreOpType::SegmenterSet ? "segment_set" : "set";
  }
  return e->opName();
}

} // namespace nvfuser
