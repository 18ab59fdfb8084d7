// SPDX-License-Identifier: BSD-3-Clause
// A linear layer of float32 whose result a kernel reads anyway: the kernel adds the bias. cuBLASLt,
// which adds it, chooses other tiles than cuBLAS and takes up to 18 % longer, and is never faster
// (docs/measurements/products.md). The sum is rounded once either way.
#include <preseg_passes/passes.h>

#include <definition/library_views.h>
#include <ops/elementwise.h>
#include <ops/library.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>

namespace nvfuser {

namespace {

// By nobody else, views of it included.
bool isReadByKernels(const Fusion* fusion, const TensorView* tv) {
  const std::vector<Expr*> uses = fusion->liveUses(tv);
  return !tv->isFusionOutput() && !uses.empty() &&
         std::all_of(uses.begin(), uses.end(), [&](const Expr* use) {
           return use->kind() != ExprKind::LibraryOp &&
                  (!isView(use) || isReadByKernels(fusion, use->output(0)->as<TensorView>()));
         });
}

class BiasSeparator : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    const auto* op = tryAs<LibraryOp>(e);
    if (op == nullptr || op->op() != LibraryOpType::Linear) {
      return;
    }
    const std::vector<Val*> operands = op->operands();
    auto* out = e->output(0)->as<TensorView>();
    auto* weight = operands[1]->as<TensorView>();
    if (out->dtype() != DataType::Float || operands[2] == nullptr ||
        logicalIds(weight).size() != 2 || logicalIds(out).size() < 2 ||
        !isReadByKernels(fusion_, out)) {
      return;
    }
    TensorView* product =
        linear(operands[0]->as<TensorView>(), weight, nullptr, /*alpha=*/operands[3]);
    replace(out, add(product, operands[2]->as<TensorView>()));
  }
};

} // namespace

void separateBias(Fusion* fusion) {
  BiasSeparator(fusion).run();
  fusion->removeDeadUses();
}

} // namespace nvfuser
