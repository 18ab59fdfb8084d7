// SPDX-License-Identifier: BSD-3-Clause
// See reductions.h.
#include <lower/reductions.h>

#include <base/error.h>
#include <device/reduce_layout.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ir/visitor.h>
#include <lower/scans.h>
#include <transform/cache.h>

#include <algorithm>
#include <cstdlib>

namespace nvfuser {

ReductionShape reductionShape(const LowerContext& ctx, const TensorView* tv) {
  ReductionShape out;
  const TensorLoops& loops = ctx.loops(tv);
  std::unordered_set<const Loop*> reduced;
  for (size_t i = 0; i < loops.own.size(); ++i) {
    if (!tv->getLoopDomain()[i]->isReduction()) {
      continue;
    }
    const Loop* l = loops.own[i];
    reduced.insert(l);
    if (isParallelTypeThreadDim(l->type)) {
      out.threads[static_cast<size_t>(l->type) - static_cast<size_t>(ParallelType::TIDx)] = true;
    } else if (isParallelTypeBlockDim(l->type)) {
      DimMask& mask = tv->getLoopDomain()[i]->isClustered() ? out.cluster : out.grid;
      mask[static_cast<size_t>(l->type) - static_cast<size_t>(ParallelType::BIDx)] = true;
    }
  }
  bool inside = false;
  for (Loop* l : loops.path) {
    if (reduced.count(l) != 0) {
      inside = true;
    } else {
      (inside ? out.kept : out.outer).push_back(l);
    }
  }
  const bool crosses_threads = out.crossesThreads();
  for (const auto& [type, extent] : ctx.kernel()->parallel_extents) {
    const bool has_loop = std::any_of(loops.path.begin(), loops.path.end(),
                                      [type = type](const Loop* l) { return l->type == type; });
    if (crosses_threads && isParallelTypeThreadDim(type) && !has_loop && !extent->isOneInt()) {
      out.repeated.push_back(type);
      out.threads[static_cast<size_t>(type) - static_cast<size_t>(ParallelType::TIDx)] = true;
    }
  }
  return out;
}

namespace {

// The tensor's domain without its reduction axes.
TensorDomain* withoutReductions(const TensorDomain* domain) {
  std::vector<IterDomain*> logical = TensorDomain::noReductions(domain->logical());
  std::vector<IterDomain*> allocation = TensorDomain::noReductions(domain->maybeAllocation());
  TensorDomain::Contiguity contiguity;
  for (size_t i = 0; i < domain->maybeAllocation().size(); ++i) {
    if (!domain->maybeAllocation()[i]->isReduction()) {
      contiguity.push_back(domain->contiguity().at(i));
    }
  }
  auto* out = IrBuilder::create<TensorDomain>(logical, contiguity);
  if (domain->hasAllocation()) {
    out->setAllocationDomain(allocation, contiguity);
  }
  out->setLoopDomain(TensorDomain::noReductions(domain->loop()));
  return out;
}

} // namespace

void cacheReductionOutputs(Kernel* kernel) {
  const std::vector<Expr*> exprs = kernel->exprs();
  for (Expr* e : exprs) {
    if (!isReduction(e)) {
      continue;
    }
    std::unordered_map<Val*, Val*> replaced;
    std::vector<std::pair<TensorView*, TensorView*>> stored; // in the order of the outputs
    for (TensorView* out : tensorOutputs(e)) {
      // Welford counts in floating point: merging partials divides by it.
      const bool counter = e->kind() == ExprKind::WelfordOp && out == e->output(2);
      if (out->getMemoryType() == MemoryType::Local && !counter) {
        continue;
      }
      auto* registers = IrBuilder::create<TensorView>(
          out->domain(), counter ? e->output(1)->dtype() : out->dtype());
      const auto& loop = out->getLoopDomain();
      int64_t leading = 0;
      while (leading < out->nDims() && !loop[static_cast<size_t>(leading)]->isReduction()) {
        ++leading;
      }
      registers->setComputeAtPosition(leading);
      out->setDomain(withoutReductions(out->domain()));
      replaced[out] = registers;
      stored.emplace_back(out, registers);
    }
    if (replaced.empty()) {
      continue;
    }
    copyExprWith(kernel, e, replaced);
    kernel->removeExpr(e);
    for (auto [out, registers] : stored) {
      if (out->dtype() == registers->dtype()) {
        IrBuilder::create<LoadStoreOp>(LoadStoreOpType::Set, out, registers);
      } else {
        IrBuilder::create<ElementwiseOp>(OpType::Cast, out, std::vector<Val*>{registers});
      }
    }
  }
}

namespace {

class WorkMaker {
 public:
  explicit WorkMaker(LowerContext& ctx) : ctx_(ctx) {}

  StatementsToNest run() {
    ctx_.kernel()->synchronizes_grid = needsResultInAllBlocks();
    NVF_CHECK(!ctx_.kernel()->synchronizes_grid || ctx_.kernel()->cluster_extents.empty(),
              "Blocks of clusters cannot wait for all blocks of the grid");
    for (Expr* e : ctx_.kernel()->exprs()) {
      std::vector<size_t> needs;
      for (const Val* in : e->inputs()) {
        if (auto it = maker_.find(in); it != maker_.end()) {
          needs.push_back(it->second);
        }
      }
      if (isReduction(e)) {
        reduction(e, needs);
      } else if (isThreadScan(ctx_, e)) {
        scanOverThreads(e, needs);
      } else {
        const TensorView* tv = LowerContext::outputOf(e);
        const bool copies = ctx_.asyncBuffer(tv) != nullptr || isSmallAsyncCopy(e);
        const bool deferred = !copies && tv->getMemoryType() == MemoryType::Shared;
        const bool apart = copies && ctx_.kernel()->unaligned_loads.count(tv) != 0;
        const bool loads = isLoadOfRow(e);
        const bool single = ctx_.bufferLoops(tv).empty();
        add({e, ctx_.loops(tv).path, needs, deferred, copies, loads && !single, loads && single,
             apart});
      }
      for (const Val* out : e->outputs()) {
        maker_[out] = statements_.size() - 1;
      }
      inheritGridReduces(e);
    }
    putBehindLoads();
    return {std::move(statements_), std::move(grid_reduces_)};
  }

 private:
  // Vectors that begin anywhere come from the caches, the rows from memory: these are asked for
  // first.
  void putBehindLoads() {
    for (NestedStatement& nested : statements_) {
      for (size_t i = 0; i < statements_.size() && nested.apart; ++i) {
        if (isLoadOfRow(statements_[i].statement)) {
          nested.after.push_back(i);
        }
      }
    }
  }

  // Into registers, in loops of its own.
  bool isLoadOfRow(const Expr* e) const {
    const auto* load = tryAs<LoadStoreOp>(e);
    if (load == nullptr || !load->in()->isFusionInput() || !load->out()->isTensor()) {
      return false;
    }
    const auto* tv = load->out()->as<TensorView>();
    const TensorLoops& loops = ctx_.loops(tv);
    return tv->getMemoryType() == MemoryType::Local &&
           std::all_of(loops.path.begin(),
                       loops.path.begin() + static_cast<std::ptrdiff_t>(loops.shared),
                       [](const Loop* l) { return isParallelTypeThread(l->type); });
  }

  size_t add(NestedStatement statement) {
    statements_.push_back(std::move(statement));
    return statements_.size() - 1;
  }

  // Whether the result of a reduction over blocks is read where only the last of them would have
  // it: in loops that these blocks share out, or by another such reduction.
  bool needsResultInAllBlocks() const {
    std::unordered_map<const TensorView*, DimMask> reduced; // over which blocks, on the way to it
    for (const Expr* e : ctx_.kernel()->exprs()) {
      DimMask behind{};
      for (const TensorView* in : tensorInputs(e)) {
        if (auto it = reduced.find(in); it != reduced.end()) {
          for (size_t i = 0; i < behind.size(); ++i) {
            behind[i] = behind[i] || it->second[i];
          }
        }
      }
      const TensorView* out = LowerContext::outputOf(e);
      const DimMask own = isReduction(e) ? reductionShape(ctx_, out).grid : DimMask{};
      const bool is_complete = behind != DimMask{};
      if (is_complete && (own != DimMask{} || sharesLoopsOut(out, behind))) {
        return true;
      }
      for (size_t i = 0; i < behind.size(); ++i) {
        behind[i] = behind[i] || own[i];
      }
      for (const TensorView* tv : tensorOutputs(e)) {
        reduced[tv] = behind;
      }
    }
    return false;
  }

  bool sharesLoopsOut(const TensorView* tv, const DimMask& blocks) const {
    const std::vector<Loop*>& path = ctx_.loops(tv).path;
    return tv->getMemoryType() == MemoryType::Global &&
           std::any_of(path.begin(), path.end(), [&](const Loop* l) {
             return isParallelTypeBlockDim(l->type) && !l->extent->isOneInt() &&
                    blocks[static_cast<size_t>(l->type) - static_cast<size_t>(ParallelType::BIDx)];
           });
  }

  void reduction(Expr* e, const std::vector<size_t>& needs) {
    using Part = ReduceStep::Part;
    const TensorView* tv = LowerContext::outputOf(e);
    const ReductionShape shape = reductionShape(ctx_, tv);
    std::vector<Loop*> path = shape.outer;
    path.insert(path.end(), shape.kept.begin(), shape.kept.end());
    const size_t init = add({IrBuilder::create<ReduceStep>(Part::Init, e), path, {}});
    std::vector<size_t> before = needs;
    before.push_back(init);
    const size_t accumulate =
        add({IrBuilder::create<ReduceStep>(Part::Accumulate, e), ctx_.loops(tv).path, before});
    if (shape.crossesThreads()) {
      ThreadReduce* combine = threadReduce(e, shape);
      add({combine, shape.outer, {accumulate}, true});
    } else {
      add({nullptr, shape.outer, {accumulate}, false});
    }
  }

  void scanOverThreads(Expr* e, const std::vector<size_t>& needs) {
    using Part = ThreadScan::Part;
    const std::vector<Loop*>& path =
        ctx_.loops(LowerContext::outputOf(e)).path; // ..., tile, threads, elements
    Val* start = ctx_.ids().canonical(e->as<ScanOp>()->init());
    const size_t begin = add({IrBuilder::create<ThreadScan>(Part::Begin, e, start),
                              std::vector<Loop*>(path.begin(), path.end() - 3),
                              {},
                              false});
    std::vector<size_t> before = needs;
    before.push_back(
        add({IrBuilder::create<ReduceStep>(ReduceStep::Part::Init, e), path, {}, false}));
    const size_t load =
        add({IrBuilder::create<ReduceStep>(ReduceStep::Part::Accumulate, e), path, before, false});
    auto* combine = IrBuilder::create<ThreadScan>(Part::Combine, e, start);
    combine->threads = path[path.size() - 2]->extent->intValue();
    combine->count = path.back()->extent->intValue();
    add({combine, std::vector<Loop*>(path.begin(), path.end() - 1), {begin, load}, true});
  }

  ThreadReduce* threadReduce(Expr* e, const ReductionShape& shape) {
    auto* out = IrBuilder::create<ThreadReduce>(shape.threads, shape.cluster, shape.grid);
    ReduceTerm term;
    term.reduction = e;
    term.buffers = tensorOutputs(e);
    const std::unordered_set<const Loop*> kept(shape.kept.begin(), shape.kept.end());
    for (const Loop* l : ctx_.bufferLoops(term.buffers.front())) {
      if (kept.count(l) != 0) {
        NVF_CHECK(l->extent->isConstInt(), describeLoops(term.buffers.front()),
                  " keeps a value in registers for each iteration of the loops inside its "
                  "reduction, but one of these has the extent ",
                  l->extent->toInlineString(),
                  ", which is not a constant: put it outside of the reduced loops with reorder, "
                  "split by constants, or bind it to blocks or threads");
        term.count *= l->extent->intValue();
      }
    }
    out->terms.push_back(std::move(term));
    if (out->reducesGrid()) {
      for (const TensorView* in : tensorInputs(e)) {
        NVF_CHECK(grid_reduces_.of(in).empty(), in->toString(),
                  " is complete in one block only: ", e->output(0)->toString(),
                  " cannot be reduced over blocks");
      }
      if (!ctx_.kernel()->synchronizes_grid) {
        std::copy_if(
            shape.outer.begin(), shape.outer.end(), std::back_inserter(repeated_[out]),
            [](const Loop* l) { return !isParallelTypeThread(l->type) && !l->extent->isOneInt(); });
        out->flag = "last_block" + std::to_string(e->output(0)->name());
        grid_reduces_.set(e->output(0)->as<TensorView>(), {out});
      }
    }
    return out;
  }

  void inheritGridReduces(const Expr* e) {
    std::vector<const ThreadReduce*> all;
    auto take = [&](const TensorView* tv) {
      for (const ThreadReduce* r : grid_reduces_.of(tv)) {
        if (std::find(all.begin(), all.end(), r) == all.end()) {
          all.push_back(r);
        }
      }
    };
    for (const TensorView* in : tensorInputs(e)) {
      take(in);
    }
    for (const TensorView* out : tensorOutputs(e)) {
      take(out);
    }
    for (const TensorView* out : tensorOutputs(e)) {
      for (const ThreadReduce* r : all) {
        checkRepeated(r, out);
      }
      grid_reduces_.set(out, all);
    }
  }

  // In each iteration of a loop another block may be the last one.
  void checkRepeated(const ThreadReduce* r, const TensorView* out) const {
    const std::vector<Loop*>& path = ctx_.loops(out).path;
    for (const Loop* l : repeated_.at(r)) {
      NVF_CHECK(std::find(path.begin(), path.end(), l) != path.end(),
                r->terms.front().buffers.front()->toString(),
                " is reduced over blocks inside of the loop over ", l->domain->toString(), ", but ",
                out->toString(),
                " is computed of it outside; bind that axis to threads or blocks, or inline them "
                "into one loop");
    }
  }

  LowerContext& ctx_;
  // The serial loops that a reduction over blocks is in, if only the last block has its result.
  std::unordered_map<const ThreadReduce*, std::vector<const Loop*>> repeated_;
  std::vector<NestedStatement> statements_;
  GridReduces grid_reduces_;
  std::unordered_map<const Val*, size_t> maker_; // the statement after which a value is complete
};

} // namespace

StatementsToNest statementsToNest(LowerContext& ctx) {
  return WorkMaker(ctx).run();
}

bool isSameScope(const ThreadReduce* a, const ThreadReduce* b) {
  return a->threads() == b->threads() && a->cluster() == b->cluster() && a->grid() == b->grid();
}

int64_t maxBlockThreads(const Kernel* kernel) {
  constexpr int64_t kMost = 1024;
  int64_t threads = 1;
  for (const auto& [type, extent] : kernel->parallel_extents) {
    if (isParallelTypeThreadDim(type)) {
      if (!extent->isConstInt()) {
        return kernel->mostThreads() > 0 ? kernel->mostThreads() : kMost;
      }
      threads *= extent->intValue();
    }
  }
  return std::min(threads, kMost);
}

int extentArgument(const Kernel* kernel, ParallelType type) {
  auto it = kernel->parallel_extents.find(type);
  if (it == kernel->parallel_extents.end()) {
    return 1;
  }
  if (it->second->isConstInt()) {
    return static_cast<int>(it->second->intValue());
  }
  const std::optional<LaunchNumber> number = kernel->launchNumber(it->second);
  return number.has_value() && number->by_warps ? -static_cast<int>(number->most) : 0;
}

int clusterArgument(const Kernel* kernel) {
  int64_t blocks = 1;
  bool is_constant = true;
  for (const auto& [type, extent] : kernel->cluster_extents) {
    const std::optional<LaunchNumber> number = kernel->launchNumber(extent);
    is_constant = is_constant && !number.has_value();
    blocks *= number.has_value() ? number->most : extent->intValue();
  }
  return static_cast<int>(is_constant ? blocks : -blocks);
}

namespace {

constexpr int64_t kWorkspaceAlignment = 16;
// Before it are the two regions of reductions within blocks.
constexpr int kFirstClusterRegion = 2;

int64_t roundUp(int64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

class ReduceMerger {
 public:
  explicit ReduceMerger(LowerContext& ctx) : ctx_(ctx) {}

  void run(Statements& nest) {
    by_phase_ = allByPhase(nest);
    counts_phases_ = by_phase_ && reducesClusterInLoop(nest, /*in_loop=*/false);
    merge(nest);
    Kernel* kernel = ctx_.kernel();
    bool may_follow = mayWorkOverTensors();
    placeOverTensors(nest, may_follow);
    kernel->counts_cluster_phases = counts_phases_;
    if (num_phases_ > 0) {
      kernel->cluster_barriers =
          kernel->shared_bytes == nullptr ? kernel->zeroVal() : kernel->shared_bytes;
      kernel->shared_bytes =
          IrBuilder::addExpr(kernel->cluster_barriers, IrBuilder::index(kWorkspaceAlignment));
    }
    for (size_t region = 0; region < in_region_.size(); ++region) {
      if (in_region_[region].empty()) {
        continue;
      }
      Val* offset = kernel->shared_bytes == nullptr ? kernel->zeroVal() : kernel->shared_bytes;
      int64_t bytes = 0;
      Val* launched = nullptr;
      for (ThreadReduce* r : in_region_[region]) {
        r->workspace = offset;
        if (Val* size = bytesOfLaunchedThreads(r)) {
          launched = launched == nullptr ? size : IrBuilder::maxExpr(launched, size);
        } else {
          bytes = std::max(bytes, workspaceBytes(r));
        }
      }
      int64_t workspaces = 1;
      if (counts_phases_ && region == kFirstClusterRegion) {
        workspaces = 2;
        bytes = roundUp(bytes);
        for (ThreadReduce* r : in_region_[region]) {
          r->phase_stride = bytes;
        }
      }
      Val* size = IrBuilder::index(workspaces * bytes);
      if (launched != nullptr) {
        size = bytes == 0 ? launched : IrBuilder::maxExpr(launched, size);
      }
      kernel->shared_bytes = ctx_.simplified(IrBuilder::addExpr(offset, size));
    }
    for (const auto& [reduce, repetition] : over_grid_) {
      placeInGlobalMemory(reduce, repetition);
    }
  }

 private:
  void merge(Statements& list) {
    Statements out;
    ThreadReduce* last = nullptr;
    for (Expr* e : list) {
      if (auto* loop = tryAs<ForLoop>(e)) {
        close(last);
        last = nullptr;
        loops_.push_back(loop);
        merge(loop->body());
        loops_.pop_back();
      }
      auto* reduce = tryAs<ThreadReduce>(e);
      if (reduce != nullptr && last != nullptr && isSameScope(last, reduce)) {
        last->terms.insert(last->terms.end(), reduce->terms.begin(), reduce->terms.end());
        reduce->flag = last->flag; // what reads its result asks for the same last block
        continue;
      }
      close(last);
      last = reduce;
      out.push_back(e);
    }
    close(last);
    list = std::move(out);
  }

  // All its terms are known: it takes the next region of shared memory.
  void close(ThreadReduce* reduce) {
    if (reduce == nullptr || reduce->region >= 0) {
      return;
    }
    if (reduce->reducesGrid()) {
      over_grid_.emplace_back(reduce, repetition());
    }
    if (workspaceBytes(reduce) == 0) {
      return;
    }
    const bool in_cluster = reduce->reducesCluster();
    int& next = next_region_[in_cluster ? 1 : 0];
    reduce->region = next + (in_cluster ? kFirstClusterRegion : 0);
    if (!in_cluster || !counts_phases_) {
      next = 1 - next;
    }
    in_region_[static_cast<size_t>(reduce->region)].push_back(reduce);
    if (in_cluster && by_phase_) {
      reduce->phase_barrier = num_phases_ % 2;
      reduce->parity = num_phases_ / 2 % 2;
      ++num_phases_;
    }
  }

  // Stores in bulk may still read shared memory when the statement is done.
  bool mayWorkOverTensors() const {
    return ctx_.kernel()->hasExpr(touchesShared) && !ctx_.kernel()->hasExpr(isBulkCopy);
  }

  // A reduction of the block behind all loops takes the memory of tensors: the rows that it sums up
  // may have left no other. From the end, until a statement touches one of them.
  void placeOverTensors(const Statements& list, bool& may_follow) {
    for (size_t i = list.size(); may_follow && i-- > 0;) {
      Expr* e = list[i];
      auto* reduce = tryAs<ThreadReduce>(e);
      const auto* loop = tryAs<ForLoop>(e);
      if (reduce != nullptr && reduce->region >= 0 && !reduce->reducesCluster()) {
        auto& in_region = in_region_[static_cast<size_t>(reduce->region)];
        in_region.erase(std::find(in_region.begin(), in_region.end(), reduce));
        reduce->region = -1;
        Val* launched = bytesOfLaunchedThreads(reduce);
        reduce->bytes_over_tensors =
            launched != nullptr ? launched : IrBuilder::index(workspaceBytes(reduce));
      } else if (loop != nullptr && loop->isTrivial()) {
        placeOverTensors(loop->body(), may_follow);
      } else {
        may_follow = !touchesShared(e);
      }
    }
  }

  static bool touchesShared(const Expr* e) {
    if (const auto* loop = tryAs<ForLoop>(e)) {
      return std::any_of(loop->body().begin(), loop->body().end(), touchesShared);
    }
    if (const auto* step = tryAs<ReduceStep>(e)) {
      e = step->reduction();
    }
    const auto is_shared = [](const TensorView* tv) {
      return tv->getMemoryType() == MemoryType::Shared;
    };
    const auto ins = tensorInputs(e);
    const auto outs = tensorOutputs(e);
    return std::any_of(ins.begin(), ins.end(), is_shared) ||
           std::any_of(outs.begin(), outs.end(), is_shared);
  }

  // Whether all reductions within clusters can count what arrives instead of waiting at a
  // barrier: their values are words. A block is at most one phase ahead of another, as it needs the
  // partials of all blocks to go on: two workspaces and two mbarriers are enough.
  static bool allByPhase(const Statements& list) {
    return std::all_of(list.begin(), list.end(), [&](const Expr* e) {
      if (const auto* loop = tryAs<ForLoop>(e)) {
        return allByPhase(loop->body());
      }
      const auto* reduce = tryAs<ThreadReduce>(e);
      return reduce == nullptr || !reduce->reducesCluster() || wholeWords(reduce);
    });
  }

  static bool reducesClusterInLoop(const Statements& list, bool in_loop) {
    return std::any_of(list.begin(), list.end(), [&](const Expr* e) {
      if (const auto* loop = tryAs<ForLoop>(e)) {
        return reducesClusterInLoop(loop->body(), in_loop || !loop->isTrivial());
      }
      const auto* reduce = tryAs<ThreadReduce>(e);
      return in_loop && reduce != nullptr && reduce->reducesCluster();
    });
  }

  static bool wholeWords(const ThreadReduce* reduce) {
    constexpr int64_t kWord = 4;
    return std::all_of(reduce->terms.begin(), reduce->terms.end(), [](const ReduceTerm& t) {
      return std::all_of(t.buffers.begin(), t.buffers.end(), [](const TensorView* tv) {
        return dataTypeSizeBytes(tv->dtype()) % kWord == 0;
      });
    });
  }

  // In which of how many iterations of the loops around it a reduction is.
  struct Repetition {
    Val* number;
    Val* count;
  };
  Repetition repetition() const {
    Repetition out{ctx_.kernel()->zeroVal(), ctx_.kernel()->oneVal()};
    for (const ForLoop* loop : loops_) {
      if (!loop->isTrivial()) {
        out.number =
            IrBuilder::addExpr(IrBuilder::mulExpr(out.number, loop->extent()), loop->index());
        out.count = IrBuilder::mulExpr(out.count, loop->extent());
      }
    }
    return out;
  }

  // Partials of every block, and a counter for each group of blocks that is reduced, both for each
  // iteration of loops: blocks that are ahead disturb no others.
  void placeInGlobalMemory(ThreadReduce* reduce, const Repetition& repetition) {
    Kernel* kernel = ctx_.kernel();
    Val* blocks = kernel->oneVal();
    Val* groups = kernel->oneVal();
    Val* segments = kernel->oneVal();
    for (const auto& [type, extent] : kernel->parallel_extents) {
      if (isParallelTypeBlockDim(type)) {
        blocks = IrBuilder::mulExpr(blocks, extent);
        if (!reduce->grid()[static_cast<size_t>(type) - static_cast<size_t>(ParallelType::BIDx)]) {
          groups = IrBuilder::mulExpr(groups, extent);
        }
      } else if (!reduce->threads()[static_cast<size_t>(type) -
                                    static_cast<size_t>(ParallelType::TIDx)]) {
        segments = IrBuilder::mulExpr(segments, extent);
      }
    }
    auto zero = [&](Val* v) { return v == nullptr ? kernel->zeroVal() : v; };
    Val* begin = zero(kernel->workspace_bytes);
    Val* first = zero(kernel->num_semaphores);
    Val* bytes = kernel->zeroVal();
    Val* values = IrBuilder::mulExpr(blocks, segments);
    for (const ReduceTermSize& size : termSizes(reduce)) {
      Val* chunks = IrBuilder::ceilDivExpr(
          IrBuilder::mulExpr(values, IrBuilder::index(int64_t{size.values} * size.bytes)),
          IrBuilder::index(kWorkspaceAlignment));
      bytes = IrBuilder::addExpr(bytes,
                                 IrBuilder::mulExpr(chunks, IrBuilder::index(kWorkspaceAlignment)));
    }
    auto at = [&](Val* start, Val* size) {
      return IrBuilder::addExpr(start, IrBuilder::mulExpr(repetition.number, size));
    };
    auto end = [&](Val* start, Val* size) {
      return IrBuilder::addExpr(start, IrBuilder::mulExpr(repetition.count, size));
    };
    reduce->grid_workspace = at(begin, bytes);
    reduce->semaphores = at(first, groups);
    kernel->workspace_bytes = end(begin, bytes);
    kernel->num_semaphores = end(first, groups);
  }

  static std::vector<ReduceTermSize> termSizes(const ThreadReduce* reduce) {
    std::vector<ReduceTermSize> sizes;
    for (const ReduceTerm& t : reduce->terms) {
      int64_t bytes = 0;
      for (const TensorView* tv : t.buffers) {
        bytes += dataTypeSizeBytes(tv->dtype());
      }
      sizes.push_back({static_cast<int>(t.count), static_cast<int>(bytes)});
    }
    return sizes;
  }

  nvf::BlockShape blockShape(const ThreadReduce* reduce) const {
    nvf::BlockShape shape{};
    for (size_t i = 0; i < 3; ++i) {
      shape.reduced[i] = reduce->threads()[i];
      const auto type = static_cast<ParallelType>(static_cast<size_t>(ParallelType::TIDx) + i);
      shape.extent[i] = extentArgument(ctx_.kernel(), type);
    }
    return shape;
  }

  // The bytes that the block takes whose size only the launch knows, and of which nothing says how
  // large it may get: for the largest of all blocks they may be more than there are. Null where
  // the size is a constant.
  Val* bytesOfLaunchedThreads(const ThreadReduce* reduce) const {
    Kernel* kernel = ctx_.kernel();
    int values = 0;
    for (const ReduceTermSize& term : termSizes(reduce)) {
      values += term.values;
    }
    const nvf::ReducePath path = nvf::reducePath(blockShape(reduce), values);
    Val* threads = kernel->oneVal();
    for (const auto& [type, extent] : kernel->parallel_extents) {
      threads = isParallelTypeThreadDim(type) ? IrBuilder::mulExpr(threads, extent) : threads;
    }
    if (threads->isConstInt() || kernel->mostThreads() > 0 || reduce->reducesCluster() ||
        (path != nvf::ReducePath::All && path != nvf::ReducePath::RunTime)) {
      return nullptr;
    }
    Val* bytes = kernel->zeroVal();
    for (const ReduceTermSize& term : termSizes(reduce)) {
      Val* own = IrBuilder::mulExpr(threads, IrBuilder::index(int64_t{term.values} * term.bytes));
      Val* chunk = IrBuilder::index(kWorkspaceAlignment);
      bytes =
          IrBuilder::addExpr(bytes, IrBuilder::mulExpr(IrBuilder::ceilDivExpr(own, chunk), chunk));
    }
    return ctx_.simplified(bytes);
  }

  int64_t workspaceBytes(const ThreadReduce* reduce) const {
    const Kernel* kernel = ctx_.kernel();
    const nvf::BlockShape shape = blockShape(reduce);
    if (reduce->reducesCluster()) {
      return clusterReduceWorkspaceBytes(shape, static_cast<int>(maxBlockThreads(kernel)),
                                         std::abs(clusterArgument(kernel)), termSizes(reduce));
    }
    return blockReduceWorkspaceBytes(shape, static_cast<int>(maxBlockThreads(kernel)),
                                     termSizes(reduce));
  }

  LowerContext& ctx_;
  std::array<int, 2> next_region_{}; // of blocks, of clusters
  bool by_phase_ = true;
  bool counts_phases_ = false;
  int num_phases_ = 0;
  std::vector<ForLoop*> loops_; // around the list that is merged
  std::vector<std::pair<ThreadReduce*, Repetition>> over_grid_;
  std::array<std::vector<ThreadReduce*>, 4> in_region_;
};

} // namespace

void mergeThreadReduces(LowerContext& ctx, Statements& nest) {
  ReduceMerger(ctx).run(nest);
}

} // namespace nvfuser
