// SPDX-License-Identifier: BSD-3-Clause
// Equality and hash of definitions. A definition is written down as a list of numbers in which
// every value is named by its position of first appearance and constants stand for themselves; two
// fusions are the same definition if their lists are equal. Nothing of the schedule is in it (loop
// domains, parallel types, memory types, inlining), nor are operations that no output needs.
#include <definition/equality.h>

#include <base/hash.h>

#include <bit>
#include <cmath>
#include <limits>

namespace nvfuser {
namespace {

class DefinitionWriter {
 public:
  std::vector<uint64_t> write(const Fusion& fusion);

 private:
  enum Tag : uint64_t {
    kNull,
    kConstant,
    kValue,
    kSymbol,
    kNamed,
    kComputed,
    kDomain,
    kTensor,
    kExpr
  };

  void put(uint64_t x) {
    out_.push_back(x);
  }
  template <class E>
  void putEnum(E e) {
    put(static_cast<uint64_t>(e));
  }
  void putConstant(const Val* v);
  // The value by its position; a constant by its value.
  void putRef(const Val* v);
  template <class T>
  void putRefs(const std::vector<T*>& vals);
  // Kind, fields and operands.
  void putExpr(const Expr* e);
  // Writes what the value is, operands first, unless that has been done.
  void define(const Val* v);
  template <class T>
  void defineAll(const std::vector<T*>& vals);
  void putDefinition(const Val* v);
  void putTensor(const TensorView* tv);

  std::vector<uint64_t> out_;
  std::unordered_map<const Val*, uint64_t> positions_;
};

// What the definition of a value refers to. Tensors are not followed to their producers.
std::vector<const Val*> operandsOf(const Val* v) {
  std::vector<const Val*> out;
  auto append = [&](const auto& vals) { out.insert(out.end(), vals.begin(), vals.end()); };
  if (v->kind() == ValKind::TensorView) {
    const TensorDomain* domain = static_cast<const TensorView*>(v)->domain();
    append(domain->root());
    append(domain->logical());
    append(domain->allocation());
    return out;
  }
  if (v->kind() == ValKind::IterDomain) {
    const auto* id = static_cast<const IterDomain*>(v);
    out = {id->extent(), id->expandedExtent()};
  }
  if (const Expr* e = v->definition()) {
    append(e->inputs());
    append(e->fieldVals());
  }
  return out;
}

void DefinitionWriter::putConstant(const Val* v) {
  put(kConstant);
  // Whether a constant integer is an index follows from where it stands.
  putEnum(v->dtype() == DataType::Index ? DataType::Int : v->dtype());
  const ScalarValue& value = v->value();
  put(value.index());
  // All NaNs are one value.
  const auto putDouble = [this](double d) {
    put(std::bit_cast<uint64_t>(std::isnan(d) ? std::numeric_limits<double>::quiet_NaN() : d));
  };
  if (const auto* b = std::get_if<bool>(&value)) {
    put(*b ? 1 : 0);
  } else if (const auto* i = std::get_if<int64_t>(&value)) {
    put(static_cast<uint64_t>(*i));
  } else if (const auto* d = std::get_if<double>(&value)) {
    putDouble(*d);
  } else if (const auto* c = std::get_if<std::complex<double>>(&value)) {
    putDouble(c->real());
    putDouble(c->imag());
  }
}

void DefinitionWriter::putRef(const Val* v) {
  if (v == nullptr) {
    put(kNull);
  } else if (v->isConst()) {
    putConstant(v);
  } else {
    put(kValue);
    put(positions_.at(v));
  }
}

template <class T>
void DefinitionWriter::putRefs(const std::vector<T*>& vals) {
  put(vals.size());
  for (const T* v : vals) {
    putRef(v);
  }
}

void DefinitionWriter::putExpr(const Expr* e) {
  putEnum(e->kind());
  put(e->fieldsHash());
  putRefs(e->inputs());
  putRefs(e->fieldVals());
}

void DefinitionWriter::putTensor(const TensorView* tv) {
  put(kTensor);
  putEnum(tv->dtype());
  put(tv->isCpuScalar() ? 1 : 0);
  put(static_cast<uint64_t>(tv->writtenElements().value_or(-1)));
  const TensorDomain* domain = tv->domain();
  putRefs(domain->root());
  putRefs(domain->logical());
  putRefs(domain->allocation());
  put(domain->isOrderGiven() ? 1 : 0);
  put(domain->contiguity().size());
  for (std::optional<bool> c : domain->contiguity()) {
    put(c.has_value() ? (*c ? 1 : 0) : 2);
  }
}

void DefinitionWriter::putDefinition(const Val* v) {
  const Expr* e = v->definition();
  switch (v->kind()) {
    case ValKind::TensorView:
      putTensor(static_cast<const TensorView*>(v));
      return;
    case ValKind::NamedScalar:
      put(kNamed);
      put(hashString(static_cast<const NamedScalar*>(v)->text()));
      break;
    case ValKind::IterDomain: {
      const auto* id = static_cast<const IterDomain*>(v);
      put(kDomain);
      putEnum(id->iterType());
      put(id->isRfactorProduct() ? 1 : 0);
      putRef(id->extent());
      putRef(id->expandedExtent());
      break;
    }
    default:
      put(e == nullptr ? kSymbol : kComputed);
      break;
  }
  putEnum(v->dtype());
  if (e == nullptr) {
    put(kNull);
    return;
  }
  put(kExpr);
  putExpr(e);
  for (size_t i = 0; i < e->outputs().size(); ++i) {
    if (e->output(i) == v) {
      put(i);
    }
  }
}

// Without recursion: scalars can be chains of thousands of operations.
void DefinitionWriter::define(const Val* root) {
  std::vector<const Val*> stack = {root};
  while (!stack.empty()) {
    const Val* v = stack.back();
    if (v == nullptr || v->isConst() || positions_.count(v) != 0) {
      stack.pop_back();
      continue;
    }
    const size_t size = stack.size();
    const std::vector<const Val*> operands = operandsOf(v);
    // In order, so the last is pushed first.
    for (auto it = operands.rbegin(); it != operands.rend(); ++it) {
      if (*it != nullptr && !(*it)->isConst() && positions_.count(*it) == 0) {
        stack.push_back(*it);
      }
    }
    if (stack.size() == size) {
      putDefinition(v);
      positions_.emplace(v, positions_.size());
      stack.pop_back();
    }
  }
}

template <class T>
void DefinitionWriter::defineAll(const std::vector<T*>& vals) {
  for (const T* v : vals) {
    define(v);
  }
}

std::vector<uint64_t> DefinitionWriter::write(const Fusion& fusion) {
  defineAll(fusion.inputs());
  putRefs(fusion.inputs());
  for (const Expr* e : fusion.exprs()) {
    defineAll(e->inputs());
    defineAll(e->fieldVals());
    defineAll(e->outputs());
    put(kExpr);
    putExpr(e);
    putRefs(e->outputs());
  }
  defineAll(fusion.outputs());
  putRefs(fusion.outputs());
  for (const OutputAlias& alias : fusion.outputAliases()) {
    putRef(alias.input);
    put(alias.input != nullptr && alias.hidden ? 1 : 0);
  }
  return std::move(out_);
}

} // namespace

bool Fusion::sameDefinition(const Fusion& other) const {
  return this == &other || DefinitionWriter().write(*this) == DefinitionWriter().write(other);
}

std::vector<uint64_t> definitionWords(const Fusion& fusion) {
  return DefinitionWriter().write(fusion);
}

size_t Fusion::definitionHash() const {
  const std::vector<uint64_t> text = definitionWords(*this);
  return hashBytes(text.data(), text.size() * sizeof(uint64_t));
}

} // namespace nvfuser
