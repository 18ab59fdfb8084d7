// SPDX-License-Identifier: BSD-3-Clause
// Type promotion, rank broadcasting and result domains of the elementwise builders.
#include <ops_for_test.h>

#include <ops/type_promotion.h>

#include <limits>

namespace nvfuser {
namespace {

using testing_utils::domainText;
using testing_utils::hasText;
using testing_utils::OpsTest;
using testing_utils::userError;

class ElementwiseOpsTest : public OpsTest {};

TEST_F(ElementwiseOpsTest, FoldsPairsOfDtypes) {
  EXPECT_EQ(promoteTypes(DataType::Half, DataType::BFloat16), DataType::Float);
  EXPECT_EQ(promoteTypes(DataType::Half, DataType::Int), DataType::Half);
  EXPECT_EQ(promoteTypes(DataType::Bool, DataType::Float8_e4m3fn), DataType::Float8_e4m3fn);
  EXPECT_EQ(promoteTypes(DataType::Double, DataType::ComplexFloat), DataType::ComplexDouble);
  EXPECT_EQ(promoteTypes(DataType::Half, DataType::ComplexFloat), DataType::ComplexFloat);
  EXPECT_EQ(promoteTypes(DataType::Index, DataType::Int), DataType::Index);
  EXPECT_EQ(promoteTypes(DataType::Bool, DataType::Int32), DataType::Int32);
  EXPECT_EQ(promoteTypes(DataType::Int32, DataType::Int), DataType::Int);
  EXPECT_TRUE(hasText(userError([] { promoteTypes(DataType::UInt64, DataType::Int); }),
                      "cannot be promoted"));
}

TEST_F(ElementwiseOpsTest, TensorsDecideOverScalars) {
  auto* f = input({2, 3});
  auto* i = input({2, 3}, DataType::Int);
  auto* i32 = input({2, 3}, DataType::Int32);
  auto* b = input({2, 3}, DataType::Bool);
  auto* c = input({2, 3}, DataType::ComplexFloat);
  auto* h = input({2, 3}, DataType::Half);
  Val* complex_constant = IrBuilder::create<Val>(std::complex<double>(1, 2));
  EXPECT_EQ(add(f, constant(2.0))->dtype(), DataType::Float);
  EXPECT_EQ(add(i, constant(2.0))->dtype(), DataType::Double);
  EXPECT_EQ(add(i32, constant(int64_t{2}))->dtype(), DataType::Int32);
  EXPECT_EQ(add(b, constant(int64_t{2}))->dtype(), DataType::Int);
  EXPECT_EQ(mul(c, complex_constant)->dtype(), DataType::ComplexFloat);
  EXPECT_EQ(mul(f, complex_constant)->dtype(), DataType::ComplexFloat);
  EXPECT_EQ(add(h, constant(2.0))->dtype(), DataType::Float);
  EXPECT_EQ(add(h, h)->dtype(), DataType::Float);
  EXPECT_EQ(add(i32, f)->dtype(), DataType::Float);
}

TEST_F(ElementwiseOpsTest, ZeroDimensionalTensorsStandBetween) {
  auto* f = input({2});
  auto* d0 = input({}, DataType::Double);
  auto* i = input({2}, DataType::Int);
  EXPECT_EQ(add(f, d0)->dtype(), DataType::Float);
  EXPECT_EQ(add(i, d0)->dtype(), DataType::Double);
  EXPECT_EQ(add(d0, constant(int64_t{1}))->dtype(), DataType::Double);
  EXPECT_EQ(add(input({}, DataType::Int32), constant(int64_t{1}))->dtype(), DataType::Int32);
}

TEST_F(ElementwiseOpsTest, RulesGiveResultDtypes) {
  auto* h = input({2}, DataType::Half);
  auto* i = input({2}, DataType::Int);
  auto* b = input({2}, DataType::Bool);
  auto* d = input({2}, DataType::Double);
  auto* z = input({2}, DataType::ComplexDouble);
  EXPECT_EQ(relu(h)->dtype(), DataType::Half);
  EXPECT_EQ(neg(h)->dtype(), DataType::Float);
  EXPECT_EQ(sin(i)->dtype(), DataType::Float);
  EXPECT_EQ(sin(b)->dtype(), DataType::Float);
  EXPECT_EQ(sin(d)->dtype(), DataType::Double);
  EXPECT_EQ(sin(z)->dtype(), DataType::ComplexDouble);
  EXPECT_EQ(abs(z)->dtype(), DataType::Double);
  EXPECT_EQ(real(z)->dtype(), DataType::Double);
  EXPECT_EQ(real(i)->dtype(), DataType::Int);
  EXPECT_EQ(imag(z)->dtype(), DataType::Double);
  EXPECT_EQ(isnan(h)->dtype(), DataType::Bool);
  EXPECT_EQ(logical_not(i)->dtype(), DataType::Bool);
  EXPECT_EQ(lt(h, i)->dtype(), DataType::Bool);
  EXPECT_EQ(truediv(i, i)->dtype(), DataType::Float);
  EXPECT_EQ(div(i, i)->dtype(), DataType::Int);
  EXPECT_EQ(pow(i, i)->dtype(), DataType::Int);
  EXPECT_EQ(bitwise_and(b, b)->dtype(), DataType::Bool);
  EXPECT_EQ(bitwise_and(b, b)->definition()->as<ElementwiseOp>()->op(), OpType::LogicalAnd);
  EXPECT_EQ(bitwise_xor(b, b)->definition()->as<ElementwiseOp>()->op(), OpType::Ne);
  EXPECT_EQ(sign(h)->dtype(), DataType::Half);
  EXPECT_EQ(sign(h)->definition()->as<ElementwiseOp>()->op(), OpType::Cast);
  EXPECT_EQ(complex(d, d)->dtype(), DataType::ComplexDouble);
  EXPECT_EQ(nextafter(input({2}), d)->dtype(), DataType::Double);
  EXPECT_EQ(where(b, h, h)->dtype(), DataType::Half);
  EXPECT_EQ(where(b, constant(1.0), constant(2.0))->dtype(), DataType::Double);
  EXPECT_EQ(clamp(h, constant(0.0), constant(1.0))->dtype(), DataType::Half);
  EXPECT_EQ(addcmul(h, h, h, constant(2.0))->dtype(), DataType::Float);
  EXPECT_EQ(rand_like(h)->dtype(), DataType::Half);
}

TEST_F(ElementwiseOpsTest, RejectsOperandsThatAnOpDoesNotHave) {
  auto* f = input({2});
  auto* h = input({2}, DataType::Half);
  auto* i = input({2}, DataType::Int);
  auto* z = input({2}, DataType::ComplexFloat);
  EXPECT_TRUE(hasText(userError([&] { bitwise_and(f, f); }), "bitwise_and"));
  EXPECT_TRUE(hasText(userError([&] { bitwise_not(f); }), "integers"));
  EXPECT_TRUE(hasText(userError([&] { imag(f); }), "complex"));
  EXPECT_TRUE(hasText(userError([&] { nextafter(h, h); }), "Float or Double"));
  EXPECT_TRUE(hasText(userError([&] { where(i, f, f); }), "Condition should be of DataType Bool"));
  EXPECT_TRUE(hasText(userError([&] { lt(z, z); }), "complex"));
  EXPECT_TRUE(hasText(userError([&] { complex(f, input({2}, DataType::Double)); }), "complex"));
  EXPECT_TRUE(hasText(userError([&] { clamp(f, f, constant(1.0)); }), "scalars"));
  EXPECT_TRUE(hasText(userError([&] { rand_like(i); }), "floating point types"));
  EXPECT_TRUE(hasText(userError([&] { elementwise(OpType::Add, {f, nullptr}); }), "missing"));
}

TEST_F(ElementwiseOpsTest, CastsTensorOperandsOnly) {
  auto* h = input({2}, DataType::Half);
  auto* f = input({2});
  Expr* sum = add(h, f)->definition();
  EXPECT_EQ(sum->input(0)->definition()->as<ElementwiseOp>()->op(), OpType::Cast);
  EXPECT_EQ(sum->input(1), f);
  Val* two = constant(2.0);
  EXPECT_EQ(add(f, two)->definition()->input(1), two);
  Val* converted = add(f, constant(int64_t{2}))->definition()->input(1);
  EXPECT_EQ(converted->dtype(), DataType::Float);
  EXPECT_TRUE(converted->isConst());
}

TEST_F(ElementwiseOpsTest, FillsAbsentBounds) {
  auto* f = input({2});
  Expr* e = elementwise(OpType::Clamp, {f, constant(0.0), nullptr})->definition();
  EXPECT_EQ(std::get<double>(e->input(2)->value()), std::numeric_limits<double>::infinity());
  auto* i = input({2}, DataType::Int32);
  e = elementwise(OpType::Clamp, {i, nullptr, nullptr})->definition();
  EXPECT_EQ(e->input(1)->intValue(), std::numeric_limits<int32_t>::min());
}

TEST_F(ElementwiseOpsTest, CastsSomePairsOnly) {
  auto* e4m3 = input({2}, DataType::Float8_e4m3fn);
  EXPECT_EQ(castOp(DataType::BFloat16, e4m3)->dtype(), DataType::BFloat16);
  EXPECT_TRUE(hasText(userError([&] { castOp(DataType::Int, e4m3); }), "Illegal cast"));
  EXPECT_TRUE(hasText(userError([&] { castOp(DataType::Float8_e5m2, e4m3); }), "Illegal cast"));
  EXPECT_TRUE(castOp(DataType::Float, input({2}))->definition()->isA<LoadStoreOp>());
}

TEST_F(ElementwiseOpsTest, BroadcastsLowerRanks) {
  auto* a = input({3, 1, 2});
  auto* b = input({4, 2});
  auto* c = add(a, b);
  EXPECT_EQ(domainText(c), "[i 3, i 4, i 2]");
  EXPECT_TRUE(c->definition()->input(1)->definition()->isA<BroadcastOp>());
  EXPECT_EQ(domainText(add(input({1}), input({1}))), "[b 1]");
  EXPECT_EQ(domainText(add(input({0, 2, 1}), input({1, 1, 5}))), "[i 0, i 2, i 5]");
  EXPECT_EQ(domainText(add(input({}), constant(1.0))), "[]");
}

TEST_F(ElementwiseOpsTest, PrefersConstantExtents) {
  auto* a = input({-1, -1});
  auto* b = input({-1, 8});
  EXPECT_EQ(add(a, b)->getLogicalDomain()[0]->extent(), a->getLogicalDomain()[0]->extent());
  EXPECT_TRUE(add(a, b)->getLogicalDomain()[1]->extent()->isConstInt());
}

TEST_F(ElementwiseOpsTest, KeepsExpandedBroadcasts) {
  auto* a = expand(input({1, 4}), shapeVals({7, -1}));
  EXPECT_EQ(domainText(a), "[b 1 ex 7, i 4]");
  EXPECT_EQ(domainText(neg(a)), "[b 1 ex 7, i 4]");
  EXPECT_EQ(domainText(add(a, input({1, 4}))), "[b 1 ex 7, i 4]");
  EXPECT_EQ(domainText(add(a, input({7, 4}))), "[i 7, i 4]");
  EXPECT_TRUE(hasText(userError([&] { add(a, input({6, 4})); }), "add"));
}

TEST_F(ElementwiseOpsTest, NamesOpAndShapesWhenSizesDiffer) {
  const std::string message = userError([&] { mul(input({2, 3}), input({2, 4})); });
  EXPECT_TRUE(hasText(message, "mul"));
  EXPECT_TRUE(hasText(message, "[2, 3]"));
  EXPECT_TRUE(hasText(message, "[2, 4]"));
}

TEST_F(ElementwiseOpsTest, MeetsSymbolicDimensions) {
  auto* a = reshape(input({-1}), std::vector<int64_t>{-1, 2});
  EXPECT_TRUE(a->getLogicalDomain()[0]->isSymbolicType());
  EXPECT_EQ(domainText(add(a, input({5, 1}))), "[i 5, i 2]");
  EXPECT_TRUE(add(a, input({1, 1}))->getLogicalDomain()[0]->isSymbolicType());
  EXPECT_EQ(add(a, neg(a))->getLogicalDomain()[0]->extent(), a->getLogicalDomain()[0]->extent());
}

TEST_F(ElementwiseOpsTest, RefusesOperandsOfAnotherFusion) {
  Fusion other;
  TensorView* foreign = nullptr;
  {
    FusionGuard guard(&other);
    foreign = makeContigTensor(1);
  }
  EXPECT_TRUE(hasText(userError([&] { add(foreign, constant(1.0)); }), "another fusion"));
  EXPECT_TRUE(
      hasText(userError([&] { reshape(foreign, std::vector<int64_t>{-1}); }), "another fusion"));
}

TEST_F(ElementwiseOpsTest, ScalarsStayScalars) {
  Val* a = scalarInput(DataType::Int);
  EXPECT_EQ(add(a, constant(1.5))->dtype(), DataType::Double);
  EXPECT_FALSE(add(a, constant(1.5))->isTensor());
  EXPECT_EQ(std::get<int64_t>(mul(constant(int64_t{6}), constant(int64_t{7}))->value()), 42);
}

TEST_F(ElementwiseOpsTest, LogicalRightShiftIsComposed) {
  auto* i = input({2}, DataType::Int32);
  EXPECT_EQ(logical_right_shift(i, constant(int64_t{3}))->dtype(), DataType::Int32);
  EXPECT_TRUE(hasText(userError([&] { logical_right_shift(input({2}), constant(int64_t{1})); }),
                      "logical_right_shift"));
}

} // namespace
} // namespace nvfuser
