// SPDX-License-Identifier: BSD-3-Clause
// Inserting copies.
#include <transform/cache.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/cloner.h>
#include <ir/describe.h>
#include <ir/exprs.h>
#include <ir/visitor.h>
#include <transform/replay.h>

#include <algorithm>

namespace nvfuser {

namespace {

using Ids = std::vector<IterDomain*>;

void checkNotComputedAt(const TensorView* tv, const char* what) {
  NVF_CHECK(
      std::max(tv->getComputeAtPosition(), tv->getMaxProducerPosition()) == 0, "Cannot ", what, " ",
      describeLoops(tv),
      ": caching computed-at tensors is not allowed. Apply caching before computeAt and inlining");
}

Ids freshCopies(const Ids& ids) {
  Ids out;
  for (const IterDomain* id : ids) {
    out.push_back(IterDomainBuilder(id).build());
  }
  return out;
}

// A domain with new logical dimensions like `from`'s (without its reductions and root), scheduled
// like it; allocation order too if asked for.
TensorDomain* scheduledCopy(const TensorView* from, bool with_allocation) {
  const TensorDomain* old = from->domain();
  const Ids old_logical = TensorDomain::noReductions(old->logical());
  const Ids logical = freshCopies(old_logical);
  // With reductions the loops are not this copy's: start from the plain dimensions.
  const Ids loop = old_logical.size() == old->logical().size()
                       ? replayOnCopy(old->logical(), old->loop(), logical)
                       : logical;
  Ids allocation;
  TensorDomain::Contiguity contiguity;
  if (with_allocation) {
    for (size_t i = 0; i < old->maybeAllocation().size(); ++i) {
      if (!old->maybeAllocation()[i]->isReduction()) {
        contiguity.push_back(old->contiguity()[i]);
      }
    }
    if (old->hasAllocation()) {
      allocation =
          replayOnCopy(old_logical, TensorDomain::noReductions(old->allocation()), logical);
    }
  } else {
    contiguity = TensorDomain::contiguityFilledWith(logical, true);
  }
  return IrBuilder::createIn<TensorDomain>(from->container(), Ids{}, logical, allocation, loop,
                                           contiguity);
}

} // namespace

Expr* copyExprWith(Fusion* fusion, Expr* expr, const std::unordered_map<Val*, Val*>& replacements) {
  IrCloner cloner(fusion);
  auto keep = [&](const std::vector<Val*>& vals) {
    for (Val* v : vals) {
      if (v != nullptr) {
        cloner.map(v, v);
      }
    }
  };
  keep(expr->inputs());
  keep(expr->outputs());
  keep(expr->fieldVals());
  for (const auto& [from, to] : replacements) {
    cloner.map(from, to);
  }
  return expr->shallowCopy(&cloner);
}

TensorView* newTensorLike(TensorView* tv) {
  const TensorDomain* old = tv->domain();
  const Ids root = freshCopies(old->maybeRoot());
  const Ids logical = old->hasRoot() ? replayOnCopy(old->root(), old->logical(), root) : root;
  auto* domain =
      IrBuilder::createIn<TensorDomain>(tv->container(), old->hasRoot() ? root : Ids{}, logical,
                                        logical, TensorDomain::contiguityFilledWith(logical, true));
  auto* out = IrBuilder::createIn<TensorView>(tv->container(), domain, tv->dtype());
  out->setSourceLocation(tv->sourceLocation());
  return out;
}

TensorView* recompute(TensorView* tv, const std::vector<Val*>& inputs) {
  Expr* def = tv->definition();
  NVF_ERROR(def != nullptr && inputs.size() == def->inputs().size());
  // An operand that occurs twice has one replacement: recomputing picks one version per operand.
  std::unordered_map<Val*, Val*> replacements;
  for (TensorView* out : tensorOutputs(def)) {
    replacements[out] = newTensorLike(out);
  }
  auto* copy = replacements.at(tv)->as<TensorView>();
  for (size_t i = 0; i < inputs.size(); ++i) {
    replacements[def->inputs()[i]] = inputs[i];
  }
  copyExprWith(tv->fusion(), def, replacements);
  return copy;
}

TensorView* recomputeViews(const std::vector<Expr*>& views, TensorView* tv) {
  for (const Expr* view : views) {
    std::vector<Val*> inputs = view->inputs();
    inputs.front() = tv;
    tv = recompute(view->output(0)->as<TensorView>(), inputs);
  }
  return tv;
}

TensorView* TensorView::cacheBefore(LoadStoreOpType op) {
  NVF_CHECK(definition() != nullptr && !isFusionInput(), "Error adding cache_before of ",
            describeLoops(this),
            ": an input of the fusion has no definition that a copy could take over");
  checkNotComputedAt(this, "cache_before");
  // The new tensor takes the domain, whose root belongs to the definition; this one gets a copy.
  auto* own_domain = scheduledCopy(this, /*with_allocation=*/true);
  const TensorDomain* old = domain_;
  auto* producer_domain =
      IrBuilder::createIn<TensorDomain>(container(), old->root(), old->logical(), old->loop(),
                                        TensorDomain::contiguityFilledWith(old->logical(), true));
  auto* producer = IrBuilder::createIn<TensorView>(container(), producer_domain, dtype());
  producer->setSourceLocation(source_location_);
  copyExprWith(fusion(), definition(), {{this, producer}});
  setDomain(own_domain);
  IrBuilder::createIn<LoadStoreOp>(container(), op, this, producer);
  return producer;
}

TensorView* TensorView::cacheAfter(LoadStoreOpType op, CacheOp cache_op,
                                   bool propagate_allocation_domain,
                                   const std::vector<Expr*>& cached_uses) {
  const std::vector<Expr*> all_uses = uses();
  NVF_CHECK(!all_uses.empty(), "Error adding cache_after of ", describeLoops(this),
            ": nothing reads this tensor");
  checkNotComputedAt(this, "cache_after");
  for (Expr* use : cached_uses) {
    NVF_CHECK(std::find(all_uses.begin(), all_uses.end(), use) != all_uses.end(),
              "Error adding cache_after of ", describeLoops(this), ": it is not read by ",
              describe(use));
  }
  auto* cache = IrBuilder::createIn<TensorView>(
      container(), scheduledCopy(this, propagate_allocation_domain), dtype());
  cache->setSourceLocation(source_location_);
  for (Expr* use : cached_uses.empty() ? all_uses : cached_uses) {
    fusion()->replaceExprInput(use, this, cache);
  }
  IrBuilder::createIn<LoadStoreOp>(container(), op, cache, this, cache_op);
  return cache;
}

namespace {

// A negative distance counts from the number of stages.
int64_t checkedDistance(const TensorView* tv, const char* what, int64_t stages, int64_t distance) {
  NVF_CHECK(stages > 1, what, " of ", describeLoops(tv),
            ": the number of stages must be more than 1, got ", stages);
  const int64_t wrapped = distance < 0 ? distance + stages : distance;
  NVF_CHECK(wrapped >= 0 && wrapped < stages, what, " of ", describeLoops(tv),
            ": the prefetch distance ", distance, " must be less than the ", stages, " stages");
  return wrapped;
}

bool isLoadOfInput(const TensorView* tv) {
  const Expr* definition = tv->definition();
  return definition != nullptr && definition->kind() == ExprKind::LoadStoreOp &&
         definition->input(0)->isFusionInput();
}

bool isReduced(const TensorView* tv) {
  const Expr* definition = tv->definition();
  return definition != nullptr && definition->kind() == ExprKind::ReductionOp;
}

} // namespace

void TensorView::circularBuffer(int64_t stages, int64_t distance) {
  const int64_t wrapped = checkedDistance(this, "circular_buffer", stages, distance);
  NVF_CHECK(isLoadOfInput(this) || isReduced(this), "circular_buffer of ", describeLoops(this),
            ": only loads of fusion inputs and reductions can run ahead");
  circular_buffer_ = {stages, wrapped, ParallelType::Serial, std::nullopt};
}

void TensorView::warpSpecialize(int64_t stages, int64_t distance, ParallelType type,
                                std::optional<std::pair<int64_t, int64_t>> registers) {
  constexpr int64_t kFewest = 24, kMost = 256, kUnit = 8; // PTX ISA, "setmaxnreg"
  const int64_t wrapped = checkedDistance(this, "warp_specialize", stages, distance);
  NVF_CHECK(isLoadOfInput(this), "warp_specialize of ", describeLoops(this),
            ": only loads of fusion inputs can run ahead");
  NVF_CHECK(isParallelTypeThreadDim(type), "warp_specialize of ", describeLoops(this),
            ": the warps that load are along block_x, block_y or block_z, got ", type);
  if (registers.has_value()) {
    for (const int64_t count : {registers->first, registers->second}) {
      NVF_CHECK(count >= kFewest && count <= kMost && count % kUnit == 0, "warp_specialize of ",
                describeLoops(this), ": numbers of registers are multiples of ", kUnit, " from ",
                kFewest, " to ", kMost, ", got ", count);
    }
    NVF_CHECK(registers->first <= registers->second, "warp_specialize of ", describeLoops(this),
              ": the threads that load must not have more registers (", registers->first,
              ") than those that compute (", registers->second, ")");
  }
  circular_buffer_ = {stages, wrapped, type, registers};
}

TensorView* TensorView::cacheFork() {
  NVF_CHECK(isFusionOutput() && !uses().empty(), "Error adding cache_fork of ", describeLoops(this),
            ": this is only for outputs that are also read inside the fusion");
  checkNotComputedAt(this, "cache_fork");
  auto* output = IrBuilder::createIn<TensorView>(
      container(), scheduledCopy(this, /*with_allocation=*/true), dtype(), MemoryType::Global);
  output->setSourceLocation(source_location_);
  IrBuilder::createIn<LoadStoreOp>(container(), LoadStoreOpType::Set, output, this);
  fusion()->replaceOutput(this, output);
  setMemoryType(MemoryType::Local);
  return output;
}

} // namespace nvfuser
