// SPDX-License-Identifier: BSD-3-Clause
// Range analysis: numeric intervals of nodes, and proofs that a polynomial is not negative which
// also use symbolic bounds (i < E), what quotients and remainders satisfy, and correlation between
// terms.
#include <algebra/symbolic.h>

#include <base/error.h>
#include <ir/evaluator.h>

#include <algorithm>

namespace nvfuser::symbolic {
namespace {

using Wide = Interval::Wide;
constexpr Wide kInf = Interval::kInfinity;
constexpr Wide kMax = INT64_MAX;
constexpr Wide kMin = INT64_MIN;

// Polynomials looked at in one proof, and proofs inside proofs.
constexpr int kProofBudget = 64;
constexpr int kMaxProofDepth = 3;

// Bounds that leave 64 bits are widened to infinity, or brought back to the nearest 64-bit number
// on the other side: both keep the interval a superset.
Interval clamped(Wide lo, Wide hi) {
  return {lo < kMin ? -kInf : std::min(lo, kMax), hi > kMax ? kInf : std::max(hi, kMin)};
}

bool isInfinite(Wide x) {
  return x == kInf || x == -kInf;
}

Wide addBound(Wide a, Wide b) {
  return isInfinite(a) ? a : isInfinite(b) ? b : a + b;
}

Wide mulBound(Wide a, Wide b) {
  if (a == 0 || b == 0) {
    return 0;
  }
  if (isInfinite(a) || isInfinite(b)) {
    return (a < 0) == (b < 0) ? kInf : -kInf;
  }
  return a * b;
}

// Truncating; b > 0. An unbounded divisor brings any finite numerator down to 0.
Wide divBound(Wide a, Wide b) {
  return isInfinite(a) ? a : isInfinite(b) ? 0 : a / b;
}

Wide ceilDivBound(Wide a, Wide b) {
  if (isInfinite(a)) {
    return a;
  }
  if (isInfinite(b)) {
    return a > 0 ? 1 : 0;
  }
  return a / b + (a % b > 0 ? 1 : 0);
}

Wide absBound(const Interval& i) {
  return std::max(i.lo < 0 ? -i.lo : i.lo, i.hi < 0 ? -i.hi : i.hi);
}

// Bounds of a quotient by a divisor of unknown sign: no further from 0 than the numerator.
Interval withinMagnitude(const Interval& n) {
  const Wide m = absBound(n);
  return {-m, m};
}

// Of a divisor that is not negative, and never zero.
Interval nonZero(const Interval& d) {
  return {std::max<Wide>(d.lo, 1), std::max<Wide>(d.hi, 1)};
}

// `bound`: of one quotient, rounded.
Interval divInterval(const Interval& n, const Interval& d, Wide (*bound)(Wide, Wide)) {
  if (d.lo < 0) {
    return withinMagnitude(n);
  }
  const Interval p = nonZero(d);
  return {bound(n.lo, n.lo >= 0 ? p.hi : p.lo), bound(n.hi, n.hi >= 0 ? p.lo : p.hi)};
}

Interval modInterval(const Interval& n, const Interval& d) {
  const Wide m = absBound(d);
  const Wide most = isInfinite(m) ? kInf : std::max<Wide>(m - 1, 0);
  return {n.lo >= 0 ? 0 : std::max(n.lo, most == kInf ? -kInf : -most),
          n.hi <= 0 ? 0 : std::min(n.hi, most)};
}

// 2^k - 1 for the smallest k that covers x.
Wide onesCovering(Wide x) {
  Wide ones = 0;
  while (ones < x) {
    ones = ones * 2 + 1;
  }
  return ones;
}

Interval typeInterval(DataType dtype) {
  return dtype == DataType::Int32 ? Interval{INT32_MIN, INT32_MAX} : Interval{};
}

Interval opaqueInterval(const Node& n) {
  auto child = [&](size_t i) { return n.children[i]->interval; };
  auto both_nonnegative = [&] { return child(0).lo >= 0 && child(1).lo >= 0; };
  const Interval all = typeInterval(n.dtype);
  switch (n.op) {
    case OpType::Mul:
      return child(0) * child(1);
    case OpType::Abs: {
      const Interval c = child(0);
      return {c.lo > 0 ? c.lo : c.hi < 0 ? -c.hi : 0, absBound(c)};
    }
    case OpType::Gcd:
      return {0, kInf};
    case OpType::BitwiseAnd:
      return both_nonnegative() ? Interval{0, std::min(child(0).hi, child(1).hi)} : all;
    case OpType::BitwiseOr:
    case OpType::BitwiseXor: {
      if (!both_nonnegative()) {
        return all;
      }
      const Wide hi = std::max(child(0).hi, child(1).hi);
      return {0, isInfinite(hi) ? kInf : onesCovering(hi)};
    }
    case OpType::Cast:
      return n.children[0]->dtype == DataType::Bool ? Interval{0, 1} : all;
    default:
      return all;
  }
}

// False at some sample.
bool isRefuted(Ref claimed_not_negative) {
  const Samples& s = claimed_not_negative->samples;
  return std::any_of(s.begin(), s.end(), [](const auto& x) { return x.has_value() && *x < 0; });
}

using Sample = std::optional<int64_t>;

Sample sampleSum(const Node& n, int k) {
  int64_t sum = n.constant;
  for (const Term& t : n.terms) {
    int64_t p = t.coefficient;
    for (Ref f : t.factors) {
      const Sample x = f->samples[static_cast<size_t>(k)];
      if (!x || __builtin_mul_overflow(p, *x, &p)) {
        return std::nullopt;
      }
    }
    if (__builtin_add_overflow(sum, p, &sum)) {
      return std::nullopt;
    }
  }
  return sum;
}

// The op of an integer atom; null for those that are not sampled.
std::optional<OpType> sampledOp(const Node& n) {
  switch (n.kind) {
    case Kind::Div:
      return OpType::Div;
    case Kind::Mod:
      return OpType::Mod;
    case Kind::CeilDiv:
      return OpType::CeilDiv;
    case Kind::Min:
      return OpType::Minimum;
    case Kind::Max:
      return OpType::Maximum;
    default:
      return std::nullopt;
  }
}

Sample sampleAtom(const Node& n, OpType op, int k) {
  Sample result = n.children[0]->samples[static_cast<size_t>(k)];
  for (size_t i = 1; i < n.children.size() && result; ++i) {
    const Sample x = n.children[i]->samples[static_cast<size_t>(k)];
    const bool divides_by_zero = op != OpType::Minimum && op != OpType::Maximum && x == 0;
    if (!x || divides_by_zero) {
      return std::nullopt;
    }
    const auto v = evaluateOp(op, DataType::Int, {*result, *x});
    result = v ? Sample(std::get<int64_t>(*v)) : std::nullopt;
  }
  return result;
}

bool contains(const std::vector<Ref>& refs, Ref r) {
  return std::find(refs.begin(), refs.end(), r) != refs.end();
}

} // namespace

Interval Interval::unionWith(const Interval& o) const {
  return {std::min(lo, o.lo), std::max(hi, o.hi)};
}
Interval Interval::intersect(const Interval& o) const {
  return {std::max(lo, o.lo), std::min(hi, o.hi)};
}
Interval Interval::operator+(const Interval& o) const {
  return clamped(addBound(lo, o.lo), addBound(hi, o.hi));
}
Interval Interval::operator*(const Interval& o) const {
  const Wide corners[] = {mulBound(lo, o.lo), mulBound(lo, o.hi), mulBound(hi, o.lo),
                          mulBound(hi, o.hi)};
  return clamped(*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4));
}

Interval Engine::atomInterval(const Node& n) const {
  auto child = [&](size_t i) { return n.children[i]->interval; };
  switch (n.kind) {
    case Kind::Div:
      return divInterval(child(0), child(1), divBound);
    case Kind::Mod:
      return modInterval(child(0), child(1));
    case Kind::CeilDiv:
      return divInterval(child(0), child(1), ceilDivBound);
    case Kind::Min:
    case Kind::Max: {
      Interval i = child(0);
      for (size_t k = 1; k < n.children.size(); ++k) {
        const Interval c = child(k);
        i = n.kind == Kind::Min ? Interval{std::min(i.lo, c.lo), std::min(i.hi, c.hi)}
                                : Interval{std::max(i.lo, c.lo), std::max(i.hi, c.hi)};
      }
      return i;
    }
    case Kind::Where:
      return n.dtype == DataType::Bool ? Interval{0, 1} : child(1).unionWith(child(2));
    case Kind::Opaque:
      return n.dtype == DataType::Bool ? Interval{0, 1} : opaqueInterval(n);
    default:
      return {0, 1};
  }
}

Interval Engine::symbolInterval(Val* v) {
  const Range r = assumptions_.range(v);
  Interval i{r.min ? Wide(*r.min) : -kInf, r.max ? Wide(*r.max) : kInf};
  i = i.intersect(typeInterval(v->dtype()));
  const bool positive = v->kind() == ValKind::NamedScalar
                            ? positive_names_.count(static_cast<const NamedScalar*>(v)->text()) != 0
                            : positive_vals_.count(v) != 0;
  if (positive) {
    i.lo = std::max<Wide>(i.lo, 1);
  }
  if (Ref bound = readUpperBound(v)) {
    const Wide hi = bound->interval.hi;
    i.hi = isInfinite(hi) ? i.hi : std::min(i.hi, hi - 1);
  }
  return i;
}

Samples Engine::sampleNode(const Node& n) {
  Samples out;
  const auto op = sampledOp(n);
  for (int k = 0; k < kSamples; ++k) {
    if (n.kind == Kind::Poly) {
      out[static_cast<size_t>(k)] = sampleSum(n, k);
    } else if (op) {
      out[static_cast<size_t>(k)] = sampleAtom(n, *op, k);
    }
  }
  return out;
}

// Large extents with indices 0, small extents with the last index, something between.
Samples Engine::sampleSymbol(Val* v, const Interval& interval) {
  const int64_t extents[kSamples] = {1009 + 8 * (v->name() % 64), 1, 7 + v->name() % 5};
  const Ref bound = readUpperBound(v);
  Samples out;
  for (size_t k = 0; k < kSamples; ++k) {
    Wide x = extents[k];
    if (bound != nullptr) {
      const Sample b = bound->samples[k];
      if (!b) {
        continue;
      }
      x = k == 0 ? 0 : Wide(*b) - 1;
    }
    x = std::min(std::max(x, interval.lo), interval.hi);
    if (!isInfinite(x)) {
      out[k] = static_cast<int64_t>(x);
    }
  }
  return out;
}

Interval Engine::polyInterval(const Node& n) {
  Interval sum = Interval::point(n.constant);
  for (const Term& t : n.terms) {
    Interval p = Interval::point(t.coefficient);
    for (Ref f : t.factors) {
      p = p * f->interval;
    }
    sum = sum + p;
  }
  return sum;
}

Interval Engine::intervalOf(Ref a) const {
  Interval i = a->interval;
  if (a->kind != Kind::Poly) {
    i.lo = i.lo == 0 && contains(positive_atoms_, a) ? 1 : i.lo;
    return i;
  }
  if (!positive_atoms_.empty()) {
    i = Interval::point(a->constant);
    for (const Term& t : a->terms) {
      Interval p = Interval::point(t.coefficient);
      for (Ref f : t.factors) {
        p = p * intervalOf(f);
      }
      i = i + p;
    }
  }
  i.lo = i.lo == 0 && contains(positive_polys_, a) ? 1 : i.lo;
  return i;
}

std::vector<Ref> Engine::atomsOf(Ref a) const {
  std::vector<Ref> atoms;
  for (const Term& t : a->terms) {
    for (Ref f : t.factors) {
      if (!contains(atoms, f)) {
        atoms.push_back(f);
      }
    }
  }
  // What is nested deepest first: a quotient before the index that it is a quotient of.
  std::stable_sort(atoms.begin(), atoms.end(), [](Ref x, Ref y) {
    return x->depth != y->depth ? x->depth > y->depth : compare(x, y) < 0;
  });
  return atoms;
}

// a == factor * atom + rest, with no atom in factor and rest.
bool Engine::splitLinear(Ref a, Ref atom, Ref& factor, Ref& rest) {
  std::vector<Term> with;
  std::vector<Term> without;
  for (const Term& t : a->terms) {
    const auto n = std::count(t.factors.begin(), t.factors.end(), atom);
    if (n > 1) {
      return false;
    }
    if (n == 0) {
      without.push_back(t);
      continue;
    }
    Term u = t;
    u.factors.erase(std::find(u.factors.begin(), u.factors.end(), atom));
    with.push_back(std::move(u));
  }
  factor = poly(std::move(with), 0);
  rest = poly(std::move(without), a->constant);
  return true;
}

// What v is less than, or null.
Ref Engine::readUpperBound(Val* v) {
  Val* bound = assumptions_.upperBound(v);
  if (bound == nullptr || !isSimplifiable(bound->dtype())) {
    return nullptr;
  }
  if (auto it = upper_bounds_.find(bound); it != upper_bounds_.end()) {
    return it->second;
  }
  // Null while it is read: a bound that depends on the scalar itself says nothing.
  upper_bounds_[bound] = nullptr;
  const Ref r = read(bound);
  return upper_bounds_[bound] = r;
}

// Polynomials that are not more than factor * atom, in `out`.
void Engine::boundsOfProduct(Ref factor, Ref atom, std::vector<Ref>& out) {
  const Interval sign = intervalOf(factor);
  const bool wants_upper = sign.hi <= 0; // of the atom
  const bool wants_lower = sign.lo >= 0;
  if (!wants_upper && !wants_lower) {
    return;
  }
  auto times = [&](Ref bound) { out.push_back(mul(factor, bound)); };
  switch (atom->kind) {
    case Kind::Symbol:
      if (Ref bound = readUpperBound(atom->val)) {
        if (wants_upper) {
          times(addConstant(bound, -1));
        } else if (!isInfinite(intervalOf(atom).lo)) {
          times(constant(static_cast<int64_t>(intervalOf(atom).lo)));
        }
      }
      return;
    case Kind::Div:
    case Kind::CeilDiv: {
      const Ref n = atom->children[0];
      const Ref d = atom->children[1];
      const bool up = atom->kind == Kind::CeilDiv;
      if (intervalOf(d).lo < 0 || (!up && !nonNegative(n))) {
        return;
      }
      // d * (n / d) is in [n - d + 1, n]; d * ceilDiv(n, d) is in [n, n + d - 1].
      if (Ref k = divideExact(factor, d)) {
        const Interval k_sign = intervalOf(k);
        const Ref slack = addConstant(d, -1);
        if (k_sign.hi <= 0) {
          out.push_back(mul(k, up ? add(n, slack) : n));
        } else if (k_sign.lo >= 0) {
          out.push_back(mul(k, up ? n : sub(n, slack)));
        }
        return;
      }
      const Ref most = wants_upper ? symbolicMax(n) : n;
      if (most != n) {
        times(up ? ceilDiv(most, d) : div(most, d));
      }
      return;
    }
    case Kind::Mod: {
      const Ref n = atom->children[0];
      const Ref d = atom->children[1];
      if (wants_upper && intervalOf(d).lo >= 0 && nonNegative(n)) {
        times(addConstant(d, -1));
        times(n);
      }
      return;
    }
    case Kind::Min:
    case Kind::Max:
      if (atom->kind == Kind::Min ? wants_upper : wants_lower) {
        for (Ref c : atom->children) {
          times(c);
        }
      }
      return;
    default:
      return;
  }
}

// A polynomial that is not less than a, without the indices that have symbolic bounds where that is
// possible; a itself if there is nothing to replace.
Ref Engine::symbolicMax(Ref a) {
  if (proof_depth_ > kMaxProofDepth) {
    return a;
  }
  const bool cacheable = positive_atoms_.empty() && positive_polys_.empty();
  if (auto it = symbolic_max_.find(a); cacheable && it != symbolic_max_.end()) {
    return it->second;
  }
  DepthGuard guard(proof_depth_);
  Ref result = neg(a);
  for (int step = 0; step < 8; ++step) {
    Ref next = nullptr;
    for (Ref atom : atomsOf(result)) {
      Ref factor = nullptr;
      Ref rest = nullptr;
      std::vector<Ref> bounds;
      if (splitLinear(result, atom, factor, rest)) {
        boundsOfProduct(factor, atom, bounds);
      }
      if (!bounds.empty() && add(bounds[0], rest) != result) {
        next = add(bounds[0], rest);
        break;
      }
    }
    if (next == nullptr) {
      break;
    }
    result = next;
  }
  result = neg(result);
  if (cacheable) {
    symbolic_max_[a] = result;
  }
  return result;
}

// Replaces atoms by bounds that make the polynomial smaller until its interval decides.
bool Engine::searchNonNegative(Ref a, int& budget) {
  if (--budget < 0) {
    return false;
  }
  const Interval i = intervalOf(a);
  if (i.lo >= 0 || i.hi < 0 || isRefuted(a)) {
    return i.lo >= 0;
  }
  for (Ref p : positive_polys_) {
    if (a == addConstant(p, -1)) {
      return true;
    }
  }
  const std::vector<Ref> atoms = atomsOf(a);
  Ref factor = nullptr;
  Ref rest = nullptr;
  for (Ref atom : atoms) {
    std::vector<Ref> bounds;
    if (splitLinear(a, atom, factor, rest)) {
      boundsOfProduct(factor, atom, bounds);
    }
    bool tried = false;
    for (Ref bound : bounds) {
      const Ref next = add(bound, rest);
      if (next != a) {
        tried = true;
        if (searchNonNegative(next, budget)) {
          return true;
        }
      }
    }
    if (tried) {
      return false;
    }
  }
  // Terms that the interval takes to be independent: E1 * E2 - E2 with E1 >= 1.
  for (Ref atom : atoms) {
    if (!splitLinear(a, atom, factor, rest) || factor->isConst()) {
      continue;
    }
    const Interval sign = intervalOf(factor);
    const Interval range = intervalOf(atom);
    const Wide end = sign.lo >= 0 ? range.lo : sign.hi <= 0 ? range.hi : kInf;
    if (!isInfinite(end) &&
        searchNonNegative(add(scale(factor, static_cast<int64_t>(end)), rest), budget)) {
      return true;
    }
  }
  return false;
}

bool Engine::nonNegative(Ref a) {
  const Interval i = intervalOf(a);
  if (i.lo >= 0 || i.hi < 0) {
    return i.lo >= 0;
  }
  if (proof_depth_ >= kMaxProofDepth || isRefuted(a)) {
    return false;
  }
  const bool cacheable = positive_atoms_.empty() && positive_polys_.empty() && proof_depth_ == 0;
  if (cacheable) {
    if (auto it = nonnegative_memo_.find(a); it != nonnegative_memo_.end()) {
      return it->second;
    }
  }
  int budget = kProofBudget;
  bool result = false;
  {
    DepthGuard guard(proof_depth_);
    // A bound too large to compute with proves nothing.
    result = unlessOverflow(false, [&] { return searchNonNegative(a, budget); });
  }
  if (cacheable) {
    nonnegative_memo_[a] = result;
  }
  return result;
}

} // namespace nvfuser::symbolic
