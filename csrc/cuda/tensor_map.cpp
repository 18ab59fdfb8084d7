// SPDX-License-Identifier: BSD-3-Clause
// See tensor_map.h.
#include <cuda/tensor_map.h>

#include <base/error.h>
#include <cuda/driver.h>

#include <vector>

namespace nvfuser {

namespace {

// CUtensorMapDataType of unsigned integers: zeros are filled in outside of the tensor whatever the
// elements are.
int dataTypeOf(int element_bytes) {
  switch (element_bytes) {
    case 1:
      return 0;
    case 2:
      return 1;
    case 4:
      return 2;
    default:
      return 4;
  }
}

} // namespace

TensorMapBytes encodeCudaTensorMap(const TensorMapRequest& request) {
  checkTensorMap(request);
  TensorMapBytes bytes = {};
  const cuda::Driver& f = cuda::driver();
  NVF_CHECK(f.cuTensorMapEncodeTiled != nullptr, "The CUDA driver has no tensor maps.");
  const std::vector<uint64_t> sizes(request.sizes.begin(), request.sizes.end());
  std::vector<uint64_t> strides(request.stride_bytes.begin(), request.stride_bytes.end());
  strides.push_back(0); // the driver refuses the null pointer of an empty list
  const std::vector<uint32_t> box(request.box.begin(), request.box.end());
  const std::vector<uint32_t> element_strides(box.size(), 1);
  constexpr int kNotInterleaved = 0, kPromoteTo256Bytes = 3, kFillZeros = 0;
  cuda::check(
      f.cuTensorMapEncodeTiled(bytes.bytes.data(), dataTypeOf(request.element_bytes),
                               static_cast<unsigned>(sizes.size()), request.data, sizes.data(),
                               strides.data(), box.data(), element_strides.data(), kNotInterleaved,
                               static_cast<int>(request.swizzle), kPromoteTo256Bytes, kFillZeros),
      "Cannot make a tensor map");
  return bytes;
}

} // namespace nvfuser
