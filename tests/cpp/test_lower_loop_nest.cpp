// SPDX-License-Identifier: BSD-3-Clause
// The pass "make the loop nest": statements in loops, in an order that keeps what they need before
// them.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

class LowerLoopNest : public LoweringTest {
 protected:
  std::string nest() {
    return after("make the loop nest");
  }
};

// Inlined producers are in their consumer's loops; a reduction is initialized outside of its own.
TEST_F(LowerLoopNest, InlinedIntoAReduction) {
  TensorView* y = sum(exp(sin(input({4, 8}))), Sizes{1});
  fusion_.addOutput(y);
  inlineMost();
  EXPECT_EQ(nest(), R"(
  FOR j0 in iS4{4} extent 4:
    INIT T4_l
       = reduction( T2_l, op = add, initial value = float(0) )
    FOR j1 in iS5{8} extent 8:
      T1_l
         = sin(T0_g);
      T2_l
         = exp(T1_l);
      ACCUMULATE T4_l
         = reduction( T2_l, op = add, initial value = float(0) )
    T3_g
       = Set( T4_l, cache_op=Unspecified )
)");
}

// Without inlining each tensor has loops of its own.
TEST_F(LowerLoopNest, NothingInlined) {
  TensorView* y = neg(exp(input({4, 8})));
  fusion_.addOutput(y);
  y->split(1, 2);
  EXPECT_EQ(nest(), R"(
  FOR j3 in iS2{4} extent 4:
    FOR j4 in iS3{8} extent 8:
      T1_l
         = exp(T0_g);
  FOR j0 in iS4{4} extent 4:
    FOR j1 in iS6{4} extent 4:
      FOR j2 in iS7{2} extent 2:
        T2_g
           = -T1_l;
)");
}

// A row that is read last is asked for first: what is computed before may wait for memory too.
TEST_F(LowerLoopNest, RowsAreLoadedFirst) {
  TensorView* early = exp(input({4, 8}));
  TensorView* x = input({4, 8});
  TensorView* out = mul(early, x);
  fusion_.addOutput(out);
  x->cacheAfter();
  out->axis(0)->parallelize(ParallelType::BIDx);
  inlineAllAt(out, 1);
  EXPECT_EQ(nest(), R"(
  FOR blockIdx.x in iS8{4} extent 4:
    FOR j2 in iS9{8} extent 8:
      T4_l
         = Set( T2_g, cache_op=Unspecified )
    FOR j3 in iS3{8} extent 8:
      T1_l
         = exp(T0_g);
    FOR j1 in iS7{8} extent 8:
      T3_g
         = T1_l
         * T4_l;
)");
}

// What reads the result of a reduction comes after its loops, in those that they share.
TEST_F(LowerLoopNest, AResultIsReadAfterItsLoops) {
  TensorView* x = input({4, 8});
  TensorView* total = broadcast(sum(x, Sizes{1}), {false, true});
  fusion_.addOutput(div(x, total));
  inlineMost();
  EXPECT_EQ(nest(), R"(
  FOR j0 in iS4{4} extent 4:
    INIT T1_l
       = reduction( T0_g, op = add, initial value = float(0) )
    FOR j2 in rS3{8} extent 8:
      ACCUMULATE T1_l
         = reduction( T0_g, op = add, initial value = float(0) )
    FOR j1 in iS7{8} extent 8:
      T2_l
         = broadcast( T1_l, flags = {false, true} )
      T3_g
         = T0_g
         / T2_l;
)");
}

// What two outputs share is computed once, in the loops of both.
TEST_F(LowerLoopNest, TwoOutputsShareLoops) {
  TensorView* x = input({4, 8});
  TensorView* y = exp(x);
  fusion_.addOutput(neg(y));
  fusion_.addOutput(sin(y));
  inlineMost();
  EXPECT_EQ(nest(), R"(
  FOR j0 in iS2{4} extent 4:
    FOR j1 in iS3{8} extent 8:
      T1_l
         = exp(T0_g);
      T2_g
         = -T1_l;
      T3_g
         = sin(T1_l);
)");
}

// What reads the same registers runs along them once, though nothing else connects it.
TEST_F(LowerLoopNest, LoopsOverTheSameRegistersAreOne) {
  TensorView* x = input({4, 8});
  fusion_.addOutput(sum(exp(x), Sizes{1}));
  fusion_.addOutput(sin(x));
  TensorView* load = x->cacheAfter();
  for (TensorView* tv : {load, fusion_.outputs()[1]->as<TensorView>()}) {
    inlineAllAt(tv, 1);
  }
  EXPECT_EQ(nest(), R"(
  FOR j0 in iS2{4} extent 4:
    FOR j5 in iS9{8} extent 8:
      T4_l
         = Set( T0_g, cache_op=Unspecified )
    FOR j4 in iS3{8} extent 8:
      T1_l
         = exp(T4_l);
      T3_g
         = sin(T4_l);
    INIT T5_l
       = reduction( T1_l, op = add, initial value = float(0) )
    FOR j3 in rS5{8} extent 8:
      ACCUMULATE T5_l
         = reduction( T1_l, op = add, initial value = float(0) )
    T2_g
       = Set( T5_l, cache_op=Unspecified )
)");
}

// The second reduction would have to wait for the first one: they no longer shared a barrier.
TEST_F(LowerLoopNest, LoopsThatWaitForAReductionStayApart) {
  TensorView* x = input({4, 8});
  TensorView* total = broadcast(sum(x, Sizes{1}), {false, true});
  fusion_.addOutput(sub(x, total));
  fusion_.addOutput(exp(x));
  TensorView* load = x->cacheAfter();
  for (Expr* e : fusion_.exprs()) {
    for (TensorView* tv : tensorOutputs(e)) {
      if (tv->nDims() == 2 && tv != load) {
        tv->split(1, 2);
        tv->axis(2)->parallelize(ParallelType::TIDx);
      }
    }
  }
  load->split(1, 2);
  load->axis(2)->parallelize(ParallelType::TIDx);
  inlineAllAt(load, 1);
  EXPECT_EQ(nest(), R"(
  FOR j0 in iS4{4} extent 4:
    FOR j10 in iS20{4} extent 4:
      FOR threadIdx.x in ithreadIdx.x21{2} extent 2:
        T5_l
           = Set( T0_g, cache_op=Unspecified )
    INIT T1_l
       = reduction( T5_l, op = add, initial value = float(0) )
    FOR j8 in rS12{4} extent 4:
      FOR threadIdx.x in rthreadIdx.x13{2} extent 2:
        ACCUMULATE T1_l
           = reduction( T5_l, op = add, initial value = float(0) )
        T4_g
           = exp(T5_l);
    REDUCE threadIdx.x: T1[1]
    FOR 0 in bS14{1} extent 1:
      FOR 0 in bthreadIdx.x15{2} extent 1:
        T2_l
           = broadcast( T1_l, flags = {false, true} )
    FOR j4 in iS16{4} extent 4:
      FOR threadIdx.x in ithreadIdx.x17{2} extent 2:
        T3_g
           = T5_l
           - T2_l;
)");
}

} // namespace
} // namespace nvfuser::test
