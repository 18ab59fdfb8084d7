// SPDX-License-Identifier: BSD-3-Clause
// Fusion: inputs, outputs, aliases, live expressions, copying.
#include <fusion.h>

#include <base/error.h>
#include <ir/cloner.h>
#include <ir/describe.h>
#include <ir/visitor.h>
#include <machine.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

Fusion* Statement::fusion() const {
  return dynamic_cast<Fusion*>(container_);
}

FusionGuard::FusionGuard(Fusion* fusion) : previous_(IrContainer::active()) {
  IrContainer::setActive(fusion);
}

FusionGuard::~FusionGuard() {
  IrContainer::setActive(previous_);
}

Fusion* FusionGuard::getCurFusion() {
  return dynamic_cast<Fusion*>(IrContainer::active());
}

// copy() does it all; GCC wants the bases named.
// NOLINTNEXTLINE(bugprone-copy-constructor-init,readability-redundant-member-init)
Fusion::Fusion(const Fusion& other) : IrContainer(), std::enable_shared_from_this<Fusion>() {
  copy(&other, this);
}

Fusion& Fusion::operator=(const Fusion& other) {
  if (this != &other) {
    clear();
    inputs_.clear();
    outputs_.clear();
    output_aliases_.clear();
    copy(&other, this);
  }
  return *this;
}

IrCloner Fusion::copy(const Fusion* from, Fusion* to) {
  IrCloner cloner(to);
  // In order of creation, so that names stay: values that nothing refers to are copied as well.
  for (const Val* v : from->vals()) {
    cloner.cloneVal(v);
  }
  for (const Expr* e : from->unorderedExprs()) {
    cloner.cloneExpr(e);
  }
  for (const Val* v : from->vals()) {
    Val* c = cloner.lookup(v);
    c->name_ = v->name_;
    c->is_fusion_input_ = v->is_fusion_input_;
    c->is_fusion_output_ = v->is_fusion_output_;
  }
  to->copyCounters(*from);
  to->inputs_ = cloner.clone(from->inputs_);
  to->outputs_ = cloner.clone(from->outputs_);
  to->output_aliases_.clear();
  for (const OutputAlias& a : from->output_aliases_) {
    to->output_aliases_.push_back({cloner.clone(a.input), a.hidden});
  }
  to->num_stateful_rng_ = from->num_stateful_rng_;
  to->has_elements_ = from->has_elements_;
  to->streams_outputs_ = from->streams_outputs_;
  to->shares_loops_ = from->shares_loops_;
  to->assumed_extents_.clear();
  for (auto [extent, value] : from->assumed_extents_) {
    to->assumed_extents_.emplace_back(cloner.clone(extent), value);
  }
  to->aligned_inputs_ = cloner.clone(from->aligned_inputs_);
  to->launch_numbers_ = from->launch_numbers_;
  for (LaunchNumber& n : to->launch_numbers_) {
    n.number = cloner.clone(n.number);
    n.value = cloner.clone(n.value);
    n.padded = n.padded == nullptr ? nullptr : cloner.clone(n.padded);
  }
  to->most_threads_ = from->most_threads_;
  return cloner;
}

Val* Fusion::chooseAtLaunch(Val* value, int64_t most, bool by_warps) {
  Val* number = IrBuilder::createIn<Val>(this, DataType::Index);
  launch_numbers_.push_back({number, value, most, by_warps});
  return number;
}

void Fusion::padThreads(const Val* number, Val* padded) {
  const auto it = std::find_if(launch_numbers_.begin(), launch_numbers_.end(),
                               [&](const LaunchNumber& n) { return n.number == number; });
  NVF_ERROR(it != launch_numbers_.end(), number->toString(), " is not chosen at launch");
  it->padded = padded;
}

std::optional<LaunchNumber> Fusion::launchNumber(const Val* v) const {
  const auto it = std::find_if(launch_numbers_.begin(), launch_numbers_.end(),
                               [&](const LaunchNumber& n) { return n.number == v; });
  if (it != launch_numbers_.end()) {
    return *it;
  }
  const auto* product = tryAs<ElementwiseOp>(v->definition());
  if (product == nullptr || product->op() != OpType::Mul) {
    return std::nullopt;
  }
  for (const size_t i : {0, 1}) {
    const Val* factor = product->in(1 - i);
    std::optional<LaunchNumber> number = launchNumber(product->in(i));
    if (number.has_value() && number->padded == nullptr && factor->isConstInt()) {
      const auto times = factor->intValue();
      return LaunchNumber{product->output(0), nullptr, number->most * times,
                          number->by_warps || times % kWarp == 0};
    }
  }
  return std::nullopt;
}

void Fusion::addInput(Val* input) {
  NVF_CHECK(input != nullptr && input->container() == this,
            "add_input: the value belongs to another fusion");
  NVF_CHECK(!input->isConst(), "add_input: the constant ", describe(input),
            " can't be a fusion input");
  NVF_CHECK(input->definition() == nullptr, "add_input: ", describe(input),
            " is computed in the fusion and can't be an input");
  NVF_CHECK(!input->isFusionInput(), "add_input: ", describe(input), " is an input already");
  if (input->isTensor()) {
    input->as<TensorView>()->setMemoryType(MemoryType::Global);
  }
  input->is_fusion_input_ = true;
  inputs_.push_back(input);
}

void Fusion::removeInput(Val* input) {
  std::erase(inputs_, input);
  input->is_fusion_input_ = false;
  if (input->isTensor()) {
    input->as<TensorView>()->setMemoryType(MemoryType::Local);
  }
}

void Fusion::addOutput(Val* output) {
  NVF_CHECK(output != nullptr && output->isTensor(), "Non-TensorView outputs are not supported");
  NVF_CHECK(output->container() == this, "add_output: the tensor belongs to another fusion");
  // A hidden in-place entry of the same tensor becomes a visible one at the end.
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i] == output && output_aliases_[i].input != nullptr && output_aliases_[i].hidden) {
      OutputAlias alias = output_aliases_[i];
      outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(i));
      output_aliases_.erase(output_aliases_.begin() + static_cast<std::ptrdiff_t>(i));
      alias.hidden = false;
      outputs_.push_back(output);
      output_aliases_.push_back(alias);
      return;
    }
  }
  if (!output->isFusionInput()) {
    output->as<TensorView>()->setMemoryType(MemoryType::Global);
  }
  output->is_fusion_output_ = true;
  outputs_.push_back(output);
  output_aliases_.push_back({});
  onGraphChanged();
}

void Fusion::addOutput(Val* output, Val* alias_input) {
  NVF_CHECK(output != nullptr && output->isTensor(), "Non-TensorView outputs are not supported");
  NVF_CHECK(alias_input != nullptr && alias_input->isFusionInput() && alias_input->isTensor(),
            "add_output: alias_input must be a tensor that is a fusion input, got ",
            alias_input == nullptr ? std::string("nothing") : describe(alias_input));
  NVF_CHECK(output->container() == this && alias_input->container() == this,
            "add_output: the tensor belongs to another fusion");
  if (output->isFusionInput()) {
    // Writing one input into another: the copy is an op of its own.
    output = copyOf(output->as<TensorView>());
  }
  const bool visible = std::find(outputs_.begin(), outputs_.end(), output) != outputs_.end();
  if (visible) {
    // The plain entry becomes the in-place one and stays where it is.
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i] == output && output_aliases_[i].input == nullptr) {
        output_aliases_[i] = {alias_input, /*hidden=*/false};
        return;
      }
    }
  }
  output->as<TensorView>()->setMemoryType(MemoryType::Global);
  output->is_fusion_output_ = true;
  outputs_.push_back(output);
  output_aliases_.push_back({alias_input, /*hidden=*/true});
  onGraphChanged();
}

void Fusion::addHiddenOutput(TensorView* output) {
  addOutput(output);
  output_aliases_.back().hidden = true;
}

bool Fusion::isReturned(const Val* output) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i] == output && !output_aliases_[i].hidden) {
      return true;
    }
  }
  return false;
}

TensorView* Fusion::copyOf(TensorView* tv) {
  TensorDomain::Ids ids;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    ids.push_back(IterDomainBuilder(id).build());
  }
  auto contiguity = TensorDomain::contiguityFilledWith(ids, true);
  auto* domain = IrBuilder::createIn<TensorDomain>(this, ids, contiguity);
  auto* out = IrBuilder::createIn<TensorView>(this, domain, tv->dtype());
  IrBuilder::createIn<LoadStoreOp>(this, LoadStoreOpType::Set, out, tv);
  return out;
}

void Fusion::replaceOutput(Val* from, Val* to) {
  std::replace(outputs_.begin(), outputs_.end(), from, to);
  from->is_fusion_output_ = false;
  to->is_fusion_output_ = true;
  onGraphChanged();
}

void Fusion::removeOutput(Val* output) {
  for (size_t i = outputs_.size(); i-- > 0;) {
    if (outputs_[i] == output) {
      outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(i));
      output_aliases_.erase(output_aliases_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  output->is_fusion_output_ = false;
  onGraphChanged();
}

const std::vector<Expr*>& Fusion::exprs() const {
  if (!exprs_valid_) {
    live_exprs_.clear();
    for (Expr* e : exprsBefore(outputs_)) {
      if (e->isTensorExpr()) {
        live_exprs_.push_back(e);
      }
    }
    exprs_valid_ = true;
    live_set_valid_ = false;
  }
  return live_exprs_;
}

std::vector<TensorView*> Fusion::allTvs() const {
  std::vector<TensorView*> out;
  std::unordered_set<const Val*> seen;
  auto add = [&](Val* v) {
    if (v->isTensor() && seen.insert(v).second) {
      out.push_back(static_cast<TensorView*>(v));
    }
  };
  std::for_each(inputs_.begin(), inputs_.end(), add);
  for (const Expr* e : exprs()) {
    std::for_each(e->inputs().begin(), e->inputs().end(), add);
    std::for_each(e->outputs().begin(), e->outputs().end(), add);
  }
  std::for_each(outputs_.begin(), outputs_.end(), add);
  return out;
}

std::vector<Expr*> Fusion::liveUses(const Val* v) const {
  const auto& live = exprs();
  if (!live_set_valid_) {
    live_set_ = std::unordered_set<const Expr*>(live.begin(), live.end());
    live_set_valid_ = true;
  }
  std::vector<Expr*> out;
  std::copy_if(v->uses().begin(), v->uses().end(), std::back_inserter(out),
               [&](const Expr* e) { return live_set_.count(e) != 0; });
  return out;
}

std::unordered_set<const Val*> Fusion::outputsWithLiveUses() const {
  std::unordered_set<const Val*> read;
  for (const Expr* e : exprs()) {
    read.insert(e->inputs().begin(), e->inputs().end());
  }
  std::unordered_set<const Val*> out;
  for (const Val* v : outputs()) {
    if (read.count(v) != 0) {
      out.insert(v);
    }
  }
  return out;
}

Expr* Fusion::replaceExprInput(Expr* expr, Val* from, Val* to) {
  // A cloner that maps every node the expression touches to itself, but `from` to `to`.
  IrCloner cloner(this);
  for (Val* v : expr->inputs()) {
    cloner.map(v, v);
  }
  for (Val* v : expr->outputs()) {
    cloner.map(v, v);
  }
  for (Val* v : expr->fieldVals()) {
    cloner.map(v, v);
  }
  cloner.map(from, to);
  // The copy defines the same outputs, which unlinks the original.
  return expr->shallowCopy(&cloner);
}

void Fusion::removeDeadUses() {
  std::unordered_set<const Expr*> live(exprs().begin(), exprs().end());
  std::vector<Expr*> dead;
  for (Expr* e : unorderedExprs()) {
    if (e->isTensorExpr() && live.count(e) == 0) {
      dead.push_back(e);
    }
  }
  for (Expr* e : dead) {
    removeExpr(e);
  }
}

} // namespace nvfuser
