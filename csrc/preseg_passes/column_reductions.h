// SPDX-License-Identifier: BSD-3-Clause
// Reductions of columns that come with reductions of rows over the same dimensions, as in backward
// normalizations, which reduce rows for dx and columns for dw and db.
#pragma once

#include <fusion.h>
#include <id_model/id_graph.h>
#include <preseg_passes/rewrites.h>

#include <optional>
#include <set>
#include <vector>

namespace nvfuser {

// A reduction over the rows of each of several groups of them: its root is [rows..., columns...],
// its logical domain [groups, columns..., rows of a group].
bool isPartialReduction(const TensorView* tv);

// Of a sum of columns, or a partial one. Nothing if they are no constants.
std::optional<RowSizes> constantRowSizes(const TensorView* sum);

// Extents of what is reduced both by rows and by columns.
struct RowsAndColumns {
  std::vector<Val*> rows;
  std::vector<Val*> columns;
  int64_t sums = 0;      // of columns, for each position along a row
  int64_t row_bytes = 0; // of a position of all the inputs that have both rows and columns
  // No reduction of rows depends on another one, and none has several results.
  bool reduced_once = true;
};
// Of each region of the fusion between libraries that has column reductions next to row reductions
// over the same dimensions.
std::vector<RowsAndColumns> findRowsAndColumns(Fusion* fusion);

// Which dimensions a tensor has that are reduced and that are not; broadcasts count as neither.
struct ReducedAndKept {
  std::set<IdGroup> reduced;
  std::set<IdGroup> kept;
};
ReducedAndKept dimsOf(const TensorView* tv, const IdGraph& graph);

// What the reductions of one kernel reduce. Those along the rows are shared by threads; *short*
// dimensions are reduced by themselves, by a reduction that keeps the rows, and have so few
// elements that one thread has all of them: of x[n, 96, 3] the largest of three, and then a norm of
// 96. Their extents are constants.
struct RowDims {
  std::set<IdGroup> along;
  std::set<IdGroup> within_thread;
};
RowDims rowDimsOf(const std::vector<TensorView*>& reductions, const IdGraph& graph);

// Reductions of columns for which there is one of rows over the same dimensions. Those of the
// fusion are told apart by `graph`, which is made if there may be any.
std::vector<ReductionOp*> columnReductions(Fusion* fusion, IdGraph& graph);

} // namespace nvfuser
