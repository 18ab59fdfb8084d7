// SPDX-License-Identifier: BSD-3-Clause
// What it takes to compute a tensor again of the inputs of a fusion, where the alternative is to
// write it and to read it: a few operations on narrow tensors are cheaper.
#pragma once

#include <fusion.h>

#include <optional>
#include <unordered_map>
#include <vector>

namespace nvfuser {

// Such as from bf16 to float.
bool isWideningCast(const Expr* e);

// A lookup finds rows of its table, and what is computed of them keeps them in their order: threads
// that are neighbours read neighbours.
bool readsWholeRows(const Expr* lookup);

// Dimensions that a tensor's elements differ along, as far as is known.
int64_t concreteDims(const TensorView* tv);

// What is read of the fusion's inputs, of what a library makes, and of slices and looked up rows of
// these, for one element of a tensor.
class InputBits {
 public:
  // `exprs` in topological order.
  explicit InputBits(const std::vector<Expr*>& exprs);

  // A few elementwise operations make the expression's output of inputs alone, and reading those
  // takes less than writing and reading the output, or `or_as_many` just as much. (What has fewer
  // dimensions is free.)
  bool areFewFor(const Expr* e, bool or_as_many = false) const;
  // A few elementwise operations do.
  bool areKnownFor(const Expr* e) const {
    return e->output(0)->isTensor() && known_.count(e->output(0)->as<TensorView>()) != 0;
  }

 private:
  struct Cost {
    std::vector<const TensorView*> read; // each once
    int64_t ops = 0;
  };
  // Nullopt: it is not made of inputs alone, or by many operations.
  std::optional<Cost> costOf(const TensorView* tv) const;
  std::optional<Cost> costOf(const Expr* e) const;

  std::unordered_map<const TensorView*, Cost> known_;
};

} // namespace nvfuser
