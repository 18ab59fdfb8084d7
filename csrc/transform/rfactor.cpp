// SPDX-License-Identifier: BSD-3-Clause
// TensorView::rFactor: one reduction becomes two. A new producer reduces the listed axes, for each
// iteration of what was left of the reduced dimensions; the tensor itself reduces those.
//
//   T1[ i0, r1 ] = sum(T0), split:    T1[ i0, r1o, r1i ]
//   rFactor({2}):                     T2[ i0, i1o rf, r1i rf ] = sum(T0), root [ i0, r1 ]
//                                     T1[ i0, r1o ] = sum(T2)
#include <ir/tensor_view.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ir/exprs.h>
#include <transform/cache.h>
#include <transform/replay.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

using Ids = std::vector<IterDomain*>;
using IdSet = std::unordered_set<const Val*>;

void replaceInPlace(Ids& ids, const Expr* transform) {
  auto is_input = [&](const IterDomain* id) {
    const auto& in = transform->inputs();
    return std::find(in.begin(), in.end(), id) != in.end();
  };
  const auto first = std::find_if(ids.begin(), ids.end(), is_input);
  NVF_ERROR(first != ids.end());
  const auto at = first - ids.begin();
  std::erase_if(ids, is_input);
  for (size_t i = 0; i < transform->outputs().size(); ++i) {
    ids.insert(ids.begin() + at + static_cast<std::ptrdiff_t>(i),
               transform->output(i)->as<IterDomain>());
  }
}

// The two domains that one is taken apart into.
class FactoredDomain {
 public:
  FactoredDomain(const TensorView* tv, const std::unordered_set<int64_t>& positions)
      : old_(tv->domain()), fusion_(tv->fusion()) {
    for (int64_t i = 0; i < tv->nDims(); ++i) {
      (positions.count(i) != 0 ? listed_ : kept_).push_back(tv->axis(i));
    }
    findDefinition();
  }

  // Reduces the listed axes. Its definition includes the transforms that lead to them, as a reshape
  // includes its own: its logical domain is what a consumer can see.
  TensorDomain* ofProducer() const {
    std::unordered_map<Val*, Val*> map;
    auto add = [&](const Val* v) {
      const auto* id = static_cast<const IterDomain*>(v);
      const bool leads = leads_to_listed_.count(id) != 0;
      const bool remains = id->isReduction() && !leads;
      const bool product = id->isRfactorProduct() || leads || definition_products_.count(id) != 0;
      IterDomain* copy = IterDomainBuilder(id)
                             .iterType(remains ? IterType::Iteration : id->iterType())
                             .isRfactor(product)
                             .build();
      copyParallelization(id, copy);
      map[const_cast<Val*>(v)] = copy;
    };
    for (const IterDomain* id : old_->maybeRoot()) {
      add(id);
    }
    copyTransforms(transformsBetween(old_->maybeRoot(), old_->loop()), add, map);
    const Ids root = mapped(old_->maybeRoot(), map);
    const Ids logical = mapped(logical_, map);
    return IrBuilder::createIn<TensorDomain>(old_->container(), root, logical,
                                             mapped(old_->loop(), map),
                                             TensorDomain::contiguityFilledWith(logical, true));
  }

  // Reduces the others.
  TensorDomain* ofConsumer() const {
    std::unordered_map<Val*, Val*> map;
    auto add = [&](const Val* v) {
      const auto* id = static_cast<const IterDomain*>(v);
      IterDomain* copy = IterDomainBuilder(id).build();
      copyParallelization(id, copy);
      map[const_cast<Val*>(v)] = copy;
    };
    const std::unordered_set<const IterDomain*> gone(listed_.begin(), listed_.end());
    Ids from;
    std::copy_if(logical_.begin(), logical_.end(), std::back_inserter(from),
                 [&](auto* id) { return gone.count(id) == 0; });
    std::for_each(from.begin(), from.end(), add);
    const Ids old_allocation = TensorDomain::noReductions(old_->allocation());
    Ids to = kept_;
    to.insert(to.end(), old_allocation.begin(), old_allocation.end());
    copyTransforms(transformsBetween(from, to), add, map);
    return IrBuilder::createIn<TensorDomain>(
        old_->container(), Ids{}, mapped(from, map), mapped(old_allocation, map),
        mapped(kept_, map), contiguityOf(old_allocation.empty() ? from : old_allocation));
  }

 private:
  // Transforms that lead to the listed axes belong to the producer's definition, as do those that
  // were in the tensor's.
  void findDefinition() {
    Ids targets = old_->logical();
    targets.insert(targets.end(), listed_.begin(), listed_.end());
    const std::vector<Expr*> definition = transformsBetween(old_->maybeRoot(), targets);
    leads_to_listed_.insert(listed_.begin(), listed_.end());
    for (auto it = definition.rbegin(); it != definition.rend(); ++it) {
      const auto& outputs = (*it)->outputs();
      if (std::any_of(outputs.begin(), outputs.end(),
                      [&](auto* v) { return leads_to_listed_.count(v) != 0; })) {
        leads_to_listed_.insert((*it)->inputs().begin(), (*it)->inputs().end());
        definition_products_.insert(outputs.begin(), outputs.end());
      }
    }
    logical_ = old_->maybeRoot();
    for (const Expr* e : definition) {
      replaceInPlace(logical_, e);
    }
  }

  template <class Add>
  void copyTransforms(const std::vector<Expr*>& transforms, const Add& add,
                      std::unordered_map<Val*, Val*>& map) const {
    for (Expr* e : transforms) {
      std::for_each(e->outputs().begin(), e->outputs().end(), add);
      copyExprWith(fusion_, e, map);
    }
  }

  static void copyParallelization(const IterDomain* from, IterDomain* to) {
    if (from->isClustered()) {
      to->parallelizeCluster(from->parallelType());
    }
  }

  static Ids mapped(const Ids& ids, const std::unordered_map<Val*, Val*>& map) {
    Ids out;
    for (IterDomain* id : ids) {
      out.push_back(map.at(id)->as<IterDomain>());
    }
    return out;
  }

  TensorDomain::Contiguity contiguityOf(const Ids& ids) const {
    TensorDomain::Contiguity out = TensorDomain::contiguityFilledWith(ids, true);
    const Ids& known = old_->maybeAllocation();
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto at = std::find(known.begin(), known.end(), ids[i]);
      if (out[i].has_value() && at != known.end()) {
        out[i] = old_->contiguity()[static_cast<size_t>(at - known.begin())];
      }
    }
    return out;
  }

  const TensorDomain* old_;
  Fusion* fusion_;
  Ids listed_;
  Ids kept_;
  IdSet leads_to_listed_; // and the listed axes themselves
  IdSet definition_products_;
  Ids logical_; // the producer's, in terms of the old domain
};

// Positions of the listed axes; user errors for what cannot be factored.
std::unordered_set<int64_t> listedPositions(const TensorView* tv,
                                            const std::vector<int64_t>& axes) {
  NVF_CHECK(std::max(tv->getComputeAtPosition(), tv->getMaxProducerPosition()) == 0,
            "Error rfactoring ", describeLoops(tv),
            ": its loops are shared with other tensors (inlined)");
  NVF_CHECK(!axes.empty(), "Error rfactoring ", describeLoops(tv), ": no axis is listed");
  std::unordered_set<int64_t> out;
  for (const int64_t axis : axes) {
    const IterDomain* id = tv->axis(axis);
    NVF_CHECK(id->isReduction(), "Error rfactoring ", describeLoops(tv), ": axis ", axis, ", ",
              id->toString(), ", is not a reduction axis");
    NVF_CHECK(out.insert(axis < 0 ? axis + tv->nDims() : axis).second, "Error rfactoring ",
              describeLoops(tv), ": axis ", axis, " is listed twice");
  }
  const auto& loop = tv->getLoopDomain();
  const auto reduced =
      std::count_if(loop.begin(), loop.end(), [](auto* id) { return id->isReduction(); });
  NVF_CHECK(static_cast<size_t>(reduced) > out.size(), "Error rfactoring ", describeLoops(tv),
            ": at least one reduction axis must remain");
  return out;
}

TensorView* newProducer(TensorView* tv, TensorDomain* domain) {
  auto* out = IrBuilder::createIn<TensorView>(tv->container(), domain, tv->dtype());
  out->setSourceLocation(tv->sourceLocation());
  return out;
}

} // namespace

TensorView* TensorView::rFactor(const std::vector<int64_t>& axes) {
  if (auto* welford = tryAs<WelfordOp>(definition())) {
    const std::vector<TensorView*> outputs{welford->outAvg(), welford->outM2(), welford->outN()};
    const auto at = std::find(outputs.begin(), outputs.end(), this) - outputs.begin();
    return rFactor(axes, outputs).at(static_cast<size_t>(at));
  }
  auto* reduction = tryAs<ReductionOp>(definition());
  NVF_CHECK(reduction != nullptr, "Error rfactoring ", describeLoops(this),
            ": its definition must be a reduction, a matmul or an mma");
  const FactoredDomain factored(this, listedPositions(this, axes));
  TensorView* producer = newProducer(this, factored.ofProducer());
  copyExprWith(fusion(), reduction, {{this, producer}});
  setDomain(factored.ofConsumer());
  IrBuilder::createIn<ReductionOp>(container(), reduction->op(), reduction->init(), this, producer);
  return producer;
}

std::vector<TensorView*> TensorView::rFactor(const std::vector<int64_t>& axes,
                                             const std::vector<TensorView*>& outputs) {
  auto* welford = tryAs<WelfordOp>(definition());
  NVF_CHECK(welford != nullptr && std::equal(outputs.begin(), outputs.end(),
                                             welford->outputs().begin(), welford->outputs().end()),
            "Error rfactoring ", describeLoops(this),
            ": the tensors must be all results of its Welford reduction, in order");
  const std::unordered_set<int64_t> positions = listedPositions(this, axes);
  std::vector<TensorView*> producers;
  std::unordered_map<Val*, Val*> replacements;
  std::vector<TensorDomain*> domains;
  for (TensorView* tv : outputs) {
    // The results of one op are computed in the same loops: this tensor's.
    if (tv != this) {
      tv->domain()->setLoopDomain(
          replayOnCopy(getLogicalDomain(), getLoopDomain(), tv->getLogicalDomain()));
    }
    const FactoredDomain factored(tv, positions);
    producers.push_back(newProducer(tv, factored.ofProducer()));
    domains.push_back(factored.ofConsumer());
    replacements[tv] = producers.back();
  }
  copyExprWith(fusion(), welford, replacements);
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i]->setDomain(domains[i]);
  }
  IrBuilder::createIn<WelfordOp>(container(), outputs[0], outputs[1], outputs[2], producers[0],
                                 producers[1], producers[2]);
  return producers;
}

} // namespace nvfuser
