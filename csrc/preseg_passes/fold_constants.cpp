// SPDX-License-Identifier: BSD-3-Clause
// What is known before a kernel runs is a constant in it: scalars that are computed of constants,
// and tensors that hold one scalar everywhere (full, and what is computed of such tensors). An
// operation on a tensor and such a one becomes one on a tensor and a scalar, which needs no loops
// and no size of its own.
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ir/evaluator.h>
#include <ir/op_traits.h>
#include <ops/creation.h>
#include <ops/elementwise.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

#include <algorithm>
#include <unordered_map>

namespace nvfuser {

namespace {

class ConstantFolder : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    switch (e->kind()) {
      case ExprKind::FullOp:
        value_[e->output(0)] = folded(e->input(0));
        return;
      case ExprKind::ElementwiseOp:
        return elementwise(static_cast<ElementwiseOp*>(e));
      default:
        // A boundary that was asked for stays.
        if (movesElements(e) && !isBoundary(e)) {
          if (Val* value = valueOf(e->input(0))) {
            fill(e->output(0)->as<TensorView>(), value);
          }
        }
    }
  }

  // It is made in its own shape, instead of as a view of another constant.
  void fill(TensorView* tv, Val* value) {
    value_[tv] = value;
    TensorView* made = full_like(tv, value);
    made->setSourceLocation(tv->sourceLocation());
    if (replace(tv, made)) {
      value_[made] = value;
    }
  }

  // The scalar that all elements are; null if there is none.
  Val* valueOf(const Val* v) const {
    auto it = value_.find(v);
    return it == value_.end() ? nullptr : it->second;
  }

  Val* folded(Val* v) {
    if (v->isTensor() || v->definition() == nullptr || v->isConst()) {
      return v;
    }
    Val*& known = folded_[v];
    if (known == nullptr) {
      known = constantIfKnown(v, constants_);
    }
    return known;
  }

  void elementwise(ElementwiseOp* op) {
    auto* out = op->out()->as<TensorView>();
    std::vector<Val*> operands;
    bool all_scalar = true;
    for (Val* in : op->inputs()) {
      Val* value = in->isTensor() ? valueOf(in) : folded(in);
      operands.push_back(value == nullptr ? in : value);
      all_scalar = all_scalar && !operands.back()->isTensor();
    }
    if (operands == op->inputs()) {
      return;
    }
    if (all_scalar) {
      if (Val* value = constantOfAll(op, operands)) {
        fill(out, value);
      }
      return;
    }
    Val* made = elementwiseAsIs(op->op(), out->dtype(), operands);
    if (!replace(out, made->as<TensorView>())) {
      foldScalars(op, operands);
    }
  }

  // Null if an operand is no constant: each element computes it for itself then.
  static Val* constantOfAll(const ElementwiseOp* op, const std::vector<Val*>& operands) {
    std::vector<ScalarValue> values;
    for (const Val* v : operands) {
      if (!v->isConst()) {
        return nullptr;
      }
      values.push_back(v->value());
    }
    const DataType dtype = op->out()->dtype();
    const auto value = isExact(op->op()) ? evaluateOp(op->op(), dtype, values) : std::nullopt;
    return value.has_value() ? IrBuilder::create<Val>(*value, dtype) : nullptr;
  }

  // Rounded correctly wherever it is computed.
  static bool isExact(OpType op) {
    switch (op) {
      case OpType::Add:
      case OpType::Sub:
      case OpType::Mul:
      case OpType::Neg:
      case OpType::Abs:
      case OpType::Minimum:
      case OpType::Maximum:
      case OpType::Cast:
      case OpType::Where:
      case OpType::LogicalNot:
      case OpType::LogicalAnd:
      case OpType::LogicalOr:
      case OpType::Eq:
      case OpType::Ne:
      case OpType::Lt:
      case OpType::Le:
      case OpType::Gt:
      case OpType::Ge:
        return true;
      default:
        return false;
    }
  }

  // The tensors have to stay as they give the result its size.
  void foldScalars(ElementwiseOp* op, const std::vector<Val*>& operands) {
    std::unordered_map<Val*, Val*> changed;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!op->in(i)->isTensor() && op->in(i) != operands[i]) {
        changed[op->in(i)] = operands[i];
      }
    }
    if (!changed.empty()) {
      copyExprWith(fusion_, op, changed);
    }
  }

  std::unordered_map<const Val*, Val*> value_;
  std::unordered_map<const Val*, Val*> folded_;
  ScalarEvaluator constants_ = ScalarEvaluator::ofConstants();
};

} // namespace

void foldConstants(Fusion* fusion) {
  ConstantFolder(fusion).run();
}

void makeConstantsApart(Fusion* fusion) {
  for (Expr* e : std::vector<Expr*>(fusion->exprs())) {
    if (e->kind() != ExprKind::FullOp) {
      continue;
    }
    auto* tv = e->output(0)->as<TensorView>();
    bool is_free = !tv->isFusionOutput(); // nobody else reads it
    for (Expr* use : std::vector<Expr*>(fusion->liveUses(tv))) {
      if (!is_free && isPointwise(use) && !isPlainCopy(use)) {
        copyExprWith(fusion, use, {{tv, recompute(tv, {e->input(0)})}});
      }
      is_free = false;
    }
  }
}

} // namespace nvfuser
