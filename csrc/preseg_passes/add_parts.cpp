// SPDX-License-Identifier: BSD-3-Clause
// The sum of tensors of which each has zeros where the others have values is these values side by
// side:
//
//   cat(0, a) + cat(b, 0)    ->    cat(b, a)
//
// So the gradient of what was cut into parts is spelled: a slice's gradient is zeros around it,
// which may be cut along another dimension. Each element is then computed of one part, where the
// sum computes all of them everywhere. A zero is added still: it makes 0 of -0. Single elements
// have no bounds that keep others from being computed with them: a sum of a stack of stacks, which
// has four elements or more, stays, unless it is all of one tensor.
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/op_traits.h>
#include <ops/creation.h>
#include <ops/elementwise.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <preseg_passes/parts_of_tensors.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

namespace nvfuser {

namespace {

constexpr int kMostLevels = 12;

// All elements are +0: full(), in any shape and type.
bool isZero(const TensorView* tv) {
  const Expr* e = tv->definition();
  if (const auto* full = tryAs<FullOp>(e)) {
    const auto value = realConstant(full->input(0));
    return value.has_value() && *value == 0 && !std::signbit(*value);
  }
  const bool is_same = e != nullptr && !tv->isFusionOutput() && !isBoundary(e) &&
                       (movesElements(e) || definedBy(tv, OpType::Cast) != nullptr);
  return is_same && isZero(e->input(0)->as<TensorView>());
}

// Without casts to a type that holds every value, and back.
TensorView* uncast(TensorView* tv) {
  while (const ElementwiseOp* back = definedBy(tv, OpType::Cast)) {
    const ElementwiseOp* there = definedBy(back->in(0), OpType::Cast);
    if (there == nullptr || there->in(0)->dtype() != tv->dtype() || !isFloatingPoint(tv->dtype()) ||
        !holdsAll(tv->dtype(), back->in(0)->dtype()) || tv->isFusionOutput()) {
      break;
    }
    tv = there->in(0)->as<TensorView>();
  }
  return tv;
}

// Neighbours along a dimension; null are zeros.
struct Piece {
  int64_t extent = 0;
  TensorView* tv = nullptr;
};

class PartAdder : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    const auto* add = definedBy(e->output(0), OpType::Add);
    if (add == nullptr || !add->in(0)->isTensor() || !add->in(1)->isTensor() ||
        isComplex(add->output(0)->dtype()) || add->output(0)->dtype() == DataType::Bool) {
      return;
    }
    auto* out = add->output(0)->as<TensorView>();
    auto* a = add->in(0)->as<TensorView>();
    auto* b = add->in(1)->as<TensorView>();
    if (TensorView* sum = sumOf(a, b, 0)) {
      replace(out, sum);
    } else if (isAnyMadeOfParts(a, b)) {
      of_stacks_ = true;
      sum = sumOf(a, b, 0);
      of_stacks_ = false;
      if (sum != nullptr && isAllOfAnother(sum)) {
        replace(out, sum);
      }
    }
  }

  // In any type.
  static bool isAllOfAnother(TensorView* tv) {
    while (const ElementwiseOp* cast = definedBy(tv, OpType::Cast)) {
      tv = cast->in(0)->as<TensorView>();
    }
    PartFinder finder;
    const Part& part = finder.partOf(tv);
    return part.source != tv && !part.orderOfAll().empty();
  }

  // What it is where it is a sum of stacks itself, or that in another type.
  TensorView* summed(TensorView* tv, int level) {
    const auto* e = tryAs<ElementwiseOp>(tv->definition());
    if (e == nullptr || !e->in(0)->isTensor() || !isReadOnce(tv) || level > kMostLevels) {
      return tv;
    }
    auto* in = e->in(0)->as<TensorView>();
    if (e->op() == OpType::Cast) {
      TensorView* below = summed(in, level + 1);
      return below == in ? tv : uncast(recompute(tv, {below}));
    }
    if (e->op() != OpType::Add || !e->in(1)->isTensor()) {
      return tv;
    }
    auto* other = e->in(1)->as<TensorView>();
    TensorView* sum = isAnyMadeOfParts(in, other) ? sumOf(in, other, level + 1) : nullptr;
    return sum == nullptr ? tv : sum;
  }

  // Null if both have values somewhere.
  TensorView* sumOf(TensorView* a, TensorView* b, int level) {
    a = uncast(a);
    b = uncast(b);
    if (of_stacks_) {
      a = summed(a, level);
      b = summed(b, level);
    }
    if (level > kMostLevels || a->dtype() != b->dtype() || !haveSameRows(a, b, -1)) {
      return nullptr;
    }
    if (isZero(a)) {
      return withoutSignOfZero(b, level);
    }
    if (isZero(b)) {
      return withoutSignOfZero(a, level);
    }
    Expr* of_a = a->definition();
    const Expr* of_b = b->definition();
    if (of_a == nullptr || of_b == nullptr || !isReadOnce(a) || !isReadOnce(b)) {
      return nullptr;
    }
    if (of_a->kind() == ExprKind::CatOp && of_b->kind() == ExprKind::CatOp) {
      return sumOfCats(of_a->as<CatOp>(), of_b->as<CatOp>(), level);
    }
    if (!changesAlike(of_a, of_b)) {
      return nullptr;
    }
    std::vector<Val*> inputs = of_a->inputs();
    auto* below =
        sumOf(inputs.front()->as<TensorView>(), of_b->input(0)->as<TensorView>(), level + 1);
    if (below == nullptr) {
      return nullptr;
    }
    inputs.front() = below;
    return recompute(a, inputs);
  }

  // What was just made is not read yet.
  bool isReadOnce(const TensorView* tv) const {
    return !tv->isFusionOutput() && fusion_->liveUses(tv).size() <= 1;
  }

  // Two operations that only give elements other places, the same ones, or another type.
  static bool changesAlike(const Expr* a, const Expr* b) {
    if (!a->sameFields(b) || !a->input(0)->isTensor() || !b->input(0)->isTensor() ||
        !haveSameRows(a->input(0)->as<TensorView>(), b->input(0)->as<TensorView>(), -1)) {
      return false;
    }
    switch (a->kind()) {
      case ExprKind::ElementwiseOp:
        return definedBy(a->output(0), OpType::Cast) != nullptr;
      case ExprKind::BroadcastOp:
      case ExprKind::SqueezeOp:
      case ExprKind::ReshapeOp:
        return true;
      case ExprKind::LoadStoreOp:
        return !permutationOf(a).empty() && permutationOf(a) == permutationOf(b);
      default:
        return false;
    }
  }

  TensorView* sumOfCats(const CatOp* a, const CatOp* b, int level) {
    if (a->dim() != b->dim()) {
      return nullptr;
    }
    const std::vector<Piece> of_a = piecesAlong(a);
    const std::vector<Piece> of_b = piecesAlong(b);
    std::vector<Piece> sum;
    size_t i = 0;
    size_t j = 0;
    int64_t used_a = 0; // of the piece that is next
    int64_t used_b = 0;
    while (i < of_a.size() && j < of_b.size()) {
      const int64_t left_a = of_a[i].extent - used_a;
      const int64_t left_b = of_b[j].extent - used_b;
      Piece piece{std::min(left_a, left_b)};
      const bool whole_a = used_a == 0 && piece.extent == of_a[i].extent;
      const bool whole_b = used_b == 0 && piece.extent == of_b[j].extent;
      if ((of_a[i].tv != nullptr && !whole_a) || (of_b[j].tv != nullptr && !whole_b)) {
        return nullptr;
      }
      if (of_a[i].tv != nullptr && of_b[j].tv != nullptr) {
        piece.tv = sumOf(of_a[i].tv, of_b[j].tv, level + 1);
        if (piece.tv == nullptr) {
          return nullptr;
        }
      } else if (of_a[i].tv != nullptr || of_b[j].tv != nullptr) {
        piece.tv = withoutSignOfZero(of_a[i].tv != nullptr ? of_a[i].tv : of_b[j].tv, level + 1);
      }
      if (piece.tv == nullptr && !sum.empty() && sum.back().tv == nullptr) {
        sum.back().extent += piece.extent;
      } else {
        sum.push_back(piece);
      }
      used_a = left_a == piece.extent ? 0 : used_a + piece.extent;
      used_b = left_b == piece.extent ? 0 : used_b + piece.extent;
      i += used_a == 0 ? 1 : 0;
      j += used_b == 0 ? 1 : 0;
    }
    return joined(sum, a);
  }

  // It is the result of such an operation, perhaps with other dimensions, or in another type.
  static bool comesFrom(const TensorView* tv, ExprKind kind, bool in_any_type) {
    const Expr* e = tv->definition();
    while (e != nullptr && e->kind() != kind) {
      const bool changes = changesAlike(e, e) && (in_any_type || movesElements(e));
      e = changes ? e->input(0)->definition() : nullptr;
    }
    return e != nullptr;
  }

  static bool isMadeOfParts(const TensorView* tv) {
    return comesFrom(tv, ExprKind::CatOp, /*in_any_type=*/true);
  }

  static bool isSliced(const TensorView* tv) {
    return comesFrom(tv, ExprKind::SliceOp, /*in_any_type=*/false);
  }

  static bool isAnyMadeOfParts(TensorView* a, TensorView* b) {
    return isMadeOfParts(uncast(a)) || isMadeOfParts(uncast(b));
  }

  // Of known sizes; empty if they are not, or single elements are stacks themselves and must not
  // be.
  std::vector<Piece> piecesAlong(const CatOp* cat) const {
    std::vector<Piece> pieces;
    for (TensorView* part : ops_utils::joinedBy(cat)) {
      const IterDomain* id = logicalIds(part)[static_cast<size_t>(cat->dim())];
      const bool is_zero = isZero(part);
      if (!id->extent()->isConstInt() ||
          (!is_zero && !of_stacks_ && id->extent()->intValue() == 1 && isMadeOfParts(part))) {
        return {};
      }
      pieces.push_back({id->extent()->intValue(), is_zero ? nullptr : part});
    }
    return pieces;
  }

  static TensorView* joined(const std::vector<Piece>& pieces, const CatOp* like) {
    const auto* out = like->output(0)->as<TensorView>();
    std::vector<TensorView*> parts;
    for (const Piece& piece : pieces) {
      if (piece.tv != nullptr) {
        parts.push_back(piece.tv);
        continue;
      }
      std::vector<Val*> sizes;
      for (const IterDomain* id : logicalIds(out)) {
        sizes.push_back(id->getMaybeExpandedExtent());
      }
      sizes[static_cast<size_t>(like->dim())] = IrBuilder::index(piece.extent);
      parts.push_back(zeros(sizes, out->dtype()));
    }
    return parts.empty() ? nullptr : cat(parts, like->dim());
  }

  // A zero has been added to it.
  static bool hasNoSignOfZero(const TensorView* tv) {
    if (isSliced(tv)) {
      return hasNoSignOfZero(tv->definition()->input(0)->as<TensorView>());
    }
    const ElementwiseOp* cast = definedBy(tv, OpType::Cast);
    const ElementwiseOp* sum = definedBy(cast != nullptr ? cast->in(0) : tv, OpType::Add);
    const auto constant = sum == nullptr ? std::nullopt : splitConstant(sum);
    return constant.has_value() && constant->constant == 0 && !std::signbit(constant->constant);
  }

  // With a zero added to it, to the parts of what is made of parts, in stacks of stacks to all of
  // what it is a part of.
  TensorView* withoutSignOfZero(TensorView* tv, int level) {
    if (!isFloatingPoint(tv->dtype()) || isZero(tv) || hasNoSignOfZero(tv)) {
      return tv;
    }
    if (TensorView* of_parts = isReadOnce(tv) ? partsWithoutSign(tv, level) : nullptr) {
      return of_parts;
    }
    TensorView*& result = without_sign_[tv];
    if (result != nullptr) {
      return result;
    }
    if (of_stacks_ && isSliced(tv) && level <= kMostLevels) {
      std::vector<Val*> inputs = tv->definition()->inputs();
      inputs.front() = withoutSignOfZero(inputs.front()->as<TensorView>(), level + 1);
      result = recompute(tv, inputs);
    } else {
      TensorView* sum = add(tv, IrBuilder::create<Val>(0.0, DataType::Double));
      result = sum->dtype() == tv->dtype() ? sum : castOp(tv->dtype(), sum);
    }
    return result;
  }

  // Null if it is not made of parts.
  TensorView* partsWithoutSign(TensorView* tv, int level) {
    const Expr* e = tv->definition();
    if (e == nullptr || level > kMostLevels) {
      return nullptr;
    }
    if (const auto* cat = tryAs<CatOp>(e)) {
      std::vector<Piece> pieces = piecesAlong(cat);
      for (Piece& piece : pieces) {
        piece.tv = piece.tv == nullptr ? nullptr : withoutSignOfZero(piece.tv, level + 1);
      }
      return pieces.empty() ? nullptr : joined(pieces, cat);
    }
    if (!changesAlike(e, e) || !isReadOnce(e->input(0)->as<TensorView>())) {
      return nullptr;
    }
    std::vector<Val*> inputs = e->inputs();
    TensorView* below = partsWithoutSign(inputs.front()->as<TensorView>(), level + 1);
    if (below == nullptr) {
      return nullptr;
    }
    inputs.front() = below;
    return recompute(tv, inputs);
  }

  bool of_stacks_ = false; // single elements may be stacks
  std::unordered_map<TensorView*, TensorView*> without_sign_;
};

} // namespace

void addParts(Fusion* fusion) {
  PartAdder(fusion).run();
}

} // namespace nvfuser
