// SPDX-License-Identifier: BSD-3-Clause
// VersionTensors: gives each version of a PointwiseAnalysis a tensor of its own, with the copies
// through which inputs are loaded and outputs are stored, and lets all of them follow the loops of
// one reference tensor.
#pragma once

#include <scheduler/pointwise_analysis.h>

#include <functional>
#include <unordered_map>
#include <vector>

namespace nvfuser {

// An input passes computed (-> staged) -> cache (-> shared -> exchanged), an output computed (->
// shared -> exchanged) -> stored. Null where a step is left out.
struct VersionTensor {
  TensorView* computed = nullptr;  // holds the definition, or the input itself
  TensorView* staged = nullptr;    // shared memory that an input is loaded into first
  TensorView* cache = nullptr;     // registers that an input is loaded into
  TensorView* shared = nullptr;    // hands the elements to other threads of the block
  TensorView* exchanged = nullptr; // registers that are filled from there
  TensorView* stored = nullptr;    // output that is copied to
  bool vectorize = false;          // the access to global memory

  // What consumers read.
  TensorView* source() const {
    return cache == nullptr ? computed : exchanged != nullptr ? exchanged : cache;
  }
};

class VersionTensors {
 public:
  VersionTensors(Fusion* fusion, const PointwiseAnalysis& analysis);

  // Rewrites the fusion: copies of computed tensors that have several versions, caches of the
  // inputs (if `staged`), separate registers for outputs that are read again (if `staged`: for
  // all). Versions in `exchanged` go through shared memory.
  void rewrite(bool staged, const std::vector<bool>& exchanged = {});

  const std::vector<VersionTensor>& all() const {
    return tensors_;
  }
  VersionTensor& of(const TensorVersion& version);
  // After rewrite(): the input comes into shared memory by bulk copies. It has one version.
  void stageInBulk(const TensorVersion& version);
  // The tensor whose loops the others follow: the reference output, or what is computed of it if it
  // goes through shared memory.
  TensorView* reference() const {
    return reference_;
  }

  // Gives every tensor the loops and the parallel types of the reference, but leaves those out that
  // `others` lists.
  void propagate(const std::function<bool(const TensorView*)>& others = nullptr);
  // For each loop axis of a tensor the position of the reference's axis that it is, or -1, as of
  // the last time that it was propagated to.
  const std::vector<int64_t>& referenceAxes(const TensorView* tv) const {
    return reference_axes_.at(tv);
  }
  // Number of leading loop axes that are the reference's axes before `end`.
  int64_t sharedAxes(const TensorView* tv, int64_t end) const;
  // The same up to the last of the reference's axes. What follows are dimensions of one element
  // that no axis contains: they need no common loop, and of two neighbours only one may have them.
  int64_t axesToLastShared(const TensorView* tv) const;
  // Accesses the elements along the reference's `axis` by vectors, if that is the tensor's last one
  // of the reference's axes. Dimensions of one element that no axis contains come before it.
  void vectorize(TensorView* tv, int64_t axis);

  // No slice or pad lies between the tensor and the reference.
  static bool isReadWhole(const PointwiseAnalysis& analysis, const TensorVersion& version);

 private:
  TensorView* rewriteDefinition(TensorView* tv, const TensorVersion& version, bool original);
  TensorView* copyOf(TensorView* tv);
  void separateOutputs(bool staged, const std::vector<bool>& exchanged);
  static bool readsInput(const TensorView* consumer, const VersionTensor& input);
  using Kind = TensorVersion::Parent;
  void follow(TensorView* tv, TensorView* neighbour, Kind kind);
  void followReference(TensorView* tv, const View& view);
  void setReferenceAxes(TensorView* tv, std::vector<int64_t> own);

  Fusion* fusion_;
  const PointwiseAnalysis& analysis_;
  std::vector<VersionTensor> tensors_; // by version
  TensorView* reference_ = nullptr;
  std::unordered_map<const TensorView*, std::vector<int64_t>> reference_axes_;
};

} // namespace nvfuser
