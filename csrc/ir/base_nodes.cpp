// SPDX-License-Identifier: BSD-3-Clause
// Val and Expr.
#include <base/error.h>
#include <base/hash.h>
#include <ir/cloner.h>
#include <ir/expr_base.h>
#include <ir/nodes.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace nvfuser {

void Statement::badCast() const {
  NVF_THROW("node is not of the requested kind: ", toString());
}

Val::Val(IrBuilderPasskey key, ValKind kind, DataType dtype)
    : Statement(key.container, kindNumber(kind)), dtype_(dtype) {}
Val::Val(IrBuilderPasskey key, DataType dtype) : Val(key, ValKind::Val, dtype) {}
Val::Val(IrBuilderPasskey key, ScalarValue value, DataType dtype) : Val(key, ValKind::Val, dtype) {
  value_ = value;
}
Val::Val(IrBuilderPasskey key, bool value, DataType dtype) : Val(key, ScalarValue(value), dtype) {}
Val::Val(IrBuilderPasskey key, int value, DataType dtype)
    : Val(key, static_cast<int64_t>(value), dtype) {}
Val::Val(IrBuilderPasskey key, int64_t value, DataType dtype)
    : Val(key, ScalarValue(value), dtype) {
  if (isFloatingPoint(dtype)) {
    value_ = static_cast<double>(value);
  } else if (isComplex(dtype)) {
    value_ = std::complex<double>(static_cast<double>(value), 0.0);
  } else if (dtype == DataType::Bool) {
    value_ = value != 0;
  }
}
Val::Val(IrBuilderPasskey key, double value, DataType dtype) : Val(key, ScalarValue(value), dtype) {
  if (isComplex(dtype)) {
    value_ = std::complex<double>(value, 0.0);
  } else if (isIntegral(dtype)) {
    value_ = static_cast<int64_t>(value);
  } else if (dtype == DataType::Bool) {
    value_ = value != 0.0;
  }
}
Val::Val(IrBuilderPasskey key, std::complex<double> value, DataType dtype)
    : Val(key, ScalarValue(value), dtype) {}
Val::Val(const Val* src, IrCloner* cloner) : Val(cloner->passkey(), src->kind(), src->dtype_) {
  value_ = src->value_;
  input_label_ = src->input_label_;
  cloner->map(src, this);
}

std::unique_ptr<Val> Val::copyWith(IrCloner* cloner) const {
  return std::make_unique<Val>(this, cloner);
}

namespace {

// NaN constants equal each other; 0.0 and -0.0 do not.
bool sameConstant(const ScalarValue& a, const ScalarValue& b) {
  if (a.index() != b.index()) {
    return false;
  }
  auto same_double = [](double x, double y) {
    return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
  };
  if (const auto* x = std::get_if<double>(&a)) {
    return same_double(*x, std::get<double>(b));
  }
  if (const auto* x = std::get_if<std::complex<double>>(&a)) {
    const auto& y = std::get<std::complex<double>>(b);
    return same_double(x->real(), y.real()) && same_double(x->imag(), y.imag());
  }
  return a == b;
}

// Pairs of computed scalars that were compared before: of sizes that are made of others several
// times each pair is looked at once.
using ComparedPairs = std::set<std::pair<const Val*, const Val*>>;

bool sameScalars(const Val* a, const Val* b, ComparedPairs& compared) {
  if (a == b) {
    return true;
  }
  if (a == nullptr || b == nullptr || a->kind() != b->kind() || a->dtype() != b->dtype()) {
    return false;
  }
  if (a->isConst() || b->isConst()) {
    return a->isConst() && b->isConst() && sameConstant(a->value(), b->value());
  }
  const Expr* of_a = a->definition();
  const Expr* of_b = b->definition();
  if (a->kind() == ValKind::NamedScalar) {
    return a->sameAs(b);
  }
  if (a->kind() != ValKind::Val || of_a == nullptr || of_b == nullptr) {
    return false;
  }
  if (!of_a->sameFields(of_b) || of_a->inputs().size() != of_b->inputs().size()) {
    return false;
  }
  // Equal as far as is known: a pair that differs ends the whole comparison.
  if (!compared.emplace(a, b).second) {
    return true;
  }
  for (size_t i = 0; i < of_a->inputs().size(); ++i) {
    if (!sameScalars(of_a->input(i), of_b->input(i), compared)) {
      return false;
    }
  }
  return true;
}

} // namespace

bool Val::sameAs(const Val* other) const {
  ComparedPairs compared;
  return sameScalars(this, other, compared);
}

NamedScalar::NamedScalar(IrBuilderPasskey key, std::string text, DataType dtype)
    : Val(key, ValKind::NamedScalar, dtype), text_(std::move(text)) {}
NamedScalar::NamedScalar(const NamedScalar* src, IrCloner* cloner)
    : Val(src, cloner), text_(src->text_) {}

std::unique_ptr<Val> NamedScalar::copyWith(IrCloner* cloner) const {
  return std::make_unique<NamedScalar>(this, cloner);
}

bool NamedScalar::sameAs(const Val* other) const {
  const auto* o = tryAs<NamedScalar>(other);
  return this == other || (o != nullptr && o->text_ == text_ && o->dtype_ == dtype_);
}

Expr::Expr(IrBuilderPasskey key, ExprKind kind) : Statement(key.container, kindNumber(kind)) {}

void Expr::addInput(Val* v) {
  NVF_ERROR(v != nullptr, "an expression input is null");
  inputs_.push_back(v);
}

void Expr::addOutput(Val* v) {
  NVF_ERROR(v != nullptr, "an expression output is null");
  outputs_.push_back(v);
}

Val* Expr::input(size_t i) const {
  NVF_CHECK(i < inputs_.size(), opName(), " has ", inputs_.size(), " inputs, asked for ", i);
  return inputs_[i];
}

Val* Expr::output(size_t i) const {
  NVF_CHECK(i < outputs_.size(), opName(), " has ", outputs_.size(), " outputs, asked for ", i);
  return outputs_[i];
}

bool Expr::isTensorExpr() const {
  auto is_tensor = [](const Val* v) {
    return v->kind() == ValKind::TensorView || v->kind() == ValKind::TensorIndex;
  };
  return std::any_of(outputs_.begin(), outputs_.end(), is_tensor) ||
         std::any_of(inputs_.begin(), inputs_.end(), is_tensor);
}

namespace detail {

bool sameField(Val* const& a, Val* const& b) {
  return a == b || (a != nullptr && b != nullptr && a->sameAs(b));
}

bool sameField(const std::vector<Val*>& a, const std::vector<Val*>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](Val* x, Val* y) { return sameField(x, y); });
}

size_t hashField(const std::vector<bool>& field) {
  size_t h = field.size();
  for (bool b : field) {
    h = hashCombine(h, b ? 1 : 2);
  }
  return h;
}

size_t hashField(const std::vector<int64_t>& field) {
  size_t h = field.size();
  for (int64_t i : field) {
    h = hashCombine(h, static_cast<uint64_t>(i));
  }
  return h;
}

size_t hashField(Val* const& field) {
  if (field == nullptr) {
    return 0;
  }
  const ScalarValue& v = field->value();
  size_t h = v.index();
  if (const auto* b = std::get_if<bool>(&v)) {
    return hashCombine(h, *b ? 1 : 2);
  }
  if (const auto* i = std::get_if<int64_t>(&v)) {
    return hashCombine(h, static_cast<uint64_t>(*i));
  }
  if (const auto* d = std::get_if<double>(&v)) {
    return hashCombine(h, std::bit_cast<uint64_t>(*d));
  }
  if (const auto* c = std::get_if<std::complex<double>>(&v)) {
    return hashCombine(hashCombine(h, std::bit_cast<uint64_t>(c->real())),
                       std::bit_cast<uint64_t>(c->imag()));
  }
  return h;
}

size_t hashField(const std::vector<Val*>& field) {
  size_t h = field.size();
  for (Val* v : field) {
    h = hashCombine(h, hashField(v));
  }
  return h;
}

} // namespace detail
} // namespace nvfuser
