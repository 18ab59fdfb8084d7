// SPDX-License-Identifier: BSD-3-Clause
// Shape, layout, creation and random builders: result domains and the errors that users see.
#include <ops_for_test.h>

#include <cmath>
#include <limits>

namespace nvfuser {
namespace {

using testing_utils::domainText;
using testing_utils::hasText;
using testing_utils::OpsTest;
using testing_utils::userError;
using Ints = std::vector<int64_t>;
using Vals = std::vector<Val*>;
using Tvs = std::vector<TensorView*>;

class ShapeOpsTest : public OpsTest {};

TEST_F(ShapeOpsTest, Broadcast) {
  auto* a = input({4, -1});
  EXPECT_EQ(domainText(broadcast(a, {true, false, true, false})), "[b 1, i 4, b 1, i i1]");
  EXPECT_EQ(broadcast(a, {false, false}), a);
  EXPECT_TRUE(hasText(userError([&] { broadcast(a, {true, false}); }),
                      "Invalid broadcast, number of false entries"));
}

TEST_F(ShapeOpsTest, ExpandAndBroadcastInDim) {
  auto* a = input({1, 4});
  EXPECT_EQ(domainText(expand(a, shapeVals({2, 3, -1}))), "[b 1 ex 2, b 1 ex 3, i 4]");
  EXPECT_TRUE(expand(a, shapeVals({1, 4}))->definition()->isA<LoadStoreOp>());
  EXPECT_TRUE(hasText(userError([&] { expand(a, shapeVals({2, 5})); }), "expand"));
  EXPECT_TRUE(hasText(userError([&] { expand(a, shapeVals({4})); }), "fewer"));
  EXPECT_EQ(domainText(expand(a, shapeVals({0, 4}))), "[b 1 ex 0, i 4]");
  auto* v = input({4});
  EXPECT_EQ(domainText(broadcast_in_dim(v, shapeVals({2, 4, 3}), {1})),
            "[b 1 ex 2, i 4, b 1 ex 3]");
  EXPECT_EQ(domainText(broadcast_in_dim(v, shapeVals({2, 4}), {-1})), "[b 1 ex 2, i 4]");
  // Nothing is added for what does not change.
  EXPECT_EQ(broadcast_in_dim(a, shapeVals({2, 4}), {0, 1})->definition()->input(0), a);
  EXPECT_TRUE(broadcast_in_dim(v, shapeVals({1, 4}), {1})->definition()->isA<BroadcastOp>());
  EXPECT_TRUE(hasText(userError([&] { broadcast_in_dim(v, shapeVals({2, 4}), {2}); }), "range"));
  EXPECT_TRUE(hasText(userError([&] { broadcast_in_dim(a, shapeVals({2, 4}), {1, 1}); }), "twice"));
  EXPECT_TRUE(hasText(userError([&] { shapeVals({4, -2}); }),
                      "The value -2 at index 1 was neither symbolic(-1), zero_element(0), "
                      "broadcast(1), or static(>1)."));
}

TEST_F(ShapeOpsTest, ExpandKeepsTheSizeThatWasAskedFor) {
  auto* a = input({-1});
  EXPECT_EQ(domainText(expand(a, shapeVals({5}))), "[i 5]");
}

TEST_F(ShapeOpsTest, Squeeze) {
  auto* a = input({1, 4, 1});
  EXPECT_EQ(domainText(squeeze(a, Ints{0})), "[i 4, b 1]");
  EXPECT_EQ(domainText(squeeze(a, Ints{-1, 0})), "[i 4]");
  EXPECT_TRUE(squeeze(a, Ints{})->definition()->isA<LoadStoreOp>());
  EXPECT_TRUE(hasText(userError([&] { squeeze(a, Ints{1}); }), "can't be squeezed"));
  EXPECT_TRUE(
      hasText(userError([&] { squeeze(a, Ints{3}); }), "Squeeze dim is outside of Tensor size!"));
  EXPECT_TRUE(hasText(userError([&] { squeeze(a, Ints{0, 1, 2, 2}); }),
                      "The dims to squeeze must be <= the number of dims of the input tensor"));
  auto* e = expand(a, shapeVals({3, 4, 1}));
  EXPECT_TRUE(hasText(userError([&] { squeeze(e, Ints{0}); }), "squeeze_expanded"));
  EXPECT_EQ(domainText(squeeze(e, Ints{0}, true)), "[i 4, b 1]");
}

TEST_F(ShapeOpsTest, Reshape) {
  auto* a = input({4, 6});
  EXPECT_EQ(domainText(reshape(a, Ints{3, -1, 1})), "[i 3, i 8, b 1]");
  EXPECT_TRUE(
      hasText(userError([&] { reshape(a, Ints{-1, -1}); }), "A maximum of one value of -1"));
  EXPECT_TRUE(hasText(userError([&] { reshape(a, Ints{5, 5}); }),
                      "Total element counts across view operation must match"));
  EXPECT_TRUE(hasText(userError([&] { reshape(a, Ints{5, -1}); }),
                      "Total element counts across view operation must match"));
  auto* s = input({-1, -1});
  EXPECT_EQ(domainText(reshape(s, Vals{size(s, 0), IrBuilder::index(-1), IrBuilder::index(2)}))
                .substr(0, 3),
            "[? ");
  // Equal factors cancel.
  auto* r = reshape(s, Vals{size(s, 0), IrBuilder::index(-1)});
  EXPECT_EQ(r->getLogicalDomain()[1]->extent(), size(s, 1));
}

TEST_F(ShapeOpsTest, Permute) {
  auto* a = input({2, 3, 4});
  auto* p = permute(a, {2, 0, -2});
  EXPECT_EQ(domainText(p), "[i 4, i 2, i 3]");
  EXPECT_TRUE(p->hasRoot());
  EXPECT_EQ(p->getRootDomain()[0], p->getLogicalDomain()[1]);
  EXPECT_FALSE(permute(a, {0, 1, 2})->hasRoot());
  EXPECT_TRUE(
      hasText(userError([&] { permute(a, {0, 1}); }), "argument to have the same length as input"));
  EXPECT_TRUE(hasText(userError([&] { permute(a, {0, 1, 1}); }), "duplicated dimension entries"));
  EXPECT_TRUE(
      hasText(userError([&] { permute(a, {0, 1, 3}); }), "dims argument is out of range, expects"));
}

TEST_F(ShapeOpsTest, StrideOrder) {
  auto* a = input({2, 3, 4});
  auto* t = stride_order(a, {2, 0, 1});
  ASSERT_TRUE(t->domain()->hasAllocation());
  EXPECT_EQ(t->getAllocationDomain()[2], t->getLogicalDomain()[1]);
  EXPECT_FALSE(stride_order(a, {})->domain()->hasAllocation());
  EXPECT_TRUE(hasText(userError([&] { stride_order(a, {0, 1, 3}); }),
                      "stride_order argument is out of range"));
  EXPECT_TRUE(
      hasText(userError([&] { stride_order(a, {0, 1, 1}); }), "duplicated stride_order entries"));
}

TEST_F(ShapeOpsTest, Slice) {
  auto* a = input({10, -1});
  Val* whole = size(a, 1);
  auto* s =
      slice(a, Vals{constant(int64_t{2}), constant(int64_t{0})}, Vals{constant(int64_t{5}), whole});
  EXPECT_EQ(domainText(s), "[i 3, i i1]");
  ASSERT_TRUE(s->hasRoot());
  auto* resize = s->getLogicalDomain()[0]->definition()->as<Resize>();
  EXPECT_EQ(resize->left()->intValue(), -2);
  EXPECT_EQ(resize->right()->intValue(), -5);
  // Ends are clamped to the size.
  EXPECT_EQ(domainText(slice(input({10}), Ints{8}, Ints{20})), "[i 2]");
  EXPECT_EQ(domainText(slice(input({10}), Ints{9}, Ints{20})), "[b 1]");
  EXPECT_TRUE(slice(input({10}), Ints{12}, Ints{20})->definition()->isA<FullOp>());
  EXPECT_TRUE(slice(input({10}), Ints{0}, Ints{10})->definition()->isA<LoadStoreOp>());
  EXPECT_TRUE(slice(a, Ints{0, 1}, Ints{10, 5})->getLogicalDomain()[1]->isSymbolicType());
  EXPECT_EQ(domainText(slice(expand(input({1}), shapeVals({7})), Ints{2}, Ints{5})), "[b 1 ex 3]");
}

TEST_F(ShapeOpsTest, SliceErrors) {
  auto* a = input({10, 10});
  const auto ints = [](const Ints& v) {
    std::vector<Val*> out;
    for (const int64_t i : v) {
      out.push_back(constant(i));
    }
    return out;
  };
  const auto error = [&](const Ints& start, const Ints& end, const Ints& strides) {
    return userError([&] { slice(a, ints(start), ints(end), ints(strides)); });
  };
  EXPECT_TRUE(hasText(error({-1, 0}, {5, 5}, {}),
                      "Slice operation start_indices must be greater than or equal to 0."));
  EXPECT_TRUE(
      hasText(error({3, 0}, {1, 5}, {}),
              "Slice operation end_indices must be greater than or equal to start_indices."));
  EXPECT_TRUE(hasText(error({0, 0}, {5, 5}, {5, 5}),
                      "nvFuser Limitation: All slice operation strides must be of const size 1."));
  EXPECT_TRUE(hasText(error({0, 0, 0}, {5, 5, 5}, {1, 1, 1}),
                      "Number of tensor dimensions does not match slice dimensions!"));
  EXPECT_TRUE(hasText(error({0, 0}, {5, 5}, {1}), "Slice start_indices and strides don't match!"));
  EXPECT_TRUE(
      hasText(error({0, 0}, {5}, {1, 1}), "Slice indexing attribute dimensions don't match!"));
}

TEST_F(ShapeOpsTest, Pad) {
  auto* a = input({2, -1});
  EXPECT_EQ(domainText(pad(a, Ints{1, 2})), "[i 2, i ( ( 1 + i1 ) + 2 )]");
  EXPECT_TRUE(pad(a, Ints{0, -1})->getLogicalDomain()[1]->isSymbolicType());
  EXPECT_EQ(domainText(pad(a, Ints{0, 0, 1, -2})), "[b 1, i i1]");
  EXPECT_EQ(domainText(pad(input({1}), Ints{1, 1})), "[i 3]");
  EXPECT_EQ(domainText(pad(expand(input({1}), shapeVals({5})), Ints{1, 1})), "[i 7]");
  EXPECT_TRUE(pad(a, Ints{0, 0, 0, 0})->definition()->isA<LoadStoreOp>());
  EXPECT_TRUE(hasText(userError([&] { pad(a, Ints{1}); }), "Invalid number of padding widths"));
  EXPECT_TRUE(hasText(userError([&] { pad(a, Ints{1, 1, 1, 1, 1, 1}); }),
                      "Number of pad widths must be at most twice the input dimension"));
  EXPECT_TRUE(hasText(userError([&] { pad(a, Ints{1, 1}, constant(int64_t{1})); }),
                      "Tensor arg and pad value must have the same dtype."));
  EXPECT_TRUE(
      hasText(userError([&] { pad(a, Ints{0, 0, -2, -1}); }), "Invalid resized domain extent"));
}

TEST_F(ShapeOpsTest, Cat) {
  auto* a = input({2, 3});
  auto* b = input({2, 4});
  auto* c = cat(Tvs{a, b}, -1);
  EXPECT_EQ(domainText(c), "[i 2, i 7]");
  auto* op = c->definition()->as<CatOp>();
  EXPECT_EQ(op->dim(), 1);
  EXPECT_EQ(op->ends()[0]->intValue(), 3);
  EXPECT_EQ(op->ends()[1]->intValue(), 7);
  EXPECT_TRUE(cat(Tvs{a})->definition()->isA<LoadStoreOp>());
  EXPECT_EQ(domainText(cat(Tvs{a, input({2, 0})}, 1)), "[i 2, i 3]");
  auto* s = input({-1});
  auto* sym = cat(Tvs{s, neg(s), s});
  EXPECT_TRUE(sym->getLogicalDomain()[0]->isSymbolicType());
  EXPECT_TRUE(hasText(userError([&] { cat(Tvs{}); }), "No tensors"));
  EXPECT_TRUE(hasText(userError([&] { cat(Tvs{a, input({2, 3}, DataType::Int)}); }),
                      "Can't concatenate tensors with different data types"));
  EXPECT_TRUE(hasText(userError([&] { cat(Tvs{a, s}); }), "Unexpected number of dimensions"));
  EXPECT_TRUE(hasText(userError([&] { cat(Tvs{a, b}, 2); }), "Invalid dimension to cat"));
  EXPECT_TRUE(hasText(userError([&] { cat(Tvs{a, b}, 0); }), "do not agree"));
  EXPECT_TRUE(hasText(userError([&] { cat(Tvs{a, a}, 0, true); }), "manual_padding"));
  auto* manual = cat(Tvs{pad(a, Ints{0, 4}), pad(b, Ints{3, 0})}, 1, true);
  EXPECT_EQ(manual->definition()->as<CatOp>()->ends()[0]->intValue(), 3);
}

TEST_F(ShapeOpsTest, Triu) {
  EXPECT_EQ(domainText(triu(input({2, 3, 4}), 1)), "[i 2, i 3, i 4]");
  EXPECT_EQ(triu(input({3, 4}, DataType::Half))->dtype(), DataType::Half);
  EXPECT_TRUE(hasText(userError([&] { triu(input({3})); }),
                      "input tensor for triu must have 2 or more dims, but got 1 dims"));
}

TEST_F(ShapeOpsTest, SizeAndShape) {
  auto* a = expand(input({1, -1}), shapeVals({5, -1}));
  EXPECT_EQ(size(a, -2)->intValue(), 5);
  EXPECT_EQ(shape(a).size(), 2);
  EXPECT_TRUE(hasText(userError([&] { size(a, 2); }), "Tried to access out of boundary index"));
}

TEST_F(ShapeOpsTest, Creation) {
  auto* f = full(shapeVals({2, 1}), constant(int64_t{3}), DataType::Half);
  EXPECT_EQ(domainText(f), "[i 2, b 1]");
  EXPECT_EQ(f->definition()->input(0)->dtype(), DataType::Half);
  EXPECT_TRUE(hasText(userError([&] { full(shapeVals({-1}), constant(1.0), DataType::Float); }),
                      "negative"));
  auto* i = iota(constant(int64_t{5}));
  EXPECT_EQ(i->dtype(), DataType::Int);
  EXPECT_EQ(i->definition()->as<IotaOp>()->step()->intValue(), 1);
  EXPECT_EQ(iota(constant(int64_t{5}), constant(0.5), nullptr, DataType::Float)->dtype(),
            DataType::Float);
  Val* inf = constant(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(hasText(userError([&] { iota(constant(5.0)); }), "length must be integer"));
  EXPECT_TRUE(hasText(userError([&] { iota(constant(int64_t{5}), constant(0.5)); }),
                      "iota: start dtype does not match specified dtype argument"));
  EXPECT_TRUE(hasText(userError([&] { iota(constant(int64_t{5}), nullptr, constant(0.5)); }),
                      "iota: step dtype does not match specified dtype argument"));
  EXPECT_TRUE(hasText(userError([&] { iota(constant(int64_t{5}), inf, nullptr, DataType::Float); }),
                      "iota: length, start, step must be finite numbers."));
  EXPECT_TRUE(hasText(userError([&] { iota(constant(int64_t{5}), nullptr, constant(int64_t{0})); }),
                      "iota: step value must not equal zero."));
}

TEST_F(ShapeOpsTest, Random) {
  auto* u = uniform(shapeVals({4}), constant(0.0), constant(1.0));
  auto* n = normal(shapeVals({4}), constant(0.0), constant(1.0), DataType::BFloat16);
  EXPECT_EQ(u->definition()->as<RngOp>()->statefulIndex(), 0);
  EXPECT_EQ(n->definition()->as<RngOp>()->statefulIndex(), 1);
  Val* seed = scalarInput(DataType::Int);
  auto* e = uniform(shapeVals({4}), constant(int64_t{0}), constant(int64_t{1}), DataType::Float,
                    seed, seed);
  EXPECT_FALSE(e->definition()->as<RngOp>()->isStateful());
  EXPECT_EQ(fusion_.numStatefulRng(), 2);
  EXPECT_TRUE(hasText(
      userError([&] { uniform(shapeVals({4}), constant(0.0), constant(1.0), DataType::Int); }),
      "Random distributions only create floating point types"));
  EXPECT_TRUE(hasText(userError([&] {
                        uniform(shapeVals({4}), constant(0.0), constant(1.0), DataType::Float,
                                seed);
                      }),
                      "rng_seed and rng_offset must be provided together!"));
}

} // namespace
} // namespace nvfuser
