// SPDX-License-Identifier: BSD-3-Clause
// NVRTC, opened at run time: kernel text to cubin. Needs neither a GPU nor the driver.
#pragma once

#include <target/compile_params.h>
#include <target/compiled_module.h>
#include <target/disk_cache.h>

#include <string>
#include <vector>

namespace nvfuser {

// The folder that holds libnvrtc and its builtins (Python passes that of the nvidia-cuda-nvrtc
// package). Used unless the process has NVRTC loaded already; without effect once NVRTC has been
// opened.
void setNvrtcPath(const std::string& directory);

// Opens NVRTC at the first call. Searched: the process, setNvrtcPath, $NVFUSER_NVRTC_DIR, the
// loader's own path, $CUDA_HOME, /usr/local/cuda.
bool nvrtcAvailable();
// Why not, empty if it is.
std::string nvrtcError();
// 1000 * major + minor, and the file it was loaded from. Throw UserError when there is no NVRTC.
int nvrtcVersion();
std::string nvrtcLocation();
// Which library would be loaded first, without loading it: of a path that was configured its text
// and the sizes and times of the files.
std::string nvrtcIdentity();

// The real architecture with the suffix that unlocks all instructions of it: 80 -> "sm_80", 90 ->
// "sm_90a".
std::string archName(int arch);
// Whether NVRTC knows the architecture. For one that it does not know, PTX of the newest that it
// knows is made.
bool nvrtcSupportsArch(int arch);

// All options that decide the result, from the parameters and the environment
// (NVFUSER_ENABLE=fast_math, kernel_lineinfo, kernel_debug; NVFUSER_DISABLE=fma, compile_to_sass;
// NVFUSER_MAX_REG_COUNT, NVFUSER_JIT_OPT_LEVEL).
std::vector<std::string> nvrtcFlags(int arch, const CompileParams& params);

// Throws InternalError with NVRTC's log when the text is not accepted.
CompiledBinary compileToCubin(const std::string& text, const std::string& symbol, int arch,
                              const CompileParams& params = {});

// The PTX that the cubin is made from.
std::string compileToPtx(const std::string& text, const std::string& symbol, int arch,
                         const CompileParams& params = {});

// The instructions of a cubin as text, by cuobjdump or nvdisasm from $PATH, from beside NVRTC, from
// $CUDA_HOME or /usr/local/cuda; where there is neither, a line that says so.
std::string disassemble(const std::string& cubin);

// Registers, spills and shared memory as ptxas' statistics in the log state them for the kernel.
KernelResources parsePtxasLog(const std::string& log, const std::string& symbol);

} // namespace nvfuser
