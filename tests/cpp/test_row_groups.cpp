// SPDX-License-Identifier: BSD-3-Clause
// How rows are shared out among groups: every shape gets groups that the device has room for, or
// none.
#include <base/integer_math.h>
#include <host/device_info.h>
#include <runtime/machines.h>
#include <scheduler/cost.h>
#include <scheduler/row_groups.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace nvfuser::test {
namespace {

MachineModel machine(int clusters, int sms) {
  DeviceInfo info = simulatedH200Info();
  info.max_cluster_size = clusters;
  info.sm_count = sms;
  info.resident_clusters = {}; // as many as there are SMs for
  return machineFrom(info);
}

TEST(RowGroups, FitsTheDevice) {
  for (const int clusters : {1, 8, 16}) {
    const MachineModel info = machine(clusters, 132);
    for (const int64_t columns :
         {1, 3, 64, 100, 1024, 3000, 5120, 8192, 12288, 50257, 131072, 151936, 262144, 1 << 20}) {
      for (const int64_t rows : {1, 3, 100, 1 << 16}) {
        for (const int64_t sums : {1, 2, 5}) {
          for (const int64_t row_bytes : {0, 2, 4, 8, 16, 100}) {
            const RowGroups groups = chooseRowGroups({rows, columns, sums, row_bytes}, info);
            if (groups.count == 0) {
              EXPECT_GT(columns, 8 * 512 * clusters) << columns << " fit";
              continue;
            }
            if (groups.count == RowGroups::kFewRows) {
              EXPECT_LT(rows * groups.cluster, 132);
              continue;
            }
            EXPECT_GE(rows, groups.count * groups.rows_of_block);
            EXPECT_LE(groups.count, 132);
            EXPECT_LE(groups.cluster, clusters);
            EXPECT_LE(groups.threads * groups.rows_of_block, 640);
            EXPECT_LE(columns, groups.threads * groups.cluster * 32) << "elements of a thread";
            EXPECT_GE(groups.rows_under_way, 2);
          }
        }
      }
    }
  }
}

// Few takes serve all widths, and each has room for the rows that it is chosen for.
TEST(RowGroups, OfAnyWidth) {
  for (const int clusters : {1, 16}) {
    const MachineModel info = machine(clusters, 132);
    for (const int64_t row_bytes : {2, 4, 8}) {
      std::set<std::tuple<int64_t, int64_t, int64_t, int64_t, bool, bool>> kinds;
      for (int64_t columns = 1; columns <= 20000; columns += 7) {
        const GroupedRows grouped = {1 << 20, columns, 2, row_bytes};
        const AnyRowGroups groups = chooseAnyRowGroups(grouped, info);
        if (groups.elements == 0) {
          EXPECT_EQ(clusters, 1) << columns << " fit";
          EXPECT_EQ(rowGroupsOf(groups, grouped, info), 0);
          continue;
        }
        kinds.insert({groups.elements, groups.threads, groups.cluster, groups.rows_under_way,
                      groups.prefetches_reduction, columns % 2 == 0});
        EXPECT_LE(columns, groups.threads * groups.elements * groups.cluster);
        EXPECT_LE(
            groups.rows_under_way * groups.threads * groups.elements * row_bytes,
            std::max(info.sharedForTensors(), 2 * groups.threads * groups.elements * row_bytes));
        const int64_t count = rowGroupsOf(groups, grouped, info);
        EXPECT_GT(count, 0);
        EXPECT_LE(count, 132);
        // Few rows have fewer groups, or columns get kernels of their own.
        EXPECT_LE(rowGroupsOf(groups, {256, columns, 2, row_bytes}, info), 64);
        EXPECT_EQ(rowGroupsOf(groups, {6, columns, 2, row_bytes}, info), RowGroups::kFewRows);
      }
      EXPECT_LE(kinds.size(), 5U);
    }
  }
}

// On a device of 132 SMs: shapes that were timed.
TEST(RowGroups, FillsMultiprocessors) {
  const MachineModel info = machine(16, 132);
  EXPECT_EQ(chooseRowGroups({1 << 16, 5120, 1, 4}, info).rows_of_block, 2);
  EXPECT_EQ(chooseRowGroups({1 << 16, 3000, 1, 4}, info).rows_of_block, 3);
  EXPECT_EQ(chooseRowGroups({1 << 16, 12288, 1, 4}, info).cluster, 2);
  EXPECT_EQ(chooseRowGroups({1 << 16, 6144, 1, 8}, info).cluster, 4);
  EXPECT_EQ(chooseRowGroups({1 << 16, 12288, 1, 8}, info).cluster, 2);
  // Two rows of float32 take twice the registers.
  EXPECT_EQ(chooseRowGroups({1 << 16, 8192, 1, 4}, info).cluster, 1);
  EXPECT_EQ(chooseRowGroups({1 << 16, 8192, 1, 8}, info).cluster, 2);
  // Two sums leave none for the next row.
  EXPECT_EQ(chooseRowGroups({1 << 16, 4096, 2, 4}, info).rows_under_way, 4);
  EXPECT_EQ(chooseRowGroups({1 << 16, 4096, 1, 4}, info).rows_under_way, 2);
  EXPECT_GT(chooseRowGroups({1 << 16, 262144, 1, 4}, info).count, 0);
}

struct Shape {
  int64_t columns;
  int64_t threads;
  int64_t rows_of_block;
  int64_t cluster;
  int64_t rows_under_way;
};

void expectGroups(const std::vector<Shape>& shapes, int64_t row_bytes) {
  for (const Shape& shape : shapes) {
    const RowGroups groups =
        chooseRowGroups({1 << 16, shape.columns, 2, row_bytes}, machine(16, 132));
    EXPECT_EQ(groups.threads, shape.threads) << shape.columns;
    EXPECT_EQ(groups.rows_of_block, shape.rows_of_block) << shape.columns;
    EXPECT_EQ(groups.cluster, shape.cluster) << shape.columns;
    EXPECT_EQ(groups.rows_under_way, shape.rows_under_way) << shape.columns;
  }
}

// Two sums. Powers of two fill 512 threads with 16 elements; other widths do with more threads or
// with 24 elements, in one block as long as that holds a row.
TEST(RowGroups, FillsRegistersWithTwoSums) {
  expectGroups({{1024, 64, 8, 1, 4},
                {3000, 128, 4, 1, 4},
                {4096, 256, 2, 1, 4},
                {5120, 320, 2, 1, 4},
                {8192, 512, 1, 1, 4},
                {10240, 640, 1, 1, 4},
                {12288, 512, 1, 1, 4},
                {16384, 512, 1, 2, 4}},
               4);
  expectGroups({{3000, 256, 2, 1, 4},
                {5120, 640, 1, 1, 4},
                {8192, 512, 1, 1, 3},
                {12288, 512, 1, 2, 4},
                {16384, 512, 1, 4, 4}},
               8);
}

// Two rows of 32 floats each from two inputs, their sums and what all rows share: no thread of 512
// has as many registers, and shared memory has no room for three rows.
TEST(RowGroups, FitsRegisters) {
  const MachineModel info = machine(16, 132);
  EXPECT_EQ(chooseRowGroups({1 << 16, 256000, 1, 8}, info).count, 0);
  EXPECT_EQ(chooseRowGroups({1 << 16, 151936, 2, 8}, info).count, 0);
  EXPECT_GT(chooseRowGroups({1 << 16, 256000, 1, 4}, info).count, 0);
}

// Rows under way in shared memory are ones that it holds.
TEST(RowGroups, FitsSharedMemory) {
  const MachineModel info = machine(16, 132);
  for (int64_t columns = 64; columns <= 1 << 17; columns += 448) {
    for (const int64_t row_bytes : {2, 4, 8}) {
      const RowGroups groups = chooseRowGroups({1 << 16, columns, 2, row_bytes}, info);
      const int64_t of_block = (columns + groups.cluster - 1) / groups.cluster;
      EXPECT_TRUE(groups.count == 0 || groups.rows_under_way == 2 ||
                  groups.rows_under_way * groups.rows_of_block * of_block * row_bytes <=
                      info.sharedForTensors())
          << columns << " elements of " << row_bytes << " bytes";
    }
  }
}

// The next row is reduced ahead where cluster reductions would be waited for: rows lie in shared
// memory.
TEST(RowGroups, PrefetchesReductionsInLargeClusters) {
  const MachineModel info = machine(16, 132);
  struct Timed {
    int64_t columns, sums, row_bytes, cluster, threads, rows; // 2: not ahead
  };
  const std::vector<Timed> timed = {
      {16384, 2, 4, 2, 512, 4}, {20480, 2, 4, 2, 320, 4},  {24576, 2, 4, 2, 512, 4},
      {32768, 2, 4, 2, 512, 3}, {40960, 2, 4, 4, 320, 4},  {49152, 2, 4, 4, 512, 4},
      {65536, 2, 4, 4, 512, 3}, {131072, 2, 4, 8, 512, 3}, {262144, 2, 4, 16, 512, 3},
      {8192, 1, 4, 1, 512, 2},  {16384, 1, 4, 2, 512, 4},  {20480, 1, 4, 2, 320, 4},
      {32768, 1, 4, 4, 512, 4}, {40960, 1, 4, 4, 320, 4},  {49152, 1, 4, 4, 512, 4},
      {65536, 1, 4, 8, 512, 4}, {131072, 1, 4, 8, 512, 3}, {262144, 1, 4, 16, 512, 3},
      {32768, 2, 8, 4, 512, 3}, {32768, 1, 8, 8, 512, 2},
  };
  for (const Timed& w : timed) {
    const RowGroups groups = chooseRowGroups({1 << 16, w.columns, w.sums, w.row_bytes}, info);
    EXPECT_EQ(groups.prefetches_reduction, w.rows > 2) << w.columns;
    EXPECT_EQ(groups.cluster, w.cluster) << w.columns;
    EXPECT_EQ(groups.threads, w.threads) << w.columns;
    EXPECT_EQ(groups.rows_under_way, w.rows) << w.columns;
  }
  EXPECT_FALSE(
      chooseRowGroups({1 << 16, 32768, 2, 4, /*reduced_once=*/false}, info).prefetches_reduction);
  // No room for three rows, or no vectors to copy.
  EXPECT_FALSE(chooseRowGroups({1 << 16, 32768, 2, 100}, info).prefetches_reduction);
  EXPECT_FALSE(chooseRowGroups({1 << 16, 32765, 2, 4}, info).prefetches_reduction);
}

// Rows that no copy can bring to shared memory are in registers, two of them, and 512 threads have
// enough: with more threads or elements layer norm of width 3001 spilled 364 bytes.
TEST(RowGroups, OddRowsAreInRegisters) {
  const MachineModel info = machine(16, 132);
  for (const int64_t columns : {1031, 3001, 5121, 10001, 16385, 32769, 50257}) {
    const RowGroups groups = chooseRowGroups({1 << 16, columns, 2, 4}, info);
    EXPECT_EQ(groups.rows_under_way, 2) << columns;
    EXPECT_LE(groups.threads * groups.rows_of_block, 512) << columns;
    EXPECT_LE(columns, groups.threads * groups.cluster * 16) << columns;
  }
  EXPECT_EQ(chooseRowGroups({1 << 16, 3001, 2, 8}, info).rows_under_way, 4);
}

// So are those that copies would bring there two elements at a time. No thread has more than it has
// registers for, whatever the width (shares that spilled took 1.2 times as long).
TEST(RowGroups, RowsOfPairsAreInRegisters) {
  const MachineModel info = machine(16, 132);
  for (const int64_t columns : {130, 770, 2050, 4098, 5002, 8194, 11010, 20002, 50258}) {
    const RowGroups groups = chooseRowGroups({1 << 16, columns, 2, 4}, info);
    EXPECT_EQ(groups.rows_under_way, 2) << columns;
    const int64_t threads = groups.threads * groups.rows_of_block;
    const int64_t pairs = ceilDiv(ceilDiv(columns, groups.cluster * 2), groups.threads);
    // Two sums, two rows of two tensors and a weight, and what a kernel has beside that (24).
    EXPECT_LE(pairs * (2 * 2 + 2 * 2 + 1) + 24, registersOfThread(threads, info)) << columns;
    EXPECT_GE(threads, 384) << columns;
  }
  EXPECT_EQ(chooseRowGroups({1 << 16, 5004, 2, 4}, info).rows_under_way, 4);
  EXPECT_EQ(chooseRowGroups({1 << 16, 11010, 2, 4}, info).cluster, 1);
}

} // namespace
} // namespace nvfuser::test
