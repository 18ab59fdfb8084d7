// SPDX-License-Identifier: BSD-3-Clause
// For columns that have kernels of their own: what they sum is computed again from the inputs where
// that takes a few operations, so that no tensor of rows and columns passes between the kernels.
#include <preseg_passes/passes.h>

#include <ir/exprs.h>
#include <ir/op_traits.h>
#include <preseg_passes/column_reductions.h>
#include <transform/cache.h>

#include <unordered_map>

namespace nvfuser {

namespace {

class ColumnRepeater {
 public:
  explicit ColumnRepeater(const ReducedAndKept& column_sum) : column_sum_(column_sum) {}

  // `tv` or a copy that is computed of the fusion's inputs, of what has one value for each row or
  // column, and of nothing else; null if that takes too much.
  TensorView* repeated(TensorView* tv, const IdGraph& graph) {
    if (tv->isFusionInput() || !hasRowsAndColumns(tv, graph)) {
      return tv;
    }
    if (auto it = copies_.find(tv); it != copies_.end()) {
      return it->second;
    }
    constexpr int kMostOps = 12; // operations
    const Expr* def = tv->definition();
    if (!isByPosition(def) || ++ops_ > kMostOps) {
      return nullptr;
    }
    std::vector<Val*> inputs = def->inputs();
    for (Val*& in : inputs) {
      if (in->isTensor()) {
        in = repeated(in->as<TensorView>(), graph);
        if (in == nullptr) {
          return nullptr;
        }
      }
    }
    return copies_[tv] = recompute(tv, inputs);
  }

 private:
  // Broadcast dimensions count, as they stand for all rows or columns.
  bool hasRowsAndColumns(const TensorView* tv, const IdGraph& graph) const {
    bool rows = false;
    bool columns = false;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      rows = rows || column_sum_.reduced.count(graph.group(id)) != 0;
      columns = columns || column_sum_.kept.count(graph.group(id)) != 0;
    }
    return rows && columns;
  }

  const ReducedAndKept& column_sum_;
  std::unordered_map<TensorView*, TensorView*> copies_;
  int ops_ = 0;
};

} // namespace

void repeatForColumns(Fusion* fusion) {
  FusionGuard guard(fusion);
  IdGraph graph;
  const std::vector<ReductionOp*> columns = columnReductions(fusion, graph);
  if (columns.empty()) {
    return;
  }
  for (ReductionOp* op : columns) {
    TensorView* in = op->in();
    const ReducedAndKept dims = dimsOf(op->out(), graph);
    TensorView* copy = ColumnRepeater(dims).repeated(in, graph);
    if (copy != nullptr && copy != in) {
      copyExprWith(fusion, op, {{in, copy}});
    }
  }
}

} // namespace nvfuser
