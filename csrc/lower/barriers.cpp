// SPDX-License-Identifier: BSD-3-Clause
// Pass: block barriers around shared memory, and the waits for asynchronous copies.
//
// In every list of statements: a barrier before the first reader that follows a writer (read after
// write), and before a writer that follows a reader (write after read); a loop whose body ends with
// accesses that conflict with the first ones of its next iteration gets a barrier at its end.
// Reductions over the block work in shared memory of their own and contain a barrier. No barrier is
// needed where each thread reads only what it wrote itself. Barriers are in lists of statements of
// thread-uniform loops only: guards are inserted later and never around a barrier.
//
// What copies fill is waited for before its first reader in the list of statements that has both.
// Bulk loads (async_buffers) need no barrier there, as their mbarrier tells every thread; copies
// by each thread are waited for by that thread, and a barrier follows. Between writing shared
// memory and storing it in bulk there is a fence, as between reading it and filling it in bulk
// again, and whoever issued the stores waits until they have read before the barrier after which it
// is written again.
#include <ir/builder.h>
#include <ir/visitor.h>
#include <lower/context.h>

#include <algorithm>
#include <set>

namespace nvfuser {

namespace {

// Shared memory is told apart by tensor, the workspaces of reductions and scans by region.
struct Buffer {
  int region = -1;
  int tensor = -1;
  auto operator<=>(const Buffer&) const = default;
};

using Buffers = std::set<Buffer>;

struct Accesses {
  Buffers reads;
  Buffers writes;
  Buffers bulk_writes; // whose readers wait for them

  void add(const Accesses& other) {
    reads.insert(other.reads.begin(), other.reads.end());
    writes.insert(other.writes.begin(), other.writes.end());
    bulk_writes.insert(other.bulk_writes.begin(), other.bulk_writes.end());
  }
};

bool meet(const Buffers& a, const Buffers& b) {
  return std::any_of(a.begin(), a.end(), [&](const Buffer& x) { return b.count(x) != 0; });
}

bool conflict(const Accesses& earlier, const Accesses& later) {
  return meet(earlier.writes, later.reads) || meet(earlier.reads, later.writes) ||
         meet(earlier.writes, later.writes) || meet(earlier.reads, later.bulk_writes);
}

// The same for two iterations of a loop. What is written in both but read in neither is written at
// different places: its readers are outside of the loop, which so runs over elements of the
// buffer.
bool conflictOfIterations(const Accesses& earlier, const Accesses& later) {
  return meet(earlier.writes, later.reads) || meet(earlier.reads, later.writes) ||
         meet(earlier.reads, later.bulk_writes);
}

using Tensors = std::vector<const TensorView*>;

bool contains(const Tensors& list, const TensorView* tv) {
  return std::find(list.begin(), list.end(), tv) != list.end();
}

// Shared memory that a statement, with all that it contains, reads and writes.
struct Touched {
  Tensors reads;
  Tensors writes;
  Tensors stores; // outputs that are stored in bulk
};

void collectTouched(const Expr* e, Touched& out) {
  if (const auto* loop = tryAs<ForLoop>(e)) {
    for (const Expr* x : loop->body()) {
      collectTouched(x, out);
    }
    return;
  }
  if (const auto* step = tryAs<ReduceStep>(e)) {
    e = step->reduction();
  }
  if (!e->isTensorExpr()) {
    return;
  }
  for (const TensorView* in : tensorInputs(e)) {
    if (in->getMemoryType() == MemoryType::Shared) {
      out.reads.push_back(in);
    }
  }
  for (const TensorView* tv : tensorOutputs(e)) {
    if (tv->getMemoryType() == MemoryType::Shared) {
      out.writes.push_back(tv);
    } else if (isBulkCopy(e)) {
      out.stores.push_back(tv);
    }
  }
}

// Where in a list of statements the first and the last one of a kind are.
struct Range {
  size_t first = SIZE_MAX;
  size_t last = 0;

  void add(size_t i) {
    first = std::min(first, i);
    last = std::max(last, i);
  }
  bool exists() const {
    return first != SIZE_MAX;
  }
};

// Accesses of a list of statements as seen from outside: before its first barrier and after its
// last one. Without a barrier the two are the same.
struct Summary {
  Accesses head;
  Accesses tail;
  bool barrier = false;
  Tensors unread; // outputs whose bulk stores may still read shared memory
};

class BarrierInserter {
 public:
  explicit BarrierInserter(LowerContext& ctx) : ctx_(ctx) {
    has_copies_ =
        ctx.kernel()->hasExpr([](const Expr* e) { return isBulkCopy(e) || isSmallAsyncCopy(e); });
  }

  Statements run(const Statements& in) {
    Statements out;
    insert(in, out);
    if (has_stores_) {
      out.push_back(step(Part::WaitForStores));
    }
    const auto& buffers = ctx_.kernel()->async_buffers;
    if (std::any_of(buffers.begin(), buffers.end(), [](const AsyncBuffer& r) { return r.bulk; })) {
      out.insert(out.begin(), step(Part::Init));
    }
    if (cluster_reduce_) {
      // No block may write to another one's shared memory before that one has started.
      out.insert(out.begin(), ctx_.kernel()->cluster_barriers == nullptr
                                  ? sync()
                                  : IrBuilder::create<BlockSync>(BlockSync::Scope::ClusterStart));
    }
    return out;
  }

 private:
  using Part = CopyStep::Part;

  // What the statements of a list have to do with copies that are issued and waited for in it.
  struct ListCopies {
    struct CircularBulkCopies {
      int buffer = -1;
      Range writes;
      Range reads;
      // The list is the one that has both.
      bool belongsHere() const {
        return writes.exists() && reads.exists() && writes.first < reads.first;
      }
    };
    std::vector<CircularBulkCopies> buffers;
    std::vector<Touched> touched;              // of each statement
    std::map<const TensorView*, Range> stored; // writes of what is stored in bulk in this list
  };

  ListCopies copiesIn(const Statements& in) const {
    ListCopies out;
    if (!has_copies_) {
      return out;
    }
    const auto& buffers = ctx_.kernel()->async_buffers;
    out.buffers.resize(buffers.size());
    for (size_t i = 0; i < in.size(); ++i) {
      Touched& touched = out.touched.emplace_back();
      collectTouched(in[i], touched);
      for (size_t r = 0; r < buffers.size(); ++r) {
        out.buffers[r].buffer = static_cast<int>(r);
        for (const TensorView* tv : buffers[r].tensors) {
          if (contains(touched.writes, tv)) {
            out.buffers[r].writes.add(i);
          }
          if (contains(touched.reads, tv)) {
            out.buffers[r].reads.add(i);
          }
        }
      }
    }
    for (size_t i = 0; i < in.size(); ++i) {
      for (const TensorView* output : out.touched[i].stores) {
        const TensorView* from = ctx_.bulkAccess(output)->shared;
        for (size_t k = 0; k < i; ++k) {
          if (contains(out.touched[k].writes, from)) {
            out.stored[from].add(k);
          }
        }
      }
    }
    return out;
  }

  Summary insert(const Statements& in, Statements& out) {
    const ListCopies copies = copiesIn(in);
    Summary all;
    for (size_t i = 0; i < in.size(); ++i) {
      Expr* e = in[i];
      auto* loop = tryAs<ForLoop>(e);
      if (isFirstByPhase(e)) {
        out.push_back(IrBuilder::create<BlockSync>(BlockSync::Scope::ClusterWait));
      }
      const bool waited = waitForSmallCopies(copies, i, e, out);
      const Summary here = loop != nullptr ? insertIntoLoop(loop) : summaryOf(e);
      if (waited || isOverTensors(e) || conflict(all.tail, here.head)) {
        fenceReads(all.tail, here.head, out);
        synchronize(all, out);
      }
      if (here.barrier) {
        waitForReads(all, out);
      }
      beforeStatement(copies, i, all, out);
      append(all, here);
      out.push_back(e);
      afterStatement(copies, i, e, all, out);
    }
    return all;
  }

  // Nobody needs these tensors any more, but some threads may be reading them yet.
  static bool isOverTensors(const Expr* e) {
    const auto* reduce = tryAs<ThreadReduce>(e);
    return reduce != nullptr && reduce->bytes_over_tensors != nullptr;
  }

  CopyStep* step(Part part) const {
    return IrBuilder::create<CopyStep>(part);
  }

  CopyStep* bufferStep(Part part, int number) const {
    const AsyncBuffer& buffer = ctx_.kernel()->async_buffers[static_cast<size_t>(number)];
    Val* parity = part == Part::WaitUntilFull || part == Part::WaitUntilEmpty
                      ? ctx_.parityOf(buffer)
                      : nullptr;
    if (part == Part::WaitUntilEmpty) {
      // That of the phase before, which a fresh mbarrier takes for complete.
      parity = ctx_.simplified(IrBuilder::subExpr(ctx_.kernel()->oneVal(), parity));
    }
    auto* out = IrBuilder::create<CopyStep>(part, number, ctx_.stageOf(buffer), parity);
    if (part == Part::Expect || part == Part::Announced || part == Part::WaitUntilEmpty) {
      out->issuer = buffer.tensors.front();
    }
    return out;
  }

  CopyStep* storeStep(Part part, const TensorView* output) const {
    CopyStep* out = step(part);
    out->issuer = output;
    return out;
  }

  // The barrier after which shared memory that is stored in bulk may be written again.
  void synchronize(Summary& all, Statements& out) {
    waitForReads(all, out);
    out.push_back(sync(hasRegions(all.tail)));
    append(all, Summary{{}, {}, true, {}});
  }

  // A barrier alone does not keep bulk copies from overtaking reads that are under way: these are
  // of another proxy (PTX ISA, "Async proxy").
  void fenceReads(const Accesses& earlier, const Accesses& later, Statements& out) const {
    if (meet(earlier.reads, later.bulk_writes)) {
      out.push_back(step(Part::Fence));
    }
  }

  void waitForReads(Summary& all, Statements& out) const {
    for (const TensorView* output : all.unread) {
      out.push_back(storeStep(Part::WaitForReads, output));
    }
    all.unread.clear();
  }

  // Before the first reader of anything that is in flight. True: a barrier has to follow.
  bool waitForSmallCopies(const ListCopies& copies, size_t i, const Expr* e, Statements& out) {
    const auto* loop = tryAs<ForLoop>(e);
    const bool waits_inside =
        loop != nullptr && loop->isTrivial() && loop->parallelType() != ParallelType::Vectorize;
    if (!has_copies_ || waits_inside ||
        std::none_of(in_flight_.begin(), in_flight_.end(),
                     [&](const TensorView* tv) { return contains(copies.touched[i].reads, tv); })) {
      return false;
    }
    out.push_back(step(Part::Commit));
    out.push_back(step(Part::Wait));
    const bool crosses = std::any_of(in_flight_.begin(), in_flight_.end(),
                                     [&](const TensorView* tv) { return crossesThreads(tv); });
    in_flight_.clear();
    return crosses;
  }

  void beforeStatement(const ListCopies& copies, size_t i, Summary& all, Statements& out) {
    for (const ListCopies::CircularBulkCopies& copied : copies.buffers) {
      if (!copied.belongsHere()) {
        continue;
      }
      const AsyncBuffer& buffer = ctx_.kernel()->async_buffers[static_cast<size_t>(copied.buffer)];
      if (buffer.bulk && i == copied.writes.first) {
        if (buffer.isCircular()) {
          out.push_back(bufferStep(Part::WaitUntilEmpty, copied.buffer));
        }
        if (!buffer.counts_by_copy) {
          out.push_back(bufferStep(Part::Expect, copied.buffer));
        }
      }
      if (i != copied.reads.first) {
        continue;
      }
      if (buffer.bulk) {
        out.push_back(bufferStep(Part::WaitUntilFull, copied.buffer));
      } else {
        // Every iteration has one group, an empty one at the end.
        CopyStep* wait = bufferStep(Part::Wait, copied.buffer);
        wait->count = buffer.distance - 1;
        out.push_back(wait);
        if (std::any_of(buffer.tensors.begin(), buffer.tensors.end(),
                        [&](const TensorView* tv) { return readByOthers(tv); })) {
          synchronize(all, out);
        }
      }
    }
  }

  void afterStatement(const ListCopies& copies, size_t i, const Expr* e, Summary& all,
                      Statements& out) {
    if (!has_copies_) {
      return;
    }
    if (tryAs<ForLoop>(e) == nullptr) {
      for (const TensorView* tv : copies.touched[i].writes) {
        if (isSmallAsyncCopy(tv->definition()) && ctx_.asyncBuffer(tv) == nullptr) {
          in_flight_.push_back(tv);
        }
      }
    }
    for (const auto& [tv, writes] : copies.stored) {
      if (i == writes.last && !isBulkCopy(tv->definition())) {
        out.push_back(step(Part::Fence));
        all.tail.writes.insert(Buffer{-1, tv->name()}); // the barrier comes after it
      }
    }
    for (const TensorView* output : copies.touched[i].stores) {
      const TensorView* from = ctx_.bulkAccess(output)->shared;
      if (copies.stored.count(from) != 0) {
        out.push_back(storeStep(Part::CommitStores, output));
        all.unread.push_back(output);
        has_stores_ = true;
      }
    }
    for (const ListCopies::CircularBulkCopies& copied : copies.buffers) {
      if (!copied.belongsHere()) {
        continue;
      }
      const AsyncBuffer& buffer = ctx_.kernel()->async_buffers[static_cast<size_t>(copied.buffer)];
      if (!buffer.bulk && i == copied.writes.last) {
        out.push_back(bufferStep(Part::Commit, copied.buffer));
      }
      if (buffer.counts_by_copy && i == copied.writes.last) {
        out.push_back(bufferStep(Part::Announced, copied.buffer));
      }
      if (buffer.bulk && buffer.isCircular() && i == copied.reads.last) {
        waitForReads(all, out);
        out.push_back(step(Part::Fence)); // see fenceReads
        out.push_back(bufferStep(Part::SetEmpty, copied.buffer));
      }
    }
  }

  // The first reduction by phases, or the loop that it is repeated in.
  bool isFirstByPhase(const Expr* e) {
    if (waited_ || !combinesByPhase(e)) {
      return false;
    }
    if (const auto* loop = tryAs<ForLoop>(e); loop != nullptr && loop->isTrivial()) {
      return false;
    }
    waited_ = true;
    return true;
  }

  static bool combinesByPhase(const Expr* e) {
    if (const auto* loop = tryAs<ForLoop>(e)) {
      return std::any_of(loop->body().begin(), loop->body().end(), combinesByPhase);
    }
    const auto* reduce = tryAs<ThreadReduce>(e);
    return reduce != nullptr && reduce->phase_barrier >= 0;
  }

  static void append(Summary& all, const Summary& next) {
    if (!all.barrier) {
      all.head.add(next.head);
    }
    if (next.barrier) {
      all.tail = next.tail;
    } else {
      all.tail.add(next.tail);
    }
    all.barrier = all.barrier || next.barrier;
    all.unread.insert(all.unread.end(), next.unread.begin(), next.unread.end());
  }

  // Iteration n+1 must not overwrite what iteration n still reads, nor read what it has just
  // written.
  Summary insertIntoLoop(ForLoop* loop) {
    Statements body;
    Summary all = insert(loop->body(), body);
    const bool repeats = !isParallelTypeThread(loop->parallelType()) && !loop->extent()->isOneInt();
    if (repeats && (conflictOfIterations(all.tail, all.head) || !all.unread.empty())) {
      fenceReads(all.tail, all.head, body);
      synchronize(all, body);
    }
    loop->body() = std::move(body);
    return all;
  }

  // Other blocks of a cluster write to the workspaces of reductions, not to tensors.
  BlockSync* sync(bool has_regions = true) {
    ctx_.kernel()->has_block_sync = true;
    return IrBuilder::create<BlockSync>(has_regions && !ctx_.kernel()->cluster_extents.empty()
                                            ? BlockSync::Scope::Cluster
                                            : BlockSync::Scope::Block);
  }

  static bool hasRegions(const Accesses& accesses) {
    auto has = [](const Buffers& buffers) {
      return std::any_of(buffers.begin(), buffers.end(),
                         [](const Buffer& b) { return b.region >= 0; });
    };
    return has(accesses.reads) || has(accesses.writes);
  }

  Summary summaryOf(const Expr* e) {
    Summary out;
    if (const auto* reduce = tryAs<ThreadReduce>(e)) {
      // It writes its workspace, passes a barrier and reads it.
      cluster_reduce_ = cluster_reduce_ || reduce->reducesCluster();
      if (reduce->phase_stride > 0) {
        return out; // has a workspace for each of two phases, and mbarriers that order them
      }
      if (reduce->region >= 0) {
        out.head.writes.insert(Buffer{reduce->region, -1});
        out.tail.reads.insert(Buffer{reduce->region, -1});
        out.barrier = true;
        ctx_.kernel()->has_block_sync = true;
      }
      return out;
    }
    const auto* scan = tryAs<ThreadScan>(e);
    if (scan != nullptr && scan->region >= 0) {
      out.head.writes.insert(Buffer{scan->region, -1});
      out.tail.reads.insert(Buffer{scan->region, -1});
      out.barrier = true;
      ctx_.kernel()->has_block_sync = true;
      return out;
    }
    collect(e, out.head);
    out.tail = out.head;
    return out;
  }

  void collect(const Expr* e, Accesses& out) {
    if (const auto* step = tryAs<ReduceStep>(e)) {
      e = step->reduction();
    }
    if (!e->isTensorExpr()) {
      return;
    }
    for (const TensorView* in : tensorInputs(e)) {
      if (in->getMemoryType() == MemoryType::Shared && crossesThreads(in)) {
        out.reads.insert(Buffer{-1, in->name()});
      }
    }
    for (const TensorView* tv : tensorOutputs(e)) {
      if (tv->getMemoryType() == MemoryType::Shared && crossesThreads(tv)) {
        (isBulkCopy(e) ? out.bulk_writes : out.writes).insert(Buffer{-1, tv->name()});
      }
    }
  }

  // True unless all threads write, and every consumer binds the buffer's thread dimensions to the
  // same iterations as the producer. A circular buffer has waits of its own.
  bool crossesThreads(const TensorView* tv) {
    if (const AsyncBuffer* buffer = ctx_.asyncBuffer(tv)) {
      return !buffer->isCircular();
    }
    return readByOthers(tv);
  }

  bool readByOthers(const TensorView* tv) {
    auto threads = [&](const TensorView* t) {
      std::vector<std::pair<ParallelType, IdGroup>> bound;
      for (const Loop* l : ctx_.loops(t).path) {
        if (isParallelTypeThreadDim(l->type) && !l->extent->isOneInt()) {
          bound.emplace_back(l->type, l->group);
        }
      }
      std::sort(bound.begin(), bound.end());
      return bound;
    };
    const auto mine = threads(tv);
    // Of an unaligned vector the neighbour has copied a part.
    if (!isWrittenByAllThreads(tv) || ctx_.kernel()->unaligned_loads.count(tv) != 0) {
      return true;
    }
    for (const TensorView* c : consumerTvsOf(tv)) {
      if (threads(c) != mine || ctx_.bulkAccess(c) != nullptr) {
        return true;
      }
    }
    return false;
  }

  // Each into elements of its own: along every thread dimension of the launch the tensor has a
  // loop, which is a dimension of the buffer.
  bool isWrittenByAllThreads(const TensorView* tv) const {
    const std::vector<const Loop*> buffer = ctx_.bufferLoops(tv);
    const auto& extents = ctx_.kernel()->parallel_extents;
    return std::all_of(extents.begin(), extents.end(),
                       [&](const auto& bound) {
                         return !isParallelTypeThreadDim(bound.first) || bound.second->isOneInt() ||
                                std::any_of(buffer.begin(), buffer.end(),
                                            [&](const Loop* l) { return l->type == bound.first; });
                       }) &&
           !(tv->domain()->hasAllocation() && hasPromotedLoops(tv));
  }

  // Threads along a dimension that the tensor itself lacks.
  bool hasPromotedLoops(const TensorView* tv) const {
    const TensorLoops& loops = ctx_.loops(tv);
    for (size_t i = 0; i < loops.own.size(); ++i) {
      if (ctx_.ids().exact().group(tv->getLoopDomain()[i]) != loops.own[i]->group) {
        return true;
      }
    }
    return false;
  }

  LowerContext& ctx_;
  bool has_copies_ = false; // asynchronous ones
  bool has_stores_ = false; // in bulk
  Tensors in_flight_;       // copied by each thread, in groups
  bool cluster_reduce_ = false;
  bool waited_ = false;
};

} // namespace

Statements insertBarriers(LowerContext& ctx, const Statements& nest) {
  return BarrierInserter(ctx).run(nest);
}

} // namespace nvfuser
