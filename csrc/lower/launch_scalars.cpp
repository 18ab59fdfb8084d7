// SPDX-License-Identifier: BSD-3-Clause
// Scalars that follow from sizes alone are computed when the kernel is launched and become its
// parameters:
//  * those that elements are computed with. Indices may have 32 bits in the kernel, where a product
//    of sizes need not fit.
//  * long ones in indices and conditions. The text of an expression repeats what its operands
//    share, so that it can be exponentially longer than the graph it is written from.
#include <ir/evaluator.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/context.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

namespace {

class LaunchScalars {
 public:
  explicit LaunchScalars(const Kernel* kernel) : kernel_(kernel) {
    for (const Val* v : kernel->inputs()) {
      addSizes(v);
    }
  }

  std::vector<KernelParam> find() {
    visit(kernel_->top_level);
    return std::move(found_);
  }

 private:
  // Operations in the text of an index that are not worth a parameter.
  static constexpr int64_t kShort = 8;

  // Of a scalar: whether it follows from sizes, as which of the equal ones (-1: it does not), and
  // how many operations its text has.
  struct Facts {
    int number = -1;
    int64_t operations = 0;
  };

  void addSizes(const Val* v) {
    if (!v->isTensor()) {
      return;
    }
    for (const IterDomain* id : v->as<TensorView>()->domain()->allIds()) {
      for (const Val* extent : {id->extent(), id->getMaybeExpandedExtent()}) {
        if (!extent->isConst() && extent->definition() == nullptr) {
          sizes_.insert(extent);
        }
      }
    }
  }

  void visit(const Statements& list) {
    forEachStatement(list, [&](const Expr* e) {
      const Accesses accesses = accessesOf(e);
      for (const Val* v : accesses.read) {
        visitOperand(v, computesElements(e));
      }
      for (const Val* v : accesses.written) {
        visitOperand(v, false);
      }
    });
  }

  void visitOperand(const Val* v, bool is_value) {
    if (v == nullptr || v->isTensor()) {
      return;
    }
    if (const auto* element = tryAs<TensorIndex>(v)) {
      return visitScalar(element->index(), false);
    }
    // A condition made of indices is one of the kernel's own, such as where a pad has elements.
    const bool is_own_condition = isBoolean(v->dtype()) && factsOf(v).number < 0;
    visitScalar(v, is_value && !is_own_condition);
  }

  void visitScalar(const Val* v, bool is_value) {
    const Expr* definition = v->definition();
    if (definition == nullptr || v->isConst()) {
      return;
    }
    if (!(is_value ? visited_values_ : visited_).insert(v).second) {
      return;
    }
    const Facts facts = factsOf(v);
    if (facts.number >= 0 && facts.operations > (is_value ? 0 : kShort)) {
      add(v, facts.number, is_value);
      return;
    }
    for (const Val* operand : definition->inputs()) {
      visitOperand(operand, is_value);
    }
  }

  void add(const Val* v, int number, bool is_value) {
    const auto [it, is_new] = position_.emplace(number, found_.size());
    if (is_new) {
      found_.push_back({KernelParam::Kind::Scalar, const_cast<Val*>(v), v->dtype(),
                        "scalar" + std::to_string(found_.size())});
    } else {
      found_[it->second].equal.push_back(v);
    }
    if (is_value && v->dtype() == DataType::Index) {
      found_[it->second].dtype = DataType::Int;
    }
  }

  // Depth first with a stack of its own: definitions may be deep.
  Facts factsOf(const Val* root) {
    std::vector<const Val*> stack = {root};
    while (!stack.empty()) {
      const Val* v = stack.back();
      if (facts_.contains(v)) {
        stack.pop_back();
        continue;
      }
      const size_t before = stack.size();
      if (isComputed(v)) {
        for (const Val* operand : v->definition()->inputs()) {
          if (!facts_.contains(operand)) {
            stack.push_back(operand);
          }
        }
      }
      if (stack.size() == before) {
        facts_.emplace(v, fromOperands(v));
        stack.pop_back();
      }
    }
    return facts_.at(root);
  }

  static bool isComputed(const Val* v) {
    const Expr* definition = v->definition();
    return !v->isConst() && v->isScalar() && definition != nullptr &&
           (definition->kind() == ExprKind::ElementwiseOp ||
            definition->kind() == ExprKind::LoadStoreOp);
  }

  Facts fromOperands(const Val* v) {
    if (v->isConst()) {
      return {numberOf({kConstant, v->dtype(), {}, scalarToString(v->value())}), 0};
    }
    if (!isComputed(v)) {
      const bool is_size = sizes_.contains(v);
      return {is_size ? numberOf({kSize, v->dtype(), {}, std::to_string(v->name())}) : -1, 0};
    }
    constexpr int64_t kMost = int64_t{1} << 40; // more than anything is compared with
    const Expr* definition = v->definition();
    const bool is_copy = definition->kind() == ExprKind::LoadStoreOp;
    Facts out{0, is_copy ? 0 : 1};
    std::vector<int> operands;
    for (const Val* operand : definition->inputs()) {
      const Facts& facts = facts_.at(operand);
      out.number = std::min(out.number, facts.number);
      out.operations = std::min(out.operations + facts.operations, kMost);
      operands.push_back(facts.number);
    }
    if (out.number >= 0 && !isEvaluable(v)) {
      out.number = -1;
    }
    if (out.number >= 0) {
      const int op =
          is_copy ? kCopy : static_cast<int>(static_cast<const ElementwiseOp*>(definition)->op());
      out.number = numberOf({op, v->dtype(), std::move(operands), ""});
    }
    return out;
  }

  // Some operations are not defined for scalars of every type.
  static bool isEvaluable(const Val* v) {
    const auto* op = tryAs<ElementwiseOp>(v->definition());
    if (op == nullptr) {
      return true;
    }
    std::vector<ScalarValue> ones;
    for (const Val* operand : op->inputs()) {
      ones.push_back(convertScalar(int64_t{1}, operand->dtype()));
    }
    return evaluateOp(op->op(), v->dtype(), ones).has_value();
  }

  // Operation, type, numbers of the operands; for a constant or a size, which one it is.
  using Key = std::tuple<int, DataType, std::vector<int>, std::string>;
  static constexpr int kConstant = -1, kSize = -2, kCopy = -3; // in the place of an operation
  int numberOf(Key key) {
    return numbers_.emplace(std::move(key), static_cast<int>(numbers_.size())).first->second;
  }

  const Kernel* kernel_;
  std::unordered_set<const Val*> sizes_; // of inputs
  std::unordered_map<const Val*, Facts> facts_;
  std::map<Key, int> numbers_; // equal scalars have the same one
  std::unordered_set<const Val*> visited_;
  std::unordered_set<const Val*> visited_values_;
  std::unordered_map<int, size_t> position_; // in found_, by number
  std::vector<KernelParam> found_;
};

} // namespace

std::vector<KernelParam> scalarsOfLaunch(const Kernel* kernel) {
  return LaunchScalars(kernel).find();
}

} // namespace nvfuser
