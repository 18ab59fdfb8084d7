// SPDX-License-Identifier: BSD-3-Clause
// Making arrays and views for Python libraries.
#include <base/error.h>
#include <base/hash.h>
#include <bindings/torch_library.h>
#include <cuda/driver.h>
#include <host/memory_pool.h>

#include <algorithm>
#include <optional>

namespace nvfuser::python {

namespace {

PyRef integerTuple(std::span<const int64_t> values) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(values[i]));
  }
  return PyRef::steal(tuple);
}

// A guess: torch may have put off to switch to a device that it was told to use.
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

struct Memory {
  void* data = nullptr;
  std::optional<Device> device; // if torch says it without being asked for an attribute
};

Memory memoryOf(PyObject* tensor) {
  if (torchExchangeApi() != nullptr) {
    dlpack::DLTensor view;
    if (torchExchangeApi()->dltensor_from_py_object_no_sync(tensor, &view) != 0) {
      throwPythonError("Cannot find the memory of a new tensor");
    }
    return {view.data, deviceFromDLPack(view.device)};
  }
  const PyRef address = checked(PyObject_CallMethod(tensor, "data_ptr", nullptr),
                                "Cannot find the memory of a new tensor");
  return {PyLong_AsVoidPtr(address.get()), std::nullopt};
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

// Null if torch has no short way to the device: it has one for the CPU and the current CUDA device.
PyRef newTensorShortly(PyObject* layout, Device device) {
  PyObject* make = device.isHost()                     ? torch().empty_strided_cpu
                   : isCurrentCudaDevice(device.index) ? torch().empty_strided_cuda
                                                       : nullptr;
  return make == nullptr ? PyRef() : checkedUnchanged(PyObject_Call(make, layout, nullptr));
}

NewArray newTorchTensor(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                        DataType dtype, Device device) {
  const PyRef layout = layoutArguments(sizes, strides, dtype);
  if (PyRef tensor = newTensorShortly(layout.get(), device)) {
    const Memory memory = memoryOf(tensor.get());
    if (device.isHost() || memory.device == device) [[likely]] {
      return {std::move(tensor), memory.data};
    }
  }
  PyObject* arguments[] = {PyTuple_GET_ITEM(layout.get(), 0), PyTuple_GET_ITEM(layout.get(), 1),
                           PyTuple_GET_ITEM(layout.get(), 2), torchDevice(device)};
  PyRef tensor = checkedUnchanged(
      PyObject_Vectorcall(torch().empty_strided, arguments, 2, torch().empty_keywords));
  void* const data = memoryOf(tensor.get()).data;
  return {std::move(tensor), data};
}

// An object that presents memory through the array interface and keeps `owner`.
PyRef numpyArrayOver(void* data, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                     DataType dtype, PyObject* owner) {
  constexpr const char* kWhat = "Cannot make a NumPy array";
  const char* name = libraryTypeName(dtype, false);
  NVF_CHECK(name != nullptr, "NumPy has no arrays of type ", enumName(dtype));
  PyRef numpy_dtype = PyRef::steal(PyObject_CallMethod(numpy(), "dtype", "s", name));
  if (!numpy_dtype) {
    clearError();
    const PyRef ml_dtypes = PyRef::steal(PyImport_ImportModule("ml_dtypes"));
    if (!ml_dtypes) {
      clearError();
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

// Long tensors for torch lie in memory of our pool. Storage that torch allocates can be resized in
// place, this can not; nothing else tells them apart. No array: torch allocates.
NewArray newPooledTensor(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                         DataType dtype) {
  // Types that every torch takes from elsewhere.
  if (isFloat8(dtype) || dataTypeSizeBits(dtype) < 8 || dtype == DataType::Float4_e2m1fn_x2) {
    return {};
  }
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) {
      return {};
    }
    last += (sizes[d] - 1) * strides[d];
  }
  const auto bytes = static_cast<size_t>((last + 1) * dataTypeSizeBytes(dtype));
  std::shared_ptr<void> memory = bytes < kPooledBytes ? nullptr : allocateHostMemory(bytes);
  if (memory == nullptr) {
    return {};
  }
  void* const data = memory.get();
  return {
      wrapTensor(Tensor::fromBlob(data, sizes, strides, dtype, Device::host(), std::move(memory))),
      data};
}

} // namespace

NewArray newArray(std::span<const int64_t> sizes, std::span<const int64_t> strides, DataType dtype,
                  Device device) {
  if (torchAvailable()) {
    NewArray pooled = device.isHost() ? newPooledTensor(sizes, strides, dtype) : NewArray();
    return pooled.object ? std::move(pooled) : newTorchTensor(sizes, strides, dtype, device);
  }
  NVF_CHECK(device.isHost(), "Outputs on ", device, " need torch, which is not installed");
  const Tensor tensor = Tensor::emptyStrided(sizes, strides, dtype);
  return {wrapTensor(tensor), tensor.data()};
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
    clearError();
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
  if (torchExchangeApi() != nullptr) {
    void* object = nullptr;
    if (torchExchangeApi()->managed_tensor_to_py_object_no_sync(managed, &object) != 0) {
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

} // namespace nvfuser::python
