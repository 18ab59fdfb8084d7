// SPDX-License-Identifier: BSD-3-Clause
// See scatter_store.h.
//
// The strides are those of the tensor that is updated; only along `dim` an element lies where the
// index says. What the tensor promises of its memory decides which vectors are written: neighbours
// are contiguous where they are in the other tensor, have all of its elements, and where index and
// source say the same for all of them.
#include <segment/scatter_store.h>

#include <base/error.h>
#include <ir/builder.h>

namespace nvfuser {

namespace {

using Ids = TensorDomain::Ids;

class StoreDomain {
 public:
  StoreDomain(const TensorView* updated, const TensorView* index, const Val* src, int64_t dim)
      : updated_(updated),
        of_updated_(logicalIds(updated)),
        of_index_(logicalIds(index)),
        of_src_(src->isTensor() ? logicalIds(src) : Ids()),
        dim_(static_cast<size_t>(dim)) {
    for (size_t d = 0; d < of_index_.size(); ++d) {
      logical_.push_back(storedDimension(d));
    }
  }

  TensorDomain* make() {
    const std::vector<size_t> memory = updated_->domain()->memoryOrder();
    const TensorDomain::Contiguity& promised = updated_->getContiguity();
    NVF_ERROR(memory.size() == logical_.size() && promised.size() == memory.size(),
              updated_->toString(), " can't be updated by a scatter");
    Ids allocation(memory.size());
    TensorDomain::Contiguity contiguity(memory.size());
    bool joins = true; // with the next dimension inwards
    for (size_t i = memory.size(); i-- > 0;) {
      const size_t d = memory[i];
      allocation[i] = logical_.at(d);
      const bool is_one = logical_[d]->isBroadcast();
      if (!is_one) {
        contiguity[i] = joins && isSameForAll(d) && promised[i].value_or(false);
      }
      const bool whole = is_one ? of_updated_[d]->isBroadcast() : hasAll(d) && isSameForAll(d);
      joins = whole && (is_one ? joins : true);
    }
    auto* domain = IrBuilder::create<TensorDomain>(
        logical_, TensorDomain::contiguityFilledWith(logical_, true));
    domain->setAllocationDomain(allocation, contiguity);
    return domain;
  }

 private:
  // Along the scattered dimension there is an index even where one element is written.
  IterDomain* storedDimension(size_t d) const {
    const IterDomain* id = of_index_[d];
    const bool is_one = id->isOne() && d != dim_;
    return IterDomainBuilder(id->getMaybeExpandedExtent())
        .iterType(is_one ? IterType::Broadcast : IterType::Iteration)
        .build();
  }

  bool hasAll(size_t d) const {
    return !of_updated_[d]->isBroadcast() &&
           logical_[d]->extent()->sameAs(of_updated_[d]->extent());
  }

  // The elements along the dimension go to one position of `dim`, and each has a value of its own.
  bool isSameForAll(size_t d) const {
    return d != dim_ && of_index_[d]->isBroadcast() &&
           (of_src_.empty() || !of_src_[d]->isBroadcast());
  }

  const TensorView* updated_;
  const Ids of_updated_;
  const Ids of_index_;
  const Ids of_src_;
  const size_t dim_;
  Ids logical_;
};

} // namespace

TensorView* makeScatterStore(TensorView* updated, TensorView* index, Val* src, int64_t dim) {
  auto* out =
      IrBuilder::create<TensorView>(StoreDomain(updated, index, src, dim).make(), updated->dtype());
  Val* extent = logicalIds(updated).at(static_cast<size_t>(dim))->extent();
  IrBuilder::create<ScatterStoreOp>(out, src, index, extent, dim);
  return out;
}

} // namespace nvfuser
