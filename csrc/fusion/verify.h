// SPDX-License-Identifier: BSD-3-Clause
// The verifier of a fusion: what must hold of its IR between any two passes.
#pragma once

#include <fusion.h>

namespace nvfuser {

// Throws an InternalError that names the pass, the rule and the value unless, of everything that
// outputs depend on:
//  * operands know who reads them, and results what computes them
//  * every tensor is an input or made by an expression before those that read it
//  * the dimensions of operands and results agree one by one: what is expanded in an operand is
//    never a plain broadcast in the result, what iterates is no broadcast, constant sizes are equal
//  * loops and memory of a tensor are made of its dimensions, and loops run over all of them
//  * inputs have no definition, and outputs that are written to an input name one
void verifyFusion(const Fusion* fusion, const char* pass);

} // namespace nvfuser
