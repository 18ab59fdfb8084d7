// SPDX-License-Identifier: BSD-3-Clause
// Equal operations on equal operands are made once.
#include <preseg_passes/canonical_form.h>

#include <preseg_passes/rewriter.h>

namespace nvfuser {

namespace {

class Sharer : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    share(e);
  }
};

} // namespace

void shareCommonExpressions(Fusion* fusion) {
  Sharer(fusion).run();
}

} // namespace nvfuser
