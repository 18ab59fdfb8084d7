// SPDX-License-Identifier: BSD-3-Clause
// TensorView: construction and queries. Schedule primitives are in transform/.
#include <ir/tensor_view.h>

#include <base/error.h>
#include <ir/cloner.h>
#include <ir/describe.h>

#include <algorithm>

namespace nvfuser {

TensorView::TensorView(IrBuilderPasskey key, TensorDomain* domain, DataType dtype,
                       MemoryType memory_type)
    : Val(key, ValKind::TensorView, dtype), domain_(domain), memory_type_(memory_type) {
  NVF_ERROR(domain != nullptr, "a tensor needs a domain");
}

TensorView::TensorView(const TensorView* src, IrCloner* cloner)
    : Val(src, cloner),
      domain_(cloner->clone(src->domain_)),
      memory_type_(src->memory_type_),
      cpu_scalar_(src->cpu_scalar_),
      written_elements_(src->written_elements_),
      compute_at_pos_(src->compute_at_pos_),
      max_producer_pos_(src->max_producer_pos_),
      circular_buffer_(src->circular_buffer_),
      source_location_(src->source_location_) {}

TensorDomain::Ids logicalIds(const Val* tensor) {
  return TensorDomain::noReductions(tensor->as<TensorView>()->getLogicalDomain());
}

std::vector<bool> reducedFlags(const TensorView* tv) {
  std::vector<bool> out;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    out.push_back(id->isReduction());
  }
  return out;
}

std::unique_ptr<Val> TensorView::copyWith(IrCloner* cloner) const {
  return std::make_unique<TensorView>(this, cloner);
}

bool TensorView::hasReduction() const {
  const auto& ids = getLogicalDomain();
  return std::any_of(ids.begin(), ids.end(), [](auto* id) { return id->isReduction(); });
}

bool TensorView::hasBroadcast() const {
  const auto& ids = getLogicalDomain();
  return std::any_of(ids.begin(), ids.end(), [](auto* id) { return id->isBroadcast(); });
}

IterDomain* TensorView::axis(int64_t position) const {
  const int64_t n = nDims();
  const int64_t wrapped = position < 0 ? position + n : position;
  NVF_CHECK(wrapped >= 0 && wrapped < n, "Tried to access out of boundary index ", position,
            " of the loop domain of ", describeLoops(this), ", which has ", n, " axes");
  return getLoopDomain()[static_cast<size_t>(wrapped)];
}

} // namespace nvfuser
