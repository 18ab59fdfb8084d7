// SPDX-License-Identifier: BSD-3-Clause
// See random.h.
#include <ops/random.h>

#include <base/error.h>
#include <fusion.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ops/shape.h>
#include <ops/utils.h>

namespace nvfuser {

using namespace ops_utils;

namespace {

// Parameters are Double or Float scalars.
Val* parameter(const char* op_name, Val* v) {
  checkOperand(op_name, v);
  NVF_CHECK(v->isScalar() && !isComplex(v->dtype()), op_name,
            ": the parameters must be real scalars.");
  return v->dtype() == DataType::Float ? v : castScalar(v, DataType::Double, /*exact=*/true);
}

TensorView* randomTensor(RngKind kind, const std::vector<Val*>& shape, Val* a, Val* b,
                         DataType dtype, Val* seed, Val* offset) {
  const char* op_name = kind == RngKind::Uniform ? "uniform" : "normal";
  NVF_CHECK(isFloatingPoint(dtype) && !isFloat8(dtype) && !isFloat4(dtype), op_name,
            ": Random distributions only create floating point types, not ", dtype, ".");
  NVF_CHECK((seed == nullptr) == (offset == nullptr), op_name,
            ": rng_seed and rng_offset must be provided together!");
  if (seed != nullptr) {
    checkOperands(op_name, {seed, offset});
    NVF_CHECK(isIntegral(seed->dtype()) && isIntegral(offset->dtype()), op_name,
              ": rng_seed and rng_offset must be integers.");
    for (Val* v : {seed, offset}) {
      NVF_CHECK(!v->isTensor() || rank(v->as<TensorView>()) == 0, op_name,
                ": rng_seed and rng_offset must be scalars or tensors without dimensions, not ",
                describe(v), ".");
    }
  }
  a = parameter(op_name, a);
  b = parameter(op_name, b);
  Ids ids;
  for (size_t i = 0; i < shape.size(); ++i) {
    Val* extent = toExtent(op_name, shape[i]);
    const auto n = constInt(extent);
    NVF_CHECK(!n || *n >= 0, op_name, ": the size ", n.value_or(0), " at index ", i,
              " is negative.");
    ids.push_back(makeDimension(extent));
  }
  int64_t stateful_index = 0;
  if (seed == nullptr) {
    Fusion* fusion = FusionGuard::getCurFusion();
    NVF_ERROR(fusion != nullptr);
    stateful_index = fusion->nextStatefulRngIndex();
  }
  auto* out = makeTensor(std::move(ids), dtype);
  IrBuilder::create<RngOp>(kind, out, a, b, seed, offset, stateful_index);
  return out;
}

TensorView* randomLike(RngKind kind, const char* op_name, TensorView* tv) {
  checkOperand(op_name, tv);
  return randomTensor(kind, shape(tv), IrBuilder::create<Val>(0.0), IrBuilder::create<Val>(1.0),
                      tv->dtype(), nullptr, nullptr);
}

} // namespace

TensorView* uniform(const std::vector<Val*>& shape, Val* minval, Val* maxval, DataType dtype,
                    Val* seed, Val* offset) {
  return randomTensor(RngKind::Uniform, shape, minval, maxval, dtype, seed, offset);
}

TensorView* normal(const std::vector<Val*>& shape, Val* mean, Val* std, DataType dtype, Val* seed,
                   Val* offset) {
  return randomTensor(RngKind::Normal, shape, mean, std, dtype, seed, offset);
}

TensorView* rand_like(TensorView* tv) {
  return randomLike(RngKind::Uniform, "rand_like", tv);
}

TensorView* randn_like(TensorView* tv) {
  return randomLike(RngKind::Normal, "randn_like", tv);
}

} // namespace nvfuser
