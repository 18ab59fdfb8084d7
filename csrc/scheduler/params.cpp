// Printing, comparing and hashing of heuristic parameters.
#include <scheduler/params.h>

#include <base/hash.h>
#include <base/string_utils.h>

#include <sstream>

namespace nvfuser {

std::string HeuristicParams::toString() const {
  std::ostringstream os;
  os << "Heuristic parameters of the " << schedulerName(scheduler_type) << " scheduler";
  return os.str();
}

size_t HeuristicParams::hash() const {
  uint64_t h = hashCombine(static_cast<uint64_t>(scheduler_type), lparams.hash());
  return hashCombine(h, cparams.hash());
}

bool HeuristicParams::sameAs(const HeuristicParams& other) const {
  return scheduler_type == other.scheduler_type && lparams == other.lparams && cparams == other.cparams;
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
     << " Gridx: " << lparams.gdimx() << " BlckY: " << lparams.bdimy() << " BlckX: " << lparams.bdimx()
     << "\n";
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
  os << "====================================\n";
  return os.str();
}

size_t PointwiseParams::hash() const {
  uint64_t h = HeuristicParams::hash();
  for (int64_t v :
       {break_point,
        static_cast<int64_t>(split_block) + 2 * split_grid_y_dim + 4 * flip_grid_binding,
        vectorization_factor,
        unroll_factor_inner,
        unroll_factor_outer}) {
    h = hashCombine(h, static_cast<uint64_t>(v));
  }
  for (int64_t v : not_vectorized) {
    h = hashCombine(h, static_cast<uint64_t>(v));
  }
  return h;
}

bool PointwiseParams::sameAs(const HeuristicParams& other) const {
  const auto* p = dynamic_cast<const PointwiseParams*>(&other);
  return p != nullptr && HeuristicParams::sameAs(other) && break_point == p->break_point &&
      split_block == p->split_block && split_grid_y_dim == p->split_grid_y_dim &&
      flip_grid_binding == p->flip_grid_binding &&
      vectorization_factor == p->vectorization_factor &&
      unroll_factor_inner == p->unroll_factor_inner &&
      unroll_factor_outer == p->unroll_factor_outer && not_vectorized == p->not_vectorized;
}

} // namespace nvfuser
