// SPDX-License-Identifier: BSD-3-Clause
// See kernel_size.h.
#include <segment/kernel_size.h>

#include <ir/exprs.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>
#include <preseg_passes/input_bits.h>
#include <segment/transform_depth.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {
namespace {

using Exprs = std::vector<Expr*>;

// Measured in docs/measurements/kernel_size.md: up to these sizes the time of NVRTC and of g++ for
// an operation does not grow, and a kernel is large enough that passing tensors on costs little.
constexpr int64_t kMostOperations = 128;
constexpr int64_t kMostReductions = 16;
// Inputs and outputs. Each takes 8 bytes and 16 for each dimension of the kernel's parameters.
constexpr int64_t kMostTensors = 48;
// 32-bit registers for each element, of the values that are made and not yet read by all.
constexpr int64_t kMostLiveRegisters = 32;

// Bytes that pass between kernels count so much less for tensors without all dimensions.
constexpr int64_t kElementsOfRow = 64;

// What is only seen in another shape, or under another name, takes no instruction.
bool isFree(const Expr* e) {
  return movesElements(e) && e->kind() != ExprKind::SliceOp;
}

// Operations that one counts as. Functions that reduce arguments of any size have long texts, whose
// compile time grows faster than their number (docs/measurements/kernel_size.md).
int64_t weightOf(const Expr* e) {
  constexpr int64_t kReducesArguments = 3;
  const auto* op = tryAs<ElementwiseOp>(e);
  if (op != nullptr &&
      (op->op() == OpType::Sin || op->op() == OpType::Cos || op->op() == OpType::Tan)) {
    return kReducesArguments;
  }
  return isFree(e) ? 0 : 1;
}

// The same expressions with few values alive at a time: depth first, of several operands the one
// first that takes the longest chain of operations.
Exprs depthFirst(const Exprs& exprs) {
  std::unordered_map<const Expr*, int64_t> height;
  std::unordered_set<const Expr*> read;
  auto makers = [&](const Expr* e) {
    Exprs out;
    for (const TensorView* in : tensorInputs(e)) {
      if (in->definition() != nullptr && height.count(in->definition()) != 0) {
        out.push_back(in->definition());
      }
    }
    return out;
  };
  for (const Expr* e : exprs) {
    int64_t highest = 0;
    for (const Expr* maker : makers(e)) {
      highest = std::max(highest, height.at(maker));
      read.insert(maker);
    }
    height[e] = highest + 1;
  }
  Exprs last;
  std::copy_if(exprs.begin(), exprs.end(), std::back_inserter(last),
               [&](const Expr* e) { return read.count(e) == 0; });
  auto is_lower = [&](const Expr* a, const Expr* b) { return height.at(a) < height.at(b); };
  std::stable_sort(last.begin(), last.end(), is_lower);

  Exprs out;
  std::unordered_set<const Expr*> begun;
  std::unordered_set<const Expr*> done;
  for (Expr* each : last) {
    Exprs stack{each};
    while (!stack.empty()) {
      Expr* e = stack.back();
      if (begun.insert(e).second) {
        Exprs operands = makers(e);
        std::stable_sort(operands.begin(), operands.end(), is_lower); // the highest on top
        std::copy_if(operands.begin(), operands.end(), std::back_inserter(stack),
                     [&](const Expr* maker) { return begun.count(maker) == 0; });
      } else {
        stack.pop_back();
        if (done.insert(e).second) {
          out.push_back(e);
        }
      }
    }
  }
  return out;
}

// Follows a kernel as it grows by one expression after the other.
class Sizes {
 public:
  explicit Sizes(Exprs exprs) : exprs_(std::move(exprs)), read_last_(exprs_.size()) {
    std::unordered_map<const TensorView*, size_t> last_read;
    std::unordered_set<const Expr*> inside(exprs_.begin(), exprs_.end());
    for (size_t i = 0; i < exprs_.size(); ++i) {
      for (const TensorView* in : tensorInputs(exprs_[i])) {
        last_read[in] = i;
        dims_ = std::max(dims_, concreteDims(in));
      }
      for (const TensorView* out : tensorOutputs(exprs_[i])) {
        dims_ = std::max(dims_, concreteDims(out));
        const auto& uses = out->uses();
        if (out->isFusionOutput() || std::any_of(uses.begin(), uses.end(), [&](const Expr* use) {
              return inside.count(use) == 0;
            })) {
          written_.insert(out);
        }
      }
    }
    for (const auto& [tv, i] : last_read) {
      read_last_[i].push_back(tv);
      is_read_.insert(tv);
    }
  }

  const Exprs& exprs() const {
    return exprs_;
  }

  // The end of the largest kernel that begins at an expression, and why it is not larger.
  size_t endOfLargest(size_t begin, std::string* why) const {
    int64_t operations = 0;
    int64_t reductions = 0;
    int64_t tensors = 0;
    int64_t live_bits = 0;
    std::unordered_set<const Val*> inside;
    std::unordered_map<const Val*, int64_t> live;
    auto begin_life = [&](const TensorView* tv) {
      if (is_read_.count(tv) != 0 && concreteDims(tv) == dims_) {
        live_bits += live[tv] = std::max<int64_t>(dataTypeSizeBits(tv->dtype()), 32);
      }
    };
    for (size_t i = begin; i < exprs_.size(); ++i) {
      const Expr* e = exprs_[i];
      operations += weightOf(e);
      reductions += isReduction(e) || e->kind() == ExprKind::ScanOp ? 1 : 0;
      for (const TensorView* in : tensorInputs(e)) {
        if (inside.insert(in).second) {
          ++tensors;
          begin_life(in);
        }
      }
      for (const TensorView* out : tensorOutputs(e)) {
        inside.insert(out);
        tensors += written_.count(out) != 0 ? 1 : 0;
        begin_life(out);
      }
      *why = whyNot(operations, reductions, tensors, live_bits / 32);
      if (!why->empty()) {
        return std::max(i, begin + 1); // one that is too large alone stays
      }
      for (const TensorView* tv : read_last_[i]) {
        if (auto it = live.find(tv); it != live.end()) {
          live_bits -= it->second;
        }
      }
    }
    return exprs_.size();
  }

  // Of a cut before each expression: bits for each element that are written and read, or read
  // again.
  std::vector<int64_t> costsOfCuts() const {
    std::vector<int64_t> costs(exprs_.size() + 1, 0);
    std::unordered_set<const Val*> seen;
    int64_t cost = 0;
    std::unordered_map<const Val*, int64_t> cost_of;
    auto begin_life = [&](const TensorView* tv, bool is_written) {
      if (is_read_.count(tv) != 0 && seen.insert(tv).second) {
        const int64_t weight = concreteDims(tv) == dims_ ? kElementsOfRow : 1;
        cost += cost_of[tv] = weight * dataTypeSizeBits(tv->dtype()) * (is_written ? 2 : 1);
      }
    };
    for (size_t i = 0; i < exprs_.size(); ++i) {
      for (const TensorView* in : tensorInputs(exprs_[i])) {
        begin_life(in, false);
      }
      for (const TensorView* out : tensorOutputs(exprs_[i])) {
        begin_life(out, written_.count(out) == 0);
      }
      for (const TensorView* tv : read_last_[i]) {
        cost -= cost_of.at(tv);
      }
      costs[i + 1] = cost;
    }
    return costs;
  }

 private:
  static std::string whyNot(int64_t operations, int64_t reductions, int64_t tensors,
                            int64_t registers) {
    auto more = [](int64_t limit, const char* what) {
      return "one kernel would have more than " + std::to_string(limit) + " " + what;
    };
    return operations > kMostOperations     ? more(kMostOperations, "operations")
           : reductions > kMostReductions   ? more(kMostReductions, "reductions")
           : tensors > kMostTensors         ? more(kMostTensors, "inputs and outputs")
           : registers > kMostLiveRegisters ? more(kMostLiveRegisters, "registers for each element")
                                            : "";
  }

  Exprs exprs_;
  std::vector<std::vector<const TensorView*>>
      read_last_;                          // what each expression is the last to read
  std::unordered_set<const Val*> written_; // by a kernel in any case
  std::unordered_set<const Val*> is_read_;
  int64_t dims_ = 0; // of the tensors with the most of them
};

// Where it costs least to end a kernel, of the second half of what is the largest one: as late as
// possible.
size_t cheapestEnd(const std::vector<int64_t>& costs, size_t begin, size_t end) {
  size_t best = end;
  for (size_t i = end; i > begin + (end - begin) / 2; --i) {
    best = costs[i] < costs[best] ? i : best;
  }
  return best;
}

} // namespace

std::string whyTooLarge(const std::vector<Expr*>& exprs) {
  std::string why;
  if (!cutsOfDeepTransforms(exprs).empty()) {
    why = kTooManyTransforms;
  } else if (exprs.size() > 1) {
    Sizes(depthFirst(exprs)).endOfLargest(0, &why);
  }
  return why;
}

std::vector<std::vector<Expr*>> piecesOfBoundedSize(const std::vector<Expr*>& exprs) {
  const Sizes sizes(depthFirst(exprs));
  const std::vector<int64_t> costs = sizes.costsOfCuts();
  const auto at = [&](size_t i) { return sizes.exprs().begin() + static_cast<std::ptrdiff_t>(i); };
  std::vector<Exprs> pieces;
  for (size_t begin = 0; begin < exprs.size();) {
    std::string why;
    size_t end = sizes.endOfLargest(begin, &why);
    end = why.empty() ? end : cheapestEnd(costs, begin, end);
    pieces.emplace_back(at(begin), at(end));
    begin = end;
  }
  return pieces;
}

} // namespace nvfuser
