// SPDX-License-Identifier: BSD-3-Clause
// define_tensor: layouts from declarations and from strides, and the errors of bad declarations.
#include <ops_for_test.h>

#include <ir/tensor_builder.h>

namespace nvfuser {
namespace {

using testing_utils::domainText;
using testing_utils::hasText;
using testing_utils::OpsTest;
using testing_utils::userError;
using Ints = std::vector<int64_t>;

std::string flags(const TensorDomain::Contiguity& contiguity) {
  std::string out;
  for (const auto& f : contiguity) {
    out += !f ? 'N' : *f ? 'T' : 'F';
  }
  return out;
}

class DefineTensorTest : public OpsTest {};

TEST_F(DefineTensorTest, DescribesLayouts) {
  const auto check = [](const Ints& sizes, const Ints& strides, const char* contiguity,
                        const Ints& order) {
    const TensorDescriptor d = computeTensorDescriptor(sizes, strides);
    EXPECT_EQ(flags(d.contiguity), contiguity);
    EXPECT_EQ(d.stride_order, order);
  };
  check({2, 1, 3, 1, 4, 3}, {12, 4, 4, 4, 1, 0}, "TNTNTN", {5, 4, 3, 2, 1, 0});
  check({2, 3, 1, 5, 4}, {28, 4, 14, 0, 1}, "FNTNT", {4, 2, 3, 1, 0});
  check({2, 2, 1, 2, 4, 2}, {2, 32, 1, 8, 0, 4}, "FTTFNN", {2, 5, 0, 4, 1, 3});
  check({2, 1, 3, 1, 4}, {24, 4, 8, 4, 2}, "TTNNF", {4, 2, 3, 1, 0});
  check({}, {}, "", {});
  EXPECT_TRUE(hasText(userError([] { computeTensorDescriptor({2}, {-1}); }), "negative"));
  EXPECT_TRUE(hasText(userError([] { computeTensorDescriptor({2}, {}); }), "strides"));
}

TEST_F(DefineTensorTest, FromDeclaredShape) {
  auto* tv = defineTensor({-1, 1, 4}, {true, std::nullopt, false}, DataType::Half);
  EXPECT_EQ(domainText(tv), "[i i0, b 1, i 4]");
  EXPECT_EQ(flags(tv->getContiguity()), "TNF");
  EXPECT_EQ(tv->dtype(), DataType::Half);
  EXPECT_EQ(flags(defineTensor({2, 1, 3})->getContiguity()), "FNF");
  EXPECT_EQ(domainText(defineTensor({5, 3}, {std::nullopt, true})), "[b 1 ex 5, i 3]");
}

TEST_F(DefineTensorTest, StrideOrder) {
  auto* tv = defineTensor({2, 3, 4}, {true, false, true}, DataType::Float, false, {0, 2, 1});
  ASSERT_TRUE(tv->domain()->hasAllocation());
  EXPECT_EQ(tv->getAllocationDomain()[0], tv->getLogicalDomain()[1]);
  EXPECT_EQ(tv->getAllocationDomain()[2], tv->getLogicalDomain()[0]);
  EXPECT_FALSE(
      defineTensor({2, 3}, true, DataType::Float, false, {1, 0})->domain()->hasAllocation());
  const auto define = [](const Ints& order) {
    return userError([&] { defineTensor({2, 3}, true, DataType::Float, false, order); });
  };
  EXPECT_TRUE(hasText(define({0, 2}), "stride_order argument is out of range"));
  EXPECT_TRUE(hasText(define({1, 1}), "duplicated stride_order entries"));
  EXPECT_TRUE(hasText(define({0}), "one entry per dimension"));
}

TEST_F(DefineTensorTest, FromStrides) {
  EXPECT_EQ(domainText(defineTensorFromStrides({2, 1, 0}, {1, 1, 1})), "[i i0, b 1, i i2]");
  EXPECT_EQ(domainText(defineTensorFromStrides({2, 1, 3}, {3, 3, 1}, DataType::Float, true)),
            "[i 2, b 1, i 3]");
  auto* transposed = defineTensorFromStrides({2, 3}, {1, 2});
  EXPECT_TRUE(transposed->domain()->hasAllocation());
  EXPECT_EQ(flags(transposed->getContiguity()), "TT");
}

TEST_F(DefineTensorTest, PackedFp4BecomesSingleValues) {
  auto* tv = defineTensorFromStrides({4, 8}, {8, 1}, DataType::Float4_e2m1fn_x2, true);
  EXPECT_EQ(tv->dtype(), DataType::Float4_e2m1fn);
  EXPECT_EQ(domainText(tv), "[i 4, i 16]");
}

TEST_F(DefineTensorTest, Errors) {
  EXPECT_TRUE(hasText(userError([] { defineTensor({2, -3}); }),
                      "The value -3 at index 1 was neither symbolic(-1), zero_element(0), "
                      "broadcast(1), or static(>1)."));
  EXPECT_TRUE(hasText(userError([] { defineTensor({2, 3}, TensorDomain::Contiguity{true}); }),
                      "contiguity"));
}

TEST_F(DefineTensorTest, TensorsOnTheCpu) {
  EXPECT_TRUE(defineTensor({}, true, DataType::Float, true)->isCpuScalar());
  EXPECT_FALSE(defineTensor({}, true)->isCpuScalar());
  // A tensor like others: it is where the call's other tensors are.
  EXPECT_FALSE(defineTensor({-1}, true, DataType::Float, true)->isCpuScalar());
}

} // namespace
} // namespace nvfuser
