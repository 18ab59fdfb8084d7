// SPDX-License-Identifier: BSD-3-Clause
// Ops that a library evaluates: shape rules, domains and errors at definition, equality,
// translation, concretization, and running them with a library of this file's own.
#include <definition/rebuild.h>
#include <definition/translate.h>
#include <executor_for_test.h>
#include <library/library.h>
#include <ops_for_test.h>

#include <gtest/gtest.h>

namespace nvfuser {
namespace {

using testing_utils::domainText;
using testing_utils::hasText;
using testing_utils::OpsTest;
using testing_utils::userError;
using Ints = std::vector<int64_t>;

// "0 1, 1 2 -> 0 2", with ~ where a size may be 1.
std::string dimsText(const LibraryDims& dims) {
  std::string out;
  const auto add = [&](const std::vector<std::vector<LibraryDims::Dim>>& lists) {
    const char* comma = "";
    for (const auto& list : lists) {
      out += comma;
      comma = ",";
      for (const LibraryDims::Dim& d : list) {
        out += (d.repeats ? " ~" : " ") + std::to_string(d.number);
      }
    }
  };
  add(dims.operands);
  out += " ->";
  add(dims.results);
  return out;
}

TEST(ShapeRuleTest, NamesArePairedByName) {
  EXPECT_EQ(dimsText(parseShapeRule("m k, k n -> m n", {2, 2})), " 0 1, 1 2 -> 0 2");
  EXPECT_EQ(dimsText(parseShapeRule("k, k ->", {1, 1})), " 0, 0 ->");
}

TEST(ShapeRuleTest, PacksAreAsLongAsTheOperandWithTheMost) {
  EXPECT_EQ(dimsText(parseShapeRule("~b... m k, ~b... k n -> b... m n", {4, 3})),
            " ~0 ~1 2 3, ~1 3 4 -> 0 1 2 4");
  EXPECT_EQ(dimsText(parseShapeRule("x... k -> x... k, x... ?", {1})), " 0 -> 0, 1");
}

TEST(ShapeRuleTest, OperandsThatAreLeftOutHaveNoDimensions) {
  EXPECT_EQ(dimsText(parseShapeRule("i... k, w... n k, w... n -> w... i... n", {2, 2, -1})),
            " 0 1, 2 1, -> 0 2");
}

TEST(ShapeRuleTest, RanksThatDoNotFitAreABug) {
  EXPECT_THROW(parseShapeRule("m k -> m", {3}), InternalError);
  EXPECT_THROW(parseShapeRule("b... m k -> m", {1}), InternalError);
}

class LibraryOpsTest : public OpsTest {};

TEST_F(LibraryOpsTest, MatmulDomains) {
  EXPECT_EQ(domainText(matmul(input({2, 3}), input({3, 4}))), "[i 2, i 4]");
  EXPECT_EQ(domainText(matmul(input({3}), input({3}))), "[]");
  EXPECT_EQ(domainText(matmul(input({3}), input({5, 3, 4}))), "[i 5, i 4]");
  EXPECT_EQ(domainText(matmul(input({5, 2, 3}), input({3}))), "[i 5, i 2]");
  EXPECT_EQ(domainText(matmul(input({1, 2, 3}), input({5, 3, 4}))), "[i 5, i 2, i 4]");
  // What is repeated on both sides stays a broadcast, what is one row too.
  EXPECT_EQ(domainText(matmul(input({1, 1, 3}), input({1, 3, 4}))), "[b 1, b 1, i 4]");
  EXPECT_EQ(matmul(input({2, 3}, DataType::Half), input({3, 4}, DataType::Half))->dtype(),
            DataType::Half);
}

TEST_F(LibraryOpsTest, ExpandedOperandsGiveRealDimensions) {
  TensorView* row = expand(input({1, 3}), {constant(int64_t{7}), constant(int64_t{-1})});
  EXPECT_EQ(domainText(matmul(row, input({3, 4}))), "[i 7, i 4]");
}

TEST_F(LibraryOpsTest, LinearDomains) {
  TensorView* x = input({2, 5, 3});
  EXPECT_EQ(domainText(linear(x, input({4, 3}))), "[i 2, i 5, i 4]");
  EXPECT_EQ(domainText(linear(x, input({6, 4, 3}), input({6, 4}))), "[i 6, i 2, i 5, i 4]");
  EXPECT_TRUE(hasText(userError([&] { linear(x, input({4, 3}), input({5})); }),
                      "linear: sizes do not agree: dimension 0 of [4, 3] is 4, but dimension 0 of "
                      "[5] is 5"));
}

TEST_F(LibraryOpsTest, TopKDomains) {
  const TopKResult r = topk(input({4, 9}), constant(int64_t{3}), 1);
  EXPECT_EQ(domainText(r.values), "[i 4, i 3]");
  EXPECT_EQ(domainText(r.indices), "[i 4, i 3]");
  EXPECT_EQ(r.indices->dtype(), DataType::Int);
  Val* k = scalarInput(DataType::Int);
  EXPECT_EQ(domainText(topk(input({4, 9}), k, 0).values), "[? " + k->toInlineString() + ", i 9]");
  EXPECT_EQ(domainText(topk(input({}), constant(int64_t{1}), 0).values), "[]");
  EXPECT_TRUE(hasText(userError([&] { topk(input({4}), constant(int64_t{-2})); }),
                      "Invalid resized domain extent"));
}

TEST_F(LibraryOpsTest, GroupedMmDomains) {
  TensorView* offsets = input({3}, DataType::Int32);
  EXPECT_EQ(domainText(grouped_mm(input({4, 8}), input({8, 5}), offsets)), "[i 3, i 4, i 5]");
  EXPECT_EQ(domainText(grouped_mm(input({3, 4, 8}), input({8, 5}), offsets)), "[i 4, i 5]");
  EXPECT_EQ(domainText(grouped_mm(input({4, 8}), input({3, 8, 5}), offsets)), "[i 4, i 5]");
  const auto error = [&](const Ints& a, const Ints& b, TensorView* groups) {
    return userError([&] { grouped_mm(input(a), input(b), groups); });
  };
  EXPECT_TRUE(hasText(error({3, 4, 8}, {3, 8, 5}, offsets), "of rank 3 and 3"));
  EXPECT_TRUE(hasText(error({2, 4, 8}, {8, 5}, offsets), "sizes do not agree"));
  EXPECT_TRUE(hasText(error({4, 8}, {8, 5}, input({3}, DataType::Int)), "must be Int32"));
}

TEST_F(LibraryOpsTest, AttentionDomains) {
  const auto heads = [&](const Ints& sizes) { return input(sizes, DataType::BFloat16); };
  TensorView* q = heads({2, 3, 7, 16});
  TensorView* k = heads({2, 3, 9, 16});
  const SdpfaFwdResult r = sdpfa_fwd(q, k, k);
  EXPECT_EQ(domainText(r.output), "[i 2, i 3, i 7, i 16]");
  EXPECT_EQ(domainText(r.log_sumexp), "[i 2, i 3, i 7]");
  EXPECT_EQ(r.log_sumexp->dtype(), DataType::Float);
  EXPECT_EQ(domainText(r.philox_seed), "[i 2]");
  EXPECT_EQ(domainText(r.philox_offset), "[]");
  EXPECT_EQ(r.philox_seed->dtype(), DataType::UInt64);
  const SdpfaBwdResult grads = sdpfa_bwd(r.output, q, k, k, r.output, r.log_sumexp, nullptr,
                                         nullptr, r.philox_seed, r.philox_offset, nullptr);
  EXPECT_EQ(domainText(grads.grad_query), "[i 2, i 3, i 7, i 16]");
  EXPECT_EQ(domainText(grads.grad_key), "[i 2, i 3, i 9, i 16]");
  EXPECT_TRUE(hasText(userError([&] { sdpfa_fwd(q, k, k, nullptr, heads({1, 1, 7, 9})); }),
                      "the mask must be Bool"));
  EXPECT_TRUE(hasText(userError([&] { sdpfa_fwd(q, k, heads({2, 3, 8, 16})); }),
                      "sdpfa_fwd: sizes do not agree"));
}

TEST_F(LibraryOpsTest, BlockQuantizeDomains) {
  const BlockQuantizationResults r = nv_block_quantize(input({4, 64}));
  EXPECT_EQ(domainText(r.quantized_tensor), "[i 4, i 64]");
  EXPECT_EQ(domainText(r.block_scales), "[i 4, i 4]");
  EXPECT_EQ(r.quantized_tensor->dtype(), DataType::Float4_e2m1fn);
  EXPECT_EQ(r.block_scales->dtype(), DataType::Float8_e4m3fn);
  EXPECT_TRUE(hasText(userError([&] { nv_block_quantize(input({4, 40})); }),
                      "no multiple of the block size 16"));
  EXPECT_TRUE(hasText(userError([&] {
                        nv_block_quantize(input({4, 64}), nullptr, false, 16,
                                          DataType::Float8_e4m3fn);
                      }),
                      "block_size must be 32"));
}

TEST_F(LibraryOpsTest, EqualDefinitionsAreEqual) {
  const auto define = [](Fusion* fusion, bool largest, bool with_bias) {
    FusionGuard guard(fusion);
    TensorView* x = makeContigTensor(2);
    TensorView* w = makeContigTensor(2);
    TensorView* b = makeContigTensor(1);
    for (TensorView* tv : {x, w, b}) {
      fusion->addInput(tv);
    }
    fusion->addOutput(linear(x, w, with_bias ? b : nullptr));
    fusion->addOutput(topk(x, IrBuilder::create<Val>(int64_t{2}), 1, largest).values);
  };
  Fusion a;
  Fusion same;
  Fusion smallest;
  Fusion plain;
  define(&a, true, true);
  define(&same, true, true);
  define(&smallest, false, true);
  define(&plain, true, false);
  EXPECT_TRUE(a.sameDefinition(same));
  EXPECT_EQ(a.definitionHash(), same.definitionHash());
  EXPECT_FALSE(a.sameDefinition(smallest));
  EXPECT_NE(a.definitionHash(), smallest.definitionHash());
  EXPECT_FALSE(a.sameDefinition(plain));
  Fusion copy(a);
  EXPECT_TRUE(a.sameDefinition(copy));
  EXPECT_EQ(copy.printMath(), a.printMath());
}

TEST_F(LibraryOpsTest, TextForPython) {
  TensorView* x = input({4, 8});
  TensorView* w = input({8, 8});
  fusion_.addOutput(linear(x, w));
  fusion_.addOutput(topk(x, constant(int64_t{2}), -1, false).indices);
  const std::string text = translateFusion(&fusion_);
  EXPECT_TRUE(hasText(text, "tv2 = fd.ops.linear(tv0, tv1)\n"));
  EXPECT_TRUE(hasText(text, "_, tv4 = fd.ops.topk(tv0, 2, dim=1, largest=False)\n"));
}

TEST_F(LibraryOpsTest, ConcretizationKeepsTheOp) {
  TensorView* x = input({-1, -1});
  Val* rows = size(x, 0);
  TensorView* y = reshape(x, std::vector<Val*>{rows, size(x, 1), constant(int64_t{1})});
  TensorView* out = matmul(permute(y, {2, 0, 1}), permute(y, {2, 1, 0}));
  fusion_.addOutput(out);
  ScalarEvaluator sizes;
  sizes.bind(x->getLogicalDomain()[0]->extent(), ScalarValue(int64_t{3}));
  sizes.bind(x->getLogicalDomain()[1]->extent(), ScalarValue(int64_t{5}));
  Fusion concrete;
  concretize(fusion_, concretizationInfo(fusion_, sizes), &concrete);
  const Expr* e = concrete.outputs().front()->definition();
  ASSERT_EQ(e->kind(), ExprKind::LibraryOp);
  for (const IterDomain* id : e->output(0)->as<TensorView>()->getLogicalDomain()) {
    EXPECT_FALSE(id->isSymbolicType());
  }
}

// Products of matrices of floats on the host.
class TestLibrary : public Library {
  struct Product : Evaluation {
    explicit Product(const Fusion& segment) {
      for (size_t i = 0; i < segment.inputs().size(); ++i) {
        for (size_t k = 0; k < 2; ++k) {
          position[k] = segment.exprs().front()->input(k) == segment.inputs()[i] ? i : position[k];
        }
      }
    }
    void run(std::span<const ArgView> inputs, std::span<const ArgView> outputs,
             const PhiloxState&) const override {
      const ArgView& a = inputs[position[0]];
      const ArgView& b = inputs[position[1]];
      const ArgView& out = outputs[0];
      for (int64_t m = 0; m < a.sizes[0]; ++m) {
        for (int64_t n = 0; n < b.sizes[1]; ++n) {
          float sum = 0;
          for (int64_t k = 0; k < a.sizes[1]; ++k) {
            sum += at(a, m, k) * at(b, k, n);
          }
          at(out, m, n) = sum;
        }
      }
    }
    static float& at(const ArgView& x, int64_t i, int64_t j) {
      return static_cast<float*>(x.data)[i * x.strides[0] + j * x.strides[1]];
    }
    // Of the operands among the segment's inputs.
    size_t position[2] = {0, 0};
  };

 public:
  std::string name() const override {
    return "the test";
  }
  std::shared_ptr<const Evaluation> prepare(const std::shared_ptr<Fusion>& segment) const override {
    return std::make_shared<Product>(*segment);
  }
};

TEST(LibrarySegmentTest, RunsAmongKernels) {
  auto fusion = std::make_shared<Fusion>();
  {
    FusionGuard guard(fusion.get());
    TensorView* a = makeContigTensor(2);
    TensorView* b = makeContigTensor(2);
    fusion->addInput(a);
    fusion->addInput(b);
    fusion->addOutput(relu(matmul(neg(a), b)));
  }
  FusionExecutorCache cache(fusion);
  const Tensor a = Tensor::fromVector<float>({1, 2, 3, 4, 5, 6}, Ints{2, 3});
  const Tensor b = Tensor::fromVector<float>({1, -1, 0, 1, -1, 0}, Ints{3, 2});
  EXPECT_TRUE(
      hasText(userError([&] { cache.runFusionWithInputs({a, b}); }), "this program has none"));
  setLibrary(std::make_unique<TestLibrary>());
  const KernelArgs out = cache.runFusionWithInputs({a, b});
  // -(a @ b) = [[2, -1], [2, -1]]
  test::expectValues(out.tensor(0), {2, 0, 2, 0});
  const auto reports = cache.mostRecentSegmentReports();
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[1].scheduler, SchedulerType::ExprEval);
  EXPECT_TRUE(hasText(reports[1].note, "evaluates matmul"));
}

} // namespace
} // namespace nvfuser
