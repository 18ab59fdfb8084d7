// SPDX-License-Identifier: BSD-3-Clause
// What the passes share: the kernel under construction and the analyses of its schedule, which
// follow from the schedule alone. What one pass finds out for another is a result of it (LoopNest,
// GuardedNest).
#pragma once

#include <algebra/simplify.h>
#include <id_model/indexer.h>
#include <id_model/loop_model.h>
#include <kernel/kernel.h>
#include <lower/bulk_access.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

using Statements = std::vector<Expr*>;

// What the banks of shared memory deliver at once. Buffers and the slots of circular buffers begin
// with such a line: asynchronous copies into buffers that begin elsewhere are slower
// (docs/measurements/normalizations.md).
constexpr int64_t kSharedLineBytes = 128;

// To a multiple of `unit`.
Val* roundedUp(Val* v, int64_t unit);

// Loops that run once have the constant index 0, on which nothing depends.
bool dependsOn(const Val* v, const Val* symbol);

// A condition that is known to hold.
bool isTrue(const Val* condition);

// An element of a tensor is the value, or it is computed of one.
bool readsTensor(const Val* v);

// A statement that computes an element of registers from that element, the same one in all
// iterations of a loop.
bool accumulates(const Expr* e, const Val* index);

// Adds the conditions that all hold where this one does: the operands of logical_and.
void collectTerms(Val* condition, std::vector<Val*>& terms);

class LowerContext {
 public:
  explicit LowerContext(Kernel* kernel);

  Kernel* kernel() const {
    return kernel_;
  }
  const IdModel& ids() const {
    return *ids_;
  }
  const LoopModel& loopModel() const {
    return *loops_;
  }
  const TensorLoops& loops(const TensorView* tv) const {
    return loops_->loops(tv);
  }
  // The indexer of the loops around a tensor's computation.
  Indexer& indexer(const TensorView* tv);

  // The loops over which a register or shared-memory tensor has a dimension in its buffer,
  // outermost first.
  std::vector<const Loop*> bufferLoops(const TensorView* tv) const;

  // The dimensions of such a buffer, outermost first: those loops, or what the allocation domain of
  // a tensor in shared memory says of the same part of it (another order, a swizzle).
  struct BufferDim {
    IdGroup group;
    Val* extent;
    bool repeats = false; // the same value all along it: a broadcast axis in a loop of what is not
  };
  std::vector<BufferDim> bufferDims(const TensorView* tv) const;

  // Width in elements of the vector accesses to a buffer; 1 if there are none.
  int vectorWidth(const TensorView* tv) const;

  // Simplified knowing that loop indices are below their extents.
  Val* simplified(Val* v) const {
    return simplifier_->simplify(v);
  }

  // Of a thread dimension that is launched with more threads than take part (Fusion::padThreads):
  // `index` counts all of them, `member` those below `extent`. Nothing but guards of
  // index < extent says which ones these are, so that no such guard is simplified away.
  struct Members {
    Val* index;
    Val* extent;
    Val* member;
  };
  const std::vector<Members>& members() const {
    return members_;
  }

  // A condition, simplified; evaluated once for a whole vector where that is the same
  // (vector_conditions.h).
  Val* condition(Val* v) const;

  // The tensor expression's first output; the others (Welford) have the same loops.
  static TensorView* outputOf(const Expr* e);

  // Of a tensor that bulk copies write; null: it is none. Made when it is first asked for: refuses
  // copies that the hardware cannot make.
  const BulkAccess* bulkAccess(const TensorView* tv);
  // The circular buffer that a tensor in shared memory is filled in, or null.
  const AsyncBuffer* asyncBuffer(const TensorView* tv) const;
  // Which of its buffers is filled in the current iteration, and for the how many-th time,
  // modulo 2.
  Val* stageOf(const AsyncBuffer& buffer) const;
  Val* parityOf(const AsyncBuffer& buffer) const;
  // Elements from one buffer of a circular buffer to the next.
  Val* stageSize(const TensorView* tv);
  // Elements of a buffer in registers or shared memory.
  Val* bufferSize(const TensorView* tv) const;

  // A broadcast that is one element of a dimension (a slice of size 1).
  bool isCutElement(IdGroup g) const {
    return std::find(singles_.zeros.begin(), singles_.zeros.end(), g) != singles_.zeros.end();
  }

 private:
  Kernel* kernel_;
  std::unique_ptr<IdModel> ids_;
  std::unique_ptr<LoopModel> loops_;
  void findSingles();
  void findResizedTwice();
  Indexer& makeIndexer(const TensorView* tv);
  Indexer& indexerThroughElements(const TensorView* tv, const std::vector<const Resize*>& resizes,
                                  Indexer& of_loops);
  Indexer& onLoops(Indexer& reader, Indexer& loops);
  std::optional<std::vector<BufferDim>> allocatedDims(const TensorView* tv) const;

  std::unique_ptr<Simplifier> simplifier_;
  std::vector<Members> members_;
  std::unordered_set<IdGroup> divisible_parts_;
  SingleIterations singles_;
  // Dimensions of tensors that are one element of another.
  std::unordered_set<IdGroup> cut_elements_;
  // Made from one group by several resizes: a tensor is padded in two ways.
  std::unordered_set<IdGroup> resized_twice_;
  // Those of all tensors in the same loops; those of single tensors; and which one a tensor has.
  std::map<std::vector<int>, std::unique_ptr<Indexer>> indexers_;
  std::vector<std::unique_ptr<Indexer>> cut_indexers_;
  std::unordered_map<const TensorView*, Indexer*> indexer_of_;
  std::unordered_map<const TensorView*, BulkAccess> bulk_;
};

// The reductions over blocks that tensors' values depend on: only the last block has them.
class GridReduces {
 public:
  const std::vector<const ThreadReduce*>& of(const TensorView* tv) const;
  void set(const TensorView* tv, std::vector<const ThreadReduce*> reduces);

 private:
  std::unordered_map<const TensorView*, std::vector<const ThreadReduce*>> of_;
};

// The statements in their loops.
struct LoopNest {
  Statements body;
  // Statements of one loop may stand in another one (loop ids).
  std::unordered_map<int, int> stands_in;
  GridReduces grid_reduces;

  // The loop of the nest that the statements of a loop are in.
  int loopId(const Loop* loop) const {
    auto it = stands_in.find(loop->id);
    return it == stands_in.end() ? loop->id : it->second;
  }
};

// Of copies by vectors that the bounds may lie within: element k is inside where
// 0 <= index + k < extent.
using PartialVectors = std::unordered_map<const TensorView*, BoundsGuard>;

struct GuardedNest {
  Statements body;
  PartialVectors partial_vectors;
};

// --- the passes, in order; one file each ---

// Rejects schedules that can't be lowered, naming the tensor and the rule; fills the kernel's
// parallel extents, vector accesses and divisibility checks.
void checkSchedule(LowerContext& ctx);
// Which buffers in shared memory asynchronous copies fill together, and when: the kernel's
// async_buffers.
void makeAsyncBuffers(LowerContext& ctx);
// Orders the expressions and puts loops around them.
LoopNest makeLoopNest(LowerContext& ctx, bool threads_in_loops);
// Declares registers and shared memory where their lifetime begins.
Statements insertAllocations(LowerContext& ctx, const LoopNest& nest);
// Block barriers between writes and reads of shared memory by different threads, and the waits for
// asynchronous copies.
Statements insertBarriers(LowerContext& ctx, const Statements& nest);
// Bounds and redundancy guards; unswitched loops get an unguarded copy for whole tiles.
// `skips_unused`: branches around what a pad does not select, too.
GuardedNest insertGuards(LowerContext& ctx, const Statements& nest, const GridReduces& grid_reduces,
                         bool skips_unused);
// Replaces tensors by indexed accesses, and shape ops by copies.
Statements indexTensors(LowerContext& ctx, const Statements& nest);
// Copies of vectors that may straddle the end of a row become copies of whole vectors, and of
// single elements where a vector is not whole.
Statements splitPartialVectors(LowerContext& ctx, const Statements& nest,
                               const PartialVectors& partial_vectors);
// Guards that hold in some iterations of an unrolled loop whatever the others say: from the first
// one on, or anywhere where rows begin within vectors. Threads in loops have the latter alone.
Statements peelPredicates(LowerContext& ctx, const Statements& nest,
                          const PartialVectors& partial_vectors, bool threads_in_loops);
// Loads of circular-buffered registers are issued one iteration of their loop ahead.
Statements prefetchLoads(LowerContext& ctx, const Statements& nest);
// Copies into circular buffers are issued ahead, by the threads that compute or by warps of their
// own.
Statements pipelineCopies(LowerContext& ctx, const Statements& nest);
// What registers keep for a loop that loads ahead has arrived when that begins.
Statements waitForEarlierLoads(const Statements& nest);
// Reductions that are circular-buffered run one iteration of their loop ahead.
Statements prefetchReductions(LowerContext& ctx, const Statements& nest);
// What the threads of a block do between barriers becomes loops over them, for a host that runs a
// block by one thread. As it was where threads wait for each other in another way.
Statements putThreadsInLoops(LowerContext& ctx, const Statements& nest);
// After that: rows that are kept for an output lie in it.
void keepRowsInOutputs(LowerContext& ctx, Statements& nest);
// After that: long sums are made of partial ones.
Statements cascadeSums(LowerContext& ctx, const Statements& nest);
// After that: several rows at a time are added to registers that lie in memory.
Statements unrollAndJam(LowerContext& ctx, const Statements& nest);
// After that: whole vectors of rows and their ends have loops of their own.
Statements peelRowEnds(LowerContext& ctx, const Statements& nest);
// Fills ThreadLoops::apart.
void findRegistersApart(LowerContext& ctx, const Statements& nest);
// Parameters for scalars that follow from sizes and that the kernel does not compute itself.
std::vector<KernelParam> scalarsOfLaunch(const Kernel* kernel);

} // namespace nvfuser
