// SPDX-License-Identifier: BSD-3-Clause
// Looking up torch and inspecting Python types.
#include <bindings/torch_library.h>

#include <base/error.h>

namespace nvfuser::python {

namespace {

bool use_exchange_table = true;
bool use_torch = true;

} // namespace

const char* libraryTypeName(DataType dtype, bool torch) {
  switch (dtype) {
    case DataType::Float4_e2m1fn:
    case DataType::Index:
    case DataType::Null:
      return nullptr;
    case DataType::Float4_e2m1fn_x2:
      return torch ? torchName(dtype).data() : nullptr;
    default:
      return torchName(dtype).data();
  }
}

DataType dataTypeByName(std::string_view name) {
  for (size_t i = 0; i < kDataTypes; ++i) {
    const auto dtype = static_cast<DataType>(i);
    const char* candidate = libraryTypeName(dtype, true);
    if (candidate != nullptr && name == candidate) {
      return dtype;
    }
  }
  return DataType::Null;
}

PyObject* attributeOrNull(PyObject* object, const char* name) {
  PyObject* value = object == nullptr ? nullptr : PyObject_GetAttrString(object, name);
  if (value == nullptr) {
    clearError();
  }
  return value;
}

namespace {

const dlpack::DLPackExchangeApi* exchangeApiOfType(PyObject* type) {
  const PyRef capsule = PyRef::steal(attributeOrNull(type, "__dlpack_c_exchange_api__"));
  if (!capsule || !PyCapsule_CheckExact(capsule.get())) {
    return nullptr;
  }
  void* pointer = PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api");
  if (pointer == nullptr) {
    PyErr_Clear();
  }
  auto* header = static_cast<dlpack::DLPackExchangeApiHeader*>(pointer);
  while (header != nullptr && header->version.major != dlpack::kMajorVersion) {
    header = header->prev_api;
  }
  const auto* api = reinterpret_cast<const dlpack::DLPackExchangeApi*>(header);
  return api != nullptr && api->dltensor_from_py_object_no_sync != nullptr ? api : nullptr;
}

Torch loadTorch() {
  Torch torch;
  torch.module = PyImport_ImportModule("torch");
  if (torch.module == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_ModuleNotFoundError) == 0) {
      throwPythonError("torch is installed but cannot be imported");
    }
    PyErr_Clear();
    return torch;
  }
  auto need = [](PyObject* object, const char* name) {
    return checked(PyObject_GetAttrString(object, name), "torch lacks something").release();
  };
  torch.tensor_type = need(torch.module, "Tensor");
  torch.api = exchangeApiOfType(torch.tensor_type);
  torch.is_conj = need(torch.tensor_type, "is_conj");
  torch.is_neg = need(torch.tensor_type, "is_neg");
  torch.resolve_conj = need(torch.tensor_type, "resolve_conj");
  torch.resolve_neg = need(torch.tensor_type, "resolve_neg");
  torch.detach = need(torch.tensor_type, "detach");
  torch.as_strided = need(torch.tensor_type, "as_strided");
  torch.storage_offset = need(torch.tensor_type, "storage_offset");
  torch.empty_strided = need(torch.module, "empty_strided");
  torch.device_type = need(torch.module, "device");
  torch.empty_keywords = Py_BuildValue("(ss)", "dtype", "device");
  torch.cpu_device = PyObject_CallFunction(torch.device_type, "s", "cpu");
  torch.get_num_threads = need(torch.module, "get_num_threads");
  const PyRef c = PyRef::steal(attributeOrNull(torch.module, "_C"));
  const PyRef dynamo = PyRef::steal(attributeOrNull(c.get(), "_dynamo"));
  const PyRef guards = PyRef::steal(attributeOrNull(dynamo.get(), "guards"));
  torch.empty_strided_cpu = attributeOrNull(guards.get(), "_empty_strided_cpu");
  torch.empty_strided_cuda = attributeOrNull(guards.get(), "_empty_strided_cuda");
  for (size_t i = 0; i < kDataTypes; ++i) {
    if (const char* name = libraryTypeName(static_cast<DataType>(i), true)) {
      torch.dtypes[i] = attributeOrNull(torch.module, name);
    }
  }
  return torch;
}

} // namespace

const Torch& torch() {
  static const Torch none;
  // No initializer of a static variable may run Python: another thread would wait for it with the
  // GIL held.
  static const Torch* loaded = nullptr;
  if (!use_torch) {
    return none;
  }
  if (loaded == nullptr) {
    const auto* fresh = new Torch(loadTorch());
    loaded = loaded == nullptr ? fresh : loaded;
  }
  return *loaded;
}

PyObject* numpy() {
  static PyObject* module = nullptr;
  if (module == nullptr) {
    module = PyImport_ImportModule("numpy");
  }
  if (module == nullptr) {
    clearError();
    NVF_CHECK_FAIL("Arrays cannot be made: neither torch nor NumPy is installed");
  }
  return module;
}

const dlpack::DLPackExchangeApi* torchExchangeApi() {
  return use_exchange_table ? torch().api : nullptr;
}

namespace {

TypeInfo inspectType(PyTypeObject* type) {
  TypeInfo info;
  info.type = type;
  auto* object = reinterpret_cast<PyObject*>(type);
  auto has = [&](const char* name) {
    return static_cast<bool>(PyRef::steal(attributeOrNull(object, name)));
  };
  // A tensor of torch implies that torch is loaded; anything else must not load it.
  PyObject* modules = PyImport_GetModuleDict();
  if (use_torch && PyDict_GetItemString(modules, "torch") != nullptr &&
      torch().tensor_type != nullptr) {
    info.is_torch = PyObject_IsSubclass(object, torch().tensor_type) == 1;
  }
  info.api = use_exchange_table ? exchangeApiOfType(object) : nullptr;
  info.has_dlpack = has("__dlpack__");
  info.has_array_interface = has("__array_interface__") || has("__cuda_array_interface__");
  clearError();
  return info;
}

constexpr size_t kRememberedTypes = 8;
std::array<TypeInfo, kRememberedTypes> remembered_types;
size_t next_remembered = 0;

} // namespace

const TypeInfo& typeInfo(PyTypeObject* type) {
  for (const TypeInfo& info : remembered_types) {
    if (info.type == type) {
      return info;
    }
  }
  TypeInfo& info = remembered_types[next_remembered++ % kRememberedTypes];
  // The type must not be freed and its address reused while it is remembered.
  Py_INCREF(type);
  const TypeInfo fresh = inspectType(type);
  Py_XDECREF(info.type);
  info = fresh;
  return info;
}

std::string typeNameOf(PyObject* object) {
  return Py_TYPE(object)->tp_name;
}

bool callPredicate(PyObject* method, PyObject* object) {
  PyObject* arguments[] = {object};
  PyObject* result = PyObject_Vectorcall(method, arguments, 1, nullptr);
  if (result == nullptr) {
    throwPythonError("Cannot look at an argument of type " + typeNameOf(object));
  }
  const bool value = result == Py_True;
  Py_DECREF(result);
  return value;
}

PyRef callMethod(PyObject* method, PyObject* object) {
  PyObject* arguments[] = {object};
  return checked(PyObject_Vectorcall(method, arguments, 1, nullptr), "Cannot convert an argument");
}

int64_t readInteger(const PyRef& number) {
  const long long value = PyLong_AsLongLong(number.get());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    throwPythonError("Cannot read an argument");
  }
  return value;
}

void* currentStream(Device device) {
  if (device.isHost() || !torchAvailable()) {
    return nullptr;
  }
  if (torchExchangeApi() != nullptr) {
    void* stream = nullptr;
    if (torchExchangeApi()->current_work_stream(dlpack::kCuda, device.index, &stream) != 0) {
      throwPythonError("Cannot get torch's current stream");
    }
    return stream;
  }
  constexpr const char* kWhat = "Cannot get torch's current stream";
  const PyRef cuda_module = checked(PyObject_GetAttrString(torch().module, "cuda"), kWhat);
  const PyRef stream =
      checked(PyObject_CallMethod(cuda_module.get(), "current_stream", "i", device.index), kWhat);
  const PyRef address = checked(PyObject_GetAttrString(stream.get(), "cuda_stream"), kWhat);
  return PyLong_AsVoidPtr(address.get());
}

unsigned torchThreadCount() {
  if (!torchAvailable()) {
    return 0;
  }
  constexpr const char* kWhat = "Cannot ask torch for its number of threads";
  return static_cast<unsigned>(readInteger(
      checked(PyObject_Vectorcall(torch().get_num_threads, nullptr, 0, nullptr), kWhat)));
}

PyObject* torchDtype(DataType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < kDataTypes ? torch().dtypes[index] : nullptr;
}

bool torchAvailable() {
  return torch().module != nullptr;
}

void setExchangeForTesting(bool exchange_table, bool with_torch) {
  use_exchange_table = exchange_table;
  use_torch = with_torch;
  for (TypeInfo& info : remembered_types) {
    Py_XDECREF(info.type);
    info = {};
  }
}

} // namespace nvfuser::python
