// SPDX-License-Identifier: BSD-3-Clause
// What torch_exchange.h is built on: the parts of torch that are used, what a Python type is to us,
// and small helpers for calling Python. Not for other files.
#pragma once

#include <bindings/torch_exchange.h>

#include <array>
#include <string>
#include <string_view>

namespace nvfuser::python {

inline constexpr size_t kDataTypes = static_cast<size_t>(DataType::Null);

// torch's and NumPy's name of a data type; null if there is none.
const char* libraryTypeName(DataType dtype, bool torch);
// The data type of such a name; Null if none.
DataType dataTypeByName(std::string_view name);

// What is used of torch, looked up once. Objects live as long as the interpreter.
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
  PyObject* get_num_threads = nullptr;
  std::array<PyObject*, kDataTypes> dtypes = {};
};

const Torch& torch();
// Throws if it is not installed.
PyObject* numpy();
// torch's exchange table, or null if it has none.
const dlpack::DLPackExchangeApi* torchExchangeApi();

// What a Python type is to us, remembered for the types seen last.
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

const TypeInfo& typeInfo(PyTypeObject* type);

std::string typeNameOf(PyObject* object);
// A new reference; null instead of an error.
PyObject* attributeOrNull(PyObject* object, const char* name);
// Calls an unbound method with the object alone.
bool callPredicate(PyObject* method, PyObject* object);
PyRef callMethod(PyObject* method, PyObject* object);
int64_t readInteger(const PyRef& number);

} // namespace nvfuser::python
