// SPDX-License-Identifier: BSD-3-Clause
// See layout.h.
#include <tensor/layout.h>

#include <base/error.h>
#include <ir/describe.h>

#include <algorithm>
#include <unordered_map>

namespace nvfuser {

// Bytes that a 64-bit process has addresses for (x86-64 with four levels of page tables).
constexpr int64_t kMostElements = int64_t{1} << 47;

int64_t TensorLayout::numel() const {
  int64_t n = 1;
  for (int64_t size : sizes) {
    n *= size;
  }
  return n;
}

namespace {

// Strides of iteration domains, moved along the transforms between logical and allocation domains.
class StrideMap {
 public:
  StrideMap(const TensorView* tv, ScalarEvaluator& evaluator) : tv_(tv), evaluator_(evaluator) {}

  void set(const IterDomain* id, int64_t stride) {
    strides_[id] = stride;
  }
  bool has(const IterDomain* id) const {
    return strides_.count(id) != 0;
  }
  int64_t at(const IterDomain* id) const {
    auto it = strides_.find(id);
    NVF_CHECK(it != strides_.end(), "The allocation domain of ", describe(tv_),
              " is not made from its logical domain.");
    return it->second;
  }
  int64_t extent(const IterDomain* id) {
    return evaluator_.evaluateInt(id->getMaybeExpandedExtent());
  }

  void forward(Expr* e) {
    if (auto* split = tryAs<Split>(e)) {
      const int64_t stride = at(split->in());
      set(split->inner(), stride);
      set(split->outer(), stride * extent(split->inner()));
    } else if (auto* merge = tryAs<Merge>(e)) {
      const int64_t inner = at(merge->inner());
      NVF_CHECK(extent(merge->outer()) == 1 || at(merge->outer()) == inner * extent(merge->inner()),
                "The allocation domain of ", describe(tv_),
                " merges dimensions that are not contiguous in the given tensor.");
      set(merge->out(), inner);
    } else {
      unsupported();
    }
  }

  void backward(Expr* e) {
    if (auto* split = tryAs<Split>(e)) {
      const int64_t inner = at(split->inner());
      NVF_CHECK(extent(split->outer()) == 1 || at(split->outer()) == inner * extent(split->inner()),
                "The allocation domain of the output ", describe(tv_),
                " has no strides: a dimension is split and its parts are not next to each other.");
      set(split->in(), inner);
    } else if (auto* merge = tryAs<Merge>(e)) {
      const int64_t stride = at(merge->out());
      set(merge->inner(), stride);
      set(merge->outer(), stride * extent(merge->inner()));
    } else {
      unsupported();
    }
  }

 private:
  [[noreturn]] void unsupported() const {
    NVF_CHECK_FAIL("The allocation domain of the fusion input or output ", describe(tv_),
                   " may be made by permuting, splitting and merging only.");
  }

  const TensorView* tv_;
  ScalarEvaluator& evaluator_;
  std::unordered_map<const IterDomain*, int64_t> strides_;
};

// Where rows do not follow each other without gaps, the dimension of the rows says how far apart
// they are, also if it has one element: what is contiguous with it is indexed by its stride.
void takeStridesOfRows(const TensorView* tv, const Shape& extents, Shape& strides) {
  std::vector<bool> contiguous;
  const std::vector<IterDomain*>& domain = tv->getMaybeAllocationDomain();
  for (size_t d = 0; d < domain.size(); ++d) {
    if (!domain[d]->isReduction()) {
      contiguous.push_back(tv->getContiguity()[d].value_or(true));
    }
  }
  for (size_t i = 1; i < strides.size(); ++i) {
    // Those before it of one element have its stride.
    size_t outer = i;
    while (extents[i] == 1 && !contiguous[i] && outer > 0 && contiguous[outer - 1]) {
      --outer;
      if (extents[outer] != 1) {
        std::fill(strides.begin() + static_cast<ptrdiff_t>(outer) + 1,
                  strides.begin() + static_cast<ptrdiff_t>(i) + 1, strides[outer]);
        break;
      }
    }
  }
}

} // namespace

Shape allocationStrides(const TensorView* tv, const TensorLayout& layout,
                        ScalarEvaluator& evaluator) {
  const std::vector<IterDomain*> logical = logicalIds(tv);
  NVF_ERROR(logical.size() == layout.sizes.size(), "rank of ", tv->toString());
  const std::vector<IterDomain*> allocation =
      TensorDomain::noReductions(tv->getMaybeAllocationDomain());

  StrideMap map(tv, evaluator);
  for (size_t i = 0; i < logical.size(); ++i) {
    map.set(logical[i], layout.strides[i]);
  }
  bool permutation = true;
  for (const IterDomain* id : allocation) {
    permutation = permutation && map.has(id);
  }
  if (!permutation) {
    for (Expr* e : transformsBetween(logical, allocation)) {
      map.forward(e);
    }
  }

  // One element that a scatter stores goes to any position.
  const auto* store = tryAs<ScatterStoreOp>(tv->definition());
  const IterDomain* any = store == nullptr ? nullptr : logical[static_cast<size_t>(store->dim())];
  Shape strides(allocation.size());
  Shape extents(allocation.size());
  int64_t expected = 1;
  for (size_t i = allocation.size(); i-- > 0;) {
    extents[i] = map.extent(allocation[i]);
    if (extents[i] == 1 && allocation[i] != any) {
      strides[i] = expected;
      continue;
    }
    strides[i] = map.at(allocation[i]);
    if (!allocation[i]->isBroadcast()) {
      expected = strides[i] * extents[i];
    }
  }
  takeStridesOfRows(tv, extents, strides);
  return strides;
}

Shape logicalSizes(const TensorView* tv, ScalarEvaluator& evaluator) {
  Shape sizes;
  auto maker = [&] {
    return tv->definition() == nullptr ? std::string("an op") : pythonOpName(tv->definition());
  };
  for (const IterDomain* id : tv->getLogicalDomain()) {
    if (!id->isReduction()) {
      sizes.push_back(evaluator.evaluateInt(id->getMaybeExpandedExtent()));
      NVF_CHECK(sizes.back() >= 0, "Invalid resized domain extent: ", describe(tv),
                " would have size ", sizes.back(), " in dimension ", sizes.size() - 1, ".");
      NVF_CHECK(sizes.back() <= kMostElements || id->hasExpandedExtent(), maker(), ": a length of ",
                sizes.back(), " is too large: ", describe(tv),
                " would have more elements than memory has addresses.");
    }
  }
  return sizes;
}

std::vector<const TensorView*> tensorsOfComputedSize(const Fusion& fusion) {
  std::vector<const TensorView*> out;
  for (const TensorView* tv : fusion.allTvs()) {
    const auto& ids = tv->getLogicalDomain();
    const Expr* def = tv->definition();
    const bool is_made_of_sizes =
        def != nullptr && (def->kind() == ExprKind::IotaOp || def->kind() == ExprKind::FullOp);
    if (is_made_of_sizes || std::any_of(ids.begin(), ids.end(), [](const IterDomain* id) {
          return id->definition() != nullptr && id->definition()->kind() == ExprKind::Resize &&
                 !id->extent()->isConst();
        })) {
      out.push_back(tv);
    }
  }
  return out;
}

TensorLayout denseLayout(const TensorView* tv, ScalarEvaluator& evaluator) {
  const std::vector<IterDomain*> logical = logicalIds(tv);
  const std::vector<IterDomain*> allocation =
      TensorDomain::noReductions(tv->getMaybeAllocationDomain());
  StrideMap map(tv, evaluator);
  int64_t stride = 1;
  for (size_t i = allocation.size(); i-- > 0;) {
    IterDomain* id = allocation[i];
    if (id->isBroadcast() && id->hasExpandedExtent()) {
      map.set(id, 0);
      continue;
    }
    map.set(id, stride);
    // As torch does for empty tensors: their outer strides count the extent as 1.
    stride *= std::max<int64_t>(map.extent(id), 1);
  }
  bool permutation = true;
  for (const IterDomain* id : logical) {
    permutation = permutation && map.has(id);
  }
  if (!permutation) {
    const std::vector<Expr*> transforms = transformsBetween(logical, allocation);
    for (auto it = transforms.rbegin(); it != transforms.rend(); ++it) {
      map.backward(*it);
    }
  }
  TensorLayout layout{logicalSizes(tv, evaluator), {}};
  for (const IterDomain* id : logical) {
    layout.strides.push_back(map.at(id));
  }
  return layout;
}

std::optional<SwizzledLayout> swizzledLayout(const TensorView* tv, ScalarEvaluator& evaluator) {
  const auto* op = tryAs<LibraryOp>(tv->definition());
  if (op == nullptr) {
    return std::nullopt;
  }
  const auto position = std::find(op->outputs().begin(), op->outputs().end(), tv);
  if (!op->isSwizzled(static_cast<size_t>(position - op->outputs().begin()))) {
    return std::nullopt;
  }
  // A tile of the layout (cuBLAS, "1D Block Scaling Factors Layout").
  constexpr int64_t kTileRows = 128;
  constexpr int64_t kTileColumns = 4;
  const auto roundedUp = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
  SwizzledLayout out{{logicalSizes(tv, evaluator), {}}, 0};
  const Shape& sizes = out.layout.sizes;
  const int64_t columns = roundedUp(sizes[sizes.size() - 1], kTileColumns);
  out.layout.strides = Shape(sizes.size());
  int64_t rows = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    const bool innermost = d + 1 == sizes.size();
    out.layout.strides[d] = innermost ? 1 : columns * rows;
    rows *= innermost ? 1 : sizes[d];
  }
  if (op->op() == LibraryOpType::NvBlockQuantize) {
    rows = roundedUp(rows, kTileRows);
  } else {
    // Groups are padded for themselves.
    const auto* offsets = op->input(1)->as<TensorView>();
    rows += logicalSizes(offsets, evaluator)[0] * (kTileRows - 1);
  }
  out.storage_elements = rows * columns;
  return out;
}

void adoptLayout(TensorView* out, const TensorView* input) {
  const TensorDomain::Ids out_ids = logicalIds(out);
  const TensorDomain::Ids in_ids = logicalIds(input);
  NVF_CHECK(out_ids.size() == in_ids.size() && out->dtype() == input->dtype(), "The output ",
            describe(out), " can not be written into the input ", describe(input),
            ": they must have the same rank and dtype.");
  const std::vector<size_t> order = input->domain()->memoryOrder();
  TensorDomain::Ids allocation;
  TensorDomain::Contiguity contiguity;
  for (size_t i = 0; i < order.size(); ++i) {
    allocation.push_back(out_ids[order[i]]);
    contiguity.push_back(allocation.back()->isBroadcast()
                             ? std::nullopt
                             : std::optional<bool>(input->getContiguity()[i].value_or(false)));
  }
  if (order.empty()) {
    // Not a permutation: nothing is promised.
    allocation = out_ids;
    contiguity = TensorDomain::contiguityFilledWith(allocation, false);
  }
  out->setAllocationDomain(allocation, contiguity);
}

} // namespace nvfuser
