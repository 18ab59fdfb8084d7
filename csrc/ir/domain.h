// SPDX-License-Identifier: BSD-3-Clause
// IterDomain: one dimension of iteration. TensorDomain: the dimensions of a tensor in its views.
#pragma once

#include <ir/base_nodes.h>

#include <optional>
#include <vector>

namespace nvfuser {

// One iteration dimension [0, extent). Broadcast domains iterate once; an *expanded* broadcast also
// remembers the extent that it stands for. Symbolic domains become Iteration or Broadcast when
// shapes are known.
class IterDomain : public Val {
 public:
  IterDomain(IrBuilderPasskey, Val* extent, IterType iter_type = IterType::Iteration,
             ParallelType parallel_type = ParallelType::Serial, Val* expanded_extent = nullptr,
             bool is_rfactor = false);
  IterDomain(const IterDomain* src, IrCloner* cloner);
  std::unique_ptr<Val> copyWith(IrCloner* cloner) const override;

  // Number of iterations; 1 for a broadcast.
  Val* extent() const {
    return extent_;
  }
  bool hasExpandedExtent() const {
    return expanded_extent_ != nullptr;
  }
  Val* expandedExtent() const {
    return expanded_extent_;
  }
  // Of size 1, which operands may repeat.
  bool isOne() const {
    return isBroadcast() && !hasExpandedExtent();
  }
  // What the tensor's size in this dimension is: the expanded extent if there is one.
  Val* getMaybeExpandedExtent() const {
    return expanded_extent_ != nullptr ? expanded_extent_ : extent_;
  }
  IterType iterType() const {
    return iter_type_;
  }
  bool isReduction() const {
    return iter_type_ == IterType::Reduction;
  }
  bool isBroadcast() const {
    return iter_type_ == IterType::Broadcast;
  }
  bool isIteration() const {
    return iter_type_ == IterType::Iteration;
  }
  bool isSymbolicType() const {
    return iter_type_ == IterType::Symbolic;
  }
  // Made by a transform that belongs to the definition (reshape, resize), not to the schedule.
  bool isRfactorProduct() const {
    return is_rfactor_;
  }
  ParallelType parallelType() const {
    return parallel_type_;
  }
  // Binds the domain to a parallel type. Errors: a broadcast can't be vectorized ... (see
  // transform/parallelize rules checked at lowering).
  void parallelize(ParallelType type);
  // Bound to blocks (BIDx, y or z) that form a thread-block cluster: they run at the same time and
  // can read each other's shared memory. The extent must be a constant of at most 16. (Hopper and
  // later.)
  void parallelizeCluster(ParallelType type);
  bool isClustered() const {
    return is_clustered_;
  }
  bool isDeviceDim() const {
    return isParallelTypeDeviceDim(parallel_type_);
  }

  // The transforms. The outputs are new domains in the container of the inputs.
  // `factor` is the extent of the inner (inner_split) or outer part.
  // is_rfactor marks results that belong to the definition of a reshape: such splits divide evenly.
  static std::pair<IterDomain*, IterDomain*> split(IterDomain* in, Val* factor, bool inner_split,
                                                   bool is_rfactor = false);
  static IterDomain* merge(IterDomain* outer, IterDomain* inner, bool is_rfactor = false);
  // Adds `left` and `right` iterations at the ends (negative: removes). `iter_type` overrides the
  // type of the result, which otherwise is Broadcast if the new extent is the constant 1, Iteration
  // if it is constant or unchanged in kind, and Symbolic if it cannot be known yet.
  static IterDomain* resize(IterDomain* in, Val* left, Val* right, bool is_rfactor = false,
                            std::optional<IterType> iter_type = std::nullopt);
  static std::pair<IterDomain*, IterDomain*> swizzle(SwizzleType type, IterDomain* x,
                                                     IterDomain* y);
  // See Align. A broadcast y stays as it is.
  static std::pair<IterDomain*, IterDomain*> align(IterDomain* x, IterDomain* y, Val* stride,
                                                   int64_t width);
  // The results of a transform like this one over other domains. A resize has the extent of that
  // one's result, whatever it resizes: a broadcast along a dimension, or a part of it, runs over
  // what that is cut or padded to.
  static std::vector<IterDomain*> transformedLike(const Expr* transform,
                                                  const std::vector<IterDomain*>& in,
                                                  bool is_rfactor = false);

  std::string toString() const override;
  std::string toInlineString() const override;

 private:
  Val* extent_;
  Val* expanded_extent_;
  IterType iter_type_;
  ParallelType parallel_type_;
  bool is_rfactor_;
  bool is_clustered_ = false;
};

// Fluent construction: IterDomainBuilder(extent).iterType(IterType::Broadcast).build().
class IterDomainBuilder {
 public:
  explicit IterDomainBuilder(Val* extent) : extent_(extent) {}
  // Everything of `id` but its definition and rfactor flag.
  explicit IterDomainBuilder(const IterDomain* id);
  IterDomainBuilder& extent(Val* v) {
    extent_ = v;
    return *this;
  }
  IterDomainBuilder& expandedExtent(Val* v) {
    expanded_extent_ = v;
    return *this;
  }
  IterDomainBuilder& iterType(IterType t) {
    iter_type_ = t;
    return *this;
  }
  IterDomainBuilder& parallelType(ParallelType t) {
    parallel_type_ = t;
    return *this;
  }
  IterDomainBuilder& isRfactor(bool b) {
    is_rfactor_ = b;
    return *this;
  }
  IterDomain* build() const;

 private:
  Val* extent_ = nullptr;
  Val* expanded_extent_ = nullptr;
  IterType iter_type_ = IterType::Iteration;
  ParallelType parallel_type_ = ParallelType::Serial;
  bool is_rfactor_ = false;
};

// The views of a tensor's dimensions:
//   root        as the producer sees it; kept only when the op itself reshapes
//   logical     as the consumer sees it; what users call the shape
//   allocation  memory order; kept only when it differs from logical
//   loop        after scheduling
// Root, logical, allocation and loop are connected by the transform expressions between
// IterDomains.
class TensorDomain : public Val {
 public:
  using Ids = std::vector<IterDomain*>;
  // nullopt for broadcast (and reduction) dimensions; otherwise whether the dimension's stride is
  // exactly what the next inner non-broadcast dimensions take. In allocation order.
  using Contiguity = std::vector<std::optional<bool>>;

  TensorDomain(IrBuilderPasskey, Ids logical, Contiguity contiguity = {});
  TensorDomain(IrBuilderPasskey, Ids root, Ids logical, Ids loop, Contiguity contiguity = {});
  TensorDomain(IrBuilderPasskey, Ids root, Ids logical, Ids allocation, Ids loop,
               Contiguity contiguity);
  TensorDomain(const TensorDomain* src, IrCloner* cloner);
  std::unique_ptr<Val> copyWith(IrCloner* cloner) const override;

  bool hasRoot() const {
    return !root_.empty();
  }
  bool hasAllocation() const {
    return !allocation_.empty();
  }
  // The order in memory was asked for, be it that of the dimensions.
  bool isOrderGiven() const {
    return order_is_given_;
  }
  const Ids& root() const {
    return root_;
  }
  const Ids& maybeRoot() const {
    return root_.empty() ? logical_ : root_;
  }
  const Ids& logical() const {
    return logical_;
  }
  const Ids& allocation() const {
    return allocation_;
  }
  const Ids& maybeAllocation() const {
    return allocation_.empty() ? logical_ : allocation_;
  }
  const Ids& loop() const {
    return loop_;
  }
  const Contiguity& contiguity() const {
    return contiguity_;
  }
  void setLoopDomain(Ids loop);
  void setAllocationDomain(Ids allocation, Contiguity contiguity);
  void setContiguity(Contiguity contiguity);

  // Every domain of this tensor: root, logical, allocation, loop and those between them.
  Ids allIds() const;
  // The transforms from `from` to the loop domain, producers before consumers.
  std::vector<Expr*> exprsToLoop() const;

  // A copy without its reductions, in the same order in memory, for a tensor that is computed in
  // another way from now on; before its dimensions stand `leading` ones.
  TensorDomain* copyOfKept(const Ids& leading = {}) const;

  // Numbers of logical dimensions as they come in memory, the most significant first; reductions
  // count neither here nor there. Empty: memory is made of other dimensions.
  std::vector<size_t> memoryOrder() const {
    return orderOf(logical_, maybeAllocation());
  }
  // The numbers of `ids` in the order of `ordered`; empty if these are not the same.
  static std::vector<size_t> orderOf(const Ids& ids, const Ids& ordered);

  static Ids noReductions(const Ids& ids);
  // nullopt for broadcasts and reductions, `flag` elsewhere.
  static Contiguity contiguityFilledWith(const Ids& ids, bool flag);

  std::string toString() const override;

 private:
  Ids root_;
  Ids logical_;
  Ids allocation_;
  Ids loop_;
  Contiguity contiguity_;
  bool order_is_given_ = false;
};

// The transform expressions that lie on paths from `from` to `to`, producers before consumers.
std::vector<Expr*> transformsBetween(const std::vector<IterDomain*>& from,
                                     const std::vector<IterDomain*>& to);
// The domains in them and `to`; some may be repeated.
std::vector<IterDomain*> domainsBetween(const std::vector<IterDomain*>& from,
                                        const std::vector<IterDomain*>& to);

} // namespace nvfuser
