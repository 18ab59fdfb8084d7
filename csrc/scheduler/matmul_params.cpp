// SPDX-License-Identifier: BSD-3-Clause
// Names of the choices, and which tensor core instructions there are.
#include <scheduler/matmul_params.h>

#include <base/error.h>

namespace nvfuser {

namespace {

// `n` is a multiple of `step` from `step` to 256.
bool isStep(int64_t n, int64_t step) {
  return n >= step && n <= 256 && n % step == 0;
}

// PTX ISA, "mma", "wgmma.mma_async" and "tcgen05.mma", for operands of 16 bits.
bool exists(const MmaMacroEncode& e) {
  switch (e.arch) {
    case MmaMacroArch::NoMma:
      return e.m == 1 && e.n == 1 && e.k == 1;
    case MmaMacroArch::Volta:
      return false;
    case MmaMacroArch::Turing:
      return e.m == 16 && ((e.n == 8 && (e.k == 8 || e.k == 16)) || (e.n == 16 && e.k == 16));
    case MmaMacroArch::Ampere:
      return e.m == 16 && (e.n == 8 || e.n == 16) && e.k == 16;
    case MmaMacroArch::Hopper:
      return e.m == 64 && isStep(e.n, 8) && e.k == 16;
    case MmaMacroArch::Blackwell1CTA:
      return ((e.m == 64 && isStep(e.n, 8)) || (e.m == 128 && isStep(e.n, 16))) && e.k == 16;
    case MmaMacroArch::Blackwell2CTA:
      return (e.m == 128 || e.m == 256) && isStep(e.n, 32) && e.k == 16;
  }
  return false;
}

} // namespace

MmaMacro MmaMacroEncode::macro() const {
  NVF_CHECK(exists(*this), "There is no tensor core instruction (", fieldsText(*this), ").");
  MmaMacro macro;
  macro.arch_ = arch;
  macro.m_ = static_cast<uint16_t>(m);
  macro.n_ = static_cast<uint16_t>(n);
  macro.k_ = static_cast<uint16_t>(k);
  return macro;
}

std::ostream& operator<<(std::ostream& out, MmaMacroArch arch) {
  constexpr const char* kNames[] = {"no_mma", "volta",          "turing",        "ampere",
                                    "hopper", "blackwell_1cta", "blackwell_2cta"};
  return out << kNames[static_cast<size_t>(arch)];
}

std::ostream& operator<<(std::ostream& out, const MmaMacro& macro) {
  out << macro.arch();
  if (macro.arch() != MmaMacroArch::NoMma) {
    out << "_" << macro.m() << "_" << macro.n() << "_" << macro.k();
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, MatmulTilingStrategy strategy) {
  constexpr const char* kNames[] = {"one_tile_per_cta", "distribute_tiles_across_sms",
                                    "distribute_stages_across_sms"};
  return out << kNames[static_cast<size_t>(strategy)];
}

std::ostream& operator<<(std::ostream& out, MatmulBufferingLoopLevel level) {
  return out << (level == MatmulBufferingLoopLevel::CTATiles ? "cta_tiles" : "warp_tiles");
}

std::ostream& operator<<(std::ostream& out, MatmulCircularBufferingStrategy strategy) {
  return out << (strategy == MatmulCircularBufferingStrategy::Pipelined ? "pipelined"
                                                                        : "warp_specialized");
}

std::ostream& operator<<(std::ostream& out, MatmulTileRasterizationOrder order) {
  return out << (order == MatmulTileRasterizationOrder::RowMajor ? "row_major" : "column_major");
}

} // namespace nvfuser
