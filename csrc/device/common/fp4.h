// SPDX-License-Identifier: BSD-3-Clause
// Packed fp4 memory: two __e2m1 in a byte, the even index in the low nibble (torch
// float4_e2m1fn_x2). In registers each value has a byte of its own. `index` counts fp4 values from
// the base.
#pragma once

//@ piece nvf::loadFp4
namespace nvf {
template <int N>
NVF_FN void loadFp4(__e2m1* registers, const __e2m1* packed_base, nvfuser_index_t index) {
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(packed_base) + index / 2;
  if constexpr (N == 1) {
    registers[0].bits = (index % 2 != 0) ? *bytes >> 4 : *bytes & 15;
  } else {
    alignas(N / 2) unsigned char packed[N / 2];
    nvf::loadGlobal<unsigned char, N / 2>(packed, bytes);
    nvf::unpackNibbles<N>(registers, packed);
  }
}
} // namespace nvf

//@ piece nvf::fp4At
namespace nvf {
NVF_FN __e2m1 fp4At(const __e2m1* packed_base, nvfuser_index_t index) {
  __e2m1 value;
  nvf::loadFp4<1>(&value, packed_base, index);
  return value;
}
} // namespace nvf

//@ piece nvf::storeFp4
namespace nvf {
template <int N>
NVF_FN void storeFp4(__e2m1* packed_base, nvfuser_index_t index, const __e2m1* registers) {
  unsigned char* bytes = reinterpret_cast<unsigned char*>(packed_base) + index / 2;
  if constexpr (N == 1) {
    nvf::storeNibble(bytes, index % 2 != 0, registers[0].bits);
  } else {
    alignas(N / 2) unsigned char packed[N / 2];
    nvf::packNibbles<N>(packed, registers);
    nvf::storeGlobal<unsigned char, N / 2>(bytes, packed);
  }
}
} // namespace nvf
