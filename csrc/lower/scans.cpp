// SPDX-License-Identifier: BSD-3-Clause
// See scans.h.
#include <lower/scans.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/visitor.h>
#include <lower/reductions.h>
#include <machine.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace nvfuser {

namespace {

// The domain is made of the dimension, maybe of parts of it.
bool isPartOf(const IterDomain* id, const IterDomain* dimension) {
  if (id == dimension) {
    return true;
  }
  const Expr* def = id->definition();
  return def != nullptr &&
         std::any_of(def->inputs().begin(), def->inputs().end(),
                     [&](const Val* in) { return isPartOf(in->as<IterDomain>(), dimension); });
}

// [tile, thread, element] of the dimension: two splits by inner factors.
bool isTiled(const std::vector<IterDomain*>& loop, const IterDomain* dimension) {
  if (loop.size() < 3) {
    return false;
  }
  const auto* elements = tryAs<Split>(loop[loop.size() - 1]->definition());
  const auto* threads = tryAs<Split>(loop[loop.size() - 2]->definition());
  return elements != nullptr && threads != nullptr && elements->in() == dimension &&
         elements->inner() == loop.back() && elements->outer() == threads->in() &&
         threads->inner() == loop[loop.size() - 2] && threads->outer() == loop[loop.size() - 3];
}

// How many of the last domains before `end` are parts of the dimension that together go along it in
// order; 0 if these are not all of it.
size_t partsInOrder(const std::vector<IterDomain*>& loop, size_t end, const IterDomain* dimension,
                    const std::unordered_map<const IterDomain*, const Split*>& splits) {
  if (end > 0 && loop[end - 1] == dimension) {
    return 1;
  }
  const auto split = splits.find(dimension);
  if (split == splits.end()) {
    return 0;
  }
  const size_t inner = partsInOrder(loop, end, split->second->inner(), splits);
  const size_t outer =
      inner == 0 ? 0 : partsInOrder(loop, end - inner, split->second->outer(), splits);
  return outer == 0 ? 0 : inner + outer;
}

bool isThreadsOfScan(const Loop* loop) {
  if (loop->type != ParallelType::TIDx || !loop->extent->isConstInt()) {
    return false;
  }
  const int64_t threads = loop->extent->intValue();
  return threads % kWarp == 0 ||
         (threads < kWarp && std::has_single_bit(static_cast<uint64_t>(threads)));
}

} // namespace

bool isThreadScan(const LowerContext& ctx, const Expr* e) {
  const auto* scan = tryAs<ScanOp>(e);
  if (scan == nullptr) {
    return false;
  }
  const TensorLoops& loops = ctx.loops(scan->out());
  const auto& domain = scan->out()->getLoopDomain();
  for (size_t i = 0; i < domain.size(); ++i) {
    if (isParallelTypeThread(loops.own[i]->type) && isPartOf(domain[i], scan->scanAxis())) {
      return true;
    }
  }
  return false;
}

std::span<Loop* const> loopsOfScan(const LowerContext& ctx, const ScanOp* scan) {
  const TensorLoops& loops = ctx.loops(scan->out());
  const auto& domain = scan->out()->getLoopDomain();
  std::unordered_map<const IterDomain*, const Split*> splits;
  for (const Expr* e : transformsBetween(scan->out()->getLogicalDomain(), domain)) {
    if (const auto* split = tryAs<Split>(e)) {
      splits.emplace(split->in(), split);
    }
  }
  const size_t parts = partsInOrder(domain, domain.size(), scan->scanAxis(), splits);
  const size_t n = loops.path.size();
  if (parts == 0 || parts > n || parts > loops.own.size() ||
      !std::equal(loops.path.end() - static_cast<std::ptrdiff_t>(parts), loops.path.end(),
                  loops.own.end() - static_cast<std::ptrdiff_t>(parts))) {
    return {};
  }
  const std::span<Loop* const> found(loops.path.data() + (n - parts), parts);
  const bool are_serial = std::ranges::all_of(
      found, [](const Loop* loop) { return loop->type == ParallelType::Serial; });
  return are_serial ? found : std::span<Loop* const>();
}

void checkThreadScan(const LowerContext& ctx, const Expr* e) {
  const auto* scan = static_cast<const ScanOp*>(e);
  const TensorView* tv = scan->out();
  const TensorLoops& loops = ctx.loops(tv);
  const size_t n = loops.path.size();
  const bool last_are_own = loops.own.size() >= 3 && n >= 3 &&
                            std::equal(loops.path.end() - 3, loops.path.end(), loops.own.end() - 3);
  NVF_CHECK(
      isTiled(tv->getLoopDomain(), scan->scanAxis()) && last_are_own &&
          loops.path[n - 3]->type == ParallelType::Serial && isThreadsOfScan(loops.path[n - 2]) &&
          loops.path[n - 1]->type == ParallelType::Serial &&
          loops.path[n - 1]->extent->isConstInt(),
      tv->toString(),
      ": a scan over threads needs its dimension split into [serial, threadIdx.x, serial] as its "
      "last loop axes, with "
      "constant factors, of which the threads are a power of two up to 32 or a multiple of 32");
  NVF_CHECK(loops.shared < n, tv->toString(),
            ": a scan over threads cannot be inlined into the elements of a thread");
  NVF_CHECK(tv->getMemoryType() == MemoryType::Local, tv->toString(),
            ": a scan over threads needs registers; use cache_before");
}

namespace {

constexpr int64_t kAlignment = 16;
// After those of reductions (reductions.cpp).
constexpr int kFirstRegion = 4;

class ScanPlacer {
 public:
  explicit ScanPlacer(Kernel* kernel) : kernel_(kernel) {}

  void run(const Statements& nest) {
    visit(nest);
    for (size_t i = 0; i < scans_.size(); ++i) {
      if (scans_[i].empty()) {
        continue;
      }
      Val* offset = kernel_->shared_bytes == nullptr ? kernel_->zeroVal() : kernel_->shared_bytes;
      int64_t bytes = 0;
      for (ThreadScan* scan : scans_[i]) {
        scan->workspace = offset;
        const DataType dtype = scan->scan()->output(0)->dtype();
        bytes = std::max(bytes, maxBlockThreads(kernel_) / kWarp * dataTypeSizeBytes(dtype));
      }
      kernel_->shared_bytes = IrBuilder::addExpr(
          offset, IrBuilder::index((bytes + kAlignment - 1) / kAlignment * kAlignment));
    }
  }

 private:
  void visit(const Statements& list) {
    for (Expr* e : list) {
      if (auto* loop = tryAs<ForLoop>(e)) {
        visit(loop->body());
      }
      auto* scan = tryAs<ThreadScan>(e);
      if (scan != nullptr && scan->part() == ThreadScan::Part::Combine && scan->threads > kWarp) {
        scan->region = kFirstRegion + next_;
        scans_[static_cast<size_t>(next_)].push_back(scan);
        next_ = 1 - next_;
      }
    }
  }

  Kernel* kernel_;
  int next_ = 0;
  std::array<std::vector<ThreadScan*>, 2> scans_;
};

} // namespace

void placeThreadScans(LowerContext& ctx, const Statements& nest) {
  ScanPlacer(ctx.kernel()).run(nest);
}

} // namespace nvfuser
