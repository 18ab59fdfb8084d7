// SPDX-License-Identifier: BSD-3-Clause
// The expressions of the Fusion IR, those between IterDomains in ir/domain_exprs.h. Each class has
// typed fields, which `fieldList()` names once; what follows from that says ir/expr_base.h.
#pragma once

#include <ir/domain.h>
#include <ir/domain_exprs.h>
#include <ir/elementwise_table.h>
#include <ir/expr_base.h>

#include <optional>
#include <string>
#include <vector>

namespace nvfuser {

class TensorView;

// One row of the elementwise table applied to scalars or tensors of equal rank.
class ElementwiseOp : public ExprBase<ElementwiseOp, ExprKind::ElementwiseOp> {
 public:
  ElementwiseOp(IrBuilderPasskey, OpType op, Val* out, std::vector<Val*> in);
  OpType op() const {
    return op_;
  }
  Val* out() const {
    return output(0);
  }
  Val* in(size_t i) const {
    return input(i);
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"op", &ElementwiseOp::op_}};
  }
  std::string opName() const override;
  using ExprBase::ExprBase;

 private:
  OpType op_{};
};

// Copy. Also a permutation when the output's root differs from its logical order, and a change of
// memory order when the output has an allocation domain.
class LoadStoreOp : public ExprBase<LoadStoreOp, ExprKind::LoadStoreOp> {
 public:
  LoadStoreOp(IrBuilderPasskey, LoadStoreOpType type, Val* out, Val* in,
              CacheOp cache_op = CacheOp::Unspecified);
  LoadStoreOpType type() const {
    return type_;
  }
  CacheOp cacheOp() const {
    return cache_op_;
  }
  void setCacheOp(CacheOp cache_op) {
    cache_op_ = cache_op;
  }
  Val* out() const {
    return output(0);
  }
  Val* in() const {
    return input(0);
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"type", &LoadStoreOp::type_},
                      Field{"cache_op", &LoadStoreOp::cache_op_}};
  }
  std::string opName() const override;
  using ExprBase::ExprBase;

 private:
  LoadStoreOpType type_ = LoadStoreOpType::Set;
  CacheOp cache_op_ = CacheOp::Unspecified;
};

// Inserts dimensions of extent 1 where is_broadcast_dim is true.
class BroadcastOp : public ExprBase<BroadcastOp, ExprKind::BroadcastOp> {
 public:
  BroadcastOp(IrBuilderPasskey, Val* out, Val* in, std::vector<bool> is_broadcast_dim);
  const std::vector<bool>& isBroadcastDim() const {
    return is_broadcast_dim_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"is_broadcast_dim", &BroadcastOp::is_broadcast_dim_}};
  }
  std::string opName() const override {
    return "broadcast";
  }
  using ExprBase::ExprBase;

 private:
  std::vector<bool> is_broadcast_dim_;
};

// Removes dimensions of extent 1 where is_squeeze_dim is true.
class SqueezeOp : public ExprBase<SqueezeOp, ExprKind::SqueezeOp> {
 public:
  SqueezeOp(IrBuilderPasskey, Val* out, Val* in, std::vector<bool> is_squeeze_dim,
            bool squeeze_expanded = false);
  const std::vector<bool>& isSqueezeDim() const {
    return is_squeeze_dim_;
  }
  bool squeezeExpanded() const {
    return squeeze_expanded_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"is_squeeze_dim", &SqueezeOp::is_squeeze_dim_},
                      Field{"squeeze_expanded", &SqueezeOp::squeeze_expanded_}};
  }
  std::string opName() const override {
    return "squeeze";
  }
  using ExprBase::ExprBase;

 private:
  std::vector<bool> is_squeeze_dim_;
  bool squeeze_expanded_ = false;
};

// Gives broadcast dimensions an expanded extent. `shape` has one extent per output dimension.
class ExpandOp : public ExprBase<ExpandOp, ExprKind::ExpandOp> {
 public:
  ExpandOp(IrBuilderPasskey, Val* out, Val* in, std::vector<Val*> shape);
  const std::vector<Val*>& shape() const {
    return shape_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"shape", &ExpandOp::shape_}};
  }
  std::string opName() const override {
    return "expand";
  }
  using ExprBase::ExprBase;

 private:
  std::vector<Val*> shape_;
};

// Row-major reshape. Until shapes are known the output has Symbolic logical domains and no root;
// concretization (executor/) replaces the op by squeeze, this op with merges and splits between the
// output's root and logical domains, and broadcast.
class ReshapeOp : public ExprBase<ReshapeOp, ExprKind::ReshapeOp> {
 public:
  ReshapeOp(IrBuilderPasskey, Val* out, Val* in, std::vector<Val*> new_shape);
  // Extents of the output.
  const std::vector<Val*>& newShape() const {
    return new_shape_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"new_shape", &ReshapeOp::new_shape_}};
  }
  std::string opName() const override {
    return "reshape";
  }
  using ExprBase::ExprBase;

 private:
  std::vector<Val*> new_shape_;
};

// out[i] = in[i + start]: per dimension [start, stop), after clamping. The output's logical domains
// are Resizes of its root domains where the range is not the whole dimension.
class SliceOp : public ExprBase<SliceOp, ExprKind::SliceOp> {
 public:
  SliceOp(IrBuilderPasskey, Val* out, Val* in, std::vector<Val*> starts, std::vector<Val*> stops);
  const std::vector<Val*>& starts() const {
    return starts_;
  }
  const std::vector<Val*>& stops() const {
    return stops_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"starts", &SliceOp::starts_}, Field{"stops", &SliceOp::stops_}};
  }
  std::string opName() const override {
    return "slice";
  }
  using ExprBase::ExprBase;

 private:
  std::vector<Val*> starts_;
  std::vector<Val*> stops_;
};

// Input 0: the tensor, input 1: the scalar that fills. Per dimension `left` and `right` iterations
// are added (negative: removed). The output's logical domains are Resizes of its root domains.
class PadOp : public ExprBase<PadOp, ExprKind::PadOp> {
 public:
  PadOp(IrBuilderPasskey, Val* out, Val* in, Val* value, std::vector<Val*> left,
        std::vector<Val*> right);
  Val* in() const {
    return input(0);
  }
  Val* value() const {
    return input(1);
  }
  // One entry per logical dimension; 0 where nothing changes.
  const std::vector<Val*>& left() const {
    return left_;
  }
  const std::vector<Val*>& right() const {
    return right_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"left", &PadOp::left_}, Field{"right", &PadOp::right_}};
  }
  std::string opName() const override {
    return "pad";
  }
  using ExprBase::ExprBase;

 private:
  std::vector<Val*> left_;
  std::vector<Val*> right_;
};

// Concatenation of tensors that were already padded to the output's shape: element i of dimension
// `dim` comes from input k where ends[k-1] <= i < ends[k]. The last entry of `ends` is the extent.
class CatOp : public ExprBase<CatOp, ExprKind::CatOp> {
 public:
  CatOp(IrBuilderPasskey, Val* out, std::vector<Val*> inputs, int64_t dim, std::vector<Val*> ends);
  int64_t dim() const {
    return dim_;
  }
  const std::vector<Val*>& ends() const {
    return ends_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"dim", &CatOp::dim_}, Field{"ends", &CatOp::ends_}};
  }
  std::string opName() const override {
    return "cat";
  }
  using ExprBase::ExprBase;

 private:
  int64_t dim_ = 0;
  std::vector<Val*> ends_;
};

// Input 0: the scalar, already of the output's dtype.
class FullOp : public ExprBase<FullOp, ExprKind::FullOp> {
 public:
  FullOp(IrBuilderPasskey, Val* out, Val* value);
  std::string opName() const override {
    return "full";
  }
  using ExprBase::ExprBase;
};

// out[i] = start + i * step. Inputs: length, start, step.
class IotaOp : public ExprBase<IotaOp, ExprKind::IotaOp> {
 public:
  IotaOp(IrBuilderPasskey, Val* out, Val* length, Val* start, Val* step);
  Val* length() const {
    return input(0);
  }
  Val* start() const {
    return input(1);
  }
  Val* step() const {
    return input(2);
  }
  std::string opName() const override {
    return "iota";
  }
  using ExprBase::ExprBase;
};

enum class RngKind { Uniform, Normal };

// Random numbers, one Philox 4x32-10 stream per element. Inputs: the two parameters (minimum and
// maximum, or mean and standard deviation), then seed and offset when they are explicit. A stateful
// op (no explicit seed) takes its seed and base offset from the generator of the device at launch;
// `stateful_index` tells the stateful ops of a fusion apart, in definition order.
class RngOp : public ExprBase<RngOp, ExprKind::RngOp> {
 public:
  RngOp(IrBuilderPasskey, RngKind rng, Val* out, Val* a, Val* b, Val* seed, Val* offset,
        int64_t stateful_index = 0);
  RngKind rng() const {
    return rng_;
  }
  Val* parameter(size_t i) const {
    return input(i);
  }
  bool isStateful() const {
    return inputs().size() == 2;
  }
  Val* seed() const {
    return isStateful() ? nullptr : input(2);
  }
  Val* offset() const {
    return isStateful() ? nullptr : input(3);
  }
  int64_t statefulIndex() const {
    return stateful_index_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"rng", &RngOp::rng_, Told::ByOpName},
                      Field{"stateful_index", &RngOp::stateful_index_}};
  }
  std::string opName() const override {
    return rng_ == RngKind::Uniform ? "uniform" : "normal";
  }
  using ExprBase::ExprBase;

 private:
  RngKind rng_{};
  int64_t stateful_index_ = 0;
};

// Combines the elements along the output's Reduction axes with one of Add, Mul, Minimum and
// Maximum. The output's logical domain has an axis for each logical axis of the input, the reduced
// ones as IterType::Reduction; its consumers see the others only. `init` is the identity of the
// operation, in the dtype of the output, which is the dtype of the input.
class ReductionOp : public ExprBase<ReductionOp, ExprKind::ReductionOp> {
 public:
  ReductionOp(IrBuilderPasskey, OpType op, Val* init, TensorView* out, TensorView* in);
  OpType op() const {
    return op_;
  }
  Val* init() const {
    return init_;
  }
  TensorView* out() const;
  TensorView* in() const;
  static constexpr auto fieldList() {
    return std::tuple{Field{"op", &ReductionOp::op_}, Field{"init", &ReductionOp::init_}};
  }
  std::string opName() const override {
    return "reduction";
  }
  using ExprBase::ExprBase;

 private:
  OpType op_{};
  Val* init_ = nullptr;
};

// Mean, sum of squared deviations from it (M2) and number of the elements along the outputs'
// Reduction axes (as in ReductionOp, each output with axes of its own). The mean has the dtype of
// the input, M2 the real dtype of that, the count is of dtype Index. Takes either elements or
// the three results of other Welford reductions, of parts of the elements (rFactor).
class WelfordOp : public ExprBase<WelfordOp, ExprKind::WelfordOp> {
 public:
  WelfordOp(IrBuilderPasskey, TensorView* out_avg, TensorView* out_M2, TensorView* out_n,
            TensorView* in);
  WelfordOp(IrBuilderPasskey, TensorView* out_avg, TensorView* out_M2, TensorView* out_n,
            TensorView* in_avg, TensorView* in_M2, TensorView* in_n);
  TensorView* outAvg() const;
  TensorView* outM2() const;
  TensorView* outN() const;
  // The elements, or the means of parts.
  TensorView* in() const;
  bool combinesParts() const {
    return inputs().size() == 3;
  }
  std::string opName() const override {
    return "welford";
  }
  using ExprBase::ExprBase;
};

// Maximum m and sum of exp(in - m) along the outputs' Reduction axes, in one pass: a running sum is
// scaled when the maximum grows (M. Milakov and N. Gimelshein, "Online normalizer calculation for
// softmax", 2018). Where no element is above -infinity the sum is 0. Made by the planner
// (preseg_passes/merge_softmax_statistics.cpp).
class OnlineSoftmaxOp : public ExprBase<OnlineSoftmaxOp, ExprKind::OnlineSoftmaxOp> {
 public:
  OnlineSoftmaxOp(IrBuilderPasskey, TensorView* out_max, TensorView* out_sum, TensorView* in);
  std::string opName() const override {
    return "online_softmax";
  }
  using ExprBase::ExprBase;
};

// Whether the expression reduces dimensions of its input.
bool isReduction(const Expr* e);
// Elements that become one; infinitely many if their number is not known. 0 of other expressions.
double reducedElements(const Expr* e);
// It says where a tensor lies: in another one, or around others. Nothing is computed.
bool isOfMemory(const Expr* e);

// out[..., i, ...] = init op in[..., 0, ...] op ... op in[..., i, ...] along dimension `dim` of the
// output's logical domain, with one of Add, Mul, Minimum and Maximum.
class ScanOp : public ExprBase<ScanOp, ExprKind::ScanOp> {
 public:
  ScanOp(IrBuilderPasskey, OpType op, Val* init, int64_t dim, TensorView* out, TensorView* in);
  OpType op() const {
    return op_;
  }
  Val* init() const {
    return init_;
  }
  int64_t dim() const {
    return dim_;
  }
  TensorView* out() const;
  TensorView* in() const;
  // The axis of the output along which values are carried.
  IterDomain* scanAxis() const;
  static constexpr auto fieldList() {
    return std::tuple{Field{"op", &ScanOp::op_}, Field{"init", &ScanOp::init_},
                      Field{"dim", &ScanOp::dim_}};
  }
  std::string opName() const override {
    return "scan";
  }
  using ExprBase::ExprBase;

 private:
  OpType op_{};
  Val* init_ = nullptr;
  int64_t dim_ = 0;
};

// The ops below read or write a tensor at positions that another tensor (of dtype Int or Int32)
// holds. Input 0 is the tensor that is looked up (or updated), input 1 holds the positions. `dim`
// counts the dimensions of input 0. Positions are in [0, extent).

// out[i...] = lookup[i..., index[i...], i...]: the output has the shape of the index. `exact`: the
// dimensions other than `dim` are the same in all three (take_along_axis), otherwise the lookup's
// may be larger (gather).
class GatherOp : public ExprBase<GatherOp, ExprKind::GatherOp> {
 public:
  GatherOp(IrBuilderPasskey, TensorView* out, TensorView* lookup, TensorView* index, int64_t dim,
           bool exact);
  TensorView* lookup() const;
  TensorView* index() const;
  int64_t dim() const {
    return dim_;
  }
  bool exact() const {
    return exact_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"dim", &GatherOp::dim_},
                      Field{"exact", &GatherOp::exact_, Told::ByOpName}};
  }
  std::string opName() const override {
    return exact_ ? "take_along_axis" : "gather";
  }
  using ExprBase::ExprBase;

 private:
  int64_t dim_ = 0;
  bool exact_ = false;
};

// out[i..., k..., j...] = lookup[i..., index[k...], j...] with k in dimension `dim`. The index of a
// definition is 1-D; it has more dimensions where a reshape that splits them is gone
// (preseg_passes/move_views_to_ends.cpp).
class IndexSelectOp : public ExprBase<IndexSelectOp, ExprKind::IndexSelectOp> {
 public:
  IndexSelectOp(IrBuilderPasskey, TensorView* out, TensorView* lookup, TensorView* index,
                int64_t dim);
  TensorView* lookup() const;
  TensorView* index() const;
  int64_t dim() const {
    return dim_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"dim", &IndexSelectOp::dim_}};
  }
  std::string opName() const override {
    return "index_select";
  }
  using ExprBase::ExprBase;

 private:
  int64_t dim_ = 0;
};

// out[i..., j...] = lookup[i..., index, j...]; the index is a scalar, which counts from the end if
// it is negative, or a 0-d tensor.
class SelectOp : public ExprBase<SelectOp, ExprKind::SelectOp> {
 public:
  SelectOp(IrBuilderPasskey, TensorView* out, TensorView* lookup, Val* index, int64_t dim);
  TensorView* lookup() const;
  Val* index() const {
    return input(1);
  }
  int64_t dim() const {
    return dim_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"dim", &SelectOp::dim_}};
  }
  std::string opName() const override {
    return "select";
  }
  using ExprBase::ExprBase;

 private:
  int64_t dim_ = 0;
};

// A roll of a view of memory: element [i, j...] is that of the view at [(i + offset) % extent,
// ...], and so for each dimension; offsets are in [0, extent). Dimension d of the view is made of
// those dimensions k of `in` with view_dims[k] == d, outermost first. What sink_lookups.cpp makes
// of two slices side by side, so that each element is read once.
class RollOp : public ExprBase<RollOp, ExprKind::RollOp> {
 public:
  RollOp(IrBuilderPasskey, TensorView* out, TensorView* in, std::vector<int64_t> offsets,
         std::vector<int64_t> view_dims);
  TensorView* in() const;
  const std::vector<int64_t>& offsets() const {
    return offsets_;
  }
  const std::vector<int64_t>& viewDims() const {
    return view_dims_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"offsets", &RollOp::offsets_}, Field{"view_dims", &RollOp::view_dims_}};
  }
  std::string opName() const override {
    return "roll";
  }
  using ExprBase::ExprBase;

 private:
  std::vector<int64_t> offsets_;
  std::vector<int64_t> view_dims_;
};

// A copy of `self` in which out[i..., index[i...], i...] = src[i...] for every element i of the
// index, whose extents are at most those of self (but for `dim`) and of src. `src` is a tensor or a
// scalar. Where positions repeat, one of their elements wins. `in_place`: the result lies in the
// memory of self, which nothing else reads (preseg_passes/scatter_in_place.cpp).
class ScatterOp : public ExprBase<ScatterOp, ExprKind::ScatterOp> {
 public:
  ScatterOp(IrBuilderPasskey, TensorView* out, TensorView* self, TensorView* index, Val* src,
            int64_t dim, bool in_place = false);
  TensorView* out() const;
  TensorView* self() const;
  TensorView* index() const;
  Val* src() const {
    return input(2);
  }
  int64_t dim() const {
    return dim_;
  }
  bool isInPlace() const {
    return in_place_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"dim", &ScatterOp::dim_},
                      Field{"in_place", &ScatterOp::in_place_, Told::ByOpName}};
  }
  std::string opName() const override {
    return in_place_ ? "scatter_in_place" : "scatter";
  }
  using ExprBase::ExprBase;

 private:
  int64_t dim_ = 0;
  bool in_place_ = false;
};

// A scatter in place as its segment sees it: the elements that are written, and nothing of the
// others. `out` has the shape of the index; its memory is that of the tensor that is updated, of
// which `extent` is the size along `dim`. Input 0 is what is written, a tensor of the shape of the
// index or a scalar, input 1 holds the positions.
class ScatterStoreOp : public ExprBase<ScatterStoreOp, ExprKind::ScatterStoreOp> {
 public:
  ScatterStoreOp(IrBuilderPasskey, TensorView* out, Val* src, TensorView* index, Val* extent,
                 int64_t dim);
  Val* src() const {
    return input(0);
  }
  TensorView* index() const;
  Val* extent() const {
    return input(2);
  }
  int64_t dim() const {
    return dim_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"dim", &ScatterStoreOp::dim_}};
  }
  std::string opName() const override {
    return "scatter_store";
  }
  using ExprBase::ExprBase;

 private:
  int64_t dim_ = 0;
};

// out[i..., e] = weight[index[i...], e]: rows of a 2-D tensor. Here the positions may have any
// rank.
class EmbeddingFwdOp : public ExprBase<EmbeddingFwdOp, ExprKind::EmbeddingFwdOp> {
 public:
  EmbeddingFwdOp(IrBuilderPasskey, TensorView* out, TensorView* weight, TensorView* index);
  TensorView* weight() const;
  TensorView* index() const;
  std::string opName() const override {
    return "embedding_fwd";
  }
  using ExprBase::ExprBase;
};

// The memory of a tensor seen with other dimensions, or a part of it: no kernel computes it. Inputs
// behind the first say for each dimension where a part begins; a whole has none. Between what a
// library makes or reads and kernels (preseg_passes/library_boundaries.cpp).
class MemoryViewOp : public ExprBase<MemoryViewOp, ExprKind::MemoryViewOp> {
 public:
  MemoryViewOp(IrBuilderPasskey, TensorView* out, TensorView* in, const std::vector<Val*>& starts);
  TensorView* out() const;
  TensorView* in() const;
  std::vector<Val*> starts() const;
  std::string opName() const override {
    return "memory_view";
  }
  using ExprBase::ExprBase;
};

// A tensor in whose memory others lie side by side, each written by its own kernel
// (preseg_passes/cats_in_parts.h): no kernel computes it.
class MemoryJoinOp : public ExprBase<MemoryJoinOp, ExprKind::MemoryJoinOp> {
 public:
  MemoryJoinOp(IrBuilderPasskey, TensorView* out, const std::vector<TensorView*>& parts);
  std::string opName() const override {
    return "memory_join";
  }
  using ExprBase::ExprBase;
};

} // namespace nvfuser
