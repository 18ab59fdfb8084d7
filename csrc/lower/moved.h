// Copies of indexed statements in another turn of a loop.
#pragma once

#include <lower/context.h>

#include <functional>

namespace nvfuser {

// `v` with `to` in the place of `from`.
Val* replaced(Val* v, Val* from, Val* to);

// Copies of the statements of loads with `to` in the place of a loop's index. `target`: the tensor
// that takes the place of one that is written.
class Mover {
 public:
  Mover(const LowerContext& ctx, Val* index, Val* to,
        std::function<TensorView*(TensorView*)> target = nullptr)
      : ctx_(ctx), index_(index), to_(to), target_(std::move(target)) {}

  Expr* moved(Expr* e) const;
  Statements moved(const Statements& list) const;

 private:
  Val* at(Val* v) const;
  TensorIndex* at(TensorIndex* element, bool is_written) const;

  const LowerContext& ctx_;
  Val* index_;
  Val* to_;
  std::function<TensorView*(TensorView*)> target_;
};

} // namespace nvfuser
