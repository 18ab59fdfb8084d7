// SPDX-License-Identifier: BSD-3-Clause
// The pass "index tensors": where in memory each access is.
#include "lowering_for_test.h"

#include <segment/scatter_store.h>
#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

class LowerIndexTensors : public LoweringTest {
 protected:
  std::string indexed() {
    return after("index tensors");
  }
};

// A split axis is put together again.
TEST_F(LowerIndexTensors, Splits) {
  TensorView* y = neg(input({4, 8}));
  fusion_.addOutput(y);
  y->split(1, 2);
  EXPECT_EQ(indexed(),
            R"(
  FOR j0 in iS2{4} extent 4:
    FOR j1 in iS4{4} extent 4:
      FOR j2 in iS5{2} extent 2:
        T1[( ( ( j0 * 8 ) + ( j1 * 2 ) ) + j2 )] = -T0[( ( ( j0 * 8 ) + ( j1 * 2 ) ) + j2 )];
)");
}

// A merged one is taken apart where memory does not have it in one piece.
TEST_F(LowerIndexTensors, Merges) {
  TensorView* y = permute(input({4, 8}), {1, 0});
  fusion_.addOutput(y);
  y->merge(0, 1);
  EXPECT_EQ(indexed(),
            R"(
  FOR j0 in iS4{32} extent 32:
    T1[j0] = Set( T0[( ( ( j0 % 4 ) * 8 ) + ( j0 / 4 ) )], cache_op=Unspecified )
)");
}

// A broadcast dimension of the producer has no part in its index, a reshape changes nothing.
TEST_F(LowerIndexTensors, BroadcastAndReshape) {
  TensorView* x = input({8});
  TensorView* y = add(broadcast(x, {true, false}), input({4, 8}));
  fusion_.addOutput(reshape(y, Sizes{2, 16}));
  inlineMost();
  EXPECT_EQ(indexed(),
            R"(
  T3_l = ALLOCATE(local, size=32, dtype=float)
  FOR j2 in iS5{4} extent 4:
    FOR j3 in iS4{8} extent 8:
      T2_l = ALLOCATE(local, size=1, dtype=float)
      T2[0] = Set( T0[j3], cache_op=Unspecified )
      T3[( ( j2 * 8 ) + j3 )] = T2[0] + T1[( ( j2 * 8 ) + j3 )];
  FOR j0 in iS10{2}rf extent 2:
    FOR j1 in iS11{16}rf extent 16:
      T4[( ( j0 * 16 ) + j1 )] = Set( T3[( ( j0 * 16 ) + j1 )], cache_op=Unspecified )
)");
}

// A slice begins elsewhere in the producer.
TEST_F(LowerIndexTensors, Slice) {
  fusion_.addOutput(slice(input({8}), Sizes{2}, Sizes{8}));
  EXPECT_EQ(indexed(),
            R"(
  FOR j0 in iS2{6}rf extent 6:
    T1[j0] = Set( T0[( j0 + 2 )], cache_op=Unspecified )
)");
}

// A scatter writes where the index says, in the strides of what it updates.
TEST_F(LowerIndexTensors, ScatterStore) {
  TensorView* updated = input({4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  TensorView* src = input({4, 3});
  fusion_.addOutput(makeScatterStore(updated, index, src, 1), updated);
  EXPECT_EQ(indexed(), R"(
  FOR j0 in iS6{4} extent 4:
    FOR j1 in iS7{3} extent 3:
      IF ( ( ( (int64_t)(T1[( ( j0 * 3 ) + j1 )]) ) >= 0 ) && ( ( (int64_t)(T1[( ( j0 * 3 ) + j1 )]) ) < 100 ) ):
        T3[( ( j0 * T3.alloc_stride[0] ) + ( ( (int64_t)(T1[( ( j0 * 3 ) + j1 )]) ) * T3.alloc_stride[1] ) )] = Set( T2[( ( j0 * 3 ) + j1 )], cache_op=Unspecified )
)");
}

// Rows that go to one position as a whole are contiguous.
TEST_F(LowerIndexTensors, ScatterStoreOfRows) {
  TensorView* updated = input({100, 8});
  TensorView* index = broadcast(input({3}, DataType::Int), {false, true});
  TensorView* rows = expand(index, {IrBuilder::index(3), IrBuilder::index(8)});
  fusion_.addOutput(makeScatterStore(updated, rows, input({3, 8}), 0), updated);
  inlineMost();
  EXPECT_EQ(indexed(), R"(
  FOR j0 in iS5{3} extent 3:
    FOR j1 in iS10{8} extent 8:
      T2_l = ALLOCATE(local, size=1, dtype=int64_t)
      T3_l = ALLOCATE(local, size=1, dtype=int64_t)
      T2[0] = Set( T1[j0], cache_op=Unspecified )
      T3[0] = Set( T2[0], cache_op=Unspecified )
      IF ( ( ( (int64_t)(T3[0]) ) >= 0 ) && ( ( (int64_t)(T3[0]) ) < 100 ) ):
        T5[( ( ( (int64_t)(T3[0]) ) * T5.alloc_stride[0] ) + j1 )] = Set( T4[( ( j0 * 8 ) + j1 )], cache_op=Unspecified )
)");
}

} // namespace
} // namespace nvfuser::test
