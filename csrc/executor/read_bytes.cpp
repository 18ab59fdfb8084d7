// SPDX-License-Identifier: BSD-3-Clause
#include <executor/read_bytes.h>

#include <ir/exprs.h>
#include <ir/op_traits.h>
#include <runtime/bind_inputs.h>
#include <runtime/kernel_executor.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace nvfuser {

namespace {

double elementsOf(const TensorView* tv, ScalarEvaluator& evaluator) {
  double elements = 1;
  for (const IterDomain* id : logicalIds(tv)) {
    elements *= static_cast<double>(evaluator.evaluateInt(id->extent()));
  }
  return elements;
}

} // namespace

int64_t readBytes(Fusion& segment, std::span<const ArgView> inputs) {
  const std::vector<Expr*>& exprs = segment.exprs();
  if (std::none_of(exprs.begin(), exprs.end(), readsPart)) {
    return argumentBytes(inputs);
  }
  ScalarEvaluator evaluator;
  bindInputs(segment.inputs(), inputs, evaluator);
  // Of each tensor the share that something needs.
  std::unordered_map<const Val*, double> share;
  for (const Val* out : segment.outputs()) {
    share[out] = 1;
  }
  for (auto it = exprs.rbegin(); it != exprs.rend(); ++it) {
    const Expr* e = *it;
    double needed = 0;
    for (const Val* out : e->outputs()) {
      needed = std::max(needed, share[out]);
    }
    for (const Val* in : e->inputs()) {
      if (!in->isTensor()) {
        continue;
      }
      double part = 1;
      if (readsPart(e) && in == e->input(0)) {
        const double whole = elementsOf(in->as<TensorView>(), evaluator);
        part = whole > 0 ? elementsOf(e->output(0)->as<TensorView>(), evaluator) / whole : 0;
      }
      share[in] = std::min(1.0, share[in] + needed * part);
    }
  }
  double bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto known = share.find(segment.inputs()[i]);
    const double read = known == share.end() ? 0 : known->second;
    bytes += read * static_cast<double>(argumentBytes(inputs.subspan(i, 1)));
  }
  return std::llround(bytes);
}

} // namespace nvfuser
