// SPDX-License-Identifier: BSD-3-Clause
// IR handles: nodes, domains, TensorView and its schedule methods.
#include <bindings/bindings.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/describe.h>

namespace nvfuser::python {

namespace {

std::vector<std::shared_ptr<IterDomain>> ids(const std::vector<IterDomain*>& list) {
  return handles(list);
}

IterDomain* logicalDim(TensorView* tv, int64_t dim) {
  const auto logical = logicalIds(tv);
  const auto n = static_cast<int64_t>(logical.size());
  const int64_t wrapped = dim < 0 ? dim + n : dim;
  NVF_CHECK(wrapped >= 0 && wrapped < n, "Tried to access out of boundary index ", dim, " of ",
            describe(tv), ", which has ", n, " dimensions");
  return logical[static_cast<size_t>(wrapped)];
}

// Iterations in another order give the same values, and the index of the one device that kernels
// run on is 0: there is nothing to rotate.
void rotateByDevice(TensorView* tv, int64_t x, ParallelType type) {
  NVF_CHECK(isParallelTypeDeviceDim(type), "swizzle1d of ", describe(tv),
            ": expected a parallel type of devices (mesh_x, mesh_y, mesh_z), got ", type);
  const IterDomain* id = tv->axis(x);
  NVF_CHECK(
      id->parallelType() == ParallelType::Serial || id->parallelType() == ParallelType::Stream,
      "swizzle1d of ", describe(tv), ": axis ", x, " is parallelized already");
}

using Tv = TensorView;
using TvClass = py::class_<Tv, Val, std::shared_ptr<Tv>>;

void bindDomains(TvClass& type) {
  type.def_property_readonly(
          "ndim", [](Tv* tv) { return logicalIds(tv).size(); }, "Number of dimensions.")
      .def(
          "size",
          [](Tv* tv, int64_t dim) {
            return scalarResult(logicalDim(tv, dim)->getMaybeExpandedExtent());
          },
          py::arg("dim"), "Size of a dimension as a scalar; negative counts from the end.")
      .def(
          "shape",
          [](Tv* tv) {
            py::typing::List<ScalarResult> out;
            for (IterDomain* id : logicalIds(tv)) {
              out.append(scalarResult(id->getMaybeExpandedExtent()));
            }
            return out;
          },
          "Sizes of all dimensions as scalars.")
      .def(
          "dtype", [](Tv* tv) { return tv->dtype(); }, "Element type.")
      .def("has_root", &Tv::hasRoot,
           "Whether the op that makes the tensor saw other dimensions than its logical ones.")
      .def("domain", [](Tv* tv) { return handle(tv->domain()); })
      .def("get_root_domain", [](Tv* tv) { return ids(tv->getRootDomain()); })
      .def("get_logical_domain", [](Tv* tv) { return ids(tv->getLogicalDomain()); })
      .def("get_loop_domain", [](Tv* tv) { return ids(tv->getLoopDomain()); })
      .def(
          "axis", [](Tv* tv, int64_t index) { return handle(tv->axis(index)); }, py::arg("index"),
          "A loop axis; negative counts from the end.");
}

void bindTransforms(TvClass& type) {
  type.def(
          "split",
          [](Tv* tv, int64_t axis, int64_t factor, bool inner) {
            return handle(tv->split(axis, factor, inner));
          },
          py::arg("axis"), py::arg("factor"), py::arg("inner_split") = true,
          "Splits loop axis `axis` of extent e into [ceilDiv(e, factor), factor], or, with "
          "inner_split=False, [factor, ceilDiv(e, factor)].")
      .def(
          "inner_split",
          [](Tv* tv, int64_t axis, int64_t factor) {
            return handle(tv->split(axis, factor, true));
          },
          py::arg("axis"), py::arg("factor"))
      .def(
          "outer_split",
          [](Tv* tv, int64_t axis, int64_t factor) {
            return handle(tv->split(axis, factor, false));
          },
          py::arg("axis"), py::arg("factor"))
      .def(
          "merge",
          [](Tv* tv, int64_t outer, std::optional<int64_t> inner) {
            return handle(inner.has_value() ? tv->merge(outer, *inner) : tv->merge(outer));
          },
          py::arg("axis_o"), py::arg("axis_i") = py::none(),
          "Merges two loop axes; the result stands at the outer position.")
      .def(
          "reorder",
          [](Tv* tv, const std::unordered_map<int64_t, int64_t>& old2new) {
            return handle(tv->reorder(old2new));
          },
          py::arg("old2new") = std::unordered_map<int64_t, int64_t>{},
          "Moves loop axes from old to new positions; the others keep their relative order.")
      .def(
          "swizzle",
          [](Tv* tv, int64_t x, int64_t y) { return handle(tv->swizzle(SwizzleType::Xor, x, y)); },
          py::arg("x"), py::arg("y"), "XOR swizzle of two loop axes of equal power-of-two extents.")
      .def(
          "swizzle1d",
          [](Tv* tv, int64_t x, ParallelType type) {
            rotateByDevice(tv, x, type);
            return handle(tv);
          },
          py::arg("x"), py::arg("parallel_type"),
          "Begins a loop axis at this device's index along a dimension of its mesh: iteration i is "
          "(i + index)\n"
          "modulo the extent. Kernels run on one device, whose index is 0, so that the axis stays "
          "as it is;\n"
          "an axis that is parallelized already is refused.")
      .def(
          "rfactor",
          [](Tv* tv, const std::vector<int64_t>& axes) { return handle(tv->rFactor(axes)); },
          py::arg("axes"),
          "Factors the listed reduction axes into a new producer, which is returned; this tensor "
          "reduces the\n"
          "others. Of a Welford reduction all three results are factored.");
}

void bindMemory(TvClass& type) {
  type.def(
          "cache_after",
          [](Tv* tv, LoadStoreOpType op, CacheOp cache_op, bool propagate,
             const std::vector<std::shared_ptr<Expr>>& uses) {
            std::vector<Expr*> raw;
            for (const auto& e : uses) {
              raw.push_back(notNone(e.get(), "cached_uses"));
            }
            return handle(tv->cacheAfter(op, cache_op, propagate, raw));
          },
          py::arg("op_type") = LoadStoreOpType::Set, py::arg("cache_op") = CacheOp::Unspecified,
          py::arg("propagate_allocation_domain") = true,
          py::arg("cached_uses") = std::vector<std::shared_ptr<Expr>>{},
          "Inserts a copy between this tensor and its uses, and returns it.")
      .def(
          "cache_before", [](Tv* tv, LoadStoreOpType op) { return handle(tv->cacheBefore(op)); },
          py::arg("op_type") = LoadStoreOpType::Set,
          "Inserts a copy between this tensor's definition and itself, and returns it.")
      .def(
          "circular_buffer",
          [](Tv* tv, int64_t stages, int64_t distance) { tv->circularBuffer(stages, distance); },
          py::arg("number_of_stages"), py::arg("prefetch_distance") = 1,
          "Loads this tensor, or computes this reduction, ahead of its use, in the innermost loop "
          "that it is inlined into.")
      .def("cache_fork", [](Tv* tv) { return handle(tv->cacheFork()); })
      .def("set_memory_type", &Tv::setMemoryType, py::arg("memory_type"))
      .def(
          "set_allocation_domain",
          [](Tv* tv, const IdsArg& domain, bool contiguous) {
            std::vector<IterDomain*> raw;
            for (py::handle id : domain) {
              raw.push_back(notNone(id.cast<IterDomain*>(), "new_allocation_domain"));
            }
            tv->setAllocationDomain(std::move(raw), contiguous);
          },
          py::arg("new_allocation_domain"), py::arg("new_contiguity"),
          "Sets the memory order, outermost first.");
}

void bindTensorView(py::module_& m) {
  TvClass type(m, "TensorView", "A tensor of a fusion, and its schedule.");
  bindOperators(type);
  bindDomains(type);
  bindTransforms(type);
  bindMemory(type);
  type.def("__str__", &Tv::toString).def("__repr__", &Tv::toString);
}

} // namespace

void bindIr(py::module_& m) {
  py::class_<Statement, std::shared_ptr<Statement>>(m, "Statement", "Node of a fusion.")
      .def("__str__", [](Statement* s) { return s->toString(); })
      .def("__repr__", [](Statement* s) { return s->toString(); })
      .def(
          "__eq__",
          [](const Statement* a, const py::object& b) {
            return py::isinstance<Statement>(b) && b.cast<Statement*>() == a;
          },
          py::is_operator())
      .def("__hash__", [](const Statement* s) { return std::hash<const void*>()(s); });

  py::class_<Val, Statement, std::shared_ptr<Val>> val(m, "Val",
                                                       "Value: scalar, domain or tensor.");
  bindOperators(val);
  val.def("is_symbolic", &Val::isSymbolic)
      .def("is_tensor", &Val::isTensor)
      .def("definition",
           [](Val* v) { return OptionalExprResult(py::cast(handle(v->definition()))); })
      .def("uses", [](Val* v) { return ExprsResult(py::cast(handles(v->uses()))); });

  py::class_<Expr, Statement, std::shared_ptr<Expr>>(m, "Expr", "Operation.")
      .def(
          "input", [](Expr* e, size_t i) { return handle(e->input(i)); }, py::arg("index"))
      .def("output", [](Expr* e, size_t i) { return handle(e->output(i)); }, py::arg("index"));

  py::class_<IterDomain, Val, std::shared_ptr<IterDomain>>(m, "IterDomain",
                                                           "One dimension of iteration.")
      .def("is_reduction", &IterDomain::isReduction)
      .def("extent", [](IterDomain* id) { return handle(id->extent()); })
      .def("parallelize", &IterDomain::parallelize, py::arg("parallel_type"))
      .def("__str__", [](IterDomain* id) { return id->toString(); });

  py::class_<TensorDomain, Val, std::shared_ptr<TensorDomain>>(m, "TensorDomain",
                                                               "All dimensions of a tensor.")
      .def("__str__", [](TensorDomain* d) { return d->toString(); });

  py::class_<Split, Expr, std::shared_ptr<Split>>(m, "Split")
      .def("outer", [](Split* s) { return handle(s->outer()); })
      .def("inner", [](Split* s) { return handle(s->inner()); });
  py::class_<Merge, Expr, std::shared_ptr<Merge>>(m, "Merge")
      .def("outer", [](Merge* s) { return handle(s->outer()); })
      .def("inner", [](Merge* s) { return handle(s->inner()); });
  // NOLINTBEGIN(bugprone-unused-raii): a class_ registers its class when it is made
  py::class_<BroadcastOp, Expr, std::shared_ptr<BroadcastOp>>(m, "BroadcastOp");
  py::class_<ReshapeOp, Expr, std::shared_ptr<ReshapeOp>>(m, "ReshapeOp");
  py::class_<SqueezeOp, Expr, std::shared_ptr<SqueezeOp>>(m, "SqueezeOp");
  // NOLINTEND(bugprone-unused-raii)

  bindTensorView(m);
}

} // namespace nvfuser::python
