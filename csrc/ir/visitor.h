// SPDX-License-Identifier: BSD-3-Clause
// Traversal of the graph.
#pragma once

#include <ir/nodes.h>

#include <vector>

namespace nvfuser {

// Expressions (transforms if these are domains) that `outputs` depend on, producers
// before consumers, among independent ones in order of creation; iterative, so that deep graphs do
// not exhaust the stack. Walks stop at `stop_at`.
std::vector<Expr*> exprsBefore(const std::vector<Val*>& outputs,
                               const std::vector<Val*>& stop_at = {});

// Tensor inputs (each once) and outputs of an expression.
std::vector<TensorView*> tensorInputs(const Expr* e);
std::vector<TensorView*> tensorOutputs(const Expr* e);
// Direct tensor producers / consumers (all registered ones).
std::vector<TensorView*> producerTvsOf(const TensorView* tv);
std::vector<TensorView*> consumerTvsOf(const TensorView* tv);

} // namespace nvfuser
