// SPDX-License-Identifier: BSD-3-Clause
// See same_sizes.h.
#include <scheduler/same_sizes.h>

#include <ir/logical_map.h>
#include <ir/nodes.h>
#include <ir/visitor.h>

namespace nvfuser {

SameSizes::SameSizes(const Fusion* fusion) {
  for (const Expr* e : fusion->exprs()) {
    for (const TensorView* out : tensorOutputs(e)) {
      for (const TensorView* in : tensorInputs(e)) {
        for (const auto& [p, c] : producerConsumerPairs(in, out)) {
          if (!p->isBroadcast() && !c->isBroadcast()) {
            map(p, c);
          }
        }
      }
    }
  }
}

bool SameSizes::haveSameSize(const IterDomain* a, const IterDomain* b) const {
  return a->extent()->sameAs(b->extent()) || classes_.permissiveAreMapped(a, b);
}

} // namespace nvfuser
