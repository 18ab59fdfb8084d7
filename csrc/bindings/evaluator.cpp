// SPDX-License-Identifier: BSD-3-Clause
// Lets Python functions evaluate the fusions that have no kernel (runtime/fusion_evaluator.h) and
// the operations that a library evaluates (library/library.h), and hear of mistakes of ours
// (executor/internal_failure.h); tells them how far outputs may be from references.
#include <bindings/bindings.h>
#include <bindings/call.h>

#include <base/error.h>
#include <executor/internal_failure.h>
#include <host/memory_pool.h>
#include <library/library.h>
#include <runtime/fusion_evaluator.h>
#include <runtime/tolerances.h>
#include <target/disk_cache.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <unordered_set>
#include <vector>

namespace nvfuser::python {

namespace {

// From the first element to the last.
int64_t spannedElements(const ArgView& arg) {
  int64_t last = 0;
  for (int32_t d = 0; d < arg.rank; ++d) {
    if (arg.sizes[d] == 0) {
      return 0;
    }
    last += (arg.sizes[d] - 1) * arg.strides[d];
  }
  return last + 1;
}

py::object argument(const ArgView& arg) {
  if (!arg.is_tensor) {
    return std::visit(
        [](const auto& value) -> py::object {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
            return py::none();
          } else {
            return py::cast(value);
          }
        },
        arg.scalar);
  }
  // Block scales in a layout of their own are seen as memory.
  const std::array<int64_t, 1> storage = {arg.storage_elements};
  const std::array<int64_t, 1> one = {1};
  const bool as_memory = arg.storage_elements > spannedElements(arg);
  const Tensor borrowed = Tensor::fromBlob(
      arg.data, as_memory ? std::span<const int64_t>(storage) : arg.sizeSpan(),
      as_memory ? std::span<const int64_t>(one) : arg.strideSpan(), arg.dtype, arg.device);
  return py::reinterpret_steal<py::object>(wrapTensor(borrowed).release());
}

py::list arguments(std::span<const ArgView> args) {
  py::list out;
  for (const ArgView& arg : args) {
    out.append(argument(arg));
  }
  return out;
}

class PyFusionEvaluator : public FusionEvaluator {
 public:
  PyFusionEvaluator(py::object function, py::object define)
      : function_(std::move(function)), define_(std::move(define)) {}

  void evaluate(const std::shared_ptr<Fusion>& fusion, std::span<const ArgView> inputs,
                std::span<const ArgView> outputs, const PhiloxState& rng) override {
    const GilHolder gil;
    function_(fusion, arguments(inputs), arguments(outputs), rng.seed, rng.offset);
  }

  std::shared_ptr<Fusion> define(const std::string& text) override {
    const GilHolder gil;
    return define_(text).cast<std::shared_ptr<Fusion>>();
  }

 private:
  py::object function_;
  py::object define_;
};

// A number, or (sizes, strides, dtype, device) of a tensor.
py::object description(const ArgView& arg) {
  if (!arg.is_tensor) {
    return argument(arg);
  }
  const auto toList = [](std::span<const int64_t> values) {
    return std::vector<int64_t>(values.begin(), values.end());
  };
  return py::make_tuple(toList(arg.sizeSpan()), toList(arg.strideSpan()), arg.dtype,
                        arg.device.toString());
}

void callFailureHandler(const py::object& function, const InternalFailure& failure) {
  const GilHolder gil;
  py::list args;
  for (const ArgView& arg : failure.args) {
    args.append(description(arg));
  }
  function(failure.definition, args, failure.words);
}

// Its elements lie as those of `wanted` should, in memory of its own that nothing else shares.
bool isInItsPlace(PyObject* object, const BorrowedArray& array, const ArgView& wanted,
                  std::span<const ArgView> others) {
  if (array.dtype != wanted.dtype || array.device != wanted.device || array.rank != wanted.rank ||
      array.is_copy || reinterpret_cast<uintptr_t>(array.data) % kHostAlignment != 0 ||
      wanted.storage_elements > spannedElements(wanted)) {
    return false;
  }
  for (int32_t d = 0; d < wanted.rank; ++d) {
    if (array.sizes[d] != wanted.sizes[d] ||
        (array.sizes[d] != 1 && array.strides[d] != wanted.strides[d])) {
      return false;
    }
  }
  const bool is_shared = std::any_of(others.begin(), others.end(), [&](const ArgView& other) {
    return other.is_tensor && other.data == array.data;
  });
  if (is_shared || !isTorchTensor(object)) {
    return false;
  }
  // Part of a larger tensor would keep all of it.
  const auto bytes = py::handle(object).attr("untyped_storage")().attr("nbytes")().cast<int64_t>();
  return bytes <= spannedElements(wanted) * dataTypeSizeBytes(wanted.dtype);
}

Tensor newTensorLike(const ArgView& wanted) {
  const std::array<int64_t, 1> storage = {
      std::max(wanted.storage_elements, spannedElements(wanted))};
  const std::array<int64_t, 1> one = {1};
  const NewArray array = newArray(storage, one, wanted.dtype, wanted.device);
  return toTensor(array.object.get()).asStrided(wanted.sizeSpan(), wanted.strideSpan());
}

// How the library's Python functions evaluate segments.
struct PyFunctions {
  py::object prepare;
  py::object copy;                         // (to, from), two lists of tensors
  std::unordered_set<std::string> writing; // operations that write to the tensors they are given
};

// What a Python function makes of one library segment: a callable that gets the inputs and the
// outputs, or that gets the inputs and returns the outputs. It is made when the segment first runs,
// as planning holds locks that a thread with the GIL may wait for.
class PyEvaluation : public Evaluation {
 public:
  PyEvaluation(std::shared_ptr<Fusion> segment, const PyFunctions& functions)
      : segment_(std::move(segment)),
        functions_(functions),
        makes_results_(functions.writing.count(librarySegmentOp(*segment_)->opName()) == 0) {}
  ~PyEvaluation() override {
    // Plans may go in any thread, and after the interpreter.
    if (Py_IsInitialized() == 0) {
      call_.release();
      return;
    }
    const GilHolder gil;
    call_ = py::object();
  }
  PyEvaluation(const PyEvaluation&) = delete;
  PyEvaluation& operator=(const PyEvaluation&) = delete;

  void run(std::span<const ArgView> inputs, std::span<const ArgView> outputs,
           const PhiloxState&) const override {
    const GilHolder gil;
    if (makes_results_) {
      functions_.copy(arguments(outputs), call({inputs}));
    } else {
      call({inputs, outputs});
    }
  }

  bool makesResults() const override {
    return makes_results_;
  }

  std::vector<Tensor> make(std::span<const ArgView> inputs,
                           std::span<const ArgView> outputs) const override {
    const GilHolder gil;
    const auto results = call({inputs}).cast<py::sequence>();
    NVF_ERROR(results.size() == outputs.size(), "a library made ", results.size(), " results");
    std::vector<Tensor> made;
    std::vector<ArgView> others(inputs.begin(), inputs.end());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const py::object result = results[i];
      BorrowedArray array;
      NVF_ERROR(borrow(result.ptr(), array), "a library made no tensor");
      if (isInItsPlace(result.ptr(), array, outputs[i], others)) {
        made.push_back(toTensor(result.ptr()));
      } else {
        made.push_back(newTensorLike(outputs[i]));
        ArgView to = outputs[i];
        to.data = made.back().data();
        py::list from;
        from.append(result);
        functions_.copy(arguments({&to, 1}), from);
      }
      others.push_back(ArgView::of(made.back()));
    }
    return made;
  }

 private:
  py::object call(std::initializer_list<std::span<const ArgView>> lists) const {
    if (!call_) {
      call_ = functions_.prepare(segment_);
    }
    std::vector<py::object> owned;
    std::vector<PyObject*> arguments;
    for (const auto& list : lists) {
      for (const ArgView& arg : list) {
        owned.push_back(argument(arg));
        arguments.push_back(owned.back().ptr());
      }
    }
    auto result = py::reinterpret_steal<py::object>(
        PyObject_Vectorcall(call_.ptr(), arguments.data(), arguments.size(), nullptr));
    if (!result) {
      throw py::error_already_set();
    }
    return result;
  }

  std::shared_ptr<Fusion> segment_;
  const PyFunctions& functions_; // the library's
  const bool makes_results_;
  mutable py::object call_; // guarded by the GIL
};

class PyLibrary : public Library {
 public:
  PyLibrary(std::string name, PyFunctions functions)
      : name_(std::move(name)), functions_(std::move(functions)) {}

  std::string name() const override {
    return name_;
  }
  std::shared_ptr<const Evaluation> prepare(const std::shared_ptr<Fusion>& segment) const override {
    return std::make_shared<PyEvaluation>(segment, functions_);
  }

 private:
  std::string name_;
  PyFunctions functions_;
};

} // namespace

void bindEvaluator(py::module_& m) {
  m.def(
      "_output_tolerances",
      [](const Fusion& fusion, py::handle args) {
        py::list out;
        const CallArguments call(args);
        for (const Tolerance& t : outputTolerances(fusion, call.views())) {
          out.append(py::make_tuple(t.absolute, t.relative));
        }
        return out;
      },
      py::arg("fusion"), py::arg("args"),
      "(atol, rtol) of each output, by its dtype and the elements that it accumulates.");
  m.def(
      "_set_fusion_evaluator",
      [](py::object function, py::object define) {
        setFusionEvaluator(
            std::make_unique<PyFusionEvaluator>(std::move(function), std::move(define)));
      },
      py::arg("function"), py::arg("define"),
      "function(fusion, inputs, outputs, seed, offset) evaluates fusions that have no kernel; "
      "define(text) makes the fusion of which translate_fusion() gave the text.");
  m.def(
      "_set_internal_failure_handler",
      [](py::object function) {
        // Never freed: it is copied and called without the interpreter.
        const auto* kept = new py::object(std::move(function));
        setInternalFailureHandler(
            [kept](const InternalFailure& failure) { callFailureHandler(*kept, failure); });
      },
      py::arg("function"),
      "function(fusion, inputs, words) is called when a mistake keeps a kernel from being made. "
      "Inputs are numbers or (sizes, strides, dtype, device).");
  m.def(
      "_kernel_cache_directory", [] { return KernelDiskCache::instance().directory(); },
      "The folder of compiled kernels; empty if there is none.");
  m.def(
      "_set_library",
      [](std::string name, py::object prepare, py::object copy,
         std::unordered_set<std::string> writing) {
        setLibrary(std::make_unique<PyLibrary>(
            std::move(name), PyFunctions{std::move(prepare), std::move(copy), std::move(writing)}));
      },
      py::arg("name"), py::arg("prepare"), py::arg("copy"), py::arg("writing"),
      "prepare(segment) makes a callable of a fusion with one library op; it gets the segment's "
      "inputs and then, of the operations in `writing`, the outputs to write, by position. Of "
      "others "
      "it returns the outputs, which are used as they are, or copied by copy(to, from) where they "
      "do "
      "not lie as they should.");
}

} // namespace nvfuser::python
