// Outputs that are written into an input's storage, and the hazard in it: everybody who reads the
// old value must have read it before.
#pragma once

#include <fusion.h>
#include <segment/segment.h>

#include <unordered_set>
#include <vector>

namespace nvfuser {

struct InPlaceWrite {
  TensorView* output; // of the concrete fusion
  TensorView* input;  // whose storage it is written to
  bool through_copy =
      false; // `output` is a copy, made after everything else, of what was to be written
  bool misaligned = false; // the storage: no vectors may be written to it
};

// Gives the output the memory order of the input, and what is promised of that.
void takeLayoutOfInput(const InPlaceWrite& write);

// An output that is expanded where its input has elements gets all of them. Changes the fusion, its
// outputs and `outputs`.
void materializeExpandedWrites(Fusion* fusion, std::vector<InPlaceWrite>& writes,
                               std::vector<TensorView*>& outputs);

// Finds out which writes may be done directly by the kernel that computes the output: its threads
// read an element of the input, if at all, once and before they write the same element. (For that
// the input gets one reader, a register copy, if it has several.) The others are written to memory
// of their own and copied at the end. Changes the fusion and its outputs accordingly. With
// `overlap` all of them are: some other input may be the same memory.
void resolveInPlaceWrites(Fusion* fusion, std::vector<InPlaceWrite>& writes, bool overlap);

// The expressions that must come after all others.
std::unordered_set<const Expr*> finalCopies(const std::vector<InPlaceWrite>& writes);

// Whether the cut respects the direct writes; one that it does not is turned into a copy (the
// fusion must then be cut anew).
bool segmentsRespectWrites(Fusion* fusion, const SegmentedFusion& segmented,
                           std::vector<InPlaceWrite>& writes);

} // namespace nvfuser
