// SPDX-License-Identifier: BSD-3-Clause
// Constructors and small queries of the Fusion IR expressions.
#include <base/error.h>
#include <ir/exprs.h>
#include <ir/library_table.h>
#include <ir/tensor_view.h>

#include <limits>
#include <sstream>

namespace nvfuser {

namespace detail {

namespace {

template <class E>
std::string printed(E value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

} // namespace

std::string fieldText(OpType op) {
  return opInfo(op).name;
}
std::string fieldText(LibraryOpType op) {
  return libraryOpInfo(op).name;
}
std::string fieldText(LoadStoreOpType type) {
  return printed(type);
}
std::string fieldText(CacheOp op) {
  return printed(op);
}
std::string fieldText(RngKind kind) {
  return kind == RngKind::Uniform ? "uniform" : "normal";
}
std::string fieldText(SwizzleType type) {
  return printed(type);
}
std::string fieldText(ParallelType type) {
  return printed(type);
}

} // namespace detail

ElementwiseOp::ElementwiseOp(IrBuilderPasskey key, OpType op, Val* out, std::vector<Val*> in)
    : ExprBase(key), op_(op) {
  NVF_ERROR(static_cast<int>(in.size()) == opInfo(op).arity, opInfo(op).name, ": operand count");
  addOutput(out);
  for (Val* v : in) {
    addInput(v);
  }
}

std::string ElementwiseOp::opName() const {
  return opInfo(op_).name;
}

LoadStoreOp::LoadStoreOp(IrBuilderPasskey key, LoadStoreOpType type, Val* out, Val* in,
                         CacheOp cache_op)
    : ExprBase(key), type_(type), cache_op_(cache_op) {
  addOutput(out);
  addInput(in);
}

std::string LoadStoreOp::opName() const {
  switch (type_) {
    case LoadStoreOpType::Set:
      return "Set";
    case LoadStoreOpType::SegmenterSet:
      return "SegmenterSet";
    case LoadStoreOpType::LdMatrix:
      return "LdMatrix";
    case LoadStoreOpType::CpAsync:
      return "CpAsync";
    case LoadStoreOpType::CpAsyncBulk:
      return "CpAsyncBulk";
    case LoadStoreOpType::CpAsyncBulkTensorTile:
      return "CpAsyncBulkTensorTile";
  }
  return "Set";
}

BroadcastOp::BroadcastOp(IrBuilderPasskey key, Val* out, Val* in,
                         std::vector<bool> is_broadcast_dim)
    : ExprBase(key), is_broadcast_dim_(std::move(is_broadcast_dim)) {
  addOutput(out);
  addInput(in);
}

SqueezeOp::SqueezeOp(IrBuilderPasskey key, Val* out, Val* in, std::vector<bool> is_squeeze_dim,
                     bool squeeze_expanded)
    : ExprBase(key),
      is_squeeze_dim_(std::move(is_squeeze_dim)),
      squeeze_expanded_(squeeze_expanded) {
  addOutput(out);
  addInput(in);
}

ExpandOp::ExpandOp(IrBuilderPasskey key, Val* out, Val* in, std::vector<Val*> shape)
    : ExprBase(key), shape_(std::move(shape)) {
  addOutput(out);
  addInput(in);
}

ReshapeOp::ReshapeOp(IrBuilderPasskey key, Val* out, Val* in, std::vector<Val*> new_shape)
    : ExprBase(key), new_shape_(std::move(new_shape)) {
  addOutput(out);
  addInput(in);
}

SliceOp::SliceOp(IrBuilderPasskey key, Val* out, Val* in, std::vector<Val*> starts,
                 std::vector<Val*> stops)
    : ExprBase(key), starts_(std::move(starts)), stops_(std::move(stops)) {
  addOutput(out);
  addInput(in);
}

PadOp::PadOp(IrBuilderPasskey key, Val* out, Val* in, Val* value, std::vector<Val*> left,
             std::vector<Val*> right)
    : ExprBase(key), left_(std::move(left)), right_(std::move(right)) {
  addOutput(out);
  addInput(in);
  addInput(value);
}

CatOp::CatOp(IrBuilderPasskey key, Val* out, std::vector<Val*> inputs, int64_t dim,
             std::vector<Val*> ends)
    : ExprBase(key), dim_(dim), ends_(std::move(ends)) {
  NVF_ERROR(inputs.size() == ends_.size(), "cat: one end per input");
  addOutput(out);
  for (Val* v : inputs) {
    addInput(v);
  }
}

FullOp::FullOp(IrBuilderPasskey key, Val* out, Val* value) : ExprBase(key) {
  addOutput(out);
  addInput(value);
}

IotaOp::IotaOp(IrBuilderPasskey key, Val* out, Val* length, Val* start, Val* step) : ExprBase(key) {
  addOutput(out);
  addInput(length);
  addInput(start);
  addInput(step);
}

RngOp::RngOp(IrBuilderPasskey key, RngKind rng, Val* out, Val* a, Val* b, Val* seed, Val* offset,
             int64_t stateful_index)
    : ExprBase(key), rng_(rng), stateful_index_(stateful_index) {
  NVF_CHECK((seed == nullptr) == (offset == nullptr),
            "rng_seed and rng_offset must be provided together!");
  addOutput(out);
  addInput(a);
  addInput(b);
  if (seed != nullptr) {
    addInput(seed);
    addInput(offset);
  }
}

namespace {

TensorView* tensor(Val* v) {
  return v->as<TensorView>();
}

} // namespace

ReductionOp::ReductionOp(IrBuilderPasskey key, OpType op, Val* init, TensorView* out,
                         TensorView* in)
    : ExprBase(key), op_(op), init_(init) {
  addOutput(out);
  addInput(in);
}

TensorView* ReductionOp::out() const {
  return tensor(output(0));
}

TensorView* ReductionOp::in() const {
  return tensor(input(0));
}

WelfordOp::WelfordOp(IrBuilderPasskey key, TensorView* out_avg, TensorView* out_M2,
                     TensorView* out_n, TensorView* in)
    : ExprBase(key) {
  addOutput(out_avg);
  addOutput(out_M2);
  addOutput(out_n);
  addInput(in);
}

OnlineSoftmaxOp::OnlineSoftmaxOp(IrBuilderPasskey key, TensorView* out_max, TensorView* out_sum,
                                 TensorView* in)
    : ExprBase(key) {
  addOutput(out_max);
  addOutput(out_sum);
  addInput(in);
}

bool isOfMemory(const Expr* e) {
  return e->kind() == ExprKind::MemoryViewOp || e->kind() == ExprKind::MemoryJoinOp;
}

bool isReduction(const Expr* e) {
  return e != nullptr && (e->kind() == ExprKind::ReductionOp || e->kind() == ExprKind::WelfordOp ||
                          e->kind() == ExprKind::OnlineSoftmaxOp);
}

double reducedElements(const Expr* e) {
  if (!isReduction(e)) {
    return 0;
  }
  double elements = 1;
  for (const IterDomain* id : tensor(e->output(0))->getMaybeRootDomain()) {
    if (id->isReduction()) {
      const Val* extent = id->getMaybeExpandedExtent();
      elements *= extent->isConstInt() ? static_cast<double>(extent->intValue())
                                       : std::numeric_limits<double>::infinity();
    }
  }
  return elements;
}

WelfordOp::WelfordOp(IrBuilderPasskey key, TensorView* out_avg, TensorView* out_M2,
                     TensorView* out_n, TensorView* in_avg, TensorView* in_M2, TensorView* in_n)
    : WelfordOp(key, out_avg, out_M2, out_n, in_avg) {
  addInput(in_M2);
  addInput(in_n);
}

TensorView* WelfordOp::outAvg() const {
  return tensor(output(0));
}

TensorView* WelfordOp::outM2() const {
  return tensor(output(1));
}

TensorView* WelfordOp::outN() const {
  return tensor(output(2));
}

TensorView* WelfordOp::in() const {
  return tensor(input(0));
}

ScanOp::ScanOp(IrBuilderPasskey key, OpType op, Val* init, int64_t dim, TensorView* out,
               TensorView* in)
    : ExprBase(key), op_(op), init_(init), dim_(dim) {
  addOutput(out);
  addInput(in);
}

TensorView* ScanOp::out() const {
  return tensor(output(0));
}

TensorView* ScanOp::in() const {
  return tensor(input(0));
}

IterDomain* ScanOp::scanAxis() const {
  return out()->getLogicalDomain().at(static_cast<size_t>(dim_));
}

GatherOp::GatherOp(IrBuilderPasskey key, TensorView* out, TensorView* lookup, TensorView* index,
                   int64_t dim, bool exact)
    : ExprBase(key), dim_(dim), exact_(exact) {
  addOutput(out);
  addInput(lookup);
  addInput(index);
}

TensorView* GatherOp::lookup() const {
  return tensor(input(0));
}

TensorView* GatherOp::index() const {
  return tensor(input(1));
}

IndexSelectOp::IndexSelectOp(IrBuilderPasskey key, TensorView* out, TensorView* lookup,
                             TensorView* index, int64_t dim)
    : ExprBase(key), dim_(dim) {
  addOutput(out);
  addInput(lookup);
  addInput(index);
}

TensorView* IndexSelectOp::lookup() const {
  return tensor(input(0));
}

TensorView* IndexSelectOp::index() const {
  return tensor(input(1));
}

SelectOp::SelectOp(IrBuilderPasskey key, TensorView* out, TensorView* lookup, Val* index,
                   int64_t dim)
    : ExprBase(key), dim_(dim) {
  addOutput(out);
  addInput(lookup);
  addInput(index);
}

TensorView* SelectOp::lookup() const {
  return tensor(input(0));
}

RollOp::RollOp(IrBuilderPasskey key, TensorView* out, TensorView* in, std::vector<int64_t> offsets,
               std::vector<int64_t> view_dims)
    : ExprBase(key), offsets_(std::move(offsets)), view_dims_(std::move(view_dims)) {
  addOutput(out);
  addInput(in);
}

TensorView* RollOp::in() const {
  return tensor(input(0));
}

ScatterOp::ScatterOp(IrBuilderPasskey key, TensorView* out, TensorView* self, TensorView* index,
                     Val* src, int64_t dim, bool in_place)
    : ExprBase(key), dim_(dim), in_place_(in_place) {
  addOutput(out);
  addInput(self);
  addInput(index);
  addInput(src);
}

TensorView* ScatterOp::out() const {
  return tensor(output(0));
}

TensorView* ScatterOp::self() const {
  return tensor(input(0));
}

TensorView* ScatterOp::index() const {
  return tensor(input(1));
}

ScatterStoreOp::ScatterStoreOp(IrBuilderPasskey key, TensorView* out, Val* src, TensorView* index,
                               Val* extent, int64_t dim)
    : ExprBase(key), dim_(dim) {
  addOutput(out);
  addInput(src);
  addInput(index);
  addInput(extent);
}

TensorView* ScatterStoreOp::index() const {
  return tensor(input(1));
}

MemoryViewOp::MemoryViewOp(IrBuilderPasskey key, TensorView* out, TensorView* in,
                           const std::vector<Val*>& starts)
    : ExprBase(key) {
  addOutput(out);
  addInput(in);
  for (Val* start : starts) {
    addInput(start);
  }
}

TensorView* MemoryViewOp::out() const {
  return tensor(output(0));
}

TensorView* MemoryViewOp::in() const {
  return tensor(input(0));
}

std::vector<Val*> MemoryViewOp::starts() const {
  return {inputs().begin() + 1, inputs().end()};
}

MemoryJoinOp::MemoryJoinOp(IrBuilderPasskey key, TensorView* out,
                           const std::vector<TensorView*>& parts)
    : ExprBase(key) {
  addOutput(out);
  for (TensorView* part : parts) {
    addInput(part);
  }
}

EmbeddingFwdOp::EmbeddingFwdOp(IrBuilderPasskey key, TensorView* out, TensorView* weight,
                               TensorView* index)
    : ExprBase(key) {
  addOutput(out);
  addInput(weight);
  addInput(index);
}

TensorView* EmbeddingFwdOp::weight() const {
  return tensor(input(0));
}

TensorView* EmbeddingFwdOp::index() const {
  return tensor(input(1));
}

Split::Split(IrBuilderPasskey key, IterDomain* outer, IterDomain* inner, IterDomain* in,
             Val* factor, bool inner_split)
    : ExprBase(key), factor_(factor), inner_split_(inner_split) {
  addOutput(outer);
  addOutput(inner);
  addInput(in);
}

bool Split::isOfReshape() const {
  return outer()->isRfactorProduct() && !in()->isReduction();
}

bool Split::isDivisible() const {
  // Splits of a reshape divide by construction: the element counts agree.
  if (isOfReshape()) {
    return true;
  }
  const Val* extent = in()->extent();
  if (factor_->isOneInt() || factor_->sameAs(extent)) {
    return true;
  }
  if (extent->isConstInt() && factor_->isConstInt()) {
    const int64_t f = factor_->intValue();
    return f != 0 && extent->intValue() % f == 0;
  }
  return false;
}

Merge::Merge(IrBuilderPasskey key, IterDomain* out, IterDomain* outer, IterDomain* inner)
    : ExprBase(key) {
  addOutput(out);
  addInput(outer);
  addInput(inner);
}

Resize::Resize(IrBuilderPasskey key, IterDomain* out, IterDomain* in, Val* left, Val* right)
    : DomainToDomain(key, out, in), left_(left), right_(right) {}

Swizzle::Swizzle(IrBuilderPasskey key, IterDomain* out_x, IterDomain* out_y, IterDomain* in_x,
                 IterDomain* in_y, SwizzleType type)
    : PairToPair(key, out_x, out_y, in_x, in_y), type_(type) {}

Align::Align(IrBuilderPasskey key, IterDomain* out_x, IterDomain* out_y, IterDomain* in_x,
             IterDomain* in_y, Val* stride, int64_t width)
    : PairToPair(key, out_x, out_y, in_x, in_y), stride_(stride), width_(width) {}

Swizzle1D::Swizzle1D(IrBuilderPasskey key, IterDomain* out, IterDomain* in,
                     ParallelType parallel_type)
    : DomainToDomain(key, out, in), parallel_type_(parallel_type) {}

} // namespace nvfuser
