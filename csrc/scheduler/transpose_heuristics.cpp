// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the transpose schedule for given shapes.
//
// Tiles are 128 bytes wide in both directions, which is a whole line of memory for either group and
// as many vectors as shared memory has groups of four banks. Dimensions that are shorter than that
// are merged with their neighbours in memory; if nothing is left to merge, the tile gets longer in
// the other direction.
#include <scheduler/transpose.h>

#include <base/integer_math.h>

#include <algorithm>
#include <numeric>

namespace nvfuser::pointwise {

namespace {

// Elements: of two bytes each they are a sector of a line.
constexpr int64_t kMinTile = 16;
// Tiles of a dimension of which one that is not whole costs less than dividing the positions of
// merged dimensions [hand, see machine.h].
constexpr int64_t kManyTiles = 8;

class TransposeChooser {
 public:
  TransposeChooser(const TransposeAnalysis& analysis, SchedulerRuntimeInfo& info)
      : analysis_(analysis), info_(info), machine_(info.machine()) {
    for (const IterDomain* id : logicalIds(analysis.pointwise->reference)) {
      extents_.push_back(id->isBroadcast() ? 1 : info.sizeOf(id));
    }
    total_ = std::accumulate(extents_.begin(), extents_.end(), int64_t{1}, std::multiplies<>());
  }

  std::unique_ptr<TransposeParams> run() {
    auto params = std::make_unique<TransposeParams>();
    if (total_ > 0) {
      chooseTile(*params);
      const std::vector<int64_t> axes_1 =
          TransposeAnalysis::tileAxes(analysis_.order_1, params->merged_1);
      const std::vector<int64_t> axes_2 =
          TransposeAnalysis::tileAxes(analysis_.order_2, params->merged_2);
      if (!machine_.threads_in_loops) {
        params->vectorization_1 =
            chooseWidth(analysis_.group_1, axes_1, params->tile_1, params->not_vectorized);
        params->vectorization_2 =
            chooseWidth(analysis_.group_2, axes_2, params->tile_2, params->not_vectorized);
      }
    }
    // A thread's elements of each tensor take a register each without vectors.
    params->threads =
        machine_.threads_in_loops
            ? std::min(params->tile_1 * params->tile_2, machine_.max_threads_per_block)
            : std::clamp(params->tile_1 * params->tile_2 / machine_.elementsOfThread(),
                         machine_.fewThreads(), machine_.largeThreads());
    params->threads_in_loops = machine_.threads_in_loops;
    params->lparams.bindUnsafe(params->blockDimX(), ParallelType::TIDx);
    params->lparams.bindUnsafe(params->blockDimY(), ParallelType::TIDy);
    return params;
  }

 private:
  int64_t product(const std::vector<int64_t>& axes) const {
    int64_t n = 1;
    for (int64_t axis : axes) {
      n *= extents_[static_cast<size_t>(axis)];
    }
    return n;
  }

  // Bytes of a position of the tile in all tensors that pass through it.
  int64_t bytesInTile() const {
    int64_t bytes = 0;
    for (const TensorAccess& access : analysis_.group_2) {
      bytes += dataTypeSizeBits(access.tv->dtype()) / 8;
    }
    return bytes;
  }

  int64_t wantedTile(const std::vector<TensorAccess>& group) const {
    int64_t bytes = 1;
    for (const TensorAccess& access : group) {
      bytes = std::max(bytes, dataTypeSizeBits(access.tv->dtype()) / 8);
    }
    return machine_.threads_in_loops ? tileInCache()
                                     : std::max(kMinTile, machine_.line_bytes / bytes);
  }

  // Runs along both dimensions, as long as the tiles of the second group fit into the first cache.
  int64_t tileInCache() const {
    int64_t tile = kMinTile;
    for (int64_t next = 2 * tile; next * next * bytesInTile() <= machine_.l1_bytes; next *= 2) {
      tile = next;
    }
    return tile;
  }

  // Number of axes that make the dimension long enough, without those of the other one.
  int64_t mergedAxes(const std::vector<int64_t>& order, const std::vector<int64_t>& others,
                     int64_t tile) const {
    int64_t merged = 1;
    while (merged < static_cast<int64_t>(order.size())) {
      const int64_t length = product(TransposeAnalysis::tileAxes(order, merged));
      const bool fits = length >= tile && (length % tile == 0 || length >= kManyTiles * tile);
      const int64_t next = order[order.size() - static_cast<size_t>(merged) - 1];
      if (fits || std::find(others.begin(), others.end(), next) != others.end()) {
        break;
      }
      ++merged;
    }
    return merged;
  }

  void chooseTile(TransposeParams& params) {
    params.tile_1 = wantedTile(analysis_.group_1);
    params.tile_2 = wantedTile(analysis_.group_2);
    std::vector<int64_t> others = analysis_.not_in_tiles;
    others.push_back(analysis_.order_2.back());
    params.merged_1 = mergedAxes(analysis_.order_1, others, params.tile_1);
    const std::vector<int64_t> axes_1 =
        TransposeAnalysis::tileAxes(analysis_.order_1, params.merged_1);
    others.insert(others.end(), axes_1.begin(), axes_1.end());
    params.merged_2 = mergedAxes(analysis_.order_2, others, params.tile_2);
    const int64_t length_1 = powerOfTwoFrom(product(axes_1));
    const int64_t length_2 =
        powerOfTwoFrom(product(TransposeAnalysis::tileAxes(analysis_.order_2, params.merged_2)));
    const int64_t elements = params.tile_1 * params.tile_2;
    if (length_1 < params.tile_1) {
      params.tile_1 = length_1;
      params.tile_2 = std::min(elements / length_1, length_2);
    }
    if (length_2 < params.tile_2) {
      params.tile_2 = length_2;
      params.tile_1 = std::min(elements / length_2, length_1);
    }
    // Threads run along it, for each vector one, of which there may be none.
    params.tile_1 = std::min(params.tile_1, machine_.max_threads_per_block);
    const auto blocks = [&] { return ceilDiv(total_, params.tile_1 * params.tile_2); };
    const auto halve = [&] {
      (params.tile_1 > params.tile_2 ? params.tile_1 : params.tile_2) /= 2;
    };
    while (params.tile_1 * params.tile_2 * bytesInTile() > machine_.shared_per_block) {
      halve();
    }
    while (blocks() < machine_.sms && !info_.wantsAnyExtent() &&
           std::max(params.tile_1, params.tile_2) > kMinTile) {
      halve();
    }
  }

  // The widest vectors that serve most of a group's data; `excluded` gets the positions of the
  // others.
  int64_t chooseWidth(const std::vector<TensorAccess>& group, const std::vector<int64_t>& axes,
                      int64_t tile, std::vector<int64_t>& excluded) {
    const PointwiseAnalysis& pointwise = *analysis_.pointwise;
    int64_t widest = 8;
    int64_t all_bits = 0;
    std::vector<const TensorAccess*> candidates;
    for (const TensorAccess& access : group) {
      if (isVectorizable(pointwise, *access.version, axes)) {
        candidates.push_back(&access);
        widest = std::max(widest, dataTypeSizeBits(access.tv->dtype()));
        all_bits += dataTypeSizeBits(access.tv->dtype());
      }
    }
    for (int64_t width = std::min(8 * kVectorBytes / widest, tile); width > 1; width /= 2) {
      int64_t bits = 0;
      std::vector<int64_t> left_out;
      for (const TensorAccess* access : candidates) {
        if (canUseVectors(pointwise, *access, axes, width, info_)) {
          bits += dataTypeSizeBits(access->tv->dtype());
        } else {
          left_out.push_back(access->position);
        }
      }
      if (2 * bits > all_bits) {
        excluded.insert(excluded.end(), left_out.begin(), left_out.end());
        return width;
      }
    }
    return 1;
  }

  const TransposeAnalysis& analysis_;
  SchedulerRuntimeInfo& info_;
  const MachineModel& machine_;
  std::vector<int64_t> extents_; // by axis; 1 for broadcasts
  int64_t total_ = 1;
};

} // namespace

std::unique_ptr<TransposeParams> chooseTransposeParams(const TransposeAnalysis& analysis,
                                                       SchedulerRuntimeInfo& info) {
  return TransposeChooser(analysis, info).run();
}

} // namespace nvfuser::pointwise
