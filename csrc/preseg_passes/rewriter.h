// SPDX-License-Identifier: BSD-3-Clause
// A walk over a definition, producers first, that puts tensors in the place of equal ones: what the
// rewrites into the canonical form are written in.
#pragma once

#include <fusion.h>
#include <ir/exprs.h>
#include <preseg_passes/common_expressions.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

class Rewriter {
 public:
  explicit Rewriter(Fusion* fusion) : fusion_(fusion) {}
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;
  virtual ~Rewriter() = default;

  // Every live expression once. What was replaced is still there, read by nobody.
  void run();

 protected:
  // `e` reads what took the place of its operands.
  virtual void rewrite(Expr* e) = 0;

  // From now on `by` is read where `tv` was; an output of the fusion is computed as `by` was, or is
  // a copy of it. False if nothing is replaced: their dimensions differ in kind, or `tv` has a
  // memory order of its own or is one of several results.
  bool replace(TensorView* tv, TensorView* by);
  // Puts the results of an equal expression that was given here before in the place of this one's.
  // False if there is none, or it can't be.
  bool share(Expr* e);
  // The operation, rewritten as if it had been there. `like`: whose source location it gets.
  Val* make(OpType op, DataType dtype, const std::vector<Val*>& operands, const TensorView* like);
  // What is read in the place of `v`.
  Val* current(Val* v) const;

  Fusion* const fusion_;

 private:
  bool takeOver(TensorView* output, TensorView* by);
  std::unordered_map<Val*, Val*> changedOperands(const Expr* e) const;

  std::unordered_map<Val*, Val*> replaced_;
  CommonExpressions common_;
};

// Rewrites operations on elements one by one.
class ElementwiseRewriter : public Rewriter {
 public:
  using Rewriter::Rewriter;

 protected:
  // What is computed in the place of its result; null if it stays.
  virtual TensorView* simpler(const ElementwiseOp* op) = 0;
  void rewrite(Expr* e) override;
  // An operation of the type of what is simplified.
  TensorView* made(OpType op, const std::vector<Val*>& operands);

  TensorView* out_ = nullptr; // of the operation that is simplified
};

// The tensor's definition if it is this operation, else null.
const ElementwiseOp* definedBy(const Val* v, OpType op);
// The value of a real constant.
std::optional<double> realConstant(const Val* v);
// Which operand of a binary operation is a real constant, and the other one.
struct WithConstant {
  double constant;
  Val* other;
};
std::optional<WithConstant> splitConstant(const ElementwiseOp* op);
// The logarithm of a power of two, or of what a negative one is of one.
std::optional<int> exponentOf(double x);
// Whether every value of one type is a value of the other.
bool holdsAll(DataType of, DataType in);
// A tensor's sizes, if they are constants.
std::optional<std::vector<int64_t>> knownSizes(const TensorView* tv);
// How many a tensor has, if its sizes are constants.
std::optional<int64_t> knownElements(const Val* tensor);
// Whether the two are known to have the same size, or all dimensions but one are.
bool haveSameSize(const IterDomain* a, const IterDomain* b);
bool haveSameRows(const TensorView* a, const TensorView* b, int64_t dim);
// From now on the tensor is computed as the other one is, of which no order in memory is asked for.
void computeAs(TensorView* tv, TensorView* other);
// What a reduction gives is computed element by element from now on.
void computeInstead(ReductionOp* reduction, OpType op, const std::vector<Val*>& operands);
// A copy of all elements in the same order: it changes nothing.
bool isPlainCopy(const Expr* e);
// Which neighbours among `pieces` each dimension is made of, outermost first, where a reshape
// splits or merges them. Empty if it does otherwise, or by sizes that are not known.
std::vector<std::vector<size_t>> piecesOf(const std::vector<IterDomain*>& dims,
                                          const std::vector<IterDomain*>& pieces);
// The order that a permutation puts the dimensions of its input in; empty if it is none.
std::vector<int64_t> permutationOf(const Expr* e);
// The same number of dimensions, each of the same kind: iterations, broadcast, expanded.
bool haveSameDims(const TensorView* a, const TensorView* b);
// What lies at a position of a concatenation of tensors that have one each. Null if these have
// more, or are padded elsewhere as well.
TensorView* stackedAt(const CatOp* cat, int64_t position);
// A scalar constant, rounded to the type.
Val* constantOf(double value, DataType dtype);

// Where a value is known to have no sign: each element is positive, +0 or NaN. Filled expression by
// expression, producers first.
class Unsigned {
 public:
  void visit(const Expr* e);
  bool holds(const Val* v) const;

 private:
  bool holdsFor(const ElementwiseOp* op) const;

  std::unordered_set<const Val*> known_;
};

} // namespace nvfuser
