// SPDX-License-Identifier: BSD-3-Clause
// Builders of the ops that a library evaluates: products of matrices, sorting, attention,
// block-scaled formats. The program that runs such a fusion supplies the library
// (csrc/library/library.h); the Python package supplies torch.
//
// Sizes that are known at definition must agree then, others when the fusion runs. Dims count from
// the end if negative.
#pragma once

#include <ir/nodes.h>

#include <cstdint>

namespace nvfuser {

// With the shape rules of torch.matmul: [..., M, K] x [..., K, N] -> [..., M, N]; operands of rank
// 1 are a row and a column without that dimension in the result. Dimensions of size 1 before the
// last two are repeated. `alpha`: a number that multiplies the product before it is rounded, null
// for
// 1. Error: different dtypes, an operand of rank 0, an alpha for integers.
TensorView* matmul(TensorView* a, TensorView* b, Val* alpha = nullptr);

// input [*i, K], weight [*w, N, K], bias [*w, N] (may be null) -> [*w, *i, N]: the product with the
// transposed weight, times alpha (as above), plus the bias. Error: different dtypes, an input or
// bias of rank 0, a weight of rank below 2, an alpha for integers.
TensorView* linear(TensorView* input, TensorView* weight, TensorView* bias = nullptr,
                   Val* alpha = nullptr);

struct TopKResult {
  TensorView* values = nullptr;  // dtype of the input
  TensorView* indices = nullptr; // Int
};
// The k largest (or smallest) elements along `dim` and where they are; k is an integer scalar.
// Error: k is negative; when the fusion runs: k exceeds the size of the dimension.
TopKResult topk(TensorView* in, Val* k, int64_t dim = -1, bool largest = true, bool sorted = false);

// Positions (Int) that sort the tensor along `dim`. Equal elements keep their order if `stable`.
TensorView* argsort(TensorView* in, int64_t dim, bool descending = false, bool stable = false);

// A product for each group. `offsets`, Int32 [groups], are the ends of the groups: [M, K] x [K, N]
// -> [groups, M, N] with K in groups, [groups, M, K] x [K, N] -> [M, N] with N in groups, [M, K] x
// [groups, K, N] -> [M, N] with M in groups. Error: other ranks, different dtypes, other offsets.
TensorView* grouped_mm(TensorView* mat1, TensorView* mat2, TensorView* offsets);

// A result with the scales of its blocks and of the whole, which are null.
struct ScaledTensorView {
  TensorView* tv = nullptr;
  TensorView* block_scaling_factor = nullptr;
  TensorView* global_scaling_factor = nullptr;
};
// The same of operands with scales, which have the rank of the operand or of the result, whichever
// is more. Block-scaled output (output_block_scale_size > 0) is not yet supported. Error: one of
// bias and beta without the other.
ScaledTensorView grouped_mm(TensorView* mat1, TensorView* mat2, TensorView* offsets,
                            TensorView* scale1, TensorView* scale2, TensorView* alpha = nullptr,
                            TensorView* bias = nullptr, TensorView* beta = nullptr,
                            DataType dtype = DataType::BFloat16,
                            int64_t output_block_scale_size = 0,
                            DataType output_block_scale_dtype = DataType::BFloat16,
                            bool output_gamma = false);

// [M, K] x [K, N] of operands with scales: of the tensor, of rows and columns, or of blocks along
// K. Block-scaled output is not yet supported. Error: beta without bias.
ScaledTensorView scaled_mm(TensorView* mat1, TensorView* mat2, TensorView* scale1,
                           TensorView* scale2, TensorView* alpha = nullptr,
                           TensorView* bias = nullptr, TensorView* beta = nullptr,
                           DataType dtype = DataType::BFloat16, int64_t output_block_scale_size = 0,
                           DataType output_block_scale_dtype = DataType::BFloat16,
                           bool output_gamma = false);

// A product of NVFP4 matrices for each group: mat1 [M, K], mat2 [groups, K, N] with K fastest,
// swizzled block scales, alpha Float [groups], problem_sizes Int32 [groups, 3] (M, N, K), the first
// rows of the groups in mat1 and in the scales.
TensorView* cutlass_nvfp4_grouped_mm(TensorView* mat1, TensorView* mat2, TensorView* scale1,
                                     TensorView* scale2, TensorView* alpha,
                                     TensorView* problem_sizes, TensorView* expert_offsets,
                                     TensorView* sf_offsets, DataType dtype = DataType::BFloat16);

struct BlockQuantizationResults {
  TensorView* quantized_tensor = nullptr; // of the input's shape
  TensorView* block_scales = nullptr;     // the same with the last size divided by the block size
};
// Of Float, Half or BFloat16 in blocks along the last dimension: Float4_e2m1fn with blocks of 16
// and scales of Float8_e4m3fn (times the global scale, a Float tensor of rank 0), optionally stored
// 128x4 swizzled; or Float8_e4m3fn with blocks of 32 and scales of Float8_e8m0fnu. Error: a last
// dimension that is no multiple of the block size.
BlockQuantizationResults nv_block_quantize(TensorView* input, TensorView* global_scale = nullptr,
                                           bool swizzle_block_scales = false,
                                           int64_t block_size = 16,
                                           DataType dtype = DataType::Float4_e2m1fn);

// Of a matrix whose rows are in groups: the scales of each group are stored swizzled and padded,
// from row output_offsets[group] on.
BlockQuantizationResults nv_grouped_block_quantize(TensorView* input, TensorView* input_offsets,
                                                   TensorView* output_offsets,
                                                   TensorView* global_scale = nullptr,
                                                   int64_t block_size = 16,
                                                   DataType dtype = DataType::Float4_e2m1fn);

// Block scales of such a matrix, stored so.
TensorView* preprocess_grouped_matmul_input_sf(TensorView* input, TensorView* input_offsets,
                                               TensorView* output_offsets);

struct SdpfaFwdResult {
  TensorView* output = nullptr;        // [..., H, L, E], in memory ordered like the query
  TensorView* log_sumexp = nullptr;    // Float [..., H, L]
  TensorView* philox_seed = nullptr;   // UInt64 [2]
  TensorView* philox_offset = nullptr; // UInt64 []
};
// Scaled dot product attention of query [..., H, L, E], key and value [..., G, S, E], of rank 4 or
// more; each head of the key and the value is that of H/G heads of the query, one after the other.
// The bias is added to the scores, where the mask (Bool) is false they are -infinity; both
// may have size 1 where the scores have not. The scalars may be null: dropout_p 0, is_causal false,
// scale 1/sqrt(E). Draws from the generator of the library. Error: different dtypes or ranks, H is
// no multiple of G, dropout with a bias or a mask.
SdpfaFwdResult sdpfa_fwd(TensorView* query, TensorView* key, TensorView* value,
                         TensorView* bias = nullptr, TensorView* mask = nullptr,
                         Val* dropout_p = nullptr, Val* is_causal = nullptr, Val* scale = nullptr);

struct SdpfaBwdResult {
  TensorView* grad_query = nullptr;
  TensorView* grad_key = nullptr;
  TensorView* grad_value = nullptr;
};
// Its gradients. output, log_sumexp, philox_seed and philox_offset are results of sdpfa_fwd.
SdpfaBwdResult sdpfa_bwd(TensorView* grad_output, TensorView* query, TensorView* key,
                         TensorView* value, TensorView* output, TensorView* log_sumexp,
                         Val* dropout_p, Val* is_causal, TensorView* philox_seed,
                         TensorView* philox_offset, Val* scale);

} // namespace nvfuser
