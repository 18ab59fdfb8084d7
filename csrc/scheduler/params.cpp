// SPDX-License-Identifier: BSD-3-Clause
// Printing, comparing and hashing of heuristic parameters.
#include <scheduler/params.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/string_utils.h>
#include <scheduler/pointwise_params.h>
#include <scheduler/transpose_params.h>

#include <algorithm>
#include <sstream>

namespace nvfuser {

std::string HeuristicParams::toString() const {
  std::ostringstream os;
  os << "Heuristic parameters of the " << schedulerName(scheduler_type) << " scheduler";
  return os.str();
}

size_t HeuristicParams::hash() const {
  uint64_t h = hashCombine(static_cast<uint64_t>(scheduler_type), lparams.hash());
  sharedFields([&](const char*, auto member) { h = hashCombine(h, hashField(this->*member)); });
  return hashCombine(h, cparams.hash());
}

bool HeuristicParams::sameAs(const HeuristicParams& other) const {
  bool same = scheduler_type == other.scheduler_type && lparams == other.lparams &&
              cparams == other.cparams;
  sharedFields([&](const char*, auto member) { same = same && this->*member == other.*member; });
  return same;
}

std::string HeuristicParams::sharedText() const {
  const HeuristicParams usual(scheduler_type);
  std::string text;
  if (cparams.wanted_registers != 0) {
    text += "wanted_registers: " + std::to_string(cparams.wanted_registers) + "\n";
  }
  sharedFields([&](const char* name, auto member) {
    if (this->*member != usual.*member) {
      text += name + (": " + fieldText(this->*member)) + "\n";
    }
  });
  return text;
}

namespace {

// Threads of a block where nothing else is said.
constexpr int64_t kDefaultThreads = 128;

} // namespace

int64_t PointwiseParams::blockDimX() const {
  return lparams.hasDim(ParallelType::TIDx) ? lparams.bdimx() : kDefaultThreads;
}

int64_t PointwiseParams::blockDimY() const {
  return split_block ? lparams.bdimy() : 1;
}

std::string PointwiseParams::toString() const {
  std::ostringstream os;
  os << "\n===== Pointwise Parameters ========\n";
  if (!tag.empty()) {
    os << "Tag: " << tag;
  }
  os << " Pointwise Characteristics:\n"
     << " Gridx: " << lparams.gdimx() << " BlckY: " << lparams.bdimy()
     << " BlckX: " << lparams.bdimx() << "\n";
  if (break_point > 0) {
    os << "2D Schedule\n"
       << "  Bcast break point: " << break_point << "\n";
    if (split_block) {
      os << "Split block into y-dim\n";
    }
    if (split_grid_y_dim) {
      os << "  Split y grid dim\n";
    }
  }
  os << "vectorization_factor: " << vectorization_factor << "\n"
     << "unroll_factor_outer: " << unroll_factor_outer << "\n"
     << "unroll_factor_inner: " << unroll_factor_inner << "\n";
  if (flip_grid_binding) {
    os << "Flip BIDx/BIDy bindings\n";
  }
  if (!not_vectorized.empty()) {
    os << "not vectorized: " << join(not_vectorized) << "\n";
  }
  if (!bulk_loads.empty()) {
    os << "bulk loads: " << join(bulk_loads) << "\n";
  }
  if (align_rows) {
    os << "align_rows: true\n";
  }
  if (!tile_axes.empty()) {
    os << "tile: " << join(tile_rows) << " along " << join(tile_axes) << " by " << tile_columns
       << "\n";
  }
  if (!aligned_inputs.empty()) {
    os << "aligned inputs: " << join(aligned_inputs) << "\n";
  }
  os << sharedText() << "====================================\n";
  return os.str();
}

int64_t TransposeParams::blockDimX() const {
  return std::max<int64_t>(1, tile_1 / vectorization_1);
}

int64_t TransposeParams::blockDimY() const {
  return std::clamp<int64_t>(threads / blockDimX(), 1, tile_2);
}

void TransposeParams::check() const {
  for (int64_t n : {tile_1, tile_2, vectorization_1, vectorization_2, threads}) {
    NVF_CHECK(n > 0 && (n & (n - 1)) == 0, "Tiles, vectors and blocks must be powers of two, got ",
              n);
  }
  NVF_CHECK(vectorization_1 <= tile_1 && vectorization_2 <= tile_2,
            "A vector must not be longer than the tile");
  NVF_CHECK(merged_1 > 0 && merged_2 > 0, "At least one axis makes a dimension of the tiles");
}

} // namespace nvfuser
