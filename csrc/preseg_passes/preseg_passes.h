// SPDX-License-Identifier: BSD-3-Clause
// Rewrites of a definition, from fusion to fusion, before it is cut into segments. They run in one
// order, which preseg_passes.cpp lists; each has a file of its own, and a golden test that is named
// like it (tests/cpp/test_preseg_*.cpp).
//
// Some rewrites are made for every definition, others for schedulers that want them
// (preseg_passes/rewrites.h). What a pass finds out that is needed later is a field of the result.
#pragma once

#include <fusion.h>
#include <machine.h>
#include <preseg_passes/in_place_write.h>
#include <preseg_passes/library_boundaries.h>
#include <preseg_passes/moved_views.h>
#include <preseg_passes/rewrites.h>

#include <vector>

namespace nvfuser {

// A definition without Symbolic domains, on its way to the cut.
struct PresegFusion {
  Fusion* fusion = nullptr;
  // The tensors that are returned or written to an input: outputs of the fusion, which passes may
  // replace.
  std::vector<TensorView*> outputs;
  // Outputs that are written to the storage of inputs.
  std::vector<InPlaceWrite> writes;
  // Storage that is written is also read through another argument.
  bool overlap = false;
  // Out: how many row groups have sums of the columns of their own, where each launch chooses it.
  Val* row_groups = nullptr;
  // Out: outputs that lie in those that are returned.
  std::vector<OutputPart> parts = {};
  // Out: inputs that kernels see in another shape, outputs that they make in another one.
  MovedViews views = {};
  // Out: where kernels and libraries meet.
  std::vector<LibraryBoundary> boundaries = {};
  // Out: for each output what the caller gets of what kernels make. Empty: that.
  std::vector<ReturnedView> returned = {};
};

// Before schedulers are asked: how outputs lie in memory, and which views no kernel computes.
// Leaves the definition cut at what libraries make and read.
// `machine`: a GPU, whose library wants products of matrices otherwise; null: they stay.
void settleLayouts(PresegFusion& definition, const MachineModel* machine = nullptr);

// Runs all other passes, and joins the definition again. NVFUSER_DUMP=pre_segmenter_logging prints
// the fusion after each that changed it, and the time that it took.
void runPresegPasses(PresegFusion& definition, const Rewrites& wanted);

} // namespace nvfuser
