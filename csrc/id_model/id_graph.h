// SPDX-License-Identifier: BSD-3-Clause
// IdGraph: equivalence classes (groups) of IterDomains and the transforms between them.
//
// Two domains in one group have the same iterations: one index serves both. Groups are joined by
// map() and then by congruence: equal inputs through an equal transform give equal outputs, and
// backwards where the transform determines its input. These are transparent:
//   split by 1, merge with a dimension of extent 1        out == in
//   merge(split(x)) when the split divides                out == x
//   split(merge(a, b)) by the extent of b                 outer == a, inner == b
#pragma once

#include <ir/nodes.h>

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nvfuser {

// A group is named by a small integer; -1 is none. Names are stable once the graph is finished.
using IdGroup = int;

class IdGraph {
 public:
  // Adds a domain and the transforms around it; idempotent.
  void add(IterDomain* id);
  // Adds a transform with its inputs and outputs.
  void addExpr(Expr* expr);
  // Every domain and transform of a tensor.
  void addTensor(const TensorView* tv);

  // Joins two domains' groups and what follows from it.
  void map(IterDomain* a, IterDomain* b);

  bool contains(const IterDomain* id) const {
    return index_.count(id) != 0;
  }
  // -1 if the domain isn't in the graph.
  IdGroup group(const IterDomain* id) const;
  bool same(const IterDomain* a, const IterDomain* b) const {
    const IdGroup g = group(a);
    return g >= 0 && g == group(b);
  }
  const std::vector<IterDomain*>& members(IdGroup g) const {
    return nodes_[static_cast<size_t>(find(g))].members;
  }
  // The member that was added first.
  const IterDomain* oldest(IdGroup g) const;
  // Transforms that read (uses) or make (definitions) a member of the group; congruent ones once.
  const std::vector<Expr*>& uses(IdGroup g) const {
    return nodes_[static_cast<size_t>(find(g))].uses;
  }
  const std::vector<Expr*>& definitions(IdGroup g) const {
    return nodes_[static_cast<size_t>(find(g))].definitions;
  }
  // All groups, in order of their first member.
  std::vector<IdGroup> groups() const;

 private:
  struct Node {
    std::vector<IterDomain*> members;
    std::vector<Expr*> uses;
    std::vector<Expr*> definitions;
  };
  int find(int i) const;
  void drain();
  // Equal transforms of equal inputs.
  bool congruent(const Expr* a, const Expr* b) const;
  void mapOutputs(const Expr* a, const Expr* b);
  void backwardCongruence(Expr* a, Expr* b);
  void trivial(Expr* expr);
  void inverses(IdGroup g);

  std::unordered_map<const IterDomain*, int> index_;
  // Known transforms; false for those that a congruent one stands for.
  std::unordered_map<const Expr*, bool> exprs_;
  std::vector<Node> nodes_;
  mutable std::vector<int> parent_;
  std::vector<std::pair<IterDomain*, IterDomain*>> pending_;
};

} // namespace nvfuser
