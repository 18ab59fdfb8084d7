// SPDX-License-Identifier: BSD-3-Clause
// See library_segment.h.
#include <segment/library_segment.h>

#include <definition/library_views.h>
#include <ir/exprs.h>
#include <ir/visitor.h>
#include <segment/traffic.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

bool takesNoKernel(const Expr* e) {
  return e->kind() == ExprKind::LibraryOp || isOfMemory(e);
}

bool isWithoutKernel(const std::vector<Expr*>& exprs) {
  return librarySegmentOp(exprs) != nullptr || (exprs.size() == 1 && isOfMemory(exprs.front()));
}

const LibraryOp* librarySegmentOp(const std::vector<Expr*>& exprs) {
  const auto* op = exprs.empty() ? nullptr : tryAs<LibraryOp>(exprs.back());
  const bool fits = op != nullptr && std::all_of(exprs.begin(), exprs.end() - 1, [](const Expr* e) {
                      return isView(e) && !e->output(0)->isFusionOutput();
                    });
  return fits ? op : nullptr;
}

std::unordered_map<const Expr*, const Expr*> viewsOfLibraryOps(const Fusion* fusion,
                                                               const std::vector<Expr*>& exprs) {
  const std::unordered_set<const Expr*> inside(exprs.begin(), exprs.end());
  std::unordered_map<const Expr*, const Expr*> out;
  for (const Expr* op : exprs) {
    if (op->kind() != ExprKind::LibraryOp) {
      continue;
    }
    for (const TensorView* operand : tensorInputs(op)) {
      const std::vector<Expr*> views = viewsBehind(operand);
      const bool all_inside = std::all_of(views.begin(), views.end(),
                                          [&](const Expr* e) { return inside.count(e) != 0; });
      if (all_inside && !areNeededByOthers(fusion, views, op)) {
        for (const Expr* view : views) {
          out[view] = op;
        }
      }
    }
  }
  return out;
}

double bytesTaken(const LibraryOp& op) {
  if (op.op() != LibraryOpType::SdpaBwd) {
    return 0;
  }
  const std::vector<Val*> operands = op.operands();
  const Val* query = operands[1];
  const auto heads = [](const Val* tensor) {
    const auto ids = logicalIds(tensor);
    return ids[ids.size() - 3]->extent();
  };
  double bytes = sizeOf(query) * static_cast<double>(dataTypeSizeBits(DataType::Float)) /
                 static_cast<double>(dataTypeSizeBits(query->dtype()));
  for (const Val* repeated : {operands[2], operands[3]}) {
    if (!heads(repeated)->sameAs(heads(query))) {
      bytes += sizeOf(query);
    }
  }
  return bytes;
}

} // namespace nvfuser
