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

namespace {

// Kernel statements are made and rewritten by the passes; nothing copies a whole kernel.
[[noreturn]] Expr* notCopied(const Expr* e) {
  NVF_THROW("a kernel statement (", e->opName(), ") can't be copied");
}

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
    : Expr(key, ExprKind::ForLoop),
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
    const auto* inner = dynamic_cast<const ForLoop*>(e);
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
          std::get<int64_t>(extent_->value()) <= (indexes_registers_ ? kMaxUnroll : kShort));
}

ForLoop* ForLoop::emptyCopy() const {
  auto* copy = IrBuilder::create<ForLoop>(id_, index_, extent_, type_, loop_id_);
  copy->setIndexesRegisters(indexes_registers_);
  return copy;
}

Expr* ForLoop::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool ForLoop::sameFields(const Expr* other) const {
  return this == other;
}
size_t ForLoop::fieldsHash() const {
  return static_cast<size_t>(kind());
}
std::string ForLoop::toString() const {
  std::ostringstream out;
  out << "FOR " << index_->toInlineString() << " in " << id_->toString() << " extent "
      << extent_->toInlineString() << ":\n"
      << listing(body_);
  return out.str();
}

IfThenElse::IfThenElse(IrBuilderPasskey key, Val* condition)
    : Expr(key, ExprKind::IfThenElse), condition_(condition) {}
Expr* IfThenElse::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool IfThenElse::sameFields(const Expr* other) const {
  return this == other;
}
size_t IfThenElse::fieldsHash() const {
  return static_cast<size_t>(kind());
}
std::string IfThenElse::toString() const {
  std::string out = "IF " + condition_->toInlineString() + ":\n" + listing(then_);
  if (!else_.empty()) {
    out += "ELSE:\n" + listing(else_);
  }
  return out;
}

Allocate::Allocate(IrBuilderPasskey key, TensorView* tv, MemoryType memory, Val* size,
                   int alignment)
    : Expr(key, ExprKind::Allocate), tv_(tv), memory_(memory), size_(size), alignment_(alignment) {}
Expr* Allocate::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool Allocate::sameFields(const Expr* other) const {
  return this == other;
}
size_t Allocate::fieldsHash() const {
  return static_cast<size_t>(kind());
}
std::string Allocate::toString() const {
  std::ostringstream out;
  out << "T" << tv_->name() << "_" << memoryTag(memory_) << " = ALLOCATE(" << memory_
      << ", size=" << size_->toInlineString() << ", dtype=" << typeName(tv_->dtype());
  if (alignment_ > 1) {
    out << ", align=" << alignment_;
  }
  out << ")\n";
  return out.str();
}

BlockSync::BlockSync(IrBuilderPasskey key, Scope scope)
    : Expr(key, ExprKind::BlockSync), scope_(scope) {}
Expr* BlockSync::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool BlockSync::sameFields(const Expr* other) const {
  return this == other;
}
size_t BlockSync::fieldsHash() const {
  return static_cast<size_t>(kind());
}
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
    : Expr(key, ExprKind::RandomNumber), rng_(rng) {
  addOutput(out);
  for (Val* v : {a, b, seed, offset, block, lane}) {
    addInput(v);
  }
}
Expr* RandomNumber::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool RandomNumber::sameFields(const Expr* other) const {
  return this == other;
}
size_t RandomNumber::fieldsHash() const {
  return static_cast<size_t>(kind());
}

BufferCopy::BufferCopy(IrBuilderPasskey key, TensorView* to, TensorView* from)
    : Expr(key, ExprKind::BufferCopy), to_(to), from_(from) {}
Expr* BufferCopy::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool BufferCopy::sameFields(const Expr* other) const {
  return this == other;
}
size_t BufferCopy::fieldsHash() const {
  return static_cast<size_t>(kind());
}
std::string BufferCopy::toString() const {
  return "T" + std::to_string(to_->name()) + " = T" + std::to_string(from_->name()) + "\n";
}

WaitForLoads::WaitForLoads(IrBuilderPasskey key, TensorView* registers)
    : Expr(key, ExprKind::WaitForLoads), registers_(registers) {}
Expr* WaitForLoads::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool WaitForLoads::sameFields(const Expr* other) const {
  return this == other;
}
size_t WaitForLoads::fieldsHash() const {
  return static_cast<size_t>(kind());
}
std::string WaitForLoads::toString() const {
  return "WAIT FOR T" + std::to_string(registers_->name()) + "\n";
}

BulkCopy::BulkCopy(IrBuilderPasskey key, int map, TensorIndex* shared, const std::vector<Val*>& at,
                   int ring, Val* stage)
    : Expr(key, ExprKind::BulkCopy), map_(map), shared_(shared), ring_(ring), stage_(stage) {
  for (Val* v : at) {
    addInput(v);
  }
}
Expr* BulkCopy::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool BulkCopy::sameFields(const Expr* other) const {
  return this == other;
}
size_t BulkCopy::fieldsHash() const {
  return static_cast<size_t>(kind());
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

SpanCopy::SpanCopy(IrBuilderPasskey key, TensorIndex* to, TensorIndex* from, Val* bytes, int ring,
                   Val* stage)
    : Expr(key, ExprKind::SpanCopy), ring_(ring), stage_(stage) {
  addOutput(to);
  addInput(from);
  addInput(bytes);
}
Expr* SpanCopy::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool SpanCopy::sameFields(const Expr* other) const {
  return this == other;
}
size_t SpanCopy::fieldsHash() const {
  return static_cast<size_t>(kind());
}
std::string SpanCopy::toString() const {
  return to()->toString() + " = BULK " + from()->toString() + ", " + bytes()->toInlineString() +
         " bytes\n";
}

CopyStep::CopyStep(IrBuilderPasskey key, Part part, int ring, Val* stage, Val* parity)
    : Expr(key, ExprKind::CopyStep), part_(part), ring_(ring), stage_(stage), parity_(parity) {}
Expr* CopyStep::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool CopyStep::sameFields(const Expr* other) const {
  return this == other;
}
size_t CopyStep::fieldsHash() const {
  return static_cast<size_t>(kind());
}
std::string CopyStep::toString() const {
  static constexpr const char* kNames[] = {
      "INIT",           "WAIT_UNTIL_EMPTY", "EXPECT",         "ANNOUNCED",     "WAIT_UNTIL_FULL",
      "SET_EMPTY",      "COMMIT",           "WAIT",           "FENCE",         "COMMIT_STORES",
      "WAIT_FOR_READS", "WAIT_FOR_STORES",  "GIVE_REGISTERS", "TAKE_REGISTERS"};
  std::string out = std::string("COPIES ") + kNames[static_cast<size_t>(part_)];
  if (ring_ >= 0) {
    out += " ring " + std::to_string(ring_);
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
    : Expr(key, ExprKind::ReduceStep), part_(part), reduction_(reduction) {}
Expr* ReduceStep::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool ReduceStep::sameFields(const Expr* other) const {
  return this == other;
}
size_t ReduceStep::fieldsHash() const {
  return static_cast<size_t>(kind());
}
std::string ReduceStep::toString() const {
  return (part_ == Part::Init ? "INIT " : "ACCUMULATE ") + reduction_->toString();
}

WelfordStep::WelfordStep(IrBuilderPasskey key, Val* mean, Val* m2, Val* n,
                         const std::vector<Val*>& values)
    : Expr(key, ExprKind::WelfordStep) {
  for (Val* v : {mean, m2, n}) {
    addOutput(v);
  }
  for (Val* v : values) {
    addInput(v);
  }
}
Expr* WelfordStep::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool WelfordStep::sameFields(const Expr* other) const {
  return this == other;
}
size_t WelfordStep::fieldsHash() const {
  return static_cast<size_t>(kind());
}

ThreadScan::ThreadScan(IrBuilderPasskey key, Part part, Expr* scan, Val* init)
    : Expr(key, ExprKind::ThreadScan), part_(part), scan_(scan), init_(init) {}
Expr* ThreadScan::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool ThreadScan::sameFields(const Expr* other) const {
  return this == other;
}
size_t ThreadScan::fieldsHash() const {
  return static_cast<size_t>(kind());
}
std::string ThreadScan::toString() const {
  return (part_ == Part::Begin ? "BEGIN " : "COMBINE ") + scan_->toString();
}

SoftmaxStep::SoftmaxStep(IrBuilderPasskey key, Val* max, Val* sum, Val* first)
    : Expr(key, ExprKind::SoftmaxStep) {
  addOutput(max);
  addOutput(sum);
  addInput(first);
}
Expr* SoftmaxStep::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool SoftmaxStep::sameFields(const Expr* other) const {
  return this == other;
}
size_t SoftmaxStep::fieldsHash() const {
  return static_cast<size_t>(kind());
}

ThreadReduce::ThreadReduce(IrBuilderPasskey key, DimMask threads, DimMask cluster, DimMask grid)
    : Expr(key, ExprKind::ThreadReduce), threads_(threads), cluster_(cluster), grid_(grid) {}
Expr* ThreadReduce::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool ThreadReduce::sameFields(const Expr* other) const {
  return this == other;
}
size_t ThreadReduce::fieldsHash() const {
  return static_cast<size_t>(kind());
}
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
    : Expr(key, ExprKind::ScanStep), op_(op) {
  addOutput(out);
  for (Val* v : {in, init, loop_index}) {
    addInput(v);
  }
}
Expr* ScanStep::shallowCopy(IrCloner*) const {
  notCopied(this);
}
bool ScanStep::sameFields(const Expr* other) const {
  return this == other;
}
size_t ScanStep::fieldsHash() const {
  return static_cast<size_t>(kind());
}

std::string Kernel::toString() const {
  std::string out = "KERNEL (";
  const char* separator = "";
  for (const KernelParam& p : params) {
    out += separator + p.name;
    separator = ", ";
  }
  return out + ")\n" + listing(top_level);
}

} // namespace nvfuser
