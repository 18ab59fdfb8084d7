// SPDX-License-Identifier: BSD-3-Clause
// See cache_policy.h.
#include <scheduler/cache_policy.h>

#include <ir/nodes.h>

#include <algorithm>

namespace nvfuser {

namespace {

// It computes for long between reading and writing.
bool drawsRandomNumbers(const Fusion* fusion) {
  return fusion->hasExpr(ExprKind::RngOp);
}

} // namespace

bool gainsFromEvictingInputsLast(const Fusion* fusion, SchedulerType type,
                                 SchedulerRuntimeInfo& info) {
  // Times the cache: of less, results stay there anyway. And by bytes read: half of them are
  // written, with something small besides. Both as measured on an H200
  // (docs/measurements/normalizations.md).
  constexpr double kCaches = 2;
  constexpr double kWritten = 0.4;
  const bool streams = type == SchedulerType::PointWise || type == SchedulerType::Transpose ||
                       type == SchedulerType::InnerPersistent;
  if (!streams) {
    return false;
  }
  const double read = info.bytesOf(fusion->inputs());
  const double written = info.bytesOf(fusion->outputs());
  // One kernel for all extents cannot tell: large tensors gain more than small ones lose.
  const bool is_large = read + written >= kCaches * static_cast<double>(info.machine().l2_bytes);
  return written >= kWritten * read && (is_large || info.wantsAnyExtent()) &&
         !drawsRandomNumbers(fusion);
}

void evictInputsLast(Fusion* fusion) {
  for (const Val* input : fusion->inputs()) {
    for (Expr* use : input->uses()) {
      auto* copy = tryAs<LoadStoreOp>(use);
      if (copy != nullptr && copy->type() == LoadStoreOpType::Set &&
          copy->cacheOp() == CacheOp::Unspecified) {
        copy->setCacheOp(CacheOp::EvictLast);
      }
    }
  }
}

bool gainsFromStreamingOutputs(const Fusion* fusion, SchedulerRuntimeInfo& info) {
  const MachineModel& machine = info.machine();
  return machine.threads_in_loops &&
         info.bytesOf(fusion->inputs()) + info.bytesOf(fusion->outputs()) >=
             static_cast<double>(machine.l2_bytes);
}

} // namespace nvfuser
