// SPDX-License-Identifier: BSD-3-Clause
// See thread_pieces.h. Quotients and comparisons are found in the scalars of the body's statements;
// those in a quotient's own operands first, so that what is divided may be made of quotients and
// remainders.
#include <lower/thread_pieces.h>

#include <ir/builder.h>
#include <lower/moved.h>

#include <algorithm>
#include <unordered_map>

namespace nvfuser {

namespace {

using B = IrBuilder;

// Compilers make shifts and multiplications of divisions by constants. Pieces that are shorter than
// the usual vectors are slower than these.
constexpr int64_t kFewestOfPiece = 16;

class PieceFinder {
 public:
  PieceFinder(const LowerContext& ctx, Val* index, Val* extent)
      : ctx_(ctx),
        index_(index),
        extent_(extent),
        first_(B::create<NamedScalar>("x0", DataType::Index)) {}

  void run(ThreadLoop* loop) {
    list(loop->body());
    if (!pieces_.lengths.empty()) {
      pieces_.first = first_;
      loop->pieces = std::move(pieces_);
    }
  }

 private:
  void list(const Statements& statements) {
    for (const Expr* e : statements) {
      if (const auto* loop = tryAs<ForLoop>(e)) {
        inner_.push_back(loop->index());
        rewritten(loop->extent());
        list(loop->body());
      } else if (const auto* branch = tryAs<IfThenElse>(e)) {
        rewritten(branch->condition());
        list(branch->thenBody());
        list(branch->elseBody());
      } else if (e->kind() != ExprKind::Allocate) {
        for (Val* v : e->inputs()) {
          element(v);
        }
        for (Val* v : e->outputs()) {
          element(v);
        }
      }
    }
  }

  void element(Val* v) {
    if (v->isScalar() || v->kind() == ValKind::TensorIndex) {
      rewritten(v);
    }
  }

  // What the value is within a piece.
  Val* rewritten(Val* v) {
    if (const auto* element = tryAs<TensorIndex>(v)) {
      rewritten(element->index());
      return v;
    }
    const auto* def = tryAs<ElementwiseOp>(v->definition());
    if (def == nullptr) {
      return v;
    }
    if (auto it = known_.find(v); it != known_.end()) {
      return it->second;
    }
    if (Val* joined = withJoinedRemainders(def)) {
      Val* out = rewritten(joined);
      pieces_.values[v] = out;
      return known_[v] = out;
    }
    std::vector<Val*> in;
    for (Val* x : def->inputs()) {
      in.push_back(rewritten(x));
    }
    Val* out = in == def->inputs() ? v : B::scalar(def, in);
    const bool is_quotient = def->op() == OpType::Div;
    if ((is_quotient || def->op() == OpType::Mod) && mayCut(in[0], in[1])) {
      Val* dividend = Mover(ctx_, index_, first_).moved(in[0]);
      addQuotient(in[0], dividend, in[1]);
      out = is_quotient ? B::divExpr(dividend, in[1])
                        : B::addExpr(B::modExpr(dividend, in[1]), B::subExpr(index_, first_));
      pieces_.values[v] = out;
    } else if (Val* same = compared(def->op(), in)) {
      pieces_.values[v] = out = same;
    }
    known_[v] = out;
    return out;
  }

  // (p * n + a / d % n) * d + a % d = p * (n * d) + a % (n * d), as often as there are such
  // factors; null: there are none.
  Val* withJoinedRemainders(const ElementwiseOp* sum) const {
    const auto* rest = sum->op() == OpType::Add ? operation(sum->in(1), OpType::Mod) : nullptr;
    const auto* product = rest != nullptr ? operation(sum->in(0), OpType::Mul) : nullptr;
    if (product == nullptr || !areEqual(product->in(1), rest->in(1))) {
      return nullptr;
    }
    Val* dividend = rest->in(0);
    Val* divisor = rest->in(1);
    Val* outer = product->in(0);
    while (outer != nullptr) {
      // What remains of the next larger dimension.
      const auto* both = operation(outer, OpType::Add);
      const auto* part = operation(both == nullptr ? outer : both->in(1), OpType::Mod);
      const auto* quotient = part == nullptr ? nullptr : operation(part->in(0), OpType::Div);
      if (quotient == nullptr || !areEqual(quotient->in(0), dividend) ||
          !areEqual(quotient->in(1), divisor)) {
        break;
      }
      const auto* next = both == nullptr ? nullptr : operation(both->in(0), OpType::Mul);
      const bool has_next = next != nullptr && areEqual(next->in(1), part->in(1));
      if (both != nullptr && !has_next) {
        break;
      }
      divisor = ctx_.simplified(B::mulExpr(part->in(1), divisor));
      outer = has_next ? next->in(0) : nullptr;
    }
    if (divisor == rest->in(1)) {
      return nullptr;
    }
    Val* joined = B::modExpr(dividend, divisor);
    return outer == nullptr ? joined : B::addExpr(B::mulExpr(outer, divisor), joined);
  }

  static const ElementwiseOp* operation(const Val* v, OpType type) {
    const auto* def = tryAs<ElementwiseOp>(v->definition());
    return def != nullptr && def->op() == type ? def : nullptr;
  }

  bool areEqual(Val* a, Val* b) const {
    return a->sameAs(b) || ctx_.simplified(B::subExpr(a, b))->isZeroInt();
  }

  // Of indices that come closer by one from thread to thread: what the comparison is where the
  // piece begins, up to where that changes. Null: it is none of these.
  Val* compared(OpType op, const std::vector<Val*>& in) {
    const bool is_less = op == OpType::Lt || op == OpType::Le;
    if ((!is_less && op != OpType::Gt && op != OpType::Ge) || in[0]->dtype() != DataType::Index ||
        in[1]->dtype() != DataType::Index) {
      return nullptr;
    }
    const bool is_left = goesUp(in[0]) && isFixed(in[1]);
    if (!is_left && !(goesUp(in[1]) && isFixed(in[0]))) {
      return nullptr;
    }
    Val* first = Mover(ctx_, index_, first_).moved(in[is_left ? 0 : 1]);
    Val* bound = in[is_left ? 1 : 0];
    // first + x < bound, or <=, or their opposites.
    const bool with_equal =
        is_left ? op == OpType::Le || op == OpType::Gt : op == OpType::Lt || op == OpType::Ge;
    Val* distance = B::subExpr(bound, first);
    if (with_equal) {
      distance = B::addExpr(distance, B::index(1));
    }
    distance = ctx_.simplified(distance);
    addLength(B::whereExpr(B::gtExpr(distance, B::index(0)), distance, extent_));
    return B::scalar(op, is_left ? first : bound, is_left ? bound : first);
  }

  // The dividend goes up by one from thread to thread, and both are known where the loop begins.
  bool mayCut(Val* dividend, Val* divisor) const {
    const bool is_long = divisor->isConstInt() ? divisor->intValue() >= kFewestOfPiece
                                               : divisor->dtype() == DataType::Index;
    return is_long && dividend->dtype() == DataType::Index && goesUp(dividend) && isFixed(divisor);
  }

  // By one from thread to thread.
  bool goesUp(Val* v) const {
    if (!dependsOn(v, index_) || !isKnown(v)) {
      return false;
    }
    Val* first = Mover(ctx_, index_, B::index(0)).moved(v);
    return ctx_.simplified(B::subExpr(B::subExpr(v, index_), first))->isZeroInt();
  }

  bool isFixed(const Val* v) const {
    return !dependsOn(v, index_) && isKnown(v);
  }

  bool isKnown(const Val* v) const {
    return !readsTensor(v) && std::none_of(inner_.begin(), inner_.end(),
                                           [&](const Val* loop) { return dependsOn(v, loop); });
  }

  // Quotients are rounded to zero: those of negative dividends change after a remainder of 0.
  void addQuotient(Val* everywhere, Val* dividend, Val* divisor) {
    Val* rest = B::modExpr(dividend, divisor);
    Val* length = B::subExpr(divisor, rest);
    const Val* known = ctx_.simplified(B::ltExpr(everywhere, B::index(0)));
    if (!known->isConst() || std::get<bool>(known->value())) {
      length =
          B::whereExpr(B::ltExpr(dividend, B::index(0)), B::subExpr(B::index(1), rest), length);
    }
    addLength(length);
  }

  void addLength(Val* length) {
    auto& all = pieces_.lengths;
    if (std::none_of(all.begin(), all.end(), [&](const Val* v) { return v->sameAs(length); })) {
      all.push_back(length);
    }
  }

  const LowerContext& ctx_;
  Val* index_;
  Val* extent_;
  NamedScalar* first_;
  ThreadLoop::Pieces pieces_;
  std::vector<const Val*> inner_; // indices of the loops in the body
  std::unordered_map<const Val*, Val*> known_;
};

} // namespace

void cutIntoPieces(const LowerContext& ctx, ThreadLoop* loop, Val* index, Val* extent) {
  PieceFinder(ctx, index, extent).run(loop);
}

} // namespace nvfuser
