// SPDX-License-Identifier: BSD-3-Clause
// Schedule operators.
#include <bindings/bindings.h>
#include <bindings/call.h>

#include <base/error.h>
#include <definition/rebuild.h>
#include <ir/describe.h>
#include <runtime/bind_inputs.h>
#include <runtime/kernel_executor.h>
#include <runtime/machines.h>
#include <scheduler/registry.h>
#include <scheduler/utils.h>

#include <unordered_set>

namespace nvfuser::python {

namespace {

using Tvs = std::vector<std::shared_ptr<TensorView>>;

std::vector<TensorView*> raw(const Tvs& tvs, const Fusion* fusion) {
  std::vector<TensorView*> out;
  for (const auto& tv : tvs) {
    if (tv == nullptr) {
      throw py::type_error("expected a list of tensors, got None in it");
    }
    NVF_CHECK(tv->fusion() == fusion, describe(tv.get()), " belongs to another fusion");
    out.push_back(tv.get());
  }
  return out;
}

// The definition as the inputs decide it: shapes of reshapes, dimensions that turn out to be 1.
class ForInputs {
 public:
  ForInputs(Fusion& definition, py::handle inputs) : fusion_(&definition) {
    if (!needsConcretization(definition)) {
      return;
    }
    CallArguments args(inputs);
    checkInputs(&definition, args.views(),
                chooseDevice(&definition, args.views(), defaultDevice()));
    ScalarEvaluator sizes;
    bindInputs(definition.inputs(), args.views(), sizes);
    decided_ = std::make_unique<Fusion>();
    concretize(definition, concretizationInfo(definition, sizes), decided_.get());
    fusion_ = decided_.get();
  }
  Fusion* fusion() const {
    return fusion_;
  }

 private:
  std::unique_ptr<Fusion> decided_;
  Fusion* fusion_;
};

std::unique_ptr<HeuristicParams> heuristics(Fusion& definition, SchedulerType type,
                                            py::handle inputs) {
  const ForInputs decided(definition, inputs);
  Fusion& fusion = *decided.fusion();
  FusionGuard guard(&fusion);
  const CanSchedule can = canSchedule(&fusion, type);
  NVF_CHECK(can.ok, "this fusion can't be scheduled: ", can.reason);
  CallArguments args(inputs);
  const Device device = chooseDevice(&fusion, args.views(), defaultDevice());
  checkInputs(&fusion, args.views(), device);
  SchedulerRuntimeInfo info(&fusion, args.views(), machineModel(device));
  info.setWishes(ScheduleWishes::ofOptions());
  return computeHeuristics(&fusion, type, info);
}

void bindTransforms(py::module_& s) {
  s.def(
      "bounded_transform_backward",
      [](TensorView& from, int64_t pos, const Tvs& to, bool propagate_parallel_type) {
        FusionGuard guard(from.fusion());
        boundedTransformBackward(&from, pos, raw(to, from.fusion()), propagate_parallel_type);
      },
      py::arg("from"), py::arg("pos"), py::arg("to"), py::arg("propagate_parallel_type") = false,
      "Replays the first `pos` loop axes of `from` (-1: all) on what lies between it and the "
      "tensors "
      "in `to`, which are left as they are.");
  s.def(
      "transform_like",
      [](TensorView& reference, const Tvs& selected) {
        FusionGuard guard(reference.fusion());
        transformLike(&reference, raw(selected, reference.fusion()));
      },
      py::arg("reference_tv"), py::arg("selected_tensors") = Tvs{},
      "Replays the reference's loop transforms on all (or the selected) tensors.");
  s.def(
      "parallelize_like",
      [](TensorView& reference, int64_t pos, const Tvs& selected,
         const py::typing::Set<ParallelType>& types, bool propagate_padding) {
        FusionGuard guard(reference.fusion());
        std::unordered_set<ParallelType> chosen;
        for (py::handle t : types) {
          chosen.insert(t.cast<ParallelType>());
        }
        scheduler_utils::parallelizeAllLike(&reference, pos, raw(selected, reference.fusion()),
                                            chosen, propagate_padding);
      },
      py::arg("reference_tv"), py::arg("pos") = -1, py::arg("selected_tensors") = Tvs{},
      py::arg("selected_parallel_types") = py::typing::Set<ParallelType>(),
      py::arg("propagate_padding") = true,
      "Copies the reference's parallel types to the corresponding axes of the other tensors.");
  s.def(
      "inline_most",
      [](const Tvs& selected) {
        Fusion* fusion = selected.empty() || selected.front() == nullptr
                             ? activeFusion()
                             : selected.front()->fusion();
        FusionGuard guard(fusion);
        if (selected.empty()) {
          inlineMost();
        } else {
          inlineMost(raw(selected, fusion));
        }
      },
      py::arg("selected_tensors") = Tvs{},
      "Inlines all (or the selected) tensors as deep as is legal.");
  s.def(
      "inline_at",
      [](TensorView& reference, int64_t pos, bool best_effort, const Tvs& selected) {
        FusionGuard guard(reference.fusion());
        if (selected.empty()) {
          inlineAllAt(&reference, pos, best_effort);
        } else {
          const auto list = raw(selected, reference.fusion());
          inlineSelectedAt({list.begin(), list.end()}, &reference, pos, best_effort);
        }
      },
      py::arg("reference_tv"), py::arg("pos") = -1, py::arg("best_effort") = false,
      py::arg("selected_tensors") = Tvs{},
      "Inlines at the positions that correspond to the reference's first `pos` loop axes.");
  s.def(
      "warp_specialize",
      [](TensorView& tv, int64_t stages, int64_t distance, ParallelType type,
         std::optional<std::pair<int64_t, int64_t>> registers) {
        FusionGuard guard(tv.fusion());
        tv.warpSpecialize(stages, distance, type, registers);
      },
      py::arg("tv"), py::arg("number_of_stages"), py::arg("prefetch_distance"),
      py::arg("parallel_type"), py::arg("num_registers") = py::none(),
      "Loads the tensor into a circular buffer by extra warps along a thread dimension. "
      "`num_registers`: of each "
      "of their threads, and of each thread that computes.");
}

void bindSchedulers(py::module_& s) {
  s.def(
      "can_schedule",
      [](Fusion& definition, SchedulerType type, const InputsArg& inputs) {
        const ForInputs decided(definition, inputs);
        FusionGuard guard(decided.fusion());
        const CanSchedule can = canSchedule(decided.fusion(), type);
        return std::make_tuple(can.ok, can.reason);
      },
      py::arg("fusion"), py::arg("scheduler_type"), py::arg("inputs"),
      "Whether a scheduler takes the fusion, and if not, why.");
  s.def(
      "find_compatible_schedulers",
      [](Fusion& definition, const InputsArg& inputs) {
        const ForInputs decided(definition, inputs);
        FusionGuard guard(decided.fusion());
        return compatibleSchedulers(decided.fusion());
      },
      py::arg("fusion"), py::arg("inputs"));
  s.def(
      "compute_heuristics",
      [](Fusion& fusion, SchedulerType type, const InputsArg& inputs) {
        return std::shared_ptr<HeuristicParams>(heuristics(fusion, type, inputs));
      },
      py::arg("fusion"), py::arg("scheduler_type"), py::arg("inputs"),
      "Parameters for these inputs. RuntimeError: the scheduler can't take the fusion.");
  s.def(
      "schedule",
      [](Fusion& fusion, SchedulerType type, const HeuristicParams& params) {
        FusionGuard guard(&fusion);
        scheduleWith(&fusion, type, params);
      },
      py::arg("fusion"), py::arg("scheduler_type"), py::arg("heuristic_params"),
      "Schedules with given parameters.");
  s.def(
      "schedule",
      [](Fusion& fusion, SchedulerType type, const InputsArg& inputs) {
        FusionGuard guard(&fusion);
        std::shared_ptr<HeuristicParams> params = heuristics(fusion, type, inputs);
        scheduleWith(&fusion, type, *params);
        return params;
      },
      py::arg("fusion"), py::arg("scheduler_type"), py::arg("inputs"),
      "Schedules for inputs; returns the parameters.");
}

} // namespace

void bindSchedule(py::module_& s) {
  bindTransforms(s);
  bindSchedulers(s);
}

} // namespace nvfuser::python
