// SPDX-License-Identifier: BSD-3-Clause
// The pointwise scheduler: what it accepts, the parameters for typical shapes, and the shape of its
// schedules.
#include <base/error.h>
#include <definition/rebuild.h>
#include <fusion.h>
#include <ops/all_ops.h>
#include <scheduler/pointwise.h>
#include <scheduler/registry.h>

#include <gtest/gtest.h>

#include <memory>

namespace nvfuser {
namespace {

MachineModel hopper() {
  MachineModel machine;
  machine.sms = 132;
  return machine;
}

// A tensor argument that is never read.
struct Arg {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t misaligned_by = 0; // bytes

  explicit Arg(std::vector<int64_t> s, std::vector<int64_t> st = {}, int64_t off = 0)
      : sizes(std::move(s)), strides(std::move(st)), misaligned_by(off) {
    if (strides.empty()) {
      strides.resize(sizes.size());
      int64_t stride = 1;
      for (size_t i = sizes.size(); i-- > 0;) {
        strides[i] = stride;
        stride *= sizes[i];
      }
    }
  }
  ArgView view() const {
    ArgView v;
    v.is_tensor = true;
    v.rank = static_cast<int32_t>(sizes.size());
    v.sizes = sizes.data();
    v.strides = strides.data();
    v.data = reinterpret_cast<void*>(uintptr_t{4096} + static_cast<uintptr_t>(misaligned_by));
    return v;
  }
};

class SchedulerPointwise : public testing::Test {
 protected:
  TensorView* input(int64_t rank, DataType dtype = DataType::BFloat16) {
    TensorView* tv = makeContigTensor(rank, dtype);
    fusion_.addInput(tv);
    return tv;
  }
  PointwiseParams heuristics(const std::vector<Arg>& args) {
    std::vector<ArgView> views;
    for (const Arg& a : args) {
      views.push_back(a.view());
    }
    SchedulerRuntimeInfo info(&fusion_, views, hopper());
    auto params = computeHeuristics(&fusion_, SchedulerType::PointWise, info);
    return dynamic_cast<PointwiseParams&>(*params);
  }
  bool accepted() {
    return canSchedule(&fusion_, SchedulerType::PointWise).ok;
  }
  // Every tensor that is computed is inlined into or shares loops with its consumers, and binds
  // what the reference binds.
  void expectWellFormed(const PointwiseParams& params) {
    scheduleWith(&fusion_, SchedulerType::PointWise, params);
    const TensorGraph graph(&fusion_);
    for (const TensorView* tv : graph.tensors()) {
      if (tv->isFusionInput() || graph.consumersOf(tv).empty()) {
        continue;
      }
      for (int64_t i = tv->getComputeAtPosition(); i < tv->nDims(); ++i) {
        EXPECT_TRUE(tv->axis(i)->extent()->isConstInt() ||
                    isParallelTypeThread(tv->axis(i)->parallelType()) || tv->axis(i)->isBroadcast())
            << tv->toString() << " axis " << i;
      }
    }
  }
  static std::vector<ParallelType> types(const TensorView* tv) {
    std::vector<ParallelType> out;
    for (const IterDomain* id : tv->getLoopDomain()) {
      out.push_back(id->parallelType());
    }
    return out;
  }
  Val* two() {
    return IrBuilder::create<Val>(2.0);
  }

  Fusion fusion_;
  FusionGuard guard_{&fusion_};
};

TEST_F(SchedulerPointwise, FlattensWhenNothingIsBroadcast) {
  TensorView* a = input(2);
  TensorView* b = input(2);
  fusion_.addOutput(castOp(DataType::BFloat16, mul(a, b)));
  const PointwiseParams p = heuristics({Arg({16384, 8192}), Arg({16384, 8192})});
  EXPECT_EQ(p.break_point, 0);
  EXPECT_EQ(p.vectorization_factor, 8);
  EXPECT_TRUE(p.not_vectorized.empty());
  PointwiseParams edited = p;
  edited.unroll_factor_inner = 2;
  expectWellFormed(edited);
  auto* out = fusion_.outputs()[0]->as<TensorView>();
  EXPECT_EQ(types(out), (std::vector<ParallelType>{ParallelType::BIDx, ParallelType::TIDx,
                                                   ParallelType::Unswitch, ParallelType::Serial,
                                                   ParallelType::Vectorize}));
  for (const Expr* use : a->uses()) {
    EXPECT_EQ(use->output(0)->as<TensorView>()->axis(-1)->parallelType(), ParallelType::Vectorize);
  }
}

TEST_F(SchedulerPointwise, ABiasIsLoadedOnceForSeveralRows) {
  TensorView* x = input(2);
  TensorView* bias = input(1);
  TensorView* y = add(x, broadcast(bias, {true, false}));
  fusion_.addOutput(castOp(DataType::BFloat16, tanh(y)));
  const PointwiseParams p = heuristics({Arg({16384, 8192}), Arg({8192})});
  EXPECT_EQ(p.break_point, 1);
  EXPECT_EQ(p.vectorization_factor, 8);
  EXPECT_GE(p.unroll_factor_outer, 2);
  EXPECT_FALSE(p.split_block);
  expectWellFormed(p);
  TensorView* cache = bias->uses()[0]->output(0)->as<TensorView>();
  EXPECT_EQ(cache->axis(-1)->parallelType(), ParallelType::Vectorize);
}

TEST_F(SchedulerPointwise, ShortRowsSplitTheBlock) {
  TensorView* x = input(2);
  TensorView* bias = input(1);
  fusion_.addOutput(castOp(DataType::BFloat16, add(x, broadcast(bias, {true, false}))));
  const PointwiseParams p = heuristics({Arg({100000, 128}), Arg({128})});
  EXPECT_EQ(p.break_point, 1);
  EXPECT_TRUE(p.split_block);
  EXPECT_EQ(p.blockDimX() * p.blockDimY(), 128);
  expectWellFormed(p);
}

TEST_F(SchedulerPointwise, ManyRowsDoNotExceedTheGrid) {
  TensorView* x = input(2);
  TensorView* bias = input(1);
  fusion_.addOutput(castOp(DataType::BFloat16, add(x, broadcast(bias, {true, false}))));
  const PointwiseParams p = heuristics({Arg({1 << 20, 2048}), Arg({2048})});
  EXPECT_TRUE(p.flip_grid_binding || p.split_grid_y_dim);
  expectWellFormed(p);
}

TEST_F(SchedulerPointwise, OddExtentsAndMisalignmentLimitVectors) {
  TensorView* a = input(2);
  TensorView* b = input(2);
  fusion_.addOutput(castOp(DataType::BFloat16, mul(a, b)));
  EXPECT_EQ(heuristics({Arg({3, 5}), Arg({3, 5})}).vectorization_factor, 1);
  EXPECT_EQ(heuristics({Arg({6, 6}), Arg({6, 6})}).vectorization_factor, 4);
  // One operand that starts at an odd element is read element by element.
  const PointwiseParams p = heuristics({Arg({4096, 4096}), Arg({4096, 4096}, {}, 2)});
  EXPECT_EQ(p.vectorization_factor, 8);
  EXPECT_EQ(p.not_vectorized, (std::vector<int64_t>{1}));
}

TEST_F(SchedulerPointwise, WidestDtypeSetsTheVector) {
  TensorView* a = input(2, DataType::BFloat16);
  TensorView* b = input(2, DataType::Float);
  fusion_.addOutput(add(a, b));
  EXPECT_EQ(heuristics({Arg({4096, 4096}), Arg({4096, 4096})}).vectorization_factor, 4);
}

TEST_F(SchedulerPointwise, LoopsFollowTheMemoryOrder) {
  auto channelsLast = [&] {
    TensorView* tv = TensorViewBuilder()
                         .ndims(4)
                         .dtype(DataType::BFloat16)
                         .contiguity(true)
                         .strideOrder({3, 0, 2, 1})
                         .build();
    return tv;
  };
  TensorView* a = channelsLast();
  fusion_.addInput(a);
  TensorView* out = castOp(DataType::BFloat16, sin(a));
  const auto ids = out->getLogicalDomain();
  out->setAllocationDomain({ids[0], ids[2], ids[3], ids[1]}, true);
  fusion_.addOutput(out);
  const int64_t c = 64;
  const int64_t h = 56;
  const PointwiseParams p = heuristics({Arg({8, c, h, h}, {c * h * h, 1, h * c, c})});
  EXPECT_EQ(p.vectorization_factor, 8);
  expectWellFormed(p);
}

TEST_F(SchedulerPointwise, SmallProblemsAreNotUnrolled) {
  TensorView* a = input(1);
  fusion_.addOutput(castOp(DataType::BFloat16, sin(a)));
  EXPECT_EQ(heuristics({Arg({4096})}).unroll_factor_inner, 1);
  EXPECT_EQ(heuristics({Arg({0})}).vectorization_factor, 1);
}

TEST_F(SchedulerPointwise, RankZeroSchedules) {
  TensorView* a = input(0);
  fusion_.addOutput(sin(a));
  expectWellFormed(heuristics({Arg(std::vector<int64_t>{})}));
}

TEST_F(SchedulerPointwise, BothHalvesOfATensorAreReadSeparately) {
  TensorView* x = makeContigConcreteTensor({64, 256}, DataType::Float);
  fusion_.addInput(x);
  TensorView* y = sin(x);
  TensorView* a = slice(y, std::vector<int64_t>{0, 0}, std::vector<int64_t>{64, 128});
  TensorView* b = slice(y, std::vector<int64_t>{0, 128}, std::vector<int64_t>{64, 256});
  fusion_.addOutput(mul(a, b));
  EXPECT_TRUE(accepted());
  expectWellFormed(heuristics({Arg({64, 256})}));
  // The sine is computed once per half.
  int64_t sines = 0;
  for (const Expr* e : fusion_.exprs()) {
    sines += e->isA<ElementwiseOp>() && e->as<ElementwiseOp>()->op() == OpType::Sin;
  }
  EXPECT_EQ(sines, 2);
}

TEST_F(SchedulerPointwise, OuterSumReadsItsVectorTwice) {
  TensorView* x = input(1, DataType::Float);
  TensorView* y = sin(x);
  fusion_.addOutput(add(broadcast(y, {true, false}), broadcast(y, {false, true})));
  EXPECT_TRUE(accepted());
  expectWellFormed(heuristics({Arg({512})}));
}

TEST_F(SchedulerPointwise, ConcatenationIsOneKernel) {
  TensorView* x = makeContigConcreteTensor({64, 128}, DataType::Float);
  TensorView* y = makeContigConcreteTensor({64, 64}, DataType::Float);
  fusion_.addInput(x);
  fusion_.addInput(y);
  fusion_.addOutput(cat(std::vector<TensorView*>{sin(x), y}, 1));
  EXPECT_TRUE(accepted());
  expectWellFormed(heuristics({Arg({64, 128}), Arg({64, 64})}));
}

TEST_F(SchedulerPointwise, IntermediatesMayBeOutputs) {
  TensorView* x = input(2, DataType::Float);
  TensorView* bias = input(1, DataType::Float);
  TensorView* b = sin(bias);
  TensorView* y = add(x, broadcast(b, {true, false}));
  TensorView* z = exp(y);
  fusion_.addOutput(b);
  fusion_.addOutput(y);
  fusion_.addOutput(z);
  EXPECT_TRUE(accepted());
  expectWellFormed(heuristics({Arg({4096, 512}), Arg({512})}));
  for (const Val* out : fusion_.outputs()) {
    EXPECT_TRUE(out->uses().empty());
  }
}

TEST_F(SchedulerPointwise, UnrelatedOutputsAreRejectedWithAReason) {
  TensorView* x = input(1, DataType::Float);
  TensorView* y = input(1, DataType::Float);
  fusion_.addOutput(sin(x));
  fusion_.addOutput(sin(y));
  const CanSchedule can = canSchedule(&fusion_, SchedulerType::PointWise);
  EXPECT_FALSE(can.ok);
  EXPECT_EQ(can.reason,
            "Scheduler _pointwise_ ***rejected*** because : cannot find reference tensor");
  EXPECT_EQ(chooseScheduler(&fusion_), SchedulerType::None);
}

TEST_F(SchedulerPointwise, ABroadcastDoesNotTieUnrelatedExtents) {
  // Both outputs read `a`, but its broadcast becomes two different things.
  TensorView* a = makeConcreteTensor({-1, 1});
  TensorView* b = makeContigTensor(2);
  TensorView* c = makeContigTensor(2);
  for (TensorView* tv : {a, b, c}) {
    fusion_.addInput(tv);
  }
  fusion_.addOutput(add(a, b));
  fusion_.addOutput(add(a, c));
  EXPECT_FALSE(accepted());
}

TEST_F(SchedulerPointwise, ExpandedPositionsOfALookupDoNotTieUnrelatedExtents) {
  TensorView* x = input(2, DataType::Float);
  TensorView* positions = makeConcreteTensor({-1, 1}, DataType::Int);
  fusion_.addInput(positions);
  TensorView* expanded =
      expand(positions, {positions->axis(0)->extent(), IrBuilder::create<Val>(7)});
  fusion_.addOutput(take_along_axis(x, expanded, 0));
  fusion_.addOutput(take_along_axis(x, expanded, 1));
  EXPECT_FALSE(accepted());
}

TEST_F(SchedulerPointwise, TwoBroadcastsTogetherTieAnOutput) {
  TensorView* a = makeConcreteTensor({-1, 1});
  TensorView* b = makeConcreteTensor({1, -1});
  fusion_.addInput(a);
  fusion_.addInput(b);
  fusion_.addOutput(add(a, b));
  fusion_.addOutput(mul(a, b));
  EXPECT_TRUE(accepted());
}

TEST_F(SchedulerPointwise, AnOutputLargerThanTheReferenceIsAPlaceToCut) {
  TensorView* x = makeContigConcreteTensor({64, 256}, DataType::Float);
  fusion_.addInput(x);
  TensorView* y = sin(x);
  TensorView* a = slice(y, std::vector<int64_t>{0, 0}, std::vector<int64_t>{64, 128});
  fusion_.addOutput(y);
  fusion_.addOutput(exp(a));
  EXPECT_FALSE(accepted());
  EXPECT_EQ(conflictingTensors(&fusion_).made, (std::vector<TensorView*>{y}));
}

// Latents [channels, rows, columns] in patches of 2 x 2: of a patch's two pixels in a row the
// neighbours in memory are those of the next patches.
TEST_F(SchedulerPointwise, PatchesAreReadByLines) {
  TensorView* x = makeContigConcreteTensor({8, 16, 96, 104}, DataType::BFloat16);
  fusion_.addInput(x);
  TensorView* pixels = reshape(x, {8, 16, 48, 2, 52, 2});
  fusion_.addOutput(neg(permute(pixels, {0, 2, 4, 1, 3, 5})));
  const PointwiseParams p = heuristics({Arg({8, 16, 96, 104})});
  EXPECT_EQ(p.vectorization_factor, 2);
  EXPECT_EQ(p.tile_axes, (std::vector<int64_t>{2}));
  EXPECT_EQ(p.tile_rows, (std::vector<int64_t>{26})); // of 52 patches, 4 bytes of each
  EXPECT_EQ(p.tile_columns, 16);                      // a sector of results
  expectWellFormed(p);
}

// Back: channels, and two rows of each, are neighbours in memory.
TEST_F(SchedulerPointwise, PatchesAreWrittenFromSectors) {
  TensorView* x = makeContigConcreteTensor({8, 48, 52, 16, 2, 2}, DataType::BFloat16);
  fusion_.addInput(x);
  fusion_.addOutput(neg(reshape(permute(x, {0, 3, 1, 4, 2, 5}), {8, 16, 96, 104})));
  const PointwiseParams p = heuristics({Arg({8, 48, 52, 16, 2, 2})});
  EXPECT_EQ(p.tile_axes, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(p.tile_rows, (std::vector<int64_t>{16, 2}));
  EXPECT_EQ(p.tile_columns, 8);
  expectWellFormed(p);
}

// Threads would be left idle, or a warp reads whole sectors anyway.
TEST_F(SchedulerPointwise, NoTilesOfUnknownOrNeighbouringDimensions) {
  TensorView* x = makeContigConcreteTensor({8, 4, 64, 64}, DataType::BFloat16);
  fusion_.addInput(x);
  TensorView* shuffled = reshape(x, {8, 2, 2, 64, 64});
  fusion_.addOutput(neg(permute(shuffled, {0, 1, 3, 4, 2})));
  EXPECT_TRUE(heuristics({Arg({8, 4, 64, 64})}).tile_axes.empty());
}

TEST_F(SchedulerPointwise, TilesThatDoNotFitAreRefused) {
  TensorView* a = input(2, DataType::Float);
  fusion_.addOutput(sin(a));
  PointwiseParams p;
  p.tile_axes = {0};
  p.tile_rows = {2};
  p.tile_columns = 8; // of a dimension whose size is not known
  EXPECT_THROW(scheduleWith(&fusion_, SchedulerType::PointWise, p), UserError);
}

TEST_F(SchedulerPointwise, ExactlyOneSchedulerTakesAPointwiseFusion) {
  TensorView* x = input(2);
  fusion_.addOutput(sin(x));
  EXPECT_EQ(compatibleSchedulers(&fusion_), (std::vector<SchedulerType>{SchedulerType::PointWise}));
}

TEST_F(SchedulerPointwise, EditedParametersAreHonoured) {
  TensorView* a = input(2, DataType::Float);
  fusion_.addOutput(sin(a));
  PointwiseParams p;
  p.vectorization_factor = 2;
  p.unroll_factor_outer = 3;
  p.break_point = 1;
  expectWellFormed(p);
  auto* out = fusion_.outputs()[0]->as<TensorView>();
  EXPECT_EQ(out->axis(-1)->extent()->intValue(), 2);
  EXPECT_EQ(out->axis(-2)->extent()->intValue(), 3);
}

// In a time that one waits for, and in bounded stack.
TEST_F(SchedulerPointwise, LongChainsAreScheduled) {
  TensorView* tv = input(3, DataType::Float);
  for (int i = 0; i < 3000; ++i) {
    tv = sin(tv);
  }
  fusion_.addOutput(tv);
  scheduleWith(&fusion_, SchedulerType::PointWise, heuristics({Arg({64, 64, 64})}));
  for (TensorView* each : fusion_.allTvs()) {
    if (!each->isFusionInput()) {
      EXPECT_EQ(each->nDims(), tv->nDims()) << each->toString();
    }
    if (!each->isFusionInput() && !each->isFusionOutput()) {
      EXPECT_GT(each->getComputeAtPosition(), 0) << each->toString();
    }
  }
}

TEST(SchedulerParams, PrintCompareAndHash) {
  PointwiseParams p;
  p.lparams.bindUnsafe(128, ParallelType::TIDx);
  EXPECT_EQ(p.toString(),
            "\n===== Pointwise Parameters ========\n"
            "Tag: Pointwise heuristics Pointwise Characteristics:\n"
            " Gridx: 1 BlckY: 1 BlckX: 128\n"
            "vectorization_factor: 1\n"
            "unroll_factor_outer: 1\n"
            "unroll_factor_inner: 1\n"
            "====================================\n");
  PointwiseParams q = p;
  EXPECT_TRUE(p == q);
  EXPECT_EQ(p.hash(), q.hash());
  q.unroll_factor_inner = 2;
  EXPECT_FALSE(p == q);
  EXPECT_NE(p.hash(), q.hash());
  EXPECT_TRUE(q == *q.clone());
}

TEST(SchedulerNoOp, TakesFusionsWithoutWork) {
  Fusion fusion;
  FusionGuard guard(&fusion);
  TensorView* x = makeContigTensor(2);
  fusion.addInput(x);
  fusion.addOutput(x);
  EXPECT_EQ(chooseScheduler(&fusion), SchedulerType::NoOp);
}

} // namespace
} // namespace nvfuser
