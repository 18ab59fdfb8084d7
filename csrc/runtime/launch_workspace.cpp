// SPDX-License-Identifier: BSD-3-Clause
// The workspaces of streams, graphs and host launches; see launch_workspace.h.
#include <runtime/launch_workspace.h>

#include <base/error.h>
#include <cuda/driver.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

namespace nvfuser {

class LaunchWorkspace::Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  virtual std::byte* memory() const = 0;
  virtual unsigned* semaphores() const = 0;
  virtual void setLaunched() = 0;
};

namespace {

constexpr size_t kFewestBytes = 64 << 10;
constexpr size_t kFewestSemaphores = 1024;
constexpr size_t kHostAlignment = 256;

// Sizes that seldom have to grow again.
size_t roundedUp(size_t count, size_t fewest) {
  return count == 0 ? 0 : std::bit_ceil(std::max(count, fewest));
}

// ---- CUDA ----

cuda::DevicePtr allocate(size_t bytes, cuda::Stream stream) {
  cuda::DevicePtr memory = 0;
  cuda::check(
      cuda::driver().cuMemAllocAsync(&memory, bytes, stream),
      detail::streamToString("Cannot allocate ", bytes, " bytes for a kernel to work in").c_str());
  return memory;
}

// Memory of a stream that only grows. What it is replaced by is freed after the kernels that use
// it.
struct StreamBuffer {
  cuda::DevicePtr memory = 0;
  size_t bytes = 0;

  // Whether it was replaced.
  bool grow(size_t needed, cuda::Stream stream) {
    if (needed <= bytes) {
      return false;
    }
    const cuda::DevicePtr larger = allocate(needed, stream);
    if (memory != 0) {
      cuda::driver().cuMemFreeAsync(memory, stream);
    }
    memory = larger;
    bytes = needed;
    return true;
  }
};

struct StreamWorkspace {
  std::mutex mutex;
  StreamBuffer memory, semaphores;
  bool is_dirty = false;
};

// Never destroyed: the driver may be gone before this library.
StreamWorkspace& findWorkspace(int device, cuda::Stream stream) {
  // The handle 2 (CU_STREAM_PER_THREAD) is another stream in each thread.
  const bool is_per_thread = reinterpret_cast<uintptr_t>(stream) == 2;
  const std::thread::id thread = is_per_thread ? std::this_thread::get_id() : std::thread::id();
  using Key = std::tuple<int, cuda::Stream, std::thread::id>;
  static auto* mutex = new std::mutex();
  static auto* all = new std::map<Key, std::unique_ptr<StreamWorkspace>>();
  const std::lock_guard lock(*mutex);
  std::unique_ptr<StreamWorkspace>& found = (*all)[Key(device, stream, thread)];
  if (found == nullptr) {
    found = std::make_unique<StreamWorkspace>();
  }
  return *found;
}

// Mostly a thread stays with its stream.
StreamWorkspace& workspaceOf(int device, cuda::Stream stream) {
  struct Recent {
    int device = -1;
    cuda::Stream stream = nullptr;
    StreamWorkspace* workspace = nullptr;
  };
  static thread_local Recent recent;
  if (recent.device != device || recent.stream != stream) {
    recent = {device, stream, &findWorkspace(device, stream)};
  }
  // No device is -1.
  return *recent.workspace; // NOLINT(clang-analyzer-core.uninitialized.UndefReturn)
}

void zero(cuda::DevicePtr memory, size_t bytes, cuda::Stream stream) {
  cuda::check(cuda::driver().cuMemsetD32Async(memory, 0, bytes / sizeof(unsigned), stream),
              "Cannot zero the counters of a kernel");
}

class StreamSource : public LaunchWorkspace::Source {
 public:
  StreamSource(int device, cuda::Stream stream, size_t bytes, size_t semaphore_count)
      : workspace_(workspaceOf(device, stream)), lock_(workspace_.mutex) {
    workspace_.memory.grow(roundedUp(bytes, kFewestBytes), stream);
    const size_t counter_bytes = roundedUp(semaphore_count, kFewestSemaphores) * sizeof(unsigned);
    workspace_.is_dirty |= workspace_.semaphores.grow(counter_bytes, stream);
    if (workspace_.is_dirty) {
      zero(workspace_.semaphores.memory, workspace_.semaphores.bytes, stream);
    }
    workspace_.is_dirty = true; // until the kernel is on its way
  }

  std::byte* memory() const override {
    return reinterpret_cast<std::byte*>(workspace_.memory.memory);
  }
  unsigned* semaphores() const override {
    return reinterpret_cast<unsigned*>(workspace_.semaphores.memory);
  }
  void setLaunched() override {
    workspace_.is_dirty = false;
  }

 private:
  StreamWorkspace& workspace_;
  const std::lock_guard<std::mutex> lock_;
};

// Allocation, zeroing and release become nodes of the graph that is being captured.
class GraphSource : public LaunchWorkspace::Source {
 public:
  GraphSource(cuda::Stream stream, size_t bytes, size_t semaphore_count) : stream_(stream) {
    const size_t counter_bytes = semaphore_count * sizeof(unsigned);
    counters_at_ = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
    memory_ = allocate(counters_at_ + counter_bytes, stream);
    if (counter_bytes != 0) {
      zero(memory_ + counters_at_, counter_bytes, stream);
    }
  }
  ~GraphSource() override {
    cuda::driver().cuMemFreeAsync(memory_, stream_);
  }

  std::byte* memory() const override {
    return reinterpret_cast<std::byte*>(memory_);
  }
  unsigned* semaphores() const override {
    return reinterpret_cast<unsigned*>(memory_ + counters_at_);
  }
  void setLaunched() override {}

 private:
  cuda::Stream stream_;
  cuda::DevicePtr memory_ = 0;
  size_t counters_at_ = 0;
};

bool isCapturing(cuda::Stream stream) {
  int status = 0; // CUstreamCaptureStatus; 1 while it is active
  return cuda::driver().cuStreamIsCapturing(stream, &status) == 0 && status == 1;
}

// ---- Host ----

struct HostBuffer {
  std::byte* memory = nullptr;
  size_t bytes = 0;

  HostBuffer() = default;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() {
    std::free(memory);
  }

  bool grow(size_t needed) {
    if (needed <= bytes) {
      return false;
    }
    auto* larger = static_cast<std::byte*>(std::aligned_alloc(kHostAlignment, needed));
    NVF_CHECK(larger != nullptr, "Cannot allocate ", needed, " bytes for a kernel to work in");
    std::free(memory);
    memory = larger;
    bytes = needed;
    return true;
  }
};

struct HostWorkspace {
  HostBuffer memory, semaphores;
  bool is_dirty = false;
};

// Those that no launch uses at present.
class HostPool {
 public:
  static HostPool& instance() {
    static auto* pool = new HostPool();
    return *pool;
  }

  std::unique_ptr<HostWorkspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      return std::make_unique<HostWorkspace>();
    }
    std::unique_ptr<HostWorkspace> workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give(std::unique_ptr<HostWorkspace> workspace) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<HostWorkspace>> free_;
};

class HostSource : public LaunchWorkspace::Source {
 public:
  HostSource(size_t bytes, size_t semaphore_count) : workspace_(HostPool::instance().take()) {
    workspace_->memory.grow(roundedUp(bytes, kFewestBytes));
    HostBuffer& counters = workspace_->semaphores;
    workspace_->is_dirty |=
        counters.grow(roundedUp(semaphore_count, kFewestSemaphores) * sizeof(unsigned));
    if (workspace_->is_dirty && counters.bytes != 0) {
      std::memset(counters.memory, 0, counters.bytes);
    }
    workspace_->is_dirty = true; // until the kernel has run to its end
  }
  ~HostSource() override {
    HostPool::instance().give(std::move(workspace_));
  }

  std::byte* memory() const override {
    return workspace_->memory.memory;
  }
  unsigned* semaphores() const override {
    return reinterpret_cast<unsigned*>(workspace_->semaphores.memory);
  }
  void setLaunched() override {
    workspace_->is_dirty = false;
  }

 private:
  std::unique_ptr<HostWorkspace> workspace_;
};

std::unique_ptr<LaunchWorkspace::Source> makeSource(Device device, void* stream, size_t bytes,
                                                    size_t semaphore_count) {
  if (device.isHost()) {
    return std::make_unique<HostSource>(bytes, semaphore_count);
  }
  const cuda::ContextGuard guard(device.index);
  auto* cuda_stream = static_cast<cuda::Stream>(stream);
  if (isCapturing(cuda_stream)) {
    return std::make_unique<GraphSource>(cuda_stream, bytes, semaphore_count);
  }
  return std::make_unique<StreamSource>(device.index, cuda_stream, bytes, semaphore_count);
}

} // namespace

LaunchWorkspace::LaunchWorkspace(Device device, void* stream, size_t bytes, size_t semaphore_count)
    : source_(makeSource(device, stream, bytes, semaphore_count)),
      memory_(source_->memory()),
      semaphores_(source_->semaphores()) {}

LaunchWorkspace::~LaunchWorkspace() = default;

void LaunchWorkspace::setLaunched() {
  source_->setLaunched();
}

} // namespace nvfuser
