// SPDX-License-Identifier: BSD-3-Clause
// Registration, numbering and def/use links of nodes.
#include <base/error.h>
#include <ir/builder.h>
#include <ir/container.h>

#include <algorithm>

namespace nvfuser {

namespace {
thread_local IrContainer* active_container = nullptr;
} // namespace

IrContainer::~IrContainer() {
  if (active_container == this) {
    active_container = nullptr;
  }
}

IrContainer* IrContainer::active() {
  return active_container;
}

void IrContainer::setActive(IrContainer* container) {
  active_container = container;
}

void IrContainer::registerVal(std::unique_ptr<Val> val) {
  // NamedScalars count with the other scalars.
  const ValKind kind = val->kind() == ValKind::NamedScalar ? ValKind::Val : val->kind();
  val->name_ = val_counters_.at(static_cast<size_t>(kind))++;
  vals_.push_back(val.get());
  owned_.push_back(std::move(val));
}

void IrContainer::registerExpr(std::unique_ptr<Expr> expr) {
  Expr* e = expr.get();
  e->name_ = expr_counter_++;
  for (Val* in : e->inputs()) {
    NVF_CHECK(in->container() == this, e->opName(), ": operand ", in->toInlineString(),
              " belongs to another fusion than the one the op is added to");
    if (in->uses_.empty() || in->uses_.back() != e) {
      in->uses_.push_back(e);
    }
  }
  for (Val* out : e->outputs()) {
    NVF_ERROR(out->container() == this, e->opName(), ": output of another container");
    if (out->definition_ != nullptr) {
      removeExpr(out->definition_);
    }
    out->definition_ = e;
  }
  exprs_.push_back(e);
  owned_.push_back(std::move(expr));
  onGraphChanged();
}

void IrContainer::removeExpr(Expr* expr) {
  for (Val* in : expr->inputs()) {
    std::erase(in->uses_, expr);
  }
  for (Val* out : expr->outputs()) {
    if (out->definition_ == expr) {
      out->definition_ = nullptr;
    }
  }
  // Recent expressions are removed most often.
  auto it = std::find(exprs_.rbegin(), exprs_.rend(), expr);
  if (it != exprs_.rend()) {
    exprs_.erase(std::next(it).base());
  }
  onGraphChanged();
}

void IrContainer::clear() {
  vals_.clear();
  exprs_.clear();
  owned_.clear();
  val_counters_.fill(0);
  expr_counter_ = 0;
  zero_ = one_ = true_ = false_ = nullptr;
  onGraphChanged();
}

Val* IrContainer::zeroVal() {
  if (zero_ == nullptr) {
    zero_ = IrBuilder::createIn<Val>(this, int64_t{0}, DataType::Index);
  }
  return zero_;
}

Val* IrContainer::oneVal() {
  if (one_ == nullptr) {
    one_ = IrBuilder::createIn<Val>(this, int64_t{1}, DataType::Index);
  }
  return one_;
}

Val* IrContainer::trueVal() {
  if (true_ == nullptr) {
    true_ = IrBuilder::createIn<Val>(this, true, DataType::Bool);
  }
  return true_;
}

Val* IrContainer::falseVal() {
  if (false_ == nullptr) {
    false_ = IrBuilder::createIn<Val>(this, false, DataType::Bool);
  }
  return false_;
}

} // namespace nvfuser
