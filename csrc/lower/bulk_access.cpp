// SPDX-License-Identifier: BSD-3-Clause
// See bulk_access.h. Conditions are those of the PTX ISA, "cp.async.bulk.tensor" and
// "cp.async.bulk", and of cuTensorMapEncodeTiled; what depends on sizes and addresses is checked at
// launch (target/tensor_map.cpp, and for 1-D copies as for vectors).
#include <lower/bulk_access.h>

#include <algebra/simplify.h>
#include <base/error.h>
#include <id_model/layout.h>
#include <ir/builder.h>
#include <lower/context.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace nvfuser {

namespace {

constexpr size_t kMostDims = 5;
constexpr int64_t kMostBoxExtent = 256;
constexpr int64_t kRowBytes = 16; // a row of a box is a multiple of it, and so is a 1-D copy

const LoadStoreOp* asCopy(const Expr* e) {
  return e != nullptr && e->kind() == ExprKind::LoadStoreOp ? static_cast<const LoadStoreOp*>(e)
                                                            : nullptr;
}

using Groups = std::vector<IdGroup>;

class AccessFinder {
 public:
  AccessFinder(LowerContext& ctx, const LoadStoreOp* copy)
      : ctx_(ctx),
        issuer_(copy->out()->as<TensorView>()),
        layout_(ctx.ids()),
        boxes_(issuer_, ctx.ids(),
               [](const IterDomain* id) { return id->parallelType() == ParallelType::Bulk; }) {
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
    access_.is_linear = isLinearBulkCopy(copy);
  }

  BulkAccess run() {
    checkElements();
    std::vector<AccessedDim> memory = memoryDims();
    layout_.joinContiguous(memory, [&](const Merge* m) { return boxes_.mergeAs(m->out()); });
    NVF_CHECK(access_.is_linear || memory.size() <= kMostDims, issuer_->toString(),
              ": a tma copy takes tensors of at most ", kMostDims, " dimensions, ",
              access_.memory->toString(), " has ", memory.size(), " that are not merged");
    Groups order;
    int64_t elements = 1;
    for (auto dim = memory.rbegin(); dim != memory.rend(); ++dim) {
      const TileBox box = boxes_.of(dim->id, elements);
      checkDimension(box);
      order.insert(order.begin(), box.axes.begin(), box.axes.end());
      access_.dims.push_back({dim->positions, dim->id, box.extent});
      elements *= box.extent;
    }
    checkAxes(order);
    if (access_.is_linear) {
      checkLinear(memory);
    } else {
      checkBox();
    }
    checkOrder(order);
    return std::move(access_);
  }

 private:
  void checkElements() const {
    const int64_t bits = dataTypeSizeBits(issuer_->dtype());
    const bool fits = bits == 8 || bits == 16 || bits == 32 || bits == 64;
    NVF_CHECK(fits || (access_.is_linear && bits == 128), issuer_->toString(),
              ": a tma copy takes elements of 1, 2, 4 or 8 bytes, got ", issuer_->dtype());
  }

  std::vector<AccessedDim> memoryDims() const {
    const TensorView* tv = access_.memory;
    std::vector<AccessedDim> dims = layout_.accessedDims(tv, issuer_);
    const auto& own = access_.is_load ? issuer_->getMaybeRootDomain() : issuer_->getLogicalDomain();
    for (const AccessedDim& dim : dims) {
      NVF_CHECK(std::find(own.begin(), own.end(), dim.id) != own.end(), issuer_->toString(),
                ": a tma copy needs ", tv->toString(), " in memory as it is, or permuted");
    }
    NVF_CHECK(!dims.empty() && dims.back().contiguous, issuer_->toString(),
              ": a tma copy needs the innermost dimension of ", tv->toString(),
              " to be contiguous");
    return dims;
  }

  void checkDimension(const TileBox& box) {
    if (!box.why_not.empty()) {
      fail(box.why_not);
    }
    swizzle_ = box.swizzle == nullptr ? swizzle_ : box.swizzle;
    for (auto [extent, factor] : box.divided) {
      // What a load has of other elements is read by nobody.
      if (!access_.is_load && !provablyDivisible(extent, factor)) {
        ctx_.kernel()->divisibility_checks.push_back({extent, factor, "tma store"});
      }
    }
    for (auto [iterations, elements] : box.begins) {
      requireWholeChunks(iterations, elements);
    }
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
    if (!access_.is_linear) {
      return;
    }
    const int64_t bytes = unit * dataTypeSizeBytes(issuer_->dtype());
    const int64_t factor = kRowBytes / std::gcd(kRowBytes, bytes);
    if (extent->isConstInt()) {
      const int64_t iterations = extent->intValue();
      if (iterations % factor != 0) {
        fail("1-D copies begin at multiples of ", kRowBytes, " bytes and have as many, but ",
             access_.memory->toString(), " is cut every ", iterations * bytes, " bytes");
      }
      return;
    }
    Val* divisor = IrBuilder::index(factor);
    if (!provablyDivisible(extent, divisor)) {
      ctx_.kernel()->divisibility_checks.push_back(
          {extent, divisor,
           "tma copy of " + access_.memory->toString() +
               ", whose 1-D copies are multiples of 16 bytes"});
    }
  }

  // One piece of memory: all of a dimension, or a part of it and nothing of those around it.
  void checkLinear(const std::vector<AccessedDim>& memory) {
    if (swizzle_ != nullptr) {
      fail("a 1-D copy can not be swizzled");
    }
    const auto& dims = access_.dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      access_.linear_dim = dims[i].box > 1 ? i : access_.linear_dim;
    }
    int64_t elements = 1; // of each iteration of the copy's dimension
    for (size_t i = 0; i < access_.linear_dim; ++i) {
      const Val* extent = ctx_.ids().extent(ctx_.ids().exact().group(dims[i].id));
      const bool is_whole = extent->isConstInt() && extent->intValue() == dims[i].box;
      if (!is_whole || !memory[memory.size() - 2 - i].contiguous) {
        fail("a 1-D copy is one piece of memory, but ", dims[i].box, " of ",
             extent->toInlineString(), " elements along ", dims[i].id->toString(), " of ",
             access_.memory->toString(), " are copied ", dims[i + 1].box, " times at once",
             is_whole ? ", with gaps" : "", "; bind fewer axes to tma");
      }
      elements *= dims[i].box;
    }
    const int64_t bytes = dataTypeSizeBytes(issuer_->dtype());
    const BulkAccess::Dim& along = dims[access_.linear_dim];
    access_.box_bytes = along.box * elements * bytes;
    if (access_.box_bytes % kRowBytes != 0) {
      fail("a 1-D copy has a multiple of ", kRowBytes, " bytes, got ", along.box * elements,
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
    const std::optional<Layout::TilePlace> place = layout_.placeOf(box, buffer);
    if (!place.has_value()) {
      fail("a box does not lie in ", access_.shared->toString(),
           " in one piece and in the order of memory; its innermost axes must be those of the box, "
           "from the "
           "outermost dimension of ",
           access_.memory->toString(),
           " to the innermost one: reorder its axes or use set_allocation_domain");
    }
    swizzle_ = place->swizzle == nullptr ? swizzle_ : place->swizzle;
    if (swizzle_ != nullptr) {
      checkSwizzle(buffer);
    }
    const int64_t alignment = bulkAlignment(access_);
    if (place->before > 0 && access_.box_bytes % alignment != 0) {
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
      return extent->isConstInt() && extent->intValue() == value;
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

  LowerContext& ctx_;
  TensorView* issuer_;
  Layout layout_;
  TileBoxes boxes_;
  BulkAccess access_;
  const Swizzle* swizzle_ = nullptr; // of the box in shared memory
};

} // namespace

bool isBulkCopy(const Expr* e) {
  const LoadStoreOp* copy = asCopy(e);
  return copy != nullptr && (copy->type() == LoadStoreOpType::CpAsyncBulkTensorTile ||
                             copy->type() == LoadStoreOpType::CpAsyncBulk);
}

bool isLinearBulkCopy(const Expr* e) {
  const LoadStoreOp* copy = asCopy(e);
  return copy != nullptr && copy->type() == LoadStoreOpType::CpAsyncBulk;
}

bool isSmallAsyncCopy(const Expr* e) {
  const LoadStoreOp* copy = asCopy(e);
  return copy != nullptr && copy->type() == LoadStoreOpType::CpAsync;
}

int64_t bulkAlignment(const BulkAccess& access) {
  return access.is_linear ? kRowBytes : int64_t{128} << access.swizzle;
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

std::vector<Val*> linearCopyGuards(LowerContext& ctx, const BulkAccess& access) {
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
