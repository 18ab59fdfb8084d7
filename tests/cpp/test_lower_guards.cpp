// SPDX-License-Identifier: BSD-3-Clause
// The pass "insert guards": predicates where iterations may leave a tensor, and where threads would
// write again.
#include "lowering_for_test.h"

#include <transform/inlining.h>
#include <transform/propagate.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

class LowerGuards : public LoweringTest {
 protected:
  std::string guarded() {
    return after("insert guards");
  }
};

// A split that divides needs none, one that does not has one predicate for producer and consumer.
TEST_F(LowerGuards, SplitsThatDoNotDivide) {
  TensorView* y = exp(input({4, 10}));
  TensorView* z = neg(y);
  fusion_.addOutput(z);
  for (TensorView* tv : {y, z}) {
    tv->split(0, 2);
    tv->split(2, 4);
  }
  inlineMost();
  EXPECT_EQ(guarded(),
            R"(
  FOR j0 in iS6{2} extent 2:
    FOR j1 in iS7{2} extent 2:
      FOR j2 in iS8{3} extent 3:
        FOR j3 in iS9{4} extent 4:
          T1_l = ALLOCATE(local, size=1, dtype=float)
          IF ( ( ( j2 * 4 ) + j3 ) < 10 ):
            T1_l
               = exp(T0_g);
            T2_g
               = -T1_l;
)");
}

// What another kernel writes is neither written nor computed.
TEST_F(LowerGuards, RowsOfAResultThatAreWrittenElsewhere) {
  TensorView* y = exp(input({4, 10}));
  TensorView* z = neg(y);
  fusion_.addOutput(z);
  z->setWrittenElements(30);
  inlineMost();
  EXPECT_EQ(guarded(), R"(
  FOR j0 in iS2{4} extent 4:
    IF ( j0 < 3 ):
      FOR j1 in iS3{10} extent 10:
        T1_l = ALLOCATE(local, size=1, dtype=float)
        T1_l
           = exp(T0_g);
        T2_g
           = -T1_l;
)");
}

// Of two dimensions their numbers count together.
TEST_F(LowerGuards, RowsOfTwoDimensionsThatAreWrittenElsewhere) {
  TensorView* z = neg(input({4, 6, 10}));
  fusion_.addOutput(z);
  z->setWrittenElements(220);
  EXPECT_EQ(guarded(), R"(
  FOR j0 in iS3{4} extent 4:
    FOR j1 in iS4{6} extent 6:
      IF ( ( ( j0 * 6 ) + j1 ) < 22 ):
        FOR j2 in iS5{10} extent 10:
          T1_g
             = -T0_g;
)");
}

// Threads that have no iteration of a tensor's own do not write it.
TEST_F(LowerGuards, RedundantThreads) {
  TensorView* x = input({8});
  TensorView* row = exp(x);
  fusion_.addOutput(neg(row));
  TensorView* table = neg(broadcast(row, {true, false}));
  fusion_.addOutput(add(table, input({4, 8})));
  for (TensorView* tv : fusion_.allTvs()) {
    if (!tv->isFusionInput() && tv->nDims() == 2) {
      tv->axis(0)->parallelize(ParallelType::TIDy);
    }
  }
  inlineMost();
  EXPECT_EQ(guarded(),
            R"(
  T1_l = ALLOCATE(local, size=8, dtype=float)
  FOR j3 in iS1{8} extent 8:
    T1_l
       = exp(T0_g);
  IF ( threadIdx.y == 0 ):
    FOR j2 in iS2{8} extent 8:
      T2_g
         = -T1_l;
  FOR threadIdx.y in ithreadIdx.y9{4} extent 4:
    FOR j1 in iS6{8} extent 8:
      T3_l = ALLOCATE(local, size=1, dtype=float)
      T4_l = ALLOCATE(local, size=1, dtype=float)
      T3_l
         = broadcast( T1_l, flags = {true, false} )
      T4_l
         = -T3_l;
      T6_g
         = T4_l
         + T5_g;
)");
}

// A register that is read in a loop of its own, without the predicate it is written with, begins as
// zero; one that the loop writes in any case does not.
TEST_F(LowerGuards, ReadWithoutThePredicateOfTheWrite) {
  TensorView* loaded = set(input({10}));
  TensorView* y = exp(loaded);
  TensorView* z = neg(y);
  fusion_.addOutput(z);
  for (TensorView* tv : {loaded, y, z}) {
    tv->split(0, 4);
  }
  inlineAllAt(z, 1);
  EXPECT_EQ(guarded(),
            R"(
  FOR j0 in iS6{3} extent 3:
    T1_l = ALLOCATE(local, size=4, dtype=float, zeroed)
    T2_l = ALLOCATE(local, size=4, dtype=float)
    FOR j3 in iS7{4} extent 4:
      IF ( ( ( j0 * 4 ) + j3 ) < 10 ):
        T1_l
           = Set( T0_g, cache_op=Unspecified )
    FOR j2 in iS7{4} extent 4:
      T2_l
         = exp(T1_l);
    FOR j1 in iS7{4} extent 4:
      IF ( ( ( j0 * 4 ) + j1 ) < 10 ):
        T3_g
           = -T2_l;
)");
}

// What a pad does not select is not computed where all threads of a block agree on that.
TEST_F(LowerGuards, OperandsOfPads) {
  for (const ParallelType type : {ParallelType::Serial, ParallelType::TIDx}) {
    TensorView* loaded = set(input({4}));
    TensorView* padded = pad(exp(loaded), std::vector<int64_t>{0, 4});
    TensorView* out = neg(padded);
    fusion_.addOutput(out);
    out->axis(0)->parallelize(type);
    transformLike(out);
    scheduler_utils::parallelizeAllLike(out);
  }
  inlineMost();
  EXPECT_EQ(guarded(),
            R"(
  IF ( threadIdx.x == 0 ):
    FOR j1 in iS4{8}rf extent 8:
      T1_l = ALLOCATE(local, size=1, dtype=float)
      T2_l = ALLOCATE(local, size=1, dtype=float, zeroed)
      T3_l = ALLOCATE(local, size=1, dtype=float)
      IF ( j1 < 4 ):
        T1_l
           = Set( T0_g, cache_op=Unspecified )
        T2_l
           = exp(T1_l);
      T3_l
         = pad( T2_l, {{0, 4}}, float(0) )
      T4_g
         = -T3_l;
  FOR threadIdx.x in ithreadIdx.x13{8}rf extent 8:
    T6_l = ALLOCATE(local, size=1, dtype=float, zeroed)
    T7_l = ALLOCATE(local, size=1, dtype=float)
    T8_l = ALLOCATE(local, size=1, dtype=float)
    IF ( threadIdx.x < 4 ):
      T6_l
         = Set( T5_g, cache_op=Unspecified )
    T7_l
       = exp(T6_l);
    T8_l
       = pad( T7_l, {{0, 4}}, float(0) )
    T9_g
       = -T8_l;
)");
}

// An initialization takes none: what is never accumulated must still be the identity.
TEST_F(LowerGuards, Reduction) {
  TensorView* y = sum(input({4, 10}), Sizes{1});
  fusion_.addOutput(y);
  y->split(1, 4);
  y->axis(2)->parallelize(ParallelType::TIDx);
  EXPECT_EQ(guarded(),
            R"(
  FOR j0 in iS2{4} extent 4:
    T2_l = ALLOCATE(local, size=1, dtype=float)
    INIT T2_l
       = reduction( T0_g, op = add, initial value = float(0) )
    FOR j1 in rS4{3} extent 3:
      FOR threadIdx.x in rthreadIdx.x5{4} extent 4:
        IF ( ( ( j1 * 4 ) + threadIdx.x ) < 10 ):
          ACCUMULATE T2_l
             = reduction( T0_g, op = add, initial value = float(0) )
    REDUCE threadIdx.x: T2[1]
    IF ( threadIdx.x == 0 ):
      T1_g
         = Set( T2_l, cache_op=Unspecified )
)");
}

// All threads wait for the result of an unswitched reduction: in the second copy what stays in
// registers has no guards, and a sum over the row those by which an element exists.
TEST_F(LowerGuards, RestOfARow) {
  TensorView* y = exp(input({98}));
  TensorView* total = sum(neg(y), Sizes{0});
  fusion_.addOutput(total);
  for (TensorView* tv : fusion_.allTvs()) {
    if (tv->isFusionInput()) {
      continue;
    }
    // Pieces of 8 times 4 neighbours, of each fourth a thread has one.
    tv->split(0, 4);
    tv->split(0, 8);
    tv->merge(0, 2);
    tv->split(1, 8);
    tv->axis(0)->parallelize(ParallelType::TIDx);
    tv->axis(1)->parallelize(ParallelType::Unswitch);
  }
  inlineMost();
  EXPECT_EQ(guarded(),
            R"(
  T4_l = ALLOCATE(local, size=1, dtype=float)
  INIT T4_l
     = reduction( T2_l, op = add, initial value = float(0) )
  FOR threadIdx.x in ithreadIdx.x15{16} extent 16:
    IF ( ( threadIdx.x / 4 ) < 3 ):
      FOR 0 in iUS16{1} extent 1:
        FOR j2 in iS17{8} extent 8:
          T1_l = ALLOCATE(local, size=1, dtype=float)
          T2_l = ALLOCATE(local, size=1, dtype=float)
          T1_l
             = exp(T0_g);
          T2_l
             = -T1_l;
          ACCUMULATE T4_l
             = reduction( T2_l, op = add, initial value = float(0) )
    ELSE:
      FOR 0 in iUS16{1} extent 1:
        FOR j2 in iS17{8} extent 8:
          T1_l = ALLOCATE(local, size=1, dtype=float)
          T2_l = ALLOCATE(local, size=1, dtype=float)
          IF ( ( j2 * 4 ) < ( 98 - ( ( ( threadIdx.x / 4 ) * 32 ) + ( threadIdx.x % 4 ) ) ) ):
            T1_l
               = exp(T0_g);
          T2_l
             = -T1_l;
          IF ( ( j2 * 4 ) < ( 98 - ( ( ( threadIdx.x / 4 ) * 32 ) + ( threadIdx.x % 4 ) ) ) ):
            ACCUMULATE T4_l
               = reduction( T2_l, op = add, initial value = float(0) )
  REDUCE threadIdx.x: T4[1]
  IF ( threadIdx.x == 0 ):
    T3_g
       = Set( T4_l, cache_op=Unspecified )
)");
}

} // namespace
} // namespace nvfuser::test
