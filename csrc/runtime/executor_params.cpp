// CompileParams and LaunchParams: comparing, hashing, printing.
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

uint64_t CompileParams::hash() const {
  uint64_t seed = hashCombine(1, index_type ? uint64_t(*index_type) + 1 : 0);
  seed = hashCombine(seed, uint64_t(maxrregcount));
  seed = hashCombine(seed, uint64_t(enable_magic_zero) + 2 * uint64_t(enable_ptxas_verbose));
  seed =
      hashCombine(seed, device ? uint64_t(device->type) * 1000 + uint64_t(device->index) + 1 : 0);
  for (const std::string& path : include_paths) {
    seed = hashString(path, seed);
  }
  return seed;
}

std::string CompileParams::toString() const {
  std::ostringstream os;
  os << std::boolalpha << "Compile Parameters: index_type = ";
  if (index_type) {
    os << *index_type;
  } else {
    os << "not set";
  }
  os << ", maxrregcount = " << maxrregcount << ", enable_magic_zero = " << enable_magic_zero
     << ", enable_ptxas_verbose = " << enable_ptxas_verbose << ", device = ";
  if (device) {
    os << *device;
  } else {
    os << "not set";
  }
  os << ", include_paths = [" << join(include_paths) << "]";
  return os.str();
}

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
  return hashBytes(dims_, sizeof(dims_), uint64_t(smem_));
}

std::string LaunchParams::toString() const {
  std::ostringstream os;
  os << "Launch Parameters: BlockDim.x = " << dims_[3] << ", BlockDim.y = " << dims_[4]
     << ", BlockDim.z = " << dims_[5] << ", GridDim.x = " << dims_[0]
     << ", GridDim.y = " << dims_[1] << ", GridDim.z = " << dims_[2] << ", Smem Size = " << smem_;
  return os.str();
}

} // namespace nvfuser
