// SPDX-License-Identifier: BSD-3-Clause
// Library segments: operations that a library evaluates (ir/library_op.h), each in a segment of its
// own among the kernels of a plan, with the same arguments, stream and memory.
//
// The core has no library of operations. Whoever embeds it can install one; the Python package
// installs torch (python/nvfuse_direct/library.py).
#pragma once

#include <fusion.h>
#include <runtime/evaluation.h>

#include <memory>
#include <string>

namespace nvfuser {

class Library {
 public:
  virtual ~Library() = default;
  // "torch", for reports.
  virtual std::string name() const = 0;
  // The evaluation of a segment of one LibraryOp, and before it views of what it reads
  // (segment/library_segment.h), for tensors of any sizes. Its inputs and outputs are those of the
  // segment, in order. May be called with locks of the planner held.
  virtual std::shared_ptr<const Evaluation> prepare(
      const std::shared_ptr<Fusion>& segment) const = 0;
};

// Null until one is installed.
const Library* library();
// Stays installed until the process ends.
void setLibrary(std::unique_ptr<Library> library);

// The operation of a fusion that is a library segment; null if it is none.
const LibraryOp* librarySegmentOp(const Fusion& fusion);
// Why it is a segment of its own: "torch evaluates matmul".
std::string libraryNote(const LibraryOp& op);

// Error: something else than a product of scaled matrices reads swizzled block scales.
void checkReadersOfSwizzledScales(const Fusion& fusion);

// Error: there is no library, or the options of the call exclude it (matmul_expr_eval).
std::shared_ptr<const Evaluation> prepareLibrarySegment(const Fusion& segment);

} // namespace nvfuser
