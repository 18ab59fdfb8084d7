// Lets a Python function evaluate the fusions that have no kernel (runtime/fusion_evaluator.h).
#include <bindings/bindings.h>
#include <bindings/py_allocator.h>

#include <runtime/fusion_evaluator.h>

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

} // namespace

void bindEvaluator(py::module_& m) {
  m.def(
      "_set_fusion_evaluator",
      [](py::object function) {
        setFusionEvaluator(std::make_unique<PyFusionEvaluator>(std::move(function)));
      },
      py::arg("function"),
      "function(fusion, inputs, outputs, seed, offset) evaluates fusions that have no kernel.");
}

} // namespace nvfuser::python
