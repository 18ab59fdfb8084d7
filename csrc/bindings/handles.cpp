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

// "file.py:12" of the innermost Python frame outside of this package.
std::string callerLocation() {
  PyFrameObject* frame = PyEval_GetFrame();
  if (frame == nullptr) {
    return {};
  }
  PyCodeObject* code = PyFrame_GetCode(frame);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  std::string out = file == nullptr ? std::string() : file;
  Py_DECREF(code);
  const size_t slash = out.rfind('/');
  if (slash != std::string::npos) {
    out.erase(0, slash + 1);
  }
  return out + ":" + std::to_string(PyFrame_GetLineNumber(frame));
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
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr())) {
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

py::object result(Val* v) {
  if (auto* tv = dynamic_cast<TensorView*>(v)) {
    if (tv->sourceLocation().empty()) {
      tv->setSourceLocation(callerLocation());
    }
    return py::cast(handle(tv));
  }
  return py::cast(handle(v));
}

Fusion* activeFusion() {
  return dynamic_cast<Fusion*>(IrBuilder::activeContainer());
}

} // namespace nvfuser::python
