// SPDX-License-Identifier: BSD-3-Clause
// Views that no kernel computes: of inputs before the first kernel, of results after the last one.
#pragma once

#include <fusion.h>

#include <unordered_map>
#include <vector>

namespace nvfuser {

// A tensor in memory that nothing has computed, with the dimensions in the order of memory and what
// is contiguous there: an input, once it is added.
TensorView* tensorInMemory(const TensorDomain::Ids& logical, const TensorDomain::Ids& memory,
                           const TensorDomain::Contiguity& contiguity, DataType dtype);
// One with those of another tensor's dimensions that `copies` has, in its order of memory and as
// contiguous; dense if dimensions are split in memory.
using DimensionCopies = std::unordered_map<const IterDomain*, IterDomain*>;
TensorView* tensorInMemoryOf(const TensorView* source, const TensorDomain::Ids& logical,
                             const DimensionCopies& copies);

// One with the same dimensions.
TensorView* sameMemoryAs(const TensorView* made);

// An input of the fusion that is the memory of another one before it, seen with other dimensions,
// or a part of it.
struct InputView {
  TensorView* view = nullptr;
  TensorView* source = nullptr;
  // Of a part: for each dimension where it begins; else empty.
  std::vector<Val*> starts;
};

// An output that kernels make with other dimensions than it is returned with, or as a part of a
// tensor; both are dense in the same order of memory. One that is made may be returned in several
// ways.
struct OutputView {
  TensorView* made = nullptr;
  TensorView* returned = nullptr;
  Val* offset = nullptr; // of the first element in what is made, in elements; null: 0
};

// What the caller gets for an output that kernels make.
struct ReturnedView {
  const TensorView* tensor = nullptr; // null: what is made
  const Val* offset = nullptr;        // as in OutputView
};

// An output that kernels make, and that lies in one that is returned, which none of them makes. It
// may lack `dim`: then it has one element of it.
struct OutputPart {
  TensorView* part = nullptr;
  TensorView* whole = nullptr;
  size_t dim = 0; // along which there are other parts
  Val* start = nullptr;
};

struct MovedViews {
  std::vector<InputView> inputs; // behind all inputs that are none
  std::vector<OutputView> outputs;

  // How a tensor that is returned is made; null: as it is.
  const OutputView* viewOf(const TensorView* returned) const {
    for (const OutputView& view : outputs) {
      if (view.returned == returned) {
        return &view;
      }
    }
    return nullptr;
  }

  // What is made for a tensor that is returned.
  TensorView* madeFor(TensorView* returned) const {
    const OutputView* view = viewOf(returned);
    return view == nullptr ? returned : view->made;
  }

  // `made` is made instead of `output`, which is returned or was made for some that are, and which
  // begins `offset` elements behind its first one (null: none).
  void makeInstead(TensorView* output, TensorView* made, Val* offset = nullptr);
};

} // namespace nvfuser
