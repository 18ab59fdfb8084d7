// SPDX-License-Identifier: BSD-3-Clause
// See tensor_map.h.
#include <host/tensor_map.h>

#include <algorithm>
#include <cstring>

namespace nvfuser {

namespace {

// As device/host/async.h declares it.
struct HostTensorMap {
  void* data;
  unsigned element_bytes, rank;
  unsigned long long size[kMostTensorMapDimensions];
  unsigned long long stride_bytes[kMostTensorMapDimensions - 1];
  unsigned box[kMostTensorMapDimensions];
  unsigned swizzle;
};
static_assert(sizeof(HostTensorMap) <= sizeof(TensorMapBytes));

} // namespace

TensorMapBytes encodeHostTensorMap(const TensorMapRequest& request) {
  checkTensorMap(request);
  TensorMapBytes bytes = {};
  HostTensorMap map = {};
  map.data = request.data;
  map.element_bytes = static_cast<unsigned>(request.element_bytes);
  map.rank = static_cast<unsigned>(request.sizes.size());
  std::copy(request.sizes.begin(), request.sizes.end(), map.size);
  std::copy(request.stride_bytes.begin(), request.stride_bytes.end(), map.stride_bytes);
  std::copy(request.box.begin(), request.box.end(), map.box);
  map.swizzle = static_cast<unsigned>(request.swizzle);
  std::memcpy(bytes.bytes.data(), &map, sizeof(map));
  return bytes;
}

} // namespace nvfuser
