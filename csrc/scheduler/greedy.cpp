// SPDX-License-Identifier: BSD-3-Clause
// See greedy.h.
#include <scheduler/greedy.h>

#include <base/integer_math.h>

#include <base/error.h>
#include <id_model/layout.h>
#include <ir/builder.h>
#include <ir/visitor.h>
#include <preseg_passes/rewriter.h>
#include <preseg_passes/scatter_in_place.h>
#include <scheduler/access_width.h>
#include <scheduler/cost.h>
#include <scheduler/greedy_params.h>
#include <scheduler/loop_stages.h>
#include <transform/inlining.h>
#include <transform/propagate.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

namespace nvfuser {

namespace {

bool isScanOp(const Expr* e) {
  return e->kind() == ExprKind::ScanOp || e->kind() == ExprKind::ScatterOp;
}

int64_t scanDim(const Expr* e) {
  return e->kind() == ExprKind::ScanOp ? e->as<ScanOp>()->dim() : e->as<ScatterOp>()->dim();
}

// What the first scan or scatter demands of everything else.
class ScanAxisAnalysis {
 public:
  explicit ScanAxisAnalysis(Fusion* fusion)
      : fusion_(fusion),
        graph_(buildGraph(fusion, IdMappingMode::Permissive)),
        sizes_(buildDimensionGraph(fusion, IdMappingMode::Exact)) {
    for (Expr* e : fusion->exprs()) {
      if (isScanOp(e)) {
        first_ = e;
        break;
      }
    }
    follows_ = !fusion->hasExpr(ExprKind::ScatterOp) && !hasTiedDimensions();
  }

  const Expr* first() const {
    return first_;
  }
  int64_t dim() const {
    return scanDim(first_);
  }

  // Empty if the expression can be computed in the loops of the first one.
  std::string whyNot(const Expr* e) const {
    for (const Val* v : operandsInLoops(e)) {
      const bool follows = !isScanOp(e) && follows_;
      if (v->isTensor() && !fitsLoops(v->as<TensorView>(), follows)) {
        return v->toString() + " has other dimensions than " + first_->output(0)->toString();
      }
    }
    switch (e->kind()) {
      case ExprKind::ElementwiseOp:
        return "";
      case ExprKind::BroadcastOp:
      case ExprKind::ExpandOp:
      case ExprKind::IotaOp:
      case ExprKind::FullOp:
        return follows_ ? "" : e->opName() + " is not elementwise";
      case ExprKind::LoadStoreOp: {
        const bool moves = e->output(0)->as<TensorView>()->hasRoot();
        const bool fits = static_cast<const LoadStoreOp*>(e)->type() == LoadStoreOpType::Set &&
                          (!moves || (follows_ && !permutationOf(e).empty()));
        return fits ? "" : e->opName() + " is not elementwise";
      }
      case ExprKind::ScanOp:
        return scanDim(e) == dim() ? "" : "scans go along different dimensions";
      case ExprKind::ScatterOp:
        return scanDim(e) == dim() ? whyNotScatter(e->as<ScatterOp>())
                                   : "scatters go along different dimensions";
      default:
        return e->opName() + " is not elementwise";
    }
  }

  // The dimension of a tensor that is the one along which scans go; null if it has not all
  // dimensions.
  IterDomain* along(const TensorView* tv) const {
    const auto& of_first = first_->output(0)->as<TensorView>()->getLogicalDomain();
    const auto logical = logicalIds(tv);
    if (logical.size() != of_first.size()) {
      return nullptr;
    }
    const auto at = static_cast<size_t>(dim());
    if (!follows_) {
      return logical[at]->isBroadcast() ? nullptr : logical[at];
    }
    const auto it = std::ranges::find_if(
        logical, [&](const IterDomain* id) { return isSame(id, of_first[at]); });
    return it == logical.end() || (*it)->isBroadcast() ? nullptr : *it;
  }

  // Tensors that must be in memory, but are computed here, or must be written whole before they are
  // read.
  std::vector<TensorView*> misplaced(const Expr* e) const {
    std::vector<TensorView*> out;
    if (const auto* scatter = tryAs<ScatterOp>(e)) {
      for (Val* v : {scatter->input(1), scatter->src()}) {
        if (v->isTensor() && !v->isFusionInput()) {
          out.push_back(v->as<TensorView>());
        }
      }
      if (!fusion_->liveUses(scatter->out()).empty()) {
        out.push_back(scatter->out());
      }
    }
    return out;
  }

 private:
  // Operands and results that have the loops of the expression.
  static std::vector<Val*> operandsInLoops(const Expr* e) {
    std::vector<Val*> out = e->outputs();
    if (e->kind() == ExprKind::ScatterOp) {
      out.push_back(e->input(0));
    } else {
      out.insert(out.end(), e->inputs().begin(), e->inputs().end());
    }
    return out;
  }

  // Its dimensions are those of the first one in their order. If it follows the loops, they may
  // have another order, and it may lack some unless it is written.
  bool fitsLoops(const TensorView* tv, bool follows) const {
    const auto& wanted = first_->output(0)->as<TensorView>()->getLogicalDomain();
    const auto ids = logicalIds(tv);
    if (ids.size() == wanted.size() &&
        std::equal(ids.begin(), ids.end(), wanted.begin(),
                   [&](const IterDomain* id, const IterDomain* of_first) {
                     return id->isBroadcast() || isSame(id, of_first);
                   })) {
      return true;
    }
    std::unordered_set<const IterDomain*> found;
    return follows && (ids.size() == wanted.size() || !tv->isFusionOutput()) &&
           std::ranges::all_of(ids, [&](const IterDomain* id) {
             return id->isBroadcast() || std::ranges::any_of(wanted, [&](const IterDomain* other) {
                      return isSame(id, other) && found.insert(other).second;
                    });
           });
  }

  // Something is read along several dimensions, whose loops it can't have.
  bool hasTiedDimensions() const {
    const auto& ids = first_->output(0)->as<TensorView>()->getLogicalDomain();
    for (size_t i = 0; i < ids.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (graph_.same(ids[i], ids[j])) {
          return true;
        }
      }
    }
    return false;
  }

  bool isSame(const IterDomain* id, const IterDomain* of_first) const {
    return sizes_.same(id, of_first) ||
           (graph_.same(id, of_first) && id->extent()->sameAs(of_first->extent()));
  }

  std::string whyNotScatter(const ScatterOp* scatter) const {
    if (scatter->isInPlace()) {
      return scatter->self()->toString() + " must be written before it is updated";
    }
    const std::vector<TensorView*> tensors = misplaced(scatter);
    return tensors.empty() ? "" : tensors.front()->toString() + " must be in memory for a scatter";
  }

  Fusion* fusion_;
  IdGraph graph_;
  // All in one group have one size; a permissive group has all that one broadcast becomes.
  IdGraph sizes_;
  const Expr* first_ = nullptr;
  // Tensors that lack dimensions of the first one get its loops.
  bool follows_ = false;
};

} // namespace

bool hasScanOps(const Fusion* fusion) {
  return fusion->hasExpr(isScanOp);
}

std::vector<TensorView*> scatterConflicts(Fusion* fusion) {
  std::vector<TensorView*> out;
  for (const ScatterOp* scatter : scattersOf(fusion)) {
    if (scatter->isInPlace() && !scatter->self()->isFusionInput()) {
      out.push_back(scatter->self());
    }
    if (scatter->isInPlace() && !fusion->liveUses(scatter->out()).empty()) {
      out.push_back(scatter->out());
    }
  }
  return out;
}

std::vector<TensorView*> greedyConflicts(Fusion* fusion) {
  const ScanAxisAnalysis axis(fusion);
  std::vector<TensorView*> out;
  auto add = [&](TensorView* tv) {
    if (tv->definition() != nullptr && !tv->isFusionInput() &&
        std::find(out.begin(), out.end(), tv) == out.end()) {
      out.push_back(tv);
    }
  };
  std::unordered_set<const Expr*> fitting;
  for (const Expr* e : fusion->exprs()) {
    if (axis.whyNot(e).empty()) {
      fitting.insert(e);
    }
  }
  for (const Expr* e : fusion->exprs()) {
    for (TensorView* tv : axis.misplaced(e)) {
      add(tv);
    }
    for (TensorView* in : tensorInputs(e)) {
      if (in->definition() != nullptr && fitting.count(e) != fitting.count(in->definition())) {
        add(in);
      }
    }
  }
  return out;
}

namespace {

std::vector<Val*> extentsOf(const TensorView* tv) {
  std::vector<Val*> out;
  for (const IterDomain* id : logicalIds(tv)) {
    out.push_back(id->getMaybeExpandedExtent());
  }
  return out;
}

bool isPlain(const Expr* e) {
  return e->kind() == ExprKind::ElementwiseOp || e->kind() == ExprKind::LoadStoreOp;
}

// By what the kernel that stores it computes as well.
bool isComputed(const Val* operand) {
  const Expr* e = operand->isTensor() ? operand->definition() : nullptr;
  return e != nullptr && !operand->isFusionOutput() &&
         (isPlain(e) || e->kind() == ExprKind::IotaOp || e->kind() == ExprKind::BroadcastOp ||
          e->kind() == ExprKind::ExpandOp);
}

// A scatter of the definition, whatever the shapes.
struct KnownScatter {
  bool can_be_in_place = false;
  std::vector<Val*> shape;
  Val* row_length = nullptr;
  Val* positions = nullptr;
  ScatterSizes sizes; // what does not depend on shapes
};

KnownScatter known(const Fusion* fusion, const ScatterOp* scatter) {
  const auto dim = static_cast<size_t>(scatter->dim());
  KnownScatter out;
  out.can_be_in_place = canBeInPlace(scatter);
  if (!out.can_be_in_place) {
    return out;
  }
  out.shape = extentsOf(scatter->out());
  out.row_length = out.shape[dim];
  out.positions = extentsOf(scatter->index())[dim];
  out.sizes.element_bytes = dataTypeSizeBytes(scatter->out()->dtype());
  // An elementwise operation would be in the kernel of the scatter.
  out.sizes.is_copied =
      !isMadeForScatter(fusion, scatter) || isPlain(scatter->self()->definition());
  const bool computes = isComputed(scatter->index()) || isComputed(scatter->src());
  out.sizes.more_kernels = (out.sizes.is_copied ? 1 : 0) - (computes ? 1 : 0);
  const IterDomain* along = scatter->out()->getLogicalDomain()[dim];
  const std::vector<MemoryDim> memory = memoryDims(scatter->out());
  out.sizes.rows_are_neighbours = !memory.empty() && memory.back().id != along;
  return out;
}

// As they were before any of them was rewritten.
const std::vector<KnownScatter>& knownScatters(WholeDefinition& definition) {
  HeuristicCache& cache = definition.cacheOf(SchedulerType::Greedy);
  if (cache.data == nullptr) {
    auto scatters = std::make_shared<std::vector<KnownScatter>>();
    for (const ScatterOp* scatter : scattersOf(definition.fusion())) {
      scatters->push_back(known(definition.fusion(), scatter));
    }
    cache.data = std::move(scatters);
  }
  return *static_cast<const std::vector<KnownScatter>*>(cache.data.get());
}

} // namespace

void GreedyScheduler::wantRewrites(WholeDefinition& definition, Wanted& wanted) const {
  if (wanted.left_out.count(type()) != 0 || !definition.makesKernels()) {
    return;
  }
  const std::vector<KnownScatter>& scatters = knownScatters(definition);
  for (size_t i = 0; i < std::min<size_t>(scatters.size(), 64); ++i) {
    if (!scatters[i].can_be_in_place) {
      continue;
    }
    ScatterSizes sizes = scatters[i].sizes;
    sizes.row_length = std::max<int64_t>(definition.product({scatters[i].row_length}), 1);
    sizes.rows = definition.product(scatters[i].shape) / sizes.row_length;
    sizes.positions = definition.product({scatters[i].positions});
    if (isFasterInPlace(sizes, definition.machine())) {
      wanted.rewrites.scatters_in_place |= uint64_t{1} << i;
    }
  }
}

std::string GreedyScheduler::whyNot(Fusion* fusion) const {
  if (!hasScanOps(fusion)) {
    return "there is no scan or scatter";
  }
  const ScanAxisAnalysis axis(fusion);
  for (const Expr* e : fusion->exprs()) {
    if (std::string why = axis.whyNot(e); !why.empty()) {
      return why;
    }
  }
  return "";
}

namespace {

class GreedyChooser {
 public:
  GreedyChooser(const Fusion* fusion, const ScanAxisAnalysis& axis, SchedulerRuntimeInfo& info)
      : fusion_(fusion), axis_(axis), info_(info) {
    const auto& logical = axis.first()->output(0)->as<TensorView>()->getLogicalDomain();
    const auto dim = static_cast<size_t>(axis.dim());
    for (size_t i = 0; i < logical.size(); ++i) {
      (i == dim ? extent_ : scans_) *= info.sizeOf(logical[i]);
    }
    is_last_ = dim + 1 == logical.size();
  }

  std::unique_ptr<GreedyParams> run() {
    auto params = std::make_unique<GreedyParams>();
    if (scansBySingleThreads()) {
      params->scans_per_block =
          info_.machine().threads_in_loops ? scansInLoop() : info_.machine().fewThreads();
      params->elements_per_thread = elementsOfSingleThread();
      return params;
    }
    if (info_.machine().threads_in_loops) {
      shareInLoops(*params);
      return params;
    }
    int64_t widest = 1;
    for (const auto* list : {&fusion_->inputs(), &fusion_->outputs()}) {
      for (const Val* v : *list) {
        params->vector_widths.push_back(v->isTensor() ? possibleWidth(v->as<TensorView>()) : 1);
        widest = std::max(widest, params->vector_widths.back());
      }
    }
    // Elements of a thread [hand, see machine.h]. Long scans: fewer barriers.
    constexpr int64_t kFewest = 4;
    const int64_t few = info_.machine().fewThreads();
    const int64_t most = info_.machine().usualThreads();
    params->elements_per_thread = extent_ >= most * kElementsOfVector
                                      ? kElementsOfVector
                                      : std::clamp(widest, kFewest, kElementsOfVector);
    for (int64_t& width : params->vector_widths) {
      width = std::min(width, params->elements_per_thread);
    }
    const int64_t wanted = powerOfTwoFrom(ceilDiv(extent_, params->elements_per_thread));
    params->threads_per_scan = std::clamp<int64_t>(wanted, 2, most);
    params->prefetch_loads = extent_ > params->threads_per_scan * params->elements_per_thread;
    params->scans_per_block =
        std::min(std::max<int64_t>(few / params->threads_per_scan, 1), powerOfTwoFrom(scans_));
    return params;
  }

 private:
  // Scans side by side, whose threads are a loop's iterations.
  int64_t scansInLoop() const {
    const MachineModel& machine = info_.machine();
    const int64_t even = powerOfTwoUpTo(std::max<int64_t>(scans_ / machine.blocksOfCores(), 1));
    return std::clamp(even, machine.lanesAtOnce(), machine.max_threads_per_block);
  }

  // As many of all inputs as keep memory busy with all threads of an SM.
  int64_t elementsOfSingleThread() const {
    if (info_.machine().threads_in_loops || fusion_->hasExpr(ExprKind::ScatterOp)) {
      return 1;
    }
    int64_t bytes = 0; // of an element
    for (const Val* v : fusion_->inputs()) {
      const auto* tv = tryAs<TensorView>(v);
      bytes += tv != nullptr && axis_.along(tv) != nullptr ? dataTypeSizeBytes(tv->dtype()) : 0;
    }
    const int64_t wanted =
        powerOfTwoFrom(info_.machine().bytesOfThread() / std::max<int64_t>(bytes, 1));
    return std::min({wanted, kElementsOfVector, powerOfTwoUpTo(extent_)});
  }

  // The threads are neighbouring elements: the library scans them by vectors.
  void shareInLoops(GreedyParams& params) const {
    const MachineModel& machine = info_.machine();
    params.vector_widths.assign(fusion_->inputs().size() + fusion_->outputs().size(), 1);
    params.elements_per_thread = 1;
    params.threads_per_scan =
        std::clamp<int64_t>(powerOfTwoFrom(extent_), 2, machine.max_threads_per_block);
    params.scans_per_block =
        std::min(std::max<int64_t>(machine.lanesAtOnce() / params.threads_per_scan, 1),
                 powerOfTwoFrom(scans_));
  }

  // One thread per scan: there are scatters, or scans are short, or so many that neighbouring
  // threads access neighbouring elements all the time.
  bool scansBySingleThreads() const {
    const MachineModel& machine = info_.machine();
    const int64_t many =
        machine.threads_in_loops ? machine.lanes : machine.sms * machine.fewThreads();
    return extent_ < kElementsOfVector || (scans_ >= many && !isFastest()) ||
           fusion_->hasExpr(ExprKind::ScatterOp);
  }

  // The dimension is the innermost one in memory, by the first input that has all dimensions.
  bool isFastest() const {
    for (const Val* v : fusion_->inputs()) {
      const auto* tv = tryAs<TensorView>(v);
      if (const IterDomain* along = tv == nullptr ? nullptr : axis_.along(tv)) {
        return memoryDims(tv).back().id == along;
      }
    }
    return is_last_;
  }

  // The largest access along the dimension, in elements.
  int64_t possibleWidth(const TensorView* tv) {
    IterDomain* along = axis_.along(tv);
    if (along == nullptr) {
      return 1;
    }
    const MemoryDim innermost = memoryDims(tv).back();
    return innermost.id == along && innermost.contiguous ? accessWidth(tv, along, info_) : 1;
  }

  const Fusion* fusion_;
  const ScanAxisAnalysis& axis_;
  SchedulerRuntimeInfo& info_;
  bool is_last_ = false; // in the order of the dimensions
  int64_t extent_ = 1;
  int64_t scans_ = 1;
};

// Gives a tensor the loops of its kernel, and those that are computed the same.
void forAll(Fusion* fusion, TensorView* first, const std::function<void(TensorView*)>& transform) {
  const TensorGraph graph(fusion);
  if (fusion->hasExpr(ExprKind::ScatterOp)) { // of tensors with all dimensions alone
    for (TensorView* tv : graph.tensors()) {
      if (!tv->isFusionInput()) {
        transform(tv);
      }
    }
    return;
  }
  transform(first);
  transformLike(graph, first);
  scheduler_utils::parallelizeAllLike(graph, first, -1, {}, {});
}

class ScanSchedule {
 public:
  ScanSchedule(Fusion* fusion, TensorView* first, int64_t dim, const GreedyParams& params)
      : fusion_(fusion), first_(first), dim_(dim), params_(params) {}

  void run() {
    makeCaches();
    forAll(fusion_, first_, [this](TensorView* tv) { transform(tv); });
    for (const auto& [tv, width] : accesses_) {
      if (width > 1 && !tv->axis(-1)->isBroadcast()) {
        if (width < params_.elements_per_thread) {
          tv->split(-1, width);
        }
        tv->axis(-1)->parallelize(ParallelType::Vectorize);
      }
    }
    inlineAll();
  }

 private:
  bool isShared() const {
    return params_.threads_per_scan > 1;
  }
  bool hasTiles() const {
    return isShared() || params_.elements_per_thread > 1;
  }

  // Several elements are read before the first of them is used, and threads that share a scan write
  // by vectors. Outputs that are read here as well are written from a register.
  void makeCaches() {
    std::unordered_set<const Val*> read;
    for (const Expr* e : fusion_->exprs()) {
      read.insert(e->inputs().begin(), e->inputs().end());
    }
    const std::vector<Val*> inputs = fusion_->inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto* tv = inputs[i]->isTensor() ? inputs[i]->as<TensorView>() : nullptr;
      if (hasTiles() && tv != nullptr && read.count(tv) != 0 && !tv->isCpuScalar() &&
          !tv->getLogicalDomain().empty()) {
        accesses_.emplace_back(tv->cacheAfter(), widthAt(params_.vector_widths, i));
        loads_.insert(accesses_.back().first);
      }
    }
    const std::vector<Val*> outputs = fusion_->outputs();
    std::unordered_set<Val*> done;
    for (size_t i = 0; i < outputs.size(); ++i) {
      auto* tv = outputs[i]->as<TensorView>();
      if (tv->isFusionInput() || !done.insert(tv).second) {
        continue;
      }
      TensorView* stored = tv;
      if (read.count(tv) != 0) {
        stored = tv->cacheFork();
      } else if (isShared()) {
        tv->cacheBefore();
      }
      accesses_.emplace_back(stored, widthAt(params_.vector_widths, inputs.size() + i));
    }
  }

  void transform(TensorView* tv) {
    tv->reorder(std::unordered_map<int64_t, int64_t>{{dim_, -1}});
    const bool has_scans = tv->nDims() > 1;
    if (has_scans) {
      tv->flatten(0, tv->nDims() - 2);
    }
    if (hasTiles()) {
      tv->split(-1, params_.elements_per_thread);
    }
    if (isShared()) {
      tv->split(-2, params_.threads_per_scan);
      tv->axis(-2)->parallelize(ParallelType::TIDx);
    }
    if (has_scans) {
      tv->split(0, params_.scans_per_block);
      tv->axis(0)->parallelize(ParallelType::BIDx);
      tv->axis(1)->parallelize(isShared() ? ParallelType::TIDy : ParallelType::TIDx);
    }
    elements_axis_ = tv->nDims() - 1;
  }

  // Loads, and scans that are shared, have all elements of a thread at once. A load that runs ahead
  // is in the loop over tiles alone.
  void inlineAll() {
    if (!hasTiles()) {
      inlineMost();
      return;
    }
    auto ends_stage = [this](const Expr* e) { return isShared() && e->kind() == ExprKind::ScanOp; };
    const LoopStages stages(fusion_, ends_stage);
    const MaxPosCalculator calculator(fusion_);
    std::unordered_map<TensorView*, int64_t> positions;
    for (TensorView* tv : calculator.graph().tensors()) {
      const bool whole = loads_.count(tv) != 0 || stages.isReadInSeveral(tv) ||
                         (tv->definition() != nullptr && ends_stage(tv->definition()));
      const bool has_scan = tv->nDims() > elements_axis_;
      positions[tv] = whole && has_scan ? elements_axis_ : -1;
      if (params_.prefetch_loads && has_scan && loads_.count(tv) != 0) {
        tv->circularBuffer(2);
        positions[tv] = elements_axis_ - 1;
      }
    }
    inlineTensors(calculator, positions);
  }

  Fusion* fusion_;
  TensorView* first_;
  int64_t dim_;
  const GreedyParams& params_;
  std::vector<std::pair<TensorView*, int64_t>>
      accesses_; // copies from and to memory, and their width
  std::unordered_set<const TensorView*> loads_;
  int64_t elements_axis_ = 0;
};

} // namespace

ChosenParams GreedyScheduler::computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                                HeuristicCache*) const {
  const ScanAxisAnalysis axis(fusion);
  return GreedyChooser(fusion, axis, info).run();
}

void GreedyScheduler::schedule(Fusion* fusion, const HeuristicParams& params) const {
  FusionGuard guard(fusion);
  const auto* p = dynamic_cast<const GreedyParams*>(&params);
  NVF_CHECK(p != nullptr, "The greedy scheduler needs GreedyParams");
  const std::string why = whyNot(fusion);
  NVF_CHECK(why.empty(), "The greedy scheduler cannot take this fusion: ", why);
  const ScanAxisAnalysis axis(fusion);
  auto* first = axis.first()->output(0)->as<TensorView>();
  ScanSchedule(fusion, first, axis.dim(), *p).run();
}

} // namespace nvfuser
