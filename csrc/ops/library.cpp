// SPDX-License-Identifier: BSD-3-Clause
// What the builders of library ops share. See library_internal.h.
#include <base/error.h>
#include <base/string_utils.h>
#include <ir/describe.h>
#include <ops/library_internal.h>

#include <algorithm>

namespace nvfuser::ops_utils {

std::vector<std::vector<OperandDim>> operandDims(const LibraryDims& dims,
                                                 const std::vector<Val*>& operands) {
  std::vector<std::vector<OperandDim>> out(dims.names.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (dims.operands[i].empty()) {
      continue;
    }
    const auto* tv = operands[i]->as<TensorView>();
    const Ids ids = logicalIds(tv);
    for (size_t d = 0; d < ids.size(); ++d) {
      const LibraryDims::Dim& dim = dims.operands[i][d];
      out[static_cast<size_t>(dim.number)].push_back(
          {tv, static_cast<int64_t>(d), ids[d], dim.repeats});
    }
  }
  return out;
}

namespace {

std::string describe(const OperandDim& d) {
  return "dimension " + std::to_string(d.dim) + " of " + shapeString(d.tv);
}

void checkKnownSizes(const char* op_name, const std::vector<OperandDim>& same) {
  const OperandDim* first = nullptr;
  for (const OperandDim& d : same) {
    const auto size = constInt(d.id->getMaybeExpandedExtent());
    if (!size || (d.repeats && *size == 1)) {
      continue;
    }
    if (first == nullptr) {
      first = &d;
      continue;
    }
    const int64_t other = *constInt(first->id->getMaybeExpandedExtent());
    NVF_CHECK(*size == other, op_name, ": sizes do not agree: ", describe(*first), " is ", other,
              ", but ", describe(d), " is ", *size, ".");
  }
}

// A result has elements of its own along a dimension that an operand is repeated in.
IterDomain* materialized(const IterDomain* id) {
  return id->hasExpandedExtent() ? makeDimension(id->expandedExtent(), IterType::Iteration)
                                 : copyDimension(id);
}

IterDomain* commonDimension(const char* op_name, const std::vector<OperandDim>& same) {
  std::vector<OperandDim> deciding;
  std::copy_if(same.begin(), same.end(), std::back_inserter(deciding),
               [](const OperandDim& d) { return !d.repeats; });
  std::vector<std::pair<const TensorView*, IterDomain*>> ids;
  for (const OperandDim& d : deciding.empty() ? same : deciding) {
    ids.emplace_back(d.tv, d.id);
  }
  return materialized(meetDimensions(op_name, static_cast<size_t>(same.front().dim), ids));
}

} // namespace

std::vector<TensorView*> makeLibraryOp(const LibraryOpParts& parts) {
  const LibraryOpInfo& row = libraryOpInfo(parts.op);
  const LibraryDims dims = libraryDims(parts.op, operandRanks(parts.operands), parts.attributes);
  const auto operand_dims = operandDims(dims, parts.operands);
  for (const auto& same : operand_dims) {
    checkKnownSizes(row.name, same);
  }
  std::vector<TensorView*> outputs;
  size_t own = 0;
  for (size_t r = 0; r < parts.dtypes.size(); ++r) {
    Ids ids;
    for (const LibraryDims::Dim& dim : dims.results.at(r)) {
      const auto& same = operand_dims[static_cast<size_t>(dim.number)];
      if (same.empty()) {
        const LibraryOpParts::OwnDim& d = parts.own.at(own++);
        ids.push_back(makeDimension(d.extent, d.type));
      } else {
        ids.push_back(commonDimension(row.name, same));
      }
    }
    outputs.push_back(makeTensor(std::move(ids), parts.dtypes[r]));
  }
  NVF_ERROR(own == parts.own.size(), row.name, ": a result lacks a dimension");
  const auto* op =
      IrBuilder::create<LibraryOp>(parts.op, outputs, parts.operands, parts.attributes);
  for (size_t r = 0; r < outputs.size(); ++r) {
    if (op->isSwizzled(r) && rank(outputs[r]) > 1) {
      // Rows are padded.
      TensorDomain::Contiguity contiguity = outputs[r]->getContiguity();
      std::optional<bool>& of_rows = contiguity.at(contiguity.size() - 2);
      of_rows = of_rows.has_value() ? std::optional(false) : std::nullopt;
      outputs[r]->domain()->setContiguity(contiguity);
    }
  }
  return outputs;
}

void checkRankAtLeast(const char* op_name, const char* operand, const TensorView* tv,
                      int64_t least) {
  NVF_CHECK(rank(tv) >= least, op_name, ": ", operand, " must have at least ", least,
            least == 1 ? " dimension" : " dimensions", ", but ", describe(tv), " has ", rank(tv),
            ".");
}

void checkSameDtype(const char* op_name, const std::vector<TensorView*>& operands) {
  for (const TensorView* tv : operands) {
    NVF_CHECK(tv->dtype() == operands.front()->dtype(), op_name,
              ": the operands must have the same dtype, but they are ", operands.front()->dtype(),
              " and ", tv->dtype(), ".");
  }
}

} // namespace nvfuser::ops_utils
