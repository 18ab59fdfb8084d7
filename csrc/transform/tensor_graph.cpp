// SPDX-License-Identifier: BSD-3-Clause
// Links between tensors, taken from the live expressions once.
#include <transform/tensor_graph.h>

#include <ir/visitor.h>

namespace nvfuser {

TensorGraph::TensorGraph(const Fusion* fusion,
                         const std::vector<std::pair<TensorView*, TensorView*>>& versions) {
  auto add = [&](TensorView* tv) {
    if (links_.try_emplace(tv).second) {
      tensors_.push_back(tv);
    }
  };
  for (Val* in : fusion->inputs()) {
    if (in->isTensor()) {
      add(in->as<TensorView>());
    }
  }
  for (const Expr* expr : fusion->exprs()) {
    const std::vector<TensorView*> ins = tensorInputs(expr);
    const std::vector<TensorView*> outs = tensorOutputs(expr);
    for (TensorView* tv : ins) {
      add(tv);
    }
    for (TensorView* tv : outs) {
      add(tv);
    }
    for (TensorView* in : ins) {
      for (TensorView* out : outs) {
        links_[in].consumers.push_back(out);
        links_[out].producers.push_back(in);
      }
    }
  }
  for (Val* out : fusion->outputs()) {
    if (out->isTensor()) {
      add(out->as<TensorView>());
    }
  }
  std::unordered_map<const TensorView*, TensorView*> first; // that is live, by the original
  for (const auto& [version, original] : versions) {
    if (has(original)) {
      first.emplace(original, original);
    }
    if (!has(version)) {
      continue;
    }
    TensorView* other = first.emplace(original, version).first->second;
    if (other != version) {
      links_[other].versions.push_back(version);
      links_[version].versions.push_back(other);
    }
  }
}

const TensorGraph::Links& TensorGraph::links(const TensorView* tv) const {
  static const Links none;
  auto it = links_.find(tv);
  return it == links_.end() ? none : it->second;
}

const std::vector<TensorView*>& TensorGraph::producersOf(const TensorView* tv) const {
  return links(tv).producers;
}

const std::vector<TensorView*>& TensorGraph::consumersOf(const TensorView* tv) const {
  return links(tv).consumers;
}

const std::vector<TensorView*>& TensorGraph::versionsOf(const TensorView* tv) const {
  return links(tv).versions;
}

} // namespace nvfuser
