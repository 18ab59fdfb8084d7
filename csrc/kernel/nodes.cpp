// SPDX-License-Identifier: BSD-3-Clause
// Kernel IR nodes.
#include <kernel/nodes.h>

#include <base/error.h>
#include <base/string_utils.h>
#include <ir/builder.h>
#include <kernel/kernel.h>

#include <algorithm>
#include <sstream>

namespace nvfuser {

TensorIndex::TensorIndex(IrBuilderPasskey key, TensorView* tv, Val* index)
    : Val(key, ValKind::TensorIndex, tv->dtype()), tv_(tv), index_(index) {}
TensorIndex::TensorIndex(const TensorIndex* src, IrCloner* cloner)
    : Val(src, cloner), tv_(cloner->clone(src->tv_)), index_(cloner->clone(src->index_)) {}

std::unique_ptr<Val> TensorIndex::copyWith(IrCloner* cloner) const {
  return std::make_unique<TensorIndex>(this, cloner);
}

std::string TensorIndex::toString() const {
  return "T" + std::to_string(tv_->name()) + "[" + index_->toInlineString() + "]";
}

Expr* KernelStatement::shallowCopy(IrCloner*) const {
  NVF_THROW("a kernel statement (", opName(), ") can't be copied");
}

namespace {

std::string listing(const std::vector<Expr*>& statements) {
  std::string out;
  for (const Expr* e : statements) {
    out += indent(e->toString(), 2);
    if (out.empty() || out.back() != '\n') {
      out += '\n';
    }
  }
  return out;
}

} // namespace

ForLoop::ForLoop(IrBuilderPasskey key, IterDomain* id, Val* index, Val* extent, ParallelType type,
                 int loop_id)
    : KernelStatement(key, ExprKind::ForLoop),
      id_(id),
      index_(index),
      extent_(extent),
      type_(type),
      loop_id_(loop_id) {}

bool ForLoop::isTrivial() const {
  return isParallelTypeThread(type_) || isParallelTypeVectorize(type_) ||
         type_ == ParallelType::Bulk || extent_->isOneInt();
}

namespace {

// Loops over threads and blocks are none.
bool hasLoops(const std::vector<Expr*>& list) {
  return std::any_of(list.begin(), list.end(), [](const Expr* e) {
    if (const auto* branch = tryAs<IfThenElse>(e)) {
      return hasLoops(branch->thenBody()) || hasLoops(branch->elseBody());
    }
    const auto* inner = tryAs<ForLoop>(e);
    return inner != nullptr && (!inner->isTrivial() || hasLoops(inner->body()));
  });
}

} // namespace

bool ForLoop::isUnrolled() const {
  // Registers have no addresses. Other loops of constant length may be long (rows of a constant
  // shape), or have a whole tile for a body: a kernel that runs once would wait for its own text.
  constexpr int64_t kMaxUnroll = 256;
  constexpr int64_t kShort = 16;
  return type_ == ParallelType::Unroll ||
         (extent_->isConstInt() && (indexes_registers_ || !hasLoops(body_)) &&
          extent_->intValue() <= (indexes_registers_ ? kMaxUnroll : kShort));
}

ForLoop* ForLoop::emptyCopy() const {
  ForLoop* copy = like(index_, extent_, type_);
  copy->setFirst(first_);
  copy->setIndexesRegisters(indexes_registers_);
  return copy;
}

ForLoop* ForLoop::like(Val* index, Val* extent, ParallelType type) const {
  return IrBuilder::create<ForLoop>(id_, index, extent, type, loop_id_);
}

std::string ForLoop::toString() const {
  std::ostringstream out;
  out << "FOR " << index_->toInlineString() << " in " << id_->toString()
      << (first_ == nullptr ? "" : " from " + first_->toInlineString()) << " extent "
      << extent_->toInlineString() << ":\n"
      << listing(body_);
  return out.str();
}

IfThenElse::IfThenElse(IrBuilderPasskey key, Val* condition)
    : KernelStatement(key, ExprKind::IfThenElse), condition_(condition) {}
std::string IfThenElse::toString() const {
  std::string out = "IF " + condition_->toInlineString() + ":\n" + listing(then_);
  if (!else_.empty()) {
    out += "ELSE:\n" + listing(else_);
  }
  return out;
}

Allocate::Allocate(IrBuilderPasskey key, TensorView* tv, MemoryType memory, Val* size,
                   int alignment)
    : KernelStatement(key, ExprKind::Allocate),
      tv_(tv),
      memory_(memory),
      size_(size),
      alignment_(alignment) {}
Allocate* Allocate::copyFor(TensorView* tv) const {
  auto* copy = IrBuilder::create<Allocate>(tv, memory_, size_, alignment_);
  copy->is_zeroed_ = is_zeroed_;
  return copy;
}
std::string Allocate::toString() const {
  std::ostringstream out;
  out << "T" << tv_->name() << "_" << memoryTag(memory_) << " = ALLOCATE(" << memory_
      << ", size=" << size_->toInlineString() << ", dtype=" << typeName(tv_->dtype());
  if (alignment_ > 1) {
    out << ", align=" << alignment_;
  }
  out << (is_zeroed_ ? ", zeroed)\n" : ")\n");
  return out.str();
}

BlockSync::BlockSync(IrBuilderPasskey key, Scope scope)
    : KernelStatement(key, ExprKind::BlockSync), scope_(scope) {}
std::string BlockSync::toString() const {
  switch (scope_) {
    case Scope::Block:
      return "BLOCK_SYNC\n";
    case Scope::Cluster:
      return "CLUSTER_SYNC\n";
    case Scope::ClusterStart:
      return "CLUSTER_START\n";
    case Scope::ClusterWait:
      return "CLUSTER_WAIT\n";
  }
  return "";
}

RandomNumber::RandomNumber(IrBuilderPasskey key, RngKind rng, Val* out, Val* a, Val* b, Val* seed,
                           Val* offset, Val* block, Val* lane)
    : KernelStatement(key, ExprKind::RandomNumber), rng_(rng) {
  addOutput(out);
  for (Val* v : {a, b, seed, offset, block, lane}) {
    addInput(v);
  }
}

BufferCopy::BufferCopy(IrBuilderPasskey key, TensorView* to, TensorView* from)
    : KernelStatement(key, ExprKind::BufferCopy), to_(to), from_(from) {}
SmallVector<std::vector<Expr*>*, 2> bodiesOf(Expr* e) {
  switch (e->kind()) {
    case ExprKind::ForLoop:
      return {&static_cast<ForLoop*>(e)->body()};
    case ExprKind::ThreadLoop:
      return {&static_cast<ThreadLoop*>(e)->body()};
    case ExprKind::IfThenElse:
      return {&static_cast<IfThenElse*>(e)->thenBody(), &static_cast<IfThenElse*>(e)->elseBody()};
    default:
      return {};
  }
}

SmallVector<const std::vector<Expr*>*, 2> bodiesOf(const Expr* e) {
  SmallVector<const std::vector<Expr*>*, 2> out;
  for (const std::vector<Expr*>* body : bodiesOf(const_cast<Expr*>(e))) {
    out.push_back(body);
  }
  return out;
}

std::string BufferCopy::toString() const {
  return "T" + std::to_string(to_->name()) + " = T" + std::to_string(from_->name()) + "\n";
}

WaitForLoads::WaitForLoads(IrBuilderPasskey key, TensorView* registers)
    : KernelStatement(key, ExprKind::WaitForLoads), registers_(registers) {}
std::string WaitForLoads::toString() const {
  return "WAIT FOR T" + std::to_string(registers_->name()) + "\n";
}

ThreadLoop::ThreadLoop(IrBuilderPasskey key, std::array<Val*, 3> limits, std::vector<Expr*> body)
    : KernelStatement(key, ExprKind::ThreadLoop), limits_(limits), body_(std::move(body)) {}
std::string ThreadLoop::toString() const {
  std::string out = "FOR ALL THREADS";
  for (size_t i = 0; i < limits_.size(); ++i) {
    if (limits_[i] != nullptr) {
      out += std::string(" ") + "xyz"[i] + " < " + limits_[i]->toInlineString();
    }
  }
  const char* separator = " in pieces of ";
  for (const Val* length : pieces.lengths) {
    out += separator + length->toInlineString();
    separator = ", ";
  }
  if (transposed.to != nullptr) {
    out += " transpose " + transposed.rows->toInlineString() + " x " +
           transposed.columns->toInlineString() + " elements";
  }
  for (const TensorIndex* first : streamed) {
    out += " stream from " + first->toInlineString() + " on";
  }
  for (const TensorIndex* first : fetched_ahead) {
    out += " fetch " + first->toInlineString();
  }
  return out + ":\n" + listing(body_);
}

BulkCopy::BulkCopy(IrBuilderPasskey key, int map, TensorIndex* shared, const std::vector<Val*>& at,
                   int buffer, Val* stage)
    : KernelStatement(key, ExprKind::BulkCopy),
      map_(map),
      shared_(shared),
      buffer_(buffer),
      stage_(stage) {
  for (Val* v : at) {
    addInput(v);
  }
}
std::string BulkCopy::toString() const {
  std::string box = "map" + std::to_string(map_) + "{";
  const char* separator = "";
  for (const Val* v : at()) {
    box += separator + v->toInlineString();
    separator = ", ";
  }
  box += '}';
  return isLoad() ? shared_->toString() + " = BULK " + box + "\n"
                  : box + " = BULK " + shared_->toString() + "\n";
}

LinearBulkCopy::LinearBulkCopy(IrBuilderPasskey key, TensorIndex* to, TensorIndex* from, Val* bytes,
                               int buffer, Val* stage)
    : KernelStatement(key, ExprKind::LinearBulkCopy), buffer_(buffer), stage_(stage) {
  addOutput(to);
  addInput(from);
  addInput(bytes);
}
std::string LinearBulkCopy::toString() const {
  return to()->toString() + " = BULK " + from()->toString() + ", " + bytes()->toInlineString() +
         " bytes\n";
}

CopyStep::CopyStep(IrBuilderPasskey key, Part part, int buffer, Val* stage, Val* parity)
    : KernelStatement(key, ExprKind::CopyStep),
      part_(part),
      buffer_(buffer),
      stage_(stage),
      parity_(parity) {}
std::string CopyStep::toString() const {
  static constexpr const char* kNames[] = {
      "INIT",           "WAIT_UNTIL_EMPTY", "EXPECT",         "ANNOUNCED",     "WAIT_UNTIL_FULL",
      "SET_EMPTY",      "COMMIT",           "WAIT",           "FENCE",         "COMMIT_STORES",
      "WAIT_FOR_READS", "WAIT_FOR_STORES",  "GIVE_REGISTERS", "TAKE_REGISTERS"};
  std::string out = std::string("COPIES ") + kNames[static_cast<size_t>(part_)];
  if (buffer_ >= 0) {
    out += " buffer " + std::to_string(buffer_);
  }
  if (stage_ != nullptr) {
    out += " stage " + stage_->toInlineString();
  }
  if (parity_ != nullptr) {
    out += " parity " + parity_->toInlineString();
  }
  if (count != 0) {
    out += " count " + std::to_string(count);
  }
  return out + "\n";
}

ReduceStep::ReduceStep(IrBuilderPasskey key, Part part, Expr* reduction)
    : KernelStatement(key, ExprKind::ReduceStep), part_(part), reduction_(reduction) {}
std::string ReduceStep::toString() const {
  return (part_ == Part::Init ? "INIT " : "ACCUMULATE ") + reduction_->toString();
}

WelfordStep::WelfordStep(IrBuilderPasskey key, Val* mean, Val* m2, Val* n,
                         const std::vector<Val*>& values)
    : KernelStatement(key, ExprKind::WelfordStep) {
  for (Val* v : {mean, m2, n}) {
    addOutput(v);
  }
  for (Val* v : values) {
    addInput(v);
  }
}

ThreadScan::ThreadScan(IrBuilderPasskey key, Part part, Expr* scan, Val* init)
    : KernelStatement(key, ExprKind::ThreadScan), part_(part), scan_(scan), init_(init) {}
std::string ThreadScan::toString() const {
  return (part_ == Part::Begin ? "BEGIN " : "COMBINE ") + scan_->toString();
}

SoftmaxStep::SoftmaxStep(IrBuilderPasskey key, Val* max, Val* sum, Val* first)
    : KernelStatement(key, ExprKind::SoftmaxStep) {
  addOutput(max);
  addOutput(sum);
  addInput(first);
}

ThreadReduce::ThreadReduce(IrBuilderPasskey key, DimMask threads, DimMask cluster, DimMask grid)
    : KernelStatement(key, ExprKind::ThreadReduce),
      threads_(threads),
      cluster_(cluster),
      grid_(grid) {}
std::string ThreadReduce::toString() const {
  std::string out = part == Part::Begin ? "BEGIN REDUCE"
                    : part == Part::End ? "END REDUCE"
                                        : "REDUCE";
  auto add = [&](const char* scope, const DimMask& mask) {
    for (size_t i = 0; i < mask.size(); ++i) {
      if (mask[i]) {
        out += std::string(" ") + scope + "." + "xyz"[i];
      }
    }
  };
  add("threadIdx", threads_);
  add("clusterIdx", cluster_);
  add("blockIdx", grid_);
  out += ':';
  for (const ReduceTerm& t : terms) {
    for (const TensorView* tv : t.buffers) {
      out += " T" + std::to_string(tv->name());
    }
    out += "[" + std::to_string(t.count) + "]";
  }
  return out + "\n";
}

ScanStep::ScanStep(IrBuilderPasskey key, OpType op, Val* out, Val* in, Val* init, Val* loop_index)
    : KernelStatement(key, ExprKind::ScanStep), op_(op) {
  addOutput(out);
  for (Val* v : {in, init, loop_index}) {
    addInput(v);
  }
}

std::string AsyncBuffer::toString() const {
  std::string out = "BUFFER of";
  for (const TensorView* tv : tensors) {
    out += " T" + std::to_string(tv->name());
  }
  if (isCircular()) {
    out += ", stages=" + std::to_string(stages) + ", distance=" + std::to_string(distance);
  }
  out += ", iteration=" + iteration->toInlineString();
  if (bulk) {
    out += ", mbarriers at " + barriers->toInlineString() + " for " +
           (counts_by_copy ? "copies of " + issuers->toInlineString() + " threads"
                           : bytes->toInlineString() + " bytes");
  }
  return out + "\n";
}

std::string Kernel::toString() const {
  std::string out = "KERNEL (";
  const char* separator = "";
  for (const KernelParam& p : params) {
    out += separator + p.name;
    separator = ", ";
  }
  out += ")\n";
  for (const AsyncBuffer& buffer : async_buffers) {
    out += "  " + buffer.toString();
  }
  return out + listing(top_level);
}

} // namespace nvfuser
