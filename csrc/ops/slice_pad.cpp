// SPDX-License-Identifier: BSD-3-Clause
// Slice, pad, cat and triu: the ops whose result is a resized view of what they read. See shape.h.
#include <ops/shape.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ops/creation.h>
#include <ops/elementwise.h>
#include <ops/shape_internal.h>
#include <ops/utils.h>

#include <algorithm>

namespace nvfuser {

using namespace ops_utils;

namespace {

IterType decide(const DecidedTypes& decided, size_t dim, IterType otherwise) {
  return dim < decided.size() ? decided[dim].value_or(otherwise) : otherwise;
}

template <class Compute>
Val* sizeOr(const std::vector<Val*>& known_sizes, size_t dim, Compute&& compute) {
  return dim < known_sizes.size() && known_sizes[dim] != nullptr ? known_sizes[dim] : compute();
}

Val* zero() {
  return IrBuilder::activeContainer()->zeroVal();
}

std::vector<Val*> indexVals(const std::vector<int64_t>& values) {
  std::vector<Val*> out;
  for (const int64_t v : values) {
    out.push_back(IrBuilder::index(v));
  }
  return out;
}

} // namespace

// ---- slice

namespace ops_utils {

TensorView* sliceTo(TensorView* in, const std::vector<Val*>& starts, const std::vector<Val*>& stops,
                    const DecidedTypes& decided, const std::vector<Val*>& known_sizes) {
  const Ids ids = logicalIds(in);
  Ids root;
  Ids logical;
  std::vector<Val*> sizes;
  bool any_sliced = false;
  bool empty = false;
  for (size_t d = 0; d < ids.size(); ++d) {
    Val* extent = ids[d]->getMaybeExpandedExtent();
    const bool whole = starts[d]->isZeroInt() && stops[d]->sameAs(extent);
    any_sliced = any_sliced || !whole;
    Val* new_extent =
        whole ? extent
              : sizeOr(known_sizes, d, [&] { return IrBuilder::subExpr(stops[d], starts[d]); });
    sizes.push_back(new_extent);
    if (const auto size = constInt(new_extent)) {
      NVF_CHECK(*size >= 0, "slice: Invalid resized domain extent ", *size, " of dimension ", d,
                ".");
      empty = empty || (*size == 0 && !whole);
    }
    if (whole) {
      root.push_back(copyDimension(ids[d]));
      logical.push_back(root.back());
    } else if (ids[d]->hasExpandedExtent()) {
      // Every index of an expanded broadcast reads the same element, so only its extent changes.
      // One that is left is a plain broadcast, which may turn out only when the fusion runs.
      IterType type = iterTypeOfExtent(new_extent);
      if (type == IterType::Symbolic) { // an expanded dimension is of type Broadcast as well
        type = decide(decided, d, type);
      }
      root.push_back(type == IterType::Symbolic
                         ? makeDimension(new_extent, type)
                         : IterDomainBuilder(in->container()->oneVal())
                               .iterType(IterType::Broadcast)
                               .expandedExtent(type == IterType::Broadcast ? nullptr : new_extent)
                               .build());
      logical.push_back(root.back());
    } else {
      root.push_back(copyDimension(ids[d]));
      const IterType type = decide(decided, d, iterTypeOfExtent(new_extent));
      Val* left = IrBuilder::subExpr(zero(), starts[d]);
      Val* right = IrBuilder::subExpr(stops[d], extent);
      logical.push_back(resizeTo(root.back(), left, right, new_extent, type));
    }
  }
  if (!any_sliced) {
    return set(in);
  }
  if (empty) {
    return full(sizes, zeroOf(in->dtype()), in->dtype());
  }
  auto* result = makeTensor(std::move(root), std::move(logical), in->dtype());
  IrBuilder::create<SliceOp>(result, in, starts, stops);
  return result;
}

} // namespace ops_utils

namespace {

// Negative values of computed scalars count from the end; the result is clamped to [low, extent].
Val* normalizedPosition(Val* position, Val* low, Val* extent) {
  if (position->isZeroInt() && low->isZeroInt()) {
    return position; // sizes are not negative
  }
  if (!position->isConst()) {
    position = IrBuilder::whereExpr(IrBuilder::ltExpr(position, zero()),
                                    IrBuilder::addExpr(position, extent), position);
  }
  return IrBuilder::minExpr(IrBuilder::maxExpr(position, low), extent);
}

// op(..., v, ...)
bool isOpOf(const Val* expression, OpType op, const Val* v) {
  const auto* e = tryAs<ElementwiseOp>(expression->definition());
  return e != nullptr && e->op() == op &&
         std::any_of(e->inputs().begin(), e->inputs().end(),
                     [&](const Val* operand) { return operand->sameAs(v); });
}

// min(max(..., low), high), or an operand that is known to be one of the two.
bool isBetween(const Val* position, const Val* low, const Val* high) {
  const auto within = [&](const Val* v) {
    const auto constant = constInt(v);
    const auto least = constInt(low);
    return v->sameAs(low) || (constant && least && *constant >= *least) ||
           isOpOf(v, OpType::Maximum, low);
  };
  if (position->sameAs(low) || position->sameAs(high)) {
    return true;
  }
  const auto* e = tryAs<ElementwiseOp>(position->definition());
  return isOpOf(position, OpType::Minimum, high) && (within(e->in(0)) || within(e->in(1)));
}

void checkSliceArguments(TensorView* in, const std::vector<Val*>& starts,
                         const std::vector<Val*>& stops, const std::vector<Val*>& strides) {
  NVF_CHECK(strides.empty() || strides.size() == starts.size(),
            "slice: Slice start_indices and strides don't match! Start Indices: ", starts.size(),
            " Strides: ", strides.size());
  NVF_CHECK(static_cast<int64_t>(starts.size()) == rank(in),
            "slice: Number of tensor dimensions does not match slice dimensions! Tensor-dims: ",
            rank(in), " Slice-dims: ", starts.size());
  NVF_CHECK(starts.size() == stops.size(),
            "slice: Slice indexing attribute dimensions don't match! Start Indices: ",
            starts.size(), " End Indices: ", stops.size());
  for (size_t d = 0; d < starts.size(); ++d) {
    const auto start = constInt(starts[d]);
    const auto stop = constInt(stops[d]);
    NVF_CHECK(
        !start || *start >= 0,
        "slice: Slice operation start_indices must be greater than or equal to 0. Start Index: ",
        start.value_or(0), " of dimension ", d);
    NVF_CHECK(!start || !stop || *stop >= *start,
              "slice: Slice operation end_indices must be greater than or equal to start_indices. "
              "Start: ",
              start.value_or(0), " End: ", stop.value_or(0), " of dimension ", d);
    NVF_CHECK(strides.empty() || strides[d]->isOneInt(),
              "slice: nvFuser Limitation: All slice operation strides must be of const size 1.");
  }
}

// Those of sizes that are not constants are checked when the fusion runs.
void checkNormalizedStops(TensorView* in, const std::vector<Val*>& stops) {
  const std::vector<Val*> sizes = shape(in);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto stop = constInt(stops[d]);
    const auto size = constInt(sizes[d]);
    NVF_CHECK(!stop || !size || *stop <= *size, "slice: end index ", stop.value_or(0),
              " of dimension ", d, " is more than its size ", size.value_or(0),
              ", and manual_normalization takes it as it is.");
  }
}

} // namespace

bool ops_utils::isNormalizedRange(const Val* start, const Val* stop, const Val* extent) {
  return isBetween(start, start->container()->zeroVal(), extent) && isBetween(stop, start, extent);
}

std::optional<int64_t> ops_utils::requestedPosition(const Val* position) {
  if (const auto constant = constInt(position); constant.has_value()) {
    return constant;
  }
  const auto* e = tryAs<ElementwiseOp>(position->definition());
  if (e == nullptr || (e->op() != OpType::Minimum && e->op() != OpType::Maximum)) {
    return std::nullopt;
  }
  // A limit may come first if it is a size, never if it was computed: that is what was asked for.
  return requestedPosition(e->in(0)->definition() == nullptr && !e->in(0)->isConst() ? e->in(1)
                                                                                     : e->in(0));
}

TensorView* slice(TensorView* in, const std::vector<Val*>& start_indices,
                  const std::vector<Val*>& end_indices, const std::vector<Val*>& strides,
                  bool manual_normalization) {
  checkOperand("slice", in);
  const auto to_extents = [](const std::vector<Val*>& vals) {
    std::vector<Val*> out;
    for (Val* v : vals) {
      out.push_back(toExtent("slice", v));
    }
    return out;
  };
  std::vector<Val*> starts = to_extents(start_indices);
  std::vector<Val*> stops = to_extents(end_indices);
  checkSliceArguments(in, starts, stops, to_extents(strides));
  if (manual_normalization) {
    checkNormalizedStops(in, stops);
  } else {
    const std::vector<Val*> sizes = shape(in);
    for (size_t d = 0; d < sizes.size(); ++d) {
      // The whole dimension, spelled out by the user.
      if (starts[d]->isZeroInt() && stops[d]->sameAs(sizes[d])) {
        continue;
      }
      starts[d] = normalizedPosition(starts[d], zero(), sizes[d]);
      stops[d] = normalizedPosition(stops[d], starts[d], sizes[d]);
    }
  }
  return sliceTo(in, starts, stops);
}

TensorView* slice(TensorView* in, const std::vector<int64_t>& start_indices,
                  const std::vector<int64_t>& end_indices) {
  return slice(in, indexVals(start_indices), indexVals(end_indices));
}

// ---- pad

namespace ops_utils {

TensorView* padBy(TensorView* in, const std::vector<Val*>& left, const std::vector<Val*>& right,
                  Val* value, const DecidedTypes& decided, const std::vector<Val*>& known_sizes) {
  std::vector<bool> is_padded;
  for (size_t d = 0; d < left.size(); ++d) {
    is_padded.push_back(!left[d]->isZeroInt() || !right[d]->isZeroInt());
  }
  if (std::none_of(is_padded.begin(), is_padded.end(), [](bool b) { return b; })) {
    return set(in);
  }
  in = materializeExpanded(in, is_padded);
  const Ids ids = logicalIds(in);
  Ids root = copyDimensions(ids);
  Ids logical;
  std::vector<Val*> sizes;
  bool empty = false;
  for (size_t d = 0; d < ids.size(); ++d) {
    if (!is_padded[d]) {
      logical.push_back(root[d]);
      sizes.push_back(root[d]->getMaybeExpandedExtent());
      continue;
    }
    Val* extent = sizeOr(known_sizes, d, [&] {
      return IrBuilder::addExpr(IrBuilder::addExpr(left[d], root[d]->extent()), right[d]);
    });
    sizes.push_back(extent);
    const auto size = constInt(extent);
    NVF_CHECK(!size || *size >= 0, "pad: Invalid resized domain extent ", size.value_or(0),
              " of dimension ", d, ".");
    empty = empty || size == int64_t{0};
    IterType type = iterTypeOfExtent(extent);
    const auto l = constInt(left[d]);
    const auto r = constInt(right[d]);
    if (type == IterType::Symbolic && l && r && *l + *r > 1) {
      type = IterType::Iteration; // sizes are not negative: the result is larger than 1
    }
    type = decide(decided, d, type);
    logical.push_back(resizeTo(root[d], left[d], right[d], extent, type));
  }
  if (empty) {
    return full(sizes, zeroOf(in->dtype()), in->dtype());
  }
  auto* result = makeTensor(std::move(root), std::move(logical), in->dtype());
  IrBuilder::create<PadOp>(result, in, value, left, right);
  return result;
}

} // namespace ops_utils

TensorView* pad(TensorView* in, const std::vector<Val*>& pad_widths, Val* value) {
  checkOperand("pad", in);
  const auto n = static_cast<size_t>(rank(in));
  NVF_CHECK(pad_widths.size() % 2 == 0,
            "pad: Invalid number of padding widths: ", pad_widths.size(),
            ". There must be a left and a right width per padded dimension.");
  NVF_CHECK(pad_widths.size() <= 2 * n,
            "pad: Number of pad widths must be at most twice the input dimension, but there are ",
            pad_widths.size(), " for rank ", n, ".");
  const DataType dtype = in->dtype();
  if (value != nullptr) {
    checkOperand("pad", value);
    const DataType v = value->dtype();
    const bool same_category = (isFloatingPoint(v) && isFloatingPoint(dtype)) ||
                               (isIntegral(v) && isIntegral(dtype)) ||
                               (isComplex(v) && isComplex(dtype)) || v == dtype;
    NVF_CHECK(value->isScalar() && same_category,
              "pad: Tensor arg and pad value must have the same dtype. The tensor is ", dtype,
              ", the value ", v, ".");
    value = castScalar(value, dtype, /*exact=*/true);
  } else {
    value = zeroOf(dtype);
  }
  std::vector<Val*> left(n, zero());
  std::vector<Val*> right(n, zero());
  for (size_t i = 0; i < pad_widths.size() / 2; ++i) {
    left[n - 1 - i] = toExtent("pad", pad_widths[2 * i]);
    right[n - 1 - i] = toExtent("pad", pad_widths[2 * i + 1]);
  }
  return padBy(in, left, right, value);
}

TensorView* pad(TensorView* in, const std::vector<int64_t>& pad_widths, Val* value) {
  return pad(in, indexVals(pad_widths), value);
}

// ---- cat

namespace ops_utils {

TensorView* catPadded(const std::vector<TensorView*>& tensors, int64_t dim,
                      const std::vector<Val*>& ends) {
  std::vector<Val*> operands(tensors.begin(), tensors.end());
  auto* result = makeTensor(elementwiseDomain("cat", operands), tensors.front()->dtype());
  IrBuilder::create<CatOp>(result, std::move(operands), dim, ends);
  return result;
}

namespace {

// Whether it can be seen that one is the sum of the others.
bool isSum(const Val* sum, const Val* a, const Val* b) {
  const auto whole = constInt(sum);
  const auto first = constInt(a);
  const auto second = constInt(b);
  if (whole.has_value() && first.has_value() && second.has_value()) {
    return *whole == *first + *second;
  }
  const auto* add =
      sum->definition() == nullptr ? nullptr : tryAs<ElementwiseOp>(sum->definition());
  return add != nullptr && add->op() == OpType::Add && add->in(0)->sameAs(a) &&
         add->in(1)->sameAs(b);
}

// Null if operand p of a cat is not padded to be in its place, or does not fill it.
TensorView* filling(const CatOp* cat, size_t p) {
  const auto* pad = tryAs<PadOp>(cat->input(p)->definition());
  if (pad == nullptr) {
    return nullptr;
  }
  const auto dim = static_cast<size_t>(cat->dim());
  const Val* end = cat->ends()[p];
  auto* part = pad->in()->as<TensorView>();
  const Ids dims = logicalIds(part);
  for (size_t d = 0; d < dims.size(); ++d) {
    const Val* left = pad->left()[d];
    const Val* extent = dims[d]->getMaybeExpandedExtent();
    bool fits = left->isZeroInt();
    if (d != dim) {
      fits = fits && pad->right()[d]->isZeroInt();
    } else if (p == 0) {
      fits = fits && end->sameAs(extent);
    } else {
      const Val* start = cat->ends()[p - 1];
      fits = left->sameAs(start) && isSum(end, start, extent);
    }
    if (!fits) {
      return nullptr;
    }
  }
  return part;
}

} // namespace

std::vector<TensorView*> joinedBy(const CatOp* cat) {
  std::vector<TensorView*> parts;
  for (size_t p = 0; p < cat->inputs().size(); ++p) {
    parts.push_back(filling(cat, p));
    if (parts.back() == nullptr) {
      return {};
    }
  }
  return parts;
}

} // namespace ops_utils

namespace {

void checkCatArguments(const std::vector<TensorView*>& tensors) {
  NVF_CHECK(!tensors.empty(), "cat: No tensors to concatenate.");
  for (TensorView* tv : tensors) {
    checkOperand("cat", tv);
    NVF_CHECK(tv->dtype() == tensors.front()->dtype(),
              "cat: Can't concatenate tensors with different data types: ",
              tensors.front()->dtype(), " and ", tv->dtype(), ".");
    NVF_CHECK(rank(tv) == rank(tensors.front()), "cat: Unexpected number of dimensions: ", rank(tv),
              " after ", rank(tensors.front()), ".");
  }
}

void checkCatSizes(const std::vector<TensorView*>& tensors, size_t dim) {
  const std::vector<Val*> first = shape(tensors.front());
  for (TensorView* tv : tensors) {
    const std::vector<Val*> sizes = shape(tv);
    for (size_t d = 0; d < sizes.size(); ++d) {
      const auto a = constInt(first[d]);
      const auto b = constInt(sizes[d]);
      NVF_CHECK(d == dim || !a || !b || *a == *b, "cat: the sizes of dimension ", d,
                " do not agree: ", shapeString(tensors.front()), " and ", shapeString(tv), ".");
    }
  }
}

void checkPadded(const std::vector<TensorView*>& tensors) {
  for (const TensorView* tv : tensors) {
    NVF_CHECK(tv->definition() != nullptr && tv->definition()->isA<PadOp>(),
              "cat: with manual_padding every input must be produced by pad, but ", describe(tv),
              " is not.");
  }
}

// What was padded, if each tensor was padded by zeros up to where its neighbours are and nowhere
// else, as cat does it; otherwise nothing.
std::vector<TensorView*> neighboursOf(const std::vector<TensorView*>& tensors, size_t dim) {
  std::vector<TensorView*> inputs;
  Val* before = zero();
  for (TensorView* tv : tensors) {
    const auto* pad = tv->definition()->as<PadOp>();
    for (size_t d = 0; d < pad->left().size(); ++d) {
      const bool fits = d == dim ? pad->left()[d]->sameAs(before)
                                 : pad->left()[d]->isZeroInt() && pad->right()[d]->isZeroInt();
      if (!fits) {
        return {};
      }
    }
    if (!pad->value()->sameAs(zeroOf(tv->dtype()))) {
      return {};
    }
    inputs.push_back(pad->in()->as<TensorView>());
    before = IrBuilder::addExpr(before, shape(inputs.back())[dim]);
  }
  Val* after = zero();
  for (size_t i = tensors.size(); i-- > 0;) {
    if (!tensors[i]->definition()->as<PadOp>()->right()[dim]->sameAs(after)) {
      return {};
    }
    after = IrBuilder::addExpr(shape(inputs[i])[dim], after);
  }
  return inputs;
}

// The inputs were padded by the user: where one ends is where the next begins.
TensorView* catOfPadded(const std::vector<TensorView*>& tensors, size_t dim) {
  std::vector<Val*> ends;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0) {
      ends.push_back(tensors[i]->definition()->as<PadOp>()->left()[dim]);
    }
  }
  ends.push_back(shape(tensors.back())[dim]);
  return catPadded(tensors, static_cast<int64_t>(dim), ends);
}

} // namespace

TensorView* cat(const std::vector<TensorView*>& tensors, int64_t dim, bool manual_padding) {
  checkCatArguments(tensors);
  const int64_t n = rank(tensors.front());
  const int64_t wrapped = dim < 0 ? dim + n : dim;
  NVF_CHECK(wrapped >= 0 && wrapped < n, "cat: Invalid dimension to cat: ", dim, " for rank ", n,
            ".");
  const auto d = static_cast<size_t>(wrapped);
  if (manual_padding && tensors.size() > 1) {
    checkPadded(tensors);
    const std::vector<TensorView*> neighbours = neighboursOf(tensors, d);
    return neighbours.empty() ? catOfPadded(tensors, d) : cat(neighbours, dim);
  }
  checkCatSizes(tensors, d);
  std::vector<TensorView*> parts;
  for (TensorView* tv : tensors) {
    if (!shape(tv)[d]->isZeroInt()) {
      parts.push_back(tv);
    }
  }
  if (parts.size() < 2) {
    return set(parts.empty() ? tensors.front() : parts.front());
  }
  std::vector<Val*> ends;
  // The result has at least so many elements; more than one makes it an iteration domain.
  int64_t least_size = 0;
  Val* total = zero();
  for (TensorView* tv : parts) {
    Val* extent = shape(tv)[d];
    least_size += constInt(extent).value_or(0);
    total = IrBuilder::addExpr(total, extent);
    ends.push_back(total);
  }
  DecidedTypes decided(static_cast<size_t>(n));
  if (least_size > 1) {
    decided[d] = IterType::Iteration;
  }
  std::vector<Val*> sizes(static_cast<size_t>(n), nullptr);
  sizes[d] = total;
  // What follows each part, summed from the back.
  std::vector<Val*> after(parts.size(), zero());
  for (size_t i = parts.size() - 1; i-- > 0;) {
    after[i] = IrBuilder::addExpr(shape(parts[i + 1])[d], after[i + 1]);
  }
  std::vector<TensorView*> padded;
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<Val*> left(static_cast<size_t>(n), zero());
    std::vector<Val*> right(static_cast<size_t>(n), zero());
    left[d] = i == 0 ? zero() : ends[i - 1];
    right[d] = after[i];
    padded.push_back(padBy(parts[i], left, right, zeroOf(parts[i]->dtype()), decided, sizes));
  }
  return catPadded(padded, wrapped, ends);
}

// ---- triu

TensorView* triu(TensorView* in, int64_t diagonal) {
  checkOperand("triu", in);
  const int64_t n = rank(in);
  NVF_CHECK(n >= 2, "triu: input tensor for triu must have 2 or more dims, but got ", n, " dims");
  // Element (i, j) stays where i <= j - diagonal.
  const auto positions = [&](int64_t dim, int64_t start) {
    return iota(size(in, dim), IrBuilder::create<Val>(start, DataType::Int),
                IrBuilder::create<Val>(int64_t{1}, DataType::Int), DataType::Int);
  };
  TensorView* rows = broadcast(positions(-2, 0), {false, true});
  TensorView* columns = broadcast(positions(-1, -diagonal), {true, false});
  return where(le(rows, columns), in, zeroOf(in->dtype()));
}

} // namespace nvfuser
