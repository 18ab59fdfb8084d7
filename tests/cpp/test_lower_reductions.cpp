// SPDX-License-Identifier: BSD-3-Clause
// What lowering makes of reductions: kernel texts for every scope, where barriers and guards stand;
// and that the adversarial host run finds a barrier that is missing.
#include "lowering_for_test.h"

#include <ops/reduction_internal.h>
#include <transform/inlining.h>

#include <numeric>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

class LowerReductions : public LoweringTest {
 protected:
  // What the adversarial run says to the kernel when some lines are left out of it; the text
  // of one that passes is compared with `expected`.
  std::string errorWithout(const std::string& line, const Tensor& x,
                           const std::vector<double>& expected) {
    const auto module = useText(textWithout(line, Removed::Part));
    const KernelArgs out = executor_.run({x});
    if (module->error.empty()) {
      expectValues(out.tensor(0), expected, 1e-3);
    }
    return module->error;
  }
};

std::vector<double> sumsOfRows(const Tensor& x) {
  const std::vector<double> values = x.toDoubles();
  const auto rows = static_cast<size_t>(sizesOf(x)[0]);
  std::vector<double> sums(rows);
  for (size_t i = 0; i < values.size(); ++i) {
    sums[i / (values.size() / rows)] += values[i];
  }
  return sums;
}

// A position that inlining itself would not choose.
TEST_F(LowerReductions, AResultIsNotReadInsideOfTheLoopThatMakesIt) {
  TensorView* x = neg(input({4, 8}));
  TensorView* total = broadcast(sum(x, {1}), {false, true});
  TensorView* out = add(x, total);
  fusion_.addOutput(out);
  for (TensorView* tv : {x, total}) {
    tv->setComputeAtPosition(2);
    out->setMaxProducerPosition(2);
  }
  EXPECT_THROW(text(), UserError);
}

// Each thread reduces for itself.
TEST_F(LowerReductions, Serial) {
  TensorView* s = sum(input({8, 100}), Sizes{1});
  fusion_.addOutput(s);
  s->axis(0)->parallelize(ParallelType::TIDx);
  EXPECT_EQ(body(), R"(
  const nvfuser_index_t tx = threadIdx.x;
  float T2 = 0.0f;
  const nvfuser_index_t idx0 = tx * 100;
  for (nvfuser_index_t j1 = 0; j1 < 100; ++j1) {
    const nvfuser_index_t idx1 = idx0 + j1;
    T2 = T2 + T0[idx1];
  }
  T1[tx] = T2;
)");
}

// All threads along x have the same sums of 32: the first of them has the sum over y start with
// them, and all get the result.
TEST_F(LowerReductions, WhatThreadsHaveInCommonIsReducedOnce) {
  TensorView* s = sum(input({8, 32}), Sizes{1});
  TensorView* t = sum(s, Sizes{0});
  fusion_.addOutput(t);
  s->axis(0)->parallelize(ParallelType::TIDy);
  s->axis(1)->parallelize(ParallelType::TIDx);
  t->axis(0)->parallelize(ParallelType::TIDy);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t tx = threadIdx.x;
  const nvfuser_index_t ty = threadIdx.y;
  float T3 = 0.0f;
  float T1 = 0.0f;
  const nvfuser_index_t idx0 = (ty * 32) + tx;
  T1 = T1 + T0[idx0];
  nvf::blockReduce<true, false, false, 32, 8, 1>(nullptr, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T1});
  if (tx == 0) {
    T3 = T3 + T1;
  }
  nvf::blockReduce<true, true, false, 32, 8, 1>(smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T3});
  nvf::renew(T1);
  if ((tx == 0) && (ty == 0)) {
    T2[0] = T3;
  }
)");
  const Tensor x = randomTensor({8, 32}, Device::host(), 1);
  const std::vector<double> sums = sumsOfRows(x);
  KernelExecutor executor;
  executor.compile(&fusion_, {x});
  expectValues(executor.run({x}).tensor(0), {std::accumulate(sums.begin(), sums.end(), 0.0)}, 1e-3);
}

// What is never accumulated keeps the identity: only the accumulation is guarded.
TEST_F(LowerReductions, BlockWithUnguardedInit) {
  TensorView* s = sum(input({8, 100}), Sizes{1});
  fusion_.addOutput(s);
  s->split(1, 64);
  s->axis(0)->parallelize(ParallelType::BIDx);
  s->axis(2)->parallelize(ParallelType::TIDx);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  float T2 = 0.0f;
  const nvfuser_index_t idx0 = bx * 100;
  #pragma unroll
  for (nvfuser_index_t j1 = 0; j1 < 2; ++j1) {
    const nvfuser_index_t idx1 = idx0 + (j1 * 64) + tx;
    if ((j1 < 1) || (((j1 * 64) + tx) < 100)) {
      T2 = T2 + T0[idx1];
    }
  }
  nvf::blockReduce<true, false, false, 64, 1, 1>(smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T2});
  if (tx == 0) {
    T1[bx] = T2;
  }
)");
}

// The outer part has one iteration, so that no index shows that its split runs past it.
TEST_F(LowerReductions, PaddingOfASingleIterationIsNotTakenIn) {
  TensorView* s = sum(input({5}), Sizes{0});
  fusion_.addOutput(s);
  s->split(0, 1, /*inner_split=*/false);
  s->split(0, 3);
  s->merge(0);
  EXPECT_EQ(body(), R"(
  float T2 = 0.0f;
  for (nvfuser_index_t j0 = 0; j0 < 3; ++j0) {
    if (j0 == 0) {
      #pragma unroll
      for (nvfuser_index_t j1 = 0; j1 < 5; ++j1) {
        T2 = T2 + T0[j1];
      }
    }
  }
  T1[0] = T2;
)");
}

TEST_F(LowerReductions, Grid) {
  TensorView* s = sum(input({8, 256}), Sizes{1});
  fusion_.addOutput(s);
  s->split(1, 64);
  s->axis(0)->parallelize(ParallelType::BIDx);
  s->axis(1)->parallelize(ParallelType::BIDy);
  s->axis(2)->parallelize(ParallelType::TIDx);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t by = blockIdx.y;
  const nvfuser_index_t tx = threadIdx.x;
  bool last_block2 = false;
  float T2 = 0.0f;
  const nvfuser_index_t idx0 = (bx * 256) + (by * 64) + tx;
  T2 = T2 + T0[idx0];
  last_block2 = nvf::gridReduce<false, true, false, true, false, false, 64, 1, 1>(grid_workspace + 0, semaphores + 0, smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T2});
  if ((tx == 0) && last_block2) {
    T1[bx] = T2;
  }
)");
}

// Blocks of a cluster wait for partials, not for each other.
TEST_F(LowerReductions, Cluster) {
  TensorView* s = sum(input({8, 256}), Sizes{1});
  fusion_.addOutput(s);
  s->split(1, 64);
  s->axis(0)->parallelize(ParallelType::BIDx);
  s->axis(1)->parallelizeCluster(ParallelType::BIDy);
  s->axis(2)->parallelize(ParallelType::TIDx);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t by = blockIdx.y;
  const nvfuser_index_t tx = threadIdx.x;
  nvf::MBarrier* const cluster_barriers = reinterpret_cast<nvf::MBarrier*>(smem + 0);
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    nvf::initMBarrier(cluster_barriers, 1);
    nvf::initMBarrier(cluster_barriers + 1, 1);
    nvf::fenceMBarrierInit();
  }
  nvf::arriveAtCluster();
  float T2 = 0.0f;
  const nvfuser_index_t idx0 = (bx * 256) + (by * 64) + tx;
  T2 = T2 + T0[idx0];
  nvf::waitForCluster();
  nvf::clusterReduceByPhase<4, true, false, false, 64, 1, 1>(smem + 16, cluster_barriers + 0, 0, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T2});
  if ((by == 0) && (tx == 0)) {
    T1[bx] = T2;
  }
)");
}

TEST_F(LowerReductions, TwoReductionsShareABarrier) {
  TensorView* x = input({8, 64});
  TensorView* s = sum(x, Sizes{1});
  TensorView* m = max(x, Sizes{1});
  TensorView* out = add(s, m);
  fusion_.addOutput(out);
  TensorView* cache = x->cacheAfter();
  for (TensorView* tv : {cache, s, m, out}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
  }
  for (TensorView* tv : {cache, s, m}) {
    tv->axis(1)->parallelize(ParallelType::TIDx);
  }
  inlineMost();
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  float T1 = 0.0f;
  float T2 = nvf::bitsOf<float>(0xff800000u);
  const nvfuser_index_t idx0 = (bx * 64) + tx;
  float T4 = T0[idx0];
  T1 = T1 + T4;
  T2 = nvf::maximum(T2, T4);
  nvf::blockReduce<true, false, false, 64, 1, 1>(smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T1}, nvf::ReduceTerm<nvf::MaxOp, float, 1>{&T2});
  if (tx == 0) {
    T3[bx] = T1 + T2;
  }
)");
}

// Their rows are different loops, which are none in the text, and their results are stored one by
// one.
TEST_F(LowerReductions, IndependentReductionsShareABarrier) {
  for (int i = 0; i < 2; ++i) {
    TensorView* s = sum(input({8, 64}), Sizes{1});
    fusion_.addOutput(s);
    s->axis(0)->parallelize(ParallelType::BIDx);
    s->axis(1)->parallelize(ParallelType::TIDx);
  }
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  float T4 = 0.0f;
  const nvfuser_index_t idx0 = (bx * 64) + tx;
  T4 = T4 + T0[idx0];
  float T5 = 0.0f;
  T5 = T5 + T2[idx0];
  nvf::blockReduce<true, false, false, 64, 1, 1>(smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T4}, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T5});
  if (tx == 0) {
    T1[bx] = T4;
    T3[bx] = T5;
  }
)");
}

// One block must be the last for both: it alone has what their consumer reads.
TEST_F(LowerReductions, TwoReductionsShareTheLastBlock) {
  TensorView* x = input({8, 256});
  TensorView* s = sum(x, Sizes{1});
  TensorView* m = max(x, Sizes{1});
  TensorView* out = add(s, m);
  fusion_.addOutput(out);
  TensorView* cache = x->cacheAfter();
  for (TensorView* tv : {cache, s, m}) {
    tv->split(1, 64);
    tv->axis(1)->parallelize(ParallelType::BIDy);
    tv->axis(2)->parallelize(ParallelType::TIDx);
  }
  for (TensorView* tv : {cache, s, m, out}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
  }
  inlineMost();
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t by = blockIdx.y;
  const nvfuser_index_t tx = threadIdx.x;
  bool last_block1 = false;
  float T1 = 0.0f;
  float T2 = nvf::bitsOf<float>(0xff800000u);
  const nvfuser_index_t idx0 = (bx * 256) + (by * 64) + tx;
  float T4 = T0[idx0];
  T1 = T1 + T4;
  T2 = nvf::maximum(T2, T4);
  last_block1 = nvf::gridReduce<false, true, false, true, false, false, 64, 1, 1>(grid_workspace + 0, semaphores + 0, smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T1}, nvf::ReduceTerm<nvf::MaxOp, float, 1>{&T2});
  if ((tx == 0) && last_block1) {
    T3[bx] = T1 + T2;
  }
)");
}

// An operand that does not depend on the reduction is loaded before anybody knows the last block.
TEST_F(LowerReductions, WhatTheLastBlockNeedsIsThere) {
  TensorView* x = input({8, 256});
  TensorView* factors = input({8});
  TensorView* s = sum(x, Sizes{1});
  TensorView* out = mul(s, factors);
  fusion_.addOutput(out);
  TensorView* cache = factors->cacheAfter();
  s->split(1, 64);
  s->axis(1)->parallelize(ParallelType::BIDy);
  s->axis(2)->parallelize(ParallelType::TIDx);
  for (TensorView* tv : {cache, s, out}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
  }
  inlineMost();
  const Tensor a = randomTensor({8, 256}, Device::host(), 1);
  const Tensor b = randomTensor({8}, Device::host(), 2);
  std::vector<double> expected = sumsOfRows(a);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] *= b.toDoubles()[i];
  }
  executor_.compile(&fusion_, {a, b});
  expectValues(executor_.run({a, b}).tensor(0), expected, 1e-3);
}

// Reductions over different blocks end in different last blocks.
TEST_F(LowerReductions, DifferentLastBlocksAreRefused) {
  TensorView* x = input({64, 64});
  TensorView* out = add(sum(x, Sizes{0, 1}), max(x, Sizes{0, 1}));
  fusion_.addOutput(out);
  int position = 0;
  for (const Expr* e : fusion_.exprs()) {
    auto* tv = e->output(0)->as<TensorView>();
    if (tv != out) {
      tv->axis(position)->parallelize(position == 0 ? ParallelType::BIDx : ParallelType::BIDy);
      ++position;
    }
  }
  EXPECT_THROW(text(), std::runtime_error);
}

class BlocksThatMeet : public LowerReductions {
 protected:
  // Rows over the blocks along y; twice: what is left of them is taken from its sum again.
  void define(int64_t rows, bool twice) {
    TensorView* x = input({rows, 256});
    TensorView* s = sum(x, Sizes{1});
    TensorView* out = sub(x, broadcast(s, {false, true}));
    if (twice) {
      out = add(out, broadcast(sum(out, Sizes{1}), {false, true}));
    }
    fusion_.addOutput(out);
    for (TensorView* tv : fusion_.allTvs()) {
      if (tv == x) {
        continue;
      }
      if (tv->nDims() == 2) {
        tv->split(1, 64);
        tv->axis(1)->parallelize(ParallelType::BIDy);
        tv->axis(2)->parallelize(ParallelType::TIDx);
      }
      tv->axis(0)->parallelize(ParallelType::BIDx);
    }
    inlineMost();
  }
  static std::vector<double> expected(const Tensor& x, bool twice) {
    std::vector<double> values = x.toDoubles();
    const std::vector<double> sums = sumsOfRows(x);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += sums[i / 256] * (twice ? -1 + 1 - 256 : -1);
    }
    return values;
  }
};

// All blocks write their part of the output: all of them wait for the result.
TEST_F(BlocksThatMeet, Normalization) {
  define(3, /*twice=*/false);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t by = blockIdx.y;
  const nvfuser_index_t tx = threadIdx.x;
  float T1 = 0.0f;
  const nvfuser_index_t idx0 = (bx * 256) + (by * 64) + tx;
  T1 = T1 + T0[idx0];
  nvf::gridAllReduce<false, true, false, true, false, false, 64, 1, 1>(grid_workspace + 0, semaphores + 0, smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T1});
  float T2 = T1;
  T3[idx0] = T0[idx0] - T2;
)");
  const Tensor x = randomTensor({3, 256}, Device::host(), 1);
  EXPECT_EQ(errorWithout("", x, expected(x, false)), "");
}

// Each has partials and counters of its own.
TEST_F(BlocksThatMeet, SeveralTimes) {
  define(5, /*twice=*/true);
  EXPECT_NE(text().find("grid_workspace + 80, semaphores + 5, smem"), std::string::npos) << text();
  const Tensor x = randomTensor({5, 256}, Device::host(), 1);
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(errorWithout("", x, expected(x, true)), "");
  }
}

TEST_F(BlocksThatMeet, AMissingMeetingIsFound) {
  define(2, /*twice=*/false);
  const std::string call = "nvf::gridAllReduce<";
  std::string edited = text();
  edited.replace(edited.find(call), call.size(), "allReduceWithoutMeeting<");
  edited = R"(
template <bool GX, bool GY, bool GZ, bool RX, bool RY, bool RZ, int BX, int BY, int BZ,
          class... Terms>
NVF_FN void allReduceWithoutMeeting(char* global_workspace, unsigned*, nvf::Workspace workspace,
                                    Terms... terms) {
  const auto grid = nvf::gridSegment<GX, GY, GZ>();
  const int groups = nvf::blockPlace().threads() / grid.blocks;
  using Grid = nvf::GridWay<RX, RY, RZ, BX, BY, BZ, Terms...>;
  Grid::reduceBlock(grid, groups, global_workspace, workspace, terms...);
  nvf::syncBlock();
  Grid::combineBlocks(grid, groups, global_workspace, workspace, terms...);
}
)" + edited;
  const auto module = useText(edited);
  executor_.run({randomTensor({2, 256}, Device::host(), 1)});
  EXPECT_NE(module->error.find("race on global memory"), std::string::npos) << module->error;
}

// More blocks than run at the same time would wait for ever.
TEST_F(BlocksThatMeet, TooManyAreRefused) {
  define(1000, /*twice=*/false);
  const auto module = useText(text());
  EXPECT_THROW(executor_.run({randomTensor({1000, 256}, Device::host(), 1)}), UserError);
}

// A reduction over blocks of what would otherwise be complete in the last block only.
TEST_F(LowerReductions, GridAfterGrid) {
  TensorView* s = sum(input({4, 12}), Sizes{1});
  TensorView* all = sum(s, Sizes{0});
  fusion_.addOutput(all);
  s->axis(0)->parallelize(ParallelType::BIDx);
  s->axis(1)->parallelize(ParallelType::BIDy);
  all->axis(0)->parallelize(ParallelType::BIDx);
  const Tensor x = randomTensor({4, 12}, Device::host(), 1);
  double total = 0;
  for (const double sum : sumsOfRows(x)) {
    total += sum;
  }
  EXPECT_EQ(errorWithout("", x, {total}), "");
}

TEST_F(LowerReductions, WelfordCombinesItsThreePartsTogether) {
  const WelfordResult w = Welford(input({8, 128}), Sizes{1});
  fusion_.addOutput(w.avg);
  fusion_.addOutput(w.var_sum);
  TensorView* tv = w.avg;
  tv->split(1, 64);
  for (TensorView* part : {w.avg, w.var_sum, w.n}) {
    if (part != tv) {
      part->split(1, 64);
    }
    part->axis(0)->parallelize(ParallelType::BIDx);
    part->axis(2)->parallelize(ParallelType::TIDx);
  }
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  float T4 = 0.0f;
  float T5 = 0.0f;
  float T6 = 0.0f;
  const nvfuser_index_t idx0 = bx * 128;
  #pragma unroll
  for (nvfuser_index_t j2 = 0; j2 < 2; ++j2) {
    const nvfuser_index_t idx1 = idx0 + (j2 * 64) + tx;
    nvf::welfordStep(T4, T5, T6, T0[idx1]);
  }
  nvf::blockReduce<true, false, false, 64, 1, 1>(smem, nvf::WelfordTerm<float, 1>{&T4, &T5, &T6});
  if (tx == 0) {
    T1[bx] = T4;
    T2[bx] = T5;
  }
)");
}

class ReductionInALoop : public LowerReductions {
 protected:
  // Rows one after the other, each reduced over the block.
  void define(bool cluster, DataType dtype = DataType::Float) {
    TensorView* x = input({5, 256}, dtype);
    // The op itself would accumulate small types as float.
    TensorView* s = ops_utils::reduceDims(dtype == DataType::Float ? OpType::Add : OpType::Maximum,
                                          x, {false, true});
    fusion_.addOutput(s);
    s->split(1, cluster ? 64 : 256);
    if (cluster) {
      s->axis(1)->parallelizeCluster(ParallelType::BIDx);
    }
    s->axis(2)->parallelize(ParallelType::TIDx);
  }
  const Tensor x_ = randomTensor({5, 256}, Device::host(), 1);
  const std::vector<double> sums_ = sumsOfRows(x_);
};

// The next iteration must not overwrite partials that are still read.
TEST_F(ReductionInALoop, BarrierAtTheBackEdge) {
  define(/*cluster=*/false);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t tx = threadIdx.x;
  #pragma unroll
  for (nvfuser_index_t j0 = 0; j0 < 5; ++j0) {
    float T2 = 0.0f;
    const nvfuser_index_t idx0 = (j0 * 256) + tx;
    T2 = T2 + T0[idx0];
    nvf::blockReduce<true, false, false, 256, 1, 1>(smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T2});
    if (tx == 0) {
      T1[j0] = T2;
    }
    nvf::syncBlock();
  }
)");
}

TEST_F(ReductionInALoop, AMissingBlockBarrierIsFound) {
  define(/*cluster=*/false);
  EXPECT_EQ(errorWithout("", x_, sums_), "");
  EXPECT_NE(errorWithout("nvf::syncBlock();", x_, sums_).find("race"), std::string::npos);
}

// Behind the loops nobody needs the copy: the reduction works where it was, after a barrier.
TEST_F(LowerReductions, OverTensorsThatNobodyNeeds) {
  TensorView* copy = set(input({4, 64}));
  TensorView* s = sum(copy, Sizes{0, 1});
  fusion_.addOutput(s);
  copy->setMemoryType(MemoryType::Shared);
  for (TensorView* tv : {copy, s}) {
    tv->axis(1)->parallelize(ParallelType::TIDx);
  }
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t tx = threadIdx.x;
  float* const T1 = reinterpret_cast<float*>(smem);
  float T3 = 0.0f;
  #pragma unroll
  for (nvfuser_index_t j2 = 0; j2 < 4; ++j2) {
    const nvfuser_index_t idx0 = (j2 * 64) + tx;
    nvf::sharedWrite(T1[idx0]) = T0[idx0];
  }
  #pragma unroll
  for (nvfuser_index_t j0 = 0; j0 < 4; ++j0) {
    const nvfuser_index_t idx1 = (j0 * 64) + tx;
    T3 = T3 + nvf::sharedRead(T1[idx1]);
  }
  nvf::syncBlock();
  nvf::blockReduce<true, false, false, 64, 1, 1>(smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T3});
  if (tx == 0) {
    T2[0] = T3;
  }
)");
  const Tensor x = randomTensor({4, 64}, Device::host(), 1);
  double total = 0;
  for (const double sum : sumsOfRows(x)) {
    total += sum;
  }
  EXPECT_EQ(errorWithout("", x, {total}), "");
  EXPECT_NE(errorWithout("nvf::syncBlock();", x, {total}).find("race"), std::string::npos);
}

// Partials that are no words cannot be counted as they arrive: the grid synchronizes.
TEST_F(ReductionInALoop, AMissingClusterBarrierIsFound) {
  define(/*cluster=*/true, DataType::BFloat16);
  EXPECT_NE(errorWithout("nvf::syncCluster();",
                         randomTensor({5, 256}, Device::host(), 1, DataType::BFloat16), {})
                .find("race"),
            std::string::npos);
}

// A block may send what belongs to the next iteration while another one reads that of this one.
TEST_F(ReductionInALoop, PhasesOfAClusterNeedTwoWorkspaces) {
  define(/*cluster=*/true);
  EXPECT_EQ(text().find("syncCluster"), std::string::npos) << text();
  EXPECT_EQ(errorWithout("", x_, sums_), "");
  EXPECT_NE(errorWithout(" + (cluster_phase % 2) * 32", x_, sums_).find("race"), std::string::npos);
}

// Two mbarriers and two workspaces, alternately; without the start of the cluster, a block may send
// to one that has not set up its mbarriers.
TEST_F(LowerReductions, ReductionsByPhaseAlternate) {
  TensorView* x = input({4, 256});
  TensorView* s = sum(x, Sizes{1});
  TensorView* centered = sub(x, broadcast(s, {false, true}));
  TensorView* m = sum(centered, Sizes{1});
  fusion_.addOutput(m);
  for (TensorView* tv : fusion_.allTvs()) {
    if (tv == x) {
      continue;
    }
    if (tv->nDims() == 2) {
      tv->split(1, 64);
      tv->axis(1)->parallelizeCluster(ParallelType::BIDy);
      tv->axis(2)->parallelize(ParallelType::TIDx);
    }
    tv->axis(0)->parallelize(ParallelType::BIDx);
  }
  inlineMost();
  const std::string all = body();
  EXPECT_NE(all.find("(smem + 16, cluster_barriers + 0, 0, "), std::string::npos) << all;
  EXPECT_NE(all.find("(smem + 48, cluster_barriers + 1, 0, "), std::string::npos) << all;
  const Tensor values = randomTensor({4, 256}, Device::host(), 1);
  std::vector<double> expected = sumsOfRows(values);
  for (double& v : expected) {
    v *= 1 - 256;
  }
  EXPECT_EQ(errorWithout("", values, expected), "");
  EXPECT_NE(errorWithout("nvf::waitForCluster();", values, expected), "");
}

// Rows one after the other, each divided by its sum over a cluster: the next one is reduced while
// the blocks combine what they have of this one.
class PrefetchedReduction : public LowerReductions {
 protected:
  // `scaled`: what is reduced is multiplied by a value of each row, and the result again.
  void define(int64_t stages, int64_t distance, bool cluster = true, bool scaled = false) {
    TensorView* x = input({-1, 256});
    TensorView* scale = scaled ? input({-1, 1}) : nullptr;
    TensorView* total = sum(scaled ? mul(x, scale) : x, Sizes{1});
    TensorView* share = div(x, broadcast(total, {false, true}));
    fusion_.addOutput(scaled ? mul(mul(share, scale), scale) : share);
    TensorView* scale_registers = scaled ? scale->cacheAfter() : nullptr;
    TensorView* row = x->cacheAfter(LoadStoreOpType::CpAsync);
    row->setMemoryType(MemoryType::Shared);
    for (TensorView* tv : fusion_.allTvs()) {
      if (tv->isFusionInput() || tv->nDims() < 2) {
        continue;
      }
      tv->split(1, cluster ? 64 : 256);
      if (cluster) {
        tv->axis(1)->parallelizeCluster(ParallelType::BIDx);
      }
      tv->axis(2)->parallelize(ParallelType::TIDx);
    }
    inlineAllAt(total, 1);
    row->circularBuffer(stages, distance);
    total->circularBuffer(2);
    if (scaled) {
      scale_registers->circularBuffer(2);
    }
  }

  // What the adversarial run says if all that is `part` is replaced.
  std::string errorWith(const std::string& part, const std::string& replacement, const Tensor& x) {
    std::string edited = text();
    for (size_t at = edited.find(part); at != std::string::npos;
         at = edited.find(part, at + replacement.size())) {
      edited.replace(at, part.size(), replacement);
    }
    const auto module = useText(edited);
    executor_.run({x});
    return module->error;
  }

  static std::vector<double> shares(const Tensor& x) {
    const std::vector<double> sums = sumsOfRows(x);
    std::vector<double> out = x.toDoubles();
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] /= sums[i / 256];
    }
    return out;
  }

  static Tensor rows(int64_t count) {
    return randomTensor({count, 256}, Device::host(), 1);
  }
};

TEST_F(PrefetchedReduction, Text) {
  define(3, 1);
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  nvf::MBarrier* const cluster_barriers = reinterpret_cast<nvf::MBarrier*>(smem + 0);
  unsigned cluster_phase = 0;
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    nvf::initMBarrier(cluster_barriers, 1);
    nvf::initMBarrier(cluster_barriers + 1, 1);
    nvf::fenceMBarrierInit();
  }
  nvf::arriveAtCluster();
  float* const T4 = reinterpret_cast<float*>(smem + 128);
  nvf::waitForCluster();
  const nvfuser_index_t idx0 = (bx * 64) + tx;
  if (0 < T0.logical_size[0]) {
    nvf::copyAsync<4>(&T4[tx], &T0[idx0]);
  }
  nvf::commitCopies();
  const nvfuser_index_t idx1 = tx + 64;
  const nvfuser_index_t idx2 = (bx * 64) + tx + 256;
  float T5;
  if (0 < T0.logical_size[0]) {
    if (T0.logical_size[0] >= 2) {
      nvf::copyAsync<4>(&T4[idx1], &T0[idx2]);
    }
    nvf::commitCopies();
    nvf::waitForCopies<1>();
    T5 = 0.0f;
    T5 = T5 + nvf::sharedRead(T4[tx]);
    nvf::beginClusterReduce<4, true, false, false, 64, 1, 1>(smem + 16 + (cluster_phase % 2) * 32, cluster_barriers + cluster_phase % 2, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T5});
    ++cluster_phase;
  }
  const nvfuser_index_t idx4 = bx * 64;
  for (nvfuser_index_t j0 = 0; j0 < T0.logical_size[0]; ++j0) {
    const nvfuser_index_t idx3 = (((j0 + 2) % 3) * 64) + tx;
    const nvfuser_index_t idx5 = (j0 * 256) + idx4 + tx + 512;
    const nvfuser_index_t idx6 = (((j0 + 1) % 3) * 64) + tx;
    if ((j0 + 1) < T0.logical_size[0]) {
      if ((j0 + 2) < T0.logical_size[0]) {
        nvf::copyAsync<4>(&T4[idx3], &T0[idx5]);
      }
      nvf::commitCopies();
      nvf::waitForCopies<1>();
      T5 = 0.0f;
      T5 = T5 + nvf::sharedRead(T4[idx6]);
    }
    float T1;
    nvf::endClusterReduce<4, true, false, false, 64, 1, 1>(smem + 16 + ((cluster_phase - 1) % 2) * 32, cluster_barriers + (cluster_phase - 1) % 2, (cluster_phase - 1) / 2 % 2, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T1});
    if ((j0 + 1) < T0.logical_size[0]) {
      nvf::beginClusterReduce<4, true, false, false, 64, 1, 1>(smem + 16 + (cluster_phase % 2) * 32, cluster_barriers + cluster_phase % 2, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T5});
      ++cluster_phase;
    }
    float T2 = T1;
    const nvfuser_index_t idx7 = ((j0 % 3) * 64) + tx;
    const nvfuser_index_t idx8 = (j0 * 256) + idx4 + tx;
    T3[idx8] = nvf::divideFloats(nvf::sharedRead(T4[idx7]), T2);
  }
)");
}

TEST_F(PrefetchedReduction, OddAndEvenNumbersOfRows) {
  define(3, 1);
  for (const int64_t count : {1, 2, 3, 8}) {
    const Tensor x = rows(count);
    EXPECT_EQ(errorWithout("", x, shares(x)), "") << count;
  }
}

// One value of each row is loaded ahead and read both before and after the cluster reduction.
TEST_F(PrefetchedReduction, RegistersOfTwoIterations) {
  define(4, 2, /*cluster=*/true, /*scaled=*/true);
  const Tensor factors = randomTensor({7, 1}, Device::host(), 2);
  const Tensor x = rows(7);
  std::vector<double> expected = shares(x); // the factor cancels out
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] *= factors.toDoubles()[i / 256];
  }
  const auto module = useText(text());
  const KernelArgs out = executor_.run({x, factors});
  EXPECT_EQ(module->error, "");
  expectValues(out.tensor(0), expected, 1e-3);
}

TEST_F(PrefetchedReduction, WhatIsMissingIsFound) {
  define(4, 2);
  const Tensor x = rows(6);
  EXPECT_EQ(errorWithout("", x, shares(x)), "");
  EXPECT_NE(errorWithout("nvf::waitForCopies<2>();", x, {}).find("race"), std::string::npos);
  EXPECT_NE(errorWithout("nvf::waitForCluster();", x, {}), "");
  EXPECT_NE(errorWith("% 2) * 32", "* 0)", x).find("race"), std::string::npos);
  // It waits for the phase before, which is complete.
  EXPECT_NE(errorWith(" / 2 % 2", " / 2 % 2 ^ 1", x).find("race"), std::string::npos);
}

TEST_F(PrefetchedReduction, RowsOfTwoIterationsNeedRoom) {
  define(3, 2);
  try {
    text();
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("a distance of 1, not 2"), std::string::npos) << e.what();
  }
}

TEST_F(PrefetchedReduction, OnlyOverBlocksOfAClusterAndOnlyReductions) {
  define(3, 1, /*cluster=*/false);
  EXPECT_THROW(text(), UserError);
  EXPECT_THROW(fusion_.outputs().front()->as<TensorView>()->circularBuffer(2), UserError);
}

} // namespace
} // namespace nvfuser::test
