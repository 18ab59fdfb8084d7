// SPDX-License-Identifier: BSD-3-Clause
// The verifiers of fusions and of kernels: what is wrong on purpose is found, and named.
#include "lowering_for_test.h"
#include "ops_for_test.h"

#include <base/options.h>
#include <base/pass_log.h>
#include <fusion/verify.h>
#include <kernel/verify.h>
#include <lower/lower.h>
#include <transform/inlining.h>

#include <algorithm>

namespace nvfuser::test {
namespace {

using testing_utils::hasText;

std::string internalError(const std::function<void()>& f) {
  try {
    f();
  } catch (const InternalError& e) {
    return e.what();
  }
  return "";
}

class VerifyFusion : public testing_utils::OpsTest {
 protected:
  // A copy of x, which says that it has other dimensions.
  TensorView* copyOf(TensorView* x, std::vector<IterDomain*> ids) {
    auto* domain =
        IrBuilder::create<TensorDomain>(ids, TensorDomain::contiguityFilledWith(ids, true));
    auto* out = IrBuilder::create<TensorView>(domain, x->dtype());
    IrBuilder::create<ElementwiseOp>(OpType::Neg, out, std::vector<Val*>{x});
    return out;
  }
  static IterDomain* iteration(int64_t size) {
    return IterDomainBuilder(constant(size)).build();
  }
  static IterDomain* oneElement() {
    return IterDomainBuilder(constant(int64_t{1})).iterType(IterType::Broadcast).build();
  }
  std::string error() {
    return internalError([&] { verifyFusion(&fusion_, "a pass"); });
  }
};

TEST_F(VerifyFusion, WhatBuildersMakeIsRight) {
  TensorView* x = input({4, -1});
  TensorView* rows = broadcast(sum(x, {1}), {false, true});
  TensorView* wide = expand(rows, {constant(int64_t{4}), constant(int64_t{7})});
  fusion_.addOutput(add(x, rows));
  fusion_.addOutput(sum(wide, {1}));
  fusion_.addOutput(reshape(input({6, 4}), {constant(int64_t{3}), constant(int64_t{8})}));
  fusion_.addOutput(variance(x, {0}, 0, false));
  EXPECT_EQ(error(), "");
}

TEST_F(VerifyFusion, AnExpandedOperandIsNoSingleElement) {
  TensorView* x =
      expand(broadcast(input({4}), {false, true}), {constant(int64_t{4}), constant(int64_t{7})});
  fusion_.addOutput(copyOf(x, {iteration(4), oneElement()}));
  EXPECT_TRUE(hasText(error(),
                      "after the pass \"a pass\" it does not hold that what is expanded in "
                      "an operand is so in the result"));
}

TEST_F(VerifyFusion, WhatIteratesIsNoBroadcast) {
  fusion_.addOutput(copyOf(input({4, 3}), {oneElement(), iteration(3)}));
  EXPECT_TRUE(hasText(error(), "a dimension of an operand is no broadcast in the result"));
}

TEST_F(VerifyFusion, SizesOfOperandsAndResultsAreEqual) {
  fusion_.addOutput(copyOf(input({4, 3}), {iteration(4), iteration(5)}));
  EXPECT_TRUE(hasText(error(), "a dimension has one size in operands and results"));
}

TEST_F(VerifyFusion, OperandsHaveAllDimensions) {
  fusion_.addOutput(copyOf(input({}), {iteration(4)}));
  EXPECT_TRUE(hasText(error(), "operands have as many dimensions as the result"));
}

TEST_F(VerifyFusion, ATensorThatNothingMakesIsNoOperand) {
  fusion_.addOutput(neg(makeContigConcreteTensor({4})));
  EXPECT_TRUE(hasText(error(), "a tensor is defined before it is read"));
}

TEST_F(VerifyFusion, TensorsOfACircleAreNotDefinedBeforeTheyAreRead) {
  TensorView* x = neg(input({4}));
  TensorView* y = neg(x);
  fusion_.addOutput(y);
  IrBuilder::create<ElementwiseOp>(OpType::Neg, x, std::vector<Val*>{y});
  EXPECT_TRUE(hasText(error(), "a tensor is defined before it is read"));
}

// One that gets another definition leaves the other results without any.
TEST_F(VerifyFusion, OutputsAreComputed) {
  TensorView* x = input({4, 3});
  const WelfordResult moments = Welford(x, {1});
  fusion_.addOutput(moments.avg);
  IrBuilder::create<ElementwiseOp>(OpType::Neg, moments.var_sum, std::vector<Val*>{moments.avg});
  EXPECT_TRUE(hasText(error(), "an output is computed"));
}

TEST_F(VerifyFusion, DimensionsAreOfTheSameFusion) {
  Fusion other;
  IterDomain* foreign = nullptr;
  {
    FusionGuard guard(&other);
    foreign = iteration(4);
  }
  fusion_.addOutput(copyOf(input({4}), {foreign}));
  EXPECT_TRUE(hasText(error(), "a dimension is of this fusion"));
}

TEST_F(VerifyFusion, LoopsRunOverAllDimensions) {
  TensorView* y = neg(input({4, 3}));
  fusion_.addOutput(y);
  y->split(1, 2);
  EXPECT_EQ(error(), "");
  y->domain()->setLoopDomain({y->axis(0), y->axis(1)});
  EXPECT_EQ(error(), "") << "the parts of a split are made of the dimension";
  y->domain()->setLoopDomain({y->axis(0)});
  EXPECT_TRUE(hasText(error(), "loops run over each dimension"));
}

TEST_F(VerifyFusion, LoopsAreOfTheTensorsDimensions) {
  TensorView* y = neg(input({4}));
  fusion_.addOutput(y);
  y->domain()->setLoopDomain({y->axis(0), iteration(3)});
  EXPECT_TRUE(hasText(error(), "loops are made of the tensor's dimensions"));
}

// A pass that leaves something wrong is named, if that is asked for.
TEST_F(VerifyFusion, RunsAfterEachPassOnRequest) {
  const auto run = [&] {
    PassLog pass(false, nullptr, "", [&](const char* name) { verifyFusion(&fusion_, name); });
    pass("a right one", [&] { fusion_.addOutput(neg(input({4}))); });
    pass("a wrong one", [&] { fusion_.addOutput(neg(makeContigConcreteTensor({4}))); });
  };
  OptionsGuard guard;
  guard.options().enable.unset(EnableOption::VerifyIr);
  EXPECT_EQ(internalError(run), "");
  guard.options().enable.set(EnableOption::VerifyIr);
  EXPECT_TRUE(hasText(internalError(run), "after the pass \"a right one\""));
}

class VerifyStatements : public LoweringTest {
 protected:
  // The sum of a row, which is kept in registers, of twice the elements.
  VerifyStatements() {
    TensorView* x = input({8, 16});
    TensorView* twice = add(x, x);
    fusion_.addOutput(sub(twice, broadcast(sum(twice, {1}), {false, true})));
    for (TensorView* tv : fusion_.allTvs()) {
      if (!tv->isFusionInput()) {
        tv->axis(0)->parallelize(ParallelType::BIDx);
      }
    }
    inlineMost();
    lower_ = std::make_unique<GpuLower>(&fusion_);
    kernel_ = lower_->run();
  }

  using Statements = std::vector<Expr*>;

  // The first list with a statement of the kind.
  static Statements* listWith(Statements& list, ExprKind kind) {
    for (Expr* e : list) {
      if (e->kind() == kind) {
        return &list;
      }
    }
    for (Expr* e : list) {
      Statements* found = nullptr;
      if (auto* loop = dynamic_cast<ForLoop*>(e)) {
        found = listWith(loop->body(), kind);
      } else if (auto* branch = dynamic_cast<IfThenElse*>(e)) {
        found = listWith(branch->thenBody(), kind);
      }
      if (found != nullptr) {
        return found;
      }
    }
    return nullptr;
  }
  // Serial loops are in the body of the one over blocks.
  Statements& block() {
    return kernel_->top_level.size() == 1 ? kernel_->top_level.front()->as<ForLoop>()->body()
                                          : kernel_->top_level;
  }
  ForLoop* firstLoop() {
    for (Expr* e : block()) {
      if (auto* loop = dynamic_cast<ForLoop*>(e)) {
        return loop;
      }
    }
    return nullptr;
  }
  std::string error() {
    return internalError([&] { verifyStatements(kernel_, "a pass"); });
  }

  std::unique_ptr<GpuLower> lower_;
  Kernel* kernel_ = nullptr;
};

TEST_F(VerifyStatements, WhatIsLoweredIsRight) {
  EXPECT_EQ(error(), "");
}

TEST_F(VerifyStatements, AnIndexIsReadInItsLoop) {
  ForLoop* loop = firstLoop();
  ASSERT_NE(loop, nullptr);
  Statements inside = loop->body();
  const auto copy = std::find_if(inside.begin(), inside.end(), [](const Expr* e) {
    return e->kind() == ExprKind::ElementwiseOp;
  });
  ASSERT_NE(copy, inside.end()) << kernel_->toString();
  block().push_back(*copy);
  const std::string found = error();
  EXPECT_TRUE(hasText(found, "the index of a loop is read in that loop") ||
              hasText(found, "a buffer is accessed where it is allocated"));
  EXPECT_TRUE(hasText(found, "after the pass \"a pass\""));
}

TEST_F(VerifyStatements, ABufferIsAccessedWhereItIsAllocated) {
  Statements* list = listWith(kernel_->top_level, ExprKind::Allocate);
  ASSERT_NE(list, nullptr);
  std::erase_if(*list, [](const Expr* e) { return e->kind() == ExprKind::Allocate; });
  block().push_back(IrBuilder::create<Allocate>(neg(fusion_.inputs().front()->as<TensorView>()),
                                                MemoryType::Local,
                                                IrBuilder::create<Val>(int64_t{1}), 1));
  EXPECT_TRUE(hasText(error(), "a buffer is accessed where it is allocated"));
}

TEST_F(VerifyStatements, ABufferIsAllocatedOnce) {
  Statements* list = listWith(kernel_->top_level, ExprKind::Allocate);
  ASSERT_NE(list, nullptr);
  const auto memory = std::find_if(list->begin(), list->end(),
                                   [](const Expr* e) { return e->kind() == ExprKind::Allocate; });
  list->push_back(*memory);
  EXPECT_TRUE(hasText(error(), "a buffer is allocated once in a scope"));
}

TEST_F(VerifyStatements, WhatIsReadIsWritten) {
  std::erase(block(), static_cast<Expr*>(firstLoop()));
  EXPECT_TRUE(hasText(error(), "what is read is written"));
}

TEST_F(VerifyStatements, ScalarsAreComputedOrKnown) {
  block().push_back(IrBuilder::create<IfThenElse>(IrBuilder::create<Val>(DataType::Bool)));
  EXPECT_TRUE(hasText(error(), "a scalar is computed or known"));
}

TEST_F(VerifyStatements, LoopsInEachOtherCountApart) {
  ForLoop* loop = firstLoop();
  ForLoop* inner = loop->emptyCopy();
  loop->body().push_back(inner);
  EXPECT_TRUE(hasText(error(), "loops in each other count apart"));
}

} // namespace
} // namespace nvfuser::test
