// See logical_map.h.
#include <id_model/logical_map.h>

#include <base/error.h>

namespace nvfuser {

std::vector<std::pair<IterDomain*, IterDomain*>> producerConsumerPairs(
    const TensorView* producer,
    const TensorView* consumer) {
  const auto p = TensorDomain::noReductions(producer->getLogicalDomain());
  const auto& c = consumer->getMaybeRootDomain();
  const Expr* def = consumer->definition();
  NVF_ERROR(def != nullptr, "the consumer has no definition");
  std::vector<std::pair<IterDomain*, IterDomain*>> out;
  if (def->kind() == ExprKind::BroadcastOp) {
    const auto& is_new = static_cast<const BroadcastOp*>(def)->isBroadcastDim();
    size_t i = 0;
    for (size_t j = 0; j < c.size(); ++j) {
      if (!is_new.at(j)) {
        out.emplace_back(p.at(i++), c[j]);
      }
    }
    return out;
  }
  if (def->kind() == ExprKind::SqueezeOp) {
    const auto& removed = static_cast<const SqueezeOp*>(def)->isSqueezeDim();
    size_t j = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      if (!removed.at(i)) {
        out.emplace_back(p[i], c.at(j++));
      }
    }
    return out;
  }
  // A 0-d tensor among the operands of an op that makes a tensor of its own shape (a seed).
  if (p.empty()) {
    return out;
  }
  NVF_ERROR(
      p.size() == c.size(),
      def->opName(),
      ": ranks of producer and consumer differ: ",
      producer->toString(),
      " and ",
      consumer->toString());
  for (size_t i = 0; i < p.size(); ++i) {
    out.emplace_back(p[i], c[i]);
  }
  return out;
}

} // namespace nvfuser
