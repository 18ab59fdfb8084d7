// SPDX-License-Identifier: BSD-3-Clause
// Runs host kernels; see simt.h.
#include <host/simt.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <random>
#include <sstream>

#include <host/cluster.h>
#include <host/thread_pool.h>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace nvfuser {

namespace {

// ---- The grid ----

// What is wrong with a launch that isPossible() refuses.
std::string whyImpossible(const NvfHostKernel& kernel, const HostLaunch& launch) {
  std::ostringstream text;
  if (kernel.abi != kNvfHostAbi) {
    text << "host kernel of ABI " << kernel.abi << ", this library has ABI " << kNvfHostAbi;
  } else if (volume(launch.grid) == 0 || volume(launch.block) == 0) {
    text << "empty launch: grid " << toText(launch.grid) << ", block " << toText(launch.block);
  } else if (volume(launch.block) > kernel.max_threads) {
    text << "block " << toText(launch.block) << " has more than the " << kernel.max_threads
         << " threads that the kernel was compiled for";
  } else {
    text << "clusters of " << toText(launch.cluster) << " blocks do not divide the grid "
         << toText(launch.grid);
  }
  return text.str();
}

bool isPossible(const NvfHostKernel& kernel, const HostLaunch& launch) {
  const uint64_t threads = volume(launch.block);
  return kernel.abi == kNvfHostAbi && volume(launch.grid) != 0 && threads != 0 &&
         threads <= kernel.max_threads && volume(launch.cluster) != 0 &&
         launch.grid.x % launch.cluster.x == 0 && launch.grid.y % launch.cluster.y == 0 &&
         launch.grid.z % launch.cluster.z == 0;
}

// A random permutation of [0, count): index * step + start modulo count, with step coprime to
// count.
struct BlockOrder {
  uint64_t count, step = 1, start = 0;

  BlockOrder(uint64_t block_count, uint64_t seed) : count(block_count) {
    if (seed != 0) {
      std::mt19937_64 random(seed);
      start = random() % count;
      do {
        step = random() % count + 1;
      } while (std::gcd(step, count) != 1);
    }
  }
  uint64_t operator()(uint64_t index) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(index) * step + start) % count);
  }
};

// Threads of blocks that are not worth waking a worker for.
constexpr uint64_t kInlineThreads = 8192;

uint64_t chunkOfBlocks(uint64_t blocks, uint64_t block_size) {
  const uint64_t chunk = std::max<uint64_t>(1, blocks / (8ull * launchThreadCount()));
  return std::max(chunk, kInlineThreads / block_size);
}

// Of memory that a chunk of blocks touches at least: waking a worker takes as long as moving that
// much.
constexpr int64_t kChunkBytes = 128 << 10;

uint64_t chunkOfLoops(uint64_t blocks, int64_t tensor_bytes) {
  const auto chunks = static_cast<uint64_t>(std::max<int64_t>(tensor_bytes / kChunkBytes, 1));
  return std::max<uint64_t>(blocks / (8ull * launchThreadCount()), (blocks + chunks - 1) / chunks);
}

bool loopsOverThreads(const NvfHostKernel& kernel) {
  return (kernel.flags & kNvfHostThreadsInLoops) != 0;
}

// Stores past the caches (nvf::streamOut) are seen by other threads after a fence alone.
void finishStreamedStores() {
#ifdef __x86_64__
  _mm_sfence();
#endif
}

void runPlain(LaunchState& state, uint64_t blocks) {
  const uint64_t chunk = loopsOverThreads(state.kernel)
                             ? chunkOfLoops(blocks, state.launch.tensor_bytes)
                             : chunkOfBlocks(blocks, volume(state.launch.block));
  parallelChunks(blocks, chunk, [&](uint64_t first, uint64_t end) {
    char* shared = hostSharedMemory(state.launch.dynamic_shared_bytes);
    state.kernel.run_blocks(&state.device_launch, state.args, first, end, shared);
    finishStreamedStores();
  });
}

void runFibers(LaunchState& state) {
  const NvfHostDim shape = state.launch.cluster, grid = state.launch.grid;
  const NvfHostDim grid_of_clusters = {grid.x / shape.x, grid.y / shape.y, grid.z / shape.z};
  const uint64_t clusters = volume(grid_of_clusters);
  const BlockOrder order(clusters, state.launch.adversarial_seed);
  const bool is_small = volume(state.launch.block) * volume(shape) == 1;
  parallelChunks(clusters, is_small ? chunkOfBlocks(clusters, 1) : 1,
                 [&](uint64_t first, uint64_t end) {
                   try {
                     for (uint64_t i = first; i < end && !state.failed; ++i) {
                       runCluster(state, unflatten(order(i), grid_of_clusters));
                     }
                   } catch (const std::bad_alloc&) {
                     state.fail("out of memory for the stacks or the shared memory of a block");
                   }
                 });
}

} // namespace

std::string runHostKernel(const NvfHostKernel& kernel, const HostLaunch& launch, void** args) {
  if (!isPossible(kernel, launch)) [[unlikely]] {
    return whyImpossible(kernel, launch);
  }
  LaunchState state(kernel, launch, {launch.grid, launch.block, &kHostServices}, args);
  // Loops over threads have one order, whatever was asked for since they were compiled.
  if (kernel.run_blocks != nullptr && (launch.adversarial_seed == 0 || loopsOverThreads(kernel))) {
    runPlain(state, volume(launch.grid));
  } else {
    runFibers(state);
  }
  return state.error;
}

} // namespace nvfuser
