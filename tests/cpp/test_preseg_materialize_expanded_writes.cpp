// SPDX-License-Identifier: BSD-3-Clause
// An expanded output that is written to an input's storage gets an element for each of the input's.
#include "preseg_for_test.h"

namespace nvfuser::test {

class MaterializeExpandedWrites : public PresegTest {};

TEST_F(MaterializeExpandedWrites, AnExpandedOutputGetsAllElements) {
  TensorView* target = input({4, 6});
  TensorView* row = input({6});
  TensorView* out =
      expand(broadcast(neg(row), {true, false}), {constant(int64_t{4}), constant(int64_t{6})});
  fusion_.addOutput(out, target);
  std::vector<InPlaceWrite> writes{{out, target}};
  std::vector<TensorView*> outputs{out};
  materializeExpandedWrites(&fusion_, writes, outputs);
  EXPECT_EQ(text(), R"(t0 float32[i6] = neg(x1)
t1 float32[b, i6] = broadcast(t0)
t2 float32[b4, i6] = expand(t1)
t3 float32[i4, i6] = where(false, x0, t2)
outputs: t3
)");
  EXPECT_EQ(outputs, std::vector{writes[0].output});
}

TEST_F(MaterializeExpandedWrites, OneWithAllElementsStays) {
  TensorView* target = input({4, 6});
  TensorView* out = neg(target);
  fusion_.addOutput(out, target);
  std::vector<InPlaceWrite> writes{{out, target}};
  std::vector<TensorView*> outputs{out};
  materializeExpandedWrites(&fusion_, writes, outputs);
  EXPECT_EQ(text(), R"(t0 float32[i4, i6] = neg(x0)
outputs: t0
)");
  EXPECT_EQ(writes[0].output, out);
}

} // namespace nvfuser::test
