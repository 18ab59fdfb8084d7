// Kernel: a lowered fusion: kernel parameters, a tree of statements, and what the launcher must know
// to launch it safely. Made by lower/, printed by codegen/, launched by runtime/kernel_executor.
#pragma once

#include <fusion.h>
#include <kernel/nodes.h>

#include <map>
#include <string>
#include <vector>

namespace nvfuser {

// One parameter of the kernel, in order.
struct KernelParam {
  enum class Kind {
    Tensor, // a fusion input or output; `val` is the TensorView
    Scalar, // a symbolic scalar input; `val` is the scalar, passed with `dtype`
    RngSeed, // uint64_t seed of the generator (stateful random ops)
    RngOffset, // uint64_t base offset of the generator (in units of 4 numbers, one Philox block)
    Workspace, // char*: `size` bytes of device memory for the launch, aligned to 256
    Semaphores, // unsigned*: `size` counters, zero at launch; the kernel leaves them zero
  };
  Kind kind;
  Val* val = nullptr;
  DataType dtype = DataType::Null;
  std::string name; // as in the kernel text: T0, d3
  // Ranks of the Tensor struct: number of logical (non-reduction) and allocation dimensions.
  int logical_rank = 0;
  int alloc_rank = 0;
  Val* size = nullptr; // of a Workspace or Semaphores, over the fusion inputs' extents
};

// A vector access assumes that the pointer and all strides but the innermost are multiples of
// `width` elements, and that the innermost stride is 1. Checked at launch.
struct VectorAccess {
  TensorView* tv; // fusion input or output
  int width; // elements
};

// `value % factor == 0` is assumed by the kernel; checked at launch. (Split by a vector width.)
struct DivisibilityCheck {
  Val* value;
  Val* factor;
  std::string what; // for the error message
};

class Kernel : public Fusion {
 public:
  // Statements of the kernel body, in order.
  std::vector<Expr*> top_level;
  std::vector<KernelParam> params;
  DataType index_type = DataType::Int32; // Int32 or Int

  // Launch extents of the parallel types that are used; scalars over fusion inputs' extents.
  std::map<ParallelType, Val*> parallel_extents;
  // Blocks of a cluster along BIDx, BIDy, BIDz: constants that divide the grid's extents. Empty: no
  // clusters.
  std::map<ParallelType, Val*> cluster_extents;
  // Dynamic shared memory in bytes; null if none.
  Val* shared_bytes = nullptr;
  // Global memory in bytes, and counters that are 0 at launch and afterwards, that combinations over the
  // grid work with; null if there are none.
  Val* workspace_bytes = nullptr;
  Val* num_semaphores = nullptr;
  bool has_block_sync = false;
  bool has_stateful_rng = false;
  std::vector<VectorAccess> vector_accesses;
  std::vector<DivisibilityCheck> divisibility_checks;

  // Original nodes -> nodes of this kernel (the kernel owns a copy of the fusion).
  Val* mapped(const Val* original) const {
    auto it = from_fusion.find(original);
    return it == from_fusion.end() ? nullptr : it->second;
  }
  std::unordered_map<const Val*, Val*> from_fusion;

  // The whole kernel as IR text (NVFUSER_DUMP=kernel_ir).
  std::string toString() const;
};

} // namespace nvfuser
