// SPDX-License-Identifier: BSD-3-Clause
// See reduction.h.
#include <ops/reduction.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/evaluator.h>
#include <ops/creation.h>
#include <ops/elementwise.h>
#include <ops/reduction_internal.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>

#include <algorithm>
#include <limits>

namespace nvfuser {

using namespace ops_utils;

namespace {

// The name users know an op by.
const char* reductionName(OpType op) {
  switch (op) {
    case OpType::Add:
      return "sum";
    case OpType::Mul:
      return "prod";
    case OpType::Minimum:
      return "min";
    case OpType::Maximum:
      return "max";
    default:
      NVF_CHECK_FAIL("reduction: ", opInfo(op).name, " is not one of add, mul, minimum, maximum.");
  }
}

bool any(const std::vector<bool>& flags) {
  return std::any_of(flags.begin(), flags.end(), [](bool b) { return b; });
}

template <class Drop>
Ids withoutDims(const Ids& ids, const Drop& drop) {
  Ids out;
  for (size_t d = 0; d < ids.size(); ++d) {
    if (!drop.at(d)) {
      out.push_back(ids[d]);
    }
  }
  return out;
}

// One value in place of a reduction: the kept dimensions, expanded ones as real ones.
TensorView* filled(const Ids& kept, Val* value, DataType dtype) {
  Ids ids;
  for (const IterDomain* id : kept) {
    ids.push_back(id->hasExpandedExtent() ? makeDimension(id->expandedExtent(), IterType::Iteration)
                                          : copyDimension(id));
  }
  auto* out = makeTensor(std::move(ids), dtype);
  IrBuilder::create<FullOp>(out, castScalar(value, dtype, /*exact=*/true));
  return out;
}

// A result of a reduction over the flagged dimensions, which are iteration (or still Symbolic)
// domains.
TensorView* reducedTensor(const Ids& ids, const std::vector<bool>& is_reduced, DataType dtype) {
  Ids out;
  for (size_t d = 0; d < ids.size(); ++d) {
    out.push_back(is_reduced[d]
                      ? IterDomainBuilder(ids[d]->extent()).iterType(IterType::Reduction).build()
                      : copyDimension(ids[d]));
  }
  return makeTensor(std::move(out), dtype);
}

// What is left to reduce after the broadcasts among the flagged dimensions were squeezed.
struct Squeezed {
  TensorView* tensor;
  std::vector<bool> is_reduced;
  // How often each element counts.
  Val* times;
};

Squeezed squeezeBroadcasts(TensorView* in, const std::vector<bool>& is_reduced) {
  const Ids ids = logicalIds(in);
  std::vector<bool> is_squeezed;
  std::vector<bool> rest;
  bool any_expanded = false;
  Val* times = in->container()->oneVal();
  for (size_t d = 0; d < ids.size(); ++d) {
    is_squeezed.push_back(is_reduced.at(d) && ids[d]->isBroadcast());
    if (!is_squeezed[d]) {
      rest.push_back(is_reduced[d]);
    } else if (ids[d]->hasExpandedExtent()) {
      any_expanded = true;
      times = IrBuilder::mulExpr(times, ids[d]->expandedExtent());
    }
  }
  if (any(is_squeezed)) {
    in = squeezeDims(in, is_squeezed, /*squeeze_expanded=*/any_expanded);
  }
  return {in, std::move(rest), times};
}

bool isEmptyForCertain(const Ids& ids, const std::vector<bool>& is_reduced) {
  for (size_t d = 0; d < ids.size(); ++d) {
    if (is_reduced[d] && ids[d]->getMaybeExpandedExtent()->isZeroInt()) {
      return true;
    }
  }
  return false;
}

// `value` unless an expanded dimension turns out to be empty.
TensorView* unlessEmpty(Val* times, Val* identity, TensorView* value) {
  if (times->isConst()) {
    return value;
  }
  return where(eq(times, times->container()->zeroVal()), identity, value);
}

} // namespace

namespace ops_utils {

ScalarValue identityValue(OpType op, DataType dtype) {
  if (op == OpType::Minimum || op == OpType::Maximum) {
    return boundOf(dtype, /*upper=*/op == OpType::Minimum);
  }
  NVF_ERROR(op == OpType::Add || op == OpType::Mul, opInfo(op).name, " has no identity");
  return convertScalar(int64_t{op == OpType::Mul ? 1 : 0}, dtype);
}

Val* identityOf(OpType op, DataType dtype) {
  return IrBuilder::create<Val>(identityValue(op, dtype), dtype);
}

std::vector<bool> axisFlags(const char* op_name, const TensorView* in,
                            const std::vector<int64_t>& axes) {
  const int64_t n = rank(in);
  if (n == 0) {
    // As in torch, the axes of a scalar may be called 0 and -1.
    for (const int64_t axis : axes) {
      wrapDim(op_name, axis, 1);
    }
    return {};
  }
  NVF_CHECK(!axes.empty(), op_name, ": No reduction axis specified.");
  std::vector<bool> flags(static_cast<size_t>(n), false);
  for (const int64_t axis : axes) {
    const auto d = static_cast<size_t>(wrapDim(op_name, axis, n));
    NVF_CHECK(!flags[d], op_name, ": the reduction axis ", axis, " is named twice.");
    flags[d] = true;
  }
  return flags;
}

TensorView* reduceDims(OpType op, TensorView* in, const std::vector<bool>& is_reduced) {
  const Ids ids = logicalIds(in);
  const DataType dtype = in->dtype();
  if (isEmptyForCertain(ids, is_reduced)) {
    return filled(withoutDims(ids, is_reduced), identityOf(op, dtype), dtype);
  }
  const Squeezed rest = squeezeBroadcasts(in, is_reduced);
  TensorView* out = rest.tensor;
  if (any(rest.is_reduced)) {
    out = reducedTensor(logicalIds(rest.tensor), rest.is_reduced, dtype);
    IrBuilder::create<ReductionOp>(op, identityOf(op, dtype), out, rest.tensor);
  }
  if (rest.times->isOneInt()) {
    return out;
  }
  const auto repeat = [&](TensorView* of) {
    const OpType repeated = op == OpType::Add ? OpType::Mul : OpType::Pow;
    return elementwiseAsIs(repeated, of->dtype(), {of, castScalar(rest.times, of->dtype())})
        ->as<TensorView>();
  };
  if (op == OpType::Add && isComplex(dtype)) {
    // A product with a complex number has NaN where a part is infinite.
    out = complex(repeat(real(out)), repeat(imag(out)));
  } else if (op == OpType::Add || op == OpType::Mul) {
    out = repeat(out);
  }
  return unlessEmpty(rest.times, identityOf(op, dtype), out);
}

WelfordResult welfordDims(TensorView* in, const std::vector<bool>& is_reduced) {
  const Ids ids = logicalIds(in);
  const DataType dtype = in->dtype();
  const auto constant = [&](const Ids& kept, int64_t value, DataType t) {
    return filled(kept, IrBuilder::create<Val>(value), t);
  };
  if (isEmptyForCertain(ids, is_reduced)) {
    const Ids kept = withoutDims(ids, is_reduced);
    return {constant(kept, 0, dtype), constant(kept, 0, dtype), constant(kept, 0, DataType::Index)};
  }
  const Squeezed rest = squeezeBroadcasts(in, is_reduced);
  const Ids left = logicalIds(rest.tensor);
  WelfordResult out;
  if (any(rest.is_reduced)) {
    out.avg = reducedTensor(left, rest.is_reduced, dtype);
    out.var_sum = reducedTensor(left, rest.is_reduced, dtype);
    out.n = reducedTensor(left, rest.is_reduced, DataType::Index);
    IrBuilder::create<WelfordOp>(out.avg, out.var_sum, out.n, rest.tensor);
  } else {
    // Deviations of single elements; NaN where the element has none.
    out = {rest.tensor, sub(rest.tensor, rest.tensor), constant(left, 1, DataType::Index)};
  }
  if (!rest.times->isOneInt()) {
    const auto repeated = [&](TensorView* tv) {
      return elementwiseAsIs(OpType::Mul, tv->dtype(), {tv, castScalar(rest.times, tv->dtype())})
          ->as<TensorView>();
    };
    out.var_sum = unlessEmpty(rest.times, zeroOf(dtype), repeated(out.var_sum));
    out.n = repeated(out.n);
    out.avg = unlessEmpty(rest.times, zeroOf(dtype), out.avg);
  }
  return out;
}

} // namespace ops_utils

namespace {

// The reduced dimensions come back as broadcasts.
TensorView* restored(TensorView* out, const std::vector<bool>& is_reduced, bool keepdim) {
  return keepdim && any(is_reduced) ? broadcast(out, is_reduced) : out;
}

// The dtype elements are combined in. Bools have no arithmetic.
DataType accumulationType(DataType dtype) {
  return isLowPrecision(dtype) ? DataType::Float : isBoolean(dtype) ? DataType::Int32 : dtype;
}

TensorView* converted(TensorView* tv, DataType dtype) {
  return tv->dtype() == dtype ? tv : castOp(dtype, tv);
}

DataType sumType(const TensorView* in, DataType dtype) {
  if (dtype != DataType::Null) {
    return dtype;
  }
  return isInexact(in->dtype()) ? in->dtype() : DataType::Int;
}

void checkComparable(const char* op_name, const TensorView* in, DataType dtype) {
  NVF_CHECK(!isComplex(in->dtype()), op_name, ": complex numbers have no order.");
  NVF_CHECK(dtype == DataType::Null, op_name,
            ": takes no dtype; the result has that of the input.");
}

// The number of elements along the flagged dimensions.
Val* numElements(const TensorView* in, const std::vector<bool>& is_reduced) {
  const Ids ids = logicalIds(in);
  Val* n = in->container()->oneVal();
  for (size_t d = 0; d < ids.size(); ++d) {
    if (is_reduced[d]) {
      n = IrBuilder::mulExpr(n, ids[d]->getMaybeExpandedExtent());
    }
  }
  return n;
}

// max(n - correction, 0) as a Double.
Val* varianceDivisor(Val* n, double correction) {
  if (const auto count = constInt(n)) {
    return IrBuilder::create<Val>(std::max(static_cast<double>(*count) - correction, 0.0));
  }
  Val* difference =
      sub(castScalar(n, DataType::Double, /*exact=*/true), IrBuilder::create<Val>(correction));
  return maximum(difference, IrBuilder::create<Val>(0.0));
}

// What statistics are computed of.
TensorView* asInexact(TensorView* in) {
  const bool kept = isInexact(in->dtype()) && !isLowPrecision(in->dtype());
  return kept ? in : castOp(DataType::Float, in);
}

TensorView* meanOf(TensorView* in, const std::vector<bool>& is_reduced, bool keepdim) {
  TensorView* total = restored(reduceDims(OpType::Add, in, is_reduced), is_reduced, keepdim);
  Val* n = castScalar(numElements(in, is_reduced), DataType::Double, /*exact=*/true);
  return div(total, n);
}

TensorView* copyIfSame(TensorView* out, TensorView* in) {
  return out == in ? set(in) : out;
}

} // namespace

TensorView* reductionOp(OpType op, const std::vector<int64_t>& axes, TensorView* in, bool keepdim,
                        DataType dtype) {
  const char* name = reductionName(op);
  checkOperand(name, in);
  const std::vector<bool> is_reduced = axisFlags(name, in, axes);
  TensorView* const original = in;
  if (dtype != DataType::Null) {
    in = converted(in, dtype);
  }
  const DataType result = in->dtype();
  if (any(is_reduced)) {
    in = converted(in, accumulationType(result));
  }
  TensorView* out = reduceDims(op, in, is_reduced);
  // The largest of no bools is false: what is the smallest number is none of the bools.
  out = isBoolean(result) && op == OpType::Maximum && out->dtype() != result
            ? gt(out, IrBuilder::create<Val>(int64_t{0}, out->dtype()))
            : converted(out, result);
  return copyIfSame(restored(out, is_reduced, keepdim), original);
}

TensorView* sum(TensorView* in, const std::vector<int64_t>& axes, bool keepdim, DataType dtype) {
  checkOperand("sum", in);
  return reductionOp(OpType::Add, axes, in, keepdim, sumType(in, dtype));
}

TensorView* prod(TensorView* in, const std::vector<int64_t>& axes, bool keepdim, DataType dtype) {
  checkOperand("prod", in);
  return reductionOp(OpType::Mul, axes, in, keepdim, sumType(in, dtype));
}

TensorView* max(TensorView* in, const std::vector<int64_t>& axes, bool keepdim, DataType dtype) {
  checkOperand("max", in);
  checkComparable("max", in, dtype);
  return reductionOp(OpType::Maximum, axes, in, keepdim);
}

TensorView* min(TensorView* in, const std::vector<int64_t>& axes, bool keepdim, DataType dtype) {
  checkOperand("min", in);
  checkComparable("min", in, dtype);
  return reductionOp(OpType::Minimum, axes, in, keepdim);
}

TensorView* mean(TensorView* in, const std::vector<int64_t>& axes, bool keepdim) {
  checkOperand("mean", in);
  const std::vector<bool> is_reduced = axisFlags("mean", in, axes);
  return meanOf(asInexact(in), is_reduced, keepdim);
}

WelfordResult Welford(TensorView* in, const std::vector<int64_t>& axes) {
  checkOperand("welford", in);
  NVF_CHECK(!isComplex(in->dtype()), "welford: complex numbers are not supported.");
  const std::vector<bool> is_reduced = axisFlags("welford", in, axes);
  WelfordResult out = welfordDims(asInexact(in), is_reduced);
  out.avg = copyIfSame(out.avg, in);
  return out;
}

TensorView* variance(TensorView* in, const std::vector<int64_t>& axes, double correction,
                     bool keepdim) {
  checkOperand("var", in);
  const std::vector<bool> is_reduced = axisFlags("var", in, axes);
  in = asInexact(in);
  TensorView* deviation = sub(in, meanOf(in, is_reduced, /*keepdim=*/true));
  TensorView* squares = nullptr;
  if (isComplex(in->dtype())) {
    TensorView* re = real(deviation);
    TensorView* im = imag(deviation);
    squares = add(mul(re, re), mul(im, im));
  } else {
    squares = mul(deviation, deviation);
  }
  TensorView* total = restored(reduceDims(OpType::Add, squares, is_reduced), is_reduced, keepdim);
  return div(total, varianceDivisor(numElements(in, is_reduced), correction));
}

namespace {

VarMeanResult realVarianceMean(TensorView* in, const std::vector<bool>& is_reduced,
                               double correction, bool keepdim) {
  const WelfordResult w = welfordDims(in, is_reduced);
  Val* n = numElements(in, is_reduced);
  VarMeanResult out;
  out.var = div(restored(w.var_sum, is_reduced, keepdim), varianceDivisor(n, correction));
  out.mean = restored(w.avg, is_reduced, keepdim);
  if (constInt(n).value_or(0) == 0) {
    // The mean of nothing is NaN.
    Val* nan = IrBuilder::create<Val>(std::numeric_limits<double>::quiet_NaN());
    Val* zero = in->container()->zeroVal();
    out.mean = where(eq(n, zero), castScalar(nan, in->dtype(), /*exact=*/true), out.mean);
  }
  out.mean = copyIfSame(out.mean, in);
  return out;
}

} // namespace

VarMeanResult variance_mean(TensorView* in, const std::vector<int64_t>& axes, double correction,
                            bool keepdim) {
  checkOperand("var_mean", in);
  NVF_CHECK(!isLowPrecision(in->dtype()), "var_mean: input of type ", in->dtype(),
            " is not supported, please upcast it to Float first.");
  const std::vector<bool> is_reduced = axisFlags("var_mean", in, axes);
  in = asInexact(in);
  if (!isComplex(in->dtype())) {
    return realVarianceMean(in, is_reduced, correction, keepdim);
  }
  const VarMeanResult re = realVarianceMean(real(in), is_reduced, correction, keepdim);
  const VarMeanResult im = realVarianceMean(imag(in), is_reduced, correction, keepdim);
  return {add(re.var, im.var), complex(re.mean, im.mean)};
}

} // namespace nvfuser
