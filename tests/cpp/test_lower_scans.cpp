// SPDX-License-Identifier: BSD-3-Clause
// Kernel texts of scans whose lines are shared by threads.
#include "executor_for_test.h"
#include "schedules_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

class LowerScans : public ::testing::Test {
 protected:
  // [lines: BIDx | tile, threads, elements] of x, its scan and the copy to memory.
  void define(int64_t lines, int64_t extent, int64_t threads, int64_t elements) {
    TensorView* x = makeContigConcreteTensor({lines, extent});
    fusion_.addInput(x);
    TensorView* out = cumsum(x, 1);
    fusion_.addOutput(out);
    TensorView* cache = x->cacheAfter();
    TensorView* scan = out->cacheBefore();
    for (TensorView* tv : {cache, scan, out}) {
      tv->split(1, elements);
      tv->split(1, threads);
      tv->axis(0)->parallelize(ParallelType::BIDx);
      tv->axis(2)->parallelize(ParallelType::TIDx);
    }
    cache->inlineAt(3);
    scan->inlineAt(3);
  }

  // [lines: TIDx | tile, elements].
  void defineForOneThread(int64_t extent) {
    TensorView* x = makeContigConcreteTensor({64, extent});
    fusion_.addInput(x);
    TensorView* out = cumsum(x, 1);
    fusion_.addOutput(out);
    out->split(1, 4);
    out->axis(0)->parallelize(ParallelType::TIDx);
  }

  std::string body() {
    executor_.lower(&fusion_, Device::host(), DataType::Int, {}, {}, SchedulerType::None);
    const std::string& text = executor_.kernelText();
    const size_t begin = text.find('\n') + 1;
    return "\n" + text.substr(begin, text.rfind('}') - begin);
  }

  SchedulesFor gpu_{HostSchedules::ForSmallHopper};
  Fusion fusion_;
  FusionGuard guard_{&fusion_};
  KernelExecutor executor_;
};

// What is out of bounds is the identity; the barrier at the back edge guards the workspace.
TEST_F(LowerScans, TilesWithARest) {
  define(8, 1000, 64, 4);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  float T3_carry = 0.0f;
  const nvfuser_index_t idx0 = bx * 1000;
  const nvfuser_index_t idx1 = tx * 4;
  for (nvfuser_index_t j1 = 0; j1 < 4; ++j1) {
    Array<float, 4> T2;
    Array<float, 4> T3;
    const nvfuser_index_t idx2 = idx0 + (j1 * 256) + idx1;
    if (((j1 * 64) + tx) < 250) {
      #pragma unroll
      for (nvfuser_index_t j5 = 0; j5 < 4; ++j5) {
        const nvfuser_index_t idx3 = idx2 + j5;
        T2[j5] = T0[idx3];
      }
    }
    #pragma unroll
    for (nvfuser_index_t j4 = 0; j4 < 4; ++j4) {
      T3[j4] = 0.0f;
      if (((j1 * 64) + tx) < 250) {
        T3[j4] = T2[j4];
      }
    }
    nvf::blockScan<nvf::SumOp, 64, 4>(smem, &T3[0], T3_carry);
    if (((j1 * 64) + tx) < 250) {
      #pragma unroll
      for (nvfuser_index_t j3 = 0; j3 < 4; ++j3) {
        const nvfuser_index_t idx4 = idx2 + j3;
        T1[idx4] = T3[j3];
      }
    }
    nvf::syncBlock();
  }
)");
}

// The carry is declared outside of both loops along the axis.
TEST_F(LowerScans, TilesOfOneThread) {
  defineForOneThread(10);
  EXPECT_EQ(body(), R"(
  const nvfuser_index_t tx = threadIdx.x;
  float T1_carry = 0.0f;
  const nvfuser_index_t idx1 = tx * 10;
  for (nvfuser_index_t j1 = 0; j1 < 3; ++j1) {
    const nvfuser_index_t idx0 = j1 * 4;
    const nvfuser_index_t idx2 = idx1 + (j1 * 4);
    #pragma unroll
    for (nvfuser_index_t j2 = 0; j2 < 4; ++j2) {
      const nvfuser_index_t idx3 = idx2 + j2;
      if ((idx0 + j2) < 10) {
        T1_carry = T1_carry + T0[idx3];
        T1[idx3] = T1_carry;
      }
    }
  }
)");
}

// A loop that runs once is none.
TEST_F(LowerScans, ATileOfOneThread) {
  defineForOneThread(4);
  EXPECT_EQ(body(), R"(
  const nvfuser_index_t tx = threadIdx.x;
  float T1_carry = 0.0f;
  const nvfuser_index_t idx0 = tx * 4;
  #pragma unroll
  for (nvfuser_index_t j2 = 0; j2 < 4; ++j2) {
    const nvfuser_index_t idx1 = idx0 + j2;
    T1_carry = T1_carry + T0[idx1];
    T1[idx1] = T1_carry;
  }
)");
}

// Within a warp there is no workspace and no barrier.
TEST_F(LowerScans, OneTileOfAWarp) {
  define(8, 64, 16, 4);
  EXPECT_EQ(body(), R"(
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  float T3_carry = 0.0f;
  Array<float, 4> T2;
  Array<float, 4> T3;
  const nvfuser_index_t idx0 = (bx * 64) + (tx * 4);
  #pragma unroll
  for (nvfuser_index_t j5 = 0; j5 < 4; ++j5) {
    const nvfuser_index_t idx1 = idx0 + j5;
    T2[j5] = T0[idx1];
  }
  #pragma unroll
  for (nvfuser_index_t j4 = 0; j4 < 4; ++j4) {
    T3[j4] = 0.0f;
    T3[j4] = T2[j4];
  }
  nvf::blockScan<nvf::SumOp, 16, 4>(nullptr, &T3[0], T3_carry);
  #pragma unroll
  for (nvfuser_index_t j3 = 0; j3 < 4; ++j3) {
    const nvfuser_index_t idx2 = idx0 + j3;
    T1[idx2] = T3[j3];
  }
)");
}

} // namespace
} // namespace nvfuser::test
