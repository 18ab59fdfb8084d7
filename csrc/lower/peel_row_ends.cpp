// SPDX-License-Identifier: BSD-3-Clause
// Pass, for blocks whose threads run in loops: iterations in which all threads have an element have
// a loop of their own, apart from the one at the end of a row.
//
//   for j < ceilDiv(n, 64):                   for j < n / 64:
//     for tx < min(64, n - j * 64):     ->      for tx < 64:
//       S[tx] = S[tx] + x                         S[tx] = S[tx] + x
//                                             for n / 64 <= j < ceilDiv(n, 64):
//                                               for tx < min(64, n - j * 64):
//                                                 S[tx] = S[tx] + x
//
// A loop over a constant number of threads is a few vectors, which compilers write out, and what
// these accumulate stays in the processor's registers. Loops that accumulate nothing are as fast
// without that.
#include <ir/builder.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/context.h>
#include <lower/moved.h>

#include <algorithm>

namespace nvfuser {

namespace {

using B = IrBuilder;

// Larger bodies would compile for long, and have enough to do in each iteration.
constexpr size_t kMostStatements = 32;
// Of a row of known length, so that the loop is worth its code.
constexpr int64_t kFewestIterations = 2;

class Peeler : public StatementRewriter {
 public:
  explicit Peeler(LowerContext& ctx) : ctx_(ctx) {}

 private:
  void rewrite(Expr* e, Statements& out) override {
    const auto* loop = tryAs<ForLoop>(e);
    if (Val* whole = loop == nullptr ? nullptr : wholeIterations(loop)) {
      out.push_back(wholeOnes(loop, whole));
      out.push_back(lastOne(loop, whole));
    } else {
      StatementRewriter::rewrite(e, out);
    }
  }

  // How many iterations all threads take part in; null: that is not known, or makes no difference.
  Val* wholeIterations(const ForLoop* loop) const {
    if (loop->isTrivial() || loop->parallelType() != ParallelType::Serial) {
      return nullptr;
    }
    size_t statements = 0;
    bool has_sums = false;
    Val* whole = nullptr;
    for (const Expr* e : loop->body()) {
      const auto* threads = tryAs<ThreadLoop>(e);
      if (threads == nullptr) {
        if (!isPlain(e)) {
          return nullptr;
        }
        continue;
      }
      if (threads->pieces.first != nullptr || threads->transposed.to != nullptr ||
          !std::all_of(threads->body().begin(), threads->body().end(), isPlain)) {
        return nullptr;
      }
      statements += threads->body().size();
      has_sums =
          has_sums || std::any_of(threads->body().begin(), threads->body().end(),
                                  [&](const Expr* x) { return accumulates(x, loop->index()); });
      for (Val* limit : threads->limits()) {
        Val* count = limit == nullptr ? nullptr : wholeOf(limit, loop->index());
        if (count != nullptr && whole != nullptr && !count->sameAs(whole)) {
          return nullptr;
        }
        whole = count == nullptr ? whole : count;
      }
    }
    const bool is_short =
        whole != nullptr && whole->isConstInt() && whole->intValue() < kFewestIterations;
    return !has_sums || statements > kMostStatements || is_short ? nullptr : whole;
  }

  static bool isPlain(const Expr* e) {
    return isElementOp(e) || e->kind() == ExprKind::Allocate;
  }

  // n / c of min(c, n - index * c); null: the limit is something else.
  Val* wholeOf(const Val* limit, Val* index) const {
    const auto* min = tryAs<ElementwiseOp>(limit->definition());
    if (min == nullptr || min->op() != OpType::Minimum || !dependsOn(limit, index)) {
      return nullptr;
    }
    Val* piece = min->in(min->in(0)->isConstInt() ? 0 : 1);
    Val* rest = min->in(piece == min->in(0) ? 1 : 0);
    if (!piece->isConstInt()) {
      return nullptr;
    }
    Val* all = Mover(ctx_, index, B::index(0)).moved(rest);
    Val* before = B::subExpr(all, rest);
    const bool is_row = ctx_.simplified(B::subExpr(before, B::mulExpr(index, piece)))->isZeroInt();
    return is_row ? ctx_.simplified(B::divExpr(all, piece)) : nullptr;
  }

  Expr* wholeOnes(const ForLoop* loop, Val* whole) const {
    ForLoop* out = loop->like(loop->index(), ctx_.simplified(B::minExpr(loop->extent(), whole)));
    out->setFirst(loop->first());
    const Mover copies(ctx_, loop->index(), loop->index());
    for (Expr* e : loop->body()) {
      auto* threads = tryAs<ThreadLoop>(e);
      if (threads == nullptr) {
        out->body().push_back(copies.moved(e));
        continue;
      }
      std::array<Val*, 3> limits = threads->limits();
      for (Val*& limit : limits) {
        if (limit != nullptr && wholeOf(limit, loop->index()) != nullptr) {
          limit = nullptr;
        }
      }
      out->body().push_back(B::create<ThreadLoop>(limits, copies.moved(threads->body())));
    }
    return out;
  }

  ForLoop* lastOne(const ForLoop* loop, Val* whole) const {
    ForLoop* out = loop->like(loop->index(), loop->extent());
    out->setFirst(loop->first() == nullptr ? whole
                                           : ctx_.simplified(B::maxExpr(loop->first(), whole)));
    out->body() = loop->body();
    return out;
  }

  const LowerContext& ctx_;
};

} // namespace

Statements peelRowEnds(LowerContext& ctx, const Statements& nest) {
  return Peeler(ctx).run(nest);
}

} // namespace nvfuser
