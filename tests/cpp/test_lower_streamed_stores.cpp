// SPDX-License-Identifier: BSD-3-Clause
// The pass "stream stores": results that go past the caches of the host.
#include "lowering_for_test.h"

#include <transform/inlining.h>

namespace nvfuser::test {
namespace {

class LowerStreamedStores : public LoweringTest {
 protected:
  LowerStreamedStores() : LoweringTest(DataType::Float, HostSchedules::ForHost) {}
};

// Rows of 100 by pieces of 64: each is put together before it is written, the end of a row too.
TEST_F(LowerStreamedStores, PiecesOfARow) {
  TensorView* y = exp(input({4, 100}));
  fusion_.addOutput(y);
  y->split(1, 64);
  y->axis(0)->parallelize(ParallelType::BIDx);
  y->axis(2)->parallelize(ParallelType::TIDx);
  fusion_.setStreamsOutputs(true);
  EXPECT_EQ(changesOf("stream stores"), R"(
   FOR j1 in iS4{2} extent 2:
-    FOR ALL THREADS x < ( minimum(64, ( 100 - ( j1 * 64 ) )) ):
+    FOR ALL THREADS x < ( minimum(64, ( 100 - ( j1 * 64 ) )) ) stream from T1[( ( blockIdx.x * 100 ) + ( j1 * 64 ) )] on:
)");
  EXPECT_EQ(body(), R"(
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t idx0 = bx * 100;
  for (nvfuser_index_t j1 = 0; j1 < 2; ++j1) {
    const nvfuser_index_t idx1 = idx0 + (j1 * 64);
    {
      alignas(64) float T1_out[64];
      #pragma GCC ivdep
      for (nvfuser_index_t tx = 0; tx < nvf::minimum(64, 100 - (j1 * 64)); ++tx) {
        const nvfuser_index_t idx2 = idx1 + tx;
        T1_out[tx] = nvf::exp(T0[idx2]);
      }
      nvf::streamOut(&T1[idx1], T1_out, nvf::minimum(64, 100 - (j1 * 64)));
    }
  }
)");
}

// Not what is written apart: nothing would fill a line.
TEST_F(LowerStreamedStores, NeighboursAlone) {
  TensorView* y = exp(input({64, 4}));
  fusion_.addOutput(y);
  y->axis(0)->parallelize(ParallelType::TIDx);
  fusion_.setStreamsOutputs(true);
  EXPECT_EQ(body().find("streamOut"), std::string::npos);
}

} // namespace
} // namespace nvfuser::test
