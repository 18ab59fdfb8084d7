// SPDX-License-Identifier: BSD-3-Clause
// The passes "keep rows in outputs", "peel ends of rows" and what finds registers that lie apart,
// of kernels whose threads run in loops.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

// [rows: BIDx | pieces, threads] of all tensors.
class LowerRowsInLoops : public LoweringTest {
 protected:
  LowerRowsInLoops() : LoweringTest(DataType::Int, HostSchedules::ForHost) {}

  static void inPieces(TensorView* tv, int64_t threads) {
    tv->split(1, threads);
    tv->axis(0)->parallelize(ParallelType::BIDx);
    tv->axis(2)->parallelize(ParallelType::TIDx);
  }

  // Each thread adds up what it has of a row, then they do so together.
  static void inTwoSteps(TensorView* sum_of_row, int64_t threads) {
    sum_of_row->split(1, threads);
    TensorView* own = sum_of_row->rFactor({1});
    own->axis(0)->parallelize(ParallelType::BIDx);
    own->axis(2)->parallelize(ParallelType::TIDx);
    sum_of_row->axis(0)->parallelize(ParallelType::BIDx);
    sum_of_row->axis(1)->parallelize(ParallelType::TIDx);
  }

  // exp(x) / sum(exp(x))
  void normalize(int64_t extent) {
    TensorView* e = exp(input({4, extent}));
    TensorView* total = sum(e, Sizes{1});
    TensorView* of_row = broadcast(total, {false, true});
    TensorView* out = div(e, of_row);
    fusion_.addOutput(out);
    inTwoSteps(total, 64);
    for (TensorView* tv : {e, of_row, out}) {
      inPieces(tv, 64);
    }
    inlineMost();
  }
};

// The exponentials are in the output until they are divided.
TEST_F(LowerRowsInLoops, ALongRowIsKeptInTheOutput) {
  normalize(8192);
  EXPECT_EQ(changesOf("keep rows in outputs"), R"(
-  T1_l = ALLOCATE(local, size=128, dtype=float)
   FOR j6 in iS18{128} extent 128:
     FOR ALL THREADS:
-      T1[j6] = exp(T0[( ( ( blockIdx.x * 8192 ) + ( j6 * 64 ) ) + threadIdx.x )]);
+      T4[( ( ( blockIdx.x * 8192 ) + ( j6 * 64 ) ) + threadIdx.x )] = exp(T0[( ( ( blockIdx.x * 8192 ) + ( j6 * 64 ) ) + threadIdx.x )]);
   FOR j4 in rS14{128}rf extent 128:
     FOR ALL THREADS:
-      T5[0] = T5[0] + T1[j4];
+      T5[0] = T5[0] + T4[( ( ( blockIdx.x * 8192 ) + ( j4 * 64 ) ) + threadIdx.x )];
   FOR j1 in iS22{128} extent 128:
     FOR ALL THREADS:
-      T4[( ( ( blockIdx.x * 8192 ) + ( j1 * 64 ) ) + threadIdx.x )] = T1[j1] / T3[0];
+      T4[( ( ( blockIdx.x * 8192 ) + ( j1 * 64 ) ) + threadIdx.x )] = T4[( ( ( blockIdx.x * 8192 ) + ( j1 * 64 ) ) + threadIdx.x )] / T3[0];
)");
}

// They are in the processor's own registers.
TEST_F(LowerRowsInLoops, AShortRowIsNotKeptInTheOutput) {
  normalize(128);
  EXPECT_EQ(changesOf("keep rows in outputs"), "\n");
}

// All threads take part in all iterations but the last.
TEST_F(LowerRowsInLoops, ThePieceAtTheEndHasALoopOfItsOwn) {
  TensorView* total = sum(input({4, 200}), Sizes{1});
  fusion_.addOutput(total);
  inTwoSteps(total, 64);
  inlineMost();
  EXPECT_EQ(changesOf("peel ends of rows"), R"(
-  FOR j2 in rS8{4}rf extent 4:
+  FOR j2 in rS8{4}rf extent 3:
+    FOR ALL THREADS:
+      T2[0] = T2[0] + T0[( ( ( blockIdx.x * 200 ) + ( j2 * 64 ) ) + threadIdx.x )];
+  FOR j2 in rS8{4}rf from 3 extent 4:
)");
}

TEST_F(LowerRowsInLoops, ARowOfWholePiecesHasOneLoop) {
  TensorView* total = sum(input({4, 256}), Sizes{1});
  fusion_.addOutput(total);
  inTwoSteps(total, 64);
  inlineMost();
  EXPECT_EQ(changesOf("peel ends of rows"), "\n");
}

// Sums of columns, beside the sums of a row: nothing tells that they lie elsewhere.
TEST_F(LowerRowsInLoops, LargeRegistersBesideSmallOnesLieApart) {
  TensorView* x = input({16, 8192});
  TensorView* columns = sum(x, Sizes{0});
  TensorView* rows = sum(x, Sizes{1});
  fusion_.addOutput(columns);
  fusion_.addOutput(rows);
  TensorView* loaded = x->cacheAfter();
  rows->split(1, 64);
  rows->rFactor({1});
  for (TensorView* tv : {loaded, columns->cacheBefore(), columns}) {
    tv->split(tv->nDims() - 1, 64);
  }
  for (TensorView* tv : fusion_.allTvs()) {
    if (!tv->isFusionInput()) {
      tv->axis(tv->nDims() - 1)->parallelize(ParallelType::TIDx);
    }
  }
  inlineMost();
  EXPECT_NE(body().find("float* const T5 = nvf::apart(T5_room);\n"), std::string::npos) << body();
}

} // namespace
} // namespace nvfuser::test
