// SPDX-License-Identifier: BSD-3-Clause
// The pass "load into concatenations": parts that are loads become one load from a chosen place.
#include "lowering_for_test.h"

#include <transform/inlining.h>
#include <transform/propagate.h>

namespace nvfuser::test {
namespace {

class LowerCatsOfLoads : public LoweringTest {
 protected:
  // Rows in blocks; a thread has those of the concatenation, of which it reads some twice.
  void rowsOf(TensorView* joined, const std::vector<TensorView*>& inputs) {
    TensorView* out = mul(joined, sum(joined, std::vector<int64_t>{1}, true));
    fusion_.addOutput(out);
    for (TensorView* x : inputs) {
      x->cacheAfter();
    }
    out->axis(0)->parallelize(ParallelType::BIDx);
    transformLike(out);
    inlineAllAt(out, 1, /*best_effort=*/true);
  }
  std::string changes() {
    return changesOf("load into concatenations");
  }
};

TEST_F(LowerCatsOfLoads, TwoInputs) {
  TensorView* a = input({8, 3});
  TensorView* b = input({8, 5});
  rowsOf(cat({a, b}, 1), {a, b});
  EXPECT_EQ(changes(), R"(
   FOR blockIdx.x in iS14{8} extent 8:
-    T8_l = ALLOCATE(local, size=8, dtype=float, zeroed)
-    T2_l = ALLOCATE(local, size=8, dtype=float)
-    T9_l = ALLOCATE(local, size=8, dtype=float, zeroed)
-    T3_l = ALLOCATE(local, size=8, dtype=float)
-    T4_l = ALLOCATE(local, size=8, dtype=float)
+    T4_l = ALLOCATE(local, size=8, dtype=float, zeroed)
     FOR j8 in iS22{8}rf extent 8:
-      IF ( ( j8 < 3 ) || ( j8 < 3 ) ):
-        T8[j8] = Set( T0[( ( blockIdx.x * 3 ) + j8 )], cache_op=Unspecified )
-    FOR j6 in iS23{8}rf extent 8:
-      IF ( j6 >= 3 ):
-        T9[j6] = Set( T1[( ( ( blockIdx.x * 5 ) + j6 ) - 3 )], cache_op=Unspecified )
-    FOR j7 in iS6{8}rf extent 8:
-      T2[j7] = where(b65, T8[j7], float(0));
-    FOR j5 in iS9{8}rf extent 8:
-      T3[j5] = where(b35, T9[j5], float(0));
-    FOR j4 in iS11{8} extent 8:
-      T4[j4] = where(b75, T2[j4], T3[j4]);
+      IF ( ( ( j8 < 3 ) || ( j8 < 3 ) ) || ( j8 >= 3 ) ):
+        T4[j8] = Set( f118, cache_op=Unspecified )
)");
}

// What is computed of a part stays as it is.
TEST_F(LowerCatsOfLoads, OnePartIsComputed) {
  TensorView* a = input({8, 3});
  TensorView* b = input({8, 5});
  rowsOf(cat({a, neg(b)}, 1), {a, b});
  EXPECT_EQ(changes(), "\n");
}

} // namespace
} // namespace nvfuser::test
