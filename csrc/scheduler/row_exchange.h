// SPDX-License-Identifier: BSD-3-Clause
// Tensors that lie across the persistent rows of a kernel pass through tiles of shared memory,
// which hold all rows that a block has at a time (tile_exchange.h).
#pragma once

#include <fusion.h>
#include <scheduler/reduction_params.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

class RowExchange {
 public:
  explicit RowExchange(const ReductionParams& params) : params_(params) {}

  // By position among inputs and then outputs.
  bool takes(size_t position) const;
  // The tile that an input is copied to, asynchronously if its accesses allow it.
  TensorView* addInput(TensorView* input, size_t position);
  bool copiesAsync(const TensorView* input, size_t position) const;
  // `stored` is copied from a tile.
  void addOutput(TensorView* stored, size_t position);

  // Loops of the copies and places in the tiles. The reference has the loops [..., rows of the
  // block (axis `tile`), the row], and `axes` says which of them each tensor's are.
  void schedule(const TensorView* reference, int64_t tile,
                const std::unordered_map<TensorView*, std::vector<int64_t>>& axes);

  // After schedule(): all but the copies, which have loops of their own; empty if there are none.
  std::vector<TensorView*> others(const Fusion* fusion) const;
  bool isCopy(const TensorView* tv) const {
    return copies_.count(tv) != 0;
  }
  bool isTile(const TensorView* tv) const;
  // Registers on the way from an input to a tile.
  bool isLoaded(const TensorView* tv) const;
  bool isEmpty() const {
    return exchanges_.empty();
  }

 private:
  struct Exchange {
    TensorView* shared = nullptr;
    TensorView* loaded = nullptr;    // of an input that is not copied asynchronously
    std::vector<TensorView*> copies; // their vectors have `width` elements
    int64_t width = 1;
  };

  const ReductionParams& params_;
  std::vector<Exchange> exchanges_;
  std::unordered_set<const TensorView*> copies_; // of all of them
};

} // namespace nvfuser
