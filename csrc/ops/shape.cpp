// SPDX-License-Identifier: BSD-3-Clause
// Broadcast, expand, squeeze, reshape, permute, memory order, sizes. See shape.h; slice, pad, cat
// and triu are in slice_pad.cpp.
#include <ops/shape.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ops/elementwise.h>
#include <ops/shape_internal.h>
#include <ops/utils.h>

#include <algorithm>
#include <numeric>

namespace nvfuser {

using namespace ops_utils;

std::vector<Val*> shapeVals(const std::vector<int64_t>& shape) {
  std::vector<Val*> out;
  for (size_t i = 0; i < shape.size(); ++i) {
    NVF_CHECK(shape[i] >= -1, "The value ", shape[i], " at index ", i,
              " was neither symbolic(-1), zero_element(0), broadcast(1), or static(>1).");
    out.push_back(IrBuilder::index(shape[i]));
  }
  return out;
}

namespace {

bool isMinusOne(const Val* v) {
  return constInt(v) == int64_t{-1};
}

// Entries of a user's shape as extents; -1 stays.
std::vector<Val*> checkedShape(const char* op_name, const std::vector<Val*>& shape) {
  std::vector<Val*> out;
  for (size_t i = 0; i < shape.size(); ++i) {
    Val* extent = toExtent(op_name, shape[i]);
    const auto size = constInt(extent);
    NVF_CHECK(!size || *size >= -1, op_name, ": The value ", size.value_or(0), " at index ", i,
              " was neither symbolic(-1), zero_element(0), broadcast(1), or static(>1).");
    out.push_back(extent);
  }
  return out;
}

} // namespace

// ---- broadcast, expand

TensorView* broadcast(TensorView* in, const std::vector<bool>& is_broadcast_dim) {
  checkOperand("broadcast", in);
  const Ids ids = logicalIds(in);
  const auto kept = std::count(is_broadcast_dim.begin(), is_broadcast_dim.end(), false);
  NVF_CHECK(kept == static_cast<int64_t>(ids.size()),
            "Invalid broadcast, number of false entries in is_broadcast_dim expected to be ",
            ids.size(), " but received ", kept);
  if (is_broadcast_dim.size() == ids.size()) {
    return in;
  }
  Ids out;
  size_t next = 0;
  for (const bool inserted : is_broadcast_dim) {
    out.push_back(inserted ? makeDimension(in->container()->oneVal()) : copyDimension(ids[next++]));
  }
  auto* result = makeTensor(std::move(out), in->dtype());
  IrBuilder::create<BroadcastOp>(result, in, is_broadcast_dim);
  return result;
}

TensorView* unsqueeze(TensorView* in, int64_t dim) {
  checkOperand("unsqueeze", in);
  std::vector<bool> flags(static_cast<size_t>(rank(in)) + 1, false);
  flags[static_cast<size_t>(wrapDim("unsqueeze", dim, rank(in) + 1))] = true;
  return broadcast(in, flags);
}

namespace {

// Dimension `id` of a tensor expanded to `target`.
IterDomain* expandedDimension(TensorView* in, size_t dim, IterDomain* id, Val* target) {
  if (isMinusOne(target)) {
    return copyDimension(id);
  }
  const auto wanted = constInt(target);
  if (id->isBroadcast()) {
    if (id->hasExpandedExtent()) {
      const auto have = constInt(id->expandedExtent());
      NVF_CHECK(!wanted || !have || *wanted == *have, "expand: dimension ", dim, " of ",
                describe(in), " was expanded to ", have.value_or(0), " and can't be expanded to ",
                wanted.value_or(0), ".");
      return copyDimension(id);
    }
    if (target->isOneInt()) {
      return copyDimension(id);
    }
    return IterDomainBuilder(in->container()->oneVal())
        .iterType(IterType::Broadcast)
        .expandedExtent(target)
        .build();
  }
  const auto have = constInt(id->extent());
  // One that is known to be 1 (expanded to that before) is a broadcast when the fusion runs.
  const bool is_one = id->isSymbolicType() && have == 1;
  NVF_CHECK(!wanted || !have || *wanted == *have || is_one, "expand: dimension ", dim, " has size ",
            have.value_or(0), " and can't be expanded to ", wanted.value_or(0), ".");
  if (id->isSymbolicType()) {
    return makeDimension(target, IterType::Symbolic);
  }
  // The size asked for is kept, so that a tensor of another size is noticed when the fusion runs.
  const bool same = (wanted.has_value() && have.has_value()) || id->extent()->sameAs(target);
  return same ? copyDimension(id) : makeDimension(target, IterType::Iteration);
}

} // namespace

namespace ops_utils {

TensorView* expandTo(TensorView* in, const std::vector<Val*>& shape, bool copy_if_same) {
  const Ids ids = logicalIds(in);
  NVF_ERROR(ids.size() == shape.size());
  Ids out;
  bool any_expanded = false;
  for (size_t d = 0; d < ids.size(); ++d) {
    out.push_back(expandedDimension(in, d, ids[d], shape[d]));
    const bool grown = out[d]->hasExpandedExtent() && !ids[d]->hasExpandedExtent();
    any_expanded = any_expanded || grown || ids[d]->isSymbolicType() ||
                   out[d]->getMaybeExpandedExtent() != ids[d]->getMaybeExpandedExtent();
  }
  if (!any_expanded && !copy_if_same) {
    return in;
  }
  std::vector<Val*> sizes;
  for (size_t d = 0; d < ids.size(); ++d) {
    const bool kept =
        isMinusOne(shape[d]) || (ids[d]->isIteration() && out[d]->extent() == ids[d]->extent() &&
                                 !out[d]->extent()->isConst());
    sizes.push_back(kept ? IrBuilder::index(-1) : out[d]->getMaybeExpandedExtent());
  }
  auto* result = makeTensor(std::move(out), in->dtype());
  if (any_expanded) {
    IrBuilder::create<ExpandOp>(result, in, std::move(sizes));
  } else {
    IrBuilder::create<LoadStoreOp>(LoadStoreOpType::Set, result, in);
  }
  return result;
}

} // namespace ops_utils

TensorView* expand(TensorView* in, const std::vector<Val*>& shape) {
  checkOperand("expand", in);
  const std::vector<Val*> sizes = checkedShape("expand", shape);
  const int64_t missing = static_cast<int64_t>(sizes.size()) - rank(in);
  NVF_CHECK(missing >= 0, "expand: the shape has ", sizes.size(), " entries, fewer than the ",
            rank(in), " dimensions of the tensor.");
  for (int64_t d = 0; d < missing; ++d) {
    NVF_CHECK(!isMinusOne(sizes[static_cast<size_t>(d)]), "expand: the new dimension ", d,
              " can't have size -1.");
  }
  if (missing > 0) {
    std::vector<bool> flags(sizes.size(), false);
    std::fill_n(flags.begin(), missing, true);
    in = broadcast(in, flags);
  }
  return expandTo(in, sizes, /*copy_if_same=*/missing == 0);
}

TensorView* expand_as(TensorView* in, TensorView* other) {
  checkOperands("expand_as", {in, other});
  return expand(in, shape(other));
}

TensorView* broadcast_in_dim(TensorView* in, const std::vector<Val*>& shape,
                             const std::vector<int64_t>& broadcast_dims) {
  checkOperand("broadcast_in_dim", in);
  const auto out_rank = static_cast<int64_t>(shape.size());
  NVF_CHECK(static_cast<int64_t>(broadcast_dims.size()) == rank(in),
            "broadcast_in_dim: broadcast_dims needs one entry per dimension of the input (",
            rank(in), "), but has ", broadcast_dims.size(), ".");
  NVF_CHECK(out_rank >= rank(in), "broadcast_in_dim: the shape has ", out_rank,
            " entries, fewer than the ", rank(in), " dimensions of the input.");
  std::vector<bool> is_broadcast_dim(shape.size(), true);
  int64_t previous = -1;
  for (const int64_t dim : broadcast_dims) {
    const int64_t wrapped = dim < 0 ? dim + out_rank : dim;
    NVF_CHECK(wrapped >= 0 && wrapped < out_rank, "broadcast_in_dim: the entry ", dim,
              " of broadcast_dims is out of range for a result of rank ", out_rank, ".");
    NVF_CHECK(is_broadcast_dim[static_cast<size_t>(wrapped)],
              "broadcast_in_dim: broadcast_dims has the entry ", dim, " twice.");
    NVF_CHECK(wrapped > previous, "broadcast_in_dim: broadcast_dims must be strictly ascending.");
    previous = wrapped;
    is_broadcast_dim[static_cast<size_t>(wrapped)] = false;
  }
  TensorView* spread = broadcast(in, is_broadcast_dim);
  return expandTo(spread, checkedShape("broadcast_in_dim", shape), /*copy_if_same=*/spread == in);
}

// ---- squeeze

namespace ops_utils {

TensorView* squeezeDims(TensorView* in, const std::vector<bool>& is_squeeze_dim,
                        bool squeeze_expanded) {
  const Ids ids = logicalIds(in);
  Ids out;
  for (size_t d = 0; d < ids.size(); ++d) {
    if (!is_squeeze_dim.at(d)) {
      out.push_back(copyDimension(ids[d]));
    }
  }
  auto* result = makeTensor(std::move(out), in->dtype());
  IrBuilder::create<SqueezeOp>(result, in, is_squeeze_dim, squeeze_expanded);
  return result;
}

} // namespace ops_utils

TensorView* squeeze(TensorView* in, const std::vector<bool>& is_squeeze_dim,
                    bool squeeze_expanded) {
  checkOperand("squeeze", in);
  const Ids ids = logicalIds(in);
  NVF_CHECK(is_squeeze_dim.size() == ids.size(),
            "squeeze: needs one flag per dimension of the input (", ids.size(), "), but got ",
            is_squeeze_dim.size(), ".");
  if (std::none_of(is_squeeze_dim.begin(), is_squeeze_dim.end(), [](bool b) { return b; })) {
    return set(in);
  }
  for (size_t d = 0; d < ids.size(); ++d) {
    if (!is_squeeze_dim[d]) {
      continue;
    }
    NVF_CHECK(ids[d]->isBroadcast() || ids[d]->isSymbolicType(), "squeeze: dimension ", d, " of ",
              describe(in), " can't be squeezed: it has size ", ids[d]->extent()->toInlineString(),
              ", not 1.");
    NVF_CHECK(squeeze_expanded || !ids[d]->hasExpandedExtent(),
              "squeeze: Refusing to squeeze expanded IterDomain ", describe(ids[d]),
              ". To force removal of this axis, use squeeze_expanded=true.");
  }
  return squeezeDims(in, is_squeeze_dim, squeeze_expanded);
}

TensorView* squeeze(TensorView* in, const std::vector<int64_t>& dims, bool squeeze_expanded) {
  checkOperand("squeeze", in);
  const int64_t n = rank(in);
  NVF_CHECK(static_cast<int64_t>(dims.size()) <= n,
            "squeeze: The dims to squeeze must be <= the number of dims of the input tensor. "
            "Squeeze dims: ",
            dims.size(), " Input Tensor dims: ", n);
  std::vector<bool> flags(static_cast<size_t>(n), false);
  for (const int64_t dim : dims) {
    const int64_t wrapped = dim < 0 ? dim + n : dim;
    NVF_CHECK(wrapped >= 0 && wrapped < n,
              "squeeze: Squeeze dim is outside of Tensor size! Tensor Size: ", n, " Dim: ", dim);
    flags[static_cast<size_t>(wrapped)] = true;
  }
  return squeeze(in, flags, squeeze_expanded);
}

// ---- reshape

namespace {

// product(in) / product(out without the entry to find), cancelling equal factors so that the result
// stays readable.
Val* inferredSize(std::vector<Val*> in, std::vector<Val*> out) {
  for (auto o = out.begin(); o != out.end();) {
    auto i = std::find_if(in.begin(), in.end(), [&](Val* v) { return v->sameAs(*o); });
    if (i == in.end() || (*i)->isZeroInt()) {
      ++o;
      continue;
    }
    in.erase(i);
    o = out.erase(o);
  }
  // The constants on both sides by themselves, so that they cancel as well.
  const auto take_constants = [](std::vector<Val*>& factors) {
    int64_t product = 1;
    std::erase_if(factors, [&](const Val* v) {
      product *= constInt(v).value_or(1);
      return v->isConstInt();
    });
    return product;
  };
  int64_t n = take_constants(in);
  int64_t d = take_constants(out);
  NVF_CHECK(d != 0,
            "reshape: the entry -1 can't be found, because another entry of the new shape is 0.");
  NVF_CHECK(!in.empty() || !out.empty() || n % d == 0,
            "reshape: Total element counts across view operation must match: ", n,
            " elements can't be divided by ", d, ".");
  const int64_t common = std::gcd(n, d);
  n /= common;
  d /= common;
  const auto product = [](const std::vector<Val*>& factors, int64_t constant) {
    Val* result = nullptr;
    for (Val* v : factors) {
      result = result == nullptr ? v : IrBuilder::mulExpr(result, v);
    }
    if (result == nullptr) {
      return IrBuilder::index(constant);
    }
    return constant == 1 ? result : IrBuilder::mulExpr(result, IrBuilder::index(constant));
  };
  Val* numerator = product(in, n);
  Val* denominator = product(out, d);
  return IrBuilder::divExpr(numerator, denominator);
}

// A size that is computed in floating point, such as 192 * reciprocal(s), is the nearest integer: a
// truncated one would be too small where the reciprocal was rounded down.
std::vector<Val*> roundedSizes(std::vector<Val*> sizes) {
  for (Val*& v : sizes) {
    checkOperand("reshape", v);
    if (v->isScalar() && isFloatingPoint(v->dtype())) {
      v = castScalar(round(v), DataType::Int, /*exact=*/true);
    }
  }
  return sizes;
}

std::optional<int64_t> constProduct(const std::vector<Val*>& sizes) {
  int64_t product = 1;
  for (const Val* v : sizes) {
    const auto size = constInt(v);
    if (!size) {
      return std::nullopt;
    }
    product *= *size;
  }
  return product;
}

} // namespace

TensorView* reshape(TensorView* in, const std::vector<Val*>& new_shape) {
  checkOperand("reshape", in);
  std::vector<Val*> sizes = checkedShape("reshape", roundedSizes(new_shape));
  const std::vector<Val*> in_sizes = shape(in);
  const auto inferred = std::find_if(sizes.begin(), sizes.end(), isMinusOne);
  if (inferred != sizes.end()) {
    NVF_CHECK(std::count_if(sizes.begin(), sizes.end(), isMinusOne) == 1,
              "reshape: A maximum of one value of -1 can be provided.");
    std::vector<Val*> others(sizes.begin(), inferred);
    others.insert(others.end(), inferred + 1, sizes.end());
    *inferred = inferredSize(in_sizes, others);
  }
  const auto in_elements = constProduct(in_sizes);
  const auto out_elements = constProduct(sizes);
  NVF_CHECK(!in_elements || !out_elements || *in_elements == *out_elements,
            "reshape: Total element counts across view operation must match. The input has ",
            in_elements.value_or(0), " elements, the new shape ", out_elements.value_or(0), ".");
  if (TensorView* view = constantReshape(in, sizes)) {
    return view;
  }
  Ids out;
  for (Val* extent : sizes) {
    out.push_back(makeDimension(extent));
  }
  auto* result = makeTensor(std::move(out), in->dtype());
  IrBuilder::create<ReshapeOp>(result, in, std::move(sizes));
  return result;
}

TensorView* reshape(TensorView* in, const std::vector<int64_t>& new_shape) {
  return reshape(in, shapeVals(new_shape));
}

// ---- permute, memory order

namespace ops_utils {

TensorView* permuteTo(TensorView* in, const std::vector<int64_t>& dims) {
  Ids root = copyDimensions(logicalIds(in));
  Ids logical;
  for (const int64_t d : dims) {
    logical.push_back(root.at(static_cast<size_t>(d)));
  }
  auto* result = makeTensor(std::move(root), std::move(logical), in->dtype());
  IrBuilder::create<LoadStoreOp>(LoadStoreOpType::Set, result, in);
  return result;
}

} // namespace ops_utils

TensorView* permute(TensorView* in, const std::vector<int64_t>& dims) {
  checkOperand("permute", in);
  const int64_t n = rank(in);
  NVF_CHECK(static_cast<int64_t>(dims.size()) == n,
            "permute: expects the dims argument to have the same length as input, but got ",
            dims.size(), " entries for a tensor of rank ", n, ".");
  std::vector<int64_t> wrapped;
  std::vector<bool> seen(dims.size(), false);
  for (const int64_t dim : dims) {
    const int64_t d = dim < 0 ? dim + n : dim;
    NVF_CHECK(d >= 0 && d < n, "permute: dims argument is out of range, expects entries from ", -n,
              " to ", n - 1, ", but got ", dim, ".");
    NVF_CHECK(!seen[static_cast<size_t>(d)],
              "permute: duplicated dimension entries in the dims argument: ", dim, ".");
    seen[static_cast<size_t>(d)] = true;
    wrapped.push_back(d);
  }
  return permuteTo(in, wrapped);
}

TensorView* transpose(TensorView* in, int64_t dim0, int64_t dim1) {
  checkOperand("transpose", in);
  const int64_t n = rank(in);
  std::vector<int64_t> dims(static_cast<size_t>(n));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[static_cast<size_t>(wrapDim("transpose", dim0, n))],
            dims[static_cast<size_t>(wrapDim("transpose", dim1, n))]);
  return permute(in, dims);
}

TensorView* stride_order(TensorView* in, const std::vector<int64_t>& order) {
  checkOperand("stride_order", in);
  if (order.empty()) {
    return set(in);
  }
  Ids logical = copyDimensions(logicalIds(in));
  const auto n = static_cast<int64_t>(logical.size());
  NVF_CHECK(static_cast<int64_t>(order.size()) == n,
            "stride_order: needs one entry per dimension of the input (", n, "), but has ",
            order.size(), ".");
  Ids allocation(logical.size(), nullptr);
  for (size_t d = 0; d < logical.size(); ++d) {
    const int64_t o = order[d] < 0 ? order[d] + n : order[d];
    NVF_CHECK(o >= 0 && o < n, "stride_order argument is out of range: entry ", order[d],
              " for a tensor of rank ", n, ".");
    IterDomain*& position = allocation[static_cast<size_t>(n - 1 - o)];
    NVF_CHECK(position == nullptr, "duplicated stride_order entries: ", order[d], ".");
    position = logical[d];
  }
  auto* result = makeTensor(std::move(logical), in->dtype());
  result->domain()->setAllocationDomain(allocation,
                                        TensorDomain::contiguityFilledWith(allocation, true));
  IrBuilder::create<LoadStoreOp>(LoadStoreOpType::Set, result, in);
  return result;
}

// ---- sizes

Val* size(TensorView* in, int64_t dim) {
  checkOperand("size", in);
  const Ids ids = logicalIds(in);
  return ids[static_cast<size_t>(wrapDim("size", dim, rank(in)))]->getMaybeExpandedExtent();
}

std::vector<Val*> shape(TensorView* in) {
  checkOperand("shape", in);
  std::vector<Val*> out;
  for (const IterDomain* id : logicalIds(in)) {
    out.push_back(id->getMaybeExpandedExtent());
  }
  return out;
}

} // namespace nvfuser
