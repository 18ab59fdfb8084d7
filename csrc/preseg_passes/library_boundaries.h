// SPDX-License-Identifier: BSD-3-Clause
// Where kernels and libraries meet. What a library makes or reads lies in memory, as inputs and
// outputs do, so that kernels between two operations of libraries are a definition of their own:
// while the definition is rewritten, what a library made is an input of it, and what a library
// reads an output. All that is known of inputs and outputs holds for them: which views no kernel
// computes, what is looked up where it lies.
#pragma once

#include <fusion.h>
#include <preseg_passes/moved_views.h>

#include <unordered_set>
#include <vector>

namespace nvfuser {

struct LibraryBoundary {
  TensorView* made = nullptr;     // by a library for kernels, or the other way round: an output
  TensorView* stand_in = nullptr; // what reads it reads this input instead
};

// Cuts the fusion at what libraries make and read. `kept`: tensors that stay as they are.
std::vector<LibraryBoundary> cutAtLibraries(Fusion* fusion,
                                            const std::unordered_set<const TensorView*>& kept);

// Joins what was cut. Views of stand-ins and tensors that are made in another shape become
// MemoryViewOps, and are no longer among `views`; what is written in `parts` is a MemoryJoinOp of
// them. `outputs`: those of the definition.
void joinAtLibraries(Fusion* fusion, const std::vector<LibraryBoundary>& boundaries,
                     const std::vector<TensorView*>& outputs, const std::vector<OutputPart>& parts,
                     MovedViews& views);

} // namespace nvfuser
