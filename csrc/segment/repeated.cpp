// SPDX-License-Identifier: BSD-3-Clause
// See repeated.h, and the part of WholeFusion that follows what is repeated.
#include <segment/repeated.h>

#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>
#include <preseg_passes/input_bits.h>
#include <segment/library_segment.h>
#include <segment/segment.h>
#include <segment/traffic.h>

#include <algorithm>
#include <functional>

namespace nvfuser {

namespace {

// What is read is less than what would be.
bool widens(const Expr* e) {
  switch (e->kind()) {
    case ExprKind::BroadcastOp:
    case ExprKind::ExpandOp:
    case ExprKind::PadOp:
      return true;
    default:
      return isWideningCast(e);
  }
}

// Elements that a tensor has, or is reduced from: as often is its expression computed.
double elementsComputed(const TensorView* tv) {
  double elements = 1;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    elements *= id->isBroadcast() ? 1 : extentOf(id);
  }
  return elements;
}

// What is read in several parts, and nowhere else, costs as much if each part is computed where it
// is read, and is not written.
void addWhatIsReadInParts(const Fusion* fusion, const std::vector<Expr*>& exprs,
                          const std::function<bool(const Expr*)>& may_be,
                          std::unordered_set<const Expr*>& repeated) {
  std::unordered_set<const Expr*> of_parts;
  for (size_t i = exprs.size(); i-- > 0;) {
    const Expr* e = exprs[i];
    if (!isComputedByElement(e) || !may_be(e)) {
      continue;
    }
    const auto* tv = e->output(0)->as<TensorView>();
    const std::vector<Expr*> uses = fusion->liveUses(tv);
    double elements = 0;
    size_t parts = 0;
    bool elsewhere = false;
    for (const Expr* use : uses) {
      const bool is_part = use->kind() == ExprKind::SliceOp;
      parts += is_part ? 1 : 0;
      elements += is_part ? elementsComputed(use->output(0)->as<TensorView>()) : 0;
      elsewhere = elsewhere || (!is_part && of_parts.count(use) == 0);
    }
    if (!elsewhere && !uses.empty() && (parts == 0 || parts > 1) &&
        elements <= elementsComputed(tv)) {
      of_parts.insert(e);
    }
  }
  repeated.insert(of_parts.begin(), of_parts.end());
}

} // namespace

bool mustBeInMemory(const TensorView* tv) {
  return tv->isFusionOutput() || isLookedUp(tv) ||
         std::any_of(tv->uses().begin(), tv->uses().end(), [](const Expr* use) {
           return takesNoKernel(use) || use->kind() == ExprKind::ScatterOp;
         });
}

bool isComputedByElement(const Expr* e) {
  return e->kind() == ExprKind::ReshapeOp ||
         (isByPosition(e) && e->kind() != ExprKind::ExpandOp && !isBoundary(e));
}

std::unordered_set<const Expr*> repeatedExprs(const Fusion* fusion) {
  const std::vector<Expr*>& exprs = fusion->exprs();
  const InputBits bits(exprs);
  const auto views = viewsOfLibraryOps(fusion, exprs);
  // So much smaller than the largest tensor, one costs nothing however wide its inputs are.
  constexpr double kNarrow = 1.0 / 64;
  double most = 0;
  for (const Expr* e : exprs) {
    for (const TensorView* tv : tensorOutputs(e)) {
      most = std::max(most, elementsComputed(tv));
    }
  }
  std::unordered_set<const Expr*> out;
  const auto may_be = [&](const Expr* e) {
    const auto* tv = e->output(0)->as<TensorView>();
    const auto is_of_library = [&](const Expr* each) { return views.count(each) != 0; };
    return !is_of_library(e) && !mustBeInMemory(tv) &&
           std::none_of(tv->uses().begin(), tv->uses().end(), is_of_library);
  };
  addWhatIsReadInParts(fusion, exprs, may_be, out);
  for (const Expr* e : exprs) {
    const auto isCheap = [&] {
      return widens(e) || bits.areFewFor(e) ||
             (bits.areKnownFor(e) &&
              elementsComputed(e->output(0)->as<TensorView>()) < kNarrow * most);
    };
    if (may_be(e) && isCheap()) {
      out.insert(e);
    }
  }
  return out;
}

std::vector<TensorView*> WholeFusion::inputsOf(const Expr* e) const {
  std::vector<TensorView*> out = tensorInputs(e);
  std::unordered_set<const TensorView*> seen(out.begin(), out.end());
  for (size_t i = 0; i < out.size();) {
    const Expr* maker = out[i]->definition();
    if (maker == nullptr || repeated.count(maker) == 0) {
      ++i;
      continue;
    }
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
    for (TensorView* in : tensorInputs(maker)) {
      if (seen.insert(in).second) {
        out.push_back(in);
      }
    }
  }
  return out;
}

std::vector<Expr*> WholeFusion::withRepeated(const std::vector<Expr*>& exprs) const {
  std::vector<Expr*> out = withoutRepeated(exprs);
  std::unordered_set<const Expr*> seen(out.begin(), out.end());
  for (size_t i = 0; i < out.size(); ++i) {
    for (const TensorView* in : tensorInputs(out[i])) {
      Expr* maker = in->definition();
      if (maker != nullptr && repeated.count(maker) != 0 && seen.insert(maker).second) {
        out.push_back(maker);
      }
    }
  }
  std::sort(out.begin(), out.end(),
            [&](const Expr* a, const Expr* b) { return order.at(a) < order.at(b); });
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<Expr*> WholeFusion::withoutRepeated(const std::vector<Expr*>& exprs) const {
  std::vector<Expr*> out;
  std::copy_if(exprs.begin(), exprs.end(), std::back_inserter(out),
               [&](const Expr* e) { return repeated.count(e) == 0; });
  return out;
}

bool WholeFusion::isReadOutside(const Val* tensor,
                                const std::unordered_set<const Expr*>& inside) const {
  std::vector<const Val*> tensors{tensor};
  std::unordered_set<const Val*> seen{tensor};
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (const Expr* use : tensors[i]->uses()) {
      if (live.count(use) == 0) {
        continue;
      }
      if (repeated.count(use) == 0) {
        if (inside.count(use) == 0) {
          return true;
        }
      } else if (seen.insert(use->output(0)).second) {
        tensors.push_back(use->output(0));
      }
    }
  }
  return false;
}

} // namespace nvfuser
