// SPDX-License-Identifier: BSD-3-Clause
// A factor of an operand or of a result of a product of matrices: (c * a) b, c * (a b). A library
// multiplies by constants on its way (cuBLAS's alpha), so that no kernel reads and writes a matrix
// to scale it: queries before their scores, the results of low-rank adapters, weights of layers
// with scaled initialization, and the gradients of all these.
//
// There is one rounding less, to the type of the matrix that was scaled. A sum of products may
// overflow that a small factor would have kept finite, if it is beyond 2^127: products of float16
// never are, and factors are at least 2^-24.
#include <preseg_passes/passes.h>

#include <definition/library_views.h>
#include <ir/builder.h>
#include <ops/elementwise.h>
#include <ops/library.h>
#include <preseg_passes/input_bits.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace nvfuser {

namespace {

constexpr double kMostFactor = 0x1p24; // and its reciprocal the least

bool isModerate(double factor) {
  return std::abs(factor) <= kMostFactor && std::abs(factor) >= 1 / kMostFactor;
}

const LibraryOp* productOf(const Expr* e) {
  const auto* op = tryAs<LibraryOp>(e);
  const bool is_product =
      op != nullptr && (op->op() == LibraryOpType::Matmul || op->op() == LibraryOpType::Linear);
  return is_product && isFloatingPoint(op->output(0)->dtype()) ? op : nullptr;
}

// The constant that a tensor is multiplied by, or by whose reciprocal, and the tensor.
std::optional<WithConstant> scaledBy(const Val* v) {
  const ElementwiseOp* op = definedBy(v, OpType::Mul);
  std::optional<WithConstant> split = op == nullptr ? std::nullopt : splitConstant(op);
  if ((op = definedBy(v, OpType::TrueDiv)) != nullptr && v->dtype() != DataType::Double) {
    split = splitConstant(op);
    const bool is_divisor = split.has_value() && split->other == op->in(0);
    split =
        is_divisor ? std::optional(WithConstant{1 / split->constant, split->other}) : std::nullopt;
  }
  return split.has_value() && isModerate(split->constant) ? split : std::nullopt;
}

class ProductScaler : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  // A tensor times a constant, rounded to its type, and views of that.
  struct Scaled {
    double factor;
    TensorView* tensor;
    std::vector<Expr*> views; // in topological order
  };

  void rewrite(Expr* e) override {
    const LibraryOp* product = productOf(e);
    if (product == nullptr) {
      return;
    }
    std::vector<Val*> operands = product->operands();
    double factor = 1;
    for (size_t i = 0; i < 2; ++i) {
      if (const auto scaled = scaledOperand(operands[i]->as<TensorView>())) {
        operands[i] = recomputeViews(scaled->views, scaled->tensor);
        factor *= scaled->factor;
      }
    }
    auto* out = e->output(0)->as<TensorView>();
    const bool has_bias = product->op() == LibraryOpType::Linear && operands[2] != nullptr;
    const std::optional<Scaled> reader = has_bias ? std::nullopt : scaledResult(out);
    factor *= reader.has_value() ? reader->factor : 1;
    const bool is_scaled = reader.has_value() || operands != product->operands();
    if (!is_scaled || !isModerate(factor)) {
      return;
    }
    TensorView* scaled = remade(product, operands, factor);
    if (!reader.has_value()) {
      take(out, scaled);
    } else {
      take(reader->tensor, recomputeViews(reader->views, scaled));
    }
  }

  // -- before the product

  std::optional<Scaled> scaledOperand(TensorView* operand) const {
    if (!isForProducts(operand)) {
      return std::nullopt;
    }
    Scaled out;
    TensorView* tv = operand;
    while (isViewOfItsOwn(tv)) {
      out.views.insert(out.views.begin(), tv->definition());
      tv = tv->definition()->input(0)->as<TensorView>();
    }
    // T -> float -> times c -> T, or without the casts.
    const ElementwiseOp* rounding = definedBy(tv, OpType::Cast);
    const Val* product = rounding == nullptr ? tv : rounding->in(0);
    const auto split = scaledBy(product);
    if (!split.has_value() || (rounding != nullptr && !isReadOnce(product))) {
      return std::nullopt;
    }
    const Expr* widening = split->other->definition();
    Val* whole = isWideningCast(widening) ? widening->input(0) : split->other;
    out.factor = split->constant;
    out.tensor = whole->as<TensorView>();
    return whole->dtype() == tv->dtype() && isOfMemory(out.tensor) ? std::optional(out)
                                                                   : std::nullopt;
  }

  // Nobody reads it but products, which multiply it, or views of which that is true.
  bool isForProducts(const TensorView* tv) const {
    const std::vector<Expr*> uses = fusion_->liveUses(tv);
    return !tv->isFusionOutput() && !tv->domain()->hasAllocation() &&
           std::all_of(uses.begin(), uses.end(), [&](const Expr* use) {
             if (isView(use)) {
               return isForProducts(use->output(0)->as<TensorView>());
             }
             const LibraryOp* product = productOf(use);
             return product != nullptr &&
                    (product->op() == LibraryOpType::Matmul || product->operands()[2] != tv);
           });
  }

  bool isViewOfItsOwn(const TensorView* tv) const {
    return tv->definition() != nullptr && isView(tv->definition()) &&
           isForProducts(tv->definition()->input(0)->as<TensorView>());
  }

  // A kernel that writes it would do so for its factor alone.
  static bool isOfMemory(const TensorView* tv) {
    while (!isInMemory(tv) && tv->definition() != nullptr && isView(tv->definition())) {
      tv = tv->definition()->input(0)->as<TensorView>();
    }
    return isInMemory(tv);
  }

  // -- behind the product

  // What is the result, or a view of it, times a constant, if nothing else reads the result.
  std::optional<Scaled> scaledResult(TensorView* result) const {
    Scaled out;
    const Val* v = result;
    while (isReadOnce(v) && isView(onlyReader(v))) {
      out.views.push_back(onlyReader(v));
      v = onlyReader(v)->output(0);
    }
    if (isReadOnce(v) && isWideningCast(onlyReader(v))) {
      v = onlyReader(v)->output(0);
    }
    if (!isReadOnce(v)) {
      return std::nullopt;
    }
    v = onlyReader(v)->output(0);
    const auto split = scaledBy(v);
    if (v->dtype() != result->dtype() && isReadOnce(v) &&
        definedBy(onlyReader(v)->output(0), OpType::Cast) != nullptr) {
      v = onlyReader(v)->output(0);
    }
    if (!split.has_value() || v->dtype() != result->dtype() || !isWritten(v)) {
      return std::nullopt;
    }
    out.factor = split->constant;
    out.tensor = const_cast<Val*>(v)->as<TensorView>();
    return out;
  }

  // Whoever else reads it: returned, or read by a library.
  bool isWritten(const Val* v) const {
    const std::vector<Expr*> uses = fusion_->liveUses(v);
    return v->isFusionOutput() || std::any_of(uses.begin(), uses.end(), [&](const Expr* use) {
             return use->kind() == ExprKind::LibraryOp ||
                    (isView(use) && isWritten(use->output(0)));
           });
  }

  // -- both

  bool isReadOnce(const Val* v) const {
    return !v->isFusionOutput() && fusion_->liveUses(v).size() == 1;
  }

  Expr* onlyReader(const Val* v) const {
    return fusion_->liveUses(v).front();
  }

  static TensorView* remade(const LibraryOp* product, const std::vector<Val*>& operands,
                            double factor) {
    Val* before = operands.back();
    const std::optional<double> known = before == nullptr ? 1 : realConstant(before);
    Val* alpha = IrBuilder::create<Val>(factor * known.value_or(1), DataType::Double);
    alpha = known.has_value() ? alpha : mul(before, alpha);
    auto* a = operands[0]->as<TensorView>();
    auto* b = operands[1]->as<TensorView>();
    if (product->op() == LibraryOpType::Matmul) {
      return matmul(a, b, alpha);
    }
    return linear(a, b, operands[2] == nullptr ? nullptr : operands[2]->as<TensorView>(), alpha);
  }

  // An output of the fusion is what the library writes.
  void take(TensorView* tv, TensorView* by) {
    if (tv->isFusionOutput() && !tv->hasRoot() && by->definition()->kind() == ExprKind::LibraryOp) {
      copyExprWith(fusion_, by->definition(), {{by, tv}});
    } else {
      replace(tv, by);
    }
  }
};

} // namespace

void scaleProducts(Fusion* fusion) {
  ProductScaler(fusion).run();
  fusion->removeDeadUses();
}

} // namespace nvfuser
