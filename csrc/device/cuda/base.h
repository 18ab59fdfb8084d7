// SPDX-License-Identifier: BSD-3-Clause
// The ground a kernel stands on, CUDA half: function qualifiers, kernel declaration, fixed-width
// integers, block barrier, dynamic shared memory. host/base.h is the other half.
// How pieces are marked and picked: see library.h.
#pragma once

//@ piece int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;

//@ piece NVF_FN
#define NVF_FN __device__ __forceinline__

//@ piece NVF_ELEMENT
// What designates an element of memory or of registers.
#define NVF_ELEMENT(T) T&

//@ piece NVF_KERNEL
// setmaxnreg works only where the number of registers at entry is known, as it is from the least
// number of blocks.
#ifdef NVF_COMPUTING_THREADS
#define NVF_KERNEL(name, max_threads, params) \
  extern "C" __global__ void __launch_bounds__(max_threads, 1) name params
#elif defined(NVF_MOST_REGISTERS) && \
    (__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 4))
// Launch bounds would take precedence over a limit. 64 K registers are there for a block.
#define NVF_KERNEL(name, max_threads, params)                                      \
  extern "C" __global__ void __maxnreg__(NVF_MOST_REGISTERS*(max_threads) <= 65536 \
                                             ? NVF_MOST_REGISTERS                  \
                                             : 65536 / (max_threads) / 8 * 8) name params
#else
#define NVF_KERNEL(name, max_threads, params) \
  extern "C" __global__ void __launch_bounds__(max_threads) name params
#endif

//@ piece NVF_DYNAMIC_SHARED
// 1024 bytes: what tiles that are swizzled by 128 bytes ask for.
#define NVF_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) char name[]

//@ piece nvf::syncAllThreads
// Of the block, those that only load included.
namespace nvf {
NVF_FN void syncAllThreads() {
  __syncthreads();
}
} // namespace nvf

//@ piece nvf::syncBlock
// Where some threads only load (NVF_COMPUTING_THREADS is the number of the others), those that
// compute.
namespace nvf {
NVF_FN void syncBlock() {
#ifdef NVF_COMPUTING_THREADS
  asm volatile("bar.sync 1, %0;" ::"n"(NVF_COMPUTING_THREADS) : "memory");
#else
  __syncthreads();
#endif
}
} // namespace nvf

//@ piece nvf::sharedRead
// Hook of the host target's race check; here it is the access itself.
namespace nvf {
template <class T>
NVF_FN const T& sharedRead(const T& element) {
  return element;
}
} // namespace nvf

//@ piece nvf::sharedWrite
namespace nvf {
template <class T>
NVF_FN T& sharedWrite(T& element) {
  return element;
}
} // namespace nvf

//@ piece nvf::byteOf
// A bool in the form in which a condition is best read from memory.
namespace nvf {
NVF_FN bool byteOf(bool x) {
  return x;
}
} // namespace nvf

//@ piece nvf::conditionFor
namespace nvf {
template <class T>
NVF_FN bool conditionFor(bool x) {
  return x;
}
} // namespace nvf

//@ piece nvf::bitsOf
// Reinterprets a value as another type of the same size.
namespace nvf {
template <class To, class From>
NVF_FN To bitsOf(From value) {
  static_assert(sizeof(To) == sizeof(From), "bitsOf keeps the size");
  return reinterpret_cast<const To&>(value);
}
} // namespace nvf
