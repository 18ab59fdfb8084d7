// SPDX-License-Identifier: BSD-3-Clause
// The pass "prefetch reductions": while the blocks of a cluster combine what they have of a row,
// they reduce the next one. What a missing wait does: test_lower_reductions.cpp.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

class LowerPrefetchReductions : public LoweringTest {
 protected:
  // Rows one after the other, each divided by its sum over a cluster.
  TensorView* define() {
    TensorView* x = input({-1, 256});
    TensorView* total = sum(x, Sizes{1});
    fusion_.addOutput(div(x, broadcast(total, {false, true})));
    x->cacheAfter();
    for (TensorView* tv : fusion_.allTvs()) {
      if (tv->isFusionInput() || tv->nDims() < 2) {
        continue;
      }
      tv->split(1, 64);
      tv->axis(1)->parallelizeCluster(ParallelType::BIDx);
      tv->axis(2)->parallelize(ParallelType::TIDx);
    }
    inlineAllAt(total, 1);
    return total;
  }
};

// The row is read on both sides of the cluster reduction: there are two of it.
TEST_F(LowerPrefetchReductions, OneRowAhead) {
  define()->circularBuffer(2);
  EXPECT_EQ(changesOf("prefetch reductions"), R"(
-  FOR j0 in iS4{i0} extent i0:
-    T4_l = ALLOCATE(local, size=1, dtype=float)
-    T1_l = ALLOCATE(local, size=1, dtype=float)
-    T2_l = ALLOCATE(local, size=1, dtype=float)
+  T5_l = ALLOCATE(local, size=1, dtype=float)
+  T6_l = ALLOCATE(local, size=1, dtype=float)
+  IF ( 0 < i0 ):
     FOR blockIdx.x in iblockIdx.x10{4}_c extent 4:
       FOR threadIdx.x in ithreadIdx.x11{64} extent 64:
-        T4[0] = Set( T0[( ( ( j0 * 256 ) + ( blockIdx.x * 64 ) ) + threadIdx.x )], cache_op=Unspecified )
-    T1[0] = Set( float(0), cache_op=Unspecified )
+        T5[0] = Set( T0[( ( blockIdx.x * 64 ) + threadIdx.x )], cache_op=Unspecified )
+    T6[0] = Set( float(0), cache_op=Unspecified )
     FOR blockIdx.x in rblockIdx.x12{4}_c extent 4:
       FOR threadIdx.x in rthreadIdx.x13{64} extent 64:
-        T1[0] = T1[0] + T4[0];
-    REDUCE threadIdx.x clusterIdx.x: T1[1]
+        T6[0] = T6[0] + T5[0];
+    BEGIN REDUCE threadIdx.x clusterIdx.x: T6[1]
+  FOR j0 in iS4{i0} extent i0:
+    T4_l = ALLOCATE(local, size=1, dtype=float)
+    T1_l = ALLOCATE(local, size=1, dtype=float)
+    T2_l = ALLOCATE(local, size=1, dtype=float)
+    T4 = T5
+    IF ( ( j0 + 1 ) < i0 ):
+      FOR blockIdx.x in iblockIdx.x10{4}_c extent 4:
+        FOR threadIdx.x in ithreadIdx.x11{64} extent 64:
+          T5[0] = Set( T0[( ( ( ( j0 * 256 ) + ( blockIdx.x * 64 ) ) + threadIdx.x ) + 256 )], cache_op=Unspecified )
+      T6[0] = Set( float(0), cache_op=Unspecified )
+      FOR blockIdx.x in rblockIdx.x12{4}_c extent 4:
+        FOR threadIdx.x in rthreadIdx.x13{64} extent 64:
+          T6[0] = T6[0] + T5[0];
+    END REDUCE threadIdx.x clusterIdx.x: T1[1]
+    IF ( ( j0 + 1 ) < i0 ):
+      BEGIN REDUCE threadIdx.x clusterIdx.x: T6[1]
)");
}

TEST_F(LowerPrefetchReductions, OnlyWhereAskedFor) {
  define();
  EXPECT_EQ(changesOf("prefetch reductions"), "\n");
}

} // namespace
} // namespace nvfuser::test
