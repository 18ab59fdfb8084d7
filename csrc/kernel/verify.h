// SPDX-License-Identifier: BSD-3-Clause
// The verifier of a kernel's statements: what must hold of them between any two passes.
#pragma once

#include <kernel/kernel.h>

namespace nvfuser {

// Throws an InternalError that names the pass, the rule and the statement unless
//  * the index of a loop is read in that loop only
//  * every other scalar is computed, a constant, or something that a launch or the machine tells
//  * buffers, once they are allocated, are read and written where they are, and once in each scope
//  * what is read of a buffer has been written before, or by somebody else, or began as zero
void verifyStatements(const Kernel* kernel, const char* pass);

} // namespace nvfuser
