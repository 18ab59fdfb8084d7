// SPDX-License-Identifier: BSD-3-Clause
// See deviations.h.
#include <codegen/deviations.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

namespace nvfuser::codegen {

namespace {

// The same elements with other dimensions.
bool isView(const Expr* e) {
  return e->kind() == ExprKind::BroadcastOp || e->kind() == ExprKind::ExpandOp ||
         e->kind() == ExprKind::SqueezeOp;
}

// Numbers tensors by what they hold: a value that is computed again has the same number.
class ValueNumbers {
 public:
  explicit ValueNumbers(const Kernel* kernel) {
    for (const Expr* e : kernel->exprs()) {
      if (!e->outputs().empty() && e->output(0)->isTensor()) {
        number(e);
      }
    }
  }

  size_t of(const Val* v) {
    return numbers_.try_emplace(v, numbers_.size()).first->second;
  }

 private:
  void number(const Expr* e) {
    if (e->kind() == ExprKind::LoadStoreOp) {
      numbers_[e->output(0)] = of(e->input(0));
      return;
    }
    const auto* op = tryAs<ElementwiseOp>(e);
    if (op == nullptr && !isView(e)) {
      return; // of its own
    }
    Val* out = e->output(0);
    std::vector<size_t> key = {static_cast<size_t>(e->kind()),
                               op == nullptr ? 0 : static_cast<size_t>(op->op()),
                               static_cast<size_t>(out->dtype())};
    for (const Val* in : e->inputs()) {
      key.push_back(of(in));
    }
    const size_t own = of(out);
    numbers_[out] = known_.try_emplace(std::move(key), own).first->second;
  }

  std::unordered_map<const Val*, size_t> numbers_;
  std::map<std::vector<size_t>, size_t> known_;
};

bool isRegister(const Val* v) {
  const auto* tv = tryAs<TensorView>(v);
  return tv != nullptr && tv->getMemoryType() == MemoryType::Local;
}

// Whether the last operation on the way to a value in registers may be a multiplication, as far as
// the compiler sees. (Functions of the device library may end in one.)
bool mayBeProduct(const Val* v) {
  while (isRegister(v)) {
    const Expr* e = v->definition();
    if (e == nullptr) {
      return false;
    }
    const auto* op = tryAs<ElementwiseOp>(e);
    if (e->kind() == ExprKind::LoadStoreOp || e->kind() == ExprKind::BroadcastOp ||
        (op != nullptr && op->op() == OpType::Neg)) {
      v = e->input(0);
      continue;
    }
    if (op == nullptr) {
      return false;
    }
    switch (op->op()) {
      case OpType::Add:
      case OpType::Sub:
      case OpType::Cast:
      case OpType::Abs:
      case OpType::Relu:
      case OpType::Where:
      case OpType::Minimum:
      case OpType::Maximum:
      case OpType::Sqrt:
        return false;
      default:
        return true;
    }
  }
  return false;
}

bool isSum(const Expr* e) {
  const auto* reduction = tryAs<ReductionOp>(e);
  return e->kind() == ExprKind::WelfordOp || e->kind() == ExprKind::SqueezeOp ||
         (reduction != nullptr && reduction->op() == OpType::Add);
}

bool hasBroadcast(const Val* v) {
  const auto* tv = tryAs<TensorView>(v);
  return tv != nullptr && tv->hasBroadcast();
}

// Whether `statistic` is computed from sums of the value with this number (of one element, where
// the dimension is dropped).
bool isMadeOf(const Val* statistic, size_t number, ValueNumbers& numbers) {
  std::vector<const Val*> left = {statistic};
  std::unordered_set<const Val*> seen;
  while (!left.empty()) {
    const Val* v = left.back();
    left.pop_back();
    const Expr* e = v->definition();
    if (e == nullptr || !v->isTensor() || !seen.insert(v).second) {
      continue;
    }
    if (!isSum(e)) {
      const bool goes_on = e->kind() == ExprKind::ElementwiseOp ||
                           e->kind() == ExprKind::LoadStoreOp || e->kind() == ExprKind::BroadcastOp;
      if (goes_on) {
        left.insert(left.end(), e->inputs().begin(), e->inputs().end());
      }
      continue;
    }
    for (const Val* in : e->inputs()) {
      if (numbers.of(in) == number) {
        return true;
      }
      // What is summed in several steps.
      if (in->definition() != nullptr && isSum(in->definition())) {
        left.push_back(in);
      }
    }
  }
  return false;
}

// Whether it is that value itself, seen with other dimensions of size 1: the difference is 0.
bool isValueItself(const Val* v, size_t number, ValueNumbers& numbers) {
  while (numbers.of(v) != number) {
    const Expr* e = v->definition();
    if (e == nullptr || (e->kind() != ExprKind::LoadStoreOp && !isView(e))) {
      return false;
    }
    v = e->input(0);
  }
  return true;
}

bool isAddedOnly(const Val* difference) {
  return std::all_of(difference->uses().begin(), difference->uses().end(), [](const Expr* use) {
    const auto* op = tryAs<ElementwiseOp>(use);
    return op != nullptr && (op->op() == OpType::Add || op->op() == OpType::Sub);
  });
}

} // namespace

std::unordered_set<const TensorView*> deviationsOfProducts(const Kernel* kernel) {
  std::unordered_set<const TensorView*> out;
  std::unique_ptr<ValueNumbers> numbers; // only where they are asked for
  for (const Expr* e : kernel->exprs()) {
    const auto* op = tryAs<ElementwiseOp>(e);
    if (op == nullptr || op->op() != OpType::Sub || !op->out()->isTensor() ||
        (op->out()->dtype() != DataType::Float && op->out()->dtype() != DataType::Double)) {
      continue;
    }
    for (size_t i = 0; i < 2; ++i) {
      const Val* value = op->in(i);
      const Val* statistic = op->in(1 - i);
      if (!hasBroadcast(statistic) || !mayBeProduct(value)) {
        continue;
      }
      if (numbers == nullptr) {
        numbers = std::make_unique<ValueNumbers>(kernel);
      }
      const size_t number = numbers->of(value);
      if (isValueItself(statistic, number, *numbers) ||
          (!isAddedOnly(op->out()) && isMadeOf(statistic, number, *numbers))) {
        out.insert(op->out()->as<TensorView>());
      }
    }
  }
  return out;
}

} // namespace nvfuser::codegen
