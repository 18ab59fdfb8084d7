// SPDX-License-Identifier: BSD-3-Clause
// How columns are shared out, for a device like an H200.
#include <gtest/gtest.h>
#include <host/device_info.h>
#include <runtime/machines.h>
#include <scheduler/outer_persistent.h>

namespace nvfuser {
namespace {

using Scope = ColumnShares::Scope;

MachineModel h200() {
  return machineFrom(simulatedH200Info());
}

// A softmax of bfloat16: the exponentials are kept.
ColumnsOnChip softmax(int64_t rows, int64_t columns) {
  ColumnsOnChip shape;
  shape.columns = columns;
  shape.rows = rows;
  shape.vector = 4;
  shape.narrowest = 2;
  shape.bytes_read = shape.bytes_written = 2;
  shape.result_bytes = 8;
  shape.reductions = 2;
  return shape;
}

// A batch normalization of bfloat16: the input is kept.
ColumnsOnChip batchNorm(int64_t rows, int64_t columns) {
  ColumnsOnChip shape = softmax(rows, columns);
  shape.bits_kept = 16;
  shape.result_bytes = 12;
  shape.reductions = 1;
  return shape;
}

ColumnShares share(const ColumnsOnChip& shape) {
  std::string why;
  const ColumnShares shares = shareColumns(shape, h200(), &why);
  EXPECT_EQ(why, "");
  EXPECT_GE(shares.batch * shares.blocks * shares.threads_y, shape.rows);
  EXPECT_LE(shares.batch * shape.vector, 128);
  EXPECT_LE(shares.threads_x * shares.threads_y, 512);
  return shares;
}

TEST(OuterPersistent, ShortColumnsStayInBlocks) {
  const ColumnShares shares = share(softmax(16, 1 << 20));
  EXPECT_EQ(shares.scope, Scope::Block);
  EXPECT_EQ(shares.blocks, 1);
  EXPECT_GE(shares.threads_x * 4 * 2, 128) << "whole lines";
}

TEST(OuterPersistent, LongerColumnsTakeClusters) {
  const ColumnShares shares = share(softmax(2048, 8192));
  EXPECT_EQ(shares.scope, Scope::Cluster);
  EXPECT_GT(shares.blocks, 1);
  EXPECT_GE(shares.threads_x * 4 * 2, 64);
  EXPECT_LE(shares.batch * 4, 64) << "registers";
}

// Few columns: clusters would leave SMs idle. All blocks must run at once, and each reads what
// those that share its columns leave.
TEST(OuterPersistent, FewColumnsTakeAllBlocks) {
  const ColumnShares shares = share(batchNorm(100000, 64));
  EXPECT_EQ(shares.scope, Scope::Grid);
  const int64_t groups = 64 / (shares.threads_x * 4);
  EXPECT_LE(groups * shares.blocks, 132);
  EXPECT_GE(groups * shares.blocks, 120);
}

TEST(OuterPersistent, ColumnsThatDoNotFitAreDeclined) {
  std::string why;
  shareColumns(batchNorm(200704, 256), h200(), &why);
  EXPECT_EQ(why, "256 columns of 200704 elements do not fit on chip");
}

TEST(OuterPersistent, AFewColumnsMoreChangeNothing) {
  const ColumnShares some = share(softmax(512, 1030));
  const ColumnShares more = share(softmax(512, 1200));
  EXPECT_EQ(some.threads_x, more.threads_x);
  EXPECT_EQ(some.threads_y, more.threads_y);
  EXPECT_EQ(some.blocks, more.blocks);
}

// Everything that is promised can be launched.
TEST(OuterPersistent, FitsTheDevice) {
  const MachineModel machine = h200();
  for (int64_t rows = 2; rows < 40000; rows = rows * 3 / 2 + 1) {
    for (int64_t columns : {1, 3, 8, 33, 64, 256, 1000, 4096}) {
      for (int64_t vector : {1, 2, 4}) {
        ColumnsOnChip shape = batchNorm(rows, columns);
        shape.vector = vector;
        std::string why;
        const ColumnShares s = shareColumns(shape, machine, &why);
        if (!why.empty()) {
          continue;
        }
        EXPECT_GE(s.batch * s.blocks * s.threads_y, rows) << rows << " x " << columns;
        EXPECT_LE(s.batch * vector * 16 / 32, 64) << rows << " x " << columns;
        EXPECT_LE(s.threads_x * s.threads_y, machine.max_threads_per_block);
        EXPECT_LE(s.blocks, s.scope == Scope::Grid ? 2 * machine.sms : 16);
      }
    }
  }
}

} // namespace
} // namespace nvfuser
