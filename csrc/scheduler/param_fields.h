// SPDX-License-Identifier: BSD-3-Clause
// Parameter structs as lists of named fields: printing, comparing and hashing, and the Python
// attributes, follow from one list per struct:
//
//   template <class Visitor>
//   static void fields(Visitor&& visit) {
//     visit("fastest_dim", &ReductionParams::fastest_dim);
//   }
#pragma once

#include <base/hash.h>
#include <scheduler/params.h>

#include <concepts>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace nvfuser {

struct NoVisitor {
  void operator()(const char*, auto) const {}
};
template <class T>
concept HasFields = requires { T::fields(NoVisitor()); };

// "a: 1, b: 2"
template <HasFields T>
std::string fieldsText(const T& value, const char* separator = ", ");

template <class T>
std::string fieldText(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (HasFields<T>) {
    return "(" + fieldsText(value) + ")";
  } else if constexpr (requires { value.first; }) {
    return "(" + fieldText(value.first) + ", " + fieldText(value.second) + ")";
  } else if constexpr (requires { value.front(); }) {
    std::string text;
    for (const auto& element : value) {
      text += (text.empty() ? "" : ", ") + fieldText(element);
    }
    return "[" + text + "]";
  } else {
    std::ostringstream out;
    out << value;
    return out.str();
  }
}

template <HasFields T>
std::string fieldsText(const T& value, const char* separator) {
  std::string text;
  T::fields([&](const char* name, auto member) {
    text += (text.empty() ? "" : separator) + (name + (": " + fieldText(value.*member)));
  });
  return text;
}

template <HasFields T>
bool equalFields(const T& a, const T& b) {
  bool equal = true;
  T::fields([&](const char*, auto member) { equal = equal && a.*member == b.*member; });
  return equal;
}

template <HasFields T>
uint64_t hashFields(const T& value, uint64_t seed = 0);

template <class T>
uint64_t hashField(const T& value) {
  if constexpr (HasFields<T>) {
    return hashFields(value);
  } else if constexpr (requires { value.first; }) {
    return hashCombine(hashField(value.first), hashField(value.second));
  } else if constexpr (requires { value.front(); }) {
    uint64_t h = value.size();
    for (const auto& element : value) {
      h = hashCombine(h, hashField(element));
    }
    return h;
  } else {
    return static_cast<uint64_t>(value);
  }
}

template <HasFields T>
uint64_t hashFields(const T& value, uint64_t seed) {
  T::fields([&](const char*, auto member) { seed = hashCombine(seed, hashField(value.*member)); });
  return seed;
}

// Heuristic parameters whose fields are listed. `P` derives from this.
template <class P>
class ListedParams : public HeuristicParams {
 public:
  using HeuristicParams::HeuristicParams;

  std::string toString() const override {
    return "\n===== " + std::string(P::kTitle) + " ========\n" +
           (tag.empty() ? "" : "Tag: " + tag + "\n") + lparams.toString() + "\n" +
           fieldsText(self(), "\n") + "\n" + sharedText() +
           "====================================\n";
  }
  size_t hash() const override {
    return hashFields(self(), HeuristicParams::hash());
  }
  bool sameAs(const HeuristicParams& other) const override {
    const auto* p = dynamic_cast<const P*>(&other);
    return p != nullptr && HeuristicParams::sameAs(other) && equalFields(self(), *p);
  }
  std::unique_ptr<HeuristicParams> clone() const override {
    return std::make_unique<P>(self());
  }

 private:
  const P& self() const {
    return static_cast<const P&>(*this);
  }
};

} // namespace nvfuser
