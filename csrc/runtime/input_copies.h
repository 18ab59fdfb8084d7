// SPDX-License-Identifier: BSD-3-Clause
// Copies of inputs for kernels that overwrite what they still read: a kernel gives no order between
// its threads, so it reads the old values from a copy and writes the new ones into the input.
#pragma once

#include <runtime/kernel_args.h>

#include <span>
#include <vector>

namespace nvfuser {

// Lives as long as the call. On a GPU the copy is queued in the stream, before the kernel; the
// memory comes from the allocator, which reuses it in the order of the stream.
class InputCopies {
 public:
  InputCopies(OutputAllocator& allocator, Device device, void* stream)
      : allocator_(allocator), device_(device), stream_(stream) {}
  ~InputCopies();
  InputCopies(const InputCopies&) = delete;
  InputCopies& operator=(const InputCopies&) = delete;

  // Copies the bytes from the tensor's first to its last element, gaps included, and lets `arg` see
  // the copy with the same sizes and strides. Of scalars, 0-d tensors on the CPU and empty tensors
  // nothing is copied.
  void replace(ArgView& arg);

 private:
  OutputAllocator& allocator_;
  Device device_;
  void* stream_;
  std::vector<void*> copies_;
};

} // namespace nvfuser
