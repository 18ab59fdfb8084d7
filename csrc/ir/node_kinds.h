// SPDX-License-Identifier: BSD-3-Clause
// The list of node kinds. Everything that has to know every kind (dispatch, printing, cloning
// checks, Python types) is generated from these lists; adding a kind means adding one line here.
#pragma once

namespace nvfuser {

// Values: what flows along the edges of the graph.
#define NVF_DERIVED_VAL_KINDS(F) \
  F(NamedScalar)                 \
  F(IterDomain)                  \
  F(TensorDomain)                \
  F(TensorView)                  \
  F(TensorIndex)

#define NVF_VAL_KINDS(F) \
  F(Val)                 \
  NVF_DERIVED_VAL_KINDS(F)

// Expressions that compute tensors (and scalars, for ElementwiseOp).
#define NVF_TENSOR_EXPR_KINDS(F) \
  F(ElementwiseOp)               \
  F(LoadStoreOp)                 \
  F(BroadcastOp)                 \
  F(SqueezeOp)                   \
  F(ExpandOp)                    \
  F(ReshapeOp)                   \
  F(SliceOp)                     \
  F(PadOp)                       \
  F(CatOp)                       \
  F(FullOp)                      \
  F(IotaOp)                      \
  F(RngOp)                       \
  F(ReductionOp)                 \
  F(WelfordOp)                   \
  F(OnlineSoftmaxOp)             \
  F(ScanOp)                      \
  F(GatherOp)                    \
  F(IndexSelectOp)               \
  F(SelectOp)                    \
  F(RollOp)                      \
  F(ScatterOp)                   \
  F(ScatterStoreOp)              \
  F(EmbeddingFwdOp)              \
  F(LibraryOp)                   \
  F(MemoryViewOp)                \
  F(MemoryJoinOp)

// Expressions between IterDomains.
#define NVF_ID_EXPR_KINDS(F) \
  F(Split)                   \
  F(Merge)                   \
  F(Resize)                  \
  F(Swizzle)                 \
  F(Align)                   \
  F(Swizzle1D)

// Expressions that exist only in Kernel IR (csrc/kernel/).
#define NVF_KERNEL_EXPR_KINDS(F) \
  F(ForLoop)                     \
  F(IfThenElse)                  \
  F(Allocate)                    \
  F(BlockSync)                   \
  F(RandomNumber)                \
  F(ScanStep)                    \
  F(ThreadScan)                  \
  F(ReduceStep)                  \
  F(WelfordStep)                 \
  F(SoftmaxStep)                 \
  F(ThreadReduce)                \
  F(BufferCopy)                  \
  F(WaitForLoads)                \
  F(ThreadLoop)                  \
  F(BulkCopy)                    \
  F(LinearBulkCopy)              \
  F(CopyStep)

#define NVF_EXPR_KINDS(F)  \
  NVF_TENSOR_EXPR_KINDS(F) \
  NVF_ID_EXPR_KINDS(F)     \
  NVF_KERNEL_EXPR_KINDS(F)

#define NVF_FORWARD(T) class T;
NVF_VAL_KINDS(NVF_FORWARD)
NVF_EXPR_KINDS(NVF_FORWARD)
#undef NVF_FORWARD

#define NVF_ENUM(T) T,
enum class ValKind { NVF_VAL_KINDS(NVF_ENUM) };
enum class ExprKind { NVF_EXPR_KINDS(NVF_ENUM) };
#undef NVF_ENUM

// A kind of either sort as one number.
constexpr int kindNumber(ValKind kind) {
  return static_cast<int>(kind);
}
constexpr int kindNumber(ExprKind kind) {
  return -1 - static_cast<int>(kind);
}
constexpr ValKind valKindOf(int number) {
  return static_cast<ValKind>(number);
}
constexpr ExprKind exprKindOf(int number) {
  return static_cast<ExprKind>(-1 - number);
}

// The kind of the nodes of a class, as a number. Base classes have none.
template <class T>
struct KindOf {};
#define NVF_KIND(T)                                        \
  template <>                                              \
  struct KindOf<T> {                                       \
    static constexpr int kNumber = kindNumber(ValKind::T); \
  };
NVF_DERIVED_VAL_KINDS(NVF_KIND)
#undef NVF_KIND
#define NVF_KIND(T)                                         \
  template <>                                               \
  struct KindOf<T> {                                        \
    static constexpr int kNumber = kindNumber(ExprKind::T); \
  };
NVF_EXPR_KINDS(NVF_KIND)
#undef NVF_KIND

} // namespace nvfuser
