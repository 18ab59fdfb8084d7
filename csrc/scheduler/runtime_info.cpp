// SPDX-License-Identifier: BSD-3-Clause
// Binding of arguments to the scalars of a fusion.
#include <scheduler/runtime_info.h>

#include <base/error.h>

#include <algorithm>

namespace nvfuser {

namespace {

int64_t alignmentOfAddress(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (address == 0) {
    return kAllocatorAlignment;
  }
  return std::min<int64_t>(static_cast<int64_t>(address & (~address + 1)), kAllocatorAlignment);
}

} // namespace

SchedulerRuntimeInfo::SchedulerRuntimeInfo(const Fusion*, const MachineModel& machine)
    : machine_(machine) {}

SchedulerRuntimeInfo::SchedulerRuntimeInfo(const Fusion* fusion, std::span<const ArgView> args,
                                           const MachineModel& machine)
    : machine_(machine) {
  NVF_CHECK(args.size() == fusion->inputs().size(), "The fusion has ", fusion->inputs().size(),
            " inputs, got ", args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const Val* in = fusion->inputs()[i];
    if (in->isTensor()) {
      NVF_CHECK(args[i].is_tensor, "Input ", i, " must be a tensor");
      bindTensor(in->as<TensorView>(), args[i]);
    } else {
      evaluator_.bind(in, args[i].scalar);
    }
  }
}

void SchedulerRuntimeInfo::bindTensor(const TensorView* tv, const ArgView& arg) {
  const auto logical = logicalIds(tv);
  NVF_CHECK(static_cast<size_t>(arg.rank) == logical.size(), "Expected a tensor of rank ",
            logical.size(), " for ", tv->toString(), ", got rank ", arg.rank);
  // Packed fp4 counts bytes of two values: in values, the dimension of stride 1 is twice as long.
  const bool packed =
      tv->dtype() == DataType::Float4_e2m1fn && arg.dtype == DataType::Float4_e2m1fn_x2;
  Layout& layout = layouts_[tv];
  layout.alignment = alignmentOfAddress(arg.data);
  int64_t inner = arg.rank - 1;
  for (int64_t i = 0; i < arg.rank; ++i) {
    layout.strides.push_back(arg.strides[i]);
  }
  if (packed) {
    while (inner > 0 && arg.strides[inner] != 1) {
      --inner;
    }
  }
  for (int64_t i = 0; i < arg.rank; ++i) {
    int64_t size = arg.sizes[i];
    if (packed && i == inner) {
      size *= 2;
    } else if (packed) {
      layout.strides[static_cast<size_t>(i)] *= 2;
    }
    const Val* extent = logical[static_cast<size_t>(i)]->getMaybeExpandedExtent();
    if (extent->isSymbolic()) {
      evaluator_.bind(extent, size);
    }
  }
}

void SchedulerRuntimeInfo::setOutputLayout(const TensorView* tv, const ArgView& memory) {
  Layout& layout = layouts_[tv];
  layout.alignment = alignmentOfAddress(memory.data);
  layout.strides.assign(memory.strides, memory.strides + memory.rank);
}

int64_t SchedulerRuntimeInfo::valueOf(const Val* v) {
  const std::optional<ScalarValue> value = evaluator_.evaluate(v);
  const auto* known = value.has_value() ? std::get_if<int64_t>(&*value) : nullptr;
  return known == nullptr ? kUnknownSize : *known;
}

double SchedulerRuntimeInfo::bytesOf(const std::vector<Val*>& tensors) {
  double bytes = 0;
  for (const Val* v : tensors) {
    if (const auto* tv = tryAs<TensorView>(v)) {
      double own = static_cast<double>(dataTypeSizeBits(tv->dtype())) / 8;
      for (const IterDomain* id : logicalIds(tv)) {
        own *= id->isBroadcast() ? 1 : static_cast<double>(sizeOf(id));
      }
      bytes += own;
    }
  }
  return bytes;
}

int64_t SchedulerRuntimeInfo::alignmentOf(const TensorView* tv) const {
  auto it = layouts_.find(tv);
  return it == layouts_.end() ? kAllocatorAlignment : it->second.alignment;
}

const std::vector<int64_t>& SchedulerRuntimeInfo::stridesOf(const TensorView* tv) const {
  static const std::vector<int64_t> none;
  auto it = layouts_.find(tv);
  return it == layouts_.end() ? none : it->second.strides;
}

} // namespace nvfuser
