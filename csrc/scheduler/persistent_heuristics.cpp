// SPDX-License-Identifier: BSD-3-Clause
// Parameters of kernels that keep rows or columns on chip between their reductions and what reads
// the results.
#include <base/error.h>
#include <base/integer_math.h>
#include <ir/visitor.h>
#include <preseg_passes/column_reductions.h>
#include <scheduler/assumed_extents.h>
#include <scheduler/reduction_chooser.h>
#include <scheduler/stage_splitter.h>

#include <algorithm>
#include <cmath>

namespace nvfuser::reduction {

// Elements of a vector that all even lengths leave.
constexpr int64_t kPair = 2;
// Of a row that blocks share: the bytes that a thread requests at once.
constexpr int64_t kFewestVectors = 4;

// --- normalizations ---

void ReductionChooser::keepRowOnChip(int64_t batch) {
  params_->batches_per_block_inner_reduction = batch;
  makePersistent();
}

void ReductionChooser::makePersistent() {
  params_->persistent_kernel = true;
  if (params_->any_extent) {
    return;
  }
  for (const IterDomain* id : analysis_.reference()->getLogicalDomain()) {
    if (analysis_.isAlongRow(id)) {
      params_->reduced_extents.push_back(info_.sizeOf(id));
    }
  }
  for (const IterDomain* id : keptWithinRow(analysis_)) {
    params_->extents_within_row.push_back(info_.sizeOf(id));
  }
}

void ReductionChooser::bindCluster(int64_t blocks) {
  if (blocks > 1) {
    params_->cluster_size = blocks;
    params_->lparams.bindUnsafe(blocks, ParallelType::BIDy);
  }
}

// Columns stay in registers.
void ReductionChooser::chooseOuterPersistent() {
  limitVectors(kFewElements); // a thread also holds the statistics of each of its columns
  const ColumnsOnChip columns = columnsOnChip();
  std::string why = is_empty_ ? "there is nothing to keep on chip" : "";
  const ColumnShares shares = shareColumns(columns, machine_, &why);
  if (!why.empty()) {
    why_not_ = why;
    return;
  }
  makePersistent();
  params_->unroll_factor_iter_dom = vector_;
  params_->lparams.bindUnsafe(shares.threads_x, ParallelType::TIDx);
  params_->lparams.bindUnsafe(shares.threads_y, ParallelType::TIDy);
  if (shares.scope == ColumnShares::Scope::Grid) {
    params_->cross_grid_outer_reduction = true;
    params_->lparams.bindUnsafe(shares.blocks, ParallelType::BIDy);
  } else {
    bindCluster(shares.blocks);
  }
}

ColumnsOnChip ReductionChooser::columnsOnChip() {
  ColumnsOnChip out;
  out.columns = kept_;
  out.rows = reduced_;
  out.vector = vector_;
  out.narrowest = std::max<int64_t>(vectorBytes() / vector_, 1);
  out.bytes_read = bytes_per_element_;
  out.bytes_written = 0;
  const auto hasRows = [&](const Val* v) {
    const auto* tv = tryAs<TensorView>(v);
    return tv != nullptr && analysis_.hasReducedDims(tv);
  };
  // What columns have themselves is read once for all of their rows.
  const auto bytesOf = [](const Val* v) {
    return static_cast<double>(dataTypeSizeBits(v->dtype())) / 8;
  };
  const auto ofColumn = [&](const Val* v) {
    const auto* tv = tryAs<TensorView>(v);
    const bool counts =
        tv != nullptr && !hasRows(v) && analysis_.innermostDim(tv, params_->fastest_dim) >= 0;
    return counts ? bytesOf(v) / static_cast<double>(std::max<int64_t>(reduced_, 1)) : 0;
  };
  for (const Val* v : fusion_->outputs()) {
    out.bytes_written += hasRows(v) ? bytesOf(v) : ofColumn(v);
  }
  for (const Val* v : fusion_->inputs()) {
    out.bytes_read += ofColumn(v);
  }
  out.bits_kept = bitsKept(KeptOfRows::All);
  out.result_bytes = 0;
  for (const TensorView* tv : analysis_.reductions) {
    out.reductions = std::max<int64_t>(out.reductions, analysis_.stage(tv));
    for (const TensorView* result : tensorOutputs(tv->definition())) {
      out.result_bytes += dataTypeSizeBits(result->dtype()) / 8;
    }
  }
  return out;
}

// Sums of columns stay in registers while persistent row groups take one row after the other.
void ReductionChooser::chooseInnerOuter() {
  const Wanted* wanted = info_.wanted();
  NVF_ERROR(wanted != nullptr && wanted->num_row_groups > 0, "nobody decided on the partial sums");
  if (wanted->rewrites.partial_sums == Rewrites::kAnyNumber) {
    if (!analysis_.fastest_dim) {
      why_not_ = "kernels for rows of any length read nothing that lies across them";
      return;
    }
    groupAnyRows(wanted->any_row_groups);
    return;
  }
  const auto own =
      wanted->groups_of.find(constantRowSizes(analysis_.partials.front()).value_or(RowSizes()));
  const RowGroups& groups = own != wanted->groups_of.end() ? own->second : wanted->row_groups;
  if (wantsExchange() && !exchangeGroupedRows(groups)) {
    return;
  }
  setInnerVector();
  params_->combined_inner_outer = true;
  const int64_t batch = ceilDiv(ceilDiv(reduced_, vector_), groups.threads * groups.cluster);
  const int64_t any_batch = batchOfAnyRowInLoops(batch, groups.threads);
  params_->any_extent = any_batch > 0;
  keepRowOnChip(params_->any_extent ? any_batch : batch);
  params_->lparams.bindUnsafe(groups.threads, ParallelType::TIDx);
  if (groups.rows_of_block > 1) {
    params_->lparams.bindUnsafe(groups.rows_of_block, ParallelType::TIDy);
  }
  bindCluster(groups.cluster);
  stageGroupedRows(groups);
  params_->keep_computed = canKeepComputed(groups);
  params_->load_parts_ahead = canLoadPartsAhead(groups.threads * groups.rows_of_block);
}

// Where the rows that follow are in shared memory: registers that these are loaded into would wait
// for it (gradients of RMS norms took 1.2 times as long, H200).
bool ReductionChooser::canKeepComputed(const RowGroups& groups) const {
  if (params_->threads_in_loops || params_->any_extent || params_->stage_rows ||
      params_->circular_buffer_stages < RowGroups::kFewestSharedRows) {
    return false;
  }
  const int64_t elements =
      params_->batches_per_block_inner_reduction * params_->unroll_factor_inner_reduction;
  const int64_t computed =
      StageSplitter(fusion_, analysis_, KeptOfRows::Everything).mostBitsKept(false) / 8;
  GroupedRows kept;
  kept.sums = static_cast<int64_t>(analysis_.partials.size());
  kept.row_bytes = static_cast<int64_t>(rowBytes()) + computed;
  return fitsRegisters(kept, elements, groups.threads * groups.rows_of_block, machine_);
}

// Where threads run in loops, batches behind the end of a row take no time: rows of up to 1, 2, 4,
// 16, 64, ... batches share a kernel. In short rows empty batches do take time (measured,
// docs/measurements/cpu.md), so that these have more steps. 0: rows are of one length, or the sums
// of so many columns would not stay in the cache.
int64_t ReductionChooser::batchOfAnyRowInLoops(int64_t batch, int64_t threads) const {
  if (!params_->threads_in_loops || !wantsAnyExtent(/*of_rows=*/true)) {
    return 0;
  }
  constexpr int64_t kStep = 4; // batches, and from one kernel's to the next one's
  int64_t out = 1;
  while (out < batch) {
    out *= out < kStep ? 2 : kStep;
  }
  int64_t bytes = 0;
  for (const TensorView* sum : analysis_.partials) {
    bytes += out * threads * dataTypeSizeBits(sum->dtype()) / 8;
  }
  return bytes <= machine_.keptBesideRows() ? out : 0;
}

// The number of row groups differs from launch to launch.
void ReductionChooser::groupAnyRows(const AnyRowGroups& groups) {
  if (vector_ < widestVector()) {
    limitVectors(groups.cluster > 1 ? 1 : kPair);
  }
  setInnerVector();
  params_->combined_inner_outer = true;
  params_->any_extent = true;
  keepRowOnChip(groups.elements / vector_);
  bindAnyRows(groups.threads, groups.rows_of_block);
  params_->lparams.bindUnsafe(machine_.sms, ParallelType::BIDx);
  bindCluster(groups.cluster);
  // Addresses of single elements take several instructions each if the distances are not known.
  params_->warp_pieces = vector_ == 1;
  if (!params_->warp_pieces) {
    leaveOpen(1);
  }
  params_->circular_buffer_stages = machine_.async_copies ? groups.rows_under_way : 2;
  params_->prefetch_reduction =
      groups.prefetches_reduction && machine_.async_copies && rowsCopyAsync();
  params_->stage_rows = params_->prefetch_reduction;
  params_->load_parts_ahead = canLoadPartsAhead(groups.threadsOfBlock());
}

// Of an element of a row: what is read of parts of rows, and what of whole rows. What lacks the
// innermost dimension of a row has one element for several: an angle that rotates a pair.
ReductionChooser::BytesOfRow ReductionChooser::bytesOfRow() const {
  int64_t innermost = 1;
  for (const IterDomain* id : analysis_.reference()->getLogicalDomain()) {
    innermost = analysis_.isAlongRow(id) ? info_.sizeOf(id) : innermost;
  }
  BytesOfRow bytes;
  bytes.whole = rowBytes();
  for (const Val* v : fusion_->inputs()) {
    const auto* tv = tryAs<TensorView>(v);
    if (tv != nullptr && analysis_.isPartOfRow(tv)) {
      const double own = static_cast<double>(dataTypeSizeBits(tv->dtype())) / 8;
      const bool is_one = analysis_.isOneOfVector(tv);
      bytes.parts +=
          is_one ? own / static_cast<double>(std::clamp<int64_t>(innermost, 1, vector_)) : own;
      bytes.whole -= is_one ? 0 : own;
    }
  }
  return bytes;
}

// Beside the sums, the row in use, the next one if it is not in shared memory, and both rows'
// parts. Where that is spilled it takes longer than loads that are waited for (H200: a gradient of
// rotated norms 98 us instead of 79; where it is not, 142 instead of 210).
bool ReductionChooser::canLoadPartsAhead(int64_t threads) const {
  const BytesOfRow bytes = bytesOfRow();
  if (params_->threads_in_loops || bytes.parts == 0) {
    return false;
  }
  const int64_t elements =
      params_->batches_per_block_inner_reduction * params_->unroll_factor_inner_reduction;
  GroupedRows kept;
  kept.sums = static_cast<int64_t>(analysis_.partials.size());
  const double rows = params_->circular_buffer_stages > 2 ? 1 : 2;
  kept.row_bytes = static_cast<int64_t>(std::ceil(rows * bytes.whole + 2 * bytes.parts));
  return fitsRegisters(kept, elements, threads, machine_);
}

// Rows that are under way in shared memory take no registers.
void ReductionChooser::stageGroupedRows(const RowGroups& groups) {
  const int64_t elements = params_->batches_per_block_inner_reduction *
                           params_->unroll_factor_inner_reduction * groups.threads *
                           groups.rows_of_block;
  double bytes = static_cast<double>(elements * groups.rows_under_way) * bytesOfRow().whole;
  if (!params_->exchanged.empty()) {
    bytes += static_cast<double>(bytesBesideRows(groups, elements));
  }
  if (bytes <= static_cast<double>(machine_.sharedForTensors()) && machine_.async_copies) {
    params_->circular_buffer_stages = groups.rows_under_way;
    params_->prefetch_reduction = groups.prefetches_reduction && rowsCopyAsync();
    params_->stage_rows = params_->prefetch_reduction;
  }
}

// Few kernels for rows of any length. What they do not leave to the launch depends on whether the
// length is a multiple of whole vectors, and whether one block holds a row. False: rows are of
// one length, or too long for that.
bool ReductionChooser::chooseAnyRow() {
  constexpr int64_t kShortAligned = 128; // vectors: even rather short rows [widths]
  if (!wantsAnyExtent(/*of_rows=*/true)) {
    return false;
  }
  auto saved = std::make_unique<ReductionParams>(*params_);
  const int64_t saved_vector = vector_;
  params_->any_extent = true;
  params_->fastest_dim = true;
  const int64_t widest = widestVector();
  if (vector_ < widest) {
    // Weights that begin within vectors take longer than narrower ones.
    alignRows(shared_bytes_ > kFewWeights ? kRegisterBytes : kVectorBytes, kShortAligned);
    if (!params_->align_rows) {
      // Pairs for rows of all other even lengths; single elements where rows are short, or are so
      // few that most of the device is idle anyway.
      limitVectors(reduced_ < kShortAligned * widest || kept_ < machine_.sms ? 1 : kPair);
    }
  }
  setInnerVector();
  if (stageRows() || shareAnyRow()) {
    return true;
  }
  params_ = std::move(saved);
  vector_ = saved_vector;
  return false;
}

// Threads with the batches that their usual numbers of elements make, in one block or in clusters
// of any number of blocks.
bool ReductionChooser::shareAnyRow() {
  const int64_t vectors = vectorsOfRow();
  const int64_t most = elementsOfThread();
  const int64_t usual = vector_ == 1 ? most / 2 : most;
  int64_t threads = machine_.usualThreads();
  // A vector at least, also where a thread has so much of each position that fewer are usual.
  int64_t batch = std::max<int64_t>(usual / vector_, 1);
  int64_t cluster = 1;
  if (vectors > threads * batch) {
    cluster = machine_.max_cluster;
    if (params_->align_rows) {
      threads = machine_.fewThreads();
      batch = anyAlignedBatch(vectors);
    }
    while (vectors > threads * batch * cluster && batch * vector_ <= most) {
      batch *= 2;
    }
  }
  if (vectors > threads * batch * cluster) {
    return false;
  }
  keepRowOnChip(batch);
  bindAnyRows(threads, cluster > 1 ? 1 : kShortRowsThreads / kFewestThreadsOfRow);
  bindCluster(cluster);
  if (vector_ > 1) {
    // Short rows leave more open; the shortest share the kernel of those that leave no vectors.
    leaveOpen(cluster > 1 || params_->align_rows ? 1 : std::max<int64_t>(batch / 2, 1));
    if (cluster == 1 && params_->open_batches == 0) {
      limitVectors(1);
      setInnerVector();
      params_->align_rows = false;
      return shareAnyRow();
    }
  }
  projectLongRow(batch * vector_);
  stageSharedInputs();
  return true;
}

// Of a cluster whose size the launch chooses.
int64_t ReductionChooser::blocksOfRow(int64_t vectors, int64_t most_of_block) {
  return std::max(ceilDiv(vectors, most_of_block), RowGroups::kFewestBlocks);
}

// With equal shares for all threads, batches but the last `open` ones are full.
void ReductionChooser::leaveOpen(int64_t open) {
  const int64_t vectors = vectorsOfRow();
  const int64_t batch = params_->batches_per_block_inner_reduction;
  int64_t blocks = 1;
  if (params_->cluster_size > 1) {
    blocks = blocksOfRow(vectors, params_->lparams.bdimx() * batch);
    blocks = params_->align_rows ? blocks : powerOfTwoFrom(blocks);
  }
  const int64_t share = ceilDiv(vectors, blocks * batch);
  params_->open_batches = (blocks * batch - open) * share * vector_ < reduced_ ? open : 0;
}

void ReductionChooser::chooseNormalization() {
  params_->fastest_dim = true;
  setInnerVector();
  if (stageRows()) {
    return;
  }
  // Longer rows are shared by the blocks of a cluster.
  int64_t cluster = 1;
  while (cluster < machine_.max_cluster &&
         reduced_ > machine_.usualThreads() * cluster *
                        (cluster < machine_.usual_cluster || isNarrow() ? elementsOfThread()
                                                                        : mostElements())) {
    cluster *= 2;
  }
  if (reduced_ > mostElements() * largeBlock() * cluster) {
    why_not_ = "rows of " + std::to_string(reduced_) + " elements are too long for a cluster of " +
               std::to_string(cluster) + " blocks";
    return;
  }
  // Narrower vectors leave registers for such weights (docs/measurements/dynamic_widths.md).
  if (readsUnaligned(cluster) && vector_ > kFewElements) {
    limitVectors(vector_ / 2);
    setInnerVector();
  }
  const int64_t vectors = vectorsOfRow();
  if (!params_->align_rows || cluster == 1 || !shareAlignedRow()) {
    keepRowInRegisters(ceilDiv(vectors, cluster), cluster);
    bindCluster(cluster);
    countOnRegisters();
  }
  stageSharedInputs();
}

// Rows of which each part is reduced as well: the parts are shared out to the blocks of a cluster
// and to threads of a block. Vectors lie in one of them.
void ReductionChooser::chooseSubrows() {
  if (machine_.threads_in_loops || is_empty_ || !params_->fastest_dim) {
    why_not_ = "parts of rows are reduced as well as rows";
    return;
  }
  int64_t subrows = 1;
  for (const IterDomain* id : analysis_.reference()->getLogicalDomain()) {
    subrows *= !id->isBroadcast() && analysis_.isSubrowDim(id) ? info_.sizeOf(id) : 1;
  }
  while (reduced_ / subrows % vector_ != 0) {
    limitVectors(vector_ / 2);
  }
  setInnerVector();
  if (!shareSubrows(subrows, machine_.usualThreads(), elementsOfThread()) &&
      !shareSubrows(subrows, largeBlock(), mostElements())) {
    why_not_ = "rows of " + std::to_string(reduced_) + " elements in parts of " +
               std::to_string(reduced_ / subrows) + " are too long for a cluster";
    return;
  }
  params_->has_subrows = true;
  countOnRegisters();
  stageSharedInputs();
}

// As few blocks as have so many threads, with so many elements each.
bool ReductionChooser::shareSubrows(int64_t subrows, int64_t most_threads, int64_t most_elements) {
  const int64_t vectors = reduced_ / subrows / vector_;
  const int64_t most_batch = std::max<int64_t>(most_elements / vector_, 1);
  for (int64_t blocks = 1; blocks <= machine_.max_cluster; ++blocks) {
    const int64_t room = most_threads * blocks / subrows; // threads of a subrow
    if (subrows % blocks != 0 || room == 0) {
      continue;
    }
    const int64_t most = room < kWarp ? powerOfTwoUpTo(room) : room / kWarp * kWarp;
    const int64_t threads = std::min(threadsForRow(vectors, most_batch, most), most);
    if (ceilDiv(vectors, threads) <= most_batch) {
      keepRowOnChip(ceilDiv(vectors, threads));
      params_->lparams.bindUnsafe(threads, ParallelType::TIDx);
      params_->lparams.bindUnsafe(subrows / blocks, ParallelType::TIDy);
      bindCluster(blocks);
      return true;
    }
  }
  return false;
}

// One register more may be one block of an SM less.
void ReductionChooser::countOnRegisters() {
  const int64_t elements =
      params_->batches_per_block_inner_reduction * params_->unroll_factor_inner_reduction;
  const double bytes = static_cast<double>(elements) * rowBytes();
  const int64_t wanted =
      registersBeside(static_cast<int64_t>(std::ceil(bytes / kRegisterBytes)), machine_);
  const int64_t threads = roundUp(params_->lparams.nThreads(), kWarp);
  if (!params_->threads_in_loops && wanted * threads * 2 <= machine_.registers_per_sm) {
    params_->cparams.wanted_registers = wanted;
  }
}

// Of those read for each element the ones that differ by row.
double ReductionChooser::rowBytes() const {
  return bytes_per_element_ - shared_bytes_;
}

// Two elements of all the inputs that differ by row fit into a register.
bool ReductionChooser::isNarrow() const {
  return rowBytes() <= 2 && vector_ >= kFewElements;
}

// What is computed of a row before its last pass takes few instructions: it can be computed
// again. Random numbers cannot, nor what is looked up.
bool ReductionChooser::isCheapToRepeat() const {
  constexpr int kMostExpensiveOps = 2; // operations [hand]
  int last = 0;
  for (const Expr* e : fusion_->exprs()) {
    last = std::max(last, analysis_.stageOf(e));
  }
  int expensive = 0;
  for (const Expr* e : fusion_->exprs()) {
    const Val* out = e->output(0);
    if (analysis_.stageOf(e) == last || isReduction(e) || !out->isTensor() ||
        !analysis_.hasWholeRows(out->as<TensorView>())) {
      continue;
    }
    const auto* op = tryAs<ElementwiseOp>(e);
    if (op == nullptr && e->kind() != ExprKind::BroadcastOp && e->kind() != ExprKind::ExpandOp &&
        e->kind() != ExprKind::LoadStoreOp && e->kind() != ExprKind::SqueezeOp) {
      return false;
    }
    expensive += op == nullptr || takesFewInstructions(op->op()) ? 0 : 1;
  }
  return expensive <= kMostExpensiveOps;
}

// Long rows need every register: narrower vectors leave the compiler more freedom, so that 3
// blocks of 256 threads are on an SM instead of 2. Not if there are guards, twice as many then.
void ReductionChooser::halveVectors() {
  limitVectors(vector_ / 2);
  setInnerVector();
  params_->batches_per_block_inner_reduction *= 2;
}

// Several weights for each element begin within vectors, and are read after the statistics.
bool ReductionChooser::readsUnaligned(int64_t cluster) const {
  return params_->align_rows && cluster == 1 && shared_bytes_ > kFewWeights;
}

// Elements of a row that a thread holds if nothing speaks against it.
int64_t ReductionChooser::usualElements(int64_t cluster) const {
  if (vector_ == 1) {
    return fewerElements(); // each under a guard of its own
  }
  if (readsUnaligned(cluster)) {
    // Large blocks leave more of an SM idle: longer rows have fewer threads with more elements.
    const int64_t usual = elementsOfThread() - vector_;
    const int64_t most_of_usual = usual * machine_.usualThreads() * 3 / 4;
    return isNarrow() && reduced_ > most_of_usual ? mostElements() : usual;
  }
  return isNarrow() && cluster >= machine_.usual_cluster ? mostElements() : elementsOfThread();
}

// Of a row that is shared by blocks, for a thread: 64 elements and the vector that is left over,
// or as many elements as there are registers for [hand].
int64_t ReductionChooser::mostAlignedVectors() const {
  constexpr int64_t kMostVectors = 9;
  constexpr int64_t kWideElements = 40;
  return std::min(kMostVectors, isNarrow() ? kMostVectors : kWideElements / vector_);
}

// Vectors of a row that blocks share, for a thread: fewer where there are too few rows to keep
// all SMs busy otherwise.
int64_t ReductionChooser::alignedBatch(int64_t vectors) const {
  const int64_t share = kept_ * vectors / (machine_.sms * machine_.busyThreads());
  const int64_t of_usual_cluster = ceilDiv(vectors, machine_.usual_cluster * machine_.fewThreads());
  return std::min(std::max({share, kFewestVectors, of_usual_cluster}), mostAlignedVectors());
}

// One of few: that which keeps most threads of the last warp busy.
int64_t ReductionChooser::anyAlignedBatch(int64_t vectors) const {
  const int64_t few = kFewestVectors + 1; // and the one that is left over
  const int64_t most = mostAlignedVectors();
  if (alignedBatch(vectors) < few) {
    return std::min(few, most);
  }
  auto idle = [&](int64_t batch) {
    const int64_t blocks = blocksOfRow(vectors, machine_.fewThreads() * batch);
    const int64_t threads = ceilDiv(vectors, blocks * batch);
    return static_cast<double>(roundUp(threads, kWarp) - threads) / static_cast<double>(threads);
  };
  const bool fits = vectors <= few * machine_.fewThreads() * machine_.usual_cluster;
  return fits && idle(few) < idle(most) ? std::min(few, most) : most;
}

// For `vectors` of a narrow row in one block: half as many where fewer of them are idle, with up to
// so many vectors each [hand]. Several weights take most of the instructions of such threads. Not
// if there are few rows.
int64_t ReductionChooser::busyThreadsOf(int64_t vectors, int64_t threads) const {
  constexpr int64_t kMostOfHalf = 11;
  const int64_t half = threads / 2;
  const bool is_busier = roundUp(vectors, half) < roundUp(vectors, threads);
  const bool fits = vectors > kFewestVectors * threads && vectors <= kMostOfHalf * half;
  return is_busier && fits && isNarrow() && shared_bytes_ > kFewWeights ? half : threads;
}

// Small blocks with equal shares and much to do for each thread, as few in a cluster as that
// allows: those that are shared by more threads wait longer for each other. False if the row is
// too long for that.
bool ReductionChooser::shareAlignedRow() {
  const int64_t vectors = vectorsOfRow();
  const int64_t batch = alignedBatch(vectors);
  for (int64_t threads :
       {machine_.fewThreads(), machine_.usualThreads(), machine_.largeThreads()}) {
    const int64_t blocks = ceilDiv(vectors, threads * batch);
    if (blocks <= machine_.max_cluster) {
      const int64_t of_block = ceilDiv(vectors, blocks);
      const int64_t busy = blocks > 1 ? busyThreadsOf(of_block, threads) : threads;
      keepRowOnChip(ceilDiv(of_block, busy));
      params_->lparams.bindUnsafe(busy, ParallelType::TIDx);
      blocks_ = kept_;
      bindCluster(blocks);
      projectLongRow(params_->batches_per_block_inner_reduction * vector_);
      return true;
    }
  }
  return false;
}

int64_t ReductionChooser::bitsKept(KeptOfRows kept) const {
  return StageSplitter(fusion_, analysis_, kept).mostBitsKept();
}

// Elements of a row for which a thread has registers: as many as the usual ones with three values
// each [hand].
int64_t ReductionChooser::keptElements() const {
  const int64_t bits = bitsKept(isCheapToRepeat() ? KeptOfRows::Inputs : KeptOfRows::All);
  const int64_t most = machine_.elementsOfThread() * 3 * kRegisterBytes * 8;
  return powerOfTwoUpTo(most / std::max<int64_t>(bits, 1));
}

// Many elements of inputs may take fewer registers than what is computed of them.
void ReductionChooser::projectLongRow(int64_t elements_of_thread) {
  params_->project_persistent_buffers =
      elements_of_thread > elementsOfThread() && isCheapToRepeat() &&
      (isNarrow() || bitsKept(KeptOfRows::Inputs) < bitsKept(KeptOfRows::All));
}

// `vectors`: of a row in one block.
void ReductionChooser::keepRowInRegisters(int64_t vectors, int64_t cluster) {
  const int64_t most_threads = machine_.max_threads_per_block;
  // Fewer elements per thread where there are too few rows to keep all SMs busy otherwise.
  const int64_t share = kept_ * reduced_ / (machine_.sms * machine_.busyThreads());
  const int64_t most = std::clamp(keptElements(), vector_, mostElements());
  const int64_t elements =
      std::clamp(std::min(powerOfTwoUpTo(share), usualElements(cluster)), vector_, most);
  for (int64_t batch = std::max<int64_t>(elements / vector_, 1);; ++batch) {
    const int64_t threads = threadsForRow(vectors, batch, most_threads);
    const bool is_small = threads <= machine_.usualThreads() || batch * vector_ >= most;
    if (is_small && threads * batch >= vectors) {
      keepRowOnChip(ceilDiv(vectors, threads));
      bindRows(threads);
      const bool is_long = batch * vector_ > elementsOfThread();
      projectLongRow(batch * vector_);
      const bool is_full = threads * batch == vectors && vectors * vector_ * cluster == reduced_;
      if (is_long && is_full && vector_ > kFewElements && shared_bytes_ == 0) {
        halveVectors();
      }
      return;
    }
  }
}

} // namespace nvfuser::reduction
