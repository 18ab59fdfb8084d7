// SPDX-License-Identifier: BSD-3-Clause
// Outputs that are written into an input's storage, and the hazard in it: everybody who reads the
// old value must have read it before.
#pragma once

#include <fusion.h>

#include <vector>

namespace nvfuser {

struct InPlaceWrite {
  TensorView* output; // of the concrete fusion
  TensorView* input;  // whose storage it is written to
  bool through_copy =
      false; // `output` is a copy, made after everything else, of what was to be written
  bool misaligned = false; // the storage: no vectors may be written to it
};

// A copy in the fusion, and the tensor that it makes.
TensorView* copyInFusion(Fusion* fusion, TensorView* tv);

// The output gets memory of its own, which is copied to the input's storage after everything else.
void writeThroughCopy(Fusion* fusion, InPlaceWrite& write);

// Gives the output the memory order of the input, and what is promised of that.
void takeLayoutOfInput(const InPlaceWrite& write);

} // namespace nvfuser
