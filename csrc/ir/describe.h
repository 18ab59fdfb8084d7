// SPDX-License-Identifier: BSD-3-Clause
// What messages call values and operations: in the words of who defined the fusion, not of the IR.
#pragma once

#include <ir/nodes.h>

#include <string>

namespace nvfuser {

// "x (float32 [i0, 4])" of an input that was given a name, "input 0 (float32 [i0, 4])" of one that
// was not, "the result of add at script.py:12 (float32 [i0, 4])" of what is computed. Scalars
// without the parentheses; constants by their value.
std::string describe(const Val* v);
// "add(x, input 1) at script.py:12".
std::string describe(const Expr* e);
// "float32 [i0, 4]", without the dimensions that were reduced.
std::string describeType(const TensorView* tv);

// "x (float32 [iS0{i0}, iS1{4}])": the same as describe() with the loop axes, for messages about
// schedules.
std::string describeLoops(const TensorView* tv);

// What fd.ops calls the operation.
std::string pythonOpName(const Expr* e);

} // namespace nvfuser
