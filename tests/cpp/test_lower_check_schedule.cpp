// SPDX-License-Identifier: BSD-3-Clause
// The pass "check the schedule": what it refuses, in terms of the user's call, and what the kernel
// learns of its launch.
#include "lowering_for_test.h"

#include <base/error.h>
#include <lower/lower.h>
#include <transform/inlining.h>
#include <transform/propagate.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

// y = -x of rank 2, from a copy of x.
class LowerCheckSchedule : public LoweringTest {
 protected:
  void define(LoadStoreOpType copy = LoadStoreOpType::Set,
              CacheOp cache_op = CacheOp::Unspecified) {
    x_ = input({-1, 64});
    y_ = neg(x_);
    fusion_.addOutput(y_);
    load_ = x_->cacheAfter(copy, cache_op);
  }
  void define(TensorView* out) {
    y_ = out;
    fusion_.addOutput(out);
  }

  // What the pass says to the schedule, of tensors without their domains.
  std::string refusal() {
    GpuLower lower(&fusion_);
    try {
      lower.run();
    } catch (const UserError& e) {
      static const std::regex domains(
          R"((T\d+)_\w+_\w+\[[^\]]*\]( ca_pos\( \d+ \))?( produce_pos\( \d+ \))?)");
      return std::regex_replace(std::string(e.what()), domains, "$1");
    }
    return "";
  }

  TensorView* x_ = nullptr;
  TensorView* load_ = nullptr;
  TensorView* y_ = nullptr;
};

// --- memory and copies ---

TEST_F(LowerCheckSchedule, TensorMemory) {
  define();
  load_->setMemoryType(MemoryType::Tensor);
  EXPECT_EQ(refusal(),
            "T2: tensor memory (MemoryType.tensor) is not supported: no instruction of "
            "these kernels reads or writes it; use MemoryType.local or MemoryType.shared");
}

TEST_F(LowerCheckSchedule, SymmetricMemory) {
  define();
  load_->setMemoryType(MemoryType::Symmetric);
  EXPECT_EQ(refusal(),
            "T2: symmetric memory (MemoryType.symmetric) is not supported: a kernel runs "
            "on one device; use MemoryType.global");
}

TEST_F(LowerCheckSchedule, OperandsOfTensorCores) {
  define(LoadStoreOpType::LdMatrix);
  EXPECT_EQ(refusal(),
            "T2: ldmatrix (LoadStoreOpType.load_matrix) is not supported: it loads "
            "operands of tensor cores, which these kernels do not use; use "
            "LoadStoreOpType.set");
}

TEST_F(LowerCheckSchedule, CacheOperatorOfRegisters) {
  define();
  load_->cacheAfter(LoadStoreOpType::Set, CacheOp::Streaming);
  EXPECT_EQ(refusal(), "T3: cache_op Streaming is only for copies from or to global memory");
}

TEST_F(LowerCheckSchedule, CacheOperatorOfAsynchronousCopies) {
  define(LoadStoreOpType::CpAsync, CacheOp::Streaming);
  load_->setMemoryType(MemoryType::Shared);
  EXPECT_EQ(refusal(), "T2: cp_async has the cache_op all_levels and no other, got Streaming");
}

TEST_F(LowerCheckSchedule, AsynchronousCopiesGoToSharedMemory) {
  define(LoadStoreOpType::CpAsync);
  EXPECT_EQ(refusal(),
            "the result of set (float32 [iS4{i0}, iS5{64}]): cp_async copies an input of "
            "the fusion to a tensor in shared memory; use "
            "set_memory_type(MemoryType.shared)");
}

TEST_F(LowerCheckSchedule, AsynchronousCopiesOfFewBits) {
  TensorView* x = input({64}, DataType::Half);
  define(neg(x));
  x->cacheAfter(LoadStoreOpType::CpAsync)->setMemoryType(MemoryType::Shared);
  EXPECT_EQ(refusal(),
            "the result of set (float16 [iS3{64}]): cp_async copies 4, 8 or 16 bytes at "
            "once, got 16 bits; vectorize its innermost axis accordingly");
}

// --- parallel types ---

TEST_F(LowerCheckSchedule, BoundTwice) {
  define();
  inlineMost();
  y_->axis(0)->parallelize(ParallelType::TIDx);
  y_->axis(1)->parallelize(ParallelType::TIDx);
  EXPECT_EQ(refusal(),
            "the result of set (float32 [iS4{i0}, iS5{64}]): threadIdx.x is bound to more "
            "than one loop axis");
}

TEST_F(LowerCheckSchedule, BulkIsForBulkCopies) {
  define();
  load_->axis(1)->parallelize(ParallelType::Bulk);
  EXPECT_EQ(refusal(),
            "the result of set (float32 [iS4{i0}, iB5{64}]): only tma copies have axes "
            "bound to tma; use cache_after or cache_before with LoadStoreOpType.tma");
}

TEST_F(LowerCheckSchedule, TensorCores) {
  define();
  y_->axis(1)->parallelize(ParallelType::Mma);
  EXPECT_EQ(refusal(),
            "the result of neg (float32 [iS2{i0}, iMMA3{64}]): MMA can't be used on a loop "
            "axis of this operation");
}

TEST_F(LowerCheckSchedule, Streams) {
  define();
  y_->axis(0)->parallelize(ParallelType::Stream);
  EXPECT_EQ(refusal(),
            "T1: an axis bound to streams (ParallelType.stream) is not supported: a kernel "
            "runs in one stream; leave the axis serial or bind it to blocks");
}

TEST_F(LowerCheckSchedule, Devices) {
  define();
  y_->axis(0)->parallelize(ParallelType::DIDx);
  EXPECT_EQ(refusal(),
            "T1: deviceIdx.x is bound to an axis of extent i0, but several devices are not "
            "supported: only an extent of 1 can be");
}

TEST_F(LowerCheckSchedule, ClustersOfAnyNumberOfBlocks) {
  define();
  inlineMost();
  y_->axis(0)->parallelizeCluster(ParallelType::BIDx);
  EXPECT_EQ(refusal(),
            "the result of neg (float32 [iblockIdx.x2{i0}_c, iS3{64}]): a cluster needs a "
            "constant extent of at most 16 blocks, got i0");
}

// --- vectors ---

TEST_F(LowerCheckSchedule, VectorsAreInnermost) {
  define();
  load_->axis(0)->parallelize(ParallelType::Vectorize);
  EXPECT_EQ(refusal(),
            "the result of set (float32 [iV4{i0}, iS5{64}]): the vectorized axis must be "
            "the innermost one");
}

TEST_F(LowerCheckSchedule, VectorsOfAConstantLength) {
  TensorView* x = input({-1});
  define(neg(x));
  x->cacheAfter()->axis(0)->parallelize(ParallelType::Vectorize);
  EXPECT_EQ(refusal(),
            "the result of set (float32 [iV2{i0}]): the vectorized axis needs a constant "
            "extent, got i0");
}

TEST_F(LowerCheckSchedule, VectorsOfMoreThanSixteenBytes) {
  define();
  load_->split(1, 8);
  load_->axis(2)->parallelize(ParallelType::Vectorize);
  EXPECT_EQ(refusal(),
            "the result of set (float32 [iS4{i0}, iS6{8}, iV7{8}]): a vector of 8 elements "
            "is 256 bits; vector accesses take 1, 2, 4, 8 or 16 bytes");
}

TEST_F(LowerCheckSchedule, VectorsAreCopied) {
  define();
  y_->split(1, 4);
  y_->axis(2)->parallelize(ParallelType::Vectorize);
  EXPECT_EQ(refusal(),
            "the result of neg (float32 [iS2{i0}, iS6{16}, iV7{4}]): only copies can be "
            "vectorized, but this tensor is computed by neg; use cache_after or "
            "cache_before and vectorize the copy");
}

TEST_F(LowerCheckSchedule, VectorsOfALoopThatIsInlinedInto) {
  define();
  y_->split(1, 4);
  transformLike(y_);
  load_->inlineAt(3);
  load_->axis(2)->parallelize(ParallelType::Vectorize);
  EXPECT_EQ(refusal(),
            "T2: it is inlined into the vectorized axis of its consumer; bind axes to "
            "vectorize before inlining, which then stops outside of them");
}

TEST_F(LowerCheckSchedule, VectorsAcrossRows) {
  define();
  load_->reorder(std::unordered_map<int64_t, int64_t>{{0, 1}});
  load_->split(1, 4);
  load_->axis(2)->parallelize(ParallelType::Vectorize);
  EXPECT_EQ(refusal(),
            "the result of set (float32 [iS5{64}, iS6{( ceilDiv(i0, 4) )}, iV7{4}]): the "
            "vectorized axis does not run along the innermost dimension of an input "
            "(float32 [iS0{i0}, iS1{64}])");
}

TEST_F(LowerCheckSchedule, VectorsOfStridedElements) {
  TensorView* x = TensorViewBuilder().shape(Sizes{64}).contiguity({false}).build();
  fusion_.addInput(x);
  define(neg(x));
  TensorView* load = x->cacheAfter();
  load->split(0, 4);
  load->axis(1)->parallelize(ParallelType::Vectorize);
  EXPECT_EQ(refusal(),
            "an input (float32 [iS0{64}]): its innermost dimension is not contiguous, so "
            "it can't be accessed by vectors");
}

// --- circular buffers ---

TEST_F(LowerCheckSchedule, RegistersRunOneIterationAhead) {
  define();
  load_->inlineAt(1);
  load_->circularBuffer(3, 2);
  EXPECT_EQ(refusal(),
            "circular_buffer of the result of set (float32 [iS4{i0}, iS5{64}]): registers "
            "take 2 stages and a distance of 1, got 3 and 2");
}

TEST_F(LowerCheckSchedule, WarpsDoNotLoadRegistersOfOthers) {
  define();
  load_->inlineAt(1);
  load_->warpSpecialize(2, 1, ParallelType::TIDx);
  EXPECT_EQ(refusal(),
            "warp_specialize of the result of set (float32 [iS4{i0}, iS5{64}]): it must be "
            "in shared memory and loaded by tma");
}

TEST_F(LowerCheckSchedule, CircularBuffersAreLoadedAsynchronously) {
  define();
  load_->setMemoryType(MemoryType::Shared);
  load_->inlineAt(1);
  load_->circularBuffer(2, 1);
  EXPECT_EQ(refusal(),
            "circular_buffer of the result of set (float32 [iS4{i0}, iS5{64}]): a circular "
            "buffer in shared memory is loaded by cp_async or tma");
}

TEST_F(LowerCheckSchedule, CopiesByThreadsRunAhead) {
  define(LoadStoreOpType::CpAsync);
  load_->setMemoryType(MemoryType::Shared);
  load_->inlineAt(1);
  load_->circularBuffer(2, 0);
  EXPECT_EQ(refusal(),
            "circular_buffer of the result of set (float32 [iS4{i0}, iS5{64}]): cp_async "
            "needs a prefetch distance of at least 1");
}

// --- who reads what ---

TEST_F(LowerCheckSchedule, RegistersOfOtherThreads) {
  define();
  load_->axis(1)->parallelize(ParallelType::TIDx);
  EXPECT_EQ(refusal(),
            "the result of set (float32 [iS4{i0}, ithreadIdx.x5{64}]) binds a loop axis to "
            "threadIdx.x, but its consumer the result of neg (float32 [iS2{i0}, iS3{64}]) "
            "does not bind the same iterations to it: other threads would read what one "
            "thread wrote. Put it into shared memory, inline it, or parallelize both alike");
}

TEST_F(LowerCheckSchedule, SharedMemoryOfOtherBlocks) {
  define();
  load_->setMemoryType(MemoryType::Shared);
  load_->axis(0)->parallelize(ParallelType::BIDx);
  EXPECT_EQ(refusal(),
            "the result of set (float32 [iblockIdx.x4{i0}, iS5{64}]) binds a loop axis to "
            "blockIdx.x, but its consumer the result of neg (float32 [iS2{i0}, iS3{64}]) "
            "does not bind the same iterations to it: other threads would read what one "
            "thread wrote. Put it into another kernel, inline it, or parallelize both alike");
}

TEST_F(LowerCheckSchedule, OutputsAreNotReadAgain) {
  TensorView* y = neg(input({64}));
  fusion_.addOutput(y);
  fusion_.addOutput(exp(y));
  EXPECT_EQ(refusal(),
            "the result of neg (float32 [iS1{64}]) is an output in global memory and is "
            "read again by the result of exp (float32 [iS2{64}]) in the same kernel; "
            "insert a copy with cache_before or cache_fork");
}

TEST_F(LowerCheckSchedule, ScansAreSerial) {
  define(cumsum(input({8, 64}), 1));
  y_->split(1, 4);
  EXPECT_EQ(refusal(), "");
  y_->reorder(std::unordered_map<int64_t, int64_t>{{1, 2}});
  EXPECT_EQ(refusal(),
            "the result of cumsum (float32 [iS2{8}, iS5{4}, iS4{16}]): the loops along the "
            "dimension of a scan must be the innermost ones, serial and in order, and not be "
            "merged with others");
}

// --- what it tells the kernel ---

TEST_F(LowerCheckSchedule, Launch) {
  define();
  load_->split(1, 4);
  load_->axis(1)->parallelize(ParallelType::TIDx);
  load_->axis(2)->parallelize(ParallelType::Vectorize);
  load_->setMemoryType(MemoryType::Shared);
  y_->axis(1)->parallelize(ParallelType::TIDx);
  GpuLower lower(&fusion_);
  const Kernel* kernel = lower.run();
  // The most threads that a tensor takes.
  EXPECT_EQ(kernel->parallel_extents.at(ParallelType::TIDx)->toInlineString(), "64");
  ASSERT_EQ(kernel->vector_accesses.size(), 1);
  EXPECT_EQ(kernel->vector_accesses.front().tv, kernel->inputs().front());
  EXPECT_EQ(kernel->vector_accesses.front().width, 4);
}

} // namespace
} // namespace nvfuser::test
