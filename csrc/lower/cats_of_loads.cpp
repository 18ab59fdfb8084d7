// SPDX-License-Identifier: BSD-3-Clause
// Pass: what is concatenated of loads is loaded where it is put together.
//
//   for j: if j < 12: A[j] = x[j]
//   for j: if 12 <= j < 24: B[j] = y[j - 12]
//   for j: C[j] = j < 12 ? A[j] : B[j]
//
//       ->    for j: if j < 12 || 12 <= j < 24: C[j] = *(j < 12 ? &x[j] : &y[j - 12])
//
// The parts take no registers and no element is chosen: compilers unpack and pack the halves of
// words for that, and keep all parts until the last one has come. Guards keep each load within its
// own extents, so that of each element one alone would be made. A part may be a concatenation
// itself, as in a rotation of two dimensions.
#include <ir/builder.h>
#include <ir/visitor.h>
#include <lower/moved.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

namespace {

using B = IrBuilder;

bool isCopy(const Expr* e) {
  const auto* copy = dynamic_cast<const LoadStoreOp*>(e);
  return copy != nullptr && copy->type() == LoadStoreOpType::Set && copy->in()->isTensor();
}

// A load with the loops and conditions around it and nothing else in these.
struct GuardedLoad {
  std::vector<const ForLoop*> loops;
  Val* condition = nullptr;
  const LoadStoreOp* load = nullptr;
};

std::optional<GuardedLoad> guardedLoad(const Expr* e) {
  GuardedLoad out;
  while (e->kind() != ExprKind::LoadStoreOp) {
    const Statements* body = nullptr;
    if (const auto* loop = dynamic_cast<const ForLoop*>(e)) {
      out.loops.push_back(loop);
      body = &loop->body();
    } else if (const auto* branch = dynamic_cast<const IfThenElse*>(e);
               branch != nullptr && branch->elseBody().empty()) {
      Val* more = branch->condition();
      out.condition = out.condition == nullptr ? more : B::logicalAndExpr(out.condition, more);
      body = &branch->thenBody();
    }
    if (body == nullptr || body->size() != 1) {
      return std::nullopt;
    }
    e = body->front();
  }
  out.load = static_cast<const LoadStoreOp*>(e);
  return out;
}

class CatsOfLoads {
 public:
  CatsOfLoads(LowerContext& ctx, const PartialVectors& partial_vectors)
      : ctx_(ctx), partial_vectors_(partial_vectors) {}

  Statements run(Statements nest) {
    for (const Expr* e : ctx_.kernel()->exprs()) {
      if (e->kind() == ExprKind::CatOp) {
        collect(static_cast<const CatOp*>(e));
      }
    }
    if (!cats_.empty()) {
      join(nest);
      settle();
    }
    if (!joined_loads_.empty()) {
      nest = cleared(nest);
    }
    return nest;
  }

 private:
  struct Cat {
    std::vector<TensorView*> loads;
    std::vector<TensorView*> between; // copies of these, padded, and what they are part of
    // The statements that load the parts, and what takes their place: of each copy of these.
    std::vector<std::pair<std::vector<const Expr*>, Expr*>> joined;
  };
  // What a part of a concatenation comes from.
  struct Source {
    TensorView* from = nullptr; // a load, or another concatenation; null: neither
    std::vector<TensorView*> between;
  };

  // --- which concatenations ---

  void collect(const CatOp* op) {
    auto* out = op->output(0)->as<TensorView>();
    if (out->getMemoryType() != MemoryType::Local) {
      return;
    }
    Cat cat;
    std::vector<TensorView*> inner;
    for (size_t k = 0; k < op->inputs().size(); ++k) {
      const Source source = sourceOf(op, k);
      if (source.from == nullptr) {
        return;
      }
      cat.between.insert(cat.between.end(), source.between.begin(), source.between.end());
      const auto part = cats_.find(source.from);
      if (part == cats_.end()) {
        cat.loads.push_back(source.from);
        continue;
      }
      const Cat& parts = part->second;
      cat.loads.insert(cat.loads.end(), parts.loads.begin(), parts.loads.end());
      cat.between.insert(cat.between.end(), parts.between.begin(), parts.between.end());
      cat.between.push_back(source.from);
      inner.push_back(source.from);
    }
    for (TensorView* part : inner) {
      cats_.erase(part);
    }
    cats_[out] = std::move(cat);
  }

  Source sourceOf(const CatOp* cat, size_t part) const {
    Source source;
    auto* out = cat->output(0)->as<TensorView>();
    auto* tv = cat->input(part)->as<TensorView>();
    while (tv->getMemoryType() == MemoryType::Local && tv->uses().size() == 1) {
      const Expr* def = tv->definition();
      const bool is_placed = def->kind() == ExprKind::PadOp && source.between.empty() &&
                             isPlaced(static_cast<const PadOp*>(def), cat, part);
      if (!is_placed && (cats_.count(tv) != 0 || isLoad(def))) {
        source.from = hasBufferOf(tv, out) ? tv : nullptr;
        return source;
      }
      // The same elements, perhaps in another shape.
      if (!is_placed && !isCopy(def) && def->kind() != ExprKind::SqueezeOp) {
        return source;
      }
      source.between.push_back(tv);
      tv = def->input(0)->as<TensorView>();
    }
    return source;
  }

  // Padded to the place of this part and by nothing else.
  bool isPlaced(const PadOp* pad, const CatOp* cat, size_t part) const {
    const auto dim = static_cast<size_t>(cat->dim());
    Val* begin = part == 0 ? ctx_.kernel()->zeroVal() : cat->ends()[part - 1];
    Val* behind = B::subExpr(cat->ends().back(), cat->ends()[part]);
    for (size_t d = 0; d < pad->left().size(); ++d) {
      if (d == dim ? !areEqual(pad->left()[d], begin) || !areEqual(pad->right()[d], behind)
                   : !pad->left()[d]->isZeroInt() || !pad->right()[d]->isZeroInt()) {
        return false;
      }
    }
    return true;
  }

  bool areEqual(Val* a, Val* b) const {
    Val* x = ctx_.ids().canonical(a);
    Val* y = ctx_.ids().canonical(b);
    return x->sameAs(y) || ctx_.simplified(B::subExpr(x, y))->isZeroInt();
  }

  bool isLoad(const Expr* e) const {
    if (!isCopy(e) || !e->input(0)->isFusionInput()) {
      return false;
    }
    const auto* tv = e->output(0)->as<TensorView>();
    const Kernel* kernel = ctx_.kernel();
    return ctx_.asyncBuffer(tv) == nullptr && !tv->isCircularBuffered() &&
           partial_vectors_.count(tv) == 0 && kernel->unaligned_loads.count(tv) == 0 &&
           kernel->shifted_loads.count(tv) == 0 && dataTypeSizeBits(tv->dtype()) % 8 == 0;
  }

  // The same elements in the same order, where the other's registers are known.
  bool hasBufferOf(const TensorView* tv, const TensorView* other) const {
    const std::vector<const Loop*> mine = ctx_.bufferLoops(tv);
    const std::vector<const Loop*> theirs = ctx_.bufferLoops(other);
    const TensorLoops& inner = ctx_.loops(tv);
    const TensorLoops& outer = ctx_.loops(other);
    return inner.shared >= outer.shared &&
           std::equal(outer.path.begin(),
                      outer.path.begin() + static_cast<std::ptrdiff_t>(outer.shared),
                      inner.path.begin()) &&
           std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                      [](const Loop* a, const Loop* b) { return a->group == b->group; });
  }

  // --- the load of all parts ---

  // Statements of one list; an unswitched loop has several copies of them.
  void join(const Statements& nest) {
    std::map<const TensorView*, std::pair<const Expr*, GuardedLoad>> loads;
    for (const Expr* e : nest) {
      for (const Statements* body : bodiesOf(e)) {
        join(*body);
      }
      if (e->kind() == ExprKind::LoadStoreOp) {
        ++copies_[writtenBy(e)];
      }
      if (const std::optional<GuardedLoad> guarded = guardedLoad(e)) {
        loads[writtenBy(guarded->load)] = {e, *guarded};
      }
    }
    for (auto& [tv, cat] : cats_) {
      std::vector<GuardedLoad> parts;
      std::vector<const Expr*> statements;
      for (const TensorView* load : cat.loads) {
        if (const auto it = loads.find(load); it != loads.end()) {
          statements.push_back(it->second.first);
          parts.push_back(it->second.second);
        }
      }
      Expr* load = parts.size() == cat.loads.size() ? joined(parts, tv) : nullptr;
      if (load != nullptr) {
        cat.joined.emplace_back(std::move(statements), load);
      }
    }
  }

  // Those of which all copies are joined.
  void settle() {
    for (const auto& [tv, cat] : cats_) {
      const bool are_joined =
          !cat.joined.empty() &&
          std::all_of(cat.loads.begin(), cat.loads.end(), [&](const TensorView* load) {
            return copies_.at(load) == cat.joined.size();
          });
      if (!are_joined) {
        continue;
      }
      for (const auto& [statements, load] : cat.joined) {
        for (const Expr* e : statements) {
          joined_loads_[e] = load;
        }
      }
      gone_.insert(cat.between.begin(), cat.between.end());
      gone_.insert(cat.loads.begin(), cat.loads.end());
      int& width = widths_.try_emplace(tv, 1).first->second;
      for (const TensorView* part : cat.loads) {
        width = std::max(width, ctx_.vectorWidth(part));
      }
    }
  }

  // Null where their loops differ.
  Expr* joined(const std::vector<GuardedLoad>& parts, TensorView* cat) {
    const GuardedLoad& first = parts.front();
    Val* any = nullptr;
    Val* chosen = nullptr;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (part->condition == nullptr || part->load->cacheOp() != first.load->cacheOp() ||
          !std::equal(part->loops.begin(), part->loops.end(), first.loops.begin(),
                      first.loops.end(), areAlike)) {
        return nullptr;
      }
      Val* condition = part->condition;
      Val* element = part->load->in();
      for (size_t i = 0; i < first.loops.size(); ++i) {
        const Mover mover(ctx_, part->loops[i]->index(), first.loops[i]->index());
        condition = mover.moved(condition);
        element = mover.moved(element);
      }
      any = any == nullptr ? condition : B::logicalOrExpr(condition, any);
      chosen = chosen == nullptr ? element : B::whereExpr(condition, element, chosen);
    }
    Val* index = first.load->out()->as<TensorIndex>()->index();
    Expr* out = B::create<LoadStoreOp>(LoadStoreOpType::Set, B::create<TensorIndex>(cat, index),
                                       chosen, first.load->cacheOp());
    bool is_guarded = false;
    for (auto loop = first.loops.rbegin(); loop != first.loops.rend(); ++loop) {
      if (!is_guarded && (*loop)->parallelType() != ParallelType::Vectorize) {
        out = guarded(out, any);
        is_guarded = true;
      }
      ForLoop* around = (*loop)->emptyCopy();
      around->body() = {out};
      out = around;
    }
    return is_guarded ? out : guarded(out, any);
  }

  static Expr* guarded(Expr* e, Val* condition) {
    auto* out = B::create<IfThenElse>(condition);
    out->thenBody() = {e};
    return out;
  }

  static bool areAlike(const ForLoop* a, const ForLoop* b) {
    return a->parallelType() == b->parallelType() && a->first() == nullptr &&
           b->first() == nullptr && a->extent()->sameAs(b->extent()) &&
           a->indexesRegisters() == b->indexesRegisters();
  }

  // --- without the loads of parts, and what chose among them ---

  Statements cleared(const Statements& nest) {
    Statements out;
    for (Expr* e : nest) {
      if (const auto load = joined_loads_.find(e); load != joined_loads_.end()) {
        if (placed_.insert(load->second).second) {
          out.push_back(load->second); // where the first of them was
        }
        continue;
      }
      const auto bodies = bodiesOf(e);
      for (Statements* body : bodies) {
        *body = cleared(*body);
      }
      const bool is_needed = bodies.empty()
                                 ? isNeeded(e)
                                 : std::any_of(bodies.begin(), bodies.end(),
                                               [](const Statements* b) { return !b->empty(); });
      if (is_needed) {
        const auto* allocate = dynamic_cast<const Allocate*>(e);
        out.push_back(allocate == nullptr ? e : allocated(allocate));
      }
    }
    return out;
  }

  static const TensorView* writtenBy(const Expr* e) {
    const auto* element =
        e->outputs().empty() ? nullptr : dynamic_cast<const TensorIndex*>(e->output(0));
    return element == nullptr ? nullptr : element->view();
  }

  bool isNeeded(const Expr* e) const {
    if (const auto* allocate = dynamic_cast<const Allocate*>(e)) {
      return gone_.count(allocate->tv()) == 0;
    }
    const TensorView* tv = writtenBy(e);
    return gone_.count(tv) == 0 && widths_.count(tv) == 0;
  }

  // Registers of a concatenation, which is written under a guard now.
  Expr* allocated(const Allocate* allocate) const {
    const auto width = widths_.find(allocate->tv());
    if (width == widths_.end()) {
      return const_cast<Allocate*>(allocate);
    }
    auto* out = B::create<Allocate>(allocate->tv(), allocate->memoryType(), allocate->size(),
                                    std::max(allocate->alignment(), width->second));
    out->setZeroed(true);
    return out;
  }

  LowerContext& ctx_;
  const PartialVectors& partial_vectors_;
  std::unordered_map<TensorView*, Cat> cats_;
  std::unordered_map<const TensorView*, size_t> copies_; // statements that load them
  // Of the concatenations whose parts are loaded together: what takes the place of statements; what
  // is computed no more; the widths of their vectors.
  std::unordered_map<const Expr*, Expr*> joined_loads_;
  std::unordered_set<const TensorView*> gone_;
  std::unordered_map<const TensorView*, int> widths_;
  std::unordered_set<const Expr*> placed_;
};

} // namespace

Statements loadIntoCats(LowerContext& ctx, const Statements& nest,
                        const PartialVectors& partial_vectors) {
  return CatsOfLoads(ctx, partial_vectors).run(nest);
}

} // namespace nvfuser
