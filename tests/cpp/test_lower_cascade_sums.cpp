// SPDX-License-Identifier: BSD-3-Clause
// The passes "cascade sums" and "unroll and jam", of kernels whose threads run in loops: how long
// sums are made.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

// Columns by the threads of a block.
class LowerSumsInLoops : public LoweringTest {
 protected:
  LowerSumsInLoops() : LoweringTest(DataType::Int, HostSchedules::ForHost) {}

  void byThreads(TensorView* result) {
    fusion_.addOutput(result);
    result->axis(1)->parallelize(ParallelType::TIDx);
  }
};

// Of 32 terms each, and what is left.
TEST_F(LowerSumsInLoops, LongSumsAreMadeOfPartialOnes) {
  byThreads(sum(input({200, 64}), Sizes{0}));
  EXPECT_EQ(changesOf("cascade sums"), R"(
-  FOR j1 in rS2{200} extent 200:
+  FOR c1 in rS2{200} extent 7:
+    T3_l = ALLOCATE(local, size=1, dtype=float)
     FOR ALL THREADS:
-      T2[0] = T2[0] + T0[( ( j1 * 64 ) + threadIdx.x )];
+      T3[0] = Set( float(0), cache_op=Unspecified )
+    FOR j1 in rS2{200} from ( c1 * 32 ) extent ( minimum(( ( c1 * 32 ) + 32 ), 200) ):
+      FOR ALL THREADS:
+        T3[0] = T3[0] + T0[( ( j1 * 64 ) + threadIdx.x )];
+    FOR ALL THREADS:
+      T2[0] = T2[0] + T3[0];
)");
}

// As exact as partial sums would be.
TEST_F(LowerSumsInLoops, ShortSumsAreMadeAtOnce) {
  byThreads(sum(input({64, 64}), Sizes{0}));
  EXPECT_EQ(changesOf("cascade sums"), "\n");
}

// Whatever the order, a minimum is exact.
TEST_F(LowerSumsInLoops, OnlySumsAreRounded) {
  byThreads(min(input({200, 64}), Sizes{0}));
  EXPECT_EQ(changesOf("cascade sums"), "\n");
}

// Eight rows go through registers that lie in memory together; rows that are left go one by one.
TEST_F(LowerSumsInLoops, SeveralRowsAtATime) {
  byThreads(min(input({20, 512}), Sizes{0}));
  EXPECT_EQ(changesOf("unroll and jam"), R"(
-  FOR j1 in rS2{20} extent 20:
-    FOR ALL THREADS:
-      T2[0] = minimum(T2[0], T0[( ( j1 * 512 ) + threadIdx.x )]);
+  FOR g1 in rS2{20} extent 3:
+    IF ( g1 < 2 ):
+      FOR ALL THREADS:
+        FOR u1 in rS2{20} extent 8:
+          T2[0] = minimum(T2[0], T0[( ( ( g1 * 4096 ) + ( u1 * 512 ) ) + threadIdx.x )]);
+    ELSE:
+      FOR j1 in rS2{20} from ( g1 * 8 ) extent ( minimum(( ( g1 * 8 ) + 8 ), 20) ):
+        FOR ALL THREADS:
+          T2[0] = minimum(T2[0], T0[( ( j1 * 512 ) + threadIdx.x )]);
)");
}

// They are in the processor's own registers.
TEST_F(LowerSumsInLoops, FewRegistersAreNotJammed) {
  byThreads(min(input({20, 64}), Sizes{0}));
  EXPECT_EQ(changesOf("unroll and jam"), "\n");
}

TEST_F(LowerSumsInLoops, OneGroupOfRowsIsNotJammed) {
  byThreads(min(input({8, 512}), Sizes{0}));
  EXPECT_EQ(changesOf("unroll and jam"), "\n");
}

} // namespace
} // namespace nvfuser::test
