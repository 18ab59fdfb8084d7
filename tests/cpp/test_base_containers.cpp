// SPDX-License-Identifier: BSD-3-Clause
// Disjoint sets, unique vectors, small vectors.
#include <gtest/gtest.h>

#include <base/disjoint_set.h>
#include <base/small_vector.h>
#include <base/string_utils.h>

#include <map>
#include <random>

namespace nvfuser {
namespace {

TEST(DisjointSets, MapsTransitively) {
  DisjointSets<int> sets;
  sets.mapEntries(1, 2);
  sets.mapEntries(3, 4);
  EXPECT_FALSE(sets.strictAreMapped(1, 4));
  sets.mapEntries(2, 3);
  EXPECT_TRUE(sets.strictAreMapped(1, 4));
  EXPECT_FALSE(sets.permissiveAreMapped(1, 9));
  EXPECT_THROW(sets.strictAreMapped(9, 1), InternalError);
  EXPECT_EQ(sets.getDisjointSetOf(4).vector(), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(sets.disjointSets().size(), 1U);
}

TEST(DisjointSets, CopiesAreIndependent) {
  DisjointSets<int> sets;
  sets.mapEntries(1, 2);
  sets.initializeSet(3);
  DisjointSets<int> copy = sets;
  copy.mapEntries(1, 3);
  EXPECT_FALSE(sets.strictAreMapped(1, 3));
  EXPECT_TRUE(copy.strictAreMapped(2, 3));
  EXPECT_TRUE(sets.erase(3));
  EXPECT_FALSE(sets.erase(3));
  EXPECT_EQ(sets.size(), 1U);
  EXPECT_EQ(copy.allElements(), (std::vector<int>{1, 2, 3}));
}

TEST(DisjointSets, AgreesWithLabels) {
  std::mt19937 random(7);
  DisjointSets<int> sets;
  std::map<int, int> label;
  for (int i = 0; i < 60; ++i) {
    sets.initializeSet(i);
    label[i] = i;
  }
  for (int step = 0; step < 45; ++step) {
    const int a = int(random() % 60);
    const int b = int(random() % 60);
    sets.mapEntries(a, b);
    const int from = label[b];
    const int to = label[a];
    for (auto& [entry, value] : label) {
      value = value == from ? to : value;
    }
  }
  size_t members = 0;
  for (const auto& set : sets.disjointSets()) {
    members += set->size();
  }
  EXPECT_EQ(members, 60U);
  for (int a = 0; a < 60; ++a) {
    for (int b = 0; b < 60; ++b) {
      EXPECT_EQ(sets.strictAreMapped(a, b), label[a] == label[b]);
    }
  }
}

TEST(VectorOfUniqueEntries, KeepsFirstOccurrences) {
  VectorOfUniqueEntries<int> v = {3, 1, 3, 2};
  EXPECT_EQ(v.vector(), (std::vector<int>{3, 1, 2}));
  EXPECT_FALSE(v.pushBack(1));
  EXPECT_TRUE(v.erase(1));
  EXPECT_FALSE(v.has(1));
  EXPECT_EQ(v.popBack(), 2);
  EXPECT_EQ(v.size(), 1U);
}

TEST(SmallVector, GrowsCopiesAndMoves) {
  SmallVector<int64_t, 4> v;
  for (int64_t i = 0; i < 20; ++i) {
    v.push_back(i);
  }
  SmallVector<int64_t, 4> copy = v;
  SmallVector<int64_t, 4> moved = std::move(v);
  EXPECT_TRUE(v.empty());
  EXPECT_EQ(copy, moved);
  v = {1, 2};
  copy = v;
  EXPECT_EQ(copy.vec(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(moved.size(), 20U);
  EXPECT_EQ(moved.back(), 19);
  moved.resize(2);
  moved.resize(4, 7);
  EXPECT_EQ(moved.vec(), (std::vector<int64_t>{0, 1, 7, 7}));
}

TEST(StringUtils, SplitTrimIndentReplace) {
  EXPECT_EQ(split("a,,b", ',').size(), 3U);
  EXPECT_EQ(split("", ',').size(), 1U);
  EXPECT_EQ(trim(" \ta b\n"), "a b");
  EXPECT_EQ(indent("a\n\nb\n", 2), "  a\n\n  b\n");
  EXPECT_EQ(replaceAll("aXbX", "X", "XX"), "aXXbXX");
  EXPECT_EQ(join(std::vector<int>{1, 2, 3}), "1, 2, 3");
}

} // namespace
} // namespace nvfuser
