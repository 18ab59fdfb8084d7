// SPDX-License-Identifier: BSD-3-Clause
// The pass "gather vectors": elements of an input that lie in a few vectors are loaded by these.
#include "lowering_for_test.h"

#include <transform/inlining.h>
#include <transform/propagate.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

class LowerGatherVectors : public LoweringTest {
 protected:
  void byFour(TensorView* out) {
    fusion_.addOutput(out);
    while (out->nDims() > 1) {
      out->merge(0, 1);
    }
    out->split(0, 4);
    transformLike(out);
    inlineMost();
  }
  std::string changes() {
    // Conditions without their numbers.
    return std::regex_replace(changesOf("gather vectors"), std::regex(R"(where\(b\d+)"), "where(b");
  }
};

// Of an interleaved pair: half of each vector is used.
TEST_F(LowerGatherVectors, EverySecondElement) {
  TensorView* x = input({32, 2});
  fusion_.declareAligned(x);
  byFour(neg(squeeze(slice(x, Sizes{0, 1}, Sizes{32, 2}), Sizes{1})));
  EXPECT_EQ(changes(), R"(
   FOR j0 in iS9{8} extent 8:
+    T4_l = ALLOCATE(local, size=8, dtype=float, align=4)
+    FOR 0 in iS10{4} extent 4:
+      T4[0] = Set( T0[( j0 * 8 )], cache_op=Unspecified )
+    FOR 0 in iS10{4} extent 4:
+      T4[4] = Set( T0[( ( j0 * 8 ) + 4 )], cache_op=Unspecified )
     FOR j1 in iS10{4} extent 4:
-      FOR 0 in bS4{1}rf extent 1:
-        T1[0] = Set( T0[( ( ( j0 * 8 ) + ( j1 * 2 ) ) + 1 )], cache_op=Unspecified )
+      T1[0] = Set( T4[( ( j1 * 2 ) + 1 )], cache_op=Unspecified )
)");
}

// A weight of each channel, in a loop over all dimensions at once.
TEST_F(LowerGatherVectors, PartOfTheDimensions) {
  TensorView* x = input({6, 8});
  TensorView* weight = input({8});
  fusion_.declareAligned(weight);
  byFour(mul(x, broadcast(weight, {true, false})));
  EXPECT_EQ(changes(), R"(
   FOR j0 in iS8{12} extent 12:
+    T4_l = ALLOCATE(local, size=4, dtype=float, align=4)
+    FOR 0 in iS9{4} extent 4:
+      T4[0] = Set( T1[( ( j0 % 2 ) * 4 )], cache_op=Unspecified )
     FOR j1 in iS9{4} extent 4:
-      T2[0] = Set( T1[( ( ( j0 % 2 ) * 4 ) + j1 )], cache_op=Unspecified )
+      T2[0] = Set( T4[j1], cache_op=Unspecified )
)");
}

// A line of a table is read where its number is one of a line.
TEST_F(LowerGatherVectors, LinesOfATable) {
  TensorView* table = input({50, 8});
  fusion_.declareAligned(table);
  byFour(neg(index_select(table, input({6}, DataType::Int), 0)));
  EXPECT_EQ(changes(), R"(
   FOR j0 in iS12{12} extent 12:
+    T4_l = ALLOCATE(local, size=4, dtype=float, align=4, zeroed)
+    IF ( ( ( (int64_t)(T1[( j0 / 2 )]) ) >= 0 ) && ( ( (int64_t)(T1[( j0 / 2 )]) ) < 50 ) ):
+      FOR 0 in iS13{4} extent 4:
+        T4[0] = Set( T0[( ( ( (int64_t)(T1[( j0 / 2 )]) ) * 8 ) + ( ( j0 % 2 ) * 4 ) )], cache_op=Unspecified )
     FOR j1 in iS13{4} extent 4:
-      T2[0] = where(b, T0[( ( ( ( (int64_t)(T1[( j0 / 2 )]) ) * 8 ) + ( ( j0 % 2 ) * 4 ) ) + j1 )], float(0));
+      T2[0] = Set( T4[j1], cache_op=Unspecified )
)");
}

// Rows of a length that vectors do not divide.
TEST_F(LowerGatherVectors, VectorsThatAreNotWhole) {
  TensorView* x = input({4, 6});
  TensorView* weight = input({6});
  fusion_.declareAligned(weight);
  byFour(mul(x, broadcast(weight, {true, false})));
  EXPECT_EQ(changes(), "\n");
}

} // namespace
} // namespace nvfuser::test
