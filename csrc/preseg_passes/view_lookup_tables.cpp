// SPDX-License-Identifier: BSD-3-Clause
// A lookup reads its table in memory. Where that is an input with dimensions merged or split, it is
// there: as a view of the input, which nobody has to write.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ops/utils.h>
#include <transform/cache.h>

#include <algorithm>
#include <unordered_map>

namespace nvfuser {

namespace {

// In the order of its dimensions, without gaps.
bool isDense(const TensorView* tv) {
  const TensorDomain::Contiguity& contiguity = tv->getContiguity();
  const auto& ids = tv->getLogicalDomain();
  return !tv->domain()->hasAllocation() &&
         std::none_of(ids.begin(), ids.end(),
                      [](const IterDomain* id) { return id->hasExpandedExtent(); }) &&
         std::all_of(contiguity.begin(), contiguity.end(),
                     [](const std::optional<bool>& c) { return c.value_or(true); });
}

// Null if the table has to be computed, or something is computed of it too.
TensorView* viewedInput(const Fusion* fusion, const TensorView* table) {
  const Expr* reshape = table->definition();
  const std::vector<Expr*> uses = fusion->liveUses(table);
  if (reshape == nullptr || reshape->kind() != ExprKind::ReshapeOp || table->isFusionOutput() ||
      !std::all_of(uses.begin(), uses.end(),
                   [table](const Expr* use) { return lookedUpTensor(use) == table; })) {
    return nullptr;
  }
  auto* source = reshape->input(0)->as<TensorView>();
  return source->isFusionInput() && !source->isCpuScalar() && isDense(source) ? source : nullptr;
}

TensorView* viewLike(const TensorView* table, const TensorView* source) {
  TensorDomain::Ids ids;
  for (const IterDomain* id : table->getLogicalDomain()) {
    ids.push_back(IterDomainBuilder(id).build());
  }
  TensorView* view = ops_utils::makeTensor(std::move(ids), source->dtype());
  view->setSourceLocation(source->sourceLocation());
  return view;
}

} // namespace

void viewLookupTables(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                      MovedViews& views) {
  const FusionGuard guard(fusion);
  std::unordered_map<const TensorView*, TensorView*> of_table;
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* e : exprs) {
    TensorView* table = lookedUpTensor(e);
    TensorView* source = table == nullptr ? nullptr : viewedInput(fusion, table);
    if (source == nullptr || kept.count(source) != 0) {
      continue;
    }
    TensorView*& view = of_table[table];
    if (view == nullptr) {
      view = viewLike(table, source);
      fusion->addInput(view);
      views.inputs.push_back({view, source, {}});
    }
    copyExprWith(fusion, e, {{table, view}});
  }
  fusion->removeDeadUses();
}

} // namespace nvfuser
