// SPDX-License-Identifier: BSD-3-Clause
// Parameters of persistent rows that some tensors lie across: these pass through a tile of shared
// memory that holds all rows of a block (tile_exchange.h).
//
// A tensor that lies across the rows is accessed in pieces as long as a block has rows: a line of
// memory if there is room for so many, or a part of one, a sector at least.
#include <base/integer_math.h>
#include <scheduler/reduction_chooser.h>
#include <scheduler/tile_exchange.h>

#include <algorithm>

namespace nvfuser::reduction {

bool ReductionChooser::isExchanged(size_t position) const {
  const auto& all = params_->exchanged;
  return std::find(all.begin(), all.end(), static_cast<int64_t>(position)) != all.end();
}

const Val* ReductionChooser::tensorAt(int64_t position) const {
  const auto i = static_cast<size_t>(position);
  const auto& inputs = fusion_->inputs();
  return i < inputs.size() ? inputs[i] : fusion_->outputs()[i - inputs.size()];
}

bool ReductionChooser::hasAllDimsAt(int64_t position) const {
  return analysis_.hasAllDims(tensorAt(position)->as<TensorView>());
}

// An input that is the same for several rows comes from a cache when it is read again: it is read
// element by element unless these are far apart.
void ReductionChooser::findAcross() {
  across_ = analysis_.acrossRows(fusion_);
  std::erase_if(across_, [&](int64_t position) {
    if (hasAllDimsAt(position)) {
      return false;
    }
    const auto* tv = tensorAt(position)->as<TensorView>();
    const int64_t dim = analysis_.innermostDim(tv, true);
    const auto& strides = info_.stridesOf(tv);
    const int64_t stride = dim < 0 || strides.empty() ? 0 : strides[static_cast<size_t>(dim)];
    return stride * dataTypeSizeBits(tv->dtype()) < 8 * kVectorBytes;
  });
}

// Kernels for rows of any length have no tiles. Where the alternative is a kernel for columns of
// one length, nothing is lost.
bool ReductionChooser::wantsExchange() const {
  const bool of_one_length = !analysis_.partials.empty() || !analysis_.fastest_dim;
  return !across_.empty() && analysis_.num_sets == 1 && !is_empty_ && kept_ > 1 &&
         !machine_.threads_in_loops && (of_one_length || !wantsAnyExtent(/*of_rows=*/true));
}

// Rows are what threads run along, and vectors of other tensors run along them.
void ReductionChooser::startExchange() {
  params_->exchanged = across_;
  params_->fastest_dim = true;
  params_->vector_widths.clear();
  bytes_per_element_ = 0;
  shared_bytes_ = 0;
  shared_inputs_ = 0;
  chooseVectors();
  setInnerVector();
}

// Bytes of an element.
int64_t ReductionChooser::narrowestAcross() const {
  int64_t bytes = kVectorBytes;
  for (const int64_t position : across_) {
    bytes = std::min(bytes, dataTypeSizeBits(tensorAt(position)->dtype()) / 8);
  }
  return bytes;
}

// The tiles of so many rows of inputs or of outputs in shared memory, with what the swizzle adds.
int64_t ReductionChooser::bytesOfTiles(int64_t rows, bool of_inputs) const {
  int64_t bytes = 0;
  for (const int64_t position : across_) {
    if ((position < static_cast<int64_t>(fusion_->inputs().size())) == of_inputs) {
      TileExchange exchange;
      exchange.tile_1 = reduced_;
      exchange.tile_2 = rows;
      exchange.vector_1 = vector_;
      exchange.vector_2 = std::min(params_->vector_widths[static_cast<size_t>(position)], rows);
      bytes += exchange.bytes(tensorAt(position)->dtype());
    }
  }
  return bytes;
}

// They run along the rows of a block.
void ReductionChooser::limitVectorsAcross(int64_t rows) {
  for (const int64_t position : across_) {
    int64_t& width = params_->vector_widths[static_cast<size_t>(position)];
    width = std::min(width, rows);
  }
}

// Whole rows of one block. Small blocks, of which several have room on an SM: some load while
// others compute.
bool ReductionChooser::exchangeRows() {
  if (!analysis_.partials.empty()) {
    return false;
  }
  auto saved = std::make_unique<ReductionParams>(*params_);
  const int64_t saved_vector = vector_;
  const double saved_bytes = bytes_per_element_;
  startExchange();
  const int64_t fewest = std::max<int64_t>(machine_.sector_bytes / narrowestAcross(), 2);
  const int64_t line = std::max(machine_.line_bytes / narrowestAcross(), fewest);
  const int64_t vectors = ceilDiv(reduced_, vector_);
  int64_t along_tiles = 1;
  for (const IterDomain* id : analysis_.dimsOfTiles(fusion_, params_->exchanged)) {
    along_tiles *= info_.sizeOf(id);
  }
  const auto blocksOf = [&](int64_t rows) {
    return kept_ / along_tiles * ceilDiv(along_tiles, rows);
  };
  const bool has_all =
      std::ranges::all_of(across_, [&](int64_t position) { return hasAllDimsAt(position); });
  struct Limit {
    int64_t elements, threads, bytes, fewest_rows;
  };
  std::vector<Limit> limits = {
      {machine_.elementsOfThread(), machine_.usualThreads(), thirdOfShared(), 2 * fewest},
      {machine_.elementsOfThread(), machine_.largeThreads(), thirdOfShared(), fewest}};
  if (has_all) {
    limits.push_back(
        {mostElements(), machine_.max_threads_per_block, machine_.sharedForTensors(), fewest});
  }
  for (const Limit& limit : limits) {
    for (int64_t rows = line; rows >= limit.fewest_rows; rows /= 2) {
      // Few rows: more blocks rather than long pieces.
      if (rows > fewest && blocksOf(rows) < machine_.sms) {
        continue;
      }
      if (!has_all && 2 * blocksOf(rows) * rows > 3 * kept_) { // too many rows that there are not
        continue;
      }
      const int64_t most_vectors = std::max<int64_t>(limit.elements / vector_, 1);
      const int64_t threads = std::max(powerOfTwoFrom(ceilDiv(vectors, most_vectors)),
                                       std::min(kFewestThreadsOfRow, powerOfTwoFrom(vectors)));
      const int64_t tiles = bytesOfTiles(rows, true) + bytesOfTiles(rows, false);
      // Of what all rows share the part that there is no room for stays in registers.
      const bool stages = tiles + static_cast<int64_t>(shared_bytes_) * reduced_ * rows <=
                          machine_.sharedForTensors();
      const auto held = static_cast<int64_t>(bytes_per_element_ - (stages ? shared_bytes_ : 0)) *
                        ceilDiv(vectors, threads) * vector_;
      if (threads * rows > std::min(limit.threads, machine_.max_threads_per_block) ||
          tiles > limit.bytes ||
          registersHolding(held, machine_) > registersOfThread(threads * rows, machine_)) {
        continue;
      }
      keepRowOnChip(ceilDiv(vectors, threads));
      params_->lparams.bindUnsafe(threads, ParallelType::TIDx);
      params_->lparams.bindUnsafe(rows, ParallelType::TIDy);
      blocks_ = blocksOf(rows);
      limitVectorsAcross(rows);
      // Beside the tiles each row of the block has what all rows share.
      if (stages) {
        stageSharedInputs();
      }
      return true;
    }
  }
  params_ = std::move(saved);
  vector_ = saved_vector;
  bytes_per_element_ = saved_bytes;
  if (!has_all) {
    std::erase_if(across_, [&](int64_t position) { return !hasAllDimsAt(position); });
    return !across_.empty() && exchangeRows();
  }
  return false;
}

// The rows that the groups of a block have at a time are a tile. False: there is no kernel, as they
// are too few. What lies across them would be read element by element, which is worth it only
// where most does not.
bool ReductionChooser::exchangeGroupedRows(const RowGroups& groups) {
  const int64_t rows = groups.rows_of_block;
  // Pieces of less than a sector: neighbouring blocks read the rest of it at the same time.
  if (groups.cluster == 1 && rows > 1 && rows == powerOfTwoFrom(rows) &&
      rows * narrowestAcross() >= machine_.sector_bytes / 2) {
    auto saved = std::make_unique<ReductionParams>(*params_);
    const int64_t saved_vector = vector_;
    startExchange();
    limitVectorsAcross(rows);
    if (2 * bytesOfTiles(rows, true) + bytesOfTiles(rows, false) <= machine_.sharedForTensors()) {
      return true;
    }
    params_ = std::move(saved);
    vector_ = saved_vector;
  }
  if (!analysis_.fastest_dim) {
    why_not_ = "a block has too few rows at a time for tensors that lie across them";
  }
  return why_not_.empty();
}

// Of shared memory: what the tiles of inputs have beside so many elements of each, of all rows that
// are under way, and the tiles of outputs.
int64_t ReductionChooser::bytesBesideRows(const RowGroups& groups, int64_t elements) const {
  const int64_t rows = groups.rows_of_block;
  int64_t bytes = bytesOfTiles(rows, true);
  for (const int64_t position : across_) {
    if (position < static_cast<int64_t>(fusion_->inputs().size())) {
      bytes -= elements * dataTypeSizeBits(tensorAt(position)->dtype()) / 8;
    }
  }
  return std::max<int64_t>(bytes, 0) * groups.rows_under_way + bytesOfTiles(rows, false);
}

} // namespace nvfuser::reduction
