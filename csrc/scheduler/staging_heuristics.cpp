// SPDX-License-Identifier: BSD-3-Clause
// Parameters of kernels that copy rows, or the weights that all rows share, to shared memory before
// they are read: by threads, in bulk, or by a warp of their own.
#include <base/integer_math.h>
#include <ir/logical_map.h>
#include <scheduler/access_width.h>
#include <scheduler/reduction_chooser.h>

#include <algorithm>

namespace nvfuser::reduction {

// Several weights for each element leave no registers for the row, and L2,
// which delivers them once for each row, has no time to spare: large blocks with the row in
// shared memory, as few in a cluster as there is room for. One weight that takes no more than the
// row does leaves them as long as threads have few elements.
bool ReductionChooser::stageRows() {
  const int64_t most_threads = machine_.largeThreads();
  const int64_t shortest_row = machine_.usualThreads() * elementsOfThread();
  const bool is_one = shared_inputs_ == 1 && shared_bytes_ <= rowBytes() &&
                      reduced_ <= shortest_row * machine_.usual_cluster;
  if (shared_bytes_ <= kFewWeights || is_one || analysis_.hasShortDims() ||
      reduced_ <= shortest_row || params_->align_rows || !machine_.async_copies ||
      !rowsCopyAsync() || !isCheapToRepeat()) {
    return false;
  }
  int64_t cluster = 1;
  while (static_cast<double>(reduced_) * rowBytes() >
         static_cast<double>(thirdOfShared() * cluster)) {
    cluster *= 2;
  }
  const int64_t vectors = ceilDiv(ceilDiv(reduced_, vector_), cluster);
  const int64_t threads =
      threadsForRow(vectors, machine_.bytesOfThread() / kVectorBytes, largeBlock());
  if (cluster > machine_.max_cluster || kept_ < machine_.sms / cluster) {
    return false;
  }
  if (params_->any_extent) {
    keepRowOnChip(powerOfTwoFrom(ceilDiv(vectors, most_threads)));
    bindAnyRows(most_threads, 1);
    bindCluster(cluster > 1 ? machine_.max_cluster : 1);
  } else {
    keepRowOnChip(ceilDiv(vectors, threads));
    bindRows(threads);
    bindCluster(cluster);
  }
  params_->stage_rows = true;
  return true;
}

// Accesses to rows are large enough for cp.async, and nothing is looked up where they lie.
bool ReductionChooser::rowsCopyAsync() const {
  for (size_t i = 0; i < fusion_->inputs().size(); ++i) {
    const Val* in = fusion_->inputs()[i];
    if (in->isTensor() && analysis_.hasWholeRows(in->as<TensorView>()) &&
        analysis_.differsByRow(in->as<TensorView>()) &&
        (params_->vector_widths[i] * dataTypeSizeBits(in->dtype()) < 8 * machine_.min_async_bytes ||
         isLookedUp(in->as<TensorView>()))) {
      return false;
    }
  }
  return true;
}

// --- bulk copies (NVFUSER_ENABLE=tma_inner_persistent, tma_reduction, ws_normalization) ---

// Each input that differs by row has rows of one piece, of whole chunks of 16 bytes.
bool ReductionChooser::canBulkLoadRows() {
  if (!machine_.bulk_copies || vector_ == 1 || params_->align_rows || analysis_.num_sets > 1 ||
      analysis_.hasShortDims() || is_empty_) {
    return false;
  }
  bulk_bytes_ = 0;
  for (const Val* in : fusion_->inputs()) {
    if (!in->isTensor() || !isStagedInBulk(in->as<TensorView>())) {
      continue;
    }
    if (!canBulkLoad(in->as<TensorView>())) {
      return false;
    }
    bulk_bytes_ += dataTypeSizeBits(in->dtype()) / 8;
  }
  return bulk_bytes_ > 0;
}

bool ReductionChooser::isStagedInBulk(const TensorView* tv) const {
  return analysis_.hasWholeRows(tv) && (analysis_.differsByRow(tv) || !analysis_.hasSeveralRows());
}

// Rows are pieces of memory of whole chunks of 16 bytes.
bool ReductionChooser::canBulkLoad(const TensorView* tv) {
  const int64_t bits = dataTypeSizeBits(tv->dtype());
  const auto run = analysis_.contiguousRun(tv, true);
  int64_t length = 1;
  for (const IterDomain* id : run) {
    length *= info_.sizeOf(id);
  }
  return bits <= 64 && !isLookedUp(tv) && length == reduced_ &&
         accessWidth(tv, run, info_) * bits == 8 * kVectorBytes;
}

// What a block has of a persistent row at once.
void ReductionChooser::loadPersistentRowsInBulk() {
  if (!info_.wishes().bulk_rows || !canBulkLoadRows()) {
    return;
  }
  const LaunchParams& l = params_->lparams;
  const int64_t elements = params_->batches_per_block_inner_reduction *
                           params_->unroll_factor_inner_reduction * l.bdimx();
  int64_t bytes = elements * l.bdimy() * bulk_bytes_;
  bytes += params_->stage_shared_inputs
               ? static_cast<int64_t>(static_cast<double>(elements) * shared_bytes_)
               : 0;
  params_->bulk_loads = bytes <= machine_.sharedForTensors();
}

// The next iterations of a block are on their way while it sums.
void ReductionChooser::reduceInBulk() {
  if (!info_.wishes().bulk_reductions || params_->cluster_size > 1 || !canBulkLoadRows()) {
    return;
  }
  const LaunchParams& l = params_->lparams;
  const int64_t elements = params_->unroll_factor_top_of_vectorization *
                           params_->unroll_factor_inner_reduction * l.bdimx();
  const int64_t blocks = params_->cross_grid_inner_reduction ? l.gdimy() : 1;
  const int64_t iterations = ceilDiv(reduced_, elements * blocks);
  const int64_t bytes = elements * l.bdimy() * bulk_bytes_;
  const int64_t stages =
      std::min(std::clamp<int64_t>(machine_.wanted_bytes / 2 / bytes, 2, kMostStages), iterations);
  if (stages > 1 && stages * bytes <= machine_.sharedForTensors()) {
    params_->bulk_loads = true;
    params_->circular_buffer_stages = stages;
  }
}

// Persistent row groups with a warp of their own that loads the rows to come. False: there are
// too few rows, or they are too long or too short for that.
bool ReductionChooser::loadByWarps() {
  if (!info_.wishes().loading_warp || !canBulkLoadRows()) {
    return false;
  }
  const int64_t vectors = ceilDiv(reduced_, vector_);
  const int64_t each = std::clamp<int64_t>(elementsOfThread() / vector_, 1,
                                           std::max<int64_t>(vectors / machine_.fewThreads(), 1));
  const int64_t most_threads = machine_.max_threads_per_block - kWarp;
  const int64_t batch = ceilDiv(vectors, threadsForRow(vectors, each, most_threads));
  const int64_t threads = threadsForRow(vectors, batch, most_threads);
  const int64_t bytes = batch * threads * vector_ * bulk_bytes_;
  const int64_t stages = std::min(machine_.sharedForTensors() / bytes, kMostStages);
  if (stages < 2 || threads < machine_.fewThreads() || batch * vector_ > mostElements() ||
      kept_ < 2 * machine_.sms) {
    return false;
  }
  params_->fastest_dim = true;
  setInnerVector();
  keepRowOnChip(batch);
  params_->lparams.bindUnsafe(threads, ParallelType::TIDx);
  // Several on an SM take longer (measured, docs/measurements/normalizations.md, TMA).
  params_->row_groups = machine_.sms;
  params_->circular_buffer_stages = stages;
  params_->bulk_loads = true;
  params_->warp_specialized = true;
  return true;
}

// What rows share is on its way while the row is, without registers; copies that leave it in
// L1, as the bandwidth of L2 is what limits such rows. Small blocks have registers for more of
// it.
void ReductionChooser::stageSharedInputs() {
  const auto elements = static_cast<double>(params_->batches_per_block_inner_reduction *
                                            params_->unroll_factor_inner_reduction);
  const double bytes = elements * shared_bytes_;
  const int64_t threads = params_->lparams.bdimx();
  if (params_->align_rows) {
    // Where a thread's elements lie differs by row. Reading them by words takes longer than all
    // else (docs/measurements/normalizations.md). Bytes [hand].
    constexpr double kMostUnaligned = 96 << 10;
    params_->stage_shared_inputs = shared_bytes_ > 0 && params_->cluster_size > 1 &&
                                   bytes * static_cast<double>(threads) <= kMostUnaligned &&
                                   machine_.async_copies;
    return;
  }
  params_->load_rows_early = !analysis_.reducesRowsFirst();
  // Loaded before the statistics, without shared memory.
  const auto in_registers =
      static_cast<double>(machine_.bytesOfThread() * (threads <= machine_.fewThreads() ? 2 : 1));
  params_->load_shared_inputs_early = shared_bytes_ > 0 && bytes <= in_registers;
  params_->stage_shared_inputs =
      bytes > in_registers &&
      bytes * static_cast<double>(threads) <= static_cast<double>(thirdOfShared()) &&
      machine_.async_copies;
}

} // namespace nvfuser::reduction
