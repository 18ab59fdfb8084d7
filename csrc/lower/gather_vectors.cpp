// SPDX-License-Identifier: BSD-3-Clause
// Pass: elements of an input that lie in a few vectors are loaded by these.
//
//   for j < 8: T[j] = in[16 * i + 2 * j + 1]
//       ->    W[0..7] = in[16 * i ..]; W[8..15] = in[16 * i + 8 ..]
//             for j < 8: T[j] = W[2 * j + 1]
//
// The loops of a kernel run along its outputs. Along them an input may be every second element (two
// interleaved halves), a part of the loop's dimensions (a weight for each channel, where the loops
// run over all dimensions at once), or a line at a position that is data (a lookup). None of these
// is an access that the schedule can vectorize, but the indices show that what a thread reads is in
// aligned vectors. Several loops that pick from the same vectors load them once: the compiler sees
// that.
#include <lower/gather_vectors.h>

#include <id_model/layout.h>
#include <ir/builder.h>
#include <ir/evaluator.h>
#include <ir/visitor.h>
#include <kernel/traverse.h>
#include <machine.h>

#include <algorithm>
#include <optional>

namespace nvfuser {

namespace {

class VectorGatherer : public StatementRewriter {
 public:
  VectorGatherer(LowerContext& ctx, const UniformElements& uniform)
      : ctx_(ctx), uniform_(uniform) {}

 private:
  using B = IrBuilder;

  void rewrite(Expr* e, Statements& out) override {
    auto* loop = tryAs<ForLoop>(e);
    if (loop != nullptr && elementsOf(loop) > 0) {
      gather(loop, out);
      out.push_back(e);
    } else {
      StatementRewriter::rewrite(e, out);
    }
  }

  // Element `offset + stride * j` of `width`-wide vectors that begin at `begin`.
  struct Span {
    Val* begin;
    int64_t offset;
    int64_t stride;
    int64_t width;
    int64_t vectors;
  };

  void gather(ForLoop* loop, Statements& before) {
    Statements body;
    const Statements statements = statementsOf(loop);
    for (Expr* e : statements) {
      Expr* changed = e;
      for (size_t i = 0; e->kind() != ExprKind::Allocate && i < e->inputs().size(); ++i) {
        auto* element = tryAs<TensorIndex>(e->input(i));
        if (element == nullptr || !isAligned(element->view())) {
          continue;
        }
        const std::optional<Val*> guard = guardOf(e, i, loop);
        const std::optional<Span> span =
            guard.has_value() ? spanOf(element, loop) : std::optional<Span>();
        if (span.has_value()) {
          TensorView* vectors = load(element->view(), *span, loop, *guard, before);
          changed = withInput(changed, i, picked(vectors, *span, loop), *guard != nullptr);
        }
      }
      body.push_back(changed);
    }
    if (body != statements) {
      loop->body() = std::move(body);
    }
  }

  bool isAligned(const TensorView* tv) const {
    const auto& aligned = ctx_.kernel()->alignedInputs();
    return std::find(aligned.begin(), aligned.end(), tv) != aligned.end();
  }

  // Under which the element is read: a lookup's position is inside. Null: always; nullopt: it
  // depends on the element.
  std::optional<Val*> guardOf(const Expr* e, size_t input, const ForLoop* loop) const {
    const auto* op = tryAs<ElementwiseOp>(e);
    if (op == nullptr || op->op() != OpType::Where) {
      return nullptr;
    }
    Val* condition = sameForAll(op->in(0), loop);
    if (input != 1 || !isKnownBefore(condition, loop)) {
      return std::nullopt;
    }
    return condition;
  }

  // With equal elements of registers replaced by the first of them.
  Val* sameForAll(Val* v, const ForLoop* loop) const {
    return B::replaced(v, [&](Val* x) -> Val* {
      auto* element = tryAs<TensorIndex>(x);
      if (element == nullptr) {
        return nullptr;
      }
      const auto block = uniform_.find(element->view());
      if (block == uniform_.end() || block->second % elementsOf(loop) != 0) {
        return x;
      }
      Val* first = ctx_.simplified(B::subExpr(element->index(), loop->index()));
      const bool is_block =
          !readsWith(first, loop->index()) && provablyDivisible(first, loop->extent());
      return is_block ? B::create<TensorIndex>(element->view(), first) : x;
    });
  }

  // Depends on nothing that the loop computes.
  bool isKnownBefore(const Val* v, const ForLoop* loop) const {
    return !holdsBehind(v, [&](const Val* each) {
      const auto* element = tryAs<TensorIndex>(each);
      return element == nullptr
                 ? each->sameAs(loop->index())
                 : isWrittenIn(element->view(), loop) || !isKnownBefore(element->index(), loop);
    });
  }

  static bool isWrittenIn(const TensorView* tv, const ForLoop* loop) {
    const Statements statements = statementsOf(loop);
    return std::any_of(statements.begin(), statements.end(), [&](const Expr* e) {
      const auto* out =
          e->kind() == ExprKind::Allocate ? nullptr : tryAs<TensorIndex>(e->output(0));
      return out != nullptr && out->view() == tv;
    });
  }

  // Values of tensors in an index, and what stands for them while it is looked at.
  using Symbols = std::vector<std::pair<Val*, Val*>>;

  static bool isData(const Val* v) {
    const auto* op = tryAs<ElementwiseOp>(v->definition());
    return tryAs<TensorIndex>(v) != nullptr ||
           (op != nullptr && op->op() == OpType::Cast && isData(op->in(0)));
  }

  static Val* withSymbols(Val* v, Symbols& symbols) {
    return B::replaced(v, [&](Val* x) -> Val* {
      if (!isData(x)) {
        return nullptr;
      }
      for (const auto& [value, symbol] : symbols) {
        if (value->sameAs(x)) {
          return symbol;
        }
      }
      // Data may be negative, which no unknown Index is.
      symbols.emplace_back(x, B::create<Val>(DataType::Int));
      return symbols.back().second;
    });
  }

  static Val* withValues(Val* v, const Symbols& symbols) {
    return B::replaced(v, [&](Val* x) -> Val* {
      for (const auto& [value, symbol] : symbols) {
        if (x == symbol) {
          return value;
        }
      }
      return nullptr;
    });
  }

  static Val* inIteration(Val* v, const ForLoop* loop, int64_t iteration) {
    return B::replaced(v, [&](Val* x) -> Val* {
      return x->sameAs(loop->index()) ? B::index(iteration) : nullptr;
    });
  }

  std::optional<Span> spanOf(const TensorIndex* element, const ForLoop* loop) const {
    Symbols symbols;
    Val* index = withSymbols(sameForAll(element->index(), loop), symbols);
    const bool is_known = std::all_of(symbols.begin(), symbols.end(), [&](const auto& symbol) {
      return isKnownBefore(symbol.first, loop);
    });
    Val* first = ctx_.simplified(inIteration(index, loop, 0));
    const Val* step = ctx_.simplified(B::subExpr(inIteration(index, loop, 1), first));
    if (!step->isConstInt() || !is_known || !isKnownBefore(first, loop)) {
      return std::nullopt;
    }
    const auto stride = step->intValue();
    Val* line = B::addExpr(first, B::mulExpr(B::index(stride), loop->index()));
    if (stride < 1 || !ctx_.simplified(B::subExpr(index, line))->isZeroInt()) {
      return std::nullopt;
    }
    const int64_t bits = dataTypeSizeBits(element->view()->dtype());
    const int64_t elements = stride * elementsOf(loop);
    for (int64_t width = 8 * kVectorBytes / bits; width > stride; width /= 2) {
      if (elements % width != 0 || !holdsWholeVectors(element->view(), width)) {
        continue;
      }
      for (int64_t offset = 0; offset < stride; ++offset) {
        Val* begin = ctx_.simplified(B::subExpr(first, B::index(offset)));
        if (isMultiple(begin, width)) {
          return Span{withValues(begin, symbols), offset, stride, width, elements / width};
        }
      }
    }
    return std::nullopt;
  }

  // Its memory is a number of vectors, so that those which hold an element lie in it.
  bool holdsWholeVectors(const TensorView* tv, int64_t width) const {
    Val* size = ctx_.kernel()->oneVal();
    for (const MemoryDim& dim : memoryDims(tv)) {
      if (!dim.contiguous) {
        return false;
      }
      size = B::mulExpr(size, ctx_.ids().canonical(dim.id->extent()));
    }
    return isMultiple(ctx_.simplified(size), width);
  }

  // By its own factors, or because launches check that something of it is one.
  bool isMultiple(Val* v, int64_t width) const {
    if (provablyDivisible(v, B::index(width)) || isCheckedMultiple(v, width)) {
      return true;
    }
    const auto* op = tryAs<ElementwiseOp>(v->definition());
    if (op == nullptr || op->inputs().size() != 2) {
      return false;
    }
    switch (op->op()) {
      case OpType::Mul:
        return isMultiple(op->in(0), width) || isMultiple(op->in(1), width);
      case OpType::Add:
      case OpType::Sub:
        return isMultiple(op->in(0), width) && isMultiple(op->in(1), width);
      default:
        return false;
    }
  }

  bool isCheckedMultiple(const Val* v, int64_t width) const {
    const auto& checks = ctx_.kernel()->divisibility_checks;
    return std::any_of(checks.begin(), checks.end(), [&](const DivisibilityCheck& c) {
      return c.factor->isConstInt() && c.factor->intValue() % width == 0 && c.value->sameAs(v);
    });
  }

  TensorView* load(TensorView* from, const Span& span, const ForLoop* loop, Val* guard,
                   Statements& out) {
    auto* to = B::create<TensorView>(from->domain(), from->dtype());
    auto* registers = B::create<Allocate>(
        to, MemoryType::Local, B::index(span.vectors * span.width), static_cast<int>(span.width));
    registers->setZeroed(guard != nullptr);
    out.push_back(registers);
    Statements loads;
    for (int64_t k = 0; k < span.vectors; ++k) {
      Val* at = B::index(k * span.width);
      Val* in_memory = ctx_.simplified(B::addExpr(span.begin, at));
      auto* vector = B::create<ForLoop>(loop->iterDomain(), ctx_.kernel()->zeroVal(),
                                        B::index(span.width), ParallelType::Vectorize, -1);
      vector->body().push_back(B::create<LoadStoreOp>(LoadStoreOpType::Set,
                                                      B::create<TensorIndex>(to, at),
                                                      B::create<TensorIndex>(from, in_memory)));
      loads.push_back(vector);
    }
    if (guard != nullptr) {
      auto* branch = B::create<IfThenElse>(guard);
      branch->thenBody() = std::move(loads);
      loads = {branch};
    }
    out.insert(out.end(), loads.begin(), loads.end());
    noteAccess(from, static_cast<int>(span.width));
    return to;
  }

  void noteAccess(TensorView* tv, int width) {
    auto& accesses = ctx_.kernel()->vector_accesses;
    const bool is_known = std::any_of(accesses.begin(), accesses.end(), [&](const auto& a) {
      return a.tv == tv && a.width == width;
    });
    if (!is_known) {
      accesses.push_back({tv, width});
    }
  }

  Val* picked(TensorView* vectors, const Span& span, const ForLoop* loop) const {
    Val* at = B::addExpr(B::mulExpr(B::index(span.stride), loop->index()), B::index(span.offset));
    return B::create<TensorIndex>(vectors, ctx_.simplified(at));
  }

  // Vectors that are loaded under a guard are zero without it.
  static Expr* withInput(const Expr* e, size_t i, Val* input, bool is_guarded) {
    std::vector<Val*> in = e->inputs();
    in[i] = input;
    if (e->kind() == ExprKind::LoadStoreOp || (is_guarded && isZero(in[2]))) {
      in[0] = input;
      return B::create<LoadStoreOp>(LoadStoreOpType::Set, e->output(0), in[0]);
    }
    return B::create<ElementwiseOp>(static_cast<const ElementwiseOp*>(e)->op(), e->output(0), in);
  }

  static bool isZero(const Val* v) {
    return v->isConst() &&
           v->sameAs(B::create<Val>(convertScalar(int64_t{0}, v->dtype()), v->dtype()));
  }

  LowerContext& ctx_;
  const UniformElements& uniform_;
};

} // namespace

Statements gatherVectors(LowerContext& ctx, const Statements& nest,
                         const UniformElements& uniform) {
  return ctx.kernel()->alignedInputs().empty() ? nest : VectorGatherer(ctx, uniform).run(nest);
}

} // namespace nvfuser
