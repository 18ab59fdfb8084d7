// SPDX-License-Identifier: BSD-3-Clause
// The estimate that schedulers share: what it must get right whatever its constants are.
#include <base/options.h>
#include <gtest/gtest.h>
#include <host/device_info.h>
#include <runtime/machines.h>
#include <scheduler/cost.h>

#include <algorithm>

namespace nvfuser {
namespace {

MachineModel h200() {
  return machineFrom(simulatedH200Info());
}

// A copy of 1 GB by blocks that request enough.
constexpr Traffic kCopy = {0.5e9, 0.5e9};
Tile copyTile() {
  Tile tile;
  tile.threads = 256;
  tile.blocks = 1 << 16;
  tile.requested_bytes = 8 << 10;
  tile.reductions = 0;
  return tile;
}

TEST(Cost, ACopyTakesWhatTheBandwidthAllows) {
  const MachineModel machine = h200();
  EXPECT_NEAR(machine.memory_bandwidth, 4.425e6, 1e3);
  EXPECT_NEAR(microseconds(copyTile(), kCopy, machine), 1e9 / machine.memory_bandwidth, 1);
}

TEST(Cost, StreamsTakeLongerWithLessOrMoreUnderWayThanMemoryWants) {
  const MachineModel machine = h200();
  const double usual = microseconds(copyTile(), kCopy, machine);
  Tile crowded = copyTile();
  crowded.requested_bytes *= 4;
  EXPECT_NEAR(microseconds(crowded, kCopy, machine) / usual, 1 + 2 * machine.crowded_slower, 0.001);
  // A thread that has loaded much takes the place of others: half of them remain.
  Tile hungry = copyTile();
  hungry.requested_bytes = 4 << 10;
  EXPECT_EQ(registersHolding(0, machine), machine.streaming_registers);
  const double of_many = microseconds(hungry, kCopy, machine);
  hungry.registers = registersHolding(128, machine);
  EXPECT_EQ(hungry.registers, 64);
  EXPECT_NEAR(microseconds(hungry, kCopy, machine) / of_many, 2, 0.01);
}

TEST(Cost, InstructionsCountWhereTheyAreMany) {
  const MachineModel machine = h200();
  // The same vectors: by a thread each, or four by one, which has the first indices once.
  Tile one = copyTile();
  one.instructions = instructionsOf(2, 16, machine);
  Tile four = copyTile();
  four.blocks /= 4;
  four.instructions = instructionsOf(8, 64, machine);
  EXPECT_LT(microseconds(four, kCopy, machine), microseconds(one, kCopy, machine));
  // A thread that has few beside it: these take turns less often than its instructions take.
  const Traffic small = {1e5, 1e5};
  one.blocks = 8;
  four.blocks = 2;
  EXPECT_GT(four.instructions, one.instructions);
  one.requested_bytes = small.read / 8;
  four.requested_bytes = small.read / 2;
  EXPECT_GT(microseconds(four, small, machine), microseconds(one, small, machine));
  // Idle threads have instructions too.
  Tile idle = copyTile();
  idle.instructions = one.instructions;
  const double busy = microseconds(idle, kCopy, machine);
  idle.threads += kWarp;
  EXPECT_GT(microseconds(idle, kCopy, machine), busy);
}

TEST(Cost, TheLastIterationsOfLongBlocksAreAlone) {
  const MachineModel machine = h200();
  Tile rows = copyTile();
  rows.blocks = 1 << 14;
  rows.requested_bytes = 8 << 10;
  const double once = microseconds(rows, kCopy, machine);
  rows.iterations = 16;
  const double often = microseconds(rows, kCopy, machine);
  const double answer =
      machine.busy_bytes * static_cast<double>(machine.sms) / machine.memory_bandwidth;
  EXPECT_NEAR(often - once, 15 * answer, 0.01);
}

TEST(Cost, TheFirstOfTilesThatAreAsFastIsTaken) {
  const MachineModel machine = h200();
  Tile slower = copyTile();
  slower.requested_bytes /= 2;
  Tile as_fast = copyTile();
  as_fast.requested_bytes *= 1.1;
  EXPECT_EQ(fastestOf({slower, copyTile(), as_fast}, kCopy, machine), 1);
  EXPECT_EQ(fastestOf({copyTile(), as_fast}, kCopy, machine), 0);
  EXPECT_EQ(fastestOf({as_fast, copyTile()}, kCopy, machine), 0);
  Tile impossible = copyTile();
  impossible.shared_bytes = 228 << 10;
  EXPECT_EQ(fastestOf({impossible, slower}, kCopy, machine), 1);
}

TEST(Cost, FewBlocksShortAccessesAndWaitingTakeLonger) {
  const MachineModel machine = h200();
  const double usual = microseconds(copyTile(), kCopy, machine);
  Tile few = copyTile();
  few.blocks = 33;
  few.requested_bytes = 256 << 10;
  EXPECT_NEAR(microseconds(few, kCopy, machine) / usual, 2, 0.5) << "a quarter of the SMs";
  Tile narrow = copyTile();
  narrow.run_bytes = 32;
  EXPECT_GT(microseconds(narrow, kCopy, machine), 1.5 * usual);
  Tile hungry = copyTile();
  hungry.requested_bytes = 256;
  EXPECT_GT(microseconds(hungry, kCopy, machine), 2 * usual);
  Tile shared = copyTile();
  shared.scope = Tile::Scope::Cluster;
  shared.sharing = 4;
  EXPECT_GT(microseconds(shared, kCopy, machine), usual);
  EXPECT_GT(microsecondsOfKernels(1, kCopy, machine), usual);
}

TEST(Cost, RegistersThreadsAndSharedMemoryLimitBlocks) {
  const MachineModel machine = h200();
  Tile tile;
  tile.threads = 256;
  EXPECT_EQ(blocksOfSm(tile, machine), 8);
  tile.registers = 64;
  EXPECT_EQ(blocksOfSm(tile, machine), 4);
  tile.shared_bytes = 100 << 10;
  EXPECT_EQ(blocksOfSm(tile, machine), 2);
  tile.shared_bytes = 228 << 10;
  EXPECT_EQ(blocksOfSm(tile, machine), 0);
  EXPECT_EQ(microseconds(tile, kCopy, machine), 0);
  EXPECT_EQ(registersOfThread(1024, machine), 64);
  EXPECT_EQ(registersOfThread(640, machine), 96);
  EXPECT_EQ(registersOfThread(128, machine), 255);
}

TEST(Cost, BlocksThatMeetMustAllRun) {
  const MachineModel machine = h200();
  Tile tile = copyTile();
  tile.scope = Tile::Scope::Grid;
  tile.sharing = 132;
  tile.blocks = 132 * 8;
  EXPECT_GT(microseconds(tile, kCopy, machine), 0);
  tile.blocks += 1;
  EXPECT_EQ(microseconds(tile, kCopy, machine), 0);
}

TEST(Cost, TurnsTakeWhatIsLonger) {
  const MachineModel machine = h200();
  const double large = microsecondsOfIteration(512, 1 << 20, 10, machine);
  EXPECT_NEAR(large, 1.5 * (1 << 20) * 132 / machine.memory_bandwidth, 0.01) << "memory";
  EXPECT_EQ(large, microsecondsOfIteration(1024, 1 << 20, 10, machine));
  const double small = microsecondsOfIteration(512, 1 << 10, 1000, machine);
  EXPECT_GT(small, machine.iteration_wait);
  EXPECT_GT(microsecondsOfIteration(1024, 1 << 10, 1000, machine), small) << "instructions";
}

// A cluster lies in one GPC, and these are of 16 or 18 SMs: some SMs are left over.
TEST(Cost, ClustersThatRunAtOnce) {
  MachineModel machine = h200();
  EXPECT_EQ(residentClusters(1, machine), 132);
  EXPECT_EQ(residentClusters(4, machine), 30);
  EXPECT_EQ(residentClusters(16, machine), 7);
  machine.resident_clusters = {};
  EXPECT_EQ(residentClusters(16, machine), 8) << "nothing is known";
}

TEST(Machine, TheHostIsDescribed) {
  const MachineModel host = hostMachine();
  EXPECT_GE(host.sms, 1);
  EXPECT_TRUE(host.lanes == 4 || host.lanes == 8 || host.lanes == 16) << host.lanes;
  EXPECT_GE(host.l2_bytes, host.l1_bytes);
  EXPECT_GE(host.line_bytes, 32);
  EXPECT_EQ(residentClusters(2, host), std::max<int64_t>(host.sms / 2, 1));
  EXPECT_EQ(host.max_cluster, 1);
}

TEST(Cost, AThreadForEachLineOfAScatterIsForShortLines) {
  const MachineModel machine = h200();
  // A repetition penalty; rows of a key cache; groups of experts.
  EXPECT_TRUE(isFasterInPlace({.rows = 128, .row_length = 151936, .positions = 512}, machine));
  ScatterSizes cache{.rows = 16384, .row_length = 1024, .positions = 256, .element_bytes = 2};
  cache.rows_are_neighbours = true;
  EXPECT_TRUE(isFasterInPlace(cache, machine));
  ScatterSizes experts{.rows = 32768, .row_length = 8, .positions = 4};
  EXPECT_FALSE(isFasterInPlace(experts, machine));
  // No kernel more.
  experts.is_copied = false;
  experts.more_kernels = 0;
  EXPECT_TRUE(isFasterInPlace(experts, machine));
}

TEST(Cost, VectorsAreNotPaidForByWhatIsReadElementByElement) {
  const MachineModel machine = h200();
  const AccessAlong vectors{.bytes = 4, .width = 4, .stride_bytes = 4};
  EXPECT_EQ(vectorOf({vectors, vectors}, 4, machine), 4);
  // A mask of bytes beside the corners of boxes: neighbours would read every eighth box.
  const AccessAlong corner{.bytes = 4, .width = 1, .stride_bytes = 16};
  const AccessAlong mask{.bytes = 1, .width = 8, .stride_bytes = 1};
  EXPECT_EQ(vectorOf({corner, corner, corner, corner, mask}, 8, machine), 1);
  // Memory takes longer than a few more lines.
  EXPECT_EQ(vectorOf({vectors, vectors, vectors, {.bytes = 4, .width = 1, .stride_bytes = 4}}, 4,
                     machine),
            4);
  // Each thread has a line of its own anyway.
  EXPECT_EQ(vectorOf({vectors, {.bytes = 4, .width = 1, .stride_bytes = 4096}}, 4, machine), 4);
}

TEST(Machine, TensorsOfTheHostAreScheduledForWhatTheOptionsSay) {
  OptionsGuard guard;
  guard.options().host_schedules = HostSchedules::ForSmallHopper;
  EXPECT_EQ(machineModel(Device::host()).sms, 4);
  guard.options().host_schedules = HostSchedules::ForH200;
  EXPECT_EQ(machineModel(Device::host()).sms, 132);
  guard.options().host_schedules = HostSchedules::ForHost;
  EXPECT_EQ(machineModel(Device::host()).sms, hostMachine().sms);
}

} // namespace
} // namespace nvfuser
