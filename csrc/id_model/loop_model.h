// SPDX-License-Identifier: BSD-3-Clause
// LoopModel: which loops are around the computation of each tensor.
//
// A tensor has one loop per loop domain. Where it is inlined (compute-at position k), its first k
// loops *are* its consumers' loops, and with them those of everything else that is computed there.
// They may iterate over more than the tensor's own domains: see loop_domains.h.
#pragma once

#include <id_model/domain_match.h>
#include <id_model/loop_domains.h>

#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

struct Loop {
  int id = 0;
  // Effective domain, in the exact graph, and its group.
  IterDomain* domain = nullptr;
  IdGroup group = -1;
  Val* extent = nullptr;
  ParallelType type = ParallelType::Serial;
  // 0 where the loop runs once or makes one vector access; the thread's index; or a variable of its
  // own.
  Val* index = nullptr;
  // The tensor and loop axis that made it.
  const TensorView* owner = nullptr;
  size_t axis = 0;
};

struct TensorLoops {
  // Every loop around the computation, outermost first. May hold loops over which the tensor
  // has no domain of its own (broadcast axes of a consumer that stand further out).
  std::vector<Loop*> path;
  // The loop of each loop domain.
  std::vector<Loop*> own;
  // Loops path[0, shared) belong to consumers too.
  size_t shared = 0;
};

class LoopModel {
 public:
  // Errors: UserError if loops that inlining joins can't be one loop.
  LoopModel(Fusion* fusion, IdModel& ids);

  const TensorLoops& loops(const TensorView* tv) const;
  // Whether it is computed at all.
  bool knows(const TensorView* tv) const {
    return tensors_.count(tv) != 0;
  }
  const std::deque<Loop>& all() const {
    return loops_;
  }

 private:
  // One of an op's results and who reads it.
  struct Reader {
    const TensorView* producer;
    const TensorView* consumer;
  };
  void place(const TensorView* tv, const std::vector<Reader>& readers);
  void joinConsumer(const TensorView* tv, TensorLoops& mine, size_t k, const TensorView* consumer);
  void joinFollowers(const DomainMatch& match, const TensorView* producer,
                     const std::vector<IterDomain*>& axes);
  void widenThreads(const TensorView* tv, size_t k, const TensorView* consumer);
  Loop* find(Loop* loop) const;
  // `has_axis`: the tensor that is inlined into both has a loop axis there.
  void unify(Loop* a, Loop* b, const TensorView* tv, bool has_axis);
  void checkAxesDiffer(const TensorView* tv);
  void finish(Loop& loop);
  Loop* newLoop(const TensorView* tv, size_t axis);

  const IdModel& ids_;
  LoopDomains domains_;
  std::deque<Loop> loops_;
  mutable std::vector<Loop*> parent_;
  std::unordered_map<const TensorView*, TensorLoops> tensors_;
  // Loop axes that run over more than their own domains, as others do that are bound to the same
  // threads.
  std::unordered_set<const IterDomain*> widened_;
};

} // namespace nvfuser
