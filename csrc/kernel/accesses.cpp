// SPDX-License-Identifier: BSD-3-Clause
// See accesses.h.
#include <kernel/accesses.h>

#include <algorithm>

namespace nvfuser {

Accesses accessesOf(const Expr* e) {
  Accesses out;
  const auto add = [&out](const Expr* from) {
    out.read.insert(out.read.end(), from->inputs().begin(), from->inputs().end());
    out.written.insert(out.written.end(), from->outputs().begin(), from->outputs().end());
  };
  add(e);
  if (const auto* loop = tryAs<ForLoop>(e)) {
    out.read.insert(out.read.end(), {loop->extent(), loop->first()});
  } else if (const auto* branch = tryAs<IfThenElse>(e)) {
    out.read.push_back(branch->condition());
  } else if (const auto* threads = tryAs<ThreadLoop>(e)) {
    out.read.insert(out.read.end(), threads->limits().begin(), threads->limits().end());
  } else if (const auto* memory = tryAs<Allocate>(e)) {
    out.read.push_back(memory->size());
    if (memory->isZeroed()) {
      out.written.push_back(memory->tv());
    }
  } else if (const auto* step = tryAs<ReduceStep>(e)) {
    if (step->part() == ReduceStep::Part::Accumulate) {
      add(step->reduction());
    } else {
      const auto& results = step->reduction()->outputs();
      out.written.insert(out.written.end(), results.begin(), results.end());
    }
  } else if (const auto* reduce = tryAs<ThreadReduce>(e)) {
    // One that is begun in an iteration before leaves its results elsewhere.
    std::vector<const Val*>& buffers = reduce->part == ThreadReduce::Part::Begin ? out.read
                                       : reduce->part == ThreadReduce::Part::End ? out.written
                                                                                 : out.updated;
    for (const ReduceTerm& term : reduce->terms) {
      buffers.insert(buffers.end(), term.buffers.begin(), term.buffers.end());
      out.read.insert(out.read.end(), term.first.begin(), term.first.end());
    }
  } else if (const auto* scan = tryAs<ThreadScan>(e)) {
    out.read.push_back(scan->init());
    if (scan->part() == ThreadScan::Part::Combine) {
      out.read.push_back(scan->first);
      out.updated.push_back(scan->scan()->output(0));
    }
  } else if (const auto* copy = tryAs<BufferCopy>(e)) {
    out.read.push_back(copy->from());
    out.written.push_back(copy->to());
  } else if (const auto* box = tryAs<BulkCopy>(e)) {
    (box->isLoad() ? out.written : out.read).push_back(box->shared());
    out.read.push_back(box->stage());
  } else if (const auto* piece = tryAs<LinearBulkCopy>(e)) {
    out.read.push_back(piece->stage());
  } else if (const auto* around = tryAs<CopyStep>(e)) {
    out.read.insert(out.read.end(), {around->stage(), around->parity()});
  }
  return out;
}

bool TensorAccesses::contain(const TensorView* tv) const {
  return std::find(read.begin(), read.end(), tv) != read.end() ||
         std::find(written.begin(), written.end(), tv) != written.end();
}

TensorAccesses tensorAccessesOf(const Expr* e) {
  TensorAccesses out;
  if (e->kind() == ExprKind::Allocate) {
    return out;
  }
  const auto add_read = [&out](const Val* v) {
    if (const auto* tv = tryAs<TensorView>(v)) {
      out.read.push_back(tv);
    } else if (v != nullptr) {
      forTensorsIn(v, [&](const TensorView* of_element) { out.read.push_back(of_element); });
    }
  };
  const auto add_written = [&](const Val* v) {
    if (const auto* element = tryAs<TensorIndex>(v)) {
      out.written.push_back(element->view());
      add_read(element->index());
    } else if (const auto* tv = tryAs<TensorView>(v)) {
      out.written.push_back(tv);
    }
  };
  const Accesses accesses = accessesOf(e);
  std::for_each(accesses.read.begin(), accesses.read.end(), add_read);
  std::for_each(accesses.written.begin(), accesses.written.end(), add_written);
  std::for_each(accesses.updated.begin(), accesses.updated.end(), add_read);
  std::for_each(accesses.updated.begin(), accesses.updated.end(), add_written);
  return out;
}

bool isElementOp(const Expr* e) {
  return e->kind() == ExprKind::ElementwiseOp || e->kind() == ExprKind::LoadStoreOp;
}

const LoadStoreOp* vectorCopyIn(const ForLoop* loop) {
  return loop->parallelType() == ParallelType::Vectorize && loop->body().size() == 1
             ? tryAs<LoadStoreOp>(loop->body().front())
             : nullptr;
}

bool isBarrier(const Expr* e) {
  const auto* scan = tryAs<ThreadScan>(e);
  return e->kind() == ExprKind::BlockSync || e->kind() == ExprKind::ThreadReduce ||
         (scan != nullptr && scan->part() == ThreadScan::Part::Combine);
}

bool computesElements(const Expr* e) {
  return isElementOp(e) || e->kind() == ExprKind::RandomNumber;
}

} // namespace nvfuser
