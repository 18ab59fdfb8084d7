// SPDX-License-Identifier: BSD-3-Clause
// Fusions that are too large for one kernel: how many kernels they become, and what passes between
// them.
#include "executor_for_test.h"

#include <ir/visitor.h>
#include <segment/kernel_size.h>

#include <cmath>

namespace nvfuser::test {
namespace {

constexpr size_t kMostOperations = 128;
constexpr size_t kMostReductions = 16;
constexpr size_t kMostTensors = 48;

using Pieces = std::vector<std::vector<Expr*>>;

TensorView* input(Fusion* f) {
  return addInput(f, makeContigTensor(2));
}

// Tensors that a piece reads of an earlier one.
std::vector<const TensorView*> passedOn(const Pieces& pieces) {
  std::unordered_map<const Expr*, size_t> piece_of;
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (const Expr* e : pieces[i]) {
      piece_of[e] = i;
    }
  }
  std::vector<const TensorView*> out;
  for (const auto& [e, piece] : piece_of) {
    for (const TensorView* in : tensorInputs(e)) {
      if (in->definition() == nullptr) {
        continue;
      }
      const size_t from = piece_of.at(in->definition());
      EXPECT_LE(from, piece);
      if (from != piece && std::find(out.begin(), out.end(), in) == out.end()) {
        out.push_back(in);
      }
    }
  }
  return out;
}

size_t countReductions(const std::vector<Expr*>& exprs) {
  return static_cast<size_t>(
      std::count_if(exprs.begin(), exprs.end(), [](const Expr* e) { return isReduction(e); }));
}

TEST(KernelSize, SmallFusionsAreLeftAlone) {
  const auto fusion = defineFusion([](Fusion* f) {
    TensorView* tv = input(f);
    for (size_t i = 0; i < kMostOperations; ++i) {
      tv = neg(tv);
    }
    f->addOutput(tv);
  });
  EXPECT_EQ(whyTooLarge(fusion->exprs()), "");
}

TEST(KernelSize, ChainsAreCutIntoFullKernels) {
  const auto fusion = defineFusion([](Fusion* f) {
    TensorView* tv = input(f);
    for (size_t i = 0; i < 2 * kMostOperations + 1; ++i) {
      tv = neg(tv);
    }
    f->addOutput(tv);
  });
  EXPECT_EQ(whyTooLarge(fusion->exprs()), "one kernel would have more than 128 operations");
  const Pieces pieces = piecesOfBoundedSize(fusion->exprs());
  ASSERT_EQ(pieces.size(), 3);
  EXPECT_EQ(pieces[0].size(), kMostOperations);
  EXPECT_EQ(passedOn(pieces).size(), 2);
}

// Sixteen norms fit, and between norms only one tensor passes; in their middle it would be two.
TEST(KernelSize, StacksAreCutBetweenLayers) {
  std::vector<TensorView*> layers;
  const auto fusion = defineFusion([&](Fusion* f) {
    TensorView* tv = input(f);
    for (size_t i = 0; i < 40; ++i) {
      TensorView* e = exp(tv);
      tv = add(tv, mul(e, broadcast(sum(e, {1}), {false, true})));
      layers.push_back(tv);
    }
    f->addOutput(tv);
  });
  EXPECT_EQ(whyTooLarge(fusion->exprs()), "one kernel would have more than 16 reductions");
  const Pieces pieces = piecesOfBoundedSize(fusion->exprs());
  ASSERT_EQ(pieces.size(), 3);
  EXPECT_EQ(countReductions(pieces[0]), kMostReductions);
  const auto passed = passedOn(pieces);
  EXPECT_EQ(passed.size(), 2);
  for (const TensorView* tv : passed) {
    EXPECT_NE(std::find(layers.begin(), layers.end(), tv), layers.end()) << tv->toString();
  }
}

// Where the leaves come first in the definition they do not all wait for their readers.
TEST(KernelSize, TreesPassOnlyFewTensors) {
  const auto fusion = defineFusion([](Fusion* f) {
    TensorView* x = input(f);
    std::vector<TensorView*> level;
    for (int i = 0; i < 256; ++i) {
      level.push_back(mul(x, IrBuilder::create<Val>(1.0 / (i + 1))));
    }
    while (level.size() > 1) {
      std::vector<TensorView*> next;
      for (size_t i = 0; i < level.size(); i += 2) {
        next.push_back(add(level[i + 1], level[i]));
      }
      level = std::move(next);
    }
    f->addOutput(level.front());
  });
  const Pieces pieces = piecesOfBoundedSize(fusion->exprs());
  EXPECT_LE(pieces.size(), 5);
  EXPECT_LE(passedOn(pieces).size(), 2 * pieces.size());
}

TEST(KernelSize, SumsThatEndInALongChainDoNotKeepAllOperands) {
  const auto fusion = defineFusion([](Fusion* f) {
    TensorView* x = input(f);
    TensorView* total = x;
    for (int i = 0; i < 150; ++i) {
      total = add(sin(mul(x, IrBuilder::create<Val>(1.0 / (i + 1)))), total); // the leaf first
    }
    f->addOutput(total);
  });
  const Pieces pieces = piecesOfBoundedSize(fusion->exprs());
  EXPECT_EQ(passedOn(pieces).size(), pieces.size() - 1);
}

// Of 16-bit tensors, what passes is the 16-bit one.
TEST(KernelSize, NarrowTensorsPass) {
  const auto fusion = defineFusion([](Fusion* f) {
    TensorView* tv = addInput(f, makeContigTensor(2, DataType::BFloat16));
    for (int i = 0; i < 60; ++i) {
      tv = castOp(DataType::BFloat16, exp(neg(castOp(DataType::Float, tv))));
    }
    f->addOutput(tv);
  });
  for (const TensorView* tv : passedOn(piecesOfBoundedSize(fusion->exprs()))) {
    EXPECT_EQ(tv->dtype(), DataType::BFloat16);
  }
}

TEST(KernelSize, ManyTensors) {
  const auto fusion = defineFusion([](Fusion* f) {
    for (size_t i = 0; i < 2 * kMostTensors; ++i) {
      f->addOutput(neg(input(f)));
    }
  });
  EXPECT_EQ(whyTooLarge(fusion->exprs()), "one kernel would have more than 48 inputs and outputs");
  EXPECT_EQ(piecesOfBoundedSize(fusion->exprs()).size(), 4);
}

TEST(KernelSize, ManyLiveValues) {
  const auto fusion = defineFusion([](Fusion* f) {
    TensorView* x = input(f);
    std::vector<TensorView*> made{x};
    for (int i = 0; i < 60; ++i) {
      made.push_back(sin(made.back()));
    }
    TensorView* total = made.back();
    for (int i = 60; i-- > 0;) {
      total = mul(total, made[static_cast<size_t>(i)]);
    }
    f->addOutput(total);
  });
  EXPECT_EQ(whyTooLarge(fusion->exprs()),
            "one kernel would have more than 32 registers for each element");
}

TEST(KernelSize, ValuesOfManyKernels) {
  for (const Device device : testDevices()) {
    constexpr int kOperations = 300;
    FusionExecutorCache cache(defineFusion([](Fusion* f) {
      TensorView* tv = input(f);
      for (int i = 0; i < kOperations; ++i) {
        tv = i % 3 == 0 ? sin(tv) : add(tv, IrBuilder::create<Val>(0.25));
      }
      f->addOutput(tv);
    }));
    const Tensor x = randomTensor({5, 40}, device, 3);
    const KernelArgs outputs = cache.runFusionWithInputs({x});
    expectValues(outputs.tensor(0),
                 mapped(x,
                        [](double v) {
                          for (int i = 0; i < kOperations; ++i) {
                            v = i % 3 == 0 ? std::sin(v) : v + 0.25;
                          }
                          return v;
                        }),
                 1e-4);
    const std::vector<SegmentReport> segments = cache.mostRecentSegmentReports();
    ASSERT_EQ(segments.size(), 4); // a sine counts as three
    EXPECT_EQ(segments[0].note, "one kernel would have more than 128 operations");
    EXPECT_EQ(cache.numFallbacks(), 0);
  }
}

} // namespace
} // namespace nvfuser::test
