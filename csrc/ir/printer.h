// SPDX-License-Identifier: BSD-3-Clause
// Text of the IR. The nodes' own toString() are implemented in printer.cpp: a Val prints without a
// newline, an Expr ends with one.
#pragma once

#include <ir/nodes.h>

#include <iosfwd>
#include <string>

namespace nvfuser {

std::ostream& operator<<(std::ostream& os, const Statement* s);

// An extent, or a position in a dimension, as by toInlineString(); of one that takes many
// operations the name only, so that the text of a chain of slices is as long as the chain.
std::string sizeText(const Val* size);
bool isShownByName(const Val* size);
// The constant as in IR: 5, true, double(2), std::complex<float>(2,1).
std::string constantText(const ScalarValue& value, DataType dtype);

// The views of a tensor's dimensions and the transforms that connect them.
std::string printTransforms(const TensorView* tv);

} // namespace nvfuser
