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
    nvf::hostServices->fail("misaligned vector access", line);
  }
  nvf::hostServices->access(address, Bytes, is_write, false, line);
#endif
}
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
NVF_FN void loadUnaligned(T* registers, const T* tensor, int index, int extent) {
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
  nvf::hostServices->access(from, N * sizeof(T), false, true, line);
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
