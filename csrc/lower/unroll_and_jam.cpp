// SPDX-License-Identifier: BSD-3-Clause
// Pass, for blocks whose threads run in loops: several iterations of a loop over rows that adds to
// many registers go through these together (unroll and jam).
//
//   for j < n:                     for g < ceilDiv(n, 8):
//     if p(j):                       if g * 8 + 7 < n and p(g * 8) and ... and p(g * 8 + 7):
//       for tx < 1024:        ->       for tx < 1024:
//         T[tx] = T[tx] + x(j)           for u < 8:
//                                          T[tx] = T[tx] + x(g * 8 + u)
//                                    else:
//                                      the loop on the left, g * 8 <= j < min(g * 8 + 8, n)
//
// Registers of many threads lie in memory. One row at a time reads and writes all of them for each
// element; here it is once for eight, and as many rows are on their way from memory at once. The
// terms are added in the same order.
#include <ir/builder.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/context.h>
#include <lower/moved.h>

#include <algorithm>

namespace nvfuser {

namespace {

using B = IrBuilder;

// Rows at a time: sums of columns beyond the cache are read and written once for all of them
// (measured, docs/measurements/cpu.md).
constexpr int64_t kRows = 8;

// Larger bodies would compile for long, and have enough to do in each row.
constexpr size_t kMostStatements = 8;

class Jammer : public StatementRewriter {
 public:
  explicit Jammer(LowerContext& ctx) : ctx_(ctx), threads_(ctx.kernel()->thread_loops) {}

 private:
  void rewrite(Expr* e, Statements& out) override {
    auto* loop = tryAs<ForLoop>(e);
    const Row row = loop == nullptr ? Row() : rowOf(loop);
    if (row.threads != nullptr) {
      out.push_back(jammed(loop, row));
    } else {
      StatementRewriter::rewrite(e, out);
    }
  }

  // What an iteration is made of.
  struct Row {
    ThreadLoop* threads = nullptr; // null: not of the kind that this pass is for
    Val* condition = nullptr;      // null: it always runs
  };

  Row rowOf(const ForLoop* loop) const {
    if (loop->isTrivial() || loop->body().size() != 1 || isShort(loop)) {
      return {};
    }
    Row row;
    Expr* inner = loop->body().front();
    if (auto* branch = tryAs<IfThenElse>(inner)) {
      if (branch->thenBody().size() != 1 || !branch->elseBody().empty()) {
        return {};
      }
      row.condition = branch->condition();
      inner = branch->thenBody().front();
    }
    auto* threads = tryAs<ThreadLoop>(inner);
    if (threads != nullptr && accumulates(threads, loop->index())) {
      row.threads = threads;
    }
    return row;
  }

  // One group of rows would be no loop.
  static bool isShort(const ForLoop* loop) {
    const Val* rows =
        loop->first() == nullptr ? loop->extent() : B::subExpr(loop->extent(), loop->first());
    return rows->isConstInt() && rows->intValue() <= kRows;
  }

  // That what the loop over threads leaves behind are sums and their like, over and over in the
  // same elements, which do not fit into the processor's registers.
  bool accumulates(const ThreadLoop* threads, const Val* row) const {
    const bool has_limits =
        std::any_of(threads->limits().begin(), threads->limits().end(),
                    [&](const Val* v) { return v != nullptr && dependsOn(v, row); });
    if (has_limits || threads->pieces.first != nullptr || threads->transposed.to != nullptr ||
        threads->body().size() > kMostStatements) {
      return false;
    }
    int64_t bytes = 0;
    for (const Expr* e : threads->body()) {
      if (!isElementOp(e) && e->kind() != ExprKind::Allocate) {
        return false;
      }
      for (const Val* out : e->outputs()) {
        const auto* element = tryAs<TensorIndex>(out);
        if (element == nullptr || !isLocal(element->view())) {
          if (element == nullptr || !addsTo(e, element) || dependsOn(element->index(), row)) {
            return false;
          }
          bytes += threads_.threads() * dataTypeSizeBytes(element->view()->dtype());
        }
      }
    }
    return bytes >= ThreadLoops::kMostProcessorBytes;
  }

  // A variable of the loop over threads.
  bool isLocal(const TensorView* tv) const {
    return tv->getMemoryType() == MemoryType::Local && threads_.registers.count(tv) == 0;
  }

  static bool addsTo(const Expr* e, const TensorIndex* element) {
    const auto* op = tryAs<ElementwiseOp>(e);
    const auto* before = op == nullptr ? nullptr : tryAs<TensorIndex>(op->in(0));
    return before != nullptr && before->view() == element->view() &&
           before->index()->sameAs(element->index());
  }

  Expr* jammed(ForLoop* loop, const Row& row) const {
    const std::string id = std::to_string(loop->loopId());
    auto* group = B::create<NamedScalar>("g" + id, DataType::Index);
    auto* within = B::create<NamedScalar>("u" + id, DataType::Index);
    Val* rows = B::index(kRows);
    Val* first = loop->first() == nullptr ? B::index(0) : loop->first();
    Val* begin = B::addExpr(first, B::mulExpr(group, rows));
    ForLoop* groups = loop->like(group, B::ceilDivExpr(B::subExpr(loop->extent(), first), rows));

    ForLoop* together = loop->like(within, rows);
    together->body() =
        Mover(ctx_, loop->index(), B::addExpr(begin, within)).moved(row.threads->body());
    auto* branch = B::create<IfThenElse>(allOf(loop, row, begin));
    branch->thenBody() = {B::create<ThreadLoop>(row.threads->limits(), Statements{together})};

    ForLoop* rest = loop->like(loop->index(), B::minExpr(B::addExpr(begin, rows), loop->extent()));
    rest->setFirst(begin);
    rest->body() = loop->body();
    branch->elseBody() = {rest};
    groups->body() = {branch};
    return groups;
  }

  // That a whole group of rows is there.
  Val* allOf(const ForLoop* loop, const Row& row, Val* begin) const {
    Val* all = B::ltExpr(B::addExpr(begin, B::index(kRows - 1)), loop->extent());
    for (int64_t i = 0; row.condition != nullptr && i < kRows; ++i) {
      const Mover mover(ctx_, loop->index(), B::addExpr(begin, B::index(i)));
      all = B::logicalAndExpr(all, mover.moved(row.condition));
    }
    return ctx_.simplified(all);
  }

  LowerContext& ctx_;
  const ThreadLoops& threads_;
};

} // namespace

Statements unrollAndJam(LowerContext& ctx, const Statements& nest) {
  return Jammer(ctx).run(nest);
}

} // namespace nvfuser
