// SPDX-License-Identifier: BSD-3-Clause
// Writes the simplifier's nodes back as scalar expressions, in an order that reads well: sums from
// the outermost index to the innermost, b * 512 + u * 128 + t; symbolic factors that terms share
// are taken out, (i0 * E1 + i1) * E2 + i2; comparisons with the positive terms on each side.
#include <algebra/symbolic.h>

#include <base/error.h>
#include <ir/builder.h>

#include <algorithm>

namespace nvfuser::symbolic {
namespace {

int64_t magnitude(int64_t x) {
  return x < 0 ? -x : x;
}

bool writtenBefore(const Term& a, const Term& b) {
  if (a.factors.size() != b.factors.size()) {
    return a.factors.size() > b.factors.size();
  }
  if (magnitude(a.coefficient) != magnitude(b.coefficient)) {
    return magnitude(a.coefficient) > magnitude(b.coefficient);
  }
  return compare(a.factors, b.factors) < 0;
}

// The factor that most terms share (the last of them in canonical order, so extents rather than
// indices), or null if no two terms share one.
Ref mostShared(const std::vector<Term>& terms) {
  Ref best = nullptr;
  int64_t best_count = 1;
  for (const Term& t : terms) {
    for (Ref f : t.factors) {
      const auto count = std::count_if(terms.begin(), terms.end(), [&](const Term& u) {
        return std::find(u.factors.begin(), u.factors.end(), f) != u.factors.end();
      });
      if (count > best_count || (count == best_count && best != nullptr && compare(best, f) < 0)) {
        best = f;
        best_count = count;
      }
    }
  }
  return best;
}

bool hasFactor(const Term& t, Ref f) {
  return std::find(t.factors.begin(), t.factors.end(), f) != t.factors.end();
}

// The constant as a term without factors.
std::vector<Term> withConstant(std::vector<Term> terms, int64_t constant) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return compare(a.factors, b.factors) < 0; });
  if (constant != 0) {
    terms.push_back({constant, {}});
  }
  return terms;
}

// m with a == m * b term by term, if there is one. Both in canonical order.
std::optional<Term> multipleOf(const std::vector<Term>& a, const std::vector<Term>& b) {
  if (a.size() != b.size() || a.size() < 2) {
    return std::nullopt;
  }
  std::optional<Term> m;
  for (size_t i = 0; i < a.size(); ++i) {
    auto factors = quotient(a[i].factors, b[i].factors);
    if (!factors || a[i].coefficient % b[i].coefficient != 0) {
      return std::nullopt;
    }
    Term here{a[i].coefficient / b[i].coefficient, std::move(*factors)};
    if (m && (m->coefficient != here.coefficient || m->factors != here.factors)) {
      return std::nullopt;
    }
    m = std::move(here);
  }
  return m;
}

} // namespace

Val* Writer::integerConstant(int64_t c, DataType dtype) {
  if (!isSimplifiable(dtype)) {
    dtype = DataType::Index;
  }
  if (dtype == DataType::Int32 && (c < INT32_MIN || c > INT32_MAX)) {
    dtype = DataType::Int;
  }
  return IrBuilder::createIn<Val>(container_, c, dtype);
}

// `dtype` is that of constants where nothing else decides.
Val* Writer::write(Ref a, DataType dtype) {
  if (a->isConst()) {
    return integerConstant(a->constant, dtype);
  }
  if (auto it = written_.find(a); it != written_.end()) {
    return it->second;
  }
  Val* v = writeUncached(a, isSimplifiable(a->dtype) ? a->dtype : dtype);
  return written_[a] = v;
}

Val* Writer::writeUncached(Ref a, DataType dtype) {
  switch (a->kind) {
    case Kind::Poly:
      return writeSum(a->terms, a->constant, dtype);
    case Kind::BoolConst:
      return IrBuilder::createIn<Val>(container_, a->constant != 0, DataType::Bool);
    case Kind::Less:
    case Kind::Equal:
      return writeComparison(a->children[0], a->kind == Kind::Equal, false);
    case Kind::Not:
      return a->children[0]->kind == Kind::Equal
                 ? writeComparison(a->children[0]->children[0], true, true)
                 : IrBuilder::logicalNotExpr(write(a->children[0], dtype));
    default:
      return writeAtom(a, dtype);
  }
}

Val* Writer::writeAtom(Ref a, DataType dtype) {
  if (a->kind == Kind::Symbol) {
    return a->val;
  }
  std::vector<Val*> in;
  for (Ref c : a->children) {
    in.push_back(write(c, dtype));
  }
  auto fold = [&](OpType op) {
    Val* v = in[0];
    for (size_t i = 1; i < in.size(); ++i) {
      v = IrBuilder::scalar(op, v, in[i]);
    }
    return v;
  };
  switch (a->kind) {
    case Kind::Div:
      return fold(OpType::Div);
    case Kind::Mod:
      return fold(OpType::Mod);
    case Kind::CeilDiv:
      return fold(OpType::CeilDiv);
    case Kind::Min:
      return fold(OpType::Minimum);
    case Kind::Max:
      return fold(OpType::Maximum);
    case Kind::And:
      return fold(OpType::LogicalAnd);
    case Kind::Or:
      return fold(OpType::LogicalOr);
    case Kind::Where:
      return IrBuilder::whereExpr(in[0], in[1], in[2]);
    default: {
      Val* out = IrBuilder::createIn<Val>(container_, a->dtype);
      IrBuilder::createIn<ElementwiseOp>(container_, a->op, out, in);
      return out;
    }
  }
}

// |coefficient| * factors
Val* Writer::writeProduct(const Term& t, DataType dtype) {
  Val* v = nullptr;
  for (Ref f : t.factors) {
    Val* x = write(f, dtype);
    v = v == nullptr ? x : IrBuilder::mulExpr(v, x);
  }
  const int64_t c = magnitude(t.coefficient);
  if (v == nullptr) {
    return integerConstant(c, dtype);
  }
  return c == 1 ? v : IrBuilder::mulExpr(v, integerConstant(c, dtype));
}

// Terms that share a factor become (their sum without it) * factor.
Val* Writer::writeSum(std::vector<Term> terms, int64_t constant, DataType dtype) {
  std::stable_sort(terms.begin(), terms.end(), writtenBefore);
  const Ref shared = mostShared(terms);
  if (shared == nullptr) {
    return writeFlatSum(terms, nullptr, constant, dtype);
  }
  std::vector<Term> group;
  std::vector<Term> others;
  int64_t group_constant = 0;
  size_t position = terms.size(); // of the group among the others
  for (Term& t : terms) {
    if (!hasFactor(t, shared)) {
      others.push_back(std::move(t));
      continue;
    }
    position = std::min(position, others.size());
    t.factors.erase(std::find(t.factors.begin(), t.factors.end(), shared));
    if (t.factors.empty()) {
      group_constant = t.coefficient;
    } else {
      group.push_back(std::move(t));
    }
  }
  // (a + b) * c + (a + b) * 2 is (a + b) * (c + 2)
  const auto multiple =
      multipleOf(withConstant(others, constant), withConstant(group, group_constant));
  if (multiple) {
    const bool is_constant = multiple->factors.empty();
    std::vector<Term> outer = {{1, {shared}}};
    if (!is_constant) {
      outer.push_back(*multiple);
    }
    Val* b = writeSum(std::move(outer), is_constant ? multiple->coefficient : 0, dtype);
    return IrBuilder::mulExpr(writeSum(std::move(group), group_constant, dtype), b);
  }
  const bool negative = !group.empty() && group[0].coefficient < 0;
  if (negative) {
    group_constant = -group_constant;
    for (Term& t : group) {
      t.coefficient = -t.coefficient;
    }
  }
  Val* sum = writeSum(std::move(group), group_constant, dtype);
  const Summand product{IrBuilder::mulExpr(sum, write(shared, dtype)), negative, position};
  return writeFlatSum(others, &product, constant, dtype);
}

// The terms as they are, with one more summand among them.
Val* Writer::writeFlatSum(const std::vector<Term>& terms, const Summand* extra, int64_t constant,
                          DataType dtype) {
  std::vector<Summand> summands;
  for (const Term& t : terms) {
    summands.push_back({writeProduct(t, dtype), t.coefficient < 0});
  }
  if (extra != nullptr) {
    summands.insert(summands.begin() + static_cast<std::ptrdiff_t>(extra->position), *extra);
  }
  // Start with something positive.
  auto first =
      std::find_if(summands.begin(), summands.end(), [](const Summand& s) { return !s.negative; });
  Val* v = nullptr;
  if (first != summands.end()) {
    v = first->val;
    summands.erase(first);
  } else if (constant > 0) {
    v = integerConstant(constant, dtype);
    constant = 0;
  } else {
    v = IrBuilder::negExpr(summands[0].val);
    summands.erase(summands.begin());
  }
  for (const Summand& s : summands) {
    v = s.negative ? IrBuilder::subExpr(v, s.val) : IrBuilder::addExpr(v, s.val);
  }
  if (constant > 0) {
    v = IrBuilder::addExpr(v, integerConstant(constant, dtype));
  } else if (constant < 0) {
    v = IrBuilder::subExpr(v, integerConstant(-constant, dtype));
  }
  return v;
}

// a < 0 or a == 0 as a comparison of positive terms, the constant where it is positive.
Val* Writer::writeComparison(Ref a, bool is_equal, bool negated) {
  std::vector<Term> left;
  std::vector<Term> right;
  for (Term t : a->terms) {
    const bool positive = t.coefficient > 0;
    t.coefficient = magnitude(t.coefficient);
    (positive ? left : right).push_back(std::move(t));
  }
  const DataType dtype = isSimplifiable(a->dtype) ? a->dtype : DataType::Index;
  const int64_t c = a->constant;
  auto side = [&](const std::vector<Term>& terms, int64_t constant) {
    return terms.empty() ? integerConstant(constant, dtype) : writeSum(terms, constant, dtype);
  };
  if (is_equal) {
    const OpType op = negated ? OpType::Ne : OpType::Eq;
    if (left.empty()) {
      return IrBuilder::scalar(op, side(right, 0), integerConstant(c, dtype));
    }
    return right.empty() || c < 0 ? IrBuilder::scalar(op, side(left, 0), side(right, -c))
                                  : IrBuilder::scalar(op, side(left, c), side(right, 0));
  }
  if (left.empty()) { // c < right
    return IrBuilder::geExpr(side(right, 0), integerConstant(checkedAdd(c, 1), dtype));
  }
  if (right.empty()) { // left < -c
    return IrBuilder::ltExpr(side(left, 0), integerConstant(-c, dtype));
  }
  if (c == -1) {
    return IrBuilder::leExpr(side(left, 0), side(right, 0));
  }
  return c >= 0 ? IrBuilder::ltExpr(side(left, c), side(right, 0))
                : IrBuilder::ltExpr(side(left, 0), side(right, -c));
}

} // namespace nvfuser::symbolic
