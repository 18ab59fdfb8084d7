// SPDX-License-Identifier: BSD-3-Clause
// Types of arguments and results as the signatures of bound functions name them, from which the
// stubs are made. At run time each is any Python object: toTensor() and its relatives check them,
// with messages that name the op.
#pragma once

#include <type.h>

#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

namespace nvfuser::python {

namespace py = pybind11;

// `Words::text` stands in signatures.
template <class Words>
class Typed : public py::object {
  static bool isAnything(PyObject*) {
    return true;
  }

 public:
  PYBIND11_OBJECT_COMMON(Typed, py::object, isAnything)
  Typed() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a result of a known type
  Typed(const py::object& object) : py::object(object) {}
};

namespace words {

using py::detail::const_name;

struct Tensor {
  static constexpr auto text = const_name("TensorView");
};
struct OptionalExpr {
  static constexpr auto text = const_name("Expr | None");
};
struct Exprs {
  static constexpr auto text = const_name("list[Expr]");
};
struct OptionalTensor {
  static constexpr auto text = const_name("TensorView | None");
};
struct Tensors {
  static constexpr auto text = const_name("collections.abc.Sequence[TensorView]");
};
struct Scalar {
  static constexpr auto text = const_name("Val");
};
// Of an op on tensors or scalars: a tensor if one of its operands is.
struct Promoted {
  static constexpr auto text = const_name("TensorView | Val");
};
struct Operand {
  static constexpr auto text = const_name("TensorView | Val | bool | int | float | complex");
};
struct OptionalOperand {
  static constexpr auto text = const_name("TensorView | Val | bool | int | float | complex | None");
};
struct Number {
  static constexpr auto text = const_name("Val | bool | int | float | complex");
};
struct OptionalNumber {
  static constexpr auto text = const_name("Val | bool | int | float | complex | None");
};
struct PlainNumber {
  static constexpr auto text = const_name("bool | int | float | complex");
};
struct OptionalPlainNumber {
  static constexpr auto text = const_name("bool | int | float | complex | None");
};
struct Contiguity {
  static constexpr auto text = const_name(
      "bool | collections.abc.Sequence[bool | None] | collections.abc.Sequence[int] | None");
};
struct NumberOrType {
  static constexpr auto text =
      const_name("bool | int | float | complex | DataType | torch.dtype | str | None");
};
struct Ids {
  static constexpr auto text = const_name("collections.abc.Sequence[IterDomain]");
};
struct Ints {
  static constexpr auto text = const_name("collections.abc.Sequence[int]");
};
struct OptionalInts {
  static constexpr auto text = const_name("collections.abc.Sequence[int] | None");
};
struct Bools {
  static constexpr auto text = const_name("collections.abc.Sequence[bool]");
};
struct Shape {
  static constexpr auto text = const_name("collections.abc.Sequence[int | Val]");
};
struct OptionalShape {
  static constexpr auto text = const_name("collections.abc.Sequence[int | Val] | None");
};
struct Inputs {
  static constexpr auto text = const_name("collections.abc.Iterable[typing.Any]");
};
struct TorchTensor {
  static constexpr auto text = const_name("torch.Tensor");
};
struct TorchTensors {
  static constexpr auto text = const_name("list[torch.Tensor]");
};
struct MeshDevices {
  static constexpr auto text = const_name("torch.Tensor | collections.abc.Sequence[int]");
};
struct Shardings {
  static constexpr auto text = const_name("list[multidevice.Sharding]");
};
struct TorchDevice {
  static constexpr auto text = const_name("torch.device | str | int | None");
};

} // namespace words

using TensorArg = Typed<words::Tensor>;
using OptionalTensorArg = Typed<words::OptionalTensor>;
using TensorsArg = Typed<words::Tensors>;
using Operand = Typed<words::Operand>;
using OptionalOperand = Typed<words::OptionalOperand>;
using NumberArg = Typed<words::Number>;
using OptionalNumberArg = Typed<words::OptionalNumber>;
using PlainNumber = Typed<words::PlainNumber>;
using OptionalPlainNumber = Typed<words::OptionalPlainNumber>;
using ContiguityArg = Typed<words::Contiguity>;
using NumberOrType = Typed<words::NumberOrType>;
using IdsArg = Typed<words::Ids>;
using IntsArg = Typed<words::Ints>;
using OptionalIntsArg = Typed<words::OptionalInts>;
using BoolsArg = Typed<words::Bools>;
using ShapeArg = Typed<words::Shape>;
using OptionalShapeArg = Typed<words::OptionalShape>;
using InputsArg = Typed<words::Inputs>;
using TorchTensor = Typed<words::TorchTensor>;
using TorchTensors = Typed<words::TorchTensors>;
using MeshDevices = Typed<words::MeshDevices>;
using ShardingsResult = Typed<words::Shardings>;
using TorchDevice = Typed<words::TorchDevice>;

using OptionalExprResult = Typed<words::OptionalExpr>;
using ExprsResult = Typed<words::Exprs>;
using TensorResult = Typed<words::Tensor>;
using OptionalTensorResult = Typed<words::OptionalTensor>;
using ScalarResult = Typed<words::Scalar>;
using PromotedResult = Typed<words::Promoted>;
template <class... Each>
using Results = py::typing::Tuple<Each...>;

// Of a name ("float32", "torch.float32") or a dtype of torch; TypeError if there is no such type of
// fusions.
DataType toDataType(py::handle object);
// Whether toDataType() is to be asked.
bool namesDataType(py::handle object);

} // namespace nvfuser::python

namespace pybind11::detail {

template <class Words>
struct handle_type_name<nvfuser::python::Typed<Words>> {
  static constexpr auto name = Words::text;
};

// Wherever a DataType is expected, torch's dtypes and their names are taken too.
template <>
struct type_caster_enum_type_enabled<nvfuser::DataType> : std::false_type {};

template <>
class type_caster<nvfuser::DataType> : public type_caster_base<nvfuser::DataType> {
 public:
  static constexpr auto name = io_name("DataType | torch.dtype | str", "DataType");

  bool load(handle source, bool convert) {
    if (type_caster_base<nvfuser::DataType>::load(source, convert)) {
      return true;
    }
    if (!nvfuser::python::namesDataType(source)) {
      return false;
    }
    named_ = nvfuser::python::toDataType(source);
    value = &named_;
    return true;
  }

 private:
  nvfuser::DataType named_ = nvfuser::DataType::Null;
};

} // namespace pybind11::detail
