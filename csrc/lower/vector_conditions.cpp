// SPDX-License-Identifier: BSD-3-Clause
// See vector_conditions.h. With e = q * width + i, 0 <= i < width, and b a multiple of width:
//   e < b  <=>  q * width < b        e / b = (q * width) / b        e % b = (q * width) % b + i (e
//   >= 0)
#include <lower/vector_conditions.h>

#include <ir/builder.h>
#include <ir/visitor.h>

#include <algorithm>

namespace nvfuser {

bool VectorConditions::dependsOnElement(const Val* v) const {
  return holdsBehind(v, [&](const Val* each) { return each->sameAs(element_); });
}

bool VectorConditions::isMultiple(const Val* v) const {
  if (v->isConstInt()) {
    return v->intValue() % width_ == 0;
  }
  for (const DivisibilityCheck& c : kernel_->divisibility_checks) {
    if (c.factor->isConstInt() && c.factor->intValue() % width_ == 0 && c.value->sameAs(v)) {
      return true;
    }
  }
  const auto* def = tryAs<ElementwiseOp>(v->definition());
  if (def == nullptr || def->inputs().size() != 2) {
    return false;
  }
  switch (def->op()) {
    case OpType::Mul:
      return isMultiple(def->in(0)) || isMultiple(def->in(1));
    case OpType::Add:
    case OpType::Sub:
    case OpType::Minimum:
    case OpType::Maximum:
    case OpType::Mod:
      return isMultiple(def->in(0)) && isMultiple(def->in(1));
    default:
      return false;
  }
}

bool VectorConditions::isNotNegative(Val* v) {
  return simplifier_.rangeOf(v).min.value_or(-1) >= 0;
}

std::optional<VectorConditions::Term> VectorConditions::comparison(OpType op, const Term& a,
                                                                   const Term& b) {
  const bool below = op == OpType::Lt || op == OpType::Ge; // e < b, e >= b
  const Term& moving = below ? a : b;
  const Term& fixed = below ? b : a;
  if (moving.kind != Kind::Aligned || fixed.kind != Kind::Same || !isMultiple(fixed.first)) {
    return std::nullopt;
  }
  return Term{Kind::Same, IrBuilder::scalar(op, a.first, b.first)};
}

std::optional<VectorConditions::Term> VectorConditions::classify(Val* v) {
  if (!dependsOnElement(v)) {
    return Term{Kind::Same, v};
  }
  if (v->sameAs(element_)) {
    return Term{Kind::Aligned, IrBuilder::index(0)};
  }
  auto* def = tryAs<ElementwiseOp>(v->definition());
  if (def == nullptr || def->inputs().size() != 2) {
    return std::nullopt;
  }
  const std::optional<Term> a = classify(def->in(0));
  const std::optional<Term> b = classify(def->in(1));
  if (!a.has_value() || !b.has_value()) {
    return std::nullopt;
  }
  auto combined = [&](Kind kind) {
    return Term{kind, IrBuilder::scalar(def->op(), a->first, b->first)};
  };
  if (a->kind == Kind::Same && b->kind == Kind::Same) {
    return combined(Kind::Same);
  }
  const bool a_moves = a->kind == Kind::Aligned && b->kind == Kind::Same && isMultiple(b->first);
  switch (def->op()) {
    case OpType::Add:
      if (a_moves || (b->kind == Kind::Aligned && a->kind == Kind::Same && isMultiple(a->first))) {
        return combined(Kind::Aligned);
      }
      return std::nullopt;
    case OpType::Sub:
      return a_moves ? std::optional(combined(Kind::Aligned)) : std::nullopt;
    case OpType::Mod:
    case OpType::Div:
      if (a_moves && isNotNegative(a->first)) {
        return combined(def->op() == OpType::Mod ? Kind::Aligned : Kind::Same);
      }
      return std::nullopt;
    case OpType::Lt:
    case OpType::Ge:
    case OpType::Le:
    case OpType::Gt:
      return comparison(def->op(), *a, *b);
    default:
      return std::nullopt;
  }
}

Val* VectorConditions::rewritten(Val* condition) {
  if (const std::optional<Term> term = classify(condition);
      term.has_value() && term->kind == Kind::Same) {
    return term->first;
  }
  auto* def = tryAs<ElementwiseOp>(condition->definition());
  if (def == nullptr || (def->op() != OpType::LogicalAnd && def->op() != OpType::LogicalOr)) {
    return condition;
  }
  return IrBuilder::scalar(def->op(), rewritten(def->in(0)), rewritten(def->in(1)));
}

} // namespace nvfuser
