// See moved.h.
#include <lower/moved.h>

#include <base/error.h>
#include <ir/builder.h>

namespace nvfuser {

Val* replaced(Val* v, Val* from, Val* to) {
  if (v->sameAs(from)) {
    return to;
  }
  auto* def = dynamic_cast<ElementwiseOp*>(v->definition());
  if (def == nullptr) {
    return v;
  }
  std::vector<Val*> in;
  for (Val* x : def->inputs()) {
    in.push_back(replaced(x, from, to));
  }
  return in == def->inputs() ? v : IrBuilder::scalar(def, in);
}

Val* Mover::at(Val* v) const {
  return v == nullptr ? nullptr : ctx_.simplified(replaced(v, index_, to_));
}

TensorIndex* Mover::at(TensorIndex* element, bool is_written) const {
  TensorView* tv = is_written && target_ ? target_(element->view()) : element->view();
  return IrBuilder::create<TensorIndex>(tv, at(element->index()));
}

Statements Mover::moved(const Statements& list) const {
  Statements out;
  for (Expr* e : list) {
    out.push_back(moved(e));
  }
  return out;
}

Expr* Mover::moved(Expr* e) const {
  if (auto* loop = dynamic_cast<ForLoop*>(e)) {
    ForLoop* copy = loop->emptyCopy();
    copy->body() = moved(loop->body());
    return copy;
  }
  if (auto* branch = dynamic_cast<IfThenElse*>(e)) {
    auto* copy = IrBuilder::create<IfThenElse>(at(branch->condition()));
    copy->thenBody() = moved(branch->thenBody());
    copy->elseBody() = moved(branch->elseBody());
    return copy;
  }
  if (auto* step = dynamic_cast<CopyStep*>(e)) {
    auto* copy = IrBuilder::create<CopyStep>(step->part(), step->ring(), at(step->stage()),
                                             at(step->parity()));
    copy->issuer = step->issuer;
    copy->count = step->count;
    return copy;
  }
  if (auto* box = dynamic_cast<BulkCopy*>(e)) {
    std::vector<Val*> coordinates;
    for (Val* v : box->at()) {
      coordinates.push_back(at(v));
    }
    return IrBuilder::create<BulkCopy>(box->map(), at(box->shared(), /*is_written=*/true),
                                       coordinates, box->ring(), at(box->stage()));
  }
  auto* load = dynamic_cast<LoadStoreOp*>(e);
  NVF_ERROR(load != nullptr, "no load: ", e->toString());
  return IrBuilder::create<LoadStoreOp>(
      load->type(), at(load->out()->as<TensorIndex>(), /*is_written=*/true),
      at(load->in()->as<TensorIndex>(), /*is_written=*/false), load->cacheOp());
}

} // namespace nvfuser
