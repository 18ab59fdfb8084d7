// SPDX-License-Identifier: BSD-3-Clause
// Graphs of iteration domains.
#include <bindings/bindings.h>

#include <id_model/id_model.h>

#include <map>
#include <sstream>

namespace nvfuser::python {

namespace {

// The modes as Python knows them. Exact is the graph that lowering uses; permissive also joins
// broadcasts with what they are broadcast to.
struct PyGraph {
  std::shared_ptr<Fusion> fusion;
  std::shared_ptr<IdGraph> graph;

  std::string toString() const {
    std::ostringstream out;
    out << "IdGraph{\n";
    for (IdGroup g : graph->groups()) {
      out << "  idg{";
      const char* separator = "";
      for (const IterDomain* id : graph->members(g)) {
        out << separator << id->name();
        separator = " ";
      }
      out << "}\n";
    }
    out << "}";
    return out.str();
  }
};

struct PyIdModel {
  std::shared_ptr<Fusion> fusion;
  std::map<IdMappingMode, PyGraph> graphs;

  PyGraph build(IdMappingMode mode) {
    auto it = graphs.find(mode);
    if (it == graphs.end()) {
      auto graph = std::make_shared<IdGraph>(buildGraph(fusion.get(), mode));
      it = graphs.emplace(mode, PyGraph{fusion, graph}).first;
    }
    return it->second;
  }
};

} // namespace

void bindIdm(py::module_& m) {
  py::class_<PyGraph>(m, "DisjointValSets")
      .def(
          "strict_are_mapped",
          [](const PyGraph& g, IterDomain& a, IterDomain& b) { return g.graph->same(&a, &b); },
          py::arg("entry0"), py::arg("entry1"))
      .def("__str__", &PyGraph::toString);
  // A graph and its sets are one thing here; the second class keeps the API's two names.
  struct ValGraph {
    PyGraph graph;
  };
  py::class_<ValGraph>(m, "ValGraph")
      .def("disjoint_val_sets", [](const ValGraph& g) { return g.graph; })
      .def(
          "map_vals", [](ValGraph& g, IterDomain& a, IterDomain& b) { g.graph.graph->map(&a, &b); },
          py::arg("val0"), py::arg("val1"),
          "Joins two domains and what follows through equal transforms.")
      .def("__str__", [](const ValGraph& g) { return g.graph.toString(); });
  py::class_<PyIdModel>(m, "IdModel")
      .def(py::init([](std::shared_ptr<Fusion> fusion, bool build, bool allow_self_mapping,
                       bool validate) {
             if (!allow_self_mapping) {
               warnIgnored("IdModel(allow_self_mapping=False)",
                           "domains of one tensor that are mapped are not looked for");
             }
             if (validate) {
               warnIgnored("IdModel(validate=True)", "there is nothing to compare the graphs with");
             }
             PyIdModel model{std::move(fusion), {}};
             if (build) {
               model.build(IdMappingMode::Exact);
             }
             return model;
           }),
           py::arg("fusion"), py::arg("build_graphs") = false, py::arg("allow_self_mapping") = true,
           py::arg("validate") = false)
      .def(
          "maybe_build_graph",
          [](PyIdModel& model, IdMappingMode mode) { return ValGraph{model.build(mode)}; },
          py::arg("mode"))
      .def("__str__", [](PyIdModel& model) {
        return "IdModel:\n" + model.build(IdMappingMode::Exact).toString();
      });
}

} // namespace nvfuser::python
