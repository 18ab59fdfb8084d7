// SPDX-License-Identifier: BSD-3-Clause
// See kernel_orders.h.
#include <executor/kernel_orders.h>

#include <base/options.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {
namespace {

// A pointwise kernel that reads a large tensor right after another one did.
bool readsAgain(const Segment& segment, const Segment& previous) {
  if (segment.scheduler != SchedulerType::PointWise) {
    return false;
  }
  size_t most = 0;
  for (const Val* out : segment.outputs) {
    most = std::max(most, out->as<TensorView>()->getLogicalDomain().size());
  }
  return std::any_of(segment.inputs.begin(), segment.inputs.end(), [&](const Val* in) {
    auto is = [&](const std::vector<Val*>& list) {
      return std::find(list.begin(), list.end(), in) != list.end();
    };
    return in->isTensor() && in->as<TensorView>()->getLogicalDomain().size() == most &&
           (is(previous.inputs) || is(previous.outputs));
  });
}

// What the kernels of the call make or write in place.
std::unordered_set<const Val*> writtenBy(const ConcreteFusion& concrete) {
  std::unordered_set<const Val*> written;
  for (const auto& state : concrete.segments) {
    written.insert(state->segment.outputs.begin(), state->segment.outputs.end());
  }
  for (const InPlaceWrite& write : concrete.writes) {
    written.insert(write.input);
  }
  return written;
}

// A bit for each input of the segment that is none of it.
uint64_t unwrittenInputs(const Segment& segment, const std::unordered_set<const Val*>& written) {
  const std::vector<Val*>& inputs = segment.inputs;
  uint64_t bits = 0;
  for (size_t i = 0; i < std::min<size_t>(inputs.size(), 64); ++i) {
    bits |= uint64_t{inputs[i]->isFusionInput() && written.count(inputs[i]) == 0} << i;
  }
  return bits;
}

} // namespace

std::vector<KernelOrder> kernelOrders(const ConcreteFusion& concrete, const DeviceInfo& device) {
  constexpr int kHopper = 90;
  const auto& segments = concrete.segments;
  std::vector<KernelOrder> orders(segments.size());
  if (segments.size() < 2 || device.device.type != DeviceType::Cuda || device.arch < kHopper ||
      isOptionDisabled(DisableOption::ProgrammaticDependentLaunch)) {
    return orders;
  }
  const std::unordered_set<const Val*> written = writtenBy(concrete);
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i]->segment;
    orders[i].lets_next_start = i + 1 < segments.size();
    if (i > 0) {
      orders[i].waits_for_previous = true;
      orders[i].early_inputs = concrete.overlap ? 0 : unwrittenInputs(segment, written);
      orders[i].reverses_blocks =
          !orders[i - 1].reverses_blocks && readsAgain(segment, segments[i - 1]->segment);
    }
  }
  return orders;
}

} // namespace nvfuser
