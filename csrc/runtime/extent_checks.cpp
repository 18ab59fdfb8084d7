// SPDX-License-Identifier: BSD-3-Clause
// Extents that must agree.
#include <runtime/extent_checks.h>

#include <base/error.h>
#include <ir/describe.h>
#include <ops/shape_internal.h>
#include <runtime/bind_inputs.h>

#include <string>

namespace nvfuser {
namespace {

// "dimension 1 of input 0 (float32 [i0, i1])" if the extent is read off an input, else of the
// tensor itself.
std::string describeExtent(const Fusion& fusion, const TensorView* tv, int64_t dim,
                           const Val* extent) {
  for (const Val* input : fusion.inputs()) {
    if (input == extent) {
      return describe(input);
    }
    if (!input->isTensor() || extent->isConst()) {
      continue;
    }
    const std::vector<IterDomain*>& logical = input->as<TensorView>()->getLogicalDomain();
    for (size_t d = 0; d < logical.size(); ++d) {
      if (logical[d]->getMaybeExpandedExtent() == extent) {
        return "dimension " + std::to_string(d) + " of " + describe(input);
      }
    }
  }
  return "dimension " + std::to_string(dim) + " of " + describe(tv);
}

} // namespace

void checkExtents(const Fusion& fusion, const std::vector<ExtentConstraint>& constraints,
                  ScalarEvaluator& evaluator) {
  for (const ExtentConstraint& c : constraints) {
    const int64_t producer = evaluator.evaluateInt(c.producer_extent);
    const int64_t consumer = evaluator.evaluateInt(c.consumer_extent);
    const int64_t consumer_dim = c.consumer_dim < 0 ? c.dim : c.consumer_dim;
    if (*c.rule != '\0') {
      NVF_CHECK(producer <= consumer, pythonOpName(c.op), ": ", c.rule, ": it is ", producer,
                ", but ", describeExtent(fusion, c.consumer, consumer_dim, c.consumer_extent),
                " has size ", consumer, ", in ", describe(c.op));
      continue;
    }
    if (c.relation == ExtentConstraint::Relation::AtMost) {
      NVF_CHECK(producer <= consumer, pythonOpName(c.op), ": ",
                describeExtent(fusion, c.producer, c.dim, c.producer_extent), " has size ",
                producer, ", which is more than the ", consumer, " of ",
                describeExtent(fusion, c.consumer, consumer_dim, c.consumer_extent), " in ",
                describe(c.op));
      continue;
    }
    NVF_CHECK(producer == consumer,
              "Sizes do not agree: ", describeExtent(fusion, c.producer, c.dim, c.producer_extent),
              " has size ", producer, ", but ",
              describeExtent(fusion, c.consumer, consumer_dim, c.consumer_extent), " has size ",
              consumer, ". They meet in ", describe(c.op),
              ". (A dimension is broadcast only if it was defined with size 1.)");
  }
}

std::vector<PromisedRange> promisedRanges(const Fusion& definition) {
  std::vector<PromisedRange> out;
  for (const Expr* e : definition.exprs()) {
    const auto* op = tryAs<SliceOp>(e);
    if (op == nullptr) {
      continue;
    }
    const auto ids = logicalIds(op->input(0));
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
              describeExtent(definition, r.op->input(0)->as<TensorView>(), r.dim, r.extent),
              ", which has size ", size, ", in ", describe(r.op),
              ". (With manual_normalization positions are taken as they are.)");
  }
}

void ExtentChecks::run(std::span<const ArgView> args) const {
  ScalarEvaluator evaluator;
  bindInputs(fusion_->inputs(), args, evaluator);
  checkExtents(*fusion_, constraints_, evaluator);
  checkRanges(*fusion_, ranges_, evaluator);
}

} // namespace nvfuser
