// SPDX-License-Identifier: BSD-3-Clause
// Ops that look up or write at positions that a tensor holds.
#include <bindings/bindings.h>

#include <ops/all_ops.h>

namespace nvfuser::python {

namespace {

using Lookup = TensorView* (*)(TensorView*, TensorView*, int64_t);

constexpr const char* kRange =
    " Positions are integers in [0, size); outside of it nothing is read and the element is 0.";

void bindLookup(py::module_& ops, const char* name, Lookup op, const std::string& doc) {
  ops.def(
      name,
      [op, name](const TensorArg& arg, const TensorArg& index, int64_t dim) {
        return result(op(toTensor(arg, name, "arg"), toTensor(index, name, "index"), dim));
      },
      py::arg("arg"), py::arg("index"), py::arg("dim"), (doc + kRange).c_str());
}

} // namespace

void bindIndexingOps(py::module_& ops) {
  bindLookup(
      ops, "index_select", &index_select,
      "Entries index[0], index[1], ... of arg along dim. The index has rank 1, or 0, which gives "
      "size 1.");
  bindLookup(ops, "gather", &gather,
             "out[i, j, ...] = arg[index[i, j, ...], j, ...] for dim 0 (torch.gather). Ranks are "
             "equal; the sizes "
             "of the index but that of dim are at most those of arg.");
  bindLookup(ops, "take_along_axis", &take_along_axis,
             "out[i, j, ...] = arg[index[i, j, ...], j, ...] for dim 0. Ranks are equal; sizes "
             "other than that "
             "of dim are equal or 1, which broadcasts. Floats as positions are truncated.");
  ops.def(
      "select",
      [](const TensorArg& arg, const Operand& index, int64_t dim) {
        return result(select(toTensor(arg, "select", "arg"), toVal(index, "select"), dim));
      },
      py::arg("arg"), py::arg("index"), py::arg("dim"),
      "Entry `index` of arg along dim, which the result lacks. The index is a scalar (negative: "
      "from "
      "the end) or a tensor of rank 0.");
  ops.def(
      "scatter",
      [](const TensorArg& arg, const TensorArg& index, const Operand& src, int64_t dim) {
        return result(scatter(toTensor(arg, "scatter", "arg"), toTensor(index, "scatter", "index"),
                              toVal(src, "scatter"), dim));
      },
      py::arg("arg"), py::arg("index"), py::arg("src"), py::arg("dim"),
      "Copy of arg with out[index[i, j, ...], j, ...] = src[i, j, ...] for dim 0 (torch.scatter). "
      "src is a "
      "tensor or a scalar. Positions out of range are dropped; of equal ones the last wins.");
  ops.def(
      "embedding_fwd",
      [](const TensorArg& input, const TensorArg& weight, const OptionalNumberArg& padding_idx,
         const OptionalNumberArg& max_norm, const OptionalNumberArg& norm_type,
         const OptionalNumberArg& scale_grad_by_freq, const OptionalNumberArg& sparse) {
        constexpr const char* kName = "embedding_fwd";
        return result(
            embedding_fwd(toTensor(input, kName, "input"), toTensor(weight, kName, "weight"),
                          toVal(padding_idx, kName, true), toVal(max_norm, kName, true),
                          toVal(norm_type, kName, true), toVal(scale_grad_by_freq, kName, true),
                          toVal(sparse, kName, true)));
      },
      py::arg("input"), py::arg("weight"), py::arg("padding_idx") = py::none(),
      py::arg("max_norm") = py::none(), py::arg("norm_type") = py::none(),
      py::arg("scale_grad_by_freq") = py::none(), py::arg("sparse") = py::none(),
      (std::string(
           "Rows of the weight (rank 2) at the positions in input: input.shape + [columns]. With "
           "max_norm rows of a larger norm (of order norm_type, 2.0 by default) are scaled to "
           "it. padding_idx, scale_grad_by_freq and sparse concern gradients only.") +
       kRange)
          .c_str());
}

} // namespace nvfuser::python
