// SPDX-License-Identifier: BSD-3-Clause
// Boxes of tensors in memory that tiles are, and where tiles stand in buffers (layout.h).
#include <id_model/layout.h>

#include <algebra/simplify.h>
#include <base/error.h>

#include <algorithm>

namespace nvfuser {

namespace {

using Groups = std::vector<IdGroup>;

template <class... What>
TileBox noBox(const What&... what) {
  TileBox box;
  box.why_not = detail::streamToString(what...);
  return box;
}

// What two parts of one dimension say of it.
void append(TileBox& box, const TileBox& other) {
  box.axes.insert(box.axes.end(), other.axes.begin(), other.axes.end());
  box.divided.insert(box.divided.end(), other.divided.begin(), other.divided.end());
  box.begins.insert(box.begins.end(), other.begins.begin(), other.begins.end());
  box.swizzle = box.swizzle == nullptr ? other.swizzle : box.swizzle;
}

} // namespace

TileBoxes::TileBoxes(const TensorView* tv, const IdModel& ids,
                     std::function<bool(const IterDomain*)> is_tile)
    : ids_(ids), is_tile_(std::move(is_tile)) {
  for (const Expr* e : tv->domain()->exprsToLoop()) {
    for (const Val* v : e->inputs()) {
      use_of_.emplace(v, e);
    }
    if (e->kind() == ExprKind::Merge) {
      auto* out = e->output(0)->as<IterDomain>();
      merges_.emplace(ids.exact().group(out), out);
    }
  }
}

TileBox TileBoxes::of(const IterDomain* dim, int64_t elements) const {
  return boxOf(dim, /*may_run_over=*/true, elements);
}

IterDomain* TileBoxes::mergeAs(const IterDomain* merged) const {
  auto it = merges_.find(ids_.exact().group(merged));
  return it == merges_.end() ? nullptr : it->second;
}

// `may_run_over`: iterations past the end of the domain are outside of the tensor. Elsewhere they
// would be other elements.
TileBox TileBoxes::boxOf(const IterDomain* id, bool may_run_over, int64_t elements) const {
  auto it = use_of_.find(id);
  const Expr* use = it == use_of_.end() ? nullptr : it->second;
  if (use == nullptr) {
    return axisBox(id);
  }
  if (const auto* s = tryAs<Split>(use)) {
    return splitBox(s, may_run_over, elements);
  }
  if (const auto* m = tryAs<Merge>(use)) {
    return mergeBox(m, id, elements);
  }
  if (const auto* z = tryAs<Swizzle>(use)) {
    TileBox box = boxOf(id == z->inX() ? z->outX() : z->outY(), false, elements);
    box.swizzle = z;
    return box;
  }
  return noBox("its loop axes are made of ", id->toString(), " in a way that no box can follow");
}

TileBox TileBoxes::axisBox(const IterDomain* id) const {
  if (!is_tile_(id)) {
    return {};
  }
  const IdGroup group = ids_.exact().group(id);
  const Val* extent = ids_.extent(group);
  if (!extent->isConstInt()) {
    return noBox("the axis ", id->toString(), " of a box needs a constant extent, got ",
                 extent->toInlineString());
  }
  TileBox box;
  if (!extent->isOneInt()) {
    box.extent = extent->intValue();
    box.axes = {group};
  }
  return box;
}

TileBox TileBoxes::splitBox(const Split* s, bool may_run_over, int64_t elements) const {
  const IdGraph& graph = ids_.exact();
  Val* inner_extent = ids_.extent(graph.group(s->inner()));
  const int64_t inner_elements =
      inner_extent->isConstInt() ? elements * inner_extent->intValue() : elements;
  TileBox outer = boxOf(s->outer(), may_run_over, inner_elements);
  TileBox inner = boxOf(s->inner(), false, elements);
  for (const TileBox* part : {&outer, &inner}) {
    if (!part->why_not.empty()) {
      return *part;
    }
  }
  if (!may_run_over) {
    outer.divided.emplace_back(ids_.extent(graph.group(s->in())), ids_.canonical(s->factor()));
  }
  if (outer.extent == 1) {
    outer.extent = inner.extent;
    if (inner.extent > 1) {
      inner.begins.emplace_back(inner_extent, elements); // each of the outer iterations
    }
    append(outer, inner);
    return outer;
  }
  if (!inner_extent->isConstInt() || inner_extent->intValue() != inner.extent) {
    return noBox("it copies every ", inner_extent->toInlineString(), "-th iteration of ",
                 s->in()->toString(), " at once; a box is made of consecutive ones");
  }
  outer.extent *= inner.extent;
  append(outer, inner);
  return outer;
}

// Dimensions that are merged but not neighbours in one piece of memory.
TileBox TileBoxes::mergeBox(const Merge* m, const IterDomain* id, int64_t elements) const {
  TileBox merged = boxOf(m->out(), false, elements);
  if (!merged.why_not.empty()) {
    return merged;
  }
  if (merged.extent == 1 || id == m->outer()) {
    // What of the box is more than the inner side is refused there.
    merged.extent = 1;
    merged.axes.clear();
    return merged;
  }
  const Val* extent = ids_.extent(ids_.exact().group(m->inner()));
  if (!extent->isConstInt() || extent->intValue() % merged.extent != 0) {
    return noBox("a box runs over the end of ", m->inner()->toString(),
                 ", behind which memory does not go on with ", m->outer()->toString());
  }
  return merged;
}

// --- where a tile stands in a buffer ---

namespace {

class TilePlacer {
 public:
  explicit TilePlacer(const IdModel& ids) : ids_(ids) {}

  std::optional<Layout::TilePlace> find(const Groups& tile, const Groups& buffer, int rewrites) {
    if (tile.empty()) {
      return Layout::TilePlace{buffer.size(), nullptr};
    }
    if (buffer.empty() || rewrites == 0) {
      return std::nullopt;
    }
    if (tile.back() == buffer.back()) {
      return find({tile.begin(), tile.end() - 1}, {buffer.begin(), buffer.end() - 1}, rewrites);
    }
    if (auto [z, other] = swizzled(tile); z != nullptr) {
      if (auto found = find(other, buffer, rewrites - 1)) {
        found->swizzle = z;
        return found;
      }
    }
    for (const Groups& other : rewritten(tile)) {
      if (auto found = find(other, buffer, rewrites - 1)) {
        return found;
      }
    }
    for (const Groups& other : rewritten(buffer)) {
      if (auto found = find(tile, other, rewrites - 1)) {
        return found;
      }
    }
    return std::nullopt;
  }

 private:
  const IdGraph& graph() const {
    return ids_.exact();
  }
  bool divides(const Split* s, IdGroup whole) const {
    return provablyDivisible(ids_.extent(whole), ids_.canonical(s->factor()));
  }

  // A swizzle of the two innermost dimensions, or of the innermost one and a part of its neighbour;
  // and what it makes of them.
  std::pair<const Swizzle*, Groups> swizzled(const Groups& dims) const {
    for (const Expr* use : graph().uses(dims.back())) {
      const auto* z = tryAs<Swizzle>(use);
      if (z == nullptr || dims.size() < 2 || graph().group(z->inY()) != dims.back()) {
        continue;
      }
      Groups other(dims.begin(), dims.end() - 2);
      const IdGroup neighbour = dims[dims.size() - 2];
      if (neighbour != graph().group(z->inX())) {
        const Split* split = splitInto(neighbour, graph().group(z->inX()));
        if (split == nullptr) {
          continue;
        }
        other.push_back(graph().group(split->outer()));
      }
      other.push_back(graph().group(z->outX()));
      other.push_back(graph().group(z->outY()));
      return {z, other};
    }
    return {};
  }

  const Split* splitInto(IdGroup whole, IdGroup inner) const {
    for (const Expr* use : graph().uses(whole)) {
      const auto* s = tryAs<Split>(use);
      if (s != nullptr && graph().group(s->inner()) == inner && divides(s, whole)) {
        return s;
      }
    }
    return nullptr;
  }

  // The innermost dimension split, or merged with its neighbour.
  std::vector<Groups> rewritten(const Groups& dims) const {
    std::vector<Groups> out;
    for (const Expr* use : graph().uses(dims.back())) {
      Groups other(dims.begin(), dims.end() - 1);
      if (const auto* s = tryAs<Split>(use); s != nullptr && divides(s, dims.back())) {
        for (const IterDomain* part : {s->outer(), s->inner()}) {
          if (!ids_.extent(graph().group(part))->isOneInt()) {
            other.push_back(graph().group(part));
          }
        }
        out.push_back(other);
      } else if (const auto* m = tryAs<Merge>(use); m != nullptr && !other.empty() &&
                                                    graph().group(m->inner()) == dims.back() &&
                                                    graph().group(m->outer()) == other.back()) {
        other.back() = graph().group(m->out());
        out.push_back(other);
      }
    }
    return out;
  }

  const IdModel& ids_;
};

} // namespace

std::optional<Layout::TilePlace> Layout::placeOf(const Groups& tile, const Groups& buffer) const {
  constexpr int kMostRewrites = 12;
  return TilePlacer(ids_).find(tile, buffer, kMostRewrites);
}

} // namespace nvfuser
