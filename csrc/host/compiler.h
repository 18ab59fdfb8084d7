// SPDX-License-Identifier: BSD-3-Clause
// The host's C++ compiler: kernel text to a shared object.
//
// $NVFUSER_HOST_CXX or $CXX names it, else g++, clang++ or c++ is taken from $PATH
// (NVFUSER_HOST_CXX=none: none is). It is started without a shell.
// NVFUSER_HOST_SANITIZE=address|undefined|thread builds kernels with that sanitizer (the process
// must have its runtime), NVFUSER_HOST_OPT_LEVEL=0..3 sets the optimization level (default 2).
#pragma once

#include <target/compile_params.h>
#include <target/disk_cache.h>

#include <string>
#include <vector>

namespace nvfuser {

bool hostCompilerAvailable();
// Error: NVFUSER_HOST_CXX names a program that is not there.
void checkHostCompiler();
// Empty if there is none.
const std::string& hostCompilerPath();
// What tells this compiler from another and from its own other versions.
const std::string& hostCompilerId();

// The optimizations and language options; part of the cache key, together with hostCpuId() since
// code is made for the processor at hand.
std::vector<std::string> hostCompilerFlags();
const std::string& hostCpuId();

// Throws UserError when there is no compiler, InternalError with its messages when it refuses the
// text.
CompiledBinary compileToSharedObject(const std::string& text, const std::string& symbol);

// A shared object opened in this process until it is destroyed.
class SharedObject {
 public:
  // From binary.path if that can be opened, else from a copy of the bytes.
  explicit SharedObject(const CompiledBinary& binary);
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  // Null if it defines no such symbol.
  void* find(const std::string& symbol) const;

 private:
  void* handle_ = nullptr;
};

} // namespace nvfuser
