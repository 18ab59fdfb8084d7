// SPDX-License-Identifier: BSD-3-Clause
// Products of matrices. See library.h.
#include <base/error.h>
#include <ir/describe.h>
#include <ops/library.h>
#include <ops/library_internal.h>

namespace nvfuser {

using namespace ops_utils;

namespace {

void checkAlpha(const char* op_name, const Val* alpha, DataType dtype) {
  if (alpha == nullptr) {
    return;
  }
  NVF_CHECK(alpha->isScalar() && !isComplex(alpha->dtype()), op_name,
            ": alpha must be a real number, but is of type ", alpha->dtype(), ".");
  NVF_CHECK(isFloatingPoint(dtype), op_name, ": alpha needs operands of floating point, but they ",
            "are of ", dtype, ".");
}

} // namespace

TensorView* matmul(TensorView* a, TensorView* b, Val* alpha) {
  constexpr const char* kName = "matmul";
  checkOperands(kName, {a, b});
  checkRankAtLeast(kName, "arg1", a, 1);
  checkRankAtLeast(kName, "arg2", b, 1);
  checkSameDtype(kName, {a, b});
  checkAlpha(kName, alpha, a->dtype());
  return makeLibraryOp({.op = LibraryOpType::Matmul,
                        .operands = {a, b, alpha},
                        .attributes = {},
                        .dtypes = {a->dtype()},
                        .own = {}})
      .front();
}

TensorView* linear(TensorView* input, TensorView* weight, TensorView* bias, Val* alpha) {
  constexpr const char* kName = "linear";
  checkOperands(kName, {input, weight});
  checkRankAtLeast(kName, "the input", input, 1);
  checkRankAtLeast(kName, "the weight", weight, 2);
  checkSameDtype(kName, {input, weight});
  checkAlpha(kName, alpha, input->dtype());
  if (bias != nullptr) {
    checkOperand(kName, bias);
    checkRankAtLeast(kName, "the bias", bias, 1);
    checkSameDtype(kName, {input, bias});
    NVF_CHECK(rank(bias) < rank(weight), "linear: the bias must have fewer dimensions than the ",
              "weight, but they have ", rank(bias), " and ", rank(weight), ".");
  }
  return makeLibraryOp({.op = LibraryOpType::Linear,
                        .operands = {input, weight, bias, alpha},
                        .attributes = {},
                        .dtypes = {input->dtype()},
                        .own = {}})
      .front();
}

void ops_utils::checkGroupedOperands(const TensorView* mat1, const TensorView* mat2,
                                     const TensorView* offsets) {
  const int64_t a = rank(mat1);
  const int64_t b = rank(mat2);
  NVF_CHECK((a == 2 || a == 3) && (b == 2 || b == 3) && a + b < 6,
            "grouped_mm: the operands must be of rank 2 and 2, 3 and 2, or 2 and 3, but they are ",
            "of rank ", a, " and ", b, ".");
  NVF_CHECK(rank(offsets) == 1 && offsets->dtype() == DataType::Int32,
            "grouped_mm: offsets must be Int32 of rank 1, but ", describe(offsets), " is ",
            offsets->dtype(), " of rank ", rank(offsets), ".");
}

TensorView* grouped_mm(TensorView* mat1, TensorView* mat2, TensorView* offsets) {
  constexpr const char* kName = "grouped_mm";
  checkOperands(kName, {mat1, mat2, offsets});
  checkGroupedOperands(mat1, mat2, offsets);
  checkSameDtype(kName, {mat1, mat2});
  return makeLibraryOp({.op = LibraryOpType::GroupedMm,
                        .operands = {mat1, mat2, offsets},
                        .attributes = {},
                        .dtypes = {mat1->dtype()},
                        .own = {}})
      .front();
}

} // namespace nvfuser
