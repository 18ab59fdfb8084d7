// SPDX-License-Identifier: BSD-3-Clause
// Pass, for the host: one of its threads runs a whole block. What the block's threads do between
// two barriers becomes a loop over them; where the threads along x touch neighbours in memory, the
// C++ compiler makes vector instructions of that loop. Barriers go: a loop is through before the
// next one begins.
//
//   for i:                                    for i:
//     if i * 64 + threadIdx.x < n:              for x < min(64, n - i * 64):
//       T2 = T0[i * 64 + threadIdx.x]             T2 = T0[i * 64 + x]
//     T3 = T3 + T2                  ->            T3[x] = T3[x] + T2
//   reduce T3 over threadIdx.x                reduce T3[0 .. 64)
//
// Loops of the kernel stay around those over threads, so that the innermost loop runs along memory.
// Registers that live longer than one such loop get an element for each thread. (The approach is
// that of OpenCL on CPUs: P. Jääskeläinen et al., "pocl: A Performance-Portable OpenCL
// Implementation", 2015, section 4.)
#include <base/error.h>
#include <ir/builder.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/context.h>
#include <lower/moved.h>
#include <lower/thread_pieces.h>
#include <lower/transposed_copies.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

namespace {

using B = IrBuilder;

constexpr std::array<ParallelType, 3> kThreadTypes = {ParallelType::TIDx, ParallelType::TIDy,
                                                      ParallelType::TIDz};

bool isVectorLoop(const ForLoop* loop) {
  return isParallelTypeVectorize(loop->parallelType()) && !loop->extent()->isOneInt();
}

// Statements that one thread does by itself, and those that all do together.
enum class Together : uint8_t { No, Yes, NotInLoops };

Together together(const Expr* e) {
  switch (e->kind()) {
    case ExprKind::LoadStoreOp:
      return static_cast<const LoadStoreOp*>(e)->type() == LoadStoreOpType::CpAsync
                 ? Together::NotInLoops
                 : Together::No;
    case ExprKind::ForLoop:
    case ExprKind::IfThenElse:
    case ExprKind::Allocate:
    case ExprKind::ElementwiseOp:
    case ExprKind::RandomNumber:
    case ExprKind::ScanStep:
    case ExprKind::WelfordStep:
    case ExprKind::SoftmaxStep:
    case ExprKind::WaitForLoads:
      return Together::No;
    case ExprKind::BufferCopy:
    case ExprKind::ThreadScan:
      return Together::Yes;
    case ExprKind::ThreadReduce: {
      const auto* r = static_cast<const ThreadReduce*>(e);
      return r->reducesCluster() || (r->reducesGrid() && r->flag.empty()) ? Together::NotInLoops
                                                                          : Together::Yes;
    }
    case ExprKind::BlockSync:
      return static_cast<const BlockSync*>(e)->scope() == BlockSync::Scope::Block
                 ? Together::Yes
                 : Together::NotInLoops;
    default:
      return Together::NotInLoops;
  }
}

bool hasTogether(const Expr* e) {
  return holdsWithin(e, [](const Expr* x) { return together(x) == Together::Yes; });
}

// A loop that is printed as one, or something that all threads do together.
bool isComposed(const Expr* e) {
  return holdsWithin(e, [](const Expr* x) {
    const auto* loop = tryAs<ForLoop>(x);
    return (loop != nullptr && !loop->isTrivial()) || together(x) == Together::Yes;
  });
}

// --- what does not change in a loop ---

void collectWrites(const Statements& list, std::unordered_map<const TensorView*, int>& writes) {
  forEachStatement(list, [&](const Expr* e) {
    for (const TensorView* tv : tensorAccessesOf(e).written) {
      ++writes[tv];
    }
  });
}

// What is computed of registers in every iteration of a loop, from what the loop does not change,
// moves in front of it: statistics of a row, for example, from which every element is scaled. A
// GPU's compiler does that; here each thread of the block has its own registers in memory.
class Hoister {
 public:
  Statements run(const Statements& list) {
    Statements out;
    for (Expr* e : list) {
      Expr* copy = copyWithBodies(e, [&](const Statements& body) { return run(body); });
      auto* loop = tryAs<ForLoop>(copy);
      if (loop != nullptr && !loop->isTrivial()) {
        hoist(loop, out);
      }
      out.push_back(copy == nullptr ? e : copy);
    }
    return out;
  }

 private:
  void hoist(ForLoop* loop, Statements& out) {
    loop_ = loop;
    writes_.clear();
    collectWrites(loop->body(), writes_);
    allocated_.clear();
    inner_.clear();
    forEachStatement(loop->body(), [&](const Expr* x) {
      if (const auto* allocate = tryAs<Allocate>(x);
          allocate != nullptr && allocate->size()->isOneInt()) {
        allocated_.insert(allocate->tv());
      }
      if (const auto* inner = tryAs<ForLoop>(x)) {
        inner_.push_back(inner->index());
      }
    });
    Statements moved;
    loop->body() = withoutInvariant(loop->body(), moved);
    if (!moved.empty()) {
      std::unordered_set<const TensorView*> done;
      for (const Expr* e : moved) {
        done.insert(e->output(0)->as<TensorIndex>()->view());
      }
      takeAllocations(loop->body(), done, out);
      out.insert(out.end(), moved.begin(), moved.end());
    }
  }

  // Branches only choose the threads, for whose registers it makes no difference.
  Statements withoutInvariant(const Statements& list, Statements& moved) {
    Statements rest;
    for (Expr* e : list) {
      if (isInvariant(e)) {
        writes_.erase(e->output(0)->as<TensorIndex>()->view());
        moved.push_back(e);
        continue;
      }
      if (auto* branch = tryAs<IfThenElse>(e); branch != nullptr && branch->elseBody().empty()) {
        branch->thenBody() = withoutInvariant(branch->thenBody(), moved);
      } else if (auto* inner = tryAs<ForLoop>(e); inner != nullptr && inner->isTrivial()) {
        inner->body() = withoutInvariant(inner->body(), moved);
      }
      rest.push_back(e);
    }
    return rest;
  }

  bool isInvariant(const Expr* e) const {
    if (e->kind() != ExprKind::ElementwiseOp && e->kind() != ExprKind::LoadStoreOp) {
      return false;
    }
    const auto* to = tryAs<TensorIndex>(e->output(0));
    auto writes = to == nullptr ? writes_.end() : writes_.find(to->view());
    return writes != writes_.end() && writes->second == 1 && allocated_.count(to->view()) != 0 &&
           std::all_of(e->inputs().begin(), e->inputs().end(),
                       [&](const Val* v) { return isInvariant(v); });
  }

  bool isInvariant(const Val* v) const {
    if (const auto* element = tryAs<TensorIndex>(v)) {
      return element->view()->getMemoryType() == MemoryType::Local &&
             writes_.count(element->view()) == 0 && isInvariant(element->index());
    }
    if (readsTensor(v) || dependsOn(v, loop_->index())) {
      return false;
    }
    return std::none_of(inner_.begin(), inner_.end(),
                        [&](const Val* index) { return dependsOn(v, index); });
  }

  static void takeAllocations(Statements& list, const std::unordered_set<const TensorView*>& of,
                              Statements& out) {
    Statements rest;
    for (Expr* e : list) {
      if (auto* allocate = tryAs<Allocate>(e);
          allocate != nullptr && of.count(allocate->tv()) != 0) {
        out.push_back(e);
        continue;
      }
      if (auto* branch = tryAs<IfThenElse>(e)) {
        takeAllocations(branch->thenBody(), of, out);
      } else if (auto* inner = tryAs<ForLoop>(e)) {
        takeAllocations(inner->body(), of, out);
      }
      rest.push_back(e);
    }
    list = std::move(rest);
  }

  const ForLoop* loop_ = nullptr;
  std::unordered_map<const TensorView*, int> writes_; // in the loop
  std::unordered_set<const TensorView*> allocated_;   // single registers
  std::vector<const Val*> inner_;                     // indices of the loops in it
};

class ThreadLoopMaker {
 public:
  explicit ThreadLoopMaker(LowerContext& ctx) : ctx_(ctx), loops_(ctx.kernel()->thread_loops) {
    for (size_t i = 0; i < kThreadTypes.size(); ++i) {
      auto it = ctx.kernel()->parallel_extents.find(kThreadTypes[i]);
      if (it != ctx.kernel()->parallel_extents.end() && !it->second->isOneInt()) {
        extents_[i] = it->second;
        indices_[i] =
            B::create<NamedScalar>(std::string(parallelTag(kThreadTypes[i])), DataType::Index);
      }
    }
  }

  std::optional<Statements> run(const Statements& nest) {
    if (!isPossible(nest)) {
      return std::nullopt;
    }
    for (size_t i = 0; i < kThreadTypes.size(); ++i) {
      loops_.extents[i] = extents_[i] == nullptr ? 1 : extents_[i]->intValue();
    }
    const Statements hoisted = Hoister().run(nest);
    collectWrites(hoisted, writes_);
    findUniform(hoisted, false);
    Statements out = inLoops(hoisted, {});
    placeRegisters(out);
    if (loops_.register_bytes > ThreadLoops::kMostRegisterBytes) {
      loops_ = ThreadLoops();
      return std::nullopt;
    }
    loops_.exist = true;
    return out;
  }

 private:
  bool isPossible(const Statements& nest) const {
    const Kernel* kernel = ctx_.kernel();
    return std::all_of(extents_.begin(), extents_.end(),
                       [](const Val* v) { return v == nullptr || v->isConstInt(); }) &&
           !kernel->load_warps.exist() && kernel->cluster_extents.empty() &&
           !kernel->synchronizes_grid &&
           !holdsWithin(nest, [&](const Expr* e) { return !mayStandInLoops(e); });
  }

  // What all threads do together, all threads come to.
  bool mayStandInLoops(const Expr* e) const {
    if (const auto* loop = tryAs<ForLoop>(e)) {
      return loop->isTrivial() || isUniform(loop->extent()) || !hasTogether(loop);
    }
    if (const auto* branch = tryAs<IfThenElse>(e)) {
      return isUniform(branch->condition()) || !hasTogether(branch);
    }
    return together(e) != Together::NotInLoops;
  }

  // Whether a loop or branch stands around those over threads, which then evaluate the conditions
  // that differ by thread again: what these read must not change meanwhile.
  bool standsAround(const Expr* e) const {
    if (!isComposed(e)) {
      return false;
    }
    const auto* loop = tryAs<ForLoop>(e);
    return loop != nullptr ? isUniform(loop->extent())
                           : isUniform(e->as<IfThenElse>()->condition()) ||
                                 !readsTensor(e->as<IfThenElse>()->condition());
  }

  bool isUniform(const Val* v) const {
    return !readsTensor(v) && std::none_of(indices_.begin(), indices_.end(), [&](const Val* index) {
      return index != nullptr && dependsOn(v, index);
    });
  }

  // --- registers that hold the same in all threads ---

  // Results of reductions over all threads, what is loaded from one place, and what is computed of
  // these. `is_partial`: not all threads come here.
  void findUniform(const Statements& list, bool is_partial) {
    for (const Expr* e : list) {
      if (const auto* loop = tryAs<ForLoop>(e)) {
        findUniform(loop->body(), is_partial || isVectorLoop(loop) || !isUniform(loop->extent()));
      } else if (const auto* branch = tryAs<IfThenElse>(e)) {
        const bool differs = is_partial || !isUniform(branch->condition());
        findUniform(branch->thenBody(), differs);
        findUniform(branch->elseBody(), differs || !branch->elseBody().empty());
      } else if (const auto* allocate = tryAs<Allocate>(e)) {
        if (allocate->size()->isOneInt()) {
          single_.insert(allocate->tv());
        }
      } else if (const auto* r = tryAs<ThreadReduce>(e)) {
        addReduced(r);
      } else if (const auto* to = uniformResult(e, is_partial)) {
        uniform_.insert(to);
      }
    }
  }

  void addReduced(const ThreadReduce* r) {
    for (size_t i = 0; i < extents_.size(); ++i) {
      if (extents_[i] != nullptr && !r->threads()[i]) {
        return;
      }
    }
    for (const ReduceTerm& term : r->terms) {
      if (term.count == 1) {
        reduced_.insert(term.buffers.begin(), term.buffers.end());
      }
    }
  }

  const TensorView* uniformResult(const Expr* e, bool is_partial) const {
    if (e->kind() != ExprKind::ElementwiseOp && e->kind() != ExprKind::LoadStoreOp) {
      return nullptr;
    }
    const auto* to = tryAs<TensorIndex>(e->output(0));
    if (to == nullptr || single_.count(to->view()) == 0 || writes_.at(to->view()) != 1) {
      return nullptr;
    }
    const bool is_same = std::all_of(e->inputs().begin(), e->inputs().end(), [&](const Val* v) {
      const auto* from = tryAs<TensorIndex>(v);
      if (from == nullptr) {
        return isUniform(v);
      }
      switch (from->view()->getMemoryType()) {
        case MemoryType::Local:
          return uniform_.count(from->view()) != 0 || reduced_.count(from->view()) != 0;
        case MemoryType::Global:
          return !is_partial && isUniform(from->index());
        default:
          return false;
      }
    });
    return is_same ? to->view() : nullptr;
  }

  bool isUniformStatement(const Expr* e) const {
    const auto* to = e->outputs().empty() ? nullptr : tryAs<TensorIndex>(e->output(0));
    return to != nullptr && uniform_.count(to->view()) != 0;
  }

  // Without the loops that are none in the text.
  static void splice(const Statements& list, Statements& out) {
    for (Expr* e : list) {
      auto* loop = tryAs<ForLoop>(e);
      if (loop != nullptr && loop->isTrivial() && !isVectorLoop(loop)) {
        splice(loop->body(), out);
      } else {
        out.push_back(e);
      }
    }
  }

  // --- loops ---

  // What a thread does by itself, and where: under conditions that differ by thread.
  struct Run {
    std::vector<Val*> conditions;
    Statements statements;
    // Registers that they write.
    std::unordered_map<const TensorView*, int> writes;
  };

  static bool areSame(const std::vector<Val*>& a, const std::vector<Val*>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Val* x, const Val* y) { return x->sameAs(y); });
  }

  // `conditions`: of the branches around the list that differ by thread.
  Statements inLoops(const Statements& list, const std::vector<Val*>& conditions) {
    Statements flat;
    splice(list, flat);
    Statements out;
    Run run;
    for (Expr* e : flat) {
      auto* branch = tryAs<IfThenElse>(e);
      if (e->kind() == ExprKind::Allocate) {
        out.push_back(e);
      } else if (e->kind() == ExprKind::BlockSync || e->kind() == ExprKind::WaitForLoads) {
        flush(run, out);
      } else if (together(e) == Together::Yes) {
        flush(run, out);
        out.push_back(e);
      } else if (standsAround(e)) {
        flush(run, out);
        compose(e, conditions, out);
      } else if (branch != nullptr && branch->elseBody().empty() &&
                 !readsTensor(branch->condition())) {
        std::vector<Val*> all = conditions;
        for (Expr* inner : guardedBody(branch, all, out)) {
          add(inner, all, run, out);
        }
      } else {
        add(e, conditions, run, out);
      }
    }
    flush(run, out);
    return out;
  }

  // What is in the branch, and in others that are all that is in it. `conditions` gets theirs.
  static Statements guardedBody(const IfThenElse* branch, std::vector<Val*>& conditions,
                                Statements& out) {
    while (true) {
      collectTerms(branch->condition(), conditions);
      Statements body;
      splice(branch->thenBody(), body);
      const auto first = std::stable_partition(
          body.begin(), body.end(), [](const Expr* e) { return e->kind() == ExprKind::Allocate; });
      append({body.begin(), first}, out);
      body.erase(body.begin(), first);
      const auto* inner = body.size() == 1 ? tryAs<IfThenElse>(body.front()) : nullptr;
      if (inner == nullptr || !inner->elseBody().empty() || readsTensor(inner->condition())) {
        return body;
      }
      branch = inner;
    }
  }

  void add(Expr* e, const std::vector<Val*>& conditions, Run& run, Statements& out) {
    if (e->kind() == ExprKind::Allocate) {
      out.push_back(e);
      return;
    }
    if (isUniformStatement(e)) {
      // What waits in `run` writes what it reads only where a branch stands around that.
      if (std::any_of(e->inputs().begin(), e->inputs().end(), [&](const Val* v) {
            const auto* from = tryAs<TensorIndex>(v);
            return from != nullptr && run.writes.count(from->view()) != 0;
          })) {
        flush(run, out);
      }
      Val* condition = nullptr;
      for (Val* c : conditions) {
        condition = isUniform(c) ? both(condition, c) : condition;
      }
      out.push_back(condition == nullptr ? e : guarded(condition, {e}));
      return;
    }
    if (!isOfThreadsIn(run, e, conditions)) {
      if (!run.statements.empty() && !areSame(run.conditions, conditions)) {
        flush(run, out);
      }
      run.conditions = conditions;
    }
    run.statements.push_back(e);
    collectWrites({e}, run.writes);
  }

  // Where the run's conditions do not hold, it computes something of what nothing has written.
  bool isOfThreadsIn(const Run& run, const Expr* e, const std::vector<Val*>& conditions) const {
    const auto* op = tryAs<ElementwiseOp>(e);
    const auto written = [&](const Val* v, const auto& writes) {
      const auto* element = tryAs<TensorIndex>(v);
      const bool is_register =
          element != nullptr && element->view()->getMemoryType() == MemoryType::Local;
      const auto it = is_register ? writes.find(element->view()) : writes.end();
      return it == writes.end() ? 0 : it->second;
    };
    return op != nullptr && op->op() != OpType::Where && written(op->output(0), writes_) == 1 &&
           std::all_of(conditions.begin(), conditions.end(),
                       [&](const Val* c) {
                         return std::any_of(run.conditions.begin(), run.conditions.end(),
                                            [&](const Val* own) { return own->sameAs(c); });
                       }) &&
           std::any_of(op->inputs().begin(), op->inputs().end(), [&](const Val* v) {
             return written(v, run.writes) == 1 && written(v, writes_) == 1;
           });
  }

  // Loops and branches stay around those over threads.
  void compose(Expr* e, const std::vector<Val*>& conditions, Statements& out) {
    auto* branch = tryAs<IfThenElse>(e);
    if (branch == nullptr || isUniform(branch->condition())) {
      out.push_back(
          copyWithBodies(e, [&](const Statements& body) { return inLoops(body, conditions); }));
      return;
    }
    std::vector<Val*> taken = conditions;
    collectTerms(branch->condition(), taken);
    append(inLoops(branch->thenBody(), taken), out);
    std::vector<Val*> other = conditions;
    other.push_back(B::logicalNotExpr(branch->condition()));
    append(inLoops(branch->elseBody(), other), out);
  }

  // The two bodies of a branch stand in one list then: what both declare is declared once.
  static void append(const Statements& list, Statements& out) {
    std::unordered_set<const TensorView*> declared;
    for (const Expr* e : out) {
      if (const auto* allocate = tryAs<Allocate>(e)) {
        declared.insert(allocate->tv());
      }
    }
    for (Expr* e : list) {
      const auto* allocate = tryAs<Allocate>(e);
      if (allocate == nullptr || declared.insert(allocate->tv()).second) {
        out.push_back(e);
      }
    }
  }

  static Val* both(Val* a, Val* b) {
    return a == nullptr ? b : B::logicalAndExpr(a, b);
  }

  static Expr* guarded(Val* condition, Statements body) {
    auto* branch = B::create<IfThenElse>(condition);
    branch->thenBody() = std::move(body);
    return branch;
  }

  void flush(Run& run, Statements& out) {
    if (run.statements.empty()) {
      return;
    }
    std::array<Val*, 3> limits{};
    Val* uniform = nullptr;
    Val* other = nullptr;
    for (Val* c : run.conditions) {
      if (isUniform(c)) {
        uniform = both(uniform, c);
      } else if (!addLimit(c, limits)) {
        other = both(other, c);
      }
    }
    Statements body = std::move(run.statements);
    run = Run();
    if (other != nullptr) {
      body = {guarded(other, std::move(body))};
    }
    auto* loop = B::create<ThreadLoop>(limits, std::move(body));
    if (indices_[0] != nullptr) {
      cutIntoPieces(ctx_, loop, indices_[0], extents_[0]);
      findTransposedCopy(ctx_, loop, indices_, extents_);
    }
    out.push_back(uniform == nullptr ? loop : guarded(uniform, {loop}));
  }

  // first + x < bound, or x == 0, ends the loop over x.
  bool addLimit(Val* condition, std::array<Val*, 3>& limits) {
    const auto* op = tryAs<ElementwiseOp>(condition->definition());
    if (op == nullptr || (op->op() != OpType::Lt && op->op() != OpType::Eq)) {
      return false;
    }
    // The innermost loop whose index it depends on.
    size_t axis = 0;
    while (indices_[axis] == nullptr || !dependsOn(condition, indices_[axis])) {
      ++axis;
    }
    Val* index = indices_[axis];
    Val* limit = nullptr;
    if (op->op() == OpType::Eq) {
      if (op->in(0)->sameAs(index) && op->in(1)->isZeroInt()) {
        limit = B::index(1);
      }
    } else if (!dependsOn(op->in(1), index)) {
      Val* first = Mover(ctx_, index, B::index(0)).moved(op->in(0));
      if (ctx_.simplified(B::subExpr(B::subExpr(op->in(0), index), first))->isZeroInt()) {
        limit = B::subExpr(op->in(1), first);
      }
    }
    if (limit == nullptr) {
      return false;
    }
    Val* before = limits[axis] == nullptr ? extents_[axis] : limits[axis];
    limits[axis] = ctx_.simplified(B::minExpr(before, limit));
    return true;
  }

  // --- registers ---

  struct Access {
    const ThreadLoop* only = nullptr; // the one loop with all accesses
    bool elsewhere = false;
    bool by_vectors = false;
  };

  void access(const Val* v, const ThreadLoop* where, bool by_vectors) {
    if (v == nullptr) {
      return;
    }
    forElementsIn(v, [&](const TensorIndex* element) {
      access(element->view(), where, by_vectors);
      access(element->index(), where, false);
    });
  }

  void access(const TensorView* tv, const ThreadLoop* where, bool by_vectors) {
    auto [it, fresh] = accesses_.try_emplace(tv);
    Access& a = it->second;
    a.elsewhere = a.elsewhere || where == nullptr || (!fresh && a.only != where);
    a.only = where;
    a.by_vectors = a.by_vectors || by_vectors;
  }

  void findAccesses(const Statements& list, const ThreadLoop* where, bool by_vectors) {
    for (const Expr* e : list) {
      if (const auto* loop = tryAs<ForLoop>(e)) {
        access(loop->extent(), where, false);
        findAccesses(loop->body(), where, by_vectors || isVectorLoop(loop));
      } else if (const auto* branch = tryAs<IfThenElse>(e)) {
        access(branch->condition(), where, false);
        findAccesses(branch->thenBody(), where, by_vectors);
        findAccesses(branch->elseBody(), where, by_vectors);
      } else if (const auto* threads = tryAs<ThreadLoop>(e)) {
        findAccesses(threads->body(), threads, by_vectors);
      } else if (const auto* r = tryAs<ThreadReduce>(e)) {
        for (const ReduceTerm& term : r->terms) {
          for (const TensorView* tv : term.buffers) {
            access(tv, where, false);
          }
        }
      } else if (const auto* scan = tryAs<ThreadScan>(e)) {
        access(scan->first, where, false);
      } else if (const auto* copy = tryAs<BufferCopy>(e)) {
        access(copy->to(), nullptr, false);
        access(copy->from(), nullptr, false);
      } else if (e->kind() != ExprKind::Allocate) {
        for (const Val* v : e->inputs()) {
          access(v, where, by_vectors);
        }
        for (const Val* v : e->outputs()) {
          access(v, where, by_vectors);
        }
      }
    }
  }

  void placeRegisters(Statements& nest) {
    findAccesses(nest, nullptr, false);
    // Copied as a whole: they lie in the same way.
    forEachStatement(nest, [&](const Expr* e) {
      if (const auto* copy = tryAs<BufferCopy>(e)) {
        Access& to = accesses_[copy->to()];
        Access& from = accesses_[copy->from()];
        to.by_vectors = from.by_vectors = to.by_vectors || from.by_vectors;
      }
    });
    place(nest);
  }

  // What only one loop of the list uses is declared in it.
  void place(Statements& list) {
    std::unordered_map<const ThreadLoop*, ThreadLoop*> here;
    for (Expr* e : list) {
      if (auto* threads = tryAs<ThreadLoop>(e)) {
        here[threads] = threads;
      } else if (auto* branch = tryAs<IfThenElse>(e)) {
        if (branch->thenBody().size() == 1 && branch->elseBody().empty()) {
          if (auto* inner = tryAs<ThreadLoop>(branch->thenBody().front())) {
            here[inner] = inner;
          }
        }
      }
    }
    std::unordered_map<ThreadLoop*, Statements> own;
    Statements out;
    for (Expr* e : list) {
      auto* allocate = tryAs<Allocate>(e);
      if (allocate == nullptr || allocate->memoryType() != MemoryType::Local) {
        descend(e);
        out.push_back(e);
        continue;
      }
      if (uniform_.count(allocate->tv()) != 0) {
        out.push_back(e);
        continue;
      }
      const Access& a = accesses_[allocate->tv()];
      auto it = here.find(a.only);
      if (!a.elsewhere && it != here.end()) {
        own[it->second].push_back(e);
        continue;
      }
      loops_.registers[allocate->tv()] =
          a.by_vectors ? ThreadLoops::Layout::ByThread : ThreadLoops::Layout::ByElement;
      loops_.register_bytes += allocate->size()->intValue() * loops_.threads() *
                               ((dataTypeSizeBits(allocate->tv()->dtype()) + 7) / 8);
      out.push_back(e);
    }
    for (auto& [threads, allocates] : own) {
      threads->body().insert(threads->body().begin(), allocates.begin(), allocates.end());
    }
    list = std::move(out);
  }

  void descend(Expr* e) {
    if (auto* loop = tryAs<ForLoop>(e)) {
      place(loop->body());
    } else if (auto* branch = tryAs<IfThenElse>(e)) {
      place(branch->thenBody());
      place(branch->elseBody());
    }
  }

  LowerContext& ctx_;
  ThreadLoops& loops_;
  // Of the threads along x, y and z; null: there is only one.
  std::array<Val*, 3> extents_{};
  std::array<Val*, 3> indices_{};
  std::unordered_map<const TensorView*, int> writes_;
  std::unordered_set<const TensorView*> single_;  // registers of one element
  std::unordered_set<const TensorView*> reduced_; // which all threads have reduced together
  std::unordered_set<const TensorView*> uniform_;
  std::unordered_map<const TensorView*, Access> accesses_;
};

} // namespace

Statements putThreadsInLoops(LowerContext& ctx, const Statements& nest) {
  return ThreadLoopMaker(ctx).run(nest).value_or(nest);
}

} // namespace nvfuser
