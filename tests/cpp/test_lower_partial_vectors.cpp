// SPDX-License-Identifier: BSD-3-Clause
// The pass "split partial vectors": copies by vectors of rows that begin within a vector.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

using B = IrBuilder;

// Rows of 10 elements by vectors of 4: every second one begins within a vector.
class LowerPartialVectors : public LoweringTest {
 protected:
  void SetUp() override {
    TensorView* x = input({4, 10});
    store_ = set(x);
    fusion_.addOutput(store_);
    load_ = x->cacheAfter();
    for (TensorView* tv : {load_, store_}) {
      auto [row, column] = IterDomain::align(tv->axis(0), tv->axis(1), B::index(10), 4);
      tv->setLoopDomain({row, column});
      tv->split(1, 4);
      tv->axis(2)->parallelize(ParallelType::Vectorize);
    }
    inlineMost();
  }
  TensorView* load_ = nullptr;
  TensorView* store_ = nullptr;
};

// A load takes what else the vector holds, but at the end of the tensor; a store does not.
TEST_F(LowerPartialVectors, LoadAndStore) {
  EXPECT_EQ(after("split partial vectors"), R"(
  FOR j0 in iS6{4} extent 4:
    FOR j1 in iS8{4} extent 4:
      T2_l = ALLOCATE(local, size=4, dtype=float, align=4)
      IF ( j1 < 3 ):
        IF ( ( ( j0 * 5 ) + ( j1 * 2 ) ) < ( ( j0 % 2 ) + 19 ) ):
          FOR 0 in iV9{4} extent 4:
            T2[0] = Set( T0[( ( ( j0 * 10 ) + ( j1 * 4 ) ) - ( ( j0 % 2 ) * 2 ) )], cache_op=Unspecified )
        ELSE:
          FOR k3 in iV9{4} extent 4:
            T2[k3] = Set( T0[( ( j0 * 10 ) + ( minimum(9, ( maximum(0, ( ( ( j1 * 4 ) - ( ( j0 % 2 ) * 2 ) ) + k3 )) )) ) )], cache_op=Unspecified )
      IF ( j1 < 3 ):
        IF ( ( ( j0 % 2 ) <= ( j1 * 2 ) ) && ( ( j1 * 2 ) < ( ( j0 % 2 ) + 4 ) ) ):
          FOR 0 in iV9{4} extent 4:
            T1[( ( ( j0 * 10 ) + ( j1 * 4 ) ) - ( ( j0 % 2 ) * 2 ) )] = Set( T2[0], cache_op=Unspecified )
        ELSE:
          FOR k2 in iV9{4} extent 4:
            IF ( ( ( ( j0 % 2 ) * 2 ) <= ( ( j1 * 4 ) + k2 ) ) && ( ( ( j1 * 4 ) + k2 ) < ( ( ( j0 % 2 ) * 2 ) + 10 ) ) ):
              T1[( ( ( ( j0 * 10 ) + ( j1 * 4 ) ) - ( ( j0 % 2 ) * 2 ) ) + k2 )] = Set( T2[k2], cache_op=Unspecified )
)");
}

// In an unrolled loop only the first and the last vectors of a row can be partial.
TEST_F(LowerPartialVectors, InnerVectorsAreWhole) {
  for (TensorView* tv : {load_, store_}) {
    tv->axis(1)->parallelize(ParallelType::Unroll);
  }
  EXPECT_EQ(after("peel predicates"), R"(
  FOR j0 in iS6{4} extent 4:
    FOR u1 in iUR8{4} extent 4:
      T2_l = ALLOCATE(local, size=4, dtype=float, align=4)
      IF ( u1 < 3 ):
        IF ( ( u1 < 2 ) || ( ( ( j0 * 5 ) + ( u1 * 2 ) ) < ( ( j0 % 2 ) + 19 ) ) ):
          FOR 0 in iV9{4} extent 4:
            T2[0] = Set( T0[( ( ( j0 * 10 ) + ( u1 * 4 ) ) - ( ( j0 % 2 ) * 2 ) )], cache_op=Unspecified )
        ELSE:
          FOR k3 in iV9{4} extent 4:
            T2[k3] = Set( T0[( ( j0 * 10 ) + ( minimum(9, ( maximum(0, ( ( ( u1 * 4 ) - ( ( j0 % 2 ) * 2 ) ) + k3 )) )) ) )], cache_op=Unspecified )
      IF ( u1 < 3 ):
        IF ( ( ( u1 >= 1 ) && ( u1 < 2 ) ) || ( ( ( j0 % 2 ) <= ( u1 * 2 ) ) && ( ( u1 * 2 ) < ( ( j0 % 2 ) + 4 ) ) ) ):
          FOR 0 in iV9{4} extent 4:
            T1[( ( ( j0 * 10 ) + ( u1 * 4 ) ) - ( ( j0 % 2 ) * 2 ) )] = Set( T2[0], cache_op=Unspecified )
        ELSE:
          FOR k2 in iV9{4} extent 4:
            IF ( ( ( ( j0 % 2 ) * 2 ) <= ( ( u1 * 4 ) + k2 ) ) && ( ( ( u1 * 4 ) + k2 ) < ( ( ( j0 % 2 ) * 2 ) + 10 ) ) ):
              T1[( ( ( ( j0 * 10 ) + ( u1 * 4 ) ) - ( ( j0 % 2 ) * 2 ) ) + k2 )] = Set( T2[k2], cache_op=Unspecified )
)");
}

} // namespace
} // namespace nvfuser::test
