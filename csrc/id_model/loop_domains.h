// SPDX-License-Identifier: BSD-3-Clause
// LoopDomains: what the loops of inlined tensors iterate over.
//
// Inlining says that domains of different tensors stand for one loop (join). They may be different
// iterations: a producer [j] that is inlined into the merge of [i, j] runs over that merge, and an
// [1, 1] next to an [i, j] that reads the same value runs over [i, j]. All domains that were joined
// form a class. Its domain is the one among its members that covers the others, where a member
// whose inputs belong to wider classes counts as what its transform makes of those (the field calls
// this loop promotion). If no tensor has such a domain yet, it is made and added to the exact
// graph.
#pragma once

#include <id_model/id_model.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

class LoopDomains {
 public:
  explicit LoopDomains(IdModel& ids) : ids_(ids) {}

  // The two stand for the same loop.
  void join(IterDomain* a, IterDomain* b);
  // The same for loops of tensors of which none is the other's producer: if both are the same part
  // of an equal split, the other parts and what was split are joined as well.
  void joinFamilies(IterDomain* a, IterDomain* b);

  // The domain of the class, to be asked for when everything is joined. Errors: UserError if no
  // domain covers the class.
  IterDomain* domain(IterDomain* id);

 private:
  struct Class {
    std::vector<IterDomain*> members;
    IterDomain* domain = nullptr;
    bool open = false; // its domain is being looked for
  };
  size_t classOf(IterDomain* id);
  // The member over the domains of its inputs' classes.
  IterDomain* promoted(IterDomain* member);
  // The one of two candidates that covers the other.
  IterDomain* wider(IterDomain* a, IterDomain* b);
  bool covers(IdGroup wide, IdGroup narrow);
  bool contains(IdGroup wide, IdGroup narrow);
  std::unordered_set<IdGroup> merged(IdGroup whole);
  const std::vector<IdGroup>& leaves(IdGroup g);
  IterDomain* identify(IterDomain* a, IterDomain* b);
  bool identifyParts(IdGroup wide, IdGroup narrow);

  IdModel& ids_;
  std::unordered_map<const IterDomain*, size_t> class_of_;
  std::vector<Class> classes_;
  std::unordered_map<IdGroup, std::vector<IdGroup>> leaves_;
};

} // namespace nvfuser
