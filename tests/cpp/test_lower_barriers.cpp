// SPDX-License-Identifier: BSD-3-Clause
// The pass "insert barriers": between writers and readers of shared memory, and at the end of
// loops. What a missing one does: test_lower_reductions.cpp.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

class LowerBarriers : public LoweringTest {
 protected:
  // y = exp(x) in shared memory, z = -y, each row by one block.
  void define() {
    y_ = exp(input({4, 8}));
    z_ = neg(y_);
    fusion_.addOutput(z_);
    y_->setMemoryType(MemoryType::Shared);
  }
  void bindColumns(TensorView* tv) {
    tv->axis(1)->parallelize(ParallelType::TIDx);
  }
  std::string synchronized() {
    return after("insert barriers");
  }

  TensorView* y_ = nullptr;
  TensorView* z_ = nullptr;
};

// Other threads read than wrote: in a loop the buffer is written again after it was read.
TEST_F(LowerBarriers, OtherThreadsReadInALoop) {
  define();
  y_->split(1, 4);
  y_->axis(2)->parallelize(ParallelType::TIDx);
  z_->split(1, 2);
  z_->axis(2)->parallelize(ParallelType::TIDx);
  y_->inlineAt(1);
  EXPECT_EQ(synchronized(),
            R"(
  FOR j0 in iS2{4} extent 4:
    T1_s = ALLOCATE(shared, size=8, dtype=float)
    FOR j3 in iS6{2} extent 2:
      FOR threadIdx.x in ithreadIdx.x7{4} extent 4:
        T1_s
           = exp(T0_g);
    BLOCK_SYNC
    FOR j1 in iS8{4} extent 4:
      FOR threadIdx.x in ithreadIdx.x9{2} extent 2:
        T2_g
           = -T1_s;
    BLOCK_SYNC
)");
}

// Outside of loops nothing follows.
TEST_F(LowerBarriers, OtherThreadsReadOnce) {
  define();
  for (TensorView* tv : {y_, z_}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
  }
  y_->split(1, 4);
  y_->axis(2)->parallelize(ParallelType::TIDx);
  z_->split(1, 2);
  z_->axis(2)->parallelize(ParallelType::TIDx);
  y_->inlineAt(1);
  EXPECT_EQ(synchronized(),
            R"(
  FOR blockIdx.x in iblockIdx.x2{4} extent 4:
    T1_s = ALLOCATE(shared, size=8, dtype=float)
    FOR j3 in iS6{2} extent 2:
      FOR threadIdx.x in ithreadIdx.x7{4} extent 4:
        T1_s
           = exp(T0_g);
    BLOCK_SYNC
    FOR j1 in iS8{4} extent 4:
      FOR threadIdx.x in ithreadIdx.x9{2} extent 2:
        T2_g
           = -T1_s;
)");
}

// Each thread reads what it wrote itself.
TEST_F(LowerBarriers, NoneForTheSameThread) {
  define();
  bindColumns(y_);
  bindColumns(z_);
  y_->inlineAt(1);
  EXPECT_EQ(synchronized().find("SYNC"), std::string::npos) << synchronized();
}

} // namespace
} // namespace nvfuser::test
