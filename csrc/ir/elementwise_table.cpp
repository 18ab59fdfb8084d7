// SPDX-License-Identifier: BSD-3-Clause
// The rows of the elementwise table as data.
#include <ir/elementwise_table.h>

#include <base/error.h>

#include <iterator>

namespace nvfuser {
namespace {

#define NVF_OP_ROW(Enum, name, arity, rule, infix, doc) \
  {OpType::Enum, #name, arity, TypeRule::rule, infix, doc},
constexpr OpInfo kRows[] = {NVF_ELEMENTWISE_OPS(NVF_OP_ROW)};
#undef NVF_OP_ROW

} // namespace

const OpInfo& opInfo(OpType op) {
  const auto row = static_cast<size_t>(op);
  NVF_ERROR(row < std::size(kRows), "no elementwise op has number ", row);
  return kRows[row];
}

int numOps() {
  return static_cast<int>(std::size(kRows));
}

} // namespace nvfuser
