// SPDX-License-Identifier: BSD-3-Clause
// Products of 16-bit matrices whose rows are no multiple of 16 bytes take a library three to seven
// times as long as those of matrices that are a little larger (docs/measurements/products.md):
// attention of 197 patches, a vocabulary of 50257. So they are made of larger ones. Zeros are added
// to operands where a kernel writes them, and what is wanted of the result is a part of it, which
// kernels read where it lies.
//
// Zeros that are added to a sum change no result, but for the order of the sum, in which a library
// has its way anyway.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ir/library_table.h>
#include <ir/visitor.h>
#include <ops/creation.h>
#include <ops/library.h>
#include <ops/shape.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>

namespace nvfuser {

namespace {

using Sizes = std::vector<int64_t>;

// Elements of 16 bytes, or of two such vectors where that adds little.
int64_t paddedSize(int64_t size) {
  const int64_t step = size >= 16 * kElementsOfVector ? 2 * kElementsOfVector : kElementsOfVector;
  return size % kElementsOfVector == 0 ? size : (size + step - 1) / step * step;
}

// The dimension of the operand of a permutation or a reshape that is a dimension of its result.
std::optional<size_t> dimBefore(const Expr* e, size_t dim) {
  if (const std::vector<int64_t> order = permutationOf(e); !order.empty()) {
    return static_cast<size_t>(order[dim]);
  }
  if (e->kind() != ExprKind::ReshapeOp) {
    return std::nullopt;
  }
  const auto in = knownSizes(e->input(0)->as<TensorView>());
  const auto out = knownSizes(e->output(0)->as<TensorView>());
  const size_t inner = logicalIds(e->output(0)).size() - dim;
  if (!in.has_value() || !out.has_value() || in->size() < inner ||
      !std::equal(out->end() - static_cast<std::ptrdiff_t>(inner), out->end(),
                  in->end() - static_cast<std::ptrdiff_t>(inner))) {
    return std::nullopt;
  }
  return in->size() - inner;
}

// The views in whose memory order a dimension is what it was before.
const Expr* viewOf(const TensorView* tv) {
  const Expr* e = tv->definition();
  const bool is_view = e != nullptr && !tv->domain()->hasAllocation() && !tv->isFusionOutput() &&
                       (e->kind() == ExprKind::ReshapeOp || !permutationOf(e).empty());
  return is_view ? e : nullptr;
}

// The dimension along which elements lie next to each other.
size_t innermost(const TensorView* tv) {
  const size_t rank = logicalIds(tv).size();
  if (const Expr* e = viewOf(tv)) {
    const size_t before = innermost(e->input(0)->as<TensorView>());
    for (size_t d = 0; d < rank; ++d) {
      if (dimBefore(e, d) == before) {
        return d;
      }
    }
    return rank - 1;
  }
  const auto ids = logicalIds(tv);
  const auto& memory = tv->getMaybeAllocationDomain();
  const auto at = memory.empty() ? ids.end() : std::find(ids.begin(), ids.end(), memory.back());
  return at == ids.end() ? rank - 1 : static_cast<size_t>(at - ids.begin());
}

int64_t bytesOf(const Sizes& sizes) {
  return 2 * std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

class ProductPadder : public Rewriter {
 public:
  ProductPadder(Fusion* fusion, const MachineModel& machine)
      : Rewriter(fusion), machine_(machine) {}

 private:
  struct Product {
    bool is_linear = false;
    TensorView* a = nullptr; // [.., m, k]
    TensorView* b = nullptr; // [.., k, n], of linear [n, k]
    TensorView* bias = nullptr;
    Val* alpha = nullptr;
    TensorView* out = nullptr;               // [.., m, n]
    size_t a_row, a_column, b_row, b_column; // dimensions
    int64_t m, n, k, batch;
    int64_t more_m = 0, more_n = 0, more_k = 0;
  };

  void rewrite(Expr* e) override {
    std::optional<Product> product = productOf(tryAs<LibraryOp>(e));
    if (!product.has_value()) {
      return;
    }
    Product& p = *product;
    const bool a_has_columns = innermost(p.a) == p.a_column;
    const bool b_has_columns = innermost(p.b) == p.b_column;
    p.more_k = a_has_columns || !b_has_columns ? paddedSize(p.k) - p.k : 0;
    p.more_m = !a_has_columns ? paddedSize(p.m) - p.m : 0;
    p.more_n = paddedSize(p.n) - p.n;
    if ((p.more_k == 0 && p.more_m == 0 && p.more_n == 0) || gain(p) < costs(p)) {
      return;
    }
    TensorView* a = padded(padded(p.a, p.a_column, p.more_k), p.a_row, p.more_m);
    TensorView* b = padded(padded(p.b, p.b_row, p.more_k), p.b_column, p.more_n);
    if (p.more_m == 0 && p.more_n == 0 && p.a != p.b) { // the result is what it was
      copyExprWith(fusion_, e, {{p.a, a}, {p.b, b}});
      return;
    }
    TensorView* bias = p.bias == nullptr ? nullptr : padded(p.bias, 0, p.more_n);
    TensorView* out = p.is_linear ? linear(a, b, bias, p.alpha) : matmul(a, b, p.alpha);
    if (p.more_m != 0 || p.more_n != 0) {
      const Sizes stops = *knownSizes(p.out);
      out = nvfuser::slice(out, Sizes(stops.size(), 0), stops);
    }
    replace(p.out, out);
  }

  static std::optional<Product> productOf(const LibraryOp* op) {
    if (op == nullptr || (op->op() != LibraryOpType::Matmul && op->op() != LibraryOpType::Linear)) {
      return std::nullopt;
    }
    Product p;
    const std::vector<Val*> operands = op->operands();
    p.is_linear = op->op() == LibraryOpType::Linear;
    p.a = operands[0]->as<TensorView>();
    p.b = operands[1]->as<TensorView>();
    p.bias = p.is_linear && operands[2] != nullptr ? operands[2]->as<TensorView>() : nullptr;
    p.alpha = operands.back();
    p.out = op->output(0)->as<TensorView>();
    const auto a = knownSizes(p.a);
    const auto b = knownSizes(p.b);
    const bool is_16_bit = p.a->dtype() == DataType::BFloat16 || p.a->dtype() == DataType::Half;
    if (!is_16_bit || !a.has_value() || !b.has_value() || a->size() < 2 || b->size() < 2 ||
        (p.is_linear && b->size() != 2) || !knownSizes(p.out).has_value()) {
      return std::nullopt;
    }
    p.a_row = a->size() - 2;
    p.a_column = a->size() - 1;
    p.b_row = p.is_linear ? 1 : b->size() - 2; // along k
    p.b_column = p.is_linear ? 0 : b->size() - 1;
    p.m = (*a)[p.a_row];
    p.k = (*a)[p.a_column];
    p.n = (*b)[p.b_column];
    if (p.m <= 1 || p.n <= 1 || p.k <= 1) { // a product with a vector
      return std::nullopt;
    }
    const Sizes out = *knownSizes(p.out);
    p.batch =
        std::accumulate(out.begin(), out.end(), int64_t{1}, std::multiplies<>()) / (p.m * p.n);
    return p;
  }

  // Microseconds.
  double gain(const Product& p) const {
    const auto tiles = [](int64_t size) { return static_cast<double>((size + 63) / 64 * 64); };
    double speed = std::numeric_limits<double>::max();
    const auto takes = [&](int64_t more, int64_t size, double odd_speed) {
      if (more != 0) {
        speed = std::min(speed, odd_speed * (size % 2 == 0 ? machine_.narrow_product_speed : 1));
      }
    };
    takes(p.more_n, p.n, machine_.odd_result_speed);
    takes(p.more_m, p.m, machine_.odd_operand_speed);
    takes(p.more_k, p.k, machine_.odd_operand_speed);
    const double flops = 2.0 * static_cast<double>(p.batch * p.k) * tiles(p.m) * tiles(p.n);
    const double bytes =
        2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m * p.k + p.k * p.n + p.m * p.n);
    return flops / speed -
           std::max(flops / machine_.product_speed, bytes / machine_.product_bandwidth);
  }

  double costs(const Product& p) {
    double us = 0;
    if (p.more_k != 0 || p.more_m != 0) {
      us += costOf(p.a);
    }
    if (p.more_k != 0 || p.more_n != 0) {
      us += costOf(p.b);
    }
    if ((p.more_m != 0 || p.more_n != 0) && isReturned(p.out)) {
      us += copyOf(p.out);
    }
    return us;
  }

  double copyOf(const TensorView* tv) const {
    return machine_.kernel_start +
           2 * static_cast<double>(bytesOf(*knownSizes(tv))) / machine_.memory_bandwidth;
  }

  // Of an operand with zeros. Kernels may write them with it, or beside it.
  double costOf(const TensorView* tv) {
    while (const Expr* e = viewOf(tv)) {
      tv = e->input(0)->as<TensorView>();
    }
    if (making(tv) == Making::Read) {
      return copyOf(tv);
    }
    const double written =
        static_cast<double>(bytesOf(*knownSizes(tv))) / machine_.memory_bandwidth;
    return machine_.kernel_start + (isReturned(tv) ? written : 0);
  }

  // Views of it included.
  static bool isReturned(const TensorView* tv) {
    return tv->isFusionOutput() ||
           std::any_of(tv->uses().begin(), tv->uses().end(), [](const Expr* use) {
             const bool is_view = use->kind() == ExprKind::ReshapeOp || !permutationOf(use).empty();
             return is_view && use->output(0)->isFusionOutput();
           });
  }

  enum class Making : uint8_t { Read, Elementwise, Reduced };
  Making making(const TensorView* tv) {
    visitOperandsFirst(
        tv, [&](const TensorView* each) { return making_.count(each) != 0; },
        [](const TensorView* each, const auto& add) {
          const Expr* e = each->definition();
          if (e != nullptr && e->kind() != ExprKind::LibraryOp) {
            std::ranges::for_each(tensorInputs(e), add);
          }
        },
        [&](const TensorView* each) {
          const Expr* e = each->definition();
          Making& most = making_[each];
          if (e == nullptr || e->kind() == ExprKind::LibraryOp) {
            most = Making::Read;
            return;
          }
          most = Making::Read;
          for (const TensorView* in : tensorInputs(e)) {
            most = std::max(most, making_.at(in));
          }
          if (isReduction(e)) {
            most = Making::Reduced;
          } else if (e->kind() != ExprKind::SliceOp && viewOf(each) == nullptr) {
            most = std::max(most, Making::Elementwise);
          }
        });
    return making_.at(tv);
  }

  // With so many zeros behind a dimension.
  TensorView* padded(TensorView* tv, size_t dim, int64_t more) {
    if (more == 0) {
      return tv;
    }
    const auto [it, is_new] = padded_.try_emplace({tv, dim, more}, nullptr);
    if (!is_new) {
      return it->second;
    }
    TensorView* out = nullptr;
    const Expr* view = viewOf(tv);
    const std::optional<size_t> before = view == nullptr ? std::nullopt : dimBefore(view, dim);
    if (before.has_value()) {
      out = padded(view->input(0)->as<TensorView>(), *before, more);
      if (const std::vector<int64_t> order = permutationOf(view); !order.empty()) {
        out = permute(out, order);
      } else {
        Sizes sizes = *knownSizes(tv);
        sizes[dim] += more;
        out = reshape(out, sizes);
      }
    } else if (making(tv) == Making::Reduced || isReturned(tv) || tv->uses().size() > 1) {
      Sizes sizes = *knownSizes(tv);
      sizes[dim] = more;
      std::vector<Val*> extents;
      std::ranges::transform(sizes, std::back_inserter(extents),
                             [](int64_t size) { return IrBuilder::index(size); });
      out = cat({tv, full(extents, IrBuilder::create<Val>(0.0, DataType::Double), tv->dtype())},
                static_cast<int64_t>(dim));
    } else {
      Sizes widths(2 * logicalIds(tv).size(), 0);
      widths[2 * (logicalIds(tv).size() - 1 - dim) + 1] = more;
      out = pad(tv, widths);
    }
    return padded_[{tv, dim, more}] = out;
  }

  const MachineModel& machine_;
  std::unordered_map<const TensorView*, Making> making_;
  std::map<std::tuple<TensorView*, size_t, int64_t>, TensorView*> padded_;
};

} // namespace

void padProducts(Fusion* fusion, const MachineModel& machine) {
  ProductPadder(fusion, machine).run();
  fusion->removeDeadUses();
}

} // namespace nvfuser
