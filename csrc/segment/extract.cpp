// SPDX-License-Identifier: BSD-3-Clause
// A part of a fusion as a fusion of its own.
#include <segment/segment.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/cloner.h>
#include <ir/exprs.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>
#include <preseg_passes/moved_views.h>
#include <segment/repeated.h>
#include <segment/scatter_store.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace nvfuser {
namespace {

// An extent that the segment reads off its input: constants stay, anything else becomes a symbol.
Val* inputExtent(Val* extent, IrCloner& cloner) {
  if (extent == nullptr || extent->isConst() || cloner.lookup(extent) != nullptr) {
    return cloner.clone(extent);
  }
  Val* symbol = IrBuilder::createIn<Val>(cloner.target(), extent->dtype());
  cloner.map(extent, symbol);
  return symbol;
}

// A tensor that another segment makes: dense, without the transforms that led to its logical
// domain.
TensorView* makeIntermediateInput(TensorView* tv, IrCloner& cloner) {
  TensorDomain::Ids logical;
  DimensionCopies copies;
  for (IterDomain* id : tv->getLogicalDomain()) {
    if (id->isReduction()) {
      continue;
    }
    IterDomain* copy = IrBuilder::createIn<IterDomain>(
        cloner.target(), inputExtent(id->extent(), cloner),
        id->isBroadcast() ? IterType::Broadcast : IterType::Iteration, ParallelType::Serial,
        inputExtent(id->expandedExtent(), cloner));
    copies[id] = copy;
    logical.push_back(copy);
  }
  // An output that is written into an input has that one's gaps; a library may leave some.
  TensorView* copy = tensorInMemoryOf(tv, logical, copies);
  cloner.map(tv, copy);
  return copy;
}

// Its extents are made of another input's: a segment reads them off the view itself.
bool isViewOfInput(const TensorView* tv) {
  const auto& logical = tv->getLogicalDomain();
  return std::any_of(logical.begin(), logical.end(),
                     [](const IterDomain* id) { return id->extent()->definition() != nullptr; });
}

class Extractor {
 public:
  Extractor(const WholeFusion& whole, const std::vector<Expr*>& exprs)
      : whole_(whole), exprs_(whole.withRepeated(exprs)) {}

  Segment extract() {
    segment_.fusion = std::make_unique<Fusion>();
    segment_.fusion->setHasElements(whole_.fusion->hasElements());
    segment_.fusion->setSharesLoops(whole_.shares_loops);
    segment_.exprs = exprs_;
    FusionGuard guard(segment_.fusion.get());
    IrCloner cloner(segment_.fusion.get());
    cloner.replaceScalars([&](const Val* v) { return symbolFor(v); });
    findBoundary();
    // Intermediate tensors first: they decide which extents are symbols here.
    for (TensorView* tv : intermediate_inputs_) {
      makeIntermediateInput(tv, cloner);
    }
    for (Val* v : whole_inputs_) {
      cloner.clone(v);
    }
    for (Expr* e : exprs_) {
      const auto* scatter = tryAs<ScatterOp>(e);
      if (scatter != nullptr && isStored(scatter)) {
        cloneStore(scatter, cloner);
      } else {
        cloneExpr(e, cloner);
      }
    }
    for (Val* v : whole_inputs_) {
      addInput(v, cloner);
    }
    for (TensorView* tv : intermediate_inputs_) {
      addInput(tv, cloner);
    }
    addScalarInputs(cloner);
    for (Val* v : outputs_) {
      const auto* scatter = tryAs<ScatterOp>(v->definition());
      if (scatter != nullptr && isStored(scatter)) {
        segment_.fusion->addOutput(cloner.clone(v), cloner.clone(scatter->self()));
      } else {
        segment_.fusion->addOutput(cloner.clone(v));
      }
      segment_.outputs.push_back(v);
    }
    localizeIntermediates();
    return std::move(segment_);
  }

 private:
  void findBoundary() {
    const std::unordered_set<const Expr*> inside(exprs_.begin(), exprs_.end());
    std::unordered_set<const Val*> seen;
    std::unordered_set<const Val*> used_inputs;
    for (Expr* e : exprs_) {
      for (TensorView* in : tensorInputs(e)) {
        if (!seen.insert(in).second) {
          continue;
        }
        if (in->isFusionInput() && !isViewOfInput(in)) {
          used_inputs.insert(in);
        } else if (in->definition() == nullptr || inside.count(in->definition()) == 0) {
          intermediate_inputs_.push_back(in);
        }
      }
    }
    for (Val* v : whole_.fusion->inputs()) {
      if (used_inputs.count(v) != 0) {
        whole_inputs_.push_back(v);
      }
    }
    for (Expr* e : exprs_) {
      if (whole_.repeated.count(e) != 0) {
        continue;
      }
      for (TensorView* out : tensorOutputs(e)) {
        if (whole_.isReadOutside(out, inside) || whole_.outputs.count(out) != 0) {
          outputs_.push_back(out);
        }
      }
    }
  }

  Val* symbolFor(const Val* v) {
    auto found = whole_.large_scalars.find(v);
    if (found == whole_.large_scalars.end()) {
      return nullptr;
    }
    Val*& symbol = symbols_[found->second];
    if (symbol == nullptr) {
      symbol = IrBuilder::createIn<Val>(segment_.fusion.get(), v->dtype());
      large_scalars_.push_back(found->second);
    }
    return symbol;
  }

  // A copy that asks for a boundary has got it.
  static void cloneExpr(const Expr* e, IrCloner& cloner) {
    if (isBoundary(e)) {
      IrBuilder::createIn<LoadStoreOp>(cloner.target(), LoadStoreOpType::Set,
                                       cloner.clone(e->output(0)), cloner.clone(e->input(0)));
    } else {
      cloner.cloneExpr(e);
    }
  }

  // A scatter into memory that another segment has filled, and whose result others read.
  bool isStored(const ScatterOp* scatter) const {
    auto is_here = [&](const Expr* e) {
      return std::find(exprs_.begin(), exprs_.end(), e) != exprs_.end();
    };
    const auto& uses = scatter->out()->uses();
    return scatter->isInPlace() &&
           (scatter->self()->isFusionInput() || !is_here(scatter->self()->definition())) &&
           std::none_of(uses.begin(), uses.end(), is_here);
  }

  static void cloneStore(const ScatterOp* scatter, IrCloner& cloner) {
    auto* index = cloner.clone(scatter->index())->as<TensorView>();
    auto* updated = cloner.clone(scatter->self())->as<TensorView>();
    cloner.map(scatter->out(),
               makeScatterStore(updated, index, cloner.clone(scatter->src()), scatter->dim()));
  }

  void addInput(Val* v, IrCloner& cloner) {
    Val* copy = cloner.clone(v);
    segment_.fusion->addInput(copy);
    segment_.inputs.push_back(v);
    if (copy->isTensor()) {
      for (const IterDomain* id : copy->as<TensorView>()->getLogicalDomain()) {
        bound_.insert(id->extent());
        bound_.insert(id->expandedExtent());
      }
    }
  }

  // Symbols that no tensor input has as an extent must be passed.
  void addScalarInputs(IrCloner& cloner) {
    for (Val* v : whole_.symbolic_scalars) {
      Val* copy = cloner.lookup(v);
      if (copy != nullptr && copy->isSymbolic() && bound_.insert(copy).second) {
        segment_.fusion->addInput(copy);
        segment_.inputs.push_back(v);
      }
    }
    for (Val* v : large_scalars_) {
      if (bound_.insert(symbols_.at(v)).second) {
        segment_.fusion->addInput(symbols_.at(v));
        segment_.inputs.push_back(v);
      }
    }
  }

  // Outputs of the whole fusion that are not outputs here, and what would have an order in memory.
  void localizeIntermediates() {
    for (TensorView* tv : segment_.fusion->allTvs()) {
      if (tv->isFusionInput() || tv->isFusionOutput()) {
        continue;
      }
      tv->setMemoryType(MemoryType::Local);
      if (tv->domain()->hasAllocation() && tv->definition()->kind() == ExprKind::ElementwiseOp) {
        tv->setAllocationDomain(tv->getLogicalDomain(), true);
      }
    }
  }

  const WholeFusion& whole_;
  const std::vector<Expr*> exprs_;
  Segment segment_;
  std::vector<Val*> whole_inputs_;
  std::vector<TensorView*> intermediate_inputs_;
  std::vector<Val*> outputs_;
  std::unordered_set<const Val*> bound_;
  std::unordered_map<const Val*, Val*> symbols_; // in the segment, by large scalar
  std::vector<Val*> large_scalars_;
};

// Which scalars are large, and which of those are equal. Each is looked at once: as trees they are
// exponential.
class LargeScalars {
 public:
  std::unordered_map<const Val*, Val*> of(const Fusion* fusion) {
    std::unordered_map<const Val*, Val*> out;
    std::unordered_map<int, Val*> first;
    auto add = [&](Val* v) {
      if (v != nullptr && v->definition() != nullptr && numbered(v).operations > kMostOperations) {
        out[v] = first.try_emplace(numbered(v).number, v).first->second;
      }
    };
    for (const TensorView* tv : fusion->allTvs()) {
      for (const IterDomain* id : tv->domain()->allIds()) {
        add(id->extent());
        add(id->expandedExtent());
        if (id->definition() != nullptr) {
          for (Val* v : id->definition()->fieldVals()) {
            add(v);
          }
        }
      }
    }
    return out;
  }

 private:
  static constexpr int kMostOperations = 24;
  struct Numbered {
    int number = 0;     // equal for equal scalars
    int operations = 0; // counted as often as they would be printed
  };
  using Key = std::tuple<OpType, DataType, std::vector<int>>;

  const Numbered& numbered(const Val* root) {
    const auto op_of = [](const Val* v) { return tryAs<ElementwiseOp>(v->definition()); };
    visitOperandsFirst(
        root, [&](const Val* v) { return known_.count(v) != 0; },
        [&](const Val* v, const auto& add) {
          if (const auto* op = op_of(v)) {
            std::for_each(op->inputs().begin(), op->inputs().end(), add);
          }
        },
        [&](const Val* v) { known_[v] = op_of(v) == nullptr ? leaf(v) : combined(op_of(v)); });
    return known_.at(root);
  }

  Numbered leaf(const Val* v) {
    if (v->isConst()) {
      return {constants_.try_emplace({v->dtype(), v->toInlineString()}, next_++).first->second, 0};
    }
    return {next_++, v->definition() == nullptr ? 0 : 1};
  }

  Numbered combined(const ElementwiseOp* op) {
    Numbered out{0, 1};
    std::vector<int> in;
    for (const Val* v : op->inputs()) {
      in.push_back(known_.at(v).number);
      out.operations = std::min(out.operations + known_.at(v).operations, kMostOperations + 1);
    }
    out.number =
        numbers_.try_emplace({op->op(), op->out()->dtype(), std::move(in)}, next_++).first->second;
    return out;
  }

  std::unordered_map<const Val*, Numbered> known_;
  std::map<std::pair<DataType, std::string>, int> constants_;
  std::map<Key, int> numbers_;
  int next_ = 0;
};

} // namespace

WholeFusion::WholeFusion(const Fusion* fusion, bool may_repeat)
    : fusion(fusion),
      live(fusion->exprs().begin(), fusion->exprs().end()),
      outputs(fusion->outputs().begin(), fusion->outputs().end()) {
  for (Val* v : fusion->vals()) {
    if (v->kind() == ValKind::Val && v->isSymbolic()) {
      symbolic_scalars.push_back(v);
    }
  }
  large_scalars = LargeScalars().of(fusion);
  for (const Expr* e : fusion->exprs()) {
    order.emplace(e, order.size());
  }
  if (may_repeat) {
    repeated = repeatedExprs(fusion);
  }
}

Segment extractSegment(const WholeFusion& whole, const std::vector<Expr*>& exprs) {
  return Extractor(whole, exprs).extract();
}

} // namespace nvfuser
