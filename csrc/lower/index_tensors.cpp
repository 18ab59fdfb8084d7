// SPDX-License-Identifier: BSD-3-Clause
// Pass: replace tensors by indexed accesses.
//
// An expression's output is indexed from its own loops. A producer is reached in two steps: from
// the loops to the consumer's root domain, then through the op's pairing of dimensions to the
// producer's logical domain and its memory. A buffer (registers, shared memory) has one dimension
// for each of its producer's loops, found in the same graph. Ops that only move data (broadcast,
// reshape, slice, ...) become copies: their whole meaning is in the indices.
#include <base/error.h>
#include <id_model/layout.h>
#include <ir/builder.h>
#include <ir/evaluator.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <kernel/traverse.h>
#include <lower/context.h>
#include <lower/reductions.h>
#include <lower/scans.h>
#include <ops/reduction_internal.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace nvfuser {

namespace {

class TensorIndexer : public StatementRewriter {
 public:
  explicit TensorIndexer(LowerContext& ctx) : ctx_(ctx), layout_(ctx.ids()) {}

 private:
  void rewrite(Expr* e, Statements& out) override {
    if (auto* loop = tryAs<ForLoop>(e)) {
      std::vector<ScatterOp*> scatters;
      findScatters(loop->body(), scatters);
      StatementRewriter::rewrite(e, out);
      // The loop has copied a row; now its elements are overwritten.
      for (ScatterOp* scatter : scatters) {
        out.push_back(overwrite(scatter));
      }
    } else if (auto* step = tryAs<ReduceStep>(e)) {
      const Statements steps = reduceStep(step);
      out.insert(out.end(), steps.begin(), steps.end());
    } else if (auto* reduce = tryAs<ThreadReduce>(e)) {
      firstElements(reduce);
      out.push_back(reduce);
    } else if (auto* scan = tryAs<ThreadScan>(e)) {
      scan->first = firstElement(scan);
      out.push_back(scan);
    } else if (e->isTensorExpr()) {
      auto [it, fresh] = done_.try_emplace(e);
      if (fresh) {
        it->second = indexed(e);
      }
      out.push_back(it->second);
    } else {
      StatementRewriter::rewrite(e, out);
    }
  }

  using B = IrBuilder;

  Expr* indexed(Expr* e) {
    TensorView* out_tv = LowerContext::outputOf(e);
    if (const BulkAccess* access = ctx_.bulkAccess(out_tv)) {
      return access->is_linear ? linearBulkCopy(*access) : bulkCopy(*access);
    }
    if (e->kind() == ExprKind::ScatterStoreOp) {
      return storeAt(static_cast<ScatterStoreOp*>(e), out_tv);
    }
    Val* out = B::create<TensorIndex>(out_tv, writeIndex(out_tv));
    if (e->kind() == ExprKind::RollOp) {
      return B::create<LoadStoreOp>(LoadStoreOpType::Set, out,
                                    rolled(static_cast<RollOp*>(e), out_tv));
    }
    if (lookedUpTensor(e) != nullptr) {
      return lookup(e, out_tv, out);
    }
    if (e->kind() == ExprKind::ScatterOp) {
      Val* self = read(e->input(0)->as<TensorView>(), out_tv);
      return B::create<LoadStoreOp>(LoadStoreOpType::Set, out, self);
    }
    std::vector<Val*> in;
    for (Val* v : e->inputs()) {
      in.push_back(v->isTensor() ? read(v->as<TensorView>(), out_tv) : v);
    }
    switch (e->kind()) {
      case ExprKind::ElementwiseOp:
        return B::create<ElementwiseOp>(static_cast<ElementwiseOp*>(e)->op(), out, in);
      case ExprKind::LoadStoreOp: {
        auto* ls = static_cast<LoadStoreOp*>(e);
        return B::create<LoadStoreOp>(ls->type(), out, in[0], ls->cacheOp());
      }
      case ExprKind::PadOp: {
        Val* inside = insideOfPad(static_cast<PadOp*>(e), out_tv);
        if (inside == ctx_.kernel()->trueVal()) {
          return B::create<LoadStoreOp>(LoadStoreOpType::Set, out, in[0]);
        }
        return B::create<ElementwiseOp>(OpType::Where, out,
                                        std::vector<Val*>{inside, in[0], in[1]});
      }
      case ExprKind::CatOp:
        return indexedCat(static_cast<CatOp*>(e), out_tv, out, in);
      case ExprKind::IotaOp: {
        Val* i = ctx_.simplified(logicalIndex(out_tv, 0));
        if (!countsLikeIndices(static_cast<IotaOp*>(e))) {
          i = B::castExpr(out_tv->dtype(), i);
        }
        Val* start = B::castExpr(out_tv->dtype(), in[1]);
        Val* step = B::castExpr(out_tv->dtype(), in[2]);
        Val* value = B::addExpr(start, B::mulExpr(i, step));
        return B::create<LoadStoreOp>(LoadStoreOpType::Set, out, value);
      }
      case ExprKind::ScanOp: {
        auto* op = static_cast<ScanOp*>(e);
        // Loops that run once are none in the kernel.
        const std::span<Loop* const> loops = loopsOfScan(ctx_, op);
        const auto runs = [](const Loop* loop) {
          return loop->index->kind() == ValKind::NamedScalar;
        };
        const auto outermost = std::ranges::find_if(loops, runs);
        return B::create<ScanStep>(op->op(), out, in[0], ctx_.ids().canonical(op->init()),
                                   (outermost == loops.end() ? loops.back() : *outermost)->index);
      }
      case ExprKind::RngOp:
        return indexedRng(static_cast<RngOp*>(e), out_tv, out, in);
      default:
        NVF_ERROR(e->outputs().size() == 1, e->opName(), " can't be lowered");
        return B::create<LoadStoreOp>(LoadStoreOpType::Set, out, in.at(0));
    }
  }

  // Integers that are not larger than indices may be.
  static bool countsLikeIndices(const IotaOp* op) {
    constexpr int64_t kFirst = int64_t{1} << 20;
    const auto is_within = [](const Val* v, int64_t most) {
      return v->isConstInt() && std::abs(v->intValue()) <= most;
    };
    return isIntegral(op->output(0)->dtype()) && is_within(op->start(), kFirst) &&
           is_within(op->step(), 1);
  }

  // The coordinates of the box and its place in shared memory: both of its first element.
  Expr* bulkCopy(const BulkAccess& access) {
    TensorView* at = access.issuer();
    TensorMapInfo map{access.memory, {}, access.swizzle};
    std::vector<Val*> coordinates;
    for (const BulkAccess::Dim& dim : access.dims) {
      map.dims.push_back({dim.memory, dim.box});
      coordinates.push_back(ctx_.simplified(idIndex(at, dim.id)));
    }
    auto& maps = ctx_.kernel()->tensor_maps;
    maps.push_back(std::move(map));
    auto* shared = B::create<TensorIndex>(access.shared, bufferIndex(access.shared, at));
    const auto [number, stage] = bufferFilledBy(access);
    return B::create<BulkCopy>(static_cast<int>(maps.size()) - 1, shared, coordinates, number,
                               stage);
  }

  // Where the copy begins in both memories, and what there is up to the end of the dimension.
  Expr* linearBulkCopy(const BulkAccess& access) {
    TensorView* at = access.issuer();
    Val* bytes = B::index(access.box_bytes);
    if (mayRunOver(ctx_, access)) {
      const BulkAccess::Dim& along = access.dims[access.linear_dim];
      Val* extent = ctx_.ids().extent(ctx_.ids().exact().group(along.id));
      Val* rest = B::subExpr(extent, idIndex(at, along.id));
      Val* each = B::index(access.box_bytes / along.box);
      bytes = ctx_.simplified(B::minExpr(B::mulExpr(rest, each), bytes));
    }
    auto* shared = B::create<TensorIndex>(access.shared, bufferIndex(access.shared, at));
    auto* memory = access.is_load
                       ? read(access.memory, at)->as<TensorIndex>()
                       : B::create<TensorIndex>(access.memory, writeIndex(access.memory));
    const auto [number, stage] = bufferFilledBy(access);
    return access.is_load ? B::create<LinearBulkCopy>(shared, memory, bytes, number, stage)
                          : B::create<LinearBulkCopy>(memory, shared, bytes);
  }

  // That a load fills, and which of its buffers.
  std::pair<int, Val*> bufferFilledBy(const BulkAccess& access) const {
    const AsyncBuffer* buffer = access.is_load ? ctx_.asyncBuffer(access.issuer()) : nullptr;
    if (buffer == nullptr) {
      return {-1, nullptr};
    }
    return {static_cast<int>(buffer - ctx_.kernel()->async_buffers.data()), ctx_.stageOf(*buffer)};
  }

  Statements reduceStep(const ReduceStep* step) {
    Expr* e = step->reduction();
    const std::vector<TensorView*> outs = tensorOutputs(e);
    const TensorView* first = outs.front();
    auto element = [&](TensorView* tv) {
      return B::create<TensorIndex>(tv, bufferIndex(tv, first));
    };
    Statements out;
    const auto* scan = tryAs<ScanOp>(e);
    if (step->part() == ReduceStep::Part::Init) {
      for (TensorView* tv : outs) {
        out.push_back(B::create<LoadStoreOp>(LoadStoreOpType::Set, element(tv), identityOf(e, tv)));
      }
      return out;
    }
    std::vector<Val*> values;
    for (Val* in : e->inputs()) {
      values.push_back(read(in->as<TensorView>(), outs.front()));
    }
    if (scan != nullptr) {
      return {B::create<LoadStoreOp>(LoadStoreOpType::Set, element(outs.front()), values.front())};
    }
    if (auto* op = tryAs<ReductionOp>(e)) {
      // A fresh name for the element read: the statement defines the one written.
      Val* before = element(outs.front());
      return {B::create<ElementwiseOp>(op->op(), element(outs.front()),
                                       std::vector<Val*>{before, values.front()})};
    }
    if (e->kind() == ExprKind::OnlineSoftmaxOp) {
      return {B::create<SoftmaxStep>(element(outs.at(0)), element(outs.at(1)), values.front())};
    }
    return {B::create<WelfordStep>(element(outs.at(0)), element(outs.at(1)), element(outs.at(2)),
                                   values)};
  }

  static Val* identityOf(const Expr* reduction, const TensorView* tv) {
    if (auto* op = tryAs<ReductionOp>(reduction)) {
      return op->init();
    }
    if (auto* op = tryAs<ScanOp>(reduction)) {
      return ops_utils::identityOf(op->op(), tv->dtype());
    }
    const bool is_max =
        reduction->kind() == ExprKind::OnlineSoftmaxOp && tv == reduction->output(0);
    return B::create<Val>(
        is_max ? ScalarValue(-std::numeric_limits<double>::infinity()) : zeroOf(tv->dtype()),
        tv->dtype());
  }

  static ScalarValue zeroOf(DataType dtype) {
    if (isComplex(dtype)) {
      return std::complex<double>(0.0, 0.0);
    }
    return isFloatingPoint(dtype) ? ScalarValue(0.0) : ScalarValue(int64_t{0});
  }

  // The buffers' first elements in the loops around the reduction: inner loops at 0.
  void firstElements(ThreadReduce* reduce) {
    for (ReduceTerm& term : reduce->terms) {
      const ReductionShape shape = reductionShape(ctx_, term.buffers.front());
      const std::unordered_set<const Loop*> kept(shape.kept.begin(), shape.kept.end());
      term.first.clear();
      for (TensorView* tv : term.buffers) {
        Indexer& indexer = ctx_.indexer(term.buffers.front()).ofLoops();
        Val* linear = ctx_.kernel()->zeroVal();
        for (const Loop* l : ctx_.bufferLoops(tv)) {
          Val* index = kept.count(l) != 0 ? ctx_.kernel()->zeroVal() : indexer.index(l->group);
          linear = B::addExpr(B::mulExpr(linear, l->extent), index);
        }
        term.first.push_back(B::create<TensorIndex>(tv, ctx_.simplified(linear)));
      }
    }
  }

  // The buffer's first element of a tile.
  Val* firstElement(const ThreadScan* scan) {
    TensorView* tv = LowerContext::outputOf(scan->scan());
    Indexer& indexer = ctx_.indexer(tv).ofLoops();
    const Loop* elements = ctx_.loops(tv).path.back();
    Val* linear = ctx_.kernel()->zeroVal();
    for (const Loop* l : ctx_.bufferLoops(tv)) {
      Val* index = l == elements ? ctx_.kernel()->zeroVal() : indexer.index(l->group);
      linear = B::addExpr(B::mulExpr(linear, l->extent), index);
    }
    return B::create<TensorIndex>(tv, ctx_.simplified(linear));
  }

  // Those directly in a loop, which then is the one along their dimension (checked with the
  // schedule).
  static void findScatters(const Statements& body, std::vector<ScatterOp*>& found) {
    for (Expr* e : body) {
      if (auto* scatter = tryAs<ScatterOp>(e)) {
        found.push_back(scatter);
      } else if (auto* branch = tryAs<IfThenElse>(e)) {
        findScatters(branch->thenBody(), found);
        findScatters(branch->elseBody(), found);
      }
    }
  }

  // for k: if the row is one of the index's and index[k] is in range: out[index[k]] = src[k].
  Expr* overwrite(ScatterOp* scatter) {
    TensorView* out = scatter->out();
    const auto dim = static_cast<size_t>(scatter->dim());
    const auto& out_dims = out->getLogicalDomain();
    const auto index_dims = logicalIds(scatter->index());
    Val* count = ctx_.ids().canonical(index_dims[dim]->getMaybeExpandedExtent());
    Val* k = ctx_.kernel()->zeroVal();
    if (!count->isOneInt()) {
      k = B::create<NamedScalar>("k" + std::to_string(scatter->name()), DataType::Index);
    }
    Val* inside = ctx_.kernel()->trueVal();
    std::vector<Val*> at(out_dims.size(), nullptr);
    for (size_t i = 0; i < out_dims.size(); ++i) {
      if (i != dim) {
        at[i] = logicalIndex(out, i);
        Val* extent = ctx_.ids().canonical(index_dims[i]->getMaybeExpandedExtent());
        inside = B::logicalAndExpr(inside, B::ltExpr(at[i], extent));
      }
    }
    at[dim] = k;
    const Position position = positionAt(elementAt(scatter->index(), at, out),
                                         ctx_.ids().canonical(out_dims[dim]->extent()));
    Val* value = scatter->src()->isTensor() ? elementAt(scatter->src()->as<TensorView>(), at, out)
                                            : ctx_.ids().canonical(scatter->src());
    at[dim] = position.index;
    auto* store = B::create<LoadStoreOp>(LoadStoreOpType::Set, elementAt(out, at, out), value);
    auto* write = B::create<IfThenElse>(position.inside);
    write->thenBody().push_back(store);
    auto* loop = B::create<ForLoop>(index_dims[dim], k, count, ParallelType::Serial, -1);
    loop->body().push_back(write);
    auto* part = B::create<IfThenElse>(inside);
    part->thenBody().push_back(loop);
    return part;
  }

  // if index[i...] is in range: out[i..., index[i...], i...] = src[i...]. The index is read by one
  // element for all of a vector.
  Expr* storeAt(ScatterStoreOp* e, TensorView* out) {
    const Position position = positionAt(read(e->index(), out), ctx_.ids().canonical(e->extent()));
    std::vector<Val*> at;
    for (size_t d = 0; d < out->getLogicalDomain().size(); ++d) {
      at.push_back(d == static_cast<size_t>(e->dim()) ? position.index : logicalIndex(out, d));
    }
    Val* value = e->src()->isTensor() ? read(e->src()->as<TensorView>(), out)
                                      : ctx_.ids().canonical(e->src());
    auto* write = B::create<IfThenElse>(position.inside);
    write->thenBody().push_back(
        B::create<LoadStoreOp>(LoadStoreOpType::Set, elementAt(out, at, out), value));
    return write;
  }

  // Element of a tensor in memory at the given logical indices.
  Val* elementAt(TensorView* tv, const std::vector<Val*>& at, const TensorView* loops_of) {
    const auto dims = logicalIds(tv);
    std::unordered_map<const IterDomain*, Val*> logical;
    for (size_t i = 0; i < dims.size(); ++i) {
      logical[dims[i]] = at[i];
    }
    return B::create<TensorIndex>(tv, memoryIndex(tv, logical, nullptr, ctx_.indexer(loops_of)));
  }

  // position in range ? lookup[..., position, ...] : 0. Nothing is read out of bounds.
  Expr* lookup(Expr* e, TensorView* out_tv, Val* out) {
    TensorView* from = lookedUpTensor(e);
    const auto dims = logicalIds(from);
    const auto dim = static_cast<size_t>(lookedUpDim(e));
    Val* extent = ctx_.ids().canonical(dims.at(dim)->getMaybeExpandedExtent());
    const Position position = positionOf(e, out_tv, extent);
    std::unordered_map<const IterDomain*, Val*> logical;
    for (auto [p, c] : producerConsumerPairs(from, out_tv)) {
      logical[p] = idIndex(out_tv, c);
    }
    // The other dimensions of a gather: the same indices in a dimension that may be longer.
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i != dim && logical.count(dims[i]) == 0) {
        logical[dims[i]] = logicalIndex(out_tv, i);
      }
    }
    logical[dims[dim]] = position.index;
    Val* element =
        B::create<TensorIndex>(from, memoryIndex(from, logical, out_tv, ctx_.indexer(out_tv)));
    Val* zero = B::create<Val>(convertScalar(int64_t{0}, out_tv->dtype()), out_tv->dtype());
    return B::create<ElementwiseOp>(OpType::Where, out,
                                    std::vector<Val*>{position.inside, element, zero});
  }

  // The element of a roll, whose index is in bounds.
  Val* rolled(const RollOp* op, TensorView* out_tv) {
    const auto dims = logicalIds(op->in());
    std::vector<Val*> at; // in each dimension of the view
    for (size_t d = 0; d < op->offsets().size(); ++d) {
      at.push_back(logicalIndex(out_tv, d));
      if (const int64_t offset = op->offsets()[d]; offset != 0) {
        Val* extent = ctx_.ids().canonical(out_tv->getLogicalDomain().at(d)->extent());
        Val* rolled = B::addExpr(at.back(), B::index(offset));
        at.back() = ctx_.simplified(
            B::whereExpr(B::ltExpr(rolled, extent), rolled, B::subExpr(rolled, extent)));
      }
    }
    std::unordered_map<const IterDomain*, Val*> logical;
    for (size_t i = dims.size(); i-- > 0;) {
      const auto d = op->viewDims()[i];
      const auto itself = op->viewDims().begin() + static_cast<int64_t>(i);
      Val*& rest = at.at(static_cast<size_t>(d));
      if (std::find(op->viewDims().begin(), itself, d) == itself) { // the outermost
        logical[dims[i]] = rest;
        continue;
      }
      Val* extent = ctx_.ids().canonical(dims[i]->extent());
      logical[dims[i]] = ctx_.simplified(B::modExpr(rest, extent));
      rest = ctx_.simplified(B::divExpr(rest, extent));
    }
    return B::create<TensorIndex>(op->in(),
                                  memoryIndex(op->in(), logical, out_tv, ctx_.indexer(out_tv)));
  }

  // A position that is data: its value as an index, and whether it is in [0, extent).
  struct Position {
    Val* index;
    Val* inside;
  };

  // Compared as 64 bits wide, before it becomes an index of maybe 32.
  Position positionAt(Val* element, Val* extent) {
    Val* wide = castTo(DataType::Int, element);
    return {castTo(DataType::Index, wide), isWithin(wide, extent)};
  }

  Val* isWithin(Val* value, Val* extent) {
    return B::logicalAndExpr(B::geExpr(value, ctx_.kernel()->zeroVal()), B::ltExpr(value, extent));
  }

  static Val* castTo(DataType dtype, Val* v) {
    Val* out = B::create<Val>(dtype);
    B::create<ElementwiseOp>(OpType::Cast, out, std::vector<Val*>{v});
    return out;
  }

  // The position of a select counts from the end if it is negative.
  Position positionOf(const Expr* e, TensorView* out_tv, Val* extent) {
    Val* index = e->input(1);
    if (!index->isTensor()) {
      Val* from_start = ctx_.simplified(fromStart(ctx_.ids().canonical(index), extent));
      return {from_start, isWithin(from_start, extent)};
    }
    Val* element = read(index->as<TensorView>(), out_tv);
    if (e->kind() != ExprKind::SelectOp) {
      return positionAt(element, extent);
    }
    return positionAt(fromStart(castTo(DataType::Int, element), extent), extent);
  }

  Val* fromStart(Val* index, Val* extent) {
    return B::whereExpr(B::ltExpr(index, ctx_.kernel()->zeroVal()), B::addExpr(index, extent),
                        index);
  }

  Val* logicalIndex(const TensorView* tv, size_t dim) {
    const IterDomain* id = tv->getLogicalDomain().at(dim);
    return idIndex(tv, id);
  }

  // Index of one of the tensor's own domains in its own loops; broadcasts are 0.
  Val* idIndex(const TensorView* tv, const IterDomain* id) {
    if (id->isBroadcast()) {
      return ctx_.kernel()->zeroVal();
    }
    Val* index = ctx_.indexer(tv).index(ctx_.ids().exact().group(id));
    NVF_CHECK(index != nullptr, tv->toString(), ": its dimension ", id->toString(),
              " can't be indexed from the loops it is computed in; is the schedule complete?");
    return index;
  }

  // Where the producer's element is: every dimension is inside the unpadded tensor.
  Val* insideOfPad(const PadOp* pad, const TensorView* out) {
    Val* inside = ctx_.kernel()->trueVal();
    const auto& root = out->getMaybeRootDomain();
    for (size_t i = 0; i < root.size(); ++i) {
      if (pad->left()[i]->isZeroInt() && pad->right()[i]->isZeroInt()) {
        continue;
      }
      // The root domain may be a broadcast, which has no group of its own: shift the logical index.
      Val* left = ctx_.ids().canonical(pad->left()[i]);
      Val* index = ctx_.simplified(B::subExpr(logicalIndex(out, i), left));
      Val* extent = ctx_.ids().canonical(root[i]->getMaybeExpandedExtent());
      // What was not added at an end needs no look there.
      if (!pad->left()[i]->isZeroInt()) {
        Val* low = ctx_.condition(B::geExpr(index, ctx_.kernel()->zeroVal()));
        inside = B::logicalAndExpr(inside, low);
      }
      if (!pad->right()[i]->isZeroInt()) {
        inside = B::logicalAndExpr(inside, ctx_.condition(B::ltExpr(index, extent)));
      }
    }
    return inside;
  }

  // i < end0 ? x0 : i < end1 ? x1 : ... : xn
  Expr* indexedCat(CatOp* cat, TensorView* out_tv, Val* out, const std::vector<Val*>& in) {
    if (in.size() == 1) {
      return B::create<LoadStoreOp>(LoadStoreOpType::Set, out, in[0]);
    }
    Val* index = ctx_.simplified(logicalIndex(out_tv, static_cast<size_t>(cat->dim())));
    Val* rest = in.back();
    for (size_t k = in.size() - 1; k-- > 0;) {
      Val* here = ctx_.condition(B::ltExpr(index, ctx_.ids().canonical(cat->ends()[k])));
      if (k == 0) {
        return B::create<ElementwiseOp>(OpType::Where, out, std::vector<Val*>{here, in[0], rest});
      }
      Val* chosen = B::create<Val>(out_tv->dtype());
      B::create<ElementwiseOp>(OpType::Where, chosen, std::vector<Val*>{here, in[k], rest});
      rest = chosen;
    }
    NVF_THROW("cat without inputs");
  }

  // The element's number in row-major logical order selects its random stream.
  Expr* indexedRng(RngOp* rng, TensorView* out_tv, Val* out, const std::vector<Val*>& in) {
    Val* linear = ctx_.kernel()->zeroVal();
    for (size_t i = 0; i < out_tv->getLogicalDomain().size(); ++i) {
      linear = B::addExpr(B::mulExpr(linear, ctx_.ids().extent(out_tv->getLogicalDomain()[i])),
                          logicalIndex(out_tv, i));
    }
    linear = ctx_.simplified(linear);
    Val* seed = nullptr;
    Val* offset = nullptr;
    if (!rng->isStateful()) {
      seed = in.at(2);
      offset = in.at(3);
    } else {
      ctx_.kernel()->has_stateful_rng = true;
      seed = B::create<NamedScalar>("rng_seed", DataType::UInt64);
      offset = B::create<NamedScalar>(rng->statefulIndex() == 0
                                          ? std::string("rng_offset")
                                          : "rng_offset + " + std::to_string(rng->statefulIndex()),
                                      DataType::UInt64);
    }
    // One Philox block makes four numbers (two doubles). Told apart here, where it shows that
    // neighbours share a block.
    Val* per_block = B::index(out_tv->dtype() == DataType::Double ? 2 : 4);
    return B::create<RandomNumber>(rng->rng(), out, in.at(0), in.at(1), seed, offset,
                                   ctx_.simplified(B::divExpr(linear, per_block)),
                                   ctx_.simplified(B::modExpr(linear, per_block)));
  }

  Val* writeIndex(const TensorView* tv) {
    if (tv->getMemoryType() != MemoryType::Global) {
      return bufferIndex(tv, tv);
    }
    std::unordered_map<const IterDomain*, Val*> logical;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      logical[id] = idIndex(tv, id);
    }
    return memoryIndex(tv, logical, tv, ctx_.indexer(tv));
  }

  Val* read(TensorView* producer, TensorView* consumer) {
    return B::create<TensorIndex>(producer, readIndex(producer, consumer));
  }

  Val* readIndex(const TensorView* producer, const TensorView* consumer) {
    if (producer->getMemoryType() != MemoryType::Global) {
      return bufferIndex(producer, consumer);
    }
    std::unordered_map<const IterDomain*, Val*> logical;
    for (auto [p, c] : producerConsumerPairs(producer, consumer)) {
      if (!p->isBroadcast()) {
        logical[p] = idIndex(consumer, c);
      }
    }
    if (consumer->definition()->kind() == ExprKind::SqueezeOp) {
      // Squeezed dimensions have size 1, though some learn it only with the shapes.
      for (const IterDomain* id : logicalIds(producer)) {
        logical.emplace(id, ctx_.kernel()->zeroVal());
      }
    }
    return memoryIndex(producer, logical, consumer, ctx_.indexer(consumer));
  }

  // Element of a buffer, seen from the loops of `at` (the producer itself or a consumer).
  // Of a dimension that the buffer has one element of, its loops are what is held.
  Val* bufferIndex(const TensorView* tv, const TensorView* at) {
    const Indexer& own = ctx_.indexer(tv);
    Indexer& indexer = ctx_.indexer(at);
    Val* linear = ctx_.kernel()->zeroVal();
    for (const LowerContext::BufferDim& dim : ctx_.bufferDims(tv)) {
      const bool by_loops = at == tv || own.isThroughElement(dim.group);
      Val* index = (by_loops ? indexer.ofLoops() : indexer).index(dim.group);
      if (index == nullptr && dim.repeats) {
        index = ctx_.kernel()->zeroVal(); // another reader's loop
      }
      NVF_CHECK(index != nullptr, tv->toString(), ": its loop axis ",
                ctx_.ids().exact().members(dim.group).front()->toString(),
                " can't be found from the loops of its consumer ", at->toString());
      linear = B::addExpr(B::mulExpr(linear, dim.extent), index);
    }
    if (const AsyncBuffer* buffer = ctx_.asyncBuffer(tv);
        buffer != nullptr && buffer->isCircular()) {
      linear = B::addExpr(B::mulExpr(ctx_.stageOf(*buffer), ctx_.stageSize(tv)), linear);
    }
    return ctx_.simplified(linear);
  }

  // Linear index into global memory from the indices of the logical domains, as `by` accesses it
  // (Layout::accessedDims). Contiguous neighbours whose merge is itself known take that merge's
  // index, which saves dividing it apart and multiplying it together.
  Val* memoryIndex(const TensorView* tv, const std::unordered_map<const IterDomain*, Val*>& logical,
                   const TensorView* by, Indexer& indexer) {
    const std::unordered_map<size_t, Val*> index_at = indicesInMemory(tv, logical);
    std::vector<AccessedDim> dims = layout_.accessedDims(tv, by);
    layout_.joinContiguous(
        dims, [&](const Merge* m) { return indexer.reachesMerge(*m) ? m->out() : nullptr; });
    Val* linear = ctx_.kernel()->zeroVal();
    Val* inner_size = ctx_.kernel()->oneVal();
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
      const size_t position = dim->positions.back();
      Val* index = dim->positions.size() > 1 ? indexer.index(dim->group) : index_at.at(position);
      Val* stride = dim->contiguous ? inner_size
                                    : B::create<NamedScalar>("T" + std::to_string(tv->name()) +
                                                                 ".alloc_stride[" +
                                                                 std::to_string(position) + "]",
                                                             DataType::Index);
      linear = B::addExpr(B::mulExpr(index, stride), linear);
      inner_size = B::mulExpr(stride, dim->extent);
    }
    return ctx_.simplified(linear);
  }

  // Indices of the dimensions in memory by their positions: those of logical domains, or what
  // transforms make of these. (The graph of the fusion does not have the transforms of its inputs.)
  std::unordered_map<size_t, Val*> indicesInMemory(
      const TensorView* tv, const std::unordered_map<const IterDomain*, Val*>& logical) {
    IdGraph graph;
    std::optional<Indexer> derived;
    std::unordered_map<size_t, Val*> out;
    for (const MemoryDim& dim : memoryDims(tv)) {
      if (auto it = logical.find(dim.id); it != logical.end()) {
        out[dim.position] = it->second;
        continue;
      }
      if (!derived.has_value()) {
        graph.addTensor(tv);
        std::vector<std::pair<IdGroup, Val*>> start;
        for (auto* id : tv->getLogicalDomain()) {
          if (auto it = logical.find(id); it != logical.end()) {
            start.emplace_back(graph.group(id), it->second);
          }
        }
        derived.emplace(graph, ctx_.ids(), start, std::unordered_set<IdGroup>());
      }
      Val*& index = out[dim.position];
      index = derived->index(graph.group(dim.id));
      NVF_CHECK(index != nullptr, tv->toString(),
                ": its allocation domain can't be reached from its logical domain");
    }
    return out;
  }

  LowerContext& ctx_;
  Layout layout_;
  std::unordered_map<Expr*, Expr*> done_;
};

} // namespace

Statements indexTensors(LowerContext& ctx, const Statements& nest) {
  return TensorIndexer(ctx).run(nest);
}

} // namespace nvfuser
