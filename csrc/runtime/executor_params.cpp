// SPDX-License-Identifier: BSD-3-Clause
// LaunchParams: comparing, hashing, printing.
#include <runtime/executor_params.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/string_utils.h>

#include <sstream>

namespace nvfuser {

namespace {

size_t dimIndex(ParallelType p) {
  switch (p) {
    case ParallelType::BIDx:
      return 0;
    case ParallelType::BIDy:
      return 1;
    case ParallelType::BIDz:
      return 2;
    case ParallelType::TIDx:
      return 3;
    case ParallelType::TIDy:
      return 4;
    case ParallelType::TIDz:
      return 5;
    default:
      NVF_THROW("parallel type ", p, " is no dimension of a launch");
  }
}

} // namespace

LaunchParams::LaunchParams(int64_t gdimx, int64_t gdimy, int64_t gdimz, int64_t bdimx,
                           int64_t bdimy, int64_t bdimz)
    : dims_{gdimx, gdimy, gdimz, bdimx, bdimy, bdimz} {}

int64_t LaunchParams::getRawVal(ParallelType p) const {
  return dims_[dimIndex(p)];
}

void LaunchParams::bind(int64_t value, ParallelType p) {
  int64_t& dim = dims_[dimIndex(p)];
  NVF_CHECK(dim == kUnset || dim == value, "The extent of ", p, " cannot be both ", dim, " and ",
            value, " in one launch");
  dim = value;
}

void LaunchParams::bindUnsafe(int64_t value, ParallelType p) {
  dims_[dimIndex(p)] = value;
}

uint64_t LaunchParams::hash() const {
  return hashBytes(dims_, sizeof(dims_));
}

// Shared memory is the kernel's business; the text is as users of nvFuser know it.
std::string LaunchParams::toString() const {
  std::ostringstream os;
  os << "Launch Parameters: BlockDim.x = " << dims_[3] << ", BlockDim.y = " << dims_[4]
     << ", BlockDim.z = " << dims_[5] << ", GridDim.x = " << dims_[0]
     << ", GridDim.y = " << dims_[1] << ", GridDim.z = " << dims_[2] << ", Smem Size = 0";
  return os.str();
}

} // namespace nvfuser
