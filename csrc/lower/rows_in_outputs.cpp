// SPDX-License-Identifier: BSD-3-Clause
// Pass, for blocks whose threads run in loops: what is kept of a row until an output is computed of
// it, element by element, lies in that output.
//
//   for j:                                    for j:
//     for tx:                                   for tx:
//       R[j, tx] = exp(x(j, tx) - m)              out(j, tx) = exp(x(j, tx) - m)
//   for j:                             ->     for j:
//     for tx:                                   for tx:
//       S[tx] = S[tx] + R[j, tx]                  S[tx] = S[tx] + out(j, tx)
//   for j:                                    for j:
//     for tx:                                   for tx:
//       out(j, tx) = R[j, tx] / s                 out(j, tx) = out(j, tx) / s
//
// Registers of many threads are an array in memory: a row of them less is in the caches, and the
// output's lines are on their way to memory while the functions are computed, rather than after
// that.
#include <ir/builder.h>
#include <ir/visitor.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/context.h>
#include <lower/moved.h>

#include <algorithm>

namespace nvfuser {

namespace {

using B = IrBuilder;

// A loop over elements of a row whose iterations are loops over threads, of which each has one
// element, and that writes or reads registers.
struct RowLoop {
  ForLoop* loop = nullptr;
  ThreadLoop* threads = nullptr;
};

bool readsElementOf(const Val* v, const TensorView* tv) {
  bool found = false;
  if (v != nullptr) {
    forTensorsIn(v, [&](const TensorView* each) { found = found || each == tv; });
  }
  return found;
}

bool anyOf(const std::vector<Val*>& values, const TensorView* tv) {
  return std::any_of(values.begin(), values.end(),
                     [&](const Val* v) { return readsElementOf(v, tv); });
}

// The statement or one in it has an element of the tensor, or all of it.
bool uses(const Expr* e, const TensorView* tv) {
  return holdsWithin(e, [&](const Expr* each) { return tensorAccessesOf(each).contain(tv); });
}

class Placer {
 public:
  explicit Placer(LowerContext& ctx) : ctx_(ctx), threads_(ctx.kernel()->thread_loops) {}

  void run(Statements& list) {
    for (size_t i = 0; i < list.size();) {
      auto* allocate = tryAs<Allocate>(list[i]);
      if (allocate != nullptr && isLarge(allocate) && place(list, allocate->tv())) {
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      for (Statements* body : bodiesOf(list[i])) {
        run(*body);
      }
      ++i;
    }
  }

 private:
  bool isLarge(const Allocate* allocate) const {
    const auto it = threads_.registers.find(allocate->tv());
    return it != threads_.registers.end() && it->second == ThreadLoops::Layout::ByElement &&
           bytesOf(allocate) > ThreadLoops::kMostProcessorBytes;
  }

  int64_t bytesOf(const Allocate* allocate) const {
    return allocate->size()->intValue() * threads_.threads() *
           dataTypeSizeBytes(allocate->tv()->dtype());
  }

  // Whether the tensor has been replaced by an output.
  bool place(Statements& list, TensorView* tv) {
    std::vector<RowLoop> rows;
    for (Expr* e : list) {
      if (uses(e, tv)) {
        rows.push_back(rowLoop(e, tv));
        if (rows.back().loop == nullptr) {
          return false;
        }
      }
    }
    if (rows.size() < 2 || !isWrittenFirst(rows, tv)) {
      return false;
    }
    const RowLoop& last = rows.back();
    const auto* output = outputOf(last, tv);
    if (output == nullptr || mayBeOverInput(list, rows.front(), output->view(), tv) ||
        std::any_of(rows.begin(), rows.end() - 1,
                    [&](const RowLoop& row) { return !haveSameElements(row, last); })) {
      return false;
    }
    for (const RowLoop& row : rows) {
      const Mover mover(ctx_, last.loop->index(), row.loop->index());
      replace(row.threads->body(), tv, output->view(), mover.moved(output->index()));
    }
    threads_.registers.erase(tv);
    return true;
  }

  RowLoop rowLoop(Expr* e, const TensorView* tv) const {
    auto* loop = tryAs<ForLoop>(e);
    if (loop == nullptr || loop->isTrivial() || loop->body().size() != 1 ||
        loop->first() != nullptr || loop->parallelType() != ParallelType::Serial) {
      return {};
    }
    auto* threads = tryAs<ThreadLoop>(loop->body().front());
    if (threads == nullptr || threads->pieces.first != nullptr ||
        threads->transposed.to != nullptr) {
      return {};
    }
    for (const Expr* x : threads->body()) {
      const bool is_plain = isElementOp(x) || x->kind() == ExprKind::Allocate;
      if (!is_plain || (uses(x, tv) && !isAtOwnElement(x, tv, loop->index()))) {
        return {};
      }
    }
    return {loop, threads};
  }

  // That a statement accesses the register of its iteration and no other.
  static bool isAtOwnElement(const Expr* e, const TensorView* tv, const Val* index) {
    const auto is_own = [&](const Val* v) {
      const auto* element = tryAs<TensorIndex>(v);
      return element != nullptr && element->view() == tv ? element->index()->sameAs(index)
                                                         : !readsElementOf(v, tv);
    };
    return std::all_of(e->inputs().begin(), e->inputs().end(), is_own) &&
           std::all_of(e->outputs().begin(), e->outputs().end(), is_own);
  }

  // The first loop writes what the others read.
  static bool isWrittenFirst(const std::vector<RowLoop>& rows, const TensorView* tv) {
    for (const RowLoop& row : rows) {
      bool is_written = &row != &rows.front();
      for (const Expr* e : row.threads->body()) {
        if (e->kind() == ExprKind::Allocate) {
          continue;
        }
        if (anyOf(e->outputs(), tv)) {
          if (is_written) {
            return false;
          }
          is_written = true;
        } else if (anyOf(e->inputs(), tv) && !is_written) {
          return false;
        }
      }
    }
    return true;
  }

  // The element of an output that the last loop writes behind its last use of the registers, next
  // to that of the next thread; null: there is none.
  const TensorIndex* outputOf(const RowLoop& last, const TensorView* tv) const {
    const TensorIndex* found = nullptr;
    for (const Expr* e : last.threads->body()) {
      if (e->kind() == ExprKind::Allocate) {
        continue;
      }
      if (anyOf(e->inputs(), tv)) {
        found = nullptr;
      }
      const auto* element = tryAs<TensorIndex>(e->output(0));
      if (found == nullptr && element != nullptr && isRoom(element, tv)) {
        found = element;
      }
    }
    return found;
  }

  bool isRoom(const TensorIndex* element, const TensorView* tv) const {
    TensorView* out = element->view();
    if (!out->isFusionOutput() || out->dtype() != tv->dtype() || isAlias(out) ||
        readsTensor(element->index())) {
      return false;
    }
    auto* thread =
        B::create<NamedScalar>(std::string(parallelTag(ParallelType::TIDx)), DataType::Index);
    Val* first = Mover(ctx_, thread, B::index(0)).moved(element->index());
    return threads_.extents[0] == threads_.threads() && dependsOn(element->index(), thread) &&
           ctx_.simplified(B::subExpr(B::subExpr(element->index(), thread), first))->isZeroInt() &&
           countUses(ctx_.kernel()->top_level, out) == 1;
  }

  // A plan may let an output lie where an input is that each thread loads once, before it writes
  // the output's element (executor/overwrites.h). Then what is kept is not to be written before
  // that.
  bool mayBeOverInput(const Statements& list, const RowLoop& first, const TensorView* out,
                      const TensorView* tv) const {
    const Kernel* kernel = ctx_.kernel();
    const auto rank = [](const TensorView* of) { return logicalIds(of).size(); };
    return std::any_of(kernel->inputs().begin(), kernel->inputs().end(), [&](const Val* v) {
      const auto* in = tryAs<TensorView>(v);
      return in != nullptr && in->dtype() == out->dtype() && rank(in) == rank(out) &&
             kernel->liveUses(in).size() == 1 &&
             countUses(kernel->top_level, in) != usesBefore(list, first, in, tv);
    });
  }

  // Statements that use an input before the first loop writes an element of the registers.
  static int usesBefore(const Statements& list, const RowLoop& first, const TensorView* in,
                        const TensorView* tv) {
    const auto loop = std::find(list.begin(), list.end(), first.loop);
    const Statements& body = first.threads->body();
    const auto write = std::find_if(body.begin(), body.end(), [&](const Expr* e) {
      return e->kind() != ExprKind::Allocate && anyOf(e->outputs(), tv);
    });
    return countUses({list.begin(), loop}, in) + countUses({body.begin(), write + 1}, in);
  }

  // Its memory is an input's.
  bool isAlias(const TensorView* out) const {
    const Kernel* kernel = ctx_.kernel();
    for (size_t i = 0; i < kernel->outputs().size(); ++i) {
      if (kernel->outputs()[i] == out && kernel->outputAliases()[i].input != nullptr) {
        return true;
      }
    }
    return false;
  }

  // Statements other than loops and branches that use a tensor.
  static int countUses(const Statements& list, const TensorView* tv) {
    int count = 0;
    forEachStatement(list, [&](const Expr* e) {
      count += bodiesOf(e).empty() && tensorAccessesOf(e).contain(tv) ? 1 : 0;
    });
    return count;
  }

  // The same threads in the same iterations.
  bool haveSameElements(const RowLoop& row, const RowLoop& last) const {
    if (!row.loop->extent()->sameAs(last.loop->extent())) {
      return false;
    }
    const Mover mover(ctx_, row.loop->index(), last.loop->index());
    for (size_t i = 0; i < row.threads->limits().size(); ++i) {
      Val* limit = mover.moved(row.threads->limits()[i]);
      Val* other = last.threads->limits()[i];
      if ((limit == nullptr) != (other == nullptr) ||
          (limit != nullptr && !limit->sameAs(ctx_.simplified(other)))) {
        return false;
      }
    }
    return true;
  }

  static void replace(Statements& list, const TensorView* tv, TensorView* output, Val* place) {
    const auto replaced = [&](Val* v) {
      return B::replaced(v, [&](Val* x) -> Val* {
        const auto* element = tryAs<TensorIndex>(x);
        if (element == nullptr) {
          return nullptr;
        }
        return element->view() == tv ? B::create<TensorIndex>(output, place) : x;
      });
    };
    for (Expr*& e : list) {
      if (!uses(e, tv)) {
        continue;
      }
      std::vector<Val*> in;
      for (Val* v : e->inputs()) {
        in.push_back(replaced(v));
      }
      Val* out = replaced(e->output(0));
      if (const auto* load = tryAs<LoadStoreOp>(e)) {
        e = B::create<LoadStoreOp>(load->type(), out, in.front(), load->cacheOp());
      } else {
        e = B::create<ElementwiseOp>(static_cast<const ElementwiseOp*>(e)->op(), out, in);
      }
    }
  }

  LowerContext& ctx_;
  ThreadLoops& threads_;
};

} // namespace

void keepRowsInOutputs(LowerContext& ctx, Statements& nest) {
  Placer(ctx).run(nest);
}

} // namespace nvfuser
