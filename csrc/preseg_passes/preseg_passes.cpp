// SPDX-License-Identifier: BSD-3-Clause
// The list of passes.
#include <preseg_passes/preseg_passes.h>

#include <base/options.h>
#include <base/pass_log.h>
#include <fusion/verify.h>
#include <ir/visitor.h>
#include <preseg_passes/canonical_form.h>
#include <preseg_passes/cats_in_parts.h>
#include <preseg_passes/generate_topk.h>
#include <preseg_passes/passes.h>
#include <preseg_passes/scatter_in_place.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace nvfuser {

PassLog logOfPasses(Fusion* fusion) {
  const bool verbose = isDumpEnabled(DumpOption::PreSegmenterLogging);
  const auto text = [fusion] { return fusion->printMath(); };
  return {verbose, text, verbose ? text() : "",
          [fusion](const char* name) { verifyFusion(fusion, name); }};
}

namespace {

// Outputs that are not written to the storage of an input.
std::vector<TensorView*> allocatedOutputs(const PresegFusion& definition) {
  std::vector<TensorView*> out;
  std::copy_if(definition.outputs.begin(), definition.outputs.end(), std::back_inserter(out),
               [&](const TensorView* tv) {
                 return std::none_of(definition.writes.begin(), definition.writes.end(),
                                     [&](const InPlaceWrite& w) { return w.output == tv; });
               });
  return out;
}

// What is computed once, and what again on both sides of a cut.
void passesForReductions(PresegFusion& definition, const Rewrites& wanted, PassLog& pass) {
  Fusion* fusion = definition.fusion;
  const bool writes_in_place = !definition.writes.empty();
  bool is_nested = false;
  pass("nest reductions", [&] { is_nested = nestReductions(fusion); });
  if (is_nested && !isOptionDisabled(DisableOption::ShareSums)) {
    pass("share first steps of sums", [&] { shareSums(fusion); });
  }
  if (wanted.merge_softmax_statistics) {
    pass("merge softmax statistics",
         [&] { mergeSoftmaxStatistics(fusion, wanted.repeat_after_reductions); });
  }
  if (wanted.repeat_after_reductions.has_value() && !writes_in_place) {
    pass("repeat after reductions",
         [&] { repeatAfterReductions(fusion, *wanted.repeat_after_reductions); });
  }
  pass("separate widening casts", [&] { separateWideningCasts(fusion); });
  if (wanted.partial_sums != 0) {
    pass("split column reductions",
         [&] { definition.row_groups = splitColumnReductions(fusion, wanted); });
  }
  if (wanted.lend_rows && !writes_in_place && definition.boundaries.empty()) {
    pass("lend rows",
         [&] { lendRows(fusion, definition.outputs, definition.views, definition.parts); });
  }
  if (wanted.repeat_for_columns && !writes_in_place) {
    pass("repeat for columns", [&] { repeatForColumns(fusion); });
  }
}

} // namespace

void settleLayouts(PresegFusion& definition, const MachineModel* machine) {
  Fusion* fusion = definition.fusion;
  const FusionGuard guard(fusion);
  PassLog pass = logOfPasses(fusion);
  if (fusion->hasExpr(ExprKind::LibraryOp) && !isOptionDisabled(DisableOption::ScaleProducts)) {
    pass("scale products", [&] { scaleProducts(fusion); });
  }
  if (machine != nullptr && fusion->hasExpr(ExprKind::LibraryOp)) {
    if (!isOptionDisabled(DisableOption::PadProducts)) {
      pass("pad products", [&] { padProducts(fusion, *machine); });
    }
    if (!isOptionDisabled(DisableOption::SeparateBias)) {
      pass("separate bias", [&] { separateBias(fusion); });
    }
  }
  pass("infer allocation orders",
       [&] { inferAllocationOrder(fusion, allocatedOutputs(definition)); });
  pass("compute into outputs", [&] { computeIntoOutputs(fusion, allocatedOutputs(definition)); });
  pass("separate views for library ops", [&] { separateViewsForLibraryOps(fusion); });
  if (isOptionDisabled(DisableOption::MoveViews)) {
    return;
  }
  std::unordered_set<const TensorView*> kept;
  for (const InPlaceWrite& write : definition.writes) {
    kept.insert({write.input, write.output});
  }
  pass("make outputs before views",
       [&] { makeOutputsBeforeViews(fusion, kept, definition.views); });
  if (fusion->hasExpr(ExprKind::LibraryOp)) {
    pass("cut at libraries", [&] { definition.boundaries = cutAtLibraries(fusion, kept); });
  }
  pass("take views of inputs", [&] { takeViewsOfInputs(fusion, kept, definition.views); });
  const auto move_views = [&] {
    if (fusion->hasExpr(isReduction) || fusion->hasExpr(ExprKind::ScanOp)) {
      moveViewsToEnds(fusion, kept, definition.views, &pass);
    } else if (fusion->hasExpr(ExprKind::SliceOp)) {
      pass("slice inputs", [&] { sliceInputs(fusion); });
    }
  };
  move_views();
  bool has_new_parts = false;
  if (fusion->hasExpr(isReduction) && !isOptionDisabled(DisableOption::AddFewElements)) {
    pass("add few elements", [&] { has_new_parts = addFewElements(fusion); });
  }
  if (has_new_parts) {
    move_views();
  }
  if (!isOptionDisabled(DisableOption::SeparateAxes)) {
    pass("separate axes", [&] { separateAxes(fusion, kept, definition.views); });
  }
  if (fusion->hasExpr(ExprKind::CatOp) && !isOptionDisabled(DisableOption::CatsInParts)) {
    pass("compute before cats", [&] { computeBeforeCats(fusion); });
  }
  for (TensorView*& output : definition.outputs) {
    const OutputView* view = definition.views.viewOf(output);
    definition.returned.push_back(view == nullptr ? ReturnedView()
                                                  : ReturnedView{output, view->offset});
    output = view == nullptr ? output : view->made;
  }
}

void runPresegPasses(PresegFusion& definition, const Rewrites& wanted) {
  Fusion* fusion = definition.fusion;
  const FusionGuard guard(fusion);
  PassLog pass = logOfPasses(fusion);

  // Which tensors lie in the storage of others.
  if (wanted.cats_in_parts != 0) {
    pass("write cats in parts", [&] {
      writeCatsInParts(fusion, wanted.cats_in_parts, definition.writes, definition.parts);
    });
  }
  if (wanted.scatters_in_place != 0) {
    pass("scatter in place", [&] {
      scatterInPlace(fusion, wanted.scatters_in_place, definition.writes, definition.overlap);
    });
  }
  pass("materialize expanded writes",
       [&] { materializeExpandedWrites(fusion, definition.writes, definition.outputs); });
  pass("resolve in-place writes",
       [&] { resolveInPlaceWrites(fusion, definition.writes, definition.overlap); });

  // What a library and a lookup read.
  if (wanted.generated_topks != 0) {
    pass("generate topk", [&] { generateTopK(fusion, wanted.generated_topks); });
  }
  if (!isOptionDisabled(DisableOption::SimplifyLookups)) {
    pass("look up selections", [&] { lookUpSelections(fusion); });
  }
  pass("look up in inputs", [&] { lookUpInInputs(fusion); });
  if (!isOptionDisabled(DisableOption::SimplifyLookups)) {
    pass("sink lookups", [&] { sinkLookups(fusion); });
  }

  if (fusion->hasExpr(isReduction)) {
    passesForReductions(definition, wanted, pass);
  }
  if (!definition.boundaries.empty()) {
    pass("join at libraries", [&] {
      joinAtLibraries(fusion, definition.boundaries, definition.outputs, definition.parts,
                      definition.views);
    });
  }
  pass("order intermediates", [&] { orderIntermediates(fusion); });
}

} // namespace nvfuser
