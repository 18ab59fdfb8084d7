// SPDX-License-Identifier: BSD-3-Clause
// The ground a kernel stands on, host half: the same names as cuda/base.h. A kernel becomes a
// member function of a struct that holds threadIdx and friends, so that its text reads as on CUDA
// and the thread loop around it can be optimized by the C++ compiler. abi.h has the other side.
#pragma once
#include "abi.h"

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
#define NVF_FN inline __attribute__((always_inline))

//@ piece nvf::hostServices nvf::services_of_the_process nvf::setHostServices
namespace nvf {
// The same pointer at every launch, which other threads may be at, too.
static const NvfHostServices* services_of_the_process;

NVF_FN const NvfHostServices* hostServices() {
  return __atomic_load_n(&services_of_the_process, __ATOMIC_RELAXED);
}
NVF_FN void setHostServices(const NvfHostServices* services) {
  __atomic_store_n(&services_of_the_process, services, __ATOMIC_RELAXED);
}
} // namespace nvf

//@ piece nvf::HostThread nvf::HostDim
namespace nvf {
// Signed index type: unlike CUDA's unsigned it lets the compiler assume that indices do not wrap.
struct HostDim {
  nvfuser_index_t x, y, z;
};

struct HostThread {
  HostDim threadIdx, blockIdx, blockDim, gridDim;
  char* shared_;
};
} // namespace nvf

//@ piece nvf::Indices nvf::MakeIndices
// 0, 1, ... N - 1 as arguments of a template.
namespace nvf {
template <int... I>
struct Indices {};
template <int N, int... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I>
struct MakeIndices<0, I...> {
  using type = Indices<I...>;
};
} // namespace nvf

//@ piece nvf::HostEntry
namespace nvf {
constexpr unsigned kHostFlags = 0
#ifdef NVF_USES_BARRIERS
                                | kNvfHostUsesBarriers
#endif
#ifdef NVF_HOST_ADVERSARIAL
                                | kNvfHostAdversarial
#endif
#ifdef NVF_USES_PHASES
                                | kNvfHostUsesPhases
#endif
#ifdef NVF_THREADS_IN_LOOPS
                                | kNvfHostThreadsInLoops
#endif
    ;

template <class Body, class Signature, Signature Run>
struct HostEntry;

template <class Body, class... Args, void (Body::*Run)(Args...)>
struct HostEntry<Body, void (Body::*)(Args...), Run> {
  using Dim = nvf::HostDim;
  static NVF_FN Dim dim(NvfHostDim d) {
    return {static_cast<nvfuser_index_t>(d.x), static_cast<nvfuser_index_t>(d.y),
            static_cast<nvfuser_index_t>(d.z)};
  }

  static NVF_FN void nextBlock(Dim& index, Dim grid) {
    if (++index.x == grid.x) {
      index.x = 0;
      if (++index.y == grid.y) {
        index.y = 0;
        ++index.z;
      }
    }
  }

  static NVF_FN void blocks(const NvfHostLaunch* launch, unsigned long long first,
                            unsigned long long end, char* shared, Args... args) {
    const Dim grid = dim(launch->grid), block = dim(launch->block);
    const unsigned long long row = first / launch->grid.x;
    Dim index = {static_cast<nvfuser_index_t>(first % launch->grid.x),
                 static_cast<nvfuser_index_t>(row % launch->grid.y),
                 static_cast<nvfuser_index_t>(row / launch->grid.y)};
    for (unsigned long long b = first; b < end; ++b, nextBlock(index, grid)) {
#ifdef NVF_THREADS_IN_LOOPS
      Body body;
      body.blockIdx = index;
      body.blockDim = block;
      body.gridDim = grid;
      body.shared_ = shared;
      (body.*Run)(args...);
#else
      for (nvfuser_index_t z = 0; z < block.z; ++z) {
        for (nvfuser_index_t y = 0; y < block.y; ++y) {
          // Threads that never synchronize must not depend on each other's writes.
#pragma GCC ivdep
          for (nvfuser_index_t x = 0; x < block.x; ++x) {
            Body body;
            body.threadIdx = {x, y, z};
            body.blockIdx = index;
            body.blockDim = block;
            body.gridDim = grid;
            body.shared_ = shared;
            (body.*Run)(args...);
          }
        }
      }
#endif
    }
  }

  template <int... I>
  static NVF_FN void unpackBlocks(const NvfHostLaunch* launch, void** args,
                                  unsigned long long first, unsigned long long end, char* shared,
                                  nvf::Indices<I...>) {
    blocks(launch, first, end, shared, *static_cast<Args*>(args[I])...);
  }

  template <int... I>
  static NVF_FN void unpackThread(Body& body, void** args, nvf::Indices<I...>) {
    (body.*Run)(*static_cast<Args*>(args[I])...);
  }

  static void runBlocks(const NvfHostLaunch* launch, void** args, unsigned long long first,
                        unsigned long long end, char* shared) {
    nvf::setHostServices(launch->services);
    unpackBlocks(launch, args, first, end, shared,
                 typename nvf::MakeIndices<sizeof...(Args)>::type());
  }

  static void runThread(const NvfHostLaunch* launch, void** args, NvfHostDim block,
                        NvfHostDim thread, char* shared) {
    nvf::setHostServices(launch->services);
    Body body;
    body.threadIdx = dim(thread);
    body.blockIdx = dim(block);
    body.blockDim = dim(launch->block);
    body.gridDim = dim(launch->grid);
    body.shared_ = shared;
    unpackThread(body, args, typename nvf::MakeIndices<sizeof...(Args)>::type());
  }

  static constexpr NvfHostKernel kernel(unsigned max_threads) {
    // Compiling the body twice would cost time for nothing: fibers never use the plain loop.
#ifdef NVF_THREADS_IN_LOOPS
    return {kNvfHostAbi, kHostFlags, max_threads, sizeof...(Args), &runBlocks, nullptr};
#else
    if constexpr (kHostFlags == 0) {
      return {kNvfHostAbi, kHostFlags, max_threads, sizeof...(Args), &runBlocks, &runThread};
    } else {
      return {kNvfHostAbi, kHostFlags, max_threads, sizeof...(Args), nullptr, &runThread};
    }
#endif
  }
};
} // namespace nvf

//@ piece NVF_KERNEL
#define NVF_KERNEL(name, max_threads, params)                                              \
  namespace {                                                                              \
  struct name##_body : nvf::HostThread {                                                   \
    NVF_FN void run params;                                                                \
  };                                                                                       \
  }                                                                                        \
  extern "C" {                                                                             \
  extern const NvfHostKernel name __attribute__((visibility("default")));                  \
  const NvfHostKernel name =                                                               \
      nvf::HostEntry<name##_body, decltype(&name##_body::run), &name##_body::run>::kernel( \
          max_threads);                                                                    \
  }                                                                                        \
  void name##_body::run params

//@ piece NVF_DYNAMIC_SHARED
#define NVF_DYNAMIC_SHARED(name) char* const name = shared_

//@ piece nvf::syncBlock
namespace nvf {
NVF_FN void syncBlock(int line = __builtin_LINE()) {
#ifdef NVF_COMPUTING_THREADS
  nvf::hostServices()->sync_threads(NVF_COMPUTING_THREADS, line);
#else
  nvf::hostServices()->sync_block(line);
#endif
}
} // namespace nvf

//@ piece nvf::syncAllThreads also nvf::syncBlock
namespace nvf {
NVF_FN void syncAllThreads(int line = __builtin_LINE()) {
  nvf::hostServices()->sync_block(line);
}
} // namespace nvf

//@ piece nvf::meetBlock
// The same threads synchronize, but it is no barrier to the race check.
namespace nvf {
NVF_FN void meetBlock(int line) {
#ifdef NVF_COMPUTING_THREADS
  nvf::hostServices()->meet_threads(NVF_COMPUTING_THREADS, line);
#else
  nvf::hostServices()->meet_block(line);
#endif
}
} // namespace nvf

//@ piece nvf::sharedRead
// The race check of the adversarial mode sees accesses to shared memory that are printed as
// nvf::sharedRead(T3[i]) and nvf::sharedWrite(T3[i]) = value. Elsewhere both are the access itself.
namespace nvf {
template <class T>
NVF_FN const T& sharedRead(const T& element, [[maybe_unused]] int line = __builtin_LINE()) {
#ifdef NVF_HOST_ADVERSARIAL
  nvf::hostServices()->access(&element, sizeof(T), false, true, line);
#endif
  return element;
}
} // namespace nvf

//@ piece nvf::sharedWrite
namespace nvf {
template <class T>
NVF_FN T& sharedWrite(T& element, [[maybe_unused]] int line = __builtin_LINE()) {
#ifdef NVF_HOST_ADVERSARIAL
  nvf::hostServices()->access(&element, sizeof(T), true, true, line);
#endif
  return element;
}
} // namespace nvf

//@ piece NVF_ELEMENT nvf::ElementOf nvf::BoolElement
// What designates an element of memory or of an array. Where a thread's loops are to become
// vectors, a bool is read and written as a byte: g++ makes none of a load whose result has one bit.
#ifdef NVF_THREADS_IN_LOOPS
namespace nvf {
class BoolElement {
 public:
  explicit NVF_FN BoolElement(bool& element) : at_(&element) {}

  NVF_FN operator bool() const {
    return *reinterpret_cast<const unsigned char*>(at_) != 0;
  }
  NVF_FN BoolElement& operator=(bool value) {
    *reinterpret_cast<unsigned char*>(at_) = value ? 1 : 0;
    return *this;
  }
  NVF_FN BoolElement& operator=(const BoolElement& other) {
    return *this = static_cast<bool>(other);
  }
  NVF_FN bool* operator&() const {
    return at_;
  }

 private:
  bool* at_;
};

template <class T>
struct ElementOf {
  using type = T&;
};
template <>
struct ElementOf<bool> {
  using type = BoolElement;
};
} // namespace nvf
#define NVF_ELEMENT(T) typename nvf::ElementOf<T>::type
#else
#define NVF_ELEMENT(T) T&
#endif

//@ piece nvf::byteOf
// Compilers do not vectorize what is done with a bool that is read from memory, but with a byte.
namespace nvf {
NVF_FN unsigned char byteOf(bool x) {
  unsigned char result;
  __builtin_memcpy(&result, &x, 1);
  return result;
}
} // namespace nvf

//@ piece nvf::conditionFor
// A condition of a selection between values of type T: in 64 bits it takes a sign.
namespace nvf {
template <class T>
NVF_FN bool conditionFor(bool x) {
  if constexpr (sizeof(T) == 8) {
    return -static_cast<long long>(nvf::byteOf(x)) < 0;
  } else {
    return nvf::byteOf(x) != 0;
  }
}
} // namespace nvf

//@ piece nvf::bitsOf
// Reinterprets a value as another type of the same size.
namespace nvf {
template <class To, class From>
NVF_FN To bitsOf(From value) {
  static_assert(sizeof(To) == sizeof(From), "bitsOf keeps the size");
  To result;
  __builtin_memcpy(&result, &value, sizeof(To));
  return result;
}
} // namespace nvf
