// SPDX-License-Identifier: BSD-3-Clause
// Vector accesses on the GPU: one instruction each.
#pragma once

//@ piece nvf::Vector
// The built-in type that the compiler moves with one instruction of that size.
namespace nvf {
template <int Bytes>
struct VectorImpl;
template <>
struct VectorImpl<1> {
  using type = unsigned char;
};
template <>
struct VectorImpl<2> {
  using type = unsigned short;
};
template <>
struct VectorImpl<4> {
  using type = unsigned int;
};
template <>
struct VectorImpl<8> {
  using type = uint2;
};
template <>
struct VectorImpl<16> {
  using type = uint4;
};
template <int Bytes>
using Vector = typename VectorImpl<Bytes>::type;
} // namespace nvf

//@ piece nvf::waitForLoads
// An instruction that reads the registers and that the compiler can not leave out: each lane gets
// its own value.
namespace nvf {
template <class Registers>
NVF_FN void waitForLoads(Registers& registers) {
  if constexpr (alignof(Registers) >= 4) {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    unsigned* words = reinterpret_cast<unsigned*>(&registers);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Registers)) / 4; ++i) {
      asm volatile("shfl.sync.idx.b32 %0, %0, %1, 31, 0xffffffff;" : "+r"(words[i]) : "r"(lane));
    }
  }
}
} // namespace nvf

//@ piece nvf::renew
// The same number, but the compiler does not know that.
namespace nvf {
NVF_FN void renew(float& x) {
  asm("" : "+f"(x));
}
} // namespace nvf

//@ piece nvf::renewWords
// The same 16-bit elements, likewise, unless what was computed of them is to stay in registers.
namespace nvf {
template <class T, int N, int Align>
NVF_FN void renewWords(Array<T, N, Align>& registers) {
#ifndef NVF_KEEPS_CONVERTED
  if constexpr (N % 2 == 0 && Align % 2 == 0) {
    unsigned* words = reinterpret_cast<unsigned*>(&registers.array[0]);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      asm("" : "+r"(words[i]));
    }
  }
#endif
}
} // namespace nvf

//@ piece nvf::loadGlobal
// Unspecified stays an ordinary load: the kernel may write the same memory through another
// argument. EvictLast: what "createpolicy.fractional.L2::evict_last.b64 p, 1.0" (PTX ISA) gives on
// sm_90, as a constant, so that guarded loads take predicates instead of branches, and fewer
// registers. Volatile: it stays after what the kernel waits for.
namespace nvf {
template <class T, int N, nvf::CacheOp Op = nvf::CacheOp::Unspecified>
NVF_FN void loadGlobal(T* registers, const T* source) {
  if constexpr (N * sizeof(T) == 32) {
#if __CUDA_ARCH__ >= 1000
    // 256-bit accesses: PTX ISA 8.8, "ld", sm_100 and above.
    unsigned* r = reinterpret_cast<unsigned*>(registers);
    const unsigned long long address = __cvta_generic_to_global(source);
#define NVF_LOAD_32(modifier)                                                            \
  asm volatile("ld.global" modifier ".v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"    \
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), \
                 "=r"(r[6]), "=r"(r[7])                                                  \
               : "l"(address)                                                            \
               : "memory")
    if constexpr (Op == nvf::CacheOp::Streaming) {
      NVF_LOAD_32(".L1::no_allocate");
    } else {
      NVF_LOAD_32("");
    }
#undef NVF_LOAD_32
#else
    loadGlobal<T, N / 2, Op>(registers, source);
    loadGlobal<T, N / 2, Op>(registers + N / 2, source + N / 2);
#endif
  } else {
    using V = nvf::Vector<N * sizeof(T)>;
    const V* from = reinterpret_cast<const V*>(source);
    V* to = reinterpret_cast<V*>(registers);
    if constexpr (Op == nvf::CacheOp::AllLevels) {
      *to = __ldca(from);
    } else if constexpr (Op == nvf::CacheOp::Streaming) {
      *to = __ldcs(from);
    } else if constexpr (Op == nvf::CacheOp::Global) {
      *to = __ldcg(from);
#if __CUDA_ARCH__ >= 900
    } else if constexpr (Op == nvf::CacheOp::EvictLast && sizeof(V) >= 4) {
      constexpr unsigned long long policy = 0x14F0000000000000ull;
      unsigned* r = reinterpret_cast<unsigned*>(registers);
      const unsigned long long address = __cvta_generic_to_global(source);
      if constexpr (sizeof(V) == 16) {
        asm volatile("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "l"(address), "l"(policy)
                     : "memory");
      } else if constexpr (sizeof(V) == 8) {
        asm volatile("ld.global.L2::cache_hint.v2.b32 {%0, %1}, [%2], %3;"
                     : "=r"(r[0]), "=r"(r[1])
                     : "l"(address), "l"(policy)
                     : "memory");
      } else {
        asm volatile("ld.global.L2::cache_hint.b32 %0, [%1], %2;"
                     : "=r"(r[0])
                     : "l"(address), "l"(policy)
                     : "memory");
      }
#endif
    } else {
      *to = *from;
    }
  }
}
} // namespace nvf

//@ piece nvf::loadUnaligned
// Elements index .. index + N - 1 of a tensor of `extent`; those out of bounds are any others. No
// branches: loads of several vectors are under way at once. 16-bit elements are read by the words
// that they lie in, the last of an odd number for itself. `is_inside`, a constant once loops are
// unrolled: all of them are within bounds.
namespace nvf {
template <class T, int N>
NVF_FN void loadUnaligned(T* registers, const T* tensor, int index, int extent,
                          bool is_inside = false) {
  if (sizeof(T) == 2 && N % 2 == 0 && extent > 1) {
    const unsigned* words = reinterpret_cast<const unsigned*>(tensor);
    const unsigned short* halves = reinterpret_cast<const unsigned short*>(tensor);
    const int whole = extent >> 1;
    const unsigned last = extent % 2 == 0 ? 0 : halves[extent - 1];
    const int first = index >> 1;
    unsigned around[N / 2 + 1];
#pragma unroll
    for (int i = 0; i <= N / 2; ++i) {
      const bool is_whole = is_inside && i < N / 2;
      const unsigned word = words[is_whole ? first + i : ::min(::max(first + i, 0), whole - 1)];
      around[i] = !is_whole && first + i == whole ? last : word;
    }
    const unsigned shift = (index & 1) * 16;
    unsigned* to = reinterpret_cast<unsigned*>(registers);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      to[i] = __funnelshift_r(around[i], around[i + 1], shift);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      registers[i] = tensor[is_inside ? index + i : ::min(::max(index + i, 0), extent - 1)];
    }
  }
}
} // namespace nvf

//@ piece nvf::loadShifted nvf::shiftHalves
// Elements index .. index + N - 1 from the two aligned vectors that hold them. All threads
// that work on one row take the same ones of these.
namespace nvf {
template <class T, int Words>
NVF_FN void shiftHalves(T* registers, const unsigned* words, int first) {
  const unsigned half = sizeof(T) == 2 ? (first & 1) * 16 : 0;
#pragma unroll
  for (int i = 0; i < Words; ++i) {
    reinterpret_cast<unsigned*>(registers)[i] = __funnelshift_r(words[i], words[i + 1], half);
  }
}

template <class T, int N>
NVF_FN void loadShifted(T* registers, const T* staged, int index) {
  const int first = N - (-index & (N - 1));
  constexpr int kWords = N * sizeof(T) / 4;
  if constexpr (sizeof(T) <= 4 && sizeof(T) > 1 && kWords == 4) {
    // Three reads of two words, of which the last ones are wanted if there are any; fewer
    // instructions than choosing among eight words.
    const int word = first * static_cast<int>(sizeof(T)) / 4;
    const int even = word & -2;
    const unsigned* from = reinterpret_cast<const unsigned*>(staged);
    alignas(8) unsigned words[6];
    reinterpret_cast<uint2*>(words)[0] = *reinterpret_cast<const uint2*>(from + even);
    reinterpret_cast<uint2*>(words)[1] = *reinterpret_cast<const uint2*>(from + even + 2);
    reinterpret_cast<uint2*>(words)[2] = *reinterpret_cast<const uint2*>(from + ::min(even, 2) + 4);
#pragma unroll
    for (int i = 0; i < 5; ++i) {
      words[i] = word % 2 != 0 ? words[i + 1] : words[i];
    }
    nvf::shiftHalves<T, 4>(registers, words, first);
  } else if constexpr (sizeof(T) <= 4 && sizeof(T) > 1 && kWords > 0) {
    using V = nvf::Vector<N * sizeof(T)>;
    alignas(V) unsigned words[2 * kWords + 4] = {};
    reinterpret_cast<V*>(words)[0] = reinterpret_cast<const V*>(staged)[0];
    reinterpret_cast<V*>(words)[1] = reinterpret_cast<const V*>(staged)[1];
    const int word = first * static_cast<int>(sizeof(T)) / 4;
#pragma unroll
    for (int step = kWords; step > 0; step /= 2) {
#pragma unroll
      for (int i = 0; i < 2 * kWords; ++i) {
        words[i] = (word & step) != 0 ? words[::min(i + step, 2 * kWords)] : words[i];
      }
    }
    nvf::shiftHalves<T, kWords>(registers, words, first);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      registers[i] = staged[first + i];
    }
  }
}
} // namespace nvf

//@ piece nvf::storeGlobal
namespace nvf {
template <class T, int N, nvf::CacheOp Op = nvf::CacheOp::Unspecified>
NVF_FN void storeGlobal(T* destination, const T* registers) {
  if constexpr (N * sizeof(T) == 32) {
#if __CUDA_ARCH__ >= 1000
    const unsigned* r = reinterpret_cast<const unsigned*>(registers);
    asm volatile("st.global.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};"
                 :
                 : "l"(__cvta_generic_to_global(destination)), "r"(r[0]), "r"(r[1]), "r"(r[2]),
                   "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7])
                 : "memory");
#else
    storeGlobal<T, N / 2, Op>(destination, registers);
    storeGlobal<T, N / 2, Op>(destination + N / 2, registers + N / 2);
#endif
  } else {
    using V = nvf::Vector<N * sizeof(T)>;
    const V value = *reinterpret_cast<const V*>(registers);
    V* to = reinterpret_cast<V*>(destination);
    if constexpr (Op == nvf::CacheOp::Streaming) {
      __stcs(to, value);
    } else if constexpr (Op == nvf::CacheOp::Global) {
      __stcg(to, value);
    } else {
      *to = value;
    }
  }
}
} // namespace nvf

//@ piece nvf::copyVector
namespace nvf {
template <class T, int N>
NVF_FN void copyVector(T* destination, const T* source) {
  using V = nvf::Vector<N * sizeof(T)>;
  *reinterpret_cast<V*>(destination) = *reinterpret_cast<const V*>(source);
}
} // namespace nvf

//@ piece nvf::storeNibble
// Another thread may own the other half of the byte, and others the rest of the word.
namespace nvf {
NVF_FN void storeNibble(unsigned char* byte, bool high, unsigned value) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(byte);
  unsigned* word = reinterpret_cast<unsigned*>(address & ~3ull);
  const unsigned shift = static_cast<unsigned>(address & 3ull) * 8u + (high ? 4u : 0u);
  atomicAnd(word, ~(15u << shift));
  atomicOr(word, value << shift);
}
} // namespace nvf

//@ piece nvf::unpackNibbles nvf::packNibbles
// Of N / 2 bytes and N values.
namespace nvf {
template <int N>
NVF_FN void unpackNibbles(__e2m1* registers, const unsigned char* packed) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    registers[2 * i].bits = packed[i] & 15;
    registers[2 * i + 1].bits = packed[i] >> 4;
  }
}
template <int N>
NVF_FN void packNibbles(unsigned char* packed, const __e2m1* registers) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    packed[i] = static_cast<unsigned char>(registers[2 * i].bits | registers[2 * i + 1].bits << 4);
  }
}
} // namespace nvf
