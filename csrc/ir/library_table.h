// SPDX-License-Identifier: BSD-3-Clause
// The one table of the operations that a library evaluates (LibraryOp, ir/exprs.h): what libraries
// do better than a generated kernel, as products of matrices, sorting and attention. Printing,
// translation to Python, introspection and the docstring of an op come from its row; what sizes its
// operands and results have in common is said by its shape rule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nvfuser {

enum class LibraryOpType : uint8_t {
  Matmul,
  Linear,
  TopK,
  ArgSort,
  GroupedMm,
  ScaledGroupedMm,
  ScaledMm,
  CutlassNvfp4GroupedMm,
  NvBlockQuantize,
  NvGroupedBlockQuantize,
  PreprocessGroupedMatmulInputSf,
  SdpaFwd,
  SdpaBwd,
};

struct LibraryOperand {
  enum class Kind : uint8_t { Tensor, Scalar };
  // How Python code that the fusion is translated to passes it: by position, by keyword if it is
  // given, or always by keyword (None if it is not given).
  enum class Writing : uint8_t { Positional, Keyword, AlwaysKeyword };
  const char* name;
  Kind kind = Kind::Tensor;
  Writing writing = Writing::Positional;

  // May be left out.
  bool isOptional() const {
    return writing != Writing::Positional;
  }
};

// A parameter that is known when the fusion is defined: an integer, a bool or a data type, all kept
// as integers.
struct LibraryAttribute {
  enum class Kind : uint8_t { Int, Bool, Type };
  const char* name;
  Kind kind;
  // Values that need not be written; none: it always is.
  std::optional<int64_t> default_value;
};

// One row. In Python the attributes follow the operands.
struct LibraryOpInfo {
  LibraryOpType op;
  const char* name;
  const char* python_name;
  std::vector<LibraryOperand> operands;
  std::vector<LibraryAttribute> attributes;
  // What the op returns in Python. An expression may lack the last ones, which are None then.
  std::vector<const char*> results;
  const char* doc;
};

const LibraryOpInfo& libraryOpInfo(LibraryOpType op);

// Which dimensions of the operands and results of an op are the same. Dimensions are numbered.
struct LibraryDims {
  struct Dim {
    int number;
    // An operand may have size 1 here although others have not.
    bool repeats;
  };
  std::vector<std::vector<Dim>> operands; // as in the table; empty for scalars and absent ones
  std::vector<std::vector<Dim>> results;
  std::vector<std::string> names; // by number, for messages; empty for a result's own dimension
};

// `rule` lists the dimensions of the operands and, after an arrow, of the results: names separated
// by spaces, operands and results separated by commas. `b...` stands for as many dimensions as the
// operand has beyond those named; results that name it have as many as the operand with the most,
// and dimensions of operands with fewer are the last of them. A `~` before a name: the operand's
// size may be 1 there. `?` is a dimension of a result that no operand has.
//   "~b... m k, ~b... k n -> b... m n"
// `ranks`: of the operands of the table; -1 for scalars and absent ones.
LibraryDims parseShapeRule(const std::string& rule, const std::vector<int64_t>& ranks);

// The dimensions of an op with operands of these ranks. The ranks were checked.
LibraryDims libraryDims(LibraryOpType op, const std::vector<int64_t>& ranks,
                        const std::vector<int64_t>& attributes);

} // namespace nvfuser
