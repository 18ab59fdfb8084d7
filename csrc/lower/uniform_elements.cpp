// SPDX-License-Identifier: BSD-3-Clause
// Pass: elements of a vector that are one value are computed once.
//
//   for j < 8: T[a + j] = f(i)    ->    T[a] = f(i); for j < 8: T[a + j] = T[a]
//
// A tensor that has outer dimensions only (a random number for each sample, positions along an
// outer dimension) is computed in loops over vectors as all others are. The compiler does find that
// the elements are equal, but only where it may inline and move everything: a Philox block or a
// lookup stays in the loop.
#include <lower/uniform_elements.h>

#include <ir/builder.h>
#include <lower/moved.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

constexpr int64_t kMostElements = 16;

class UniformComputer {
 public:
  UniformComputer(LowerContext& ctx, UniformElements& uniform) : ctx_(ctx), uniform_(uniform) {}

  Statements run(const Statements& nest) {
    Statements out = replaced(nest);
    for (const TensorView* tv : written_otherwise_) {
      uniform_.erase(tv);
    }
    return out;
  }

 private:
  using B = IrBuilder;

  Statements replaced(const Statements& nest) {
    Statements out;
    for (Expr* e : nest) {
      auto* loop = dynamic_cast<ForLoop*>(e);
      if (loop != nullptr && isUniform(loop)) {
        computeOnce(loop, out);
        continue;
      }
      if (loop != nullptr) {
        loop->body() = replaced(loop->body());
      } else if (auto* branch = dynamic_cast<IfThenElse*>(e)) {
        branch->thenBody() = replaced(branch->thenBody());
        branch->elseBody() = replaced(branch->elseBody());
      } else {
        noteWrites(e);
      }
      out.push_back(e);
    }
    return out;
  }

  void noteWrites(const Expr* e) {
    for (const Val* v : e->outputs()) {
      if (const auto* element = dynamic_cast<const TensorIndex*>(v)) {
        written_otherwise_.insert(element->view());
      }
    }
    if (const auto* copy = dynamic_cast<const BufferCopy*>(e)) {
      written_otherwise_.insert(copy->to());
    }
  }

  // The first of the block of equal elements that the statement writes in the loop; null: it writes
  // something else.
  Val* firstOf(const ForLoop* loop, const TensorIndex* target) const {
    Val* first = ctx_.simplified(B::subExpr(target->index(), loop->index()));
    return !readsWith(first, loop->index()) && provablyDivisible(first, loop->extent()) ? first
                                                                                         : nullptr;
  }

  bool isUniform(const ForLoop* loop) const {
    if (elementsOf(loop) == 0) {
      return false;
    }
    std::unordered_set<const TensorView*> own;
    bool has_block = false;
    bool computes = false;
    for (const Expr* e : statementsOf(loop)) {
      if (const auto* a = dynamic_cast<const Allocate*>(e)) {
        own.insert(a->tv());
        continue;
      }
      const bool moves = std::any_of(e->inputs().begin(), e->inputs().end(), [&](const Val* in) {
        return readsWith(in, loop->index());
      });
      const auto* target = dynamic_cast<const TensorIndex*>(e->output(0));
      if (moves || target == nullptr || target->view()->getMemoryType() != MemoryType::Local) {
        return false;
      }
      if (own.count(target->view()) == 0 || readsWith(target->index(), loop->index())) {
        if (firstOf(loop, target) == nullptr) {
          return false;
        }
        has_block = true;
      }
      // A constant or a copy is as well written to each.
      const auto* copy = dynamic_cast<const LoadStoreOp*>(e);
      const auto* from = copy == nullptr ? nullptr : dynamic_cast<const TensorIndex*>(copy->in());
      computes = computes || copy == nullptr ||
                 (from != nullptr && from->view()->getMemoryType() == MemoryType::Global) ||
                 (from == nullptr && !copy->in()->isConst());
    }
    return has_block && computes;
  }

  void computeOnce(ForLoop* loop, Statements& out) {
    const Mover first(ctx_, loop->index(), ctx_.kernel()->zeroVal());
    ForLoop* copies = loop->emptyCopy();
    for (Expr* e : statementsOf(loop)) {
      out.push_back(first.moved(e));
      const auto* target = e->kind() == ExprKind::Allocate
                               ? nullptr
                               : dynamic_cast<const TensorIndex*>(e->output(0));
      if (target == nullptr || !readsWith(target->index(), loop->index())) {
        continue;
      }
      TensorView* tv = target->view();
      Val* from = B::create<TensorIndex>(tv, firstOf(loop, target));
      Val* to = B::create<TensorIndex>(tv, target->index());
      copies->body().push_back(B::create<LoadStoreOp>(LoadStoreOpType::Set, to, from));
      const auto [known, is_new] = uniform_.emplace(tv, elementsOf(loop));
      known->second = std::min(known->second, elementsOf(loop));
    }
    out.push_back(copies);
  }

  LowerContext& ctx_;
  UniformElements& uniform_;
  std::unordered_set<const TensorView*> written_otherwise_;
};

} // namespace

int64_t elementsOf(const ForLoop* loop) {
  if (loop->isTrivial() || loop->index()->isConst() || loop->first() != nullptr ||
      loop->parallelType() == ParallelType::Vectorize || !loop->extent()->isConstInt()) {
    return 0;
  }
  const auto extent = std::get<int64_t>(loop->extent()->value());
  const Statements statements = statementsOf(loop);
  const bool is_plain = std::all_of(statements.begin(), statements.end(), [](const Expr* e) {
        const ExprKind kind = e->kind();
        return kind == ExprKind::LoadStoreOp || kind == ExprKind::ElementwiseOp ||
               kind == ExprKind::RandomNumber || kind == ExprKind::Allocate;
      });
  return is_plain && extent > 1 && extent <= kMostElements ? extent : 0;
}

Statements statementsOf(const ForLoop* loop) {
  Statements out;
  for (Expr* e : loop->body()) {
    const auto* inner = dynamic_cast<const ForLoop*>(e);
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
  if (const auto* element = dynamic_cast<const TensorIndex*>(v)) {
    return readsWith(element->index(), symbol);
  }
  if (v->sameAs(symbol)) {
    return true;
  }
  const Expr* def = v->definition();
  return def != nullptr && std::any_of(def->inputs().begin(), def->inputs().end(),
                                       [&](auto* in) { return readsWith(in, symbol); });
}

Statements computeUniformElements(LowerContext& ctx, const Statements& nest,
                                  UniformElements& uniform) {
  return UniformComputer(ctx, uniform).run(nest);
}

} // namespace nvfuser
