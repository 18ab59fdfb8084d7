// SPDX-License-Identifier: BSD-3-Clause
// Sorting and selecting the largest. See library.h.
#include <base/error.h>
#include <ir/describe.h>
#include <ops/library.h>
#include <ops/library_internal.h>

#include <algorithm>

namespace nvfuser {

using namespace ops_utils;

namespace {

// A tensor without dimensions has one element along dimension 0.
int64_t wrapSortedDim(const char* op_name, int64_t dim, const TensorView* tv) {
  return wrapDim(op_name, dim, std::max<int64_t>(rank(tv), 1));
}

} // namespace

TopKResult topk(TensorView* in, Val* k, int64_t dim, bool largest, bool sorted) {
  constexpr const char* kName = "topk";
  checkOperands(kName, {in, k});
  dim = wrapSortedDim(kName, dim, in);
  NVF_CHECK(k->isScalar() && isIntegral(k->dtype()), "topk: k must be an integer scalar, but ",
            describe(k), " is ", k->dtype(), ".");
  NVF_CHECK(constInt(k).value_or(0) >= 0, "topk: Invalid resized domain extent: k is ",
            constInt(k).value_or(0), ", but must not be negative.");
  LibraryOpParts parts{.op = LibraryOpType::TopK,
                       .operands = {in, k},
                       .attributes = {dim, largest ? 1 : 0, sorted ? 1 : 0},
                       .dtypes = {in->dtype(), DataType::Int},
                       .own = {}};
  if (rank(in) > 0) {
    Val* extent = toExtent(kName, k);
    parts.own = {{extent}, {extent}};
  }
  const std::vector<TensorView*> out = makeLibraryOp(parts);
  return {out[0], out[1]};
}

TensorView* argsort(TensorView* in, int64_t dim, bool descending, bool stable) {
  constexpr const char* kName = "argsort";
  checkOperands(kName, {in});
  dim = wrapSortedDim(kName, dim, in);
  return makeLibraryOp({.op = LibraryOpType::ArgSort,
                        .operands = {in},
                        .attributes = {dim, descending ? 1 : 0, stable ? 1 : 0},
                        .dtypes = {DataType::Int},
                        .own = {}})
      .front();
}

} // namespace nvfuser
