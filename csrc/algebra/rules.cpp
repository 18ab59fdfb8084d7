// SPDX-License-Identifier: BSD-3-Clause
// The rules of the simplifier: division, modulo, minima and maxima, comparisons, logic.
//
// In the comments a, b, q, r, g, k are integers with the meaning of the variables of those names;
// "/" truncates. Rules about signs ask the range analysis; nothing is assumed but that divisors are
// not zero.
#include <algebra/symbolic.h>

#include <ir/evaluator.h>

#include <algorithm>
#include <numeric>

namespace nvfuser::symbolic {
namespace {

// Operands of one min, max, and, or that are compared in pairs.
constexpr size_t kMaxPairwise = 8;

bool isOne(const Term& t) {
  return t.coefficient == 1 && t.factors.empty();
}

bool isCompound(Ref a) {
  return a->kind == Kind::And || a->kind == Kind::Or;
}

int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

} // namespace

class Engine::PositiveDivisor {
 public:
  PositiveDivisor(Engine& engine, Ref b) : engine_(engine) {
    std::swap(atoms_, engine_.positive_atoms_);
    std::swap(polys_, engine_.positive_polys_);
    if (engine_.intervalOf(b).lo >= 0) {
      engine_.positive_polys_ = {b};
    }
    // The factors of a product that is not zero are not zero either.
    if (b->terms.size() == 1 && b->constant == 0) {
      engine_.positive_atoms_ = b->terms[0].factors;
    }
  }
  ~PositiveDivisor() {
    std::swap(atoms_, engine_.positive_atoms_);
    std::swap(polys_, engine_.positive_polys_);
  }
  PositiveDivisor(const PositiveDivisor&) = delete;
  PositiveDivisor& operator=(const PositiveDivisor&) = delete;

 private:
  Engine& engine_;
  std::vector<Ref> atoms_;
  std::vector<Ref> polys_;
};

// Divides a and b by what they have in common and returns that.
Ref Engine::cancel(Ref& a, Ref& b) {
  const Term ca = content(a);
  const Term cb = content(b);
  const Term common{std::gcd(ca.coefficient, cb.coefficient),
                    commonFactors(ca.factors, cb.factors)};
  if (!isOne(common)) {
    a = splitMultiples(a, common).quotient;
    b = splitMultiples(b, common).quotient;
  }
  return mulTerm(constant(1), common);
}

// k with k * divisor <= rest < (k + 1) * divisor, for a positive divisor.
std::optional<int64_t> Engine::wholeMultiple(Ref rest, Ref divisor) {
  if (divisor->isConst()) {
    const Interval i = intervalOf(rest);
    if (i.isFinite()) {
      const int64_t lo = floorDiv(static_cast<int64_t>(i.lo), divisor->constant);
      if (lo == floorDiv(static_cast<int64_t>(i.hi), divisor->constant)) {
        return lo;
      }
    }
  }
  if (nonNegative(rest)) {
    return nonNegative(sub(addConstant(divisor, -1), rest)) ? std::optional<int64_t>(0)
                                                            : std::nullopt;
  }
  if (nonNegative(addConstant(neg(rest), -1)) && nonNegative(add(rest, divisor))) {
    return -1;
  }
  return std::nullopt;
}

// The units that some term of a shares with all of b, large ones first.
std::vector<Term> Engine::granularities(Ref a, Ref b) const {
  const Term of_b = content(b);
  std::vector<Term> units;
  for (const Term& t : a->terms) {
    Term g{std::gcd(of_b.coefficient, t.coefficient), commonFactors(of_b.factors, t.factors)};
    const bool seen = std::any_of(units.begin(), units.end(), [&](const Term& u) {
      return u.coefficient == g.coefficient && u.factors == g.factors;
    });
    if (!isOne(g) && !seen) {
      units.push_back(std::move(g));
    }
  }
  std::stable_sort(units.begin(), units.end(), [](const Term& x, const Term& y) {
    return x.factors.size() != y.factors.size() ? x.factors.size() > y.factors.size()
                                                : x.coefficient > y.coefficient;
  });
  return units;
}

// 0 <= rest < unit
bool Engine::inUnit(Ref rest, const Term& unit) {
  return nonNegative(rest) && nonNegative(sub(addConstant(mulTerm(constant(1), unit), -1), rest));
}

// ---- Division

Ref Engine::div(Ref a, Ref b) {
  const std::pair<Ref, Ref> key(a, b);
  if (auto it = div_memo_.find(key); it != div_memo_.end()) {
    return it->second;
  }
  const Ref r = divUncached(a, b);
  return div_memo_[key] = r;
}

Ref Engine::divUncached(Ref a, Ref b) {
  if (b->isConst(0)) {
    return toPoly(atom(Kind::Div, {a, b}));
  }
  if (b->isConst(1) || a->isConst(0)) {
    return a;
  }
  if (b->isConst() && b->constant < 0) {
    return neg(div(a, neg(b)));
  }
  if (a->isConst() && b->isConst()) {
    return constant(a->constant / b->constant);
  }
  // Exact in the rationals, so for every sign: (g*a) / (g*b) == a / b, (q*b) / b == q.
  if (!cancel(a, b)->isConst(1)) {
    return div(a, b);
  }
  if (Ref q = divideExact(a, b)) {
    return q;
  }
  // (n / d) / b == n / (d*b)
  if (Ref inner = a->asAtom(); inner != nullptr && inner->kind == Kind::Div) {
    return div(inner->children[0], mul(inner->children[1], b));
  }
  PositiveDivisor positive(*this, b);
  if (intervalOf(b).lo >= 0) {
    if (Ref r = divPositive(a, b)) {
      return r;
    }
  }
  return toPoly(atom(Kind::Div, {a, b}));
}

// b > 0. Null if no rule applies.
Ref Engine::divPositive(Ref a, Ref b) {
  if (intervalOf(a).hi <= 0) {
    return neg(div(neg(a), b)); // truncation is symmetric
  }
  if (!nonNegative(a)) {
    return nullptr;
  }
  // From here on a >= 0 and "/" rounds down.
  // a == q*b + r with k*b <= r < (k+1)*b: a / b == q + k
  const Reduced d = reduce(a, b);
  if (auto k = wholeMultiple(d.rest, b)) {
    return addConstant(d.quotient, *k);
  }
  // a == q*b + r with r >= 0: a / b == q + r / b. The remainder is that of r, too (modPositive):
  // one division gives both.
  const bool by_term = b->terms.size() + (b->constant != 0 ? 1 : 0) == 1;
  const Reduced s = by_term ? splitMultiples(a, content(b)) : d;
  for (const Reduced& each : {d, s}) {
    if (!each.quotient->isConst() && nonNegative(each.rest)) {
      return add(each.quotient, div(each.rest, b));
    }
  }
  // a == g*q + r with 0 <= r < g: a / (g*b) == q / b
  for (const Term& g : granularities(a, b)) {
    const Reduced parts = splitMultiples(a, g);
    if (inUnit(parts.rest, g)) {
      return div(parts.quotient, splitMultiples(b, g).quotient);
    }
  }
  // (n % (b*k)) / b == (n / b) % k
  if (Ref inner = a->asAtom(); inner != nullptr && inner->kind == Kind::Mod) {
    const Ref n = inner->children[0];
    const Ref k = divideExact(inner->children[1], b);
    if (k != nullptr && intervalOf(k).lo >= 0 && nonNegative(n)) {
      return mod(div(n, b), k);
    }
  }
  return nullptr;
}

// ---- Modulo

Ref Engine::mod(Ref a, Ref b) {
  const std::pair<Ref, Ref> key(a, b);
  if (auto it = mod_memo_.find(key); it != mod_memo_.end()) {
    return it->second;
  }
  const Ref r = modUncached(a, b);
  return mod_memo_[key] = r;
}

Ref Engine::modUncached(Ref a, Ref b) {
  if (b->isConst(0)) {
    return toPoly(atom(Kind::Mod, {a, b}));
  }
  if (b->isConst(1) || a->isConst(0)) {
    return constant(0);
  }
  if (b->isConst() && b->constant < 0) {
    return mod(a, neg(b)); // the sign is the dividend's
  }
  if (a->isConst() && b->isConst()) {
    return constant(a->constant % b->constant);
  }
  // (g*a) % (g*b) == g * (a % b), (q*b) % b == 0
  if (Ref g = cancel(a, b); !g->isConst(1)) {
    return mul(g, mod(a, b));
  }
  if (divideExact(a, b) != nullptr) {
    return constant(0);
  }
  PositiveDivisor positive(*this, b);
  if (intervalOf(b).lo >= 0) {
    if (Ref r = modPositive(a, b)) {
      return r;
    }
  }
  return toPoly(atom(Kind::Mod, {a, b}));
}

// b > 0. Null if no rule applies.
Ref Engine::modPositive(Ref a, Ref b) {
  if (intervalOf(a).hi <= 0) {
    return neg(mod(neg(a), b));
  }
  if (!nonNegative(a)) {
    return nullptr;
  }
  // From here on a >= 0: the remainder is in [0, b).
  // a == q*b + r with k*b <= r < (k+1)*b: a % b == r - k*b
  const Reduced d = reduce(a, b);
  if (auto k = wholeMultiple(d.rest, b)) {
    return sub(d.rest, scale(b, *k));
  }
  // a == q*b + r with r >= 0: a % b == r % b
  if (d.rest != a && nonNegative(d.rest)) {
    return mod(d.rest, b);
  }
  const bool by_term = b->terms.size() + (b->constant != 0 ? 1 : 0) == 1;
  if (by_term) {
    const Reduced s = splitMultiples(a, content(b));
    if (s.rest != a && nonNegative(s.rest)) {
      return mod(s.rest, b);
    }
  }
  if (Ref opened = openInnerMods(a, b); opened != a) {
    return mod(opened, b);
  }
  // a == g*q + r with 0 <= r < g: a % (g*b) == g * (q % b) + r
  for (const Term& g : granularities(a, b)) {
    const Reduced parts = splitMultiples(a, g);
    if (inUnit(parts.rest, g)) {
      return add(mulTerm(mod(parts.quotient, splitMultiples(b, g).quotient), g), parts.rest);
    }
  }
  return nullptr;
}

// c * (n % m) and c * n are the same modulo b if b divides c*m.
Ref Engine::openInnerMods(Ref a, Ref b) {
  for (const Term& t : a->terms) {
    if (t.coefficient < 0 || t.factors.size() != 1 || t.factors[0]->kind != Kind::Mod) {
      continue;
    }
    const Ref n = t.factors[0]->children[0];
    const Ref m = t.factors[0]->children[1];
    if (intervalOf(m).lo >= 0 && nonNegative(n) &&
        divideExact(scale(m, t.coefficient), b) != nullptr) {
      const Ref without = sub(a, scale(toPoly(t.factors[0]), t.coefficient));
      return add(without, scale(n, t.coefficient));
    }
  }
  return a;
}

// ---- Division that rounds up

Ref Engine::ceilDiv(Ref a, Ref b) {
  const std::pair<Ref, Ref> key(a, b);
  if (auto it = ceil_div_memo_.find(key); it != ceil_div_memo_.end()) {
    return it->second;
  }
  const Ref r = ceilDivUncached(a, b);
  return ceil_div_memo_[key] = r;
}

Ref Engine::ceilDivUncached(Ref a, Ref b) {
  if (b->isConst(0)) {
    return constant(0);
  }
  if (b->isConst(1) || a->isConst(0)) {
    return a;
  }
  if (a->isConst() && b->isConst()) {
    return constant(-floorDiv(-a->constant, b->constant));
  }
  // Exact in the rationals.
  if (!cancel(a, b)->isConst(1)) {
    return ceilDiv(a, b);
  }
  if (Ref q = divideExact(a, b)) {
    return q;
  }
  PositiveDivisor positive(*this, b);
  if (intervalOf(b).lo < 0) {
    return toPoly(atom(Kind::CeilDiv, {a, b}));
  }
  // What is computed rounds up where a >= 0 alone.
  if (intervalOf(a).hi <= 0) {
    return neg(div(neg(a), b));
  }
  // ceilDiv(ceilDiv(n, d), b) == ceilDiv(n, d*b)
  if (Ref inner = a->asAtom();
      inner != nullptr && inner->kind == Kind::CeilDiv && intervalOf(inner->children[1]).lo >= 0) {
    return ceilDiv(inner->children[0], mul(inner->children[1], b));
  }
  // a == q*b + r with (k-1)*b < r <= k*b: ceilDiv(a, b) == q + k. Rounding down -r gives -k.
  const Reduced d = reduce(a, b);
  if (auto k = wholeMultiple(neg(d.rest), b)) {
    return addConstant(d.quotient, -*k);
  }
  // ceilDiv(q*b + r, b) == q + ceilDiv(r, b)
  const bool by_term = b->terms.size() + (b->constant != 0 ? 1 : 0) == 1;
  const Reduced s = by_term ? splitMultiples(a, content(b)) : d;
  if (!s.quotient->isConst() && (nonNegative(s.rest) || intervalOf(s.rest).hi <= 0)) {
    return add(s.quotient, ceilDiv(s.rest, b));
  }
  return toPoly(atom(Kind::CeilDiv, {a, b}));
}

// True only if b provably divides a.
bool Engine::divisible(Ref a, Ref b) {
  if (b->isConst(0)) {
    return false;
  }
  if (mod(a, b)->isConst(0)) {
    return true;
  }
  if (!b->isConst()) {
    return false;
  }
  // Term by term, looking into minima, maxima, choices and remainders.
  const int64_t m = b->constant < 0 ? -b->constant : b->constant;
  auto atom_divisible = [&](Ref f, Ref by) {
    switch (f->kind) {
      case Kind::Min:
      case Kind::Max:
      case Kind::Mod:
        return std::all_of(f->children.begin(), f->children.end(),
                           [&](Ref c) { return divisible(c, by); });
      case Kind::Where:
        return divisible(f->children[1], by) && divisible(f->children[2], by);
      default:
        return false;
    }
  };
  return a->constant % m == 0 && std::all_of(a->terms.begin(), a->terms.end(), [&](const Term& t) {
           const int64_t left = m / std::gcd(m, t.coefficient);
           return left == 1 || std::any_of(t.factors.begin(), t.factors.end(), [&](Ref f) {
                    return atom_divisible(f, constant(left));
                  });
         });
}

// ---- Minima, maxima, choices

Ref Engine::minMax(Kind kind, Ref a, Ref b) {
  std::vector<Ref> operands;
  for (Ref x : {a, b}) {
    const Ref inner = x->asAtom();
    if (inner != nullptr && inner->kind == kind) {
      operands.insert(operands.end(), inner->children.begin(), inner->children.end());
    } else {
      operands.push_back(x);
    }
  }
  std::sort(operands.begin(), operands.end(), [](Ref x, Ref y) { return compare(x, y) < 0; });
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  // Drops what another operand makes irrelevant.
  if (operands.size() <= kMaxPairwise) {
    for (size_t i = 0; i < operands.size();) {
      const bool irrelevant = std::any_of(operands.begin(), operands.end(), [&](Ref o) {
        return o != operands[i] &&
               nonNegative(kind == Kind::Min ? sub(operands[i], o) : sub(o, operands[i]));
      });
      if (irrelevant) {
        operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
  return operands.size() == 1 ? operands[0] : toPoly(atom(kind, std::move(operands)));
}

Ref Engine::where(Ref condition, Ref a, Ref b) {
  if (condition->kind == Kind::BoolConst) {
    return condition->isBool(true) ? a : b;
  }
  if (a == b) {
    return a;
  }
  if (condition->kind == Kind::Not) {
    return where(condition->children[0], b, a);
  }
  if (a->kind == Kind::Poly) {
    return toPoly(atom(Kind::Where, {condition, a, b}));
  }
  // Bools.
  if (a->isBool(true) || b->isBool(false)) {
    return a->isBool(true) ? logical(Kind::Or, condition, b) : logical(Kind::And, condition, a);
  }
  if (a->isBool(false) || b->isBool(true)) {
    const Ref other = logicalNot(condition);
    return a->isBool(false) ? logical(Kind::And, other, b) : logical(Kind::Or, other, a);
  }
  return atom(Kind::Where, {condition, a, b}, {}, DataType::Bool);
}

// ---- Comparisons

// a with a lone quotient n / d (or ceilDiv) replaced so that "a < 0" keeps its meaning; null if
// there is none. floor(n/d) < k is n < k*d, and so on.
Ref Engine::withoutQuotient(Ref a) {
  for (const Term& t : a->terms) {
    const int64_t c = t.coefficient;
    if ((c != 1 && c != -1) || t.factors.size() != 1) {
      continue;
    }
    const Ref q = t.factors[0];
    if ((q->kind != Kind::Div && q->kind != Kind::CeilDiv) || intervalOf(q->children[1]).lo < 0) {
      continue;
    }
    Ref factor = nullptr;
    Ref k = nullptr;
    if (!splitLinear(a, q, factor, k) || !factor->isConst(c)) {
      continue;
    }
    const Ref n = q->children[0];
    const Ref d = q->children[1];
    if (q->kind == Kind::Div) {
      if (!nonNegative(n)) {
        continue;
      }
      // q < -k: n < -k*d.  k < q: (k+1)*d <= n.
      return c == 1 ? add(n, mul(k, d)) : addConstant(sub(mul(addConstant(k, 1), d), n), -1);
    }
    // q <= -k-1: n <= (-k-1)*d.  k < q: k*d < n.
    return c == 1 ? addConstant(add(n, mul(addConstant(k, 1), d)), -1) : sub(mul(k, d), n);
  }
  return nullptr;
}

std::optional<bool> Engine::decideLess(Ref a) {
  for (int step = 0; a != nullptr && step < 3; ++step) {
    if (nonNegative(a)) {
      return false;
    }
    if (nonNegative(addConstant(neg(a), -1))) {
      return true;
    }
    a = withoutQuotient(a);
  }
  return std::nullopt;
}

// g*q + r < 0 with k*g <= r < (k+1)*g is q + k < 0.
Ref Engine::dropImpliedMultiples(Ref a) {
  std::vector<int64_t> units;
  for (const Term& t : a->terms) {
    units.push_back(t.coefficient < 0 ? -t.coefficient : t.coefficient);
  }
  std::sort(units.rbegin(), units.rend());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  for (int64_t g : units) {
    if (g == 1) {
      break;
    }
    std::vector<Term> q;
    std::vector<Term> r;
    for (const Term& t : a->terms) {
      if (t.coefficient % g == 0) {
        q.push_back({t.coefficient / g, t.factors});
      } else {
        r.push_back(t);
      }
    }
    const Interval i = intervalOf(poly(std::move(r), a->constant));
    if (i.isFinite()) {
      const int64_t k = floorDiv(static_cast<int64_t>(i.lo), g);
      if (k == floorDiv(static_cast<int64_t>(i.hi), g)) {
        return poly(std::move(q), k);
      }
    }
  }
  return a;
}

Ref Engine::less(Ref a) {
  if (a->isConst()) {
    return boolean(a->constant < 0);
  }
  if (auto known = decideLess(a)) {
    return boolean(*known);
  }
  // m*a < 0 is a < 0 for positive m.
  Term common = content(a);
  common.coefficient = 1;
  std::erase_if(common.factors, [&](Ref f) { return intervalOf(f).lo < 1; });
  if (!common.factors.empty()) {
    a = splitMultiples(a, common).quotient;
  }
  const Ref reduced = dropImpliedMultiples(a);
  if (reduced != a || !common.factors.empty()) {
    return less(reduced);
  }
  return atom(Kind::Less, {a}, {}, DataType::Bool);
}

Ref Engine::equal(Ref a) {
  if (a->isConst()) {
    return boolean(a->constant == 0);
  }
  if (nonNegative(addConstant(a, -1)) || nonNegative(addConstant(neg(a), -1))) {
    return boolean(false);
  }
  int64_t g = 0;
  for (const Term& t : a->terms) {
    g = std::gcd(g, t.coefficient);
  }
  if (a->constant % g != 0) {
    return boolean(false);
  }
  if (a->terms[0].coefficient < 0) {
    g = -g;
  }
  return atom(Kind::Equal, {splitMultiples(a, Term{g, {}}).quotient}, {}, DataType::Bool);
}

// ---- Logic

Ref Engine::logicalNot(Ref a) {
  if (auto it = not_memo_.find(a); it != not_memo_.end()) {
    return it->second;
  }
  const Ref r = logicalNotUncached(a);
  return not_memo_[a] = r;
}

Ref Engine::logicalNotUncached(Ref a) {
  switch (a->kind) {
    case Kind::BoolConst:
      return boolean(a->isBool(false));
    case Kind::Not:
      return a->children[0];
    case Kind::Less: // not (p < 0) is -p - 1 < 0
      return less(addConstant(neg(a->children[0]), -1));
    case Kind::And:
    case Kind::Or: {
      const Kind other = a->kind == Kind::And ? Kind::Or : Kind::And;
      Ref r = boolean(other == Kind::And);
      for (Ref c : a->children) {
        r = logical(other, r, logicalNot(c));
      }
      return r;
    }
    default:
      return atom(Kind::Not, {a}, {}, DataType::Bool);
  }
}

Ref Engine::logical(Kind kind, Ref a, Ref b) {
  const bool is_and = kind == Kind::And;
  std::vector<Ref> operands;
  for (Ref x : {a, b}) {
    if (x->kind == Kind::BoolConst) {
      if (x->isBool(!is_and)) {
        return x;
      }
    } else if (x->kind == kind) {
      operands.insert(operands.end(), x->children.begin(), x->children.end());
    } else {
      operands.push_back(x);
    }
  }
  std::sort(operands.begin(), operands.end(), [](Ref x, Ref y) { return compare(x, y) < 0; });
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  if (operands.size() <= kMaxPairwise) {
    auto implies = [&](Ref x, Ref y) { // p < 0 and q <= p give q < 0
      return x->kind == Kind::Less && y->kind == Kind::Less &&
             nonNegative(sub(x->children[0], y->children[0]));
    };
    for (size_t i = 0; i < operands.size();) {
      const Ref x = operands[i];
      bool redundant = false;
      for (Ref o : operands) {
        if (o == x || isCompound(o) || isCompound(x)) {
          continue;
        }
        // "x and o" is false if o implies not x; "x or o" is true if not o implies x.
        const Ref left = is_and ? o : logicalNot(o);
        const Ref right = is_and ? logicalNot(x) : x;
        if (left == right || implies(left, right)) {
          return boolean(!is_and);
        }
        redundant = redundant || (is_and ? implies(o, x) : implies(x, o));
      }
      if (redundant) {
        operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
  if (operands.size() < 2) {
    return operands.empty() ? boolean(is_and) : operands[0];
  }
  return atom(kind, std::move(operands), {}, DataType::Bool);
}

// ---- Everything else

Ref Engine::opaque(OpType op, DataType dtype, std::vector<Ref> children) {
  std::vector<ScalarValue> values;
  for (Ref c : children) {
    if (c->isConst()) {
      values.emplace_back(c->constant);
    } else if (c->kind == Kind::BoolConst) {
      values.emplace_back(c->constant != 0);
    }
  }
  const bool is_bool = dtype == DataType::Bool;
  if (values.size() == children.size()) {
    if (auto v = evaluateOp(op, dtype, values)) {
      return is_bool ? boolean(std::get<bool>(*v)) : constant(std::get<int64_t>(*v));
    }
  }
  const Ref a = atom(Kind::Opaque, std::move(children), op, dtype);
  return is_bool ? a : toPoly(a);
}

} // namespace nvfuser::symbolic
