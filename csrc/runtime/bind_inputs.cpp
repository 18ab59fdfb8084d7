// SPDX-License-Identifier: BSD-3-Clause
// See bind_inputs.h.
#include <runtime/bind_inputs.h>

#include <base/error.h>
#include <ir/describe.h>

namespace nvfuser {

namespace {

// The dimension of a packed fp4 argument whose bytes hold two values: the innermost one of
// stride 1.
int packedDimension(const ArgView& arg) {
  int found = -1;
  for (int d = 0; d < arg.rank; ++d) {
    if (arg.strides[d] == 1 && (found < 0 || arg.sizes[d] != 1)) {
      found = d;
    }
  }
  return found;
}

} // namespace

TensorLayout layoutOfArgument(const TensorView* tv, const ArgView& arg) {
  TensorLayout layout{Shape(arg.sizeSpan()), Shape(arg.strideSpan())};
  if (tv->dtype() == DataType::Float4_e2m1fn && arg.dtype == DataType::Float4_e2m1fn_x2) {
    const int packed = packedDimension(arg);
    for (int d = 0; d < arg.rank; ++d) {
      if (d == packed) {
        layout.sizes[d] *= 2;
      } else {
        layout.strides[d] *= 2;
      }
    }
  }
  return layout;
}

namespace {

void bindExtent(const TensorView* tv, size_t dim, Val* extent, int64_t size,
                ScalarEvaluator& evaluator) {
  if (auto known = evaluator.evaluate(extent)) {
    const int64_t value = std::get<int64_t>(convertScalar(*known, DataType::Int));
    NVF_CHECK(value == size, "The inputs' extents do not agree: dimension ", dim, " of ",
              describe(tv), " must have size ", value, ", but got ", size, ".");
    return;
  }
  if (extent->isSymbolic()) {
    evaluator.bind(extent, ScalarValue(size));
  }
}

} // namespace

void bindInputs(std::span<Val* const> inputs, std::span<const ArgView> args,
                ScalarEvaluator& evaluator) {
  NVF_ERROR(inputs.size() == args.size(), "checkInputs was not called");
  // Scalars first: extents may be computed from them.
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->isTensor() && inputs[i]->isSymbolic()) {
      evaluator.bind(inputs[i], convertScalar(args[i].scalar, inputs[i]->dtype()));
    }
  }
  // Then extents that are plain symbols, then those computed from them.
  for (const bool symbols : {true, false}) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]->isTensor()) {
        continue;
      }
      auto* tv = inputs[i]->as<TensorView>();
      const TensorLayout layout = layoutOfArgument(tv, args[i]);
      size_t dim = 0;
      for (IterDomain* id : tv->getLogicalDomain()) {
        if (id->isReduction()) {
          continue;
        }
        Val* extent = id->getMaybeExpandedExtent();
        if (extent->isSymbolic() == symbols) {
          bindExtent(tv, dim, extent, layout.sizes[dim], evaluator);
        }
        ++dim;
      }
    }
  }
}

} // namespace nvfuser
