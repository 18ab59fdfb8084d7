// SPDX-License-Identifier: BSD-3-Clause
// Where the hardware puts the bytes of a swizzled tile.
#pragma once

//@ piece nvf::swizzle128
// The offset of a byte in a tile of rows of 128 bytes that starts at a multiple of 1024 and is
// swizzled by 128 bytes: the 16-byte chunks of row r are permuted by exclusive or with r modulo 8.
namespace nvf {
template <class T>
NVF_FN T swizzle128(T byte_offset) {
  return byte_offset ^ (((byte_offset >> 7) & 7) << 4);
}
} // namespace nvf
