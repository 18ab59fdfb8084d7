// SPDX-License-Identifier: BSD-3-Clause
// See approximate.h.
#include <codegen/approximate.h>

#include <base/options.h>
#include <codegen/statements.h>
#include <device/library.h>

namespace nvfuser::codegen {

namespace {

// Arithmetic through which a small relative error stays small enough; comparisons and rounding do
// not qualify. What a selection selects by is no number.
bool passesErrorOn(OpType op) {
  switch (op) {
    case OpType::Add:
    case OpType::Sub:
    case OpType::Mul:
    case OpType::Div:
    case OpType::TrueDiv:
    case OpType::Neg:
    case OpType::Abs:
    case OpType::Relu:
    case OpType::Minimum:
    case OpType::Maximum:
    case OpType::Clamp:
    case OpType::Lerp:
    case OpType::Sigmoid:
    case OpType::Silu:
    case OpType::Tanh:
    case OpType::Erf:
    case OpType::Sqrt:
    case OpType::Rsqrt:
    case OpType::Reciprocal:
    case OpType::Where:
      return true;
    default:
      return false;
  }
}

// Of the tensors that an operation computes with.
DataType operandType(const ElementwiseOp* op) {
  const size_t first = op->op() == OpType::Where ? 1 : 0;
  DataType type = DataType::Null;
  for (size_t k = op->inputs().size(); k-- > first;) {
    type = tensorOf(op->in(k)) != nullptr ? op->in(k)->dtype() : type;
  }
  return type;
}

} // namespace

std::unordered_set<const Expr*> approximableOps(const Kernel* kernel) {
  if (isOptionDisabled(DisableOption::ApproxTranscendentals)) {
    return {};
  }
  const std::vector<const Expr*> statements = flatStatements(kernel);
  // Backwards: a tensor is tolerant if all its uses are. Tensors that leave the kernel are not.
  std::unordered_set<const TensorView*> strict;
  std::unordered_set<const Expr*> out;
  auto strictUse = [&](const Expr* e) {
    const std::vector<const TensorView*> read = tensorsReadBy(e);
    strict.insert(read.begin(), read.end());
  };
  for (size_t i = statements.size(); i-- > 0;) {
    const Expr* e = statements[i];
    if (e->outputs().empty()) {
      continue;
    }
    const TensorView* result = tensorOf(e->output(0));
    if (result == nullptr) {
      continue;
    }
    const bool tolerant = result->getMemoryType() == MemoryType::Local && strict.count(result) == 0;
    const auto* op = tryAs<ElementwiseOp>(e);
    if (op == nullptr) {
      // Copies hand on what is asked of their result; anything else asks for everything.
      if (!(e->kind() == ExprKind::LoadStoreOp && tolerant)) {
        strictUse(e);
      }
      continue;
    }
    const DataType from = operandType(op);
    if (op->op() == OpType::Cast) {
      const bool rounds = from == DataType::Float && isLowPrecision(result->dtype());
      if (!rounds) {
        strictUse(e);
      }
      continue;
    }
    if (!tolerant || result->dtype() != DataType::Float || from != DataType::Float) {
      strictUse(e);
      continue;
    }
    if (deviceLibraryProvides(std::string("nvf::approx::") + opInfo(op->op()).name)) {
      out.insert(e);
    }
    if (!passesErrorOn(op->op())) {
      strictUse(e);
    }
  }
  return out;
}

} // namespace nvfuser::codegen
