// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous copies, mbarriers and warp specialization on the host: they do what the GPU does, in
// the adversarial mode as late as they can, and a wait, an arrival or a fence that is missing is
// found.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <regex>
#include <vector>

#include <base/error.h>
#include <cuda/nvrtc.h>
#include <host/tensor_map.h>

#include "host_kernel_for_test.h"

namespace nvfuser {
namespace {

using nvfuser::testing::compileForHost;

// The text with the line that has `part` removed.
std::string without(std::string text, const std::string& part) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  const size_t begin = text.rfind('\n', at), end = text.find('\n', at);
  return text.erase(begin, end - begin);
}

// Runs a kernel of two floats pointers and a count on 64 threads: out must become 2 * in.
std::string runDoubling(const std::string& text, uint64_t seed, unsigned cluster = 1,
                        size_t size = 4096) {
  const NvfHostKernel* kernel =
      compileForHost(text, "doubling", {KernelTarget::Host, false, seed != 0});
  std::vector<float> in(size), out(size, -1.0f);
  std::iota(in.begin(), in.end(), 0.0f);
  const float* in_pointer = in.data();
  float* out_pointer = out.data();
  int count = static_cast<int>(size);
  void* args[] = {&in_pointer, &out_pointer, &count};
  const HostLaunch launch = {{2 * cluster, 1, 1}, {64, 1, 1}, 8192, seed, {cluster, 1, 1}};
  std::string error = runHostKernel(*kernel, launch, args);
  for (size_t i = 0; i < size && error.empty(); ++i) {
    if (out[i] != 2 * in[i]) {
      error = "wrong result at " + std::to_string(i);
    }
  }
  return error;
}

void expectFound(const std::string& text, const std::string& removed, const std::string& message,
                 unsigned cluster = 1) {
  const std::string error = runDoubling(without(text, removed), 3, cluster);
  EXPECT_TRUE(std::regex_search(error, std::regex(message))) << removed << ": " << error;
}

void expectCompilesForTheGpu(const std::string& text, const std::vector<int>& archs) {
  for (int arch : archs) {
    if (nvrtcAvailable()) {
      const std::string full = assembleKernel(text, KernelTarget::Cuda, false);
      EXPECT_NO_THROW(compileToCubin(full, "doubling", arch)) << arch;
    }
  }
}

// cp.async in a pipeline of two stages; each thread reads what its neighbour copied.
const char* kSmallCopies = R"(
NVF_KERNEL(doubling, 64, (const float* in, float* out, int count)) {
  NVF_DYNAMIC_SHARED(smem);
  float* stage = reinterpret_cast<float*>(smem);
  const int tiles = count / 512;
  const int first = blockIdx.x * tiles * 256;
  nvf::copyAsync<16>(stage + threadIdx.x * 4, in + first + threadIdx.x * 4);
  nvf::commitCopies();
  for (int tile = 0; tile < tiles; ++tile) {
    float* now = stage + tile % 2 * 256;
    if (tile + 1 < tiles) {
      nvf::copyAsync<16>(stage + (tile + 1) % 2 * 256 + threadIdx.x * 4,
                         in + first + (tile + 1) * 256 + threadIdx.x * 4);
    }
    nvf::commitCopies();
    nvf::waitForCopies<1>();
    nvf::syncBlock(); // filled
    for (int i = 0; i < 4; ++i) {
      const int at = (threadIdx.x ^ 1) * 4 + i;
      out[first + tile * 256 + at] = 2.0f * nvf::sharedRead(now[at]);
    }
    nvf::syncBlock(); // read
  }
}
)";

TEST(HostAsync, SmallCopies) {
  EXPECT_EQ(runDoubling(kSmallCopies, 0), "");
  EXPECT_EQ(runDoubling(kSmallCopies, 5), "");
  expectFound(kSmallCopies, "waitForCopies", "race on byte");
  expectFound(kSmallCopies, "// filled", "race on byte");
  expectFound(kSmallCopies, "// read", "race on byte");
  expectCompilesForTheGpu(kSmallCopies, {80, 90, 100});
}

// A producer thread, bulk copies into a circular buffer of two stages, consumers that arrive when
// they have read.
const char* kCircularBuffer = R"(
NVF_KERNEL(doubling, 64, (const float* in, float* out, int count)) {
  NVF_DYNAMIC_SHARED(smem);
  auto* full = reinterpret_cast<nvf::MBarrier*>(smem);
  nvf::MBarrier* empty = full + 2;
  float* buffer = reinterpret_cast<float*>(smem + 128);
  const int tiles = count / 256;
  const int first = blockIdx.x * tiles * 128;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      nvf::initMBarrier(full + i, 1);
      nvf::initMBarrier(empty + i, 32);
    }
    nvf::fenceMBarrierInit();
  }
  nvf::syncBlock(); // initialized
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % 2;
        nvf::waitForPhase(empty + stage, (tile / 2 % 2) ^ 1);
        nvf::arriveExpecting(full + stage, 512);
        nvf::copyBulkToShared(buffer + stage * 128, in + first + tile * 128, 512, full + stage);
      }
    }
  } else {
    for (int tile = 0; tile < tiles; ++tile) {
      const int stage = tile % 2;
      nvf::waitForPhase(full + stage, tile / 2 % 2);
      for (int i = threadIdx.x - 32; i < 128; i += 32) {
        out[first + tile * 128 + i] = 2.0f * nvf::sharedRead(buffer[stage * 128 + i]);
      }
      nvf::arrive(empty + stage);
    }
  }
}
)";

TEST(HostAsync, ProducerAndConsumers) {
  EXPECT_EQ(runDoubling(kCircularBuffer, 0), "");
  for (uint64_t seed : {1, 2, 3}) {
    EXPECT_EQ(runDoubling(kCircularBuffer, seed), "");
  }
  expectFound(kCircularBuffer, "waitForPhase(full", "race on byte");
  expectFound(kCircularBuffer, "waitForPhase(empty", "race on byte|more arrivals");
  expectFound(kCircularBuffer, "// initialized", "mbarrier");
  expectFound(kCircularBuffer, "arrive(empty", "deadlock");
  expectFound(kCircularBuffer, "arriveExpecting", "deadlock");
  expectFound(kCircularBuffer, "copyBulkToShared", "deadlock");
  expectCompilesForTheGpu(kCircularBuffer, {90, 100});
}

// The same wait as a loop of questions, and an arrival that follows small copies.
const char* kPolling = R"(
NVF_KERNEL(doubling, 64, (const float* in, float* out, int count)) {
  NVF_DYNAMIC_SHARED(smem);
  auto* full = reinterpret_cast<nvf::MBarrier*>(smem);
  float* stage = reinterpret_cast<float*>(smem + 128);
  if (threadIdx.x == 0) {
    nvf::initMBarrier(full, 64);
  }
  nvf::syncBlock();
  const int half = count / 2;
  for (int tile = 0; tile < half / 128; ++tile) {
    const int first = blockIdx.x * half + tile * 128;
    nvf::copyAsync<8>(stage + threadIdx.x * 2, in + first + threadIdx.x * 2);
    nvf::arriveAfterCopies(full);
    while (!nvf::isPhaseComplete(full, tile % 2)) {
    }
    out[first + threadIdx.x] = 2.0f * nvf::sharedRead(stage[threadIdx.x]);
    out[first + 64 + threadIdx.x] = 2.0f * nvf::sharedRead(stage[64 + threadIdx.x]);
    nvf::syncBlock(); // read
  }
}
)";

TEST(HostAsync, ArrivalAfterCopies) {
  EXPECT_EQ(runDoubling(kPolling, 0), "");
  EXPECT_EQ(runDoubling(kPolling, 4), "");
  expectFound(kPolling, "// read", "race on byte");
  const std::string unready = "while (true) { if (nvf::isPhaseComplete(full, tile % 2 ^ 1)) break;";
  std::string early = kPolling;
  const std::string loop = "while (!nvf::isPhaseComplete(full, tile % 2)) {";
  early.replace(early.find(loop), loop.size(), unready);
  EXPECT_NE(runDoubling(early, 4).find("race on byte"), std::string::npos);
  expectCompilesForTheGpu(kPolling, {80, 90, 100});
}

// Results leave through shared memory.
const char* kBulkStore = R"(
NVF_KERNEL(doubling, 64, (const float* in, float* out, int count)) {
  NVF_DYNAMIC_SHARED(smem);
  float* tile = reinterpret_cast<float*>(smem);
  const int half = count / 2;
  for (int i = 0; i < half; i += 64) {
    const int first = blockIdx.x * half + i;
    if (threadIdx.x == 0) {
      nvf::waitForBulkReads<0>();
    }
    nvf::syncBlock(); // free
    nvf::sharedWrite(tile[threadIdx.x]) = 2.0f * in[first + threadIdx.x];
    nvf::fenceAsyncProxy();
    nvf::syncBlock(); // written
    if (threadIdx.x == 0) {
      nvf::copyBulkToGlobal(out + first, tile, 256);
      nvf::commitBulkCopies();
    }
  }
  nvf::waitForBulkCopies<0>();
}
)";

TEST(HostAsync, BulkStores) {
  EXPECT_EQ(runDoubling(kBulkStore, 0), "");
  EXPECT_EQ(runDoubling(kBulkStore, 6), "");
  expectFound(kBulkStore, "waitForBulkReads", "race on byte");
  expectFound(kBulkStore, "// free", "race on byte");
  expectFound(kBulkStore, "// written", "race on byte");
  expectFound(kBulkStore, "fenceAsyncProxy", "fenceAsyncProxy");
  expectFound(kBulkStore, "waitForBulkCopies", "still under way");
  expectCompilesForTheGpu(kBulkStore, {90, 100});
}

// Each block reads its neighbour's shared memory and tells it through an mbarrier when it has.
const char* kNeighbours = R"(
NVF_KERNEL(doubling, 64, (const float* in, float* out, int count)) {
  NVF_DYNAMIC_SHARED(smem);
  auto* released = reinterpret_cast<nvf::MBarrier*>(smem);
  float* mine = reinterpret_cast<float*>(smem + 128);
  const unsigned other = nvf::clusterRank() ^ 1;
  if (threadIdx.x == 0) {
    nvf::initMBarrier(released, 64);
    nvf::fenceMBarrierInit();
  }
  const int quarter = count / 4;
  for (int i = 0; i < quarter; i += 64) {
    nvf::sharedWrite(mine[threadIdx.x]) = 2.0f * in[blockIdx.x * quarter + i + threadIdx.x];
    nvf::syncCluster(); // written
    const float* theirs = nvf::mapShared(mine, other);
    out[(blockIdx.x ^ 1) * quarter + i + threadIdx.x] = nvf::sharedRead(theirs[threadIdx.x]);
    nvf::arriveRemotely(released, other);
    nvf::waitForPhase(released, i / 64 % 2);
  }
}
)";

TEST(HostAsync, RemoteArrivals) {
  EXPECT_EQ(runDoubling(kNeighbours, 0, 2), "");
  EXPECT_EQ(runDoubling(kNeighbours, 7, 2), "");
  expectFound(kNeighbours, "// written", "race on byte|not initialized", 2);
  expectFound(kNeighbours, "waitForPhase", "race on byte", 2);
  expectCompilesForTheGpu(kNeighbours, {90, 100});
}

// A warp's lanes hand values to each other.
const char* kWarp = R"(
NVF_KERNEL(doubling, 64, (const float* in, float* out, int count)) {
  NVF_DYNAMIC_SHARED(smem);
  float* tile = reinterpret_cast<float*>(smem);
  const int half = count / 2;
  for (int i = 0; i < half; i += 64) {
    const int first = blockIdx.x * half + i;
    nvf::sharedWrite(tile[threadIdx.x]) = 2.0f * in[first + threadIdx.x];
    nvf::syncWarp(); // written
    out[first + (threadIdx.x ^ 5)] = nvf::sharedRead(tile[threadIdx.x ^ 5]);
    nvf::syncWarp(); // read
  }
}
)";

TEST(HostAsync, WarpBarrier) {
  EXPECT_EQ(runDoubling(kWarp, 0), "");
  EXPECT_EQ(runDoubling(kWarp, 8), "");
  expectFound(kWarp, "// written", "race on byte");
  expectFound(kWarp, "// read", "race on byte");
  std::string across = kWarp;
  across.replace(across.find("tile[threadIdx.x ^ 5]"), 21, "tile[threadIdx.x ^ 32]");
  EXPECT_NE(runDoubling(across, 8).find("race on byte"), std::string::npos);
  expectCompilesForTheGpu(kWarp, {80, 90, 100});
}

// ---- Tiles ----

// A 2-D tile of bf16 bits, 64 columns wide, through swizzled shared memory; the first tile hangs
// over the tensor's edges.
const char* kTiles = R"(
NVF_KERNEL(doubling, 64, (NVF_TENSOR_MAP(T0), NVF_TENSOR_MAP(T1), int column, int row, unsigned short* raw)) {
  NVF_DYNAMIC_SHARED(smem);
  auto* full = reinterpret_cast<nvf::MBarrier*>(smem + 4096);
  if (threadIdx.x == 0) {
    nvf::initMBarrier(full, 1);
    nvf::fenceMBarrierInit();
    nvf::prefetchTensorMap(&T0);
  }
  nvf::syncBlock();
  const int at[2] = {column, row};
  if (threadIdx.x == 0) {
    nvf::arriveExpecting(full, 64 * 8 * 2);
    nvf::copyTileToShared(smem, &T0, at, full);
  }
  nvf::waitForPhase(full, 0);
  for (int i = threadIdx.x; i < 64 * 8; i += 64) {
    auto& element = reinterpret_cast<unsigned short&>(smem[nvf::swizzle128(i * 2)]);
    raw[i] = nvf::sharedRead(element);
    nvf::sharedWrite(element) = static_cast<unsigned short>(raw[i] + 1);
  }
  nvf::fenceAsyncProxy();
  nvf::syncBlock();
  if (threadIdx.x == 0) {
    nvf::copyTileToGlobal(&T1, at, smem);
    nvf::commitBulkCopies();
  }
  nvf::waitForBulkCopies<0>();
}
)";

TEST(HostAsync, SwizzledTiles) {
  const int64_t rows = 20, columns = 100, pitch = 104;
  for (uint64_t seed : {0, 9}) {
    const NvfHostKernel* kernel =
        compileForHost(kTiles, "doubling", {KernelTarget::Host, false, seed != 0});
    for (auto [column, row] : {std::pair{-3, -2}, {16, 4}, {64, 16}}) {
      std::vector<unsigned short> in(rows * pitch), out(in.size(), 0), raw(64 * 8);
      std::iota(in.begin(), in.end(), 1);
      TensorMapRequest request;
      request.element_bytes = 2;
      request.sizes = {columns, rows};
      request.stride_bytes = {pitch * 2};
      request.box = {64, 8};
      request.swizzle = TensorMapSwizzle::Bytes128;
      request.data = in.data();
      TensorMapBytes from = encodeHostTensorMap(request);
      request.data = out.data();
      TensorMapBytes to = encodeHostTensorMap(request);
      unsigned short* raw_pointer = raw.data();
      void* args[] = {&from, &to, &column, &row, &raw_pointer};
      const HostLaunch launch = {{1, 1, 1}, {64, 1, 1}, 4096 + 8, seed};
      ASSERT_EQ(runHostKernel(*kernel, launch, args), "");
      for (int r = 0; r < 8; ++r) {
        for (int c = 0; c < 64; ++c) {
          const int64_t y = row + r, x = column + c;
          const bool inside = y >= 0 && y < rows && x >= 0 && x < columns;
          ASSERT_EQ(raw[r * 64 + c], inside ? in[y * pitch + x] : 0) << r << ", " << c;
          if (inside) {
            ASSERT_EQ(out[y * pitch + x], in[y * pitch + x] + 1);
          }
        }
      }
      EXPECT_EQ(std::count(out.begin() + columns, out.begin() + pitch, 0), pitch - columns);
    }
  }
  expectCompilesForTheGpu(kTiles, {90, 100});
}

// Copies whose argument is aligned as a tensor map is; they say where it was kept.
const char* kAlignedArguments = R"(
struct alignas(64) Argument {
  unsigned long* out;
  static void run(const void* argument) {
    **static_cast<unsigned long* const*>(argument) = reinterpret_cast<unsigned long>(argument);
  }
};
NVF_KERNEL(where, 1, (unsigned long* out, int count)) {
  for (int i = 0; i < count; ++i) {
    const Argument argument = {out + i};
    const NvfHostCopy copy = {&Argument::run, &argument, sizeof(argument), kNvfHostSmallCopies};
    nvf::hostServices()->copy(&copy, __LINE__);
  }
  nvf::commitCopies();
  nvf::waitForCopies<0>();
}
)";

TEST(HostAsync, ArgumentsAreAligned) {
  const NvfHostKernel* kernel =
      compileForHost(kAlignedArguments, "where", {KernelTarget::Host, false, true});
  int count = 16;
  std::vector<unsigned long> places(count);
  unsigned long* out = places.data();
  void* args[] = {&out, &count};
  ASSERT_EQ(runHostKernel(*kernel, {{1, 1, 1}, {1, 1, 1}, 0, 5}, args), "");
  for (unsigned long place : places) {
    EXPECT_NE(place, 0);
    EXPECT_EQ(place % 64, 0);
  }
}

TEST(HostAsync, TensorMapsAreChecked) {
  const auto message = [](auto&& change) -> std::string {
    alignas(16) static char data[1 << 12];
    TensorMapRequest request;
    request.data = data;
    request.element_bytes = 2;
    request.sizes = {64, 8};
    request.stride_bytes = {128};
    request.box = {64, 8};
    request.swizzle = TensorMapSwizzle::Bytes128;
    change(request);
    try {
      encodeHostTensorMap(request);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  using Request = TensorMapRequest;
  EXPECT_EQ(message([](Request&) {}), "");
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(message([](Request& r) { r.data = nullptr; }), "null"));
  EXPECT_TRUE(has(message([](Request& r) { r.data = static_cast<char*>(r.data) + 8; }), "aligned"));
  EXPECT_TRUE(has(message([](Request& r) { r.stride_bytes = {136}; }), "stride"));
  EXPECT_TRUE(has(message([](Request& r) { r.box = {64, 300}; }), "box"));
  EXPECT_TRUE(has(message([](Request& r) { r.box = {128, 8}; }), "swizzle"));
}

} // namespace
} // namespace nvfuser
