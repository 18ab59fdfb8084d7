// SPDX-License-Identifier: BSD-3-Clause
// Options: the grammar of the variables, guards, and the errors for unknown key words.
#include <gtest/gtest.h>

#include <base/error.h>
#include <base/options.h>
#include <base/warning.h>

#include <set>
#include <thread>

namespace nvfuser {
namespace {

std::string messageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(Options, ParsesListWithArguments) {
  OptionSet<EnableOption> set;
  set.parse(" fuse_matmul , warn_register_spill( 8 ),p2p_transport(Tma,x),,fast_math");
  EXPECT_TRUE(set.has(EnableOption::FuseMatmul));
  EXPECT_TRUE(set.has(EnableOption::FastMath));
  EXPECT_FALSE(set.has(EnableOption::KernelDb));
  EXPECT_EQ(set.arguments(EnableOption::WarnRegisterSpill), std::vector<std::string>{"8"});
  EXPECT_EQ(set.arguments(EnableOption::P2pTransport), (std::vector<std::string>{"Tma", "x"}));
  EXPECT_TRUE(set.arguments(EnableOption::FuseMatmul).empty());
}

TEST(Options, UnknownKeywordNamesTheValidOnes) {
  OptionSet<DisableOption> set;
  const std::string message = messageOf([&] { set.parse("fma,bogus"); });
  EXPECT_EQ(message.find("Unrecognized disable_option: bogus. Valid ones: matmul_expr_eval, "), 0U)
      << message;
  EXPECT_EQ(messageOf([] {
              OptionsGuard({"nonsense"}, {});
            }).find("Unrecognized enable_option: nonsense"),
            0U);
  // A failed guard leaves nothing behind.
  EXPECT_FALSE(isOptionEnabled(EnableOption::FuseMatmul));
  EXPECT_NE(messageOf([&] { set.parse("fma(1"); }).find("Missing ')'"), std::string::npos);
}

TEST(Options, EveryKeywordRoundTrips) {
  for (size_t i = 0; i < OptionSet<DumpOption>::kCount; ++i) {
    OptionSet<DumpOption> set;
    set.addKeyword(optionName(static_cast<DumpOption>(i)));
    EXPECT_TRUE(set.has(static_cast<DumpOption>(i)));
  }
  EXPECT_EQ(optionName(EnableOption::MulticastProtocol), "multicast_protocol");
  EXPECT_EQ(optionName(DisableOption::PythonInlineDefinitions), "python_inline_definitions");
  EXPECT_EQ(optionName(DumpOption::Communication), "communication");
  EXPECT_EQ(optionName(ProfilerOption::PrintVerbose), "print.verbose");
}

TEST(Options, TheMachineIsPartOfWhatKernelsDependOn) {
  OptionsGuard guard;
  std::set<uint64_t> hashes;
  for (const char* machine : {"hopper", "h200", "host", "hopper"}) {
    guard.options().host_schedules = toHostSchedules(machine);
    hashes.insert(optionsHash());
  }
  EXPECT_EQ(hashes.size(), 3);
  EXPECT_EQ(messageOf([] { toHostSchedules("H200"); }),
            "NVFUSER_MACHINE must be hopper, h200 or host, got \"H200\"");
}

TEST(Options, GuardsNestAndEnd) {
  const uint64_t before = optionsHash();
  {
    const OptionsGuard outer({"fast_math"}, {});
    EXPECT_TRUE(isOptionEnabled(EnableOption::FastMath));
    EXPECT_NE(optionsHash(), before);
    {
      OptionsGuard inner({}, {"matmul_expr_eval"});
      EXPECT_TRUE(isOptionEnabled(EnableOption::FastMath));
      EXPECT_TRUE(isOptionDisabled(DisableOption::MatmulExprEval));
      inner.options().dump.set(DumpOption::Lower);
      EXPECT_TRUE(isDumpEnabled(DumpOption::Lower));
    }
    EXPECT_FALSE(isDumpEnabled(DumpOption::Lower));
    EXPECT_FALSE(isOptionDisabled(DisableOption::MatmulExprEval));
  }
  EXPECT_FALSE(isOptionEnabled(EnableOption::FastMath));
  EXPECT_EQ(optionsHash(), before);
}

// What the handler below was told.
std::vector<std::string> warned;

TEST(Options, WhatChangesNothingWarnsOnceAndIsNoPartOfKeys) {
  setWarningHandler([](const std::string& message) { warned.push_back(message); });
  const uint64_t before = optionsHash();
  for (int i = 0; i < 2; ++i) {
    const OptionsGuard guard({"host_ir_jit", "fast_math"}, {});
    EXPECT_TRUE(isOptionEnabled(EnableOption::HostIrJit));
    EXPECT_NE(optionsHash(), before);
    OptionsGuard inner({}, {"contig_indexing"});
    inner.options().enable.unset(EnableOption::FastMath);
    EXPECT_EQ(optionsHash(), before);
    inner.options().enable.set(EnableOption::P2pProtocol, {"put"});
    EXPECT_EQ(optionsHash(), before);
  }
  setWarningHandler(nullptr);
  EXPECT_EQ(warned, (std::vector<std::string>{
                        "The enable_option host_ir_jit changes nothing: there is no host IR: "
                        "segments are run by a launch plan",
                        "The disable_option contig_indexing changes nothing: this step of code "
                        "generation is always taken"}));
}

TEST(Options, OtherThreadsSeeThemOnlyThroughSnapshots) {
  const OptionsGuard guard({"fast_math"}, {});
  const OptionsSnapshot snapshot = snapshotOptions();
  bool without = true;
  bool with = false;
  std::thread([&] {
    without = isOptionEnabled(EnableOption::FastMath);
    const OptionsGuard taken(snapshot);
    with = isOptionEnabled(EnableOption::FastMath);
  }).join();
  EXPECT_FALSE(without);
  EXPECT_TRUE(with);
}

TEST(Options, EnvironmentIntRejectsWords) {
  setenv("NVFUSER_TEST_INT", "12x", 1);
  EXPECT_THROW(environmentInt("NVFUSER_TEST_INT", 0), UserError);
  setenv("NVFUSER_TEST_INT", "-5", 1);
  EXPECT_EQ(environmentInt("NVFUSER_TEST_INT", 0), -5);
  unsetenv("NVFUSER_TEST_INT");
  EXPECT_EQ(environmentInt("NVFUSER_TEST_INT", 7), 7);
}

TEST(Error, MessagesAreStreamedOnlyOnFailure) {
  int evaluated = 0;
  auto count = [&] { return ++evaluated; };
  NVF_CHECK(true, count());
  EXPECT_EQ(evaluated, 0);
  EXPECT_EQ(messageOf([] { NVF_CHECK(false, "got ", 3, " of ", 2.5); }), "got 3 of 2.5");
  EXPECT_THROW(NVF_CHECK(false), UserError);
  EXPECT_THROW(NVF_ERROR(false, "x"), InternalError);
  EXPECT_NE(messageOf([] { NVF_ERROR(1 > 2, "why"); }).find("expected 1 > 2: why"),
            std::string::npos);
}

} // namespace
} // namespace nvfuser
