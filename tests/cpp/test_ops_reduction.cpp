// SPDX-License-Identifier: BSD-3-Clause
// Reductions, scans and lookups as IR: result domains, the pairing of dimensions, errors, text.
#include <definition/translate.h>
#include <ir/logical_map.h>
#include <ops_for_test.h>

#include <algorithm>
#include <limits>

namespace nvfuser {
namespace {

using testing_utils::domainText;
using testing_utils::hasText;
using testing_utils::OpsTest;
using testing_utils::userError;
using Ints = std::vector<int64_t>;

class ReductionOpsTest : public OpsTest {
 protected:
  // Pairs of a tensor and what is computed of it, as positions: "0-1 2-0".
  static std::string pairs(const TensorView* producer, const TensorView* consumer) {
    const auto p = logicalIds(producer);
    const auto& c = consumer->getMaybeRootDomain();
    std::string out;
    for (auto [a, b] : producerConsumerPairs(producer, consumer)) {
      out += out.empty() ? "" : " ";
      out += std::to_string(std::find(p.begin(), p.end(), a) - p.begin()) + "-";
      out += std::to_string(std::find(c.begin(), c.end(), b) - c.begin());
    }
    return out;
  }
};

TEST_F(ReductionOpsTest, ReducedDimensionsStayAsReductionAxes) {
  auto* a = input({4, -1, 6});
  auto* s = sum(a, Ints{0, -1});
  EXPECT_EQ(domainText(s), "[r 4, i i1, r 6]");
  EXPECT_EQ(pairs(a, s), "0-0 1-1 2-2");
  // Consumers see what is left.
  auto* m = max(s, Ints{0});
  EXPECT_EQ(domainText(m), "[r i1]");
  EXPECT_EQ(pairs(s, m), "0-0");
  EXPECT_EQ(domainText(sum(a, Ints{1}, /*keepdim=*/true)), "[i 4, b 1, i 6]");
  const auto* op = s->definition()->as<ReductionOp>();
  EXPECT_EQ(op->op(), OpType::Add);
  EXPECT_EQ(op->init()->value(), ScalarValue(0.0));
  const auto least = m->definition()->as<ReductionOp>()->init()->value();
  EXPECT_EQ(least, ScalarValue(-std::numeric_limits<double>::infinity()));
}

TEST_F(ReductionOpsTest, IdentitiesOfIntegers) {
  auto* a = input({4, 5}, DataType::Int32);
  const auto init = [](TensorView* tv) {
    return tv->definition()->as<ReductionOp>()->init()->value();
  };
  EXPECT_EQ(init(min(a, Ints{0})), ScalarValue(int64_t{std::numeric_limits<int32_t>::max()}));
  EXPECT_EQ(init(prod(a, Ints{0})), ScalarValue(int64_t{1}));
  EXPECT_EQ(prod(a, Ints{0})->dtype(), DataType::Int);
  EXPECT_EQ(max(a, Ints{0})->dtype(), DataType::Int32);
}

TEST_F(ReductionOpsTest, WelfordHasThreeResults) {
  auto* a = input({4, 5});
  const WelfordResult w = Welford(a, Ints{1});
  EXPECT_EQ(w.avg->definition(), w.var_sum->definition());
  EXPECT_EQ(w.n->dtype(), DataType::Index);
  EXPECT_EQ(domainText(w.n), "[i 4, r 5]");
  EXPECT_EQ(pairs(a, w.n), "0-0 1-1");
  EXPECT_TRUE(
      hasText(userError([&] { variance_mean(castOp(DataType::Half, a), Ints{0}); }), "upcast"));
}

TEST_F(ReductionOpsTest, LookupsPairAllButTheDimensionThatIsLookedUp) {
  auto* a = input({4, 5, 6});
  auto* i1 = input({3}, DataType::Int);
  auto* i3 = input({4, 2, 6}, DataType::Int);
  auto* s = index_select(a, i1, 1);
  EXPECT_EQ(domainText(s), "[i 4, i 3, i 6]");
  EXPECT_EQ(pairs(a, s), "0-0 2-2");
  EXPECT_EQ(pairs(i1, s), "0-1");
  auto* g = gather(a, i3, 1);
  EXPECT_EQ(pairs(a, g), "");
  EXPECT_EQ(pairs(i3, g), "0-0 1-1 2-2");
  EXPECT_EQ(pairs(a, take_along_axis(a, i3, 1)), "0-0 2-2");
  auto* one = select(a, constant(int64_t{2}), 1);
  EXPECT_EQ(domainText(one), "[i 4, i 6]");
  EXPECT_EQ(pairs(a, one), "0-0 2-1");
  auto* rows = embedding_fwd(i3, input({7, 8}));
  EXPECT_EQ(domainText(rows), "[i 4, i 2, i 6, i 8]");
  EXPECT_EQ(pairs(lookedUpTensor(rows->definition()), rows), "1-3");
  auto* w = scatter(a, i3, constant(1.0), 1);
  EXPECT_EQ(pairs(a, w), "0-0 1-1 2-2");
  EXPECT_EQ(pairs(i3, w), "");
}

TEST_F(ReductionOpsTest, ATensorIsNotItsOwnIndex) {
  auto* i = input({4, 4}, DataType::Int);
  auto* g = gather(i, i, 0);
  EXPECT_NE(g->definition()->input(0), g->definition()->input(1));
}

TEST_F(ReductionOpsTest, ScansKeepTheDtype) {
  auto* a = input({4, 5}, DataType::Half);
  auto* s = cumsum(a, -1);
  EXPECT_EQ(s->dtype(), DataType::Half);
  const auto* op = s->definition()->input(0)->definition()->as<ScanOp>();
  EXPECT_EQ(op->dim(), 1);
  EXPECT_EQ(op->out()->dtype(), DataType::Float);
  EXPECT_EQ(op->scanAxis(), op->out()->getLogicalDomain()[1]);
  EXPECT_TRUE(hasText(userError([&] { cumsum(sum(a, Ints{0, 1}), 0); }), "rank 0"));
}

TEST_F(ReductionOpsTest, Text) {
  auto* a = input({4, 5});
  EXPECT_TRUE(
      hasText(sum(a, Ints{1})->definition()->toString(),
              "reduction( T0_g_float[iS0{4}, iS1{5}], op = add, initial value = float(0) )"));
  EXPECT_TRUE(hasText(cummax(a, 0)->definition()->toString(), "scan( "));
  fusion_.addOutput(cumprod(a, 1, constant(2.0)));
  EXPECT_TRUE(hasText(translateFusion(&fusion_), "fd.ops.cumprod(tv0, dim=1, init="));
}

} // namespace
} // namespace nvfuser
