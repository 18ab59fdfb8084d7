// Borrowing arrays from, and making arrays for, Python libraries.
#include <bindings/torch_exchange.h>

#include <base/error.h>
#include <base/hash.h>
#include <runtime/cuda_driver.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace nvfuser::python {

namespace {

bool use_exchange_table = true;
bool use_torch = true;

constexpr size_t kDataTypes = static_cast<size_t>(DataType::Null);

// torch's and NumPy's name of a data type; null if there is none.
const char* libraryTypeName(DataType dtype, bool torch) {
  switch (dtype) {
    case DataType::Double:
      return "float64";
    case DataType::Float:
      return "float32";
    case DataType::Half:
      return "float16";
    case DataType::BFloat16:
      return "bfloat16";
    case DataType::Float8_e4m3fn:
      return "float8_e4m3fn";
    case DataType::Float8_e5m2:
      return "float8_e5m2";
    case DataType::Float8_e8m0fnu:
      return "float8_e8m0fnu";
    case DataType::Float4_e2m1fn_x2:
      return torch ? "float4_e2m1fn_x2" : nullptr;
    case DataType::Int:
      return "int64";
    case DataType::Int32:
      return "int32";
    case DataType::Int16:
      return "int16";
    case DataType::Int8:
      return "int8";
    case DataType::UInt64:
      return "uint64";
    case DataType::UInt32:
      return "uint32";
    case DataType::UInt16:
      return "uint16";
    case DataType::UInt8:
      return "uint8";
    case DataType::Bool:
      return "bool";
    case DataType::ComplexFloat:
      return "complex64";
    case DataType::ComplexDouble:
      return "complex128";
    default:
      return nullptr;
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

// ---- What is used of torch, looked up once. Objects live as long as the interpreter.

struct Torch {
  PyObject* module = nullptr; // null: not installed
  PyObject* tensor_type = nullptr;
  const dlpack::DLPackExchangeApi* api = nullptr;
  PyObject* is_conj = nullptr; // methods of torch.Tensor, unbound
  PyObject* is_neg = nullptr;
  PyObject* resolve_conj = nullptr;
  PyObject* resolve_neg = nullptr;
  PyObject* detach = nullptr;
  PyObject* as_strided = nullptr;
  PyObject* storage_offset = nullptr;
  PyObject* empty_strided = nullptr;
  // Of torch's compiler: the allocation alone, without dispatching. Null in versions that lack
  // them.
  PyObject* empty_strided_cpu = nullptr;
  PyObject* empty_strided_cuda = nullptr;
  PyObject* device_type = nullptr;
  PyObject* empty_keywords = nullptr; // ("dtype", "device")
  PyObject* cpu_device = nullptr;
  std::array<PyObject*, kDataTypes> dtypes = {};
};

// Null instead of an error.
PyObject* attributeOrNull(PyObject* object, const char* name) {
  PyObject* value = object == nullptr ? nullptr : PyObject_GetAttrString(object, name);
  if (value == nullptr) {
    PyErr_Clear();
  }
  return value;
}

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

const Torch& torch() {
  static const auto* loaded = new Torch(loadTorch());
  static const auto* none = new Torch();
  return use_torch ? *loaded : *none;
}

PyObject* numpy() {
  static PyObject* module = PyImport_ImportModule("numpy");
  if (module == nullptr) {
    PyErr_Clear();
    NVF_CHECK_FAIL("Arrays cannot be made: neither torch nor NumPy is installed");
  }
  return module;
}

// ---- What a Python type is to us, remembered for the types seen last.

struct TypeInfo {
  PyTypeObject* type = nullptr;
  const dlpack::DLPackExchangeApi* api = nullptr;
  bool is_torch = false;
  bool has_dlpack = false;
  bool has_array_interface = false;

  bool isArray() const {
    return is_torch || api != nullptr || has_dlpack || has_array_interface;
  }
};

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
  PyErr_Clear();
  return info;
}

constexpr size_t kRememberedTypes = 8;
std::array<TypeInfo, kRememberedTypes> remembered_types;
size_t next_remembered = 0;

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

// Checks that hold for every way of borrowing.
void checkBorrowed(PyObject* object, const BorrowedArray& array) {
  if (array.data == nullptr) [[unlikely]] {
    const bool has_elements =
        std::find(array.sizes, array.sizes + array.rank, 0) == array.sizes + array.rank;
    NVF_CHECK(!has_elements, "An argument of type ", typeNameOf(object),
              " has no data of its own (is it a fake, meta or distributed tensor?)");
  }
}

[[noreturn]] void throwElementType(PyObject* object, const dlpack::DLDataType& type) {
  NVF_CHECK_FAIL("An argument of type ", typeNameOf(object),
                 " has an element type that is not supported (DLPack code ", int(type.code), ", ",
                 int(type.bits), " bits, ", type.lanes, " lanes)");
}

void setFromDLTensor(PyObject* object, const dlpack::DLTensor& tensor, BorrowedArray& array) {
  array.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  array.dtype = dataTypeFromDLPack(tensor.dtype);
  if (array.dtype == DataType::Null) {
    throwElementType(object, tensor.dtype);
  }
  array.device = deviceFromDLPack(tensor.device);
  array.rank = tensor.ndim;
  array.sizes = tensor.shape;
  array.strides = tensor.strides;
  if (tensor.strides == nullptr && tensor.ndim > 0) {
    array.own_strides =
        contiguousStrides(std::span<const int64_t>(tensor.shape, size_t(tensor.ndim)));
    array.strides = array.own_strides.data();
  }
  checkBorrowed(object, array);
}

// Tensors whose elements are to be conjugated or negated when they are read: works on a copy that
// has been.
bool borrowResolved(PyObject* object, BorrowedArray& array) {
  PyRef resolved = callMethod(torch().resolve_conj, object);
  resolved = callMethod(torch().resolve_neg, resolved.get());
  NVF_CHECK(!callPredicate(torch().is_neg, resolved.get()) &&
                !callPredicate(torch().is_conj, resolved.get()),
            "An argument is a conjugated or negated view that cannot be resolved");
  borrow(resolved.get(), array);
  array.keep_alive = std::move(resolved);
  array.is_copy = true;
  return true;
}

// Asking torch whether a view is negated costs more than all the rest of borrowing. Negated views
// are the imaginary parts of conjugated tensors, whose elements lie two apart, so a dimension of
// stride 1 rules them out.
bool canBeNegated(const BorrowedArray& array) {
  for (int32_t i = 0; i < array.rank; ++i) {
    if (array.strides[i] == 1 && array.sizes[i] > 1) {
      return isComplex(array.dtype);
    }
  }
  return isInexact(array.dtype);
}

bool isLazyView(PyObject* object, const BorrowedArray& array) {
  return (isComplex(array.dtype) && callPredicate(torch().is_conj, object)) ||
         (canBeNegated(array) && callPredicate(torch().is_neg, object));
}

void borrowByExchange(PyObject* object, const dlpack::DLPackExchangeApi& api,
                      BorrowedArray& array) {
  dlpack::DLTensor tensor;
  if (api.dltensor_from_py_object_no_sync(object, &tensor) != 0) [[unlikely]] {
    throwPythonError("An argument of type " + typeNameOf(object) + " cannot be used");
  }
  setFromDLTensor(object, tensor, array);
}

void readIntegers(PyObject* sequence, Shape& values) {
  const PyRef fast =
      checked(PySequence_Fast(sequence, "sizes"), "Cannot read the sizes of an argument");
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(fast.get());
  values.clear();
  for (Py_ssize_t i = 0; i < count; ++i) {
    values.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(fast.get(), i)));
  }
  if (PyErr_Occurred() != nullptr) {
    throwPythonError("Cannot read the sizes of an argument");
  }
}

int64_t readInteger(const PyRef& number) {
  const long long value = PyLong_AsLongLong(number.get());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    throwPythonError("Cannot read an argument");
  }
  return value;
}

void useOwnShape(BorrowedArray& array) {
  array.rank = static_cast<int32_t>(array.own_sizes.size());
  array.sizes = array.own_sizes.data();
  array.strides = array.own_strides.data();
}

// torch before 2.10.
void borrowTorchByAttributes(PyObject* object, BorrowedArray& array) {
  constexpr const char* kWhat = "Cannot read a tensor";
  const PyRef layout = checked(PyObject_GetAttrString(object, "layout"), kWhat);
  const PyRef strided = checked(PyObject_GetAttrString(torch().module, "strided"), kWhat);
  NVF_CHECK(layout.get() == strided.get(), "Only dense tensors are supported");
  const PyRef dtype = checked(PyObject_GetAttrString(object, "dtype"), kWhat);
  const auto& dtypes = torch().dtypes;
  const auto it = std::find(dtypes.begin(), dtypes.end(), dtype.get());
  NVF_CHECK(it != dtypes.end(), "A tensor has an element type that is not supported");
  array.dtype = static_cast<DataType>(it - dtypes.begin());
  const PyRef device = checked(PyObject_GetAttrString(object, "device"), kWhat);
  const PyRef kind = checked(PyObject_GetAttrString(device.get(), "type"), kWhat);
  const std::string kind_name = PyUnicode_AsUTF8(kind.get());
  if (kind_name == "cuda") {
    const PyRef index = checked(PyObject_GetAttrString(device.get(), "index"), kWhat);
    array.device = Device::cuda(static_cast<int>(readInteger(index)));
  } else {
    NVF_CHECK(kind_name == "cpu", "Tensors on device \"", kind_name, "\" are not supported");
    array.device = Device::host();
  }
  readIntegers(checked(PyObject_GetAttrString(object, "shape"), kWhat).get(), array.own_sizes);
  readIntegers(checked(PyObject_CallMethod(object, "stride", nullptr), kWhat).get(),
               array.own_strides);
  useOwnShape(array);
  const PyRef address = checked(PyObject_CallMethod(object, "data_ptr", nullptr), kWhat);
  array.data = PyLong_AsVoidPtr(address.get());
  checkBorrowed(object, array);
}

// Any producer of __dlpack__. The capsule stays as it is and cleans up after itself.
void borrowByDLPack(PyObject* object, BorrowedArray& array) {
  const std::string what = "An argument of type " + typeNameOf(object) + " cannot be used";
  const PyRef device =
      checked(PyObject_CallMethod(object, "__dlpack_device__", nullptr), what.c_str());
  int device_type = 0;
  int device_index = 0;
  {
    // Producers may give an enumeration instead of an integer.
    const PyRef fast = checked(PySequence_Fast(device.get(), "device"), what.c_str());
    NVF_CHECK(PySequence_Fast_GET_SIZE(fast.get()) == 2, what);
    device_type = static_cast<int>(PyLong_AsLong(PySequence_Fast_GET_ITEM(fast.get(), 0)));
    device_index = static_cast<int>(PyLong_AsLong(PySequence_Fast_GET_ITEM(fast.get(), 1)));
    if (PyErr_Occurred() != nullptr) {
      throwPythonError(what);
    }
  }
  const PyRef keywords = PyRef::steal(PyDict_New());
  if (device_type == dlpack::kCuda) {
    // The producer makes its work visible to this stream; 1 stands for the default one.
    void* stream = currentStream(Device::cuda(device_index));
    const PyRef number =
        PyRef::steal(stream == nullptr ? PyLong_FromLong(1) : PyLong_FromVoidPtr(stream));
    PyDict_SetItemString(keywords.get(), "stream", number.get());
  }
  const PyRef version = PyRef::steal(Py_BuildValue("(ii)", 1, 0));
  PyDict_SetItemString(keywords.get(), "max_version", version.get());
  const PyRef method = checked(PyObject_GetAttrString(object, "__dlpack__"), what.c_str());
  const PyRef no_arguments = PyRef::steal(PyTuple_New(0));
  PyRef capsule = PyRef::steal(PyObject_Call(method.get(), no_arguments.get(), keywords.get()));
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
    PyErr_Clear(); // from before version 1
    PyDict_DelItemString(keywords.get(), "max_version");
    capsule = PyRef::steal(PyObject_Call(method.get(), no_arguments.get(), keywords.get()));
  }
  if (!capsule) {
    throwPythonError(what);
  }
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned") != 0) {
    auto* managed = static_cast<dlpack::DLManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule.get(), "dltensor_versioned"));
    NVF_CHECK(managed->version.major == dlpack::kMajorVersion, what, ": unknown version of DLPack");
    NVF_CHECK((managed->flags & dlpack::kFlagSubbytePadded) == 0, what, ": padded elements");
    array.read_only = (managed->flags & dlpack::kFlagReadOnly) != 0;
    array.is_copy = (managed->flags & dlpack::kFlagIsCopied) != 0;
    setFromDLTensor(object, managed->dl_tensor, array);
  } else if (PyCapsule_IsValid(capsule.get(), "dltensor") != 0) {
    auto* managed =
        static_cast<dlpack::DLManagedTensor*>(PyCapsule_GetPointer(capsule.get(), "dltensor"));
    setFromDLTensor(object, managed->dl_tensor, array);
  } else {
    NVF_CHECK_FAIL(what, ": __dlpack__ did not return a DLPack capsule");
  }
  array.keep_alive = std::move(capsule);
}

// The element type that a typestr of the array interface names; Null if none.
DataType dataTypeFromTypestr(std::string_view typestr) {
  if (typestr.size() < 3 || typestr[0] == '>') {
    return DataType::Null;
  }
  const std::string_view size = typestr.substr(2);
  switch (typestr[1]) {
    case 'f':
      return size == "4"   ? DataType::Float
             : size == "8" ? DataType::Double
             : size == "2" ? DataType::Half
                           : DataType::Null;
    case 'i':
      return size == "8"   ? DataType::Int
             : size == "4" ? DataType::Int32
             : size == "2" ? DataType::Int16
             : size == "1" ? DataType::Int8
                           : DataType::Null;
    case 'u':
      return size == "8"   ? DataType::UInt64
             : size == "4" ? DataType::UInt32
             : size == "2" ? DataType::UInt16
             : size == "1" ? DataType::UInt8
                           : DataType::Null;
    case 'b':
      return size == "1" ? DataType::Bool : DataType::Null;
    case 'c':
      return size == "8"    ? DataType::ComplexFloat
             : size == "16" ? DataType::ComplexDouble
                            : DataType::Null;
    default:
      return DataType::Null;
  }
}

int deviceOfPointer(void* data) {
  constexpr int kDeviceOrdinal = 9; // CUpointer_attribute
  int device = 0;
  cuda::check(cuda::driver().cuPointerGetAttribute(&device, kDeviceOrdinal,
                                                   reinterpret_cast<cuda::DevicePtr>(data)),
              "Cannot find the device of an array");
  return device;
}

// NumPy's array interface, version 3, and its variant for CUDA.
void borrowByArrayInterface(PyObject* object, BorrowedArray& array) {
  const std::string what = "An argument of type " + typeNameOf(object) + " cannot be used";
  PyRef interface = PyRef::steal(attributeOrNull(object, "__cuda_array_interface__"));
  const bool on_cuda = static_cast<bool>(interface);
  if (!on_cuda) {
    interface = checked(PyObject_GetAttrString(object, "__array_interface__"), what.c_str());
  }
  NVF_CHECK(PyDict_Check(interface.get()), what, ": its array interface is no dictionary");
  auto item = [&](const char* key) { return PyDict_GetItemString(interface.get(), key); };
  PyObject* data = item("data");
  PyObject* typestr = item("typestr");
  PyObject* shape = item("shape");
  NVF_CHECK(data != nullptr && PyTuple_Check(data) && PyTuple_GET_SIZE(data) == 2 &&
                typestr != nullptr && PyUnicode_Check(typestr) && shape != nullptr,
            what, ": its array interface lacks data, typestr or shape");
  array.data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
  array.read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) == 1;
  const std::string type_name = PyUnicode_AsUTF8(typestr);
  array.dtype = dataTypeFromTypestr(type_name);
  if (array.dtype == DataType::Null && type_name[0] != '>') {
    // The types that NumPy knows by extension only (ml_dtypes).
    const PyRef dtype = PyRef::steal(attributeOrNull(object, "dtype"));
    const PyRef name = PyRef::steal(attributeOrNull(dtype.get(), "name"));
    if (name && PyUnicode_Check(name.get())) {
      array.dtype = dataTypeByName(PyUnicode_AsUTF8(name.get()));
    }
  }
  NVF_CHECK(array.dtype != DataType::Null, what, ": elements of type ", type_name,
            " are not supported");
  readIntegers(shape, array.own_sizes);
  PyObject* strides = item("strides");
  if (strides == nullptr || strides == Py_None) {
    array.own_strides = contiguousStrides(array.own_sizes);
  } else {
    readIntegers(strides, array.own_strides);
    const int64_t element = dataTypeSizeBytes(array.dtype);
    for (int64_t& stride : array.own_strides) {
      NVF_CHECK(stride % element == 0, what, ": its strides do not step by whole elements");
      stride /= element;
    }
  }
  useOwnShape(array);
  if (PyErr_Occurred() != nullptr) {
    throwPythonError(what);
  }
  array.device =
      on_cuda && array.data != nullptr ? Device::cuda(deviceOfPointer(array.data)) : Device::host();
  checkBorrowed(object, array);
  array.keep_alive = std::move(interface);
}

PyRef integerTuple(std::span<const int64_t> values) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(values[i]));
  }
  return PyRef::steal(tuple);
}

bool isCurrentCudaDevice(int index) {
  cuda::Context current = nullptr;
  cuda::check(cuda::driver().cuCtxGetCurrent(&current), "Cannot read the current CUDA context");
  return current == nullptr ? index == 0 : current == cuda::primaryContext(index);
}

// torch.device of a device, borrowed.
PyObject* torchDevice(Device device) {
  if (device.isHost()) {
    return torch().cpu_device;
  }
  static std::array<PyObject*, 256> devices = {};
  PyObject*& object = devices.at(static_cast<size_t>(device.index));
  if (object == nullptr) {
    object = checked(PyObject_CallFunction(torch().device_type, "si", "cuda", device.index),
                     "Cannot make a torch.device")
                 .release();
  }
  return object;
}

void* dataOfTorchTensor(PyObject* tensor) {
  if (torch().api != nullptr && use_exchange_table) {
    dlpack::DLTensor view;
    if (torch().api->dltensor_from_py_object_no_sync(tensor, &view) != 0) {
      throwPythonError("Cannot find the memory of a new tensor");
    }
    return view.data;
  }
  const PyRef address = checked(PyObject_CallMethod(tensor, "data_ptr", nullptr),
                                "Cannot find the memory of a new tensor");
  return PyLong_AsVoidPtr(address.get());
}

// The arguments (sizes, strides, dtype) of torch's allocation functions, kept for the layouts seen
// last: a plan asks for the same ones again and again.
struct LayoutArguments {
  DataType dtype = DataType::Null;
  Shape sizes;
  Shape strides;
  PyObject* tuple = nullptr;

  bool matches(std::span<const int64_t> other_sizes, std::span<const int64_t> other_strides,
               DataType other_dtype) const {
    return dtype == other_dtype && std::ranges::equal(sizes, other_sizes) &&
           std::ranges::equal(strides, other_strides);
  }
};

// A new reference.
PyRef layoutArguments(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                      DataType dtype) {
  constexpr size_t kEntries = 64;
  static auto* entries = new std::array<LayoutArguments, kEntries>();
  uint64_t hash = static_cast<uint64_t>(dtype);
  for (size_t i = 0; i < sizes.size(); ++i) {
    hash = hashCombine(hashCombine(hash, static_cast<uint64_t>(sizes[i])),
                       static_cast<uint64_t>(strides[i]));
  }
  LayoutArguments& entry = (*entries)[hash % kEntries];
  if (entry.tuple == nullptr || !entry.matches(sizes, strides, dtype)) {
    PyObject* torch_dtype = torchDtype(dtype);
    NVF_CHECK(torch_dtype != nullptr, "This version of torch has no tensors of type ",
              enumName(dtype));
    const PyRef size_tuple = integerTuple(sizes);
    const PyRef stride_tuple = integerTuple(strides);
    PyObject* tuple = PyTuple_Pack(3, size_tuple.get(), stride_tuple.get(), torch_dtype);
    Py_XDECREF(entry.tuple);
    entry = {dtype, Shape(sizes), Shape(strides), tuple};
  }
  return PyRef::share(entry.tuple);
}

PyRef newTorchTensor(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                     DataType dtype, Device device) {
  const PyRef layout = layoutArguments(sizes, strides, dtype);
  PyObject* direct = device.isHost()                     ? torch().empty_strided_cpu
                     : isCurrentCudaDevice(device.index) ? torch().empty_strided_cuda
                                                         : nullptr;
  PyObject* result = nullptr;
  if (direct != nullptr) {
    result = PyObject_Call(direct, layout.get(), nullptr);
  } else {
    PyObject* arguments[] = {PyTuple_GET_ITEM(layout.get(), 0), PyTuple_GET_ITEM(layout.get(), 1),
                             PyTuple_GET_ITEM(layout.get(), 2), torchDevice(device)};
    result = PyObject_Vectorcall(torch().empty_strided, arguments, 2, torch().empty_keywords);
  }
  return checked(result, "Cannot allocate an output");
}

// An object that presents memory through the array interface and keeps `owner`.
PyRef numpyArrayOver(void* data, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                     DataType dtype, PyObject* owner) {
  constexpr const char* kWhat = "Cannot make a NumPy array";
  const char* name = libraryTypeName(dtype, false);
  NVF_CHECK(name != nullptr, "NumPy has no arrays of type ", enumName(dtype));
  PyRef numpy_dtype = PyRef::steal(PyObject_CallMethod(numpy(), "dtype", "s", name));
  if (!numpy_dtype) {
    PyErr_Clear();
    const PyRef ml_dtypes = PyRef::steal(PyImport_ImportModule("ml_dtypes"));
    if (!ml_dtypes) {
      PyErr_Clear();
    }
    const PyRef scalar_type = PyRef::steal(attributeOrNull(ml_dtypes.get(), name));
    NVF_CHECK(static_cast<bool>(scalar_type), "NumPy has no arrays of type ", name,
              " without ml_dtypes");
    numpy_dtype = checked(PyObject_CallMethod(numpy(), "dtype", "O", scalar_type.get()), kWhat);
  }
  const int64_t element = dataTypeSizeBytes(dtype);
  Shape byte_strides((std::span<const int64_t>(strides)));
  for (int64_t& stride : byte_strides) {
    stride *= element;
  }
  // As unsigned integers of the same size first: every type can be viewed from those.
  const std::string typestr = element == 16 ? std::string("<c16") : "<u" + std::to_string(element);
  const PyRef types = checked(PyImport_ImportModule("types"), kWhat);
  const PyRef holder_type = checked(PyObject_GetAttrString(types.get(), "SimpleNamespace"), kWhat);
  const PyRef holder = checked(PyObject_CallNoArgs(holder_type.get()), kWhat);
  const PyRef shape_tuple = integerTuple(sizes);
  const PyRef stride_tuple = integerTuple(byte_strides);
  const PyRef interface =
      checked(Py_BuildValue("{s:i,s:s,s:O,s:O,s:(NO)}", "version", 3, "typestr", typestr.c_str(),
                            "shape", shape_tuple.get(), "strides", stride_tuple.get(), "data",
                            PyLong_FromVoidPtr(data), Py_False),
              kWhat);
  PyObject_SetAttrString(holder.get(), "__array_interface__", interface.get());
  PyObject_SetAttrString(holder.get(), "owner", owner);
  const PyRef raw = checked(PyObject_CallMethod(numpy(), "asarray", "O", holder.get()), kWhat);
  return checked(PyObject_CallMethod(raw.get(), "view", "O", numpy_dtype.get()), kWhat);
}

// A capsule that owns a shared pointer.
PyRef ownerCapsule(std::shared_ptr<void> owner) {
  auto* held = new std::shared_ptr<void>(std::move(owner));
  return checked(PyCapsule_New(held, nullptr,
                               [](PyObject* capsule) {
                                 delete static_cast<std::shared_ptr<void>*>(
                                     PyCapsule_GetPointer(capsule, nullptr));
                               }),
                 "Cannot hand memory to Python");
}

} // namespace

BorrowedArray::BorrowedArray(BorrowedArray&& other) noexcept {
  *this = std::move(other);
}

BorrowedArray& BorrowedArray::operator=(BorrowedArray&& other) noexcept {
  const bool own_sizes_used = other.sizes == other.own_sizes.data();
  const bool own_strides_used = other.strides == other.own_strides.data();
  data = other.data;
  dtype = other.dtype;
  device = other.device;
  rank = other.rank;
  read_only = other.read_only;
  is_copy = other.is_copy;
  keep_alive = std::move(other.keep_alive);
  own_sizes = std::move(other.own_sizes);
  own_strides = std::move(other.own_strides);
  sizes = own_sizes_used ? own_sizes.data() : other.sizes;
  strides = own_strides_used ? own_strides.data() : other.strides;
  return *this;
}

bool isArray(PyObject* object) {
  return typeInfo(Py_TYPE(object)).isArray();
}

bool isTorchTensor(PyObject* object) {
  return typeInfo(Py_TYPE(object)).is_torch;
}

bool borrow(PyObject* object, BorrowedArray& array) {
  const TypeInfo info = typeInfo(Py_TYPE(object));
  if (info.api != nullptr && (info.is_torch || !info.has_dlpack)) {
    // Nothing is synchronized, which is right for torch alone: its current stream is the one that
    // we use.
    borrowByExchange(object, *info.api, array);
  } else if (info.is_torch) {
    borrowTorchByAttributes(object, array);
  } else if (info.has_dlpack || info.has_array_interface) {
    if (info.has_dlpack) {
      try {
        borrowByDLPack(object, array);
        return true;
      } catch (const UserError&) {
        // NumPy refuses the types it knows by extension; its array interface does not.
        if (!info.has_array_interface) {
          throw;
        }
      }
    }
    borrowByArrayInterface(object, array);
    return true;
  } else {
    return false;
  }
  if (info.is_torch && isLazyView(object, array)) [[unlikely]] {
    return borrowResolved(object, array);
  }
  return true;
}

Tensor toTensor(PyObject* object) {
  BorrowedArray array;
  NVF_CHECK(borrow(object, array), "Expected a tensor, got an object of type ", typeNameOf(object));
  struct Owner {
    PyRef object;
    PyRef keep_alive;
  };
  const std::shared_ptr<void> owner(new Owner{PyRef::share(object), std::move(array.keep_alive)},
                                    [](void* pointer) {
                                      // After the interpreter has ended there is nothing left to
                                      // release.
                                      if (Py_IsInitialized() != 0) {
                                        const PyGILState_STATE state = PyGILState_Ensure();
                                        delete static_cast<Owner*>(pointer);
                                        PyGILState_Release(state);
                                      }
                                    });
  const auto rank = static_cast<size_t>(array.rank);
  return Tensor::fromBlob(array.data, {array.sizes, rank}, {array.strides, rank}, array.dtype,
                          array.device, owner);
}

NewArray newArray(std::span<const int64_t> sizes, std::span<const int64_t> strides, DataType dtype,
                  Device device) {
  NewArray result;
  if (torchAvailable()) {
    result.object = newTorchTensor(sizes, strides, dtype, device);
    result.data = dataOfTorchTensor(result.object.get());
    return result;
  }
  NVF_CHECK(device.isHost(), "Outputs on ", device, " need torch, which is not installed");
  const Tensor tensor = Tensor::emptyStrided(sizes, strides, dtype);
  result.object = wrapTensor(tensor);
  result.data = tensor.data();
  return result;
}

PyRef newView(PyObject* array, std::span<const int64_t> sizes, std::span<const int64_t> strides,
              int64_t offset) {
  constexpr const char* kWhat = "Cannot make a view of an input";
  if (!torchAvailable()) {
    BorrowedArray borrowed;
    NVF_CHECK(borrow(array, borrowed), kWhat);
    const int64_t bytes = offset * dataTypeSizeBytes(borrowed.dtype);
    return numpyArrayOver(static_cast<char*>(borrowed.data) + bytes, sizes, strides, borrowed.dtype,
                          array);
  }
  // Detached: nothing here is differentiated.
  const PyRef base = callMethod(torch().detach, asOwnKind(array).get());
  const int64_t start = readInteger(callMethod(torch().storage_offset, base.get()));
  const PyRef size_tuple = integerTuple(sizes);
  const PyRef stride_tuple = integerTuple(strides);
  const PyRef total = PyRef::steal(PyLong_FromLongLong(start + offset));
  PyObject* arguments[] = {base.get(), size_tuple.get(), stride_tuple.get(), total.get()};
  return checked(PyObject_Vectorcall(torch().as_strided, arguments, 4, nullptr), kWhat);
}

PyRef asOwnKind(PyObject* array) {
  if (!torchAvailable() || isTorchTensor(array)) {
    return PyRef::share(array);
  }
  BorrowedArray borrowed;
  NVF_CHECK(borrow(array, borrowed), "Expected an array, got an object of type ",
            typeNameOf(array));
  if (typeInfo(Py_TYPE(array)).has_dlpack && !borrowed.read_only) {
    PyObject* tensor = PyObject_CallMethod(torch().module, "from_dlpack", "O", array);
    if (tensor != nullptr) {
      return PyRef::steal(tensor);
    }
    PyErr_Clear();
  }
  return wrapTensor(toTensor(array));
}

PyRef wrapTensor(const Tensor& tensor) {
  const bool packed = tensor.dtype() == DataType::Float4_e2m1fn;
  NVF_CHECK(!packed, "Values of 4 bits can only be handed out as packed pairs");
  if (!torchAvailable()) {
    const PyRef owner = ownerCapsule(std::make_shared<Tensor>(tensor));
    return numpyArrayOver(tensor.data(), tensor.sizes(), tensor.strides(), tensor.dtype(),
                          owner.get());
  }
  dlpack::DLManagedTensorVersioned* managed = tensor.toDLPack();
  if (torch().api != nullptr && use_exchange_table) {
    void* object = nullptr;
    if (torch().api->managed_tensor_to_py_object_no_sync(managed, &object) != 0) {
      throwPythonError("Cannot hand a tensor to torch");
    }
    return PyRef::steal(static_cast<PyObject*>(object));
  }
  // Older versions of torch take the unversioned form only.
  struct Unversioned {
    dlpack::DLManagedTensor head;
    dlpack::DLManagedTensorVersioned* inner;
  };
  auto* old = new Unversioned{{managed->dl_tensor, nullptr, nullptr}, managed};
  old->head.manager_ctx = old;
  old->head.deleter = [](dlpack::DLManagedTensor* self) {
    auto* outer = static_cast<Unversioned*>(self->manager_ctx);
    outer->inner->deleter(outer->inner);
    delete outer;
  };
  const PyRef capsule = checked(PyCapsule_New(&old->head, "dltensor",
                                              [](PyObject* object) {
                                                if (PyCapsule_IsValid(object, "dltensor") != 0) {
                                                  auto* head =
                                                      static_cast<dlpack::DLManagedTensor*>(
                                                          PyCapsule_GetPointer(object, "dltensor"));
                                                  head->deleter(head);
                                                }
                                              }),
                                "Cannot hand a tensor to torch");
  return checked(PyObject_CallMethod(torch().module, "from_dlpack", "O", capsule.get()),
                 "Cannot hand a tensor to torch");
}

void* currentStream(Device device) {
  if (device.isHost() || !torchAvailable()) {
    return nullptr;
  }
  if (torch().api != nullptr && use_exchange_table) {
    void* stream = nullptr;
    if (torch().api->current_work_stream(dlpack::kCuda, device.index, &stream) != 0) {
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
