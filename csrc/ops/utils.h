// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the op builders: operand checks, extents, and the domains of results.
#pragma once

#include <ir/builder.h>
#include <ir/nodes.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nvfuser::ops_utils {

using Ids = TensorDomain::Ids;

// Error unless every operand exists and belongs to the active fusion.
void checkOperand(const char* op_name, const Val* v);
void checkOperands(const char* op_name, const std::vector<Val*>& operands);

// Dimensions of a tensor as its consumers see it (no reductions).
int64_t rank(const TensorView* tv);

// Negative dims count from the end. Error: "Tried to access out of boundary index".
int64_t wrapDim(const char* op_name, int64_t dim, int64_t rank);

// As an extent: integer constants become dtype Index, Int and Index scalars stay, other integers
// are cast.
Val* toExtent(const char* op_name, Val* v);
// Iteration or Broadcast for a constant extent, otherwise Symbolic.
IterType iterTypeOfExtent(const Val* extent);
// A domain for a dimension of the given size, with the iteration type that follows from it unless
// given.
IterDomain* makeDimension(Val* extent, std::optional<IterType> iter_type = std::nullopt);
// A copy that has the same extent and type, and nothing of the schedule.
IterDomain* copyDimension(const IterDomain* id);
Ids copyDimensions(const Ids& ids);

// A new contiguous tensor.
TensorView* makeTensor(Ids logical, DataType dtype);
TensorView* makeTensor(Ids root, Ids logical, DataType dtype);

// Domain of an op that computes element by element: per dimension, the iteration domain of an
// operand if there is one (a constant extent is preferred), else a broadcast. Error: extents that
// differ for certain.
Ids elementwiseDomain(const char* op_name, const std::vector<Val*>& operands);
// One dimension of it.
IterDomain* elementwiseDimension(const char* op_name, size_t dim,
                                 const std::vector<TensorView*>& tensors);
// The same for given dimensions of tensors; `dim` is for messages.
IterDomain* meetDimensions(const char* op_name, size_t dim,
                           const std::vector<std::pair<const TensorView*, IterDomain*>>& ids);

// Inserts leading broadcast dimensions into the tensors of lower rank.
std::vector<Val*> broadcastToEqualRank(std::vector<Val*> operands);

// "[4, i0, 1]": the sizes of a tensor, for messages.
std::string shapeString(const TensorView* tv);

// The tensor with the expanded broadcasts among `dims` turned into iteration domains of the
// expanded extent.
TensorView* materializeExpanded(TensorView* tv, const std::vector<bool>& dims);

// A constant of the dtype, or a scalar cast to it unless it is in the same category already.
Val* castScalar(Val* v, DataType dtype, bool exact = false);
Val* zeroOf(DataType dtype);
// The least or greatest value of a dtype (infinities of floats).
ScalarValue boundOf(DataType dtype, bool upper);

// Left + extent + right folds badly when right is `stop - extent`; this states the resulting extent
// directly.
IterDomain* resizeTo(IterDomain* root, Val* left, Val* right, Val* extent, IterType iter_type);

} // namespace nvfuser::ops_utils
