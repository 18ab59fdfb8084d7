// SPDX-License-Identifier: BSD-3-Clause
// The passes "prefetch loads" and "wait for loads": what a loop reads next is under way while it
// works on what it has read before.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

// Sums of rows, each loaded by the threads of a block into registers.
class LowerPrefetchLoads : public LoweringTest {
 protected:
  void define(int64_t rows) {
    TensorView* x = input({rows, 64});
    TensorView* s = sum(x, Sizes{1});
    fusion_.addOutput(s);
    TensorView* cache = x->cacheAfter();
    for (TensorView* tv : {cache, s}) {
      tv->axis(1)->parallelize(ParallelType::TIDx);
    }
    cache->inlineAt(1);
    cache->circularBuffer(2);
  }
};

// The load of the next row is issued before this one is reduced.
TEST_F(LowerPrefetchLoads, OneRowAhead) {
  define(-1);
  EXPECT_EQ(changesOf("prefetch loads"), R"(
+  T4_l = ALLOCATE(local, size=1, dtype=float)
+  IF ( 0 < i0 ):
+    FOR threadIdx.x in ithreadIdx.x5{64} extent 64:
+      T4[0] = Set( T0[threadIdx.x], cache_op=Unspecified )
   FOR j0 in iS4{i0} extent i0:
-    FOR threadIdx.x in ithreadIdx.x5{64} extent 64:
-      T2[0] = Set( T0[( ( j0 * 64 ) + threadIdx.x )], cache_op=Unspecified )
+    T2 = T4
+    IF ( ( j0 + 1 ) < i0 ):
+      FOR threadIdx.x in ithreadIdx.x5{64} extent 64:
+        T4[0] = Set( T0[( ( ( j0 * 64 ) + threadIdx.x ) + 64 )], cache_op=Unspecified )
)");
}

// Rows that there certainly are need no guard.
TEST_F(LowerPrefetchLoads, FirstOfAKnownNumber) {
  define(5);
  EXPECT_EQ(changesOf("prefetch loads"), R"(
+  T4_l = ALLOCATE(local, size=1, dtype=float)
+  FOR threadIdx.x in ithreadIdx.x5{64} extent 64:
+    T4[0] = Set( T0[threadIdx.x], cache_op=Unspecified )
   FOR j0 in iS4{5} extent 5:
-    FOR threadIdx.x in ithreadIdx.x5{64} extent 64:
-      T2[0] = Set( T0[( ( j0 * 64 ) + threadIdx.x )], cache_op=Unspecified )
+    T2 = T4
+    IF ( ( j0 + 1 ) < 5 ):
+      FOR threadIdx.x in ithreadIdx.x5{64} extent 64:
+        T4[0] = Set( T0[( ( ( j0 * 64 ) + threadIdx.x ) + 64 )], cache_op=Unspecified )
)");
}

// What all rows share is in registers before the loop, or each iteration would wait for the loads
// of the next one.
TEST_F(LowerPrefetchLoads, WhatIsKeptHasArrivedBeforeTheLoop) {
  TensorView* x = input({-1, 64});
  TensorView* weight = input({64});
  TensorView* wide = broadcast(weight, {true, false});
  TensorView* product = mul(x, wide);
  TensorView* s = sum(product, Sizes{1});
  fusion_.addOutput(s);
  TensorView* weights = weight->cacheAfter();
  TensorView* rows = x->cacheAfter();
  weights->axis(0)->parallelize(ParallelType::TIDx);
  for (TensorView* tv : {rows, wide, product, s}) {
    tv->axis(1)->parallelize(ParallelType::TIDx);
  }
  wide->inlineAt(2);
  product->inlineAt(2);
  rows->inlineAt(1);
  rows->circularBuffer(2);
  EXPECT_EQ(changesOf("wait for loads"), R"(
+  WAIT FOR T5
)");
  EXPECT_NE(after("wait for loads").find("  WAIT FOR T5\n  FOR j0"), std::string::npos);
}

} // namespace
} // namespace nvfuser::test
