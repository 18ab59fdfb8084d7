// See bulk_access.h. Conditions are those of the PTX ISA, "cp.async.bulk.tensor" and
// "cp.async.bulk", and of cuTensorMapEncodeTiled; what depends on sizes and addresses is checked at
// launch (target/tensor_map.cpp, and for spans as for vectors).
#include <lower/bulk_access.h>

#include <algebra/simplify.h>
#include <base/error.h>
#include <ir/builder.h>
#include <ir/logical_map.h>
#include <lower/context.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace nvfuser {

namespace {

constexpr size_t kMostDims = 5;
constexpr int64_t kMostBoxExtent = 256;
constexpr int64_t kRowBytes = 16; // a row of a box is a multiple of it, and so is a span

const LoadStoreOp* asCopy(const Expr* e) {
  return e != nullptr && e->kind() == ExprKind::LoadStoreOp ? static_cast<const LoadStoreOp*>(e)
                                                            : nullptr;
}

using Groups = std::vector<IdGroup>;

class AccessFinder {
 public:
  AccessFinder(LowerContext& ctx, const LoadStoreOp* copy)
      : ctx_(ctx), issuer_(copy->out()->as<TensorView>()) {
    auto* in = copy->in()->as<TensorView>();
    const bool is_load = in->isFusionInput() && issuer_->getMemoryType() == MemoryType::Shared;
    const bool is_store =
        in->getMemoryType() == MemoryType::Shared && issuer_->getMemoryType() == MemoryType::Global;
    NVF_CHECK(is_load || is_store, issuer_->toString(),
              ": a tma copy goes from an input of the fusion to a tensor in shared memory, or from "
              "shared "
              "memory to an output; use set_memory_type(MemoryType.shared)");
    access_.is_load = is_load;
    access_.memory = is_load ? in : issuer_;
    access_.shared = is_load ? issuer_ : in;
    access_.is_span = isSpanCopy(copy);
    for (const Expr* e : issuer_->domain()->exprsToLoop()) {
      for (const Val* v : e->inputs()) {
        use_of_.emplace(v, e);
      }
    }
  }

  BulkAccess run() {
    checkElements();
    std::vector<MemoryDim> memory = memoryDims();
    joinContiguous(memory);
    NVF_CHECK(access_.is_span || memory.size() <= kMostDims, issuer_->toString(),
              ": a tma copy takes tensors of at most ", kMostDims, " dimensions, ",
              access_.memory->toString(), " has ", memory.size(), " that are not merged");
    Groups order;
    int64_t elements = 1;
    for (auto dim = memory.rbegin(); dim != memory.rend(); ++dim) {
      const Box box = boxOf(dim->id, /*may_run_over=*/true, elements);
      order.insert(order.begin(), box.axes.begin(), box.axes.end());
      access_.dims.push_back({dim->memory, dim->id, box.extent});
      elements *= box.extent;
    }
    checkAxes(order);
    if (access_.is_span) {
      checkSpan(memory);
    } else {
      checkBox();
    }
    checkOrder(order);
    return std::move(access_);
  }

 private:
  struct MemoryDim {
    std::vector<size_t> memory;
    const IterDomain* id = nullptr;
    bool contiguous = false; // with the next one inwards
  };

  // Consecutive iterations of a domain that one instruction copies, and the axes that run over
  // them, the outermost first.
  struct Box {
    int64_t extent = 1;
    Groups axes;
  };

  void checkElements() const {
    const int64_t bits = dataTypeSizeBits(issuer_->dtype());
    const bool fits = bits == 8 || bits == 16 || bits == 32 || bits == 64;
    NVF_CHECK(fits || (access_.is_span && bits == 128), issuer_->toString(),
              ": a tma copy takes elements of 1, 2, 4 or 8 bytes, got ", issuer_->dtype());
  }

  std::vector<MemoryDim> memoryDims() const {
    const TensorView* tv = access_.memory;
    std::unordered_map<const IterDomain*, const IterDomain*> own;
    if (access_.is_load) {
      for (auto [p, c] : producerConsumerPairs(tv, issuer_)) {
        own[p] = c;
      }
    } else {
      for (const IterDomain* id : tv->getLogicalDomain()) {
        own[id] = id;
      }
    }
    const auto& allocation = tv->getMaybeAllocationDomain();
    std::vector<MemoryDim> dims;
    for (size_t i = 0, position = 0; i < allocation.size(); ++i) {
      const IterDomain* id = allocation[i];
      if (id->isReduction()) {
        continue;
      }
      const size_t here = position++;
      if (id->isBroadcast()) {
        continue;
      }
      auto it = own.find(id);
      NVF_CHECK(it != own.end(), issuer_->toString(), ": a tma copy needs ", tv->toString(),
                " in memory as it is, or permuted");
      dims.push_back({{here}, it->second, tv->getContiguity().at(i).value_or(false)});
    }
    NVF_CHECK(!dims.empty() && dims.back().contiguous, issuer_->toString(),
              ": a tma copy needs the innermost dimension of ", tv->toString(),
              " to be contiguous");
    return dims;
  }

  // What the schedule merges and memory has in one piece is one dimension.
  void joinContiguous(std::vector<MemoryDim>& dims) const {
    for (size_t i = dims.size(); i-- > 1;) {
      MemoryDim& outer = dims[i - 1];
      const auto* m = dynamic_cast<const Merge*>(useOf(outer.id));
      if (m == nullptr || m->outer() != outer.id || m->inner() != dims[i].id || !outer.contiguous) {
        continue;
      }
      outer.memory.insert(outer.memory.end(), dims[i].memory.begin(), dims[i].memory.end());
      outer.id = m->out();
      outer.contiguous = dims[i].contiguous;
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(i));
      i = dims.size(); // the result may be merged with an inner neighbour
    }
  }

  const Expr* useOf(const IterDomain* id) const {
    auto it = use_of_.find(id);
    return it == use_of_.end() ? nullptr : it->second;
  }

  // `may_run_over`: iterations past the end of the domain are outside of the tensor. Elsewhere they
  // would be other elements, which a store must not touch. `unit`: elements of each iteration that
  // lie together.
  Box boxOf(const IterDomain* id, bool may_run_over, int64_t unit) {
    const Expr* use = useOf(id);
    if (use == nullptr) {
      return axisBox(id);
    }
    if (const auto* s = dynamic_cast<const Split*>(use)) {
      return splitBox(s, may_run_over, unit);
    }
    if (const auto* m = dynamic_cast<const Merge*>(use)) {
      return mergeBox(m, id, unit);
    }
    if (const auto* z = dynamic_cast<const Swizzle*>(use)) {
      swizzle_ = z;
      return boxOf(id == z->inX() ? z->outX() : z->outY(), false, unit);
    }
    fail("its loop axes are made of ", id->toString(), " in a way that no box can follow");
  }

  Box axisBox(const IterDomain* id) {
    if (id->parallelType() != ParallelType::Bulk) {
      return {};
    }
    const IdGroup group = ctx_.ids().exact().group(id);
    Val* extent = ctx_.ids().extent(group);
    NVF_CHECK(extent->isConstInt(), issuer_->toString(), ": the axis ", id->toString(),
              " bound to tma needs a constant extent, got ", extent->toInlineString());
    if (extent->isOneInt()) {
      return {};
    }
    return {std::get<int64_t>(extent->value()), {group}};
  }

  Box splitBox(const Split* s, bool may_run_over, int64_t unit) {
    const IdGraph& graph = ctx_.ids().exact();
    Val* inner_extent = ctx_.ids().extent(graph.group(s->inner()));
    const int64_t inner_unit =
        inner_extent->isConstInt() ? unit * std::get<int64_t>(inner_extent->value()) : unit;
    Box outer = boxOf(s->outer(), may_run_over, inner_unit);
    Box inner = boxOf(s->inner(), false, unit);
    if (!access_.is_load && !may_run_over) {
      Val* extent = ctx_.ids().extent(graph.group(s->in()));
      Val* factor = ctx_.ids().canonical(s->factor());
      if (!provablyDivisible(extent, factor)) {
        ctx_.kernel()->divisibility_checks.push_back({extent, factor, "tma store"});
      }
    }
    if (outer.extent == 1) {
      if (inner.extent > 1) {
        requireWholeChunks(inner_extent, unit); // where each of the outer iterations begins
      }
      return inner;
    }
    if (!inner_extent->isConstInt() || std::get<int64_t>(inner_extent->value()) != inner.extent) {
      fail("it copies every ", inner_extent->toInlineString(), "-th iteration of ",
           s->in()->toString(), " at once; a box is made of consecutive ones");
    }
    outer.extent *= inner.extent;
    outer.axes.insert(outer.axes.end(), inner.axes.begin(), inner.axes.end());
    return outer;
  }

  // Dimensions that are merged but not neighbours in one piece of memory.
  Box mergeBox(const Merge* m, const IterDomain* id, int64_t unit) {
    Box merged = boxOf(m->out(), false, unit);
    if (merged.extent == 1 || id == m->outer()) {
      // What of the box is more than the inner side was refused there.
      return {};
    }
    const Val* extent = ctx_.ids().extent(ctx_.ids().exact().group(m->inner()));
    if (!extent->isConstInt() || std::get<int64_t>(extent->value()) % merged.extent != 0) {
      fail("a box runs over the end of ", m->inner()->toString(),
           ", behind which memory does not go on with ", m->outer()->toString());
    }
    return merged;
  }

  template <class... What>
  [[noreturn]] void fail(const What&... what) const {
    NVF_CHECK_FAIL("tma copy of ", issuer_->toString(), ": ", what...);
  }

  // Every axis that is bound to Bulk is part of the box.
  void checkAxes(const Groups& order) const {
    size_t bound = 0;
    for (const IterDomain* id : issuer_->getLoopDomain()) {
      if (id->parallelType() != ParallelType::Bulk) {
        continue;
      }
      ++bound;
      const IdGroup group = ctx_.ids().exact().group(id);
      const bool found = std::find(order.begin(), order.end(), group) != order.end();
      if (!found && !ctx_.ids().extent(group)->isOneInt()) {
        fail("the axis ", id->toString(), " does not run along a dimension of ",
             access_.memory->toString());
      }
    }
    if (bound == 0) {
      fail(
          "no loop axis is bound to ParallelType.tma: bind those of the box that is copied at "
          "once");
    }
    for (size_t i = 0; i < order.size(); ++i) {
      if (std::find(order.begin() + static_cast<std::ptrdiff_t>(i) + 1, order.end(), order[i]) !=
          order.end()) {
        fail("an axis bound to tma runs along two dimensions of ", access_.memory->toString());
      }
    }
  }

  void checkBox() {
    const int64_t bytes = dataTypeSizeBytes(issuer_->dtype());
    access_.box_bytes = bytes;
    for (const BulkAccess::Dim& dim : access_.dims) {
      if (dim.box > kMostBoxExtent) {
        fail("a box has at most ", kMostBoxExtent, " iterations along a dimension, got ", dim.box);
      }
      access_.box_bytes *= dim.box;
    }
    const int64_t row = access_.dims.front().box * bytes;
    if (row % kRowBytes != 0) {
      fail("the rows of a box are multiples of ", kRowBytes, " bytes, got ",
           access_.dims.front().box, " elements of ", bytes,
           " bytes along the innermost dimension of ", access_.memory->toString());
    }
  }

  // Iterations of `unit` elements that fill whole chunks of 16 bytes of global memory.
  void requireWholeChunks(Val* extent, int64_t unit) const {
    if (!access_.is_span) {
      return;
    }
    const int64_t bytes = unit * dataTypeSizeBytes(issuer_->dtype());
    const int64_t factor = kRowBytes / std::gcd(kRowBytes, bytes);
    if (extent->isConstInt()) {
      const int64_t iterations = std::get<int64_t>(extent->value());
      if (iterations % factor != 0) {
        fail("spans begin at multiples of ", kRowBytes, " bytes and have as many, but ",
             access_.memory->toString(), " is cut every ", iterations * bytes, " bytes");
      }
      return;
    }
    Val* divisor = IrBuilder::index(factor);
    if (!provablyDivisible(extent, divisor)) {
      ctx_.kernel()->divisibility_checks.push_back({extent, divisor,
                                                    "tma copy of " + access_.memory->toString() +
                                                        ", whose spans are multiples of 16 bytes"});
    }
  }

  // One piece of memory: all of a dimension, or a part of it and nothing of those around it.
  void checkSpan(const std::vector<MemoryDim>& memory) {
    if (swizzle_ != nullptr) {
      fail("a span of memory can not be swizzled");
    }
    const auto& dims = access_.dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      access_.span_dim = dims[i].box > 1 ? i : access_.span_dim;
    }
    int64_t elements = 1; // of each iteration of the span's dimension
    for (size_t i = 0; i < access_.span_dim; ++i) {
      const Val* extent = ctx_.ids().extent(ctx_.ids().exact().group(dims[i].id));
      const bool is_whole =
          extent->isConstInt() && std::get<int64_t>(extent->value()) == dims[i].box;
      if (!is_whole || !memory[memory.size() - 2 - i].contiguous) {
        fail("a span is one piece of memory, but ", dims[i].box, " of ", extent->toInlineString(),
             " elements along ", dims[i].id->toString(), " of ", access_.memory->toString(),
             " are copied ", dims[i + 1].box, " times at once", is_whole ? ", with gaps" : "",
             "; bind fewer axes to tma");
      }
      elements *= dims[i].box;
    }
    const int64_t bytes = dataTypeSizeBytes(issuer_->dtype());
    const BulkAccess::Dim& along = dims[access_.span_dim];
    access_.box_bytes = along.box * elements * bytes;
    if (access_.box_bytes % kRowBytes != 0) {
      fail("a span has a multiple of ", kRowBytes, " bytes, got ", along.box * elements,
           " elements of ", bytes, " bytes");
    }
    // What is left of the dimension at its end, and where the next one around it begins.
    Val* extent = ctx_.ids().extent(ctx_.ids().exact().group(along.id));
    const bool is_divided = provablyDivisible(extent, IrBuilder::index(along.box));
    if (!is_divided) {
      requireWholeChunks(extent, elements);
    }
    ctx_.kernel()->vector_accesses.push_back(
        {access_.memory, static_cast<int>(std::max<int64_t>(kRowBytes / bytes, 1))});
  }

  // The box must lie in one piece in shared memory, in the order of memory.
  void checkOrder(const Groups& box) {
    Groups buffer;
    for (const LowerContext::BufferDim& dim : ctx_.bufferDims(access_.shared)) {
      buffer.push_back(dim.group);
    }
    const std::optional<size_t> boxes = dimsBefore(box, buffer, kMostRewrites);
    if (!boxes.has_value()) {
      fail("a box does not lie in ", access_.shared->toString(),
           " in one piece and in the order of memory; its innermost axes must be those of the box, "
           "from the "
           "outermost dimension of ",
           access_.memory->toString(),
           " to the innermost one: reorder its axes or use set_allocation_domain");
    }
    if (swizzle_ != nullptr) {
      checkSwizzle(buffer);
    }
    const int64_t alignment = bulkAlignment(access_);
    if (*boxes > 0 && access_.box_bytes % alignment != 0) {
      fail("boxes begin at multiples of ", alignment,
           " bytes of shared memory, so that one of several "
           "must have a multiple of that, got ",
           access_.box_bytes);
    }
  }

  // Rows of 128 bytes, of which eight have their eight chunks of 16 bytes permuted: [8, 8, 16
  // bytes] of the buffer with the first two swizzled.
  void checkSwizzle(const Groups& buffer) {
    constexpr int64_t kSwizzledRow = 128;
    constexpr int kSwizzleOf128Bytes = 3;
    const IdGraph& graph = ctx_.ids().exact();
    const int64_t bytes = dataTypeSizeBytes(issuer_->dtype());
    const size_t n = buffer.size();
    auto extentIs = [&](IdGroup g, int64_t value) {
      const Val* extent = ctx_.ids().extent(g);
      return extent->isConstInt() && std::get<int64_t>(extent->value()) == value;
    };
    const bool fits = swizzle_->swizzleType() == SwizzleType::Xor && n >= 3 &&
                      buffer[n - 3] == graph.group(swizzle_->outX()) &&
                      buffer[n - 2] == graph.group(swizzle_->outY()) &&
                      extentIs(buffer[n - 3], 8) && extentIs(buffer[n - 1], kRowBytes / bytes) &&
                      access_.dims.front().box * bytes == kSwizzledRow;
    if (!fits) {
      fail("a swizzled box has rows of ", kSwizzledRow,
           " bytes, with an XOR swizzle of 8 rows and their 8 chunks "
           "of ",
           kRowBytes, " bytes");
    }
    access_.swizzle = kSwizzleOf128Bytes;
  }

  static constexpr int kMostRewrites = 12;

  // How many dimensions of the buffer stand before those that are the box. The same iterations may
  // be split and merged in other ways.
  std::optional<size_t> dimsBefore(const Groups& box, const Groups& buffer, int rewrites) {
    if (box.empty()) {
      return buffer.size();
    }
    if (buffer.empty() || rewrites == 0) {
      return std::nullopt;
    }
    if (box.back() == buffer.back()) {
      return dimsBefore({box.begin(), box.end() - 1}, {buffer.begin(), buffer.end() - 1}, rewrites);
    }
    if (auto [z, other] = swizzled(box); z != nullptr) {
      if (auto found = dimsBefore(other, buffer, rewrites - 1)) {
        swizzle_ = z;
        return found;
      }
    }
    for (const Groups& other : rewritten(box)) {
      if (auto found = dimsBefore(other, buffer, rewrites - 1)) {
        return found;
      }
    }
    for (const Groups& other : rewritten(buffer)) {
      if (auto found = dimsBefore(box, other, rewrites - 1)) {
        return found;
      }
    }
    return std::nullopt;
  }

  // A swizzle of the two innermost dimensions, or of the innermost one and a part of its neighbour;
  // and what it makes of them.
  std::pair<const Swizzle*, Groups> swizzled(const Groups& dims) const {
    const IdGraph& graph = ctx_.ids().exact();
    for (const Expr* use : graph.uses(dims.back())) {
      const auto* z = dynamic_cast<const Swizzle*>(use);
      if (z == nullptr || dims.size() < 2 || graph.group(z->inY()) != dims.back()) {
        continue;
      }
      Groups other(dims.begin(), dims.end() - 2);
      const IdGroup neighbour = dims[dims.size() - 2];
      if (neighbour != graph.group(z->inX())) {
        const Split* split = splitInto(neighbour, graph.group(z->inX()));
        if (split == nullptr) {
          continue;
        }
        other.push_back(graph.group(split->outer()));
      }
      other.push_back(graph.group(z->outX()));
      other.push_back(graph.group(z->outY()));
      return {z, other};
    }
    return {};
  }

  const Split* splitInto(IdGroup whole, IdGroup inner) const {
    const IdGraph& graph = ctx_.ids().exact();
    for (const Expr* use : graph.uses(whole)) {
      const auto* s = dynamic_cast<const Split*>(use);
      if (s != nullptr && graph.group(s->inner()) == inner &&
          provablyDivisible(ctx_.ids().extent(whole), ctx_.ids().canonical(s->factor()))) {
        return s;
      }
    }
    return nullptr;
  }

  // The innermost dimension split, or merged with its neighbour.
  std::vector<Groups> rewritten(const Groups& dims) const {
    const IdGraph& graph = ctx_.ids().exact();
    std::vector<Groups> out;
    for (const Expr* use : graph.uses(dims.back())) {
      Groups other(dims.begin(), dims.end() - 1);
      if (const auto* s = dynamic_cast<const Split*>(use)) {
        if (provablyDivisible(ctx_.ids().extent(dims.back()), ctx_.ids().canonical(s->factor()))) {
          for (const IterDomain* part : {s->outer(), s->inner()}) {
            if (!ctx_.ids().extent(graph.group(part))->isOneInt()) {
              other.push_back(graph.group(part));
            }
          }
          out.push_back(other);
        }
      } else if (const auto* m = dynamic_cast<const Merge*>(use);
                 m != nullptr && !other.empty() && graph.group(m->inner()) == dims.back() &&
                 graph.group(m->outer()) == other.back()) {
        other.back() = graph.group(m->out());
        out.push_back(other);
      }
    }
    return out;
  }

  LowerContext& ctx_;
  TensorView* issuer_;
  BulkAccess access_;
  std::unordered_map<const Val*, const Expr*> use_of_;
  const Swizzle* swizzle_ = nullptr; // of the box in shared memory
};

} // namespace

bool isBulkCopy(const Expr* e) {
  const LoadStoreOp* copy = asCopy(e);
  return copy != nullptr && (copy->type() == LoadStoreOpType::CpAsyncBulkTensorTile ||
                             copy->type() == LoadStoreOpType::CpAsyncBulk);
}

bool isSpanCopy(const Expr* e) {
  const LoadStoreOp* copy = asCopy(e);
  return copy != nullptr && copy->type() == LoadStoreOpType::CpAsyncBulk;
}

bool isSmallAsyncCopy(const Expr* e) {
  const LoadStoreOp* copy = asCopy(e);
  return copy != nullptr && copy->type() == LoadStoreOpType::CpAsync;
}

int64_t bulkAlignment(const BulkAccess& access) {
  return access.is_span ? kRowBytes : int64_t{128} << access.swizzle;
}

BulkAccess findBulkAccess(LowerContext& ctx, const LoadStoreOp* copy) {
  return AccessFinder(ctx, copy).run();
}

namespace {

std::vector<BoundsGuard> boundsOf(LowerContext& ctx, const TensorView* issuer) {
  std::vector<IdGroup> targets;
  for (const IterDomain* id : issuer->getLogicalDomain()) {
    if (!id->isBroadcast()) {
      targets.push_back(ctx.ids().exact().group(id));
    }
  }
  return ctx.indexer(issuer).guards(targets);
}

} // namespace

bool mayRunOver(LowerContext& ctx, const BulkAccess& access) {
  return !boundsOf(ctx, access.issuer()).empty();
}

std::vector<Val*> spanGuards(LowerContext& ctx, const BulkAccess& access) {
  std::vector<Val*> out;
  for (const BoundsGuard& g : boundsOf(ctx, access.issuer())) {
    Val* inside = ctx.condition(IrBuilder::ltExpr(g.index, g.extent));
    const bool* known = std::get_if<bool>(&inside->value());
    if (known == nullptr || !*known) {
      out.push_back(inside);
    }
  }
  return out;
}

} // namespace nvfuser
