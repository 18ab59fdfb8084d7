// SPDX-License-Identifier: BSD-3-Clause
// See in_place_hazard.h.
#include <runtime/in_place_hazard.h>

#include <ir/describe.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace nvfuser {

bool sameShape(const TensorView* a, const TensorView* b) {
  const TensorDomain::Ids ids_a = logicalIds(a);
  const TensorDomain::Ids ids_b = logicalIds(b);
  return std::equal(ids_a.begin(), ids_a.end(), ids_b.begin(), ids_b.end(),
                    [](const IterDomain* x, const IterDomain* y) {
                      return x->isBroadcast() == y->isBroadcast();
                    });
}

bool isElementwise(const Expr* e) {
  return e->kind() == ExprKind::ElementwiseOp ||
         (e->kind() == ExprKind::LoadStoreOp && !isBoundary(e) &&
          !e->output(0)->as<TensorView>()->hasRoot());
}

namespace {

// The expressions that a tensor is computed by.
std::unordered_set<const Expr*> exprsBehind(const TensorView* tv) {
  std::unordered_set<const Expr*> behind;
  std::vector<const Expr*> stack{tv->definition()};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (e == nullptr || !behind.insert(e).second) {
      continue;
    }
    for (const Val* in : e->inputs()) {
      stack.push_back(in->definition());
    }
  }
  return behind;
}

} // namespace

bool isElementwiseUpdate(const Fusion* fusion, TensorView* input, const TensorView* output) {
  std::vector<TensorView*> stack{input};
  std::unordered_set<const TensorView*> seen{input};
  while (!stack.empty()) {
    TensorView* tv = stack.back();
    stack.pop_back();
    for (const Expr* use : fusion->liveUses(tv)) {
      if (!isElementwise(use)) {
        return false;
      }
      for (TensorView* out : tensorOutputs(use)) {
        if (!sameShape(out, input)) {
          return false;
        }
        if (seen.insert(out).second) {
          stack.push_back(out);
        }
      }
    }
  }
  return seen.count(output) != 0;
}

std::string inPlaceHazard(const Fusion* fusion, TensorView* input, TensorView* output) {
  const std::vector<Expr*> reads = fusion->liveUses(input);
  if (reads.empty()) {
    return {};
  }
  const std::unordered_set<const Expr*> before = exprsBehind(output);
  for (const Expr* read : reads) {
    if (before.count(read) == 0) {
      return "the output does not depend on the read of the input by " + describe(read) +
             ", which may come after the write";
    }
  }
  if (!isElementwiseUpdate(fusion, input, output)) {
    return "something is computed from other elements of the input than the one that is "
           "overwritten, which another thread may have written already";
  }
  for (const Val* out : fusion->outputs()) {
    if (!sameShape(out->as<TensorView>(), output)) {
      return "the output " + describe(out) +
             " has another shape: in its loops elements would be read and written more than once";
    }
  }
  return {};
}

std::pair<uintptr_t, uintptr_t> addressesOf(const ArgView& arg) {
  int64_t last = 0;
  for (int32_t d = 0; d < arg.rank; ++d) {
    if (arg.sizes[d] == 0) {
      return {1, 0};
    }
    last += (arg.sizes[d] - 1) * arg.strides[d];
  }
  const auto first = reinterpret_cast<uintptr_t>(arg.data);
  return {first, first + static_cast<uintptr_t>((last + 1) * dataTypeSizeBits(arg.dtype) / 8) - 1};
}

namespace {

void checkDistinctElements(const ArgView& arg, size_t position) {
  for (int32_t d = 0; d < arg.rank; ++d) {
    NVF_CHECK(arg.sizes[d] <= 1 || arg.strides[d] != 0, "add_output: input ", position,
              " is written in place, but its elements along dimension ", d, " (size ", arg.sizes[d],
              ", stride 0) are one in memory: clone() it before the call.");
  }
}

} // namespace

bool overlaps(std::span<const ArgView> args, std::span<const size_t> updated) {
  for (size_t position : updated) {
    if (position >= args.size() || !args[position].is_tensor) {
      continue;
    }
    checkDistinctElements(args[position], position);
    const auto [first, last] = addressesOf(args[position]);
    for (size_t i = 0; i < args.size(); ++i) {
      if (i == position || !args[i].is_tensor || args[i].device != args[position].device) {
        continue;
      }
      const auto [begin, end] = addressesOf(args[i]);
      if (first <= last && begin <= end && begin <= last && first <= end) {
        return true;
      }
    }
  }
  return false;
}

} // namespace nvfuser
