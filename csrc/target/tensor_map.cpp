// SPDX-License-Identifier: BSD-3-Clause
// See tensor_map.h.
#include <target/tensor_map.h>

#include <base/error.h>

#include <string>

namespace nvfuser {

namespace {

constexpr int64_t kMostBoxExtent = 256;

int64_t swizzleBytes(TensorMapSwizzle swizzle) {
  return swizzle == TensorMapSwizzle::None ? 0 : int64_t{16} << static_cast<int>(swizzle);
}

// The message of the first condition that does not hold.
template <class... What>
std::string unless(bool holds, const What&... what) {
  return holds ? std::string() : detail::streamToString(what...);
}

std::string problemOfDims(const TensorMapRequest& request) {
  for (size_t i = 0; i < request.sizes.size(); ++i) {
    std::string problem =
        unless(request.sizes[i] > 0 && request.sizes[i] <= int64_t{1} << 32,
               "A tensor map has sizes of 1 to 2^32, but got ", request.sizes[i], ".");
    if (problem.empty()) {
      problem =
          unless(request.box[i] > 0 && request.box[i] <= kMostBoxExtent,
                 "The box of a tensor map has extents of 1 to 256, but got ", request.box[i], ".");
    }
    if (!problem.empty()) {
      return problem;
    }
  }
  for (const int64_t stride : request.stride_bytes) {
    if (stride % 16 != 0 || stride < 0 || stride >= int64_t{1} << 40) {
      return unless(false,
                    "A tensor map has strides that are multiples of 16 bytes, but got a stride of ",
                    stride, " bytes.");
    }
  }
  return {};
}

} // namespace

std::string tensorMapProblem(const TensorMapRequest& request) {
  const size_t rank = request.sizes.size();
  if (rank < 1 || rank > kMostTensorMapDimensions || request.box.size() != rank ||
      request.stride_bytes.size() + 1 != rank) {
    return unless(
        false,
        "A tensor map has 1 to 5 dimensions, each with a size and a box extent, and all but "
        "the first with a stride; got ",
        rank, " sizes, ", request.box.size(), " box extents and ", request.stride_bytes.size(),
        " strides.");
  }
  const int bytes = request.element_bytes;
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
    return unless(false, "A tensor map has elements of 1, 2, 4 or 8 bytes, but got ", bytes, ".");
  }
  if (reinterpret_cast<uintptr_t>(request.data) % 16 != 0) {
    return "The tensor of a tensor map is not aligned to 16 bytes.";
  }
  if (std::string problem = problemOfDims(request); !problem.empty()) {
    return problem;
  }
  const int64_t row = request.box[0] * bytes;
  if (row % 16 != 0) {
    return unless(false, "The box of a tensor map has rows of a multiple of 16 bytes, but got ",
                  row, ".");
  }
  const int64_t swizzle = swizzleBytes(request.swizzle);
  return unless(swizzle == 0 || row <= swizzle, "The rows of a box that is swizzled by ", swizzle,
                " bytes are no longer than that; these have ", row, ".");
}

void checkTensorMap(const TensorMapRequest& request) {
  NVF_CHECK(request.data != nullptr, "The tensor of a tensor map has a null pointer.");
  const std::string problem = tensorMapProblem(request);
  NVF_CHECK(problem.empty(), problem);
}

} // namespace nvfuser
