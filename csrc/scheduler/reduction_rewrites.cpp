// SPDX-License-Identifier: BSD-3-Clause
// What the reduction and persistent schedulers want rewritten before a definition is cut.
#include <base/integer_math.h>
#include <base/options.h>
#include <preseg_passes/column_reductions.h>
#include <preseg_passes/generate_topk.h>
#include <scheduler/reduction.h>
#include <scheduler/row_groups.h>

#include <algorithm>

namespace nvfuser {

namespace {

// Found out once for a definition.
const std::vector<RowsAndColumns>& rowsAndColumns(WholeDefinition& definition) {
  using Found = std::vector<RowsAndColumns>;
  HeuristicCache& cache = definition.cacheOf(SchedulerType::InnerOuterPersistent);
  if (cache.data == nullptr) {
    cache.data = std::make_shared<const Found>(findRowsAndColumns(definition.fusion()));
  }
  return *static_cast<const Found*>(cache.data.get());
}

// Bytes that the device has time for while the rows are read twice, by a kernel for the sums of
// rows and one for the rest, are fewer than while row groups read them once: clusters of more
// blocks than usual leave some multiprocessors idle, groups of few rows have unequal shares, and
// what L2 holds of the rows is read again from there. What is written of the rows counts for both.
bool areReadTwice(const GroupedRows& grouped, const RowGroups& groups,
                  const MachineModel& machine) {
  if (groups.count <= 0 || groups.cluster <= machine.usual_cluster) {
    return false;
  }
  const auto elements = static_cast<double>(grouped.rows * grouped.columns);
  const double bytes = elements * static_cast<double>(grouped.row_bytes);
  constexpr double kHeld = 0.8; // of L2, as other tensors take some [hand]
  const bool is_held = bytes <= kHeld * static_cast<double>(machine.l2_bytes);
  const double twice = bytes + bytes / (is_held ? machine.l2_speed : 1);
  const double partials =
      static_cast<double>(groups.count * grouped.columns * grouped.sums) * 2 * sizeof(float);
  const int64_t iterations = ceilDiv(grouped.rows, groups.count);
  const double busy = static_cast<double>(grouped.rows * groups.cluster) /
                      static_cast<double>(iterations * machine.sms);
  return twice < (bytes + partials) / std::min(busy, 1.0);
}

bool areConstant(const std::vector<RowsAndColumns>& regions) {
  const auto are_constant = [](const std::vector<Val*>& sizes) {
    return std::ranges::all_of(sizes, [](const Val* v) { return v->isConstInt(); });
  };
  return std::ranges::all_of(regions, [&](const RowsAndColumns& both) {
    return are_constant(both.rows) && are_constant(both.columns);
  });
}

// What regions of the same sizes have at most, or of as many columns if sizes are no constants; the
// first one's come first.
std::vector<GroupedRows> groupedRows(WholeDefinition& definition,
                                     const std::vector<RowsAndColumns>& regions) {
  const bool by_rows = areConstant(regions);
  std::vector<GroupedRows> out;
  for (const RowsAndColumns& both : regions) {
    const GroupedRows own = {definition.product(both.rows), definition.product(both.columns),
                             both.sums, both.row_bytes, both.reduced_once};
    const auto same = std::find_if(out.begin(), out.end(), [&](const GroupedRows& other) {
      return other.columns == own.columns && (!by_rows || other.rows == own.rows);
    });
    if (same == out.end()) {
      out.push_back(own);
    } else {
      same->rows = std::min(same->rows, own.rows);
      same->sums = std::max(same->sums, own.sums);
      same->row_bytes = std::max(same->row_bytes, own.row_bytes);
      same->reduced_once = same->reduced_once && own.reduced_once;
    }
  }
  return out;
}

// A kernel more, for the rows whose memory partial sums have, takes little where the rows pass
// through L2, and where there are enough of them for all SMs: a group's sums have the memory of two
// rows of 16-bit elements. Small sums take none of the device's memory.
bool areRowsLent(const GroupedRows& grouped, int64_t groups, const MachineModel& machine) {
  const int64_t read = grouped.rows * grouped.columns * grouped.row_bytes;
  const int64_t sums =
      groups * grouped.columns * grouped.sums * static_cast<int64_t>(sizeof(float));
  return !machine.threads_in_loops && read > machine.l2_bytes && 2 * groups >= machine.sms &&
         sums > machine.small_request && !isOptionDisabled(DisableOption::LendRows);
}

// Kernels whose blocks take one row after the other keep sums of the columns.
void wantPartialSums(WholeDefinition& definition, Wanted& wanted) {
  const std::vector<RowsAndColumns>& regions = rowsAndColumns(definition);
  if (regions.empty()) {
    return;
  }
  if (wanted.left_out.count(SchedulerType::InnerOuterPersistent) != 0) {
    wanted.rewrites.repeat_for_columns = true;
    return;
  }
  const std::vector<GroupedRows> all = groupedRows(definition, regions);
  const GroupedRows& grouped = all.front();
  wanted.own_extent = grouped.columns;
  const bool any_extent =
      !definition.machine().threads_in_loops && definition.takesAnyExtent(wanted.own_extent);
  if (any_extent) {
    wanted.any_row_groups = chooseAnyRowGroups(grouped, definition.machine());
    wanted.num_row_groups = rowGroupsOf(wanted.any_row_groups, grouped, definition.machine());
  } else {
    wanted.row_groups = chooseRowGroups(grouped, definition.machine());
    if (areReadTwice(grouped, wanted.row_groups, definition.machine())) {
      wanted.row_groups = RowGroups();
    }
    wanted.num_row_groups = wanted.row_groups.count;
    wanted.rewrites.rows_at_once = wanted.row_groups.rows_of_block;
  }
  if (wanted.num_row_groups > 0) {
    wanted.rewritten_for = SchedulerType::InnerOuterPersistent;
    wanted.rewrites.neighbouring_rows = definition.machine().threads_in_loops;
    wanted.rewrites.partial_sums = any_extent ? Rewrites::kAnyNumber : wanted.num_row_groups;
    wanted.rewrites.lend_rows = !any_extent && areConstant(regions) && all.size() == 1 &&
                                areRowsLent(grouped, wanted.num_row_groups, definition.machine());
    for (size_t i = 1; i < all.size() && !any_extent && areConstant(regions); ++i) {
      const RowGroups groups = chooseRowGroups(all[i], definition.machine());
      if (groups.count > 0 && !areReadTwice(all[i], groups, definition.machine())) {
        const RowSizes sizes = {all[i].rows, all[i].columns};
        wanted.groups_of[sizes] = groups;
        wanted.rewrites.groups_of[sizes] = {groups.count, groups.rows_of_block};
      }
    }
    return;
  }
  wanted.rewrites.repeat_for_columns = true;
  if (wanted.num_row_groups != RowGroups::kFewRows) {
    // Where columns are summed by kernels of their own, one of them may as well finish the rows.
    leaveOut(wanted.left_out, SchedulerType::InnerPersistent,
             {"the rows are too long for the sums of their columns to be kept beside them"});
  }
}

// Extents of the rows of generatableTopKs(), found out once for a definition.
const std::vector<Val*>& rowsOfTopKs(WholeDefinition& definition) {
  HeuristicCache& cache = definition.cacheOf(SchedulerType::InnerPersistent);
  if (cache.data == nullptr) {
    auto rows = std::make_shared<std::vector<Val*>>();
    for (const LibraryOp* topk : generatableTopKs(definition.fusion())) {
      rows->push_back(rowExtent(topk));
    }
    cache.data = std::move(rows);
  }
  return *static_cast<const std::vector<Val*>*>(cache.data.get());
}

void wantGeneratedTopKs(WholeDefinition& definition, Wanted& wanted) {
  // Elements. Each of the k steps passes over the row, which the library reads a few times whatever
  // k is (docs/measurements/topk.md).
  constexpr int64_t kLongestRow = 1024;
  const std::vector<Val*>& rows = rowsOfTopKs(definition); // before any of them is rewritten
  if (!definition.makesKernels() || !definition.wishes().generates_topks) {
    return;
  }
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 64); ++i) {
    if (definition.product({rows[i]}) <= kLongestRow) {
      wanted.rewrites.generated_topks |= uint64_t{1} << i;
    }
  }
}

} // namespace

void ReductionScheduler::wantRewrites(WholeDefinition& definition, Wanted& wanted) const {
  switch (type_) {
    case SchedulerType::InnerOuterPersistent:
      wantPartialSums(definition, wanted);
      break;
    case SchedulerType::Reduction:
      wanted.rewrites.merge_softmax_statistics = true;
      break;
    case SchedulerType::InnerPersistent:
    case SchedulerType::OuterPersistent:
      if (const auto it = wanted.left_out.find(type_); it != wanted.left_out.end()) {
        std::optional<double>& from = wanted.rewrites.repeat_after_reductions;
        from = std::min(from.value_or(it->second.from_elements), it->second.from_elements);
      } else if (type_ == SchedulerType::InnerPersistent) {
        wantGeneratedTopKs(definition, wanted);
      }
      break;
    default:
      break;
  }
}

std::string ReductionScheduler::whyUseless(const SegmentedFusion& segmented) const {
  if (type_ != SchedulerType::InnerOuterPersistent) {
    return {};
  }
  for (const Segment& segment : segmented.segments) {
    const bool has_partial_sums =
        std::any_of(segment.outputs.begin(), segment.outputs.end(),
                    [](const Val* v) { return isPartialReduction(v->as<TensorView>()); });
    if (has_partial_sums && segment.scheduler != type_) {
      return "the sums of columns do not join a kernel that reduces rows";
    }
  }
  return {};
}

Alternative ReductionScheduler::alternative() const {
  if (type_ == SchedulerType::OuterPersistent) {
    return {Alternative::Kind::LeaveOut, type_};
  }
  return {};
}

} // namespace nvfuser
