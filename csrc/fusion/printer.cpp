// SPDX-License-Identifier: BSD-3-Clause
// Text of whole fusions: definitions (printMath) and schedules.
#include <fusion/printer.h>

#include <ir/printer.h>
#include <ir/visitor.h>

#include <iostream>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace nvfuser {

namespace {

std::string interfaceText(const Fusion& fusion) {
  std::ostringstream out;
  out << "Inputs:\n";
  for (const Val* v : fusion.inputs()) {
    out << "  " << v << "\n";
  }
  out << "Outputs:\n";
  for (const Val* v : fusion.outputs()) {
    out << "  " << v << "\n";
  }
  return out.str();
}

// Transforms of domains are shown with the domains, not as statements.
bool isStatement(const Expr& e) {
  return !e.output(0)->isA<IterDomain>();
}

std::string statementsText(const std::vector<Expr*>& exprs) {
  std::string out;
  for (const Expr* e : exprs) {
    if (isStatement(*e)) {
      out += e->toString();
    }
  }
  return out;
}

// How the sizes are computed that are shown by their names.
class NamedSizes {
 public:
  std::string textOf(const Fusion& fusion, const std::vector<Expr*>& exprs) {
    addTensors(fusion.inputs());
    for (const Expr* e : exprs) {
      if (isStatement(*e)) {
        addTensors(e->inputs());
        addTensors(e->outputs());
        for (const Val* v : e->fieldVals()) {
          add(v);
        }
      }
    }
    return std::move(text_);
  }

 private:
  void addTensors(const std::vector<Val*>& vals) {
    for (const Val* v : vals) {
      if (!v->isTensor() || !seen_.insert(v).second) {
        continue;
      }
      for (const IterDomain* id : v->as<TensorView>()->getLoopDomain()) {
        add(id->extent());
        add(id->expandedExtent());
      }
      for (const IterDomain* id : v->as<TensorView>()->getLogicalDomain()) {
        add(id->extent());
        add(id->expandedExtent());
      }
    }
  }

  void add(const Val* size) {
    if (size == nullptr || !isShownByName(size)) {
      return;
    }
    // Operands first.
    std::vector<const Val*> stack{size};
    while (!stack.empty()) {
      const Val* v = stack.back();
      const Expr* def = v->isScalar() && done_.count(v) == 0 ? v->definition() : nullptr;
      if (def != nullptr && seen_.insert(v).second) {
        stack.insert(stack.end(), def->inputs().begin(), def->inputs().end());
        continue;
      }
      stack.pop_back();
      if (def != nullptr && done_.insert(v).second) {
        text_ += def->toString();
      }
    }
  }

  std::unordered_set<const Val*> seen_;
  std::unordered_set<const Val*> done_;
  std::string text_;
};

} // namespace

std::string Fusion::printMath(bool from_outputs_only) const {
  const std::vector<Expr*> exprs = from_outputs_only ? exprsBefore(outputs()) : unorderedExprs();
  const std::string sizes = from_outputs_only ? NamedSizes().textOf(*this, exprs) : "";
  return interfaceText(*this) + "\n%kernel_math {\n" + sizes + statementsText(exprs) +
         "} // %kernel_math \n\n";
}

void Fusion::print() const {
  std::cout << printScheduled(*this) << std::flush;
}

std::string printScheduled(const Fusion& fusion, bool tensor_transforms) {
  const std::vector<Expr*> exprs = exprsBefore(fusion.outputs());
  std::string out = interfaceText(fusion) + "\n%kernel {\n" + NamedSizes().textOf(fusion, exprs) +
                    statementsText(exprs);
  if (tensor_transforms) {
    out += "\nTransformPrinter : \n";
    for (const TensorView* tv : fusion.allTvs()) {
      out += printTransforms(tv);
    }
  }
  return out + "} // %kernel\n";
}

} // namespace nvfuser
