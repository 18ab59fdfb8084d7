// SPDX-License-Identifier: BSD-3-Clause
// The passes "find asynchronous copies" and "pipeline copies": which buffers are filled together,
// and how far ahead. What a missing wait does: test_lower_async_copies.cpp.
#include "lowering_for_test.h"

#include <transform/inlining.h>
#include <transform/propagate.h>

namespace nvfuser::test {
namespace {

// out = 2 * x of rows by blocks, columns by 64 in a loop, from shared memory.
class LowerPipelineCopies : public LoweringTest {
 protected:
  TensorView* define(LoadStoreOpType type, ParallelType copied_by, int64_t columns = 256) {
    TensorView* x = input({8, columns});
    TensorView* out = mul(x, IrBuilder::create<Val>(2.0, DataType::Double));
    fusion_.addOutput(out);
    TensorView* cache = x->cacheAfter(type);
    cache->setMemoryType(MemoryType::Shared);
    out->split(1, 64);
    transformLike(out);
    inlineAllAt(out, 2, /*best_effort=*/true);
    for (TensorView* tv : {cache, out}) {
      tv->axis(0)->parallelize(ParallelType::BIDx);
    }
    cache->axis(2)->parallelize(copied_by);
    out->axis(2)->parallelize(ParallelType::TIDx);
    return cache;
  }
  TensorView* byThreads(int64_t columns = 256) {
    return define(LoadStoreOpType::CpAsync, ParallelType::TIDx, columns);
  }
  TensorView* byBoxes() {
    return define(LoadStoreOpType::CpAsyncBulkTensorTile, ParallelType::Bulk);
  }
};

// One tile at a time: the mbarrier counts the bytes of a box.
TEST_F(LowerPipelineCopies, Boxes) {
  byBoxes();
  EXPECT_EQ(changesOf("find asynchronous copies"), R"(
+  BUFFER of T2, iteration=j1, mbarriers at 0 for 256 bytes
)");
}

TEST_F(LowerPipelineCopies, CircularBoxes) {
  byBoxes()->circularBuffer(3, 2);
  EXPECT_EQ(changesOf("find asynchronous copies"), R"(
+  BUFFER of T2, stages=3, distance=2, iteration=j1, mbarriers at 0 for 256 bytes
)");
}

// What threads copy is waited for by these: there is no mbarrier.
TEST_F(LowerPipelineCopies, CircularCopiesByThreads) {
  byThreads()->circularBuffer(2, 1);
  EXPECT_EQ(changesOf("find asynchronous copies"), R"(
+  BUFFER of T2, stages=2, distance=1, iteration=j1
)");
}

// Copies that nothing asks to run ahead are waited for as they are.
TEST_F(LowerPipelineCopies, NoneAhead) {
  byThreads();
  EXPECT_EQ(changesOf("find asynchronous copies"), "\n");
  EXPECT_EQ(changesOf("pipeline copies"), "\n");
}

TEST_F(LowerPipelineCopies, OneIterationAhead) {
  byThreads()->circularBuffer(2, 1);
  EXPECT_EQ(changesOf("pipeline copies"), R"(
   FOR blockIdx.x in iblockIdx.x4{8} extent 8:
-    FOR j1 in iS8{4} extent 4:
+    FOR 0 in iS8{4} extent 1:
       FOR threadIdx.x in ithreadIdx.x9{64} extent 64:
-        T2[( ( ( j1 % 2 ) * 64 ) + threadIdx.x )] = CpAsync( T0[( ( ( blockIdx.x * 256 ) + ( j1 * 64 ) ) + threadIdx.x )], cache_op=Unspecified )
-      COPIES COMMIT buffer 0 stage ( j1 % 2 )
-      COPIES WAIT buffer 0 stage ( j1 % 2 )
+        T2[threadIdx.x] = CpAsync( T0[( ( blockIdx.x * 256 ) + threadIdx.x )], cache_op=Unspecified )
+      COPIES COMMIT buffer 0
+    FOR j1 in iS8{4} extent 4:
+      IF ( j1 < 3 ):
+        FOR threadIdx.x in ithreadIdx.x9{64} extent 64:
+          T2[( ( ( ( j1 + 1 ) % 2 ) * 64 ) + threadIdx.x )] = CpAsync( T0[( ( ( ( blockIdx.x * 256 ) + ( j1 * 64 ) ) + threadIdx.x ) + 64 )], cache_op=Unspecified )
+      COPIES COMMIT buffer 0
+      COPIES WAIT buffer 0 stage ( j1 % 2 ) count 1
)");
}

// Not all of the first iterations may exist.
TEST_F(LowerPipelineCopies, TwoIterationsAhead) {
  byBoxes()->circularBuffer(3, 2);
  EXPECT_EQ(changesOf("pipeline copies"), R"(
   FOR blockIdx.x in iblockIdx.x4{8} extent 8:
-    FOR j1 in iS8{4} extent 4:
+    FOR a1 in iS8{4} extent 2:
       IF ( threadIdx.x == 0 ):
-        COPIES WAIT_UNTIL_EMPTY buffer 0 stage ( j1 % 3 ) parity ( 1 - ( j1 / 3 ) )
-        COPIES EXPECT buffer 0 stage ( j1 % 3 )
+        COPIES WAIT_UNTIL_EMPTY buffer 0 stage ( a1 % 3 ) parity ( 1 - ( a1 / 3 ) )
+        COPIES EXPECT buffer 0 stage ( a1 % 3 )
         FOR 0 in iB9{64} extent 64:
-          T2[( ( j1 % 3 ) * 64 )] = BULK map0{( j1 * 64 ), blockIdx.x}
+          T2[( ( a1 % 3 ) * 64 )] = BULK map0{( a1 * 64 ), blockIdx.x}
+    FOR j1 in iS8{4} extent 4:
+      IF ( j1 < 2 ):
+        IF ( threadIdx.x == 0 ):
+          COPIES WAIT_UNTIL_EMPTY buffer 0 stage ( ( j1 + 2 ) % 3 ) parity ( 1 - ( ( j1 + 2 ) / 3 ) )
+          COPIES EXPECT buffer 0 stage ( ( j1 + 2 ) % 3 )
+          FOR 0 in iB9{64} extent 64:
+            T2[( ( ( j1 + 2 ) % 3 ) * 64 )] = BULK map0{( ( j1 * 64 ) + 128 ), blockIdx.x}
)");
}

TEST_F(LowerPipelineCopies, UnknownNumberOfIterations) {
  byThreads(-1)->circularBuffer(3, 2);
  EXPECT_EQ(changesOf("pipeline copies"), R"(
   FOR blockIdx.x in iblockIdx.x4{8} extent 8:
+    FOR a1 in iS8{( ceilDiv(i1, 64) )} extent 2:
+      IF ( a1 < ( ceilDiv(i1, 64) ) ):
+        FOR threadIdx.x in ithreadIdx.x9{64} extent 64:
+          IF ( ( ( a1 * 64 ) + threadIdx.x ) < i1 ):
+            T2[( ( ( a1 % 3 ) * 64 ) + threadIdx.x )] = CpAsync( T0[( ( ( blockIdx.x * i1 ) + ( a1 * 64 ) ) + threadIdx.x )], cache_op=Unspecified )
+      COPIES COMMIT buffer 0
     FOR j1 in iS8{( ceilDiv(i1, 64) )} extent ( ceilDiv(i1, 64) ):
-      FOR threadIdx.x in ithreadIdx.x9{64} extent 64:
-        IF ( ( ( j1 * 64 ) + threadIdx.x ) < i1 ):
-          T2[( ( ( j1 % 3 ) * 64 ) + threadIdx.x )] = CpAsync( T0[( ( ( blockIdx.x * i1 ) + ( j1 * 64 ) ) + threadIdx.x )], cache_op=Unspecified )
-      COPIES COMMIT buffer 0 stage ( j1 % 3 )
-      COPIES WAIT buffer 0 stage ( j1 % 3 ) count 1
+      IF ( ( j1 + 2 ) < ( ceilDiv(i1, 64) ) ):
+        FOR threadIdx.x in ithreadIdx.x9{64} extent 64:
+          IF ( ( ( ( j1 * 64 ) + threadIdx.x ) + 128 ) < i1 ):
+            T2[( ( ( ( j1 + 2 ) % 3 ) * 64 ) + threadIdx.x )] = CpAsync( T0[( ( ( ( blockIdx.x * i1 ) + ( j1 * 64 ) ) + threadIdx.x ) + 128 )], cache_op=Unspecified )
+      COPIES COMMIT buffer 0
+      COPIES WAIT buffer 0 stage ( j1 % 3 ) count 2
)");
}

// Warps of their own load.
TEST_F(LowerPipelineCopies, WarpsThatLoad) {
  byBoxes()->warpSpecialize(2, 1, ParallelType::TIDy);
  EXPECT_EQ(changesOf("pipeline copies"), R"(
-  FOR blockIdx.x in iblockIdx.x4{8} extent 8:
-    FOR j1 in iS8{4} extent 4:
-      IF ( ( threadIdx.x == 0 ) && ( threadIdx.y == 1 ) ):
-        COPIES WAIT_UNTIL_EMPTY buffer 0 stage ( j1 % 2 ) parity ( 1 - ( j1 / 2 ) )
-        COPIES EXPECT buffer 0 stage ( j1 % 2 )
-        FOR 0 in iB9{64} extent 64:
-          T2[( ( j1 % 2 ) * 64 )] = BULK map0{( j1 * 64 ), blockIdx.x}
-      COPIES WAIT_UNTIL_FULL buffer 0 stage ( j1 % 2 ) parity ( j1 / 2 )
-      FOR threadIdx.x in iB9{64} extent 64:
-        T1[( ( ( blockIdx.x * 256 ) + ( j1 * 64 ) ) + threadIdx.x )] = T2[( ( ( j1 % 2 ) * 64 ) + threadIdx.x )] * double(2);
-      COPIES FENCE
-      COPIES SET_EMPTY buffer 0 stage ( j1 % 2 )
+  IF (((nvfuser_index_t)threadIdx.y) >= 1LL):
+    IF ( ( threadIdx.x == 0 ) && ( threadIdx.y == 1 ) ):
+      FOR blockIdx.x in iblockIdx.x4{8} extent 8:
+        FOR j1 in iS8{4} extent 4:
+          COPIES WAIT_UNTIL_EMPTY buffer 0 stage ( j1 % 2 ) parity ( 1 - ( j1 / 2 ) )
+          COPIES EXPECT buffer 0 stage ( j1 % 2 )
+          FOR 0 in iB9{64} extent 64:
+            T2[( ( j1 % 2 ) * 64 )] = BULK map0{( j1 * 64 ), blockIdx.x}
+  ELSE:
+    FOR blockIdx.x in iblockIdx.x4{8} extent 8:
+      FOR j1 in iS8{4} extent 4:
+        COPIES WAIT_UNTIL_FULL buffer 0 stage ( j1 % 2 ) parity ( j1 / 2 )
+        FOR threadIdx.x in iB9{64} extent 64:
+          T1[( ( ( blockIdx.x * 256 ) + ( j1 * 64 ) ) + threadIdx.x )] = T2[( ( ( j1 % 2 ) * 64 ) + threadIdx.x )] * double(2);
+        COPIES FENCE
+        COPIES SET_EMPTY buffer 0 stage ( j1 % 2 )
)");
}

} // namespace
} // namespace nvfuser::test
