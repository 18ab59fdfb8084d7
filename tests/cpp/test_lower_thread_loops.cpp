// SPDX-License-Identifier: BSD-3-Clause
// The pass "put threads in loops": one thread of the host runs a block. Barriers, guards that
// become bounds of loops, what all threads hold alike, pieces without divisions, and what stays
// with fibers. Each kernel gives what fibers give.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

class LowerThreadLoops : public LoweringTest {
 protected:
  LowerThreadLoops() : LoweringTest(DataType::Int, HostSchedules::ForHost) {}

  // The IR after the pass, and the text, of a kernel that does what it does with fibers.
  std::string inLoops(const std::vector<Sizes>& shapes) {
    compareWithFibers(shapes);
    return after("put threads in loops");
  }
  std::string textInLoops(const std::vector<Sizes>& shapes) {
    compareWithFibers(shapes);
    return body();
  }

 private:
  void compareWithFibers(const std::vector<Sizes>& shapes) {
    KernelArgs args;
    for (const Sizes& shape : shapes) {
      args.push(randomTensor(shape, Device::host(), args.size() + 1));
    }
    const KernelArgs ours = runs(HostSchedules::ForHost, args, true);
    const KernelArgs fibers = runs(HostSchedules::ForSmallHopper, args, false);
    for (size_t i = 0; i < ours.size(); ++i) {
      expectValues(ours.tensor(i), fibers.tensor(i).toDoubles(), 1e-4);
    }
  }

  KernelArgs runs(HostSchedules machine, const KernelArgs& args, bool in_loops) {
    const SchedulesFor schedules(machine);
    KernelExecutor executor;
    executor.compile(&fusion_, args);
    EXPECT_EQ(executor.kernelText().find("NVF_THREADS_IN_LOOPS") != std::string::npos, in_loops)
        << executor.kernelText();
    return executor.run(args);
  }
};

TensorView* ofRows(TensorView* tv) {
  return broadcast(tv, {false, true});
}

void bind(TensorView* tv, int64_t axis, ParallelType type) {
  tv->axis(axis)->parallelize(type);
}

// The loop over tiles stays around that over threads; the guard that ends the row is its bound.
TEST_F(LowerThreadLoops, AGuardAtTheEndOfARowIsTheBound) {
  TensorView* y = neg(input({4, 100}));
  fusion_.addOutput(y);
  y->split(1, 64);
  bind(y, 2, ParallelType::TIDx);
  EXPECT_EQ(inLoops({{4, 100}}), R"(
  FOR j0 in iS2{4} extent 4:
    FOR j1 in iS4{2} extent 2:
      FOR ALL THREADS x < ( minimum(64, ( 100 - ( j1 * 64 ) )) ):
        T1[( ( ( j0 * 100 ) + ( j1 * 64 ) ) + threadIdx.x )] = -T0[( ( ( j0 * 100 ) + ( j1 * 64 ) ) + threadIdx.x )];
)");
}

// Loops over z, y, x, each with a bound of its own.
TEST_F(LowerThreadLoops, EachThreadDimensionHasABound) {
  TensorView* y = neg(input({10, 100}));
  fusion_.addOutput(y);
  y->split(1, 64);
  y->split(0, 8);
  bind(y, 0, ParallelType::BIDx);
  bind(y, 1, ParallelType::TIDy);
  bind(y, 3, ParallelType::TIDx);
  EXPECT_EQ(inLoops({{10, 100}}), R"(
  FOR j2 in iS4{2} extent 2:
    FOR ALL THREADS x < ( minimum(64, ( 100 - ( j2 * 64 ) )) ) y < ( minimum(8, ( 10 - ( blockIdx.x * 8 ) )) ):
      T1[( ( ( ( blockIdx.x * 800 ) + ( threadIdx.y * 100 ) ) + ( j2 * 64 ) ) + threadIdx.x )] = -T0[( ( ( ( blockIdx.x * 800 ) + ( threadIdx.y * 100 ) ) + ( j2 * 64 ) ) + threadIdx.x )];
)");
}

// Threads four elements apart, the last of which has a part of its elements: no bound of the loop.
TEST_F(LowerThreadLoops, OtherGuardsStayBranches) {
  TensorView* y = neg(input({4, 102}));
  fusion_.addOutput(y);
  y->split(1, 4);
  y->split(1, 8);
  bind(y, 2, ParallelType::TIDx);
  EXPECT_EQ(inLoops({{4, 102}}), R"(
  FOR j0 in iS2{4} extent 4:
    FOR j1 in iS6{4} extent 4:
      FOR j3 in iS5{4} extent 4:
        FOR ALL THREADS:
          IF ( ( ( ( j1 * 32 ) + ( threadIdx.x * 4 ) ) + j3 ) < 102 ):
            T1[( ( ( ( j0 * 102 ) + ( j1 * 32 ) ) + ( threadIdx.x * 4 ) ) + j3 )] = -T0[( ( ( ( j0 * 102 ) + ( j1 * 32 ) ) + ( threadIdx.x * 4 ) ) + j3 )];
)");
}

// What only the first of the threads along y does.
TEST_F(LowerThreadLoops, RedundantThreadsAreABoundOfOne) {
  TensorView* row = exp(input({64}));
  fusion_.addOutput(neg(row));
  fusion_.addOutput(add(neg(broadcast(row, {true, false})), input({4, 64})));
  for (TensorView* tv : fusion_.allTvs()) {
    if (!tv->isFusionInput()) {
      bind(tv, tv->nDims() - 1, ParallelType::TIDx);
      if (tv->nDims() == 2) {
        bind(tv, 0, ParallelType::TIDy);
      }
    }
  }
  inlineMost();
  EXPECT_EQ(inLoops({{64}, {4, 64}}), R"(
  T1_l = ALLOCATE(local, size=1, dtype=float)
  FOR ALL THREADS:
    T1[0] = exp(T0[threadIdx.x]);
  FOR ALL THREADS y < 1:
    T2[threadIdx.x] = -T1[0];
  FOR ALL THREADS:
    T4_l = ALLOCATE(local, size=1, dtype=float)
    T5_l = ALLOCATE(local, size=1, dtype=float)
    T4[0] = Set( T1[0], cache_op=Unspecified )
    T5[0] = -T4[0];
    T6[( ( threadIdx.y * 64 ) + threadIdx.x )] = T5[0] + T3[( ( threadIdx.y * 64 ) + threadIdx.x )];
)");
}

// What lies next to each other along x in one memory does so along y in the other.
TEST_F(LowerThreadLoops, TransposedTilesAreCopiedTogether) {
  TensorView* x = input({64, 64});
  TensorView* y = permute(x, Sizes{1, 0});
  fusion_.addOutput(y);
  TensorView* tile = x->cacheAfter();
  tile->setMemoryType(MemoryType::Shared);
  for (TensorView* tv : {tile, y}) {
    tv->split(0, 16);
    bind(tv, 1, ParallelType::TIDy);
    bind(tv, 2, ParallelType::TIDx);
  }
  EXPECT_EQ(inLoops({{64, 64}}), R"(
  T2_s = ALLOCATE(shared, size=4096, dtype=float)
  FOR j3 in iS6{4} extent 4:
    FOR ALL THREADS:
      T2[( ( ( j3 * 1024 ) + ( threadIdx.y * 64 ) ) + threadIdx.x )] = Set( T0[( ( ( j3 * 1024 ) + ( threadIdx.y * 64 ) ) + threadIdx.x )], cache_op=Unspecified )
  FOR j0 in iS8{4} extent 4:
    FOR ALL THREADS transpose 64 x 16 elements:
      T1[( ( ( j0 * 1024 ) + ( threadIdx.y * 64 ) ) + threadIdx.x )] = Set( T2[( ( ( threadIdx.x * 64 ) + ( j0 * 16 ) ) + threadIdx.y )], cache_op=Unspecified )
)");
}

// The loop over threads ends where the barrier was; so at the back edge of the loop over rows.
TEST_F(LowerThreadLoops, BarriersEndLoops) {
  TensorView* y = exp(input({4, 64}));
  TensorView* z = neg(y);
  fusion_.addOutput(z);
  y->setMemoryType(MemoryType::Shared);
  y->split(1, 16);
  bind(y, 2, ParallelType::TIDx);
  z->split(1, 16, /*inner_split=*/false);
  bind(z, 1, ParallelType::TIDx);
  y->inlineAt(1);
  EXPECT_NE(after("insert barriers").find("BLOCK_SYNC"), std::string::npos);
  EXPECT_EQ(inLoops({{4, 64}}), R"(
  FOR j0 in iS2{4} extent 4:
    T1_s = ALLOCATE(shared, size=64, dtype=float)
    FOR j3 in iS6{4} extent 4:
      FOR ALL THREADS:
        T1[( ( j3 * 16 ) + threadIdx.x )] = exp(T0[( ( ( j0 * 64 ) + ( j3 * 16 ) ) + threadIdx.x )]);
    FOR j2 in iS9{4} extent 4:
      FOR ALL THREADS:
        T2[( ( ( j0 * 64 ) + ( threadIdx.x * 4 ) ) + j2 )] = -T1[( ( threadIdx.x * 4 ) + j2 )];
)");
}

// The sum of a row is in the registers of all threads; what follows of it is one variable, outside
// of the loops. Registers that live on have an element for each thread.
TEST_F(LowerThreadLoops, WhatAllThreadsHoldAlikeIsOneVariable) {
  TensorView* x = input({8, 100});
  TensorView* total = sum(mul(x, x), Sizes{1});
  fusion_.addOutput(mul(x, ofRows(rsqrt(total))));
  for (TensorView* tv : fusion_.allTvs()) {
    if (tv->isFusionInput()) {
      continue;
    }
    if (tv->nDims() == 2) {
      tv->split(1, 64);
      bind(tv, 2, ParallelType::TIDx);
    }
    bind(tv, 0, ParallelType::BIDx);
  }
  inlineMost();
  EXPECT_EQ(inLoops({{8, 100}}), R"(
  T2_l = ALLOCATE(local, size=1, dtype=float)
  T3_l = ALLOCATE(local, size=1, dtype=float)
  FOR ALL THREADS:
    T2[0] = Set( float(0), cache_op=Unspecified )
  FOR j3 in iS11{2} extent 2:
    FOR ALL THREADS x < ( minimum(64, ( 100 - ( j3 * 64 ) )) ):
      T1_l = ALLOCATE(local, size=1, dtype=float)
      T1[0] = T0[( ( ( blockIdx.x * 100 ) + ( j3 * 64 ) ) + threadIdx.x )] * T0[( ( ( blockIdx.x * 100 ) + ( j3 * 64 ) ) + threadIdx.x )];
      T2[0] = T2[0] + T1[0];
  REDUCE threadIdx.x: T2[1]
  T3[0] = rsqrt(T2[0]);
  T4_l = ALLOCATE(local, size=1, dtype=float)
  T4[0] = Set( T3[0], cache_op=Unspecified )
  FOR j1 in iS17{2} extent 2:
    FOR ALL THREADS x < ( minimum(64, ( 100 - ( j1 * 64 ) )) ):
      T5[( ( ( blockIdx.x * 100 ) + ( j1 * 64 ) ) + threadIdx.x )] = T0[( ( ( blockIdx.x * 100 ) + ( j1 * 64 ) ) + threadIdx.x )] * T4[0];
)");
}

// Of a reduction over y alone, the threads along x hold results of their own.
TEST_F(LowerThreadLoops, AReductionOfSomeThreadsIsNotAlikeForAll) {
  TensorView* x = input({32, 64});
  TensorView* total = sum(x, Sizes{0});
  fusion_.addOutput(neg(total));
  total->split(0, 8);
  bind(total, 1, ParallelType::TIDy);
  bind(total, 2, ParallelType::TIDx);
  TensorView* out = fusion_.outputs()[0]->as<TensorView>();
  bind(out, 0, ParallelType::TIDx);
  EXPECT_EQ(inLoops({{32, 64}}), R"(
  T1_l = ALLOCATE(local, size=1, dtype=float)
  FOR ALL THREADS:
    T1[0] = Set( float(0), cache_op=Unspecified )
  FOR j1 in rS5{4} extent 4:
    FOR ALL THREADS:
      T1[0] = T1[0] + T0[( ( ( j1 * 512 ) + ( threadIdx.y * 64 ) ) + threadIdx.x )];
  REDUCE threadIdx.y: T1[1]
  FOR ALL THREADS y < 1:
    T2[threadIdx.x] = -T1[0];
)");
}

// What all threads load from one place is one variable, and what is computed of it.
TEST_F(LowerThreadLoops, LoadsThatAllThreadsMakeAreOne) {
  TensorView* scale = input({4});
  TensorView* x = input({4, 100});
  fusion_.addOutput(mul(x, ofRows(exp(scale))));
  for (TensorView* tv : fusion_.allTvs()) {
    if (!tv->isFusionInput() && tv->nDims() == 2) {
      tv->split(1, 64);
      bind(tv, 2, ParallelType::TIDx);
    }
  }
  inlineMost();
  EXPECT_EQ(inLoops({{4}, {4, 100}}), R"(
  FOR j0 in iS4{4} extent 4:
    T2_l = ALLOCATE(local, size=1, dtype=float)
    T2[0] = exp(T0[j0]);
    T3_l = ALLOCATE(local, size=1, dtype=float)
    T3[0] = Set( T2[0], cache_op=Unspecified )
    FOR j1 in iS10{2} extent 2:
      FOR ALL THREADS x < ( minimum(64, ( 100 - ( j1 * 64 ) )) ):
        T4[( ( ( j0 * 100 ) + ( j1 * 64 ) ) + threadIdx.x )] = T1[( ( ( j0 * 100 ) + ( j1 * 64 ) ) + threadIdx.x )] * T3[0];
)");
}

// Under a guard that differs by thread a load is no value of all: some threads do not make it.
TEST_F(LowerThreadLoops, LoadsOfSomeThreadsAreNotAlikeForAll) {
  TensorView* scale = input({1, 1});
  TensorView* x = input({4, 100});
  fusion_.addOutput(mul(x, exp(scale)));
  for (TensorView* tv : fusion_.allTvs()) {
    if (!tv->isFusionInput()) {
      tv->split(1, 64);
      bind(tv, 2, ParallelType::TIDx);
    }
  }
  inlineMost();
  EXPECT_EQ(inLoops({{1, 1}, {4, 100}}), R"(
  FOR j0 in iS6{4} extent 4:
    FOR j1 in iS10{2} extent 2:
      FOR ALL THREADS x < ( minimum(64, ( 100 - ( j1 * 64 ) )) ):
        T2_l = ALLOCATE(local, size=1, dtype=float)
        T2[0] = exp(T0[0]);
        T3[( ( ( j0 * 100 ) + ( j1 * 64 ) ) + threadIdx.x )] = T1[( ( ( j0 * 100 ) + ( j1 * 64 ) ) + threadIdx.x )] * T2[0];
)");
}

// exp of a row's register does not change in the loop over tiles.
TEST_F(LowerThreadLoops, WhatALoopDoesNotChangeMovesInFrontOfIt) {
  TensorView* bias = input({64});
  TensorView* x = input({3, 64});
  fusion_.addOutput(mul(x, exp(broadcast(bias, {true, false}))));
  const TensorView* loaded = bias->cacheAfter();
  for (TensorView* tv : fusion_.allTvs()) {
    if (!tv->isFusionInput()) {
      bind(tv, tv->nDims() - 1, ParallelType::TIDx);
      if (tv != loaded && !tv->isFusionOutput()) {
        tv->inlineAt(1);
      }
    }
  }
  EXPECT_EQ(inLoops({{64}, {3, 64}}), R"(
  T3_l = ALLOCATE(local, size=1, dtype=float)
  FOR ALL THREADS:
    T5_l = ALLOCATE(local, size=1, dtype=float)
    T2_l = ALLOCATE(local, size=1, dtype=float)
    T5[0] = Set( T0[threadIdx.x], cache_op=Unspecified )
    T2[0] = Set( T5[0], cache_op=Unspecified )
    T3[0] = exp(T2[0]);
  FOR j0 in iS7{3} extent 3:
    FOR ALL THREADS:
      T4[( ( j0 * 64 ) + threadIdx.x )] = T1[( ( j0 * 64 ) + threadIdx.x )] * T3[0];
)");
}

// The row of a transposed tensor changes after 40 elements: neither quotient nor remainder is
// computed by element.
TEST_F(LowerThreadLoops, PiecesEndWhereAQuotientChanges) {
  TensorView* y = permute(input({40, 30}), {1, 0});
  fusion_.addOutput(y);
  y->merge(0, 1);
  y->split(0, 64);
  bind(y, 1, ParallelType::TIDx);
  EXPECT_EQ(textInLoops({{40, 30}}), R"(
  for (nvfuser_index_t j0 = 0; j0 < 19; ++j0) {
    const nvfuser_index_t idx0 = j0 * 24;
    const nvfuser_index_t idx4 = j0 * 64;
    for (nvfuser_index_t x0 = 0; x0 < nvf::minimum(64, 1200 - (j0 * 64));) {
      const nvfuser_index_t x0_end = x0 + nvf::minimum(nvf::minimum(64, 1200 - (j0 * 64)) - x0, 40 - ((idx0 + x0) % 40));
      if (x0 < 0 || x0_end > 64) __builtin_unreachable();
      const nvfuser_index_t idx1 = (idx0 + x0) % 40;
      const nvfuser_index_t idx2 = (idx0 + x0) / 40;
      #pragma GCC ivdep
      for (nvfuser_index_t tx = x0; tx < x0_end; ++tx) {
        const nvfuser_index_t idx3 = ((idx1 + (tx - x0)) * 30) + j0 + idx2;
        const nvfuser_index_t idx5 = idx4 + tx;
        T1[idx5] = T0[idx3];
      }
      x0 = x0_end;
    }
  }
)");
}

// Of positions in rows that a slice makes shorter: a quotient and a remainder in each of its
// pieces.
TEST_F(LowerThreadLoops, PiecesOfTwoMergedDimensions) {
  TensorView* y = slice(input({6, 50, 30}), Sizes{0, 5, 0}, Sizes{6, 25, 30});
  fusion_.addOutput(y);
  y->merge(1);
  y->merge(0);
  y->split(0, 64);
  bind(y, 1, ParallelType::TIDx);
  EXPECT_EQ(textInLoops({{6, 50, 30}}), R"(
  for (nvfuser_index_t j0 = 0; j0 < 57; ++j0) {
    const nvfuser_index_t idx0 = j0 * 64;
    const nvfuser_index_t idx1 = j0 * 4;
    const nvfuser_index_t idx2 = j0 * 2;
    for (nvfuser_index_t x0 = 0; x0 < nvf::minimum(64, 3600 - (j0 * 64));) {
      const nvfuser_index_t x0_end = x0 + nvf::minimum(nvf::minimum(nvf::minimum(64, 3600 - (j0 * 64)) - x0, 600 - ((idx0 + x0) % 600)), 30 - ((idx1 + x0) % 30));
      if (x0 < 0 || x0_end > 64) __builtin_unreachable();
      const nvfuser_index_t idx3 = (idx1 + x0) % 30;
      const nvfuser_index_t idx4 = (((idx0 + x0) / 600) * 1500) + (((idx2 + ((idx1 + x0) / 30)) % 20) * 30);
      #pragma GCC ivdep
      for (nvfuser_index_t tx = x0; tx < x0_end; ++tx) {
        const nvfuser_index_t idx5 = idx4 + (idx3 + (tx - x0)) + 150;
        const nvfuser_index_t idx6 = idx0 + tx;
        T1[idx6] = T0[idx5];
      }
      x0 = x0_end;
    }
  }
)");
}

// A pad reads the tensor on one side of a comparison.
TEST_F(LowerThreadLoops, PiecesEndWhereAComparisonChanges) {
  TensorView* y = pad(input({200}), std::vector<Val*>{IrBuilder::index(30), IrBuilder::index(50)});
  fusion_.addOutput(y);
  y->split(0, 64);
  bind(y, 1, ParallelType::TIDx);
  EXPECT_EQ(textInLoops({{200}}), R"(
  for (nvfuser_index_t j0 = 0; j0 < 5; ++j0) {
    const nvfuser_index_t idx0 = 30 - (j0 * 64);
    const nvfuser_index_t idx1 = 230 - (j0 * 64);
    const nvfuser_index_t idx2 = j0 * 64;
    for (nvfuser_index_t x0 = 0; x0 < nvf::minimum(64, 280 - (j0 * 64));) {
      const nvfuser_index_t x0_end = x0 + nvf::minimum(nvf::minimum(nvf::minimum(64, 280 - (j0 * 64)) - x0, ((idx0 - x0) > 0) ? (idx0 - x0) : 64), ((idx1 - x0) > 0) ? (idx1 - x0) : 64);
      if (x0 < 0 || x0_end > 64) __builtin_unreachable();
      #pragma GCC ivdep
      for (nvfuser_index_t tx = x0; tx < x0_end; ++tx) {
        const nvfuser_index_t idx3 = (idx2 + tx) - 30;
        const nvfuser_index_t idx4 = idx2 + tx;
        T1[idx4] = (((idx2 + x0) >= 30) && ((idx2 + x0) < 230)) ? T0[idx3] : 0.0f;
      }
      x0 = x0_end;
    }
  }
)");
}

// Divisions by small constants are multiplications and shifts: no pieces.
TEST_F(LowerThreadLoops, ShortDimensionsMakeNoPieces) {
  TensorView* y = permute(input({8, 30}), {1, 0});
  fusion_.addOutput(y);
  y->merge(0, 1);
  y->split(0, 64);
  bind(y, 1, ParallelType::TIDx);
  EXPECT_EQ(textInLoops({{8, 30}}), R"(
  for (nvfuser_index_t j0 = 0; j0 < 4; ++j0) {
    const nvfuser_index_t idx0 = j0 * 8;
    const nvfuser_index_t idx2 = j0 * 64;
    #pragma GCC ivdep
    for (nvfuser_index_t tx = 0; tx < nvf::minimum(64, 240 - (j0 * 64)); ++tx) {
      const nvfuser_index_t idx1 = ((tx % 8) * 30) + idx0 + (tx / 8);
      const nvfuser_index_t idx3 = idx2 + tx;
      T1[idx3] = T0[idx1];
    }
  }
)");
}

// A tile along threads, then the carry from tile to tile.
TEST_F(LowerThreadLoops, Scan) {
  TensorView* x = input({8, 100});
  TensorView* out = cumsum(x, 1);
  fusion_.addOutput(out);
  TensorView* cache = x->cacheAfter();
  TensorView* scan = out->cacheBefore();
  for (TensorView* tv : {cache, scan, out}) {
    tv->split(1, 2);
    tv->split(1, 32);
    bind(tv, 0, ParallelType::BIDx);
    bind(tv, 2, ParallelType::TIDx);
  }
  cache->inlineAt(3);
  scan->inlineAt(3);
  EXPECT_EQ(textInLoops({{8, 100}}), R"(
  const nvfuser_index_t bx = blockIdx.x;
  Array<float, 32> T3_carry;
  T3_carry.set(0.0f);
  const nvfuser_index_t idx0 = bx * 100;
  for (nvfuser_index_t j1 = 0; j1 < 2; ++j1) {
    Array<float, 64, 16> T2;
    Array<float, 64, 16> T3;
    const nvfuser_index_t idx1 = idx0 + (j1 * 64);
    for (nvfuser_index_t j5 = 0; j5 < 2; ++j5) {
      #pragma GCC ivdep
      for (nvfuser_index_t tx = 0; tx < nvf::minimum(32, 50 - (j1 * 32)); ++tx) {
        const nvfuser_index_t idx2 = idx1 + (tx * 2) + j5;
        T2[j5 * 32 + tx] = T0[idx2];
      }
    }
    for (nvfuser_index_t j4 = 0; j4 < 2; ++j4) {
      #pragma GCC ivdep
      for (nvfuser_index_t tx = 0; tx < 32; ++tx) {
        T3[j4 * 32 + tx] = 0.0f;
      }
      #pragma GCC ivdep
      for (nvfuser_index_t tx = 0; tx < nvf::minimum(32, 50 - (j1 * 32)); ++tx) {
        T3[j4 * 32 + tx] = T2[j4 * 32 + tx];
      }
    }
    nvf::scanThreads<nvf::SumOp, 32, 32, 2, 32, 1>(&T3[0], &T3_carry[0]);
    for (nvfuser_index_t j3 = 0; j3 < 2; ++j3) {
      #pragma GCC ivdep
      for (nvfuser_index_t tx = 0; tx < nvf::minimum(32, 50 - (j1 * 32)); ++tx) {
        const nvfuser_index_t idx3 = idx1 + (tx * 2) + j3;
        T1[idx3] = T3[j3 * 32 + tx];
      }
    }
  }
)");
}

// The blocks' partials are combined by the last one.
TEST_F(LowerThreadLoops, ReductionOverTheGrid) {
  TensorView* s = sum(input({512}), Sizes{0});
  fusion_.addOutput(s);
  s->split(0, 64);
  bind(s, 0, ParallelType::BIDx);
  bind(s, 1, ParallelType::TIDx);
  EXPECT_EQ(textInLoops({{512}}), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  bool last_block2 = false;
  Array<float, 64, 16> T2;
  const nvfuser_index_t idx0 = bx * 64;
  #pragma GCC ivdep
  for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
    T2[tx] = 0.0f;
    const nvfuser_index_t idx1 = idx0 + tx;
    T2[tx] = T2[tx] + T0[idx1];
  }
  last_block2 = nvf::reduceThreadsOfGrid<true, false, false, true, false, false, 64, 1, 1>(blockIdx, gridDim, grid_workspace + 0, semaphores + 0, nvf::TermOfThreads<nvf::ReduceTerm<nvf::SumOp, float, 1>, 1, 64, 1>{{&T2[0]}});
  if (last_block2) {
    #pragma GCC ivdep
    for (nvfuser_index_t tx = 0; tx < 1; ++tx) {
      T1[0] = T2[tx];
    }
  }
)");
}

// Of 32 terms each, and what is left; the minimum is added to as it was.
TEST_F(LowerThreadLoops, LongSumsAreMadeOfPartialOnes) {
  TensorView* x = input({-1, 64});
  TensorView* s = sum(x, Sizes{0});
  TensorView* least = min(x, Sizes{0});
  fusion_.addOutput(s);
  fusion_.addOutput(least);
  bind(s, 1, ParallelType::TIDx);
  bind(least, 1, ParallelType::TIDx);
  EXPECT_EQ(textInLoops({{200, 64}}), R"(
  Array<float, 64, 16> T3;
  Array<float, 64, 16> T4;
  #pragma GCC ivdep
  for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
    T3[tx] = 0.0f;
  }
  for (nvfuser_index_t c4 = 0; c4 < nvf::ceilDiv(T0.logical_size[0], 32); ++c4) {
    Array<float, 64, 16> T5;
    #pragma GCC ivdep
    for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
      T5[tx] = 0.0f;
    }
    for (nvfuser_index_t j4 = c4 * 32; j4 < nvf::minimum((c4 * 32) + 32, T0.logical_size[0]); ++j4) {
      const nvfuser_index_t idx0 = j4 * 64;
      #pragma GCC ivdep
      for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
        const nvfuser_index_t idx1 = idx0 + tx;
        T5[tx] = T5[tx] + T0[idx1];
      }
    }
    #pragma GCC ivdep
    for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
      T3[tx] = T3[tx] + T5[tx];
    }
  }
  #pragma GCC ivdep
  for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
    T1[tx] = T3[tx];
    T4[tx] = nvf::bitsOf<float>(0x7f800000u);
  }
  for (nvfuser_index_t j1 = 0; j1 < T0.logical_size[0]; ++j1) {
    const nvfuser_index_t idx2 = j1 * 64;
    #pragma GCC ivdep
    for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
      const nvfuser_index_t idx3 = idx2 + tx;
      T4[tx] = nvf::minimum(T4[tx], T0[idx3]);
    }
  }
  #pragma GCC ivdep
  for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
    T2[tx] = T4[tx];
  }
)");
}

// Vectors of a thread lie together; accesses by element have neighbouring threads together.
TEST_F(LowerThreadLoops, LayoutOfRegisters) {
  TensorView* x = input({4, 256});
  TensorView* out = mul(x, ofRows(max(x, {1})));
  fusion_.addOutput(out);
  TensorView* loaded = x->cacheAfter();
  for (TensorView* tv : fusion_.allTvs()) {
    if (tv->isFusionInput()) {
      continue;
    }
    if (tv->nDims() == 2) {
      tv->split(1, 4);
      bind(tv, 1, ParallelType::TIDx);
    }
    bind(tv, 0, ParallelType::BIDx);
  }
  bind(loaded, 2, ParallelType::Vectorize);
  inlineMost();
  EXPECT_EQ(textInLoops({{4, 256}}), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  Array<float, 256, 16> T4;
  Array<float, 64, 16> T1;
  const nvfuser_index_t idx0 = bx * 256;
  #pragma GCC ivdep
  for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
    const nvfuser_index_t idx1 = idx0 + (tx * 4);
    nvf::loadGlobal<float, 4>(&T4[(tx) * 4], &T0[idx1]);
    T1[tx] = nvf::bitsOf<float>(0xff800000u);
  }
  for (nvfuser_index_t j4 = 0; j4 < 4; ++j4) {
    #pragma GCC ivdep
    for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
      T1[tx] = nvf::maximum(T1[tx], T4[(tx) * 4 + j4]);
    }
  }
  nvf::reduceThreads<true, false, false, 64, 1, 1>(nvf::TermOfThreads<nvf::ReduceTerm<nvf::MaxOp, float, 1>, 1, 64, 1>{{&T1[0]}});
  float T2 = T1[0];
  for (nvfuser_index_t j2 = 0; j2 < 4; ++j2) {
    #pragma GCC ivdep
    for (nvfuser_index_t tx = 0; tx < 64; ++tx) {
      const nvfuser_index_t idx2 = idx0 + (tx * 4) + j2;
      T3[idx2] = T4[(tx) * 4 + j2] * T2;
    }
  }
)");
}

class ThreadsOfFibers : public LowerThreadLoops {
 protected:
  // The pass changes nothing.
  void expectFibers() {
    EXPECT_EQ(text().find("NVF_THREADS_IN_LOOPS"), std::string::npos) << text();
    EXPECT_EQ(after("put threads in loops").find("FOR ALL THREADS"), std::string::npos);
  }
};

TEST_F(ThreadsOfFibers, ClustersWaitForEachOther) {
  TensorView* s = sum(input({4, 256}), Sizes{1});
  fusion_.addOutput(s);
  s->split(1, 64);
  s->axis(1)->parallelizeCluster(ParallelType::BIDx);
  bind(s, 2, ParallelType::TIDx);
  expectFibers();
}

TEST_F(ThreadsOfFibers, AsynchronousCopies) {
  TensorView* x = input({64});
  fusion_.addOutput(neg(x));
  TensorView* copy = x->cacheAfter(LoadStoreOpType::CpAsync);
  copy->setMemoryType(MemoryType::Shared);
  for (TensorView* tv : {copy, fusion_.outputs()[0]->as<TensorView>()}) {
    bind(tv, 0, ParallelType::TIDx);
  }
  expectFibers();
}

// Only the launch knows how many threads there are.
TEST_F(ThreadsOfFibers, AsManyThreadsAsTheTensorIsLong) {
  TensorView* y = neg(input({-1}));
  fusion_.addOutput(y);
  bind(y, 0, ParallelType::TIDx);
  expectFibers();
}

// The registers of all threads together would not fit the stack.
TEST_F(ThreadsOfFibers, ManyRegisters) {
  TensorView* x = input({256, 1024});
  TensorView* e = exp(x);
  TensorView* out = mul(e, ofRows(sum(e, Sizes{1})));
  fusion_.addOutput(out);
  for (TensorView* tv : fusion_.allTvs()) {
    if (!tv->isFusionInput()) {
      bind(tv, 0, ParallelType::TIDx);
    }
  }
  inlineMost();
  expectFibers();
}

} // namespace
} // namespace nvfuser::test
