// LoopModel: which loops stand around the computation of each tensor.
//
// A tensor has one loop per loop domain. Where it is inlined (compute-at position k), its first k
// loops *are* its consumers' loops. Those may iterate over more than the tensor's own domains: a
// producer [j] inlined into a consumer whose loops split the merge of [i, j] runs in the loops of
// that merge. The loop's *effective* domain is therefore the one of the last consumer down the
// chain, and domains of the producer that are connected to such a loop by a transform are replaced
// by the consumer's along with it (the field calls this loop promotion).
#pragma once

#include <id_model/id_model.h>

#include <deque>
#include <string>
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

// For each loop axis of the producer the loop axis of the consumer that is the same iteration when
// broadcasts count as what they are broadcast to, or -1.
std::vector<int> matchLoopAxes(const TensorView* producer, const TensorView* consumer);

class LoopModel {
 public:
  // Errors: UserError if loops that inlining joins can't be one loop.
  LoopModel(Fusion* fusion, const IdModel& ids);

  const TensorLoops& loops(const TensorView* tv) const;
  const std::deque<Loop>& all() const {
    return loops_;
  }

 private:
  // False if a promotion was found that asks for another round.
  bool build(Fusion* fusion);
  struct Reader {
    const TensorView* producer;
    const TensorView* consumer;
  };
  void place(const TensorView* tv, const std::vector<Reader>& readers);
  Loop* find(Loop* loop) const;
  void unify(Loop* a, Loop* b, const TensorView* tv);
  void promoteInnerAxes(const Loop& narrow, const Loop& wide);
  std::unordered_set<IdGroup> leafGroups(IdGroup g) const;
  void dropTrivial(Loop& loop) const;
  Loop* newLoop(const TensorView* tv, size_t axis, IterDomain* domain);

  const IdModel& ids_;
  std::deque<Loop> loops_;
  mutable std::vector<Loop*> parent_;
  std::unordered_map<const TensorView*, TensorLoops> tensors_;
  // Effective domains found to be needed in an earlier round.
  std::unordered_map<const TensorView*, std::unordered_map<size_t, IterDomain*>> forced_;
  bool again_ = false;
};

} // namespace nvfuser
