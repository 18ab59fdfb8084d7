// SPDX-License-Identifier: BSD-3-Clause
// TensorView: a tensor value and its schedule. The scheduling methods are implemented in
// transform/; each returns the tensor itself so that calls chain, or the new tensor it made.
#pragma once

#include <ir/domain.h>

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nvfuser {

// How computeAt treats a position that cannot be reached.
enum class ComputeAtMode { Standard, BestEffort, MostInlined };

// How a tensor is loaded ahead of its use; see TensorView::circularBuffer.
struct CircularBuffer {
  int64_t stages = 1;
  int64_t distance = 0;
  ParallelType warps =
      ParallelType::Serial; // the thread dimension of the warps that load; Serial: none
  std::optional<std::pair<int64_t, int64_t>> registers;
};

class TensorView : public Val {
 public:
  TensorView(IrBuilderPasskey, TensorDomain* domain, DataType dtype,
             MemoryType memory_type = MemoryType::Local);
  TensorView(const TensorView* src, IrCloner* cloner);
  std::unique_ptr<Val> copyWith(IrCloner* cloner) const override;

  TensorDomain* domain() const {
    return domain_;
  }
  const std::vector<IterDomain*>& getRootDomain() const {
    return domain_->root();
  }
  const std::vector<IterDomain*>& getMaybeRootDomain() const {
    return domain_->maybeRoot();
  }
  const std::vector<IterDomain*>& getLogicalDomain() const {
    return domain_->logical();
  }
  const std::vector<IterDomain*>& getAllocationDomain() const {
    return domain_->allocation();
  }
  const std::vector<IterDomain*>& getMaybeAllocationDomain() const {
    return domain_->maybeAllocation();
  }
  const std::vector<IterDomain*>& getLoopDomain() const {
    return domain_->loop();
  }
  const TensorDomain::Contiguity& getContiguity() const {
    return domain_->contiguity();
  }
  bool hasRoot() const {
    return domain_->hasRoot();
  }
  bool hasReduction() const;
  bool hasBroadcast() const;

  // Number of loop axes.
  int64_t nDims() const {
    return static_cast<int64_t>(domain_->loop().size());
  }
  // Loop axis; negative counts from the end. Error: out of range.
  IterDomain* axis(int64_t position) const;
  MemoryType getMemoryType() const {
    return memory_type_;
  }
  // Only 0-d tensors may live on the CPU next to a GPU fusion.
  bool isCpuScalar() const {
    return cpu_scalar_;
  }
  void setCpuScalar(bool v) {
    cpu_scalar_ = v;
  }
  // Of a dense output: its kernel writes so many elements, those that come first in memory, and
  // another kernel the others. Null: it writes all.
  std::optional<int64_t> writtenElements() const {
    return written_elements_;
  }
  void setWrittenElements(int64_t count) {
    written_elements_ = count;
  }

  // --- schedule primitives (transform/) ---

  // Splits loop axis `axis` (extent e) into [ceilDiv(e, factor), factor], or with inner_split=false
  // into [factor, ceilDiv(e, factor)].
  TensorView* split(int64_t axis, int64_t factor, bool inner_split = true);
  TensorView* split(int64_t axis, Val* factor, bool inner_split = true);
  // Merges two loop axes; the result stands at the outer one's position.
  TensorView* merge(int64_t axis_outer, int64_t axis_inner);
  // Merges `axis` with the next one.
  TensorView* merge(int64_t axis);
  TensorView* flatten(int64_t from = 0, int64_t to = -1);
  // Moves axes: old position -> new position; the others keep their relative order.
  TensorView* reorder(const std::unordered_map<int64_t, int64_t>& old2new);
  // Full permutation: axis i of the result is axis permutation[i] of the current loop domain.
  TensorView* reorder(const std::vector<int64_t>& permutation);
  TensorView* swizzle(SwizzleType type, int64_t x, int64_t y);
  TensorView* resize(int64_t axis, Val* left, Val* right);
  // Moves this tensor's computation into the loops of `consumer`, `position` axes deep (counted in
  // the consumer); affects every tensor between the two.
  TensorView* computeAt(TensorView* consumer, int64_t position,
                        ComputeAtMode mode = ComputeAtMode::Standard);
  // Inlines this tensor's loops [0, position) into its consumers'. best_effort lowers the position
  // until it is legal.
  void inlineAt(int64_t position, bool best_effort = false);
  // A copy inserted between this tensor's definition and itself; returns the new tensor, which
  // takes over the definition.
  TensorView* cacheBefore(LoadStoreOpType op = LoadStoreOpType::Set);
  // A copy inserted between this tensor and its uses (all, or `cached_uses`).
  TensorView* cacheAfter(LoadStoreOpType op = LoadStoreOpType::Set,
                         CacheOp cache_op = CacheOp::Unspecified,
                         bool propagate_allocation_domain = true,
                         const std::vector<Expr*>& cached_uses = {});
  // For an output that is also read inside the fusion: a new output copy; the uses keep this one.
  TensorView* cacheFork();
  // Factors the listed reduction axes into a new producer, which is returned; this tensor reduces
  // the others. Of a Welford reduction all three results are factored. Errors: the definition is no
  // reduction, none of its axes would remain, loops are shared with other tensors.
  TensorView* rFactor(const std::vector<int64_t>& axes);
  // The same for an op of several results {mean, M2, count}; they take over this tensor's loops.
  std::vector<TensorView*> rFactor(const std::vector<int64_t>& axes,
                                   const std::vector<TensorView*>& outputs);
  void setMemoryType(MemoryType type);
  void setAllocationDomain(std::vector<IterDomain*> allocation, bool contiguous);
  void setAllocationDomain(std::vector<IterDomain*> allocation,
                           TensorDomain::Contiguity contiguity);
  void setLoopDomain(std::vector<IterDomain*> loop);

  // --- inlining state (set by transform/inlining) ---

  // Loops [0, n) of this tensor are shared with its consumers.
  int64_t getComputeAtPosition() const {
    return compute_at_pos_;
  }
  // Loops [0, n) of this tensor hold producers inlined into it.
  int64_t getMaxProducerPosition() const {
    return max_producer_pos_;
  }
  void setComputeAtPosition(int64_t n) {
    compute_at_pos_ = n;
  }
  void setMaxProducerPosition(int64_t n) {
    max_producer_pos_ = n;
  }

  // The tensor is loaded `distance` iterations ahead of its use (negative: counted from `stages`),
  // in the innermost loop that it is inlined into. In registers there are 2 stages and the distance
  // is 1: while an iteration computes, the next one's loads are under way. In shared memory it is
  // loaded by cp.async or TMA. A reduction over the blocks of a cluster takes 2 stages too: while
  // the blocks exchange their values, those of the next iteration are accumulated
  // (lower/prefetch_reductions.cpp).
  void circularBuffer(int64_t stages, int64_t distance = 1);
  // The same, but extra warps along `type` do the loads, by TMA. `registers`: of each of their
  // threads, and of each thread that computes.
  void warpSpecialize(int64_t stages, int64_t distance, ParallelType type,
                      std::optional<std::pair<int64_t, int64_t>> registers = std::nullopt);
  bool isCircularBuffered() const {
    return circular_buffer_.stages > 1;
  }
  const CircularBuffer& circularBuffer() const {
    return circular_buffer_;
  }

  // Used by cacheBefore and the like.
  void setDomain(TensorDomain* domain) {
    domain_ = domain;
  }

  // Where the tensor was defined in the user's program ("file.py:12"), for error messages.
  const std::string& sourceLocation() const {
    return source_location_;
  }
  void setSourceLocation(std::string where) {
    source_location_ = std::move(where);
  }

  bool sameAs(const Val* other) const override {
    return this == other;
  }
  std::string toString() const override;
  std::string toInlineString() const override;

 private:
  TensorDomain* domain_;
  MemoryType memory_type_;
  bool cpu_scalar_ = false;
  std::optional<int64_t> written_elements_;
  int64_t compute_at_pos_ = 0;
  int64_t max_producer_pos_ = 0;
  CircularBuffer circular_buffer_;
  std::string source_location_;
};

// The dimensions that consumers of a tensor see: the logical ones without those it reduces.
TensorDomain::Ids logicalIds(const Val* tensor);
// Of the logical domain with its reductions: which these are.
std::vector<bool> reducedFlags(const TensorView* tv);

// New tensors for fusion inputs. Extents are symbolic (makeSymbolicTensor, makeContigTensor) or
// given (makeConcreteTensor; 1 makes a broadcast, -1 a symbolic extent).
TensorView* makeContigTensor(int64_t ndims, DataType dtype = DataType::Float);
TensorView* makeSymbolicTensor(int64_t ndims, DataType dtype = DataType::Float);
TensorView* makeContigConcreteTensor(const std::vector<int64_t>& shape,
                                     DataType dtype = DataType::Float);
TensorView* makeConcreteTensor(const std::vector<int64_t>& shape, DataType dtype = DataType::Float);

// Fluent construction of tensors, used by define_tensor.
class TensorViewBuilder {
 public:
  // -1 symbolic, 0 empty, 1 broadcast, > 1 static.
  TensorViewBuilder& shape(const std::vector<int64_t>& shape);
  TensorViewBuilder& shape(std::vector<Val*> shape);
  TensorViewBuilder& ndims(int64_t n);
  TensorViewBuilder& dtype(DataType dtype);
  // One flag for all, or one per dimension in allocation order (nullopt: broadcast).
  TensorViewBuilder& contiguity(bool contiguous);
  TensorViewBuilder& contiguity(TensorDomain::Contiguity contiguity);
  // strideOrder[i] = rank of dimension i's stride, 0 fastest.
  TensorViewBuilder& strideOrder(std::vector<int64_t> order);
  TensorViewBuilder& expanded(std::vector<bool> expanded);
  TensorView* build() const;

 private:
  std::optional<int64_t> ndims_;
  std::vector<Val*> shape_;
  DataType dtype_ = DataType::Float;
  std::optional<bool> uniform_contiguity_;
  std::optional<TensorDomain::Contiguity> contiguity_;
  std::vector<int64_t> stride_order_;
  std::vector<bool> expanded_;
};

} // namespace nvfuser
