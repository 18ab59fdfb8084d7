// SPDX-License-Identifier: BSD-3-Clause
// What the binding files share: handles, conversion of Python operands, registration functions.
//
// A handle of an IR node is a shared_ptr that owns the node's Fusion (aliasing constructor), so
// that no sequence of Python statements leaves a handle without its node. pybind11 keeps one Python
// object for each live node, which makes handles comparable by identity.
#pragma once

#include <base/warning.h>
#include <bindings/signature_types.h>
#include <fusion.h>

#include <pybind11/complex.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

namespace nvfuser::python {

namespace py = pybind11;

// Warns once that an argument or attribute of the contract is accepted and changes nothing.
inline void warnIgnored(const std::string& what, const char* why) {
  warnOnce(what + " changes nothing: " + why);
}

template <class T>
std::shared_ptr<T> handle(T* node) {
  if (node == nullptr) {
    return nullptr;
  }
  return std::shared_ptr<T>(node->fusion()->shared_from_this(), node);
}

template <class T>
std::vector<std::shared_ptr<T>> handles(const std::vector<T*>& nodes) {
  std::vector<std::shared_ptr<T>> out;
  out.reserve(nodes.size());
  for (T* node : nodes) {
    out.push_back(handle(node));
  }
  return out;
}

// pybind11 passes None as a null pointer.
template <class T>
T* notNone(T* node, const char* what) {
  if (node == nullptr) {
    throw py::type_error(std::string(what) + ": expected a handle, got None");
  }
  return node;
}

// An operand of an op: a handle, or a number, which becomes a constant of the active fusion. None
// is null where `allow_none`. Anything else raises TypeError naming the op.
Val* toVal(py::handle object, const char* op, bool allow_none = false);
// The operand must be a tensor (TypeError).
TensorView* toTensor(py::handle object, const char* op, const char* argument);
std::vector<TensorView*> toTensors(py::handle sequence, const char* op, const char* argument);
// A shape: sequence of integers (anything with __index__) and integer Vals.
std::vector<Val*> toShape(py::handle sequence, const char* op);
std::vector<int64_t> toInts(py::handle sequence, const char* op, const char* argument);

// A result for Python; a new tensor remembers the Python line that made it.
PromotedResult result(Val* v);
TensorResult result(TensorView* tv);
// None for null.
OptionalTensorResult optionalResult(TensorView* tv);
// The same of what is a scalar always.
ScalarResult scalarResult(Val* v);

// The Fusion that ops add to; UserError if none is active.
Fusion* activeFusion();

void bindEnums(py::module_& m);
void bindIr(py::module_& m);
// +, -, <, ... of a class of handles.
void bindOperators(py::class_<Val, Statement, std::shared_ptr<Val>>& type);
void bindOperators(py::class_<TensorView, Val, std::shared_ptr<TensorView>>& type);
void bindFusion(py::module_& m);
void bindElementwiseOps(py::module_& ops);
void bindShapeOps(py::module_& ops);
void bindReductionOps(py::module_& ops);
void bindIndexingOps(py::module_& ops);
void bindLibraryOps(py::module_& ops);
void bindParams(py::module_& m);
void bindListedParams(py::module_& m);
void bindExecutors(py::module_& m);
void bindSchedule(py::module_& schedule);
void bindIdm(py::module_& idm);
void bindProfile(py::module_& m);
void bindMultidevice(py::module_& m);
// Shardings of the visible outputs; empty if no tensor of the fusion has a mesh.
ShardingsResult outputShardings(const Fusion& fusion);
void bindIntrospection(py::module_& m);
void bindFastExecute(py::module_& m);
void bindEvaluator(py::module_& m);

} // namespace nvfuser::python
