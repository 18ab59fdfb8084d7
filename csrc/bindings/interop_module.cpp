// SPDX-License-Identifier: BSD-3-Clause
// The submodule `_interop`: where the compilers are, and the functions of torch_exchange.h as
// Python tests call them.
#include <base/error.h>
#include <bindings/py_allocator.h>
#include <bindings/torch_exchange.h>
#include <bindings/torch_rng.h>
#include <cuda/device_info.h>
#include <cuda/nvrtc.h>
#include <host/compiler.h>

#include <chrono>
#include <exception>
#include <vector>

namespace nvfuser::python {

namespace {

// Runs the body and turns what it throws into a Python error.
template <class Body>
PyObject* guarded(const Body& body) {
  try {
    return body();
  } catch (const std::exception&) {
    setPythonError();
    return nullptr;
  }
}

PyObject* integerList(const int64_t* values, int32_t count) {
  PyObject* list = PyList_New(count);
  for (int32_t i = 0; i < count; ++i) {
    PyList_SET_ITEM(list, i, PyLong_FromLongLong(values[i]));
  }
  return list;
}

std::vector<int64_t> integers(PyObject* sequence) {
  const PyRef fast =
      checked(PySequence_Fast(sequence, "expected a sequence"), "expected a sequence");
  std::vector<int64_t> values;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
    values.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(fast.get(), i)));
  }
  return values;
}

DataType dataTypeNamed(const std::string& name) {
  for (int i = 0; i < int(DataType::Null); ++i) {
    if (enumName(static_cast<DataType>(i)) == name) {
      return static_cast<DataType>(i);
    }
  }
  return DataType::Null;
}

// describe(object) -> dict, or None if it is no array.
PyObject* describe(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    BorrowedArray array;
    if (!borrow(object, array)) {
      Py_RETURN_NONE;
    }
    return Py_BuildValue("{s:N,s:s,s:s,s:N,s:N,s:N,s:N}", "data", PyLong_FromVoidPtr(array.data),
                         "dtype", std::string(enumName(array.dtype)).c_str(), "device",
                         array.device.toString().c_str(), "sizes",
                         integerList(array.sizes, array.rank), "strides",
                         integerList(array.strides, array.rank), "read_only",
                         PyBool_FromLong(array.read_only ? 1 : 0), "is_copy",
                         PyBool_FromLong(array.is_copy ? 1 : 0));
  });
}

// new_array(sizes, strides, dtype name, CUDA index or -1) -> (array, address)
PyObject* pyNewArray(PyObject*, PyObject* arguments) {
  PyObject* sizes = nullptr;
  PyObject* strides = nullptr;
  const char* dtype = nullptr;
  int device = -1;
  if (PyArg_ParseTuple(arguments, "OOsi", &sizes, &strides, &dtype, &device) == 0) {
    return nullptr;
  }
  return guarded([&] {
    NewArray result = newArray(integers(sizes), integers(strides), dataTypeNamed(dtype),
                               device < 0 ? Device::host() : Device::cuda(device));
    return Py_BuildValue("NN", result.object.release(), PyLong_FromVoidPtr(result.data));
  });
}

// new_view(array, sizes, strides, offset) -> array
PyObject* pyNewView(PyObject*, PyObject* arguments) {
  PyObject* array = nullptr;
  PyObject* sizes = nullptr;
  PyObject* strides = nullptr;
  long long offset = 0;
  if (PyArg_ParseTuple(arguments, "OOOL", &array, &sizes, &strides, &offset) == 0) {
    return nullptr;
  }
  return guarded(
      [&] { return newView(array, integers(sizes), integers(strides), offset).release(); });
}

// copy_through_tensor(array) -> array: to a Tensor, copied, and back.
PyObject* copyThroughTensor(PyObject*, PyObject* array) {
  return guarded([&] {
    const Tensor tensor = toTensor(array);
    return wrapTensor(tensor.to(tensor.device())).release();
  });
}

// share_through_tensor(array) -> array: to a Tensor and back, sharing the memory.
PyObject* shareThroughTensor(PyObject*, PyObject* array) {
  return guarded([&] { return wrapTensor(toTensor(array)).release(); });
}

// set_for_testing(use exchange table, use torch)
PyObject* setForTesting(PyObject*, PyObject* arguments) {
  int exchange_table = 1;
  int with_torch = 1;
  if (PyArg_ParseTuple(arguments, "pp", &exchange_table, &with_torch) == 0) {
    return nullptr;
  }
  setExchangeForTesting(exchange_table != 0, with_torch != 0);
  Py_RETURN_NONE;
}

// time_call(a, b, repetitions) -> seconds for borrowing a and b and making one output like a, each
// time.
PyObject* timeCall(PyObject*, PyObject* arguments) {
  PyObject* a = nullptr;
  PyObject* b = nullptr;
  int repetitions = 0;
  if (PyArg_ParseTuple(arguments, "OOi", &a, &b, &repetitions) == 0) {
    return nullptr;
  }
  return guarded([&] {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repetitions; ++i) {
      BorrowedArray first;
      BorrowedArray second;
      borrow(a, first);
      borrow(b, second);
      currentStream(first.device);
      const auto rank = static_cast<size_t>(first.rank);
      newArray({first.sizes, rank}, {first.strides, rank}, first.dtype, first.device);
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return PyFloat_FromDouble(elapsed.count() / repetitions);
  });
}

// advance_rng(CUDA index or -1, numbers) -> (seed, offset)
PyObject* advanceRng(PyObject*, PyObject* arguments) {
  int device = -1;
  unsigned long long numbers = 0;
  if (PyArg_ParseTuple(arguments, "iK", &device, &numbers) == 0) {
    return nullptr;
  }
  return guarded([&] {
    const PhiloxState state = TorchRngState::instance().advance(
        device < 0 ? Device::host() : Device::cuda(device), numbers);
    return Py_BuildValue("KK", static_cast<unsigned long long>(state.seed),
                         static_cast<unsigned long long>(state.offset));
  });
}

class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// outputs(array): a list made by PyOutputAllocator for the argument: a new array like it, the
// argument itself, a view of all but its first element along dimension 0, the first again; and a
// workspace on the way.
PyObject* outputs(PyObject*, PyObject* object) {
  return guarded([&] {
    BorrowedArray array;
    borrow(object, array);
    const auto rank = static_cast<size_t>(array.rank);
    PyObject* arguments[] = {object};
    PyOutputAllocator allocator(arguments);
    {
      const WithoutGil released;
      TensorDesc desc{array.dtype, array.device, {array.sizes, rank}, {array.strides, rank}, 0};
      allocator.allocate(1, desc);
      allocator.returnInput(0, 0);
      Shape sizes(desc.sizes);
      sizes[0] -= 1;
      desc.sizes = sizes;
      allocator.returnView(2, 0, array.strides[0], desc);
      allocator.returnSame(3, 1, 0, std::nullopt);
      void* memory = allocator.allocateWorkspace(1000, array.device);
      NVF_ERROR(reinterpret_cast<uintptr_t>(memory) % 256 == 0);
      allocator.releaseWorkspace(memory, array.device);
    }
    return allocator.takeList().release();
  });
}

// set_nvrtc_path(directory)
PyObject* pySetNvrtcPath(PyObject*, PyObject* directory) {
  const char* path = PyUnicode_AsUTF8(directory);
  if (path == nullptr) {
    return nullptr;
  }
  setNvrtcPath(path);
  Py_RETURN_NONE;
}

// toolchain() -> dict: the compilers, or why there is none
PyObject* toolchain(PyObject*, PyObject*) {
  return guarded([&] {
    return Py_BuildValue("{s:s,s:s,s:s,s:i}", "nvrtc",
                         nvrtcAvailable() ? nvrtcLocation().c_str() : "", "nvrtc_error",
                         nvrtcError().c_str(), "host_compiler", hostCompilerPath().c_str(),
                         "cuda_devices", cudaDeviceCount());
  });
}

PyMethodDef interop_methods[] = {{"describe", describe, METH_O, nullptr},
                                 {"new_array", pyNewArray, METH_VARARGS, nullptr},
                                 {"new_view", pyNewView, METH_VARARGS, nullptr},
                                 {"copy_through_tensor", copyThroughTensor, METH_O, nullptr},
                                 {"share_through_tensor", shareThroughTensor, METH_O, nullptr},
                                 {"set_for_testing", setForTesting, METH_VARARGS, nullptr},
                                 {"advance_rng", advanceRng, METH_VARARGS, nullptr},
                                 {"outputs", outputs, METH_O, nullptr},
                                 {"set_nvrtc_path", pySetNvrtcPath, METH_O, nullptr},
                                 {"toolchain", toolchain, METH_NOARGS, nullptr},
                                 {"time_call", timeCall, METH_VARARGS, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};

PyModuleDef interop_definition = {
    PyModuleDef_HEAD_INIT,
    "_interop",
    "Where the compilers are; how arrays of other libraries are seen and made (for tests).",
    -1,
    interop_methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr};

} // namespace

bool addInteropModule(PyObject* module) {
  PyObject* interop = PyModule_Create(&interop_definition);
  if (interop == nullptr) {
    return false;
  }
  if (PyModule_AddObject(module, "_interop", interop) < 0) {
    Py_DECREF(interop);
    return false;
  }
  return true;
}

} // namespace nvfuser::python
