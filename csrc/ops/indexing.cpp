// SPDX-License-Identifier: BSD-3-Clause
// See indexing.h.
#include <ops/indexing.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ops/elementwise.h>
#include <ops/indexing_internal.h>
#include <ops/reduction.h>
#include <ops/shape.h>

namespace nvfuser {

using namespace ops_utils;

namespace {

// Positions as Int or Int32. Floats, where they are accepted, are truncated.
TensorView* positions(const char* op_name, TensorView* index, bool accepts_floats = false) {
  const DataType t = index->dtype();
  NVF_CHECK(isIntegral(t) || (accepts_floats && isFloatingPoint(t)), op_name,
            ": the index must hold integers, but ", describe(index), " is ", t,
            accepts_floats ? "." : "; cast it first.");
  return t == DataType::Int || t == DataType::Int32 ? index : castOp(DataType::Int, index);
}

void checkEqualRank(const char* op_name, const TensorView* in, const TensorView* other) {
  NVF_CHECK(rank(in) == rank(other), op_name, ": Tensor arguments have dimension ", rank(in),
            " and ", rank(other), ", but must have the same number of dimensions.");
}

// A tensor can't be looked up and hold the positions in one op, which is indexed differently then.
TensorView* distinct(TensorView* in, const Val* other) {
  return in == other ? set(in) : in;
}

// Dimension of a result that has the size of `id` but not the same elements along it.
IterDomain* materialized(const IterDomain* id) {
  return id->hasExpandedExtent() ? makeDimension(id->expandedExtent(), IterType::Iteration)
                                 : copyDimension(id);
}

} // namespace

namespace ops_utils {

TensorView* indexSelectDim(TensorView* in, TensorView* index, int64_t dim) {
  index = distinct(index, in);
  Ids ids = copyDimensions(logicalIds(in));
  ids.at(static_cast<size_t>(dim)) = copyDimension(logicalIds(index).at(0));
  auto* out = makeTensor(std::move(ids), in->dtype());
  IrBuilder::create<IndexSelectOp>(out, in, index, dim);
  return out;
}

TensorView* rollDims(TensorView* in, const std::vector<int64_t>& offsets,
                     const std::vector<int64_t>& view_dims) {
  const Ids from = logicalIds(in);
  Ids ids(offsets.size(), nullptr);
  for (size_t i = 0; i < from.size(); ++i) {
    IterDomain*& id = ids.at(static_cast<size_t>(view_dims.at(i)));
    if (id == nullptr) {
      id = copyDimension(from[i]);
    } else {
      const auto outer = constInt(id->extent());
      const auto inner = constInt(from[i]->extent());
      NVF_ERROR(outer.has_value() && inner.has_value(), "roll: the sizes of a view are not known");
      id = makeDimension(IrBuilder::index(*outer * *inner), IterType::Iteration);
    }
  }
  auto* out = makeTensor(std::move(ids), in->dtype());
  IrBuilder::create<RollOp>(out, in, offsets, view_dims);
  return out;
}

TensorView* selectDim(TensorView* in, Val* index, int64_t dim) {
  if (index == in) {
    index = set(index);
  }
  Ids ids = copyDimensions(logicalIds(in));
  ids.erase(ids.begin() + dim);
  auto* out = makeTensor(std::move(ids), in->dtype());
  IrBuilder::create<SelectOp>(out, in, index, dim);
  return out;
}

TensorView* gatherDim(TensorView* in, TensorView* index, int64_t dim, bool exact) {
  index = distinct(index, in);
  const Ids in_ids = logicalIds(in);
  const Ids index_ids = logicalIds(index);
  Ids ids;
  for (size_t d = 0; d < index_ids.size(); ++d) {
    if (exact && static_cast<int64_t>(d) != dim) {
      ids.push_back(elementwiseDimension("take_along_axis", d, {in, index}));
    } else {
      ids.push_back(materialized(index_ids[d]));
    }
  }
  auto* out = makeTensor(std::move(ids), in->dtype());
  IrBuilder::create<GatherOp>(out, in, index, dim, exact);
  return out;
}

TensorView* scatterDim(TensorView* in, TensorView* index, Val* src, int64_t dim) {
  index = distinct(index, in);
  if (src == in || src == index) {
    src = set(src);
  }
  Ids ids;
  for (const IterDomain* id : logicalIds(in)) {
    ids.push_back(materialized(id));
  }
  auto* out = makeTensor(std::move(ids), in->dtype());
  IrBuilder::create<ScatterOp>(out, in, index, src, dim);
  return out;
}

TensorView* embeddingRows(TensorView* weight, TensorView* index) {
  index = distinct(index, weight);
  Ids ids = copyDimensions(logicalIds(index));
  ids.push_back(copyDimension(logicalIds(weight).at(1)));
  auto* out = makeTensor(std::move(ids), weight->dtype());
  IrBuilder::create<EmbeddingFwdOp>(out, weight, index);
  return out;
}

} // namespace ops_utils

TensorView* index_select(TensorView* in, TensorView* index, int64_t dim) {
  constexpr const char* kName = "index_select";
  checkOperands(kName, {in, index});
  dim = wrapDim(kName, dim, rank(in));
  NVF_CHECK(rank(index) <= 1, "index_select: the index must be of rank 1 or 0, but ",
            describe(index), " has rank ", rank(index), ".");
  index = positions(kName, index);
  return indexSelectDim(in, rank(index) == 0 ? unsqueeze(index, 0) : index, dim);
}

TensorView* select(TensorView* in, Val* index, int64_t dim) {
  constexpr const char* kName = "select";
  checkOperands(kName, {in, index});
  dim = wrapDim(kName, dim, rank(in));
  if (auto* tv = tryAs<TensorView>(index)) {
    NVF_CHECK(rank(tv) == 0, "select: the index must be a scalar or a tensor of rank 0, but ",
              describe(tv), " has rank ", rank(tv), ".");
    return selectDim(in, positions(kName, tv), dim);
  }
  NVF_CHECK(isIntegral(index->dtype()), "select: the index must be an integer, but ",
            describe(index), " is ", index->dtype(), ".");
  const auto position = constInt(index);
  const auto n = constInt(size(in, dim));
  NVF_CHECK(!position || !n || (*position >= -*n && *position < *n), "select: the index ",
            position.value_or(0), " is out of range for dimension ", dim, " of size ",
            n.value_or(0), ".");
  return selectDim(in, index, dim);
}

TensorView* gather(TensorView* in, TensorView* index, int64_t dim) {
  checkOperands("gather", {in, index});
  checkEqualRank("gather", in, index);
  dim = wrapDim("gather", dim, rank(in));
  return gatherDim(in, positions("gather", index), dim, /*exact=*/false);
}

TensorView* take_along_axis(TensorView* in, TensorView* index, int64_t dim) {
  constexpr const char* kName = "take_along_axis";
  checkOperands(kName, {in, index});
  checkEqualRank(kName, in, index);
  dim = wrapDim(kName, dim, rank(in));
  // Thunder's cross entropy makes positions by a where with a float scalar.
  return gatherDim(in, positions(kName, index, /*accepts_floats=*/true), dim, /*exact=*/true);
}

TensorView* scatter(TensorView* in, TensorView* index, Val* src, int64_t dim) {
  constexpr const char* kName = "scatter";
  checkOperands(kName, {in, index, src});
  checkEqualRank(kName, in, index);
  dim = wrapDim(kName, dim, rank(in));
  if (auto* tv = tryAs<TensorView>(src)) {
    checkEqualRank(kName, in, tv);
    src = tv->dtype() == in->dtype() ? tv : castOp(in->dtype(), tv);
  } else {
    src = castScalar(src, in->dtype(), /*exact=*/true);
  }
  return scatterDim(in, positions(kName, index), src, dim);
}

namespace {

// Rows scaled down to the given norm, as torch.embedding_renorm_ does to the weight.
TensorView* limitedRows(TensorView* rows, Val* max_norm, Val* norm_type) {
  TensorView* wide = isLowPrecision(rows->dtype()) ? castOp(DataType::Float, rows) : rows;
  TensorView* powers = pow(abs(wide), norm_type);
  Val* inverse = reciprocal(castScalar(norm_type, DataType::Double, /*exact=*/true));
  TensorView* norm = pow(sum(powers, {-1}, /*keepdim=*/true), inverse);
  TensorView* scale = div(max_norm, add(norm, IrBuilder::create<Val>(1e-7)));
  TensorView* one_or_scale =
      where(gt(norm, max_norm), scale, IrBuilder::create<Val>(1.0, wide->dtype()));
  TensorView* out = mul(wide, one_or_scale);
  return out->dtype() == rows->dtype() ? out : castOp(rows->dtype(), out);
}

} // namespace

TensorView* embedding_fwd(TensorView* index, TensorView* weight, Val* padding_idx, Val* max_norm,
                          Val* norm_type, Val* scale_grad_by_freq, Val* sparse) {
  constexpr const char* kName = "embedding_fwd";
  checkOperands(kName, {index, weight});
  for (const Val* v : {padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse}) {
    NVF_CHECK(v == nullptr || v->isScalar(),
              "embedding_fwd: the optional arguments must be scalars.");
  }
  NVF_CHECK(rank(index) >= 1,
            "embedding_fwd: the input must be of rank 1 or more, but is of rank 0.");
  NVF_CHECK(rank(weight) == 2, "embedding_fwd: the weight must be of rank 2, but is of rank ",
            rank(weight), ".");
  NVF_CHECK(isIntegral(index->dtype()), "embedding_fwd: the input must hold integers, but is ",
            index->dtype(), ".");
  TensorView* rows = embeddingRows(weight, positions(kName, index));
  if (max_norm == nullptr) {
    return rows;
  }
  checkOperand(kName, max_norm);
  if (norm_type == nullptr) {
    norm_type = IrBuilder::create<Val>(2.0);
  }
  checkOperand(kName, norm_type);
  return limitedRows(rows, max_norm, norm_type);
}

} // namespace nvfuser
