// SPDX-License-Identifier: BSD-3-Clause
// The pass "compute uniform elements": what is the same for all elements of a thread is computed
// once.
#include "lowering_for_test.h"

#include <transform/inlining.h>
#include <transform/propagate.h>

namespace nvfuser::test {
namespace {

class LowerUniformElements : public LoweringTest {
 protected:
  // Four elements of a row by each iteration, each tensor computed for all of them in turn.
  void byFour(TensorView* out) {
    fusion_.addOutput(out);
    out->merge(0, 1);
    out->split(0, 4);
    transformLike(out);
    inlineAllAt(out, 1, /*best_effort=*/true);
  }
  std::string changes() {
    return changesOf("compute uniform elements");
  }
};

// A value of each row.
TEST_F(LowerUniformElements, ElementsOfAVector) {
  TensorView* x = input({8, 4});
  TensorView* of_row = exp(broadcast(input({8}), {false, true}));
  byFour(mul(x, of_row));
  EXPECT_EQ(changes(), R"(
   FOR j0 in iS10{8} extent 8:
+    T2[0] = Set( T1[j0], cache_op=Unspecified )
     FOR j3 in iS11{4} extent 4:
-      T2[j3] = Set( T1[j0], cache_op=Unspecified )
+      T2[j3] = Set( T2[0], cache_op=Unspecified )
+    T3[0] = exp(T2[0]);
     FOR j2 in iS11{4} extent 4:
-      T3[j2] = exp(T2[j2]);
+      T3[j2] = Set( T3[0], cache_op=Unspecified )
)");
}

// A value of each column, where the rows of a thread are in a loop around.
TEST_F(LowerUniformElements, RowsOfAThread) {
  TensorView* x = input({8, 2});
  TensorView* of_column = exp(broadcast(input({2}), {true, false}));
  TensorView* out = mul(x, of_column);
  fusion_.addOutput(out);
  out->split(0, 4);
  transformLike(out);
  inlineAllAt(out, 1, /*best_effort=*/true);
  EXPECT_EQ(changes(), R"(
   FOR j0 in iS9{2} extent 2:
+    FOR j6 in iS4{2} extent 2:
+      T2[j6] = Set( T1[j6], cache_op=Unspecified )
     FOR j5 in iS10{4} extent 4:
-      FOR j6 in iS4{2} extent 2:
-        T2[( ( j5 * 2 ) + j6 )] = Set( T1[j6], cache_op=Unspecified )
+      FOR k5 in iS10{4} extent 2:
+        T2[( ( j5 * 2 ) + k5 )] = Set( T2[k5], cache_op=Unspecified )
+    FOR j4 in iS6{2} extent 2:
+      T3[j4] = exp(T2[j4]);
     FOR j3 in iS10{4} extent 4:
-      FOR j4 in iS6{2} extent 2:
-        T3[( ( j3 * 2 ) + j4 )] = exp(T2[( ( j3 * 2 ) + j4 )]);
+      FOR k3 in iS10{4} extent 2:
+        T3[( ( j3 * 2 ) + k3 )] = Set( T3[k3], cache_op=Unspecified )
)");
}

// Variables of a loop that do not depend on it are computed in front of it.
TEST_F(LowerUniformElements, VariablesOfALoop) {
  TensorView* x = input({8, 4});
  TensorView* of_row = exp(broadcast(input({8}), {false, true}));
  TensorView* out = mul(x, of_row);
  byFour(out);
  inlineMost();
  EXPECT_EQ(changes(), R"(
   FOR j0 in iS10{8} extent 8:
+    T2_l = ALLOCATE(local, size=1, dtype=float)
+    T3_l = ALLOCATE(local, size=1, dtype=float)
+    T2[0] = Set( T1[j0], cache_op=Unspecified )
+    T3[0] = exp(T2[0]);
     FOR j1 in iS11{4} extent 4:
-      T2_l = ALLOCATE(local, size=1, dtype=float)
-      T3_l = ALLOCATE(local, size=1, dtype=float)
-      T2[0] = Set( T1[j0], cache_op=Unspecified )
-      T3[0] = exp(T2[0]);
)");
}

// So is what is made of elements that are one value.
TEST_F(LowerUniformElements, VariablesMadeOfEqualElements) {
  TensorView* x = input({8, 4});
  TensorView* loaded = set(broadcast(input({8}), {false, true}));
  TensorView* made = exp(loaded);
  TensorView* out = mul(x, made);
  byFour(out);
  inlineMost(std::vector<TensorView*>{made});
  EXPECT_EQ(changes(), R"(
   FOR j0 in iS12{8} extent 8:
+    T2[0] = Set( T1[j0], cache_op=Unspecified )
     FOR j3 in iS13{4} extent 4:
-      T2[j3] = Set( T1[j0], cache_op=Unspecified )
+      T2[j3] = Set( T2[0], cache_op=Unspecified )
+    T3[0] = Set( T2[0], cache_op=Unspecified )
     FOR j2 in iS13{4} extent 4:
-      T3[j2] = Set( T2[j2], cache_op=Unspecified )
+      T3[j2] = Set( T3[0], cache_op=Unspecified )
+    T4_l = ALLOCATE(local, size=1, dtype=float)
+    T4[0] = exp(T3[0]);
     FOR j1 in iS13{4} extent 4:
-      T4_l = ALLOCATE(local, size=1, dtype=float)
-      T4[0] = exp(T3[j1]);
)");
}

// A loop over columns changes them all.
TEST_F(LowerUniformElements, NothingIsTheSame) {
  byFour(mul(input({8, 4}), input({8, 4})));
  EXPECT_EQ(changes(), "\n");
}

} // namespace
} // namespace nvfuser::test
