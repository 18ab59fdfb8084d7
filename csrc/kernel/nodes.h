// SPDX-License-Identifier: BSD-3-Clause
// Nodes that exist only in Kernel IR: loops, branches, allocations, barriers and indexed tensors.
// Bodies are plain vectors of statements; passes rebuild or edit them in place.
#pragma once

#include <base/small_vector.h>
#include <ir/builder.h>
#include <ir/expr_base.h>
#include <ir/nodes.h>

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

namespace nvfuser {

// A tensor access: element `index` (linear, in the allocation's element units) of `tv`.
class TensorIndex : public Val {
 public:
  TensorIndex(IrBuilderPasskey, TensorView* tv, Val* index);
  TensorIndex(const TensorIndex* src, IrCloner* cloner);
  std::unique_ptr<Val> copyWith(IrCloner* cloner) const override;
  TensorView* view() const {
    return tv_;
  }
  Val* index() const {
    return index_;
  }
  std::string toString() const override;
  std::string toInlineString() const override {
    return toString();
  }

 private:
  TensorView* tv_;
  Val* index_;
};

// What a kernel does, in the order of the lists that hold it: a loop or branch with its body,
// memory, a barrier, a copy, a step of a reduction. Each is itself and nothing else's copy: passes
// make and rewrite statements, nothing compares them or copies them into another container.
class KernelStatement : public Expr {
 public:
  Expr* shallowCopy(IrCloner*) const final;
  bool sameFields(const Expr* other) const final {
    return this == other;
  }
  size_t fieldsHash() const final {
    return static_cast<size_t>(kind());
  }

 protected:
  using Expr::Expr;
};

// for (index = first; index < extent; ++index) body. Loops over thread- or block-bound domains
// print no loop: their index is threadIdx/blockIdx. A vectorized loop prints one vector access.
class ForLoop : public KernelStatement {
 public:
  ForLoop(IrBuilderPasskey, IterDomain* id, Val* index, Val* extent, ParallelType type,
          int loop_id);
  IterDomain* iterDomain() const {
    return id_;
  }
  Val* index() const {
    return index_;
  }
  void setIndex(Val* index) {
    index_ = index;
  }
  Val* extent() const {
    return extent_;
  }
  // Null: 0, as of all but parts of a loop (lower/cascade_sums.cpp).
  Val* first() const {
    return first_;
  }
  void setFirst(Val* first) {
    first_ = first;
  }
  ParallelType parallelType() const {
    return type_;
  }
  // The same loop around nothing.
  ForLoop* emptyCopy() const;
  // A loop over the same domain with another index or extent, around nothing.
  ForLoop* like(Val* index, Val* extent, ParallelType type = ParallelType::Serial) const;
  // Number of the loop in the LoopModel; copies of a loop keep it.
  int loopId() const {
    return loop_id_;
  }
  // No loop is printed: bound to a thread or block index, one vector or box, or extent 1.
  bool isTrivial() const;
  // Printed with #pragma unroll: asked for, short, or needed because registers are indexed by it.
  bool isUnrolled() const;
  void setIndexesRegisters(bool value) {
    indexes_registers_ = value;
  }
  std::vector<Expr*>& body() {
    return body_;
  }
  const std::vector<Expr*>& body() const {
    return body_;
  }
  std::string opName() const override {
    return "for";
  }
  std::string toString() const override;

 private:
  IterDomain* id_;
  Val* index_;
  Val* extent_;
  Val* first_ = nullptr;
  ParallelType type_;
  int loop_id_;
  bool indexes_registers_ = false;
  std::vector<Expr*> body_;
};

class IfThenElse : public KernelStatement {
 public:
  IfThenElse(IrBuilderPasskey, Val* condition);
  Val* condition() const {
    return condition_;
  }
  // A condition that this one follows from, for passes that prove things; null: none is known.
  Val* impliedBy() const {
    return implied_by_;
  }
  void setImpliedBy(Val* condition) {
    implied_by_ = condition;
  }
  std::vector<Expr*>& thenBody() {
    return then_;
  }
  std::vector<Expr*>& elseBody() {
    return else_;
  }
  const std::vector<Expr*>& thenBody() const {
    return then_;
  }
  const std::vector<Expr*>& elseBody() const {
    return else_;
  }
  std::string opName() const override {
    return "if";
  }
  std::string toString() const override;

 private:
  Val* condition_;
  Val* implied_by_ = nullptr;
  std::vector<Expr*> then_;
  std::vector<Expr*> else_;
};

// Memory for a tensor that is not a kernel parameter. `size` in elements: a constant for registers.
class Allocate : public KernelStatement {
 public:
  Allocate(IrBuilderPasskey, TensorView* tv, MemoryType memory, Val* size, int alignment);
  TensorView* tv() const {
    return tv_;
  }
  MemoryType memoryType() const {
    return memory_;
  }
  Val* size() const {
    return size_;
  }
  // In elements: vector width of the accesses.
  int alignment() const {
    return alignment_;
  }
  // Byte offset into dynamic shared memory, set by the shared-memory pass.
  Val* sharedOffset() const {
    return shared_offset_;
  }
  void setSharedOffset(Val* offset) {
    shared_offset_ = offset;
  }
  // Registers that begin as zero: a guard may leave them unwritten where they are read (guards).
  bool isZeroed() const {
    return is_zeroed_;
  }
  void setZeroed(bool is_zeroed) {
    is_zeroed_ = is_zeroed;
  }
  // Memory of another tensor that is like this one's.
  Allocate* copyFor(TensorView* tv) const;
  std::string opName() const override {
    return "alloc";
  }
  std::string toString() const override;

 private:
  TensorView* tv_;
  MemoryType memory_;
  Val* size_;
  int alignment_;
  Val* shared_offset_ = nullptr;
  bool is_zeroed_ = false;
};

// out = number `lane` of Philox block `block`: a RngOp whose element is known.
class RandomNumber : public KernelStatement {
 public:
  RandomNumber(IrBuilderPasskey, RngKind rng, Val* out, Val* a, Val* b, Val* seed, Val* offset,
               Val* block, Val* lane);
  RngKind rng() const {
    return rng_;
  }
  Val* seed() const {
    return input(2);
  }
  Val* offset() const {
    return input(3);
  }
  Val* block() const {
    return input(4);
  }
  Val* lane() const {
    return input(5);
  }
  std::string opName() const override {
    return "random_number";
  }

 private:
  RngKind rng_;
};

// All registers of one buffer to another one of the same size.
class BufferCopy : public KernelStatement {
 public:
  BufferCopy(IrBuilderPasskey, TensorView* to, TensorView* from);
  TensorView* to() const {
    return to_;
  }
  TensorView* from() const {
    return from_;
  }
  std::string opName() const override {
    return "buffer_copy";
  }
  std::string toString() const override;

 private:
  TensorView* to_;
  TensorView* from_;
};

// What was loaded into a buffer of registers has arrived.
class WaitForLoads : public KernelStatement {
 public:
  WaitForLoads(IrBuilderPasskey, TensorView* registers);
  TensorView* registers() const {
    return registers_;
  }
  std::string opName() const override {
    return "wait_for_loads";
  }
  std::string toString() const override;

 private:
  TensorView* registers_;
};

// Loops over the threads of the block (lower/thread_loops.cpp): for z, for y, for x, the body. A
// limit, which may depend on the indices of the loops around it, ends the loop over x, y or z
// before the extent of the block; null: there is none.
class ThreadLoop : public KernelStatement {
 public:
  // The loop over x in pieces (lower/thread_pieces.h). A piece is as long as the shortest of the
  // lengths, and ends with the loop. `values`: what quotients and remainders of the body are in it.
  struct Pieces {
    NamedScalar* first = nullptr; // the index at which a piece begins; null: there are none
    std::vector<Val*> lengths;
    std::unordered_map<const Val*, Val*> values;
  };
  Pieces pieces;
  // The loop transposes a part of a tensor (lower/transposed_copies.h):
  // to[column * to_stride + row] = from[row * from_stride + column].
  struct Transposed {
    TensorIndex* to = nullptr; // null: it does something else
    TensorIndex* from = nullptr;
    Val* to_stride = nullptr;
    Val* from_stride = nullptr;
    Val* rows = nullptr;
    Val* columns = nullptr;
  };
  Transposed transposed;
  // Elements that the loop writes next to each other, from the one of its first thread on, which go
  // past the caches when all are there (lower/streamed_stores.h).
  std::vector<TensorIndex*> streamed;
  // First elements of what the next block will read in place of what this loop reads.
  std::vector<TensorIndex*> fetched_ahead;

  ThreadLoop(IrBuilderPasskey, std::array<Val*, 3> limits, std::vector<Expr*> body);
  const std::array<Val*, 3>& limits() const {
    return limits_;
  }
  std::vector<Expr*>& body() {
    return body_;
  }
  const std::vector<Expr*>& body() const {
    return body_;
  }
  std::string opName() const override {
    return "for_threads";
  }
  std::string toString() const override;

 private:
  std::array<Val*, 3> limits_;
  std::vector<Expr*> body_;
};

// The lists of statements that stand in one: in a loop, in both ways of a branch.
SmallVector<std::vector<Expr*>*, 2> bodiesOf(Expr* e);
SmallVector<const std::vector<Expr*>*, 2> bodiesOf(const Expr* e);

// One box of a tensor between global and shared memory, copied by one instruction. `at`: where the
// box begins, by the dimensions of the tensor map, the fastest first. Loads are counted by an
// mbarrier of the buffers (kernel.h) that they fill, that of the slot with the number `stage`.
class BulkCopy : public KernelStatement {
 public:
  BulkCopy(IrBuilderPasskey, int map, TensorIndex* shared, const std::vector<Val*>& at,
           int buffer = -1, Val* stage = nullptr);
  // Number of the tensor map among those of the kernel.
  int map() const {
    return map_;
  }
  TensorIndex* shared() const {
    return shared_;
  }
  const std::vector<Val*>& at() const {
    return inputs();
  }
  bool isLoad() const {
    return buffer_ >= 0;
  }
  int buffer() const {
    return buffer_;
  }
  Val* stage() const {
    return stage_;
  }
  std::string opName() const override {
    return "bulk_copy";
  }
  std::string toString() const override;

 private:
  int map_;
  TensorIndex* shared_;
  int buffer_;
  Val* stage_;
};

// One piece of memory, copied between global and shared memory by one instruction. Loads as in
// BulkCopy.
class LinearBulkCopy : public KernelStatement {
 public:
  LinearBulkCopy(IrBuilderPasskey, TensorIndex* to, TensorIndex* from, Val* bytes, int buffer = -1,
                 Val* stage = nullptr);
  TensorIndex* to() const {
    return output(0)->as<TensorIndex>();
  }
  TensorIndex* from() const {
    return input(0)->as<TensorIndex>();
  }
  Val* bytes() const {
    return input(1);
  }
  bool isLoad() const {
    return buffer_ >= 0;
  }
  int buffer() const {
    return buffer_;
  }
  Val* stage() const {
    return stage_;
  }
  std::string opName() const override {
    return "linear_bulk_copy";
  }
  std::string toString() const override;

 private:
  int buffer_;
  Val* stage_;
};

// What is around asynchronous copies.
class CopyStep : public KernelStatement {
 public:
  enum class Part {
    // The buffers' mbarriers are initialized and known to all threads; the first statement of a
    // kernel.
    Init,
    // Of a slot, in its iteration:
    WaitUntilEmpty, // everybody has read what the slot held before
    Expect,         // the mbarrier learns how many bytes the copies of the iteration bring
    Announced,      // it has learnt that from the copies themselves
    WaitUntilFull,
    SetEmpty, // this thread has read
    // Of copies of 4 to 16 bytes (cp.async), in groups of the thread:
    Commit,
    Wait, // until at most `count` groups are under way
    // Of bulk copies to global memory:
    Fence, // what the thread wrote to shared memory is seen by them
    CommitStores,
    WaitForReads,  // until they have read shared memory
    WaitForStores, // until they are complete
    // Where warps of their own load: `count` registers from here on.
    GiveRegisters,
    TakeRegisters,
  };
  CopyStep(IrBuilderPasskey, Part part, int buffer = -1, Val* stage = nullptr,
           Val* parity = nullptr);
  Part part() const {
    return part_;
  }
  int buffer() const {
    return buffer_;
  }
  // The slot, and the parity of the phase that is waited for.
  Val* stage() const {
    return stage_;
  }
  Val* parity() const {
    return parity_;
  }
  // The tensor whose copies it belongs to: it is done by the threads that issue them. Null: by all.
  const TensorView* issuer = nullptr;
  // Groups that may still be under way; registers of a thread.
  int64_t count = 0;

  std::string opName() const override {
    return "copy_step";
  }
  std::string toString() const override;

 private:
  Part part_;
  int buffer_;
  Val* stage_;
  Val* parity_;
};

// A part of a reduction before tensors are indexed: the buffer is set to the identity (outside the
// reduction loops), or one element is accumulated (inside of them).
class ReduceStep : public KernelStatement {
 public:
  enum class Part { Init, Accumulate };
  ReduceStep(IrBuilderPasskey, Part part, Expr* reduction);
  Part part() const {
    return part_;
  }
  // The ReductionOp, WelfordOp or OnlineSoftmaxOp.
  Expr* reduction() const {
    return reduction_;
  }
  std::string opName() const override {
    return part_ == Part::Init ? "reduce_init" : "reduce_accumulate";
  }
  std::string toString() const override;

 private:
  Part part_;
  Expr* reduction_;
};

// Accumulates one value into a running mean, Welford's update of (mean, M2, n), or three: those of
// a part.
class WelfordStep : public KernelStatement {
 public:
  WelfordStep(IrBuilderPasskey, Val* mean, Val* m2, Val* n, const std::vector<Val*>& values);
  std::string opName() const override {
    return "welford_step";
  }
};

// Takes a vector of values into a running maximum and sum of exponentials; `first` is the vector's
// first element. The loop of the vector around it tells how many there are.
class SoftmaxStep : public KernelStatement {
 public:
  SoftmaxStep(IrBuilderPasskey, Val* max, Val* sum, Val* first);
  std::string opName() const override {
    return "softmax_step";
  }
};

// One buffer (for Welford: three, for an online softmax: two) whose elements are combined across
// threads.
struct ReduceTerm {
  Expr* reduction = nullptr; // ReductionOp, WelfordOp or OnlineSoftmaxOp
  std::vector<TensorView*> buffers;
  // First of `count` consecutive elements of each buffer; set when tensors are indexed.
  std::vector<Val*> first;
  int64_t count = 1;
};

// Which of x, y, z.
using DimMask = std::array<bool, 3>;

// Combines partial results of the threads that differ in the reduced thread dimensions, then of
// the blocks of a cluster, then of the blocks of the grid that differ in the reduced block
// dimensions. All threads of the block take part. Afterwards every thread has the result of its
// segment; with a grid scope only in the last block of the segment to arrive, where `flag` is true,
// unless all blocks wait for the result.
class ThreadReduce : public KernelStatement {
 public:
  ThreadReduce(IrBuilderPasskey, DimMask threads, DimMask cluster, DimMask grid);
  std::vector<ReduceTerm> terms;

  const DimMask& threads() const {
    return threads_;
  }
  const DimMask& cluster() const {
    return cluster_;
  }
  const DimMask& grid() const {
    return grid_;
  }
  bool reducesCluster() const {
    return cluster_[0] || cluster_[1] || cluster_[2];
  }
  bool reducesGrid() const {
    return grid_[0] || grid_[1] || grid_[2];
  }
  // Which region of shared memory it works in; -1: none is needed. Two are for reductions within
  // blocks and two for those within clusters, each two used alternately.
  int region = -1;
  // Bytes of shared memory that it takes where tensors were that nobody needs any more; null: a
  // region.
  Val* bytes_over_tensors = nullptr;
  // Within clusters: which of the kernel's two mbarriers counts the partial results, and the parity
  // of that phase; -1: the whole cluster waits at a barrier.
  int phase_barrier = -1;
  int parity = 0;
  // In loops the kernel counts the phases as it runs: bytes between the workspaces of even and odd
  // ones; 0 where the phase is known.
  int64_t phase_stride = 0;
  // Of a reduction that counts phases and has something else to do in between: `Begin` sends the
  // partial results, `End` waits for those of all blocks.
  enum class Part { Whole, Begin, End };
  Part part = Part::Whole;
  Val* workspace = nullptr; // byte offset in shared memory
  // Grid scope: byte offset into the global workspace, and offset into the semaphores.
  Val* grid_workspace = nullptr;
  Val* semaphores = nullptr;
  std::string flag; // grid scope: name of the "last block" variable, if only that has the result

  std::string opName() const override {
    return "thread_reduce";
  }
  std::string toString() const override;

 private:
  DimMask threads_;
  DimMask cluster_;
  DimMask grid_;
};

// carry = carry op in; out = carry. The carry is a register declared as `init` outside of the loop
// with the given index (a constant if the loop runs once).
class ScanStep : public KernelStatement {
 public:
  ScanStep(IrBuilderPasskey, OpType op, Val* out, Val* in, Val* init, Val* loop_index);
  OpType op() const {
    return op_;
  }
  Val* in() const {
    return input(0);
  }
  Val* init() const {
    return input(1);
  }
  Val* loopIndex() const {
    return input(2);
  }
  std::string opName() const override {
    return "scan_step";
  }

 private:
  OpType op_;
};

// A scan over values that the threads along threadIdx.x share. Begin declares the carry, as `init`,
// outside of the loop over tiles; Combine scans a tile: `count` consecutive elements of each
// thread's buffer, after the carry.
class ThreadScan : public KernelStatement {
 public:
  enum class Part { Begin, Combine };
  ThreadScan(IrBuilderPasskey, Part part, Expr* scan, Val* init);
  Part part() const {
    return part_;
  }
  Expr* scan() const { // the ScanOp
    return scan_;
  }
  Val* init() const {
    return init_;
  }
  int64_t threads = 1; // that share the scan axis
  int64_t count = 1;
  Val* first = nullptr;     // element of the buffer; set when tensors are indexed
  int region = -1;          // of the workspace; none within a warp
  Val* workspace = nullptr; // offset in shared memory

  std::string opName() const override {
    return "thread_scan";
  }
  std::string toString() const override;

 private:
  Part part_;
  Expr* scan_;
  Val* init_;
};

// Threads synchronize. ClusterStart and ClusterWait are the two halves of a barrier of the
// cluster: the blocks announce that they run and that their mbarriers are ready, and wait for that
// before the first of them writes to another one's shared memory.
class BlockSync : public KernelStatement {
 public:
  enum class Scope { Block, Cluster, ClusterStart, ClusterWait };
  BlockSync(IrBuilderPasskey, Scope scope = Scope::Block);
  Scope scope() const {
    return scope_;
  }
  std::string opName() const override {
    return "block_sync";
  }
  std::string toString() const override;

 private:
  Scope scope_;
};

} // namespace nvfuser
