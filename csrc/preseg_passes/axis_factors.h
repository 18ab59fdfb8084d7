// SPDX-License-Identifier: BSD-3-Clause
// Which factors the dimensions of a definition are made of. A reshape merges and splits dimensions:
// [n, c, h, w] seen as [n, g, c / g * h * w] has the factors n, g, c / g, h and w. Where every
// tensor has a dimension for each factor, no reshape is left.
#pragma once

#include <fusion.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

class AxisFactors {
 public:
  // `kept`: tensors whose dimensions stay as they are. `ends`: slices and pads that take theirs
  // from what has other factors, and whose own dimensions stay.
  AxisFactors(const Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
              const std::unordered_set<const Expr*>& ends);

  // Reshapes that are not needed when all dimensions are factors; the others stay what they are,
  // with the dimensions of their input and output.
  const std::vector<const Expr*>& solved() const {
    return solved_;
  }
  // The extents of a dimension's factors, from the outermost to the innermost. One: it is none that
  // a solved reshape has merged or split.
  std::vector<Val*> factorsOf(const IterDomain* id) const;
  bool isSplit(const IterDomain* id) const;

 private:
  // A dimension, or several that are equal.
  struct Class {
    int parent = -1;
    std::vector<int> factors = {}; // outermost first; empty: it is one itself
    Val* extent = nullptr;         // null: nothing but broadcasts
    bool fixed = false;            // is not to be split
  };

  bool solve(const Fusion* fusion, const std::unordered_set<const TensorView*>& kept);
  void addTensors(const Fusion* fusion, const std::unordered_set<const TensorView*>& kept);
  bool isOpaque(const Expr* e) const;
  bool addReshape(const Expr* reshape);
  int numbered(const IterDomain* id);
  int find(int c) const;
  int newFactor(Val* extent);
  void factorsOf(int c, std::vector<int>& out) const;
  bool sameExtent(int a, int b) const;
  bool unite(int a, int b);
  bool define(int c, std::vector<int> factors);
  bool match(std::vector<int> a, std::vector<int> b);
  bool splitFront(std::vector<int>& longer, std::vector<int>& shorter);

  std::unordered_map<const IterDomain*, int> number_;
  std::vector<Class> classes_;
  const std::unordered_set<const Expr*>& ends_;
  std::unordered_set<const Expr*> opaque_;
  std::vector<const Expr*> solved_;
};

} // namespace nvfuser
