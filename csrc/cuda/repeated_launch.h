// SPDX-License-Identifier: BSD-3-Clause
// A CUDA graph of one kernel node, for a kernel that is launched again and again.
//
// Putting new arguments into the node and launching the graph takes the driver less time than a
// launch of the kernel does, and the order of the stream is the same. The device takes longer
// (docs/measurements/calls.md), so that a stream whose host is ahead of it is given the kernel
// itself. A graph cannot run beside itself, so it serves one stream; launches on others go the
// ordinary way, as do those on a stream that is captured.
#pragma once

#include <cuda/driver.h>
#include <target/compiled_module.h>

#include <mutex>

namespace nvfuser {

class CudaRepeatedLaunch : public RepeatedLaunch {
 public:
  CudaRepeatedLaunch(cuda::Function function, int device, const LaunchConfig& config);
  ~CudaRepeatedLaunch() override;

  bool launch(void* stream, void** args) override;

 private:
  bool isWorthwhile(void* stream);
  // False if the driver cannot do it.
  bool makeGraph(void** args);
  void dropGraph();

  const cuda::Function function_;
  const int device_;
  const LaunchConfig config_;
  std::mutex mutex_;
  void* stream_ = nullptr;
  int calls_ = 0; // on stream_, in a row
  bool refused_ = false;
  cuda::Graph graph_ = nullptr;
  cuda::GraphNode node_ = nullptr;
  cuda::GraphExec exec_ = nullptr;
};

} // namespace nvfuser
