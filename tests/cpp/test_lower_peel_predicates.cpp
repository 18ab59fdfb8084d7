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
        IF ( ( u1 < 3 ) || ( ( ( ( blockIdx.x * 16 ) + ( u1 * 4 ) ) + threadIdx.x ) < 30 ) ):
          T3[0] = T3[0] + T2[u1];
  REDUCE threadIdx.x blockIdx.x: T3[1]
  IF ( ( threadIdx.x == 0 ) && last_block3 ):
    T1[0] = Set( T3[0], cache_op=Unspecified )
)");
}

// Several loads are issued together, all with the predicate; what is computed of them has none.
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
        IF ( ( u1 < 2 ) || ( ( ( ( blockIdx.x * 16 ) + ( u1 * 4 ) ) + threadIdx.x ) < 26 ) ):
          T3[0] = T3[0] + T2[u1];
  REDUCE threadIdx.x blockIdx.x: T3[1]
  IF ( ( threadIdx.x == 0 ) && last_block3 ):
    T1[0] = Set( T3[0], cache_op=Unspecified )
)");
}

} // namespace
} // namespace nvfuser::test
