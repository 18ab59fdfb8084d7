// SPDX-License-Identifier: BSD-3-Clause
// See marked_element.h.
#include <preseg_passes/marked_element.h>

#include <preseg_passes/input_bits.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>

namespace nvfuser {

namespace {

// What the same integers are expanded or widened from.
Val* beforeExpanding(Val* v) {
  while (v->isTensor() && v->definition() != nullptr) {
    const Expr* e = v->definition();
    const bool widens = isWideningCast(e) && isIntegral(e->input(0)->dtype());
    if (e->kind() != ExprKind::ExpandOp && !isPlainCopy(e) && !widens) {
      break;
    }
    v = e->input(0);
  }
  return v;
}

// The one dimension that 0, 1, 2, ... run along.
std::optional<size_t> countedDim(Val* v) {
  const auto* repeated = tryAs<BroadcastOp>(beforeExpanding(v)->definition());
  if (repeated == nullptr) {
    return std::nullopt;
  }
  const auto* iota = tryAs<IotaOp>(beforeExpanding(repeated->input(0))->definition());
  const std::vector<bool>& is_new = repeated->isBroadcastDim();
  const auto dim = std::find(is_new.begin(), is_new.end(), false);
  const bool counts = iota != nullptr && realConstant(iota->start()) == 0 &&
                      realConstant(iota->step()) == 1 && isIntegral(iota->output(0)->dtype());
  return counts ? std::optional(static_cast<size_t>(dim - is_new.begin())) : std::nullopt;
}

// One position for each row: dimensions of the table's sizes, but for `dim`.
bool isOneOfEachRow(const TensorView* index, const TensorView* table, size_t dim) {
  const auto dims = logicalIds(table);
  return haveSameRows(index, table, static_cast<int64_t>(dim)) && logicalIds(index)[dim]->isOne() &&
         dims[dim]->isIteration() &&
         std::none_of(dims.begin(), dims.end(),
                      [](const IterDomain* id) { return id->hasExpandedExtent(); });
}

} // namespace

std::optional<MarkedElement> markedElement(const Val* mask, const TensorView* like) {
  const ElementwiseOp* eq = definedBy(mask, OpType::Eq);
  if (eq == nullptr) {
    return std::nullopt;
  }
  for (const size_t i : {0, 1}) {
    const auto dim = countedDim(eq->in(i));
    Val* position = beforeExpanding(eq->in(1 - i));
    if (dim.has_value() && position->isTensor() && isIntegral(position->dtype())) {
      const MarkedElement out{position->as<TensorView>(), *dim};
      return isOneOfEachRow(out.index, like, out.dim) ? std::optional(out) : std::nullopt;
    }
  }
  return std::nullopt;
}

} // namespace nvfuser
