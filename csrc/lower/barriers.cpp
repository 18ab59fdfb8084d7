// Pass: block barriers around shared memory.
//
// In every list of statements: a barrier before the first reader that follows a writer (read after
// write), and before a writer that follows a reader (write after read); a loop whose body ends with
// accesses that conflict with the first ones of its next turn gets a barrier at its end. Reductions over
// the block work in shared memory of their own and contain a barrier. No barrier is needed where each
// thread reads only what it wrote itself. Barriers stand in lists of statements of thread-uniform
// loops only: guards are inserted later and never around a barrier.
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

  void add(const Accesses& other) {
    reads.insert(other.reads.begin(), other.reads.end());
    writes.insert(other.writes.begin(), other.writes.end());
  }
};

bool meet(const Buffers& a, const Buffers& b) {
  return std::any_of(a.begin(), a.end(), [&](const Buffer& x) { return b.count(x) != 0; });
}

bool conflict(const Accesses& earlier, const Accesses& later) {
  return meet(earlier.writes, later.reads) || meet(earlier.reads, later.writes) ||
      meet(earlier.writes, later.writes);
}

// Accesses of a list of statements as seen from outside: before its first barrier and after its last
// one. Without a barrier the two are the same.
struct Summary {
  Accesses head;
  Accesses tail;
  bool barrier = false;
};

class BarrierInserter {
 public:
  explicit BarrierInserter(LowerContext& ctx) : ctx_(ctx) {}

  Statements run(const Statements& in) {
    Statements out;
    insert(in, out);
    if (cluster_reduce_) {
      // No block may write to another one's shared memory before that one has started.
      out.insert(
          out.begin(),
          ctx_.kernel()->cluster_barriers == nullptr
              ? sync()
              : IrBuilder::create<BlockSync>(BlockSync::Scope::ClusterStart));
    }
    return out;
  }

 private:
  Summary insert(const Statements& in, Statements& out) {
    Summary all;
    for (Expr* e : in) {
      auto* loop = dynamic_cast<ForLoop*>(e);
      const Summary here = loop != nullptr ? insertIntoLoop(loop) : summaryOf(e);
      if (conflict(all.tail, here.head)) {
        out.push_back(sync());
        append(all, Summary{{}, {}, true});
      }
      append(all, here);
      if (isFirstByPhase(e)) {
        out.push_back(IrBuilder::create<BlockSync>(BlockSync::Scope::ClusterWait));
      }
      out.push_back(e);
    }
    return all;
  }

  bool isFirstByPhase(const Expr* e) {
    const auto* reduce = dynamic_cast<const ThreadReduce*>(e);
    if (reduce == nullptr || reduce->phase_barrier < 0 || waited_) {
      return false;
    }
    waited_ = true;
    return true;
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
  }

  // Turn n+1 must not overwrite what turn n still reads, nor read what it has just written.
  Summary insertIntoLoop(ForLoop* loop) {
    Statements body;
    Summary all = insert(loop->body(), body);
    const bool repeats =
        !isParallelTypeThread(loop->parallelType()) && !loop->extent()->isOneInt();
    if (repeats && conflict(all.tail, all.head)) {
      body.push_back(sync());
      append(all, Summary{{}, {}, true});
    }
    loop->body() = std::move(body);
    return all;
  }

  BlockSync* sync() {
    ctx_.kernel()->has_block_sync = true;
    return IrBuilder::create<BlockSync>(
        ctx_.kernel()->cluster_extents.empty() ? BlockSync::Scope::Block : BlockSync::Scope::Cluster);
  }

  Summary summaryOf(const Expr* e) {
    Summary out;
    if (const auto* reduce = dynamic_cast<const ThreadReduce*>(e)) {
      // It writes its workspace, passes a barrier and reads it.
      cluster_reduce_ = cluster_reduce_ || reduce->reducesCluster();
      if (reduce->region >= 0) {
        out.head.writes.insert(Buffer{reduce->region, -1});
        out.tail.reads.insert(Buffer{reduce->region, -1});
        out.barrier = true;
        ctx_.kernel()->has_block_sync = true;
      }
      return out;
    }
    const auto* scan = dynamic_cast<const ThreadScan*>(e);
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
    if (const auto* step = dynamic_cast<const ReduceStep*>(e)) {
      e = step->reduction();
    }
    if (!e->isTensorExpr()) {
      return;
    }
    for (const TensorView* in : tensorInputs(e)) {
      if (in->getMemoryType() == MemoryType::Shared && crossesThreads(in)) {
        out.reads.insert(Buffer{-1, static_cast<int>(in->name())});
      }
    }
    for (const TensorView* tv : tensorOutputs(e)) {
      if (tv->getMemoryType() == MemoryType::Shared && crossesThreads(tv)) {
        out.writes.insert(Buffer{-1, static_cast<int>(tv->name())});
      }
    }
  }

  // True unless every consumer binds the buffer's thread dimensions to the same iterations as the producer.
  bool crossesThreads(const TensorView* tv) {
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
    for (const TensorView* c : consumerTvsOf(tv)) {
      if (threads(c) != mine) {
        return true;
      }
    }
    return false;
  }

  LowerContext& ctx_;
  bool cluster_reduce_ = false;
  bool waited_ = false;
};

} // namespace

Statements insertBarriers(LowerContext& ctx, const Statements& nest) {
  return BarrierInserter(ctx).run(nest);
}

} // namespace nvfuser
