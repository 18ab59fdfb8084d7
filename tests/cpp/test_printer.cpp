// SPDX-License-Identifier: BSD-3-Clause
// The text of IR.
#include <ops_for_test.h>

#include <fusion/printer.h>
#include <ir/printer.h>

namespace nvfuser {
namespace {

using testing_utils::OpsTest;

class PrinterTest : public OpsTest {};

TEST_F(PrinterTest, Math) {
  auto* a = makeContigTensor(2);
  auto* b = makeContigTensor(2);
  fusion_.addInput(a);
  fusion_.addInput(b);
  auto* c = add(a, b);
  fusion_.addOutput(relu(mul(c, constant(3.0))));
  EXPECT_EQ(fusion_.printMath(), R"(Inputs:
  T0_g_float[iS0{i0}, iS1{i1}]
  T1_g_float[iS2{i2}, iS3{i3}]
Outputs:
  T4_g_float[iS8{i0}, iS9{i1}]

%kernel_math {
T2_l_float[iS4{i0}, iS5{i1}]
   = T0_g_float[iS0{i0}, iS1{i1}]
   + T1_g_float[iS2{i2}, iS3{i3}];
T3_l_float[iS6{i0}, iS7{i1}]
   = T2_l_float[iS4{i0}, iS5{i1}]
   * double(3);
T4_g_float[iS8{i0}, iS9{i1}]
   = relu(T3_l_float[iS6{i0}, iS7{i1}]);
} // %kernel_math 

)");
}

TEST_F(PrinterTest, Statements) {
  auto* a = makeContigConcreteTensor({4, 1}, DataType::Half);
  EXPECT_EQ(castOp(DataType::Float, a)->definition()->toString(),
            "T1_l_float[iS2{4}, bS3{1}]\n   = __half2float(T0_l___half[iS0{4}, bS1{1}]);\n");
  EXPECT_EQ(set(a)->definition()->toString(),
            "T2_l___half[iS4{4}, bS5{1}]\n   = Set( T0_l___half[iS0{4}, bS1{1}], "
            "cache_op=Unspecified )\n");
  EXPECT_EQ(
      expand(a, shapeVals({4, 7}))->definition()->toString(),
      "T3_l___half[iS6{4}, bS7{1 ex 7}]\n   = expand( T0_l___half[iS0{4}, bS1{1}], {4, 7} )\n");
  Val* d = scalarInput(DataType::Double);
  Val* sum = add(d, constant(1.5));
  EXPECT_EQ(sum->definition()->toString(),
            sum->toString() + " = " + d->toString() + " + double(1.5);\n");
  EXPECT_EQ(sum->toInlineString(), "( " + d->toString() + " + double(1.5) )");
}

TEST_F(PrinterTest, Scalars) {
  EXPECT_EQ(constant(int64_t{-3})->toString(), "-3");
  EXPECT_EQ(constant(0.5)->toString(), "double(0.5)");
  EXPECT_EQ(IrBuilder::create<Val>(true)->toString(), "true");
  EXPECT_EQ(IrBuilder::create<Val>(std::complex<double>(2, 1))->toString(),
            "std::complex<double>(2,1)");
  EXPECT_EQ(scalarInput(DataType::Double)->toString().front(), 'd');
  EXPECT_EQ(scalarInput(DataType::Int)->toString().front(), 'i');
  EXPECT_EQ(scalarInput(DataType::Bool)->toString().front(), 'b');
}

// Each size contains the one before several times: written out it would be exponential.
TEST_F(PrinterTest, ChainsOfSlicesAreAsLongAsTheChain) {
  auto lengthOfMath = [](int count) {
    Fusion fusion;
    FusionGuard guard(&fusion);
    auto* tv = makeContigTensor(1);
    fusion.addInput(tv);
    for (int i = 0; i < count; ++i) {
      tv = slice(tv, std::vector<int64_t>{1}, std::vector<int64_t>{999 - i});
    }
    fusion.addOutput(tv);
    const Val* size = tv->axis(0)->extent();
    const std::string math = fusion.printMath();
    EXPECT_NE(tv->toString().find("{" + size->toString() + "}"), std::string::npos)
        << tv->toString();
    EXPECT_NE(math.find("\n" + size->definition()->toString()), std::string::npos) << math;
    EXPECT_LT(size->toInlineString().size(), 10000);
    EXPECT_NE(printScheduled(fusion, false).find("\n" + size->definition()->toString()),
              std::string::npos);
    return math.size();
  };
  EXPECT_LT(lengthOfMath(80), 2.2 * static_cast<double>(lengthOfMath(40)));
}

TEST_F(PrinterTest, ScheduledTensors) {
  auto* a = makeContigTensor(1);
  fusion_.addInput(a);
  auto* out = neg(a);
  fusion_.addOutput(out);
  auto [outer, inner] = IterDomain::split(out->axis(0), IrBuilder::index(4), true);
  out->domain()->setLoopDomain({outer, inner});
  outer->parallelize(ParallelType::BIDx);
  out->setMaxProducerPosition(1);
  EXPECT_EQ(out->toString(),
            "T1_g_float[iblockIdx.x2{( ceilDiv(i0, 4) )}, iS3{4}] produce_pos( 1 )");
  EXPECT_EQ(out->domain()->toString(), "[iblockIdx.x2{( ceilDiv(i0, 4) )}, iS3{4}]");
  EXPECT_EQ(outer->definition()->toString(),
            "Split: iS1{i0} by factor 4 -> iblockIdx.x2{( ceilDiv(i0, 4) )}, iS3{4}\n");
  const std::string text = printScheduled(fusion_, true);
  EXPECT_NE(text.find("%kernel {\n"), std::string::npos);
  EXPECT_NE(text.find("} // %kernel\n"), std::string::npos);
  EXPECT_NE(text.find(" logical domain : (iS1{i0})"), std::string::npos);
}

} // namespace
} // namespace nvfuser
