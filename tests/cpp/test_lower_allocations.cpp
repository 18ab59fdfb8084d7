// SPDX-License-Identifier: BSD-3-Clause
// The pass "allocate buffers": where registers and shared memory are declared, and how large.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

class LowerAllocations : public LoweringTest {
 protected:
  std::string allocated() {
    return after("allocate buffers");
  }
};

// A buffer has the loops that its producer does not share with its consumer.
TEST_F(LowerAllocations, RegistersOfTheInnerLoop) {
  TensorView* y = exp(input({4, 8}));
  TensorView* z = neg(y);
  fusion_.addOutput(z);
  y->inlineAt(1);
  EXPECT_EQ(allocated(),
            R"(
  FOR j0 in iS2{4} extent 4:
    T1_l = ALLOCATE(local, size=8, dtype=float)
    FOR j2 in iS3{8} extent 8:
      T1_l
         = exp(T0_g);
    FOR j1 in iS5{8} extent 8:
      T2_g
         = -T1_l;
)");
}

// Shared memory belongs to the block: thread axes are part of the buffer, block axes are not.
TEST_F(LowerAllocations, SharedMemoryOfABlock) {
  TensorView* y = exp(input({4, 8}));
  TensorView* z = neg(y);
  fusion_.addOutput(z);
  y->setMemoryType(MemoryType::Shared);
  for (TensorView* tv : {y, z}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
    tv->axis(1)->parallelize(ParallelType::TIDx);
  }
  y->inlineAt(1);
  EXPECT_EQ(allocated(),
            R"(
  FOR blockIdx.x in iblockIdx.x2{4} extent 4:
    T1_s = ALLOCATE(shared, size=8, dtype=float)
    FOR threadIdx.x in ithreadIdx.x3{8} extent 8:
      T1_s
         = exp(T0_g);
    FOR threadIdx.x in ithreadIdx.x5{8} extent 8:
      T2_g
         = -T1_s;
)");
}

// An accumulator is outside of the loops that it is reduced over, inside of the others.
TEST_F(LowerAllocations, Accumulator) {
  TensorView* y = sum(input({4, 8}), Sizes{1});
  fusion_.addOutput(neg(y));
  inlineMost();
  EXPECT_EQ(allocated(),
            R"(
  FOR j0 in iS2{4} extent 4:
    T1_l = ALLOCATE(local, size=1, dtype=float)
    INIT T1_l
       = reduction( T0_g, op = add, initial value = float(0) )
    FOR j1 in rS3{8} extent 8:
      ACCUMULATE T1_l
         = reduction( T0_g, op = add, initial value = float(0) )
    T2_g
       = -T1_l;
)");
}

} // namespace
} // namespace nvfuser::test
