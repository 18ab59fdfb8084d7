// SPDX-License-Identifier: BSD-3-Clause
// See creation.h.
#include <ops/creation.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ops/shape.h>
#include <ops/type_promotion.h>
#include <ops/utils.h>

#include <cmath>

namespace nvfuser {

using namespace ops_utils;

TensorView* full(const std::vector<Val*>& shape, Val* fill_value, DataType dtype) {
  checkOperand("full", fill_value);
  NVF_CHECK(fill_value->isScalar(), "full: fill_value must be a scalar.");
  NVF_CHECK(fill_value->isConst() || isLegalCast(fill_value->dtype(), dtype),
            "full: a fill_value of type ", fill_value->dtype(), " can't be converted to ", dtype,
            ".");
  Ids ids;
  for (size_t i = 0; i < shape.size(); ++i) {
    Val* extent = toExtent("full", shape[i]);
    const auto n = constInt(extent);
    NVF_CHECK(!n || *n >= 0, "full: the size ", n.value_or(0), " at index ", i, " is negative.");
    ids.push_back(makeDimension(extent));
  }
  auto* out = makeTensor(std::move(ids), dtype);
  IrBuilder::create<FullOp>(out, castScalar(fill_value, dtype, /*exact=*/true));
  return out;
}

TensorView* full_like(TensorView* tv, Val* fill_value) {
  checkOperand("full_like", tv);
  return full(shape(tv), fill_value, tv->dtype());
}

TensorView* zeros(const std::vector<Val*>& shape, DataType dtype) {
  return full(shape, zeroOf(dtype), dtype);
}

TensorView* ones(const std::vector<Val*>& shape, DataType dtype) {
  return full(shape, IrBuilder::create<Val>(int64_t{1}), dtype);
}

TensorView* zeros_like(TensorView* tv) {
  checkOperand("zeros_like", tv);
  return zeros(shape(tv), tv->dtype());
}

TensorView* ones_like(TensorView* tv) {
  checkOperand("ones_like", tv);
  return ones(shape(tv), tv->dtype());
}

namespace {

bool isFinite(const Val* v) {
  const auto* d = std::get_if<double>(&v->value());
  return d == nullptr || std::isfinite(*d);
}

bool isZero(const Val* v) {
  const auto* d = std::get_if<double>(&v->value());
  return v->isZeroInt() || (d != nullptr && *d == 0.0);
}

} // namespace

TensorView* iota(Val* length, Val* start, Val* step, DataType dtype) {
  NVF_CHECK(isIntegral(dtype) || isFloatingPoint(dtype),
            "iota: the dtype must be an integer or a float.");
  checkOperand("iota", length);
  start = start != nullptr ? start : zeroOf(dtype);
  step = step != nullptr ? step : castScalar(IrBuilder::create<Val>(int64_t{1}), dtype, true);
  checkOperands("iota", {start, step});
  NVF_CHECK(isFinite(length) && isFinite(start) && isFinite(step),
            "iota: length, start, step must be finite numbers.");
  NVF_CHECK(length->isScalar() && isIntegral(length->dtype()),
            "iota: length must be integer, but it is ", length->dtype(), ".");
  NVF_CHECK(sameCategory(start->dtype(), dtype),
            "iota: start dtype does not match specified dtype argument: ", start->dtype(), " and ",
            dtype, ".");
  NVF_CHECK(sameCategory(step->dtype(), dtype),
            "iota: step dtype does not match specified dtype argument: ", step->dtype(), " and ",
            dtype, ".");
  NVF_CHECK(!isZero(step), "iota: step value must not equal zero.");
  Val* extent = toExtent("iota", length);
  NVF_CHECK(constInt(extent).value_or(0) >= 0, "iota: length must not be negative, but it is ",
            extent->toInlineString(), ".");
  auto* out = makeTensor({makeDimension(extent)}, dtype);
  IrBuilder::create<IotaOp>(out, extent, castScalar(start, dtype, /*exact=*/true),
                            castScalar(step, dtype, /*exact=*/true));
  return out;
}

} // namespace nvfuser
