// SPDX-License-Identifier: BSD-3-Clause
// Scans whose axis is shared by the threads of a block.
//
//   other dimensions
//     carry = init                       ThreadScan Begin
//     for tile                           serial
//       threadIdx.x
//         for e  T = identity, T = x     ReduceStep Init and Accumulate: what is out of bounds is
//         the identity scan T over the threads        ThreadScan Combine: elements of a thread,
//         threads, tiles
//
// A scan that binds no part of its axis to threads goes along it element by element (ScanStep), in
// loops that its axis may be split into.
#pragma once

#include <lower/context.h>

#include <span>

namespace nvfuser {

// The expression is a scan of the first kind. Its last three loops are those above (checked with
// the schedule).
bool isThreadScan(const LowerContext& ctx, const Expr* e);

// Of a scan of the second kind: the loops along its axis, the last ones of its tensor, from the
// outermost on. They go along it in order, all of them serial; none if there are others.
std::span<Loop* const> loopsOfScan(const LowerContext& ctx, const ScanOp* scan);

// Error if the loops of a scan of the first kind are others.
void checkThreadScan(const LowerContext& ctx, const Expr* e);

// Gives every cross-thread scan its shared memory; neighbours work in different ones.
void placeThreadScans(LowerContext& ctx, const Statements& nest);

} // namespace nvfuser
