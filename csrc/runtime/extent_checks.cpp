// Extents that must agree.
#include <runtime/extent_checks.h>

#include <base/error.h>
#include <ops/shape_internal.h>
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

std::vector<PromisedRange> promisedRanges(const Fusion& definition) {
  std::vector<PromisedRange> out;
  for (const Expr* e : definition.exprs()) {
    const auto* op = dynamic_cast<const SliceOp*>(e);
    if (op == nullptr) {
      continue;
    }
    const auto ids = ops_utils::logicalIds(op->input(0)->as<TensorView>());
    for (size_t d = 0; d < ids.size(); ++d) {
      const PromisedRange r{op, static_cast<int64_t>(d), op->starts()[d], op->stops()[d],
                            ids[d]->getMaybeExpandedExtent()};
      if (!ops_utils::isNormalizedRange(r.start, r.stop, r.extent)) {
        out.push_back(r);
      }
    }
  }
  return out;
}

void checkRanges(const Fusion& definition, const std::vector<PromisedRange>& ranges,
                 ScalarEvaluator& evaluator) {
  for (const PromisedRange& r : ranges) {
    const int64_t start = evaluator.evaluateInt(r.start);
    const int64_t stop = evaluator.evaluateInt(r.stop);
    const int64_t size = evaluator.evaluateInt(r.extent);
    NVF_CHECK(0 <= start && start <= stop && stop <= size, "slice: the range from ", start, " to ",
              stop, " is not one of ",
              describe(definition, r.op->input(0)->as<TensorView>(), r.dim, r.extent),
              " which has size ", size, ", in ", r.op->toString(),
              " (With manual_normalization positions are taken as they are.)");
  }
}

void ExtentChecks::run(std::span<const ArgView> args) const {
  ScalarEvaluator evaluator;
  bindInputs(fusion_->inputs(), args, evaluator);
  checkExtents(*fusion_, constraints_, evaluator);
  checkRanges(*fusion_, ranges_, evaluator);
}

} // namespace nvfuser
