// SPDX-License-Identifier: BSD-3-Clause
// The threads of a block as segments: those whose indices agree in the dimensions that are not
// reduced are combined with each other.
#pragma once

//@ piece nvf::ThreadPlace
namespace nvf {
struct ThreadPlace {
  int x, y, z;    // index in the block
  int nx, ny, nz; // extents of the block

  NVF_FN int number() const {
    return x + nx * (y + ny * z);
  }
  NVF_FN int threads() const {
    return nx * ny * nz;
  }
};
} // namespace nvf

//@ piece nvf::SegmentPlace nvf::segmentOf
namespace nvf {
struct SegmentPlace {
  int rank, threads;     // number in the segment, and how many there are
  int segment, segments; // number of the segment, and how many there are
};

template <bool RX, bool RY, bool RZ>
NVF_FN SegmentPlace segmentOf(nvf::ThreadPlace t) {
  SegmentPlace s = {0, 1, 0, 1};
  const auto append = [&](bool is_reduced, int index, int extent) {
    (is_reduced ? s.rank : s.segment) += (is_reduced ? s.threads : s.segments) * index;
    (is_reduced ? s.threads : s.segments) *= extent;
  };
  append(RX, t.x, t.nx);
  append(RY, t.y, t.ny);
  append(RZ, t.z, t.nz);
  return s;
}
} // namespace nvf

//@ piece nvf::threadOf
// The number in the block of a thread of a segment.
namespace nvf {
template <bool RX, bool RY, bool RZ>
NVF_FN int threadOf(int segment, int rank, nvf::ThreadPlace t) {
  // Takes the next index out of the number that the dimension belongs to; the last one is what is
  // left.
  const auto take = [](int& number, int extent, bool is_last) {
    const int index = is_last ? number : number % extent;
    number = is_last ? 0 : number / extent;
    return index;
  };
  const int x = take(RX ? rank : segment, t.nx, RX ? !RY && !RZ : RY && RZ);
  const int y = take(RY ? rank : segment, t.ny, RY ? !RZ : RZ);
  return x + t.nx * (y + t.ny * (RZ ? rank : segment));
}
} // namespace nvf
