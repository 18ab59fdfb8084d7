// SPDX-License-Identifier: BSD-3-Clause
// A reduction kernel passes over its rows once, and once more after each reduction that something
// waits for. Gives every pass (names here say stage) its own version of what is read in it, so that
// each is a loop nest that can be inlined as a whole. What crosses from one pass to a later one is
// kept in registers, or else read or computed again.
#pragma once

#include <fusion.h>
#include <ir/exprs.h>
#include <ir/op_traits.h>
#include <scheduler/loop_stages.h>
#include <scheduler/reduction_analysis.h>

#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nvfuser {

// It costs less to do again than to keep what it made.
bool takesFewInstructions(OpType op);

// What of a row stays in registers from one pass to the next.
enum class KeptOfRows {
  NothingAtAll, // nor from one loop nest of a pass to the next: rows are longer than registers
  Nothing,
  Functions, // of what is computed that which takes many instructions
  Shared,    // inputs that all rows share
  Inputs,    // all else is computed of them again
  All,       // but what a few instructions make again
  Everything
};

class StageSplitter {
 public:
  StageSplitter(Fusion* fusion, const ReductionAnalysis& analysis, KeptOfRows kept);

  void run();

  // Registers that an input is loaded into, with the input.
  std::vector<std::pair<TensorView*, TensorView*>> caches;

  // What is computed again, with what it was computed as first.
  std::vector<std::pair<TensorView*, TensorView*>> versions() const;

  // Bits for each element of a row that a persistent kernel has in registers where it has the most:
  // as its loads return, or across the end of a pass; or only of what is computed. Before run().
  int64_t mostBitsKept(bool of_inputs = true) const;

 private:
  // What `reader` reads of a tensor in that pass.
  TensorView* versionAt(TensorView* tv, int stage, const Expr* reader);
  // It squeezes a dimension that others have loops over: it reads an input outside of these.
  bool leavesLoops(const Expr* reader) const;
  void separateParts();
  // No loop nest finds what another one has of it in registers.
  bool isOfOneNest(TensorView* tv) const {
    const TensorView* of = original(tv);
    return analysis_.hasReducedDims(of) && (kept_ == KeptOfRows::NothingAtAll ||
                                            !(analysis_.hasWholeRows(of) || isKeptOfSubrows(of)));
  }
  // What was reduced is not reduced again.
  bool isKeptOfSubrows(const TensorView* tv) const {
    return analysis_.isOfSubrows(tv) && !tv->isFusionInput() &&
           (kept_ == KeptOfRows::All || kept_ == KeptOfRows::Everything);
  }
  bool isKept(const TensorView* tv) const {
    return isKeptOfSubrows(tv) ||
           (analysis_.hasWholeRows(tv) &&
            (kept_ == KeptOfRows::All || kept_ == KeptOfRows::Everything ||
             (kept_ == KeptOfRows::Functions && !tv->isFusionInput() &&
              isFunction(tv->definition())) ||
             (kept_ == KeptOfRows::Inputs && tv->isFusionInput()) ||
             (kept_ == KeptOfRows::Shared && tv->isFusionInput() && !analysis_.differsByRow(tv))));
  }
  TensorView* original(TensorView* tv) const {
    auto it = original_.find(tv);
    return it == original_.end() ? tv : it->second;
  }
  int64_t bitsLoadedFirst() const;
  bool isCheap(const TensorView* tv) const;
  bool isKeptAnyway(const TensorView* tv, std::optional<int> until) const;
  std::optional<int64_t> bitsItStartsFrom(const TensorView* tv, std::optional<int> until,
                                          int& ops) const;
  int latestPassOf(const Expr* e) const;
  bool isReadFirst(const TensorView* tv) const {
    auto it = passes_.find(tv);
    return it != passes_.end() && it->second.first == 0;
  }
  int lastPass(const TensorView* tv) const {
    auto it = passes_.find(tv);
    return it == passes_.end() ? -1 : it->second.last;
  }

  Fusion* fusion_;
  const ReductionAnalysis& analysis_;
  KeptOfRows kept_;
  struct Version {
    TensorView* of;
    int stage;
    bool is_squeezed;
    auto operator<=>(const Version&) const = default;
  };
  std::map<Version, TensorView*> versions_;
  // That read a tensor of the definition, if each of its operations is in the latest pass that it
  // can be in.
  struct Passes {
    int first;
    int last;
  };
  std::unordered_map<const TensorView*, Passes> passes_;
  mutable std::unordered_map<const TensorView*, bool> is_cheap_; // as far as it was asked
  std::unordered_map<TensorView*, TensorView*> original_; // of caches and recomputed versions
};

} // namespace nvfuser
