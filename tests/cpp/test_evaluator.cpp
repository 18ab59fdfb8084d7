// SPDX-License-Identifier: BSD-3-Clause
// Evaluation of scalar expressions and of single ops on constants.
#include <fusion.h>
#include <ir/evaluator.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace nvfuser;

namespace {

using Complex = std::complex<double>;

ScalarValue integer(int64_t x) {
  return x;
}

int64_t intOp(OpType op, std::vector<ScalarValue> in, DataType dtype = DataType::Int) {
  auto v = evaluateOp(op, dtype, in);
  EXPECT_TRUE(v.has_value()) << opInfo(op).name;
  return v ? std::get<int64_t>(*v) : -999;
}

double realOp(OpType op, std::vector<ScalarValue> in, DataType dtype = DataType::Double) {
  auto v = evaluateOp(op, dtype, in);
  EXPECT_TRUE(v.has_value()) << opInfo(op).name;
  return v ? std::get<double>(*v) : -999;
}

bool boolOp(OpType op, std::vector<ScalarValue> in) {
  auto v = evaluateOp(op, DataType::Bool, in);
  EXPECT_TRUE(v.has_value()) << opInfo(op).name;
  return v && std::get<bool>(*v);
}

const double kNan = std::nan("");
const double kInf = std::numeric_limits<double>::infinity();

} // namespace

TEST(EvaluateOp, IntegerDivisionTruncates) {
  EXPECT_EQ(intOp(OpType::Div, {integer(-7), integer(2)}), -3);
  EXPECT_EQ(intOp(OpType::Mod, {integer(-7), integer(2)}), -1);
  EXPECT_EQ(intOp(OpType::Remainder, {integer(-7), integer(2)}), 1);
  EXPECT_EQ(intOp(OpType::Remainder, {integer(7), integer(-2)}), -1);
  EXPECT_EQ(intOp(OpType::Fmod, {integer(-7), integer(2)}), -1);
}

TEST(EvaluateOp, CeilDivRoundsUpForEverySign) {
  EXPECT_EQ(intOp(OpType::CeilDiv, {integer(7), integer(2)}), 4);
  EXPECT_EQ(intOp(OpType::CeilDiv, {integer(-7), integer(2)}), -3);
  EXPECT_EQ(intOp(OpType::CeilDiv, {integer(0), integer(5)}), 0);
  EXPECT_EQ(intOp(OpType::CeilDiv, {integer(8), integer(4)}), 2);
  EXPECT_EQ(intOp(OpType::CeilDiv, {integer(5), integer(0)}), 0);
}

TEST(EvaluateOp, IntegerDivisionByZeroHasNoValue) {
  for (OpType op : {OpType::Div, OpType::Mod, OpType::Fmod, OpType::Remainder}) {
    EXPECT_FALSE(evaluateOp(op, DataType::Int, {integer(5), integer(0)}).has_value());
  }
  EXPECT_EQ(realOp(OpType::Div, {1.0, 0.0}), kInf);
}

TEST(EvaluateOp, ExtremeIntegersDoNotTrap) {
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(intOp(OpType::Div, {integer(lowest), integer(-1)}), lowest);
  EXPECT_EQ(intOp(OpType::Mod, {integer(lowest), integer(-1)}), 0);
  EXPECT_EQ(intOp(OpType::Abs, {integer(lowest)}), lowest);
  EXPECT_EQ(intOp(OpType::Add, {integer(std::numeric_limits<int64_t>::max()), integer(1)}), lowest);
}

TEST(EvaluateOp, Int32Wraps) {
  EXPECT_EQ(intOp(OpType::Add, {integer(2147483647), integer(1)}, DataType::Int32), -2147483648LL);
  EXPECT_EQ(intOp(OpType::Mul, {integer(65536), integer(65536)}, DataType::Int32), 0);
}

TEST(EvaluateOp, ShiftsOutOfRange) {
  EXPECT_EQ(intOp(OpType::BitwiseLeftShift, {integer(1), integer(40)}), int64_t{1} << 40);
  EXPECT_EQ(intOp(OpType::BitwiseLeftShift, {integer(1), integer(64)}), 0);
  EXPECT_EQ(intOp(OpType::BitwiseLeftShift, {integer(1), integer(32)}, DataType::Int32), 0);
  EXPECT_EQ(intOp(OpType::BitwiseRightShift, {integer(-8), integer(1)}), -4);
  EXPECT_EQ(intOp(OpType::BitwiseRightShift, {integer(-8), integer(100)}), -1);
}

TEST(EvaluateOp, IntegerPowersAndGcd) {
  EXPECT_EQ(intOp(OpType::Pow, {integer(3), integer(4)}), 81);
  EXPECT_EQ(intOp(OpType::Pow, {integer(2), integer(-1)}), 0);
  EXPECT_EQ(intOp(OpType::Pow, {integer(-1), integer(-3)}), -1);
  EXPECT_EQ(intOp(OpType::Gcd, {integer(-12), integer(18)}), 6);
  EXPECT_EQ(intOp(OpType::Gcd, {integer(0), integer(0)}), 0);
}

TEST(EvaluateOp, NanPropagatesThroughMinimumAndMaximum) {
  EXPECT_TRUE(std::isnan(realOp(OpType::Minimum, {kNan, 1.0})));
  EXPECT_TRUE(std::isnan(realOp(OpType::Minimum, {1.0, kNan})));
  EXPECT_TRUE(std::isnan(realOp(OpType::Maximum, {1.0, kNan})));
  EXPECT_EQ(realOp(OpType::Maximum, {1.0, 2.0}), 2.0);
  EXPECT_TRUE(std::isnan(realOp(OpType::Relu, {kNan})));
  EXPECT_TRUE(std::isnan(realOp(OpType::Clamp, {kNan, 0.0, 1.0})));
}

TEST(EvaluateOp, ComparisonsWithNanAreFalse) {
  for (OpType op : {OpType::Eq, OpType::Lt, OpType::Le, OpType::Gt, OpType::Ge}) {
    EXPECT_FALSE(boolOp(op, {kNan, 1.0}));
  }
  EXPECT_TRUE(boolOp(OpType::Ne, {kNan, kNan}));
  EXPECT_TRUE(boolOp(OpType::Eq, {Complex(1, 2), Complex(1, 2)}));
  EXPECT_TRUE(boolOp(OpType::Lt, {integer(1), 1.5}));
}

TEST(EvaluateOp, FloatIsComputedInFloat) {
  EXPECT_EQ(realOp(OpType::Add, {0.1, 0.2}, DataType::Float), double(float(0.1) + float(0.2)));
  EXPECT_EQ(realOp(OpType::Sqrt, {2.0}, DataType::Float), double(std::sqrt(2.0f)));
  EXPECT_EQ(realOp(OpType::Nextafter, {1.0, 2.0}, DataType::Float),
            double(std::nextafter(1.0f, 2.0f)));
}

TEST(EvaluateOp, RealFunctions) {
  EXPECT_EQ(realOp(OpType::Round, {2.5}), 2.0);
  EXPECT_EQ(realOp(OpType::Round, {3.5}), 4.0);
  EXPECT_EQ(realOp(OpType::Frac, {-1.25}), -0.25);
  EXPECT_EQ(realOp(OpType::Remainder, {-7.0, 2.0}), 1.0);
  EXPECT_EQ(realOp(OpType::Fmod, {-7.0, 2.0}), -1.0);
  EXPECT_EQ(realOp(OpType::Lerp, {1.0, 3.0, 0.25}), 1.5);
  EXPECT_EQ(realOp(OpType::Threshold, {1.0, 2.0, 9.0}), 9.0);
  EXPECT_EQ(realOp(OpType::Where, {true, 1.0, 2.0}), 1.0);
  EXPECT_EQ(realOp(OpType::TrueDiv, {integer(1), integer(2)}), 0.5);
  for (double x : {-0.9999999, -0.5, -1e-10, 0.0, 1e-3, 0.3, 0.97, 0.999999999}) {
    EXPECT_NEAR(std::erf(realOp(OpType::Erfinv, {x})), x, 1e-15);
  }
  EXPECT_EQ(realOp(OpType::Erfinv, {1.0}), kInf);
  EXPECT_TRUE(std::isnan(realOp(OpType::Erfinv, {1.5})));
}

TEST(EvaluateOp, ComplexNumbers) {
  auto v = evaluateOp(OpType::Mul, DataType::ComplexDouble, {Complex(1, 2), Complex(3, -1)});
  EXPECT_EQ(std::get<Complex>(*v), Complex(5, 5));
  EXPECT_EQ(realOp(OpType::Abs, {Complex(3, 4)}), 5.0);
  EXPECT_EQ(realOp(OpType::Imag, {Complex(3, 4)}), 4.0);
  EXPECT_EQ(realOp(OpType::Real, {Complex(3, 4)}), 3.0);
  v = evaluateOp(OpType::Complex, DataType::ComplexDouble, {1.0, 2.0});
  EXPECT_EQ(std::get<Complex>(*v), Complex(1, 2));
  EXPECT_FALSE(evaluateOp(OpType::Lt, DataType::Bool, {Complex(1, 2), Complex(3, 4)}).has_value());
}

TEST(EvaluateOp, Bools) {
  EXPECT_TRUE(boolOp(OpType::LogicalAnd, {integer(2), 0.5}));
  EXPECT_FALSE(boolOp(OpType::LogicalNot, {integer(2)}));
  EXPECT_FALSE(boolOp(OpType::BitwiseNot, {true}));
  EXPECT_TRUE(boolOp(OpType::BitwiseXor, {true, false}));
  EXPECT_TRUE(boolOp(OpType::Signbit, {-0.0}));
  EXPECT_TRUE(boolOp(OpType::IsNegInf, {-kInf}));
  EXPECT_FALSE(boolOp(OpType::IsFinite, {Complex(1, kInf)}));
}

TEST(ConvertScalar, RoundsToSmallFloats) {
  auto to = [](double x, DataType t) { return std::get<double>(convertScalar(x, t)); };
  EXPECT_EQ(to(0.1, DataType::Float), double(0.1f));
  EXPECT_EQ(to(0.1, DataType::Half), 0.0999755859375);
  EXPECT_EQ(to(65519.0, DataType::Half), 65504.0);
  EXPECT_EQ(to(65520.0, DataType::Half), kInf);
  EXPECT_EQ(to(5.9604644775390625e-08, DataType::Half), 5.9604644775390625e-08); // smallest
  EXPECT_EQ(to(2.0e-08, DataType::Half), 0.0);
  EXPECT_EQ(to(1.00390625, DataType::BFloat16), 1.0); // a tie goes to even
  EXPECT_EQ(to(1.01171875, DataType::BFloat16), 1.015625);
  EXPECT_EQ(to(464.0, DataType::Float8_e4m3fn), 448.0);
  EXPECT_TRUE(std::isnan(to(465.0, DataType::Float8_e4m3fn)));
  EXPECT_EQ(to(1e6, DataType::Float8_e5m2), kInf);
  EXPECT_EQ(to(3.0, DataType::Float8_e8m0fnu), 4.0);
  EXPECT_EQ(to(2.9, DataType::Float8_e8m0fnu), 2.0);
  EXPECT_EQ(to(100.0, DataType::Float4_e2m1fn), 6.0);
  EXPECT_EQ(to(-1.25, DataType::Float4_e2m1fn), -1.0);
}

TEST(ConvertScalar, BetweenCategories) {
  auto to_int = [](ScalarValue x, DataType t) { return std::get<int64_t>(convertScalar(x, t)); };
  EXPECT_EQ(to_int(-2.7, DataType::Int), -2);
  EXPECT_EQ(to_int(1e30, DataType::Int), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(to_int(1e30, DataType::Int32), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(to_int(kNan, DataType::Int), 0);
  EXPECT_EQ(to_int(integer(int64_t{1} << 32), DataType::Int32), 0);
  EXPECT_EQ(to_int(true, DataType::Index), 1);
  EXPECT_EQ(to_int(Complex(3.5, 1), DataType::Int), 3);
  EXPECT_TRUE(std::get<bool>(convertScalar(kNan, DataType::Bool)));
  EXPECT_EQ(std::get<Complex>(convertScalar(integer(2), DataType::ComplexFloat)), Complex(2, 0));
}

class ScalarEvaluatorTest : public ::testing::Test {
 protected:
  Fusion fusion;
  FusionGuard guard{&fusion};
  Val* a = IrBuilder::create<Val>(DataType::Index);
  Val* b = IrBuilder::create<Val>(DataType::Index);
  ScalarEvaluator evaluator;
};

TEST_F(ScalarEvaluatorTest, ComputesFromBoundScalars) {
  Val* e = IrBuilder::mulExpr(IrBuilder::ceilDivExpr(a, IrBuilder::index(128)), b);
  EXPECT_FALSE(evaluator.evaluate(e).has_value());
  evaluator.bind(a, integer(300));
  EXPECT_FALSE(evaluator.evaluate(e).has_value());
  evaluator.bind(b, integer(5));
  EXPECT_EQ(evaluator.evaluateInt(e), 15);
  EXPECT_TRUE(evaluator.evaluateBool(IrBuilder::ltExpr(b, a)));
}

TEST_F(ScalarEvaluatorTest, RebindingForgetsWhatWasComputed) {
  Val* e = IrBuilder::addExpr(a, IrBuilder::index(1));
  evaluator.bind(a, integer(1));
  EXPECT_EQ(evaluator.evaluateInt(e), 2);
  evaluator.bind(a, integer(10));
  EXPECT_EQ(evaluator.evaluateInt(e), 11);
}

TEST_F(ScalarEvaluatorTest, ConstantsMustAgree) {
  Val* four = IrBuilder::index(4);
  evaluator.bind(four, integer(4));
  EXPECT_THROW(evaluator.bind(four, integer(5)), std::runtime_error);
}

TEST_F(ScalarEvaluatorTest, NamedScalarsAreBoundByText) {
  auto* x = IrBuilder::create<NamedScalar>("threadIdx.x", DataType::Index);
  auto* same = IrBuilder::create<NamedScalar>("threadIdx.x", DataType::Index);
  evaluator.bind(x, integer(7));
  EXPECT_EQ(evaluator.evaluateInt(same), 7);
}

TEST_F(ScalarEvaluatorTest, UnneededBranchesMayBeUnknown) {
  evaluator.bind(a, integer(0));
  Val* zero = IrBuilder::index(0);
  Val* guarded = IrBuilder::whereExpr(IrBuilder::eqExpr(a, zero), IrBuilder::index(9),
                                      IrBuilder::divExpr(IrBuilder::index(5), a));
  EXPECT_EQ(evaluator.evaluateInt(guarded), 9);
  Val* unknown = IrBuilder::ltExpr(b, zero);
  EXPECT_FALSE(
      evaluator.evaluateBool(IrBuilder::logicalAndExpr(unknown, IrBuilder::gtExpr(a, zero))));
}

TEST_F(ScalarEvaluatorTest, ErrorsNameTheScalar) {
  try {
    evaluator.evaluateInt(IrBuilder::addExpr(a, b));
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find(a->toInlineString()), std::string::npos) << e.what();
  }
}

TEST_F(ScalarEvaluatorTest, DeepExpressionsDoNotExhaustTheStack) {
  Val* e = a;
  for (int i = 0; i < 200000; ++i) {
    e = IrBuilder::addExpr(e, b);
  }
  evaluator.bind(a, integer(1));
  evaluator.bind(b, integer(2));
  EXPECT_EQ(evaluator.evaluateInt(e), 400001);
}

TEST_F(ScalarEvaluatorTest, SharedSubexpressionsAreComputedOnce) {
  Val* e = a;
  for (int i = 0; i < 60; ++i) {
    e = IrBuilder::addExpr(e, e);
  }
  evaluator.bind(a, integer(1));
  EXPECT_EQ(evaluator.evaluateInt(e), int64_t{1} << 60);
}
