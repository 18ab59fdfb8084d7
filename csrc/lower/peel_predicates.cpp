// SPDX-License-Identifier: BSD-3-Clause
// Pass: predicates that some iterations of an unrolled loop do not need.
//
//   for j < 5: if 0 <= f(j) < n: ...    ->    for j < 5: if (1 <= j <= 3) || 0 <= f(j) < n: ...
//
// A thread's vectors of a row are whole but for the first and the last. The compiler does not see
// that, as it does not know how many blocks share a row, and prints the way for partial vectors for
// each of them: warps then jump over most of the kernel, and wait for the instructions behind it.
// Nor does it make use of how many threads there are: of a row that is no multiple of a block's
// threads only the last iteration needs the predicate, and loads without one are issued together.
// (Told the range of threadIdx, it divides in 16 bits, which takes more instructions.) The first
// pass over what was loaded keeps the predicate.
//
// Loads of vectors that begin anywhere (Kernel::unaligned_loads) are told in which iterations they
// lie within the tensor: they need not look for the nearest elements there.
#include <ir/builder.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/moved.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

class CertainIterations : public StatementRewriter {
 public:
  // `from_start`: only iterations from the first one on are looked for.
  CertainIterations(LowerContext& ctx, bool from_start) : ctx_(ctx), from_start_(from_start) {}

 private:
  using B = IrBuilder;

  void rewrite(Expr* e, Statements& out) override {
    if (const auto* branch = tryAs<IfThenElse>(e)) {
      return out.push_back(relaxed(branch));
    }
    const auto* loop = tryAs<ForLoop>(e);
    const bool has_iterations = loop != nullptr && !loop->isTrivial() && loop->isUnrolled() &&
                                loop->extent()->isConstInt() && !loop->index()->isConst();
    if (has_iterations) {
      unrolled_.push_back(loop);
    }
    if (const LoadStoreOp* copy = loop == nullptr ? nullptr : vectorCopyIn(loop)) {
      noteWholeVectors(copy, loop->extent());
    }
    const bool is_serial = loop != nullptr && !loop->isTrivial() && !loop->isUnrolled();
    serial_loops_ += is_serial ? 1 : 0;
    StatementRewriter::rewrite(e, out);
    serial_loops_ -= is_serial ? 1 : 0;
    if (has_iterations) {
      unrolled_.pop_back();
    }
    if (unrolled_.empty()) {
      std::erase_if(on_the_way_, [&](const TensorView* tv) { return waited_for_.contains(tv); });
      waited_for_.clear();
    }
  }

  Val* inIteration(Val* condition, const ForLoop* loop, int64_t iteration) const {
    return Mover(ctx_, loop->index(), B::index(iteration)).moved(condition);
  }

  // Where a launch computes a rest = extent - part, the extent is part + rest, and the rest at
  // least 1: rows of any length that fill all iterations but the last say so.
  Val* withRests(Val* condition) const {
    for (const LaunchNumber& n : ctx_.kernel()->launchNumbers()) {
      const auto* def = tryAs<ElementwiseOp>(n.value->definition());
      if (def == nullptr || def->op() != OpType::Sub) {
        continue;
      }
      Val* whole = ctx_.ids().canonical(def->in(0));
      if (whole->definition() == nullptr && !whole->isConst()) {
        condition = Mover(ctx_, whole, B::addExpr(def->in(1), n.number)).moved(condition);
      }
    }
    return condition;
  }

  // Where a guard says that a thread takes part, its index is below their number.
  Val* withMembers(Val* condition) const {
    for (const LowerContext::Members& m : ctx_.members()) {
      const Val* takes_part = B::ltExpr(m.index, m.extent);
      if (std::any_of(guards_.begin(), guards_.end(),
                      [&](const Val* g) { return g->sameAs(takes_part); })) {
        condition = Mover(ctx_, m.index, m.member).moved(condition);
      }
    }
    return condition;
  }

  // The one unrolled loop that the condition depends on.
  const ForLoop* loopOf(const Val* condition) const {
    const ForLoop* out = nullptr;
    for (const ForLoop* loop : unrolled_) {
      if (dependsOn(condition, loop->index())) {
        if (out != nullptr) {
          return nullptr;
        }
        out = loop;
      }
    }
    return out;
  }

  IfThenElse* relaxed(const IfThenElse* branch) {
    const Statements else_body = run(branch->elseBody());
    const size_t outer = guards_.size();
    collectTerms(branch->condition(), guards_);
    auto* out = B::create<IfThenElse>(waitsForLoads(branch) ? branch->condition()
                                                            : relaxedCondition(branch));
    out->elseBody() = else_body;
    out->thenBody() = run(branch->thenBody());
    guards_.resize(outer);
    return out;
  }

  static bool isOfMemory(const Val* v, MemoryType type) {
    const auto* element = v == nullptr ? nullptr : tryAs<TensorIndex>(v);
    return element != nullptr && element->view()->getMemoryType() == type;
  }

  static bool readsGlobal(const std::vector<const Val*>& read) {
    return std::any_of(read.begin(), read.end(),
                       [](const Val* v) { return isOfMemory(v, MemoryType::Global); });
  }

  static bool loads(const Expr* e) {
    return bodiesOf(e).empty() && readsGlobal(accessesOf(e).read); // no condition or extent
  }

  // Whether the statements are the first to read registers that were loaded. They keep their
  // predicates: the compiler would sum whole iterations before it issues the other loads (measured,
  // docs/measurements/normalizations.md, Rows in registers). In a loop over rows the next row's
  // loads are under way meanwhile.
  bool waitsForLoads(const IfThenElse* branch) {
    if (!from_start_ || serial_loops_ > 0 || loopOf(branch->condition()) == nullptr) {
      return false;
    }
    bool waits = false;
    forEachStatement(branch->thenBody(), [&](const Expr* e) {
      if (!bodiesOf(e).empty()) {
        return;
      }
      const std::vector<const Val*> read = accessesOf(e).read;
      if (readsGlobal(read)) {
        for (const Val* out : e->outputs()) {
          if (isOfMemory(out, MemoryType::Local)) {
            on_the_way_.insert(out->as<TensorIndex>()->view());
          }
        }
        return;
      }
      for (const Val* v : read) {
        if (isOfMemory(v, MemoryType::Local) &&
            on_the_way_.contains(v->as<TensorIndex>()->view())) {
          waited_for_.insert(v->as<TensorIndex>()->view());
          waits = true;
        }
      }
    });
    return waits;
  }

  // first <= j < end
  struct Iterations {
    int64_t first = 0;
    int64_t end = 0;
  };

  // The first ones in a row for which the condition, or one that implies it, holds.
  Iterations certainIterations(Val* condition, Val* implied_by, const ForLoop* loop) const {
    const bool has_stronger = implied_by != nullptr && loopOf(implied_by) == loop;
    const auto iterations = loop->extent()->intValue();
    auto holds = [&](Val* each, int64_t iteration) {
      return isTrue(withMembers(withRests(inIteration(each, loop, iteration))));
    };
    auto isCertain = [&](int64_t iteration) {
      return holds(condition, iteration) || (has_stronger && holds(implied_by, iteration));
    };
    Iterations out;
    while (out.first < (from_start_ ? 1 : iterations) && !isCertain(out.first)) {
      ++out.first;
    }
    if (out.first == iterations || (from_start_ && out.first > 0)) {
      return {};
    }
    out.end = out.first;
    while (out.end < iterations && isCertain(out.end)) {
      ++out.end;
    }
    return out;
  }

  Val* isOneOf(const Iterations& range, const ForLoop* loop) const {
    return ctx_.simplified(B::logicalAndExpr(B::geExpr(loop->index(), B::index(range.first)),
                                             B::ltExpr(loop->index(), B::index(range.end))));
  }

  void noteWholeVectors(const LoadStoreOp* copy, Val* width) {
    const auto& unaligned = ctx_.kernel()->unaligned_loads;
    const TensorView* to = copy->output(0)->as<TensorIndex>()->view();
    const auto extent = unaligned.find(to);
    if (extent == unaligned.end() || to->getMemoryType() != MemoryType::Local) {
      return;
    }
    Val* first = copy->input(0)->as<TensorIndex>()->index();
    Val* is_inside =
        ctx_.simplified(B::logicalAndExpr(B::geExpr(first, ctx_.kernel()->zeroVal()),
                                          B::leExpr(B::addExpr(first, width), extent->second)));
    const ForLoop* loop = loopOf(is_inside);
    const Iterations certain =
        loop == nullptr ? Iterations() : certainIterations(is_inside, nullptr, loop);
    // Of several copies of the statement all have to agree.
    Val* whole = certain.first == certain.end ? nullptr : isOneOf(certain, loop);
    const auto [noted, is_new] = ctx_.kernel()->whole_vectors.try_emplace(to, whole);
    if (!is_new &&
        (whole == nullptr || noted->second == nullptr || !noted->second->sameAs(whole))) {
      noted->second = nullptr;
    }
  }

  // What does not depend on the loop stays as it is.
  Val* relaxedCondition(const IfThenElse* branch) const {
    const ForLoop* loop = loopOf(branch->condition());
    if (loop == nullptr) {
      return branch->condition();
    }
    std::vector<Val*> terms;
    collectTerms(branch->condition(), terms);
    Val* fixed = nullptr;
    Val* moving = nullptr;
    for (Val* term : terms) {
      Val*& part = dependsOn(term, loop->index()) ? moving : fixed;
      part = part == nullptr ? term : B::logicalAndExpr(part, term);
    }
    const Iterations certain = certainIterations(moving, branch->impliedBy(), loop);
    if (certain.first == certain.end) {
      return branch->condition();
    }
    // Loads with a predicate are issued behind what others without one are waited for: all have it,
    // but for one (measured, docs/measurements/normalizations.md, Columns).
    if (from_start_ && certain.end + 1 < loop->extent()->intValue() &&
        holdsWithin(branch->thenBody(), loads)) {
      return branch->condition();
    }
    Val* is_certain = isOneOf(certain, loop);
    Val* either = is_certain->sameAs(moving) ? moving : B::logicalOrExpr(is_certain, moving);
    return fixed == nullptr ? either : B::logicalAndExpr(fixed, either);
  }

  LowerContext& ctx_;
  const bool from_start_;
  std::vector<const ForLoop*> unrolled_;
  std::vector<Val*> guards_;                         // that hold here
  int serial_loops_ = 0;                             // around this
  std::unordered_set<const TensorView*> on_the_way_; // loaded, and not read yet
  std::unordered_set<const TensorView*> waited_for_; // read first by the loops around this
};

} // namespace

Statements peelPredicates(LowerContext& ctx, const Statements& nest,
                          const PartialVectors& partial_vectors, bool threads_in_loops) {
  const bool from_start = partial_vectors.empty() && ctx.kernel()->launchNumbers().empty();
  return from_start && threads_in_loops ? nest : CertainIterations(ctx, from_start).run(nest);
}

} // namespace nvfuser
