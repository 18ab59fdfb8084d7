// SPDX-License-Identifier: BSD-3-Clause
// PointwiseAnalysis: how every tensor of a fusion relates to one reference output, independent of
// shapes.
//
// The reference's logical dimensions are numbered; they are the *axes*. A tensor's *view* tells for
// each axis what it is in terms of the tensor's own dimensions: one of them, a merge or a part of a
// split of them (a reshape lies between), a resized one (a slice or a pad lies between), or nothing
// (the tensor is broadcast along it). All tensors of one kernel run through the reference's loops,
// so a tensor that is needed under two different views must be computed twice, or read twice if it
// is a fusion input.
#pragma once

#include <fusion.h>
#include <id_model/axis_terms.h>
#include <transform/tensor_graph.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace nvfuser {

// One term per axis of the reference. Dimensions of the tensor that no axis contains (extents of 1
// that are squeezed, mostly) follow as terms of their own.
using View = std::vector<AxisTerms::Id>;

// A tensor as it is needed under one view.
struct TensorVersion {
  TensorView* tv = nullptr;
  View view;
  // For each input of the definition: the version of that tensor, or -1 for scalars.
  std::vector<int> inputs;
  // The version whose loops this one follows, -1 for the reference; and what that is to it: its
  // consumer, its producer, or the reference of the same sizes, with which nothing connects it.
  enum class Parent { Consumer, Producer, OfSameSizes };
  int parent = -1;
  Parent kind = Parent::Consumer;
};

class PointwiseAnalysis {
 public:
  // Why there is no schedule, or empty. Tries the outputs of highest rank as reference.
  static std::unique_ptr<PointwiseAnalysis> run(Fusion* fusion, std::string* why_not);

  TensorView* reference = nullptr;
  // [0] is the reference. Consumers come before their producers, but for the versions that hang on
  // another output than the reference: those follow after.
  std::vector<TensorVersion> versions;
  AxisTerms terms;
  // Number of axes.
  size_t num_axes = 0;
  // Axes from the outermost loop to the innermost: the memory order of most of the data.
  std::vector<int64_t> loop_order;
  // Tensors that would have to be computed twice but are too expensive, or that separate outputs
  // which cannot share the reference's loops. Only filled when there is no schedule.
  std::vector<TensorView*> conflicts;

  // The versions of a tensor, in order; the first is the tensor itself.
  const std::vector<int>& versionsOf(const TensorView* tv) const;
  // The version by which an input or output of the fusion is accessed; the first for several.
  const TensorVersion* firstVersion(const TensorView* tv) const;
  // Dimensions that are not broadcast move with the axis.
  bool hasAxis(const TensorVersion& version, int64_t axis) const;
  // Where the last dimension of an axis stands among these; -1: it has none of them.
  int64_t placeOf(AxisTerms::Id axis, const std::vector<size_t>& dimensions) const;

 private:
  bool analyze(Fusion* fusion, const TensorGraph& graph, TensorView* candidate,
               size_t max_versions);
  int demand(TensorView* tv, View view, int parent, TensorVersion::Parent kind);
  bool demandProducers(size_t max_versions);
  std::optional<View> viewOfSameSizes(const TensorView* tv);
  bool needsNoCopies(const TensorView* tv, const View& view);
  bool adoptOutput(const TensorGraph& graph, TensorView* out);
  // The terms that follow those of the axes.
  void sortOthers(View& view) const;
  View viewOfProducer(const TensorView* producer, const TensorView* consumer, const View& view);
  std::optional<View> viewOfConsumer(const TensorView* consumer, const TensorView* producer,
                                     const View& view);
  View sureViewOfConsumer(const TensorView* consumer, const TensorView* producer, View view) const;
  bool coversForWriting(const TensorView* tv, const View& view) const;
  // Empty: the tensor lacks an axis, or its memory is not made of its dimensions.
  std::vector<int64_t> axesInMemory(const TensorView* tv) const;
  void chooseLoopOrder(Fusion* fusion);

  std::unordered_map<const TensorView*, std::vector<int>> versions_of_;
  size_t num_copies_ = 0;
  std::unordered_map<const TensorView*, int64_t> position_; // in topological order
  // Versions whose producers are still to be demanded, consumers first: by position from the end,
  // and by number.
  std::set<std::pair<int64_t, int>> pending_;
};

} // namespace nvfuser
