// SPDX-License-Identifier: BSD-3-Clause
// The simplifier's own representation: polynomials with integer coefficients over atoms, and
// boolean nodes over them. Nodes are interned: structurally equal nodes are the same node. Used by
// ir/simplify only.
//
// Every integer is a Poly: constant + sum of coefficient * product of atoms. Terms are in canonical
// order (degree, then atoms), products are sorted. Nothing here depends on addresses: the order of
// atoms comes from names and structure, so results are the same in every process.
#pragma once

#include <algebra/simplify.h>

#include <array>
#include <deque>
#include <exception>
#include <unordered_set>

namespace nvfuser::symbolic {

// Thrown when a coefficient leaves 64 bits; the public functions then leave the expression alone.
struct CoefficientOverflow : std::exception {};

// What `compute` returns, or `otherwise` where a coefficient overflows.
template <class T, class Compute>
T unlessOverflow(T otherwise, Compute compute) {
  try {
    return compute();
  } catch (const CoefficientOverflow&) {
    return otherwise;
  }
}

int64_t checkedAdd(int64_t a, int64_t b);
int64_t checkedMul(int64_t a, int64_t b);

// Inclusive bounds. Finite ones fit in 64 bits; +-kInfinity means unbounded.
struct Interval {
  using Wide = __int128;
  static constexpr Wide kInfinity = Wide(1) << 100;
  Wide lo = -kInfinity;
  Wide hi = kInfinity;

  static Interval point(int64_t x) {
    return {x, x};
  }
  bool isPoint() const {
    return lo == hi;
  }
  bool isFinite() const {
    return lo != -kInfinity && hi != kInfinity;
  }
  Interval unionWith(const Interval& o) const;
  Interval intersect(const Interval& o) const;
  Interval operator+(const Interval& o) const;
  Interval operator*(const Interval& o) const;
};

// Values of a node at a few points that satisfy the assumptions as far as that is easy to arrange.
// They only save work: a claim that is false at one of them need not be tried to prove.
constexpr int kSamples = 3;
using Samples = std::array<std::optional<int64_t>, kSamples>;

enum class Kind : uint8_t {
  // An integer
  Poly,
  // Atoms
  Symbol, // a Val that is not looked into (integer or Bool)
  Div,    // children: numerator, denominator
  Mod,
  CeilDiv,
  Min, // children: two or more
  Max,
  Where,  // children: condition, then, else (integers or Bools)
  Opaque, // any other op of the elementwise table
  // Bools
  BoolConst, // constant: 0 or 1
  Less,      // child < 0
  Equal,     // child == 0
  Not,
  And, // children: two or more
  Or,
};

struct Node;
using Ref = const Node*;
// Sorted by compare(); repeated for powers.
using Monomial = std::vector<Ref>;

struct Term {
  int64_t coefficient = 0;
  Monomial factors;
};

struct Node {
  Kind kind = Kind::Poly;
  OpType op{};                     // of an Opaque
  DataType dtype = DataType::Null; // Null for integer constants
  int rank = 0;                    // first key of compare()
  int depth = 0;                   // nesting of atoms
  bool has_mod = false;            // of a Poly: a Mod is among its factors
  int64_t constant = 0;
  Val* val = nullptr; // of a Symbol
  std::vector<Term> terms;
  std::vector<Ref> children;
  uint64_t hash = 0;
  Interval interval;
  Samples samples;

  bool isConst() const {
    return kind == Kind::Poly && terms.empty();
  }
  bool isConst(int64_t c) const {
    return isConst() && constant == c;
  }
  bool isBool(bool value) const {
    return kind == Kind::BoolConst && (constant != 0) == value;
  }
  // The atom if this is 1 * atom + 0, else null.
  Ref asAtom() const {
    return kind == Kind::Poly && constant == 0 && terms.size() == 1 && terms[0].coefficient == 1 &&
                   terms[0].factors.size() == 1
               ? terms[0].factors[0]
               : nullptr;
  }
};

// Total order by structure and names.
int compare(Ref a, Ref b);
int compare(const Monomial& a, const Monomial& b);
int compare(const Term& a, const Term& b);

// a / b if b's factors are all among a's.
std::optional<Monomial> quotient(const Monomial& a, const Monomial& b);
Monomial product(const Monomial& a, const Monomial& b);
Monomial commonFactors(const Monomial& a, const Monomial& b);

// Index, Int, Int32: what the simplifier looks into.
bool isSimplifiable(DataType dtype);

// Counts a level of recursion while it lives.
class DepthGuard {
 public:
  explicit DepthGuard(int& depth) : depth_(depth) {
    ++depth_;
  }
  ~DepthGuard() {
    --depth_;
  }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int& depth_;
};

class Engine {
 public:
  explicit Engine(Assumptions assumptions);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- symbolic.cpp: nodes and polynomial arithmetic
  Ref constant(int64_t c);
  Ref boolean(bool value);
  // A Val as an atom; as an integer, see toPoly.
  Ref symbol(Val* v);
  Ref atom(Kind kind, std::vector<Ref> children, OpType op = {}, DataType dtype = DataType::Null);
  Ref toPoly(Ref atom);
  // The sum of terms in any order.
  Ref poly(std::vector<Term> terms, int64_t constant);
  Ref add(Ref a, Ref b);
  Ref sub(Ref a, Ref b);
  Ref neg(Ref a);
  Ref scale(Ref a, int64_t c);
  Ref addConstant(Ref a, int64_t c);
  Ref mul(Ref a, Ref b);
  Ref mulTerm(Ref a, const Term& t);
  // q with a == q * b, if there is one.
  Ref divideExact(Ref a, Ref b);
  // a == q * b + r with as little as possible left in r.
  struct Reduced {
    Ref quotient;
    Ref rest;
  };
  Reduced reduce(Ref a, Ref b);
  // The terms of a that are exact multiples of t, divided by it, and the others.
  Reduced splitMultiples(Ref a, const Term& t);
  // What all terms of a have in common, as one term. Positive coefficient.
  Term content(Ref a) const;

  // --- symbolic_rules.cpp
  Ref div(Ref a, Ref b);
  Ref mod(Ref a, Ref b);
  Ref ceilDiv(Ref a, Ref b);
  Ref minMax(Kind kind, Ref a, Ref b);
  Ref where(Ref condition, Ref a, Ref b);
  // a < 0, a == 0
  Ref less(Ref a);
  Ref equal(Ref a);
  Ref logicalNot(Ref a);
  Ref logical(Kind kind, Ref a, Ref b);
  Ref opaque(OpType op, DataType dtype, std::vector<Ref> children);
  bool divisible(Ref a, Ref b);

  // --- symbolic_ranges.cpp
  // True only if a >= 0 is provable.
  bool nonNegative(Ref a);
  Interval intervalOf(Ref a) const;

  // --- symbolic_read.cpp
  // An integer as a Poly, a Bool as a boolean node.
  Ref read(Val* v);

 private:
  Ref intern(Node node);
  Ref recompose(Ref a);
  Ref recomposeUncached(Ref a);
  Interval atomInterval(const Node& n) const;
  static Interval polyInterval(const Node& n);
  Interval symbolInterval(Val* v);
  static Samples sampleNode(const Node& n);
  Samples sampleSymbol(Val* v, const Interval& interval);
  Ref readUpperBound(Val* v);

  // Knows a divisor and its factors to be positive while it lives, in place of what was known so
  // before.
  class PositiveDivisor;
  std::optional<int64_t> wholeMultiple(Ref rest, Ref divisor);
  std::vector<Term> granularities(Ref a, Ref b) const;
  bool inUnit(Ref rest, const Term& unit);
  Ref divUncached(Ref a, Ref b);
  Ref divPositive(Ref a, Ref b);
  Ref modUncached(Ref a, Ref b);
  Ref modPositive(Ref a, Ref b);
  Ref ceilDivUncached(Ref a, Ref b);
  Ref openInnerMods(Ref a, Ref b);
  Ref withoutQuotient(Ref a);
  Ref logicalNotUncached(Ref a);
  Ref cancel(Ref& a, Ref& b);
  std::optional<bool> decideLess(Ref a);
  Ref dropImpliedMultiples(Ref a);

  bool searchNonNegative(Ref a, int& budget);
  void boundsOfProduct(Ref factor, Ref atom, std::vector<Ref>& out);
  bool splitLinear(Ref a, Ref atom, Ref& factor, Ref& rest);
  std::vector<Ref> atomsOf(Ref a) const;
  Ref symbolicMax(Ref a);

  bool canRead(const Val* v) const;
  Ref readLeaf(Val* v);
  Ref readDefinition(Val* v);
  Ref readIntegerOp(OpType op, DataType dtype, const std::vector<Ref>& in);
  Ref readBoolOp(OpType op, const std::vector<Ref>& in);
  void notePositive(const Val* v);

  Assumptions assumptions_;
  std::unordered_set<const Val*> positive_vals_;
  std::unordered_set<std::string> positive_names_;

  std::deque<Node> nodes_;
  std::unordered_multimap<uint64_t, Ref> interned_;
  std::unordered_map<const Val*, Ref> read_;
  std::unordered_map<std::string, Ref> named_;
  std::unordered_map<const Val*, Ref> upper_bounds_;

  struct PairOfRefs {
    size_t operator()(const std::pair<Ref, Ref>& p) const {
      return static_cast<size_t>(p.first->hash * 31 + p.second->hash);
    }
  };
  using Memo = std::unordered_map<std::pair<Ref, Ref>, Ref, PairOfRefs>;
  Memo div_memo_;
  Memo mod_memo_;
  Memo ceil_div_memo_;
  std::unordered_map<Ref, Ref> recomposed_;
  std::unordered_map<Ref, Ref> not_memo_;
  std::unordered_map<Ref, bool> nonnegative_memo_;
  std::unordered_map<Ref, Ref> symbolic_max_;

  std::vector<Ref> positive_atoms_;
  std::vector<Ref> positive_polys_;
  int proof_depth_ = 0;
  int rule_depth_ = 0;
};

// Writes nodes as scalars of one container; equal nodes as the same scalar (symbolic_write.cpp).
class Writer {
 public:
  explicit Writer(IrContainer* container) : container_(container) {}
  Val* write(Ref a, DataType dtype);

 private:
  Val* integerConstant(int64_t c, DataType dtype);
  Val* writeAtom(Ref a, DataType dtype);
  Val* writeUncached(Ref a, DataType dtype);
  Val* writeSum(std::vector<Term> terms, int64_t constant, DataType dtype);
  struct Summand {
    Val* val;
    bool negative;
    size_t position = 0;
  };
  Val* writeFlatSum(const std::vector<Term>& terms, const Summand* extra, int64_t constant,
                    DataType dtype);
  Val* writeProduct(const Term& t, DataType dtype);
  Val* writeComparison(Ref a, bool is_equal, bool negated);

  IrContainer* container_;
  std::unordered_map<Ref, Val*> written_;
};

} // namespace nvfuser::symbolic
