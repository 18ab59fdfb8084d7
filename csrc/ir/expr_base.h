// SPDX-License-Identifier: BSD-3-Clause
// ExprBase<T, kind>: an expression class lists its fields once, in fieldList(), by name. Copying,
// equality, hashing, the scalars among the fields and fields() for those who print or translate any
// operation follow from the list.
#pragma once

#include <base/hash.h>
#include <ir/base_nodes.h>
#include <ir/cloner.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace nvfuser {

enum class OpType;
enum class LibraryOpType : uint8_t;
enum class RngKind;

// One entry of fieldList(): the name by which texts, translations and introspection call it (the
// keyword of the Python function where it is one), and the member.
template <class Class, class T>
struct Field {
  const char* name;
  T Class::* member;
  Told told = Told::AsField;
};
template <class Class, class T>
Field(const char*, T Class::*) -> Field<Class, T>;
template <class Class, class T>
Field(const char*, T Class::*, Told) -> Field<Class, T>;

namespace detail {

// Fields are enums, integers, bools, vectors of bool or integers, Val* and vectors of Val*.
template <class T>
T cloneField(const T& field, IrCloner*) {
  return field;
}
inline Val* cloneField(Val* const& field, IrCloner* cloner) {
  return cloner->clone(field);
}
inline std::vector<Val*> cloneField(const std::vector<Val*>& field, IrCloner* cloner) {
  return cloner->clone(field);
}

template <class T>
bool sameField(const T& a, const T& b) {
  return a == b;
}
bool sameField(Val* const& a, Val* const& b);
bool sameField(const std::vector<Val*>& a, const std::vector<Val*>& b);

template <class T>
size_t hashField(const T& field) {
  return static_cast<size_t>(field);
}
size_t hashField(const std::vector<bool>& field);
size_t hashField(const std::vector<int64_t>& field);
// Vals hash by constant value only: equal expressions must hash equally across containers.
size_t hashField(Val* const& field);
size_t hashField(const std::vector<Val*>& field);

std::string fieldText(OpType op);
std::string fieldText(LibraryOpType op);
std::string fieldText(LoadStoreOpType type);
std::string fieldText(CacheOp op);
std::string fieldText(RngKind kind);
std::string fieldText(SwizzleType type);
std::string fieldText(ParallelType type);

template <class T>
FieldValue fieldValue(const T& field) {
  if constexpr (std::is_enum_v<T>) {
    return fieldText(field);
  } else {
    return field;
  }
}

template <class T>
void appendVals(const T& field, std::vector<Val*>& out) {
  if constexpr (std::is_same_v<T, Val*>) {
    out.push_back(field);
  } else if constexpr (std::is_same_v<T, std::vector<Val*>>) {
    out.insert(out.end(), field.begin(), field.end());
  }
}

} // namespace detail

template <class Derived, ExprKind kKind>
class ExprBase : public Expr {
 public:
  static constexpr ExprKind kStaticKind = kKind;

  // Copy into the cloner's container.
  ExprBase(const Derived* src, IrCloner* cloner) : Expr(cloner->passkey(), kKind) {
    for (Val* v : src->inputs()) {
      addInput(cloner->clone(v));
    }
    for (Val* v : src->outputs()) {
      addOutput(cloner->clone(v));
    }
  }

  // Classes with fields hide it by a list of their own.
  static constexpr auto fieldList() {
    return std::tuple{};
  }

  Expr* shallowCopy(IrCloner* cloner) const override {
    auto copy = std::make_unique<Derived>(&self(), cloner);
    forEachField([&](const auto& field) {
      (*copy).*field.member = detail::cloneField(self().*field.member, cloner);
    });
    Expr* raw = copy.get();
    cloner->registerExpr(std::move(copy));
    return raw;
  }

  bool sameFields(const Expr* other) const override {
    if (other->kind() != kKind) {
      return false;
    }
    bool same = true;
    forEachField([&](const auto& field) {
      same = same && detail::sameField(self().*field.member,
                                       static_cast<const Derived*>(other)->*field.member);
    });
    return same;
  }

  size_t fieldsHash() const override {
    size_t h = static_cast<size_t>(kKind);
    forEachField(
        [&](const auto& field) { h = hashCombine(h, detail::hashField(self().*field.member)); });
    return h;
  }

  std::vector<Val*> fieldVals() const override {
    std::vector<Val*> out;
    forEachField([&](const auto& field) { detail::appendVals(self().*field.member, out); });
    return out;
  }

  std::vector<NamedField> fields() const override {
    std::vector<NamedField> out;
    forEachField([&](const auto& field) {
      out.push_back({field.name, detail::fieldValue(self().*field.member), field.told});
    });
    return out;
  }

 protected:
  explicit ExprBase(IrBuilderPasskey key) : Expr(key, kKind) {}

 private:
  const Derived& self() const {
    return *static_cast<const Derived*>(this);
  }
  template <class Visit>
  static void forEachField(Visit visit) {
    std::apply([&](const auto&... field) { (visit(field), ...); }, Derived::fieldList());
  }
};

} // namespace nvfuser
