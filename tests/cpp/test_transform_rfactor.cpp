// SPDX-License-Identifier: BSD-3-Clause
// rFactor: the domains of the two reductions, their kernel texts, and what is refused.
#include "lowering_for_test.h"

#include <transform/inlining.h>
#include <transform/propagate.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

std::string domains(const std::vector<IterDomain*>& ids) {
  std::string out;
  for (const IterDomain* id : ids) {
    out += (out.empty() ? "" : ", ") +
           std::string(id->isReduction()   ? "r"
                       : id->isBroadcast() ? "b"
                                           : "i") +
           "{" + id->extent()->toInlineString() + "}" + (id->isRfactorProduct() ? "rf" : "");
  }
  return out;
}

class RFactor : public LoweringTest {
 protected:
  std::string errorOf(const std::function<void()>& f) {
    try {
      f();
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  }
};

TEST_F(RFactor, TransformsTowardsTheListedAxisBelongToTheProducer) {
  TensorView* s = sum(input({8, 100}), Sizes{1});
  fusion_.addOutput(s);
  s->split(1, 16);
  s->split(1, 4); // of the outer part, which remains
  TensorView* p = s->rFactor({3});
  EXPECT_EQ(domains(p->getRootDomain()), "i{8}, r{100}rf");
  EXPECT_EQ(domains(p->getLogicalDomain()), "i{8}, i{7}rf, r{16}rf");
  EXPECT_EQ(domains(p->getLoopDomain()), "i{8}, i{2}, i{4}, r{16}rf");
  EXPECT_FALSE(s->hasRoot());
  EXPECT_EQ(domains(s->getLogicalDomain()), "i{8}, r{7}");
  EXPECT_EQ(domains(s->getLoopDomain()), "i{8}, r{2}, r{4}");
  EXPECT_EQ(p->definition()->input(0), fusion_.inputs()[0]);
  EXPECT_EQ(s->definition()->input(0), p);
  EXPECT_EQ(p->toString(), "T2_l_float[iS8{8}, iS12{2}, iS13{4}, rS11{16}rf]");
}

TEST_F(RFactor, AWholeDimensionNeedsNoRoot) {
  TensorView* s = sum(input({8, 5, 6}), Sizes{0, 2});
  fusion_.addOutput(s);
  s->reorder(std::unordered_map<int64_t, int64_t>{{0, 2}});
  TensorView* p = s->rFactor({1});
  EXPECT_FALSE(p->hasRoot());
  EXPECT_EQ(domains(p->getLogicalDomain()), "i{8}, i{5}, r{6}rf");
  EXPECT_EQ(domains(p->getLoopDomain()), "i{5}, r{6}rf, i{8}");
  EXPECT_EQ(domains(s->getLogicalDomain()), "r{8}, i{5}");
  EXPECT_EQ(domains(s->getLoopDomain()), "i{5}, r{8}");
}

TEST_F(RFactor, OfAFactoredReduction) {
  TensorView* s = sum(input({1000}), Sizes{0});
  fusion_.addOutput(s);
  s->split(0, 128);
  TensorView* p = s->rFactor({0});
  EXPECT_EQ(domains(p->getLoopDomain()), "r{8}rf, i{128}rf");
  p->split(0, 4);
  TensorView* q = p->rFactor({1});
  EXPECT_EQ(domains(q->getRootDomain()), "r{1000}rf");
  EXPECT_EQ(domains(q->getLogicalDomain()), "i{2}rf, r{4}rf, i{128}rf");
  EXPECT_EQ(domains(p->getLogicalDomain()), "r{2}, i{128}");
  EXPECT_EQ(domains(s->getLogicalDomain()), "r{128}");
}

TEST_F(RFactor, MemoryOrderOfTheResultStays) {
  TensorView* s = sum(input({3, 100, 5}), Sizes{1});
  fusion_.addOutput(s);
  const auto logical = s->getLogicalDomain();
  s->setAllocationDomain({logical[2], logical[0]}, true);
  s->split(1, 10);
  s->rFactor({2});
  EXPECT_EQ(domains(s->getAllocationDomain()), "i{5}, i{3}");
  EXPECT_EQ(s->getContiguity(), (TensorDomain::Contiguity{true, true}));
}

// Every thread sums its own elements, then the block combines them: padded elements are never taken
// in.
TEST_F(RFactor, SerialThenBlock) {
  TensorView* s = sum(input({8, 1000}), Sizes{1});
  fusion_.addOutput(s);
  s->split(1, 128);
  TensorView* p = s->rFactor({1});
  for (TensorView* tv : {p, s}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
    tv->axis(-1)->parallelize(ParallelType::TIDx);
  }
  inlineMost();
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  float T2 = 0.0f;
  const nvfuser_index_t idx0 = bx * 1000;
  #pragma unroll
  for (nvfuser_index_t j2 = 0; j2 < 8; ++j2) {
    const nvfuser_index_t idx1 = idx0 + (j2 * 128) + tx;
    if ((j2 < 7) || (((j2 * 128) + tx) < 1000)) {
      T2 = T2 + T0[idx1];
    }
  }
  float T3 = 0.0f;
  T3 = T3 + T2;
  nvf::blockReduce<true, false, false, 128, 1, 1>(smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T3});
  if (tx == 0) {
    T1[bx] = T3;
  }
)");
}

// A register for each of the remaining iterations; they are combined afterwards.
TEST_F(RFactor, OuterPartFirst) {
  TensorView* s = sum(input({8, 30}), Sizes{1});
  fusion_.addOutput(s);
  s->split(1, 4);
  TensorView* p = s->rFactor({1});
  for (TensorView* tv : {p, s}) {
    tv->axis(0)->parallelize(ParallelType::TIDx);
  }
  inlineMost();
  EXPECT_EQ(body(), R"(
  const nvfuser_index_t tx = threadIdx.x;
  Array<float, 4> T2;
  #pragma unroll
  for (nvfuser_index_t j3 = 0; j3 < 4; ++j3) {
    T2[j3] = 0.0f;
  }
  const nvfuser_index_t idx1 = tx * 30;
  for (nvfuser_index_t j2 = 0; j2 < 8; ++j2) {
    const nvfuser_index_t idx0 = j2 * 4;
    const nvfuser_index_t idx2 = idx1 + (j2 * 4);
    #pragma unroll
    for (nvfuser_index_t j3 = 0; j3 < 4; ++j3) {
      const nvfuser_index_t idx3 = idx2 + j3;
      if ((idx0 + j3) < 30) {
        T2[j3] = T2[j3] + T0[idx3];
      }
    }
  }
  float T3 = 0.0f;
  #pragma unroll
  for (nvfuser_index_t j1 = 0; j1 < 4; ++j1) {
    T3 = T3 + T2[j1];
  }
  T1[tx] = T3;
)");
}

TEST_F(RFactor, WelfordCombinesParts) {
  const WelfordResult w = Welford(input({8, 1000}), Sizes{1});
  fusion_.addOutput(w.avg);
  fusion_.addOutput(w.var_sum);
  w.avg->split(1, 128);
  const std::vector<TensorView*> parts = w.avg->rFactor({1}, {w.avg, w.var_sum, w.n});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(domains(parts[2]->getLoopDomain()), "i{8}, r{8}rf, i{128}rf");
  EXPECT_EQ(domains(w.n->getLoopDomain()), "i{8}, r{128}");
  for (TensorView* tv : {w.avg, w.var_sum, w.n, parts[0], parts[1], parts[2]}) {
    tv->axis(0)->parallelize(ParallelType::BIDx);
    tv->axis(-1)->parallelize(ParallelType::TIDx);
  }
  inlineMost();
  EXPECT_EQ(body(), R"(
  NVF_DYNAMIC_SHARED(smem);
  const nvfuser_index_t bx = blockIdx.x;
  const nvfuser_index_t tx = threadIdx.x;
  float T4 = 0.0f;
  float T5 = 0.0f;
  float T7 = 0.0f;
  const nvfuser_index_t idx0 = bx * 1000;
  #pragma unroll
  for (nvfuser_index_t j4 = 0; j4 < 8; ++j4) {
    const nvfuser_index_t idx1 = idx0 + (j4 * 128) + tx;
    if ((j4 < 7) || (((j4 * 128) + tx) < 1000)) {
      nvf::welfordStep(T4, T5, T7, T0[idx1]);
    }
  }
  nvfuser_index_t T6 = nvf::cast<nvfuser_index_t>(T7);
  float T8 = 0.0f;
  float T9 = 0.0f;
  float T10 = 0.0f;
  nvf::welfordCombine(T8, T9, T10, T4, T5, T6);
  nvf::blockReduce<true, false, false, 128, 1, 1>(smem, nvf::WelfordTerm<float, 1>{&T8, &T9, &T10});
  if (tx == 0) {
    T1[bx] = T8;
    T2[bx] = T9;
  }
)");
}

TEST_F(RFactor, Errors) {
  TensorView* s = sum(input({8, 30, 5}), Sizes{1, 2});
  TensorView* t = neg(s);
  fusion_.addOutput(t);
  EXPECT_NE(errorOf([&] { t->rFactor({0}); }).find("must be a reduction"), std::string::npos);
  EXPECT_NE(errorOf([&] { s->rFactor({0}); }).find("is not a reduction axis"), std::string::npos);
  EXPECT_NE(errorOf([&] { s->rFactor({}); }).find("no axis is listed"), std::string::npos);
  EXPECT_NE(errorOf([&] { s->rFactor({1, -2}); }).find("is listed twice"), std::string::npos);
  EXPECT_NE(errorOf([&] { s->rFactor({1, 2}); }).find("must remain"), std::string::npos);
  EXPECT_NE(errorOf([&] { s->rFactor({3}); }).find("out of boundary"), std::string::npos);
  s->inlineAt(1);
  EXPECT_NE(errorOf([&] { s->rFactor({1}); }).find("are shared"), std::string::npos);
  const WelfordResult w = Welford(input({8, 10}), Sizes{1});
  w.avg->split(1, 2);
  EXPECT_NE(errorOf([&] { w.avg->rFactor({1}, {w.avg, w.n}); }).find("all results"),
            std::string::npos);
}

} // namespace
} // namespace nvfuser::test
