// SPDX-License-Identifier: BSD-3-Clause
// The pass "peel predicates": iterations of unrolled loops that need none.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

class LowerPeelPredicates : public LoweringTest {
 protected:
  // The sum of so many numbers by two blocks of four threads, each of which has four at once.
  std::string afterSumOf(int64_t numbers) {
    TensorView* x = input({numbers});
    TensorView* total = sum(x, Sizes{0});
    fusion_.addOutput(total);
    TensorView* load = x->cacheAfter();
    for (TensorView* tv : {load, total}) {
      tv->split(0, 4);
      tv->split(0, 4);
      tv->axis(0)->parallelize(ParallelType::BIDx);
      tv->axis(1)->parallelize(ParallelType::Unroll);
      tv->axis(2)->parallelize(ParallelType::TIDx);
    }
    return after("peel predicates");
  }

  using Sizes = std::vector<int64_t>;
};

// The sum is the first to read what was loaded.
TEST_F(LowerPeelPredicates, AllButTheLastIteration) {
  EXPECT_EQ(afterSumOf(30), R"(
  T2_l = ALLOCATE(local, size=4, dtype=float)
  T3_l = ALLOCATE(local, size=1, dtype=float)
  FOR blockIdx.x in iblockIdx.x5{2} extent 2:
    FOR u4 in iUR6{4} extent 4:
      FOR threadIdx.x in ithreadIdx.x4{4} extent 4:
        IF ( ( u4 < 3 ) || ( ( ( ( blockIdx.x * 16 ) + ( u4 * 4 ) ) + threadIdx.x ) < 30 ) ):
          T2[u4] = Set( T0[( ( ( blockIdx.x * 16 ) + ( u4 * 4 ) ) + threadIdx.x )], cache_op=Unspecified )
  T3[0] = Set( float(0), cache_op=Unspecified )
  FOR blockIdx.x in rblockIdx.x9{2} extent 2:
    FOR u1 in rUR10{4} extent 4:
      FOR threadIdx.x in rthreadIdx.x8{4} extent 4:
        IF ( ( ( ( blockIdx.x * 16 ) + ( u1 * 4 ) ) + threadIdx.x ) < 30 ):
          T3[0] = T3[0] + T2[u1];
  REDUCE threadIdx.x blockIdx.x: T3[1]
  IF ( ( threadIdx.x == 0 ) && last_block3 ):
    T1[0] = Set( T3[0], cache_op=Unspecified )
)");
}

// Several loads are issued together, all with the predicate.
TEST_F(LowerPeelPredicates, FewIterations) {
  EXPECT_EQ(afterSumOf(26), R"(
  T2_l = ALLOCATE(local, size=4, dtype=float)
  T3_l = ALLOCATE(local, size=1, dtype=float)
  FOR blockIdx.x in iblockIdx.x5{2} extent 2:
    FOR u4 in iUR6{4} extent 4:
      FOR threadIdx.x in ithreadIdx.x4{4} extent 4:
        IF ( ( ( ( blockIdx.x * 16 ) + ( u4 * 4 ) ) + threadIdx.x ) < 26 ):
          T2[u4] = Set( T0[( ( ( blockIdx.x * 16 ) + ( u4 * 4 ) ) + threadIdx.x )], cache_op=Unspecified )
  T3[0] = Set( float(0), cache_op=Unspecified )
  FOR blockIdx.x in rblockIdx.x9{2} extent 2:
    FOR u1 in rUR10{4} extent 4:
      FOR threadIdx.x in rthreadIdx.x8{4} extent 4:
        IF ( ( ( ( blockIdx.x * 16 ) + ( u1 * 4 ) ) + threadIdx.x ) < 26 ):
          T3[0] = T3[0] + T2[u1];
  REDUCE threadIdx.x blockIdx.x: T3[1]
  IF ( ( threadIdx.x == 0 ) && last_block3 ):
    T1[0] = Set( T3[0], cache_op=Unspecified )
)");
}

TEST_F(LowerPeelPredicates, TheSecondPassOverWhatWasLoaded) {
  TensorView* x = input({30});
  TensorView* total = sum(x, Sizes{0});
  TensorView* rest = sub(x, broadcast(total, {true}));
  fusion_.addOutput(rest);
  TensorView* load = x->cacheAfter();
  for (TensorView* tv : {load, total, rest}) {
    tv->split(0, 8);
    tv->axis(0)->parallelize(ParallelType::Unroll);
    tv->axis(1)->parallelize(ParallelType::TIDx);
  }
  EXPECT_EQ(after("peel predicates"), R"(
  T4_l = ALLOCATE(local, size=4, dtype=float)
  T1_l = ALLOCATE(local, size=1, dtype=float)
  T2_l = ALLOCATE(local, size=1, dtype=float)
  FOR u5 in iUR5{4} extent 4:
    FOR threadIdx.x in ithreadIdx.x6{8} extent 8:
      IF ( ( u5 < 3 ) || ( ( ( u5 * 8 ) + threadIdx.x ) < 30 ) ):
        T4[u5] = Set( T0[( ( u5 * 8 ) + threadIdx.x )], cache_op=Unspecified )
  T1[0] = Set( float(0), cache_op=Unspecified )
  FOR u3 in rUR7{4} extent 4:
    FOR threadIdx.x in rthreadIdx.x8{8} extent 8:
      IF ( ( ( u3 * 8 ) + threadIdx.x ) < 30 ):
        T1[0] = T1[0] + T4[u3];
  REDUCE threadIdx.x: T1[1]
  FOR 0 in bS2{1} extent 1:
    T2[0] = Set( T1[0], cache_op=Unspecified )
  FOR u0 in iUR9{4} extent 4:
    FOR threadIdx.x in ithreadIdx.x10{8} extent 8:
      IF ( ( u0 < 3 ) || ( ( ( u0 * 8 ) + threadIdx.x ) < 30 ) ):
        T3[( ( u0 * 8 ) + threadIdx.x )] = T4[u0] - T2[0];
)");
}

} // namespace
} // namespace nvfuser::test
