// SPDX-License-Identifier: BSD-3-Clause
// Compiles a kernel text for the host and loads it, for tests of the device library and the host
// runtime.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

#include <device/library.h>
#include <host/simt.h>

namespace nvfuser::testing {

// The compiler is $CXX, else g++. The kernel stays loaded for the rest of the process.
inline const NvfHostKernel* compileForHost(const std::string& kernel_text, const std::string& name,
                                           const AssembleOptions& options = {},
                                           const std::string& flags = "-O2") {
  char directory[] = "/tmp/nvfuser_test_XXXXXX";
  if (mkdtemp(directory) == nullptr) {
    throw std::runtime_error("cannot make a directory in /tmp");
  }
  const std::string base = std::string(directory) + "/kernel";
  std::ofstream(base + ".cpp") << assembleKernel(kernel_text, options);
  const char* compiler = std::getenv("CXX");
  const std::string command =
      std::string(compiler != nullptr ? compiler : "g++") +
      " -std=c++17 -Wall -Werror -ffp-contract=off -fno-math-errno -shared -fPIC " + flags +
      " -o " + base + ".so " + base + ".cpp -lm 2> " + base + ".log";
  if (std::system(command.c_str()) != 0) {
    std::ifstream log(base + ".log");
    throw std::runtime_error(command + "\n" + std::string(std::istreambuf_iterator<char>(log), {}));
  }
  void* library = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  for (const char* suffix : {".cpp", ".so", ".log"}) {
    std::remove((base + suffix).c_str());
  }
  rmdir(directory);
  if (library == nullptr) {
    throw std::runtime_error(dlerror());
  }
  return static_cast<const NvfHostKernel*>(dlsym(library, name.c_str()));
}

} // namespace nvfuser::testing
