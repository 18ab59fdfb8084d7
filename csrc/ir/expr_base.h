// ExprBase<T, kind>: implements copying, field equality and field hash of an expression class from
// its fields() tuple, so that a new class lists its fields once.
#pragma once

#include <base/hash.h>
#include <ir/base_nodes.h>
#include <ir/cloner.h>

#include <tuple>
#include <type_traits>
#include <vector>

namespace nvfuser {
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

  Expr* shallowCopy(IrCloner* cloner) const override {
    const auto* self = static_cast<const Derived*>(this);
    auto copy = std::make_unique<Derived>(self, cloner);
    std::apply(
        [&](auto&... to) {
          std::apply([&](const auto&... from) { ((to = detail::cloneField(from, cloner)), ...); },
                     self->fields());
        },
        copy->mutableFields());
    Expr* raw = copy.get();
    cloner->registerExpr(std::move(copy));
    return raw;
  }

  bool sameFields(const Expr* other) const override {
    if (other->kind() != kKind) {
      return false;
    }
    return sameTuple(static_cast<const Derived*>(this)->fields(),
                     static_cast<const Derived*>(other)->fields());
  }

  size_t fieldsHash() const override {
    size_t h = static_cast<size_t>(kKind);
    std::apply([&](const auto&... field) { ((h = hashCombine(h, detail::hashField(field))), ...); },
               static_cast<const Derived*>(this)->fields());
    return h;
  }

 protected:
  explicit ExprBase(IrBuilderPasskey key) : Expr(key, kKind) {}

 private:
  template <class Tuple>
  static bool sameTuple(const Tuple& a, const Tuple& b) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return (detail::sameField(std::get<I>(a), std::get<I>(b)) && ...);
    }(std::make_index_sequence<std::tuple_size_v<Tuple>>());
  }
};

} // namespace nvfuser
