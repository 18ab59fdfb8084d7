// SPDX-License-Identifier: BSD-3-Clause
// Layout: memory and axes in the graph of a scheduled fusion.
#include <id_model/layout.h>

#include <algebra/simplify.h>
#include <ir/logical_map.h>

#include <algorithm>

namespace nvfuser {

std::vector<MemoryDim> memoryDims(const TensorView* tv) {
  const auto& allocation = tv->getMaybeAllocationDomain();
  const auto logical = logicalIds(tv);
  std::vector<MemoryDim> dims;
  size_t position = 0;
  for (size_t i = 0; i < allocation.size(); ++i) {
    IterDomain* id = allocation[i];
    if (id->isReduction()) {
      continue;
    }
    if (!id->isBroadcast()) {
      const auto at = std::find(logical.begin(), logical.end(), id);
      dims.push_back({id, position, at == logical.end() ? -1 : at - logical.begin(),
                      tv->getContiguity().at(i).value_or(false)});
    }
    ++position;
  }
  return dims;
}

std::vector<AccessedDim> Layout::accessedDims(const TensorView* memory,
                                              const TensorView* by) const {
  std::unordered_map<const IterDomain*, IterDomain*> own;
  if (by != nullptr && memory != by) {
    for (auto [p, c] : producerConsumerPairs(memory, by)) {
      own.emplace(p, c);
    }
  }
  std::vector<AccessedDim> dims;
  for (const MemoryDim& dim : memoryDims(memory)) {
    AccessedDim accessed{{dim.position}, nullptr, -1, ids_.extent(dim.id), dim.contiguous};
    if (auto it = own.find(dim.id); it != own.end() && !it->second->isBroadcast()) {
      accessed.id = it->second;
    } else if (memory == by) {
      accessed.id = dim.id;
    }
    accessed.group = accessed.id == nullptr ? -1 : graph().group(accessed.id);
    dims.push_back(std::move(accessed));
  }
  return dims;
}

void Layout::joinContiguous(std::vector<AccessedDim>& dims,
                            const std::function<IterDomain*(const Merge*)>& merged) const {
  auto joined = [&](const AccessedDim& outer, const AccessedDim& inner) -> IterDomain* {
    if (!outer.contiguous || outer.group < 0 || inner.group < 0) {
      return nullptr;
    }
    for (const Expr* use : graph().uses(outer.group)) {
      const auto* m = tryAs<Merge>(use);
      if (m != nullptr && graph().group(m->outer()) == outer.group &&
          graph().group(m->inner()) == inner.group) {
        if (IterDomain* id = merged(m)) {
          return id;
        }
      }
    }
    return nullptr;
  };
  for (size_t i = dims.size(); i-- > 1;) {
    AccessedDim& outer = dims[i - 1];
    IterDomain* id = joined(outer, dims[i]);
    if (id == nullptr) {
      continue;
    }
    outer.positions.insert(outer.positions.end(), dims[i].positions.begin(),
                           dims[i].positions.end());
    outer.id = id;
    outer.group = graph().group(id);
    outer.extent = ids_.extent(outer.group);
    outer.contiguous = dims[i].contiguous;
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(i));
    i = dims.size(); // the result may be merged with an inner neighbour
  }
}

ContiguousRun Layout::runOf(IdGroup axis, std::span<const AccessedDim> memory) const {
  std::vector<MemoryDigit> digits;
  for (const AccessedDim& dim : memory) {
    if (!dim.extent->isOneInt()) {
      digits.push_back({dim.group, dim.extent, dim.contiguous});
    }
  }
  return contiguousRun(digits, std::span(&axis, 1), *this);
}

ContiguousRun Layout::runInAlignedRow(IdGroup axis, IdGroup elements) const {
  for (const Expr* use : graph().uses(elements)) {
    const auto* align = tryAs<Align>(use);
    if (align == nullptr || graph().group(align->inY()) != elements) {
      continue;
    }
    const IdGroup aligned = graph().group(align->outY());
    const MemoryDigit row{aligned, ids_.extent(aligned), true};
    if (ContiguousRun run = contiguousRun(std::span(&row, 1), std::span(&axis, 1), *this);
        !run.empty()) {
      return run;
    }
  }
  return {};
}

bool Layout::leavesNothing(const Split* split) const {
  return split->isOfReshape() ||
         provablyDivisible(ids_.extent(graph().group(split->in())), split->inner()->extent());
}

std::vector<DomainStep> Layout::stepsTo(DomainNumber group) const {
  using Kind = DomainStep::Kind;
  std::vector<DomainStep> steps;
  for (const Expr* e : graph().definitions(group)) {
    std::vector<IdGroup> in;
    for (const Val* v : e->inputs()) {
      in.push_back(graph().group(v->as<IterDomain>()));
    }
    if (std::find(in.begin(), in.end(), group) != in.end()) {
      continue; // a merge with a broadcast is the other side
    }
    if (e->kind() == ExprKind::Merge) {
      steps.push_back({Kind::Merge, in[0], in[1]});
    } else if (const auto* s = tryAs<Split>(e)) {
      if (graph().group(s->inner()) == group) {
        steps.push_back({Kind::SplitInner, in[0], graph().group(s->outer()), ids_.extent(group),
                         nullptr, leavesNothing(s)});
      }
    } else if (const auto* r = tryAs<Resize>(e)) {
      steps.push_back({Kind::Resize, in[0], -1, ids_.canonical(r->left()), ids_.extent(group)});
    } else if (const auto* a = tryAs<Align>(e)) {
      if (graph().group(a->outY()) == group) {
        steps.push_back({Kind::Align, in[0], in[1], ids_.extent(group), nullptr,
                         provablyEqual(ids_.extent(in[1]), ids_.canonical(a->stride()))});
      }
    }
  }
  return steps;
}

bool Layout::isOne(DomainNumber group) const {
  const auto& ids = graph().members(group);
  return ids_.extent(group)->isOneInt() ||
         std::all_of(ids.begin(), ids.end(), [](auto* id) { return id->isBroadcast(); });
}

} // namespace nvfuser
