// Pass: block barriers around shared memory.
//
// In every list of statements: a barrier before the first reader that follows a writer (read after
// write), and before a writer that follows a reader (write after read); a loop whose body ends with
// reads that its next turn would overwrite gets a barrier at its end. No barrier is needed where each
// thread reads only what it wrote itself. Barriers stand in lists of statements of thread-uniform
// loops only: guards are inserted later and never around a barrier.
#include <ir/builder.h>
#include <ir/visitor.h>
#include <lower/context.h>

#include <algorithm>
#include <set>

namespace nvfuser {

namespace {

using Buffers = std::set<const TensorView*, bool (*)(const TensorView*, const TensorView*)>;

bool byName(const TensorView* a, const TensorView* b) {
  return a->name() < b->name();
}

struct Accesses {
  Buffers reads{byName};
  Buffers writes{byName};
};

class BarrierInserter {
 public:
  explicit BarrierInserter(LowerContext& ctx) : ctx_(ctx) {}

  // Returns what the list still leaves open: accesses since its last barrier, and whether it has one.
  Statements run(const Statements& in) {
    Statements out;
    Accesses open;
    for (Expr* e : in) {
      auto* loop = dynamic_cast<ForLoop*>(e);
      if (loop != nullptr) {
        loop->body() = run(loop->body());
        closeBackEdge(loop);
      }
      const Accesses here = accessesOf(e);
      if (conflict(open.writes, here.reads) || conflict(open.reads, here.writes) ||
          conflict(open.writes, here.writes)) {
        out.push_back(IrBuilder::create<BlockSync>());
        ctx_.kernel()->has_block_sync = true;
        open = Accesses{};
      }
      open.reads.insert(here.reads.begin(), here.reads.end());
      open.writes.insert(here.writes.begin(), here.writes.end());
      out.push_back(e);
    }
    return out;
  }

 private:
  static bool conflict(const Buffers& a, const Buffers& b) {
    return std::any_of(a.begin(), a.end(), [&](auto* tv) { return b.count(tv) != 0; });
  }

  // Turn n+1 writes what turn n read, or reads what it wrote.
  void closeBackEdge(ForLoop* loop) {
    if (isParallelTypeThread(loop->parallelType()) || loop->extent()->isOneInt()) {
      return;
    }
    const Accesses body = accessesOf(loop);
    if (!conflict(body.reads, body.writes)) {
      return;
    }
    loop->body().push_back(IrBuilder::create<BlockSync>());
    ctx_.kernel()->has_block_sync = true;
  }

  Accesses accessesOf(const Expr* e) {
    Accesses out;
    collect(e, out);
    return out;
  }

  void collect(const Expr* e, Accesses& out) {
    if (const auto* loop = dynamic_cast<const ForLoop*>(e)) {
      for (const Expr* inner : loop->body()) {
        collect(inner, out);
      }
      return;
    }
    if (!e->isTensorExpr()) {
      return;
    }
    for (const TensorView* in : tensorInputs(e)) {
      if (in->getMemoryType() == MemoryType::Shared && crossesThreads(in)) {
        out.reads.insert(in);
      }
    }
    for (const TensorView* tv : tensorOutputs(e)) {
      if (tv->getMemoryType() == MemoryType::Shared && crossesThreads(tv)) {
        out.writes.insert(tv);
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
};

} // namespace

Statements insertBarriers(LowerContext& ctx, const Statements& nest) {
  return BarrierInserter(ctx).run(nest);
}

} // namespace nvfuser
