// SPDX-License-Identifier: BSD-3-Clause
// Evaluation of scalar expressions: a walk over definitions (ScalarEvaluator) over one function
// that computes a row of the elementwise table on constants (evaluateOp, in scalar_ops.cpp).
#include <ir/evaluator.h>

#include <base/error.h>
#include <ir/builder.h>

#include <sstream>
#include <unordered_set>
#include <utility>

namespace nvfuser {
namespace {

bool isKnown(const ScalarValue& v) {
  return !std::holds_alternative<std::monostate>(v);
}

bool isTrue(const ScalarValue& v) {
  return std::get<bool>(convertScalar(v, DataType::Bool));
}

// The result of an op some of whose operands are unknown (monostate), where the known ones decide.
std::optional<ScalarValue> decideFromKnown(OpType op, DataType dtype,
                                           const std::vector<ScalarValue>& operands) {
  if (op == OpType::Where && isKnown(operands[0])) {
    const ScalarValue& taken = isTrue(operands[0]) ? operands[1] : operands[2];
    return isKnown(taken) ? std::optional(convertScalar(taken, dtype)) : std::nullopt;
  }
  if (op == OpType::LogicalAnd || op == OpType::LogicalOr) {
    const bool deciding = op == OpType::LogicalOr;
    for (const ScalarValue& v : operands) {
      if (isKnown(v) && isTrue(v) == deciding) {
        return ScalarValue(deciding);
      }
    }
  }
  return std::nullopt;
}

std::optional<ScalarValue> evaluateDefinition(const Expr* definition, DataType dtype,
                                              const std::vector<ScalarValue>& operands) {
  bool all_known = true;
  for (const ScalarValue& v : operands) {
    all_known = all_known && isKnown(v);
  }
  if (definition->kind() == ExprKind::LoadStoreOp) {
    return all_known ? std::optional(convertScalar(operands[0], dtype)) : std::nullopt;
  }
  const OpType op = static_cast<const ElementwiseOp*>(definition)->op();
  return all_known ? evaluateOp(op, dtype, operands) : decideFromKnown(op, dtype, operands);
}

bool canEvaluate(const Expr* definition) {
  return definition != nullptr &&
         (definition->kind() == ExprKind::ElementwiseOp ||
          definition->kind() == ExprKind::LoadStoreOp) &&
         definition->outputs().size() == 1;
}

} // namespace

void ScalarEvaluator::bind(const Val* v, ScalarValue value) {
  NVF_ERROR(v->isScalar(), "Only scalars can be bound to a value, not ", v->toString());
  value = convertScalar(value, v->dtype());
  if (v->isConst()) {
    NVF_CHECK(convertScalar(v->value(), v->dtype()) == value, "The constant ", v->toInlineString(),
              " cannot be bound to ", scalarToString(value));
    return;
  }
  ScalarValue& slot = v->kind() == ValKind::NamedScalar
                          ? named_[static_cast<const NamedScalar*>(v)->text()]
                          : bound_[v];
  if (isKnown(slot) && slot == value) {
    return;
  }
  // What was computed from the old value (or, for a computed scalar, from its definition) is stale.
  if (isKnown(slot) || v->definition() != nullptr) {
    known_.clear();
  }
  slot = value;
}

const ScalarValue* ScalarEvaluator::lookup(const Val* v) const {
  if (v->isConst()) {
    return &v->value();
  }
  if (v->kind() == ValKind::NamedScalar) {
    auto it = named_.find(static_cast<const NamedScalar*>(v)->text());
    if (it != named_.end()) {
      return &it->second;
    }
  }
  if (auto it = bound_.find(v); it != bound_.end()) {
    return &it->second;
  }
  auto it = known_.find(v);
  return it == known_.end() ? nullptr : &it->second;
}

std::optional<ScalarValue> ScalarEvaluator::evaluate(const Val* root) {
  if (const ScalarValue* value = lookup(root)) {
    return *value;
  }
  // What is not known now may become known when more is bound.
  std::unordered_set<const Val*> of_this_call;
  std::unordered_set<const Val*>& unknown = keeps_unknown_ ? unknown_ : of_this_call;
  std::vector<std::pair<const Val*, bool>> stack = {{root, false}};
  std::vector<ScalarValue> operands;
  while (!stack.empty()) {
    const auto [v, inputs_done] = stack.back();
    if (lookup(v) != nullptr || unknown.count(v) != 0) {
      stack.pop_back();
      continue;
    }
    const Expr* definition = v->definition();
    if (!canEvaluate(definition)) {
      unknown.insert(v);
      stack.pop_back();
      continue;
    }
    if (!inputs_done) {
      stack.back().second = true;
      for (const Val* in : definition->inputs()) {
        stack.emplace_back(in, false);
      }
      continue;
    }
    operands.clear();
    for (const Val* in : definition->inputs()) {
      const ScalarValue* value = lookup(in);
      operands.push_back(value == nullptr ? ScalarValue() : *value);
    }
    if (auto value = evaluateDefinition(definition, v->dtype(), operands)) {
      known_[v] = *value;
    } else {
      unknown.insert(v);
    }
    stack.pop_back();
  }
  const ScalarValue* value = lookup(root);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

ScalarValue ScalarEvaluator::evaluateOrThrow(const Val* v) {
  auto value = evaluate(v);
  NVF_CHECK(value.has_value(), "The value of the scalar ", v->toInlineString(),
            " cannot be computed: it depends on a scalar that has no value, or divides by zero.");
  return *value;
}

int64_t ScalarEvaluator::evaluateInt(const Val* v) {
  return std::get<int64_t>(convertScalar(evaluateOrThrow(v), DataType::Int));
}

bool ScalarEvaluator::evaluateBool(const Val* v) {
  return isTrue(evaluateOrThrow(v));
}

Val* constantIfKnown(Val* scalar, ScalarEvaluator& known) {
  const std::optional<ScalarValue> value =
      scalar->definition() == nullptr ? std::nullopt : known.evaluate(scalar);
  return value.has_value() ? IrBuilder::create<Val>(*value, scalar->dtype()) : scalar;
}

std::string scalarToString(const ScalarValue& v) {
  std::ostringstream os;
  os << std::boolalpha;
  if (const auto* b = std::get_if<bool>(&v)) {
    os << *b;
  } else if (const auto* i = std::get_if<int64_t>(&v)) {
    os << *i;
  } else if (const auto* d = std::get_if<double>(&v)) {
    os.precision(17);
    os << *d;
  } else if (const auto* c = std::get_if<std::complex<double>>(&v)) {
    os.precision(17);
    os << *c;
  } else {
    os << "unknown";
  }
  return os.str();
}

} // namespace nvfuser
