// SPDX-License-Identifier: BSD-3-Clause
// The passes that preseg_passes.cpp lists, in the order they run. Each is in a file of its own,
// which says why it is made.
#pragma once

#include <base/pass_log.h>
#include <fusion.h>
#include <machine.h>
#include <preseg_passes/in_place_write.h>
#include <preseg_passes/moved_views.h>
#include <preseg_passes/rewrites.h>

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

namespace nvfuser {

// Of rewrites of a fusion, which NVFUSER_DUMP=pre_segmenter_logging prints.
PassLog logOfPasses(Fusion* fusion);

// Gives each of the outputs that has no allocation domain the order of the first of those inputs
// that have most dimensions, if its dimensions are the output's.
void inferAllocationOrder(Fusion* fusion, const std::vector<TensorView*>& outputs);

// Computes parts of what is computed element by element of parts of inputs.
void sliceInputs(Fusion* fusion);
// What is read beside a copy of it that is one of these outputs is read off the output.
void computeIntoOutputs(Fusion* fusion, const std::vector<TensorView*>& outputs);

// What is returned with other dimensions than it is computed with is made with those, and what a
// library makes is returned as it is. Changes the fusion and its outputs. `kept`: tensors that stay
// as they are.
void makeOutputsBeforeViews(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                            MovedViews& views);
// What is an input seen with other dimensions is an input of its own, behind the others, that is a
// view of that one. Changes the fusion and its inputs. `kept`: tensors that stay as they are.
void takeViewsOfInputs(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                       MovedViews& views);

// Gives every tensor a dimension for each factor of its dimensions that reshapes merge or split, so
// that none of them is left: inputs are seen as views with more dimensions, outputs are made with
// more dimensions than they are returned with. A slice of an input that meets a reduction is a view
// of it as well. `kept`: tensors that stay as they are. Changes the fusion, its inputs and outputs.
// Its rounds, of which slicing inputs is a step, are passes of `log` (null: nobody asked).
void moveViewsToEnds(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                     MovedViews& moved, PassLog* log = nullptr);

// What is read along two axes is read as two tensors, computed again of views of inputs. `kept`:
// tensors that stay as they are. Changes the fusion and its inputs.
void separateAxes(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                  MovedViews& views);

// Reductions of a few elements, of which nothing else needs all, are operations on parts. Returns
// whether there were any.
bool addFewElements(Fusion* fusion);

// A library multiplies its products by constants that a kernel would multiply an operand or the
// result by, and nothing else.
void scaleProducts(Fusion* fusion);

// Makes products of 16-bit matrices of larger ones, and takes a part of the result, where a library
// is slow for their sizes (constants) and that is faster on this machine.
void padProducts(Fusion* fusion, const MachineModel& machine);

// Adds the biases of linear layers of float32 in kernels that read the results.
void separateBias(Fusion* fusion);

// An output that is expanded where its input has elements gets all of them. Changes the fusion, its
// outputs and `outputs`.
void materializeExpandedWrites(Fusion* fusion, std::vector<InPlaceWrite>& writes,
                               std::vector<TensorView*>& outputs);

// Writes that no kernel may make directly go through a copy, and all outputs that are written take
// the layout of their inputs. Changes the fusion and its outputs accordingly. With `overlap` all of
// them do: some other input may be the same memory.
void resolveInPlaceWrites(Fusion* fusion, std::vector<InPlaceWrite>& writes, bool overlap);

// Gives library ops views of their own where others need them too.
void separateViewsForLibraryOps(Fusion* fusion);

// Makes lookups of sums of where(iota == index, x, 0), if what is found can be computed of inputs.
void lookUpSelections(Fusion* fusion);

// Computes with what lookups find in inputs, rather than looking up in what is computed of them.
void lookUpInInputs(Fusion* fusion);

// Makes slices of lookups at known positions of what is computed, before elementwise operations.
void sinkLookups(Fusion* fusion);

// Makes a reduction that contains the reduced dimensions of another one, or some of them, in two
// steps. Returns whether there is such a one.
bool nestReductions(Fusion* fusion);

// Replaces the maximum and the sum of exponentials of a softmax by an OnlineSoftmaxOp. For rows of
// at least `repeated` elements, as these take several kernels anyway, other readers of the
// exponentials compute them again.
void mergeSoftmaxStatistics(Fusion* fusion, std::optional<double> repeated);

// Computes what is read before and after a reduction of at least so many elements again after it,
// where that is cheaper than to keep it.
void repeatAfterReductions(Fusion* fusion, double from_elements);

// Gives every reader of a widening cast a cast of its own.
void separateWideningCasts(Fusion* fusion);

// Makes reductions of columns that come with reductions of rows in two steps, with sums for each of
// groups of rows first: `wanted` says of how many, and which rows they have. Of a number that each
// launch chooses what stands for it is returned, else null.
Val* splitColumnReductions(Fusion* fusion, const Rewrites& wanted);

// Gives partial sums of columns the memory of the last rows of a result, which are computed after
// them, of views of inputs. Changes the fusion, its inputs and outputs.
void lendRows(Fusion* fusion, std::vector<TensorView*>& outputs, MovedViews& views,
              std::vector<OutputPart>& parts);

// Computes what columns sum again from the inputs, where that takes a few operations.
void repeatForColumns(Fusion* fusion);

// Gives what is computed element by element the order in memory of what it is computed of.
void orderIntermediates(Fusion* fusion);

} // namespace nvfuser
