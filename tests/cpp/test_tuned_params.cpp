// SPDX-License-Identifier: BSD-3-Clause
// Parameters as text, and the store of tuned ones.
#include <base/options.h>
#include <scheduler/params_text.h>
#include <scheduler/pointwise_params.h>
#include <scheduler/reduction_params.h>
#include <scheduler/transpose_params.h>
#include <scheduler/tuned_params.h>

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace nvfuser {
namespace {

namespace fs = std::filesystem;

// A folder that is removed in the end.
class TunedParamsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("nvfuse_tuned_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override {
    fs::remove_all(folder_);
  }
  static PointwiseParams pointwise(int64_t unroll) {
    PointwiseParams params;
    params.unroll_factor_inner = unroll;
    params.not_vectorized = {0, 3};
    params.lparams.bindUnsafe(256, ParallelType::TIDx);
    return params;
  }
  fs::path folder_;
};

TEST(ParamsText, ReadsWhatItWrites) {
  PointwiseParams pointwise;
  pointwise.vectorization_factor = 8;
  pointwise.split_block = true;
  pointwise.not_vectorized = {1};
  pointwise.lparams.bindUnsafe(64, ParallelType::TIDy);
  TransposeParams transpose;
  transpose.tile_1 = 64;
  ReductionParams reduction(SchedulerType::InnerPersistent);
  reduction.batches_per_block_inner_reduction = 3;
  reduction.reduced_extents = {5, 7};
  reduction.extents_within_row = {3};
  for (const HeuristicParams* params : {static_cast<const HeuristicParams*>(&pointwise),
                                        static_cast<const HeuristicParams*>(&transpose),
                                        static_cast<const HeuristicParams*>(&reduction)}) {
    const std::string text = paramsToText(*params);
    const std::unique_ptr<HeuristicParams> read = paramsFromText(text, *params);
    ASSERT_NE(read, nullptr) << text;
    EXPECT_TRUE(read->sameAs(*params)) << text << paramsToText(*read);
  }
}

TEST(ParamsText, TakesOtherValuesFromTheText) {
  ReductionParams written;
  written.unroll_factor_outer_reduction = 4;
  written.fastest_dim = true;
  const auto read = paramsFromText(paramsToText(written), ReductionParams());
  ASSERT_NE(read, nullptr);
  EXPECT_TRUE(read->sameAs(written));
}

TEST(ParamsText, RefusesWhatDoesNotFit) {
  const PointwiseParams like;
  const std::string text = paramsToText(like);
  EXPECT_EQ(paramsFromText("", like), nullptr);
  EXPECT_EQ(paramsFromText(text, TransposeParams()), nullptr);
  EXPECT_EQ(paramsFromText(text.substr(0, text.size() / 2), like), nullptr);
  EXPECT_EQ(paramsFromText(text + "another 1\n", like), nullptr);
  std::string other = text;
  other.replace(other.find("break_point 0"), 13, "break_point x");
  EXPECT_EQ(paramsFromText(other, like), nullptr);
}

TEST(ParamsText, ChangesFieldsByName) {
  const PointwiseParams params;
  const auto changed = withFields(
      params, {{"unroll_factor_inner", int64_t(4)}, {"split_block", true}, {"bdimx", int64_t(96)}});
  const auto& pointwise = dynamic_cast<const PointwiseParams&>(*changed);
  EXPECT_EQ(pointwise.unroll_factor_inner, 4);
  EXPECT_TRUE(pointwise.split_block);
  EXPECT_EQ(pointwise.lparams.bdimx(), 96);
  EXPECT_ANY_THROW(withFields(params, {{"nonsense", int64_t(1)}}));
  EXPECT_ANY_THROW(withFields(params, {{"split_block", int64_t(1)}}));
}

TEST(ParamsText, AFieldIsNamedOnce) {
  const ParamFields fields = paramFields(ReductionParams());
  for (const auto& [name, value] : fields) {
    const std::string& wanted = name;
    EXPECT_EQ(std::count_if(fields.begin(), fields.end(),
                            [&](const auto& field) { return field.first == wanted; }),
              1)
        << name;
  }
}

TEST_F(TunedParamsTest, KeepsEntriesOnDisk) {
  const PointwiseParams chosen = pointwise(1);
  const PointwiseParams better = pointwise(4);
  TunedParams store(folder_.string());
  EXPECT_FALSE(store.any());
  EXPECT_EQ(store.find("k", chosen), nullptr);
  store.store("k", better);
  EXPECT_TRUE(store.any());
  TunedParams another(folder_.string());
  EXPECT_TRUE(another.any());
  for (TunedParams* each : {&store, &another}) {
    const auto found = each->find("k", chosen);
    ASSERT_NE(found, nullptr);
    EXPECT_TRUE(found->sameAs(better));
  }
  store.erase("k");
  EXPECT_EQ(store.find("k", chosen), nullptr);
  EXPECT_EQ(TunedParams(folder_.string()).find("k", chosen), nullptr);
}

TEST_F(TunedParamsTest, CanBeSwitchedOff) {
  TunedParams store{std::string()};
  store.store("key", pointwise(4));
  EXPECT_TRUE(store.any());
  const OptionsGuard guard({}, {"tuned_params"});
  EXPECT_FALSE(store.any());
}

TEST_F(TunedParamsTest, ADamagedEntryIsNone) {
  const PointwiseParams chosen = pointwise(1);
  TunedParams(folder_.string()).store("k", pointwise(2));
  std::ofstream(folder_ / "k.txt") << "scheduler pointwise\nbreak_point";
  EXPECT_EQ(TunedParams(folder_.string()).find("k", chosen), nullptr);
}

TEST_F(TunedParamsTest, WithoutAFolderEntriesLastAsLongAsTheStore) {
  TunedParams store("");
  store.store("k", pointwise(2));
  EXPECT_NE(store.find("k", pointwise(1)), nullptr);
}

TEST_F(TunedParamsTest, KeysTellSegmentsChoicesAndSizesApart) {
  const Device host = Device::host();
  const std::string key = TunedParams::key("segment", pointwise(1), 20, host);
  EXPECT_EQ(key, TunedParams::key("segment", pointwise(1), 20, host));
  EXPECT_NE(key, TunedParams::key("another", pointwise(1), 20, host));
  EXPECT_NE(key, TunedParams::key("segment", pointwise(2), 20, host));
  EXPECT_NE(key, TunedParams::key("segment", pointwise(1), 21, host));
  EXPECT_EQ(TunedParams::sizeClass(1000), TunedParams::sizeClass(700));
  EXPECT_NE(TunedParams::sizeClass(1000), TunedParams::sizeClass(3000));
}

} // namespace
} // namespace nvfuser
