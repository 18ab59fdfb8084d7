// SPDX-License-Identifier: BSD-3-Clause
// See axis_factors.h. Dimensions are classes of equal ones; a reshape says that a class is made of
// others. Two ways to make the same one are matched from both ends: [256, 28, 28] and [32, 6272]
// have the factors 32, 8, 28 and 28. A reshape that cannot be matched, as of [4, 6] to [6, 4],
// keeps its dimensions, and all begins anew without it.
#include <preseg_passes/axis_factors.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>

#include <algorithm>

namespace nvfuser {

namespace {

constexpr int kMostRounds = 8;

// What is computed of elements at the same position, or reduces whole dimensions, can be said with
// any factors. So can what is found at positions, with those of all dimensions but the one that is
// looked up, scans, but for the dimension along which they go, and parts, pads and concatenations,
// but for dimensions of which they take or to which they add elements.
bool takesFactors(const Expr* e) {
  switch (e->kind()) {
    case ExprKind::ReshapeOp:
    case ExprKind::IndexSelectOp:
    case ExprKind::EmbeddingFwdOp:
    case ExprKind::ScanOp:
    case ExprKind::SliceOp:
    case ExprKind::PadOp:
    case ExprKind::CatOp:
      return true;
    case ExprKind::GatherOp:
      return static_cast<const GatherOp*>(e)->exact();
    default:
      return !dependsOnSizes(e);
  }
}

bool isPartOrPadded(const Expr* e) {
  return e->kind() == ExprKind::SliceOp || e->kind() == ExprKind::PadOp;
}

// Other ones than of parts and pads, whose order in memory is that of their dimensions.
bool hasTransforms(const TensorView* tv) {
  const auto& root = tv->getMaybeRootDomain();
  const auto& logical = tv->getLogicalDomain();
  if (std::is_permutation(root.begin(), root.end(), logical.begin(), logical.end())) {
    return false;
  }
  return !isPartOrPadded(tv->definition()) || tv->domain()->hasAllocation();
}

bool isOrderOfLogical(const TensorView* tv) {
  const auto& memory = tv->getMaybeAllocationDomain();
  const auto& logical = tv->getLogicalDomain();
  return std::is_permutation(memory.begin(), memory.end(), logical.begin(), logical.end());
}

} // namespace

AxisFactors::AxisFactors(const Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                         const std::unordered_set<const Expr*>& ends)
    : ends_(ends) {
  for (int round = 0; round < kMostRounds; ++round) {
    if (solve(fusion, kept)) {
      return;
    }
  }
  solved_.clear();
  number_.clear();
}

// False if a reshape was found that keeps its dimensions.
bool AxisFactors::solve(const Fusion* fusion, const std::unordered_set<const TensorView*>& kept) {
  number_.clear();
  classes_.clear();
  solved_.clear();
  addTensors(fusion, kept);
  const size_t known = opaque_.size();
  for (const Expr* e : fusion->exprs()) {
    if (e->kind() == ExprKind::ReshapeOp && !isOpaque(e)) {
      // What stays as it is is no other tensor.
      if (kept.count(e->output(0)->as<TensorView>()) == 0 && addReshape(e)) {
        solved_.push_back(e);
      } else {
        opaque_.insert(e);
      }
    }
  }
  return opaque_.size() == known;
}

bool AxisFactors::isOpaque(const Expr* e) const {
  return !takesFactors(e) || opaque_.count(e) != 0 || ends_.count(e) != 0 ||
         (e->kind() != ExprKind::ReshapeOp && hasTransforms(e->output(0)->as<TensorView>()));
}

void AxisFactors::addTensors(const Fusion* fusion,
                             const std::unordered_set<const TensorView*>& kept) {
  std::unordered_set<const TensorView*> fixed = kept;
  for (const Expr* e : fusion->exprs()) {
    const auto fix = [&](const std::vector<TensorView*>& tvs, bool is_opaque) {
      for (const TensorView* tv : tvs) {
        if (is_opaque || tv->dtype() == DataType::Float4_e2m1fn || !isOrderOfLogical(tv)) {
          fixed.insert(tv);
        }
      }
    };
    fix(tensorInputs(e), isOpaque(e) && ends_.count(e) == 0);
    fix(tensorOutputs(e), isOpaque(e));
  }
  // Dimensions that are equal, then those that stand for others by being 1.
  std::vector<std::pair<int, int>> by_broadcast;
  for (const TensorView* tv : fusion->allTvs()) {
    for (const IterDomain* id : tv->getLogicalDomain()) {
      Class& c = classes_[static_cast<size_t>(find(numbered(id)))];
      c.fixed = c.fixed || fixed.count(tv) != 0 || id->hasExpandedExtent() || id->isSymbolicType();
    }
  }
  for (const Expr* e : fusion->exprs()) {
    if (isOpaque(e)) {
      continue;
    }
    for (const TensorView* out : tensorOutputs(e)) {
      for (const TensorView* in : tensorInputs(e)) {
        for (const auto& [p, c] : producerConsumerPairs(in, out)) {
          if (p->isBroadcast() || c->isBroadcast()) {
            by_broadcast.emplace_back(numbered(p), numbered(c));
          } else {
            unite(numbered(p), numbered(c));
          }
        }
      }
    }
    const auto keep_whole = [&](const Val* tv, size_t dim) {
      classes_[static_cast<size_t>(find(numbered(logicalIds(tv).at(dim))))].fixed = true;
    };
    if (const auto* scan = tryAs<ScanOp>(e)) {
      keep_whole(scan->out(), static_cast<size_t>(scan->dim()));
    } else if (const auto* cat = tryAs<CatOp>(e)) {
      keep_whole(cat->output(0), static_cast<size_t>(cat->dim()));
    } else if (isPartOrPadded(e)) {
      const auto dims = logicalIds(e->output(0));
      for (size_t d = 0; d < dims.size(); ++d) {
        const auto* resize = tryAs<Resize>(dims[d]->definition());
        if (resize != nullptr) {
          keep_whole(e->input(0), d);
          keep_whole(e->output(0), d);
        }
      }
    }
    // What is looked up at any position is one dimension.
    if (const TensorView* table = lookedUpTensor(e)) {
      const auto dim = static_cast<size_t>(lookedUpDim(e));
      std::vector<const Val*> as_one{table};
      if (e->kind() == ExprKind::GatherOp) {
        as_one.insert(as_one.end(), {e->input(1), e->output(0)});
      }
      for (const Val* tv : as_one) {
        keep_whole(tv, dim);
      }
    }
  }
  // One that stands for dimensions of several sizes cannot have the factors of all of them.
  for (const auto& [p, c] : by_broadcast) {
    Class& a = classes_[static_cast<size_t>(find(p))];
    Class& b = classes_[static_cast<size_t>(find(c))];
    if (a.extent != nullptr && b.extent != nullptr && !sameExtent(p, c)) {
      a.fixed = b.fixed = true;
    } else {
      unite(p, c);
    }
  }
}

bool AxisFactors::addReshape(const Expr* reshape) {
  const auto* out = reshape->output(0)->as<TensorView>();
  if (!out->hasRoot()) {
    return false;
  }
  for (const Expr* e : transformsBetween(out->getRootDomain(), out->getLogicalDomain())) {
    for (const auto* vals : {&e->inputs(), &e->outputs()}) {
      for (const Val* v : *vals) {
        const auto* id = tryAs<IterDomain>(v);
        if (id != nullptr && (!id->isIteration() || id->hasExpandedExtent())) {
          return false;
        }
      }
    }
    bool ok = false;
    if (e->kind() == ExprKind::Merge) {
      const auto* m = static_cast<const Merge*>(e);
      ok = define(numbered(m->out()), {numbered(m->outer()), numbered(m->inner())});
    } else if (e->kind() == ExprKind::Split) {
      const auto* s = static_cast<const Split*>(e);
      ok = define(numbered(s->in()), {numbered(s->outer()), numbered(s->inner())});
    }
    if (!ok) {
      return false;
    }
  }
  return true;
}

int AxisFactors::numbered(const IterDomain* id) {
  auto [it, inserted] = number_.try_emplace(id, static_cast<int>(classes_.size()));
  if (inserted) {
    classes_.push_back({.extent = id->isBroadcast() ? nullptr : id->extent()});
  }
  return it->second;
}

int AxisFactors::find(int c) const {
  while (classes_[static_cast<size_t>(c)].parent >= 0) {
    c = classes_[static_cast<size_t>(c)].parent;
  }
  return c;
}

int AxisFactors::newFactor(Val* extent) {
  classes_.push_back({.extent = extent});
  return static_cast<int>(classes_.size()) - 1;
}

void AxisFactors::factorsOf(int c, std::vector<int>& out) const {
  c = find(c);
  const std::vector<int>& factors = classes_[static_cast<size_t>(c)].factors;
  if (factors.empty()) {
    out.push_back(c);
  }
  for (int f : factors) {
    factorsOf(f, out);
  }
}

std::vector<Val*> AxisFactors::factorsOf(const IterDomain* id) const {
  std::vector<Val*> extents;
  if (auto it = number_.find(id); it != number_.end()) {
    std::vector<int> factors;
    factorsOf(it->second, factors);
    for (int f : factors) {
      extents.push_back(classes_[static_cast<size_t>(f)].extent);
    }
  } else {
    extents.push_back(id->extent());
  }
  return extents;
}

bool AxisFactors::isSplit(const IterDomain* id) const {
  auto it = number_.find(id);
  return it != number_.end() && !classes_[static_cast<size_t>(find(it->second))].factors.empty();
}

bool AxisFactors::sameExtent(int a, int b) const {
  a = find(a);
  b = find(b);
  const Val* x = classes_[static_cast<size_t>(a)].extent;
  const Val* y = classes_[static_cast<size_t>(b)].extent;
  return a == b || (x != nullptr && y != nullptr && x->sameAs(y));
}

bool AxisFactors::unite(int a, int b) {
  a = find(a);
  b = find(b);
  if (a == b) {
    return true;
  }
  if (classes_[static_cast<size_t>(a)].factors.empty()) {
    std::swap(a, b);
  }
  const Class& into = classes_[static_cast<size_t>(a)];
  const Class& from = classes_[static_cast<size_t>(b)];
  if (!from.factors.empty()) {
    std::vector<int> x;
    std::vector<int> y;
    factorsOf(a, x);
    factorsOf(b, y);
    if (!match(x, y)) {
      return false;
    }
  } else if (!into.factors.empty()) {
    std::vector<int> leaves;
    factorsOf(a, leaves);
    if (from.fixed || std::find(leaves.begin(), leaves.end(), b) != leaves.end()) {
      return false;
    }
  }
  // Matching may have added classes.
  Class& target = classes_[static_cast<size_t>(a)];
  Class& source = classes_[static_cast<size_t>(b)];
  if (target.extent == nullptr || (source.extent != nullptr && source.extent->isConst())) {
    target.extent = source.extent;
  }
  target.fixed = target.fixed || source.fixed;
  source.parent = a;
  return true;
}

bool AxisFactors::define(int c, std::vector<int> factors) {
  c = find(c);
  std::vector<int> leaves;
  for (int f : factors) {
    factorsOf(f, leaves);
  }
  if (std::find(leaves.begin(), leaves.end(), c) != leaves.end()) {
    return false;
  }
  Class& target = classes_[static_cast<size_t>(c)];
  if (target.factors.empty()) {
    target.factors = leaves;
    return !target.fixed;
  }
  std::vector<int> known;
  factorsOf(c, known);
  return match(std::move(known), std::move(leaves));
}

// Whether two products are equal that are known to have the same value; what follows from that for
// their factors.
bool AxisFactors::match(std::vector<int> a, std::vector<int> b) {
  while (true) {
    for (auto* list : {&a, &b}) {
      std::vector<int> leaves;
      for (int f : *list) {
        factorsOf(f, leaves);
      }
      *list = std::move(leaves);
    }
    if (a.empty() || b.empty()) {
      return a.empty() && b.empty();
    }
    if (a.size() == 1 && b.size() == 1) {
      return unite(a[0], b[0]);
    }
    if (sameExtent(a.front(), b.front())) {
      if (!unite(a.front(), b.front())) {
        return false;
      }
      a.erase(a.begin());
      b.erase(b.begin());
    } else if (sameExtent(a.back(), b.back())) {
      if (!unite(a.back(), b.back())) {
        return false;
      }
      a.pop_back();
      b.pop_back();
    } else if (a.size() == 1 || b.size() == 1) {
      return a.size() == 1 ? define(a[0], b) : define(b[0], a);
    } else if (!splitFront(a, b) && !splitFront(b, a)) {
      return false;
    }
  }
}

// The first factor of `longer` is a multiple of that of `shorter`.
bool AxisFactors::splitFront(std::vector<int>& longer, std::vector<int>& shorter) {
  const Val* x = classes_[static_cast<size_t>(find(longer.front()))].extent;
  const Val* y = classes_[static_cast<size_t>(find(shorter.front()))].extent;
  if (x == nullptr || y == nullptr || !x->isConst() || !y->isConst()) {
    return false;
  }
  const auto large = x->intValue();
  const auto small = y->intValue();
  if (small <= 0 || large <= small || large % small != 0) {
    return false;
  }
  return define(longer.front(), {shorter.front(), newFactor(IrBuilder::index(large / small))});
}

} // namespace nvfuser
