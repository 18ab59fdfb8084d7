// SPDX-License-Identifier: BSD-3-Clause
// A definition's cut, and whether others would be kernels, for tests that compare them.
#include <bindings/cut_for_test.h>

#include <ir/visitor.h>
#include <preseg_passes/preseg_passes.h>
#include <scheduler/registry.h>
#include <segment/segment.h>

#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nvfuser::python {

namespace {

using Names = std::vector<std::string>;

// Of a definition with constant sizes, after the passes that all definitions get.
class Cut {
 public:
  explicit Cut(const Fusion& definition) : fusion_(std::make_unique<Fusion>(definition)) {
    const FusionGuard guard(fusion_.get());
    PresegFusion rewritten{.fusion = fusion_.get(), .outputs = {}, .writes = {}};
    for (Val* v : fusion_->outputs()) {
      rewritten.outputs.push_back(v->as<TensorView>());
    }
    settleLayouts(rewritten);
    runPresegPasses(rewritten, {});
    whole_ = std::make_unique<WholeFusion>(fusion_.get());
  }

  // What each operation reads and makes.
  std::vector<std::pair<Names, Names>> operations() const {
    std::vector<std::pair<Names, Names>> out;
    for (const Expr* e : fusion_->exprs()) {
      out.emplace_back(namesOf(tensorInputs(e)), namesOf(tensorOutputs(e)));
    }
    return out;
  }

  std::map<std::string, int64_t> bytes() const {
    std::map<std::string, int64_t> out;
    for (const TensorView* tv : fusion_->allTvs()) {
      int64_t bits = dataTypeSizeBits(tv->dtype());
      for (const IterDomain* id : logicalIds(tv)) {
        bits *= id->isBroadcast() ? 1 : id->extent()->intValue();
      }
      out[nameOf(tv)] = bits / 8;
    }
    return out;
  }

  Names outputs() const {
    Names out;
    for (const Val* v : fusion_->outputs()) {
      out.push_back(nameOf(v));
    }
    return out;
  }

  // What each kernel of the chosen cut reads and writes.
  std::vector<std::pair<Names, Names>> chosen() const {
    const FusionGuard guard(fusion_.get());
    std::vector<std::pair<Names, Names>> out;
    for (const Segment& segment : segmentFusion(fusion_.get(), judge).segments) {
      out.emplace_back(tensorsOf(segment.inputs), tensorsOf(segment.outputs));
    }
    return out;
  }

  // Whether the operations at these positions would be one kernel.
  bool isOneKernel(const std::vector<size_t>& positions) const {
    const FusionGuard guard(fusion_.get());
    std::vector<Expr*> exprs;
    for (size_t i : positions) {
      exprs.push_back(fusion_->exprs().at(i));
    }
    return judge(extractSegment(*whole_, exprs).fusion.get()).accepted();
  }

 private:
  static SegmentVerdict judge(Fusion* segment) {
    SegmentVerdict verdict;
    verdict.scheduler = chooseScheduler(segment);
    if (!verdict.accepted()) {
      verdict.conflicting = conflictingTensors(segment);
    }
    return verdict;
  }

  static std::string nameOf(const Val* v) {
    return "T" + std::to_string(v->name());
  }

  template <class Tensors>
  static Names namesOf(const Tensors& tensors) {
    Names out;
    for (const auto* tv : tensors) {
      out.push_back(nameOf(tv));
    }
    return out;
  }

  static Names tensorsOf(const std::vector<Val*>& vals) {
    Names out;
    for (const Val* v : vals) {
      if (v->isTensor()) {
        out.push_back(nameOf(v));
      }
    }
    return out;
  }

  std::unique_ptr<Fusion> fusion_;
  std::unique_ptr<WholeFusion> whole_;
};

} // namespace

void bindCutForTest(pybind11::module_& module) {
  pybind11::class_<Cut>(module, "_Cut",
                        "A definition's kernels and, for tests, what else could be kernels.")
      .def(pybind11::init([](const std::shared_ptr<Fusion>& fusion) {
             return std::make_unique<Cut>(*fusion);
           }),
           pybind11::arg("fusion"))
      .def("operations", &Cut::operations, "What each operation reads and makes.")
      .def("bytes", &Cut::bytes, "By tensor.")
      .def("outputs", &Cut::outputs)
      .def("chosen", &Cut::chosen, "What each kernel of the chosen cut reads and writes.")
      .def("is_one_kernel", &Cut::isOneKernel, pybind11::arg("positions"),
           "Whether the operations at these positions would be one kernel.");
}

} // namespace nvfuser::python
