// Narrow tensors at cuts: a segment that reads a widened tensor (bf16 to float) should read the
// narrow one and widen it itself, which costs an instruction instead of memory traffic, and one
// that reads what takes a few operations should read what that is made of.
#pragma once

#include <fusion.h>

#include <optional>
#include <unordered_map>
#include <vector>

namespace nvfuser {

bool isWideningCast(const Expr* e);

// Gives every reader of a widening cast a cast of its own, so that each can be on its reader's side
// of a cut.
void separateWideningCasts(Fusion* fusion);

// What is read of the fusion's inputs, and of what a library makes, for one element of a tensor.
class InputBits {
 public:
  // `exprs` in topological order.
  explicit InputBits(const std::vector<Expr*>& exprs);

  // A few elementwise operations make the expression's output of inputs alone, and reading those
  // takes less than writing and reading the output, or `or_as_many` just as much. (What has fewer
  // dimensions is free.)
  bool areFewFor(const Expr* e, bool or_as_many = false) const;

 private:
  struct Cost {
    int64_t bits = 0;
    int64_t ops = 0;
  };
  // Nullopt: it is not made of inputs alone, or by many operations.
  std::optional<Cost> costOf(const TensorView* tv) const;
  std::optional<Cost> costOf(const Expr* e) const;

  std::unordered_map<const TensorView*, Cost> known_;
};

// Where rows take several kernels: what is read before and after a reduction is computed of the
// inputs again after it, if InputBits says so.
void repeatAfterReductions(Fusion* fusion);

} // namespace nvfuser
