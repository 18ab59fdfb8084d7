// Indexer: from the indices of known groups to the indices of others, through the transforms of the
// exact graph. A transform is used backwards once all its outputs are known, forwards once all its
// inputs are.
#pragma once

#include <id_model/id_model.h>

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace nvfuser {

// index < extent, 0 <= index or both, as asked, must hold for the access to be inside the tensor.
struct BoundsGuard {
  Val* index;
  Val* extent;
  bool check_lower = false;
  bool check_upper = true;
};

class Indexer {
 public:
  // `graph` is the exact graph of `ids` or one of its own (a tensor's memory layout).
  // `divisible_parts`: groups whose splits are checked at launch to divide (vectors). `zeros`:
  // groups of one iteration whose index is 0 in whatever loops. `own_resizes`: of several resizes
  // between the same groups (a tensor is padded in two ways, and the results meet) take these.
  Indexer(const IdGraph& graph, const IdModel& ids, std::vector<std::pair<IdGroup, Val*>> known,
          const std::unordered_set<IdGroup>& divisible_parts,
          const std::vector<IdGroup>& zeros = {}, std::vector<const Resize*> own_resizes = {});

  // The index of a group, or null if it can't be derived.
  Val* index(IdGroup g);
  bool reaches(IdGroup g) const {
    return how_.count(g) != 0;
  }
  // Guards of every padded split, and of every resize that may have added iterations, that was
  // crossed on the way to the groups; each once. No group index can be out of bounds if they hold.
  std::vector<BoundsGuard> guards(const std::vector<IdGroup>& targets);
  // Concrete groups that the known ones run over besides `targets` and what those derive from:
  // iterating them repeats the same elements.
  std::vector<IdGroup> repeated(const std::vector<IdGroup>& targets);

 private:
  struct Step {
    Expr* expr = nullptr; // null: given
    bool backward = false;
  };
  void explore(std::vector<IdGroup> frontier);
  bool isAnothers(const Expr* expr) const;
  void collectGuards(IdGroup g, bool in_bounds, std::vector<BoundsGuard>& out,
                     std::unordered_map<IdGroup, bool>& seen);
  // One way in which a group is made: of which targets, and of what else.
  struct Way {
    std::vector<IdGroup> leaves;
    std::vector<IdGroup> targets;
    bool betterThan(const Way& other) const {
      return targets.size() != other.targets.size() ? targets.size() > other.targets.size()
                                                    : leaves.size() < other.leaves.size();
    }
  };
  struct Ways {
    std::unordered_map<IdGroup, Way> done;
    std::unordered_map<IdGroup, int> open; // being looked at, with their depth
  };
  // Nullopt if the only ways lead back to a group that is being looked at; `back` becomes the depth
  // of the outermost of those.
  bool partLeadsToTarget(const Expr* def, IdGroup g, Ways& ways, int& back);
  std::optional<Way> repeatedBy(IdGroup g, Ways& ways, int& back);
  Val* extentOf(IdGroup g) const;
  bool divides(const Split* split) const;

  const IdGraph& graph_;
  const IdModel& ids_;
  const std::unordered_set<IdGroup>& divisible_parts_;
  std::vector<std::pair<IdGroup, Val*>> known_;
  std::vector<const Resize*> own_resizes_;
  std::unordered_map<IdGroup, Step> how_;
  std::unordered_map<IdGroup, Val*> index_;
};

} // namespace nvfuser
