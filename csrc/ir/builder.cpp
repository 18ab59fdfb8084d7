// SPDX-License-Identifier: BSD-3-Clause
// Scalar arithmetic with light folding: what keeps extents readable. Real simplification is in
// ir/simplify.
#include <ir/builder.h>

#include <base/error.h>
#include <ir/evaluator.h>

namespace nvfuser {

IrContainer* IrBuilder::activeContainer() {
  IrContainer* container = IrContainer::active();
  NVF_CHECK(
      container != nullptr,
      "no fusion is active: build inside `with FusionDefinition() as fd:` (Python) or while a "
      "FusionGuard lives (C++)");
  return container;
}

void IrBuilder::registerNode(IrContainer* container, std::unique_ptr<Val> val) {
  container->registerVal(std::move(val));
}

void IrBuilder::registerNode(IrContainer* container, std::unique_ptr<Expr> expr) {
  container->registerExpr(std::move(expr));
}

namespace {

DataType resultType(OpType op, const Val* a, const Val* b) {
  switch (op) {
    case OpType::Eq:
    case OpType::Ne:
    case OpType::Lt:
    case OpType::Le:
    case OpType::Gt:
    case OpType::Ge:
    case OpType::LogicalAnd:
    case OpType::LogicalOr:
      return DataType::Bool;
    default:
      break;
  }
  if (a->dtype() == b->dtype()) {
    return a->dtype();
  }
  auto rank = [](DataType t) {
    if (isComplex(t)) {
      return 5;
    }
    if (isFloatingPoint(t)) {
      return t == DataType::Double ? 4 : 3;
    }
    if (t == DataType::Index) {
      return 2;
    }
    if (t == DataType::Int) {
      return 1;
    }
    return 0;
  };
  return rank(a->dtype()) >= rank(b->dtype()) ? a->dtype() : b->dtype();
}

bool isInt(const Val* v, int64_t value) {
  return v->isConstInt() && v->intValue() == value;
}

bool isBool(const Val* v, bool value) {
  const bool* b = std::get_if<bool>(&v->value());
  return b != nullptr && *b == value;
}

// The operand itself where the op does nothing, or null.
Val* identity(OpType op, Val* a, Val* b) {
  switch (op) {
    case OpType::Add:
      return isInt(b, 0) ? a : isInt(a, 0) ? b : nullptr;
    case OpType::Sub:
      return isInt(b, 0) ? a : nullptr;
    case OpType::Mul:
      return isInt(b, 1) ? a : isInt(a, 1) ? b : isInt(a, 0) ? a : isInt(b, 0) ? b : nullptr;
    case OpType::Div:
    case OpType::CeilDiv:
      return isInt(b, 1) ? a : nullptr;
    case OpType::Mod:
      return isInt(b, 1) ? IrBuilder::createIn<Val>(a->container(), int64_t{0}, a->dtype())
                         : nullptr;
    case OpType::Minimum:
    case OpType::Maximum:
      return a->sameAs(b) ? a : nullptr;
    case OpType::LogicalAnd:
      return isBool(a, true)    ? b
             : isBool(b, true)  ? a
             : isBool(a, false) ? a
             : isBool(b, false) ? b
             : a == b           ? a
                                : nullptr;
    case OpType::LogicalOr:
      return isBool(a, false)   ? b
             : isBool(b, false) ? a
             : isBool(a, true)  ? a
             : isBool(b, true)  ? b
             : a == b           ? a
                                : nullptr;
    default:
      return nullptr;
  }
}

} // namespace

Val* IrBuilder::scalar(OpType op, Val* a, Val* b) {
  const DataType dtype = resultType(op, a, b);
  if (a->isConst() && b->isConst() && !isFloatingPoint(dtype) && !isComplex(dtype)) {
    if (auto v = evaluateOp(op, dtype, {a->value(), b->value()})) {
      return createIn<Val>(a->container(), *v, dtype);
    }
  }
  if (Val* same = identity(op, a, b); same != nullptr && same->dtype() == dtype) {
    return same;
  }
  Val* out = createIn<Val>(a->container(), dtype);
  createIn<ElementwiseOp>(a->container(), op, out, std::vector<Val*>{a, b});
  return out;
}

Val* IrBuilder::scalar(const ElementwiseOp* op, const std::vector<Val*>& in) {
  switch (op->op()) {
    case OpType::Cast:
      return castExpr(op->out()->dtype(), in[0]);
    case OpType::Where:
      return whereExpr(in[0], in[1], in[2]);
    case OpType::Neg:
      return negExpr(in[0]);
    default:
      break;
  }
  if (in.size() == 2) {
    return scalar(op->op(), in[0], in[1]);
  }
  auto* out = create<Val>(op->out()->dtype());
  create<ElementwiseOp>(op->op(), out, in);
  return out;
}

Val* IrBuilder::withOperands(Val* v, const std::function<Val*(Val*)>& replaced) {
  const auto* op = tryAs<ElementwiseOp>(v->definition());
  if (op == nullptr) {
    return v;
  }
  std::vector<Val*> in;
  std::transform(op->inputs().begin(), op->inputs().end(), std::back_inserter(in), replaced);
  return in == op->inputs() ? v : scalar(op, in);
}

namespace {

// Most scalars are made of a few operations: those are compared one by one.
class Replacement {
 public:
  explicit Replacement(const std::function<Val*(Val*)>& by) : by_(by) {}

  Val* of(Val* v) {
    if (Val* known = find(v)) {
      return known;
    }
    Val* out = by_(v);
    if (out == nullptr) {
      out = IrBuilder::withOperands(v, [this](Val* operand) { return of(operand); });
    }
    if (few_.size() < kFew) {
      few_.emplace_back(v, out);
    } else {
      many_.emplace(v, out);
    }
    return out;
  }

 private:
  static constexpr size_t kFew = 16;

  Val* find(const Val* v) const {
    const auto it = std::find_if(few_.begin(), few_.end(), [v](auto& p) { return p.first == v; });
    if (it != few_.end()) {
      return it->second;
    }
    const auto hashed = many_.find(v);
    return hashed == many_.end() ? nullptr : hashed->second;
  }

  const std::function<Val*(Val*)>& by_;
  std::vector<std::pair<const Val*, Val*>> few_;
  std::unordered_map<const Val*, Val*> many_; // those beyond
};

} // namespace

Val* IrBuilder::replaced(Val* v, const std::function<Val*(Val*)>& by) {
  return Replacement(by).of(v);
}

Val* IrBuilder::addExpr(Val* a, Val* b) {
  return scalar(OpType::Add, a, b);
}
Val* IrBuilder::subExpr(Val* a, Val* b) {
  return scalar(OpType::Sub, a, b);
}
Val* IrBuilder::mulExpr(Val* a, Val* b) {
  return scalar(OpType::Mul, a, b);
}
Val* IrBuilder::divExpr(Val* a, Val* b) {
  return scalar(OpType::Div, a, b);
}
Val* IrBuilder::modExpr(Val* a, Val* b) {
  return scalar(OpType::Mod, a, b);
}
Val* IrBuilder::ceilDivExpr(Val* a, Val* b) {
  return scalar(OpType::CeilDiv, a, b);
}
Val* IrBuilder::minExpr(Val* a, Val* b) {
  return scalar(OpType::Minimum, a, b);
}
Val* IrBuilder::maxExpr(Val* a, Val* b) {
  return scalar(OpType::Maximum, a, b);
}
Val* IrBuilder::ltExpr(Val* a, Val* b) {
  return scalar(OpType::Lt, a, b);
}
Val* IrBuilder::leExpr(Val* a, Val* b) {
  return scalar(OpType::Le, a, b);
}
Val* IrBuilder::gtExpr(Val* a, Val* b) {
  return scalar(OpType::Gt, a, b);
}
Val* IrBuilder::geExpr(Val* a, Val* b) {
  return scalar(OpType::Ge, a, b);
}
Val* IrBuilder::eqExpr(Val* a, Val* b) {
  return scalar(OpType::Eq, a, b);
}
Val* IrBuilder::neExpr(Val* a, Val* b) {
  return scalar(OpType::Ne, a, b);
}
Val* IrBuilder::logicalAndExpr(Val* a, Val* b) {
  return scalar(OpType::LogicalAnd, a, b);
}
Val* IrBuilder::logicalOrExpr(Val* a, Val* b) {
  return scalar(OpType::LogicalOr, a, b);
}

Val* IrBuilder::logicalNotExpr(Val* a) {
  if (const bool* b = std::get_if<bool>(&a->value())) {
    return createIn<Val>(a->container(), !*b, DataType::Bool);
  }
  Val* out = createIn<Val>(a->container(), DataType::Bool);
  createIn<ElementwiseOp>(a->container(), OpType::LogicalNot, out, std::vector<Val*>{a});
  return out;
}

Val* IrBuilder::whereExpr(Val* cond, Val* a, Val* b) {
  if (isBool(cond, true) || a == b) {
    return a;
  }
  if (isBool(cond, false)) {
    return b;
  }
  Val* out = createIn<Val>(a->container(), resultType(OpType::Where, a, b));
  createIn<ElementwiseOp>(a->container(), OpType::Where, out, std::vector<Val*>{cond, a, b});
  return out;
}

Val* IrBuilder::negExpr(Val* a) {
  if (a->isConstInt()) {
    return createIn<Val>(a->container(), -a->intValue(), a->dtype());
  }
  Val* out = createIn<Val>(a->container(), a->dtype());
  createIn<ElementwiseOp>(a->container(), OpType::Neg, out, std::vector<Val*>{a});
  return out;
}

Val* IrBuilder::castExpr(DataType dtype, Val* a) {
  if (a->dtype() == dtype) {
    return a;
  }
  if (a->isConst()) {
    return createIn<Val>(a->container(), convertScalar(a->value(), dtype), dtype);
  }
  Val* out = createIn<Val>(a->container(), dtype);
  createIn<ElementwiseOp>(a->container(), OpType::Cast, out, std::vector<Val*>{a});
  return out;
}

Val* IrBuilder::index(int64_t value) {
  return create<Val>(value, DataType::Index);
}

} // namespace nvfuser
