// SPDX-License-Identifier: BSD-3-Clause
// Parameters of reductions for given shapes, and what those of normalizations have in common with
// them.
//
// The aim is copy bandwidth: accesses of 16 bytes, as many bytes requested at once as an SM wants,
// enough blocks for all SMs. Threads of a row are the fastest by the estimate of cost.h.
#include <base/integer_math.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <scheduler/access_width.h>
#include <scheduler/cost.h>
#include <scheduler/reduction_chooser.h>
#include <scheduler/reduction_in_loops.h>
#include <scheduler/stage_splitter.h>

#include <algorithm>
#include <numeric>

namespace nvfuser::reduction {

// Numbers that were tried by hand, see reduction_chooser.h. Accesses that a thread has at once, of
// vectors half as many; and threads by those that there is room for that find room as well: a
// seventh more.
constexpr int64_t kMostAtOnce = 16;
constexpr int64_t kFewTooMany = 7;
constexpr int64_t kRowsOfThread = 4; // [rows] that share all that is read along them

ReductionChooser::ReductionChooser(SchedulerType type, Fusion* fusion,
                                   const ReductionAnalysis& analysis, SchedulerRuntimeInfo& info)
    : fusion_(fusion),
      analysis_(analysis),
      info_(info),
      machine_(info.machine()),
      params_(std::make_unique<ReductionParams>(type)) {
  for (const IterDomain* id : analysis.reference()->getLogicalDomain()) {
    if (!analysis.isShortDim(id)) {
      (analysis.isReducedDim(id) ? reduced_ : kept_) *= id->isBroadcast() ? 1 : info.sizeOf(id);
    }
  }
  // Intermediate tensors may be empty where an output is not.
  is_empty_ = kept_ == 0 || reduced_ == 0;
  findAcross();
  kept_ = std::max<int64_t>(kept_, 1);
  reduced_ = std::max<int64_t>(reduced_, 1);
}

ChosenParams ReductionChooser::run() {
  params_->fastest_dim = analysis_.fastest_dim || kept_ == 1 || !analysis_.partials.empty();
  chooseVectors();
  if (analysis_.hasSubrows()) {
    chooseSubrows();
  } else if (machine_.threads_in_loops) {
    chooseInLoops();
  } else if (!analysis_.partials.empty()) {
    chooseInnerOuter();
  } else if (wantsExchange() && exchangeRows()) {
    return std::move(params_);
  } else if (analysis_.normalization && !params_->fastest_dim) {
    chooseOuterPersistent();
  } else if (analysis_.normalization && chooseAnyRow()) {
    return std::move(params_);
  } else if (analysis_.normalization) {
    alignRows(kRegisterBytes, kFewestAligned);
    if (!loadByWarps()) {
      chooseNormalization();
      loadPersistentRowsInBulk();
    }
  } else if (params_->fastest_dim) {
    chooseInner();
    reduceInBulk();
  } else {
    chooseOuter();
  }
  if (!why_not_.empty()) {
    return ChosenParams::doesNotFit(std::move(why_not_));
  }
  return std::move(params_);
}

void ReductionChooser::chooseInLoops() {
  params_->threads_in_loops = true;
  limitVectors(1);
  if (!analysis_.partials.empty()) {
    return chooseInnerOuter();
  }
  LoopedReduction what;
  what.kept = kept_;
  what.reduced = reduced_;
  what.bytes = bytes_per_element_;
  what.is_normalization = analysis_.normalization;
  if (params_->fastest_dim) {
    chooseRowsInLoops(what, machine_, *params_);
  } else {
    why_not_ = chooseColumnsInLoops(what, machine_, *params_);
  }
  // What of a row is expensive to compute again stays in an array of the row's length.
  const LaunchParams& l = params_->lparams;
  const int64_t batch = params_->fastest_dim ? ceilDiv(reduced_, l.bdimx()) : reduced_;
  const int64_t bytes = batch * l.bdimx() * l.bdimy() * static_cast<int64_t>(sizeof(double));
  if (why_not_.empty() && analysis_.normalization && !wantsAnyExtent(/*of_rows=*/true) &&
      !is_empty_ && bytes <= machine_.cacheForRow()) {
    keepRowOnChip(batch);
  }
}

// Elements of a persistent row that a thread holds at most. Small blocks of threads with much to
// do win: few warps wait at a barrier, and other blocks load meanwhile.
int64_t ReductionChooser::mostElements() const {
  return 2 * elementsOfThread();
}

// Of a position of a row a thread has all, and of the rows of several sets.
int64_t ReductionChooser::elementsOfPosition() const {
  return analysis_.shortElements() * (analysis_.normalization ? analysis_.num_sets : 1);
}

int64_t ReductionChooser::elementsOfThread() const {
  return std::max<int64_t>(machine_.elementsOfThread() / elementsOfPosition(), 1);
}

int64_t ReductionChooser::fewerElements() const {
  return std::max<int64_t>(machine_.fewerElements() / elementsOfPosition(), 1);
}

int64_t ReductionChooser::largeBlock() const {
  return std::min(machine_.largeThreads(), machine_.max_threads_per_block);
}

// Of what an SM has, a power of two: three blocks with so many bytes have room.
int64_t ReductionChooser::thirdOfShared() const {
  return powerOfTwoUpTo(machine_.shared_per_sm / 3);
}

// --- vectors ---

// The largest access to the tensor along or across the rows, in elements.
int64_t ReductionChooser::possibleWidth(const TensorView* tv, bool along_row) {
  const auto dims = analysis_.contiguousRun(tv, along_row);
  return dims.empty() ? 1 : widthOfRun(tv, dims, analysis_.runAlong(tv, along_row));
}

// Where slices and pads lie in between, they begin and end between vectors.
int64_t ReductionChooser::widthOfRun(const TensorView* tv, const std::vector<IterDomain*>& dims,
                                     const ContiguousRun& run) {
  int64_t width = accessWidth(tv, dims, info_);
  for (const std::vector<Val*>& multiple : run.multiples) {
    while (info_.productOf(multiple) % width != 0) {
      width /= 2;
    }
  }
  return width;
}

void ReductionChooser::chooseVectors() {
  int64_t widest = 1;
  bool any_short = false;
  // Reductions that have nothing to do with each other run one after the other, but rows that are
  // kept are there together.
  std::vector<double> bytes_of_set(static_cast<size_t>(analysis_.num_sets), 0.0);
  auto add = [&](const Val* v, bool is_output) {
    int64_t width = 1;
    if (v->isTensor()) {
      const bool is_exchanged = isExchanged(params_->vector_widths.size());
      const bool is_short = isAlongShort(v->as<TensorView>());
      width = is_short ? shortWidth(v->as<TensorView>())
                       : possibleWidth(v->as<TensorView>(), params_->fastest_dim && !is_exchanged);
      widest = is_exchanged || is_short ? widest : std::max(widest, width);
      any_short = any_short || is_short;
      if (!is_output && analysis_.hasReducedDims(v->as<TensorView>()) &&
          !analysis_.isOneOfVector(v->as<TensorView>())) {
        const double bytes =
            static_cast<double>(dataTypeSizeBits(v->dtype()) *
                                analysis_.elementsOfPosition(v->as<TensorView>())) /
            8;
        const int set = std::max(analysis_.setOf(v->as<TensorView>()), 0);
        bytes_of_set[static_cast<size_t>(set)] += bytes;
        if (!analysis_.differsByRow(v->as<TensorView>())) {
          shared_bytes_ += bytes;
          ++shared_inputs_;
        }
      }
    }
    params_->vector_widths.push_back(width);
  };
  for (const Val* in : fusion_->inputs()) {
    add(in, false);
  }
  for (const Val* out : fusion_->outputs()) {
    add(out, true);
  }
  vector_ = widest;
  // Neighbouring threads have neighbouring positions of a row, or vectors of them: those would be
  // far apart in what lies along short dimensions.
  limitVectors(any_short ? 1 : kElementsOfVector);
  limitVectors(vectorByLines(vector_));
  limitVectors(vectorWithinColumns(vector_));
  const double bytes = analysis_.normalization
                           ? std::accumulate(bytes_of_set.begin(), bytes_of_set.end(), 0.0)
                           : *std::max_element(bytes_of_set.begin(), bytes_of_set.end());
  bytes_per_element_ = std::max(bytes, 1.0);
}

// Vectors that few tensors gain from are paid for by those that are read element by element:
// what neighbouring threads read is farther apart.
int64_t ReductionChooser::vectorByLines(int64_t widest) {
  std::vector<AccessAlong> accesses;
  size_t position = 0;
  const auto add = [&](const Val* v) {
    const int64_t width = params_->vector_widths[position];
    const auto* tv = tryAs<TensorView>(v);
    // Threads of sums of columns have many rows for what the columns have themselves.
    const bool counts = tv != nullptr && (params_->fastest_dim || analysis_.normalization ||
                                          analysis_.hasReducedDims(tv));
    if (!isExchanged(position++) && counts &&
        analysis_.innermostDim(tv, params_->fastest_dim) >= 0) {
      const int64_t bytes = std::max<int64_t>(dataTypeSizeBits(tv->dtype()) / 8, 1);
      const bool from_memory = params_->fastest_dim ? analysis_.differsByRow(tv) || kept_ == 1
                                                    : analysis_.hasReducedDims(tv) || reduced_ == 1;
      accesses.push_back({bytes, width, bytes * strideAlong(tv), from_memory});
    }
  };
  std::for_each(fusion_->inputs().begin(), fusion_->inputs().end(), add);
  std::for_each(fusion_->outputs().begin(), fusion_->outputs().end(), add);
  return analysis_.hasShortDims() ? widest : vectorOf(accesses, widest, machine_);
}

// Of sums of columns: what several neighbouring columns share is one element of a vector only if no
// vector is part of two such groups.
int64_t ReductionChooser::vectorWithinColumns(int64_t widest) const {
  const auto& inputs = fusion_->inputs();
  const bool any_shared = std::ranges::any_of(inputs, [&](const Val* v) {
    const auto* tv = tryAs<TensorView>(v);
    return tv != nullptr && analysis_.isSharedByNeighbours(tv) && analysis_.differsByRow(tv);
  });
  if (params_->fastest_dim || !any_shared || analysis_.hasShortDims()) {
    return widest;
  }
  for (const Val* v : inputs) {
    const auto* tv = tryAs<TensorView>(v);
    const int64_t dim = tv == nullptr ? -1 : analysis_.innermostDim(tv, false);
    while (dim >= 0 && info_.sizeOf(logicalIds(tv)[static_cast<size_t>(dim)]) % widest != 0) {
      widest /= 2;
    }
  }
  return widest;
}

// In elements, from one position to the next.
int64_t ReductionChooser::strideAlong(const TensorView* tv) const {
  const auto& strides = info_.stridesOf(tv);
  const auto dim = static_cast<size_t>(analysis_.innermostDim(tv, params_->fastest_dim));
  return !strides.empty()                                            ? strides[dim]
         : analysis_.contiguousRun(tv, params_->fastest_dim).empty() ? machine_.line_bytes
                                                                     : 1;
}

// A thread has neighbours in memory at each position of a row, and vectors of these.
bool ReductionChooser::isAlongShort(const TensorView* tv) const {
  return analysis_.hasShortDims() && !analysis_.contiguousShortRun(tv).empty();
}

int64_t ReductionChooser::shortWidth(const TensorView* tv) {
  return machine_.threads_in_loops
             ? 1
             : widthOfRun(tv, analysis_.contiguousShortRun(tv), analysis_.runAlongShort(tv));
}

// Rows whose length leaves narrow vectors only: whole ones that begin before the row. What lies
// in memory otherwise is accessed element by element.
void ReductionChooser::alignRows(int64_t narrow_bytes, int64_t fewest_vectors) {
  if (vectorBytes() > narrow_bytes || kept_ < 2 || analysis_.hasShortDims()) {
    return;
  }
  std::vector<int64_t> widths;
  int64_t widest = 1;
  auto add = [&](const Val* v) {
    const auto* tv = tryAs<TensorView>(v);
    const bool follows =
        tv != nullptr && !isLookedUp(tv) && (analysis_.liesAsRowsDo(tv) || isOneRow(tv));
    widths.push_back(follows ? alignedWidth(tv, info_) : 1);
    widest = std::max(widest, widths.back());
  };
  for (const Val* in : fusion_->inputs()) {
    add(in);
    const auto* tv = tryAs<TensorView>(in);
    if (tv != nullptr && isOneRow(tv) && leadsTo(tv, isReduction)) {
      return; // several passes read it, which it would stay in registers for
    }
  }
  for (const Val* out : fusion_->outputs()) {
    add(out);
  }
  if (widest > vector_ && reduced_ >= fewest_vectors * widest) {
    params_->align_rows = true;
    params_->vector_widths = std::move(widths);
    vector_ = widest;
  }
}

// One dimension in memory, and nothing but what all rows share. Its vectors begin anywhere.
bool ReductionChooser::isOneRow(const TensorView* tv) const {
  return tv->isFusionInput() && analysis_.hasWholeRows(tv) && !analysis_.differsByRow(tv) &&
         memoryDims(tv).size() == 1 && analysis_.contiguousRun(tv, true).size() == 1;
}

// Vectors that a row takes: of an aligned one those at its ends are not whole.
int64_t ReductionChooser::vectorsOfRow() const {
  return ceilDiv(reduced_ + (params_->align_rows ? vector_ - 1 : 0), vector_);
}

// Independent vectors per thread so that enough bytes are requested at once.
int64_t ReductionChooser::unrollFor(int64_t vectors_per_thread) const {
  const auto wanted = static_cast<int64_t>(static_cast<double>(machine_.bytesOfThread()) /
                                           (bytes_per_element_ * static_cast<double>(vector_)));
  const int64_t most = vector_ == 1 ? kMostAtOnce : kMostAtOnce / 2;
  return std::clamp<int64_t>(powerOfTwoUpTo(std::min(wanted, vectors_per_thread)), 1, most);
}

// --- inner reductions ---

void ReductionChooser::setInnerVector() {
  params_->unroll_factor_inner_reduction = vector_;
}

// Short rows: several, as long as each SM has two blocks.
int64_t ReductionChooser::rowsOfBlock(int64_t threads_x) {
  const int64_t few = std::max<int64_t>(machine_.fewThreads() / threads_x, 1);
  const int64_t rows = threads_x < kWarp && startsTooMany(ceilDiv(kept_, few)) ? 2 * few : few;
  return std::min(rows, powerOfTwoFrom(ceilDiv(kept_, 2 * machine_.sms)));
}

// So many small blocks do not start as fast as memory would serve them. (Rows of whole warps wait
// for these: fewer blocks took longer.)
bool ReductionChooser::startsTooMany(int64_t blocks) {
  if (blocks <= machine_.blocksAtOnce(machine_.fewThreads()) || wantsAnyExtent(/*of_rows=*/true)) {
    return false;
  }
  const double bytes = info_.bytesOf(fusion_->inputs()) + info_.bytesOf(fusion_->outputs());
  return microsecondsOfStarts(blocks, machine_) > bytes / machine_.memory_bandwidth;
}

void ReductionChooser::bindRows(int64_t threads_x) {
  params_->lparams.bindUnsafe(threads_x, ParallelType::TIDx);
  const int64_t rows = rowsOfBlock(threads_x);
  if (rows > 1) {
    params_->lparams.bindUnsafe(rows, ParallelType::TIDy);
  }
  blocks_ = ceilDiv(kept_, rows);
}

// A row of a few elements that no vectors fit is for one thread: with one element each, threads
// would request too little. Its elements are as far apart for neighbouring threads as rows are
// long, so that the first cache delivers so much less of each line in a cycle: no less than memory
// does of an SM's share, which is some 16 bytes.
bool ReductionChooser::isForOneThread(int64_t vectors) const {
  return vector_ == 1 && !analysis_.hasShortDims() && vectors * kVectorBytes < machine_.line_bytes;
}

// Threads for a row of `vectors` vectors of which each thread takes about `each`: whole warps, or
// a power of two below one.
int64_t ReductionChooser::threadsForRow(int64_t vectors, int64_t each, int64_t most) const {
  if (isForOneThread(vectors)) {
    return 1;
  }
  const int64_t wanted = std::max(ceilDiv(vectors, each), std::min(vectors, kFewestThreadsOfRow));
  if (wanted <= kWarp) {
    return std::min(powerOfTwoFrom(wanted), kWarp);
  }
  return std::min(roundUp(wanted, kWarp), most);
}

// Several kernels are to serve all extents, and these are not constants.
bool ReductionChooser::wantsAnyExtent(bool of_rows) const {
  const auto& logical = analysis_.reference()->getLogicalDomain();
  return info_.wantsAnyExtent() && !is_empty_ &&
         std::any_of(logical.begin(), logical.end(), [&](const IterDomain* id) {
           return (analysis_.isAlongRow(id) || !of_rows) && !id->isBroadcast() &&
                  !id->extent()->isConst();
         });
}

void ReductionChooser::chooseInner() {
  const bool wants_any = wantsAnyExtent(/*of_rows=*/true);
  if (!info_.wishes().bulk_reductions) {
    alignRows(wants_any ? kVectorBytes / 2 : kRegisterBytes, kFewestAligned);
  }
  setInnerVector();
  // Long ones have a kernel that depends on nothing else.
  const bool is_long = vectorsOfRow() > machine_.usualThreads() * unrollFor(mostElements());
  if (wants_any && !(is_long && kept_ > machine_.sms)) {
    params_->any_extent = true;
    params_->unroll_factor_top_of_vectorization = unrollFor(mostElements());
    bindAnyRows(machine_.largeThreads(), kShortRowsThreads / kFewestThreadsOfRow);
    blocks_ = kept_;
    splitInnerOverGrid(ceilDiv(
        vectorsOfRow(), machine_.largeThreads() * params_->unroll_factor_top_of_vectorization));
    return;
  }
  const int64_t vectors = vectorsOfRow();
  if (shareLookups(vectors)) {
    return;
  }
  shareRows();
  const int64_t threads = fastestThreads(vectors);
  const int64_t unroll = vectorsAtOnce(vectors, threads);
  params_->unroll_factor_top_of_vectorization = unroll;
  bindRows(threads);
  splitInnerOverGrid(ceilDiv(vectors, threads * unroll));
}

// Pairs of what two tensors have, for instance: neighbouring rows read the same, and differ in
// single values. A thread that has several rows loads, and computes of positions, once what they
// share. Elements that are looked up or written for each row are not shared.
void ReductionChooser::shareRows() {
  const auto isShared = [&](const Val* v) {
    const auto* tv = tryAs<TensorView>(v);
    return tv == nullptr || !analysis_.hasReducedDims(tv) || analysis_.isSharedByNeighbours(tv);
  };
  const bool are_shared = std::ranges::all_of(fusion_->inputs(), isShared) &&
                          std::ranges::all_of(fusion_->outputs(), isShared) && !looksUp();
  if (are_shared && !params_->align_rows && !analysis_.hasShortDims() &&
      kept_ >= kRowsOfThread * machine_.sms * machine_.fewThreads()) {
    params_->unroll_factor_iter_dom = kRowsOfThread;
    kept_ = ceilDiv(kept_, kRowsOfThread);
  }
}

// Of a row of `vectors` vectors that so many threads share: all that a thread has of it, if these
// are few. Lookups that are fewer at once leave room for more threads, whose lines no cache holds.
// Numbers that are powers of two make fewer kernels of rows of many lengths.
int64_t ReductionChooser::vectorsAtOnce(int64_t vectors, int64_t threads) const {
  const int64_t all = ceilDiv(vectors, threads);
  return all <= unrollFor(mostElements()) && !looksUp() && !wantsAnyExtent(/*of_rows=*/true)
             ? all
             : unrollFor(std::max<int64_t>(vectors / kFewestThreadsOfRow, 1));
}

// Elements of rows, each at a position of its own.
bool ReductionChooser::looksUp() const {
  return std::ranges::any_of(fusion_->exprs(), [&](const Expr* e) {
    return lookedUpTensor(e) != nullptr && e->kind() != ExprKind::RollOp &&
           analysis_.hasReducedDims(e->output(0)->as<TensorView>());
  });
}

// Of a row of `vectors` vectors: a power of two, as many as have something to do at most.
int64_t ReductionChooser::fastestThreads(int64_t vectors) {
  if (isForOneThread(vectors)) {
    return 1;
  }
  const int64_t few = unrollFor(std::max<int64_t>(vectors / kFewestThreadsOfRow, 1));
  const int64_t most =
      std::min(powerOfTwoFrom(ceilDiv(vectors, few)), powerOfTwoUpTo(largeBlock()));
  if (wantsAnyExtent(/*of_rows=*/true)) {
    return most; // of all long rows the same
  }
  const double bytes = bytes_per_element_ * static_cast<double>(vector_);
  const double row = bytes_per_element_ * static_cast<double>(reduced_);
  const double read = row * static_cast<double>(kept_);
  std::vector<Tile> tiles;
  for (int64_t threads = 1; threads <= most; threads *= 2) {
    const int64_t rows = rowsOfBlock(threads);
    const int64_t unroll = vectorsAtOnce(vectors, threads);
    Tile tile;
    tile.reductions = 0;
    tile.threads = threads * rows;
    tile.blocks = ceilDiv(kept_, rows);
    tile.iterations = ceilDiv(vectors, threads * unroll);
    tile.registers =
        registersHolding(static_cast<int64_t>(bytes * static_cast<double>(unroll)), machine_);
    tile.instructions =
        instructionsOf(tile.iterations * unroll, tile.iterations * unroll * vector_, machine_);
    tile.requested_bytes = read / static_cast<double>(tile.blocks * tile.iterations);
    const double of_access = bytes * static_cast<double>(threads);
    tile.run_bytes = static_cast<int64_t>(tile.iterations == 1 ? row : std::min(of_access, row));
    tile.lines = static_cast<double>(ceilDiv(tile.threads, kWarp) * tile.iterations * unroll) *
                 linesOfWarp(threads, bytes, row, machine_);
    tiles.push_back(tile);
  }
  return int64_t{1} << fastestOf(tiles, {read, 0}, machine_);
}

// What is looked up for the elements of a few rows: each lookup waits for its position, and an SM
// serves one line in a cycle. The blocks of a cluster share them, and each thread has all of its
// own on their way at once.
bool ReductionChooser::shareLookups(int64_t vectors) {
  if (params_->align_rows || !looksUp()) {
    return false;
  }
  const int64_t unroll = std::max<int64_t>(2 * kFewElements / vector_, 1);
  const int64_t threads = machine_.fewThreads();
  const int64_t wanted = ceilDiv(vectors, threads * unroll);
  const int64_t blocks = std::min(powerOfTwoUpTo(wanted), powerOfTwoUpTo(machine_.sms / kept_));
  if (blocks < 2 || wanted > std::min(machine_.usual_cluster, machine_.max_cluster)) {
    return false;
  }
  params_->unroll_factor_top_of_vectorization = unroll;
  params_->lparams.bindUnsafe(threads, ParallelType::TIDx);
  blocks_ = kept_;
  bindCluster(blocks);
  return true;
}

// Too few rows to fill the device: several blocks share a row.
void ReductionChooser::splitInnerOverGrid(int64_t iterations) {
  const int64_t threads =
      params_->any_extent ? params_->lparams.bdimx() : params_->lparams.nThreads();
  const int64_t resident = machine_.blocksAtOnce(threads);
  if (blocks_ > machine_.sms || iterations < 2 * kFewestIterations) {
    return;
  }
  // An SM that has nothing to do gains nothing from the others' iterations.
  const int64_t busy = std::min(machine_.sms / blocks_, iterations);
  const int64_t split =
      std::min(resident / blocks_, std::max(iterations / kFewestIterations, busy));
  if (split < 2) {
    return;
  }
  params_->cross_grid_inner_reduction = true;
  params_->lparams.bindUnsafe(split, ParallelType::BIDy);
}

// --- outer reductions ---

// Bytes of a vector of the narrowest tensor.
int64_t ReductionChooser::vectorBytes() const {
  int64_t bytes = kVectorBytes;
  for (const Val* in : fusion_->inputs()) {
    if (in->isTensor() && analysis_.hasReducedDims(in->as<TensorView>())) {
      bytes = std::min(bytes, vector_ * dataTypeSizeBits(in->dtype()) / 8);
    }
  }
  return powerOfTwoUpTo(bytes);
}

// One wave of blocks, with as many threads for each column as there is room for. As long as they
// fit into a block, nothing is left to do after it.
void ReductionChooser::chooseOuter() {
  if (wantsAnyExtent(/*of_rows=*/false)) {
    chooseAnyColumns();
    return;
  }
  params_->unroll_factor_iter_dom = vector_;
  const int64_t columns = ceilDiv(kept_, vector_);
  const int64_t bytes = vectorBytes();
  // Rows that begin within a line: accesses of a line would touch two, and more of them must be
  // under way.
  const bool is_aligned = kept_ * bytes / vector_ % machine_.line_bytes == 0;
  const int64_t line = machine_.line_bytes / bytes;
  const int64_t wanted = machine_.bytesOfThread() * (is_aligned ? 1 : 2);
  int64_t at_once = rowsAtOnce(wanted);
  if (!is_aligned && bytes_per_element_ * static_cast<double>(vector_ * kMostAtOnce) <
                         static_cast<double>(wanted)) {
    // Narrow accesses: twice as many threads have registers for half as many of them.
    at_once = rowsAtOnce(machine_.bytesOfThread() / 2);
  }
  ColumnsOfBlock best = columnsOfBlock(columns, is_aligned ? line : 2 * line, at_once);
  if (!is_aligned && best.split > 1) {
    const ColumnsOfBlock fewer = columnsOfBlock(columns, line, at_once);
    best = fewer.split > 1 && fewer.threadsOfColumn() > best.threadsOfColumn() ? fewer : best;
  }
  const int64_t unroll = std::min(at_once, powerOfTwoUpTo(ceilDiv(reduced_, best.threads_y)));
  bindColumns(best.threads_x, best.threads_y, unroll);
  blocks_ = ceilDiv(columns, best.threads_x);
  const int64_t iterations = ceilDiv(reduced_, best.threads_y * unroll);
  const int64_t split = std::min(best.split, iterations / kFewestIterations);
  if (split > 1) {
    splitColumnsOverGrid(split);
  }
}

// At least `line` of them, for neighbouring threads.
ReductionChooser::ColumnsOfBlock ReductionChooser::columnsOfBlock(int64_t columns, int64_t line,
                                                                  int64_t at_once) const {
  const int64_t threads = machine_.sms * busyThreads(at_once);
  const int64_t room = threads / columns;
  const int64_t most_x = machine_.fewThreads() / 2; // more columns leave fewer threads for each
  ColumnsOfBlock out;
  out.threads_y = powerOfTwoUpTo(std::min(room + room / kFewTooMany, reduced_));
  out.threads_x =
      std::min(powerOfTwoFrom(columns),
               std::clamp(machine_.usualThreads() / out.threads_y, line, std::max(line, most_x)));
  const int64_t most_threads = mostOuterThreads();
  if (out.threads_x * out.threads_y > most_threads) {
    out.threads_y = std::clamp<int64_t>(
        std::min(machine_.largeThreads(), most_threads) / out.threads_x, 1, out.threads_y);
    // Blocks of a second wave would double the time.
    out.split = std::max<int64_t>(
        threads / (out.threads_x * out.threads_y) / ceilDiv(columns, out.threads_x), 1);
  }
  return out;
}

// Neighbouring threads have neighbouring columns; `threads_y` share a column and read `unroll`
// rows each at once.
void ReductionChooser::bindColumns(int64_t threads_x, int64_t threads_y, int64_t unroll) {
  params_->unroll_factor_outer_reduction = unroll;
  params_->lparams.bindUnsafe(threads_x, ParallelType::TIDx);
  params_->lparams.bindUnsafe(threads_y, ParallelType::TIDy);
}

// Several blocks for the same columns.
void ReductionChooser::splitColumnsOverGrid(int64_t blocks) {
  params_->cross_grid_outer_reduction = true;
  params_->lparams.bindUnsafe(blocks, ParallelType::BIDy);
}

// The same blocks for all columns that are multiples of whole vectors, and for all others. Those
// that the cache holds are all read element by element.
void ReductionChooser::chooseAnyColumns() {
  const double bytes_read = static_cast<double>(kept_ * reduced_) * bytes_per_element_;
  const bool is_small = bytes_read < static_cast<double>(machine_.l2_bytes) / 2;
  if (is_small || vector_ < widestVector()) {
    limitVectors(1);
  }
  params_->any_extent = true;
  params_->unroll_factor_iter_dom = vector_;
  const int64_t line = machine_.line_bytes / vectorBytes() * (vector_ > 1 || is_small ? 1 : 2);
  const int64_t threads_x = std::clamp<int64_t>(line, 1, machine_.fewThreads() / 2);
  const int64_t threads_y = std::min(machine_.largeThreads(), mostOuterThreads()) / threads_x;
  const int64_t unroll = rowsAtOnce(machine_.bytesOfThread() * (vector_ > 1 ? 1 : 2));
  bindColumns(threads_x, threads_y, unroll);
  const int64_t groups = ceilDiv(ceilDiv(kept_, vector_), threads_x);
  const int64_t blocks = machine_.sms * busyThreads(unroll) / (threads_x * threads_y);
  if (blocks / groups > 1 && ceilDiv(reduced_, threads_y * unroll) > kFewestIterations) {
    splitColumnsOverGrid(blocks);
  }
}

// All threads' results lie in shared memory at once, and few registers are left for much more in
// the largest blocks.
int64_t ReductionChooser::mostOuterThreads() const {
  constexpr int64_t kMostBytesInLargeBlocks = 96; // results: 24 of 64 registers
  int64_t bytes = 0;
  for (const TensorView* tv : analysis_.reductions) {
    for (const TensorView* out : tensorOutputs(tv->definition())) {
      bytes += vector_ * dataTypeSizeBits(out->dtype()) / 8;
    }
  }
  const int64_t most =
      bytes <= kMostBytesInLargeBlocks ? machine_.max_threads_per_block : largeBlock();
  const int64_t room = machine_.max_shared_per_block / MachineModel::withPadding(bytes);
  return powerOfTwoUpTo(std::min(most, std::max(room, kWarp)));
}

// Rows that a thread reads before it waits for the first of them.
int64_t ReductionChooser::rowsAtOnce(int64_t bytes) const {
  const double row = bytes_per_element_ * static_cast<double>(vector_);
  const auto rows = static_cast<int64_t>(static_cast<double>(bytes) / row);
  return std::clamp<int64_t>(powerOfTwoUpTo(rows), 1, kMostAtOnce);
}

// Threads of an SM that keep its memory busy, each with so many rows under way.
int64_t ReductionChooser::busyThreads(int64_t rows) const {
  const double bytes = bytes_per_element_ * static_cast<double>(vector_ * rows);
  return bytes < static_cast<double>(machine_.bytesOfThread()) ? machine_.max_threads_per_sm
                                                               : machine_.busyThreads();
}

void ReductionChooser::limitVectors(int64_t most) {
  vector_ = std::min(vector_, most);
  for (size_t i = 0; i < params_->vector_widths.size(); ++i) {
    int64_t& width = params_->vector_widths[i];
    const auto* tv = tryAs<TensorView>(tensorAt(static_cast<int64_t>(i)));
    const bool stays = isExchanged(i) || (tv != nullptr && isAlongShort(tv));
    width = stays ? width : std::min(width, vector_);
  }
}

// Where all lengths and addresses allow it.
int64_t ReductionChooser::widestVector() const {
  int64_t widest = 1;
  auto add = [&](const Val* v) {
    if (v->isTensor() && analysis_.hasReducedDims(v->as<TensorView>())) {
      const int64_t bits = dataTypeSizeBits(v->dtype());
      widest = std::max(widest, bits < 8 ? 1 : kVectorBytes * 8 / bits);
    }
  };
  std::for_each(fusion_->inputs().begin(), fusion_->inputs().end(), add);
  std::for_each(fusion_->outputs().begin(), fusion_->outputs().end(), add);
  return std::min(widest, kElementsOfVector);
}

void ReductionChooser::bindAnyRows(int64_t most_threads, int64_t most_rows) {
  params_->lparams.bindUnsafe(most_threads, ParallelType::TIDx);
  if (most_rows > 1) {
    params_->lparams.bindUnsafe(most_rows, ParallelType::TIDy);
  }
}
ChosenParams chooseParams(SchedulerType type, Fusion* fusion, const ReductionAnalysis& analysis,
                          SchedulerRuntimeInfo& info) {
  return ReductionChooser(type, fusion, analysis, info).run();
}

} // namespace nvfuser::reduction
