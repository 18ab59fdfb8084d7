// SPDX-License-Identifier: BSD-3-Clause
// Scaled dot product attention. See library.h.
#include <base/error.h>
#include <ir/describe.h>
#include <ir/evaluator.h>
#include <ops/library.h>
#include <ops/library_internal.h>

#include <algorithm>
#include <array>

namespace nvfuser {

using namespace ops_utils;

namespace {

// Null where the scalar is the constant that stands for its absence.
Val* unlessDefault(const char* op_name, const char* name, Val* v, double default_value) {
  if (v == nullptr) {
    return nullptr;
  }
  checkOperand(op_name, v);
  NVF_CHECK(v->isScalar() && !isComplex(v->dtype()), op_name, ": ", name,
            " must be a real scalar, but ", describe(v), " is ", v->dtype(), ".");
  const bool is_default = v->isConst() && std::get<double>(convertScalar(
                                              v->value(), DataType::Double)) == default_value;
  return is_default ? nullptr : v;
}

void checkScale(const char* op_name, const Val* scale) {
  if (scale != nullptr) {
    checkOperand(op_name, scale);
    NVF_CHECK(scale->isScalar() && !isComplex(scale->dtype()), op_name,
              ": scale must be a real scalar, but ", describe(scale), " is ", scale->dtype(), ".");
  }
}

void checkSameRank(const char* op_name, const std::vector<TensorView*>& operands) {
  for (const TensorView* tv : operands) {
    NVF_CHECK(rank(tv) == rank(operands.front()), op_name,
              ": the operands must have the same number of dimensions, but they have ",
              rank(operands.front()), " and ", rank(tv), ".");
  }
}

// Attention hands its results out in the order that the operand of the same shape has in memory.
// What is permuted in front of it, as heads of a projection are, is a view there.
void adoptOrder(TensorView* out, const TensorView* operand) {
  const TensorDomain& domain = *operand->domain();
  const bool is_view =
      tryAs<LoadStoreOp>(operand->definition()) != nullptr && !domain.hasAllocation();
  Ids allocation;
  for (const size_t d :
       TensorDomain::orderOf(domain.logical(), is_view ? domain.root() : domain.allocation())) {
    allocation.push_back(out->getLogicalDomain().at(d));
  }
  if (!allocation.empty()) {
    out->setAllocationDomain(allocation, true);
  }
}

// Each head of the keys and values is for as many heads of the query.
void checkHeads(const char* op_name, const TensorView* query, const TensorView* key) {
  const auto heads = [](const TensorView* tv) {
    return logicalIds(tv).at(static_cast<size_t>(rank(tv) - 3))->extent();
  };
  const Val* of_query = heads(query);
  const Val* of_key = heads(key);
  if (!of_query->isConst() || !of_key->isConst()) {
    return;
  }
  const auto number = [](const Val* v) { return v->intValue(); };
  NVF_CHECK(number(of_key) == 0 ? number(of_query) == 0 : number(of_query) % number(of_key) == 0,
            op_name,
            ": the number of heads of the query must be a multiple of that of the key and ",
            "the value, but ", describe(query), " has ", number(of_query), " and ", describe(key),
            " has ", number(of_key), ".");
}

} // namespace

SdpfaFwdResult sdpfa_fwd(TensorView* query, TensorView* key, TensorView* value, TensorView* bias,
                         TensorView* mask, Val* dropout_p, Val* is_causal, Val* scale) {
  constexpr const char* kName = "sdpfa_fwd";
  checkOperands(kName, {query, key, value});
  checkRankAtLeast(kName, "the query", query, 4);
  checkSameDtype(kName, {query, key, value});
  checkSameRank(kName, {query, key, value});
  checkHeads(kName, query, key);
  if (bias != nullptr) {
    checkOperand(kName, bias);
    checkSameDtype(kName, {query, bias});
    checkSameRank(kName, {query, bias});
  }
  if (mask != nullptr) {
    checkOperand(kName, mask);
    NVF_CHECK(mask->dtype() == DataType::Bool, "sdpfa_fwd: the mask must be Bool, but is ",
              mask->dtype(), ".");
    checkSameRank(kName, {query, mask});
  }
  dropout_p = unlessDefault(kName, "dropout_p", dropout_p, 0.0);
  is_causal = unlessDefault(kName, "is_causal", is_causal, 0.0);
  checkScale(kName, scale);
  NVF_CHECK(dropout_p == nullptr || (bias == nullptr && mask == nullptr),
            "sdpfa_fwd: dropout is not supported together with a bias or a mask.");
  const std::vector<TensorView*> out = makeLibraryOp(
      {.op = LibraryOpType::SdpaFwd,
       .operands = {query, key, value, bias, mask, dropout_p, is_causal, scale},
       .attributes = {},
       .dtypes = {query->dtype(), DataType::Float, DataType::UInt64, DataType::UInt64},
       .own = {{IrBuilder::index(2)}}});
  adoptOrder(out[0], query);
  return {out[0], out[1], out[2], out[3]};
}

SdpfaBwdResult sdpfa_bwd(TensorView* grad_output, TensorView* query, TensorView* key,
                         TensorView* value, TensorView* output, TensorView* log_sumexp,
                         Val* dropout_p, Val* is_causal, TensorView* philox_seed,
                         TensorView* philox_offset, Val* scale) {
  constexpr const char* kName = "sdpfa_bwd";
  checkOperands(kName,
                {grad_output, query, key, value, output, log_sumexp, philox_seed, philox_offset});
  checkRankAtLeast(kName, "the query", query, 4);
  checkSameDtype(kName, {query, key, value, output, grad_output});
  checkSameRank(kName, {query, key, value, output, grad_output});
  checkHeads(kName, query, key);
  NVF_CHECK(rank(log_sumexp) == rank(query) - 1, "sdpfa_bwd: logsumexp must have ", rank(query) - 1,
            " dimensions, but has ", rank(log_sumexp), ".");
  dropout_p = unlessDefault(kName, "dropout_p", dropout_p, 0.0);
  is_causal = unlessDefault(kName, "is_causal", is_causal, 0.0);
  checkScale(kName, scale);
  const std::vector<TensorView*> out =
      makeLibraryOp({.op = LibraryOpType::SdpaBwd,
                     .operands = {grad_output, query, key, value, output, log_sumexp, dropout_p,
                                  is_causal, philox_seed, philox_offset, scale},
                     .attributes = {},
                     .dtypes = std::vector<DataType>(3, query->dtype()),
                     .own = {}});
  const std::array<const TensorView*, 3> operands = {query, key, value};
  for (size_t i = 0; i < operands.size(); ++i) {
    adoptOrder(out[i], operands[i]);
  }
  return {out[0], out[1], out[2]};
}

} // namespace nvfuser
