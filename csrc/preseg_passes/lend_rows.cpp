// SPDX-License-Identifier: BSD-3-Clause
// Partial sums of columns take no memory of their own: they lie where the last rows of a result
// will be. The kernel that makes them writes all other rows of the result; once they are added up,
// a kernel computes the last rows, of views of the inputs' last rows. The gradients of a
// normalization then take the memory of its results and no more.
#include <preseg_passes/passes.h>

#include <base/integer_math.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ir/op_traits.h>
#include <ops/utils.h>
#include <preseg_passes/column_reductions.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>
#include <transform/replay.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nvfuser {

namespace {

using Ids = TensorDomain::Ids;

// How many of a dimension's last elements are taken, for each dimension of a tensor; 0: all.
using Taken = std::vector<int64_t>;

bool takesAll(const Taken& taken) {
  return std::ranges::all_of(taken, [](int64_t count) { return count == 0; });
}

// Each element lies in memory, in the order of the dimensions.
bool liesInOrder(const TensorView* tv) {
  return !tv->hasRoot() && !tv->domain()->hasAllocation() &&
         std::ranges::none_of(tv->getLogicalDomain(), &IterDomain::hasExpandedExtent);
}

// The same computation of the last rows.
class LastRows {
 public:
  LastRows(Fusion* fusion, MovedViews& views) : fusion_(fusion), views_(views) {}

  // Whether it is one of views of inputs, and of reductions along the rows at most.
  bool isPossible(TensorView* tv, const Taken& taken) {
    constexpr size_t kMostOperations = 64;
    if (const auto known = reached_.find(tv); known != reached_.end()) {
      return known->second == taken;
    }
    reached_[tv] = taken;
    if (tv->isFusionInput()) {
      return takesAll(taken) || canBeViewed(tv);
    }
    const Expr* e = tv->definition();
    if (e == nullptr || reached_.size() > kMostOperations || !isRepeatable(e, takesAll(taken))) {
      return false;
    }
    return std::ranges::all_of(tensorInputs(e), [&](TensorView* in) {
      const std::optional<Taken> of_in = takenOf(in, tv, taken);
      return of_in.has_value() && isPossible(in, *of_in);
    });
  }

  TensorView* make(TensorView* tv) {
    const Taken& taken = reached_.at(tv);
    if (tv->isFusionInput() && takesAll(taken)) {
      return tv;
    }
    TensorView*& made = made_[tv];
    if (made == nullptr) {
      made = tv->isFusionInput() ? viewed(tv, taken) : computed(tv, taken);
      made->setSourceLocation(tv->sourceLocation());
    }
    return made;
  }

 private:
  static bool isRepeatable(const Expr* e, bool of_all) {
    if (e->kind() == ExprKind::ReductionOp) {
      return !of_all && !e->output(0)->as<TensorView>()->hasRoot();
    }
    return isByPosition(e) && !isBoundary(e) && e->kind() != ExprKind::ExpandOp &&
           e->outputs().size() == 1;
  }

  static bool canBeViewed(const TensorView* tv) {
    return !tv->isCpuScalar() && liesInOrder(tv) && tv->dtype() != DataType::Float4_e2m1fn &&
           knownSizes(tv).has_value();
  }

  static std::optional<Taken> takenOf(const TensorView* in, const TensorView* out,
                                      const Taken& taken) {
    const Ids in_dims = logicalIds(in);
    const Ids out_dims = logicalIds(out);
    Taken of_in(in_dims.size(), 0);
    const IterDomainMap to_in = PairwiseLogicalMap(in, out).consumerToProducer();
    for (size_t d = 0; d < out_dims.size(); ++d) {
      if (taken[d] == 0) {
        continue;
      }
      const auto it = to_in.find(out_dims[d]);
      const auto at = it == to_in.end() ? in_dims.end() : std::ranges::find(in_dims, it->second);
      if (at == in_dims.end() || (*at)->isSymbolicType() || (*at)->hasExpandedExtent()) {
        return std::nullopt;
      }
      if (!(*at)->isBroadcast()) {
        of_in[static_cast<size_t>(at - in_dims.begin())] = taken[d];
      }
    }
    return of_in;
  }

  // The dimension itself, or so many of its elements.
  static IterDomain* part(const IterDomain* id, int64_t taken) {
    IterDomainBuilder all(id);
    if (taken == 0) {
      return all.isRfactor(false).parallelType(ParallelType::Serial).build();
    }
    return IterDomainBuilder(IrBuilder::index(taken))
        .iterType(taken == 1 ? IterType::Broadcast : IterType::Iteration)
        .build();
  }

  TensorView* viewed(TensorView* tv, const Taken& taken) {
    const Ids& dims = tv->getLogicalDomain();
    Ids logical;
    std::vector<Val*> starts;
    TensorDomain::Contiguity contiguity = tv->getContiguity();
    for (size_t d = 0; d < dims.size(); ++d) {
      logical.push_back(part(dims[d], taken[d]));
      starts.push_back(
          IrBuilder::index(taken[d] == 0 ? 0 : dims[d]->extent()->intValue() - taken[d]));
      if (logical.back()->isBroadcast()) {
        contiguity.at(d) = std::nullopt;
      }
    }
    TensorView* view = tensorInMemory(logical, logical, contiguity, tv->dtype());
    fusion_->addInput(view);
    views_.inputs.push_back({view, tv, std::move(starts)});
    return view;
  }

  TensorView* computed(TensorView* tv, const Taken& taken) {
    Expr* e = tv->definition();
    std::unordered_map<Val*, Val*> replaced;
    for (TensorView* in : tensorInputs(e)) {
      replaced[in] = make(in);
    }
    std::unordered_map<const IterDomain*, IterDomain*> of;
    Ids logical;
    size_t d = 0;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      logical.push_back(of[id] = part(id, id->isReduction() ? 0 : taken[d++]));
    }
    Ids root; // of a permutation
    for (const IterDomain* id : tv->getRootDomain()) {
      root.push_back(of.at(id));
    }
    TensorView* out = ops_utils::makeTensor(std::move(root), std::move(logical), tv->dtype());
    replaced[tv] = out;
    copyExprWith(fusion_, e, replaced);
    return out;
  }

  Fusion* fusion_;
  MovedViews& views_;
  std::unordered_map<const TensorView*, Taken> reached_;
  std::unordered_map<const TensorView*, TensorView*> made_;
};

// Bytes of the partial sums, each of which begins at a place of its own; nothing if there are none,
// or sizes are not known.
std::optional<int64_t> bytesOfPartialSums(const Fusion* fusion) {
  constexpr int64_t kAlignment = 256;
  int64_t bytes = 0;
  for (const Expr* e : fusion->exprs()) {
    if (e->outputs().empty() || !e->output(0)->isTensor()) {
      continue;
    }
    const auto* tv = e->output(0)->as<TensorView>();
    if (!isPartialReduction(tv)) {
      continue;
    }
    const auto elements = knownElements(tv);
    if (!elements.has_value()) {
      return std::nullopt;
    }
    bytes += roundUp(*elements * dataTypeSizeBytes(tv->dtype()), kAlignment);
  }
  return bytes == 0 ? std::nullopt : std::optional(bytes + kAlignment);
}

// Rows of a result, of all dimensions but the last, of which some are taken from the end.
struct Rows {
  int64_t all = 1;
  int64_t taken = 0;
  int64_t elements = 0; // of a row
  size_t dim = 0;       // the last but those of size 1, that has all that are taken
  Taken of_dims;
};

std::optional<Rows> rowsFor(const TensorView* result, int64_t bytes) {
  constexpr int64_t kMostTaken = 15; // one of so many
  constexpr int64_t kAligned = 8;    // elements of 16 bits in a vector
  const auto sizes = knownSizes(result);
  if (!sizes.has_value() || sizes->size() < 2 || !liesInOrder(result)) {
    return std::nullopt;
  }
  Rows rows;
  const size_t columns = sizes->size() - 1;
  for (size_t d = 0; d < columns; ++d) {
    rows.all *= (*sizes)[d];
    rows.dim = (*sizes)[d] > 1 ? d : rows.dim;
  }
  rows.elements = sizes->back();
  const int64_t row_bytes = rows.elements * dataTypeSizeBytes(result->dtype());
  if (row_bytes == 0) {
    return std::nullopt;
  }
  rows.taken = roundUp(ceilDiv(bytes, row_bytes), kAligned);
  if (rows.taken > rows.all / kMostTaken || rows.taken >= (*sizes)[rows.dim]) {
    return std::nullopt;
  }
  rows.of_dims.assign(sizes->size(), 0);
  for (size_t d = 0; d < rows.dim; ++d) {
    rows.of_dims[d] = (*sizes)[d] > 1 ? 1 : 0;
  }
  rows.of_dims[rows.dim] = rows.taken;
  return rows;
}

} // namespace

void lendRows(Fusion* fusion, std::vector<TensorView*>& outputs, MovedViews& views,
              std::vector<OutputPart>& parts) {
  const FusionGuard guard(fusion);
  const std::optional<int64_t> bytes = bytesOfPartialSums(fusion);
  if (!bytes.has_value()) {
    return;
  }
  for (TensorView*& output : outputs) {
    TensorView* result = output;
    const std::optional<Rows> rows = result->isFusionInput() ||
                                             std::ranges::count(outputs, result) != 1 ||
                                             !fusion->liveUses(result).empty()
                                         ? std::nullopt
                                         : rowsFor(result, *bytes);
    LastRows last(fusion, views);
    if (!rows.has_value() || !last.isPossible(result, rows->of_dims)) {
      continue;
    }
    TensorView* part = last.make(result);
    fusion->addOutput(part);
    output = sameMemoryAs(result);
    const int64_t written = rows->all - rows->taken;
    result->setWrittenElements(written * rows->elements);
    parts.push_back({result, output, rows->dim, fusion->zeroVal()});
    parts.push_back({part, output, rows->dim, IrBuilder::index(written)});
    return;
  }
}

} // namespace nvfuser
