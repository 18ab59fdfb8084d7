// SPDX-License-Identifier: BSD-3-Clause
// Planner::Call: one call of Planner::plan() in progress. Private to the planner.
#pragma once

#include <base/options.h>
#include <executor/planner.h>

#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nvfuser {

struct Planner::Call {
  Planner& planner;
  std::span<const ArgView> args;
  Device device;
  std::shared_ptr<LaunchPlan> plan = std::make_shared<LaunchPlan>();
  std::vector<const OutputShape*> shape_without_kernel; // per output of the definition: View, Empty
  std::vector<int64_t> view_offset;                     // per output of the definition
  ScalarEvaluator evaluator;                            // over the concrete fusion
  std::unordered_map<const Val*, uint32_t> value_of;    // values of the concrete fusion
  std::vector<std::shared_ptr<KernelVariant>> kernels;  // per segment
  std::vector<KernelOrder> orders;                      // of each segment
  // By the heuristics.
  std::unordered_map<const SegmentState*, std::shared_ptr<const HeuristicParams>> chosen;
  // Kernels that this call compiles.
  struct Compilation {
    SegmentState* state;
    std::shared_ptr<KernelVariant> variant;
    std::promise<void> finished;
  };
  std::vector<Compilation> uncompiled;
  int64_t revision = 0; // of the concrete fusion when the kernels were chosen
  LeftOut too_large;
  Wanted wanted; // of the concrete fusion, for these sizes

  Call(Planner& planner, std::span<const ArgView> args, Device device)
      : planner(planner), args(args), device(device) {
    plan->device = device;
    plan->num_args = args.size();
    plan->fusion_id = planner.fusion_id_;
  }
  const Fusion& definition() const {
    return *planner.definition_;
  }
  const ArgView& viewOf(uint32_t value) const {
    return value < args.size() ? args[value] : plan->locals[value - args.size()];
  }
  uint32_t addLocal(const ArgView& view) {
    plan->locals.push_back(view);
    return static_cast<uint32_t>(args.size() + plan->locals.size() - 1);
  }

  Roles assignRoles();
  Role assignRole(size_t output, ScalarEvaluator& sizes);
  void bind(const ConcreteFusion& concrete);
  void addView(const InputView& input_view);
  void addPart(const OutputPart& output_part);
  uint32_t addOutput(const TensorView* tv);
  // Memory that an output of a step is written into and that has a layout already; else null.
  const ArgView* destinationOf(uint32_t value) const;
  void addOutputs(const Segment& segment);
  std::vector<uint32_t> inputsOf(const Segment& segment);
  std::vector<ArgView> viewsOf(const std::vector<uint32_t>& values) const;
  // What became of a step of the planning for all segments. Simplified: one of them failed by a
  // mistake of ours and something simpler is to be planned for it.
  // TooLarge: rows or columns do not fit on chip, see `too_large`.
  enum class Choice : uint8_t { Done, NotCompiled, Simplified, TooLarge };
  Choice chooseKernels(ConcreteFusion& concrete, bool may_compile);
  Choice chooseKernel(const ConcreteFusion& concrete, SegmentState& state, size_t position,
                      bool may_compile);
  ChosenParams chooseParams(SegmentState& state, size_t position, std::span<const ArgView> inputs,
                            SchedulerRuntimeInfo& info);
  std::shared_ptr<KernelVariant> findKernel(const SegmentState& state,
                                            const HeuristicParams* params, DataType index_type,
                                            const KernelOrder& order, bool may_compile) const;
  void scheduleKernel(const ConcreteFusion& concrete, SegmentState& state, size_t position,
                      std::unique_ptr<HeuristicParams> params, DataType index_type,
                      const KernelOrder& order);
  bool isEvaluated(const SegmentState& state) const;
  std::shared_ptr<KernelVariant> evaluation(const ConcreteFusion& concrete, SegmentState& state,
                                            size_t position) const;
  Choice compileKernels(ConcreteFusion& concrete, std::unique_lock<std::mutex>& lock);
  void enterUncompiled();
  void compileOwn(std::unique_lock<std::mutex>& lock);
  void finishOwn(const std::vector<CompileOutcome>& outcomes);
  void waitForOthers(std::unique_lock<std::mutex>& lock) const;
  Choice addSteps(ConcreteFusion& concrete);
  // One after the other, as long as each is Done. The lock is given up while kernels are compiled.
  Choice makeSteps(ConcreteFusion& concrete, bool may_compile, std::unique_lock<std::mutex>& lock);
  // Something simpler is to be planned for a segment, as no kernel could be made of it or launched.
  bool simplify(const std::string& why, ConcreteFusion& concrete, SegmentState& state);
  // After an error of the compiler, which is kept for whoever is to be told if it is a bug.
  bool simplifyAfter(const std::runtime_error& error, ConcreteFusion& concrete,
                     SegmentState& state);
  LaunchRefusal addStep(const SegmentState& state, const std::shared_ptr<KernelVariant>& kernel);
  const OutputShape* shapeOf(uint32_t value) const;
  void addResults(const Roles& roles, const Trimmed& trimmed, const ConcreteFusion& concrete);
  void countBytes();
};

// Prints a definition if the option asks for it.
void dumpFusion(DumpOption option, const char* title, const Fusion& fusion);

} // namespace nvfuser
