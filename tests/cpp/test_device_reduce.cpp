// SPDX-License-Identifier: BSD-3-Clause
// Block, cluster and grid reductions of the device library against double, for every mask and for
// extents on both sides of a warp's size; what the adversarial mode says to them; and that they
// compile for the GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <sstream>
#include <tuple>
#include <vector>

#include <cuda/nvrtc.h>
#include <device/reduce_layout.h>

#include "host_kernel_for_test.h"

namespace nvfuser {
namespace {

using nvfuser::testing::compileForHost;

struct ReduceCase {
  bool reduced[3];
  unsigned extent[3];
  int values;
  bool is_constant = true; // are the extents template arguments?
  int most = 0;            // of x, if that is a number of lanes or warps then

  nvf::BlockShape shape() const {
    const auto constant = [&](int i) {
      const bool is_known = is_constant || (most > 0 && i > 0 && extent[i] == 1);
      return is_known ? static_cast<int>(extent[i]) : i == 0 ? -most : 0;
    };
    return {{reduced[0], reduced[1], reduced[2]}, {constant(0), constant(1), constant(2)}};
  }
  unsigned threads() const {
    return extent[0] * extent[1] * extent[2];
  }
  // The threads with the same number are combined.
  unsigned segment(unsigned thread) const {
    const unsigned index[] = {thread % extent[0], thread / extent[0] % extent[1],
                              thread / extent[0] / extent[1]};
    unsigned number = 0;
    for (int i = 0; i < 3; ++i) {
      number = reduced[i] ? number : number * extent[i] + index[i];
    }
    return number;
  }
  // What is printed between the angle brackets.
  std::string arguments() const {
    std::ostringstream text;
    for (bool r : reduced) {
      text << (r ? "true, " : "false, ");
    }
    const nvf::BlockShape s = shape();
    text << s.extent[0] << ", " << s.extent[1] << ", " << s.extent[2];
    return text.str();
  }
  int64_t workspaceBytes() const {
    return blockReduceWorkspaceBytes(shape(), threads(), {{values, 4}, {values, 8}, {values, 12}});
  }
};

std::vector<ReduceCase> allCases() {
  std::vector<ReduceCase> cases;
  for (unsigned x : {1, 2, 31, 32, 33, 64, 96, 256, 1024}) {
    for (int values : {1, 4, 8}) {
      cases.push_back({{true, false, false}, {x, 1, 1}, values});
    }
  }
  const unsigned blocks[][3] = {{32, 4, 1}, {4, 8, 2},  {16, 3, 1},  {8, 8, 8}, {33, 3, 2},
                                {1, 64, 1}, {64, 1, 4}, {32, 32, 1}, {8, 64, 1}};
  int count = 0;
  for (const auto& b : blocks) {
    for (int mask = 0; mask < 8; ++mask) {
      const int values = ++count % 2 == 0 ? 1 : 4;
      cases.push_back(
          {{(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0}, {b[0], b[1], b[2]}, values});
    }
  }
  const size_t constant = cases.size();
  for (size_t i = 0; i < constant; i += 3) {
    cases.push_back(cases[i]);
    cases.back().is_constant = false;
  }
  // Lanes or warps, of one row or of several that share a block.
  for (unsigned x : {4, 8, 16, 32, 64, 96, 160, 256}) {
    cases.push_back({{true, false, false}, {x, 1, 1}, 4, false, 256});
    cases.push_back({{true, false, false}, {x, x < 256 ? 256 / x : 1, 1}, 1, false, 512});
    cases.push_back({{true, true, false}, {x, 2, 1}, 1, false, 256});
    cases.push_back({{false, true, false}, {x, 2, 1}, 1, false, 256});
  }
  return cases;
}

// Every thread brings N numbers for a sum, N for a maximum, and N for mean and variance of which it
// has none, one or two.
const char* kReduceText = R"(
template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, int N>
NVF_FN void reduceCase(const float* in, double* out, char* smem) {
  const int t = nvf::threadPlace<BX, BY, BZ>().number();
  float sum[N], average[N], m2[N], count[N];
  long long most[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float x = in[t * N + i];
    sum[i] = x;
    most[i] = static_cast<long long>(x * 1000);
    count[i] = t % 3;
    average[i] = t % 3 == 0 ? 0.0f : x;
    m2[i] = 0;
  }
  nvf::blockReduce<RX, RY, RZ, BX, BY, BZ>(
      smem, nvf::ReduceTerm<nvf::SumOp, float, N>{&sum[0]},
      nvf::ReduceTerm<nvf::MaxOp, long long, N>{&most[0]},
      nvf::WelfordTerm<float, N>{&average[0], &m2[0], &count[0]});
#pragma unroll
  for (int i = 0; i < N; ++i) {
    double* o = out + (t * N + i) * 5;
    o[0] = sum[i];
    o[1] = static_cast<double>(most[i]);
    o[2] = average[i];
    o[3] = m2[i];
    o[4] = count[i];
  }
}

)";

std::string reduceKernel(const std::vector<ReduceCase>& cases) {
  std::ostringstream text;
  text << kReduceText << "NVF_KERNEL(reduce, 1024, (int which, const float* in, double* out)) {\n"
       << "  NVF_DYNAMIC_SHARED(smem);\n";
  for (size_t i = 0; i < cases.size(); ++i) {
    text << "  if (which == " << i << ") {\n    reduceCase<" << cases[i].arguments() << ", "
         << cases[i].values << ">(in, out, smem);\n  }\n";
  }
  text << "}\n";
  return text.str();
}

struct Statistics {
  double sum = 0, most = -1e30, average = 0, m2 = 0, count = 0;
};

std::vector<Statistics> expectedStatistics(const ReduceCase& c, const std::vector<float>& in) {
  std::map<std::pair<unsigned, int>, Statistics> segments;
  const auto visit = [&](auto&& function) {
    for (unsigned t = 0; t < c.threads(); ++t) {
      for (int i = 0; i < c.values; ++i) {
        function(segments[{c.segment(t), i}], in[t * c.values + i], t % 3);
      }
    }
  };
  visit([](Statistics& s, float x, unsigned count) {
    s.sum += x;
    s.most = std::max(s.most, static_cast<double>(static_cast<long long>(x * 1000)));
    s.count += count;
    s.average += static_cast<double>(x) * count;
  });
  for (auto& [key, s] : segments) {
    s.average = s.count == 0 ? 0 : s.average / s.count;
  }
  visit([](Statistics& s, float x, unsigned count) {
    s.m2 += count * (x - s.average) * (x - s.average);
  });
  std::vector<Statistics> result;
  for (unsigned t = 0; t < c.threads(); ++t) {
    for (int i = 0; i < c.values; ++i) {
      result.push_back(segments[{c.segment(t), i}]);
    }
  }
  return result;
}

void checkCase(const NvfHostKernel& kernel, const ReduceCase& c, int which, uint64_t seed) {
  std::mt19937 random(which);
  std::vector<float> in(c.threads() * c.values);
  for (float& x : in) {
    x = static_cast<float>(random() % 20000) / 1000.0f - 5.0f;
  }
  std::vector<double> out(in.size() * 5);
  const float* in_pointer = in.data();
  double* out_pointer = out.data();
  void* args[] = {&which, &in_pointer, &out_pointer};
  const HostLaunch launch = {{1, 1, 1},
                             {c.extent[0], c.extent[1], c.extent[2]},
                             static_cast<size_t>(c.workspaceBytes()),
                             seed};
  SCOPED_TRACE(c.arguments() + ", values " + std::to_string(c.values));
  ASSERT_EQ(runHostKernel(kernel, launch, args), "");
  const std::vector<Statistics> expected = expectedStatistics(c, in);
  for (size_t i = 0; i < in.size(); ++i) {
    const Statistics& e = expected[i];
    const double* o = &out[i * 5];
    ASSERT_NEAR(o[0], e.sum, 1e-3 * (1 + std::abs(e.sum))) << i;
    ASSERT_EQ(o[1], e.most) << i;
    ASSERT_NEAR(o[2], e.average, 1e-4) << i;
    ASSERT_NEAR(o[3], e.m2, 1e-4 * (1 + e.m2)) << i;
    ASSERT_EQ(o[4], e.count) << i;
  }
}

TEST(DeviceReduce, BlockReduceMatchesDouble) {
  const std::vector<ReduceCase> cases = allCases();
  for (uint64_t seed : {0, 3}) {
    const NvfHostKernel* kernel = compileForHost(reduceKernel(cases), "reduce",
                                                 {KernelTarget::Host, false, seed != 0}, "-O1");
    for (size_t i = 0; i < cases.size(); ++i) {
      checkCase(*kernel, cases[i], static_cast<int>(i), seed);
    }
  }
}

// Which partials the lanes of nvf::combineColumns read: every one is accumulated once, and those
// that a warp reads at the same time lie in different banks.
void checkColumns(int rows, int columns, int threads) {
  SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns, " +
               std::to_string(threads) + " threads");
  const nvf::ColumnLayout layout = nvf::columnLayout(rows, columns, threads);
  ASSERT_GE(layout.stride, columns);
  ASSERT_TRUE(layout.lanes == 1 || threads % 32 == 0);
  std::vector<int> taken(layout.slots());
  const int per_warp = layout.columnsOfWarp();
  for (int warp = 0; warp * 32 < threads; ++warp) {
    for (int first = layout.firstColumn(warp * 32); first < columns; first += layout.columnStep()) {
      for (int step = 0; step * layout.lanes < rows; ++step) {
        std::map<int, int> banks;
        for (int thread = 0; thread < 32 && warp * 32 + thread < threads; ++thread) {
          const int row = step * layout.lanes + thread / per_warp;
          const int column = first + thread % per_warp;
          ASSERT_EQ(layout.hasColumn(first, thread % per_warp), column < columns) << column;
          if (column < columns && row < rows) {
            ++taken[row * layout.stride + column];
            ++banks[(row * layout.stride + column) % 32];
          }
        }
        if (columns % 32 == 0) {
          for (auto [bank, accesses] : banks) {
            ASSERT_EQ(accesses, 1) << bank;
          }
        }
      }
    }
  }
  for (int i = 0; i < layout.slots(); ++i) {
    ASSERT_EQ(taken[i], i % layout.stride < columns ? 1 : 0) << i;
  }
}

TEST(DeviceReduce, ColumnsAreDealtToLanes) {
  for (int rows : {2, 3, 8, 31, 64, 128}) {
    for (int columns : {1, 4, 24, 32, 64, 96, 512}) {
      for (int threads : {24, 32, 48, 96, 100, 256, 512, 1024}) {
        if (columns <= threads * 8) {
          checkColumns(rows, columns, threads);
        }
      }
    }
  }
}

// Parts of a Welford reduction around a large mean, some of them empty.
const char* kPartsText = R"(
NVF_KERNEL(parts, 1, (const float* in, double* out)) {
  using Term = nvf::WelfordTerm<float, 1>;
  Term::Value parts[8];
  for (int i = 0; i < 8; ++i) {
    parts[i] = {in[3 * i], in[3 * i + 1], in[3 * i + 2]};
  }
  const Term::Value all = Term::combineAll<8>(parts);
  out[0] = all.average;
  out[1] = all.m2;
  out[2] = all.count;
}
)";

TEST(DeviceReduce, ManyPartsAtOnce) {
  const NvfHostKernel* kernel = compileForHost(kPartsText, "parts");
  std::mt19937 random(5);
  for (const float center : {0.0f, 3.0f, -1e6f}) {
    for (int empty = 0; empty < 256; empty += 15) {
      std::vector<float> in;
      double sum = 0, count = 0, m2 = 0;
      for (int i = 0; i < 8; ++i) {
        const bool is_empty = (empty >> i & 1) != 0;
        const float n = is_empty ? 0 : static_cast<float>(1 + random() % 50);
        const float mean = is_empty ? 0 : center + static_cast<float>(random() % 64) / 4;
        const float spread = is_empty ? 0 : static_cast<float>(random() % 100);
        in.insert(in.end(), {mean, spread, n});
        sum += double{n} * mean;
        count += n;
      }
      const double mean = count == 0 ? 0 : sum / count;
      for (int i = 0; i < 8; ++i) {
        m2 += in[3 * i + 1] + in[3 * i + 2] * (in[3 * i] - mean) * (in[3 * i] - mean);
      }
      double out[3];
      const float* in_pointer = in.data();
      double* out_pointer = out;
      void* args[] = {&in_pointer, &out_pointer};
      ASSERT_EQ(runHostKernel(*kernel, {{1, 1, 1}, {1, 1, 1}}, args), "");
      EXPECT_NEAR(out[0], mean, 1e-6 * (1 + std::abs(mean)));
      EXPECT_NEAR(out[1], m2, 1e-5 * m2);
      EXPECT_EQ(out[2], count);
    }
  }
}

// ---- Operations and element types ----

// Lane t of 8 brings t + 1; the results of sum, product, minimum and maximum for each type.
const char* kTypesText = R"(
template <class Op, class T>
NVF_FN double reduced(T value) {
  T T2[1] = {Op::combine(value, Op::template identity<T>())};
  nvf::blockReduce<true, false, false, 8, 8, 1>(nullptr, nvf::ReduceTerm<Op, T, 1>{&T2[0]});
  return nvf::cast<double>(T2[0]);
}
template <class T>
NVF_FN void ofType(double* out, int lane) {
  const T value = nvf::cast<T>(static_cast<float>(lane + 1));
  out[0] = reduced<nvf::SumOp, T>(value);
  out[1] = reduced<nvf::ProdOp, T>(value);
  if constexpr (!nvf::IsComplex<T>) {
    out[2] = reduced<nvf::MinOp, T>(value);
    out[3] = reduced<nvf::MaxOp, T>(value);
  }
}
NVF_KERNEL(types, 64, (double* out, float special)) {
  const int lane = threadIdx.x;
  const bool is_first = lane == 0 && threadIdx.y == 0;
  double o[44] = {};
  ofType<float>(o, lane);
  ofType<double>(o + 4, lane);
  ofType<__half>(o + 8, lane);
  ofType<__bfloat>(o + 12, lane);
  ofType<int>(o + 16, lane);
  ofType<int64_t>(o + 20, lane);
  ofType<bool>(o + 24, lane);
  ofType<nvf::complex<float>>(o + 28, lane);
  ofType<nvf::complex<double>>(o + 32, lane);
  ofType<unsigned char>(o + 36, lane);
  o[40] = reduced<nvf::MaxOp, float>(lane == 3 ? special : 1.0f);
  o[41] = reduced<nvf::MinOp, __half>(nvf::cast<__half>(lane == 3 ? special : 1.0f));
  o[42] = reduced<nvf::MinOp, double>(lane == 3 ? special : 1.0);
  if (is_first) {
    for (int i = 0; i < 44; ++i) {
      out[i] = o[i];
    }
  }
}
)";

TEST(DeviceReduce, OperationsAndTypes) {
  const std::string text = kTypesText;
  const NvfHostKernel* kernel = compileForHost(text, "types");
  std::vector<double> out(44);
  double* pointer = out.data();
  float special = std::nanf("");
  void* args[] = {&pointer, &special};
  const HostLaunch launch = {{1, 1, 1}, {8, 8, 1}};
  ASSERT_EQ(runHostKernel(*kernel, launch, args), "");
  for (size_t i = 0; i < 40; i += 4) {
    SCOPED_TRACE(i / 4);
    const bool is_bool = i == 24, is_byte = i == 36, is_complex = i == 28 || i == 32;
    EXPECT_EQ(out[i], is_bool ? 1 : 36);
    EXPECT_EQ(out[i + 1], is_bool ? 1 : is_byte ? 40320 % 256 : i == 12 ? 40448 : 40320);
    EXPECT_EQ(out[i + 2], is_complex ? 0 : 1);
    EXPECT_EQ(out[i + 3], is_complex ? 0 : is_bool ? 1 : 8);
  }
  for (size_t i = 40; i < 43; ++i) {
    EXPECT_TRUE(std::isnan(out[i])) << i;
  }
  if (nvrtcAvailable()) {
    compileToCubin(assembleKernel(text, KernelTarget::Cuda, false), "types", 90);
  }
}

// ---- Over the grid ----

// Sum and mean of the numbers of all threads; `arguments` are gridReduce's, `values` its N.
std::string gridReduceKernel(const std::string& arguments, int values) {
  const std::string n = std::to_string(values);
  return "NVF_KERNEL(gridReduce, 1024, (const float* in, float* sums, float* means, int* winners, "
         "char* work, unsigned* semaphores)) {\n"
         "  NVF_DYNAMIC_SHARED(smem);\n"
         "  const int threads = blockDim.x * blockDim.y * blockDim.z;\n"
         "  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
         "  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * "
         "threadIdx.z);\n"
         "  const int first = (block * threads + thread) * " +
         n +
         ";\n"
         "  Array<float, " +
         n +
         ", 1> T1, T2, T3, T4;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < " +
         n +
         "; ++i) {\n"
         "    T1[i] = T2[i] = in[first + i];\n"
         "    T3[i] = 0;\n"
         "    T4[i] = 1;\n"
         "  }\n"
         "  if (nvf::gridReduce<" +
         arguments +
         ">(work, semaphores, smem,\n"
         "      nvf::ReduceTerm<nvf::SumOp, float, " +
         n +
         ">{&T1[0]},\n"
         "      nvf::WelfordTerm<float, " +
         n +
         ">{&T2[0], &T3[0], &T4[0]})) {\n"
         "    winners[block * threads + thread] = 1;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < " +
         n +
         "; ++i) {\n"
         "      sums[first + i] = T1[i];\n"
         "      means[first + i] = T2[i];\n"
         "    }\n"
         "  }\n"
         "}\n";
}

// Every group of blocks has exactly one winner, whose threads hold the sums of their segments.
void checkGridReduce(ReduceCase grid, ReduceCase block, uint64_t seed) {
  SCOPED_TRACE(grid.arguments() + " / " + block.arguments());
  const std::string arguments =
      grid.arguments().substr(0, grid.arguments().rfind("e,") + 3) + block.arguments();
  const NvfHostKernel* kernel =
      compileForHost(gridReduceKernel(arguments, block.values), "gridReduce",
                     {KernelTarget::Host, false, seed != 0});
  const size_t blocks = grid.threads(), threads = block.threads(), values = block.values;
  std::vector<float> in(blocks * threads * values);
  std::mt19937 random(7);
  for (float& x : in) {
    x = static_cast<float>(random() % 1000);
  }
  std::map<std::tuple<unsigned, unsigned, size_t>, double> expected;
  std::map<std::pair<unsigned, unsigned>, int> count;
  size_t block_segments = 0, groups = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const unsigned group = grid.segment(i / values / threads);
    const unsigned segment = block.segment(i / values % threads);
    expected[{group, segment, i % values}] += in[i];
    count[{group, segment}] += i % values == 0 ? 1 : 0;
    block_segments = std::max<size_t>(block_segments, segment + 1);
    groups = std::max<size_t>(groups, group + 1);
  }
  const auto terms = {ReduceTermSize{block.values, 4}, ReduceTermSize{block.values, 12}};
  std::vector<char> work(gridReduceWorkspaceBytes(blocks, block_segments, terms), -1);
  std::vector<unsigned> semaphores(groups, 0);
  const HostLaunch launch = {
      {grid.extent[0], grid.extent[1], grid.extent[2]},
      {block.extent[0], block.extent[1], block.extent[2]},
      static_cast<size_t>(blockReduceWorkspaceBytes(block.shape(), threads, terms)),
      seed};
  for (int repetition = 0; repetition < 3; ++repetition) {
    std::vector<float> sums(in.size()), means(in.size());
    std::vector<int> winners(blocks * threads);
    const float* in_pointer = in.data();
    float *sums_pointer = sums.data(), *means_pointer = means.data();
    int* winners_pointer = winners.data();
    char* work_pointer = work.data();
    unsigned* semaphores_pointer = semaphores.data();
    void* args[] = {&in_pointer,      &sums_pointer, &means_pointer,
                    &winners_pointer, &work_pointer, &semaphores_pointer};
    ASSERT_EQ(runHostKernel(*kernel, launch, args), "");
    EXPECT_EQ(semaphores, std::vector<unsigned>(groups, 0));
    std::map<unsigned, int> group_winners;
    for (size_t i = 0; i < in.size(); ++i) {
      if (winners[i / values] == 0) {
        continue;
      }
      const unsigned group = grid.segment(i / values / threads);
      const unsigned segment = block.segment(i / values % threads);
      group_winners[group] += i % (threads * values) == 0 ? 1 : 0;
      const double sum = expected[{group, segment, i % values}];
      ASSERT_NEAR(sums[i], sum, 1e-5 * sum);
      const int members = count[{group, segment}];
      ASSERT_NEAR(means[i], sum / members, 1e-2);
    }
    for (size_t group = 0; group < groups; ++group) {
      EXPECT_EQ(group_winners[group], 1);
    }
  }
}

TEST(DeviceReduce, GridReduce) {
  for (uint64_t seed : {0, 5}) {
    checkGridReduce({{true, false, false}, {37, 1, 1}, 1}, {{true, false, false}, {64, 1, 1}, 1},
                    seed);
    checkGridReduce({{false, true, false}, {3, 13, 1}, 1}, {{false, true, false}, {16, 6, 1}, 4},
                    seed);
    checkGridReduce({{true, false, true}, {5, 2, 3}, 1}, {{false, false, false}, {32, 1, 1}, 2},
                    seed);
    checkGridReduce({{true, true, true}, {1, 1, 1}, 1}, {{true, true, false}, {4, 4, 2}, 1}, seed);
    checkGridReduce({{false, true, false}, {2, 9, 1}, 1}, {{false, true, false}, {8, 32, 1}, 8},
                    seed);
    checkGridReduce({{true, true, false}, {8, 8, 2}, 1}, {{true, true, true}, {1, 1, 1}, 3}, seed);
  }
}

// ---- Over clusters ----

// Twice, in workspaces of their own: all threads of all blocks get the sums and means.
std::string clusterReduceKernel(const ReduceCase& block, int blocks, const char* between) {
  const std::string n = std::to_string(block.values);
  const std::string arguments = std::to_string(blocks) + ", " + block.arguments();
  const int64_t bytes = clusterReduceWorkspaceBytes(block.shape(), block.threads(), blocks,
                                                    {{block.values, 4}, {block.values, 12}});
  const std::string call = "nvf::clusterReduce<" + arguments + ">";
  return "NVF_KERNEL(clusterReduce, 1024, (const float* in, float* sums, float* means)) {\n"
         "  NVF_DYNAMIC_SHARED(smem);\n"
         "  const int threads = blockDim.x * blockDim.y * blockDim.z;\n"
         "  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * "
         "threadIdx.z);\n"
         "  const int first = (blockIdx.x * threads + thread) * " +
         n +
         ";\n"
         "  Array<float, " +
         n +
         ", 1> T1, T2, T3, T4;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < " +
         n +
         "; ++i) {\n"
         "    T1[i] = T2[i] = in[first + i];\n"
         "    T3[i] = 0;\n"
         "    T4[i] = 1;\n"
         "  }\n"
         "  nvf::syncCluster();\n"
         "  " +
         call + "(smem, nvf::ReduceTerm<nvf::SumOp, float, " + n +
         ">{&T1[0]},\n"
         "      nvf::WelfordTerm<float, " +
         n +
         ">{&T2[0], &T3[0], &T4[0]});\n"
         "  " +
         between +
         "\n"
         "  float T5[1] = {1.0f};\n"
         "  " +
         call +
         "(smem, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T5[0]});\n"
         "  " +
         call + "(smem + " + std::to_string(bytes) +
         ", nvf::ReduceTerm<nvf::SumOp, float, 1>{&T5[0]});\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < " +
         n +
         "; ++i) {\n"
         "    sums[first + i] = T1[i];\n"
         "    means[first + i] = T2[i] + T5[0];\n"
         "  }\n"
         "}\n";
}

constexpr const char* kClusterBarrier = "nvf::syncCluster();";

std::string checkClusterReduce(const ReduceCase& block, int cluster, uint64_t seed,
                               const char* between = kClusterBarrier) {
  SCOPED_TRACE(block.arguments() + " in clusters of " + std::to_string(cluster));
  const NvfHostKernel* kernel =
      compileForHost(clusterReduceKernel(block, cluster, between), "clusterReduce",
                     {KernelTarget::Host, false, seed != 0});
  const size_t clusters = 3, values = block.values;
  const size_t blocks = clusters * cluster, threads = block.threads();
  std::vector<float> in(blocks * threads * values), sums(in.size()), means(in.size());
  std::map<std::tuple<size_t, unsigned, size_t>, std::pair<double, int>> expected;
  std::mt19937 random(11);
  const auto total = [&](size_t i) -> std::pair<double, int>& {
    const size_t group = i / values / threads / cluster;
    return expected[{group, block.segment(i / values % threads), i % values}];
  };
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<float>(random() % 1000);
    total(i).first += in[i];
    total(i).second += 1;
  }
  const auto unsignedCluster = static_cast<unsigned>(cluster);
  HostLaunch launch = {
      {static_cast<unsigned>(blocks), 1, 1},
      {block.extent[0], block.extent[1], block.extent[2]},
      static_cast<size_t>(2 * clusterReduceWorkspaceBytes(block.shape(), block.threads(), cluster,
                                                          {{block.values, 4}, {block.values, 12}})),
      seed,
      {unsignedCluster, 1, 1}};
  const float* in_pointer = in.data();
  float *sums_pointer = sums.data(), *means_pointer = means.data();
  void* args[] = {&in_pointer, &sums_pointer, &means_pointer};
  const std::string error = runHostKernel(*kernel, launch, args);
  for (size_t i = 0; i < in.size() && error.empty(); ++i) {
    const auto [sum, count] = total(i);
    const double all = static_cast<double>(count) * count; // the sum over 1, twice
    EXPECT_NEAR(sums[i], sum, 1e-5 * sum) << i;
    EXPECT_NEAR(means[i], sum / count + all, 1e-2 + 1e-6 * all) << i;
    if (::testing::Test::HasFailure()) {
      break;
    }
  }
  return error;
}

const ReduceCase kRow = {{true, false, false}, {256, 1, 1}, 1};
const ReduceCase kLanes = {{true, false, false}, {8, 4, 1}, 2};
const ReduceCase kColumns = {{false, true, false}, {16, 6, 1}, 4};

TEST(DeviceReduce, ClusterReduce) {
  for (uint64_t seed : {0, 5}) {
    EXPECT_EQ(checkClusterReduce(kRow, 4, seed), "");
    EXPECT_EQ(checkClusterReduce(kLanes, 16, seed), "");
    EXPECT_EQ(checkClusterReduce(kColumns, 3, seed), "");
    EXPECT_EQ(checkClusterReduce({{true, true, true}, {1, 1, 1}, 1}, 8, seed), "");
  }
}

TEST(DeviceReduce, AClusterBarrierThatIsMissingIsFound) {
  for (const char* between : {"", "nvf::syncBlock();"}) {
    const std::string error = checkClusterReduce(kRow, 4, 3, between);
    EXPECT_NE(error.find("race on byte"), std::string::npos) << error;
  }
}

// Row by row, with two workspaces and mbarriers alternately.
std::string rowsByPhase(const std::string& stage) {
  return R"(
NVF_KERNEL(rows, 256, (const float* in, float* out, int rows)) {
  NVF_DYNAMIC_SHARED(smem);
  auto* barriers = reinterpret_cast<nvf::MBarrier*>(smem);
  if (threadIdx.x == 0) {
    nvf::initMBarrier(barriers, 1);
    nvf::initMBarrier(barriers + 1, 1);
    nvf::fenceMBarrierInit();
  }
  nvf::arriveAtCluster();
  nvf::waitForCluster();
  for (int row = 0; row < rows; ++row) {
    const int stage = )" +
         stage + R"(;
    float T1[1];
    T1[0] = in[(row * 4 + blockIdx.x) * 256 + threadIdx.x];
    nvf::clusterReduceByPhase<4, true, false, false, 256, 1, 1>(
        smem + 128 + stage * 128, barriers + stage, row / 2 % 2,
        nvf::ReduceTerm<nvf::SumOp, float, 1>{&T1[0]});
    out[(row * 4 + blockIdx.x) * 256 + threadIdx.x] = T1[0];
  }
}
)";
}

TEST(DeviceReduce, ClusterReduceByPhase) {
  const int rows = 7;
  for (const bool alternates : {true, false}) {
    const std::string text = rowsByPhase(alternates ? "row % 2" : "0");
    for (uint64_t seed : {0, 2}) {
      const NvfHostKernel* kernel =
          compileForHost(text, "rows", {KernelTarget::Host, false, seed != 0});
      std::vector<float> in(rows * 1024), out(in.size());
      for (size_t i = 0; i < in.size(); ++i) {
        in[i] = static_cast<float>(i / 1024 + 1);
      }
      const float* in_pointer = in.data();
      float* out_pointer = out.data();
      int count = rows;
      void* args[] = {&in_pointer, &out_pointer, &count};
      const HostLaunch launch = {{4, 1, 1}, {256, 1, 1}, 384, seed, {4, 1, 1}};
      const std::string error = runHostKernel(*kernel, launch, args);
      if (alternates) {
        EXPECT_EQ(error, "");
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_EQ(out[i], in[i] * 1024) << i;
        }
      } else {
        EXPECT_NE(error, ""); // a race, or phases that do not match
      }
    }
  }
  for (const int arch : {90, 100}) {
    if (nvrtcAvailable()) {
      const std::string text = assembleKernel(rowsByPhase("row % 2"), KernelTarget::Cuda, false);
      EXPECT_EQ(parsePtxasLog(compileToCubin(text, "rows", arch).log, "rows").stack_bytes, 0);
    }
  }
}

TEST(DeviceReduce, CompilesForTheGpu) {
  if (!nvrtcAvailable()) {
    GTEST_SKIP() << nvrtcError();
  }
  const std::vector<ReduceCase> cases = {
      {{true, false, false}, {16, 4, 1}, 4},         {{true, false, false}, {256, 1, 1}, 1},
      {{true, false, false}, {768, 1, 1}, 1},        {{true, true, false}, {32, 8, 2}, 4},
      {{false, true, false}, {32, 4, 1}, 4},         {{false, true, false}, {32, 8, 1}, 4},
      {{true, false, false}, {256, 1, 1}, 1, false}, {{true, false, true}, {7, 3, 5}, 2},
      {{false, true, false}, {8, 64, 1}, 8},         {{false, true, false}, {24, 4, 1}, 8}};
  for (int arch : {80, 90, 100}) {
    for (const ReduceCase& c : cases) {
      const std::string text = assembleKernel(reduceKernel({c}), KernelTarget::Cuda, false);
      const CompiledBinary binary = compileToCubin(text, "reduce", arch);
      EXPECT_EQ(parsePtxasLog(binary.log, "reduce").stack_bytes, 0) // all values in registers
          << arch << ": " << c.arguments();
    }
    const std::string grid =
        gridReduceKernel("true, true, false, false, true, false, 32, 16, 1", 4);
    const CompiledBinary binary =
        compileToCubin(assembleKernel(grid, KernelTarget::Cuda, false), "gridReduce", arch);
    EXPECT_EQ(parsePtxasLog(binary.log, "gridReduce").stack_bytes, 0) << arch;
    const std::string columns =
        gridReduceKernel("false, true, false, false, true, false, 8, 64, 1", 8);
    const CompiledBinary by_columns =
        compileToCubin(assembleKernel(columns, KernelTarget::Cuda, false), "gridReduce", arch);
    EXPECT_EQ(parsePtxasLog(by_columns.log, "gridReduce").stack_bytes, 0) << arch;
    for (const ReduceCase& c : {kRow, kLanes, kColumns}) {
      if (arch >= 90) {
        const std::string text = clusterReduceKernel(c, 8, kClusterBarrier);
        const CompiledBinary cluster =
            compileToCubin(assembleKernel(text, KernelTarget::Cuda, false), "clusterReduce", arch);
        EXPECT_EQ(parsePtxasLog(cluster.log, "clusterReduce").stack_bytes, 0) << arch;
      }
    }
  }
}

} // namespace
} // namespace nvfuser
