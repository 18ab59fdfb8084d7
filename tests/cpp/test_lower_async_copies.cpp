// SPDX-License-Identifier: BSD-3-Clause
// What lowering makes of asynchronous copies: kernel texts of loads and stores by boxes, of copies
// by threads, of circular buffers and of warps that load; and that the adversarial host run finds a
// wait that is missing.
#include "lowering_for_test.h"

#include <base/error.h>
#include <cuda/nvrtc.h>
#include <device/library.h>
#include <transform/inlining.h>
#include <transform/propagate.h>

#include <regex>

namespace nvfuser::test {
namespace {

constexpr LoadStoreOpType kTma = LoadStoreOpType::CpAsyncBulkTensorTile;
constexpr LoadStoreOpType kLinear = LoadStoreOpType::CpAsyncBulk;

// Fusions of one input x of rank 2; the output is 2 * x.
class AsyncCopiesTest : public LoweringTest {
 protected:
  AsyncCopiesTest() : LoweringTest(DataType::Int32) {}

  void define(TensorView* x) {
    x_ = x;
    fusion_.addInput(x_);
    out_ = mul(x_, IrBuilder::create<Val>(2.0, DataType::Double));
    fusion_.addOutput(out_);
  }

  static TensorView* inSharedMemory(TensorView* cache) {
    cache->setMemoryType(MemoryType::Shared);
    return cache;
  }

  // [rows: blocks, columns / box: a loop, box: threads], the copy inside of the loop.
  void boxesAlongRows(TensorView* cache, int64_t box, ParallelType copied_by) {
    out_->split(1, box);
    transformLike(out_);
    inlineAllAt(out_, 2, /*best_effort=*/true);
    for (TensorView* tv : {cache, out_}) {
      tv->axis(0)->parallelize(ParallelType::BIDx);
    }
    cache->axis(2)->parallelize(copied_by);
    out_->axis(2)->parallelize(ParallelType::TIDx);
  }

  // What the adversarial run says to the kernel when the lines that have `part` are left out of it,
  // or that its result is wrong.
  std::string errorWithout(const std::string& part, std::vector<int64_t> sizes = {5, 300}) {
    const auto module = useText(textWithout(part, Removed::Lines));
    const Tensor x = randomTensor(sizes, Device::host());
    const KernelArgs out = executor_.run({x});
    if (!module->error.empty()) {
      return module->error;
    }
    const std::vector<double> expected = mapped(x, [](double v) { return 2 * v; });
    return out.tensor(0).toDoubles() == expected ? "" : "wrong result";
  }

  void expectFound(const std::string& removed, const std::string& message) {
    const std::string error = errorWithout(removed);
    EXPECT_TRUE(std::regex_search(error, std::regex(message))) << removed << ": " << error;
  }

  void expectCompilesForTheGpu(const std::vector<int>& archs) {
    if (!nvrtcAvailable()) {
      return;
    }
    for (const int arch : archs) {
      const std::string full = assembleKernel(text(), KernelTarget::Cuda, false);
      EXPECT_NO_THROW(compileToCubin(full, executor_.kernelName(), arch)) << arch << full;
    }
  }

  TensorView* x_ = nullptr;
  TensorView* out_ = nullptr;
};

class LowerAsyncCopies : public AsyncCopiesTest {
 protected:
  LowerAsyncCopies() {
    define(makeContigTensor(2));
  }
};

// One thread issues, all wait; the parity says which iteration.
TEST_F(LowerAsyncCopies, BoxesInALoop) {
  TensorView* cache = inSharedMemory(x_->cacheAfter(kTma));
  boxesAlongRows(cache, 64, ParallelType::Bulk);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  nvf::MBarrier* const ring0 = reinterpret_cast<nvf::MBarrier*>(smem + 0);
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    nvf::initMBarrier(ring0, 1);
    nvf::fenceMBarrierInit();
  }
  nvf::syncBlock();
  float* const T2 = reinterpret_cast<float*>(smem + 128);
  const nvfuser_index_t idx0 = bx * T0.logical_size[1];
  for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
    if (tx == 0) {
      nvf::arriveExpecting(ring0, 256);
      nvf::copyTileToShared(&T2[0], &map0, {static_cast<int>(j1 * 64), static_cast<int>(bx)}, ring0);
    }
    nvf::waitForPhase(ring0, j1 % 2);
    const nvfuser_index_t idx1 = idx0 + (j1 * 64) + tx;
    if (((j1 * 64) + tx) < T0.logical_size[1]) {
      T1[idx1] = nvf::sharedRead(T2[tx]) * 2.0f;
    }
    nvf::fenceAsyncProxy();
    nvf::syncBlock();
  }
)");
  EXPECT_EQ(errorWithout(""), "");
  expectFound("waitForPhase(ring0", "race on byte");
  expectFound("arriveExpecting", "deadlock");
  expectFound("copyTileToShared", "deadlock");
  // The barrier after the initialization and that after reading.
  expectFound("syncBlock", "race on byte|not initialized");
  expectCompilesForTheGpu({90, 100});
}

// The whole tile leaves at once, after a fence and a barrier.
TEST_F(LowerAsyncCopies, Store) {
  TensorView* cache = inSharedMemory(out_->cacheBefore(kTma));
  out_->split(1, 64);
  transformLike(out_);
  inlineAllAt(out_, 2, /*best_effort=*/true);
  for (TensorView* tv : {cache, out_}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
  }
  cache->axis(2)->parallelize(ParallelType::TIDx);
  out_->axis(2)->parallelize(ParallelType::Bulk);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  const nvfuser_index_t idx0 = bx * T0.logical_size[1];
  for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
    float* const T2 = reinterpret_cast<float*>(smem);
    const nvfuser_index_t idx1 = idx0 + (j1 * 64) + tx;
    if (((j1 * 64) + tx) < T0.logical_size[1]) {
      nvf::sharedWrite(T2[tx]) = T0[idx1] * 2.0f;
    }
    nvf::fenceAsyncProxy();
    nvf::syncBlock();
    if (tx == 0) {
      nvf::copyTileToGlobal(&map0, {static_cast<int>(j1 * 64), static_cast<int>(bx)}, &T2[0]);
      nvf::commitBulkCopies();
      nvf::waitForBulkReads<0>();
    }
    nvf::syncBlock();
  }
  nvf::waitForBulkCopies<0>();
)");
  EXPECT_EQ(errorWithout(""), "");
  expectFound("fenceAsyncProxy", "fenceAsyncProxy");
  expectFound("waitForBulkReads", "race on byte");
  expectFound("syncBlock", "race on byte");
  expectFound("commitBulkCopies", "still under way|race on byte");
  expectCompilesForTheGpu({90, 100});
}

// Each thread waits for its own copies, then the barrier tells the others.
TEST_F(LowerAsyncCopies, SmallCopies) {
  TensorView* cache = inSharedMemory(x_->cacheAfter(LoadStoreOpType::CpAsync));
  boxesAlongRows(cache, 64, ParallelType::Serial);
  cache->split(2, 4);
  cache->axis(2)->parallelize(ParallelType::TIDx);
  cache->axis(3)->parallelize(ParallelType::Vectorize);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  const nvfuser_index_t idx0 = tx * 4;
  const nvfuser_index_t idx1 = bx * T0.logical_size[1];
  for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
    float* const T2 = reinterpret_cast<float*>(smem);
    const nvfuser_index_t idx2 = idx1 + (j1 * 64) + idx0;
    if ((((j1 * 64) + idx0) < T0.logical_size[1]) && (tx < 16)) {
      nvf::copyAsync<16>(&T2[idx0], &T0[idx2]);
    }
    nvf::commitCopies();
    nvf::waitForCopies<0>();
    nvf::syncBlock();
    const nvfuser_index_t idx3 = idx1 + (j1 * 64) + tx;
    if (((j1 * 64) + tx) < T0.logical_size[1]) {
      T1[idx3] = nvf::sharedRead(T2[tx]) * 2.0f;
    }
    nvf::syncBlock();
  }
)");
  EXPECT_EQ(errorWithout(""), "");
  expectFound("waitForCopies", "race on byte");
  expectFound("syncBlock", "race on byte");
  expectCompilesForTheGpu({80, 90, 100});
}

// A group for each iteration, an empty one after the last; one barrier an iteration.
TEST_F(LowerAsyncCopies, CircularSmallCopies) {
  TensorView* cache = inSharedMemory(x_->cacheAfter(LoadStoreOpType::CpAsync));
  boxesAlongRows(cache, 64, ParallelType::Serial);
  cache->split(2, 4);
  cache->axis(2)->parallelize(ParallelType::TIDx);
  cache->axis(3)->parallelize(ParallelType::Vectorize);
  cache->circularBuffer(3, 2);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  float* const T2 = reinterpret_cast<float*>(smem);
  const nvfuser_index_t idx0 = tx * 4;
  const nvfuser_index_t idx2 = bx * T0.logical_size[1];
  #pragma unroll
  for (nvfuser_index_t a1 = 0; a1 < 2; ++a1) {
    const nvfuser_index_t idx1 = ((a1 % 3) * 64) + idx0;
    const nvfuser_index_t idx3 = idx2 + (a1 * 64) + idx0;
    if (a1 < nvf::ceilDiv(T0.logical_size[1], 64)) {
      if ((tx < 16) && (((a1 * 64) + idx0) < T0.logical_size[1])) {
        nvf::copyAsync<16>(&T2[idx1], &T0[idx3]);
      }
    }
    nvf::commitCopies();
  }
  for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
    nvf::waitForCopies<1>();
    nvf::syncBlock();
    const nvfuser_index_t idx4 = (((j1 + 2) % 3) * 64) + idx0;
    const nvfuser_index_t idx5 = idx2 + (j1 * 64) + idx0 + 128;
    if ((j1 + 2) < nvf::ceilDiv(T0.logical_size[1], 64)) {
      if ((tx < 16) && (((j1 * 64) + idx0 + 128) < T0.logical_size[1])) {
        nvf::copyAsync<16>(&T2[idx4], &T0[idx5]);
      }
    }
    nvf::commitCopies();
    const nvfuser_index_t idx6 = ((j1 % 3) * 64) + tx;
    const nvfuser_index_t idx7 = idx2 + (j1 * 64) + tx;
    if (((j1 * 64) + tx) < T0.logical_size[1]) {
      T1[idx7] = nvf::sharedRead(T2[idx6]) * 2.0f;
    }
  }
)");
  EXPECT_EQ(errorWithout(""), "");
  expectFound("waitForCopies", "race on byte");
  expectFound("syncBlock", "race on byte");
  expectCompilesForTheGpu({80, 90, 100});
}

// Loads wait until everybody has read the buffer; no barrier in the loop.
TEST_F(LowerAsyncCopies, CircularBoxes) {
  TensorView* cache = inSharedMemory(x_->cacheAfter(kTma));
  boxesAlongRows(cache, 64, ParallelType::Bulk);
  cache->circularBuffer(2, 1);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  nvf::MBarrier* const ring0 = reinterpret_cast<nvf::MBarrier*>(smem + 0);
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    for (int stage = 0; stage < 2; ++stage) {
      nvf::initMBarrier(ring0 + stage, 1);
      nvf::initMBarrier(ring0 + 2 + stage, 64);
    }
    nvf::fenceMBarrierInit();
  }
  nvf::syncBlock();
  float* const T2 = reinterpret_cast<float*>(smem + 128);
  if (0 < nvf::ceilDiv(T0.logical_size[1], 64)) {
    if (tx == 0) {
      nvf::waitForPhase(ring0 + 2, 1);
      nvf::arriveExpecting(ring0, 256);
      nvf::copyTileToShared(&T2[0], &map0, {0, static_cast<int>(bx)}, ring0);
    }
  }
  const nvfuser_index_t idx2 = bx * T0.logical_size[1];
  for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
    const nvfuser_index_t idx0 = ((j1 + 1) % 2) * 64;
    if ((j1 + 1) < nvf::ceilDiv(T0.logical_size[1], 64)) {
      if (tx == 0) {
        nvf::waitForPhase(ring0 + 2 + ((j1 + 1) % 2), 1 - (((j1 + 1) / 2) % 2));
        nvf::arriveExpecting(ring0 + ((j1 + 1) % 2), 256);
        nvf::copyTileToShared(&T2[idx0], &map0, {static_cast<int>((j1 * 64) + 64), static_cast<int>(bx)}, ring0 + ((j1 + 1) % 2));
      }
    }
    nvf::waitForPhase(ring0 + (j1 % 2), (j1 / 2) % 2);
    const nvfuser_index_t idx1 = ((j1 % 2) * 64) + tx;
    const nvfuser_index_t idx3 = idx2 + (j1 * 64) + tx;
    if (((j1 * 64) + tx) < T0.logical_size[1]) {
      T1[idx3] = nvf::sharedRead(T2[idx1]) * 2.0f;
    }
    nvf::fenceAsyncProxy();
    nvf::arrive(ring0 + 2 + (j1 % 2));
  }
)");
  EXPECT_EQ(errorWithout(""), "");
  expectFound("waitForPhase(ring0 + 2", "race on byte|more arrivals");
  expectFound("waitForPhase(ring0 + (j1", "race on byte");
  expectFound("arrive(ring0", "deadlock");
  expectFound("syncBlock", "not initialized|mbarrier");
  expectCompilesForTheGpu({90, 100});
}

// The threads of a second layer along y only load, those of the first only compute.
TEST_F(LowerAsyncCopies, WarpsThatLoad) {
  TensorView* cache = inSharedMemory(x_->cacheAfter(kTma));
  boxesAlongRows(cache, 64, ParallelType::Bulk);
  cache->warpSpecialize(2, 1, ParallelType::TIDy);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  nvf::MBarrier* const ring0 = reinterpret_cast<nvf::MBarrier*>(smem + 0);
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    for (int stage = 0; stage < 2; ++stage) {
      nvf::initMBarrier(ring0 + stage, 1);
      nvf::initMBarrier(ring0 + 2 + stage, 64);
    }
    nvf::fenceMBarrierInit();
  }
  nvf::syncAllThreads();
  float* const T2 = reinterpret_cast<float*>(smem + 128);
  const nvfuser_index_t idx2 = bx * T0.logical_size[1];
  if ((((nvfuser_index_t)threadIdx.y) >= 1LL)) {
    if ((tx == 0) && (threadIdx.y == 1)) {
      for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
        nvf::waitForPhase(ring0 + 2 + (j1 % 2), 1 - ((j1 / 2) % 2));
        nvf::arriveExpecting(ring0 + (j1 % 2), 256);
        const nvfuser_index_t idx0 = (j1 % 2) * 64;
        nvf::copyTileToShared(&T2[idx0], &map0, {static_cast<int>(j1 * 64), static_cast<int>(bx)}, ring0 + (j1 % 2));
      }
    }
  } else {
    for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
      nvf::waitForPhase(ring0 + (j1 % 2), (j1 / 2) % 2);
      const nvfuser_index_t idx1 = ((j1 % 2) * 64) + tx;
      const nvfuser_index_t idx3 = idx2 + (j1 * 64) + tx;
      if (((j1 * 64) + tx) < T0.logical_size[1]) {
        T1[idx3] = nvf::sharedRead(T2[idx1]) * 2.0f;
      }
      nvf::fenceAsyncProxy();
      nvf::arrive(ring0 + 2 + (j1 % 2));
    }
  }
)");
  EXPECT_EQ(errorWithout(""), "");
  expectFound("waitForPhase(ring0 + 2", "race on byte|more arrivals");
  expectFound("waitForPhase(ring0 + (j1", "race on byte");
  expectFound("arrive(ring0", "deadlock");
  expectFound("syncAllThreads", "not initialized|mbarrier");
  expectCompilesForTheGpu({90, 100});
}

// Barriers and reductions among those that compute, which get more registers.
TEST_F(LowerAsyncCopies, ReductionBesideWarpsThatLoad) {
  TensorView* total = sum(x_, std::vector<int64_t>{1});
  fusion_.addOutput(total);
  fusion_.removeOutput(out_);
  total->split(1, 128);
  TensorView* cache = inSharedMemory(x_->cacheAfter(kTma));
  transformLike(total);
  for (TensorView* tv : {cache, total}) {
    tv->split(0, 4);
    tv->axis(0)->parallelize(ParallelType::BIDx);
  }
  inlineAllAt(total, 3, /*best_effort=*/true);
  cache->axis(3)->parallelize(ParallelType::Bulk);
  total->axis(3)->parallelize(ParallelType::TIDx);
  cache->warpSpecialize(2, 1, ParallelType::TIDx, std::pair<int64_t, int64_t>(24, 240));
  EXPECT_NE(text().find("#define NVF_COMPUTING_THREADS 128\n"), std::string::npos);
  EXPECT_NE(text().find(", 256, (Tensor"), std::string::npos) << text();
  EXPECT_NE(text().find("nvf::giveRegisters<24>();"), std::string::npos);
  EXPECT_NE(text().find("nvf::takeRegisters<240>();"), std::string::npos);
  const Tensor x = randomTensor({6, 300}, Device::host());
  std::vector<double> expected(6);
  const std::vector<double> values = x.toDoubles();
  for (size_t i = 0; i < values.size(); ++i) {
    expected[i / 300] += values[i];
  }
  const auto module = useText(text());
  const KernelArgs result = executor_.run({x});
  EXPECT_EQ(module->error, "");
  expectValues(result.tensor(0), expected, 1e-3);
  expectCompilesForTheGpu({90, 100});
}

// No tensor map: what is left of the row is copied, and the mbarrier is told copy by copy.
TEST_F(LowerAsyncCopies, LinearCopiesInALoop) {
  TensorView* cache = inSharedMemory(x_->cacheAfter(kLinear));
  boxesAlongRows(cache, 64, ParallelType::Bulk);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  nvf::MBarrier* const ring0 = reinterpret_cast<nvf::MBarrier*>(smem + 0);
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    nvf::initMBarrier(ring0, 1);
    nvf::fenceMBarrierInit();
  }
  nvf::syncBlock();
  float* const T2 = reinterpret_cast<float*>(smem + 128);
  const nvfuser_index_t idx0 = bx * T0.logical_size[1];
  const nvfuser_index_t idx2 = T0.logical_size[1] * 4;
  for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
    const nvfuser_index_t idx1 = idx0 + (j1 * 64);
    if (tx == 0) {
      nvf::announceBulkToShared(&T2[0], &T0[idx1], nvf::minimum(256, idx2 - (j1 * 256)), ring0);
      nvf::arrive(ring0);
    }
    nvf::waitForPhase(ring0, j1 % 2);
    const nvfuser_index_t idx3 = idx0 + (j1 * 64) + tx;
    if (((j1 * 64) + tx) < T0.logical_size[1]) {
      T1[idx3] = nvf::sharedRead(T2[tx]) * 2.0f;
    }
    nvf::fenceAsyncProxy();
    nvf::syncBlock();
  }
)");
  EXPECT_EQ(errorWithout(""), "");
  expectFound("waitForPhase(ring0", "race on byte");
  expectFound("arrive(ring0", "deadlock");
  expectFound("syncBlock", "race on byte|not initialized");
  expectCompilesForTheGpu({90, 100});
}

// Whole 1-D copies only: the mbarrier knows what comes.
TEST_F(AsyncCopiesTest, WholeLinearCopies) {
  define(makeContigConcreteTensor({-1, 256}));
  TensorView* cache = inSharedMemory(x_->cacheAfter(kLinear));
  boxesAlongRows(cache, 64, ParallelType::Bulk);
  EXPECT_NE(text().find("nvf::arriveExpecting(ring0, 256);"), std::string::npos) << text();
  EXPECT_NE(text().find("nvf::copyBulkToShared(&T"), std::string::npos) << text();
  EXPECT_EQ(errorWithout("", {5, 256}), "");
  expectCompilesForTheGpu({90, 100});
}

// What is outside of the tensor is not written.
TEST_F(LowerAsyncCopies, StoredLinearCopies) {
  TensorView* cache = inSharedMemory(out_->cacheBefore(kLinear));
  out_->split(1, 64);
  transformLike(out_);
  inlineAllAt(out_, 2, /*best_effort=*/true);
  for (TensorView* tv : {cache, out_}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
  }
  cache->axis(2)->parallelize(ParallelType::TIDx);
  out_->axis(2)->parallelize(ParallelType::Bulk);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  const nvfuser_index_t idx0 = bx * T0.logical_size[1];
  const nvfuser_index_t idx3 = T0.logical_size[1] * 4;
  for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
    float* const T2 = reinterpret_cast<float*>(smem);
    const nvfuser_index_t idx1 = idx0 + (j1 * 64) + tx;
    if (((j1 * 64) + tx) < T0.logical_size[1]) {
      nvf::sharedWrite(T2[tx]) = T0[idx1] * 2.0f;
    }
    nvf::fenceAsyncProxy();
    nvf::syncBlock();
    const nvfuser_index_t idx2 = idx0 + (j1 * 64);
    if (tx == 0) {
      nvf::copyBulkToGlobal(&T1[idx2], &T2[0], nvf::minimum(256, idx3 - (j1 * 256)));
      nvf::commitBulkCopies();
      nvf::waitForBulkReads<0>();
    }
    nvf::syncBlock();
  }
  nvf::waitForBulkCopies<0>();
)");
  EXPECT_EQ(errorWithout(""), "");
  expectFound("fenceAsyncProxy", "fenceAsyncProxy");
  expectFound("waitForBulkReads", "race on byte");
  expectFound("syncBlock", "race on byte");
  expectFound("commitBulkCopies", "still under way|race on byte");
  expectCompilesForTheGpu({90, 100});
}

// Rows that there are not are not copied either; each thread that issues copies arrives.
TEST_F(LowerAsyncCopies, LinearCopiesByThreads) {
  TensorView* cache = inSharedMemory(x_->cacheAfter(kLinear));
  out_->split(1, 64);
  out_->split(0, 4);
  transformLike(out_);
  inlineAllAt(out_, 1, /*best_effort=*/true);
  for (TensorView* tv : {cache, out_}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
    tv->axis(1)->parallelize(ParallelType::TIDy);
  }
  cache->axis(3)->parallelize(ParallelType::Bulk);
  out_->axis(3)->parallelize(ParallelType::TIDx);
  EXPECT_NE(text().find("nvf::initMBarrier(ring0, 4);"), std::string::npos) << text();
  EXPECT_EQ(errorWithout(""), "");
  expectFound("waitForPhase(ring0", "race on byte");
  expectFound("arrive(ring0", "deadlock");
  expectCompilesForTheGpu({90, 100});
}

TEST_F(LowerAsyncCopies, CircularLinearCopies) {
  TensorView* cache = inSharedMemory(x_->cacheAfter(kLinear));
  boxesAlongRows(cache, 64, ParallelType::Bulk);
  cache->circularBuffer(2, 1);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  nvf::MBarrier* const ring0 = reinterpret_cast<nvf::MBarrier*>(smem + 0);
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    for (int stage = 0; stage < 2; ++stage) {
      nvf::initMBarrier(ring0 + stage, 1);
      nvf::initMBarrier(ring0 + 2 + stage, 64);
    }
    nvf::fenceMBarrierInit();
  }
  nvf::syncBlock();
  float* const T2 = reinterpret_cast<float*>(smem + 128);
  const nvfuser_index_t idx0 = bx * T0.logical_size[1];
  if (0 < nvf::ceilDiv(T0.logical_size[1], 64)) {
    if (tx == 0) {
      nvf::waitForPhase(ring0 + 2, 1);
      nvf::announceBulkToShared(&T2[0], &T0[idx0], nvf::minimum(256, T0.logical_size[1] * 4), ring0);
      nvf::arrive(ring0);
    }
  }
  const nvfuser_index_t idx3 = T0.logical_size[1] * 4;
  for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
    const nvfuser_index_t idx1 = idx0 + (j1 * 64) + 64;
    const nvfuser_index_t idx2 = ((j1 + 1) % 2) * 64;
    if ((j1 + 1) < nvf::ceilDiv(T0.logical_size[1], 64)) {
      if (tx == 0) {
        nvf::waitForPhase(ring0 + 2 + ((j1 + 1) % 2), 1 - (((j1 + 1) / 2) % 2));
        nvf::announceBulkToShared(&T2[idx2], &T0[idx1], nvf::minimum(256, (idx3 - (j1 * 256)) - 256), ring0 + ((j1 + 1) % 2));
        nvf::arrive(ring0 + ((j1 + 1) % 2));
      }
    }
    nvf::waitForPhase(ring0 + (j1 % 2), (j1 / 2) % 2);
    const nvfuser_index_t idx4 = ((j1 % 2) * 64) + tx;
    const nvfuser_index_t idx5 = idx0 + (j1 * 64) + tx;
    if (((j1 * 64) + tx) < T0.logical_size[1]) {
      T1[idx5] = nvf::sharedRead(T2[idx4]) * 2.0f;
    }
    nvf::fenceAsyncProxy();
    nvf::arrive(ring0 + 2 + (j1 % 2));
  }
)");
  EXPECT_EQ(errorWithout(""), "");
  expectFound("waitForPhase(ring0 + 2", "race on byte|more arrivals");
  expectFound("waitForPhase(ring0 + (j1", "race on byte");
  expectFound("arrive(ring0 + 2", "deadlock");
  expectFound("syncBlock", "not initialized|mbarrier");
  expectCompilesForTheGpu({90, 100});
}

TEST_F(LowerAsyncCopies, WarpsThatLoadLinearly) {
  TensorView* cache = inSharedMemory(x_->cacheAfter(kLinear));
  boxesAlongRows(cache, 64, ParallelType::Bulk);
  cache->warpSpecialize(2, 1, ParallelType::TIDy);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  nvf::MBarrier* const ring0 = reinterpret_cast<nvf::MBarrier*>(smem + 0);
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    for (int stage = 0; stage < 2; ++stage) {
      nvf::initMBarrier(ring0 + stage, 1);
      nvf::initMBarrier(ring0 + 2 + stage, 64);
    }
    nvf::fenceMBarrierInit();
  }
  nvf::syncAllThreads();
  float* const T2 = reinterpret_cast<float*>(smem + 128);
  const nvfuser_index_t idx0 = bx * T0.logical_size[1];
  const nvfuser_index_t idx3 = T0.logical_size[1] * 4;
  if ((((nvfuser_index_t)threadIdx.y) >= 1LL)) {
    if ((tx == 0) && (threadIdx.y == 1)) {
      for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
        nvf::waitForPhase(ring0 + 2 + (j1 % 2), 1 - ((j1 / 2) % 2));
        const nvfuser_index_t idx1 = idx0 + (j1 * 64);
        const nvfuser_index_t idx2 = (j1 % 2) * 64;
        nvf::announceBulkToShared(&T2[idx2], &T0[idx1], nvf::minimum(256, idx3 - (j1 * 256)), ring0 + (j1 % 2));
        nvf::arrive(ring0 + (j1 % 2));
      }
    }
  } else {
    for (nvfuser_index_t j1 = 0; j1 < nvf::ceilDiv(T0.logical_size[1], 64); ++j1) {
      nvf::waitForPhase(ring0 + (j1 % 2), (j1 / 2) % 2);
      const nvfuser_index_t idx4 = ((j1 % 2) * 64) + tx;
      const nvfuser_index_t idx5 = idx0 + (j1 * 64) + tx;
      if (((j1 * 64) + tx) < T0.logical_size[1]) {
        T1[idx5] = nvf::sharedRead(T2[idx4]) * 2.0f;
      }
      nvf::fenceAsyncProxy();
      nvf::arrive(ring0 + 2 + (j1 % 2));
    }
  }
)");
  EXPECT_EQ(errorWithout(""), "");
  expectFound("waitForPhase(ring0 + 2", "race on byte|more arrivals");
  expectFound("waitForPhase(ring0 + (j1", "race on byte");
  expectFound("arrive(ring0 + 2", "deadlock");
  expectFound("syncAllThreads", "not initialized|mbarrier");
  expectCompilesForTheGpu({90, 100});
}

// Several whole rows are one piece of memory.
TEST_F(AsyncCopiesTest, LinearCopiesOfRows) {
  define(makeContigConcreteTensor({-1, 12}));
  TensorView* cache = inSharedMemory(x_->cacheAfter(kLinear));
  out_->split(0, 3);
  transformLike(out_);
  inlineAllAt(out_, 1, /*best_effort=*/true);
  for (TensorView* tv : {cache, out_}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
  }
  cache->axis(1)->parallelize(ParallelType::Bulk);
  cache->axis(2)->parallelize(ParallelType::Bulk);
  out_->axis(2)->parallelize(ParallelType::TIDx);
  EXPECT_NE(text().find("nvf::announceBulkToShared(&T"), std::string::npos) << text();
  EXPECT_EQ(errorWithout("", {8, 12}), "");
  expectCompilesForTheGpu({90, 100});
}

class LinearCopyErrors : public AsyncCopiesTest {
 protected:
  // `schedule` gets the copy of the tensor and its reader.
  template <class Schedule>
  std::string errorOf(TensorView* x, const Schedule& schedule,
                      const std::vector<int64_t>& sizes = {8, 64}) {
    define(x);
    schedule(inSharedMemory(x_->cacheAfter(kLinear)), out_);
    try {
      text();
      useText(text());
      executor_.run({randomTensor(sizes, Device::host())});
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  static void expectPart(const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
};

TEST_F(LinearCopyErrors, RowsWithGaps) {
  TensorView* x = TensorViewBuilder().shape({-1, 16}).contiguity({false, true}).build();
  expectPart(errorOf(x,
                     [](TensorView* cache, TensorView* out) {
                       out->split(0, 4);
                       transformLike(out);
                       inlineAllAt(out, 1, true);
                       cache->axis(1)->parallelize(ParallelType::Bulk);
                       cache->axis(2)->parallelize(ParallelType::Bulk);
                     }),
             "a 1-D copy is one piece of memory");
}

TEST_F(LinearCopyErrors, PartsOfRows) {
  expectPart(errorOf(makeContigTensor(2),
                     [](TensorView* cache, TensorView* out) {
                       out->split(1, 16);
                       out->split(0, 4);
                       out->reorder(std::unordered_map<int64_t, int64_t>{{1, 2}});
                       transformLike(out);
                       inlineAllAt(out, 2, true);
                       cache->axis(2)->parallelize(ParallelType::Bulk);
                       cache->axis(3)->parallelize(ParallelType::Bulk);
                     }),
             "a 1-D copy is one piece of memory, but 16 of");
}

TEST_F(LinearCopyErrors, FewBytes) {
  expectPart(errorOf(makeContigTensor(2),
                     [](TensorView* cache, TensorView* out) {
                       out->split(1, 6);
                       transformLike(out);
                       inlineAllAt(out, 2, true);
                       cache->axis(2)->parallelize(ParallelType::Bulk);
                     }),
             "1-D copies begin at multiples of 16 bytes and have as many");
}

// Every other copy would begin within a chunk.
TEST_F(LinearCopyErrors, BeginsWithinAChunk) {
  expectPart(errorOf(makeContigTensor(2),
                     [](TensorView* cache, TensorView* out) {
                       out->split(1, 10);
                       out->split(2, 4); // 4, 4 and 2
                       transformLike(out);
                       inlineAllAt(out, 3, true);
                       cache->axis(3)->parallelize(ParallelType::Bulk);
                     }),
             "is cut every 40 bytes");
}

// Known at launch.
TEST_F(LinearCopyErrors, RowsThatEndWithinAChunk) {
  expectPart(errorOf(makeContigTensor(2),
                     [](TensorView* cache, TensorView* out) {
                       out->split(1, 16);
                       transformLike(out);
                       inlineAllAt(out, 2, true);
                       cache->axis(2)->parallelize(ParallelType::Bulk);
                     },
                     {8, 66}),
             "whose 1-D copies are multiples of 16 bytes");
}

} // namespace
} // namespace nvfuser::test
