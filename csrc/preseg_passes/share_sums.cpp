// SPDX-License-Identifier: BSD-3-Clause
// Sums of products that differ in factors which are the same for all that is summed are one sum:
//
//   sum(g * w), sum(g * (x - m) * r * w), sum(g), sum(g * (x - m) * r)
//       ->    sum(g), sum(g * (x - m)), and their products with w and r
//
// where w, m and r are broadcast along the summed dimensions, as in the backward pass of a batch
// norm. Factors that wait for other reductions leave a sum whose other factors do not: the backward
// pass of a layer norm sums g * w * (x - m) while it sums the squares that r is made of. So do
// factors of what is multiplied elsewhere: a gradient has x - m times what is left of g's share,
// for which (x - m) * r need not be there. Any other factor stays where it is: each sum would be
// rounded differently for nothing.
//
// So are sums of quotients, and what is divided for a sum alone is divided after it: hand-written
// norms divide each element by a standard deviation.
//
// Of where(iota == index, c, 0) times such factors nothing is summed: it is c times the factors if
// the index lies inside, as in the backward passes of losses that know one label for each row.
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ops/elementwise.h>
#include <ops/reduction.h>
#include <ops/shape.h>
#include <preseg_passes/marked_element.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace nvfuser {

namespace {

constexpr size_t kMostFactors = 8;

// What is summed, as a product.
struct Product {
  std::vector<Val*> factors;       // that vary along the summed dimensions
  std::vector<TensorView*> shared; // that are broadcast along them
  std::vector<Val*> scalars;
  bool is_negative = false;
  // Whose divisors are broadcast along them, or scalars.
  std::vector<const ElementwiseOp*> quotients;
  std::vector<const Val*> made; // on the way to what is summed
};

struct Sum {
  ReductionOp* op = nullptr;
  Product product;
  bool isPlain() const {
    return product.shared.empty() && product.scalars.empty() && !product.is_negative &&
           product.quotients.empty();
  }
};

bool isBroadcastAlong(const TensorView* tv, const std::vector<bool>& reduced) {
  const auto dims = logicalIds(tv);
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i] && !dims[i]->isBroadcast()) {
      return false;
    }
  }
  return true;
}

void takeApart(Val* v, const std::vector<bool>& reduced, Product& out) {
  if (!v->isTensor()) {
    out.scalars.push_back(v);
    return;
  }
  auto* tv = v->as<TensorView>();
  if (isBroadcastAlong(tv, reduced)) {
    out.shared.push_back(tv);
    return;
  }
  const auto fits = [&](const Val* in) { return !in->isTensor() || in->dtype() == v->dtype(); };
  const auto* op = tryAs<ElementwiseOp>(v->definition());
  if (op == nullptr || !std::all_of(op->inputs().begin(), op->inputs().end(), fits) ||
      out.factors.size() > kMostFactors) {
    out.factors.push_back(v);
    return;
  }
  const auto isOfAll = [&](const Val* in) {
    return !in->isTensor() || isBroadcastAlong(in->as<TensorView>(), reduced);
  };
  if (op->op() == OpType::Mul) {
    takeApart(op->in(0), reduced, out);
    takeApart(op->in(1), reduced, out);
  } else if (op->op() == OpType::Neg) {
    out.is_negative = !out.is_negative;
    takeApart(op->in(0), reduced, out);
  } else if ((op->op() == OpType::Div || op->op() == OpType::TrueDiv) && isOfAll(op->in(1))) {
    out.quotients.push_back(op);
    takeApart(op->in(0), reduced, out);
  } else {
    out.factors.push_back(v);
    return;
  }
  out.made.push_back(v);
}

bool isPlainSum(const Expr* e) {
  const auto* op = tryAs<ReductionOp>(e);
  return op != nullptr && op->op() == OpType::Add && !op->out()->hasRoot() &&
         isFloatingPoint(op->out()->dtype()) && op->in()->dtype() == op->out()->dtype() &&
         !op->out()->domain()->hasAllocation();
}

std::vector<int64_t> reducedDims(const std::vector<bool>& reduced) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i]) {
      out.push_back(static_cast<int64_t>(i));
    }
  }
  return out;
}

// Products of two tensors, by these.
class Products {
 public:
  void visit(const Expr* e) {
    const auto* op = tryAs<ElementwiseOp>(e);
    if (op != nullptr && op->op() == OpType::Mul && op->in(0)->isTensor() &&
        op->in(1)->isTensor()) {
      products_.emplace(keyOf(op->in(0), op->in(1)), op->out());
    }
  }

  // Of factors whose product is there already it is taken, if others read it than the sum that they
  // are of: a gradient times a weight, say. The type is that of the first, which is a tensor.
  Val* of(std::vector<Val*> factors, const Product& sum) const {
    for (size_t i = 0; i < factors.size(); ++i) {
      for (size_t j = i + 1; j < factors.size(); ++j) {
        const auto it = products_.find(keyOf(factors[i], factors[j]));
        if (it != products_.end() && it->second->dtype() == factors.front()->dtype() &&
            isReadElsewhere(it->second, sum)) {
          factors[i] = it->second;
          factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(j));
          j = i;
        }
      }
    }
    Val* product = factors.front();
    for (size_t i = 1; i < factors.size(); ++i) {
      product = elementwiseAsIs(OpType::Mul, product->dtype(), {product, factors[i]});
    }
    return product;
  }

  TensorView* sumOf(const std::vector<Val*>& factors, const std::vector<bool>& reduced,
                    const Product& of_sum) const {
    return sum(of(factors, of_sum)->as<TensorView>(), reducedDims(reduced));
  }

 private:
  static bool isReadElsewhere(const Val* product, const Product& sum) {
    const bool is_made = std::find(sum.made.begin(), sum.made.end(), product) != sum.made.end();
    return !is_made || product->fusion()->liveUses(product).size() > 1;
  }

  using Key = std::pair<const Val*, const Val*>;
  static Key keyOf(const Val* a, const Val* b) {
    return std::less<>()(b, a) ? Key{b, a} : Key{a, b};
  }

  std::map<Key, Val*> products_;
};

// A factor that is broadcast along the summed dimensions, without these.
TensorView* withoutReduced(TensorView* tv, const std::vector<bool>& reduced) {
  const auto* op = tryAs<BroadcastOp>(tv->definition());
  std::vector<bool> others; // that are broadcast as well
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i] && (op == nullptr || !op->isBroadcastDim()[i])) {
      return squeeze(tv, reduced, true);
    }
    if (!reduced[i]) {
      others.push_back(op != nullptr && op->isBroadcastDim()[i]);
    }
  }
  auto* before = op->input(0)->as<TensorView>();
  const bool are_all =
      std::none_of(others.begin(), others.end(), [](bool is_new) { return is_new; });
  return are_all ? before : broadcast(before, others);
}

// A value times what all terms share, without the reduced dimensions.
Val* timesShared(Val* value, const Product& product, const std::vector<bool>& reduced,
                 const Products& products) {
  const auto without = [&](Val* v) {
    return v->isTensor() ? withoutReduced(v->as<TensorView>(), reduced) : v;
  };
  std::vector<Val*> factors{value};
  factors.insert(factors.end(), product.scalars.begin(), product.scalars.end());
  std::transform(product.shared.begin(), product.shared.end(), std::back_inserter(factors),
                 without);
  value = products.of(factors, product);
  for (const ElementwiseOp* op : product.quotients) {
    value = elementwiseAsIs(op->op(), value->dtype(), {value, without(op->in(1))});
  }
  return product.is_negative ? elementwiseAsIs(OpType::Neg, value->dtype(), {value}) : value;
}

// The sum is `total` times what all its terms share.
void compute(const Sum& found, TensorView* total, const Products& products) {
  TensorView* out = found.op->out();
  const Val* value = timesShared(total, found.product, reducedFlags(out), products);
  const auto* last = static_cast<const ElementwiseOp*>(value->definition());
  computeInstead(found.op, last->op(), last->inputs());
}

// where(iota == index, c, 0) along a reduced dimension.
struct MarkedConstant {
  Val* constant = nullptr;
  MarkedElement marked;
};

std::optional<MarkedConstant> markedConstant(const Val* v, const std::vector<bool>& reduced) {
  const ElementwiseOp* where = definedBy(v, OpType::Where);
  if (where == nullptr || where->in(1)->isTensor() || realConstant(where->in(2)) != 0) {
    return std::nullopt;
  }
  const auto marked = markedElement(where->in(0), v->as<TensorView>());
  return marked.has_value() && reduced[marked->dim]
             ? std::optional(MarkedConstant{where->in(1), *marked})
             : std::nullopt;
}

// Computes a sum of one element of each row, which is known, times what all elements of a row
// share. False if it is another sum.
bool computeMarked(const Sum& sum_of, const Products& products) {
  ReductionOp* op = sum_of.op;
  TensorView* out = op->out();
  std::optional<MarkedConstant> found;
  for (size_t i = 0; i < sum_of.product.factors.size() && !found.has_value(); ++i) {
    found = markedConstant(sum_of.product.factors[i], reducedFlags(out));
  }
  if (!found.has_value()) {
    return false;
  }
  const auto [index, dim] = found->marked;
  std::vector<bool> along(logicalIds(op->in()).size(), false);
  along[dim] = true;
  Product product;
  takeApart(op->in(), along, product);
  if (product.factors.size() != 1) {
    return false;
  }
  Val* zero = constantOf(0, out->dtype());
  Val* inside = logical_and(ge(index, constantOf(0, index->dtype())),
                            lt(index, logicalIds(op->in())[dim]->extent()));
  inside = squeeze(inside->as<TensorView>(), along, true);
  Val* value = where(inside, castOp(out->dtype(), found->constant), zero);
  std::vector<bool> others = reducedFlags(out);
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(dim));
  auto* total = timesShared(value, product, along, products)->as<TensorView>();
  total = reducedDims(others).empty() ? total : sum(total, reducedDims(others));
  // A sum is not -0.
  computeInstead(op, OpType::Add, {total, zero});
  return true;
}

// How many reductions wait for each other before a value is known.
class Depths {
 public:
  void visit(const Expr* e) {
    int depth = 0;
    for (const Val* in : e->inputs()) {
      depth = std::max(depth, of(in));
    }
    for (const Val* out : e->outputs()) {
      depths_[out] = depth + (isReduction(e) ? 1 : 0);
    }
    if (e->kind() == ExprKind::WelfordOp) {
      ++depths_[e->output(1)]; // squares of deviations from the mean
    }
  }
  int of(const Val* v) const {
    const auto it = depths_.find(v);
    return it == depths_.end() ? 0 : it->second;
  }

 private:
  std::unordered_map<const Val*, int> depths_;
};

// Whether a product with this factor is read by others than the sum, which multiply it by something
// else that is broadcast along the summed dimensions.
bool isMultipliedElsewhere(const Fusion* fusion, const TensorView* factor, const Product& product,
                           const std::vector<bool>& reduced) {
  const auto is_made = [&](const Val* v) {
    return std::find(product.made.begin(), product.made.end(), v) != product.made.end();
  };
  const auto multiplies = [&](const Expr* use) {
    return definedBy(use->output(0), OpType::Mul) != nullptr &&
           std::any_of(use->inputs().begin(), use->inputs().end(), [&](const Val* in) {
             return in->isTensor() && isBroadcastAlong(in->as<TensorView>(), reduced);
           });
  };
  return std::any_of(product.made.begin(), product.made.end(), [&](const Val* v) {
    const auto& ins = v->definition()->inputs();
    if (v->isFusionOutput() || std::find(ins.begin(), ins.end(), factor) == ins.end()) {
      return false;
    }
    const std::vector<Expr*> uses = fusion->liveUses(v);
    return uses.size() > 1 && std::all_of(uses.begin(), uses.end(), [&](const Expr* use) {
             return is_made(use->output(0)) || multiplies(use);
           });
  });
}

// Shared factors that wait for more reductions than the others leave the sum, and those of products
// that are read beside it to be multiplied by more of their kind. So do divisors by which terms are
// divided for this sum alone.
void sumEarlier(Fusion* fusion, Sum found, const Depths& depths, const Products& products) {
  Product& product = found.product;
  const std::vector<bool> reduced = reducedFlags(found.op->out());
  int depth = 0;
  for (const Val* factor : product.factors) {
    depth = std::max(depth, depths.of(factor));
  }
  const auto late = std::stable_partition(
      product.shared.begin(), product.shared.end(), [&](const TensorView* tv) {
        return depths.of(tv) <= depth && !isMultipliedElsewhere(fusion, tv, product, reduced);
      });
  const bool divides = std::any_of(product.quotients.begin(), product.quotients.end(),
                                   [](const ElementwiseOp* op) { return op->in(1)->isTensor(); }) &&
                       std::all_of(product.made.begin(), product.made.end(), [&](const Val* v) {
                         return !v->isFusionOutput() && fusion->liveUses(v).size() == 1;
                       });
  if (late == product.shared.end() && !divides) {
    return;
  }
  std::vector<Val*> factors = product.factors;
  factors.insert(factors.end(), product.shared.begin(), late);
  factors.insert(factors.end(), product.scalars.begin(), product.scalars.end());
  product.shared.erase(product.shared.begin(), late);
  product.scalars.clear();
  compute(found, products.sumOf(factors, reduced, product), products);
}

} // namespace

void shareSums(Fusion* fusion) {
  using Key = std::tuple<std::vector<bool>, std::vector<Val*>>;
  const FusionGuard guard(fusion);
  fusion->removeDeadUses();
  std::map<Key, std::vector<Sum>> alike;
  std::vector<Key> order; // addresses differ from run to run
  Depths depths;
  Products products;
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* e : exprs) {
    depths.visit(e);
    products.visit(e);
    if (!isPlainSum(e)) {
      continue;
    }
    Sum found{static_cast<ReductionOp*>(e), {}};
    const std::vector<bool> reduced = reducedFlags(found.op->out());
    takeApart(found.op->in(), reduced, found.product);
    if (computeMarked(found, products)) {
      continue;
    }
    std::vector<Val*> factors = found.product.factors;
    std::sort(factors.begin(), factors.end());
    if (factors.empty()) {
      continue;
    }
    Key key{reduced, std::move(factors)};
    std::vector<Sum>& sums = alike[key];
    if (sums.empty()) {
      order.push_back(key);
    }
    sums.push_back(std::move(found));
  }
  for (const Key& key : order) {
    const std::vector<Sum>& sums = alike.at(key);
    if (sums.size() < 2) {
      sumEarlier(fusion, sums.front(), depths, products);
      continue;
    }
    const auto plain =
        std::find_if(sums.begin(), sums.end(), [](const Sum& s) { return s.isPlain(); });
    TensorView* total =
        plain != sums.end()
            ? plain->op->out()
            : products.sumOf(sums.front().product.factors, std::get<0>(key), sums.front().product);
    for (const Sum& each : sums) {
      if (!each.isPlain()) {
        compute(each, total, products);
      }
    }
  }
}

} // namespace nvfuser
