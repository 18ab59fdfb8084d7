// Which boxes of a tensor in global memory a bulk copy moves, and where they lie in shared memory.
//
// The loop axes bound to ParallelType::Bulk are the box: one instruction copies all of their
// iterations. The other axes say which box. A tensor map (TensorMapInfo) describes the tensor to
// the hardware, which zero-fills what a box has outside of it and does not store that: bulk copies
// take no bounds guards.
#pragma once

#include <ir/nodes.h>
#include <kernel/kernel.h>

#include <vector>

namespace nvfuser {

class LowerContext;

struct BulkAccess {
  TensorView* memory = nullptr; // in global memory
  TensorView* shared = nullptr;
  bool is_load = true;
  // One dimension of the tensor map, made of neighbours in memory.
  struct Dim {
    std::vector<size_t>
        memory; // positions in the allocation domain without reductions, outermost first
    const IterDomain* id = nullptr; // of the tensor whose loops issue the copies
    int64_t box = 1;
  };
  std::vector<Dim> dims; // the fastest first
  int64_t box_bytes = 0;
  int swizzle = 0; // as in TensorMapInfo

  // The tensor whose loops issue the copies.
  TensorView* issuer() const {
    return is_load ? shared : memory;
  }
};

// A copy by boxes (LoadStoreOpType::CpAsyncBulkTensorTile).
bool isBulkCopy(const Expr* e);
// A copy of 4 to 16 bytes by each thread (LoadStoreOpType::CpAsync).
bool isSmallAsyncCopy(const Expr* e);

// Of a box in shared memory, in bytes.
int64_t bulkAlignment(const BulkAccess& access);

// UserError: the schedule asks for what the hardware can't copy; names the tensor and the rule.
BulkAccess bulkAccess(LowerContext& ctx, const LoadStoreOp* copy);

} // namespace nvfuser
