// SPDX-License-Identifier: BSD-3-Clause
// See stage_splitter.h.
#include <scheduler/stage_splitter.h>

#include <ir/builder.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <scheduler/loop_stages.h>
#include <transform/cache.h>

#include <algorithm>

namespace nvfuser {

using Kind = ExprKind;

bool takesFewInstructions(OpType op) {
  switch (op) {
    case OpType::Cast:
    case OpType::Add:
    case OpType::Sub:
    case OpType::Mul:
    case OpType::Neg:
      return true;
    default:
      return false;
  }
}

StageSplitter::StageSplitter(Fusion* fusion, const ReductionAnalysis& analysis, KeptOfRows kept)
    : fusion_(fusion), analysis_(analysis), kept_(kept) {
  const std::vector<Expr*> exprs = fusion_->exprs();
  for (auto it = exprs.rbegin(); it != exprs.rend(); ++it) {
    const int pass = latestPassOf(*it);
    for (const TensorView* in : tensorInputs(*it)) {
      if (in != lookedUpTensor(*it)) {
        Passes& of = passes_.try_emplace(in, Passes{pass, pass}).first->second;
        of = {std::min(of.first, pass), std::max(of.last, pass)};
      }
    }
  }
}

// Whose readers are known: the first one's.
int StageSplitter::latestPassOf(const Expr* e) const {
  std::optional<int> first;
  for (const TensorView* out : tensorOutputs(e)) {
    auto it = passes_.find(out);
    if (it != passes_.end() && !isReduction(e)) {
      first = std::min(first.value_or(it->second.first), it->second.first);
    }
  }
  return first.value_or(analysis_.stageOf(e));
}

void StageSplitter::run() {
  const std::vector<Expr*> exprs = fusion_->exprs();
  for (Expr* e : exprs) {
    const int stage = analysis_.stageOf(e);
    std::unordered_map<Val*, Val*> replaced;
    for (TensorView* in : tensorInputs(e)) {
      if (in == lookedUpTensor(e)) {
        continue; // read where it is
      }
      TensorView* version = versionAt(in, stage, e);
      if (version != in) {
        replaced[in] = version;
      }
    }
    if (!replaced.empty()) {
      copyExprWith(fusion_, e, replaced);
    }
  }
  separateParts();
}

// What is kept for a later pass has a loop nest of its own, so that a pass may have several, one
// after the other. A tensor with some of the dimensions of a row, such as a bias that is added
// twice, cannot be kept: its elements are not in the threads that read them unless it is computed
// in their loops. So each nest that reads it has its own version.
void StageSplitter::separateParts() {
  const std::vector<Expr*> exprs = fusion_->exprs();
  if (std::none_of(exprs.begin(), exprs.end(),
                   [&](const Expr* e) { return isOfOneNest(tensorOutputs(e).front()); })) {
    return;
  }
  const LoopStages stages(fusion_, isReduction);
  // What a row has one of has no loops that others would have to wait for.
  const LoopStages nests(fusion_, [&](const Expr* e) {
    TensorView* tv = tensorOutputs(e).front();
    const bool has_loops =
        kept_ != KeptOfRows::NothingAtAll || analysis_.hasReducedDims(original(tv));
    return isReduction(e) || (has_loops && stages.isReadInSeveral(tv));
  });
  std::unordered_map<const Expr*, int> nest_of;
  for (const Expr* e : exprs) {
    nest_of[e] = nests.stageOf(e);
  }
  for (auto it = exprs.rbegin(); it != exprs.rend(); ++it) {
    TensorView* tv = tensorOutputs(*it).front();
    if (!isOfOneNest(tv) || isReduction(*it)) {
      continue;
    }
    std::map<int, std::vector<Expr*>> readers; // by nest
    for (Expr* use : tv->uses()) {
      if (nest_of.count(use) != 0 && use->output(0)->definition() == use) {
        readers[nest_of.at(use)].push_back(use);
      }
    }
    for (auto nest = readers.begin(); nest != readers.end(); ++nest) {
      if (nest == readers.begin()) {
        nest_of[*it] = nest->first;
        continue;
      }
      TensorView* version = recompute(tv, (*it)->inputs());
      original_[version] = original(tv);
      nest_of[version->definition()] = nest->first;
      for (Expr* reader : nest->second) {
        const int own = nest_of.at(reader);
        nest_of[copyExprWith(fusion_, reader, {{tv, version}})] = own;
      }
      const auto cache = std::find_if(caches.begin(), caches.end(),
                                      [&](const auto& each) { return each.first == tv; });
      if (cache != caches.end()) {
        caches.emplace_back(version, cache->second);
      }
    }
  }
}

std::vector<std::pair<TensorView*, TensorView*>> StageSplitter::versions() const {
  std::vector<std::pair<TensorView*, TensorView*>> out;
  for (const auto& [version, of] : original_) {
    if (!of->isFusionInput()) {
      out.emplace_back(version, of);
    }
  }
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a.first->name() < b.first->name(); });
  return out;
}

bool StageSplitter::leavesLoops(const Expr* reader) const {
  const auto* squeeze = tryAs<SqueezeOp>(reader);
  if (squeeze == nullptr) {
    return false;
  }
  const IdGraph& graph = analysis_.graph();
  const auto& loops = analysis_.reference()->getLogicalDomain();
  const auto dims = logicalIds(squeeze->input(0));
  for (size_t d = 0; d < dims.size(); ++d) {
    const IdGroup group = graph.group(dims[d]);
    if (squeeze->isSqueezeDim()[d] && group >= 0 &&
        std::any_of(loops.begin(), loops.end(), [&](const IterDomain* id) {
          return !id->isBroadcast() && graph.group(id) == group;
        })) {
      return true;
    }
  }
  return false;
}

TensorView* StageSplitter::versionAt(TensorView* tv, int stage, const Expr* reader) {
  const bool rows = analysis_.hasReducedDims(tv);
  const bool is_input = tv->isFusionInput();
  const int own = analysis_.stage(tv);
  if (!is_input && (!rows || own == stage)) {
    return tv;
  }
  const bool once = !rows || isKept(tv);
  if (is_input) {
    if (tv->isCpuScalar() || tv->getLogicalDomain().empty()) {
      return tv;
    }
    TensorView*& cache = versions_[{tv, once ? 0 : stage, leavesLoops(reader)}];
    if (cache == nullptr) {
      cache = newTensorLike(tv);
      IrBuilder::createIn<LoadStoreOp>(fusion_, LoadStoreOpType::Set, cache, tv);
      caches.emplace_back(cache, tv);
      original_[cache] = tv;
    }
    return cache;
  }
  if (isKept(tv) && !isCheap(tv)) {
    return tv;
  }
  TensorView*& version = versions_[{tv, stage, false}];
  if (version == nullptr) {
    std::vector<Val*> inputs = tv->definition()->inputs();
    for (Val*& in : inputs) {
      if (in->isTensor() && in != lookedUpTensor(tv->definition())) {
        // The definition may have been rewritten: its inputs are versions of an earlier pass.
        in = versionAt(original(in->as<TensorView>()), stage, tv->definition());
      }
    }
    const std::vector<TensorView*> made = tensorOutputs(tv->definition());
    const std::vector<TensorView*> again = tensorOutputs(recompute(tv, inputs)->definition());
    for (size_t i = 0; i < made.size(); ++i) {
      versions_[{made[i], stage, false}] = again[i];
      original_[again[i]] = made[i];
    }
  }
  return version;
}

// A few instructions cost less than registers that live across a reduction, if what they start
// from is narrower than what they make, or is kept for others anyway.
bool StageSplitter::isCheap(const TensorView* tv) const {
  if (auto it = is_cheap_.find(tv); it != is_cheap_.end()) {
    return it->second;
  }
  int ops = 0;
  int ops_of_kept = 0;
  const auto bits = bitsItStartsFrom(tv, std::nullopt, ops);
  const bool is_cheap = (bits.has_value() && *bits < dataTypeSizeBits(tv->dtype())) ||
                        bitsItStartsFrom(tv, lastPass(tv), ops_of_kept) == 0;
  return is_cheap_[tv] = is_cheap;
}

// For something that reads it in that pass or a later one. Without a pass nothing is.
bool StageSplitter::isKeptAnyway(const TensorView* tv, std::optional<int> until) const {
  return until.has_value() && kept_ != KeptOfRows::Everything && isKept(tv) &&
         lastPass(tv) >= *until && !isCheap(tv);
}

// Bits per element of the row that are read of inputs, or kept for nothing else until that pass;
// nullopt if the tensor is expensive to compute. `ops` counts the operations on the way.
std::optional<int64_t> StageSplitter::bitsItStartsFrom(const TensorView* tv,
                                                       std::optional<int> until, int& ops) const {
  constexpr int kMostCheapOps = 5; // operations [hand, see machine.h]
  const int most_ops = kept_ == KeptOfRows::Everything ? 1 : kMostCheapOps; // a cast
  if (!analysis_.hasReducedDims(tv)) {
    return 0;
  }
  if (tv->isFusionInput()) {
    // What rows share or a vector has one of takes few registers, wherever it comes from.
    const bool has_own = analysis_.differsByRow(tv) && !analysis_.isOneOfVector(tv);
    return has_own ? dataTypeSizeBits(tv->dtype()) : 0;
  }
  const Expr* def = tv->definition();
  std::vector<const TensorView*> others;
  for (TensorView* in : tensorInputs(def)) {
    // The definition may read the version of an earlier pass.
    if (!isKeptAnyway(original(in), until)) {
      others.push_back(original(in));
    }
  }
  if (const auto* op = tryAs<ElementwiseOp>(def)) {
    const bool is_made_anyway = op->op() == OpType::Cast && others.empty(); // others widen it too
    if (!is_made_anyway && (!takesFewInstructions(op->op()) || ++ops > most_ops)) {
      return std::nullopt;
    }
  } else if (def->kind() != Kind::BroadcastOp && def->kind() != Kind::ExpandOp &&
             def->kind() != Kind::LoadStoreOp) {
    return std::nullopt;
  }
  int64_t bits = 0;
  for (const TensorView* in : others) {
    const auto below = bitsItStartsFrom(in, until, ops);
    if (!below.has_value()) {
      return std::nullopt;
    }
    bits += *below;
  }
  return bits;
}

// All loads of the first pass are under way before it uses what they bring.
int64_t StageSplitter::bitsLoadedFirst() const {
  int64_t bits = 0;
  for (const Val* v : fusion_->inputs()) {
    const auto* tv = tryAs<TensorView>(v);
    if (tv != nullptr && analysis_.hasWholeRows(tv) && analysis_.differsByRow(tv) &&
        !analysis_.isOneOfVector(tv) && isReadFirst(tv)) {
      bits += dataTypeSizeBits(tv->dtype()) * analysis_.elementsOfPosition(tv);
    }
  }
  return bits;
}

int64_t StageSplitter::mostBitsKept(bool of_inputs) const {
  std::unordered_map<const TensorView*, int> last_read;
  int last_stage = 0;
  // What a pass reads of earlier ones: kept, or computed again from what is.
  auto read = [&](auto&& self, const TensorView* tv, int stage) -> void {
    if (!analysis_.hasWholeRows(tv) || analysis_.stage(tv) >= stage) {
      return;
    }
    if (!tv->isFusionInput() && (isCheap(tv) || !isKept(tv))) {
      for (const TensorView* in : tensorInputs(tv->definition())) {
        self(self, in, stage);
      }
      return;
    }
    int& last = last_read[tv];
    last = std::max(last, stage);
  };
  for (const Expr* e : fusion_->exprs()) {
    const int stage = analysis_.stageOf(e);
    last_stage = std::max(last_stage, stage);
    for (const TensorView* in : tensorInputs(e)) {
      if (in != lookedUpTensor(e)) {
        read(read, in, stage);
      }
    }
  }
  int64_t most = of_inputs ? bitsLoadedFirst() : 0;
  for (int end = 0; end < last_stage; ++end) {
    int64_t bits = 0;
    for (const auto& [tv, last] : last_read) {
      const bool counts = of_inputs || !tv->isFusionInput();
      bits += counts && analysis_.stage(tv) <= end && end < last
                  ? dataTypeSizeBits(tv->dtype()) * analysis_.elementsOfPosition(tv)
                  : 0;
    }
    most = std::max(most, bits);
  }
  return most;
}

} // namespace nvfuser
