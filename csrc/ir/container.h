// SPDX-License-Identifier: BSD-3-Clause
// IrContainer owns nodes, numbers them, and keeps definition/use links. Fusion and Kernel derive
// from it. One container is active per thread while its guard lives; IrBuilder makes nodes in it.
#pragma once

#include <ir/base_nodes.h>

#include <array>
#include <deque>
#include <memory>
#include <unordered_map>

namespace nvfuser {

class IrContainer {
 public:
  IrContainer() = default;
  IrContainer(const IrContainer&) = delete;
  IrContainer& operator=(const IrContainer&) = delete;
  virtual ~IrContainer();

  // All values in order of creation.
  const std::vector<Val*>& vals() const {
    return vals_;
  }
  // All expressions in order of creation, dead ones included.
  const std::vector<Expr*>& unorderedExprs() const {
    return exprs_;
  }

  // Takes ownership; numbers the node.
  void registerVal(std::unique_ptr<Val> val);
  // Takes ownership; links definition and uses. A second definition of an output replaces the
  // first.
  void registerExpr(std::unique_ptr<Expr> expr);
  // Unlinks an expression from its inputs and outputs; it stays owned but is no longer listed.
  void removeExpr(Expr* expr);

  // Frequently used constants of dtype Index, made once per container.
  Val* zeroVal();
  Val* oneVal();
  Val* trueVal();
  Val* falseVal();

  // The active container of this thread, or null.
  static IrContainer* active();
  static void setActive(IrContainer* container);

 protected:
  void clear();
  // Takes over the name counters of another container, so that names go on where its left off.
  void copyCounters(const IrContainer& other) {
    val_counters_ = other.val_counters_;
    expr_counter_ = other.expr_counter_;
  }
  // Called by registerExpr/removeExpr so that derived classes drop cached orders.
  virtual void onGraphChanged() {}

 private:
  friend class IrCloner;
  std::vector<std::unique_ptr<Statement>> owned_;
  std::vector<Val*> vals_;
  std::vector<Expr*> exprs_;
  std::array<int, 8> val_counters_{};
  int expr_counter_ = 0;
  Val* zero_ = nullptr;
  Val* one_ = nullptr;
  Val* true_ = nullptr;
  Val* false_ = nullptr;
};

} // namespace nvfuser
