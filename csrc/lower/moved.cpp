// SPDX-License-Identifier: BSD-3-Clause
// See moved.h.
#include <lower/moved.h>

#include <base/error.h>
#include <ir/builder.h>

namespace nvfuser {

using B = IrBuilder;

Val* Mover::replaced(Val* v) const {
  return B::replaced(v, [&](Val* x) -> Val* {
    if (auto* element = tryAs<TensorIndex>(x)) {
      return B::create<TensorIndex>(targetOf(element->view()), at(element->index()));
    }
    return x->sameAs(index_) ? to_ : nullptr;
  });
}

Val* Mover::at(Val* v) const {
  if (v == nullptr) {
    return nullptr;
  }
  Val* out = replaced(v);
  return out != v && out->isScalar() ? ctx_.simplified(out) : out;
}

std::vector<Val*> Mover::at(const std::vector<Val*>& values) const {
  std::vector<Val*> out;
  for (Val* v : values) {
    out.push_back(at(v));
  }
  return out;
}

Statements Mover::moved(const Statements& list) const {
  Statements out;
  for (Expr* e : list) {
    Expr* copy = moved(e);
    const auto* branch = tryAs<IfThenElse>(copy);
    if (branch != nullptr && isTrue(branch->condition())) { // in that iteration
      out.insert(out.end(), branch->thenBody().begin(), branch->thenBody().end());
    } else {
      out.push_back(copy);
    }
  }
  return out;
}

Expr* Mover::moved(Expr* e) const {
  if (auto* loop = tryAs<ForLoop>(e)) {
    ForLoop* copy = loop->emptyCopy();
    copy->body() = moved(loop->body());
    return copy;
  }
  if (auto* branch = tryAs<IfThenElse>(e)) {
    auto* copy = B::create<IfThenElse>(at(branch->condition()));
    copy->thenBody() = moved(branch->thenBody());
    copy->elseBody() = moved(branch->elseBody());
    return copy;
  }
  return movedStatement(e);
}

Expr* Mover::movedStatement(Expr* e) const {
  switch (e->kind()) {
    case ExprKind::Allocate:
    case ExprKind::BlockSync:
      return e;
    case ExprKind::BufferCopy: {
      auto* copy = static_cast<BufferCopy*>(e);
      return B::create<BufferCopy>(targetOf(copy->to()), targetOf(copy->from()));
    }
    case ExprKind::CopyStep: {
      auto* step = static_cast<CopyStep*>(e);
      auto* copy =
          B::create<CopyStep>(step->part(), step->buffer(), at(step->stage()), at(step->parity()));
      copy->issuer = step->issuer;
      copy->count = step->count;
      return copy;
    }
    case ExprKind::BulkCopy: {
      auto* box = static_cast<BulkCopy*>(e);
      return B::create<BulkCopy>(box->map(), at(box->shared())->as<TensorIndex>(), at(box->at()),
                                 box->buffer(), at(box->stage()));
    }
    case ExprKind::LinearBulkCopy: {
      auto* piece = static_cast<LinearBulkCopy*>(e);
      return B::create<LinearBulkCopy>(at(piece->to())->as<TensorIndex>(),
                                       at(piece->from())->as<TensorIndex>(), at(piece->bytes()),
                                       piece->buffer(), at(piece->stage()));
    }
    case ExprKind::LoadStoreOp: {
      auto* load = static_cast<LoadStoreOp*>(e);
      return B::create<LoadStoreOp>(load->type(), at(load->out()), at(load->in()), load->cacheOp());
    }
    case ExprKind::ElementwiseOp:
      return B::create<ElementwiseOp>(static_cast<ElementwiseOp*>(e)->op(), at(e->output(0)),
                                      at(e->inputs()));
    case ExprKind::RandomNumber: {
      auto* number = static_cast<RandomNumber*>(e);
      return B::create<RandomNumber>(number->rng(), at(e->output(0)), at(e->input(0)),
                                     at(e->input(1)), at(number->seed()), at(number->offset()),
                                     at(number->block()), at(number->lane()));
    }
    default:
      NVF_THROW("cannot run in another iteration of a loop: ", e->toString());
  }
}

Val* stepAlong(const LowerContext& ctx, Val* index, Val* position) {
  Val* next = Mover(ctx, index, B::addExpr(index, B::index(1))).moved(position);
  return ctx.simplified(B::subExpr(next, position));
}

} // namespace nvfuser
