// SPDX-License-Identifier: BSD-3-Clause
// What schedulers want rewritten in a definition before it is cut (SchedulerEntry::wantRewrites):
// a value, so that what was made with it can be found again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace nvfuser {

// Rows that are reduced, and whose columns are: how many there are, and elements of one.
struct RowSizes {
  int64_t rows = 0;
  int64_t columns = 0;
  auto operator<=>(const RowSizes&) const = default;
};

struct Rewrites {
  // Of partial_sums: each launch chooses the number.
  static constexpr int64_t kAnyNumber = -1;

  // The maximum and the sum of exponentials of a softmax are one pass where nothing else reads the
  // exponentials.
  bool merge_softmax_statistics = false;
  // Rows or columns of at least so many elements take several kernels: what takes a few operations
  // is computed again after each such reduction rather than kept, also the exponentials of a
  // softmax.
  std::optional<double> repeat_after_reductions;
  // Reductions of columns that come with reductions of rows are made in two steps, with sums for
  // each of so many groups of rows first. 0: in one.
  int64_t partial_sums = 0;
  // The rows of a group lie next to each other; otherwise groups take so many of them in turn.
  bool neighbouring_rows = false;
  int64_t rows_at_once = 1;
  // Of columns of so many rows, constants (constantRowSizes), that have other groups than
  // partial_sums and rows_at_once say: a block, or a model region, has norms of several widths and
  // of several numbers of tokens.
  struct Groups {
    int64_t count = 0;
    int64_t rows_at_once = 1;
    bool operator==(const Groups&) const = default;
  };
  std::map<RowSizes, Groups> groups_of;
  // Partial sums lie where the last rows of a result will be, which a kernel of its own computes.
  bool lend_rows = false;
  // A bit for each scatter, in their order, that updates memory which another kernel has filled.
  uint64_t scatters_in_place = 0;
  // A bit for each topk that reductions can compute (generatableTopKs), in their order: it is.
  uint64_t generated_topks = 0;
  // A bit for each concatenation whose parts may be outputs (catsInParts), in their order: they
  // are.
  uint64_t cats_in_parts = 0;
  // Such columns have kernels of their own, which compute again what they sum.
  bool repeat_for_columns = false;

  bool operator==(const Rewrites&) const = default;
};

} // namespace nvfuser
