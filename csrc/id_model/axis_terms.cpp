// SPDX-License-Identifier: BSD-3-Clause
// See axis_terms.h.
#include <id_model/axis_terms.h>

#include <base/error.h>
#include <base/hash.h>

#include <algorithm>

namespace nvfuser {

AxisTerms::AxisTerms() : nodes_(1) {
  ids_[nodes_[0]] = kMissing;
}

size_t AxisTerms::NodeHash::operator()(const Node& n) const {
  uint64_t h = hashCombine(static_cast<uint64_t>(n.kind), static_cast<uint64_t>(n.a));
  h = hashCombine(h, static_cast<uint64_t>(n.b) + (n.inner_split ? 1ULL << 40 : 0));
  hashCombineInto(h, n.v0);
  hashCombineInto(h, n.v1);
  return h;
}

AxisTerms::Id AxisTerms::intern(Node node) {
  auto [it, is_new] = ids_.try_emplace(node, static_cast<Id>(nodes_.size()));
  if (is_new) {
    nodes_.push_back(node);
  }
  return it->second;
}

Val* AxisTerms::canonical(Val* v) {
  auto [it, is_new] = canonical_.try_emplace(v, v);
  if (is_new) {
    // Compared once: the scalars of a chain of slices are as deep as the chain.
    auto same = std::find_if(values_.begin(), values_.end(),
                             [&](const Val* known) { return known->sameAs(v); });
    if (same == values_.end()) {
      values_.push_back(v);
    } else {
      it->second = *same;
    }
  }
  return it->second;
}

AxisTerms::Id AxisTerms::dimension(int64_t position) {
  return intern({.kind = Kind::Dimension, .a = static_cast<Id>(position)});
}

AxisTerms::Id AxisTerms::merge(Id outer, Id inner) {
  if (outer == kMissing && inner == kMissing) {
    return kMissing;
  }
  return intern({.kind = Kind::Merge, .a = outer, .b = inner});
}

AxisTerms::Id AxisTerms::splitPart(Id in, Val* factor, bool inner_split, bool inner_part) {
  if (in == kMissing) {
    return kMissing;
  }
  return intern({.kind = inner_part ? Kind::SplitInner : Kind::SplitOuter,
                 .a = in,
                 .v0 = canonical(factor),
                 .inner_split = inner_split});
}

AxisTerms::Id AxisTerms::resize(Id in, Val* left, Val* right) {
  return intern({.kind = Kind::Resize, .a = in, .v0 = canonical(left), .v1 = canonical(right)});
}

AxisTerms::Id AxisTerms::rebuilt(const Node& node, Id a, Id b) {
  switch (node.kind) {
    case Kind::Merge:
      return merge(a, b);
    case Kind::SplitOuter:
    case Kind::SplitInner:
      return splitPart(a, node.v0, node.inner_split, node.kind == Kind::SplitInner);
    case Kind::Resize:
      return resize(a, node.v0, node.v1);
    case Kind::Missing:
    case Kind::Dimension:
      break;
  }
  NVF_THROW("a term without operands");
}

AxisTerms::Id AxisTerms::substituted(Id id, const std::vector<Id>& replacements,
                                     Substitutes& known) {
  const Node n = nodes_[static_cast<size_t>(id)];
  if (n.kind == Kind::Missing) {
    return kMissing;
  }
  if (n.kind == Kind::Dimension) {
    return replacements.at(static_cast<size_t>(n.a));
  }
  if (n.kind != Kind::Merge) {
    return rebuilt(n, substituted(n.a, replacements, known), kMissing);
  }
  if (auto it = known.find(id); it != known.end()) {
    return it->second;
  }
  const Id a = substituted(n.a, replacements, known);
  return known[id] = rebuilt(n, a, substituted(n.b, replacements, known));
}

std::vector<AxisTerms::Id> AxisTerms::substitute(const std::vector<Id>& ids,
                                                 const std::vector<Id>& replacements) {
  Substitutes known;
  std::vector<Id> out;
  for (Id id : ids) {
    out.push_back(substituted(id, replacements, known));
  }
  return out;
}

std::optional<AxisTerms::Id> AxisTerms::abstracted(
    Id id, const std::unordered_map<Id, int64_t>& dimensions, Abstractions& known) {
  if (id == kMissing) {
    return kMissing;
  }
  if (auto it = dimensions.find(id); it != dimensions.end()) {
    return dimension(it->second);
  }
  const Node n = nodes_[static_cast<size_t>(id)];
  if (n.kind == Kind::Dimension) {
    return std::nullopt;
  }
  if (auto it = known.find(id); it != known.end()) {
    return it->second;
  }
  const std::optional<Id> a = abstracted(n.a, dimensions, known);
  const std::optional<Id> b = n.kind == Kind::Merge && a.has_value()
                                  ? abstracted(n.b, dimensions, known)
                                  : std::optional<Id>(kMissing);
  const std::optional<Id> result =
      a.has_value() && b.has_value() ? std::optional<Id>(rebuilt(n, *a, *b)) : std::nullopt;
  if (n.kind == Kind::Merge) {
    known[id] = result;
  }
  return result;
}

std::vector<std::optional<AxisTerms::Id>> AxisTerms::abstract(
    const std::vector<Id>& ids, const std::unordered_map<Id, int64_t>& dimensions) {
  Abstractions known;
  std::vector<std::optional<Id>> out;
  for (Id id : ids) {
    out.push_back(abstracted(id, dimensions, known));
  }
  return out;
}

void AxisTerms::dimensionsOf(Id id, std::vector<int64_t>& out) const {
  const auto before = static_cast<std::ptrdiff_t>(out.size());
  std::unordered_set<Id> seen;
  std::vector<Id> stack{id};
  while (!stack.empty()) {
    const Id top = stack.back();
    const Node& n = nodes_[static_cast<size_t>(top)];
    stack.pop_back();
    if (n.kind == Kind::Dimension) {
      out.push_back(n.a);
    } else if (n.kind == Kind::Merge && seen.insert(top).second) {
      stack.insert(stack.end(), {n.a, n.b}); // the inner one comes first
    } else if (n.kind != Kind::Missing && n.kind != Kind::Merge) {
      stack.push_back(n.a);
    }
  }
  std::reverse(out.begin() + before, out.end());
}

template <class Enters>
void AxisTerms::visit(std::vector<Id> stack, Enters enters) const {
  std::unordered_set<Id> seen;
  while (!stack.empty()) {
    const Id top = stack.back();
    const Node& n = nodes_[static_cast<size_t>(top)];
    stack.pop_back();
    const bool has_operands = n.kind != Kind::Missing && n.kind != Kind::Dimension;
    if (seen.insert(top).second && enters(n) && has_operands) {
      stack.push_back(n.a);
      if (n.kind == Kind::Merge) {
        stack.push_back(n.b);
      }
    }
  }
}

bool AxisTerms::contains(Id id, Kind kind) const {
  bool found = false;
  visit({id}, [&](const Node& n) {
    found = found || n.kind == kind;
    return !found;
  });
  return found;
}

bool AxisTerms::cutsDimensions(Id id) const {
  std::vector<int64_t> cut;
  visit({id}, [&](const Node& n) {
    if (n.kind == Kind::Resize) {
      dimensionsOf(n.a, cut);
    }
    return cut.empty();
  });
  return !cut.empty();
}

std::unordered_set<int64_t> AxisTerms::wholeDimensions(const std::vector<Id>& ids) const {
  std::unordered_set<int64_t> dimensions;
  std::unordered_map<Node, Kind, NodeHash> half; // of a split, as its outer part: which one is seen
  visit(ids, [&](const Node& n) {
    switch (n.kind) {
      case Kind::Dimension:
        dimensions.insert(n.a);
        return false;
      case Kind::SplitOuter:
      case Kind::SplitInner: {
        Node split = n;
        split.kind = Kind::SplitOuter;
        const auto [it, is_first] = half.emplace(split, n.kind);
        return !is_first && it->second != n.kind;
      }
      default:
        return n.kind == Kind::Merge;
    }
  });
  return dimensions;
}

AxisTerms::Id AxisTerms::knownDimension(int64_t position) const {
  auto it = ids_.find({.kind = Kind::Dimension, .a = static_cast<Id>(position)});
  return it == ids_.end() ? -1 : it->second;
}

std::vector<DomainStep> AxisTerms::stepsTo(Id id, bool stands_alone) const {
  using Step = DomainStep::Kind;
  const Node& n = nodes_[static_cast<size_t>(id)];
  switch (n.kind) {
    case Kind::Merge:
      return {{Step::Merge, n.a, n.b}};
    case Kind::SplitInner: {
      Node outer = n;
      outer.kind = Kind::SplitOuter;
      auto it = ids_.find(outer);
      const bool has_outer = it != ids_.end() && !(stands_alone && contains(n.a, Kind::Missing));
      // With an outer split the factor is the other part's extent: nothing is known of this one.
      return {{Step::SplitInner, n.a, has_outer ? it->second : -1, n.inner_split ? n.v0 : nullptr}};
    }
    case Kind::SplitOuter:
      return {{Step::SplitOuter, n.a}};
    case Kind::Resize:
      return {{Step::Resize, n.a, -1, n.v0, n.v1}};
    case Kind::Missing:
    case Kind::Dimension:
      break;
  }
  return {};
}

} // namespace nvfuser
