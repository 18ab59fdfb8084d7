// SPDX-License-Identifier: BSD-3-Clause
// The simplifier's public functions: read, (rules apply while reading), write.
#include <algebra/simplify.h>

#include <algebra/symbolic.h>
#include <base/error.h>
#include <ir/builder.h>

namespace nvfuser {
namespace {

using symbolic::Engine;
using symbolic::Interval;
using symbolic::Kind;
using symbolic::Ref;
using symbolic::unlessOverflow;

bool canSimplify(const Val* v) {
  return v->isScalar() && (v->dtype() == DataType::Bool || symbolic::isSimplifiable(v->dtype()));
}

} // namespace

void Assumptions::setRange(const Val* v, Range r) {
  if (v->kind() == ValKind::NamedScalar) {
    named_ranges_[static_cast<const NamedScalar*>(v)->text()] = r;
  } else {
    ranges_[v] = r;
  }
}

void Assumptions::setUpperBound(const Val* v, Val* bound) {
  bound_order_.emplace_back(v, bound);
  if (v->kind() == ValKind::NamedScalar) {
    named_bounds_[static_cast<const NamedScalar*>(v)->text()] = bound;
  } else {
    bounds_[v] = bound;
  }
}

Range Assumptions::range(const Val* v) const {
  if (v->kind() == ValKind::NamedScalar) {
    auto it = named_ranges_.find(static_cast<const NamedScalar*>(v)->text());
    if (it != named_ranges_.end()) {
      return it->second;
    }
  } else if (auto it = ranges_.find(v); it != ranges_.end()) {
    return it->second;
  }
  if (const auto* c = std::get_if<int64_t>(&v->value())) {
    return {*c, *c};
  }
  // Extents and indices. An Index that a user passes in can be anything.
  if (v->dtype() == DataType::Index && v->isSymbolic() && !v->isFusionInput()) {
    return {0, std::nullopt};
  }
  return {};
}

Val* Assumptions::upperBound(const Val* v) const {
  if (v->kind() == ValKind::NamedScalar) {
    auto it = named_bounds_.find(static_cast<const NamedScalar*>(v)->text());
    return it == named_bounds_.end() ? nullptr : it->second;
  }
  auto it = bounds_.find(v);
  return it == bounds_.end() ? nullptr : it->second;
}

struct Simplifier::Impl {
  explicit Impl(Assumptions assumptions) : engine(std::move(assumptions)) {}

  Engine engine;
  std::optional<symbolic::Writer> writer;
  IrContainer* container = nullptr;

  Val* simplify(Val* v) {
    const Ref r = engine.read(v);
    if (!writer.has_value() || container != v->container()) {
      container = v->container();
      writer.emplace(container);
    }
    Val* out = writer->write(r, v->dtype());
    if (out->dtype() != v->dtype()) {
      out = IrBuilder::castExpr(v->dtype(), out);
    }
    return out->sameAs(v) ? v : out;
  }

  bool equal(Val* a, Val* b) {
    const Ref x = engine.read(a);
    const Ref y = engine.read(b);
    if (x == y || x->kind != Kind::Poly || y->kind != Kind::Poly) {
      return x == y;
    }
    const Ref difference = engine.sub(x, y);
    return difference->isConst()
               ? difference->isConst(0)
               : engine.nonNegative(difference) && engine.nonNegative(engine.neg(difference));
  }
};

Simplifier::Simplifier(Assumptions assumptions)
    : impl_(std::make_unique<Impl>(std::move(assumptions))) {}
Simplifier::~Simplifier() = default;

Val* Simplifier::simplify(Val* v) {
  if (!canSimplify(v) || v->isConst()) {
    return v;
  }
  return unlessOverflow(v, [&] { return impl_->simplify(v); });
}

bool Simplifier::provablyEqual(Val* a, Val* b) {
  if (a->sameAs(b)) {
    return true;
  }
  if (!canSimplify(a) || !canSimplify(b)) {
    return false;
  }
  return unlessOverflow(false, [&] { return impl_->equal(a, b); });
}

bool Simplifier::provablyTrue(Val* predicate) {
  NVF_ERROR(predicate->dtype() == DataType::Bool, "A predicate is a Bool");
  if (!canSimplify(predicate)) {
    return false;
  }
  return unlessOverflow(false, [&] { return impl_->engine.read(predicate)->isBool(true); });
}

bool Simplifier::provablyDivisible(Val* value, Val* factor) {
  if (!canSimplify(value) || !canSimplify(factor)) {
    return false;
  }
  return unlessOverflow(false, [&] {
    Engine& engine = impl_->engine;
    const Ref a = engine.read(value);
    const Ref b = engine.read(factor);
    return a->kind == Kind::Poly && b->kind == Kind::Poly && engine.divisible(a, b);
  });
}

Range Simplifier::rangeOf(Val* v) {
  if (!canSimplify(v)) {
    return {};
  }
  return unlessOverflow(Range(), [&] {
    Engine& engine = impl_->engine;
    const Ref r = engine.read(v);
    if (r->kind != Kind::Poly) {
      return r->kind == Kind::BoolConst ? Range{r->constant, r->constant} : Range{0, 1};
    }
    const Interval i = engine.intervalOf(r);
    Range out;
    if (i.lo != -Interval::kInfinity) {
      out.min = static_cast<int64_t>(i.lo);
    } else if (engine.nonNegative(r)) {
      out.min = 0;
    }
    if (i.hi != Interval::kInfinity) {
      out.max = static_cast<int64_t>(i.hi);
    }
    return out;
  });
}

Val* simplify(Val* v, const Assumptions& assumptions) {
  return Simplifier(assumptions).simplify(v);
}
bool provablyEqual(Val* a, Val* b, const Assumptions& assumptions) {
  return Simplifier(assumptions).provablyEqual(a, b);
}
bool provablyTrue(Val* predicate, const Assumptions& assumptions) {
  return Simplifier(assumptions).provablyTrue(predicate);
}
bool provablyDivisible(Val* value, Val* factor, const Assumptions& assumptions) {
  return Simplifier(assumptions).provablyDivisible(value, factor);
}
Range rangeOf(Val* v, const Assumptions& assumptions) {
  return Simplifier(assumptions).rangeOf(v);
}

} // namespace nvfuser
