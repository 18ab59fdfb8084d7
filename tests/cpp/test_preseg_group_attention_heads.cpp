// SPDX-License-Identifier: BSD-3-Clause
// Heads of keys and values that a definition repeats are read once.
#include "preseg_for_test.h"

#include <ops/library.h>
#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class GroupAttentionHeads : public PresegTest {
 protected:
  static constexpr DataType kType = DataType::BFloat16;

  static std::vector<Val*> constants(const std::vector<int64_t>& numbers) {
    std::vector<Val*> out;
    for (const int64_t number : numbers) {
      out.push_back(IrBuilder::create<Val>(number));
    }
    return out;
  }

  // [2, 2, 7, 16] as [2, 4, 7, 16].
  static TensorView* repeated(TensorView* x) {
    TensorView* one = broadcast(x, {false, false, true, false, false});
    return reshape(expand(one, constants({2, 2, 2, 7, 16})), constants({2, 4, 7, 16}));
  }

  static TensorView* sumOverQueries(TensorView* gradient) {
    TensorView* split = reshape(gradient, constants({2, 2, 2, 7, 16}));
    return castOp(kType, sum(castOp(DataType::Float, split), {2}));
  }

  SdpfaBwdResult backward(TensorView* key, TensorView* value) {
    TensorView* query = input({2, 4, 9, 16}, kType);
    TensorView* grad = input({2, 4, 9, 16}, kType);
    TensorView* output = input({2, 4, 9, 16}, kType);
    TensorView* logsumexp = input({2, 4, 9}, DataType::Float);
    TensorView* seed = input({2}, DataType::UInt64);
    TensorView* offset = input({}, DataType::UInt64);
    return sdpfa_bwd(grad, query, key, value, output, logsumexp, nullptr, nullptr, seed, offset,
                     nullptr);
  }
};

TEST_F(GroupAttentionHeads, AreReadOnce) {
  TensorView* query = input({2, 4, 9, 16}, kType);
  TensorView* key = input({2, 2, 7, 16}, kType);
  TensorView* value = input({2, 2, 7, 16}, kType);
  fusion_.addOutput(sdpfa_fwd(query, repeated(key), repeated(value)).output);
  groupAttentionHeads(&fusion_);
  EXPECT_EQ(
      text(),
      R"(t0 bfloat16[i2, i4, i9, i16], t1 float32[i2, i4, i9], t2 uint64[i2], t3 uint64[] = sdpfa_fwd(x0, x1, x2)
outputs: t0
)");
}

TEST_F(GroupAttentionHeads, TheirGradientsAreTheLibrarys) {
  TensorView* key = input({2, 2, 7, 16}, kType);
  TensorView* value = input({2, 2, 7, 16}, kType);
  const SdpfaBwdResult r = backward(repeated(key), repeated(value));
  fusion_.addOutput(r.grad_query);
  fusion_.addOutput(neg(sumOverQueries(r.grad_key)));
  fusion_.addOutput(neg(sumOverQueries(r.grad_value)));
  groupAttentionHeads(&fusion_);
  EXPECT_EQ(
      text(),
      R"(t0 bfloat16[i2, i4, i9, i16], t1 bfloat16[i2, i2, i7, i16], t2 bfloat16[i2, i2, i7, i16] = sdpfa_bwd(x3, x2, x0, x1, x4, x5, x6, x7)
t3 float32[i2, i2, i7, i16] = cast(t1)
t4 float32[i2, i2, i7, i16] = neg(t3)
t5 float32[i2, i2, i7, i16] = cast(t2)
t6 float32[i2, i2, i7, i16] = neg(t5)
outputs: t0 t4 t6
)");
}

// One of them is read for each query as well.
TEST_F(GroupAttentionHeads, GradientsThatAreReadOtherwiseStay) {
  TensorView* key = input({2, 2, 7, 16}, kType);
  TensorView* value = input({2, 2, 7, 16}, kType);
  const SdpfaBwdResult r = backward(repeated(key), repeated(value));
  fusion_.addOutput(sumOverQueries(r.grad_key));
  fusion_.addOutput(sumOverQueries(r.grad_value));
  fusion_.addOutput(neg(r.grad_value));
  const std::string before = text();
  groupAttentionHeads(&fusion_);
  EXPECT_EQ(text(), before);
}

// Each query has its head next to those of others: the heads come as 0, 1, 0, 1.
TEST_F(GroupAttentionHeads, HeadsInTurnStay) {
  TensorView* query = input({2, 4, 9, 16}, kType);
  const auto in_turn = [&] {
    TensorView* one = broadcast(input({2, 2, 7, 16}, kType), {false, true, false, false, false});
    return reshape(expand(one, constants({2, 2, 2, 7, 16})), constants({2, 4, 7, 16}));
  };
  TensorView* key = in_turn();
  fusion_.addOutput(sdpfa_fwd(query, key, in_turn()).output);
  const std::string before = text();
  groupAttentionHeads(&fusion_);
  EXPECT_EQ(text(), before);
}

// Only the keys are: the library would take no such pair.
TEST_F(GroupAttentionHeads, KeysAloneStay) {
  TensorView* query = input({2, 4, 9, 16}, kType);
  TensorView* key = repeated(input({2, 2, 7, 16}, kType));
  fusion_.addOutput(sdpfa_fwd(query, key, input({2, 4, 7, 16}, kType)).output);
  const std::string before = text();
  groupAttentionHeads(&fusion_);
  EXPECT_EQ(text(), before);
}

} // namespace nvfuser::test
