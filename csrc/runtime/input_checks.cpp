// SPDX-License-Identifier: BSD-3-Clause
// Checks of arguments against what a fusion's inputs promise. Every message names the input and
// what it got.
#include <runtime/bind_inputs.h>
#include <runtime/kernel_executor.h>

#include <base/error.h>
#include <base/string_utils.h>
#include <ir/describe.h>
#include <ir/evaluator.h>

#include <algorithm>
#include <limits>
#include <sstream>

namespace nvfuser {
namespace {

std::string scalarText(const ScalarValue& value) {
  std::ostringstream out;
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) {
          out << (v ? "true" : "false");
        } else if constexpr (!std::is_same_v<T, std::monostate>) {
          out << v;
        }
      },
      value);
  return out.str();
}

// "Expected input 0, x (float32 [i0, i1]), ". A scalar without a name is called as it is printed.
std::string nameOf(size_t position, const Val* input) {
  const InputLabel* label = input->inputLabel();
  const bool named = label != nullptr && !label->name.empty();
  const auto* tv = tryAs<TensorView>(input);
  const std::string what = named           ? describe(input)
                           : tv != nullptr ? describeType(tv)
                                           : input->toInlineString();
  const size_t number =
      label != nullptr && label->position >= 0 ? static_cast<size_t>(label->position) : position;
  return "Expected input " + std::to_string(number) + ", " + what + ", ";
}

// Tests of nvFuser's users match on what the IR prints for float, double and __half; types that it
// prints as those of C++ have torch's names.
std::string_view expectedTypeName(DataType dtype) {
  const std::string_view name = typeName(dtype);
  return name.ends_with("_t") || name.find("::") != std::string_view::npos ? torchName(dtype)
                                                                           : name;
}

void checkScalar(size_t position, const Val* input, const ArgView& arg) {
  NVF_CHECK(!arg.is_tensor, nameOf(position, input), "to be a scalar but got ",
            expectedTypeName(arg.dtype), " tensor of rank ", arg.rank);
  const DataType dtype = input->dtype();
  const bool is_bool = std::holds_alternative<bool>(arg.scalar);
  const bool is_int = std::holds_alternative<int64_t>(arg.scalar);
  const bool is_double = std::holds_alternative<double>(arg.scalar);
  const bool is_complex = std::holds_alternative<std::complex<double>>(arg.scalar);
  bool fits = false;
  if (isBoolean(dtype)) {
    fits = is_bool;
  } else if (isIntegral(dtype)) {
    fits = is_bool || is_int;
  } else if (isComplex(dtype)) {
    fits = is_bool || is_int || is_double || is_complex;
  } else {
    fits = is_bool || is_int || is_double;
  }
  NVF_CHECK(fits, "Scalar value ", scalarText(arg.scalar),
            " is not compatible with the expected data type: ", expectedTypeName(dtype),
            ". (Input ", position, ", ", describe(input), ")");
  if (dtype == DataType::Int32 && is_int) {
    const int64_t value = std::get<int64_t>(arg.scalar);
    NVF_CHECK(value >= std::numeric_limits<int32_t>::min() &&
                  value <= std::numeric_limits<int32_t>::max(),
              nameOf(position, input), "to be a 32-bit integer but got ", value);
  }
}

void checkDtype(size_t position, const TensorView* tv, const ArgView& arg) {
  const DataType want = tv->dtype();
  const bool same =
      arg.dtype == want ||
      (want == DataType::Float4_e2m1fn && arg.dtype == DataType::Float4_e2m1fn_x2) ||
      (want == DataType::Index && (arg.dtype == DataType::Int || arg.dtype == DataType::Int32));
  NVF_CHECK(same, nameOf(position, tv), "to be bound to a tensor of dtype ", expectedTypeName(want),
            ", but got a tensor of dtype ", expectedTypeName(arg.dtype));
}

void checkExtents(size_t position, const TensorView* tv, const std::vector<IterDomain*>& logical,
                  const TensorLayout& layout) {
  for (size_t d = 0; d < logical.size(); ++d) {
    const IterDomain* id = logical[d];
    if (id->isOne()) {
      NVF_CHECK(layout.sizes[d] == 1, nameOf(position, tv), "to have size 1 in dimension ", d,
                ", which was defined as a broadcast, but got size ", layout.sizes[d]);
      continue;
    }
    const Val* extent = id->getMaybeExpandedExtent();
    if (extent->isConstInt()) {
      NVF_CHECK(layout.sizes[d] == extent->intValue(), nameOf(position, tv), "to have size ",
                extent->toInlineString(), " in dimension ", d, ", but got size ", layout.sizes[d]);
    }
  }
}

// Walks the allocation domain from the inside, with the stride that a contiguous dimension must
// have next. Only for allocation domains that are permutations of the logical domain; others are
// checked where their strides are computed.
void checkStrides(size_t position, const TensorView* tv, const std::vector<IterDomain*>& logical,
                  const TensorLayout& layout) {
  const std::vector<IterDomain*>& allocation = tv->getMaybeAllocationDomain();
  const TensorDomain::Contiguity& contiguity = tv->getContiguity();
  int64_t expected = 1;
  for (size_t i = allocation.size(); i-- > 0;) {
    const IterDomain* id = allocation[i];
    if (id->isReduction()) {
      continue;
    }
    auto it = std::find(logical.begin(), logical.end(), id);
    if (it == logical.end()) {
      return;
    }
    const size_t d = static_cast<size_t>(it - logical.begin());
    const int64_t size = layout.sizes[d];
    const int64_t stride = layout.strides[d];
    if (id->isBroadcast()) {
      NVF_CHECK(!id->hasExpandedExtent() || size <= 1 || stride == 0, nameOf(position, tv),
                "to have stride 0 in dimension ", d,
                ", which was defined as expanded, but got stride ", stride);
      continue;
    }
    if (size == 1) {
      continue;
    }
    if (i < contiguity.size() && contiguity[i].value_or(false)) {
      NVF_CHECK(stride == expected, nameOf(position, tv), "to be contiguous in dimension ", d,
                " as it was defined: expected stride ", expected, ", but got a tensor of sizes [",
                join(layout.sizes), "] and strides [", join(layout.strides), "]");
    }
    expected = stride * size;
  }
}

void checkTensor(size_t position, const TensorView* tv, const ArgView& arg, Device device) {
  NVF_CHECK(arg.is_tensor, nameOf(position, tv), "to be an at::Tensor but got scalar ",
            scalarText(arg.scalar));
  const std::vector<IterDomain*> logical = logicalIds(tv);
  NVF_CHECK(arg.rank == static_cast<int32_t>(logical.size()), nameOf(position, tv),
            "to be bound to a tensor of rank ", logical.size(), ", but got a tensor of rank ",
            arg.rank);
  checkDtype(position, tv, arg);
  if (tv->isCpuScalar()) {
    NVF_CHECK(arg.device.isHost(), nameOf(position, tv),
              "to be a scalar tensor on the CPU, but got a tensor on ", arg.device);
  } else {
    NVF_CHECK(arg.device == device, nameOf(position, tv), "to be a tensor on ", device,
              ", but got a tensor on ", arg.device,
              !device.isCuda() || !arg.device.isHost() ? ""
              : arg.rank == 0 ? ". Define it with is_cpu=True to pass it from the CPU."
                              : ": of the tensors on the CPU only 0-d ones can be mixed with CUDA "
                                "tensors");
  }
  const TensorLayout layout = layoutOfArgument(tv, arg);
  for (int64_t stride : layout.strides) {
    NVF_CHECK(stride >= 0, nameOf(position, tv), "to have no negative strides, but got ", stride);
  }
  checkExtents(position, tv, logical, layout);
  if (layout.numel() != 0) {
    NVF_CHECK(arg.data != nullptr, nameOf(position, tv), "to have data, but its pointer is null");
    checkStrides(position, tv, logical, layout);
  }
}

} // namespace

void checkInputs(const Fusion* fusion, std::span<const ArgView> args, Device device) {
  const std::vector<Val*>& inputs = fusion->inputs();
  NVF_CHECK(inputs.size() == args.size(), "Expected ", inputs.size(),
            inputs.size() == 1 ? " input" : " inputs", ", but got ", args.size(), ".");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->isTensor()) {
      checkTensor(i, inputs[i]->as<TensorView>(), args[i], device);
    } else {
      checkScalar(i, inputs[i], args[i]);
    }
  }
}

Device chooseDevice(const Fusion* fusion, std::span<const ArgView> args, Device fallback) {
  const std::vector<Val*>& inputs = fusion->inputs();
  const ArgView* cuda = nullptr;
  bool host = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].is_tensor) {
      continue;
    }
    if (args[i].device.isCuda()) {
      NVF_CHECK(cuda == nullptr || cuda->device == args[i].device,
                "Expected all CUDA tensors to be on one device, but got input ", i, " on ",
                args[i].device, " and another on ", cuda == nullptr ? args[i].device : cuda->device,
                ".");
      cuda = &args[i];
    } else if (i < inputs.size() && inputs[i]->isTensor() &&
               !static_cast<const TensorView*>(inputs[i])->isCpuScalar()) {
      host = true;
    }
  }
  if (cuda != nullptr) {
    return cuda->device;
  }
  return host ? Device::host() : fallback;
}

DataType chooseIndexType(Fusion* fusion, std::span<const ArgView> args) {
  // Index arithmetic runs past the last element by at most a tile of padding.
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max() - (int64_t(1) << 24);
  // In memory, elements of dtype Index are 64 bits wide.
  const auto isIndexTensor = [](const Val* v) {
    return v->isTensor() && v->dtype() == DataType::Index;
  };
  for (const auto* vals : {&fusion->inputs(), &fusion->outputs()}) {
    if (std::any_of(vals->begin(), vals->end(), isIndexTensor)) {
      return DataType::Int;
    }
  }
  ScalarEvaluator evaluator;
  bindInputs(fusion->inputs(), args, evaluator);
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].is_tensor &&
        layoutOfArgument(fusion->inputs()[i]->as<TensorView>(), args[i]).storageElements() >
            kLimit) {
      return DataType::Int;
    }
  }
  for (TensorView* tv : fusion->allTvs()) {
    for (const auto* domain :
         {&tv->getMaybeRootDomain(), &tv->getLogicalDomain(), &tv->getLoopDomain()}) {
      // In floating point, because the product itself may overflow.
      double product = 1;
      for (const IterDomain* id : *domain) {
        if (auto extent = evaluator.evaluate(id->getMaybeExpandedExtent())) {
          product *= static_cast<double>(
              std::max<int64_t>(1, std::get<int64_t>(convertScalar(*extent, DataType::Int))));
        }
      }
      if (product > static_cast<double>(kLimit)) {
        return DataType::Int;
      }
    }
  }
  return DataType::Int32;
}

} // namespace nvfuser
