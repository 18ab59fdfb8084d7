// SPDX-License-Identifier: BSD-3-Clause
// CompileParams: hashing, printing.
#include <target/compile_params.h>

#include <base/hash.h>
#include <base/string_utils.h>

#include <sstream>

namespace nvfuser {

bool CompileParams::operator==(const CompileParams& other) const {
  return index_type == other.index_type && maxrregcount == other.maxrregcount &&
         wanted_registers == other.wanted_registers &&
         enable_ptxas_verbose == other.enable_ptxas_verbose && device == other.device &&
         include_paths == other.include_paths;
}

uint64_t CompileParams::hash() const {
  uint64_t seed = hashCombine(1, index_type ? uint64_t(*index_type) + 1 : 0);
  seed = hashCombine(seed, uint64_t(maxrregcount));
  seed = hashCombine(seed, uint64_t(wanted_registers));
  seed = hashCombine(seed, uint64_t(enable_ptxas_verbose));
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

} // namespace nvfuser
