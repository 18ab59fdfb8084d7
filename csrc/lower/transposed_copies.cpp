// SPDX-License-Identifier: BSD-3-Clause
// See transposed_copies.h.
#include <lower/transposed_copies.h>

#include <ir/builder.h>
#include <lower/moved.h>

#include <algorithm>

namespace nvfuser {

namespace {

using B = IrBuilder;

struct Copy {
  TensorIndex* to = nullptr;
  TensorIndex* from = nullptr;
};

// A copy, perhaps through a register that nothing else reads.
Copy copyOf(const Statements& body) {
  const auto is_copy = [](const Expr* e) { return e->kind() == ExprKind::LoadStoreOp; };
  if (body.empty() || body.size() > 2 || !std::all_of(body.begin(), body.end(), is_copy)) {
    return {};
  }
  auto* first = tryAs<TensorIndex>(body.front()->output(0));
  auto* from = tryAs<TensorIndex>(body.front()->input(0));
  auto* to = tryAs<TensorIndex>(body.back()->output(0));
  if (first == nullptr || from == nullptr || to == nullptr || to->dtype() != from->dtype() ||
      dataTypeSizeBits(to->dtype()) < 8) {
    return {};
  }
  if (body.size() == 2) {
    const auto* register_read = tryAs<TensorIndex>(body.back()->input(0));
    if (register_read == nullptr || register_read->view() != first->view() ||
        first->view()->getMemoryType() != MemoryType::Local || first->view()->uses().size() != 1) {
      return {};
    }
  }
  // Part of it lies in memory of the block, so that the two do not overlap.
  const MemoryType to_memory = to->view()->getMemoryType();
  const MemoryType from_memory = from->view()->getMemoryType();
  const bool exchanged = (to_memory == MemoryType::Shared && from_memory == MemoryType::Global) ||
                         (to_memory == MemoryType::Global && from_memory == MemoryType::Shared);
  return exchanged ? Copy{to, from} : Copy{};
}

class Strides {
 public:
  Strides(const LowerContext& ctx, Val* x, Val* y) : ctx_(ctx), x_(x), y_(y) {}

  // What is added for each step along the index; null if that is not always the same.
  Val* along(Val* index, const TensorIndex* element) const {
    Val* step = stepAlong(ctx_, index, element->index());
    return dependsOn(step, x_) || dependsOn(step, y_) ? nullptr : step;
  }

  TensorIndex* first(const TensorIndex* element) const {
    Val* at = Mover(ctx_, x_, B::index(0)).moved(element->index());
    at = ctx_.simplified(Mover(ctx_, y_, B::index(0)).moved(at));
    return B::create<TensorIndex>(element->view(), at);
  }

 private:
  const LowerContext& ctx_;
  Val* x_;
  Val* y_;
};

bool isOne(const Val* stride) {
  return stride != nullptr && stride->isOneInt();
}

} // namespace

void findTransposedCopy(const LowerContext& ctx, ThreadLoop* loop,
                        const std::array<Val*, 3>& indices, const std::array<Val*, 3>& extents) {
  const auto [x, y, z] = indices;
  if (x == nullptr || y == nullptr || z != nullptr || loop->pieces.first != nullptr) {
    return;
  }
  const Copy copy = copyOf(loop->body());
  Val* count_x = loop->limits()[0] == nullptr ? extents[0] : loop->limits()[0];
  Val* count_y = loop->limits()[1] == nullptr ? extents[1] : loop->limits()[1];
  if (copy.to == nullptr || dependsOn(count_x, y)) {
    return;
  }
  const Strides strides(ctx, x, y);
  Val* from_x = strides.along(x, copy.from);
  Val* from_y = strides.along(y, copy.from);
  Val* to_x = strides.along(x, copy.to);
  Val* to_y = strides.along(y, copy.to);
  if (from_x == nullptr || from_y == nullptr || to_x == nullptr || to_y == nullptr) {
    return;
  }
  ThreadLoop::Transposed& found = loop->transposed;
  if (isOne(from_x) && isOne(to_y) && !isOne(to_x)) {
    found = {nullptr, nullptr, to_x, from_y, count_y, count_x};
  } else if (isOne(from_y) && isOne(to_x) && !isOne(to_y)) {
    found = {nullptr, nullptr, to_y, from_x, count_x, count_y};
  } else {
    return;
  }
  found.to = strides.first(copy.to);
  found.from = strides.first(copy.from);
}

} // namespace nvfuser
