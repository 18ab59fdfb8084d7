// SPDX-License-Identifier: BSD-3-Clause
// Which boxes of a tensor in global memory a bulk copy moves, and where they lie in shared memory.
//
// The loop axes bound to ParallelType::Bulk are the box: one instruction copies all of their
// iterations. The other axes say which box. A tensor map (TensorMapInfo) describes the tensor to
// the hardware, which zero-fills what a box has outside of it and does not store that: copies by
// boxes take no bounds guards.
//
// A 1-D bulk copy (LoadStoreOpType::CpAsyncBulk) moves a box that is one piece of global memory; it
// takes no tensor map. Nothing is filled with zeros: one that begins outside of the tensor is not
// made (linearCopyGuards), one that ends there is copied up to the last element. What is not copied
// is not read either, since whoever reads shared memory has bounds guards of its own. 1-D copies
// begin at multiples of 16 bytes and have as many, checked here or at launch.
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
  bool is_linear = false;
  // Of a 1-D copy: the slowest dimension that it runs along; of the faster ones it has all.
  size_t linear_dim = 0;

  // The tensor whose loops issue the copies.
  TensorView* issuer() const {
    return is_load ? shared : memory;
  }
};

// A copy by boxes or in one dimension (LoadStoreOpType::CpAsyncBulkTensorTile, CpAsyncBulk).
bool isBulkCopy(const Expr* e);
bool isLinearBulkCopy(const Expr* e);
// A copy of 4 to 16 bytes by each thread (LoadStoreOpType::CpAsync).
bool isSmallAsyncCopy(const Expr* e);

// Of a box in shared memory, in bytes.
int64_t bulkAlignment(const BulkAccess& access);

// UserError: the schedule asks for what the hardware can't copy; names the tensor and the rule.
BulkAccess findBulkAccess(LowerContext& ctx, const LoadStoreOp* copy);

// 1-D copies may end or begin outside of the tensor.
bool mayRunOver(LowerContext& ctx, const BulkAccess& access);
// Whether the first element of a 1-D copy is in bounds, if it need not be.
std::vector<Val*> linearCopyGuards(LowerContext& ctx, const BulkAccess& access);

} // namespace nvfuser
