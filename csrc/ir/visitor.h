// Dispatch over node kinds and traversal helpers.
#pragma once

#include <ir/nodes.h>

#include <unordered_set>
#include <vector>

namespace nvfuser {

// Calls the member for the node's kind. Override what is of interest; the rest calls unhandled().
class ExprVisitor {
 public:
  virtual ~ExprVisitor() = default;
  void dispatch(Expr* e);

 protected:
  virtual void unhandled(Expr* e);
#define NVF_HANDLE(T) virtual void handle(T* e);
  NVF_EXPR_KINDS(NVF_HANDLE)
#undef NVF_HANDLE
};

// Expressions (tensor and scalar ones; not domain transforms) that `outputs` depend on, producers
// before consumers; iterative, so that deep graphs do not exhaust the stack.
std::vector<Expr*> exprsBefore(const std::vector<Val*>& outputs);

// Tensor inputs and outputs of an expression.
std::vector<TensorView*> tensorInputs(const Expr* e);
std::vector<TensorView*> tensorOutputs(const Expr* e);
// Direct tensor producers / consumers (consumers: live in the fusion).
std::vector<TensorView*> producerTvsOf(const TensorView* tv);
std::vector<TensorView*> consumerTvsOf(const TensorView* tv);

} // namespace nvfuser
