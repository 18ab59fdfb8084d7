// SPDX-License-Identifier: BSD-3-Clause
// See input_copies.h.
#include <runtime/input_copies.h>

#include <cuda/driver.h>
#include <runtime/in_place_hazard.h>

#include <cstring>

namespace nvfuser {

InputCopies::~InputCopies() {
  for (void* copy : copies_) {
    allocator_.releaseWorkspace(copy, device_);
  }
}

void InputCopies::replace(ArgView& arg) {
  if (!arg.is_tensor || arg.device != device_) {
    return;
  }
  const auto [first, last] = addressesOf(arg);
  if (first > last) {
    return;
  }
  const size_t bytes = last - first + 1;
  void* const copy = allocator_.allocateWorkspace(bytes, device_);
  copies_.push_back(copy);
  if (device_.isHost()) {
    std::memcpy(copy, arg.data, bytes);
  } else {
    const cuda::ContextGuard guard(device_.index);
    cuda::check(cuda::driver().cuMemcpyDtoDAsync(reinterpret_cast<cuda::DevicePtr>(copy),
                                                 reinterpret_cast<cuda::DevicePtr>(arg.data), bytes,
                                                 static_cast<cuda::Stream>(stream_)),
                "Cannot copy an input that the kernel overwrites");
  }
  arg.data = copy;
}

} // namespace nvfuser
