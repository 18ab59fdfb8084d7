// SPDX-License-Identifier: BSD-3-Clause
// The simplifier: what lowering needs from it by example, and that it is never wrong by random
// expressions compared with the evaluator.
#include <algebra/simplify.h>
#include <fusion.h>
#include <ir/evaluator.h>

#include <gtest/gtest.h>

#include <chrono>
#include <random>

using namespace nvfuser;

namespace {

Val* add(Val* a, Val* b) {
  return IrBuilder::addExpr(a, b);
}
Val* sub(Val* a, Val* b) {
  return IrBuilder::subExpr(a, b);
}
Val* mul(Val* a, Val* b) {
  return IrBuilder::mulExpr(a, b);
}
Val* div(Val* a, Val* b) {
  return IrBuilder::divExpr(a, b);
}
Val* mod(Val* a, Val* b) {
  return IrBuilder::modExpr(a, b);
}
Val* ceilDiv(Val* a, Val* b) {
  return IrBuilder::ceilDivExpr(a, b);
}
Val* lt(Val* a, Val* b) {
  return IrBuilder::ltExpr(a, b);
}
Val* c(int64_t x) {
  return IrBuilder::index(x);
}
Val* named(const char* text) {
  return IrBuilder::create<NamedScalar>(text, DataType::Index);
}

class SimplifyTest : public ::testing::Test {
 protected:
  // An index in [0, bound).
  Val* index(Val* bound) {
    Val* i = IrBuilder::create<Val>(DataType::Index);
    assume.setUpperBound(i, bound);
    return i;
  }
  std::string text(Val* v) {
    return simplify(v, assume)->toInlineString();
  }
  static std::string name(Val* v) {
    return v->toInlineString();
  }
  bool isTrue(Val* v) {
    return provablyTrue(v, assume);
  }

  Fusion fusion;
  FusionGuard guard{&fusion};
  Assumptions assume;
  // Extents: i0, i1, i2.
  Val* e0 = IrBuilder::create<Val>(DataType::Index);
  Val* e1 = IrBuilder::create<Val>(DataType::Index);
  Val* e2 = IrBuilder::create<Val>(DataType::Index);
};

} // namespace

TEST_F(SimplifyTest, FoldsConstantsAndCollectsTerms) {
  EXPECT_EQ(text(add(mul(e0, c(2)), sub(mul(c(3), e0), c(4)))), "( ( i0 * 5 ) - 4 )");
  EXPECT_EQ(text(sub(add(e0, e1), e0)), "i1");
  EXPECT_EQ(text(sub(e0, e0)), "0");
  EXPECT_EQ(text(mul(add(e0, c(1)), c(0))), "0");
}

TEST_F(SimplifyTest, FlatIndicesStayFlatAndReadable) {
  Val* b = named("blockIdx.x");
  Val* t = named("threadIdx.x");
  Val* u = index(c(4));
  Val* nested = add(mul(add(mul(b, c(4)), u), c(128)), t);
  EXPECT_EQ(text(nested), "( ( ( blockIdx.x * 512 ) + ( " + name(u) + " * 128 ) ) + threadIdx.x )");
}

TEST_F(SimplifyTest, SharedExtentsAreFactoredOut) {
  Val* x = index(e0);
  Val* y = index(e1);
  Val* z = index(e2);
  Val* flat = add(add(mul(mul(x, e1), e2), mul(y, e2)), z);
  EXPECT_EQ(text(flat), "( ( ( ( i3 * i1 ) + i4 ) * i2 ) + i5 )");
  EXPECT_EQ(text(mul(add(e0, c(4)), add(e1, c(2)))), "( ( i0 + 4 ) * ( i1 + 2 ) )");
}

TEST_F(SimplifyTest, DivisionUndoesMerge) {
  Val* x = index(e0);
  Val* y = index(e1);
  Val* merged = add(mul(x, e1), y);
  EXPECT_EQ(text(div(merged, e1)), "i3");
  EXPECT_EQ(text(mod(merged, e1)), "i4");
  Val* z = index(e2);
  Val* three = add(mul(merged, e2), z);
  EXPECT_EQ(text(div(three, mul(e1, e2))), "i3");
  EXPECT_EQ(text(mod(div(three, e2), e1)), "i4");
  EXPECT_EQ(text(mod(three, e2)), name(z));
  EXPECT_EQ(text(div(div(three, e2), e1)), "i3");
}

TEST_F(SimplifyTest, DivisionBySums) {
  Val* padded = add(e1, c(2));
  Val* x = index(e0);
  Val* y = index(padded);
  Val* merged = add(mul(x, padded), y);
  EXPECT_EQ(text(div(merged, padded)), name(x));
  EXPECT_EQ(text(mod(merged, padded)), name(y));
}

TEST_F(SimplifyTest, MergeUndoesSplit) {
  Val* x = index(e0);
  EXPECT_EQ(text(add(mul(div(x, c(4)), c(4)), mod(x, c(4)))), "i3");
  EXPECT_EQ(text(add(mul(div(x, e1), e1), mod(x, e1))), "i3");
  // Two splits.
  Val* q = div(x, c(4));
  Val* twice = add(add(mul(div(q, c(3)), c(12)), mul(mod(q, c(3)), c(4))), mod(x, c(4)));
  EXPECT_EQ(text(twice), "i3");
  // The remainder has lost multiples of the divisor.
  Val* b = named("blockIdx.x");
  Val* n = add(add(mul(b, c(1536)), mul(x, c(128))), named("threadIdx.y"));
  EXPECT_EQ(text(add(mul(div(n, c(56)), c(14336)), mul(mod(n, c(56)), c(256)))),
            text(mul(n, c(256))));
}

TEST_F(SimplifyTest, VectorizedSplitOfAFlatIndex) {
  Val* b = named("blockIdx.x");
  Val* t = named("threadIdx.x");
  assume.setUpperBound(t, c(128));
  Val* v = index(c(4));
  Val* i = add(mul(add(mul(b, c(128)), t), c(4)), v);
  EXPECT_EQ(text(div(i, c(512))), "blockIdx.x");
  EXPECT_EQ(text(mod(i, c(512))), "( ( threadIdx.x * 4 ) + " + name(v) + " )");
  EXPECT_EQ(text(div(i, c(1024))), "( blockIdx.x / 2 )");
  EXPECT_EQ(text(div(i, c(4))), "( ( blockIdx.x * 128 ) + threadIdx.x )");
  EXPECT_TRUE(provablyDivisible(sub(i, v), c(4), assume));
  EXPECT_FALSE(provablyDivisible(i, c(4), assume));
}

TEST_F(SimplifyTest, NestedDivisions) {
  EXPECT_EQ(text(div(div(e0, c(4)), c(8))), "( i0 / 32 )");
  EXPECT_EQ(text(ceilDiv(ceilDiv(e0, c(128)), c(4))), "( ceilDiv(i0, 512) )");
  EXPECT_EQ(text(mul(ceilDiv(ceilDiv(e0, c(128)), c(4)), c(512))),
            "( ( ceilDiv(i0, 512) ) * 512 )");
  EXPECT_EQ(text(mod(mod(e0, c(512)), c(128))), "( i0 % 128 )");
  EXPECT_EQ(text(div(mod(e0, c(512)), c(128))), "( ( i0 / 128 ) % 4 )");
  EXPECT_EQ(text(ceilDiv(mul(e0, c(8)), c(4))), "( i0 * 2 )");
  // Nothing negative is rounded up: kernels could not.
  Val* phase = IrBuilder::modExpr(e0, c(8));
  EXPECT_EQ(text(ceilDiv(sub(mul(e1, c(8)), phase), c(8))), "i1");
  EXPECT_EQ(text(ceilDiv(sub(mul(e1, c(8)), phase), c(4))), "( ( i1 * 2 ) - ( ( i0 / 4 ) % 2 ) )");
  EXPECT_EQ(text(ceilDiv(add(mul(e1, c(8)), sub(e0, c(3))), c(8))),
            "( ceilDiv(( ( ( i1 * 8 ) + i0 ) - 3 ), 8) )");
  EXPECT_EQ(text(div(mul(e0, e1), e1)), "i0");
}

TEST_F(SimplifyTest, QuotientAndRemainderAreOfOneNumber) {
  // Of 256 j + t both are taken of 11 j + t: one division gives both.
  Val* n = add(mul(e0, c(256)), e1);
  const std::string rest = "( ( i0 * 11 ) + i1 )";
  EXPECT_EQ(text(mod(n, c(49))), "( " + rest + " % 49 )");
  EXPECT_EQ(text(div(n, c(49))), "( ( i0 * 5 ) + ( " + rest + " / 49 ) )");
}

TEST_F(SimplifyTest, SignsMatterForTruncatingDivision) {
  Val* n = IrBuilder::create<Val>(DataType::Int); // any sign
  Val* four = IrBuilder::create<Val>(int64_t{4}, DataType::Int);
  // (4n + 3) / 4 is n for n >= 0 only.
  Val* e = div(add(mul(n, four), IrBuilder::create<Val>(int64_t{3}, DataType::Int)), four);
  EXPECT_NE(text(e), n->toInlineString());
  EXPECT_EQ(text(div(mul(n, four), four)), n->toInlineString());
  EXPECT_EQ(simplify(e, assume)->dtype(), DataType::Int);
}

TEST_F(SimplifyTest, UserIndexInputsMayBeNegative) {
  Val* n = IrBuilder::create<Val>(DataType::Index);
  fusion.addInput(n);
  EXPECT_FALSE(isTrue(IrBuilder::geExpr(n, c(0))));
  EXPECT_TRUE(isTrue(IrBuilder::geExpr(e0, c(0))));
}

TEST_F(SimplifyTest, PredicatesDecidedByBounds) {
  Val* x = index(e0);
  Val* y = index(e1);
  EXPECT_TRUE(isTrue(lt(x, e0)));
  EXPECT_TRUE(isTrue(lt(add(mul(x, e1), y), mul(e0, e1))));
  EXPECT_FALSE(isTrue(lt(y, mul(e0, e2))));
  EXPECT_TRUE(isTrue(lt(y, mul(e0, e1)))); // e0 >= 1: there is an index below it
  EXPECT_TRUE(isTrue(IrBuilder::geExpr(mul(x, y), c(0))));
  EXPECT_TRUE(isTrue(IrBuilder::geExpr(mul(ceilDiv(e2, c(128)), c(128)), e2)));
  Val* b = index(ceilDiv(e2, c(128)));
  Val* t = index(c(128));
  Val* i = add(mul(b, c(128)), t);
  EXPECT_FALSE(isTrue(lt(i, e2)));
  EXPECT_TRUE(isTrue(lt(mul(b, c(128)), e2)));
  EXPECT_TRUE(isTrue(lt(i, mul(ceilDiv(e2, c(128)), c(128)))));
  EXPECT_TRUE(isTrue(lt(div(add(mul(x, e1), y), e1), e0)));
}

TEST_F(SimplifyTest, PredicatesAreReadable) {
  Val* b = named("blockIdx.x");
  Val* t = named("threadIdx.x");
  assume.setUpperBound(t, c(128));
  Val* i = add(mul(b, c(128)), t);
  EXPECT_EQ(text(lt(i, e0)), "( ( ( blockIdx.x * 128 ) + threadIdx.x ) < i0 )");
  EXPECT_EQ(text(lt(i, c(1024))), "( blockIdx.x < 8 )");
  EXPECT_EQ(text(lt(i, mul(e0, c(128)))), "( blockIdx.x < i0 )");
  EXPECT_EQ(text(IrBuilder::leExpr(i, sub(e0, c(1)))), text(lt(i, e0)));
  EXPECT_EQ(text(IrBuilder::geExpr(b, c(3))), "( blockIdx.x >= 3 )");
  EXPECT_EQ(text(lt(sub(b, c(3)), e0)), "( blockIdx.x < ( i0 + 3 ) )");
}

TEST_F(SimplifyTest, LogicDropsWhatIsImplied) {
  Val* p = lt(e0, c(5));
  Val* q = lt(e0, c(9));
  EXPECT_EQ(text(IrBuilder::logicalAndExpr(p, q)), "( i0 < 5 )");
  EXPECT_EQ(text(IrBuilder::logicalOrExpr(p, q)), "( i0 < 9 )");
  EXPECT_EQ(text(IrBuilder::logicalAndExpr(p, IrBuilder::logicalNotExpr(p))), "false");
  EXPECT_EQ(text(IrBuilder::logicalOrExpr(p, IrBuilder::logicalNotExpr(p))), "true");
  EXPECT_EQ(text(IrBuilder::logicalAndExpr(p, IrBuilder::gtExpr(e0, c(7)))), "false");
  Val* x = index(e1);
  EXPECT_EQ(text(IrBuilder::logicalAndExpr(lt(x, e1), p)), "( i0 < 5 )");
}

TEST_F(SimplifyTest, MinimaMaximaAndChoices) {
  Val* x = index(e0);
  EXPECT_EQ(text(IrBuilder::minExpr(x, e0)), "i3");
  EXPECT_EQ(text(IrBuilder::maxExpr(x, add(e0, c(1)))), "( i0 + 1 )");
  EXPECT_EQ(text(IrBuilder::maxExpr(x, c(0))), "i3");
  EXPECT_EQ(text(IrBuilder::whereExpr(lt(x, e0), x, c(0))), "i3");
  EXPECT_TRUE(isTrue(IrBuilder::leExpr(IrBuilder::minExpr(e1, e2), e2)));
}

TEST_F(SimplifyTest, LoopsOfOneIterationHaveIndexZero) {
  Val* x = index(c(1));
  EXPECT_EQ(text(add(mul(e0, x), e1)), "i1");
}

TEST_F(SimplifyTest, KeepsTypeAndNode) {
  Val* kept = add(e0, c(1));
  EXPECT_EQ(simplify(kept), kept);
  Val* n = IrBuilder::create<Val>(DataType::Int);
  Val* wide = add(IrBuilder::castExpr(DataType::Index, n), sub(e0, e0));
  EXPECT_EQ(simplify(wide)->dtype(), DataType::Index);
}

TEST_F(SimplifyTest, LargeConstantsAreLeftAlone) {
  Val* big = c(int64_t{1} << 62);
  Val* e = mul(mul(e0, big), big);
  EXPECT_EQ(simplify(e), e);
  EXPECT_FALSE(provablyEqual(e, mul(e0, c(0))));
}

TEST_F(SimplifyTest, FloatsAreNotLookedInto) {
  Val* d = IrBuilder::create<Val>(DataType::Double);
  Val* e = IrBuilder::addExpr(d, d);
  EXPECT_EQ(simplify(e), e);
  Val* p = lt(e, d);
  EXPECT_EQ(simplify(p), p);
}

TEST_F(SimplifyTest, Ranges) {
  Val* x = index(c(10));
  Range r = rangeOf(add(mul(x, c(3)), c(1)), assume);
  EXPECT_EQ(r.min, 1);
  EXPECT_EQ(r.max, 28);
  r = rangeOf(mod(e0, c(7)), assume);
  EXPECT_EQ(r.min, 0);
  EXPECT_EQ(r.max, 6);
  EXPECT_FALSE(rangeOf(e0, assume).max.has_value());
}

TEST_F(SimplifyTest, OrderDoesNotDependOnHowItWasWritten) {
  Val* x = index(e0);
  Val* y = index(e1);
  Val* one = add(mul(x, e1), add(y, mul(c(2), e2)));
  Val* other = add(add(mul(e2, c(2)), mul(e1, x)), y);
  EXPECT_EQ(text(one), text(other));
  EXPECT_TRUE(provablyEqual(one, other, assume));
}

// ---- Random expressions

namespace {

// Random expressions over extents, bounded indices and free integers.
class Generator {
 public:
  Generator(uint64_t seed, Assumptions& assume) : rng_(seed), assume_(assume) {
    for (int i = 0; i < 3; ++i) {
      extents_.push_back(IrBuilder::create<Val>(DataType::Index));
    }
    auto bounded = [&](Val* bound) {
      Val* i = IrBuilder::create<Val>(DataType::Index);
      assume_.setUpperBound(i, bound);
      indices_.emplace_back(i, bound);
    };
    bounded(c(4));
    bounded(extents_[0]);
    bounded(extents_[1]);
    bounded(ceilDiv(extents_[2], c(4)));
    bounded(mul(extents_[0], extents_[1]));
    free_ = IrBuilder::create<Val>(DataType::Int);
    narrow_ = IrBuilder::create<Val>(DataType::Int);
    assume_.setRange(narrow_, {-3, 5});
  }

  int pick(int n) {
    return static_cast<int>(rng_() % static_cast<uint64_t>(n));
  }

  Val* leaf() {
    switch (pick(8)) {
      case 0:
      case 1:
        return extents_[static_cast<size_t>(pick(3))];
      case 2:
      case 3:
      case 4:
        return indices_[static_cast<size_t>(pick(5))].first;
      case 5:
        return pick(3) == 0 ? free_ : narrow_;
      default:
        return constant();
    }
  }

  Val* constant() {
    const int64_t values[] = {0, 1, 2, 3, 4, 5, 6, 8, 12, 16, -1, -2, -4};
    return c(values[pick(pick(4) == 0 ? 13 : 10)]);
  }

  // Mostly what lowering divides by: constants, extents and their products.
  Val* divisor(int depth) {
    Val* d = nullptr;
    switch (pick(6)) {
      case 0:
      case 1:
        d = c(int64_t{1} << pick(5));
        break;
      case 2:
        d = extents_[static_cast<size_t>(pick(3))];
        break;
      case 3:
        d = mul(extents_[static_cast<size_t>(pick(2))], extents_[static_cast<size_t>(pick(3))]);
        break;
      case 4:
        d = mul(extents_[static_cast<size_t>(pick(3))], c(2 + pick(4)));
        break;
      default:
        d = integer(depth - 1);
    }
    divisors_.push_back(d);
    return d;
  }

  Val* integer(int depth) {
    if (depth <= 0) {
      return leaf();
    }
    switch (pick(14)) {
      case 0:
      case 1:
      case 2:
        return add(integer(depth - 1), integer(depth - 1));
      case 3:
        return sub(integer(depth - 1), integer(depth - 1));
      case 4:
      case 5:
        return mul(integer(depth - 1), leaf());
      case 6:
      case 7:
        return div(integer(depth - 1), divisor(depth));
      case 8:
      case 9:
        return mod(integer(depth - 1), divisor(depth));
      case 10:
        return ceilDiv(integer(depth - 1), divisor(depth));
      case 11:
        return pick(2) == 0 ? IrBuilder::minExpr(integer(depth - 1), integer(depth - 1))
                            : IrBuilder::maxExpr(integer(depth - 1), integer(depth - 1));
      case 12: {
        // A merge of what a split made, or nearly so.
        Val* x = integer(depth - 1);
        Val* d = divisor(depth);
        Val* whole = pick(4) == 0 ? add(x, mul(d, leaf())) : x;
        return add(mul(div(whole, d), pick(8) == 0 ? leaf() : d), mod(x, d));
      }
      default:
        return IrBuilder::whereExpr(boolean(depth - 1), integer(depth - 1), integer(depth - 1));
    }
  }

  Val* boolean(int depth) {
    switch (depth <= 0 ? pick(4) : pick(8)) {
      case 0:
        return lt(integer(depth - 1), integer(depth - 1));
      case 1:
        return IrBuilder::leExpr(integer(depth - 1), integer(depth - 1));
      case 2:
        return IrBuilder::geExpr(integer(depth - 1), leaf());
      case 3:
        return pick(2) == 0 ? IrBuilder::eqExpr(integer(depth - 1), leaf())
                            : IrBuilder::neExpr(integer(depth - 1), leaf());
      case 4:
        return IrBuilder::logicalNotExpr(boolean(depth - 1));
      case 5:
      case 6:
        return IrBuilder::logicalAndExpr(boolean(depth - 1), boolean(depth - 1));
      default:
        return IrBuilder::logicalOrExpr(boolean(depth - 1), boolean(depth - 1));
    }
  }

  // Random values that satisfy the assumptions and make no divisor 0; false if there are none.
  bool bind(ScalarEvaluator& evaluator) {
    for (Val* e : extents_) {
      const int64_t values[] = {0, 1, 2, 3, 4, 5, 7, 8, 16, 130};
      evaluator.bind(e, int64_t{values[pick(10)]});
    }
    evaluator.bind(free_, int64_t{pick(41) - 20});
    evaluator.bind(narrow_, int64_t{pick(9) - 3});
    for (auto [i, bound] : indices_) {
      const int64_t n = evaluator.evaluateInt(bound);
      if (n <= 0) {
        return false;
      }
      evaluator.bind(i, int64_t{pick(3) == 0 ? n - 1 : pick(static_cast<int>(n))});
    }
    for (Val* d : divisors_) {
      auto v = evaluator.evaluate(d);
      if (!v || std::get<int64_t>(*v) == 0) {
        return false;
      }
    }
    return true;
  }

 private:
  std::mt19937_64 rng_;
  Assumptions& assume_;
  std::vector<Val*> extents_;
  std::vector<std::pair<Val*, Val*>> indices_;
  std::vector<Val*> divisors_;
  Val* free_ = nullptr;
  Val* narrow_ = nullptr;
};

constexpr int kSeeds = 4000;
constexpr int kBindings = 12;

} // namespace

TEST(SimplifyProperties, EqualValuesSoundRangesAndIdempotence) {
  int compared = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fusion fusion;
    FusionGuard guard(&fusion);
    Assumptions assume;
    Generator generate(static_cast<uint64_t>(seed), assume);
    const bool is_bool = seed % 4 == 3;
    Val* e = is_bool ? generate.boolean(3) : generate.integer(1 + seed % 5);
    Val* s = simplify(e, assume);
    ASSERT_EQ(s->dtype(), e->dtype());
    Val* again = simplify(s, assume);
    EXPECT_EQ(again->toInlineString(), s->toInlineString())
        << "not idempotent, seed " << seed << ": " << e->toInlineString();
    const Range range = rangeOf(e, assume);
    for (int k = 0; k < kBindings; ++k) {
      ScalarEvaluator evaluator;
      if (!generate.bind(evaluator)) {
        continue;
      }
      auto expected = evaluator.evaluate(e);
      auto actual = evaluator.evaluate(s);
      ASSERT_TRUE(expected.has_value());
      ASSERT_TRUE(actual.has_value() && *actual == *expected)
          << "seed " << seed << ": " << e->toInlineString() << "\n -> " << s->toInlineString()
          << "\n"
          << scalarToString(*expected) << " became "
          << (actual ? scalarToString(*actual) : "unknown");
      const int64_t x = std::get<int64_t>(convertScalar(*expected, DataType::Int));
      ASSERT_TRUE((!range.min || *range.min <= x) && (!range.max || x <= *range.max))
          << "seed " << seed << ": range of " << e->toInlineString();
      ++compared;
    }
  }
  EXPECT_GT(compared, kSeeds);
}

TEST(SimplifyProperties, ProofsAreNeverWrong) {
  int proven = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fusion fusion;
    FusionGuard guard(&fusion);
    Assumptions assume;
    Generator generate(static_cast<uint64_t>(seed) + 1000000, assume);
    Val* a = generate.integer(2);
    Val* b = generate.integer(2);
    Val* predicate = lt(a, b);
    const bool less = provablyTrue(predicate, assume);
    const bool equal = provablyEqual(a, b, assume);
    Val* d = generate.divisor(1);
    const bool divisible = provablyDivisible(mul(a, b), d, assume);
    if (!less && !equal && !divisible) {
      continue;
    }
    ++proven;
    for (int k = 0; k < kBindings; ++k) {
      ScalarEvaluator evaluator;
      if (!generate.bind(evaluator)) {
        continue;
      }
      const std::string what = "seed " + std::to_string(seed) + ": " + a->toInlineString() +
                               "  and  " + b->toInlineString();
      ASSERT_TRUE(!less || evaluator.evaluateBool(predicate)) << what;
      ASSERT_TRUE(!equal || evaluator.evaluateInt(a) == evaluator.evaluateInt(b)) << what;
      ASSERT_TRUE(!divisible || evaluator.evaluateInt(mod(mul(a, b), d)) == 0)
          << what << "  by  " << d->toInlineString();
    }
  }
  EXPECT_GT(proven, kSeeds / 20);
}

TEST(SimplifyProperties, HundredsOfIndicesTakeMilliseconds) {
  Fusion fusion;
  FusionGuard guard(&fusion);
  Assumptions assume;
  std::vector<Val*> extents;
  for (int i = 0; i < 5; ++i) {
    extents.push_back(IrBuilder::create<Val>(DataType::Index));
  }
  Val* b = named("blockIdx.x");
  Val* t = named("threadIdx.x");
  assume.setUpperBound(t, c(128));
  // A pointwise kernel over a merged 5-d domain: every access decomposes the flat index.
  std::vector<Val*> indices;
  for (int i = 0; i < 300; ++i) {
    Val* u = IrBuilder::create<Val>(DataType::Index);
    assume.setUpperBound(u, c(4));
    Val* flat = add(mul(add(mul(add(mul(b, c(2)), c(i % 2)), c(128)), t), c(4)), u);
    Val* linear = c(0);
    Val* rest = flat;
    for (int d = 4; d >= 0; --d) {
      Val* stride =
          named(("T" + std::to_string(i) + ".alloc_stride[" + std::to_string(d) + "]").c_str());
      Val* e = extents[static_cast<size_t>(d)];
      linear = add(linear, mul(mod(rest, e), stride));
      rest = div(rest, e);
    }
    indices.push_back(linear);
    indices.push_back(lt(flat, mul(mul(extents[0], extents[1]), extents[2])));
  }
  const auto start = std::chrono::steady_clock::now();
  Simplifier simplifier(assume);
  for (Val* v : indices) {
    simplifier.simplify(v);
  }
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("milliseconds", std::to_string(ms));
  // A few ms when optimized; generous, for sanitizers and busy machines.
  EXPECT_LT(ms, 2000.0);
}
