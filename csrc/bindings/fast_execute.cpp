// The hot path of FusionDefinition.execute, as a C method of a base class: a cached call makes no
// Python frame and no argument tuple. Everything unusual goes to the Python method _execute.
#include <bindings/bindings.h>
#include <bindings/call.h>

#include <executor/fusion_executor_cache.h>

namespace nvfuser::python {

namespace {

constexpr const char* kDoc =
    "execute($self, inputs, *, device=None, save_repro_inputs=False, _enable_options=[], "
    "_disable_options=[])\n--\n\n"
    "Schedules, compiles (once for what the shapes share) and runs the fusion.\n\n"
    "Args:\n"
    "    inputs: tensors and numbers in the order of definition; lists inside are flattened.\n"
    "    device: where to run; by default where the tensors are.\n"
    "    save_repro_inputs: keep shapes of the inputs for last_repro_script().\n\n"
    "Returns: the outputs that are not hidden in-place updates, in order.";

// The attribute `fec` lives in the object itself, with its C++ side at hand.
struct Base {
  PyObject_HEAD PyObject* fec;
  FusionExecutorCache* cache; // what `fec` holds, or null
};

PyObject* getFec(PyObject* self, void*) {
  PyObject* fec = reinterpret_cast<Base*>(self)->fec;
  if (fec == nullptr) {
    PyErr_SetString(PyExc_AttributeError,
                    "'FusionDefinition' object has no attribute 'fec': nothing was executed yet");
    return nullptr;
  }
  return Py_NewRef(fec);
}

int setFec(PyObject* self, PyObject* value, void*) {
  auto* base = reinterpret_cast<Base*>(self);
  if (value == nullptr && base->fec == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "fec");
    return -1;
  }
  FusionExecutorCache* cache = nullptr;
  if (value != nullptr && py::isinstance<FusionExecutorCache>(value)) {
    try {
      cache = py::handle(value).cast<FusionExecutorCache*>();
    } catch (const py::builtin_exception& error) {
      error.set_error();
      return -1;
    }
  }
  PyObject* old = base->fec;
  base->fec = Py_XNewRef(value);
  base->cache = cache;
  Py_XDECREF(old);
  return 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_CLEAR(reinterpret_cast<Base*>(self)->fec);
  type->tp_free(self);
  Py_DECREF(type);
}

// Null with no error set: take the slow way.
PyObject* runCached(PyObject* self, PyObject* inputs) {
  FusionExecutorCache* cache = reinterpret_cast<Base*>(self)->cache;
  if (cache == nullptr) {
    return nullptr;
  }
  // The call may drop the attribute (from another thread, while the interpreter is released).
  const PyRef keep_alive = PyRef::share(reinterpret_cast<Base*>(self)->fec);
  const CallArguments args(inputs);
  return runFusion(*cache, args).release();
}

PyObject* execute(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (nargs == 1 && kwnames == nullptr) {
    try {
      if (PyObject* out = runCached(self, args[0])) {
        return out;
      }
    } catch (const std::exception&) {
      setPythonError();
      return nullptr;
    }
  }
  static PyObject* const name = PyUnicode_InternFromString("_execute");
  PyRef slow = PyRef::steal(PyObject_GetAttr(self, name));
  if (!slow) {
    return nullptr;
  }
  return PyObject_Vectorcall(slow.get(), args, static_cast<size_t>(nargs), kwnames);
}

} // namespace

void bindFastExecute(py::module_& m) {
  static PyMethodDef methods[] = {
      {"execute", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&execute)),
       METH_FASTCALL | METH_KEYWORDS, kDoc},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef attributes[] = {
      {"fec", &getFec, &setFec, "FusionExecutorCache; there after the first execute().", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_methods, methods},
      {Py_tp_getset, attributes},
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
      {Py_tp_doc, const_cast<char*>("Base of FusionDefinition: the hot path of execute().")},
      {0, nullptr}};
  static PyType_Spec spec = {"nvfuse_direct._C_DIRECT._FusionDefinitionBase", sizeof(Base), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) {
    throw py::error_already_set();
  }
  m.attr("_FusionDefinitionBase") = py::reinterpret_steal<py::object>(type);
}

} // namespace nvfuser::python
