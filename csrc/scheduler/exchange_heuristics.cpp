// SPDX-License-Identifier: BSD-3-Clause
// Parameters of persistent rows that some tensors lie across: these pass through a tile of shared
// memory that holds all rows of a block (tile_exchange.h).
//
// A tensor that lies across the rows is accessed in pieces as long as a block has rows: a line of
// memory if there is room for so many, or a part of one, a sector at least.
#include <base/integer_math.h>
#include <scheduler/reduction_chooser.h>

#include <algorithm>

namespace nvfuser::reduction {

bool ReductionChooser::isExchanged(size_t position) const {
  const auto& all = params_->exchanged;
  return std::find(all.begin(), all.end(), static_cast<int64_t>(position)) != all.end();
}

bool ReductionChooser::wantsExchange() const {
  return !across_.empty() && !is_empty_ && kept_ > 1 && !machine_.threads_in_loops &&
         !wantsAnyExtent(/*of_rows=*/true);
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
  const auto& inputs = fusion_->inputs();
  for (const int64_t position : across_) {
    const auto i = static_cast<size_t>(position);
    const Val* v = i < inputs.size() ? inputs[i] : fusion_->outputs()[i - inputs.size()];
    bytes = std::min(bytes, dataTypeSizeBits(v->dtype()) / 8);
  }
  return bytes;
}

// Of shared memory for so many rows, those that the swizzle adds included.
int64_t ReductionChooser::bytesOfTiles(int64_t rows) const {
  const auto& inputs = fusion_->inputs();
  const int64_t vectors = ceilDiv(reduced_, vector_);
  int64_t bytes = 0;
  for (const int64_t position : across_) {
    const auto i = static_cast<size_t>(position);
    const Val* v = i < inputs.size() ? inputs[i] : fusion_->outputs()[i - inputs.size()];
    const int64_t size = dataTypeSizeBits(v->dtype()) / 8;
    const int64_t permuted = std::min(rows * size / kRegisterBytes, powerOfTwoFrom(vectors));
    bytes += roundUp(vectors, std::max<int64_t>(permuted, 1)) * vector_ * rows * size;
  }
  return bytes;
}

// Whole rows of one block. Small blocks, of which several have room on an SM: some load while others
// compute.
bool ReductionChooser::exchangeRows() {
  if (!analysis_.normalization || !analysis_.partials.empty()) {
    return false;
  }
  auto saved = std::make_unique<ReductionParams>(*params_);
  const int64_t saved_vector = vector_;
  const double saved_bytes = bytes_per_element_;
  startExchange();
  const int64_t fewest = std::max<int64_t>(machine_.sector_bytes / narrowestAcross(), 2);
  const int64_t line = std::max(machine_.line_bytes / narrowestAcross(), fewest);
  const int64_t vectors = ceilDiv(reduced_, vector_);
  struct Limit {
    int64_t elements, threads, bytes;
  };
  const Limit limits[] = {
      {machine_.elementsOfThread(), machine_.largeThreads(), thirdOfShared()},
      {mostElements(), machine_.max_threads_per_block, machine_.sharedForTensors()}};
  for (const Limit& limit : limits) {
    for (int64_t rows = line; rows >= fewest; rows /= 2) {
      // Few rows: more blocks rather than long pieces.
      if (rows > fewest && ceilDiv(kept_, rows) < machine_.sms) {
        continue;
      }
      const int64_t most_vectors = std::max<int64_t>(limit.elements / vector_, 1);
      const int64_t threads = std::max(powerOfTwoFrom(ceilDiv(vectors, most_vectors)),
                                       std::min(kFewestThreadsOfRow, powerOfTwoFrom(vectors)));
      if (threads * rows > std::min(limit.threads, machine_.max_threads_per_block) ||
          bytesOfTiles(rows) > limit.bytes) {
        continue;
      }
      keepRowOnChip(ceilDiv(vectors, threads));
      params_->lparams.bindUnsafe(threads, ParallelType::TIDx);
      params_->lparams.bindUnsafe(rows, ParallelType::TIDy);
      blocks_ = ceilDiv(kept_, rows);
      for (const int64_t position : across_) {
        int64_t& width = params_->vector_widths[static_cast<size_t>(position)];
        width = std::min(width, rows);
      }
      stageSharedInputs();
      return true;
    }
  }
  params_ = std::move(saved);
  vector_ = saved_vector;
  bytes_per_element_ = saved_bytes;
  return false;
}

// The rows that the groups of a block have at a time are a tile. False: they are too few.
bool ReductionChooser::exchangeGroupedRows(const RowGroups& groups) {
  const int64_t rows = groups.groups_per_block;
  const bool was_along = params_->fastest_dim;
  const bool fits = groups.cluster == 1 && rows > 1 && rows == powerOfTwoFrom(rows) &&
                    rows * narrowestAcross() >= machine_.sector_bytes;
  if (!fits) {
    if (!was_along) {
      why_not_ = "too few rows are under way in a block for a tensor that lies across them";
    }
    return was_along; // element by element
  }
  startExchange();
  for (const int64_t position : across_) {
    int64_t& width = params_->vector_widths[static_cast<size_t>(position)];
    width = std::min(width, rows);
  }
  return true;
}

} // namespace nvfuser::reduction
