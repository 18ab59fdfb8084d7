// SPDX-License-Identifier: BSD-3-Clause
// Copying of nodes between containers.
#include <ir/cloner.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/visitor.h>

#include <algorithm>

namespace nvfuser {

namespace {

bool isComputedScalar(const Val* v) {
  return v->isScalar() && v->definition() != nullptr;
}

} // namespace

Val* IrCloner::cloneVal(const Val* v) {
  if (v == nullptr) {
    return nullptr;
  }
  if (Val* known = lookup(v)) {
    return known;
  }
  if (!isComputedScalar(v)) {
    return copyNode(v);
  }
  visitOperandsFirst(
      v, [&](const Val* each) { return lookup(each) != nullptr; },
      [&](const Val* each, const auto& add) {
        if (isComputedScalar(each) && !replaceScalar(each)) {
          const std::vector<Val*>& in = each->definition()->inputs();
          std::for_each(in.begin(), in.end(), add);
        }
      },
      [&](const Val* each) {
        copyNode(each);
        if (isComputedScalar(each)) {
          cloneExpr(each->definition());
        }
      });
  return lookup(v);
}

bool IrCloner::replaceScalar(const Val* v) {
  Val* replacement = replacement_ == nullptr ? nullptr : replacement_(v);
  if (replacement != nullptr) {
    map(v, replacement);
  }
  return replacement != nullptr;
}

// Node constructors call map() first thing, so that cycles (a domain, its definition, the domain)
// end.
Val* IrCloner::copyNode(const Val* v) {
  std::unique_ptr<Val> copy = v->copyWith(this);
  Val* raw = copy.get();
  target_->registerVal(std::move(copy));
  // A domain is not complete without the transforms it comes from.
  if (v->kind() == ValKind::IterDomain && v->definition() != nullptr) {
    cloneExpr(v->definition());
  }
  return raw;
}

Expr* IrCloner::cloneExpr(const Expr* e) {
  if (auto it = exprs_.find(e); it != exprs_.end()) {
    return it->second;
  }
  exprs_[e] = nullptr; // in progress: its outputs ask for it again
  Expr* copy = e->shallowCopy(this);
  exprs_[e] = copy;
  return copy;
}

void IrCloner::registerExpr(std::unique_ptr<Expr> expr) {
  target_->registerExpr(std::move(expr));
}

} // namespace nvfuser
