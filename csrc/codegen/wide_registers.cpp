// SPDX-License-Identifier: BSD-3-Clause
// See wide_registers.h.
#include <codegen/wide_registers.h>

#include <codegen/statements.h>
#include <ir/evaluator.h>
#include <kernel/accesses.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace nvfuser::codegen {

namespace {

bool hasSixteenBits(DataType dtype) {
  return dtype == DataType::Half || dtype == DataType::BFloat16;
}

const ElementwiseOp* elementwiseOp(const Expr* e, OpType op) {
  const auto* e_op = tryAs<ElementwiseOp>(e);
  return e_op != nullptr && e_op->op() == op ? e_op : nullptr;
}

// From registers, or of a scalar: a load stays as it is, so that it can be under way for long.
bool copiesRegister(const Expr* e) {
  const auto* copy = tryAs<LoadStoreOp>(e);
  const TensorView* from = copy == nullptr ? nullptr : tensorOf(copy->in());
  return copy != nullptr && copy->type() != LoadStoreOpType::CpAsync &&
         (from == nullptr || from->getMemoryType() == MemoryType::Local);
}

bool writesWide(const Expr* e) {
  return elementwiseOp(e, OpType::Cast) != nullptr || elementwiseOp(e, OpType::Where) != nullptr ||
         copiesRegister(e);
}

// What other statements than operations and copies of elements access.
std::vector<const TensorView*> accessedWhole(const Expr* e) {
  std::vector<const TensorView*> out = tensorsReadBy(e);
  std::transform(e->outputs().begin(), e->outputs().end(), std::back_inserter(out), tensorOf);
  if (const auto* copy = tryAs<BufferCopy>(e)) {
    out.insert(out.end(), {copy->to(), copy->from()});
  } else if (const auto* wait = tryAs<WaitForLoads>(e)) {
    out.push_back(wait->registers());
  } else if (const auto* reduce = tryAs<ThreadReduce>(e)) {
    for (const ReduceTerm& term : reduce->terms) {
      out.insert(out.end(), term.buffers.begin(), term.buffers.end());
    }
  }
  return out;
}

// A constant that is a value of bfloat16: the lower half of the float is 0.
bool isBFloat16Constant(const Val* v) {
  if (!v->isConst() || isComplex(v->dtype())) {
    return false;
  }
  const auto value =
      static_cast<float>(std::get<double>(convertScalar(v->value(), DataType::Float)));
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return (bits & 0xffffU) == 0;
}

} // namespace

WideRegisters::WideRegisters(const Kernel* kernel) {
  const Statements statements = flatStatements(kernel);
  for (const Expr* e : statements) {
    const auto* a = tryAs<Allocate>(e);
    if (a != nullptr && a->memoryType() == MemoryType::Local && a->size()->isOneInt() &&
        kernel->thread_loops.registers.count(a->tv()) == 0) {
      candidates_.insert(a->tv());
    }
  }
  findCandidates(statements);
  findWide(statements);
  findComputedInBFloat16(statements);
}

void WideRegisters::findCandidates(const Statements& statements) {
  for (const Expr* e : statements) {
    if (e->kind() == ExprKind::Allocate) {
      continue;
    }
    if (!isElementOp(e)) {
      for (const TensorView* tv : accessedWhole(e)) {
        candidates_.erase(tv);
      }
      continue;
    }
    const TensorView* out = tensorOf(e->output(0));
    if (out == nullptr) {
      continue;
    }
    if (out->dtype() == DataType::Float) {
      writers_[out].push_back(e);
    } else if (!hasSixteenBits(out->dtype()) || !writesWide(e)) {
      candidates_.erase(out);
    } else if (elementwiseOp(e, OpType::Cast) != nullptr) {
      made_as_float_.insert(out);
    }
  }
}

void WideRegisters::findWide(const Statements& statements) {
  size_t before = 0;
  do {
    before = wide_.size() + made_as_float_.size();
    for (const Expr* e : statements) {
      const ElementwiseOp* where = elementwiseOp(e, OpType::Where);
      if (where != nullptr && selectsFloats(where)) {
        made_as_float_.insert(tensorOf(where->out()));
      }
    }
    // Readers come after what they read.
    for (size_t i = statements.size(); i-- > 0;) {
      const Expr* e = statements[i];
      const bool selects = elementwiseOp(e, OpType::Where) != nullptr;
      const bool wants_float = elementwiseOp(e, OpType::Cast) != nullptr ||
                               ((selects || copiesRegister(e)) && holds(tensorOf(e->output(0)))) ||
                               (selects && selectsFloats(static_cast<const ElementwiseOp*>(e)));
      for (const Val* in : e->inputs()) {
        const TensorView* tv = tensorOf(in);
        if (wants_float && candidates_.count(tv) != 0 && hasSixteenBits(tv->dtype())) {
          wide_.insert(tv);
        }
      }
    }
  } while (wide_.size() + made_as_float_.size() != before);
}

bool WideRegisters::selectsFloats(const ElementwiseOp* where) const {
  return std::any_of(where->inputs().begin() + 1, where->inputs().end(), [&](const Val* v) {
    const TensorView* tv = tensorOf(v);
    return holds(tv) || (candidates_.count(tv) != 0 && made_as_float_.count(tv) != 0);
  });
}

void WideRegisters::findComputedInBFloat16(const Statements& statements) {
  std::unordered_set<const TensorView*> unrounded;
  for (const Expr* e : statements) {
    const ElementwiseOp* cast = elementwiseOp(e, OpType::Cast);
    const TensorView* out = cast == nullptr ? nullptr : tensorOf(cast->out());
    if (out == nullptr || out->dtype() != DataType::BFloat16 || !holds(out)) {
      const std::vector<const TensorView*> read = tensorsReadBy(e);
      unrounded.insert(read.begin(), read.end());
    }
  }
  // Operands are computed first.
  for (const Expr* e : statements) {
    const TensorView* out = e->outputs().empty() ? nullptr : tensorOf(e->output(0));
    const auto it = writers_.find(out);
    if (it == writers_.end() || candidates_.count(out) == 0 || unrounded.count(out) != 0) {
      continue;
    }
    if (std::all_of(it->second.begin(), it->second.end(),
                    [&](const Expr* writer) { return computesInBFloat16(writer); })) {
      in_bfloat16_.insert(out);
    }
  }
}

bool WideRegisters::computesInBFloat16(const Expr* e) const {
  const auto* op = tryAs<ElementwiseOp>(e);
  if (op == nullptr ||
      (op->op() != OpType::Add && op->op() != OpType::Sub && op->op() != OpType::Mul)) {
    return false;
  }
  return std::all_of(op->inputs().begin(), op->inputs().end(), [&](const Val* v) {
    const TensorView* tv = tensorOf(v);
    return tv == nullptr ? isBFloat16Constant(v) : isExact(tv, DataType::BFloat16);
  });
}

bool WideRegisters::isExact(const TensorView* tv, DataType in) const {
  if (in_bfloat16_.count(tv) != 0) {
    return in == DataType::BFloat16;
  }
  const auto it = writers_.find(tv);
  if (it == writers_.end() || candidates_.count(tv) == 0) {
    return false;
  }
  return std::all_of(it->second.begin(), it->second.end(), [&](const Expr* e) {
    const auto* op = tryAs<ElementwiseOp>(e);
    if (op == nullptr) {
      return false;
    }
    const TensorView* from = tensorOf(op->in(0));
    switch (op->op()) {
      case OpType::Cast:
        return from != nullptr && from->dtype() == in;
      case OpType::Neg:
      case OpType::Abs:
      case OpType::Relu:
        return from != nullptr && isExact(from, in);
      default:
        return false;
    }
  });
}

} // namespace nvfuser::codegen
