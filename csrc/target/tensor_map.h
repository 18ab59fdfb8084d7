// SPDX-License-Identifier: BSD-3-Clause
// Tensor maps: the description of a tensor and of a tile of it that bulk tensor copies take
// (device/cuda/async.h). What is asked for and the conditions on it are the same on both targets;
// the 128 bytes are made by the driver on CUDA (cuda/tensor_map.h) and are a plain struct on the
// host (host/tensor_map.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nvfuser {

// Tile rows of at most this many bytes are permuted in shared memory so that columns are read
// without bank conflicts.
enum class TensorMapSwizzle : uint8_t { None, Bytes32, Bytes64, Bytes128 };

constexpr size_t kMostTensorMapDimensions = 5;

// Dimensions from the fastest, which has stride 1, to the slowest.
struct TensorMapRequest {
  void* data = nullptr;  // of the first element
  int element_bytes = 0; // 1, 2, 4 or 8
  std::vector<int64_t> sizes;
  std::vector<int64_t> stride_bytes; // of the dimensions after the first
  std::vector<int64_t> box;          // extents of the tile
  TensorMapSwizzle swizzle = TensorMapSwizzle::None;
};

struct alignas(64) TensorMapBytes {
  std::array<std::byte, 128> bytes;
};

// Why the hardware could not copy such tiles, or nothing: the conditions are those of
// cuTensorMapEncodeTiled (CUDA driver API, "Tensor Map Object Management"), on both targets. A null
// address, one that is not known yet, is fine.
std::string tensorMapProblem(const TensorMapRequest& request);

// UserError when the hardware could not copy such tiles, or the address is null.
void checkTensorMap(const TensorMapRequest& request);

} // namespace nvfuser
