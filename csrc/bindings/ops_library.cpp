// SPDX-License-Identifier: BSD-3-Clause
// Ops that a library evaluates.
#include <bindings/bindings.h>

#include <ops/all_ops.h>

namespace nvfuser::python {

namespace {

const char* docOf(LibraryOpType op) {
  return libraryOpInfo(op).doc;
}

// None is null.
TensorView* toOptionalTensor(py::handle object, const char* op, const char* argument) {
  return object.is_none() ? nullptr : toTensor(object, op, argument);
}

void bindProducts(py::module_& ops) {
  ops.def(
      "matmul",
      [](const TensorArg& arg1, const TensorArg& arg2, const OptionalNumberArg& alpha) {
        constexpr const char* kName = "matmul";
        return result(matmul(toTensor(arg1, kName, "arg1"), toTensor(arg2, kName, "arg2"),
                             toVal(alpha, kName, true)));
      },
      py::arg("arg1"), py::arg("arg2"), py::arg("alpha") = py::none(),
      docOf(LibraryOpType::Matmul));
  ops.def(
      "linear",
      [](const TensorArg& arg1, const TensorArg& arg2, const OptionalTensorArg& bias,
         const OptionalNumberArg& alpha) {
        constexpr const char* kName = "linear";
        return result(linear(toTensor(arg1, kName, "arg1"), toTensor(arg2, kName, "arg2"),
                             toOptionalTensor(bias, kName, "bias"), toVal(alpha, kName, true)));
      },
      py::arg("arg1"), py::arg("arg2"), py::arg("bias") = py::none(), py::arg("alpha") = py::none(),
      docOf(LibraryOpType::Linear));
}

void bindSorting(py::module_& ops) {
  ops.def(
      "topk",
      [](const TensorArg& arg, const NumberArg& k, int64_t dim, bool largest, bool sorted) {
        const TopKResult r =
            topk(toTensor(arg, "topk", "arg"), toVal(k, "topk"), dim, largest, sorted);
        return Results<TensorResult, TensorResult>(
            py::make_tuple(result(r.values), result(r.indices)));
      },
      py::arg("arg"), py::arg("k"), py::arg("dim") = -1, py::arg("largest") = true,
      py::arg("sorted") = false, docOf(LibraryOpType::TopK));
  ops.def(
      "argsort",
      [](const TensorArg& arg, int64_t dim, bool descending, bool stable) {
        return result(argsort(toTensor(arg, "argsort", "arg"), dim, descending, stable));
      },
      py::arg("arg"), py::arg("dim"), py::arg("descending") = false, py::arg("stable") = false,
      docOf(LibraryOpType::ArgSort));
}

using ScaledResults = Results<TensorResult, OptionalTensorResult, OptionalTensorResult>;

ScaledResults scaledResults(const ScaledTensorView& r) {
  return ScaledResults(py::make_tuple(result(r.tv), optionalResult(r.block_scaling_factor),
                                      optionalResult(r.global_scaling_factor)));
}

void bindGroupedProducts(py::module_& ops) {
  ops.def(
      "grouped_mm",
      [](const TensorArg& mat1, const TensorArg& mat2, const TensorArg& offsets) {
        constexpr const char* kName = "grouped_mm";
        return result(grouped_mm(toTensor(mat1, kName, "mat1"), toTensor(mat2, kName, "mat2"),
                                 toTensor(offsets, kName, "offsets")));
      },
      py::arg("mat1"), py::arg("mat2"), py::arg("offsets"), docOf(LibraryOpType::GroupedMm));
  ops.def(
      "grouped_mm",
      [](const TensorArg& mat1, const TensorArg& mat2, const TensorArg& offsets,
         const TensorArg& scale1, const TensorArg& scale2, const OptionalTensorArg& alpha,
         const OptionalTensorArg& bias, const OptionalTensorArg& beta, DataType dtype,
         int64_t output_block_scale_size, DataType output_block_scale_dtype, bool output_gamma) {
        constexpr const char* kName = "grouped_mm";
        return scaledResults(
            grouped_mm(toTensor(mat1, kName, "mat1"), toTensor(mat2, kName, "mat2"),
                       toTensor(offsets, kName, "offsets"), toTensor(scale1, kName, "scale1"),
                       toTensor(scale2, kName, "scale2"), toOptionalTensor(alpha, kName, "alpha"),
                       toOptionalTensor(bias, kName, "bias"), toOptionalTensor(beta, kName, "beta"),
                       dtype, output_block_scale_size, output_block_scale_dtype, output_gamma));
      },
      py::arg("mat1"), py::arg("mat2"), py::arg("offsets"), py::arg("scale1"), py::arg("scale2"),
      py::arg("alpha") = py::none(), py::arg("bias") = py::none(), py::arg("beta") = py::none(),
      py::arg("dtype") = DataType::BFloat16, py::arg("output_block_scale_size") = 0,
      py::arg("output_block_scale_dtype") = DataType::BFloat16, py::arg("output_gamma") = false,
      docOf(LibraryOpType::ScaledGroupedMm));
  ops.def(
      "cutlass_nvfp4_grouped_mm",
      [](const TensorArg& mat1, const TensorArg& mat2, const TensorArg& scale1,
         const TensorArg& scale2, const TensorArg& alpha, const TensorArg& problem_sizes,
         const TensorArg& expert_offsets, const TensorArg& sf_offsets, DataType dtype) {
        constexpr const char* kName = "cutlass_nvfp4_grouped_mm";
        return result(cutlass_nvfp4_grouped_mm(
            toTensor(mat1, kName, "mat1"), toTensor(mat2, kName, "mat2"),
            toTensor(scale1, kName, "scale1"), toTensor(scale2, kName, "scale2"),
            toTensor(alpha, kName, "alpha"), toTensor(problem_sizes, kName, "problem_sizes"),
            toTensor(expert_offsets, kName, "expert_offsets"),
            toTensor(sf_offsets, kName, "sf_offsets"), dtype));
      },
      py::arg("mat1"), py::arg("mat2"), py::arg("scale1"), py::arg("scale2"), py::arg("alpha"),
      py::arg("problem_sizes"), py::arg("expert_offsets"), py::arg("sf_offsets"),
      py::arg("dtype") = DataType::BFloat16, docOf(LibraryOpType::CutlassNvfp4GroupedMm));
}

void bindBlockScaled(py::module_& ops) {
  ops.def(
      "scaled_mm",
      [](const TensorArg& mat1, const TensorArg& mat2, const TensorArg& scale1,
         const TensorArg& scale2, const OptionalTensorArg& alpha, const OptionalTensorArg& bias,
         const OptionalTensorArg& beta, DataType dtype, int64_t output_block_scale_size,
         DataType output_block_scale_dtype, bool output_gamma) {
        constexpr const char* kName = "scaled_mm";
        return scaledResults(
            scaled_mm(toTensor(mat1, kName, "mat1"), toTensor(mat2, kName, "mat2"),
                      toTensor(scale1, kName, "scale1"), toTensor(scale2, kName, "scale2"),
                      toOptionalTensor(alpha, kName, "alpha"),
                      toOptionalTensor(bias, kName, "bias"), toOptionalTensor(beta, kName, "beta"),
                      dtype, output_block_scale_size, output_block_scale_dtype, output_gamma));
      },
      py::arg("mat1"), py::arg("mat2"), py::arg("scale1"), py::arg("scale2"),
      py::arg("alpha") = py::none(), py::arg("bias") = py::none(), py::arg("beta") = py::none(),
      py::arg("dtype") = DataType::BFloat16, py::arg("output_block_scale_size") = 0,
      py::arg("output_block_scale_dtype") = DataType::BFloat16, py::arg("output_gamma") = false,
      docOf(LibraryOpType::ScaledMm));
  ops.def(
      "nv_block_quantize",
      [](const TensorArg& input, const OptionalTensorArg& global_scale, bool swizzle_block_scales,
         int64_t block_size, DataType dtype) {
        constexpr const char* kName = "nv_block_quantize";
        const BlockQuantizationResults r = nv_block_quantize(
            toTensor(input, kName, "input"), toOptionalTensor(global_scale, kName, "global_scale"),
            swizzle_block_scales, block_size, dtype);
        return Results<TensorResult, TensorResult>(
            py::make_tuple(result(r.quantized_tensor), result(r.block_scales)));
      },
      py::arg("input"), py::arg("global_scale") = py::none(),
      py::arg("swizzle_block_scales") = false, py::arg("block_size") = 16,
      py::arg("dtype") = DataType::Float4_e2m1fn, docOf(LibraryOpType::NvBlockQuantize));
  ops.def(
      "nv_grouped_block_quantize",
      [](const TensorArg& input, const TensorArg& input_offsets, const TensorArg& output_offsets,
         const OptionalTensorArg& global_scale, int64_t block_size, DataType dtype) {
        constexpr const char* kName = "nv_grouped_block_quantize";
        const BlockQuantizationResults r = nv_grouped_block_quantize(
            toTensor(input, kName, "input"), toTensor(input_offsets, kName, "input_offsets"),
            toTensor(output_offsets, kName, "output_offsets"),
            toOptionalTensor(global_scale, kName, "global_scale"), block_size, dtype);
        return Results<TensorResult, TensorResult>(
            py::make_tuple(result(r.quantized_tensor), result(r.block_scales)));
      },
      py::arg("input"), py::arg("input_offsets"), py::arg("output_offsets"),
      py::arg("global_scale") = py::none(), py::arg("block_size") = 16,
      py::arg("dtype") = DataType::Float4_e2m1fn, docOf(LibraryOpType::NvGroupedBlockQuantize));
  ops.def(
      "preprocess_grouped_matmul_input_sf",
      [](const TensorArg& input, const TensorArg& input_offsets, const TensorArg& output_offsets) {
        constexpr const char* kName = "preprocess_grouped_matmul_input_sf";
        return result(preprocess_grouped_matmul_input_sf(
            toTensor(input, kName, "input"), toTensor(input_offsets, kName, "input_offsets"),
            toTensor(output_offsets, kName, "output_offsets")));
      },
      py::arg("input"), py::arg("input_offsets"), py::arg("output_offsets"),
      docOf(LibraryOpType::PreprocessGroupedMatmulInputSf));
}

void bindAttention(py::module_& ops) {
  ops.def(
      "sdpfa_fwd",
      [](const TensorArg& query, const TensorArg& key, const TensorArg& value,
         const OptionalTensorArg& bias, const OptionalTensorArg& mask,
         const OptionalNumberArg& dropout_p, const OptionalNumberArg& is_causal,
         const OptionalNumberArg& scale) {
        constexpr const char* kName = "sdpfa_fwd";
        // Lightning Thunder 0.2.6 passes (query, key, value, dropout_p, is_causal, scale), the
        // arguments from before there were bias and mask.
        const bool without_bias = !bias.is_none() && !py::isinstance<TensorView>(bias) &&
                                  is_causal.is_none() && scale.is_none();
        const py::none none;
        const auto or_none = [&](const py::object& object) {
          return without_bias ? py::handle(none) : py::handle(object);
        };
        const auto shifted = [&](const py::object& now, const py::object& then) {
          return py::handle(without_bias ? then : now);
        };
        const SdpfaFwdResult r = sdpfa_fwd(
            toTensor(query, kName, "query"), toTensor(key, kName, "key"),
            toTensor(value, kName, "value"), toOptionalTensor(or_none(bias), kName, "bias"),
            toOptionalTensor(or_none(mask), kName, "mask"),
            toVal(shifted(dropout_p, bias), kName, true),
            toVal(shifted(is_causal, mask), kName, true),
            toVal(shifted(scale, dropout_p), kName, true));
        return Results<TensorResult, TensorResult, TensorResult, TensorResult>(
            py::make_tuple(result(r.output), result(r.log_sumexp), result(r.philox_seed),
                           result(r.philox_offset)));
      },
      py::arg("query"), py::arg("key"), py::arg("value"), py::arg("bias") = py::none(),
      py::arg("mask") = py::none(), py::arg("dropout_p") = py::none(),
      py::arg("is_causal") = py::none(), py::arg("scale") = py::none(),
      docOf(LibraryOpType::SdpaFwd));
  ops.def(
      "sdpfa_bwd",
      [](const TensorArg& grad_output, const TensorArg& query, const TensorArg& key,
         const TensorArg& value, const TensorArg& output, const TensorArg& logsumexp,
         const OptionalNumberArg& dropout_p, const OptionalNumberArg& is_causal,
         const TensorArg& philox_seed, const TensorArg& philox_offset,
         const OptionalNumberArg& scale) {
        constexpr const char* kName = "sdpfa_bwd";
        const SdpfaBwdResult r =
            sdpfa_bwd(toTensor(grad_output, kName, "grad_output"), toTensor(query, kName, "query"),
                      toTensor(key, kName, "key"), toTensor(value, kName, "value"),
                      toTensor(output, kName, "output"), toTensor(logsumexp, kName, "logsumexp"),
                      toVal(dropout_p, kName, true), toVal(is_causal, kName, true),
                      toTensor(philox_seed, kName, "philox_seed"),
                      toTensor(philox_offset, kName, "philox_offset"), toVal(scale, kName, true));
        return Results<TensorResult, TensorResult, TensorResult>(
            py::make_tuple(result(r.grad_query), result(r.grad_key), result(r.grad_value)));
      },
      py::arg("grad_output"), py::arg("query"), py::arg("key"), py::arg("value"), py::arg("output"),
      py::arg("logsumexp"), py::arg("dropout_p"), py::arg("is_causal"), py::arg("philox_seed"),
      py::arg("philox_offset"), py::arg("scale"), docOf(LibraryOpType::SdpaBwd));
}

} // namespace

void bindLibraryOps(py::module_& ops) {
  bindProducts(ops);
  bindSorting(ops);
  bindGroupedProducts(ops);
  bindBlockScaled(ops);
  bindAttention(ops);
}

} // namespace nvfuser::python
