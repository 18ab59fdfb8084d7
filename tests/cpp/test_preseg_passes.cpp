// SPDX-License-Identifier: BSD-3-Clause
// The list of passes: their order, which of them a definition gets, and what NVFUSER_DUMP prints.
#include "preseg_for_test.h"

#include <base/options.h>
#include <preseg_passes/preseg_passes.h>

#include <regex>

namespace nvfuser::test {

class PresegPasses : public PresegTest {
 protected:
  // The names of the passes as they are printed, one a line; "*": the fusion changed.
  std::string passes(const Rewrites& wanted) {
    PresegFusion definition;
    definition.fusion = &fusion_;
    for (Val* v : fusion_.outputs()) {
      definition.outputs.push_back(v->as<TensorView>());
    }
    testing::internal::CaptureStdout();
    {
      OptionsGuard guard;
      guard.options().dump.set(DumpOption::PreSegmenterLogging);
      runPresegPasses(definition, wanted);
    }
    const std::string printed = testing::internal::GetCapturedStdout();
    std::string out;
    const std::regex line("// ([a-z -]+): [0-9.e+-]+ us(, no change)?");
    for (std::sregex_iterator it(printed.begin(), printed.end(), line), end; it != end; ++it) {
      out += (*it)[1].str() + ((*it)[2].matched ? "\n" : " *\n");
    }
    return out;
  }
};

TEST_F(PresegPasses, OfAPointwiseDefinition) {
  fusion_.addOutput(neg(input({4, 6})));
  EXPECT_EQ(passes({}), R"(materialize expanded writes
resolve in-place writes
look up selections
look up in inputs
sink lookups
order intermediates
)");
}

TEST_F(PresegPasses, OfANormalizationWhoseColumnsAreSummedInTwoSteps) {
  TensorView* x = castOp(DataType::Float, input({12, 8}, DataType::BFloat16));
  fusion_.addOutput(sub(x, broadcast(sum(x, {1}), {false, true})));
  fusion_.addOutput(sum(x, {0}));
  Rewrites wanted;
  wanted.partial_sums = 3;
  EXPECT_EQ(passes(wanted), R"(materialize expanded writes
resolve in-place writes
look up selections
look up in inputs
sink lookups
nest reductions
separate widening casts *
split column reductions *
order intermediates
)");
}

TEST_F(PresegPasses, OfRowsThatTakeSeveralKernels) {
  TensorView* x = castOp(DataType::Float, input({12, 8}, DataType::BFloat16));
  fusion_.addOutput(sub(x, broadcast(sum(x, {1}), {false, true})));
  fusion_.addOutput(sum(x, {0}));
  Rewrites wanted;
  wanted.merge_softmax_statistics = true;
  wanted.repeat_after_reductions = 0;
  wanted.repeat_for_columns = true;
  EXPECT_EQ(passes(wanted), R"(materialize expanded writes
resolve in-place writes
look up selections
look up in inputs
sink lookups
nest reductions
merge softmax statistics
repeat after reductions *
separate widening casts *
repeat for columns *
order intermediates
)");
}

} // namespace nvfuser::test
