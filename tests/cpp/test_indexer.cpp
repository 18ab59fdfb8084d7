// SPDX-License-Identifier: BSD-3-Clause
// Which iterations of a loop nest write which elements: random fusions with random schedules, of
// which every iteration is looked at.
#include <definition/rebuild.h>
#include <id_model/indexer.h>
#include <id_model/loop_model.h>
#include <ir/evaluator.h>
#include <transform/inlining.h>
#include <transform/propagate.h>

#include "executor_for_test.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

Sizes extentsOf(const TensorView* tv) {
  Sizes out;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    out.push_back(id->extent()->intValue());
  }
  return out;
}

int64_t numElements(const TensorView* tv) {
  int64_t n = 1;
  for (int64_t e : extentsOf(tv)) {
    n *= e;
  }
  return n;
}

// The definition with its reshapes decided, in `to`.
void decide(const Fusion& from, Fusion* to) {
  ScalarEvaluator sizes;
  concretize(from, concretizationInfo(from, sizes), to);
}

// The iterations of the loops around one tensor.
struct Counts {
  size_t elements = 0;  // that are written
  size_t unwritten = 0; // only by iterations that count as repeated
  size_t repeated = 0;  // written by several that don't
};

// The indexer that lowering would use.
Indexer indexerOf(const TensorView* tv, const IdModel& ids, const LoopModel& loops) {
  static const std::unordered_set<IdGroup> none;
  std::vector<std::pair<IdGroup, Val*>> known;
  for (const Loop* l : loops.loops(tv).path) {
    known.emplace_back(l->group, l->index);
  }
  std::vector<IdGroup> zeros;
  for (IdGroup g : ids.exact().groups()) {
    const auto& members = ids.exact().members(g);
    if (std::all_of(members.begin(), members.end(), [](auto* id) { return id->isBroadcast(); })) {
      zeros.push_back(g);
    }
  }
  std::vector<const Resize*> resizes;
  for (const IterDomain* id : tv->domain()->allIds()) {
    if (const auto* resize = dynamic_cast<const Resize*>(id->definition())) {
      resizes.push_back(resize);
    }
  }
  return {ids.exact(), ids, std::move(known), none, {.zeros = zeros}, std::move(resizes)};
}

class IterationCounter {
 public:
  IterationCounter(const TensorView* tv, const IdModel& ids, const LoopModel& loops)
      : path_(loops.loops(tv).path) {
    Indexer indexer = indexerOf(tv, ids, loops);
    std::vector<IdGroup> targets;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      if (!id->isBroadcast()) {
        targets.push_back(ids.exact().group(id));
      }
    }
    for (IdGroup g : targets) {
      element_.push_back(indexer.index(g));
    }
    guards_ = indexer.guards(targets);
    for (IdGroup g : indexer.repeated(targets)) {
      zeros_.push_back(indexer.index(g));
    }
  }

  Counts count() {
    visit(0);
    Counts out;
    for (const auto& [element, times] : written_) {
      ++out.elements;
      out.unwritten += times == 0 ? 1 : 0;
      out.repeated += times > 1 ? 1 : 0;
    }
    return out;
  }

 private:
  void visit(size_t depth) {
    if (depth == path_.size()) {
      evaluateIteration();
      return;
    }
    const Loop* l = path_[depth];
    const int64_t extent = l->index->isConst() ? 1 : l->extent->intValue();
    for (int64_t i = 0; i < extent; ++i) {
      at_[l->index] = i;
      visit(depth + 1);
    }
  }

  void evaluateIteration() {
    ScalarEvaluator evaluator;
    for (const auto& [index, value] : at_) {
      if (!index->isConst()) {
        evaluator.bind(index, value);
      }
    }
    for (const BoundsGuard& guard : guards_) {
      const int64_t index = evaluator.evaluateInt(guard.index);
      if ((guard.check_lower && index < 0) ||
          (guard.check_upper && index >= evaluator.evaluateInt(guard.extent))) {
        return;
      }
    }
    Sizes element;
    for (const Val* index : element_) {
      element.push_back(evaluator.evaluateInt(index));
    }
    const bool first = std::all_of(zeros_.begin(), zeros_.end(),
                                   [&](auto* v) { return evaluator.evaluateInt(v) == 0; });
    written_[element] += first ? 1 : 0;
  }

  std::vector<Loop*> path_;
  std::vector<Val*> element_;
  std::vector<BoundsGuard> guards_;
  std::vector<Val*> zeros_;
  std::map<const Val*, int64_t> at_;
  std::map<Sizes, int> written_;
};

Counts countIterations(const TensorView* tv, const IdModel& ids, const LoopModel& loops) {
  return IterationCounter(tv, ids, loops).count();
}

// A few small tensors with dimensions in common, broadcast, reshaped, sliced and padded, and a
// schedule of the last of them that all follow.
class RandomNest {
 public:
  explicit RandomNest(uint64_t seed) : random_(seed) {}

  void define(Fusion* fusion) {
    const Sizes extents{below(4) + 1, below(3) + 2, below(4) + 1};
    for (int64_t k = below(3) + 1; k >= 0; --k) {
      Sizes sizes;
      for (int64_t e : extents) {
        sizes.push_back(below(2) == 0 ? 1 : e);
      }
      TensorView* in = makeContigConcreteTensor(sizes);
      fusion->addInput(in);
      pool_.push_back(neg(in));
    }
    for (int64_t k = below(7) + 2; k > 0; --k) {
      if (TensorView* tv = step(); numElements(tv) <= kMaxElements) {
        pool_.push_back(tv);
      }
    }
    fusion->addOutput(neg(pool_.back()));
  }

  void schedule(Fusion* fusion) {
    reference_ = fusion->outputs()[0]->as<TensorView>();
    for (int64_t k = below(6); k > 0; --k) {
      const int64_t axis = below(reference_->nDims());
      switch (below(6)) {
        case 0:
        case 1:
          if (axis + 1 < reference_->nDims()) {
            reference_->merge(axis);
          }
          break;
        case 2:
        case 3:
          reference_->split(axis, below(4) + 1, below(3) > 0);
          break;
        case 4:
          if (axis + 1 < reference_->nDims()) {
            alignAt(axis);
          }
          break;
        default:
          swizzleAt(axis);
      }
    }
    transformLike(reference_);
    inlineMost();
  }

  bool is_sliced = false; // or aligned, so that what comes first is cut off

 private:
  static constexpr int64_t kMaxElements = 60;

  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  TensorView* any() {
    const auto n = static_cast<int64_t>(pool_.size());
    return pool_[static_cast<size_t>(std::max(below(n), below(n)))];
  }

  void swizzleAt(int64_t axis) {
    reference_->split(axis, 2);
    reference_->split(axis, 2);
    reference_->swizzle(below(2) == 0 ? SwizzleType::Xor : SwizzleType::CyclicShift, axis + 1,
                        axis + 2);
  }

  void alignAt(int64_t axis) {
    std::vector<IterDomain*> loop = reference_->getLoopDomain();
    IterDomain*& x = loop[static_cast<size_t>(axis)];
    IterDomain*& y = loop[static_cast<size_t>(axis) + 1];
    std::tie(x, y) = IterDomain::align(x, y, y->extent(), below(4) + 1);
    is_sliced = true;
    reference_->domain()->setLoopDomain(loop);
  }

  TensorView* step() {
    TensorView* x = any();
    switch (below(8)) {
      case 0:
        return sliced(x);
      case 1:
        return x->nDims() == 0 ? x : pad(x, Sizes{below(3), below(3)});
      case 2:
        return reshaped(x);
      case 3:
        return reshape(x, Sizes{numElements(x)});
      case 4:
        return x->nDims() > 3 ? neg(x) : broadcastAt(x, below(x->nDims() + 1));
      default:
        return combined(x, any());
    }
  }

  static TensorView* broadcastAt(TensorView* x, int64_t axis) {
    std::vector<bool> flags(static_cast<size_t>(x->nDims()) + 1, false);
    flags[static_cast<size_t>(axis)] = true;
    return broadcast(x, flags);
  }

  TensorView* sliced(TensorView* x) {
    Sizes start;
    Sizes stop;
    for (int64_t e : extentsOf(x)) {
      start.push_back(below(2) == 0 ? below(e) : 0);
      stop.push_back(below(2) == 0 ? e : start.back() + 1 + below(e - start.back()));
    }
    is_sliced = true;
    return slice(x, start, stop);
  }

  TensorView* reshaped(TensorView* x) {
    const int64_t n = numElements(x);
    Sizes divisors;
    for (int64_t d = 1; d <= n; ++d) {
      if (n % d == 0) {
        divisors.push_back(d);
      }
    }
    const int64_t outer =
        divisors[static_cast<size_t>(below(static_cast<int64_t>(divisors.size())))];
    return reshape(x, Sizes{outer, n / outer});
  }

  TensorView* combined(TensorView* x, TensorView* y) {
    const Sizes a = extentsOf(x);
    const Sizes b = extentsOf(y);
    bool fits = a.size() == b.size();
    for (size_t d = 0; fits && d < a.size(); ++d) {
      fits = a[d] == b[d] || x->axis(static_cast<int64_t>(d))->isBroadcast() ||
             y->axis(static_cast<int64_t>(d))->isBroadcast();
    }
    return fits ? add(x, y) : neg(x);
  }

  std::mt19937_64 random_;
  std::vector<TensorView*> pool_;
  TensorView* reference_ = nullptr;
};

uint64_t numberFrom(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Every element is written, and once; where a slice cuts off what comes first, maybe again.
TEST(Indexer, RepeatedIterationsAreExactlyThose) {
  const uint64_t first = numberFrom("NVFUSER_TEST_FIRST_SEED", 0);
  const uint64_t num = numberFrom("NVFUSER_TEST_SEEDS", 200);
  size_t scheduled = 0;
  for (uint64_t seed = first; seed < first + num; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomNest nest(seed);
    Fusion fusion;
    decide(*defineFusion([&](Fusion* f) { nest.define(f); }), &fusion);
    FusionGuard guard(&fusion);
    std::optional<IdModel> ids;
    std::optional<LoopModel> loops;
    try {
      nest.schedule(&fusion);
      ids.emplace(&fusion);
      loops.emplace(&fusion, *ids);
    } catch (const UserError&) {
      continue; // a schedule that can't be
    }
    if (ids->selfMapped() != nullptr) {
      continue;
    }
    ++scheduled;
    for (const TensorView* tv : fusion.allTvs()) {
      if (tv->isFusionInput()) {
        continue;
      }
      const Counts counts = countIterations(tv, *ids, *loops);
      EXPECT_EQ(counts.unwritten, 0U) << tv->toString() << "\n" << fusion.printMath();
      if (!nest.is_sliced) {
        EXPECT_EQ(counts.elements, static_cast<size_t>(numElements(tv))) << tv->toString();
        EXPECT_EQ(counts.repeated, 0U) << tv->toString() << "\n" << fusion.printMath();
      }
    }
  }
  EXPECT_GT(scheduled, num / 2);
}

// Of [2, 3], flattened, the last four elements are read: the first row is left with its last
// column.
TEST(Indexer, AnElementIsWrittenWhereTheFirstIterationsAreCutOff) {
  Fusion fusion;
  decide(*defineFusion([](Fusion* f) {
    TensorView* a = addInput(f, makeContigConcreteTensor({2, 1}));
    TensorView* b = addInput(f, makeContigConcreteTensor({2, 3}));
    TensorView* flat = reshape(add(neg(a), b), Sizes{6});
    f->addOutput(slice(flat, Sizes{2}, Sizes{6}));
  }),
         &fusion);
  FusionGuard guard(&fusion);
  auto* out = fusion.outputs()[0]->as<TensorView>();
  transformLike(out);
  inlineMost();
  const auto* rows = fusion.inputs()[0]->uses().front()->output(0)->as<TensorView>();
  IdModel ids(&fusion);
  LoopModel loops(&fusion, ids);
  const Counts counts = countIterations(rows, ids, loops);
  EXPECT_EQ(counts.elements, 2U);
  EXPECT_EQ(counts.unwritten, 0U);
}

// The second axis of the sum is the one that was padded to become the first. Its index, which is
// known at once, says nothing of the first axis.
TEST(Indexer, AnAxisHasNoIndexFromWhereItWasPadded) {
  Fusion fusion;
  decide(*defineFusion([](Fusion* f) {
    TensorView* x = neg(addInput(f, makeContigConcreteTensor({1, 1})));
    TensorView* column = broadcast(reshape(pad(x, Sizes{1, 2}), Sizes{4}), {false, true});
    f->addOutput(add(column, x));
  }),
         &fusion);
  FusionGuard guard(&fusion);
  auto* out = fusion.outputs()[0]->as<TensorView>();
  out->split(0, 2);
  out->split(0, 2);
  transformLike(out);
  inlineMost();
  IdModel ids(&fusion);
  LoopModel loops(&fusion, ids);
  const Counts counts = countIterations(out, ids, loops);
  EXPECT_EQ(counts.elements, 4U);
  EXPECT_EQ(counts.unwritten, 0U);
  EXPECT_EQ(counts.repeated, 0U);
}

} // namespace
} // namespace nvfuser::test
