// SPDX-License-Identifier: BSD-3-Clause
// IrCloner copies nodes into another container (or duplicates parts of one). It copies what it is
// asked for and everything that depends on: extents, domains, definitions of scalars and of
// IterDomains. Definitions of tensors are copied only through cloneExprs, so that callers choose
// which part of a graph they take.
#pragma once

#include <ir/base_nodes.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace nvfuser {

class IrCloner {
 public:
  explicit IrCloner(IrContainer* target) : target_(target) {}

  // The copy of a value, made on first request. Null stays null.
  Val* cloneVal(const Val* v);
  template <class T>
  T* clone(T* v) {
    return v == nullptr ? nullptr : cloneVal(v)->template as<T>();
  }
  template <class T>
  std::vector<T*> clone(const std::vector<T*>& v) {
    std::vector<T*> out;
    out.reserve(v.size());
    for (T* x : v) {
      out.push_back(clone(x));
    }
    return out;
  }
  // Copies the expression with its inputs and outputs; a second request gives the same copy.
  Expr* cloneExpr(const Expr* e);

  // Declares that `from` is represented by `to` from now on.
  void map(const Val* from, Val* to) {
    vals_[from] = to;
  }
  // Asked for every scalar that is computed: what stands for it in the copy, or null.
  void replaceScalars(std::function<Val*(const Val*)> replacement) {
    replacement_ = std::move(replacement);
  }
  // The copy if there is one, else null.
  Val* lookup(const Val* v) const {
    auto it = vals_.find(v);
    return it == vals_.end() ? nullptr : it->second;
  }

  IrContainer* target() const {
    return target_;
  }
  IrBuilderPasskey passkey() const {
    return IrBuilderPasskey(target_);
  }
  void registerExpr(std::unique_ptr<Expr> expr);

 private:
  Val* copyNode(const Val* v);
  bool replaceScalar(const Val* v);

  IrContainer* target_;
  std::unordered_map<const Val*, Val*> vals_;
  std::unordered_map<const Expr*, Expr*> exprs_;
  std::function<Val*(const Val*)> replacement_;
};

} // namespace nvfuser
