// SPDX-License-Identifier: BSD-3-Clause
// Pass: guards.
//
// Every computation of a tensor is guarded by
//   * the bounds of the padded splits between its loops and its logical domain (Indexer::guards):
//     if they hold, no index is out of bounds; splits that divide need none;
//   * for memory that other threads see: the first of the iterations that only write an element
//     again (broadcast axes of the loops it is inlined into, unused thread and block dimensions).
// Conditions are placed as far out as they don't depend on inner loops, and shared by neighbours.
//
// An unswitched loop is printed twice: without bounds checks if the last element of its tile is in
// bounds, else with them. This is sound for conditions that grow with the inner loops' indices;
// others stay in both copies. So is a loop over the elements of a vector that bounds may lie within
// (Align), by its first and last element.
//
// If there are reductions, all warps wait for the one that takes the second copy, where branches
// would let it compute one element after the other: only what touches memory or accumulates over
// elements out of bounds is guarded there.
#include <base/error.h>
#include <ir/builder.h>
#include <ir/visitor.h>
#include <kernel/accesses.h>
#include <lower/conditions.h>
#include <lower/moved.h>
#include <lower/reductions.h>
#include <lower/scans.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace nvfuser {

namespace {

class GuardInserter {
 public:
  GuardInserter(LowerContext& ctx, const GridReduces& grid_reduces, bool skips_unused)
      : ctx_(ctx), grid_reduces_(grid_reduces), skips_unused_(skips_unused) {
    deriveAll();
    warps_wait_ = ctx.kernel()->hasExpr([&](const Expr* e) {
      return isReduction(e) && reductionShape(ctx_, LowerContext::outputOf(e)).crossesThreads();
    });
  }

  PartialVectors takePartialVectors() {
    return std::move(partial_vectors_);
  }

  Statements run(const Statements& nest) {
    return emit(collect(nest));
  }

 private:
  struct Guarded {
    Expr* statement;
    Conditions conditions;
    // Declarations and barriers take no guard.
    bool neutral = false;
    bool barrier = false;
    // Takes any guard or none.
    bool harmless = false;
  };

  std::vector<Guarded> collect(const Statements& in) {
    std::vector<Guarded> out;
    for (Expr* e : in) {
      if (auto* loop = tryAs<ForLoop>(e)) {
        const bool is_unswitched =
            loop->parallelType() == ParallelType::Unswitch || isPartialVector(loop);
        out.push_back(is_unswitched ? unswitched(loop) : guardLoop(loop));
      } else if (isBarrier(e)) {
        out.push_back({e, {}, false, true});
      } else if (const auto* step = tryAs<CopyStep>(e)) {
        out.push_back({e, conditionsOf(step), false, true});
      } else if (auto* allocate = tryAs<Allocate>(e)) {
        allocate->setZeroed(isReadUnwritten(allocate->tv()));
        out.push_back({e, {}, true, false});
      } else if (isInit(e)) {
        out.push_back({e, {}, true, false});
      } else if (inTail() && computesInRegisters(e)) {
        out.push_back({e, {}, false, false, true});
      } else {
        out.push_back({e, conditionsOf(e)});
      }
    }
    return out;
  }

  // Conditions shared by the whole body that do not depend on the loop move out of it.
  Guarded guardLoop(ForLoop* loop) {
    std::vector<Guarded> body = collect(loop->body());
    Conditions shared;
    bool first = true;
    bool barrier = false;
    bool init = false;
    for (const Guarded& g : body) {
      barrier = barrier || g.barrier;
      if (g.neutral) {
        init = init || isInit(g.statement);
        continue;
      }
      if (g.harmless) {
        continue;
      }
      Conditions keep;
      for (Val* c : g.conditions) {
        if ((first || has(shared, c)) && !dependsOn(c, loop->index())) {
          keep.push_back(c);
        }
      }
      shared = keep;
      first = false;
    }
    if (barrier || init) {
      shared.clear();
    }
    for (Guarded& g : body) {
      g.conditions = without(g.conditions, shared);
    }
    loop->body() = emit(body);
    return {loop, shared, false, barrier};
  }

  // Neighbours under the same conditions share one branch.
  static Statements emit(const std::vector<Guarded>& list) {
    Statements out;
    IfThenElse* open = nullptr;
    Conditions open_conditions;
    for (const Guarded& g : list) {
      if (g.conditions.empty()) {
        open = nullptr;
        out.push_back(g.statement);
        continue;
      }
      if (open == nullptr || !sameSet(open_conditions, g.conditions)) {
        Val* all = nullptr;
        for (Val* c : g.conditions) {
          all = all == nullptr ? c : IrBuilder::logicalAndExpr(all, c);
        }
        open = IrBuilder::create<IfThenElse>(all);
        open_conditions = g.conditions;
        out.push_back(open);
      }
      open->thenBody().push_back(g.statement);
    }
    return out;
  }

  Guarded unswitched(ForLoop* loop) {
    std::vector<const ForLoop*> inner;
    Conditions all;
    bool barrier = false;
    gather(loop, inner, all, barrier);
    Conditions relaxed;
    Conditions corner;
    for (Val* c : all) {
      Val* whole = forWholeTile(c, inner);
      if (whole == nullptr) {
        continue;
      }
      relaxed.push_back(c);
      if (!isTrue(whole)) {
        addTo(corner, whole);
      }
    }
    if (relaxed.empty() || barrier) {
      return guardLoop(loop);
    }
    if (corner.empty()) {
      for (Val* c : relaxed) {
        addTo(assumed_, c);
      }
      return guardLoop(loop);
    }
    ForLoop* tail = copyOf(loop);
    const Conditions saved = assumed_;
    for (Val* c : relaxed) {
      addTo(assumed_, c);
    }
    Guarded whole = guardLoop(loop);
    assumed_ = saved;
    const std::vector<const ForLoop*> outer = std::exchange(tail_loops_, inner);
    Guarded careful = guardLoop(tail);
    tail_loops_ = outer;
    Val* condition = nullptr;
    for (Val* c : corner) {
      condition = condition == nullptr ? c : IrBuilder::logicalAndExpr(condition, c);
    }
    // What both branches need is outside of them.
    const Conditions shared =
        without(whole.conditions, without(whole.conditions, careful.conditions));
    whole.conditions = without(whole.conditions, shared);
    careful.conditions = without(careful.conditions, shared);
    auto* branch = IrBuilder::create<IfThenElse>(ctx_.simplified(condition));
    branch->thenBody() = emit({whole});
    branch->elseBody() = emit({careful});
    return {branch, shared, false, false};
  }

  // The elements of a vector of which some may be out of bounds.
  bool isPartialVector(const ForLoop* loop) {
    return std::any_of(within_vectors_.begin(), within_vectors_.end(),
                       [&](const Val* c) { return dependsOn(c, loop->index()); }) &&
           loop->extent()->isConstInt() &&
           std::none_of(loop->body().begin(), loop->body().end(),
                        [](const Expr* e) { return e->kind() == ExprKind::ForLoop; });
  }

  // A condition that decides for all iterations of the loops: an upper bound of what grows with
  // them for the last one, a lower bound for the first. Null: there is none, or it is the same for
  // the whole tile anyway, which it then guards from outside.
  Val* forWholeTile(const Val* condition, const std::vector<const ForLoop*>& loops) {
    const auto* def = tryAs<ElementwiseOp>(condition->definition());
    if (def == nullptr || (def->op() != OpType::Lt && def->op() != OpType::Le)) {
      return nullptr;
    }
    const bool is_upper = def->op() == OpType::Lt;
    Val* moving = def->in(is_upper ? 0 : 1);
    Val* bound = def->in(is_upper ? 1 : 0);
    if (!growsWith(moving, loops) || std::any_of(loops.begin(), loops.end(), [&](auto* l) {
          return dependsOn(bound, l->index());
        })) {
      return nullptr;
    }
    Val* corner = substitute(moving, loops, is_upper);
    if (corner == moving) {
      return nullptr;
    }
    return ctx_.simplified(is_upper ? IrBuilder::ltExpr(corner, bound)
                                    : IrBuilder::leExpr(bound, corner));
  }

  void gather(const ForLoop* loop, std::vector<const ForLoop*>& inner, Conditions& all,
              bool& barrier) {
    inner.push_back(loop);
    for (Expr* e : loop->body()) {
      if (const auto* l = tryAs<ForLoop>(e)) {
        if (!isParallelTypeThread(l->parallelType())) {
          gather(l, inner, all, barrier);
        } else {
          // The thread's own index stays as it is.
          std::vector<const ForLoop*> deeper;
          gather(l, deeper, all, barrier);
          inner.insert(inner.end(), deeper.begin() + 1, deeper.end());
        }
      } else if (isBarrier(e) || e->kind() == ExprKind::CopyStep) {
        barrier = true;
      } else if (e->kind() != ExprKind::Allocate && !isInit(e)) {
        for (Val* c : conditionsOf(e)) {
          addTo(all, c);
        }
      }
    }
  }

  bool inTail() const {
    return !tail_loops_.empty() && warps_wait_;
  }

  bool isWithinTail(const Val* condition) const {
    return std::any_of(tail_loops_.begin(), tail_loops_.end(),
                       [&](const ForLoop* l) { return dependsOn(condition, l->index()); });
  }

  // Whether it only says that the result has such an element: of registers, which are accumulated
  // in registers, there may be more.
  bool isOfResult(const Val* condition, const Expr* reduction) const {
    const auto isRegister = [](const TensorView* tv) {
      return tv->getMemoryType() == MemoryType::Local;
    };
    const auto inputs = tensorInputs(reduction);
    const TensorView* result = LowerContext::outputOf(reduction);
    if (!isRegister(result) || !std::all_of(inputs.begin(), inputs.end(), isRegister)) {
      return false;
    }
    const auto& own = ctx_.loops(result).own;
    for (size_t i = 0; i < own.size(); ++i) {
      if (result->getLoopDomain()[i]->isReduction() && dependsOn(condition, own[i]->index)) {
        return false;
      }
    }
    return true;
  }

  // base + j * step < end as j * step < end - base: one comparison in each iteration.
  Val* withinRest(Val* condition) const {
    const auto* def = tryAs<ElementwiseOp>(condition->definition());
    if (def == nullptr || def->op() != OpType::Lt) {
      return condition;
    }
    Val* base = substitute(def->in(0), tail_loops_, /*last=*/false);
    Val* along = ctx_.simplified(IrBuilder::subExpr(def->in(0), base));
    const auto* product = tryAs<ElementwiseOp>(along->definition());
    const bool is_constant_step =
        product != nullptr && product->op() == OpType::Mul &&
        (product->in(0)->isConstInt() || product->in(1)->isConstInt()) &&
        (product->in(0)->definition() == nullptr && product->in(1)->definition() == nullptr);
    return is_constant_step ? IrBuilder::ltExpr(along, IrBuilder::subExpr(def->in(1), base))
                            : condition;
  }

  // What is never accumulated must still be the identity: initialized without guards.
  static bool isInit(const Expr* e) {
    const auto* step = tryAs<ReduceStep>(e);
    const auto* scan = tryAs<ThreadScan>(e);
    return (step != nullptr && step->part() == ReduceStep::Part::Init) ||
           (scan != nullptr && scan->part() == ThreadScan::Part::Begin);
  }

  static ForLoop* copyOf(const ForLoop* loop) {
    ForLoop* copy = loop->emptyCopy();
    for (Expr* e : loop->body()) {
      const auto* l = tryAs<ForLoop>(e);
      const auto* a = tryAs<Allocate>(e);
      // Registers are zeroed in one copy and not in the other.
      const bool is_own = a != nullptr && a->memoryType() == MemoryType::Local;
      copy->body().push_back(l != nullptr ? copyOf(l) : is_own ? a->copyFor(a->tv()) : e);
    }
    return copy;
  }

  Conditions conditionsOf(const Expr* e) {
    if (const auto* step = tryAs<ReduceStep>(e)) {
      e = step->reduction();
    }
    Conditions out = without(conditions_.at(LowerContext::outputOf(e)), assumed_);
    if (inTail()) {
      std::erase_if(
          out, [&](const Val* c) { return isReduction(e) && isWithinTail(c) && isOfResult(c, e); });
      std::transform(out.begin(), out.end(), out.begin(), [&](Val* c) { return withinRest(c); });
    }
    return out;
  }

  // Those of the threads that issue the copies; one of them tells the mbarrier how much to expect.
  Conditions conditionsOf(const CopyStep* step) {
    if (step->issuer == nullptr) {
      return {};
    }
    if (step->part() != CopyStep::Part::Expect) {
      return bulkConditions(step->issuer);
    }
    return issuingThreads(step->issuer, /*one=*/true);
  }

  // Boxes are distributed over threads if axes of the copy are bound to them; else one thread
  // issues all.
  Conditions issuingThreads(const TensorView* tv, bool one) {
    Conditions out;
    const LoadWarps& warps = ctx_.kernel()->load_warps;
    const AsyncBuffer* buffer = ctx_.asyncBuffer(tv);
    const bool by_load_warps = warps.exist() && buffer != nullptr && buffer->isCircular();
    for (const ParallelType type : {ParallelType::TIDx, ParallelType::TIDy, ParallelType::TIDz}) {
      auto launched = ctx_.kernel()->parallel_extents.find(type);
      const bool exists =
          launched != ctx_.kernel()->parallel_extents.end() && !launched->second->isOneInt();
      if (by_load_warps && type == warps.type) {
        Val* first = exists ? launched->second : ctx_.kernel()->oneVal();
        addTo(out, IrBuilder::eqExpr(threadIndex(type), first));
        continue;
      }
      if (!exists) {
        continue;
      }
      const auto& own = ctx_.loops(tv).own;
      const auto loop =
          std::find_if(own.begin(), own.end(), [&](auto* l) { return l->type == type; });
      if (loop == own.end() || one) {
        addTo(out, IrBuilder::eqExpr(threadIndex(type), ctx_.kernel()->zeroVal()));
      } else if (!launched->second->sameAs((*loop)->extent)) {
        addTo(out, IrBuilder::ltExpr(threadIndex(type), (*loop)->extent));
      }
    }
    return out;
  }

  // The bounds of boxes are the hardware's; those of 1-D copies are not.
  Conditions copyConditions(const TensorView* tv) {
    Conditions out = bulkConditions(tv);
    const BulkAccess& access = *ctx_.bulkAccess(tv);
    for (Val* c : access.is_linear ? linearCopyGuards(ctx_, access) : Conditions{}) {
      addTo(out, c);
    }
    return out;
  }

  // A load takes place in every iteration; a store where the tensor is written.
  Conditions bulkConditions(const TensorView* tv) {
    Conditions out = issuingThreads(tv, /*one=*/false);
    if (tv->getMemoryType() == MemoryType::Shared) {
      return out;
    }
    const TensorLoops& loops = ctx_.loops(tv);
    std::vector<IdGroup> targets;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      if (!id->isBroadcast()) {
        targets.push_back(ctx_.ids().exact().group(id));
      }
    }
    Indexer& indexer = ctx_.indexer(tv);
    guardRepeated(indexer, targets, out);
    for (const auto& [type, extent] : ctx_.kernel()->parallel_extents) {
      const bool used = std::any_of(loops.path.begin(), loops.path.end(),
                                    [type = type](const Loop* l) { return l->type == type; });
      if (isParallelTypeBlockDim(type) && !used && !extent->isOneInt()) {
        addTo(out, IrBuilder::eqExpr(threadIndex(type), ctx_.kernel()->zeroVal()));
      }
    }
    return out;
  }

  // Consumers first: a register that all its consumers use under some condition needs no value
  // without it.
  void deriveAll() {
    const auto& exprs = ctx_.kernel()->exprs();
    for (auto it = exprs.rbegin(); it != exprs.rend(); ++it) {
      const TensorView* tv = LowerContext::outputOf(*it);
      Conditions all = isBulkCopy(*it)            ? copyConditions(tv)
                       : computesInRegisters(*it) ? Conditions{}
                                                  : ownConditions(tv);
      if (tv->getMemoryType() == MemoryType::Global) {
        guardWritten(tv, all);
        const auto& reduces = grid_reduces_.of(tv);
        for (const ThreadReduce* r : reduces) {
          // Blocks arrive in any order: of two reductions the last block need not be the same.
          NVF_CHECK(r->flag == reduces.front()->flag, tv->toString(),
                    " is computed from reductions over blocks that are not combined together");
        }
        for (const Loop* l : ctx_.loops(tv).path) {
          NVF_CHECK(l->extent->isOneInt() || !reducedOverGrid(tv, l->type), tv->toString(),
                    " is written by several blocks of a reduction, of which only the last has the "
                    "result");
        }
        if (!reduces.empty()) {
          addTo(all, IrBuilder::create<NamedScalar>(reduces.front()->flag, DataType::Bool));
        }
      }
      // Threads whose own result nobody reads still take part in a reduction.
      const bool combined = isThreadScan(ctx_, *it) ||
                            (isReduction(*it) && ((*it)->outputs().size() > 1 ||
                                                  reductionShape(ctx_, tv).crossesThreads()));
      if (tv->getMemoryType() == MemoryType::Local && !combined) {
        for (Val* c : sharedByConsumers(tv)) {
          addTo(all, c);
        }
      }
      for (const TensorView* out : tensorOutputs(*it)) {
        conditions_[out] = all;
      }
    }
  }

  // That the element is among those that this kernel writes: a number of rows of the dimensions
  // that the others do not divide.
  void guardWritten(const TensorView* tv, Conditions& out) {
    if (!tv->writtenElements().has_value()) {
      return;
    }
    int64_t written = *tv->writtenElements();
    const TensorDomain::Ids dims = logicalIds(tv);
    size_t rows = dims.size();
    while (rows > 0 && written % dims[rows - 1]->extent()->intValue() == 0) {
      written /= dims[--rows]->extent()->intValue();
    }
    Indexer& indexer = ctx_.indexer(tv);
    Val* row = ctx_.kernel()->zeroVal();
    for (size_t d = 0; d < rows; ++d) {
      if (!dims[d]->isBroadcast()) {
        Val* index = indexer.index(ctx_.ids().exact().group(dims[d]));
        row = IrBuilder::addExpr(IrBuilder::mulExpr(row, dims[d]->extent()), index);
      }
    }
    addTo(out, ctx_.condition(IrBuilder::ltExpr(row, IrBuilder::index(written))));
  }

  // Nothing but registers is touched: it does no harm to compute what nobody uses.
  static bool computesInRegisters(const Expr* e) {
    switch (e->kind()) {
      case ExprKind::ElementwiseOp:
      case ExprKind::LoadStoreOp:
      case ExprKind::SliceOp:
      case ExprKind::PadOp:
      case ExprKind::CatOp:
      case ExprKind::BroadcastOp:
      case ExprKind::ExpandOp:
        break;
      default:
        return false;
    }
    auto isRegister = [](const TensorView* tv) { return tv->getMemoryType() == MemoryType::Local; };
    const auto inputs = tensorInputs(e);
    return isRegister(LowerContext::outputOf(e)) &&
           std::all_of(inputs.begin(), inputs.end(), isRegister);
  }

  Conditions sharedByConsumers(const TensorView* tv) {
    Conditions out;
    bool first = true;
    for (const TensorView* c : consumerTvsOf(tv)) {
      const Conditions theirs = conditionsOfUse(tv, c);
      if (first) {
        std::copy_if(theirs.begin(), theirs.end(), std::back_inserter(out),
                     [&](Val* cond) { return computableAt(cond, tv); });
      } else {
        std::erase_if(out, [&](Val* cond) { return !has(theirs, cond); });
      }
      first = false;
    }
    return out;
  }

  // A pad selects its operand inside of its bounds. Outside of them, what the operand alone is
  // computed of is not needed: a block computes those parts of a cat that it has. Where threads of
  // a block differ, most warps would go both ways.
  Conditions conditionsOfUse(const TensorView* tv, const TensorView* consumer) {
    Conditions out = conditions_.at(consumer);
    if (skips_unused_ && consumer->definition()->kind() == ExprKind::PadOp) {
      const Conditions around = ownConditions(consumer);
      for (Val* c : ownConditions(tv)) {
        if (!has(around, inLoopsOf(consumer, c, tv)) && !dependsOnThread(c, tv)) {
          addTo(out, c);
        }
      }
    }
    return out;
  }

  bool dependsOnThread(const Val* condition, const TensorView* tv) const {
    const auto& path = ctx_.loops(tv).path;
    return std::any_of(path.begin(), path.end(), [&](const Loop* l) {
      return isParallelTypeThreadDim(l->type) && dependsOn(condition, l->index);
    });
  }

  // A register that is written under a condition is read by a computation without it. Although
  // nobody uses the result, the register needs a value: compilers conclude from what is never
  // written. (ptxas takes a register for the same in all threads of a warp if it is so where it is
  // written, and the branch into the slow way of a division for one that all of them take.)
  bool isReadUnwritten(const TensorView* tv) {
    const Expr* def = tv->definition();
    if (tv->getMemoryType() != MemoryType::Local || isReduction(def) || isThreadScan(ctx_, def)) {
      return false; // initialized by the reduction
    }
    const Conditions own = without(conditions_.at(tv), assumed_);
    const auto consumers = consumerTvsOf(tv);
    return std::any_of(consumers.begin(), consumers.end(), [&](const TensorView* c) {
      const Conditions& theirs = conditions_.at(c);
      return std::any_of(own.begin(), own.end(),
                         [&](Val* cond) { return !has(theirs, inLoopsOf(c, cond, tv)); });
    });
  }

  // A condition of `tv` for the same element in the loops of its consumer.
  Val* inLoopsOf(const TensorView* consumer, Val* condition, const TensorView* tv) {
    const auto& theirs = ctx_.loops(consumer).path;
    Val* out = condition;
    for (const Loop* own : ctx_.loops(tv).path) {
      const auto same = std::find_if(theirs.begin(), theirs.end(),
                                     [&](const Loop* l) { return l->group == own->group; });
      if (same != theirs.end() && *same != own && !own->index->isConst()) {
        out = Mover(ctx_, own->index, (*same)->index).moved(out);
      }
    }
    return out;
  }

  // Every loop that the condition depends on is around the tensor's computation; which block is
  // the last one is known only after the reduction over blocks.
  bool computableAt(const Val* condition, const TensorView* tv) {
    if (const auto* flag = tryAs<NamedScalar>(condition)) {
      const auto& reduces = grid_reduces_.of(tv);
      return std::any_of(reduces.begin(), reduces.end(),
                         [&](auto* r) { return r->flag == flag->text(); });
    }
    const auto& path = ctx_.loops(tv).path;
    for (const Loop& l : ctx_.loopModel().all()) {
      if (isParallelTypeThread(l.type) || l.index->isConst() ||
          std::any_of(path.begin(), path.end(), [&](auto* own) { return own->index == l.index; })) {
        continue;
      }
      if (dependsOn(condition, l.index)) {
        return false;
      }
    }
    return true;
  }

  struct OwnGuards {
    Conditions conditions;
    std::optional<BoundsGuard> within_vector; // see PartialVectors
  };

  const Conditions& ownConditions(const TensorView* tv) {
    // Neighbours with the same loops and domain have the same conditions.
    std::vector<int> key;
    std::vector<IdGroup> targets;
    // A reduction reads what its root domain says: its logical domain may be padded.
    const bool reads_root = tv->hasRoot() && isReduction(tv->definition());
    for (const IterDomain* id : reads_root ? tv->getRootDomain() : tv->getLogicalDomain()) {
      const IdGroup group = ctx_.ids().exact().group(id);
      // What reads one element cut out of a dimension must not run past it.
      if (!id->isBroadcast() || ctx_.isCutElement(group)) {
        targets.push_back(group);
      }
    }
    key.insert(key.end(), targets.begin(), targets.end());
    key.push_back(static_cast<int>(tv->getMemoryType()));
    key.push_back(isReduction(tv->definition()) ? tv->name() : -1);
    for (const ThreadReduce* r : grid_reduces_.of(tv)) {
      key.push_back(r->name());
    }
    key.push_back(isCopiedByVectors(tv) ? 1 : 0);
    auto [it, fresh] = cache_.try_emplace({&ctx_.indexer(tv), key});
    if (fresh) {
      it->second = derive(tv, targets);
    }
    if (it->second.within_vector.has_value()) {
      partial_vectors_.insert_or_assign(tv, *it->second.within_vector);
    }
    return it->second.conditions;
  }

  OwnGuards derive(const TensorView* tv, const std::vector<IdGroup>& targets) {
    OwnGuards own;
    Conditions& out = own.conditions;
    Indexer& indexer = ctx_.indexer(tv);
    const bool is_vector = isCopiedByVectors(tv);
    for (const BoundsGuard& g : indexer.guards(targets)) {
      if (g.within_vectors && is_vector) {
        // A row has two ends; its elements are one target. splitPartialVectors looks after them.
        own.within_vector = g;
        own.within_vector->index = ctx_.simplified(g.index);
        continue;
      }
      if (g.check_upper) {
        Val* c = ctx_.condition(IrBuilder::ltExpr(g.index, g.extent));
        if (!isTrue(c)) {
          addTo(out, c);
          noteBound(g, c);
        }
      }
      if (g.check_lower) {
        Val* low = ctx_.condition(IrBuilder::geExpr(g.index, ctx_.kernel()->zeroVal()));
        if (!isTrue(low)) {
          addTo(out, low);
          noteBound(g, low);
        }
      }
    }
    const TensorLoops& loops = ctx_.loops(tv);
    std::unordered_set<int> used;
    for (const Loop* l : loops.path) {
      used.insert(static_cast<int>(l->type));
      // A thread dimension that is shorter here than elsewhere in the kernel.
      if (isParallelTypeThread(l->type)) {
        Val* launched = ctx_.kernel()->parallel_extents.at(l->type);
        if (!launched->sameAs(l->extent)) {
          addTo(out, IrBuilder::ltExpr(threadIndex(l->type), l->extent));
        }
      }
    }
    if (isReduction(tv->definition())) {
      guardSingleIterations(tv, out);
      for (const ParallelType type : reductionShape(ctx_, tv).repeated) {
        addTo(out, IrBuilder::eqExpr(threadIndex(type), ctx_.kernel()->zeroVal()));
      }
    }
    if (tv->getMemoryType() == MemoryType::Local) {
      return own;
    }
    const bool shared = tv->getMemoryType() == MemoryType::Shared;
    guardRepeated(indexer, shared ? elementsInBlock(tv) : targets, out);
    for (const auto& [type, extent] : ctx_.kernel()->parallel_extents) {
      // Each block has shared memory of its own; after a reduction over blocks the last one
      // writes.
      const bool per_block = reducedOverGrid(tv, type) || (isParallelTypeBlockDim(type) && shared);
      if (used.count(static_cast<int>(type)) == 0 && !extent->isOneInt() && !per_block) {
        addTo(out, IrBuilder::eqExpr(threadIndex(type), ctx_.kernel()->zeroVal()));
      }
    }
    return own;
  }

  void noteBound(const BoundsGuard& g, Val* condition) {
    if (g.within_vectors) {
      addTo(within_vectors_, condition);
    }
  }

  static bool isCopiedByVectors(const TensorView* tv) {
    const IterDomain* innermost = tv->nDims() == 0 ? nullptr : tv->axis(-1);
    return innermost != nullptr && innermost->parallelType() == ParallelType::Vectorize &&
           tv->definition()->kind() == ExprKind::LoadStoreOp;
  }

  // A reduced part of extent 1 that is split further has padding that no index shows, as its index
  // is 0 anyway: without a guard of its own the element would be accumulated for each of the padded
  // iterations.
  void guardSingleIterations(const TensorView* tv, Conditions& out) {
    auto pads = [](const Expr* e) {
      const auto* split = tryAs<Split>(e);
      return split != nullptr && split->in()->isReduction() && split->in()->extent()->isOneInt() &&
             !split->factor()->isOneInt();
    };
    const std::vector<Expr*> transforms = tv->domain()->exprsToLoop();
    if (std::none_of(transforms.begin(), transforms.end(), pads)) {
      return;
    }
    std::unordered_map<const Val*, Val*> index;
    const TensorLoops& loops = ctx_.loops(tv);
    for (size_t i = 0; i < loops.own.size(); ++i) {
      index[tv->getLoopDomain()[i]] = loops.own[i]->index;
    }
    using B = IrBuilder;
    for (auto it = transforms.rbegin(); it != transforms.rend(); ++it) {
      if (const auto* s = tryAs<Split>(*it)) {
        Val* whole = B::mulExpr(index[s->outer()], s->inner()->extent());
        index[s->in()] = ctx_.simplified(B::addExpr(whole, index[s->inner()]));
        Val* first = ctx_.simplified(B::eqExpr(index[s->in()], ctx_.kernel()->zeroVal()));
        if (pads(s) && !isTrue(first)) {
          addTo(out, first);
        }
      } else if (const auto* m = tryAs<Merge>(*it)) {
        index[m->outer()] = ctx_.simplified(B::divExpr(index[m->out()], m->inner()->extent()));
        index[m->inner()] = ctx_.simplified(B::modExpr(index[m->out()], m->inner()->extent()));
      } else {
        return; // a swizzle or a resize: its parts are not of one iteration
      }
    }
  }

  void guardRepeated(Indexer& indexer, const std::vector<IdGroup>& targets, Conditions& out) {
    for (IdGroup g : indexer.repeated(targets)) {
      Val* c = ctx_.simplified(IrBuilder::eqExpr(indexer.index(g), ctx_.kernel()->zeroVal()));
      if (!isTrue(c)) {
        addTo(out, c);
      }
    }
  }

  // What says which element of shared memory is written, and when: every block fills its own, and
  // each iteration of a loop around the buffer's use fills it anew.
  std::vector<IdGroup> elementsInBlock(const TensorView* tv) {
    std::vector<IdGroup> out;
    for (const LowerContext::BufferDim& dim : ctx_.bufferDims(tv)) {
      out.push_back(dim.group);
    }
    const TensorLoops& loops = ctx_.loops(tv);
    for (size_t i = 0; i < loops.path.size(); ++i) {
      const Loop* l = loops.path[i];
      if (isParallelTypeBlockDim(l->type) ||
          (i < loops.shared && !isParallelTypeThreadDim(l->type))) {
        out.push_back(l->group);
      }
    }
    return out;
  }

  bool reducedOverGrid(const TensorView* tv, ParallelType type) {
    if (!isParallelTypeBlockDim(type)) {
      return false;
    }
    const auto& reduces = grid_reduces_.of(tv);
    const size_t dim = static_cast<size_t>(type) - static_cast<size_t>(ParallelType::BIDx);
    return std::any_of(reduces.begin(), reduces.end(), [&](auto* r) { return r->grid()[dim]; });
  }

  static Val* threadIndex(ParallelType type) {
    return IrBuilder::create<NamedScalar>(std::string(parallelTag(type)), DataType::Index);
  }

  LowerContext& ctx_;
  const GridReduces& grid_reduces_;
  const bool skips_unused_;
  PartialVectors partial_vectors_;
  std::map<std::pair<const Indexer*, std::vector<int>>, OwnGuards> cache_;
  std::unordered_map<const TensorView*, Conditions> conditions_;
  Conditions assumed_;
  Conditions within_vectors_; // bounds that may lie within a vector
  bool warps_wait_ = false;   // for each other, in reductions
  // Those of the second copy of an unswitched loop, while it is made.
  std::vector<const ForLoop*> tail_loops_;
};

} // namespace

GuardedNest insertGuards(LowerContext& ctx, const Statements& nest, const GridReduces& grid_reduces,
                         bool skips_unused) {
  GuardInserter inserter(ctx, grid_reduces, skips_unused);
  Statements body = inserter.run(nest);
  return {std::move(body), inserter.takePartialVectors()};
}

} // namespace nvfuser
