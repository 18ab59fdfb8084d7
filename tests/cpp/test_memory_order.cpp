// SPDX-License-Identifier: BSD-3-Clause
// The order of segments: what frees most comes first, and nothing comes before what it reads.
#include "ops_for_test.h"

#include <segment/memory_order.h>

#include <map>

namespace nvfuser::test {

class MemoryOrderTest : public testing_utils::OpsTest {
 protected:
  // One for each expression, in the order of definition.
  std::vector<Segment> segments() {
    std::vector<Segment> out;
    for (Expr* e : fusion_.exprs()) {
      Segment& segment = out.emplace_back();
      for (Val* v : e->inputs()) {
        segment.inputs.push_back(v);
      }
      segment.outputs = e->outputs();
      segment.exprs = {e};
    }
    return out;
  }

  std::string ordered() {
    std::vector<Segment> all = segments();
    std::map<const Expr*, size_t> number;
    for (const Segment& segment : all) {
      number.emplace(segment.exprs.front(), number.size());
    }
    orderForMemory(all);
    std::string text;
    for (const Segment& segment : all) {
      text += std::to_string(number.at(segment.exprs.front()));
    }
    return text;
  }
};

// The sums of three large tensors come right after each.
TEST_F(MemoryOrderTest, WhatIsReadOnceIsReadSoon) {
  TensorView* x = input({64, 64});
  std::vector<TensorView*> large = {exp(x), sin(x), cos(x)};
  std::vector<TensorView*> sums;
  for (TensorView* tv : large) {
    sums.push_back(sum(tv, {0, 1}));
  }
  for (TensorView* tv : sums) {
    fusion_.addOutput(tv);
  }
  std::vector<Segment> by_kind;
  for (const bool sums_now : {false, true}) {
    for (Segment& segment : segments()) {
      if ((segment.exprs.front()->kind() == ExprKind::ReductionOp) == sums_now) {
        by_kind.push_back(std::move(segment));
      }
    }
  }
  orderForMemory(by_kind);
  std::string text;
  for (const Segment& segment : by_kind) {
    text += segment.exprs.front()->kind() == ExprKind::ReductionOp ? "s" : "e";
  }
  EXPECT_EQ(text, "eseses");
}

TEST_F(MemoryOrderTest, WhatGainsNothingStays) {
  TensorView* x = input({64, 64});
  TensorView* y = exp(x);
  TensorView* z = sin(y);
  fusion_.addOutput(cos(z));
  fusion_.addOutput(neg(z));
  EXPECT_EQ(ordered(), "0123");
}

// A result that is computed of an input alone is not there while others are computed.
TEST_F(MemoryOrderTest, WhatOnlyAddsComesLate) {
  TensorView* x = input({64, 64});
  fusion_.addOutput(exp(x));
  fusion_.addOutput(neg(x));
  TensorView* y = sin(x);
  TensorView* z = cos(y);
  fusion_.addOutput(sum(z, {0, 1}));
  EXPECT_EQ(ordered(), "23401");
}

// But not after the last other reader of what it would keep: then that is there instead.
TEST_F(MemoryOrderTest, WhatWouldKeepAsMuchStays) {
  TensorView* x = input({64, 64});
  TensorView* y = sin(x);
  fusion_.addOutput(exp(y));
  TensorView* z = cos(y);
  TensorView* u = neg(z);
  fusion_.addOutput(sum(u, {0, 1}));
  EXPECT_EQ(ordered(), "01234");
}

// Attention's backward pass sums the gradient of the query in float beside its results.
TEST_F(MemoryOrderTest, WhatALibraryTakesCounts) {
  const auto heads = [&] { return input({2, 4, 64, 16}); };
  TensorView* q = heads();
  fusion_.addOutput(exp(q));
  TensorView* sums = input({2, 4, 64});
  auto* seed = input({2}, DataType::UInt64);
  auto* offset = input({}, DataType::UInt64);
  const SdpfaBwdResult grads = sdpfa_bwd(heads(), q, heads(), heads(), heads(), sums, nullptr,
                                         nullptr, seed, offset, nullptr);
  for (TensorView* tv : {grads.grad_query, grads.grad_key, grads.grad_value}) {
    fusion_.addOutput(tv);
  }
  EXPECT_EQ(ordered(), "10");
}

} // namespace nvfuser::test
