// SPDX-License-Identifier: BSD-3-Clause
// Borrowing arrays from Python libraries.
#include <base/error.h>
#include <bindings/torch_library.h>
#include <cuda/driver.h>

#include <algorithm>
#include <memory>

namespace nvfuser::python {

namespace {

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

namespace {

// Holds an array for a Tensor.
struct Owner {
  PyRef object;
  PyRef keep_alive;
};

struct DeleteOwner {
  void operator()(Owner* owner) const {
    // After the interpreter has ended there is nothing left to release.
    if (Py_IsInitialized() != 0) {
      const PyGILState_STATE state = PyGILState_Ensure();
      delete owner;
      PyGILState_Release(state);
    }
  }
};

} // namespace

Tensor toTensor(PyObject* object) {
  BorrowedArray array;
  NVF_CHECK(borrow(object, array), "Expected a tensor, got an object of type ", typeNameOf(object));
  const std::shared_ptr<void> owner(new Owner{PyRef::share(object), std::move(array.keep_alive)},
                                    DeleteOwner());
  const auto rank = static_cast<size_t>(array.rank);
  return Tensor::fromBlob(array.data, {array.sizes, rank}, {array.strides, rank}, array.dtype,
                          array.device, owner);
}

PyRef arrayOf(const Tensor& tensor) {
  if (std::get_deleter<DeleteOwner>(tensor.owner()) == nullptr) {
    return {};
  }
  PyObject* object = static_cast<const Owner*>(tensor.owner().get())->object.get();
  BorrowedArray array;
  return borrow(object, array) && array.data == tensor.data() ? PyRef::share(object) : PyRef();
}

} // namespace nvfuser::python
