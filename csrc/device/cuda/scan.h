// SPDX-License-Identifier: BSD-3-Clause
// Scans over the threads of a block on the GPU.
#pragma once

//@ piece nvf::shuffleWords
// Passes a value between lanes word by word. `shuffle` takes and returns 32 bits.
namespace nvf {
template <class V, class Shuffle>
NVF_FN V shuffleWords(V value, Shuffle shuffle) {
  constexpr int kWords = (sizeof(V) + 3) / 4;
  if constexpr (sizeof(V) == 4 * kWords) {
    unsigned* words = reinterpret_cast<unsigned*>(&value);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = shuffle(words[i]);
    }
    return value;
  } else {
    using Bits = nvf::MakeUnsigned<V>;
    const unsigned bits = nvf::bitsOf<Bits>(value);
    return nvf::bitsOf<V>(static_cast<Bits>(shuffle(bits)));
  }
}
} // namespace nvf

//@ piece nvf::blockScan nvf::scanLanes
// Inclusive scan over groups of `Lanes` neighbouring lanes: each step combines with what is twice
// as far away.
namespace nvf {
template <class Op, int Lanes, class T>
NVF_FN T scanLanes(T value, int lane) {
#pragma unroll
  for (int distance = 1; distance < Lanes; distance *= 2) {
    const T before = nvf::shuffleWords(
        value, [&](unsigned word) { return __shfl_up_sync(0xffffffffu, word, distance); });
    if (lane >= distance) {
      value = Op::combine(before, value);
    }
  }
  return value;
}

// The N values of all threads along threadIdx.x (BX of them: a power of two up to 32, or a multiple
// of 32) become their scan, thread by thread; `carry` comes before the first of them, and then is
// what comes before the next ones. Called by all threads of the block. `workspace`: 16-byte aligned
// shared memory for a T per warp if BX > 32, which no thread uses any more.
template <class Op, int BX, int N, class T>
NVF_FN void blockScan(char* workspace, T* values, T& carry) {
  constexpr int kLanes = BX < 32 ? BX : 32;
  constexpr int kWarps = BX / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int i = 1; i < N; ++i) {
    values[i] = Op::combine(values[i - 1], values[i]);
  }
  const T inclusive = nvf::scanLanes<Op, kLanes>(values[N - 1], lane);
  T before = nvf::shuffleWords(inclusive,
                               [&](unsigned word) { return __shfl_up_sync(0xffffffffu, word, 1); });
  if (lane == 0) {
    before = Op::template identity<T>();
  }
  T all = nvf::shuffleWords(
      inclusive, [&](unsigned word) { return __shfl_sync(0xffffffffu, word, kLanes - 1, kLanes); });
  if constexpr (kWarps > 1) {
    const int segment = static_cast<int>(threadIdx.y + blockDim.y * threadIdx.z);
    const int warp = static_cast<int>(threadIdx.x) / kLanes;
    T* totals = reinterpret_cast<T*>(workspace) + segment * kWarps;
    if (lane == kLanes - 1) {
      totals[warp] = inclusive;
    }
    nvf::syncBlock();
    T warps_before = Op::template identity<T>();
    all = totals[0];
#pragma unroll
    for (int i = 1; i < kWarps; ++i) {
      if (i == warp) {
        warps_before = all;
      }
      all = Op::combine(all, totals[i]);
    }
    before = Op::combine(warps_before, before);
  }
  before = Op::combine(carry, before);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    values[i] = Op::combine(before, values[i]);
  }
  carry = Op::combine(carry, all);
}
} // namespace nvf
