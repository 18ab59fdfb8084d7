// SPDX-License-Identifier: BSD-3-Clause
// Block-scaled formats (NVFP4, MXFP8): quantization, the layout of scales, products of scaled
// matrices. See library.h; the formats are described in python/nvfuse_direct/block_scaled.py, which
// evaluates them.
#include <base/error.h>
#include <ir/describe.h>
#include <ops/library.h>
#include <ops/library_internal.h>

namespace nvfuser {

using namespace ops_utils;

namespace {

bool isQuantizable(DataType t) {
  return t == DataType::Float || t == DataType::Half || t == DataType::BFloat16;
}

void checkRank(const char* op_name, const char* operand, const TensorView* tv, int64_t expected) {
  NVF_CHECK(rank(tv) == expected, op_name, ": ", operand, " must be of rank ", expected, ", but ",
            describe(tv), " has rank ", rank(tv), ".");
}

// A vector of integers with an entry for each group.
void checkOffsets(const char* op_name, const char* operand, const TensorView* tv) {
  checkRank(op_name, operand, tv, 1);
  NVF_CHECK(tv->dtype() == DataType::Int32 || tv->dtype() == DataType::Int, op_name, ": ", operand,
            " must be Int32, but is ", tv->dtype(), ".");
}

void checkGlobalScale(const char* op_name, const TensorView* tv) {
  if (tv != nullptr) {
    checkOperand(op_name, tv);
    NVF_CHECK(tv->dtype() == DataType::Float && rank(tv) == 0, op_name,
              ": global_scale must be a Float tensor of rank 0, but is ", describe(tv), ".");
  }
}

// The number of blocks along the last dimension. Error: a size known now that is no multiple.
Val* blocksOf(const char* op_name, const TensorView* in, int64_t block_size) {
  Val* extent = logicalIds(in).back()->getMaybeExpandedExtent();
  const auto size = constInt(extent);
  NVF_CHECK(!size || *size % block_size == 0, op_name, ": the last dimension of ", shapeString(in),
            " is no multiple of the block size ", block_size, ".");
  return size ? IrBuilder::index(*size / block_size)
              : IrBuilder::divExpr(extent, IrBuilder::index(block_size));
}

struct ScaledOptions {
  TensorView* alpha;
  TensorView* bias;
  TensorView* beta;
  DataType dtype;
  int64_t output_block_scale_size;
  DataType output_block_scale_dtype;
  bool output_gamma;
};

void checkScaled(const char* op_name, const std::vector<TensorView*>& operands,
                 const ScaledOptions& o) {
  for (TensorView* tv : operands) {
    checkOperand(op_name, tv);
  }
  for (TensorView* tv : {o.alpha, o.bias, o.beta}) {
    if (tv != nullptr) {
      checkOperand(op_name, tv);
    }
  }
  NVF_CHECK(o.output_block_scale_size >= 0, op_name,
            ": output_block_scale_size must not be negative, but is ", o.output_block_scale_size,
            ".");
  NVF_CHECK(!o.output_gamma || o.output_block_scale_size > 0, op_name,
            ": output_gamma needs output_block_scale_size > 0.");
  NVF_CHECK(o.output_block_scale_size == 0, op_name,
            ": block-scaled output and gamma are not yet supported.");
  NVF_CHECK(isFloatingPoint(o.dtype), op_name, ": dtype must be a floating-point type, not ",
            o.dtype, ".");
}

std::vector<int64_t> attributesOf(const ScaledOptions& o) {
  return {static_cast<int64_t>(o.dtype), o.output_block_scale_size,
          static_cast<int64_t>(o.output_block_scale_dtype), o.output_gamma ? 1 : 0};
}

} // namespace

ScaledTensorView scaled_mm(TensorView* mat1, TensorView* mat2, TensorView* scale1,
                           TensorView* scale2, TensorView* alpha, TensorView* bias,
                           TensorView* beta, DataType dtype, int64_t output_block_scale_size,
                           DataType output_block_scale_dtype, bool output_gamma) {
  constexpr const char* kName = "scaled_mm";
  const ScaledOptions options = {
      alpha, bias, beta, dtype, output_block_scale_size, output_block_scale_dtype, output_gamma};
  checkScaled(kName, {mat1, mat2, scale1, scale2}, options);
  checkRank(kName, "mat1", mat1, 2);
  checkRank(kName, "mat2", mat2, 2);
  NVF_CHECK(beta == nullptr || bias != nullptr, "scaled_mm: beta needs bias.");
  const std::vector<TensorView*> out =
      makeLibraryOp({.op = LibraryOpType::ScaledMm,
                     .operands = {mat1, mat2, scale1, scale2, alpha, bias, beta},
                     .attributes = attributesOf(options),
                     .dtypes = {dtype},
                     .own = {}});
  return {out[0], nullptr, nullptr};
}

ScaledTensorView grouped_mm(TensorView* mat1, TensorView* mat2, TensorView* offsets,
                            TensorView* scale1, TensorView* scale2, TensorView* alpha,
                            TensorView* bias, TensorView* beta, DataType dtype,
                            int64_t output_block_scale_size, DataType output_block_scale_dtype,
                            bool output_gamma) {
  constexpr const char* kName = "grouped_mm";
  const ScaledOptions options = {
      alpha, bias, beta, dtype, output_block_scale_size, output_block_scale_dtype, output_gamma};
  checkScaled(kName, {mat1, mat2, offsets, scale1, scale2}, options);
  checkGroupedOperands(mat1, mat2, offsets);
  NVF_CHECK((bias == nullptr) == (beta == nullptr),
            "grouped_mm: bias and beta must be given together.");
  const int64_t out_rank = rank(mat1) == 2 && rank(mat2) == 2 ? 3 : 2;
  checkRank(kName, "scale1", scale1, std::max(rank(mat1), out_rank));
  checkRank(kName, "scale2", scale2, std::max(rank(mat2), out_rank));
  const std::vector<TensorView*> out =
      makeLibraryOp({.op = LibraryOpType::ScaledGroupedMm,
                     .operands = {mat1, mat2, offsets, scale1, scale2, alpha, bias, beta},
                     .attributes = attributesOf(options),
                     .dtypes = {dtype},
                     .own = {}});
  return {out[0], nullptr, nullptr};
}

TensorView* cutlass_nvfp4_grouped_mm(TensorView* mat1, TensorView* mat2, TensorView* scale1,
                                     TensorView* scale2, TensorView* alpha,
                                     TensorView* problem_sizes, TensorView* expert_offsets,
                                     TensorView* sf_offsets, DataType dtype) {
  constexpr const char* kName = "cutlass_nvfp4_grouped_mm";
  checkOperands(kName,
                {mat1, mat2, scale1, scale2, alpha, problem_sizes, expert_offsets, sf_offsets});
  checkRank(kName, "mat1", mat1, 2);
  checkRank(kName, "mat2", mat2, 3);
  NVF_CHECK(isFloat4(mat1->dtype()) && isFloat4(mat2->dtype()), kName,
            ": mat1 and mat2 must hold fp4 values, but are ", mat1->dtype(), " and ", mat2->dtype(),
            ".");
  checkRank(kName, "alpha", alpha, 1);
  checkRank(kName, "problem_sizes", problem_sizes, 2);
  checkOffsets(kName, "expert_offsets", expert_offsets);
  checkOffsets(kName, "sf_offsets", sf_offsets);
  return makeLibraryOp({.op = LibraryOpType::CutlassNvfp4GroupedMm,
                        .operands = {mat1, mat2, scale1, scale2, alpha, problem_sizes,
                                     expert_offsets, sf_offsets},
                        .attributes = {static_cast<int64_t>(dtype)},
                        .dtypes = {dtype},
                        .own = {}})
      .front();
}

BlockQuantizationResults nv_block_quantize(TensorView* input, TensorView* global_scale,
                                           bool swizzle_block_scales, int64_t block_size,
                                           DataType dtype) {
  constexpr const char* kName = "nv_block_quantize";
  checkOperand(kName, input);
  checkRankAtLeast(kName, "the input", input, 1);
  NVF_CHECK(isQuantizable(input->dtype()), kName, ": the input must be Float, Half or BFloat16, ",
            "but is ", input->dtype(), ".");
  NVF_CHECK(dtype == DataType::Float4_e2m1fn || dtype == DataType::Float8_e4m3fn, kName,
            ": dtype must be Float4_e2m1fn or Float8_e4m3fn, not ", dtype, ".");
  const bool is_fp4 = dtype == DataType::Float4_e2m1fn;
  const int64_t expected = is_fp4 ? 16 : 32;
  NVF_CHECK(block_size == expected, kName, ": block_size must be ", expected, " for ", dtype,
            ", not ", block_size, ".");
  checkGlobalScale(kName, global_scale);
  NVF_CHECK(is_fp4 || global_scale == nullptr, kName, ": Float8_e4m3fn takes no global_scale.");
  NVF_CHECK(is_fp4 || !swizzle_block_scales, kName,
            ": the scales of Float8_e4m3fn can't be swizzled.");
  const std::vector<TensorView*> out = makeLibraryOp(
      {.op = LibraryOpType::NvBlockQuantize,
       .operands = {input, global_scale},
       .attributes = {swizzle_block_scales ? 1 : 0, block_size, static_cast<int64_t>(dtype)},
       .dtypes = {dtype, is_fp4 ? DataType::Float8_e4m3fn : DataType::Float8_e8m0fnu},
       .own = {{blocksOf(kName, input, block_size)}}});
  return {out[0], out[1]};
}

BlockQuantizationResults nv_grouped_block_quantize(TensorView* input, TensorView* input_offsets,
                                                   TensorView* output_offsets,
                                                   TensorView* global_scale, int64_t block_size,
                                                   DataType dtype) {
  constexpr const char* kName = "nv_grouped_block_quantize";
  checkOperands(kName, {input, input_offsets, output_offsets});
  checkRank(kName, "the input", input, 2);
  NVF_CHECK(isQuantizable(input->dtype()), kName, ": the input must be Float, Half or BFloat16, ",
            "but is ", input->dtype(), ".");
  NVF_CHECK(dtype == DataType::Float4_e2m1fn && block_size == 16, kName,
            ": dtype must be Float4_e2m1fn with a block_size of 16, not ", dtype, " with ",
            block_size, ".");
  checkOffsets(kName, "input_offsets", input_offsets);
  checkOffsets(kName, "output_offsets", output_offsets);
  checkGlobalScale(kName, global_scale);
  const std::vector<TensorView*> out =
      makeLibraryOp({.op = LibraryOpType::NvGroupedBlockQuantize,
                     .operands = {input, input_offsets, output_offsets, global_scale},
                     .attributes = {block_size, static_cast<int64_t>(dtype)},
                     .dtypes = {dtype, DataType::Float8_e4m3fn},
                     .own = {{blocksOf(kName, input, block_size)}}});
  return {out[0], out[1]};
}

TensorView* preprocess_grouped_matmul_input_sf(TensorView* input, TensorView* input_offsets,
                                               TensorView* output_offsets) {
  constexpr const char* kName = "preprocess_grouped_matmul_input_sf";
  checkOperands(kName, {input, input_offsets, output_offsets});
  checkRank(kName, "the input", input, 2);
  NVF_CHECK(dataTypeSizeBits(input->dtype()) == 8, kName, ": the input must hold scales of 8 ",
            "bits, but is ", input->dtype(), ".");
  checkOffsets(kName, "input_offsets", input_offsets);
  checkOffsets(kName, "output_offsets", output_offsets);
  return makeLibraryOp({.op = LibraryOpType::PreprocessGroupedMatmulInputSf,
                        .operands = {input, input_offsets, output_offsets},
                        .attributes = {},
                        .dtypes = {input->dtype()},
                        .own = {}})
      .front();
}

} // namespace nvfuser
