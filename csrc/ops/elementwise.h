// SPDX-License-Identifier: BSD-3-Clause
// Builders of the elementwise ops. There is one overload set per row of the elementwise table:
//   add(TensorView*, TensorView*), add(TensorView*, Val*), add(Val*, TensorView*), add(Val*, Val*)
// Operands of lower rank are broadcast, dtypes follow the rules in ops/type_promotion.h, and casts
// of operands are expressions of their own. All builders add to the active fusion.
#pragma once

#include <ir/nodes.h>

#include <vector>

namespace nvfuser {

// The generic entry: a tensor if one of the operands is, else a scalar. Absent bounds of clamp are
// null.
Val* elementwise(OpType op, std::vector<Val*> operands);

// The op on operands that are converted already: only broadcasts nothing and casts nothing. For
// passes that rebuild graphs.
Val* elementwiseAsIs(OpType op, DataType result, const std::vector<Val*>& operands);

#define NVF_UNARY(name) \
  Val* name(Val* x);    \
  TensorView* name(TensorView* x);
#define NVF_BINARY(name)                   \
  Val* name(Val* x, Val* y);               \
  TensorView* name(TensorView* x, Val* y); \
  TensorView* name(Val* x, TensorView* y); \
  TensorView* name(TensorView* x, TensorView* y);
#define NVF_TERNARY(name)                                 \
  Val* name(Val* x, Val* y, Val* z);                      \
  TensorView* name(TensorView* x, Val* y, Val* z);        \
  TensorView* name(Val* x, TensorView* y, Val* z);        \
  TensorView* name(Val* x, Val* y, TensorView* z);        \
  TensorView* name(TensorView* x, TensorView* y, Val* z); \
  TensorView* name(TensorView* x, Val* y, TensorView* z); \
  TensorView* name(Val* x, TensorView* y, TensorView* z); \
  TensorView* name(TensorView* x, TensorView* y, TensorView* z);
#define NVF_DECLARE_1(name) NVF_UNARY(name)
#define NVF_DECLARE_2(name) NVF_BINARY(name)
#define NVF_DECLARE_3(name) NVF_TERNARY(name)
#define NVF_DECLARE(Enum, name, arity, rule, infix, doc) NVF_DECLARE_##arity(name)
NVF_ELEMENTWISE_FUNCTIONS(NVF_DECLARE)
#undef NVF_DECLARE
#undef NVF_DECLARE_1
#undef NVF_DECLARE_2
#undef NVF_DECLARE_3

// Conversion to another dtype; a copy if it is the same.
// Errors: no such conversion exists (fp8 and fp4 convert to and from the wider floats only).
Val* castOp(DataType dtype, Val* x);
TensorView* castOp(DataType dtype, TensorView* x);

// Copies. segment_set forces a kernel boundary.
NVF_UNARY(set)
NVF_UNARY(segment_set)

// Shift right that fills with zeros; 0 if the shift is the width of the type or more.
NVF_BINARY(logical_right_shift)

// a + b * c * alpha
Val* addcmul(Val* a, Val* b, Val* c, Val* alpha);
TensorView* addcmul(TensorView* a, TensorView* b, TensorView* c, Val* alpha);

#undef NVF_UNARY
#undef NVF_BINARY
#undef NVF_TERNARY

} // namespace nvfuser
