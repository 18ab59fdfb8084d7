// SPDX-License-Identifier: BSD-3-Clause
// A kernel of a concatenation has loops over all of it, and each part is computed by other threads.
// What several parts are computed of is read by all of these; what a kernel made for one part is
// read again to be copied; and another result that has the size of a part takes a kernel of its
// own.
//
// So the parts are outputs, which plans give places in the memory of the whole. Kernels write them
// with the strides of the whole.
#include <preseg_passes/cats_in_parts.h>

#include <base/disjoint_set.h>
#include <ir/builder.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>
#include <ops/elementwise.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

namespace {

using Ids = TensorDomain::Ids;

bool hasNoExpandedDims(const TensorView* tv) {
  return std::ranges::none_of(logicalIds(tv),
                              [](const IterDomain* id) { return id->hasExpandedExtent(); });
}

// It has elements wherever the whole has, of which it may lack a dimension: a part of a stack.
bool hasDimsOf(const TensorView* part, const TensorView* whole, std::optional<size_t> lacks) {
  Ids dims = logicalIds(whole);
  if (lacks.has_value()) {
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(*lacks));
  }
  const Ids own = logicalIds(part);
  return hasNoExpandedDims(part) &&
         std::equal(own.begin(), own.end(), dims.begin(), dims.end(),
                    [](const IterDomain* id, const IterDomain* of_whole) {
                      return !id->isBroadcast() || of_whole->isBroadcast();
                    });
}

// What a part is made of, found out once for each tensor.
class Making {
 public:
  enum class Kind : uint8_t {
    Read,        // an input or a library's result, or views, parts or concatenations of some
    Elementwise, // computed of such
    Kernel,      // depends on what takes a kernel of its own, and is not cut since
    Other
  };

  Kind of(const TensorView* tv) {
    visitOperandsFirst(
        tv, [&](const TensorView* each) { return known_.count(each) != 0; },
        [](const TensorView* each, const auto& add) {
          if (each->definition() != nullptr) {
            std::ranges::for_each(tensorInputs(each->definition()), add);
          }
        },
        [&](const TensorView* each) { known_.emplace(each, kindOf(each)); });
    return known_.at(tv);
  }

 private:
  Kind kindOf(const TensorView* tv) const {
    const Expr* e = tv->definition();
    if (e == nullptr) {
      return Kind::Read;
    }
    Kind most = Kind::Read;
    for (const TensorView* in : tensorInputs(e)) {
      most = std::max(most, known_.at(in));
    }
    switch (e->kind()) {
      case ExprKind::BroadcastOp:
      case ExprKind::SqueezeOp:
      case ExprKind::ExpandOp:
        return most;
      case ExprKind::SliceOp:
      case ExprKind::ReshapeOp:
      case ExprKind::PadOp:
      case ExprKind::CatOp:
        return most <= Kind::Elementwise ? most : Kind::Other;
      case ExprKind::LoadStoreOp:
        return isPlainCopy(e) || !permutationOf(e).empty() || most == Kind::Read ? most
                                                                                 : Kind::Other;
      case ExprKind::ElementwiseOp:
      case ExprKind::FullOp:
      case ExprKind::IotaOp:
        return std::max(most, Kind::Elementwise);
      case ExprKind::ReductionOp:
      case ExprKind::WelfordOp:
        return std::max(most, Kind::Kernel);
      case ExprKind::LibraryOp:
        return Kind::Read; // where the library has written it
      default:
        return Kind::Other;
    }
  }

  std::unordered_map<const TensorView*, Kind> known_;
};

// Tensors that elementwise operations give the same loops, and equal views and parts of such.
class SharedLoops {
 public:
  explicit SharedLoops(const std::vector<Expr*>& exprs) {
    for (const Expr* e : exprs) {
      if (e->kind() != ExprKind::ElementwiseOp && !isPlainCopy(e)) {
        continue;
      }
      const auto* out = e->output(0)->as<TensorView>();
      for (const TensorView* in : tensorInputs(e)) {
        if (hasDimsOf(in, out, std::nullopt)) {
          sets_.mapEntries(out, in);
        }
      }
    }
    mapViews(exprs);
  }
  // After one permutation both have the same order.
  bool areThoseOf(const TensorView* a, const TensorView* b) const {
    const std::vector<int64_t> order =
        a->definition() == nullptr ? std::vector<int64_t>() : permutationOf(a->definition());
    if (!order.empty() && b->definition() != nullptr && permutationOf(b->definition()) == order) {
      a = a->definition()->input(0)->as<TensorView>();
      b = b->definition()->input(0)->as<TensorView>();
    }
    return a == b || sets_.permissiveAreMapped(a, b);
  }

 private:
  static bool isView(const Expr* e) {
    switch (e->kind()) {
      case ExprKind::SliceOp:
      case ExprKind::ReshapeOp:
      case ExprKind::SqueezeOp:
        return true;
      default:
        return e->kind() == ExprKind::LoadStoreOp && !permutationOf(e).empty();
    }
  }

  // Parts may begin at different elements.
  static bool areAlike(const Expr* a, const Expr* b) {
    const auto size = [](const IterDomain* id) { return id->extent(); };
    return a->kind() == b->kind() &&
           (a->kind() == ExprKind::SliceOp
                ? std::ranges::equal(
                      logicalIds(a->output(0)), logicalIds(b->output(0)),
                      [](Val* x, Val* y) { return x->sameAs(y); }, size, size)
                : a->sameFields(b) && permutationOf(a) == permutationOf(b));
  }

  // Of views of views the inner ones first.
  void mapViews(const std::vector<Expr*>& exprs) {
    constexpr size_t kMostViews = 64;
    std::vector<const Expr*> views;
    for (const Expr* e : exprs) {
      if (!isView(e) || views.size() == kMostViews) {
        continue;
      }
      for (const Expr* other : views) {
        if (areAlike(e, other) && sets_.permissiveAreMapped(tensorIn(e), tensorIn(other))) {
          sets_.mapEntries(e->output(0)->as<TensorView>(), other->output(0)->as<TensorView>());
        }
      }
      views.push_back(e);
    }
  }

  static const TensorView* tensorIn(const Expr* e) {
    return e->input(0)->as<TensorView>();
  }

  DisjointSets<const TensorView*> sets_;
};

// What was given the dimension of a concatenation by a broadcast, and no other: null if the part is
// not stacked so.
TensorView* stackedAlong(const TensorView* part, int64_t dim) {
  const auto* op = tryAs<BroadcastOp>(part->definition());
  if (op == nullptr) {
    return nullptr;
  }
  const std::vector<bool>& is_new = op->isBroadcastDim();
  return is_new.size() > 1 && is_new[static_cast<size_t>(dim)] &&
                 std::count(is_new.begin(), is_new.end(), true) == 1
             ? op->input(0)->as<TensorView>()
             : nullptr;
}

// Columns lie element beside element, so that they are not written by vectors: only what several
// take notable work for is worth more.
bool haveMuchInCommon(const std::vector<TensorView*>& parts) {
  constexpr size_t kFewestOps = 16; // [hand]
  constexpr size_t kMostVisited = 512;
  std::unordered_map<const Expr*, size_t> last_part; // that it is computed for
  std::unordered_set<const Expr*> shared;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<const Expr*> stack{parts[p]->definition()};
    while (!stack.empty() && last_part.size() < kMostVisited) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (e == nullptr) {
        continue;
      }
      const auto [it, is_first] = last_part.try_emplace(e, p);
      if (!is_first && it->second == p) {
        continue;
      }
      it->second = p;
      const auto* op = tryAs<ElementwiseOp>(e);
      if (!is_first && op != nullptr && op->op() != OpType::Cast) {
        shared.insert(e);
      }
      for (const TensorView* in : tensorInputs(e)) {
        stack.push_back(in->definition());
      }
    }
  }
  return shared.size() >= kFewestOps;
}

// Inputs of the fusion and results of libraries; a part itself if it takes long to find out.
std::vector<const TensorView*> readBySeveral(const std::vector<TensorView*>& parts) {
  constexpr size_t kMostVisited = 1024;
  std::unordered_map<const TensorView*, size_t> last_part; // that it was met in
  std::unordered_set<const TensorView*> shared;
  std::vector<const TensorView*> out;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<const TensorView*> stack{parts[p]};
    while (!stack.empty()) {
      const TensorView* tv = stack.back();
      stack.pop_back();
      if (last_part.size() > kMostVisited) {
        return {parts.front()};
      }
      const auto [it, is_first] = last_part.try_emplace(tv, p);
      if (!is_first && it->second == p) {
        continue;
      }
      it->second = p;
      const Expr* e = tv->definition();
      if (e != nullptr && e->kind() != ExprKind::LibraryOp) {
        const std::vector<TensorView*> in = tensorInputs(e);
        stack.insert(stack.end(), in.begin(), in.end());
      } else if (!is_first && shared.insert(tv).second) {
        out.push_back(tv);
      }
    }
  }
  return out;
}

constexpr size_t kMostParts = 16;

} // namespace

std::vector<CatInParts> catsInParts(const Fusion* fusion) {
  std::vector<CatInParts> found;
  Making making;
  std::optional<SharedLoops> loops;
  for (Expr* e : fusion->exprs()) {
    auto* cat = tryAs<CatOp>(e);
    const auto* out = cat == nullptr ? nullptr : cat->output(0)->as<TensorView>();
    if (out == nullptr || !out->isFusionOutput() || !fusion->liveUses(out).empty() ||
        out->domain()->hasAllocation() || dataTypeSizeBits(out->dtype()) < 8 ||
        !hasNoExpandedDims(out)) {
      continue;
    }
    CatInParts each{.cat = cat, .in_one_kernel = true};
    std::vector<TensorView*> parts = ops_utils::joinedBy(cat);
    bool fits = !parts.empty() && parts.size() <= kMostParts;
    if (fits && std::all_of(parts.begin(), parts.end(), [&](const TensorView* part) {
          return stackedAlong(part, cat->dim()) != nullptr;
        })) {
      for (TensorView*& part : parts) {
        part = stackedAlong(part, cat->dim());
      }
      each.of_stack = true;
      each.needs_runs = !haveMuchInCommon(parts);
      fits = !each.needs_runs || static_cast<size_t>(cat->dim()) + 1 < logicalIds(out).size();
    }
    for (size_t p = 0; fits && p < parts.size(); ++p) {
      TensorView* part = parts[p];
      const Making::Kind kind = making.of(part);
      fits =
          kind != Making::Kind::Other &&
          hasDimsOf(part, out,
                    each.of_stack ? std::optional(static_cast<size_t>(cat->dim())) : std::nullopt);
      each.parts.push_back(part);
      each.has_own_kernel.push_back(kind == Making::Kind::Kernel);
      each.in_one_kernel = each.in_one_kernel && kind == Making::Kind::Elementwise;
      each.is_computed = each.is_computed || kind != Making::Kind::Read;
    }
    if (!fits) {
      continue;
    }
    if (!loops.has_value()) {
      loops.emplace(fusion->exprs());
    }
    each.in_one_kernel =
        each.in_one_kernel && std::ranges::all_of(each.parts, [&](const TensorView* part) {
          return loops->areThoseOf(part, each.parts.front());
        });
    for (const TensorView* part : each.parts) {
      each.has_sibling.push_back(std::ranges::any_of(fusion->outputs(), [&](const Val* other) {
        return other != out && loops->areThoseOf(part, other->as<TensorView>());
      }));
    }
    each.read_by_several = readBySeveral(each.parts);
    found.push_back(std::move(each));
  }
  return found;
}

namespace {

// A copy of a part with what is promised of its memory within the whole.
TensorView* outputFor(Fusion* fusion, TensorView* part, size_t dim, bool is_returned) {
  Ids ids;
  std::vector<std::optional<bool>> contiguity;
  for (const IterDomain* id : logicalIds(part)) {
    ids.push_back(IterDomainBuilder(id).build());
    contiguity.push_back(id->isBroadcast() ? std::nullopt : std::optional(true));
  }
  while (dim > 0 && !contiguity[dim - 1].has_value()) {
    --dim;
  }
  if (dim > 0) {
    contiguity[dim - 1] = false; // beside the part are the others
  }
  auto* out = IrBuilder::create<TensorView>(IrBuilder::create<TensorDomain>(ids, contiguity),
                                            part->dtype());
  IrBuilder::create<LoadStoreOp>(LoadStoreOpType::Set, out, part);
  if (is_returned) {
    fusion->addOutput(out);
  } else {
    fusion->addHiddenOutput(out);
  }
  return out;
}

} // namespace

namespace {

// Operations on single elements, permutations and copies, between a concatenation and an output
// that is read by nobody.
std::vector<Expr*> chainToOutput(const Fusion* fusion, const Expr* cat) {
  std::vector<Expr*> chain;
  const Val* made = cat->output(0);
  while (!made->isFusionOutput()) {
    const std::vector<Expr*> uses = fusion->liveUses(made);
    if (uses.size() != 1 || tensorInputs(uses.front()).size() != 1 ||
        (uses.front()->kind() != ExprKind::ElementwiseOp && permutationOf(uses.front()).empty() &&
         (!isPlainCopy(uses.front()) || isBoundary(uses.front())))) {
      return {};
    }
    chain.push_back(uses.front());
    made = chain.back()->output(0);
  }
  return fusion->isReturned(made) && fusion->liveUses(made).empty() ? chain : std::vector<Expr*>();
}

// With these operands.
TensorView* computedOf(const Expr* e, TensorView* before, TensorView* now) {
  std::vector<Val*> operands = e->inputs();
  std::ranges::replace(operands, static_cast<Val*>(before), static_cast<Val*>(now));
  const auto* op = static_cast<const ElementwiseOp*>(e);
  return elementwiseAsIs(op->op(), op->output(0)->dtype(), operands)->as<TensorView>();
}

// The operation on a part, which has elements before it is broadcast to be stacked.
TensorView* computedOfPart(const Expr* e, TensorView* part) {
  if (isPlainCopy(e)) {
    return part;
  }
  const std::vector<int64_t> order = permutationOf(e);
  const auto* stacked = tryAs<BroadcastOp>(part->definition());
  if (stacked == nullptr) {
    return order.empty() ? computedOf(e, tensorInputs(e).front(), part) : permute(part, order);
  }
  auto* in = stacked->input(0)->as<TensorView>();
  const std::vector<bool>& is_new = stacked->isBroadcastDim();
  if (order.empty()) {
    return broadcast(computedOf(e, tensorInputs(e).front(), in), is_new);
  }
  std::vector<int64_t> order_before;
  std::vector<bool> new_after;
  for (const int64_t d : order) {
    const auto at = is_new.begin() + d;
    new_after.push_back(*at);
    if (!*at) {
      order_before.push_back(std::count(is_new.begin(), at, false));
    }
  }
  return broadcast(permute(in, order_before), new_after);
}

// Where a dimension is after the operations.
int64_t dimAfter(const std::vector<Expr*>& chain, int64_t dim) {
  for (const Expr* e : chain) {
    const std::vector<int64_t> order = permutationOf(e);
    dim = order.empty() ? dim : std::ranges::find(order, dim) - order.begin();
  }
  return dim;
}

// The operand that has elements along the dimension, if there is one; else null.
TensorView* operandAlong(const Expr* e, size_t dim) {
  TensorView* along = nullptr;
  for (TensorView* in : tensorInputs(e)) {
    const auto dims = logicalIds(in);
    if (dims.size() <= dim || (!dims[dim]->isOne() && along != nullptr && along != in)) {
      return nullptr;
    }
    along = dims[dim]->isOne() ? along : in;
  }
  return along;
}

// What lies side by side in a tensor: parts of a concatenation, also of one that it is computed of
// together with what its elements along the dimension share.
std::vector<TensorView*> partsOf(TensorView* tv, int64_t dim, int level = 0) {
  constexpr int kMostLevels = 8;
  const Expr* e = tv->definition();
  std::vector<TensorView*> parts;
  if (const auto* cat = tryAs<CatOp>(e); cat != nullptr && cat->dim() == dim) {
    for (TensorView* part : ops_utils::joinedBy(cat)) {
      const auto smaller = level < kMostLevels ? partsOf(part, dim, level + 1) : std::vector{part};
      parts.insert(parts.end(), smaller.begin(), smaller.end());
      if (parts.size() > kMostParts) {
        return {tv};
      }
    }
  } else if (e != nullptr && e->kind() == ExprKind::ElementwiseOp && level < kMostLevels) {
    TensorView* in = operandAlong(e, static_cast<size_t>(dim));
    parts = in == nullptr ? std::vector{tv} : partsOf(in, dim, level + 1);
    if (parts.size() > 1) {
      std::ranges::transform(parts, parts.begin(),
                             [&](TensorView* part) { return computedOf(e, in, part); });
      return parts;
    }
  }
  return parts.size() > 1 ? parts : std::vector{tv};
}

} // namespace

void computeBeforeCats(Fusion* fusion) {
  const FusionGuard guard(fusion);
  Making making;
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* e : exprs) {
    auto* cat = tryAs<CatOp>(e);
    if (cat == nullptr) {
      continue;
    }
    const std::vector<Expr*> chain = chainToOutput(fusion, cat);
    auto* out = (chain.empty() ? e : chain.back())->output(0)->as<TensorView>();
    if (!out->isFusionOutput() || !fusion->isReturned(out) || !fusion->liveUses(out).empty()) {
      continue;
    }
    const std::vector<TensorView*> parts = partsOf(cat->output(0)->as<TensorView>(), cat->dim());
    if (chain.empty() && parts.size() == ops_utils::joinedBy(cat).size()) {
      continue; // it is what it would be
    }
    const auto is_of = [&](Making::Kind kind) {
      return [&making, kind](const TensorView* part) { return making.of(part) == kind; };
    };
    if (parts.size() < 2 || !hasNoExpandedDims(cat->output(0)->as<TensorView>()) ||
        std::ranges::any_of(parts, is_of(Making::Kind::Other)) ||
        std::ranges::all_of(parts, is_of(Making::Kind::Read))) {
      continue;
    }
    std::vector<TensorView*> computed;
    for (TensorView* part : parts) {
      for (const Expr* op : chain) {
        part = computedOfPart(op, part);
      }
      computed.push_back(part);
    }
    computeAs(out, nvfuser::cat(computed, dimAfter(chain, cat->dim())));
  }
  fusion->removeDeadUses();
}

void writeCatsInParts(Fusion* fusion, uint64_t which, const std::vector<InPlaceWrite>& writes,
                      std::vector<OutputPart>& parts) {
  const FusionGuard guard(fusion);
  const std::vector<CatInParts> cats = catsInParts(fusion);
  for (size_t i = 0; i < std::min<size_t>(cats.size(), 64); ++i) {
    auto* whole = cats[i].cat->output(0)->as<TensorView>();
    const bool is_written = std::any_of(writes.begin(), writes.end(),
                                        [&](const InPlaceWrite& w) { return w.output == whole; });
    if ((which >> i & 1) == 0 || is_written) {
      continue;
    }
    const auto dim = static_cast<size_t>(cats[i].cat->dim());
    const bool is_returned = fusion->isReturned(whole);
    Val* start = fusion->zeroVal();
    for (size_t p = 0; p < cats[i].parts.size(); ++p) {
      parts.push_back({outputFor(fusion, cats[i].parts[p], dim, is_returned), whole, dim, start});
      start = cats[i].cat->ends()[p];
    }
    fusion->removeOutput(whole);
    whole->setMemoryType(MemoryType::Local);
  }
  fusion->removeDeadUses();
}

} // namespace nvfuser
