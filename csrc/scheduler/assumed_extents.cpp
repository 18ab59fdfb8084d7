// SPDX-License-Identifier: BSD-3-Clause
// See assumed_extents.h.
#include <scheduler/assumed_extents.h>

#include <base/error.h>
#include <ir/evaluator.h>
#include <ir/exprs.h>
#include <transform/cache.h>

namespace nvfuser {

namespace {

void foldKnownScalars(Fusion* fusion) {
  ScalarEvaluator known;
  for (const auto& [extent, value] : fusion->assumedExtents()) {
    known.bind(extent, value);
  }
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* e : exprs) {
    std::unordered_map<Val*, Val*> constants;
    for (Val* in : e->inputs()) {
      if (e->kind() == ExprKind::ElementwiseOp && !in->isTensor() && in->definition() != nullptr) {
        Val* constant = constantIfKnown(in, known);
        if (constant != in) {
          constants[in] = constant;
        }
      }
    }
    if (!constants.empty()) {
      copyExprWith(fusion, e, constants);
    }
  }
}

} // namespace

std::vector<IterDomain*> keptWithinRow(const ReductionAnalysis& analysis) {
  std::vector<IterDomain*> kept;
  size_t within = 0;
  bool seen = false;
  for (IterDomain* id : analysis.reference()->getLogicalDomain()) {
    if (analysis.isAlongRow(id)) {
      seen = true;
      within = kept.size();
    } else if (seen && !id->isBroadcast() && !analysis.isReducedDim(id)) {
      kept.push_back(id);
    }
  }
  kept.resize(within);
  return kept;
}

void assumeRowLengths(Fusion* fusion, const ReductionAnalysis& analysis,
                      const ReductionParams& params) {
  // Inputs have extents of their own, which scalars may be computed of.
  std::vector<const IterDomain*> open;
  for (const Val* in : fusion->inputs()) {
    const auto* tv = tryAs<TensorView>(in);
    for (const IterDomain* id : tv == nullptr ? TensorDomain::Ids() : logicalIds(tv)) {
      if (!id->isBroadcast() && !id->extent()->isConst()) {
        open.push_back(id);
      }
    }
  }
  const auto assume = [&](const IterDomain* id, int64_t value) {
    if (!id->extent()->isConst()) {
      fusion->assumeExtent(id->extent(), value);
    }
    for (const IterDomain* other : open) {
      if (other->extent() != id->extent() && analysis.areOfOneSize(other, id)) {
        fusion->assumeExtent(other->extent(), value);
      }
    }
  };
  size_t next = 0;
  for (const IterDomain* id : analysis.reference()->getLogicalDomain()) {
    if (analysis.isAlongRow(id)) {
      NVF_CHECK(next < params.reduced_extents.size(),
                "A persistent schedule needs reduced_extents, one for each reduced dimension");
      assume(id, params.reduced_extents[next++]);
    }
  }
  const std::vector<IterDomain*> within = keptWithinRow(analysis);
  if (params.extents_within_row.size() == within.size()) {
    for (size_t i = 0; i < within.size(); ++i) {
      assume(within[i], params.extents_within_row[i]);
    }
  }
  foldKnownScalars(fusion);
}

} // namespace nvfuser
