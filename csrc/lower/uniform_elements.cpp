// SPDX-License-Identifier: BSD-3-Clause
// Pass: elements of a vector, or of rows, that are one value are computed once.
//
//   for j < 8: T[a + j] = f(i)        ->    T[a] = f(i); for j < 8: T[a + j] = T[a]
//   for j < 4: for k < 2: T[2 * j + k] = g(k)
//       ->    for k < 2: T[k] = g(k)
//             for j < 4: for k < 2: T[2 * j + k] = T[k]
//   for j < 8: x = f(i); T[j] = g(x, j)    ->    x = f(i); for j < 8: T[j] = g(x, j)
//
// A tensor that has outer dimensions only (a random number for each sample, positions along an
// outer dimension) is computed in loops over vectors as all others are, and one that lacks what the
// rows of a thread differ in (the rotation of a token, for its heads) in loops over these rows. The
// compiler finds that out for arithmetic, but not where an operation takes branches.
#include <lower/uniform_elements.h>

#include <ir/builder.h>
#include <ir/visitor.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/moved.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace nvfuser {

namespace {

constexpr int64_t kMostElements = 16;

bool isSimple(const Expr* e) {
  return computesElements(e) || e->kind() == ExprKind::Allocate;
}

// Iterations that are all printed; 0: of another loop.
int64_t unrolledIterations(const ForLoop* loop) {
  if (loop->isTrivial() || loop->index()->isConst() || loop->first() != nullptr ||
      loop->parallelType() == ParallelType::Vectorize || !loop->extent()->isConstInt()) {
    return 0;
  }
  const auto extent = loop->extent()->intValue();
  return extent > 1 && extent <= kMostElements ? extent : 0;
}

const TensorIndex* targetOf(const Expr* e) {
  return e->kind() == ExprKind::Allocate ? nullptr : tryAs<TensorIndex>(e->output(0));
}

class UniformComputer : public StatementRewriter {
 public:
  UniformComputer(LowerContext& ctx, UniformElements& uniform) : ctx_(ctx), uniform_(uniform) {}

  Statements computed(const Statements& nest) {
    collectSizes(nest);
    // What is written in another way somewhere is never known to be equal: a loop around all of it
    // may come back to where it is read.
    size_t before = 0;
    do {
      before = differing_.size();
      forget();
      look(nest);
    } while (differing_.size() > before);
    forget();
    return run(nest);
  }

 private:
  using B = IrBuilder;
  using Tensors = std::unordered_set<const TensorView*>;
  // Registers whose rows are equal: elements of a row, and rows.
  struct Rows {
    int64_t length;
    int64_t count;
    bool operator==(const Rows&) const = default;
  };
  using KnownRows = std::unordered_map<const TensorView*, Rows>;

  void collectSizes(const Statements& nest) {
    forEachStatement(nest, [&](const Expr* e) {
      const auto* a = tryAs<Allocate>(e);
      if (a != nullptr && a->memoryType() == MemoryType::Local && a->size()->isConstInt()) {
        sizes_[a->tv()] = a->size()->intValue();
      }
    });
  }

  void forget() {
    rows_.clear();
    uniform_.clear();
  }

  // --- what is equal ---

  void look(const Statements& nest) {
    for (const Expr* e : nest) {
      if (const auto* loop = tryAs<ForLoop>(e)) {
        if (!hasEqualElements(loop) && !hasEqualRows(loop)) {
          look(loop->body());
        }
      } else if (const auto* branch = tryAs<IfThenElse>(e)) {
        look(branch->thenBody());
        look(branch->elseBody());
      } else {
        noteWrites(e);
      }
    }
  }

  // What a reduction or a scan among threads updates included.
  void noteWrites(const Expr* e) {
    for (const TensorView* tv : tensorAccessesOf(e).written) {
      differing_.insert(tv);
    }
  }

  // The value in iteration 0 is that of all iterations.
  bool isSame(const Val* v, const ForLoop* loop, const KnownRows& rows) const {
    return !holdsBehind(v, [&](const Val* each) {
      const auto* element = tryAs<TensorIndex>(each);
      return element != nullptr ? !isSameElement(element, loop, rows) : each->sameAs(loop->index());
    });
  }

  bool isSameElement(const TensorIndex* element, const ForLoop* loop, const KnownRows& rows) const {
    if (!readsWith(element->index(), loop->index())) {
      return true;
    }
    const auto known = rows.find(element->view());
    return known != rows.end() && known->second.count == unrolledIterations(loop) &&
           isInRow(element, loop, known->second.length);
  }

  // Element length * j + (what does not depend on j).
  bool isInRow(const TensorIndex* element, const ForLoop* loop, int64_t length) const {
    Val* row = B::mulExpr(B::index(length), loop->index());
    return !readsWith(ctx_.simplified(B::subExpr(element->index(), row)), loop->index());
  }

  bool isKnown(const TensorView* tv) const {
    return tv->getMemoryType() == MemoryType::Local && differing_.count(tv) == 0;
  }

  // All iterations write a row of each buffer.
  bool hasEqualRows(const ForLoop* loop) {
    const int64_t count = unrolledIterations(loop);
    KnownRows rows = rows_;
    Tensors own;
    bool computes = false;
    if (count == 0 || !allSame(loop->body(), loop, rows, own, computes) || !computes) {
      return false;
    }
    rows_ = std::move(rows);
    return true;
  }

  bool allSame(const Statements& list, const ForLoop* loop, KnownRows& rows, Tensors& own,
               bool& computes) const {
    return std::all_of(list.begin(), list.end(), [&](const Expr* e) {
      if (const auto* inner = tryAs<ForLoop>(e)) {
        return inner->extent()->isConstInt() && allSame(inner->body(), loop, rows, own, computes);
      }
      if (const auto* branch = tryAs<IfThenElse>(e)) {
        return isSame(branch->condition(), loop, rows) &&
               allSame(branch->thenBody(), loop, rows, own, computes) &&
               allSame(branch->elseBody(), loop, rows, own, computes);
      }
      if (const auto* a = tryAs<Allocate>(e)) {
        own.insert(a->tv());
        return true;
      }
      return isSimple(e) && isSameStatement(e, loop, rows, own, computes);
    });
  }

  bool isSameStatement(const Expr* e, const ForLoop* loop, KnownRows& rows, const Tensors& own,
                       bool& computes) const {
    const TensorIndex* target = targetOf(e);
    if (target == nullptr || !std::all_of(e->inputs().begin(), e->inputs().end(),
                                          [&](auto* in) { return isSame(in, loop, rows); })) {
      return false;
    }
    const TensorView* tv = target->view();
    if (own.count(tv) != 0) {
      return !readsWith(target->index(), loop->index());
    }
    const auto size = sizes_.find(tv);
    const int64_t count = unrolledIterations(loop);
    if (!isKnown(tv) || size == sizes_.end() || size->second % count != 0) {
      return false;
    }
    const Rows mine{size->second / count, count};
    const auto [known, is_new] = rows.emplace(tv, mine);
    computes = computes || !isConstant(e);
    return known->second == mine && isInRow(target, loop, mine.length);
  }

  // As well written to each element.
  static bool isConstant(const Expr* e) {
    return e->kind() == ExprKind::LoadStoreOp && e->input(0)->isConst();
  }

  // The first of the block of equal elements that the statement writes in the loop; null: it writes
  // something else.
  Val* firstOf(const ForLoop* loop, const TensorIndex* target) const {
    Val* first = ctx_.simplified(B::subExpr(target->index(), loop->index()));
    return !readsWith(first, loop->index()) && provablyDivisible(first, loop->extent()) ? first
                                                                                        : nullptr;
  }

  bool hasEqualElements(const ForLoop* loop) {
    if (elementsOf(loop) == 0) {
      return false;
    }
    Tensors own;
    std::vector<const TensorView*> blocks;
    bool computes = false;
    for (const Expr* e : statementsOf(loop)) {
      if (const auto* a = tryAs<Allocate>(e)) {
        own.insert(a->tv());
        continue;
      }
      const bool moves = std::any_of(e->inputs().begin(), e->inputs().end(),
                                     [&](const Val* in) { return !isEqualAlong(in, loop); });
      const TensorIndex* target = targetOf(e);
      if (moves || target == nullptr || !isKnown(target->view())) {
        return false;
      }
      if (own.count(target->view()) == 0 || readsWith(target->index(), loop->index())) {
        if (firstOf(loop, target) == nullptr) {
          return false;
        }
        blocks.push_back(target->view());
      }
      computes = computes || !isConstant(e);
    }
    if (blocks.empty() || !computes) {
      return false;
    }
    for (const TensorView* tv : blocks) {
      const auto [known, is_new] = uniform_.emplace(tv, elementsOf(loop));
      known->second = std::min(known->second, elementsOf(loop));
    }
    return true;
  }

  // --- computing it once ---

  void rewrite(Expr* e, Statements& out) override {
    auto* loop = tryAs<ForLoop>(e);
    if (loop != nullptr && hasEqualElements(loop)) {
      return computeElementOnce(loop, out);
    }
    if (loop != nullptr && hasEqualRows(loop)) {
      return computeRowOnce(loop, out);
    }
    rewriteBodies(e);
    if (loop != nullptr) {
      takeOut(loop, out);
    }
    out.push_back(e);
  }

  // Of a loop over elements: variables of its own that are the same for all of them.
  void takeOut(ForLoop* loop, Statements& out) const {
    if (elementsOf(loop) == 0) {
      return;
    }
    const Statements statements = statementsOf(loop);
    const std::optional<Tensors> moving = movingTensors(loop, statements);
    if (!moving.has_value()) {
      return;
    }
    const Mover first(ctx_, loop->index(), ctx_.kernel()->zeroVal());
    Statements rest;
    for (Expr* e : statements) {
      const auto* a = tryAs<Allocate>(e);
      const TensorView* tv = a != nullptr ? a->tv() : targetOf(e)->view();
      if (moving->count(tv) != 0) {
        rest.push_back(e);
      } else {
        out.push_back(a != nullptr ? e : first.moved(e));
      }
    }
    if (rest.size() < statements.size()) {
      loop->body() = std::move(rest);
    }
  }

  // What differs from element to element or is not the loop's own; nullopt: a statement writes no
  // tensor.
  std::optional<Tensors> movingTensors(const ForLoop* loop, const Statements& statements) const {
    Tensors own;
    Tensors moving;
    size_t before = 0;
    do {
      before = moving.size();
      for (const Expr* e : statements) {
        if (const auto* a = tryAs<Allocate>(e)) {
          own.insert(a->tv());
          continue;
        }
        const TensorIndex* target = targetOf(e);
        if (target == nullptr) {
          return std::nullopt;
        }
        const bool moves = readsWith(target->index(), loop->index()) ||
                           std::any_of(e->inputs().begin(), e->inputs().end(), [&](const Val* in) {
                             return !isEqualAlong(in, loop) || readsAny(in, moving);
                           });
        if (moves || own.count(target->view()) == 0) {
          moving.insert(target->view());
        }
      }
    } while (moving.size() > before);
    return moving;
  }

  // The same in all iterations: what reads no index of the loop, or elements that are one value.
  bool isEqualAlong(const Val* v, const ForLoop* loop) const {
    return !holdsBehind(v, [&](const Val* each) {
      const auto* element = tryAs<TensorIndex>(each);
      if (element == nullptr) {
        return each->sameAs(loop->index());
      }
      const auto known = uniform_.find(element->view());
      const bool are_one = known != uniform_.end() && known->second % elementsOf(loop) == 0 &&
                           firstOf(loop, element) != nullptr;
      return readsWith(element->index(), loop->index()) && !are_one;
    });
  }

  static bool readsAny(const Val* v, const Tensors& tensors) {
    return holdsBehind(v, [&](const Val* each) {
      const auto* element = tryAs<TensorIndex>(each);
      return element != nullptr &&
             (tensors.count(element->view()) != 0 || readsAny(element->index(), tensors));
    });
  }

  void computeRowOnce(ForLoop* loop, Statements& out) {
    const Mover first(ctx_, loop->index(), ctx_.kernel()->zeroVal());
    const Statements row = run(first.moved(loop->body()));
    out.insert(out.end(), row.begin(), row.end());
    ForLoop* copies = loop->emptyCopy();
    std::vector<TensorView*> written;
    collectRows(loop->body(), written);
    for (TensorView* tv : written) {
      const int64_t length = rows_.at(tv).length;
      Val* k = length == 1
                   ? ctx_.kernel()->zeroVal()
                   : B::create<NamedScalar>("k" + std::to_string(loop->loopId()), DataType::Index);
      Val* to = B::addExpr(B::mulExpr(B::index(length), loop->index()), k);
      ForLoop* elements = loop->like(k, B::index(length), ParallelType::Unroll);
      elements->body().push_back(copyElement(tv, ctx_.simplified(to), k));
      copies->body().push_back(elements);
    }
    out.push_back(copies);
  }

  void collectRows(const Statements& list, std::vector<TensorView*>& written) const {
    for (const Expr* e : list) {
      if (const auto* inner = tryAs<ForLoop>(e)) {
        collectRows(inner->body(), written);
      } else if (const auto* branch = tryAs<IfThenElse>(e)) {
        collectRows(branch->thenBody(), written);
        collectRows(branch->elseBody(), written);
      } else if (const TensorIndex* target = targetOf(e)) {
        const bool is_listed =
            std::find(written.begin(), written.end(), target->view()) != written.end();
        if (rows_.count(target->view()) != 0 && !is_listed) {
          written.push_back(target->view());
        }
      }
    }
  }

  void computeElementOnce(ForLoop* loop, Statements& out) {
    const Mover first(ctx_, loop->index(), ctx_.kernel()->zeroVal());
    ForLoop* copies = loop->emptyCopy();
    for (Expr* e : statementsOf(loop)) {
      out.push_back(first.moved(e));
      const TensorIndex* target = targetOf(e);
      if (target != nullptr && readsWith(target->index(), loop->index())) {
        copies->body().push_back(
            copyElement(target->view(), target->index(), firstOf(loop, target)));
      }
    }
    out.push_back(copies);
  }

  static Expr* copyElement(TensorView* tv, Val* to, Val* from) {
    return B::create<LoadStoreOp>(LoadStoreOpType::Set, B::create<TensorIndex>(tv, to),
                                  B::create<TensorIndex>(tv, from));
  }

  LowerContext& ctx_;
  UniformElements& uniform_;
  std::unordered_map<const TensorView*, int64_t> sizes_; // of registers, in elements
  Tensors differing_;
  KnownRows rows_;
};

} // namespace

int64_t elementsOf(const ForLoop* loop) {
  const int64_t iterations = unrolledIterations(loop);
  if (iterations == 0) {
    return 0;
  }
  const Statements statements = statementsOf(loop);
  return std::all_of(statements.begin(), statements.end(), isSimple) ? iterations : 0;
}

Statements statementsOf(const ForLoop* loop) {
  Statements out;
  for (Expr* e : loop->body()) {
    const auto* inner = tryAs<ForLoop>(e);
    if (inner != nullptr && inner->extent()->isOneInt()) {
      const Statements statements = statementsOf(inner);
      out.insert(out.end(), statements.begin(), statements.end());
    } else {
      out.push_back(e);
    }
  }
  return out;
}

bool readsWith(const Val* v, const Val* symbol) {
  return holdsBehind(v, [&](const Val* each) {
    const auto* element = tryAs<TensorIndex>(each);
    return element != nullptr ? readsWith(element->index(), symbol) : each->sameAs(symbol);
  });
}

Statements computeUniformElements(LowerContext& ctx, const Statements& nest,
                                  UniformElements& uniform) {
  return UniformComputer(ctx, uniform).computed(nest);
}

} // namespace nvfuser
