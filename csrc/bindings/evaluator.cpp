// Lets Python functions evaluate the fusions that have no kernel (runtime/fusion_evaluator.h), and
// hear of mistakes of ours (executor/internal_failure.h).
#include <bindings/bindings.h>
#include <bindings/py_allocator.h>

#include <executor/internal_failure.h>
#include <runtime/fusion_evaluator.h>
#include <runtime/kernel_cache.h>

namespace nvfuser::python {

namespace {

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
  const Tensor borrowed =
      Tensor::fromBlob(arg.data, arg.sizeSpan(), arg.strideSpan(), arg.dtype, arg.device);
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
  explicit PyFusionEvaluator(py::object function) : function_(std::move(function)) {}

  void evaluate(const std::shared_ptr<Fusion>& fusion, std::span<const ArgView> inputs,
                std::span<const ArgView> outputs, const PhiloxState& rng) override {
    const GilHolder gil;
    function_(fusion, arguments(inputs), arguments(outputs), rng.seed, rng.offset);
  }

 private:
  py::object function_;
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

} // namespace

void bindEvaluator(py::module_& m) {
  m.def(
      "_set_fusion_evaluator",
      [](py::object function) {
        setFusionEvaluator(std::make_unique<PyFusionEvaluator>(std::move(function)));
      },
      py::arg("function"),
      "function(fusion, inputs, outputs, seed, offset) evaluates fusions that have no kernel.");
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
}

} // namespace nvfuser::python
