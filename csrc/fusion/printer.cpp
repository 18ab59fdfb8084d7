// Text of whole fusions: definitions (printMath) and schedules.
#include <fusion/printer.h>

#include <ir/printer.h>
#include <ir/visitor.h>

#include <iostream>
#include <sstream>

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

} // namespace

std::string Fusion::printMath(bool from_outputs_only) const {
  const std::vector<Expr*> exprs = from_outputs_only ? exprsBefore(outputs()) : unorderedExprs();
  return interfaceText(*this) + "\n%kernel_math {\n" + statementsText(exprs) +
         "} // %kernel_math \n\n";
}

void Fusion::print() const {
  std::cout << printScheduled(*this) << std::flush;
}

std::string printScheduled(const Fusion& fusion, bool tensor_transforms) {
  std::string out =
      interfaceText(fusion) + "\n%kernel {\n" + statementsText(exprsBefore(fusion.outputs()));
  if (tensor_transforms) {
    out += "\nTransformPrinter : \n";
    for (const TensorView* tv : fusion.allTvs()) {
      out += printTransforms(tv);
    }
  }
  return out + "} // %kernel\n";
}

} // namespace nvfuser
