// SPDX-License-Identifier: BSD-3-Clause
// IrBuilder makes nodes in the active container, and scalar arithmetic on Vals.
#pragma once

#include <ir/container.h>
#include <ir/nodes.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace nvfuser {

class IrBuilder {
 public:
  // Makes and registers a node in the active container (see FusionGuard):
  //   IrBuilder::create<Val>(2.0), IrBuilder::create<Split>(outer, inner, in, factor, true)
  template <class T, class... Args>
  static T* create(Args&&... args) {
    return createIn<T>(activeContainer(), std::forward<Args>(args)...);
  }
  template <class T, class... Args>
  static T* createIn(IrContainer* container, Args&&... args) {
    auto node = std::make_unique<T>(IrBuilderPasskey(container), std::forward<Args>(args)...);
    T* raw = node.get();
    registerNode(container, std::move(node));
    return raw;
  }
  // The active container; an error that says how to get one if there is none.
  static IrContainer* activeContainer();

  // Scalar expressions. Constant operands are folded and the identities of +0, *1, /1, min/max of
  // equal operands are applied, so that extents stay readable. Result dtype: Bool for comparisons,
  // else Index if either side is Index, else the wider of the two.
  static Val* scalar(OpType op, Val* a, Val* b);
  // The operation of a scalar over other operands.
  static Val* scalar(const ElementwiseOp* op, const std::vector<Val*>& in);
  // The scalar over what `replaced` gives for its operands; itself if none of them changes.
  static Val* withOperands(Val* v, const std::function<Val*(Val*)>& replaced);
  // The scalar with what `by` gives in the place of values that it is computed from, or of itself;
  // of one that it gives null for, the operands are looked at. Each value is asked for once.
  static Val* replaced(Val* v, const std::function<Val*(Val*)>& by);
  static Val* addExpr(Val* a, Val* b);
  static Val* subExpr(Val* a, Val* b);
  static Val* mulExpr(Val* a, Val* b);
  static Val* divExpr(Val* a, Val* b);
  static Val* modExpr(Val* a, Val* b);
  static Val* ceilDivExpr(Val* a, Val* b);
  static Val* minExpr(Val* a, Val* b);
  static Val* maxExpr(Val* a, Val* b);
  static Val* ltExpr(Val* a, Val* b);
  static Val* leExpr(Val* a, Val* b);
  static Val* gtExpr(Val* a, Val* b);
  static Val* geExpr(Val* a, Val* b);
  static Val* eqExpr(Val* a, Val* b);
  static Val* neExpr(Val* a, Val* b);
  static Val* logicalAndExpr(Val* a, Val* b);
  static Val* logicalOrExpr(Val* a, Val* b);
  static Val* logicalNotExpr(Val* a);
  static Val* whereExpr(Val* cond, Val* a, Val* b);
  static Val* negExpr(Val* a);
  static Val* castExpr(DataType dtype, Val* a);
  // Integer constant of dtype Index.
  static Val* index(int64_t value);

 private:
  static void registerNode(IrContainer* container, std::unique_ptr<Val> val);
  static void registerNode(IrContainer* container, std::unique_ptr<Expr> expr);
};

} // namespace nvfuser
