// SPDX-License-Identifier: BSD-3-Clause
// From kernel text to something that can be launched, on either target.
//
// compile() looks in the memory of the process, then in the disk cache, then asks the compiler. The
// same request made by several threads at once is compiled once.
#pragma once

#include <target/compile_params.h>
#include <target/compiled_module.h>
#include <target/device.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace nvfuser {

struct CompileRequest {
  // The whole translation unit.
  std::string text;
  // The name of the kernel in it.
  std::string symbol;
  Device device;
  CompileParams params;
};

// Throws InternalError with the compiler's words when the text is not accepted, UserError when
// there is no compiler for the target.
std::shared_ptr<CompiledModule> compile(const CompileRequest& request);

// The module with this key if it is loaded or in the disk cache, else null. `symbol` is the name of
// its kernel.
std::shared_ptr<CompiledModule> findCompiled(const std::string& key, const std::string& symbol,
                                             Device device);

struct CompileOutcome {
  std::shared_ptr<CompiledModule> module; // or
  std::exception_ptr error;
};

// The same for several, in parallel unless NVFUSER_DISABLE=parallel_compile; results in order.
std::vector<CompileOutcome> compileEach(const std::vector<CompileRequest>& requests);
// Throws the first error.
std::vector<std::shared_ptr<CompiledModule>> compileAll(
    const std::vector<CompileRequest>& requests);

} // namespace nvfuser
