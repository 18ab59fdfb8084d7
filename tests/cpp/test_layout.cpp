// SPDX-License-Identifier: BSD-3-Clause
// What lies together in memory: runs of loops along tensors. The rules one by one, then random
// fusions with random schedules, of which every vector that is promised is looked at.
#include <base/string_utils.h>
#include <definition/rebuild.h>
#include <id_model/axis_terms.h>
#include <id_model/indexer.h>
#include <id_model/layout.h>
#include <id_model/loop_model.h>
#include <ir/evaluator.h>
#include <transform/inlining.h>
#include <transform/propagate.h>

#include "executor_for_test.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

class LayoutTest : public testing::Test {
 protected:
  TensorView* input(const Sizes& shape) {
    TensorView* tv = makeContigConcreteTensor(shape);
    fusion_.addInput(tv);
    return tv;
  }
  TensorView* symbolic(int64_t rank) {
    TensorView* tv = makeContigTensor(rank);
    fusion_.addInput(tv);
    return tv;
  }
  static void orderMemory(TensorView* tv, const std::vector<int64_t>& order,
                          const TensorDomain::Contiguity& contiguity) {
    std::vector<IterDomain*> ids;
    for (int64_t position : order) {
      ids.push_back(tv->getLogicalDomain()[static_cast<size_t>(position)]);
    }
    tv->setAllocationDomain(ids, contiguity);
  }

  // The run of the tensor's last loop axis along the memory of an operand, or its own.
  ContiguousRun run(const TensorView* by, const TensorView* memory) {
    ids_.emplace(&fusion_);
    layout_.emplace(*ids_);
    return layout_->runOf(ids_->exact().group(by->getLoopDomain().back()),
                          layout_->accessedDims(memory, by));
  }
  // "2: 4*8 8": two digits, vectors divide 32 and 8. Empty: there is no run.
  std::string text(const TensorView* by, const TensorView* memory) {
    const ContiguousRun found = run(by, memory);
    std::string out;
    for (const auto& product : found.multiples) {
      std::vector<std::string> factors;
      for (const Val* v : product) {
        factors.push_back(v->toInlineString());
      }
      out += " " + join(factors, "*");
    }
    return found.empty() ? "" : std::to_string(found.digits) + ":" + out;
  }

  Fusion fusion_;
  FusionGuard guard_{&fusion_};
  std::optional<IdModel> ids_;
  std::optional<Layout> layout_;
};

TEST_F(LayoutTest, MemoryHasNoBroadcastsAndNoReductions) {
  TensorView* x = input({4, 1, 6});
  TensorView* y = sum(x, {0});
  fusion_.addOutput(y);
  orderMemory(x, {2, 1, 0}, {true, std::nullopt, false});
  const std::vector<MemoryDim> dims = memoryDims(x);
  ASSERT_EQ(dims.size(), 2);
  EXPECT_EQ(dims[0].id, x->getLogicalDomain()[2]);
  EXPECT_EQ(dims[0].position, 0);
  EXPECT_TRUE(dims[0].contiguous);
  EXPECT_EQ(dims[1].id, x->getLogicalDomain()[0]);
  EXPECT_EQ(dims[1].position, 2);
  EXPECT_FALSE(dims[1].contiguous);
  ASSERT_EQ(memoryDims(y).size(), 1);
  EXPECT_EQ(memoryDims(y)[0].position, 1); // the broadcast is 0
}

TEST_F(LayoutTest, OrderInMemory) {
  TensorView* x = input({4, 1, 6});
  TensorView* y = sum(x, {0});
  TensorView* z = neg(x);
  fusion_.addOutput(y);
  fusion_.addOutput(z);
  EXPECT_EQ(x->domain()->memoryOrder(), (std::vector<size_t>{0, 1, 2}));
  orderMemory(x, {2, 0, 1}, {true, false, std::nullopt});
  EXPECT_EQ(x->domain()->memoryOrder(), (std::vector<size_t>{2, 0, 1}));
  EXPECT_EQ(y->domain()->memoryOrder(), (std::vector<size_t>{0, 1})); // without the reduced one
  z->split(2, 3);
  z->setAllocationDomain(z->getLoopDomain(), true);
  EXPECT_TRUE(z->domain()->memoryOrder().empty());
}

TEST_F(LayoutTest, ThePartOfASplit) {
  TensorView* x = input({5, 12});
  TensorView* y = neg(x);
  fusion_.addOutput(y);
  y->split(1, 4);
  EXPECT_EQ(text(y, x), "1: 4"); // 4 divides 12
  EXPECT_EQ(text(y, y), "1: 4");
}

TEST_F(LayoutTest, WhatASplitMayNotDivide) {
  TensorView* x = symbolic(1);
  TensorView* y = neg(x);
  fusion_.addOutput(y);
  y->split(0, 128);
  y->split(1, 4);
  EXPECT_EQ(text(y, x), "1: 4 128 i0"); // 4 divides 128, but what of the length?
}

TEST_F(LayoutTest, MergesGoOnWhereMemoryDoes) {
  TensorView* x = symbolic(3);
  TensorView* y = neg(x);
  fusion_.addOutput(y);
  y->flatten();
  y->split(0, 4);
  EXPECT_EQ(text(y, x), "3: 4 i2*i1*i0");
  orderMemory(x, {0, 1, 2}, {true, false, true});
  EXPECT_EQ(text(y, x), "1: 4 i2");
  orderMemory(x, {0, 1, 2}, {false, true, true});
  EXPECT_EQ(text(y, x), "2: 4 i2*i1");
  orderMemory(x, {0, 1, 2}, {true, true, false});
  EXPECT_EQ(text(y, x), "");
}

TEST_F(LayoutTest, PermutedMemory) {
  TensorView* x = symbolic(3);
  TensorView* y = neg(x);
  fusion_.addOutput(y);
  orderMemory(x, {1, 0, 2}, {true, true, true});
  y->flatten();
  y->split(0, 4);
  EXPECT_EQ(text(y, x), "1: 4 i2"); // behind it comes what is not its neighbour
  orderMemory(x, {0, 2, 1}, {true, true, true});
  EXPECT_EQ(text(y, x), "");
}

TEST_F(LayoutTest, BroadcastsAreOneElement) {
  TensorView* x = input({6, 1, 8});
  TensorView* y = input({6, 5, 8});
  TensorView* z = add(x, y);
  fusion_.addOutput(z);
  z->flatten();
  z->split(0, 4);
  EXPECT_EQ(text(z, x), "1: 4 8"); // read again for each of 5
  EXPECT_EQ(text(z, y), "3: 4");   // 4 divides 240
  z->domain()->setLoopDomain(z->getLogicalDomain());
  z->reorder(std::unordered_map<int64_t, int64_t>{{1, 2}});
  EXPECT_EQ(text(z, x), "");
}

TEST_F(LayoutTest, ExpandedDimensionsAreOneElement) {
  TensorView* x = input({6, 1});
  TensorView* y = expand(x, {IrBuilder::index(6), IrBuilder::index(8)});
  fusion_.addOutput(neg(y));
  auto* out = fusion_.outputs()[0]->as<TensorView>();
  out->split(1, 4);
  EXPECT_EQ(text(y, x), "");
  EXPECT_EQ(text(y, y), ""); // the last axis is of one iteration, which is no place in memory
  EXPECT_EQ(memoryDims(y).size(), 1);
}

TEST_F(LayoutTest, ReshapesInBothDirections) {
  TensorView* x = input({4, 6, 8});
  TensorView* merged = reshape(x, {24, 8});
  TensorView* split = reshape(x, {4, 3, 2, 8});
  fusion_.addOutput(merged);
  fusion_.addOutput(split);
  merged->flatten();
  merged->split(0, 4);
  EXPECT_EQ(text(merged, x), "3: 4");
  split->merge(1)->merge(0)->merge(0); // in an order that is not the reshape's
  split->split(0, 4);
  EXPECT_EQ(text(split, x), "3: 4");
  EXPECT_EQ(text(split, split), "4: 4");
}

TEST_F(LayoutTest, APartOfAReshapedDimension) {
  TensorView* x = input({30});
  TensorView* y = reshape(x, {5, 6});
  fusion_.addOutput(y);
  y->domain()->setLoopDomain(y->getLogicalDomain());
  EXPECT_EQ(text(y, x), "1: 6");
  y->merge(0)->split(0, 2);
  EXPECT_EQ(text(y, x), "1: 2");
  y->domain()->setLoopDomain({y->getLogicalDomain()[1], y->getLogicalDomain()[0]});
  EXPECT_EQ(text(y, x), ""); // the outer part
  y->merge(0)->split(0, 2);
  EXPECT_EQ(text(y, x), "");
}

TEST_F(LayoutTest, SlicesAndPadsBeginAndEndBetweenVectors) {
  TensorView* x = input({5, 20});
  TensorView* sliced = slice(x, {0, 4}, {5, 16});
  TensorView* padded = pad(x, Sizes{8, 4});
  fusion_.addOutput(sliced);
  fusion_.addOutput(padded);
  sliced->split(1, 4);
  padded->split(1, 4);
  EXPECT_EQ(text(sliced, x), "1: 4 -4 12 20");
  EXPECT_EQ(text(padded, x), "1: 4 8 32 20");
  EXPECT_EQ(text(padded, padded), "1: 4");
  EXPECT_TRUE(run(padded, x).resized);
  EXPECT_FALSE(run(padded, padded).resized);
}

TEST_F(LayoutTest, SlicesOfOuterDimensionsEndTheRun) {
  TensorView* x = input({5, 6, 8});
  TensorView* y = slice(x, {0, 1, 0}, {5, 6, 8});
  fusion_.addOutput(y);
  y->flatten();
  y->split(0, 4);
  EXPECT_EQ(text(y, x), "1: 4 8");
  EXPECT_EQ(text(y, y), "3: 4");
}

TEST_F(LayoutTest, RowsThatAreAligned) {
  TensorView* x = input({5, 13});
  TensorView* w = input({13});
  TensorView* b = broadcast(w, {true, false});
  TensorView* y = add(x, b);
  fusion_.addOutput(y);
  auto [rows, elements] =
      IterDomain::align(y->axis(0), y->axis(1), y->axis(1)->extent(), /*width=*/4);
  y->domain()->setLoopDomain({rows, elements});
  y->split(1, 4);
  EXPECT_EQ(text(y, x), "2: 4");
  EXPECT_EQ(text(y, b), ""); // one row, which begins elsewhere for each of the aligned ones
  orderMemory(x, {0, 1}, {false, true});
  EXPECT_EQ(text(y, x), ""); // rows are not as far apart as they are long
  run(y, x);
  const IdGroup elements_of_row = ids_->exact().group(y->getLogicalDomain()[1]);
  const IdGroup vector = ids_->exact().group(y->getLoopDomain().back());
  EXPECT_FALSE(layout_->runInAlignedRow(vector, elements_of_row).empty());
  EXPECT_TRUE(layout_->runInAlignedRow(vector, vector).empty());
}

TEST_F(LayoutTest, JoinsWhatTheScheduleMerges) {
  TensorView* x = symbolic(3);
  TensorView* y = neg(x);
  fusion_.addOutput(y);
  orderMemory(x, {0, 1, 2}, {true, false, true});
  y->flatten();
  const IdModel ids(&fusion_);
  const Layout layout(ids);
  std::vector<AccessedDim> dims = layout.accessedDims(x, y);
  layout.joinContiguous(dims, [](const Merge* m) { return m->out(); });
  ASSERT_EQ(dims.size(), 2);
  EXPECT_EQ(dims[0].positions, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(dims[1].positions, (std::vector<size_t>{2}));
  dims = layout.accessedDims(y, y);
  layout.joinContiguous(dims, [](const Merge* m) { return m->out(); });
  ASSERT_EQ(dims.size(), 1);
  EXPECT_EQ(dims[0].id, y->axis(0));
  dims = layout.accessedDims(y, y);
  layout.joinContiguous(dims, [](const Merge*) -> IterDomain* { return nullptr; });
  EXPECT_EQ(dims.size(), 3);
}

// ---- before there are loops

class AxisTermsTest : public testing::Test {
 protected:
  // "2: 32" as above, of the axes along memory [4, 8] of dimensions 0 and 1.
  std::string run(const std::vector<AxisTerms::Id>& axes, bool stands_alone = false) {
    const std::vector<MemoryDigit> memory{{rows_, IrBuilder::index(4), contiguous_},
                                          {columns_, IrBuilder::index(8), true}};
    const ContiguousRun found = contiguousRun(memory, axes, AxisTermSteps(terms_, stands_alone));
    std::string out = std::to_string(found.digits) + ":";
    for (const auto& product : found.multiples) {
      int64_t n = 1;
      for (const Val* v : product) {
        n *= v->intValue();
      }
      out += " " + std::to_string(n);
    }
    return out;
  }
  AxisTerms::Id inner(AxisTerms::Id whole, int64_t factor, bool inner_split = true) {
    return terms_.splitPart(whole, IrBuilder::index(factor), inner_split, true);
  }
  AxisTerms::Id outer(AxisTerms::Id whole, int64_t factor, bool inner_split = true) {
    return terms_.splitPart(whole, IrBuilder::index(factor), inner_split, false);
  }

  Fusion fusion_;
  FusionGuard guard_{&fusion_};
  AxisTerms terms_;
  AxisTerms::Id rows_ = terms_.dimension(0);
  AxisTerms::Id columns_ = terms_.dimension(1);
  bool contiguous_ = true;
};

TEST_F(AxisTermsTest, AxesInTheOrderOfMemory) {
  EXPECT_EQ(run({rows_, columns_}), "2: 32");
  EXPECT_EQ(run({columns_}), "1: 8");
  EXPECT_EQ(run({columns_, rows_}), "0:");
  EXPECT_EQ(run({terms_.merge(rows_, columns_)}), "2: 32");
  contiguous_ = false;
  EXPECT_EQ(run({rows_, columns_}), "1: 8");
  EXPECT_EQ(terms_.knownDimension(1), columns_);
  EXPECT_EQ(terms_.knownDimension(2), -1);
}

TEST_F(AxisTermsTest, PartsOfADimension) {
  EXPECT_EQ(run({inner(columns_, 2)}), "1: 2");
  EXPECT_EQ(run({outer(columns_, 2), inner(columns_, 2)}), "1: 8");
  EXPECT_EQ(run({rows_, outer(columns_, 2), inner(columns_, 2)}), "2: 32");
  EXPECT_EQ(run({rows_, inner(columns_, 2)}), "1: 2");
  EXPECT_EQ(run({outer(columns_, 2)}), "0:");
  EXPECT_EQ(run({inner(columns_, 2, false)}), "0:"); // so many are not known
  const AxisTerms::Id half = outer(columns_, 2);
  EXPECT_EQ(run({outer(half, 2), inner(half, 2), inner(columns_, 2)}), "1: 8");
}

TEST_F(AxisTermsTest, WhatTheTensorLacks) {
  const AxisTerms::Id repeated = terms_.merge(AxisTerms::kMissing, columns_);
  EXPECT_EQ(run({rows_, repeated}), "1: 8");
  EXPECT_EQ(run({terms_.merge(columns_, AxisTerms::kMissing)}), "0:");
  EXPECT_EQ(run({outer(repeated, 4), inner(repeated, 4)}), "1: 8");
  EXPECT_EQ(run({outer(repeated, 4), inner(repeated, 4)}, /*stands_alone=*/true), "1: 4 8");
}

TEST_F(AxisTermsTest, SlicesAndPads) {
  const AxisTerms::Id padded = terms_.resize(columns_, IrBuilder::index(4), IrBuilder::index(-2));
  EXPECT_EQ(run({rows_, padded}), "1: 4 -2 8");
  const AxisTerms::Id padded_rows = terms_.resize(rows_, IrBuilder::index(4), IrBuilder::index(-2));
  EXPECT_EQ(run({padded_rows, columns_}), "1: 8");
}

// ---- random fusions

class RandomLayout {
 public:
  explicit RandomLayout(uint64_t seed) : random_(seed) {}

  void define(Fusion* fusion) {
    Sizes sizes;
    for (int64_t k = below(3) + 1; k > 0; --k) {
      sizes.push_back(Sizes{1, 2, 3, 4, 6, 8, 12}[static_cast<size_t>(below(7))]);
    }
    TensorView* tv = makeContigConcreteTensor(sizes);
    fusion->addInput(tv);
    for (int64_t k = below(4) + 1; k > 0; --k) {
      tv = step(fusion, tv);
    }
    fusion->addOutput(neg(tv));
  }

  void schedule(Fusion* fusion) {
    for (TensorView* tv : fusion->allTvs()) {
      orderMemory(tv);
    }
    auto* reference = fusion->outputs()[0]->as<TensorView>();
    for (int64_t k = below(5); k > 0; --k) {
      const int64_t axis = below(reference->nDims());
      if (below(3) == 0) {
        reference->split(axis, below(6) + 1, below(3) > 0);
      } else if (axis + 1 < reference->nDims()) {
        reference->merge(axis);
      }
    }
    reference->split(-1, below(2) == 0 ? 2 : 4);
    transformLike(reference);
    inlineMost();
  }

 private:
  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }

  static Sizes extentsOf(const TensorView* tv) {
    Sizes out;
    for (const IterDomain* id : logicalIds(tv)) {
      out.push_back(id->extent()->intValue());
    }
    return out;
  }

  void orderMemory(TensorView* tv) {
    std::vector<IterDomain*> ids = tv->getLogicalDomain();
    if (below(3) == 0) {
      std::shuffle(ids.begin(), ids.end(), random_);
    }
    TensorDomain::Contiguity contiguity = TensorDomain::contiguityFilledWith(ids, true);
    for (std::optional<bool>& c : contiguity) {
      if (c.has_value()) {
        c = below(5) > 0;
      }
    }
    tv->setAllocationDomain(ids, contiguity);
  }

  TensorView* step(Fusion* fusion, TensorView* x) {
    const Sizes sizes = extentsOf(x);
    const auto rank = static_cast<int64_t>(sizes.size());
    const auto axis = static_cast<size_t>(below(rank));
    Sizes other = sizes;
    switch (below(6)) {
      case 0: { // merge two dimensions
        if (axis + 1 == sizes.size()) {
          return neg(x);
        }
        other[axis] *= other[axis + 1];
        other.erase(other.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
        return reshape(x, other);
      }
      case 1: { // split one
        const int64_t factor = below(2) + 2;
        if (sizes[axis] % factor != 0 || rank > 3) {
          return neg(x);
        }
        other[axis] = factor;
        other.insert(other.begin() + static_cast<std::ptrdiff_t>(axis), sizes[axis] / factor);
        return reshape(x, other);
      }
      case 2: {
        Sizes start(sizes.size(), 0);
        start[axis] = sizes[axis] > 4 ? 4 : 0;
        return slice(x, start, sizes);
      }
      case 3:
        return pad(x, Sizes{2 * below(3), 2 * below(3)});
      case 4: {
        std::vector<int64_t> order(sizes.size());
        for (size_t i = 0; i < order.size(); ++i) {
          order[i] = static_cast<int64_t>(i);
        }
        std::shuffle(order.begin(), order.end(), random_);
        return permute(x, order);
      }
      default: {
        other[axis] = 1;
        TensorView* y = makeContigConcreteTensor(other);
        fusion->addInput(y);
        return add(x, y);
      }
    }
  }

  std::mt19937_64 random_;
};

// All iterations around a tensor: whether they count, and which element of a memory they access.
class Accesses {
 public:
  Accesses(const TensorView* by, const TensorView* memory, const IdModel& ids,
           const LoopModel& loops)
      : path_(loops.loops(by).path) {
    static const std::unordered_set<IdGroup> none;
    std::vector<std::pair<IdGroup, Val*>> known;
    for (const Loop* l : path_) {
      known.emplace_back(l->group, l->index);
    }
    std::vector<IdGroup> zeros;
    for (IdGroup g : ids.exact().groups()) {
      const auto& members = ids.exact().members(g);
      if (std::all_of(members.begin(), members.end(), [](auto* id) { return id->isBroadcast(); })) {
        zeros.push_back(g);
      }
    }
    Indexer indexer(ids.exact(), ids, std::move(known), none, {.zeros = zeros});
    std::vector<IdGroup> targets;
    for (const IterDomain* id : by->getLogicalDomain()) {
      if (!id->isBroadcast()) {
        targets.push_back(ids.exact().group(id));
      }
    }
    guards_ = indexer.guards(targets);
    const std::vector<AccessedDim> dims = Layout(ids).accessedDims(memory, by);
    int64_t span = 1;
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
      // Gaps are whole vectors.
      constexpr int64_t kGap = 8;
      const int64_t stride = dim->contiguous ? span : (span / kGap + 1) * kGap;
      const int64_t extent = dim->extent->intValue();
      Val* index = dim->group < 0 ? IrBuilder::index(0) : indexer.index(dim->group);
      digits_.push_back({index, extent, stride});
      span = stride * extent;
    }
  }

  int64_t numIterations() const {
    int64_t n = 1;
    for (const Loop* l : path_) {
      n *= l->extent->intValue();
    }
    return n;
  }
  // Whether vectors of all iterations of the last loop are whole, in one piece and aligned.
  bool areVectors() {
    are_vectors_ = true;
    visit(0);
    return are_vectors_;
  }

 private:
  struct Digit {
    Val* index;
    int64_t extent;
    int64_t stride;
  };

  void visit(size_t depth) {
    const Loop* l = path_[depth];
    const int64_t extent = l->index->isConst() ? 1 : l->extent->intValue();
    std::vector<std::optional<int64_t>> vector;
    for (int64_t i = 0; i < extent; ++i) {
      at_[l->index] = i;
      if (depth + 1 < path_.size()) {
        visit(depth + 1);
      } else {
        vector.push_back(address());
      }
    }
    for (size_t i = 0; i < vector.size(); ++i) {
      const bool follows =
          vector[i].has_value() == vector[0].has_value() &&
          (!vector[i].has_value() || *vector[i] == *vector[0] + static_cast<int64_t>(i));
      are_vectors_ = are_vectors_ && follows &&
                     vector[0].value_or(0) % static_cast<int64_t>(vector.size()) == 0;
    }
  }

  // Nullopt outside of the tensors.
  std::optional<int64_t> address() const {
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
        return std::nullopt;
      }
    }
    int64_t out = 0;
    for (const Digit& digit : digits_) {
      const int64_t index = evaluator.evaluateInt(digit.index);
      if (index < 0 || index >= digit.extent) {
        return std::nullopt;
      }
      out += index * digit.stride;
    }
    return out;
  }

  std::vector<Loop*> path_;
  std::vector<BoundsGuard> guards_;
  std::vector<Digit> digits_;
  std::map<const Val*, int64_t> at_;
  bool are_vectors_ = true;
};

bool allDivide(const ContiguousRun& run, int64_t width) {
  return std::all_of(run.multiples.begin(), run.multiples.end(), [&](const auto& product) {
    int64_t n = 1;
    for (const Val* v : product) {
      n *= v->intValue();
    }
    return n % width == 0;
  });
}

// Every vector that a run promises is one; and most that are one are promised.
TEST(Layout, PromisedVectorsAreWholeAndAligned) {
  constexpr uint64_t kSeeds = 300;
  int promised = 0;
  int missed = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomLayout random(seed);
    Fusion fusion;
    ScalarEvaluator sizes;
    const std::shared_ptr<Fusion> defined = defineFusion([&](Fusion* f) { random.define(f); });
    concretize(*defined, concretizationInfo(*defined, sizes), &fusion);
    FusionGuard guard(&fusion);
    std::optional<IdModel> ids;
    std::optional<LoopModel> loops;
    try {
      random.schedule(&fusion);
      ids.emplace(&fusion);
      loops.emplace(&fusion, *ids);
    } catch (const UserError&) {
      continue; // a schedule that can't be
    }
    const Layout layout(*ids);
    auto look = [&](const TensorView* by, const TensorView* memory) {
      const TensorLoops& around = loops->loops(by);
      if (around.own.empty() || around.path.back() != around.own.back() ||
          around.path.back()->index->isConst()) {
        return;
      }
      const Loop* vector = around.path.back();
      const ContiguousRun run = layout.runOf(vector->group, layout.accessedDims(memory, by));
      const auto width = vector->extent->intValue();
      constexpr int64_t kMostIterations = 2000;
      Accesses accesses(by, memory, *ids, *loops);
      if (accesses.numIterations() > kMostIterations) {
        return;
      }
      const bool are_vectors = accesses.areVectors();
      if (!run.empty() && allDivide(run, width)) {
        ++promised;
        EXPECT_TRUE(are_vectors) << by->toString() << " of " << memory->toString() << " "
                                 << memory->domain()->toString();
      } else {
        missed += are_vectors ? 1 : 0;
      }
    };
    for (const Expr* e : fusion.exprs()) {
      const auto* tv = e->output(0)->as<TensorView>();
      look(tv, tv);
      for (const Val* in : e->inputs()) {
        if (in->isTensor()) {
          look(tv, in->as<TensorView>());
        }
      }
    }
  }
  EXPECT_GT(promised, 300);
  EXPECT_LT(missed, promised / 10);
}

} // namespace
} // namespace nvfuser::test
