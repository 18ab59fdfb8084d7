// SPDX-License-Identifier: BSD-3-Clause
// Propagation: applying one tensor's schedule to the others.
#pragma once

#include <fusion.h>
#include <transform/tensor_graph.h>

#include <unordered_set>
#include <vector>

namespace nvfuser {

// One edge of a spanning tree: `to` follows `from`.
struct PropagationStep {
  TensorView* from;
  TensorView* to;
  // `to` is the producer.
  bool backward;
  // `to` is another version of `from`.
  bool is_version = false;
};

// The spanning tree from `reference` to every tensor that is connected to it (through selected
// tensors, if any are given), in an order in which `from` has been reached before. The path to each
// tensor is the one that keeps the most of the reference's dimensions with iterations, then of all;
// among equals, paths against the flow of data and not through fusion inputs come first.
std::vector<PropagationStep> maxInfoSpanningTree(
    const TensorGraph& graph, TensorView* reference,
    const std::unordered_set<TensorView*>& selected = {});

// Replays the reference's loop transforms on all (or the selected) tensors, through reshape,
// resize, broadcast and squeeze as far as dimensions correspond.
void transformLike(TensorView* reference, const std::vector<TensorView*>& selected = {});
void transformLike(const TensorGraph& graph, TensorView* reference,
                   const std::vector<TensorView*>& selected = {});

// Replays the first `pos` loop axes of `from` (-1: all) on what lies between it and `to`, which are
// left as they are. Without `to`: on all tensors that it depends on.
void boundedTransformBackward(TensorView* from, int64_t pos, const std::vector<TensorView*>& to,
                              bool propagate_parallel_type = false);

namespace scheduler_utils {

// Copies the parallel types of the reference's first `pos` loop axes (-1: all) to the axes of all
// (or the selected) tensors that are the same iteration; a broadcast counts as what it is broadcast
// to. Fusion inputs are not computed and stay as they are. `selected_parallel_types` empty: every
// type. A Serial axis of the reference leaves the others' as they are. `propagate_padding` has
// nothing to copy: axes are not padded to warps.
void parallelizeAllLike(TensorView* reference, int64_t pos = -1,
                        const std::vector<TensorView*>& selected_tensors = {},
                        const std::unordered_set<ParallelType>& selected_parallel_types = {},
                        bool propagate_padding = true);
void parallelizeAllLike(const TensorGraph& graph, TensorView* reference, int64_t pos,
                        const std::vector<TensorView*>& selected_tensors,
                        const std::unordered_set<ParallelType>& selected_parallel_types);

} // namespace scheduler_utils

// For each tensor of the graph and each of its loop axes: the loop axis of `reference` that it is,
// or -1. Tensors without any such axis are not listed.
std::unordered_map<TensorView*, std::vector<int64_t>> mapAxesToReference(const TensorGraph& graph,
                                                                         TensorView* reference);

} // namespace nvfuser
