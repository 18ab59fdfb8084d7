// SPDX-License-Identifier: BSD-3-Clause
// Interning, canonical order and polynomial arithmetic of the simplifier's nodes.
#include <algebra/symbolic.h>

#include <base/error.h>
#include <base/hash.h>

#include <algorithm>
#include <numeric>

namespace nvfuser::symbolic {
namespace {

// Products of sums are multiplied out up to this many terms.
constexpr size_t kMaxTerms = 64;
// Steps of a division by a sum.
constexpr int kMaxDivisionSteps = 16;

// Recompositions nested in one another; a guard, not expected to be reached.
constexpr int kMaxRuleDepth = 24;

DataType joinTypes(DataType a, DataType b) {
  auto rank = [](DataType t) {
    switch (t) {
      case DataType::Index:
        return 3;
      case DataType::Int:
        return 2;
      case DataType::Int32:
        return 1;
      default:
        return 0;
    }
  };
  return rank(a) >= rank(b) ? a : b;
}

template <class T>
int compareValues(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

template <class T>
int compareLists(const std::vector<T>& a, const std::vector<T>& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (int c = compare(a[i], b[i])) {
      return c;
    }
  }
  return compareValues(a.size(), b.size());
}

int compareSymbols(const Val* a, const Val* b) {
  if (a->kind() != b->kind()) {
    return compareValues(a->kind(), b->kind());
  }
  if (a->kind() == ValKind::NamedScalar) {
    return static_cast<const NamedScalar*>(a)->text().compare(
        static_cast<const NamedScalar*>(b)->text());
  }
  return compareValues(a->name(), b->name());
}

bool before(const Term& a, const Term& b) {
  return symbolic::compare(a.factors, b.factors) < 0;
}

// Sorted terms with distinct products and no zeros.
void normalize(std::vector<Term>& terms) {
  if (!std::is_sorted(terms.begin(), terms.end(), before)) {
    std::stable_sort(terms.begin(), terms.end(), before);
  }
  size_t kept = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (kept > 0 && terms[kept - 1].factors == terms[i].factors) {
      terms[kept - 1].coefficient = checkedAdd(terms[kept - 1].coefficient, terms[i].coefficient);
      continue;
    }
    if (kept > 0 && terms[kept - 1].coefficient == 0) {
      --kept;
    }
    if (kept != i) {
      terms[kept] = std::move(terms[i]);
    }
    ++kept;
  }
  if (kept > 0 && terms[kept - 1].coefficient == 0) {
    --kept;
  }
  terms.resize(kept);
}

bool sameContent(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.op != b.op || a.constant != b.constant || a.val != b.val ||
      a.children != b.children || a.terms.size() != b.terms.size() ||
      (a.kind == Kind::Opaque && a.dtype != b.dtype)) {
    return false;
  }
  for (size_t i = 0; i < a.terms.size(); ++i) {
    if (a.terms[i].coefficient != b.terms[i].coefficient ||
        a.terms[i].factors != b.terms[i].factors) {
      return false;
    }
  }
  return true;
}

// Of structure and names alone, never of addresses.
uint64_t contentHash(const Node& n) {
  uint64_t h = hashCombine(static_cast<uint64_t>(n.kind), static_cast<uint64_t>(n.op));
  h = hashCombine(h, static_cast<uint64_t>(n.constant));
  if (n.val != nullptr) {
    h = n.val->kind() == ValKind::NamedScalar
            ? hashString(static_cast<const NamedScalar*>(n.val)->text(), h)
            : hashCombine(h, static_cast<uint64_t>(n.val->name()));
  }
  for (Ref c : n.children) {
    h = hashCombine(h, c->hash);
  }
  for (const Term& t : n.terms) {
    h = hashCombine(h, static_cast<uint64_t>(t.coefficient));
    for (Ref f : t.factors) {
      h = hashCombine(h, f->hash);
    }
  }
  return h;
}

} // namespace

int64_t checkedAdd(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r) || r == INT64_MIN) {
    throw CoefficientOverflow();
  }
  return r;
}

int64_t checkedMul(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r) || r == INT64_MIN) {
    throw CoefficientOverflow();
  }
  return r;
}

bool isSimplifiable(DataType dtype) {
  return dtype == DataType::Index || dtype == DataType::Int || dtype == DataType::Int32;
}

int compare(Ref a, Ref b) {
  if (a == b) {
    return 0;
  }
  if (a->rank != b->rank) {
    return compareValues(a->rank, b->rank);
  }
  if (a->kind != b->kind) {
    return compareValues(a->kind, b->kind);
  }
  if (a->kind == Kind::Symbol) {
    return compareSymbols(a->val, b->val);
  }
  if (a->op != b->op) {
    return compareValues(a->op, b->op);
  }
  if (int c = compareLists(a->children, b->children)) {
    return c;
  }
  if (int c = compareLists(a->terms, b->terms)) {
    return c;
  }
  if (a->constant != b->constant) {
    return compareValues(a->constant, b->constant);
  }
  return compareValues(a->dtype, b->dtype);
}

int compare(const Term& a, const Term& b) {
  const int c = compare(a.factors, b.factors);
  return c != 0 ? c : compareValues(a.coefficient, b.coefficient);
}

// Higher degrees first, then by atoms: a graded lexicographic order, which division needs.
int compare(const Monomial& a, const Monomial& b) {
  if (a.size() != b.size()) {
    return compareValues(b.size(), a.size());
  }
  return compareLists(a, b);
}

std::optional<Monomial> quotient(const Monomial& a, const Monomial& b) {
  if (b.size() > a.size()) {
    return std::nullopt;
  }
  Monomial rest;
  rest.reserve(a.size() - b.size());
  size_t j = 0;
  for (Ref f : a) {
    if (j < b.size() && f == b[j]) {
      ++j;
    } else {
      rest.push_back(f);
    }
  }
  return j == b.size() ? std::optional(std::move(rest)) : std::nullopt;
}

Monomial product(const Monomial& a, const Monomial& b) {
  Monomial out;
  out.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out),
             [](Ref x, Ref y) { return compare(x, y) < 0; });
  return out;
}

Monomial commonFactors(const Monomial& a, const Monomial& b) {
  Monomial out;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out),
                        [](Ref x, Ref y) { return compare(x, y) < 0; });
  return out;
}

Ref Engine::intern(Node node) {
  node.hash = contentHash(node);
  auto [begin, end] = interned_.equal_range(node.hash);
  for (auto it = begin; it != end; ++it) {
    if (sameContent(*it->second, node)) {
      return it->second;
    }
  }
  nodes_.push_back(std::move(node));
  Node& n = nodes_.back();
  for (Ref c : n.children) {
    n.depth = std::max(n.depth, c->depth + 1);
  }
  for (const Term& t : n.terms) {
    for (Ref f : t.factors) {
      n.depth = std::max(n.depth, f->depth);
      n.has_mod = n.has_mod || f->kind == Kind::Mod;
      n.dtype = joinTypes(n.dtype, f->dtype);
    }
  }
  if (n.kind == Kind::Poly) {
    n.interval = polyInterval(n);
  } else if (n.kind != Kind::Symbol) {
    n.interval = atomInterval(n);
  }
  if (n.kind != Kind::Symbol) {
    n.samples = sampleNode(n);
  }
  interned_.emplace(n.hash, &n);
  return &n;
}

Ref Engine::constant(int64_t c) {
  return poly({}, c);
}

Ref Engine::boolean(bool value) {
  Node n;
  n.kind = Kind::BoolConst;
  n.dtype = DataType::Bool;
  n.constant = value ? 1 : 0;
  return intern(std::move(n));
}

Ref Engine::symbol(Val* v) {
  if (auto it = read_.find(v); it != read_.end() && it->second->kind == Kind::Symbol) {
    return it->second;
  }
  std::string text;
  if (v->kind() == ValKind::NamedScalar) {
    text = static_cast<const NamedScalar*>(v)->text();
    if (auto it = named_.find(text); it != named_.end()) {
      return it->second;
    }
  }
  Node n;
  n.kind = Kind::Symbol;
  n.val = v;
  n.dtype = v->dtype();
  // What varies fastest last: blocks, threads, loop indices, (computed atoms,) extents, sizes.
  if (text.find("blockIdx") != std::string::npos) {
    n.rank = 0;
  } else if (text.find("threadIdx") != std::string::npos) {
    n.rank = 1;
  } else if (assumptions_.upperBound(v) != nullptr) {
    n.rank = 2;
  } else {
    n.rank = text.empty() ? 4 : 5;
  }
  if (isSimplifiable(v->dtype())) {
    n.interval = symbolInterval(v);
    n.samples = sampleSymbol(v, n.interval);
  }
  Ref r = intern(std::move(n));
  if (!text.empty()) {
    named_[text] = r;
  }
  return r;
}

Ref Engine::atom(Kind kind, std::vector<Ref> children, OpType op, DataType dtype) {
  Node n;
  n.kind = kind;
  n.rank = 3;
  n.op = op;
  n.dtype = dtype;
  if (dtype == DataType::Null) {
    for (Ref c : children) {
      n.dtype = joinTypes(n.dtype, c->dtype);
    }
  }
  n.children = std::move(children);
  return intern(std::move(n));
}

Ref Engine::toPoly(Ref a) {
  if (a->interval.isPoint()) {
    return constant(static_cast<int64_t>(a->interval.lo));
  }
  Node n;
  n.terms = {Term{1, {a}}};
  return intern(std::move(n));
}

Ref Engine::poly(std::vector<Term> terms, int64_t c) {
  normalize(terms);
  // A term without factors is a constant; the order puts it last.
  if (!terms.empty() && terms.back().factors.empty()) {
    c = checkedAdd(c, terms.back().coefficient);
    terms.pop_back();
  }
  Node n;
  n.terms = std::move(terms);
  n.constant = c;
  Ref r = intern(std::move(n));
  return r->has_mod && r->terms.size() > 1 ? recompose(r) : r;
}

namespace {

// a - b is a multiple of d, term by term.
bool congruent(Ref a, Ref b, int64_t d) {
  bool same = (a->constant - b->constant) % d == 0;
  for (size_t i = 0, j = 0; same && (i < a->terms.size() || j < b->terms.size());) {
    const bool of_a =
        i < a->terms.size() && (j == b->terms.size() || !before(b->terms[j], a->terms[i]));
    const bool of_b =
        j < b->terms.size() && (i == a->terms.size() || !before(a->terms[i], b->terms[j]));
    const int64_t difference =
        (of_a ? a->terms[i++].coefficient % d : 0) - (of_b ? b->terms[j++].coefficient % d : 0);
    same = difference % d == 0;
  }
  return same;
}

// The dividends m of quotients m / d in a that are n but for multiples of d: a remainder loses
// such multiples, so n need not be what the quotient is of.
std::vector<Ref> congruentDividends(Ref a, Ref n, Ref d) {
  std::vector<Ref> out;
  if (!d->isConst() || d->constant <= 0 || n->interval.lo < 0) {
    return out;
  }
  for (const Term& t : a->terms) {
    for (Ref f : t.factors) {
      if (f->kind == Kind::Div && f->children[1] == d && f->children[0] != n &&
          f->children[0]->interval.lo >= 0 && congruent(f->children[0], n, d->constant)) {
        out.push_back(f->children[0]);
      }
    }
  }
  return out;
}

} // namespace

// b * (a / b) + a % b == a: puts together what a split took apart.
Ref Engine::recompose(Ref a) {
  if (rule_depth_ >= kMaxRuleDepth) {
    return a;
  }
  if (auto it = recomposed_.find(a); it != recomposed_.end()) {
    return it->second;
  }
  const Ref r = recomposeUncached(a);
  return recomposed_[a] = r;
}

Ref Engine::recomposeUncached(Ref a) {
  auto coefficientOf = [](Ref p, const Monomial& m) -> int64_t {
    auto it = std::lower_bound(p->terms.begin(), p->terms.end(), Term{0, m}, before);
    return it != p->terms.end() && it->factors == m ? it->coefficient : 0;
  };
  for (size_t i = 0; i < a->terms.size(); ++i) {
    for (size_t f = 0; f < a->terms[i].factors.size(); ++f) {
      const Ref mod_atom = a->terms[i].factors[f];
      if (mod_atom->kind != Kind::Mod) {
        continue;
      }
      Term others = a->terms[i];
      others.factors.erase(others.factors.begin() + static_cast<std::ptrdiff_t>(f));
      const Ref d = mod_atom->children[1];
      DepthGuard guard(rule_depth_);
      std::vector<Ref> dividends = {mod_atom->children[0]};
      const std::vector<Ref> congruent = congruentDividends(a, dividends[0], d);
      dividends.insert(dividends.end(), congruent.begin(), congruent.end());
      for (Ref n : dividends) {
        const Ref whole = mulTerm(mul(d, div(n, d)), others);
        const bool present =
            !whole->terms.empty() &&
            std::all_of(whole->terms.begin(), whole->terms.end(), [&](const Term& t) {
              return coefficientOf(a, t.factors) == t.coefficient;
            });
        if (present) {
          std::vector<Term> rest = a->terms;
          rest[i].coefficient = 0;
          const Ref without = poly(std::move(rest), a->constant);
          return add(sub(without, whole), mulTerm(n, others));
        }
      }
    }
  }
  return a;
}

Ref Engine::add(Ref a, Ref b) {
  if (a->isConst(0)) {
    return b;
  }
  if (b->isConst(0)) {
    return a;
  }
  std::vector<Term> terms;
  terms.reserve(a->terms.size() + b->terms.size());
  std::merge(a->terms.begin(), a->terms.end(), b->terms.begin(), b->terms.end(),
             std::back_inserter(terms), before);
  return poly(std::move(terms), checkedAdd(a->constant, b->constant));
}

Ref Engine::sub(Ref a, Ref b) {
  return add(a, neg(b));
}

Ref Engine::neg(Ref a) {
  return scale(a, -1);
}

Ref Engine::scale(Ref a, int64_t c) {
  return mulTerm(a, Term{c, {}});
}

Ref Engine::addConstant(Ref a, int64_t c) {
  return c == 0 ? a : poly(a->terms, checkedAdd(a->constant, c));
}

Ref Engine::mulTerm(Ref a, const Term& t) {
  if (t.coefficient == 1 && t.factors.empty()) {
    return a;
  }
  if (t.coefficient == 0) {
    return constant(0);
  }
  std::vector<Term> terms;
  terms.reserve(a->terms.size() + 1);
  for (const Term& u : a->terms) {
    terms.push_back({checkedMul(u.coefficient, t.coefficient), product(u.factors, t.factors)});
  }
  const int64_t c = checkedMul(a->constant, t.coefficient);
  if (t.factors.empty()) {
    return poly(std::move(terms), c);
  }
  if (c != 0) {
    terms.push_back({c, t.factors});
  }
  return poly(std::move(terms), 0);
}

Ref Engine::mul(Ref a, Ref b) {
  if (a->terms.size() > b->terms.size()) {
    std::swap(a, b);
  }
  if (a->isConst()) {
    return scale(b, a->constant);
  }
  if ((a->terms.size() + 1) * (b->terms.size() + 1) > kMaxTerms) {
    if (compare(b, a) < 0) {
      std::swap(a, b);
    }
    const DataType dtype = joinTypes(a->dtype, b->dtype);
    return toPoly(atom(Kind::Opaque, {a, b}, OpType::Mul, dtype));
  }
  std::vector<Term> terms;
  for (const Term& t : a->terms) {
    for (const Term& u : b->terms) {
      terms.push_back({checkedMul(t.coefficient, u.coefficient), product(t.factors, u.factors)});
    }
    terms.push_back({checkedMul(t.coefficient, b->constant), t.factors});
  }
  for (const Term& u : b->terms) {
    terms.push_back({checkedMul(a->constant, u.coefficient), u.factors});
  }
  return poly(std::move(terms), checkedMul(a->constant, b->constant));
}

Term Engine::content(Ref a) const {
  Term t;
  t.coefficient = a->constant;
  bool first = a->constant == 0;
  for (const Term& u : a->terms) {
    t.coefficient = std::gcd(t.coefficient, u.coefficient);
    t.factors = first ? u.factors : commonFactors(t.factors, u.factors);
    first = false;
  }
  t.coefficient = t.coefficient < 0 ? -t.coefficient : t.coefficient;
  return t;
}

Engine::Reduced Engine::splitMultiples(Ref a, const Term& t) {
  std::vector<Term> multiples;
  std::vector<Term> others;
  for (const Term& u : a->terms) {
    auto q = u.coefficient % t.coefficient == 0 ? quotient(u.factors, t.factors) : std::nullopt;
    if (q) {
      multiples.push_back({u.coefficient / t.coefficient, std::move(*q)});
    } else {
      others.push_back(u);
    }
  }
  const bool constant_too = t.factors.empty() && a->constant % t.coefficient == 0;
  Ref q = poly(std::move(multiples), constant_too ? a->constant / t.coefficient : 0);
  return {q, poly(std::move(others), constant_too ? 0 : a->constant)};
}

Engine::Reduced Engine::reduce(Ref a, Ref b) {
  // By one term: term by term, with remainders of the coefficients.
  if (b->terms.size() + (b->constant != 0 ? 1 : 0) == 1) {
    const Term t = b->terms.empty() ? Term{b->constant, {}} : b->terms[0];
    std::vector<Term> q;
    std::vector<Term> r;
    for (const Term& u : a->terms) {
      if (auto m = quotient(u.factors, t.factors)) {
        q.push_back({u.coefficient / t.coefficient, std::move(*m)});
        r.push_back({u.coefficient % t.coefficient, u.factors});
      } else {
        r.push_back(u);
      }
    }
    const bool split_constant = t.factors.empty();
    Ref quotient = poly(std::move(q), split_constant ? a->constant / t.coefficient : 0);
    return {quotient,
            poly(std::move(r), split_constant ? a->constant % t.coefficient : a->constant)};
  }
  // By a sum: polynomial division by its leading term.
  const Term lead = b->terms[0];
  Ref q = constant(0);
  Ref r = a;
  for (int step = 0; step < kMaxDivisionSteps; ++step) {
    std::optional<Term> next;
    for (const Term& u : r->terms) {
      if (u.coefficient % lead.coefficient != 0) {
        continue;
      }
      if (std::optional<Monomial> m = quotient(u.factors, lead.factors)) {
        next = Term{u.coefficient / lead.coefficient, *std::move(m)};
        break;
      }
    }
    if (!next.has_value()) {
      break;
    }
    q = add(q, mulTerm(constant(1), *next));
    r = sub(r, mulTerm(b, *next));
  }
  return {q, r};
}

Ref Engine::divideExact(Ref a, Ref b) {
  if (b->isConst(0)) {
    return nullptr;
  }
  const Reduced d = reduce(a, b);
  return d.rest->isConst(0) ? d.quotient : nullptr;
}

} // namespace nvfuser::symbolic
