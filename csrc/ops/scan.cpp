// SPDX-License-Identifier: BSD-3-Clause
// See scan.h.
#include <ops/scan.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ops/elementwise.h>
#include <ops/reduction_internal.h>

namespace nvfuser {

using namespace ops_utils;

namespace {

const char* scanName(OpType op) {
  switch (op) {
    case OpType::Add:
      return "cumsum";
    case OpType::Mul:
      return "cumprod";
    case OpType::Minimum:
      return "cummin";
    case OpType::Maximum:
      return "cummax";
    default:
      NVF_CHECK_FAIL("scan: ", opInfo(op).name, " is not one of add, mul, minimum, maximum.");
  }
}

} // namespace

namespace ops_utils {

TensorView* scanDim(OpType op, Val* init, int64_t dim, TensorView* in) {
  // A symbolic dimension may turn out to be an expanded one.
  std::vector<bool> scanned(logicalIds(in).size(), false);
  scanned.at(static_cast<size_t>(dim)) = true;
  in = materializeExpanded(in, scanned);
  const Ids ids = logicalIds(in);
  if (ids.at(static_cast<size_t>(dim))->isBroadcast()) {
    if (init->sameAs(identityOf(op, in->dtype()))) {
      return set(in);
    }
    return elementwiseAsIs(op, in->dtype(), {in, init})->as<TensorView>();
  }
  auto* out = makeTensor(copyDimensions(ids), in->dtype());
  IrBuilder::create<ScanOp>(op, init, dim, out, in);
  return out;
}

} // namespace ops_utils

TensorView* scan(TensorView* in, int64_t dim, OpType op, Val* init) {
  const char* name = scanName(op);
  checkOperand(name, in);
  NVF_CHECK(rank(in) > 0, name, ": a tensor of rank 0 has no dimension to scan along.");
  dim = wrapDim(name, dim, rank(in));
  const DataType dtype = in->dtype();
  const bool compares = op == OpType::Minimum || op == OpType::Maximum;
  NVF_CHECK(!compares || !isComplex(dtype), name, ": complex numbers have no order.");
  NVF_CHECK(!logicalIds(in)[static_cast<size_t>(dim)]->hasExpandedExtent(), name,
            ": can't scan along dimension ", dim, " of ", describe(in), ", which is expanded.");
  const DataType wide = isLowPrecision(dtype) ? DataType::Float
                        : isBoolean(dtype)    ? DataType::Int
                                              : dtype;
  if (init == nullptr) {
    init = identityOf(op, wide);
  } else {
    checkOperand(name, init);
    NVF_CHECK(init->isScalar(), name, ": init must be a scalar.");
    init = castScalar(init, wide, /*exact=*/true);
  }
  TensorView* source = dtype == wide ? in : castOp(wide, in);
  TensorView* out = scanDim(op, init, dim, source);
  return dtype == wide ? out : castOp(dtype, out);
}

TensorView* cumsum(TensorView* in, int64_t dim, Val* init) {
  return scan(in, dim, OpType::Add, init);
}

TensorView* cumprod(TensorView* in, int64_t dim, Val* init) {
  return scan(in, dim, OpType::Mul, init);
}

TensorView* cummin(TensorView* in, int64_t dim, Val* init) {
  return scan(in, dim, OpType::Minimum, init);
}

TensorView* cummax(TensorView* in, int64_t dim, Val* init) {
  return scan(in, dim, OpType::Maximum, init);
}

} // namespace nvfuser
