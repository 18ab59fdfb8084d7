// SPDX-License-Identifier: BSD-3-Clause
// A stack of its own for one GPU thread on the host, switched to and from by a few instructions.
#pragma once

#include <cstddef>

namespace nvfuser {

// A fiber belongs to the operating system thread that runs it and must not move to another one.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() calls entry(argument) on the fiber's stack. What ran there before is dropped
  // without unwinding. `entry` must end in suspend() and not be resumed after that.
  void start(void (*entry)(void*), void* argument);

  // Runs the fiber until it suspends.
  void resume();

  // To be called on the fiber: back to the resume() that runs it.
  void suspend();

 private:
  struct Context;
  Context* context_;
};

} // namespace nvfuser
