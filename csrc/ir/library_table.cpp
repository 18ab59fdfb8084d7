// SPDX-License-Identifier: BSD-3-Clause
// See library_table.h.
#include <ir/library_table.h>

#include <base/error.h>
#include <type.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>

namespace nvfuser {

namespace {

using Kind = LibraryOperand::Kind;
using Writing = LibraryOperand::Writing;
using AttributeKind = LibraryAttribute::Kind;

constexpr const char* kMatmulDoc =
    "Product of matrices with the shape rules of torch.matmul: operands of rank 1 are a row and a "
    "column, dimensions before the last two are repeated where one has size 1. Both have the same "
    "dtype, which is the result's. The product is multiplied by the number alpha, if there is one, "
    "before it is rounded.";
constexpr const char* kLinearDoc =
    "alpha * (arg1 @ arg2^T) + bias: arg1 [*i, K], arg2 (the weight) [*w, N, K], bias [*w, N] or "
    "None, alpha a number, 1 by default; the result is [*w, *i, N]. All tensors have the same "
    "dtype, "
    "which is the result's.";
constexpr const char* kTopKDoc =
    "(values, indices) of the k largest (or smallest) elements along dim; k is an integer scalar, "
    "the indices are Int. In order if `sorted`. RuntimeError if k is negative or exceeds the size.";
constexpr const char* kArgSortDoc =
    "Indices (Int) that sort arg along dim; equal elements keep their order if `stable`.";
constexpr const char* kGroupedMmDoc =
    "A product of matrices for each group. offsets (Int32 [groups]) are the ends of the groups: "
    "[M, K] x [K, N] -> [groups, M, N] with K in groups, [groups, M, K] x [K, N] -> [M, N] with N "
    "in groups, [M, K] x [groups, K, N] -> [M, N] with M in groups.";
constexpr const char* kScaledGroupedMmDoc =
    "grouped_mm of operands with scales; returns (out, None, None) with out of `dtype`. The scales "
    "have the rank of the operand or the result, whichever is more, and size 1 along K, or are "
    "block scales. bias and beta come together. Block-scaled output is not yet supported.";
constexpr const char* kScaledMmDoc =
    "mat1 [M, K] x mat2 [K, N], each with its scales (one for the tensor, for rows and columns, or "
    "for blocks along K), as torch evaluates it; returns (out, None, None) with out of `dtype`. "
    "beta needs bias. Block-scaled output is not yet supported.";
constexpr const char* kCutlassDoc =
    "A product of NVFP4 matrices for each group: mat1 [M, K], mat2 [groups, K, N] (K fastest), "
    "block scales (Float8_e4m3fn, 128x4 swizzled), alpha Float [groups], problem_sizes Int32 "
    "[groups, 3] (M, N, K), the first row of each group in mat1 and in scale1. The result is [M, "
    "N] of `dtype`.";
constexpr const char* kBlockQuantizeDoc =
    "(quantized, block_scales) of input (Float, Half or BFloat16, rank >= 1) with a scale for each "
    "block of the innermost dimension: Float4_e2m1fn with blocks of 16 and Float8_e4m3fn scales, "
    "or Float8_e4m3fn with blocks of 32 and Float8_e8m0fnu scales.";
constexpr const char* kGroupedBlockQuantizeDoc =
    "nv_block_quantize of a matrix whose rows are in groups: the scales of each group are stored "
    "128x4 swizzled and padded, from row output_offsets[group] on.";
constexpr const char* kPreprocessDoc =
    "Block scales [rows, columns] of a matrix whose rows are in groups, stored 128x4 swizzled and "
    "padded, each group from row output_offsets[group] on.";
constexpr const char* kSdpaFwdDoc =
    "Scaled dot product attention: (output, logsumexp, philox_seed, philox_offset) of query [..., "
    "H, L, E], key and value [..., G, S, E]; each head of theirs is that of H/G heads of the "
    "query, "
    "one after the other. bias is added to the scores, mask (Bool) keeps where "
    "it is true. dropout_p is 0.0, is_causal False, scale 1/sqrt(E) by default. Draws from the "
    "generator as torch does.";
constexpr const char* kSdpaBwdDoc =
    "(grad_query, grad_key, grad_value) of sdpfa_fwd, of whose results output, logsumexp, "
    "philox_seed and philox_offset are given. None stands for the defaults of the scalars.";

// Shorthands for the rows.
LibraryOperand tensor(const char* name) {
  return {name, Kind::Tensor, Writing::Positional};
}
LibraryOperand optionalTensor(const char* name) {
  return {name, Kind::Tensor, Writing::Keyword};
}
LibraryOperand optionalScalar(const char* name) {
  return {name, Kind::Scalar, Writing::Keyword};
}
LibraryAttribute integer(const char* name, std::optional<int64_t> default_value) {
  return {name, AttributeKind::Int, default_value};
}
LibraryAttribute flag(const char* name) {
  return {name, AttributeKind::Bool, 0};
}
LibraryAttribute type(const char* name, DataType default_value) {
  return {name, AttributeKind::Type, static_cast<int64_t>(default_value)};
}

// Of products whose operands have scales.
std::vector<LibraryAttribute> scaledOutput() {
  return {type("dtype", DataType::BFloat16), integer("output_block_scale_size", 0),
          type("output_block_scale_dtype", DataType::BFloat16), flag("output_gamma")};
}

std::vector<LibraryOpInfo> makeTable() {
  using Op = LibraryOpType;
  std::vector<LibraryOpInfo> rows;
  const auto add = [&](Op op, const char* name, std::vector<LibraryOperand> operands,
                       std::vector<LibraryAttribute> attributes, std::vector<const char*> results,
                       const char* doc) {
    rows.push_back(
        {op, name, name, std::move(operands), std::move(attributes), std::move(results), doc});
  };
  add(Op::Matmul, "matmul", {tensor("arg1"), tensor("arg2"), optionalScalar("alpha")}, {}, {"out"},
      kMatmulDoc);
  add(Op::Linear, "linear",
      {tensor("arg1"), tensor("arg2"), optionalTensor("bias"), optionalScalar("alpha")}, {},
      {"out"}, kLinearDoc);
  add(Op::TopK, "topk", {tensor("arg"), {"k", Kind::Scalar, Writing::Positional}},
      {integer("dim", -1), {"largest", AttributeKind::Bool, 1}, flag("sorted")},
      {"values", "indices"}, kTopKDoc);
  add(Op::ArgSort, "argsort", {tensor("arg")},
      {integer("dim", std::nullopt), flag("descending"), flag("stable")}, {"indices"}, kArgSortDoc);
  add(Op::GroupedMm, "grouped_mm", {tensor("mat1"), tensor("mat2"), tensor("offsets")}, {}, {"out"},
      kGroupedMmDoc);
  add(Op::ScaledGroupedMm, "scaled_grouped_mm",
      {tensor("mat1"), tensor("mat2"), tensor("offsets"), tensor("scale1"), tensor("scale2"),
       optionalTensor("alpha"), optionalTensor("bias"), optionalTensor("beta")},
      scaledOutput(), {"out", "scale", "gamma"}, kScaledGroupedMmDoc);
  rows.back().python_name = "grouped_mm";
  add(Op::ScaledMm, "scaled_mm",
      {tensor("mat1"), tensor("mat2"), tensor("scale1"), tensor("scale2"), optionalTensor("alpha"),
       optionalTensor("bias"), optionalTensor("beta")},
      scaledOutput(), {"out", "scale", "gamma"}, kScaledMmDoc);
  add(Op::CutlassNvfp4GroupedMm, "cutlass_nvfp4_grouped_mm",
      {tensor("mat1"), tensor("mat2"), tensor("scale1"), tensor("scale2"), tensor("alpha"),
       tensor("problem_sizes"), tensor("expert_offsets"), tensor("sf_offsets")},
      {type("dtype", DataType::BFloat16)}, {"out"}, kCutlassDoc);
  add(Op::NvBlockQuantize, "nv_block_quantize", {tensor("input"), optionalTensor("global_scale")},
      {flag("swizzle_block_scales"), integer("block_size", 16),
       type("dtype", DataType::Float4_e2m1fn)},
      {"quantized", "block_scales"}, kBlockQuantizeDoc);
  add(Op::NvGroupedBlockQuantize, "nv_grouped_block_quantize",
      {tensor("input"), tensor("input_offsets"), tensor("output_offsets"),
       optionalTensor("global_scale")},
      {integer("block_size", 16), type("dtype", DataType::Float4_e2m1fn)},
      {"quantized", "block_scales"}, kGroupedBlockQuantizeDoc);
  add(Op::PreprocessGroupedMatmulInputSf, "preprocess_grouped_matmul_input_sf",
      {tensor("input"), tensor("input_offsets"), tensor("output_offsets")}, {}, {"out"},
      kPreprocessDoc);
  add(Op::SdpaFwd, "sdpfa_fwd",
      {tensor("query"), tensor("key"), tensor("value"), optionalTensor("bias"),
       optionalTensor("mask"), optionalScalar("dropout_p"), optionalScalar("is_causal"),
       optionalScalar("scale")},
      {}, {"output", "logsumexp", "philox_seed", "philox_offset"}, kSdpaFwdDoc);
  const auto keyword = Writing::AlwaysKeyword;
  add(Op::SdpaBwd, "sdpfa_bwd",
      {tensor("grad_output"),
       tensor("query"),
       tensor("key"),
       tensor("value"),
       tensor("output"),
       tensor("logsumexp"),
       {"dropout_p", Kind::Scalar, keyword},
       {"is_causal", Kind::Scalar, keyword},
       {"philox_seed", Kind::Tensor, keyword},
       {"philox_offset", Kind::Tensor, keyword},
       {"scale", Kind::Scalar, keyword}},
      {}, {"grad_query", "grad_key", "grad_value"}, kSdpaBwdDoc);
  return rows;
}

std::vector<std::string> splitAtCommas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Dimensions by name, in the course of one rule.
class RuleParser {
 public:
  LibraryDims run(const std::string& rule, const std::vector<int64_t>& ranks) {
    const size_t arrow = rule.find("->");
    NVF_ERROR(arrow != std::string::npos, "a shape rule without results: ", rule);
    const std::vector<std::string> operands = splitAtCommas(rule.substr(0, arrow));
    // Packs first: operands decide how long they are.
    for (size_t i = 0; i < ranks.size(); ++i) {
      out_.operands.push_back(ranks[i] < 0 || i >= operands.size()
                                  ? std::vector<LibraryDims::Dim>()
                                  : operand(operands[i], static_cast<size_t>(ranks[i])));
    }
    for (const std::string& result : splitAtCommas(rule.substr(arrow + 2))) {
      out_.results.push_back(this->result(result));
    }
    return std::move(out_);
  }

 private:
  static std::vector<std::string> words(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string word; in >> word;) {
      out.push_back(word);
    }
    return out;
  }

  static bool isPack(const std::string& word) {
    return word.ends_with("...");
  }

  int number(const std::string& name) {
    auto [it, inserted] = numbers_.try_emplace(name, static_cast<int>(out_.names.size()));
    if (inserted) {
      out_.names.push_back(name);
    }
    return it->second;
  }

  // Counted from the last one, which operands with fewer have too.
  int packed(const std::string& pack, size_t from_end) {
    return number(pack.substr(0, pack.size() - 3) + std::to_string(from_end));
  }

  std::vector<LibraryDims::Dim> operand(const std::string& text, size_t rank) {
    std::vector<LibraryDims::Dim> dims;
    const std::vector<std::string> all = words(text);
    const auto packs = static_cast<size_t>(std::count_if(all.begin(), all.end(), isPack));
    NVF_ERROR(packs <= 1 && rank + packs >= all.size() && (packs == 1 || rank == all.size()),
              "an operand of rank ", rank, " does not fit the shape rule '", text, "'");
    for (std::string word : all) {
      const bool repeats = word.front() == '~';
      word.erase(0, repeats ? 1 : 0);
      if (!isPack(word)) {
        dims.push_back({number(word), repeats});
        continue;
      }
      const size_t length = rank + 1 - all.size();
      size_t& longest = packs_[word];
      longest = std::max(longest, length);
      for (size_t i = length; i-- > 0;) {
        dims.push_back({packed(word, i), repeats});
      }
    }
    return dims;
  }

  std::vector<LibraryDims::Dim> result(const std::string& text) {
    std::vector<LibraryDims::Dim> dims;
    for (const std::string& word : words(text)) {
      if (word == "?") {
        dims.push_back({static_cast<int>(out_.names.size()), false});
        out_.names.emplace_back();
      } else if (isPack(word)) {
        for (size_t i = packs_[word]; i-- > 0;) {
          dims.push_back({packed(word, i), false});
        }
      } else {
        dims.push_back({number(word), false});
      }
    }
    return dims;
  }

  LibraryDims out_;
  std::unordered_map<std::string, int> numbers_;
  std::unordered_map<std::string, size_t> packs_;
};

// "x0 ? x2": the dimensions of the operand with one replaced.
std::string replacedDim(int64_t rank, int64_t dim) {
  std::string out;
  for (int64_t d = 0; d < rank; ++d) {
    out += d == dim ? "? " : "x" + std::to_string(d) + " ";
  }
  return out;
}

std::string shapeRule(LibraryOpType op, const std::vector<int64_t>& ranks,
                      const std::vector<int64_t>& attributes) {
  switch (op) {
    case LibraryOpType::Matmul: {
      const bool row = ranks[0] == 1;
      const bool column = ranks[1] == 1;
      return std::string(row ? "k" : "~b... m k") + "," + (column ? "k" : "~b... k n") + "->" +
             "b... " + (row ? "" : "m ") + (column ? "" : "n");
    }
    case LibraryOpType::Linear:
      return "i... k, w... n k, w... n -> w... i... n";
    case LibraryOpType::TopK: {
      std::string operand;
      for (int64_t d = 0; d < ranks[0]; ++d) {
        operand += "x" + std::to_string(d) + " ";
      }
      const std::string results = replacedDim(ranks[0], attributes[0]);
      return operand + "->" + results + "," + results;
    }
    case LibraryOpType::ArgSort:
      return "x... -> x...";
    case LibraryOpType::GroupedMm:
    case LibraryOpType::ScaledGroupedMm: {
      const std::string in_groups = ranks[0] == 3   ? "g m k, k n, g"
                                    : ranks[1] == 3 ? "m k, g k n, g"
                                                    : "m k, k n, g";
      const std::string out = ranks[0] == 2 && ranks[1] == 2 ? "g m n" : "m n";
      return in_groups + ", s..., t..., alpha..., bias..., beta... -> " + out;
    }
    case LibraryOpType::ScaledMm:
      return "m k, k n, s..., t..., alpha..., bias..., beta... -> m n";
    case LibraryOpType::CutlassNvfp4GroupedMm:
      return "m k, g k n, s..., t..., g, g three, g, g -> m n";
    case LibraryOpType::NvBlockQuantize:
      return "x... k, scale... -> x... k, x... ?";
    case LibraryOpType::NvGroupedBlockQuantize:
      return "m k, i..., o..., scale... -> m k, m ?";
    case LibraryOpType::PreprocessGroupedMatmulInputSf:
      return "m k, i..., o... -> m k";
    case LibraryOpType::SdpaFwd:
      return "b... h l e, b... g s e, b... g s v, ~b... ~h ~l ~s, ~b... ~h ~l ~s ->"
             "b... h l v, b... h l, ?,";
    case LibraryOpType::SdpaBwd:
      return "b... h l v, b... h l e, b... g s e, b... g s v, b... h l v, b... h l, , , seed..., "
             "offset..., -> b... h l e, b... g s e, b... g s v";
  }
  NVF_THROW("no shape rule");
}

} // namespace

const LibraryOpInfo& libraryOpInfo(LibraryOpType op) {
  static const std::vector<LibraryOpInfo> table = makeTable();
  const LibraryOpInfo& row = table.at(static_cast<size_t>(op));
  NVF_ERROR(row.op == op, "the rows of the table are not in order");
  return row;
}

LibraryDims parseShapeRule(const std::string& rule, const std::vector<int64_t>& ranks) {
  return RuleParser().run(rule, ranks);
}

LibraryDims libraryDims(LibraryOpType op, const std::vector<int64_t>& ranks,
                        const std::vector<int64_t>& attributes) {
  return parseShapeRule(shapeRule(op, ranks, attributes), ranks);
}

} // namespace nvfuser
