// Checking and encoding tensor maps; see tensor_map.h.
#include <runtime/tensor_map.h>

#include <base/error.h>
#include <runtime/cuda_driver.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace nvfuser {

namespace {

constexpr size_t kMostDimensions = 5;
constexpr int64_t kMostBoxExtent = 256;

// As device/host/async.h declares it.
struct HostTensorMap {
  void* data;
  unsigned element_bytes, rank;
  unsigned long long size[kMostDimensions];
  unsigned long long stride_bytes[kMostDimensions - 1];
  unsigned box[kMostDimensions];
  unsigned swizzle;
};
static_assert(sizeof(HostTensorMap) <= sizeof(TensorMapBytes));

int64_t swizzleBytes(TensorMapSwizzle swizzle) {
  return swizzle == TensorMapSwizzle::None ? 0 : int64_t{16} << static_cast<int>(swizzle);
}

void check(const TensorMapRequest& request) {
  const size_t rank = request.sizes.size();
  NVF_CHECK(rank >= 1 && rank <= kMostDimensions && request.box.size() == rank &&
                request.stride_bytes.size() + 1 == rank,
            "A tensor map has 1 to 5 dimensions, each with a size and a box extent, and all but "
            "the first with a stride; got ",
            rank, " sizes, ", request.box.size(), " box extents and ", request.stride_bytes.size(),
            " strides.");
  const int bytes = request.element_bytes;
  NVF_CHECK(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8,
            "A tensor map has elements of 1, 2, 4 or 8 bytes, but got ", bytes, ".");
  NVF_CHECK(request.data != nullptr, "The tensor of a tensor map has a null pointer.");
  NVF_CHECK(reinterpret_cast<uintptr_t>(request.data) % 16 == 0,
            "The tensor of a tensor map is not aligned to 16 bytes.");
  for (size_t i = 0; i < rank; ++i) {
    NVF_CHECK(request.sizes[i] > 0 && request.sizes[i] <= int64_t{1} << 32,
              "A tensor map has sizes of 1 to 2^32, but got ", request.sizes[i], ".");
    NVF_CHECK(request.box[i] > 0 && request.box[i] <= kMostBoxExtent,
              "The box of a tensor map has extents of 1 to 256, but got ", request.box[i], ".");
  }
  for (const int64_t stride : request.stride_bytes) {
    NVF_CHECK(stride % 16 == 0 && stride >= 0 && stride < int64_t{1} << 40,
              "A tensor map has strides that are multiples of 16 bytes, but got a stride of ",
              stride, " bytes.");
  }
  const int64_t row = request.box[0] * bytes;
  NVF_CHECK(row % 16 == 0, "The box of a tensor map has rows of a multiple of 16 bytes, but got ",
            row, ".");
  const int64_t swizzle = swizzleBytes(request.swizzle);
  NVF_CHECK(swizzle == 0 || row <= swizzle, "The rows of a box that is swizzled by ", swizzle,
            " bytes are no longer than that; these have ", row, ".");
}

void encodeForHost(const TensorMapRequest& request, TensorMapBytes& bytes) {
  HostTensorMap map = {};
  map.data = request.data;
  map.element_bytes = static_cast<unsigned>(request.element_bytes);
  map.rank = static_cast<unsigned>(request.sizes.size());
  std::copy(request.sizes.begin(), request.sizes.end(), map.size);
  std::copy(request.stride_bytes.begin(), request.stride_bytes.end(), map.stride_bytes);
  std::copy(request.box.begin(), request.box.end(), map.box);
  map.swizzle = static_cast<unsigned>(request.swizzle);
  std::memcpy(bytes.bytes.data(), &map, sizeof(map));
}

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

void encodeForCuda(const TensorMapRequest& request, TensorMapBytes& bytes) {
  const cuda::Driver& f = cuda::driver();
  NVF_CHECK(f.cuTensorMapEncodeTiled != nullptr, "The CUDA driver has no tensor maps.");
  const std::vector<uint64_t> sizes(request.sizes.begin(), request.sizes.end());
  const std::vector<uint64_t> strides(request.stride_bytes.begin(), request.stride_bytes.end());
  const std::vector<uint32_t> box(request.box.begin(), request.box.end());
  const std::vector<uint32_t> element_strides(box.size(), 1);
  constexpr int kNotInterleaved = 0, kPromoteTo256Bytes = 3, kFillZeros = 0;
  cuda::check(
      f.cuTensorMapEncodeTiled(bytes.bytes.data(), dataTypeOf(request.element_bytes),
                               static_cast<unsigned>(sizes.size()), request.data, sizes.data(),
                               strides.data(), box.data(), element_strides.data(), kNotInterleaved,
                               static_cast<int>(request.swizzle), kPromoteTo256Bytes, kFillZeros),
      "Cannot make a tensor map");
}

} // namespace

TensorMapBytes encodeTensorMap(const TensorMapRequest& request, Device device) {
  check(request);
  TensorMapBytes bytes = {};
  if (device.isCuda()) {
    encodeForCuda(request, bytes);
  } else {
    encodeForHost(request, bytes);
  }
  return bytes;
}

} // namespace nvfuser
