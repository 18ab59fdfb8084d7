// SPDX-License-Identifier: BSD-3-Clause
// The device library: the text that every generated kernel compiles against, for CUDA and for the
// host.
//
// The files of common/, cuda/ and host/ are cut into *pieces* by marker lines
//
//     //@ piece <names that it provides> [with <names>] [also <names>]
//
// A kernel gets the pieces that provide a name it uses (and whose `with` names are all used as
// well), and, transitively, the pieces that those use; `also` names count as used by the piece. A
// name is a plain identifier (Tensor, __half) or a qualified one that starts with nvf::
// (nvf::relu), so pieces write nvf:: before every library name that they use. Several pieces may
// provide one name: the overloads for complex numbers come only into kernels that use them. Pieces
// appear in the order of the files in embed.cmake and must only use what is before them.
#pragma once

#include <string>
#include <vector>

namespace nvfuser {

enum class KernelTarget { Cuda, Host };

struct AssembleOptions {
  KernelTarget target = KernelTarget::Host;
  bool index_is_64bit = false;
  // Host only: checks for races on shared memory and misaligned vectors (host/simt.h).
  bool adversarial = false;
};

// The translation unit for a kernel: index type, the pieces it needs, its text. Lines of
// definitions that the text begins with (NVF_COMPUTING_THREADS) come before the pieces. The same
// arguments give the same text in every process.
std::string assembleKernel(const std::string& kernel_text, const AssembleOptions& options);
std::string assembleKernel(const std::string& kernel_text, KernelTarget target, bool index_is_64bit,
                           bool adversarial = false);

// Whether the library has something of that name for both targets, e.g. "nvf::approx::tanh".
bool deviceLibraryProvides(const std::string& name);

struct DevicePiece {
  std::string file;
  std::vector<std::string> provides, with, uses;
  std::string text;
};

// All pieces of a target in order, for tests and tools.
const std::vector<DevicePiece>& devicePieces(KernelTarget target);

} // namespace nvfuser
