// SPDX-License-Identifier: BSD-3-Clause
// Fields of expressions and values, for the Python layer's reference evaluator and tools.
#include <bindings/bindings.h>

#include <base/options.h>
#include <definition/translate.h>
#include <ir/describe.h>

#include <algorithm>

namespace nvfuser::python {

namespace {

py::object constant(const Val* v) {
  return std::visit(
      [](const auto& x) -> py::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::monostate>) {
          return py::none();
        } else {
          return py::cast(x);
        }
      },
      v->value());
}

py::list list(const std::vector<Val*>& vals) {
  py::list out;
  for (Val* v : vals) {
    out.append(result(v));
  }
  return out;
}

// Positions of the Reduction axes of a result.
std::vector<int64_t> reducedDims(const TensorView* out) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < out->getLogicalDomain().size(); ++d) {
    if (out->getLogicalDomain()[d]->isReduction()) {
      dims.push_back(static_cast<int64_t>(d));
    }
  }
  return dims;
}

py::object attributeValue(LibraryAttribute::Kind kind, int64_t value) {
  switch (kind) {
    case LibraryAttribute::Kind::Bool:
      return py::bool_(value != 0);
    case LibraryAttribute::Kind::Type:
      return py::cast(static_cast<DataType>(value));
    case LibraryAttribute::Kind::Int:
      break;
  }
  return py::int_(value);
}

// The op's name, its operands by name (None where one is left out), its attributes by name, and
// which results hold swizzled block scales.
void addLibraryFields(const LibraryOp& op, py::dict& d) {
  const LibraryOpInfo& row = op.info();
  d["kind"] = "library";
  d["op"] = row.name;
  py::dict operands;
  const std::vector<Val*> values = op.operands();
  for (size_t i = 0; i < values.size(); ++i) {
    operands[row.operands[i].name] =
        values[i] == nullptr ? py::object(py::none()) : result(values[i]);
  }
  d["operands"] = operands;
  py::dict attributes;
  for (size_t i = 0; i < row.attributes.size(); ++i) {
    attributes[row.attributes[i].name] = attributeValue(row.attributes[i].kind, op.attributes()[i]);
  }
  d["attributes"] = attributes;
  py::list swizzled;
  for (size_t i = 0; i < op.outputs().size(); ++i) {
    swizzled.append(op.isSwizzled(i));
  }
  d["swizzled"] = swizzled;
}

py::object fieldObject(const FieldValue& value) {
  return std::visit(
      [](const auto& x) -> py::object {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, Val*>) {
          return result(x);
        } else if constexpr (std::is_same_v<T, std::vector<Val*>>) {
          return list(x);
        } else {
          return py::cast(x);
        }
      },
      value);
}

// For each dimension of the result the one of the input that it was.
py::list permutationOf(const TensorView* out) {
  py::list permutation;
  if (out != nullptr && out->hasRoot()) {
    const auto& root = out->getRootDomain();
    for (const IterDomain* id : out->getLogicalDomain()) {
      permutation.append(std::find(root.begin(), root.end(), id) - root.begin());
    }
  }
  return permutation;
}

// {"kind": ..., "inputs": [...], "outputs": [...], fields by name}, and what the domains of the
// result say of the op: "dims" that are reduced, "permutation" of a copy.
py::dict exprInfo(Expr* e) {
  py::dict d;
  for (const NamedField& field : e->fields()) {
    d[field.name] = fieldObject(field.value);
  }
  d["kind"] = e->opName();
  d["inputs"] = list(e->inputs());
  d["outputs"] = list(e->outputs());
  if (e->kind() == ExprKind::ElementwiseOp) {
    d["kind"] = "elementwise";
  } else if (e->kind() == ExprKind::LoadStoreOp) {
    d["kind"] = "set";
    d["permutation"] = permutationOf(tryAs<TensorView>(e->output(0)));
  } else if (isReduction(e)) {
    d["dims"] = reducedDims(e->output(0)->as<TensorView>());
  } else if (auto* r = tryAs<RngOp>(e)) {
    d["stateful"] = r->isStateful();
  } else if (auto* op = tryAs<LibraryOp>(e)) {
    addLibraryFields(*op, d);
  }
  return d;
}

} // namespace

void bindIntrospection(py::module_& m) {
  m.def("_expr_info", &exprInfo, py::arg("expr"), "Kind, operands and fields of an expression.");
  m.def("_op_name", &pythonOpName, py::arg("expr"), "What fd.ops calls the operation.");
  m.def(
      "_fusion_exprs", [](Fusion& f) { return handles(f.exprs()); }, py::arg("fusion"),
      "Tensor expressions that outputs depend on, producers first.");
  m.def(
      "_dumps_definition", [] { return isDumpEnabled(DumpOption::PythonDefinition); },
      "Whether NVFUSER_DUMP has python_definition.");
  m.def("_constant", &constant, py::arg("val"), "Value of a constant scalar, or None.");
  m.def("_scalar_dtype", [](const Val* v) { return v->dtype(); }, py::arg("val"));
  m.def(
      "_output_aliases",
      [](Fusion& f) {
        py::list out;
        for (const OutputAlias& a : f.outputAliases()) {
          out.append(py::make_tuple(a.input == nullptr ? py::object(py::none()) : result(a.input),
                                    a.input != nullptr && a.hidden));
        }
        return out;
      },
      py::arg("fusion"), "For each output (alias input or None, hidden).");
  m.def(
      "_logical_extents",
      [](TensorView* tv) {
        py::list out;
        for (IterDomain* id : logicalIds(tv)) {
          out.append(result(id->getMaybeExpandedExtent()));
        }
        return out;
      },
      py::arg("tv"));
  m.def("_source_location", [](TensorView* tv) { return tv->sourceLocation(); }, py::arg("tv"));
}

} // namespace nvfuser::python
