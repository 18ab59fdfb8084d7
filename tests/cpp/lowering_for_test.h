// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the tests of lowering: the IR after a pass and the text of a fusion scheduled by hand,
// and the adversarial run of an edited one.
#pragma once

#include "executor_for_test.h"
#include "host_kernel_for_test.h"
#include "schedules_for_test.h"

#include <iostream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>

namespace nvfuser::test {

// Runs a text for the host with threads in random order; reports races as errors.
class AdversarialModule : public CompiledModule {
 public:
  AdversarialModule(const std::string& text, const std::string& name,
                    const AssembleOptions& options)
      : kernel_(testing::compileForHost(text, name, options)) {}

  void launch(const LaunchConfig& c, void** args) const override {
    constexpr uint64_t kSeed = 3;
    const auto dim = [](const Dim3& d) { return NvfHostDim{d.x, d.y, d.z}; };
    error = runHostKernel(*kernel_,
                          {dim(c.grid), dim(c.block), c.dynamic_shared_bytes, kSeed,
                           dim(c.cooperative ? c.grid : c.cluster)},
                          args);
  }
  int maxActiveBlocksPerSm(int, size_t) const override {
    return 16;
  }

  mutable std::string error;

 private:
  const NvfHostKernel* kernel_;
};

// Kernels as a GPU has them, or, for HostSchedules::ForHost, with threads in loops.
class LoweringTest : public ::testing::Test {
 protected:
  explicit LoweringTest(DataType index_type = DataType::Int,
                        HostSchedules machine = HostSchedules::ForSmallHopper)
      : machine_(machine), index_type_(index_type) {}

  TensorView* input(const std::vector<int64_t>& shape, DataType dtype = DataType::Float) {
    return addInput(&fusion_, makeContigConcreteTensor(shape, dtype));
  }

  const std::string& text() {
    if (!executor_.isLowered()) {
      executor_.lower(&fusion_, Device::host(), index_type_, {}, {}, SchedulerType::None);
    }
    return executor_.kernelText();
  }
  // The statements of the kernel.
  std::string body() {
    const size_t begin = text().find(")) {\n") + 5;
    return "\n" + text().substr(begin, text().rfind('}') - begin);
  }

  // The kernel's IR after a pass, as NVFUSER_DUMP=lower prints it. Tensors are written without
  // their domains and positions.
  std::string after(const std::string& pass) {
    std::string dump;
    {
      OptionsGuard guard;
      guard.options().dump.set(DumpOption::Lower);
      std::ostringstream printed;
      std::streambuf* const console = std::cout.rdbuf(printed.rdbuf());
      std::string error;
      try {
        KernelExecutor().lower(&fusion_, Device::host(), index_type_, {}, {}, SchedulerType::None);
      } catch (const std::exception& e) {
        error = e.what();
      }
      std::cout.rdbuf(console);
      EXPECT_EQ(error, "");
      dump = printed.str();
    }
    std::istringstream lines(dump);
    std::string ir; // after the passes up to this line
    bool found = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("// ", 0) == 0) {
        if (found) {
          break;
        }
        found = line.rfind("// " + pass + ": ", 0) == 0;
        ir = line.ends_with("no change") ? ir : "";
      } else if (line.rfind("KERNEL", 0) != 0 && !line.empty()) {
        ir += line + "\n";
      }
    }
    EXPECT_TRUE(found) << pass << " is no pass:\n" << dump;
    static const std::regex domains(
        R"((T\d+_\w)_[\w:<>]+\[[^\]]*\]( ca_pos\( \d+ \))?( produce_pos\( \d+ \))?)");
    return "\n" + std::regex_replace(ir, domains, "$1");
  }

  // The text without all that is `part`, or without the lines that have it. It has to be there.
  enum class Removed : uint8_t { Part, Lines };
  std::string textWithout(const std::string& part, Removed removed) {
    std::string edited = text();
    size_t count = 0;
    for (size_t at = edited.find(part); !part.empty() && at != std::string::npos;
         at = edited.find(part)) {
      const bool is_line = removed == Removed::Lines;
      const size_t begin = is_line ? edited.rfind('\n', at) : at;
      edited.erase(begin, is_line ? edited.find('\n', at) - begin : part.size());
      ++count;
    }
    EXPECT_EQ(count > 0, !part.empty()) << part << edited;
    return edited;
  }

  // Runs an edited text.
  std::shared_ptr<AdversarialModule> useText(const std::string& edited) {
    const AssembleOptions options{KernelTarget::Host, index_type_ == DataType::Int, true};
    auto module = std::make_shared<AdversarialModule>(edited, executor_.kernelName(), options);
    executor_.setModule(module);
    return module;
  }

  Fusion fusion_;
  FusionGuard guard_{&fusion_};
  KernelExecutor executor_;

 private:
  SchedulesFor machine_;
  DataType index_type_;
};

} // namespace nvfuser::test
