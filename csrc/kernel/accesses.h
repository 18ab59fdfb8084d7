// SPDX-License-Identifier: BSD-3-Clause
// What a statement of a kernel reads and writes.
#pragma once

#include <ir/visitor.h>
#include <kernel/nodes.h>

#include <vector>

namespace nvfuser {

struct Accesses {
  // Values that it computes with, and what loops and branches ask; may hold null.
  std::vector<const Val*> read;
  std::vector<const Val*> written;
  // Buffers that it reads and writes, all of them.
  std::vector<const Val*> updated;
};

// Those of the expression which the statement is a step of included; not what is in its bodies.
Accesses accessesOf(const Expr* e);

// The elements that a value is computed from, not those which they in turn are read at.
template <class Visit>
void forElementsIn(const Val* v, Visit visit) {
  forEachBehind(v, [&](const Val* each) {
    if (const auto* element = tryAs<TensorIndex>(each)) {
      visit(element);
    }
  });
}

// Their tensors, and those of elements that the positions are computed of.
template <class Visit>
void forTensorsIn(const Val* v, const Visit& visit) {
  forElementsIn(v, [&](const TensorIndex* element) {
    visit(element->view());
    forTensorsIn(element->index(), visit);
  });
}

// The tensors of which the statement reads and writes elements, or all of them. Where memory is
// declared, none is accessed.
struct TensorAccesses {
  std::vector<const TensorView*> read;
  std::vector<const TensorView*> written;

  bool contain(const TensorView* tv) const;
};
TensorAccesses tensorAccessesOf(const Expr* e);

// An operation on elements, or a copy of one.
bool isElementOp(const Expr* e);

// The copy of a vector that the loop is; null if it is another loop.
const LoadStoreOp* vectorCopyIn(const ForLoop* loop);

// All threads of the block pass it, and wait for each other.
bool isBarrier(const Expr* e);

// Whether scalars that the statement reads are what elements are computed with, and not sizes and
// places of what it copies.
bool computesElements(const Expr* e);

} // namespace nvfuser
