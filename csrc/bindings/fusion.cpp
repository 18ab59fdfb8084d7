// SPDX-License-Identifier: BSD-3-Clause
// Fusion, FusionGuard, define_tensor, define_scalar and translation.
#include <bindings/bindings.h>

#include <base/error.h>
#include <codegen/codegen.h>
#include <definition/translate.h>
#include <ir/builder.h>
#include <ir/tensor_builder.h>
#include <lower/lower.h>
#include <runtime/executor_params.h>

#include <algorithm>

namespace nvfuser::python {

namespace {

// Makes a fusion active from construction to destruction. Guards of Python need not end in the
// reverse order of their beginning: one that is no longer the innermost ends without effect.
class PyFusionGuard {
 public:
  explicit PyFusionGuard(std::shared_ptr<Fusion> fusion) : fusion_(std::move(fusion)) {
    if (Fusion* current = FusionGuard::getCurFusion()) {
      previous_ = current->weak_from_this().lock();
    }
    IrContainer::setActive(fusion_.get());
  }
  ~PyFusionGuard() {
    if (IrContainer::active() == fusion_.get()) {
      IrContainer::setActive(previous_.get());
    }
  }
  PyFusionGuard(const PyFusionGuard&) = delete;
  PyFusionGuard& operator=(const PyFusionGuard&) = delete;

 private:
  std::shared_ptr<Fusion> fusion_;
  std::shared_ptr<Fusion> previous_;
};

TensorDomain::Contiguity toContiguity(py::handle list) {
  TensorDomain::Contiguity out;
  for (py::handle item : py::reinterpret_borrow<py::sequence>(list)) {
    if (item.is_none()) {
      out.push_back(std::nullopt);
    } else if (PyBool_Check(item.ptr()) != 0) {
      out.push_back(item.ptr() == Py_True);
    } else {
      throw py::type_error("define_tensor: contiguity entries must be True, False or None");
    }
  }
  return out;
}

bool isListOrTuple(py::handle h) {
  return PyList_Check(h.ptr()) != 0 || PyTuple_Check(h.ptr()) != 0;
}

bool allBoolsOrNone(py::handle list) {
  for (py::handle item : py::reinterpret_borrow<py::sequence>(list)) {
    if (!item.is_none() && PyBool_Check(item.ptr()) == 0) {
      return false;
    }
  }
  return true;
}

// The three overloads of define_tensor in one place, told apart as the contract says: by keyword,
// else by the type of the second argument.
TensorResult defineTensorFromPython(const OptionalIntsArg& shape, const ContiguityArg& contiguity,
                                    DataType dtype, bool is_cpu,
                                    const OptionalIntsArg& stride_order,
                                    const OptionalIntsArg& sizes, const OptionalIntsArg& strides,
                                    bool static_sizes) {
  const char* const op = "define_tensor";
  if (!sizes.is_none() || !strides.is_none()) {
    if (sizes.is_none() || strides.is_none()) {
      throw py::type_error("define_tensor: sizes and strides must be given together");
    }
    return result(defineTensorFromStrides(
        toInts(sizes, op, "sizes"), toInts(strides, op, "strides"), dtype, static_sizes, is_cpu));
  }
  if (shape.is_none()) {
    throw py::type_error("define_tensor: shape (or sizes and strides) is required");
  }
  const std::vector<int64_t> dims = toInts(shape, op, "shape");
  const std::vector<int64_t> order =
      stride_order.is_none() ? std::vector<int64_t>{} : toInts(stride_order, op, "stride_order");
  if (isListOrTuple(contiguity)) {
    if (!allBoolsOrNone(contiguity)) {
      // Positional sizes and strides.
      return result(defineTensorFromStrides(dims, toInts(contiguity, op, "strides"), dtype,
                                            static_sizes, is_cpu));
    }
    return result(defineTensor(dims, toContiguity(contiguity), dtype, is_cpu, order));
  }
  if (!contiguity.is_none() && PyBool_Check(contiguity.ptr()) == 0) {
    throw py::type_error(
        "define_tensor: contiguity must be a bool or a list of True, False and None");
  }
  return result(defineTensor(dims, contiguity.ptr() == Py_True, dtype, is_cpu, order));
}

ScalarResult defineScalar(const NumberOrType& value, std::optional<DataType> dtype) {
  if (py::isinstance<DataType>(value) || namesDataType(value)) {
    if (dtype.has_value()) {
      throw py::type_error("define_scalar: dtype given twice");
    }
    return scalarResult(IrBuilder::create<Val>(value.cast<DataType>()));
  }
  if (value.is_none()) {
    return scalarResult(IrBuilder::create<Val>(dtype.value_or(DataType::Double)));
  }
  if (py::isinstance<Val>(value)) {
    throw py::type_error("define_scalar: value must be a Python number");
  }
  Val* v = toVal(value, "define_scalar");
  return scalarResult(!dtype.has_value() || v->dtype() == *dtype ? v
                                                                 : IrBuilder::castExpr(*dtype, v));
}

// What messages call an input from now on.
void setName(Val* v, const std::string& name) {
  const InputLabel* label = v->inputLabel();
  v->setInputLabel({label == nullptr ? -1 : label->position, name});
}

void addInput(Fusion& fusion, Val* v) {
  fusion.addInput(notNone(v, "add_input"));
  const InputLabel* label = v->inputLabel();
  v->setInputLabel({static_cast<int64_t>(fusion.inputs().size()) - 1,
                    label == nullptr ? std::string() : label->name});
}

// The same function with a name for what it returns.
template <class Result, class... Args>
auto named(Result (*define)(Args...)) {
  return [define](Args... args, const std::optional<std::string>& name) {
    Result defined = define(args...);
    if (name.has_value()) {
      setName(defined.template cast<Val*>(), *name);
    }
    return defined;
  };
}

// Loops, threads, inlining, memory, copies by other means: what no text of a definition shows.
bool isScheduled(Fusion& fusion) {
  for (const Expr* e : fusion.exprs()) {
    const auto* copy = tryAs<LoadStoreOp>(e);
    if (copy != nullptr && copy->type() != LoadStoreOpType::Set &&
        copy->type() != LoadStoreOpType::SegmenterSet) {
      return true;
    }
  }
  for (const TensorView* tv : fusion.allTvs()) {
    const std::vector<IterDomain*>& loops = tv->getLoopDomain();
    const bool bound = std::any_of(loops.begin(), loops.end(), [](const IterDomain* id) {
      return id->parallelType() != ParallelType::Serial;
    });
    const MemoryType usual =
        tv->isFusionInput() || tv->isFusionOutput() ? MemoryType::Global : MemoryType::Local;
    if (bound || loops != tv->getLogicalDomain() || tv->getComputeAtPosition() != 0 ||
        (tv->getMemoryType() != usual && tv->getMemoryType() != MemoryType::Global)) {
      return true;
    }
  }
  return false;
}

std::string printKernel(Fusion& fusion, const CompileParams& params) {
  FusionGuard guard(&fusion);
  GpuLower lower(&fusion, {params.index_type.value_or(DataType::Int)});
  return codegen::generateCudaKernel(lower.run());
}

} // namespace

void bindFusion(py::module_& m) {
  py::class_<Fusion, std::shared_ptr<Fusion>> fusion(m, "Fusion", "A graph of tensor operations.");
  fusion.def(py::init([] { return std::make_shared<Fusion>(); }))
      .def("inputs", [](Fusion& f) { return handles(f.inputs()); })
      .def("outputs", [](Fusion& f) { return handles(f.outputs()); })
      .def(
          "vals", [](Fusion& f) { return handles(f.vals()); }, "Every value, in order of creation.")
      .def("add_input", &addInput, py::arg("input"))
      .def(
          "add_output",
          [](Fusion& f, Val* v, Val* alias) {
            notNone(v, "add_output");
            if (alias == nullptr) {
              f.addOutput(v);
            } else {
              f.addOutput(v, alias);
            }
          },
          py::arg("output"), py::arg("alias_input") = nullptr,
          "Adds an output; with alias_input it is written in place into that input.")
      .def(
          "print_math",
          [](Fusion& f, bool from_outputs_only) { return f.printMath(from_outputs_only); },
          py::arg("from_outputs_only") = true)
      .def("print_kernel", &printKernel,
           py::arg_v("compile_params", CompileParams(), "CompileParams()"))
      .def(
          "__eq__",
          [](Fusion& a, const py::object& b) {
            return py::isinstance<Fusion>(b) && a.sameDefinition(b.cast<Fusion&>());
          },
          py::is_operator())
      .def(
          "__ne__",
          [](Fusion& a, const py::object& b) {
            return !py::isinstance<Fusion>(b) || !a.sameDefinition(b.cast<Fusion&>());
          },
          py::is_operator());
  fusion.attr("__hash__") = py::none();

  py::class_<PyFusionGuard>(m, "FusionGuard",
                            "Makes a fusion the one that ops add to, while it lives.")
      .def(py::init<std::shared_ptr<Fusion>>(), py::arg("fusion"));

  m.def("define_tensor", named(&defineTensorFromPython), py::arg("shape") = py::none(),
        py::arg("contiguity") = py::none(), py::arg("dtype") = DataType::Float,
        py::arg("is_cpu") = false, py::arg("stride_order") = py::none(),
        py::arg("sizes") = py::none(), py::arg("strides") = py::none(),
        py::arg("static_sizes") = false, py::arg("name") = py::none(),
        "A tensor of the active fusion: from a declared shape (-1 symbolic, 0 empty, 1 broadcast, "
        "> 1 static) with contiguity per dimension in memory order or one flag for all, or from "
        "sizes and strides. Messages call it `name`.");
  m.def("define_scalar", named(&defineScalar), py::arg("value") = py::none(),
        py::arg("dtype") = py::none(), py::arg("name") = py::none(),
        "A symbolic scalar of a dtype (default Double), which messages call `name`, or a "
        "constant.");
  m.def(
      "compute_tensor_descriptor",
      [](const IntsArg& sizes, const IntsArg& strides) {
        const char* const op = "compute_tensor_descriptor";
        TensorDescriptor d =
            computeTensorDescriptor(toInts(sizes, op, "sizes"), toInts(strides, op, "strides"));
        return std::make_tuple(d.contiguity, d.stride_order);
      },
      py::arg("sizes"), py::arg("strides"),
      "Contiguity in memory order and stride order of a tensor's layout.");
  m.def(
      "_copy_fusion", [](const Fusion& f) { return std::make_shared<Fusion>(f); },
      py::arg("fusion"), "A fusion of its own: values, schedules, names.");
  m.def("_is_scheduled", &isScheduled, py::arg("fusion"),
        "Whether tensors have loops or memory that the definition as text does not show.");
  m.def(
      "translate_fusion", [](Fusion& f) { return translateFusion(&f); }, py::arg("fusion"),
      "Python source of a function that defines an equal fusion.");
}

} // namespace nvfuser::python
