// SPDX-License-Identifier: BSD-3-Clause
// See library.h.
#include <library/library.h>

#include <base/error.h>
#include <base/options.h>
#include <ir/describe.h>
#include <segment/library_segment.h>

#include <atomic>

namespace nvfuser {

namespace {

std::atomic<const Library*> installed{nullptr};

} // namespace

const Library* library() {
  return installed.load();
}

void setLibrary(std::unique_ptr<Library> library) {
  // One that was installed before may be in use by another thread.
  installed.store(library.release());
}

const LibraryOp* librarySegmentOp(const Fusion& fusion) {
  return librarySegmentOp(fusion.exprs());
}

std::string libraryNote(const LibraryOp& op) {
  return (library() == nullptr ? "a library" : library()->name()) + " evaluates " + op.opName();
}

namespace {

bool readsSwizzledScales(const Expr* e) {
  const auto* op = tryAs<LibraryOp>(e);
  return op != nullptr &&
         (op->op() == LibraryOpType::ScaledMm || op->op() == LibraryOpType::ScaledGroupedMm ||
          op->op() == LibraryOpType::CutlassNvfp4GroupedMm);
}

} // namespace

void checkReadersOfSwizzledScales(const Fusion& fusion) {
  for (const Expr* e : fusion.exprs()) {
    const auto* op = tryAs<LibraryOp>(e);
    for (size_t r = 0; op != nullptr && r < op->outputs().size(); ++r) {
      for (const Expr* use :
           op->isSwizzled(r) ? fusion.liveUses(op->output(r)) : std::vector<Expr*>()) {
        NVF_CHECK(readsSwizzledScales(use), op->opName(), ": the scales ", describe(op->output(r)),
                  " are stored in the 128x4 layout, which only ",
                  "products of scaled matrices read, but not ", describe(use));
      }
    }
  }
}

std::shared_ptr<const Evaluation> prepareLibrarySegment(const Fusion& segment) {
  const LibraryOp* op = librarySegmentOp(segment);
  NVF_ERROR(op != nullptr, "a library evaluates one operation of views");
  const bool is_matmul = op->op() == LibraryOpType::Matmul || op->op() == LibraryOpType::Linear;
  NVF_CHECK(!is_matmul || !isOptionDisabled(DisableOption::MatmulExprEval),
            "Can not find a scheduler to schedule fusion segment: ", describe(op),
            " is evaluated by a library, which the option matmul_expr_eval excludes.");
  NVF_CHECK(library() != nullptr,
            "Can not find a scheduler to schedule fusion segment: ", describe(op),
            " is evaluated by a library, and this program has none.");
  return library()->prepare(std::make_shared<Fusion>(segment));
}

} // namespace nvfuser
