// SPDX-License-Identifier: BSD-3-Clause
// Which logical domain of a producer is which root domain of its consumer, op by op.
#pragma once

#include <ir/nodes.h>

#include <string>
#include <utility>
#include <vector>

namespace nvfuser {

// Pairs (producer logical, consumer root) in consumer order. Dimensions that only one side has
// (inserted by broadcast, removed by squeeze or select) and those that are read at positions of
// another tensor do not appear; a broadcast paired with a concrete dimension does. A reduced
// dimension pairs with the Reduction axis of the consumer.
std::vector<std::pair<IterDomain*, IterDomain*>> producerConsumerPairs(const TensorView* producer,
                                                                       const TensorView* consumer);

// The operand that the op reads at other positions than loops run over: those which another operand
// holds (gather, index_select, select, embedding), or neighbours of theirs (roll). It must be in
// memory before. Null for other ops.
TensorView* lookedUpTensor(const Expr* e);
// The dimension of it at which the positions that an operand holds count.
int64_t lookedUpDim(const Expr* e);
// What is found at a position lies side by side in the memory of the table.
bool findsRows(const Expr* e);
// Whether a dimension of the operand has positions of its own.
bool isLookedUpDim(const Expr* e, size_t dim);
// Whether something is looked up in the tensor.
bool isLookedUp(const TensorView* tv);

// What to say of a reshape whose dimensions nobody has related to those of its input yet.
std::string undecidedReshape(const TensorView* out);

} // namespace nvfuser
