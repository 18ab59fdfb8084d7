// SPDX-License-Identifier: BSD-3-Clause
// Conversion between Python operands and IR nodes.
#include <bindings/bindings.h>

#include <base/error.h>
#include <ir/builder.h>

#include <frameobject.h>

namespace nvfuser::python {

namespace {

[[noreturn]] void typeError(const std::string& message) {
  throw py::type_error(message);
}

std::string typeOf(py::handle object) {
  return Py_TYPE(object.ptr())->tp_name;
}

// The folder of this package's Python files, with a slash at its end.
std::string packageFolder() {
  const py::object file = py::module_::import("nvfuse_direct").attr("__file__");
  const std::string path = py::str(file);
  return path.substr(0, path.rfind('/') + 1);
}

// "path/file.py:12" of the innermost Python frame outside of this package; empty if there is none.
std::string callerLocation() {
  // No initializer of a static variable may run Python: another thread would wait for it with the
  // GIL held.
  static const std::string* package = nullptr;
  if (package == nullptr) {
    package = new std::string(packageFolder());
  }
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    const char* name = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename);
    const std::string file = name == nullptr ? "" : name;
    if (!file.starts_with(*package)) {
      return file + ":" + std::to_string(PyFrame_GetLineNumber(raw));
    }
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  PyErr_Clear();
  return {};
}

// The tensor was made by the Python line that runs, with the tensors on the way to it that no line
// made yet: those of an op that consists of several.
void setLocation(TensorView* tv) {
  if (!tv->sourceLocation().empty()) {
    return;
  }
  const std::string where = callerLocation();
  std::vector<TensorView*> stack{tv};
  while (!stack.empty() && !where.empty()) {
    TensorView* each = stack.back();
    stack.pop_back();
    if (!each->sourceLocation().empty()) {
      continue;
    }
    each->setSourceLocation(where);
    if (const Expr* definition = each->definition()) {
      for (Val* in : definition->inputs()) {
        if (auto* producer = tryAs<TensorView>(in)) {
          stack.push_back(producer);
        }
      }
    }
  }
}

int64_t toInt(py::handle item, const std::string& where) {
  if (PyFloat_Check(item.ptr()) || !PyIndex_Check(item.ptr())) {
    typeError(where + ": expected integers, got " + typeOf(item));
  }
  py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
  if (!index) {
    throw py::error_already_set();
  }
  const long long v = PyLong_AsLongLong(index.ptr());
  if (v == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    typeError(where + ": an integer does not fit into 64 bits");
  }
  return v;
}

py::sequence toSequence(py::handle object, const std::string& where) {
  if (PySequence_Check(object.ptr()) == 0 || PyUnicode_Check(object.ptr()) != 0 ||
      PyBytes_Check(object.ptr()) != 0) {
    typeError(where + ": expected a list or tuple, got " + typeOf(object));
  }
  return py::reinterpret_borrow<py::sequence>(object);
}

} // namespace

Val* toVal(py::handle object, const char* op, bool allow_none) {
  if (object.is_none()) {
    if (allow_none) {
      return nullptr;
    }
    typeError(std::string(op) + ": an operand is None");
  }
  if (py::isinstance<Val>(object)) {
    return object.cast<Val*>();
  }
  // bool before int: it is a subclass.
  if (PyBool_Check(object.ptr())) {
    return IrBuilder::create<Val>(object.ptr() == Py_True, DataType::Bool);
  }
  if (PyLong_Check(object.ptr())) {
    const long long v = PyLong_AsLongLong(object.ptr());
    if (v == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      typeError(std::string(op) + ": the integer does not fit into 64 bits");
    }
    return IrBuilder::create<Val>(static_cast<int64_t>(v), DataType::Int);
  }
  if (PyFloat_Check(object.ptr())) {
    return IrBuilder::create<Val>(PyFloat_AsDouble(object.ptr()), DataType::Double);
  }
  if (PyComplex_Check(object.ptr())) {
    return IrBuilder::create<Val>(object.cast<std::complex<double>>(), DataType::ComplexDouble);
  }
  if (PyIndex_Check(object.ptr()) != 0) {
    return IrBuilder::create<Val>(toInt(object, op), DataType::Int);
  }
  typeError(std::string(op) + ": expected a tensor, a scalar or a Python number, got " +
            typeOf(object));
}

TensorView* toTensor(py::handle object, const char* op, const char* argument) {
  if (!py::isinstance<TensorView>(object)) {
    typeError(std::string(op) + ": " + argument + " must be a TensorView, got " + typeOf(object));
  }
  return object.cast<TensorView*>();
}

std::vector<TensorView*> toTensors(py::handle sequence, const char* op, const char* argument) {
  std::vector<TensorView*> out;
  for (py::handle item : toSequence(sequence, std::string(op) + ": " + argument)) {
    out.push_back(toTensor(item, op, argument));
  }
  return out;
}

std::vector<Val*> toShape(py::handle sequence, const char* op) {
  std::vector<Val*> out;
  int64_t position = 0;
  for (py::handle item : toSequence(sequence, std::string(op) + ": shape")) {
    if (py::isinstance<Val>(item)) {
      out.push_back(item.cast<Val*>());
    } else {
      const int64_t v = toInt(item, std::string(op) + ": shape");
      NVF_CHECK(v >= -1, "The value ", v, " at index ", position,
                " was neither symbolic(-1), zero_element(0), broadcast(1), or static(>1).");
      out.push_back(IrBuilder::create<Val>(v, DataType::Int));
    }
    ++position;
  }
  return out;
}

std::vector<int64_t> toInts(py::handle sequence, const char* op, const char* argument) {
  const std::string where = std::string(op) + ": " + argument;
  std::vector<int64_t> out;
  for (py::handle item : toSequence(sequence, where)) {
    out.push_back(toInt(item, where));
  }
  return out;
}

TensorResult result(TensorView* tv) {
  setLocation(tv);
  return py::cast(handle(tv));
}

PromotedResult result(Val* v) {
  if (auto* tv = tryAs<TensorView>(v)) {
    return py::object(result(tv));
  }
  return py::cast(handle(v));
}

OptionalTensorResult optionalResult(TensorView* tv) {
  return tv == nullptr ? py::object(py::none()) : py::object(result(tv));
}

ScalarResult scalarResult(Val* v) {
  return py::cast(handle(v));
}

bool namesDataType(py::handle object) {
  return PyUnicode_Check(object.ptr()) != 0 ||
         std::string_view(Py_TYPE(object.ptr())->tp_name) == "torch.dtype";
}

DataType toDataType(py::handle object) {
  const std::string name = py::str(object);
  if (const std::optional<DataType> type = dataTypeNamed(name)) {
    return *type;
  }
  typeError(name +
            " is no element type of fusions: expected a DataType, a dtype of torch or its "
            "name, such as float32, bfloat16, int64 or bool");
}

Fusion* activeFusion() {
  return dynamic_cast<Fusion*>(IrBuilder::activeContainer());
}

} // namespace nvfuser::python
