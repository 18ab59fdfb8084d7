// SPDX-License-Identifier: BSD-3-Clause
// See slices.h.
#include <segment/slices.h>

#include <base/disjoint_set.h>
#include <ir/visitor.h>
#include <preseg_passes/input_bits.h>
#include <segment/library_segment.h>
#include <segment/traffic.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

namespace nvfuser {

namespace {

using Exprs = std::vector<Expr*>;

class Levels {
 public:
  Levels(const WholeFusion& whole, const Exprs& exprs, const ViewsOfOps* views)
      : whole_(whole), exprs_(exprs), views_(views) {
    for (Expr* e : exprs) {
      for (const TensorView* in : whole.inputsOf(e)) {
        readers_[in].push_back(e);
      }
    }
  }

  std::vector<Exprs> slices(const std::function<bool(const Expr*)>& is_boundary,
                            const std::function<bool(const Expr*)>& is_late) {
    for (Expr* e : exprs_) {
      size_t l = 0;
      for (TensorView* in : whole_.inputsOf(e)) {
        auto it = level_.find(in->definition());
        if (in->definition() != nullptr && it != level_.end()) {
          l = std::max(l, it->second + (is_boundary(in->definition()) || is_late(e) ? 1 : 0));
        }
      }
      level_[e] = l;
    }
    sinkWidening();
    if (views_ != nullptr) {
      sinkParts();
    }
    std::vector<Exprs> slices;
    for (Expr* e : exprs_) {
      const size_t l = level_[e];
      if (slices.size() <= l) {
        slices.resize(l + 1);
      }
      slices[l].push_back(e);
    }
    std::erase_if(slices, [](const Exprs& slice) { return slice.empty(); });
    return slices;
  }

 private:
  // What makes a tensor larger, or of narrow inputs one that would be written and read again, goes
  // to the first slice that reads the result.
  void sinkWidening() {
    const bool saves_kernels = views_ != nullptr;
    const InputBits bits(exprs_);
    for (size_t i = exprs_.size(); i-- > 0;) {
      const Expr* e = exprs_[i];
      if (views_ != nullptr && views_->count(e) != 0) {
        level_[e] = level_.at(views_->at(e));
        continue;
      }
      const bool widens = isWideningCast(e) || e->kind() == ExprKind::BroadcastOp ||
                          e->kind() == ExprKind::ExpandOp || bits.areFewFor(e, saves_kernels);
      if (!widens || e->output(0)->isFusionOutput()) {
        continue;
      }
      size_t first = kNever;
      for (const Expr* reader : readersOf(e->output(0))) {
        // A library reads it from memory, whichever kernel writes it, and a scatter updates it.
        const bool is_written = (views_ == nullptr ? takesNoKernel(reader) : isInLibrary(reader)) ||
                                isUpdatedBy(reader, e->output(0));
        first = std::min(first, is_written ? level_[e] : level_.at(reader));
      }
      if (first != kNever) {
        level_[e] = std::max(level_[e], first);
      }
    }
  }

  // In its memory, which is filled before.
  static bool isUpdatedBy(const Expr* reader, const Val* tensor) {
    const auto* scatter = tryAs<ScatterOp>(reader);
    return scatter != nullptr && scatter->isInPlace() && scatter->self() == tensor;
  }

  // A part by itself of what kernels compute in a slice goes to a later one, if nothing needs it
  // before: where most of what it reads is read again (a sum of an input from which later kernels
  // compute something together with what a library makes), or where its results are read if all
  // that it reads is there anyway.
  void sinkParts() {
    std::map<size_t, Exprs, std::greater<>> generated; // by level, the last first
    for (Expr* e : exprs_) {
      if (!isInLibrary(e)) {
        generated[level_.at(e)].push_back(e);
      }
    }
    for (const auto& [own, all] : generated) {
      for (const Exprs& part : components(whole_, all, /*by_inputs=*/true)) {
        const size_t last = lastLevelOf(part);
        const auto is_later_kernel = [&](const Expr* reader) {
          return level_.at(reader) > own && level_.at(reader) <= last && !isInLibrary(reader);
        };
        auto to = levelThatReadsMost(part, is_later_kernel);
        if (!to.has_value() && last > own && last != kNever && readsArgumentsOnly(part)) {
          to = last;
        }
        if (to.has_value()) {
          for (const Expr* e : part) {
            level_[e] = *to;
          }
        }
      }
    }
  }

  static constexpr size_t kNever = std::numeric_limits<size_t>::max();

  // Of what it does not compute itself.
  bool readsArgumentsOnly(const Exprs& part) const {
    const std::unordered_set<const Expr*> inside(part.begin(), part.end());
    return std::all_of(part.begin(), part.end(), [&](const Expr* e) {
      const std::vector<TensorView*> ins = whole_.inputsOf(e);
      return std::all_of(ins.begin(), ins.end(), [&](const TensorView* in) {
        return in->definition() == nullptr || inside.count(in->definition()) != 0;
      });
    });
  }

  // The level by which something else needs results of the part.
  size_t lastLevelOf(const Exprs& part) const {
    const std::unordered_set<const Expr*> inside(part.begin(), part.end());
    size_t last = kNever;
    for (const Expr* e : part) {
      for (const Val* out : e->outputs()) {
        for (const Expr* reader : readersOf(out)) {
          if (inside.count(reader) == 0) {
            last = std::min(last, level_.at(reader));
          }
        }
      }
    }
    return last;
  }

  // The level at which more than half of what the part reads is read by such expressions, by size.
  template <class IsReader>
  std::optional<size_t> levelThatReadsMost(const Exprs& part, IsReader&& is_reader) const {
    std::unordered_set<const Val*> seen;
    for (const Expr* e : part) {
      seen.insert(e->outputs().begin(), e->outputs().end());
    }
    double size = 0;
    std::map<size_t, double> shared; // by level
    for (const Expr* e : part) {
      for (const TensorView* in : whole_.inputsOf(e)) {
        if (!seen.insert(in).second) {
          continue;
        }
        std::set<size_t> levels;
        for (const Expr* reader : readersOf(in)) {
          if (is_reader(reader)) {
            levels.insert(level_.at(reader));
          }
        }
        size += sizeOf(in);
        for (const size_t l : levels) {
          shared[l] += sizeOf(in);
        }
      }
    }
    const auto most =
        std::max_element(shared.begin(), shared.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most != shared.end() && most->second > size / 2 ? std::optional(most->first)
                                                           : std::nullopt;
  }

  const Exprs& readersOf(const Val* tensor) const {
    static const Exprs kNone;
    const auto it = readers_.find(tensor);
    return it == readers_.end() ? kNone : it->second;
  }

  bool isInLibrary(const Expr* e) const {
    return takesNoKernel(e) || views_->count(e) != 0;
  }

  const WholeFusion& whole_;
  const Exprs& exprs_;
  const ViewsOfOps* views_;
  std::unordered_map<const Val*, Exprs> readers_; // through what is repeated for them too
  std::unordered_map<const Expr*, size_t> level_;
};

} // namespace

std::vector<Exprs> cutAt(const WholeFusion& whole, const Exprs& exprs,
                         const std::function<bool(const Expr*)>& is_boundary,
                         const ViewsOfOps* views, const std::function<bool(const Expr*)>& is_late) {
  return Levels(whole, exprs, views).slices(is_boundary, is_late);
}

std::vector<Exprs> components(const WholeFusion& whole, const Exprs& exprs, bool by_inputs) {
  DisjointSets<const Val*> sets;
  std::unordered_set<const Val*> made;
  for (Expr* e : exprs) {
    const Val* out = tensorOutputs(e).front();
    sets.initializeSet(out);
    for (TensorView* tv : tensorOutputs(e)) {
      sets.mapEntries(out, tv);
      made.insert(tv);
    }
    for (TensorView* tv : whole.inputsOf(e)) {
      if (by_inputs || made.count(tv) != 0) {
        sets.mapEntries(out, tv);
      }
    }
  }
  std::vector<Exprs> parts;
  std::unordered_map<const void*, size_t> part_of;
  for (Expr* e : exprs) {
    const void* set = sets.setOf(tensorOutputs(e).front()).get();
    auto [it, inserted] = part_of.emplace(set, parts.size());
    if (inserted) {
      parts.emplace_back();
    }
    parts[it->second].push_back(e);
  }
  return parts;
}

} // namespace nvfuser
