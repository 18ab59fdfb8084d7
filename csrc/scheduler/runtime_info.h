// SPDX-License-Identifier: BSD-3-Clause
// SchedulerRuntimeInfo: the shapes, strides and alignments that a schedule is chosen for.
#pragma once

#include <fusion.h>
#include <ir/evaluator.h>
#include <machine.h>
#include <runtime/kernel_args.h>
#include <scheduler/schedule_wishes.h>

#include <span>
#include <unordered_map>
#include <vector>

namespace nvfuser {

struct Wanted;

inline constexpr int64_t kAllocatorAlignment = 256; // bytes, of memory that CUDA allocates
inline constexpr int64_t kUnknownSize = 1024;       // what an extent counts as that is not known

class SchedulerRuntimeInfo {
 public:
  // `args` are the fusion's inputs, in order. Addresses may be null (the argument is made later):
  // then the memory is taken to be aligned as allocators align it. Errors: number or rank of
  // arguments.
  SchedulerRuntimeInfo(const Fusion* fusion, std::span<const ArgView> args,
                       const MachineModel& machine);
  // Heuristics from what is constant in the fusion; everything else counts as unknown.
  SchedulerRuntimeInfo(const Fusion* fusion, const MachineModel& machine);

  const MachineModel& machine() const {
    return machine_;
  }
  const ScheduleWishes& wishes() const {
    return wishes_;
  }
  void setWishes(const ScheduleWishes& wishes) {
    wishes_ = wishes;
  }
  // Kernels that take any extent are wanted, rather than one that is best for those at hand.
  bool wantsAnyExtent() const {
    return wants_any_extent_;
  }
  void setWantsAnyExtent(bool wants) {
    wants_any_extent_ = wants;
  }
  // What was decided for the definition that the fusion is a part of; null where nobody did.
  const Wanted* wanted() const {
    return wanted_;
  }
  void setWanted(const Wanted* wanted) {
    wanted_ = wanted;
  }
  // Where an output is to lie, if that is known.
  void setOutputLayout(const TensorView* tv, const ArgView& memory);
  // Value of an extent or other integer scalar, or kUnknownSize.
  int64_t valueOf(const Val* v);
  int64_t productOf(const std::vector<Val*>& factors) {
    int64_t product = 1;
    for (const Val* factor : factors) {
      product *= valueOf(factor);
    }
    return product;
  }
  // Size of a dimension, expanded ones as they look to the user.
  int64_t sizeOf(const IterDomain* id) {
    return valueOf(id->getMaybeExpandedExtent());
  }
  // Of tensors: each element once, without what is only repeated.
  double bytesOf(const std::vector<Val*>& tensors);
  // Largest power of two (at most kAllocatorAlignment) that divides the address, in bytes;
  // kAllocatorAlignment for what is not known, as most outputs.
  int64_t alignmentOf(const TensorView* tv) const;
  // Strides per logical dimension, in elements; empty if not known.
  const std::vector<int64_t>& stridesOf(const TensorView* tv) const;

 private:
  struct Layout {
    int64_t alignment = kAllocatorAlignment;
    std::vector<int64_t> strides;
  };
  void bindTensor(const TensorView* tv, const ArgView& arg);

  MachineModel machine_;
  ScheduleWishes wishes_;
  bool wants_any_extent_ = false;
  const Wanted* wanted_ = nullptr;
  ScalarEvaluator evaluator_;
  std::unordered_map<const TensorView*, Layout> layouts_;
};

} // namespace nvfuser
