// SPDX-License-Identifier: BSD-3-Clause
// Equality and hash of definitions: rebuilt definitions are equal, near misses are not.
#include <fusion.h>
#include <ops/all_ops.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>

using namespace nvfuser;

namespace {

using Definition = std::function<void(Fusion&)>;
using Widths = std::vector<int64_t>;

std::unique_ptr<Fusion> build(const Definition& define) {
  auto fusion = std::make_unique<Fusion>();
  FusionGuard guard(fusion.get());
  define(*fusion);
  return fusion;
}

TensorView* input(Fusion& f, TensorView* tv) {
  f.addInput(tv);
  return tv;
}

TensorView* input(Fusion& f, int64_t rank = 2, DataType dtype = DataType::Float) {
  return input(f, makeContigTensor(rank, dtype));
}

Val* scalar(Fusion& f, DataType dtype = DataType::Double) {
  Val* v = IrBuilder::create<Val>(dtype);
  f.addInput(v);
  return v;
}

Val* number(double x) {
  return IrBuilder::create<Val>(x);
}

TensorViewBuilder tensor() {
  return TensorViewBuilder().ndims(2).dtype(DataType::Float).contiguity(true);
}

// Every entry differs from every other in one thing that matters.
std::vector<std::pair<const char*, Definition>> distinctDefinitions() {
  auto unary = [](TensorView* (*op)(TensorView*)) {
    return [op](Fusion& f) { f.addOutput(op(input(f))); };
  };
  auto of_input = [](std::function<TensorView*()> make) {
    return [make](Fusion& f) { f.addOutput(set(input(f, make()))); };
  };
  auto of_tensor = [](std::function<TensorView*(TensorView*)> op) {
    return [op](Fusion& f) { f.addOutput(op(input(f, 3))); };
  };
  return {
      {"empty", [](Fusion&) {}},
      {"input only", [](Fusion& f) { input(f); }},
      {"input as output", [](Fusion& f) { f.addOutput(input(f)); }},
      {"input twice as output",
       [](Fusion& f) {
         auto* x = input(f);
         f.addOutput(x);
         f.addOutput(x);
       }},
      {"sin", unary(sin)},
      {"cos", unary(cos)},
      {"sin sin", [](Fusion& f) { f.addOutput(sin(sin(input(f)))); }},
      {"unused input",
       [](Fusion& f) {
         auto* x = input(f);
         input(f);
         f.addOutput(sin(x));
       }},
      {"unused input first",
       [](Fusion& f) {
         input(f);
         f.addOutput(sin(input(f)));
       }},
      {"set", of_input([] { return makeContigTensor(2); })},
      {"rank", of_input([] { return makeContigTensor(3); })},
      {"dtype", of_input([] { return makeContigTensor(2, DataType::Double); })},
      {"not contiguous", of_input([] { return makeSymbolicTensor(2); })},
      {"partly contiguous",
       of_input([] { return tensor().contiguity(TensorDomain::Contiguity{false, true}).build(); })},
      {"other part contiguous",
       of_input([] { return tensor().contiguity(TensorDomain::Contiguity{true, false}).build(); })},
      {"order in memory", of_input([] { return tensor().strideOrder({0, 1}).build(); })},
      {"extents 2 3", of_input([] { return makeContigConcreteTensor({2, 3}); })},
      {"extents 3 2", of_input([] { return makeContigConcreteTensor({3, 2}); })},
      {"one extent known", of_input([] { return makeContigConcreteTensor({2, -1}); })},
      {"broadcast extent", of_input([] { return makeContigConcreteTensor({2, 1}); })},
      {"a + b",
       [](Fusion& f) {
         auto* a = input(f);
         auto* b = input(f);
         f.addOutput(add(a, b));
       }},
      {"b + a",
       [](Fusion& f) {
         auto* a = input(f);
         auto* b = input(f);
         f.addOutput(add(b, a));
       }},
      {"a - b",
       [](Fusion& f) {
         auto* a = input(f);
         auto* b = input(f);
         f.addOutput(sub(a, b));
       }},
      {"a + a",
       [](Fusion& f) {
         auto* a = input(f);
         f.addOutput(add(a, a));
       }},
      {"a + 2", [](Fusion& f) { f.addOutput(add(input(f), number(2.0))); }},
      {"a + 3", [](Fusion& f) { f.addOutput(add(input(f), number(3.0))); }},
      {"2 + a", [](Fusion& f) { f.addOutput(add(number(2.0), input(f))); }},
      {"a + int 2",
       [](Fusion& f) { f.addOutput(add(input(f), IrBuilder::create<Val>(int64_t{2}))); }},
      {"a + s",
       [](Fusion& f) {
         auto* a = input(f);
         f.addOutput(add(a, scalar(f)));
       }},
      {"a + s, s first",
       [](Fusion& f) {
         Val* s = scalar(f);
         f.addOutput(add(input(f), s));
       }},
      {"a + int s",
       [](Fusion& f) {
         auto* a = input(f);
         f.addOutput(add(a, scalar(f, DataType::Int)));
       }},
      {"a + (s + t)",
       [](Fusion& f) {
         auto* a = input(f);
         Val* s = scalar(f);
         Val* t = scalar(f);
         f.addOutput(add(a, add(s, t)));
       }},
      {"a + (s + s)",
       [](Fusion& f) {
         auto* a = input(f);
         Val* s = scalar(f);
         scalar(f);
         f.addOutput(add(a, add(s, s)));
       }},
      {"two outputs",
       [](Fusion& f) {
         auto* a = input(f);
         f.addOutput(sin(a));
         f.addOutput(cos(a));
       }},
      {"two outputs, swapped",
       [](Fusion& f) {
         auto* a = input(f);
         f.addOutput(cos(a));
         f.addOutput(sin(a));
       }},
      {"in place",
       [](Fusion& f) {
         auto* a = input(f);
         f.addOutput(sin(a), a);
       }},
      {"in place and visible",
       [](Fusion& f) {
         auto* a = input(f);
         auto* b = sin(a);
         f.addOutput(b);
         f.addOutput(b, a);
       }},
      {"in place in another input",
       [](Fusion& f) {
         auto* a = input(f);
         auto* b = input(f);
         f.addOutput(sin(a), b);
       }},
      {"to half", of_tensor([](TensorView* x) { return castOp(DataType::Half, x); })},
      {"to bfloat", of_tensor([](TensorView* x) { return castOp(DataType::BFloat16, x); })},
      {"permute 1 2 0", of_tensor([](TensorView* x) { return permute(x, {1, 2, 0}); })},
      {"permute 2 0 1", of_tensor([](TensorView* x) { return permute(x, {2, 0, 1}); })},
      {"stride order", of_tensor([](TensorView* x) { return stride_order(x, {0, 2, 1}); })},
      {"broadcast at 0",
       of_tensor([](TensorView* x) { return broadcast(x, {true, false, false, false}); })},
      {"broadcast at 3",
       of_tensor([](TensorView* x) { return broadcast(x, {false, false, false, true}); })},
      {"slice 0 1", of_tensor([](TensorView* x) { return slice(x, {0, 0, 0}, {1, 2, 3}); })},
      {"slice 1 2", of_tensor([](TensorView* x) { return slice(x, {1, 0, 0}, {2, 2, 3}); })},
      {"pad right", of_tensor([](TensorView* x) { return pad(x, Widths{0, 1}); })},
      {"pad left", of_tensor([](TensorView* x) { return pad(x, Widths{1, 0}); })},
      {"pad with 2", of_tensor([](TensorView* x) { return pad(x, Widths{1, 0}, number(2.0)); })},
      {"cat 0", of_tensor([](TensorView* x) { return cat({x, x}, 0); })},
      {"cat 1", of_tensor([](TensorView* x) { return cat({x, x}, 1); })},
      {"reshape 6 4", of_tensor([](TensorView* x) { return reshape(x, {6, 4}); })},
      {"reshape 4 6", of_tensor([](TensorView* x) { return reshape(x, {4, 6}); })},
      {"random", of_tensor([](TensorView* x) { return rand_like(x); })},
      {"random normal", of_tensor([](TensorView* x) { return randn_like(x); })},
      {"random twice", of_tensor([](TensorView* x) { return add(rand_like(x), rand_like(x)); })},
      {"random once", of_tensor([](TensorView* x) {
         auto* r = rand_like(x);
         return add(r, r);
       })},
      {"full of 1", of_tensor([](TensorView* x) { return full_like(x, number(1.0)); })},
      {"full of 2", of_tensor([](TensorView* x) { return full_like(x, number(2.0)); })},
      {"NaN", of_tensor([](TensorView* x) { return full_like(x, number(0.0 / 0.0)); })},
  };
}

} // namespace

TEST(FusionEquality, RebuiltDefinitionsAreEqual) {
  for (const auto& [what, define] : distinctDefinitions()) {
    auto a = build(define);
    auto b = build(define);
    EXPECT_TRUE(a->sameDefinition(*b)) << what;
    EXPECT_EQ(a->definitionHash(), b->definitionHash()) << what;
  }
}

TEST(FusionEquality, CopiesAreEqual) {
  for (const auto& [what, define] : distinctDefinitions()) {
    auto a = build(define);
    const Fusion copy(*a);
    EXPECT_TRUE(copy.sameDefinition(*a)) << what;
    EXPECT_EQ(copy.definitionHash(), a->definitionHash()) << what;
  }
}

TEST(FusionEquality, NearMissesDiffer) {
  std::vector<std::pair<const char*, std::unique_ptr<Fusion>>> all;
  for (const auto& [what, define] : distinctDefinitions()) {
    all.emplace_back(what, build(define));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) {
      const bool same = all[i].second->sameDefinition(*all[j].second);
      EXPECT_EQ(same, i == j) << all[i].first << " and " << all[j].first;
      EXPECT_EQ(all[i].second->definitionHash() == all[j].second->definitionHash(), i == j)
          << all[i].first << " and " << all[j].first;
    }
  }
}

TEST(FusionEquality, SchedulesAreNotCompared) {
  auto define = [](Fusion& f) { f.addOutput(sin(input(f))); };
  auto a = build(define);
  auto b = build(define);
  auto* out = b->outputs()[0]->as<TensorView>();
  FusionGuard guard(b.get());
  out->split(0, 4);
  out->axis(0)->parallelize(ParallelType::BIDx);
  EXPECT_TRUE(a->sameDefinition(*b));
  EXPECT_EQ(a->definitionHash(), b->definitionHash());
}

TEST(FusionEquality, DeadOperationsAreNotCompared) {
  auto a = build([](Fusion& f) { f.addOutput(sin(input(f))); });
  auto b = build([](Fusion& f) {
    auto* x = input(f);
    cos(x);
    f.addOutput(sin(x));
  });
  EXPECT_TRUE(a->sameDefinition(*b));
  EXPECT_EQ(a->definitionHash(), b->definitionHash());
}

TEST(FusionEquality, LongScalarChainsDoNotExhaustTheStack) {
  auto define = [](Fusion& f) {
    auto* x = input(f);
    Val* s = scalar(f);
    Val* sum = s;
    for (int i = 0; i < 100000; ++i) {
      sum = add(sum, s);
    }
    f.addOutput(add(x, sum));
  };
  EXPECT_TRUE(build(define)->sameDefinition(*build(define)));
}
