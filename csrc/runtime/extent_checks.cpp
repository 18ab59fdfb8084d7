// Extents that must agree.
#include <runtime/extent_checks.h>

#include <base/error.h>
#include <runtime/bind_inputs.h>

#include <sstream>

namespace nvfuser {
namespace {

// "dimension 1 of input 0, T0_g_float[...]," if the extent is read off an input, else the tensor
// itself.
std::string describe(const Fusion& fusion, const TensorView* tv, int64_t dim, const Val* extent) {
  std::ostringstream out;
  const std::vector<Val*>& inputs = fusion.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == extent) {
      out << "input " << i << ", " << inputs[i]->toString() << ",";
      return out.str();
    }
    if (!inputs[i]->isTensor() || extent->isConst()) {
      continue;
    }
    const std::vector<IterDomain*>& logical = inputs[i]->as<TensorView>()->getLogicalDomain();
    for (size_t d = 0; d < logical.size(); ++d) {
      if (logical[d]->getMaybeExpandedExtent() == extent) {
        out << "dimension " << d << " of input " << i << ", " << inputs[i]->toString() << ",";
        return out.str();
      }
    }
  }
  out << "dimension " << dim << " of ";
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == tv) {
      out << "input " << i << ", ";
    }
  }
  out << tv->toString() << ",";
  return out.str();
}

} // namespace

void checkExtents(const Fusion& fusion, const std::vector<ExtentConstraint>& constraints,
                  ScalarEvaluator& evaluator) {
  for (const ExtentConstraint& c : constraints) {
    const int64_t producer = evaluator.evaluateInt(c.producer_extent);
    const int64_t consumer = evaluator.evaluateInt(c.consumer_extent);
    const int64_t consumer_dim = c.consumer_dim < 0 ? c.dim : c.consumer_dim;
    if (*c.rule != '\0') {
      NVF_CHECK(producer <= consumer, c.op->opName(), ": ", c.rule, ": it is ", producer, ", but ",
                describe(fusion, c.consumer, consumer_dim, c.consumer_extent), " has size ",
                consumer, ", in ", c.op->toString());
      continue;
    }
    if (c.relation == ExtentConstraint::Relation::AtMost) {
      NVF_CHECK(producer <= consumer, c.op->opName(), ": ",
                describe(fusion, c.producer, c.dim, c.producer_extent), " has size ", producer,
                ", which is more than the ", consumer, " of ",
                describe(fusion, c.consumer, consumer_dim, c.consumer_extent), " in ",
                c.op->toString());
      continue;
    }
    NVF_CHECK(producer == consumer,
              "Sizes do not agree: ", describe(fusion, c.producer, c.dim, c.producer_extent),
              " has size ", producer, ", but ",
              describe(fusion, c.consumer, consumer_dim, c.consumer_extent), " has size ", consumer,
              ". They meet in ", c.op->toString(),
              " (A dimension is broadcast only if it was defined with size 1.)");
  }
}

void ExtentChecks::run(std::span<const ArgView> args) const {
  ScalarEvaluator evaluator;
  bindInputs(fusion_->inputs(), args, evaluator);
  checkExtents(*fusion_, constraints_, evaluator);
}

} // namespace nvfuser
