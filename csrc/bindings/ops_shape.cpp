// SPDX-License-Identifier: BSD-3-Clause
// Shape, layout, creation and random ops.
#include <bindings/bindings.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ops/all_ops.h>

namespace nvfuser::python {

namespace {

std::vector<bool> toBools(py::handle sequence, const char* op, const char* argument) {
  std::vector<bool> out;
  for (int64_t v : toInts(sequence, op, argument)) {
    out.push_back(v != 0);
  }
  return out;
}

// Slice bounds: all lists or all tuples, of integers and scalars; negative numbers are reported by
// the op.
std::vector<Val*> toIndices(py::handle sequence, const char* argument) {
  if (PySequence_Check(sequence.ptr()) == 0 || PyUnicode_Check(sequence.ptr()) != 0) {
    throw py::type_error(std::string("slice: ") + argument + " must be a list or tuple");
  }
  std::vector<Val*> out;
  for (py::handle item : py::reinterpret_borrow<py::sequence>(sequence)) {
    if (PyFloat_Check(item.ptr())) {
      throw py::type_error(std::string("slice: ") + argument + " must hold integers");
    }
    out.push_back(toVal(item, "slice"));
  }
  return out;
}

void bindShape(py::module_& ops) {
  ops.def(
      "broadcast",
      [](const TensorArg& arg, const BoolsArg& dims) {
        return result(broadcast(toTensor(arg, "broadcast", "arg"),
                                toBools(dims, "broadcast", "is_broadcast_dim")));
      },
      py::arg("arg"), py::arg("is_broadcast_dim"),
      "Inserts dimensions of size 1 where is_broadcast_dim is True.");
  ops.def(
      "broadcast_in_dim",
      [](const TensorArg& arg, const ShapeArg& shape, const IntsArg& dims) {
        return result(broadcast_in_dim(toTensor(arg, "broadcast_in_dim", "arg"),
                                       toShape(shape, "broadcast_in_dim"),
                                       toInts(dims, "broadcast_in_dim", "broadcast_dims")));
      },
      py::arg("arg"), py::arg("shape"), py::arg("broadcast_dims"),
      "Dimension i of arg becomes dimension broadcast_dims[i] of the result, which is expanded to "
      "`shape` (-1 keeps a size).");
  ops.def(
      "expand",
      [](const TensorArg& arg, const ShapeArg& shape) {
        return result(expand(toTensor(arg, "expand", "arg"), toShape(shape, "expand")));
      },
      py::arg("arg"), py::arg("shape"),
      "Gives dimensions of size 1 the size in `shape`; -1 keeps; more leading dimensions may be "
      "added.");
  ops.def(
      "reshape",
      [](const TensorArg& arg, const ShapeArg& shape) {
        return result(reshape(toTensor(arg, "reshape", "arg"), toShape(shape, "reshape")));
      },
      py::arg("arg"), py::arg("new_shape"), "Row-major reshape; one entry may be -1.");
  ops.def(
      "permute",
      [](const TensorArg& arg, const IntsArg& dims) {
        return result(permute(toTensor(arg, "permute", "arg"), toInts(dims, "permute", "dims")));
      },
      py::arg("arg"), py::arg("dims"), "Dimension i of the result is dimension dims[i] of arg.");
  ops.def(
      "squeeze",
      [](const TensorArg& arg, const IntsArg& dims, bool expanded) {
        return result(
            squeeze(toTensor(arg, "squeeze", "arg"), toInts(dims, "squeeze", "dims"), expanded));
      },
      py::arg("arg"), py::arg("dims"), py::arg("squeeze_expanded") = false,
      "Removes dimensions of size 1 (expanded ones only with the flag).");
}

void bindParts(py::module_& ops) {
  ops.def(
      "slice",
      [](const TensorArg& arg, const ShapeArg& start, const ShapeArg& end,
         const OptionalShapeArg& strides, bool manual) {
        const bool tuple = PyTuple_Check(start.ptr()) != 0;
        if ((PyTuple_Check(end.ptr()) != 0) != tuple ||
            (!strides.is_none() && (PyTuple_Check(strides.ptr()) != 0) != tuple)) {
          throw py::type_error(
              "slice: start_indices, end_indices and strides must all be lists or all be tuples");
        }
        std::vector<Val*> steps;
        if (!strides.is_none()) {
          steps = toIndices(strides, "strides");
          NVF_CHECK(steps.size() == py::len(start), "Slice start_indices and strides don't match!");
        }
        return result(slice(toTensor(arg, "slice", "arg"), toIndices(start, "start_indices"),
                            toIndices(end, "end_indices"), steps, manual));
      },
      py::arg("arg"), py::arg("start_indices"), py::arg("end_indices"),
      py::arg("strides") = py::none(), py::arg("manual_normalization") = false,
      "Elements [start, end) of each dimension; ends are clamped to the size unless "
      "manual_normalization.");
  ops.def(
      "pad",
      [](const TensorArg& arg, const ShapeArg& widths, const OptionalNumberArg& value) {
        return result(pad(toTensor(arg, "pad", "arg"), toIndices(widths, "pad_widths"),
                          toVal(value, "pad", true)));
      },
      py::arg("arg"), py::arg("pad_widths"), py::arg("value") = py::none(),
      "Pads with `value` (default zero). Widths as torch: left and right of the last dimension "
      "first; "
      "negative widths crop.");
  ops.def(
      "cat",
      [](const TensorsArg& tensors, int64_t dim, bool manual) {
        return result(cat(toTensors(tensors, "cat", "tensors"), dim, manual));
      },
      py::arg("tensors"), py::arg("dim") = 0, py::arg("manual_padding") = false,
      "Concatenates along `dim`. With manual_padding every tensor is the result of pad().");
  ops.def(
      "stride_order",
      [](const TensorArg& arg, const IntsArg& order) {
        return result(stride_order(toTensor(arg, "stride_order", "arg"),
                                   toInts(order, "stride_order", "stride_order")));
      },
      py::arg("arg"), py::arg("stride_order"),
      "Copy in another memory order: stride_order[i] is the rank of dimension i's stride, 0 the "
      "fastest.");
  ops.def(
      "triu",
      [](const TensorArg& arg, int64_t diagonal) {
        return result(triu(toTensor(arg, "triu", "arg"), diagonal));
      },
      py::arg("arg"), py::arg("diagonal") = 0,
      "Zero below the given diagonal of the last two dimensions.");
  ops.def(
      "size",
      [](const TensorArg& arg, int64_t dim) {
        return scalarResult(size(toTensor(arg, "size", "arg"), dim));
      },
      py::arg("arg"), py::arg("dim"), "Size of a dimension (the expanded one) as a scalar.");
  ops.def(
      "shape",
      [](const TensorArg& arg) {
        py::typing::List<ScalarResult> out;
        for (Val* v : shape(toTensor(arg, "shape", "arg"))) {
          out.append(scalarResult(v));
        }
        return out;
      },
      py::arg("arg"), py::pos_only(), "Sizes of all dimensions as scalars.");
}

void bindCreation(py::module_& ops) {
  ops.def(
      "full",
      [](const ShapeArg& shape, const NumberArg& value, DataType dtype) {
        return result(full(toShape(shape, "full"), toVal(value, "full"), dtype));
      },
      py::arg("shape"), py::arg("fill_value"), py::arg("dtype"),
      "Tensor of one value, converted to dtype.");
  ops.def(
      "iota",
      [](const NumberArg& length, const OptionalNumberArg& start, const OptionalNumberArg& step,
         DataType dtype) {
        return result(iota(toVal(length, "iota"), toVal(start, "iota", true),
                           toVal(step, "iota", true), dtype));
      },
      py::arg("length"), py::arg("start") = py::none(), py::arg("step") = py::none(),
      py::arg("dtype") = DataType::Int,
      "start + i * step for i in [0, length); start defaults to 0 and step to 1.");
  auto random = [&](const char* name, auto op, const char* first, const char* second,
                    const char* doc) {
    ops.def(
        name,
        [op, name](const NumberArg& a, const NumberArg& b, const ShapeArg& shape,
                   const OptionalNumberArg& seed, const OptionalNumberArg& offset, DataType dtype) {
          return result(op(toShape(shape, name), toVal(a, name), toVal(b, name), dtype,
                           toVal(seed, name, true), toVal(offset, name, true)));
        },
        py::arg(first), py::arg(second), py::arg("shape"), py::kw_only(),
        py::arg("rng_seed") = py::none(), py::arg("rng_offset") = py::none(),
        py::arg("dtype") = DataType::Float, doc);
  };
  random("uniform",
         static_cast<TensorView* (*)(const std::vector<Val*>&, Val*, Val*, DataType, Val*, Val*)>(
             uniform),
         "minval", "maxval",
         "Uniform numbers in [minval, maxval), from the device's generator or an explicit seed and "
         "offset "
         "(Philox 4x32-10).");
  random("normal",
         static_cast<TensorView* (*)(const std::vector<Val*>&, Val*, Val*, DataType, Val*, Val*)>(
             normal),
         "mean", "std",
         "Normal numbers, from the device's generator or an explicit seed and offset (Philox "
         "4x32-10).");
}

} // namespace

void bindShapeOps(py::module_& ops) {
  bindShape(ops);
  bindParts(ops);
  bindCreation(ops);
}

} // namespace nvfuser::python
