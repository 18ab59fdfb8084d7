// SPDX-License-Identifier: BSD-3-Clause
// FusionDefinition.execute, as a C method of a base class: a cached call makes no Python frame, no
// argument tuple and no dictionary, whatever keywords it has. Python is asked for the executor
// cache before the first call, and to keep inputs for a script.
#include <bindings/bindings.h>
#include <bindings/call.h>

#include <base/options.h>
#include <executor/fusion_executor_cache.h>

#include <array>
#include <utility>

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

// The arguments of a call, borrowed.
struct Call {
  PyObject* inputs = nullptr;
  PyObject* device = Py_None;
  PyObject* save_repro_inputs = Py_False;
  PyObject* enable_options = nullptr;
  PyObject* disable_options = nullptr;
};

using Keyword = std::pair<PyObject*, PyObject * Call::*>;

const std::array<Keyword, 5>& keywords() {
  static const std::array<Keyword, 5> all = {{
      {PyUnicode_InternFromString("device"), &Call::device},
      {PyUnicode_InternFromString("save_repro_inputs"), &Call::save_repro_inputs},
      {PyUnicode_InternFromString("inputs"), &Call::inputs},
      {PyUnicode_InternFromString("_enable_options"), &Call::enable_options},
      {PyUnicode_InternFromString("_disable_options"), &Call::disable_options},
  }};
  return all;
}

// Where the value of a keyword goes; null if there is no such keyword. The names at a call are the
// interpreter's only copies, as ours are: other strings are compared last.
PyObject* Call::* memberOf(PyObject* name) {
  for (const auto& [keyword, member] : keywords()) {
    if (keyword == name) {
      return member;
    }
  }
  for (const auto& [keyword, member] : keywords()) {
    if (PyUnicode_Compare(keyword, name) == 0) {
      return member;
    }
  }
  return nullptr;
}

Call parse(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Call call;
  if (nargs > 1) {
    throw py::type_error("execute() takes the inputs as its only positional argument, but " +
                         std::to_string(nargs) + " were given; the others have keywords");
  }
  if (nargs == 1) {
    call.inputs = args[0];
  }
  const Py_ssize_t count = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, i);
    PyObject* Call::* member = memberOf(name);
    if (member == nullptr) {
      throw py::type_error("execute() got an unexpected keyword argument '" +
                           std::string(py::str(name)) + "'");
    }
    if (member == &Call::inputs && call.inputs != nullptr) {
      throw py::type_error("execute() got multiple values for argument 'inputs'");
    }
    call.*member = args[nargs + i];
  }
  if (call.inputs == nullptr) {
    throw py::type_error("execute() missing 1 required argument: 'inputs'");
  }
  return call;
}

// Names of options, usually none.
std::vector<std::string> optionNames(PyObject* list, const char* argument) {
  if (list == nullptr || list == Py_None || PySequence_Size(list) == 0) {
    return {};
  }
  clearError(); // it may be no sequence
  try {
    return py::handle(list).cast<std::vector<std::string>>();
  } catch (const py::cast_error&) {
    throw py::type_error(std::string("execute(): ") + argument +
                         " must be a list of names of options");
  }
}

// The executor cache of the definition, which Python makes before the first call. Null: `fec` was
// set to something else that executes.
FusionExecutorCache* cacheOf(PyObject* self) {
  auto* base = reinterpret_cast<Base*>(self);
  if (base->fec == nullptr) {
    py::handle(self).attr("_make_executor_cache")();
  }
  return base->cache;
}

PyRef run(PyObject* self, Call call) {
  FusionExecutorCache* cache = cacheOf(self);
  // The call may drop the attribute (from another thread, while the interpreter is released).
  const PyRef keep_alive = PyRef::share(reinterpret_cast<Base*>(self)->fec);
  PyRef inputs = PyRef::share(call.inputs);
  if (call.save_repro_inputs != Py_False && PyObject_IsTrue(call.save_repro_inputs) == 1) {
    inputs = checkedUnchanged(PySequence_List(call.inputs)); // read twice
    py::handle(self).attr("_save_inputs")(py::handle(inputs.get()));
  }
  std::optional<OptionsGuard> options;
  std::vector<std::string> enable = optionNames(call.enable_options, "_enable_options");
  std::vector<std::string> disable = optionNames(call.disable_options, "_disable_options");
  if (cache == nullptr) {
    py::object out =
        py::handle(keep_alive.get())
            .attr("execute")(py::handle(inputs.get()), py::arg("device") = py::handle(call.device),
                             py::arg("_enable_options") = enable,
                             py::arg("_disable_options") = disable);
    return PyRef::steal(out.release().ptr());
  }
  const CallArguments args(inputs.get());
  const std::optional<Device> device = toDevice(call.device);
  if (!enable.empty() || !disable.empty()) {
    options.emplace(enable, disable);
  }
  return runFusion(*cache, args, device);
}

PyObject* execute(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  try {
    return run(self, parse(args, nargs, kwnames)).release();
  } catch (const std::exception&) {
    setPythonError();
    return nullptr;
  }
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
