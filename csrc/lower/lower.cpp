// SPDX-License-Identifier: BSD-3-Clause
// The table of contents of the compiler: a scheduled fusion becomes a kernel in these steps.
#include <lower/lower.h>

#include <base/error.h>
#include <base/options.h>
#include <base/pass_log.h>
#include <fusion/verify.h>
#include <ir/cloner.h>
#include <ir/visitor.h>
#include <kernel/verify.h>
#include <lower/context.h>
#include <lower/gather_vectors.h>
#include <lower/reductions.h>
#include <lower/streamed_stores.h>

namespace nvfuser {

namespace {

void listParams(Kernel* kernel) {
  auto tensor = [](TensorView* tv) {
    KernelParam p{KernelParam::Kind::Tensor, tv, tv->dtype(), "T" + std::to_string(tv->name())};
    p.logical_rank = static_cast<int>(logicalIds(tv).size());
    p.alloc_rank =
        static_cast<int>(TensorDomain::noReductions(tv->getMaybeAllocationDomain()).size());
    return p;
  };
  for (Val* in : kernel->inputs()) {
    if (in->isTensor()) {
      kernel->params.push_back(tensor(in->as<TensorView>()));
    } else {
      // A size, or what was computed from some: elements are computed with all of its bits.
      const DataType dtype = in->dtype() == DataType::Index ? DataType::Int : in->dtype();
      kernel->params.push_back({KernelParam::Kind::Scalar, in, dtype, in->toInlineString()});
    }
  }
  for (const LaunchNumber& n : kernel->launchNumbers()) {
    kernel->params.push_back(
        {KernelParam::Kind::Scalar, n.number, DataType::Index, n.number->toInlineString()});
  }
  for (KernelParam& scalar : scalarsOfLaunch(kernel)) {
    kernel->params.push_back(std::move(scalar));
  }
  std::unordered_set<const Val*> seen(kernel->inputs().begin(), kernel->inputs().end());
  for (Val* out : kernel->outputs()) {
    if (seen.insert(out).second) {
      kernel->params.push_back(tensor(out->as<TensorView>()));
    }
  }
  if (kernel->has_stateful_rng) {
    kernel->params.push_back({KernelParam::Kind::RngSeed, nullptr, DataType::UInt64, "rng_seed"});
    kernel->params.push_back(
        {KernelParam::Kind::RngOffset, nullptr, DataType::UInt64, "rng_offset"});
  }
  auto memory = [&](KernelParam::Kind kind, const char* name, Val* size) {
    if (size != nullptr) {
      KernelParam p{kind, nullptr, DataType::Null, name};
      p.size = size;
      kernel->params.push_back(p);
    }
  };
  for (size_t i = 0; i < kernel->tensor_maps.size(); ++i) {
    KernelParam p{KernelParam::Kind::TensorMap, nullptr, DataType::Null, "map" + std::to_string(i)};
    p.map = static_cast<int>(i);
    kernel->params.push_back(p);
  }
  memory(KernelParam::Kind::Workspace, "grid_workspace", kernel->workspace_bytes);
  memory(KernelParam::Kind::Semaphores, "semaphores", kernel->num_semaphores);
}

void listStoreLoops(const LowerContext& ctx) {
  for (const Expr* e : ctx.kernel()->exprs()) {
    for (const TensorView* tv : tensorOutputs(e)) {
      if (tv->getMemoryType() != MemoryType::Global) {
        continue;
      }
      StoreLoops loops{tv, {}};
      for (const Loop* l : ctx.loops(tv).path) {
        if (!l->extent->isConstInt() || l->extent->isZeroInt()) {
          loops.extents.push_back(l->extent);
        }
      }
      if (!loops.extents.empty()) {
        ctx.kernel()->store_loops.push_back(std::move(loops));
      }
    }
  }
}

} // namespace

GpuLower::GpuLower(Fusion* fusion, LowerOptions options)
    : kernel_(std::make_unique<Kernel>()), options_(options) {
  kernel_->index_type = options.index_type;
  IrCloner cloner = Fusion::copy(fusion, kernel_.get());
  for (const Val* v : fusion->vals()) {
    kernel_->from_fusion[v] = cloner.lookup(v);
  }
}

GpuLower::~GpuLower() = default;

std::unique_ptr<Kernel> GpuLower::take() {
  return std::move(kernel_);
}

Kernel* GpuLower::run() {
  Kernel* kernel = kernel_.get();
  FusionGuard guard(kernel);
  cacheReductionOutputs(kernel);
  kernel->removeDeadUses();
  // The kernel after a pass that changed it (NVFUSER_DUMP=lower).
  PassLog pass(
      isDumpEnabled(DumpOption::Lower), [kernel] { return kernel->toString(); }, "",
      [kernel](const char* name) {
        kernel->top_level.empty() ? verifyFusion(kernel, name) : verifyStatements(kernel, name);
      });
  Statements& body = kernel->top_level;

  // Iteration domains, loops and one index variable for each loop.
  LowerContext ctx(kernel);
  pass("check the schedule", [&] { checkSchedule(ctx); });
  pass("find asynchronous copies", [&] { makeAsyncBuffers(ctx); });
  LoopNest nest;
  GuardedNest guarded;
  const PartialVectors& partial_vectors = guarded.partial_vectors;
  pass("make the loop nest",
       [&] { body = (nest = makeLoopNest(ctx, options_.threads_in_loops)).body; });
  pass("allocate buffers", [&] { body = insertAllocations(ctx, nest); });
  pass("insert barriers", [&] { body = insertBarriers(ctx, body); });
  // Where threads are in loops, branches would keep the compiler from making vectors of these.
  const bool skips_unused = !options_.threads_in_loops;
  pass("insert guards",
       [&] { body = (guarded = insertGuards(ctx, body, nest.grid_reduces, skips_unused)).body; });
  pass("index tensors", [&] { body = indexTensors(ctx, body); });
  if (!options_.threads_in_loops) {
    UniformElements uniform;
    pass("compute uniform elements", [&] { body = computeUniformElements(ctx, body, uniform); });
    pass("gather vectors", [&] { body = gatherVectors(ctx, body, uniform); });
  }
  pass("split partial vectors", [&] { body = splitPartialVectors(ctx, body, partial_vectors); });
  pass("peel predicates",
       [&] { body = peelPredicates(ctx, body, partial_vectors, options_.threads_in_loops); });
  pass("prefetch loads", [&] { body = prefetchLoads(ctx, body); });
  pass("pipeline copies", [&] { body = pipelineCopies(ctx, body); });
  pass("wait for loads", [&] { body = waitForEarlierLoads(body); });
  pass("prefetch reductions", [&] { body = prefetchReductions(ctx, body); });
  if (options_.threads_in_loops) {
    pass("put threads in loops", [&] { body = putThreadsInLoops(ctx, body); });
    if (kernel->thread_loops.exist) {
      if (!kernel->streamsOutputs()) { // what is read again could not go past the caches
        pass("keep rows in outputs", [&] { keepRowsInOutputs(ctx, body); });
      }
      pass("cascade sums", [&] { body = cascadeSums(ctx, body); });
      pass("unroll and jam", [&] { body = unrollAndJam(ctx, body); });
      pass("peel ends of rows", [&] { body = peelRowEnds(ctx, body); });
      pass("stream stores", [&] { findStreamedStores(ctx, body); });
      findRegistersApart(ctx, body);
    }
  }
  listParams(kernel);
  listStoreLoops(ctx);
  return kernel;
}

} // namespace nvfuser
