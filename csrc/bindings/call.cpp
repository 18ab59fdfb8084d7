// SPDX-License-Identifier: BSD-3-Clause
// See call.h.
#include <bindings/call.h>

#include <base/error.h>
#include <bindings/torch_rng.h>
#include <executor/launch_plan.h>
#include <host/thread_pool.h>

#include <charconv>
#include <string_view>

namespace py = pybind11;

namespace nvfuser::python {

CallArguments::CallArguments(py::handle inputs) {
  PyObject* list = inputs.ptr();
  if (PyList_Check(list) == 0 && PyTuple_Check(list) == 0) {
    if (isArray(list) || PyUnicode_Check(list) != 0) {
      throw py::type_error("inputs must be a list of tensors and numbers, not a single one");
    }
    keep_alive_ = py::reinterpret_steal<py::object>(PySequence_List(list));
    if (!keep_alive_) {
      throw py::error_already_set();
    }
    list = keep_alive_.ptr();
  }
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(list, i);
    if (PyList_Check(item) != 0 || PyTuple_Check(item) != 0) {
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(item); ++k) {
        add(PySequence_Fast_GET_ITEM(item, k));
      }
    } else {
      add(item);
    }
  }
}

BorrowedArray& CallArguments::nextArray() {
  if (inline_count_ < kInline) {
    return inline_[inline_count_++].emplace();
  }
  return more_.emplace_back();
}

void CallArguments::add(PyObject* item) {
  objects_.push_back(item);
  if (PyFloat_CheckExact(item) != 0) {
    views_.push_back(ArgView::of(ScalarValue(PyFloat_AS_DOUBLE(item))));
  } else if (PyBool_Check(item) != 0) {
    views_.push_back(ArgView::of(ScalarValue(item == Py_True)));
  } else if (PyLong_Check(item) != 0) {
    const long long v = PyLong_AsLongLong(item);
    if (v == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw py::type_error("input " + std::to_string(objects_.size() - 1) +
                           ": the integer does not fit into 64 bits");
    }
    views_.push_back(ArgView::of(ScalarValue(static_cast<int64_t>(v))));
  } else if (isArray(item)) {
    BorrowedArray& array = nextArray();
    NVF_CHECK(borrow(item, array), "input ", objects_.size() - 1, " can't be read as an array");
    views_.push_back(viewOf(array));
  } else if (PyFloat_Check(item) != 0) {
    views_.push_back(ArgView::of(ScalarValue(PyFloat_AsDouble(item))));
  } else if (PyComplex_Check(item) != 0) {
    views_.push_back(ArgView::of(ScalarValue(
        std::complex<double>(PyComplex_RealAsDouble(item), PyComplex_ImagAsDouble(item)))));
  } else {
    NVF_CHECK_FAIL("input ", objects_.size() - 1, " is neither a tensor nor a number but a ",
                   Py_TYPE(item)->tp_name);
  }
}

KernelArgs CallArguments::toKernelArgs() const {
  KernelArgs out;
  for (size_t i = 0; i < views_.size(); ++i) {
    if (views_[i].is_tensor) {
      out.push(toTensor(objects_[i]));
    } else {
      out.push(views_[i].scalar);
    }
  }
  return out;
}

std::optional<Device> CallArguments::cudaDevice() const {
  for (const ArgView& v : views_) {
    if (v.is_tensor && v.device.type == DeviceType::Cuda) {
      return v.device;
    }
  }
  return std::nullopt;
}

namespace {

// Whether a call is over so soon that giving the interpreter up and getting it back, or waking
// another thread, would take a good part of it: on a GPU it only enqueues.
bool isShort(const LaunchPlan& plan) {
  constexpr int64_t kShortBytes = 128 << 10;
  return plan.device.isCuda() || plan.input_bytes + plan.output_bytes <= kShortBytes;
}

} // namespace

PyRef runFusion(FusionExecutorCache& cache, const CallArguments& args,
                std::optional<Device> device) {
  PyOutputAllocator allocator(args.objects());
  std::shared_ptr<const LaunchPlan> plan = cache.findPlan(args.views(), device);
  if (plan == nullptr) {
    const py::gil_scoped_release release;
    plan = cache.planFor(args.views(), device);
  }
  const bool is_short = isShort(*plan);
  const SharedThreads threads(is_short ? 1 : torchThreadCount());
  void* stream = currentStream(plan->device);
  std::optional<py::gil_scoped_release> release;
  if (!is_short) {
    release.emplace();
  }
  plan->run(args.views(), allocator, stream, &TorchRngState::instance());
  release.reset();
  return allocator.takeList();
}

namespace {

[[noreturn]] void refuseDevice(py::handle device) {
  PyErr_SetString(PyExc_AssertionError, ("Unsupported device " + std::string(py::str(device)) +
                                         ", expected a CUDA device or the CPU")
                                            .c_str());
  throw py::error_already_set();
}

// Of "cuda:1"; what is no number or does not fit belongs to no device.
int64_t deviceIndex(std::string_view text, py::handle device) {
  int64_t index = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, index);
  if (error != std::errc() || stop != end) {
    refuseDevice(device);
  }
  return index;
}

} // namespace

std::optional<Device> toDevice(py::handle device) {
  if (device.is_none()) {
    return std::nullopt;
  }
  std::string type = "cuda";
  int64_t index = 0;
  if (PyLong_Check(device.ptr()) != 0) {
    index = device.cast<int64_t>();
  } else {
    const std::string text = py::str(device);
    const size_t colon = text.find(':');
    type = text.substr(0, colon);
    if (colon != std::string::npos) {
      index = deviceIndex(std::string_view(text).substr(colon + 1), device);
    } else if (py::hasattr(device, "index") && PyUnicode_Check(device.ptr()) == 0 &&
               !device.attr("index").is_none()) {
      index = device.attr("index").cast<int64_t>();
    }
  }
  if (type == "cpu") {
    return Device{DeviceType::Host, 0};
  }
  if (type != "cuda") {
    refuseDevice(device);
  }
  if (index < 0 || index >= 256) {
    PyErr_SetString(PyExc_AssertionError,
                    ("Device index out of range [0, 256): " + std::to_string(index)).c_str());
    throw py::error_already_set();
  }
  return Device{DeviceType::Cuda, static_cast<int>(index)};
}

} // namespace nvfuser::python
