// SPDX-License-Identifier: BSD-3-Clause
// Reductions, statistics and scans.
#include <bindings/bindings.h>

#include <ops/all_ops.h>
#include <ops/utils.h>

#include <numeric>

namespace nvfuser::python {

namespace {

using Reduction = TensorView* (*)(TensorView*, const std::vector<int64_t>&, bool, DataType);

std::vector<int64_t> allDims(const TensorView* tv) {
  std::vector<int64_t> dims(static_cast<size_t>(ops_utils::rank(tv)));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// The three overloads of a reduction: over all dims, one, and many.
void bindReduction(py::module_& ops, const char* name, Reduction op, const std::string& doc) {
  ops.def(
      name,
      [op, name](const TensorArg& arg, DataType dtype) {
        TensorView* tv = toTensor(arg, name, "arg");
        return result(op(tv, allDims(tv), false, dtype));
      },
      py::arg("arg"), py::arg("dtype") = DataType::Null,
      (doc + " Over all dimensions: the result has rank 0.").c_str());
  ops.def(
      name,
      [op, name](const TensorArg& arg, int64_t dim, bool keepdim, DataType dtype) {
        return result(op(toTensor(arg, name, "arg"), {dim}, keepdim, dtype));
      },
      py::arg("arg"), py::arg("dim"), py::arg("keepdim") = false, py::arg("dtype") = DataType::Null,
      (doc + " Over one dimension.").c_str());
  ops.def(
      name,
      [op, name](const TensorArg& arg, const IntsArg& dims, bool keepdim, DataType dtype) {
        return result(op(toTensor(arg, name, "arg"), toInts(dims, name, "dims"), keepdim, dtype));
      },
      py::arg("arg"), py::arg("dims"), py::arg("keepdim") = false,
      py::arg("dtype") = DataType::Null,
      (doc + " Over several dimensions; RuntimeError if the list is empty.").c_str());
}

constexpr const char* kCorrection =
    " Divided by max(n - correction, 0). The reduced dimensions come back with size 1 if keepdim.";

void bindStatistics(py::module_& ops) {
  ops.def(
      "var",
      [](const TensorArg& arg, const IntsArg& dims, double correction, bool keepdim) {
        return result(variance(toTensor(arg, "var", "arg"), toInts(dims, "var", "dims"), correction,
                               keepdim));
      },
      py::arg("arg"), py::arg("dims"), py::arg("correction") = 1, py::arg("keepdim") = false,
      (std::string(
           "Variance over dims, in two passes; Float for integers and 16-bit floats, real for "
           "complex numbers.") +
       kCorrection)
          .c_str());
  ops.def(
      "var_mean",
      [](const TensorArg& arg, const IntsArg& dims, double correction, bool keepdim) {
        const VarMeanResult r =
            variance_mean(toTensor(arg, "var_mean", "arg"), toInts(dims, "var_mean", "dims"),
                          correction, keepdim);
        return Results<TensorResult, TensorResult>(py::make_tuple(result(r.var), result(r.mean)));
      },
      py::arg("arg"), py::arg("dims"), py::arg("correction") = 1, py::arg("keepdim") = false,
      (std::string(
           "(variance, mean) over dims, by Welford's algorithm. RuntimeError for 16-bit and "
           "smaller floats, which are to be cast first.") +
       kCorrection)
          .c_str());
  ops.def(
      "welford",
      [](const TensorArg& arg, const IntsArg& dims) {
        const WelfordResult r =
            Welford(toTensor(arg, "welford", "arg"), toInts(dims, "welford", "dims"));
        return Results<TensorResult, TensorResult, TensorResult>(
            py::make_tuple(result(r.avg), result(r.var_sum), result(r.n)));
      },
      py::arg("arg"), py::arg("dims"),
      "(mean, sum of squared deviations from it, number of elements) over dims; the number has "
      "dtype "
      "Index.");
}

using Scan = TensorView* (*)(TensorView*, int64_t, Val*);

void bindScan(py::module_& ops, const char* name, Scan op, const char* what) {
  ops.def(
      name,
      [op, name](const TensorArg& arg, int64_t dim, const OptionalNumberArg& init) {
        return result(op(toTensor(arg, name, "arg"), dim, toVal(init, name, true)));
      },
      py::arg("arg"), py::arg("dim"), py::arg("init") = py::none(),
      (std::string("Running ") + what +
       " along dim, the element itself included, in the dtype of arg; `init` is combined with "
       "every "
       "element. RuntimeError for a tensor of rank 0 and for an expanded dimension.")
          .c_str());
}

} // namespace

void bindReductionOps(py::module_& ops) {
  const std::string dtype_rule =
      " arg is converted to dtype first; by default integers and bools become Int, other dtypes "
      "are "
      "kept. The reduced dimensions come back with size 1 if keepdim.";
  bindReduction(ops, "sum", &sum, "Sum of elements." + dtype_rule);
  bindReduction(ops, "prod", &prod, "Product of elements." + dtype_rule);
  const std::string comparison =
      " NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if "
      "keepdim.";
  bindReduction(ops, "max", &max, "Greatest of elements." + comparison);
  bindReduction(ops, "min", &min, "Least of elements." + comparison);
  bindStatistics(ops);
  bindScan(ops, "cumsum", &cumsum, "sum");
  bindScan(ops, "cumprod", &cumprod, "product");
  bindScan(ops, "cummin", &cummin, "minimum");
  bindScan(ops, "cummax", &cummax, "maximum");
}

} // namespace nvfuser::python
