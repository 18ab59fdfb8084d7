// SPDX-License-Identifier: BSD-3-Clause
// Pass: copies by vectors of rows that begin or end within a vector (Align).
//
//   T[0:8] = S[0:8]    ->    if any of y .. y + 7 is in [0, n):
//                              if all are: T[0:8] = S[0:8]
//                              else: for k < 8: if 0 <= y + k < n: T[k] = S[k]
//
// Only the vectors at both ends of a row take the second way. A load takes it at the end of the
// tensor alone: elsewhere the vector also holds elements of the next row, which nobody selects.
// (A warp that waits for eight single elements keeps its block waiting.)
//
// Copies to shared memory of vectors that begin anywhere (Kernel::unaligned_loads) become copies of
// the aligned vectors that hold them: see copyAligned().
#include <base/error.h>
#include <ir/builder.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/context.h>

#include <algorithm>

namespace nvfuser {

namespace {

// More elements than any vector has, and a multiple of all.
constexpr int64_t kMostBefore = 64;

class PartialVectorSplitter : public StatementRewriter {
 public:
  PartialVectorSplitter(LowerContext& ctx, const PartialVectors& partial_vectors)
      : ctx_(ctx), partial_vectors_(partial_vectors) {}

 private:
  using B = IrBuilder;

  void rewrite(Expr* e, Statements& out) override {
    if (auto* loop = tryAs<ForLoop>(e)) {
      if (const LoadStoreOp* copy = vectorCopyIn(loop)) {
        noteSlots(copy);
        if (isUnalignedFill(copy)) {
          return copyAligned(out, loop, copy);
        }
      }
      if (const BoundsGuard* bounds = boundsWithin(loop)) {
        return out.push_back(split(loop, *bounds));
      }
    }
    StatementRewriter::rewrite(e, out);
  }

  const BoundsGuard* boundsWithin(const ForLoop* loop) const {
    const LoadStoreOp* copy = vectorCopyIn(loop);
    if (copy == nullptr) {
      return nullptr;
    }
    const TensorView* target = copy->output(0)->as<TensorIndex>()->view();
    // Unaligned loads look after their bounds themselves.
    const auto bounds = partial_vectors_.find(target);
    return isUnaligned(copy) || bounds == partial_vectors_.end() ? nullptr : &bounds->second;
  }

  bool isUnaligned(const LoadStoreOp* copy) const {
    const auto& loads = ctx_.kernel()->unaligned_loads;
    const auto* from = tryAs<TensorIndex>(copy->input(0));
    return loads.count(copy->output(0)->as<TensorIndex>()->view()) != 0 ||
           (from != nullptr && loads.count(from->view()) != 0);
  }

  // Unaligned vectors in shared memory: what the copy says of where they begin in the tensor holds
  // for those that read them too.
  void noteSlots(const LoadStoreOp* copy) {
    const auto* to = copy->output(0)->as<TensorIndex>();
    const auto* from = tryAs<TensorIndex>(copy->input(0));
    if (from == nullptr || !isUnaligned(copy)) {
      return;
    }
    if (to->view()->getMemoryType() == MemoryType::Shared) {
      begins_[to->view()] = fromSlot(to, from->index());
    } else if (from->view()->getMemoryType() == MemoryType::Shared) {
      Val* begin = B::addExpr(begins_.at(from->view()), from->index());
      ctx_.kernel()->shifted_loads[to->view()] = ctx_.simplified(begin);
    }
  }

  // Of a buffer in shared memory.
  bool isUnalignedFill(const LoadStoreOp* copy) const {
    const TensorView* to = copy->output(0)->as<TensorIndex>()->view();
    return to->getMemoryType() == MemoryType::Shared && isUnaligned(copy);
  }

  // Slots y .. y + n - 1 want elements that two aligned vectors hold. The second of them goes after
  // the slots; the thread of the slots before has copied the first one, which is the second one of
  // those. There is nobody before slot 0.
  void copyAligned(Statements& out, const ForLoop* loop, const LoadStoreOp* copy) const {
    const auto* to = copy->output(0)->as<TensorIndex>();
    const auto* from = copy->input(0)->as<TensorIndex>();
    Val* width = loop->extent();
    // Rounded up from the index, which may be negative: rows begin at most a vector before.
    Val* before_row = B::index(kMostBefore);
    Val* second = ctx_.simplified(
        B::subExpr(B::mulExpr(B::ceilDivExpr(B::addExpr(from->index(), before_row), width), width),
                   before_row));
    Val* behind = ctx_.simplified(B::addExpr(to->index(), width));
    Val* last = ctx_.simplified(B::addExpr(second, B::subExpr(width, B::index(1))));
    Val* extent = ctx_.kernel()->unaligned_loads.at(to->view());

    auto* branch = B::create<IfThenElse>(isInside(second, last, extent));
    branch->thenBody().push_back(
        vector(loop, LoadStoreOpType::CpAsync, element(to, behind), element(from, second)));
    branch->elseBody().push_back(
        vector(loop, LoadStoreOpType::Set, element(to, behind), element(from, second)));
    out.push_back(branch);

    Val* is_first = isStart(to->index());
    Val* first = ctx_.simplified(B::subExpr(second, width));
    ForLoop* before =
        vector(loop, LoadStoreOpType::Set, element(to, to->index()), element(from, first));
    if (is_first == nullptr) {
      out.push_back(before);
      return;
    }
    auto* guard = B::create<IfThenElse>(is_first);
    guard->thenBody().push_back(before);
    out.push_back(guard);
  }

  // All that the slot depends on is at its start; null: it depends on nothing.
  Val* isStart(const Val* slot) const {
    Val* out = nullptr;
    for (const Loop& l : ctx_.loopModel().all()) {
      if (dependsOn(slot, l.index)) {
        Val* is_zero = B::ltExpr(l.index, ctx_.kernel()->oneVal());
        out = out == nullptr ? is_zero : B::logicalAndExpr(out, is_zero);
      }
    }
    return out == nullptr ? nullptr : ctx_.simplified(out);
  }

  ForLoop* vector(const ForLoop* loop, LoadStoreOpType type, Val* to, Val* from) const {
    ForLoop* copy = loop->like(loop->index(), loop->extent(), ParallelType::Vectorize);
    copy->body().push_back(B::create<LoadStoreOp>(type, to, from, CacheOp::AllLevels));
    return copy;
  }

  // Where the vector of slot 0 begins. The vectors of the row follow each other in shared memory.
  Val* fromSlot(const TensorIndex* slot, Val* in_row) const {
    Val* begin = ctx_.simplified(B::subExpr(in_row, slot->index()));
    for (const Loop& l : ctx_.loopModel().all()) {
      NVF_CHECK(isParallelTypeBlockDim(l.type) || !dependsOn(begin, l.index),
                slot->view()->toString(),
                ": unaligned vectors in shared memory lie in the order of the row");
    }
    return begin;
  }

  Val* lastOf(const ForLoop* loop, const BoundsGuard& bounds) const {
    return ctx_.simplified(B::addExpr(bounds.index, B::subExpr(loop->extent(), B::index(1))));
  }

  Val* isInside(Val* first, Val* last, Val* extent) const {
    return ctx_.simplified(
        B::logicalAndExpr(B::geExpr(first, ctx_.kernel()->zeroVal()), B::ltExpr(last, extent)));
  }

  IfThenElse* split(ForLoop* loop, const BoundsGuard& bounds) {
    auto* branch = B::create<IfThenElse>(isWhole(loop, bounds));
    if (isOnlyRead(vectorCopyIn(loop)->input(0)->as<TensorIndex>()->view())) {
      // What lies in the row lies in the tensor.
      branch->setImpliedBy(ctx_.simplified(B::ltExpr(lastOf(loop, bounds), bounds.extent)));
    }
    branch->thenBody().push_back(loop);
    branch->elseBody().push_back(elementByElement(loop, bounds));
    Val* end = B::addExpr(bounds.index, loop->extent());
    auto* guard = B::create<IfThenElse>(ctx_.simplified(B::logicalAndExpr(
        B::gtExpr(end, ctx_.kernel()->zeroVal()), B::ltExpr(bounds.index, bounds.extent))));
    guard->thenBody().push_back(branch);
    return guard;
  }

  Val* isWhole(const ForLoop* loop, const BoundsGuard& bounds) const {
    const auto* from = vectorCopyIn(loop)->input(0)->as<TensorIndex>();
    Val* rest = B::subExpr(loop->extent(), B::index(1));
    if (isOnlyRead(from->view())) {
      return ctx_.simplified(B::ltExpr(from->index(), B::subExpr(sizeOf(from->view()), rest)));
    }
    return isInside(bounds.index, lastOf(loop, bounds), bounds.extent);
  }

  bool isOnlyRead(const TensorView* tv) const {
    const auto& aliases = ctx_.kernel()->outputAliases();
    return tv->isFusionInput() && std::none_of(aliases.begin(), aliases.end(),
                                               [&](const auto& a) { return a.input == tv; });
  }

  // Elements of a contiguous tensor.
  Val* sizeOf(const TensorView* tv) const {
    Val* size = ctx_.kernel()->oneVal();
    for (const IterDomain* id : tv->getLogicalDomain()) {
      if (!id->isBroadcast() && !id->isReduction()) {
        size = B::mulExpr(size, ctx_.ids().extent(id));
      }
    }
    return size;
  }

  static Val* element(const Val* v, Val* index) {
    return B::create<TensorIndex>(v->as<TensorIndex>()->view(), index);
  }

  Val* shifted(const Val* v, Val* offset) const {
    return ctx_.simplified(B::addExpr(v->as<TensorIndex>()->index(), offset));
  }

  ForLoop* elementByElement(const ForLoop* loop, const BoundsGuard& bounds) const {
    const LoadStoreOp* copy = vectorCopyIn(loop);
    Val* k = B::create<NamedScalar>("k" + std::to_string(loop->loopId()), DataType::Index);
    Val* at = ctx_.simplified(B::addExpr(bounds.index, k));
    ForLoop* elements = loop->like(k, loop->extent(), ParallelType::Unroll);
    Val* to = element(copy->output(0), shifted(copy->output(0), k));
    if (copy->input(0)->as<TensorIndex>()->view()->isFusionInput()) {
      // Instead of guards the nearest element inside: predicated loads would run one after the
      // other.
      Val* last = B::subExpr(bounds.extent, B::index(1));
      Val* inside = B::minExpr(B::maxExpr(at, ctx_.kernel()->zeroVal()), last);
      Val* from =
          element(copy->input(0), shifted(copy->input(0), B::subExpr(inside, bounds.index)));
      elements->body().push_back(B::create<LoadStoreOp>(copy->type(), to, from, copy->cacheOp()));
      return elements;
    }
    auto* branch = B::create<IfThenElse>(isInside(at, at, bounds.extent));
    branch->thenBody().push_back(B::create<LoadStoreOp>(
        copy->type(), to, element(copy->input(0), shifted(copy->input(0), k)), copy->cacheOp()));
    elements->body().push_back(branch);
    return elements;
  }

  LowerContext& ctx_;
  const PartialVectors& partial_vectors_;
  std::unordered_map<const TensorView*, Val*> begins_;
};

} // namespace

Statements splitPartialVectors(LowerContext& ctx, const Statements& nest,
                               const PartialVectors& partial_vectors) {
  return PartialVectorSplitter(ctx, partial_vectors).run(nest);
}

} // namespace nvfuser
