// SPDX-License-Identifier: BSD-3-Clause
// Parts that the same operations compute of slices which lie side by side are one computation of
// what these are slices of:
//
//   cat(x1 * c1 - x2 * s1, x2 * c2 + x1 * s2)    ->    x * c + cat(-x2, x1) * s
//
// where x is x1 and x2 side by side. Each element of x, c and s is read by one thread, once, where
// each part reads slices of its own. It is left alone if more than one concatenation remained.
#include <preseg_passes/canonical_form.h>

#include <ir/exprs.h>
#include <ops/elementwise.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace nvfuser {

namespace {

constexpr int kMostLevels = 8;

// A part, or what it is when all signs are changed.
struct Signed {
  TensorView* tv = nullptr;
  bool negated = false;
};
using Parts = std::vector<Signed>;

// What a concatenation of parts is.
struct Joined {
  enum class Kind : uint8_t { Cat, Whole, Scalar, Elementwise, Broadcast };
  Kind kind = Kind::Cat;
  int64_t dim = 0;
  Parts parts;          // of a Cat
  Val* whole = nullptr; // tensor or scalar
  bool negated = false; // of a Whole
  OpType op{};          // of an Elementwise
  DataType dtype = DataType::Null;
  std::vector<bool> flags; // of a Broadcast
  std::vector<Joined> operands;
  int cats = 1;            // in all
  bool has_slices = false; // some were parts of one tensor
};

// Where a slice begins and ends along `dim`, if it takes all of the other dimensions.
std::optional<std::pair<int64_t, int64_t>> boundsAlong(const SliceOp* slice, size_t dim) {
  const auto dims = logicalIds(slice->input(0));
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool is_whole = slice->starts()[d]->isZeroInt() &&
                          slice->stops()[d]->sameAs(dims[d]->getMaybeExpandedExtent());
    if (d != dim && !is_whole) {
      return std::nullopt;
    }
  }
  const auto start = constInt(slice->starts()[dim]);
  const auto stop = constInt(slice->stops()[dim]);
  return start.has_value() && stop.has_value() ? std::optional(std::pair(*start, *stop))
                                               : std::nullopt;
}

// What the parts are slices of, side by side; null if they are not.
TensorView* slicedSideBySide(const Parts& parts, int64_t dim) {
  TensorView* source = nullptr;
  int64_t next = 0;
  for (const Signed& part : parts) {
    const auto* slice = tryAs<SliceOp>(part.tv->definition());
    if (slice == nullptr || part.negated != parts.front().negated ||
        (source != nullptr && slice->input(0) != source)) {
      return nullptr;
    }
    const auto bounds = boundsAlong(slice, static_cast<size_t>(dim));
    if (!bounds.has_value() || bounds->first != next) {
      return nullptr;
    }
    source = slice->input(0)->as<TensorView>();
    next = bounds->second;
  }
  const IterDomain* id = logicalIds(source)[static_cast<size_t>(dim)];
  return id->isIteration() && constInt(id->extent()) == next ? source : nullptr;
}

// One tensor that has a single element along the parts' dimension.
TensorView* sharedByAll(const Parts& parts, int64_t dim) {
  const Signed& first = parts.front();
  const bool are_one = std::all_of(parts.begin(), parts.end(), [&](const Signed& part) {
    return part.tv == first.tv && part.negated == first.negated;
  });
  return are_one && logicalIds(first.tv)[static_cast<size_t>(dim)]->isOne() ? first.tv : nullptr;
}

class PartJoiner : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    if (e->kind() != ExprKind::CatOp) {
      return;
    }
    const auto* cat = static_cast<const CatOp*>(e);
    like_ = cat->output(0)->as<TensorView>();
    Parts parts;
    for (TensorView* part : ops_utils::joinedBy(cat)) {
      parts.push_back({part});
    }
    if (parts.size() < 2) {
      return;
    }
    const Joined joined = join(std::move(parts), cat->dim(), 0);
    if (joined.has_slices && joined.cats <= 1) {
      replace(like_, built(joined)->as<TensorView>());
    }
  }

  static bool isReadByOthers(const TensorView* tv) {
    return tv->isFusionOutput() || tv->uses().size() != 1;
  }

  static Joined join(Parts parts, int64_t dim, int level) {
    for (Signed& part : parts) {
      while (const ElementwiseOp* neg = definedBy(part.tv, OpType::Neg)) {
        part = {neg->in(0)->as<TensorView>(), !part.negated};
      }
    }
    Joined out;
    out.dim = dim;
    TensorView* whole = slicedSideBySide(parts, dim);
    out.has_slices = whole != nullptr;
    whole = whole == nullptr ? sharedByAll(parts, dim) : whole;
    if (whole != nullptr) {
      out.kind = Joined::Kind::Whole;
      out.whole = whole;
      out.negated = parts.front().negated;
      out.cats = 0;
      return out;
    }
    const bool is_deeper =
        level < kMostLevels &&
        std::none_of(
            parts.begin(), parts.end(), [](const Signed& part) { return isReadByOthers(part.tv); });
    if (is_deeper &&
        (joinBroadcasts(parts, dim, level, out) || joinElementwise(parts, level, out))) {
      out.cats = 0;
      for (const Joined& operand : out.operands) {
        out.cats += operand.cats;
        out.has_slices = out.has_slices || operand.has_slices;
      }
      return out;
    }
    Joined separate;
    separate.dim = dim;
    separate.parts = std::move(parts);
    return separate;
  }

  static bool joinBroadcasts(const Parts& parts, int64_t dim, int level, Joined& out) {
    Parts before;
    for (const Signed& part : parts) {
      const auto* op = tryAs<BroadcastOp>(part.tv->definition());
      if (op == nullptr || (!out.flags.empty() && op->isBroadcastDim() != out.flags) ||
          op->isBroadcastDim()[static_cast<size_t>(dim)]) {
        return false;
      }
      out.flags = op->isBroadcastDim();
      before.push_back({op->input(0)->as<TensorView>(), part.negated});
    }
    const int64_t dim_before = dim - std::count(out.flags.begin(), out.flags.begin() + dim, true);
    out.operands = {join(std::move(before), dim_before, level + 1)};
    out.kind = Joined::Kind::Broadcast;
    return out.operands.front().has_slices;
  }

  // A difference is a sum.
  static OpType kindOf(const ElementwiseOp* op) {
    return op->op() == OpType::Sub && isFloatingPoint(op->out()->dtype()) ? OpType::Add : op->op();
  }

  static bool joinElementwise(const Parts& parts, int level, Joined& out) {
    const auto* first = tryAs<ElementwiseOp>(parts.front().tv->definition());
    if (first == nullptr) {
      return false;
    }
    out.op = kindOf(first);
    out.dtype = first->out()->dtype();
    const bool any_negated =
        std::any_of(parts.begin(), parts.end(), [](const Signed& part) { return part.negated; });
    for (const Signed& part : parts) {
      const auto* op = tryAs<ElementwiseOp>(part.tv->definition());
      if (op == nullptr || kindOf(op) != out.op || op->inputs().size() != first->inputs().size() ||
          op->out()->dtype() != out.dtype) {
        return false;
      }
    }
    const bool is_product = out.op == OpType::Mul;
    if (any_negated && !is_product) {
      return false; // -(a + b) is 0 where (-a) + (-b) is -0
    }
    const bool may_swap = is_product || out.op == OpType::Add;
    for (const bool swapped : {false, true}) {
      for (const size_t with_sign : {0, 1}) {
        if ((!swapped || may_swap) && (with_sign == 0 || (is_product && any_negated)) &&
            joinOperands(parts, {swapped, with_sign}, level, out)) {
          return true;
        }
      }
    }
    return false;
  }

  struct Order {
    bool swapped;     // the operands of all parts but the first
    size_t with_sign; // the factor of a product that has its sign
  };

  // True if one of the operands is a whole tensor.
  static bool joinOperands(const Parts& parts, Order order, int level, Joined& out) {
    const auto* first = parts.front().tv->definition()->as<ElementwiseOp>();
    const int64_t dim = out.dim;
    out.operands.clear();
    out.kind = Joined::Kind::Elementwise;
    bool any_whole = false;
    for (size_t i = 0; i < first->inputs().size(); ++i) {
      Parts operands;
      for (const Signed& part : parts) {
        const auto* op = part.tv->definition()->as<ElementwiseOp>();
        const size_t at = order.swapped && op != first ? 1 - i : i;
        Val* in = op->in(at);
        if (!first->in(i)->isTensor() || !in->isTensor()) {
          if (in->isTensor() || !in->sameAs(first->in(i)) || op->op() != first->op()) {
            return false;
          }
          continue;
        }
        const bool is_taken_off = op->op() != out.op && at == 1;
        const bool has_sign = part.negated && i == order.with_sign;
        operands.push_back({in->as<TensorView>(), has_sign || is_taken_off});
      }
      if (operands.empty()) {
        Joined scalar;
        scalar.kind = Joined::Kind::Scalar;
        scalar.whole = first->in(i);
        scalar.cats = 0;
        out.operands.push_back(std::move(scalar));
        continue;
      }
      if (std::any_of(operands.begin(), operands.end(), [&](const Signed& part) {
            return part.tv->dtype() != operands.front().tv->dtype();
          })) {
        return false;
      }
      out.operands.push_back(join(std::move(operands), dim, level + 1));
      any_whole = any_whole || (out.operands.back().cats == 0 && out.operands.back().has_slices);
    }
    return any_whole;
  }

  Val* negative(Val* v) {
    return make(OpType::Neg, v->dtype(), {v}, like_);
  }

  Val* built(const Joined& joined) {
    switch (joined.kind) {
      case Joined::Kind::Scalar:
        return joined.whole;
      case Joined::Kind::Whole:
        return joined.negated ? negative(joined.whole) : joined.whole;
      case Joined::Kind::Broadcast:
        return broadcast(built(joined.operands.front())->as<TensorView>(), joined.flags);
      case Joined::Kind::Cat: {
        std::vector<TensorView*> parts;
        for (const Signed& part : joined.parts) {
          parts.push_back((part.negated ? negative(part.tv) : part.tv)->as<TensorView>());
        }
        return cat(parts, joined.dim);
      }
      case Joined::Kind::Elementwise:
        break;
    }
    std::vector<Val*> operands;
    for (const Joined& operand : joined.operands) {
      operands.push_back(built(operand));
    }
    return make(joined.op, joined.dtype, operands, like_);
  }

  TensorView* like_ = nullptr;
};

} // namespace

void joinParts(Fusion* fusion) {
  PartJoiner(fusion).run();
}

} // namespace nvfuser
