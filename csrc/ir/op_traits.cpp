// SPDX-License-Identifier: BSD-3-Clause
// See op_traits.h.
#include <ir/op_traits.h>

#include <ir/exprs.h>

#include <array>

namespace nvfuser {

namespace {

enum Trait : uint8_t {
  kMoves = 1 << 0,
  kByPosition = 1 << 1,
  kBySizes = 1 << 2,
  kDetermined = 1 << 3,
  kPointwise = 1 << 4,
  kReadsPart = 1 << 5,
  kLooksUp = 1 << 6,
};

constexpr uint8_t kLookup = kLooksUp | kBySizes | kPointwise | kDetermined;

struct Row {
  ExprKind kind;
  uint8_t traits;
};

constexpr std::array kRows = {
    Row{ExprKind::ElementwiseOp, kByPosition | kDetermined | kPointwise},
    Row{ExprKind::LoadStoreOp, kMoves | kByPosition | kDetermined | kPointwise},
    Row{ExprKind::BroadcastOp, kMoves | kByPosition | kDetermined | kPointwise},
    Row{ExprKind::SqueezeOp, kMoves | kByPosition | kDetermined | kPointwise},
    Row{ExprKind::ExpandOp, kMoves | kByPosition | kDetermined | kPointwise},
    Row{ExprKind::ReshapeOp, kMoves | kBySizes | kDetermined | kPointwise},
    Row{ExprKind::SliceOp, kMoves | kBySizes | kDetermined | kPointwise | kReadsPart},
    Row{ExprKind::PadOp, kBySizes | kDetermined | kPointwise},
    Row{ExprKind::CatOp, kBySizes | kDetermined | kPointwise},
    Row{ExprKind::FullOp, kDetermined | kPointwise},
    Row{ExprKind::IotaOp, kBySizes | kDetermined | kPointwise},
    Row{ExprKind::RngOp, kPointwise},
    Row{ExprKind::ReductionOp, kDetermined},
    Row{ExprKind::WelfordOp, kDetermined},
    Row{ExprKind::OnlineSoftmaxOp, kBySizes}, // made after all that ask
    Row{ExprKind::ScanOp, kBySizes | kDetermined},
    Row{ExprKind::GatherOp, kLookup | kReadsPart},
    Row{ExprKind::IndexSelectOp, kLookup | kReadsPart},
    Row{ExprKind::SelectOp, kLookup | kReadsPart},
    Row{ExprKind::RollOp, kLookup},
    Row{ExprKind::ScatterOp, kBySizes},
    Row{ExprKind::ScatterStoreOp, kBySizes | kPointwise},
    Row{ExprKind::EmbeddingFwdOp, kLookup | kReadsPart},
    Row{ExprKind::LibraryOp, kBySizes},
    Row{ExprKind::MemoryViewOp, kBySizes},
    Row{ExprKind::MemoryJoinOp, kBySizes},
};

constexpr bool hasRowForEachKind() {
#define NVF_COUNT(T) +1
  bool complete = kRows.size() == 0 NVF_TENSOR_EXPR_KINDS(NVF_COUNT);
#undef NVF_COUNT
  for (size_t i = 0; i < kRows.size(); ++i) {
    complete = complete && kRows[i].kind == static_cast<ExprKind>(i);
  }
  return complete;
}
static_assert(hasRowForEachKind(), "a row for each kind of NVF_TENSOR_EXPR_KINDS, in its order");

bool has(const Expr* e, Trait trait) {
  const auto at = static_cast<size_t>(e->kind());
  return at < kRows.size() && (kRows[at].traits & trait) != 0;
}

} // namespace

bool movesElements(const Expr* e) {
  return has(e, kMoves);
}

bool isByPosition(const Expr* e) {
  return has(e, kByPosition);
}

bool dependsOnSizes(const Expr* e) {
  return has(e, kBySizes);
}

bool isDetermined(const Expr* e) {
  return has(e, kDetermined);
}

bool isPointwise(const Expr* e) {
  return has(e, kPointwise);
}

bool readsPart(const Expr* e) {
  return has(e, kReadsPart);
}

bool looksUp(const Expr* e) {
  return has(e, kLooksUp);
}

bool isFunction(const Expr* e) {
  const auto* op = tryAs<ElementwiseOp>(e);
  if (op == nullptr) {
    return e->kind() == ExprKind::RngOp;
  }
  switch (op->op()) {
    case OpType::Exp:
    case OpType::Exp2:
    case OpType::Expm1:
    case OpType::Log:
    case OpType::Log1p:
    case OpType::Log2:
    case OpType::Log10:
    case OpType::Sech2:
    case OpType::Tanh:
    case OpType::Erf:
    case OpType::Erfc:
    case OpType::Sigmoid:
    case OpType::Silu:
    case OpType::Pow:
    case OpType::Sin:
    case OpType::Cos:
    case OpType::Tan:
      return op->output(0)->isTensor();
    default:
      return false;
  }
}

bool isBoundary(const Expr* e) {
  const auto* copy = tryAs<LoadStoreOp>(e);
  return copy != nullptr && copy->type() == LoadStoreOpType::SegmenterSet;
}

} // namespace nvfuser
