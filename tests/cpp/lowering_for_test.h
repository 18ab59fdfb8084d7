// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the tests of lowering: what a pass makes of the IR and the text of a fusion scheduled
// by hand, and the adversarial run of an edited one.
#pragma once

#include "executor_for_test.h"
#include "host_kernel_for_test.h"
#include "schedules_for_test.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace nvfuser::test {

// The lines that two texts do not share, with a sign in front, and those that these stand below
// (with less indentation).
inline std::string differences(const std::string& before, const std::string& after) {
  const auto linesOf = [](const std::string& text) {
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      out.push_back(line);
    }
    return out;
  };
  const std::vector<std::string> a = linesOf(before);
  const std::vector<std::string> b = linesOf(after);
  // The longest common subsequence of the first lines of each.
  std::vector<std::vector<size_t>> common(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      common[i + 1][j + 1] =
          a[i] == b[j] ? common[i][j] + 1 : std::max(common[i][j + 1], common[i + 1][j]);
    }
  }
  // From the last line to the first.
  std::string out;
  size_t below = 0; // lines with less indentation stand around a change that follows
  const auto put = [&](char sign, const std::string& line) {
    const size_t indentation = line.find_first_not_of(' ');
    if (sign != ' ' || indentation < below) {
      out.insert(0, sign + line + "\n");
      below = indentation;
    }
  };
  for (size_t i = a.size(), j = b.size(); i > 0 || j > 0;) {
    if (i > 0 && j > 0 && a[i - 1] == b[j - 1]) {
      put(' ', a[--i]);
      --j;
    } else if (j > 0 && (i == 0 || common[i][j - 1] >= common[i - 1][j])) {
      put('+', b[--j]);
    } else {
      put('-', a[--i]);
    }
  }
  return out;
}

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
    return "\n" + around(pass).second;
  }

  // What a pass does to the IR: lines that it takes out (-) and puts in (+), in the loops and
  // branches that they stand in.
  std::string changesOf(const std::string& pass) {
    const auto [before, after] = around(pass);
    return "\n" + differences(before, after);
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
  // What NVFUSER_DUMP=lower prints.
  std::string dumped() {
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
    return printed.str();
  }

  // The IR before and after a pass.
  std::pair<std::string, std::string> around(const std::string& pass) {
    const std::string dump = dumped();
    std::istringstream lines(dump);
    std::string before;
    std::string ir; // after the passes up to this line
    bool found = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("// ", 0) == 0) {
        if (found) {
          break;
        }
        found = line.rfind("// " + pass + ": ", 0) == 0;
        before = ir;
        ir = line.ends_with("no change") ? ir : "";
      } else if (line.rfind("KERNEL", 0) != 0 && !line.empty()) {
        ir += line + "\n";
      }
    }
    EXPECT_TRUE(found) << pass << " is no pass:\n" << dump;
    static const std::regex domains(
        R"((T\d+_\w)_[\w:<>]+\[[^\]]*\]( ca_pos\( \d+ \))?( produce_pos\( \d+ \))?)");
    return {std::regex_replace(before, domains, "$1"), std::regex_replace(ir, domains, "$1")};
  }

  SchedulesFor machine_;
  DataType index_type_;
};

} // namespace nvfuser::test
