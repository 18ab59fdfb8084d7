// SPDX-License-Identifier: BSD-3-Clause
// Copies of indexed statements in another iteration of a loop.
#pragma once

#include <lower/context.h>

#include <functional>

namespace nvfuser {

// Copies statements with `to` in the place of a loop's index. `target`: the tensor that takes the
// place of one that is accessed.
class Mover {
 public:
  Mover(const LowerContext& ctx, Val* index, Val* to,
        std::function<TensorView*(TensorView*)> target = nullptr)
      : ctx_(ctx), index_(index), to_(to), target_(std::move(target)) {}

  Expr* moved(Expr* e) const;
  Statements moved(const Statements& list) const;
  Val* moved(Val* v) const {
    return at(v);
  }

 private:
  Expr* movedStatement(Expr* e) const;
  TensorView* targetOf(TensorView* tv) const {
    return target_ ? target_(tv) : tv;
  }
  Val* replaced(Val* v) const;
  Val* at(Val* v) const;
  std::vector<Val*> at(const std::vector<Val*>& values) const;

  const LowerContext& ctx_;
  Val* index_;
  Val* to_;
  std::function<TensorView*(TensorView*)> target_;
};

// What a position grows by from one iteration to the next.
Val* stepAlong(const LowerContext& ctx, Val* index, Val* position);

} // namespace nvfuser
