// SPDX-License-Identifier: BSD-3-Clause
// Reads scalar expressions into the simplifier's nodes.
#include <algebra/symbolic.h>

#include <base/error.h>

#include <algorithm>

namespace nvfuser::symbolic {
namespace {

bool isNotNegative(const Range& r) {
  return r.min.has_value() && *r.min >= 0;
}

const ElementwiseOp* elementwiseDefinition(const Val* v) {
  const Expr* e = v->definition();
  return e != nullptr && e->kind() == ExprKind::ElementwiseOp ? static_cast<const ElementwiseOp*>(e)
                                                              : nullptr;
}

bool isReadable(DataType dtype) {
  return dtype == DataType::Bool || isSimplifiable(dtype);
}

} // namespace

Engine::Engine(Assumptions assumptions) : assumptions_(std::move(assumptions)) {
  for (const auto& [v, bound] : assumptions_.bounds()) {
    if (isNotNegative(assumptions_.range(v))) {
      notePositive(bound);
    }
  }
}

// The value is known to be at least 1: so are the factors of a product, and what is divided.
void Engine::notePositive(const Val* v) {
  const ElementwiseOp* def = elementwiseDefinition(v);
  if (def == nullptr) {
    if (v->kind() == ValKind::NamedScalar) {
      positive_names_.insert(static_cast<const NamedScalar*>(v)->text());
    } else if (!v->isConst() && isNotNegative(assumptions_.range(v))) {
      positive_vals_.insert(v);
    }
    return;
  }
  switch (def->op()) {
    case OpType::Mul:
      // Two negative factors have a positive product, too; only what can't be negative is noted.
      notePositive(def->in(0));
      notePositive(def->in(1));
      return;
    case OpType::CeilDiv:
    case OpType::Div:
      notePositive(def->in(0));
      return;
    default:
      return;
  }
}

// True if the definition is looked into.
bool Engine::canRead(const Val* v) const {
  const ElementwiseOp* def = elementwiseDefinition(v);
  return def != nullptr && isReadable(v->dtype()) && v->kind() == ValKind::Val &&
         std::all_of(def->inputs().begin(), def->inputs().end(),
                     [](const Val* in) { return isReadable(in->dtype()) && in->isScalar(); });
}

Ref Engine::readLeaf(Val* v) {
  if (const auto* i = std::get_if<int64_t>(&v->value());
      i != nullptr && isSimplifiable(v->dtype())) {
    if (*i == INT64_MIN) {
      throw CoefficientOverflow();
    }
    return constant(*i);
  }
  if (const auto* b = std::get_if<bool>(&v->value());
      b != nullptr && v->dtype() == DataType::Bool) {
    return boolean(*b);
  }
  const Ref s = symbol(v);
  return isSimplifiable(v->dtype()) ? toPoly(s) : s;
}

// Operands first, without recursion: definitions can be chains of thousands of operations.
Ref Engine::read(Val* root) {
  NVF_ERROR(root->isScalar() && isReadable(root->dtype()),
            "Only integers and bools can be simplified, not ", root->toInlineString());
  std::vector<Val*> stack = {root};
  while (!stack.empty()) {
    Val* v = stack.back();
    if (read_.count(v) != 0) {
      stack.pop_back();
      continue;
    }
    if (!canRead(v)) {
      const Ref leaf = readLeaf(v);
      read_[v] = leaf;
      stack.pop_back();
      continue;
    }
    const size_t size = stack.size();
    for (Val* in : v->definition()->inputs()) {
      if (read_.count(in) == 0) {
        stack.push_back(in);
      }
    }
    if (stack.size() == size) {
      const Ref r = readDefinition(v);
      read_[v] = r;
      stack.pop_back();
    }
  }
  return read_.at(root);
}

Ref Engine::readDefinition(Val* v) {
  const auto* def = static_cast<const ElementwiseOp*>(v->definition());
  std::vector<Ref> in;
  bool all_integers = true;
  bool all_bools = true;
  for (const Val* x : def->inputs()) {
    in.push_back(read_.at(x));
    all_integers = all_integers && x->dtype() != DataType::Bool;
    all_bools = all_bools && x->dtype() == DataType::Bool;
  }
  if (def->op() == OpType::Where && in[0]->kind != Kind::Poly &&
      (in[1]->kind == Kind::Poly) == (in[2]->kind == Kind::Poly)) {
    return where(in[0], in[1], in[2]);
  }
  Ref r = nullptr;
  if (v->dtype() == DataType::Bool) {
    r = all_integers || all_bools ? readBoolOp(def->op(), in) : nullptr;
  } else if (all_integers) {
    r = readIntegerOp(def->op(), v->dtype(), in);
  }
  return r != nullptr ? r : opaque(def->op(), v->dtype(), std::move(in));
}

Ref Engine::readIntegerOp(OpType op, DataType dtype, const std::vector<Ref>& in) {
  switch (op) {
    case OpType::Add:
      return add(in[0], in[1]);
    case OpType::Sub:
      return sub(in[0], in[1]);
    case OpType::Neg:
      return neg(in[0]);
    case OpType::Mul:
      return mul(in[0], in[1]);
    case OpType::Div:
      return div(in[0], in[1]);
    case OpType::Mod:
    case OpType::Fmod:
      return mod(in[0], in[1]);
    case OpType::CeilDiv:
      return ceilDiv(in[0], in[1]);
    case OpType::Minimum:
      return minMax(Kind::Min, in[0], in[1]);
    case OpType::Maximum:
      return minMax(Kind::Max, in[0], in[1]);
    case OpType::Abs:
      return nonNegative(in[0]) ? in[0] : nonNegative(neg(in[0])) ? neg(in[0]) : nullptr;
    case OpType::Cast: {
      // To 64 bits nothing changes; to 32 only what is known to fit stays as it is.
      const Interval i = intervalOf(in[0]);
      const bool fits = dtype != DataType::Int32 || (i.lo >= INT32_MIN && i.hi <= INT32_MAX);
      return fits ? in[0] : nullptr;
    }
    default:
      return nullptr;
  }
}

// Operands are all integers or all bools. Null if the op has no node of its own.
Ref Engine::readBoolOp(OpType op, const std::vector<Ref>& in) {
  if (in[0]->kind == Kind::Poly) {
    switch (op) {
      case OpType::Lt:
        return less(sub(in[0], in[1]));
      case OpType::Gt:
        return less(sub(in[1], in[0]));
      case OpType::Le:
        return less(addConstant(sub(in[0], in[1]), -1));
      case OpType::Ge:
        return less(addConstant(sub(in[1], in[0]), -1));
      case OpType::Eq:
        return equal(sub(in[0], in[1]));
      case OpType::Ne:
        return logicalNot(equal(sub(in[0], in[1])));
      default:
        return nullptr;
    }
  }
  switch (op) {
    case OpType::LogicalAnd:
    case OpType::BitwiseAnd:
      return logical(Kind::And, in[0], in[1]);
    case OpType::LogicalOr:
    case OpType::BitwiseOr:
      return logical(Kind::Or, in[0], in[1]);
    case OpType::LogicalNot:
    case OpType::BitwiseNot:
      return logicalNot(in[0]);
    case OpType::Cast:
      return in[0];
    default:
      return nullptr;
  }
}

} // namespace nvfuser::symbolic
