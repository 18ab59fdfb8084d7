// SPDX-License-Identifier: BSD-3-Clause
// Vector accesses on the host: copies of a constant size, which the compiler turns into moves.
#pragma once

//@ piece nvf::Vector
// Some bytes that are moved together.
namespace nvf {
template <int Bytes>
struct alignas(Bytes) Vector {
  unsigned char bytes[Bytes];
};
} // namespace nvf

//@ piece nvf::moveBytes
// Vector moves. Compilers may call a function for more bytes at once.
namespace nvf {
template <int Bytes>
NVF_FN void moveBytes(void* destination, const void* source) {
  if constexpr (Bytes <= 256) {
    __builtin_memcpy(destination, source, Bytes);
  } else {
    __builtin_memcpy(destination, source, 256);
    nvf::moveBytes<Bytes - 256>(static_cast<char*>(destination) + 256,
                                static_cast<const char*>(source) + 256);
  }
}
} // namespace nvf

//@ piece nvf::checkVector
// Adversarial mode: the checks that the hardware and the race detector would make. Vectors of a GPU
// have up to 32 bytes and are aligned to their size; longer ones are the host's own, which need not
// be.
namespace nvf {
template <int Bytes>
NVF_FN void checkVector([[maybe_unused]] const void* address, [[maybe_unused]] bool is_write,
                        [[maybe_unused]] int line) {
#ifdef NVF_HOST_ADVERSARIAL
  if (Bytes <= 32 && reinterpret_cast<unsigned long>(address) % Bytes != 0) {
    nvf::hostServices()->fail("misaligned vector access", line);
  }
  nvf::hostServices()->access(address, Bytes, is_write, false, line);
#endif
}
} // namespace nvf

//@ piece nvf::renew
// What is computed of it stays in vectors of the host, or in its caches.
namespace nvf {
NVF_FN void renew(float&) {}
} // namespace nvf

//@ piece nvf::renewWords
namespace nvf {
template <class Registers>
NVF_FN void renewWords(Registers&) {}
} // namespace nvf

//@ piece nvf::waitForLoads
// Loads are complete when they are done.
namespace nvf {
template <class Registers>
NVF_FN void waitForLoads(Registers&) {}
} // namespace nvf

//@ piece nvf::loadGlobal
namespace nvf {
template <class T, int N, nvf::CacheOp Op = nvf::CacheOp::Unspecified>
NVF_FN void loadGlobal(T* registers, const T* source, int line = __builtin_LINE()) {
  nvf::checkVector<N * sizeof(T)>(source, false, line);
  nvf::moveBytes<N * sizeof(T)>(registers, source);
}
} // namespace nvf

//@ piece nvf::loadUnaligned
namespace nvf {
template <class T, int N>
NVF_FN void loadUnaligned(T* registers, const T* tensor, int index, int extent,
                          [[maybe_unused]] bool is_inside = false,
                          [[maybe_unused]] int line = __builtin_LINE()) {
#ifdef NVF_HOST_ADVERSARIAL
  if (is_inside && (index < 0 || index + N > extent)) {
    nvf::hostServices()->fail("a vector that should lie within the tensor does not", line);
  }
#endif
  for (int i = 0; i < N; ++i) {
    const int at = index + i < 0 ? 0 : index + i < extent ? index + i : extent - 1;
    registers[i] = tensor[at];
  }
}
} // namespace nvf

//@ piece nvf::loadShifted
namespace nvf {
template <class T, int N>
NVF_FN void loadShifted(T* registers, const T* staged, int index,
                        [[maybe_unused]] int line = __builtin_LINE()) {
  const T* from = staged + N - (-index & (N - 1));
#ifdef NVF_HOST_ADVERSARIAL
  nvf::hostServices()->access(from, N * sizeof(T), false, true, line);
#endif
  __builtin_memcpy(registers, from, N * sizeof(T));
}
} // namespace nvf

//@ piece nvf::storeGlobal
namespace nvf {
template <class T, int N, nvf::CacheOp Op = nvf::CacheOp::Unspecified>
NVF_FN void storeGlobal(T* destination, const T* registers, int line = __builtin_LINE()) {
  nvf::checkVector<N * sizeof(T)>(destination, true, line);
  nvf::moveBytes<N * sizeof(T)>(destination, registers);
}
} // namespace nvf

//@ piece nvf::copyVector
namespace nvf {
template <class T, int N>
NVF_FN void copyVector(T* destination, const T* source, int line = __builtin_LINE()) {
  nvf::checkVector<N * sizeof(T)>(source, false, line);
  nvf::checkVector<N * sizeof(T)>(destination, true, line);
  nvf::moveBytes<N * sizeof(T)>(destination, source);
}
} // namespace nvf

//@ piece nvf::storeNibble
// Another thread may own the other half of the byte.
namespace nvf {
NVF_FN void storeNibble(unsigned char* byte, bool high, unsigned value) {
  const unsigned char keep = high ? 0x0f : 0xf0;
  __atomic_fetch_and(byte, keep, __ATOMIC_RELAXED);
  __atomic_fetch_or(byte, static_cast<unsigned char>(value << (high ? 4 : 0)), __ATOMIC_RELAXED);
}
} // namespace nvf

//@ piece nvf::unpackNibbles nvf::packNibbles
// Of N / 2 bytes and N values, in loops that compilers vectorize.
namespace nvf {
template <int N>
NVF_FN void unpackNibbles(__e2m1* registers, const unsigned char* packed) {
  for (int i = 0; i < N / 2; ++i) {
    registers[2 * i].bits = packed[i] & 15;
    registers[2 * i + 1].bits = packed[i] >> 4;
  }
}
template <int N>
NVF_FN void packNibbles(unsigned char* packed, const __e2m1* registers) {
  for (int i = 0; i < N / 2; ++i) {
    packed[i] = static_cast<unsigned char>(registers[2 * i].bits | registers[2 * i + 1].bits << 4);
  }
}
} // namespace nvf

//@ piece nvf::streamOut nvf::streamLine
// Elements that nothing reads soon go to memory by whole lines, past the caches. What stands beside
// whole lines is written as ever. Other threads see them after a fence (host/simt.cpp).
namespace nvf {
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define NVF_STREAMS 1
NVF_FN void streamLine(char* to, const char* from) {
#if defined(__clang__)
  typedef float Lanes __attribute__((vector_size(16)));
  for (int i = 0; i < 64; i += 16) {
    Lanes v;
    __builtin_memcpy(&v, from + i, 16);
    __builtin_nontemporal_store(v, reinterpret_cast<Lanes*>(to + i));
  }
#elif defined(__AVX512F__)
  float __attribute__((vector_size(64))) v;
  __builtin_memcpy(&v, from, 64);
  __builtin_ia32_movntps512(reinterpret_cast<float*>(to), v);
#elif defined(__AVX__)
  for (int i = 0; i < 64; i += 32) {
    float __attribute__((vector_size(32))) v;
    __builtin_memcpy(&v, from + i, 32);
    __builtin_ia32_movntps256(reinterpret_cast<float*>(to + i), v);
  }
#else
  for (int i = 0; i < 64; i += 16) {
    float __attribute__((vector_size(16))) v;
    __builtin_memcpy(&v, from + i, 16);
    __builtin_ia32_movntps(reinterpret_cast<float*>(to + i), v);
  }
#endif
}
#endif

template <class T>
NVF_FN void streamOut(T* destination, const T* source, long long count) {
  char* to = reinterpret_cast<char*>(destination);
  const char* from = reinterpret_cast<const char*>(source);
  long long left = count * static_cast<long long>(sizeof(T));
#ifdef NVF_STREAMS
  long long before = -static_cast<long long>(reinterpret_cast<unsigned long long>(to)) & 63;
  before = before < left ? before : left;
  if (before > 0) {
    __builtin_memcpy(to, from, static_cast<unsigned long>(before));
    to += before;
    from += before;
    left -= before;
  }
  for (; left >= 64; left -= 64, to += 64, from += 64) {
    nvf::streamLine(to, from);
  }
#endif
  if (left > 0) {
    __builtin_memcpy(to, from, static_cast<unsigned long>(left));
  }
}
} // namespace nvf

//@ piece nvf::fetchAhead
// Asks for the lines of so many elements, which need not exist.
namespace nvf {
template <class T>
NVF_FN void fetchAhead(const T* first, int count) {
  const char* address = reinterpret_cast<const char*>(first);
  for (int i = 0; i < count * static_cast<int>(sizeof(T)); i += 64) {
    __builtin_prefetch(address + i, 0, 3);
  }
}
} // namespace nvf
