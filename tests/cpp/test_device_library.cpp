// SPDX-License-Identifier: BSD-3-Clause
// assembleKernel: a kernel gets the pieces it needs, in an order in which they compile, and no
// others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "host_kernel_for_test.h"

namespace nvfuser {
namespace {

using nvfuser::testing::compileForHost;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DeviceLibrary, KernelGetsOnlyWhatItUses) {
  const std::string kernel =
      "NVF_KERNEL(k, 128, (Tensor<float, 1, 1> T0)) {\n  T0[0] = nvf::relu(T0[0]);\n}\n";
  for (KernelTarget target : {KernelTarget::Cuda, KernelTarget::Host}) {
    const std::string text = assembleKernel(kernel, target, false);
    EXPECT_TRUE(contains(text, "struct Tensor"));
    EXPECT_TRUE(contains(text, "T relu(T x)"));
    EXPECT_TRUE(contains(text, "T maximum(") || contains(text, "auto maximum("));
    for (const char* unused :
         {"struct Array", "__half", "struct complex", "Philox", "fp8", "Barrier\n"}) {
      EXPECT_FALSE(contains(text, unused)) << unused;
    }
    EXPECT_EQ(text.substr(text.size() - kernel.size()), kernel);
    EXPECT_EQ(text, assembleKernel(kernel, target, false));
  }
}

TEST(DeviceLibrary, OverloadsComeWithTheirTypes) {
  const std::string use = "nvf::exp(x)";
  EXPECT_FALSE(contains(assembleKernel(use, KernelTarget::Cuda, false), "complex"));
  EXPECT_TRUE(contains(assembleKernel(use + "; nvf::complex<float> z;", KernelTarget::Cuda, false),
                       "exp(complex<double> z)"));
}

TEST(DeviceLibrary, IgnoresCommentsAndStrings) {
  const std::string text =
      assembleKernel("// nvf::philox\n/* Array */ \"nvf::relu\"\n", KernelTarget::Cuda, false);
  EXPECT_FALSE(contains(text, "philoxRound"));
  EXPECT_FALSE(contains(text, "struct Array"));
  EXPECT_FALSE(contains(text, "relu(T x)"));
}

TEST(DeviceLibrary, IndexTypeAndTargetOptions) {
  EXPECT_TRUE(
      contains(assembleKernel("", KernelTarget::Cuda, true), "nvfuser_index_t = long long;"));
  EXPECT_TRUE(contains(assembleKernel("", KernelTarget::Cuda, false), "nvfuser_index_t = int;"));
  EXPECT_TRUE(contains(assembleKernel("nvf::syncBlock();", KernelTarget::Host, false),
                       "#define NVF_USES_BARRIERS"));
  EXPECT_TRUE(contains(assembleKernel("", KernelTarget::Host, false, true),
                       "#define NVF_HOST_ADVERSARIAL"));
  EXPECT_TRUE(contains(assembleKernel("#pragma unroll\n", KernelTarget::Host, false),
                       "#pragma GCC unroll"));
}

TEST(DeviceLibrary, TellsWhatItProvides) {
  EXPECT_TRUE(deviceLibraryProvides("nvf::approx::tanh"));
  EXPECT_TRUE(deviceLibraryProvides("Tensor"));
  EXPECT_FALSE(deviceLibraryProvides("nvf::approx::lgamma"));
  // The two targets differ in helpers only.
  std::set<std::string> cuda, host;
  for (const DevicePiece& piece : devicePieces(KernelTarget::Cuda)) {
    cuda.insert(piece.provides.begin(), piece.provides.end());
  }
  for (const DevicePiece& piece : devicePieces(KernelTarget::Host)) {
    host.insert(piece.provides.begin(), piece.provides.end());
  }
  const std::set<std::string> cuda_helpers = {
      "nvf::halfOfWord",          "nvf::shuffleXor",         "nvf::combineLanes",
      "nvf::reduceLanes",         "nvf::takeSlots",          "nvf::combinePartials",
      "nvf::sendPartials",        "nvf::sharedAddress",      "nvf::storeRemotely",
      "nvf::SendByPhase",         "nvf::SendPlainly",        "nvf::ClusterWay",
      "nvf::receivePartials",     "nvf::reduceWarps",        "nvf::reduceWarpsAtRunTime",
      "nvf::reduceThroughMemory", "nvf::reduceColumns",      "nvf::partsAtOnce",
      "nvf::takeColumns",         "nvf::combineColumns",     "nvf::storeColumns",
      "nvf::finishColumns",       "nvf::ColumnOfGrid",       "nvf::takeColumnsOfBlocks",
      "nvf::shuffleWords",        "nvf::scanLanes",          "nvf::reduceSomeLanes",
      "nvf::shiftHalves",         "nvf::combineFewPartials", "nvf::LaneSteps",
      "nvf::reduceLanesStep"};
  for (const std::string& name : cuda) {
    EXPECT_TRUE(host.count(name) != 0 || cuda_helpers.count(name) != 0) << name;
  }
}

TEST(DeviceLibrary, PiecesUseOnlyWhatStandsBeforeThem) {
  for (KernelTarget target : {KernelTarget::Cuda, KernelTarget::Host}) {
    std::map<std::string, size_t> first_provider;
    const auto& pieces = devicePieces(target);
    for (size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_FALSE(pieces[i].provides.empty());
      for (const std::string& name : pieces[i].provides) {
        first_provider.emplace(name, i);
      }
    }
    for (size_t i = 0; i < pieces.size(); ++i) {
      for (const std::string& name : pieces[i].uses) {
        const auto provider = first_provider.find(name);
        if (provider != first_provider.end()) {
          EXPECT_LE(provider->second, i)
              << pieces[i].file << ": " << pieces[i].provides[0] << " uses " << name;
        } else if (name != "nvf::approx" && name.rfind("nvf::CacheOp::", 0) != 0) {
          EXPECT_NE(name.substr(0, 5), "nvf::") << pieces[i].file << " uses unknown " << name;
        }
      }
    }
  }
}

// Every piece compiles with nothing but the pieces that it asks for.
TEST(DeviceLibrary, EveryPieceIsCompleteOnTheHost) {
  const std::string source = "/tmp/nvfuser_piece_" + std::to_string(getpid()) + ".cpp";
  std::set<std::string> seen;
  for (const DevicePiece& piece : devicePieces(KernelTarget::Host)) {
    std::string names;
    for (const auto* list : {&piece.provides, &piece.with}) {
      for (const std::string& name : *list) {
        names += name + " ";
      }
    }
    // Macros are expanded where they are used, not where they are defined.
    const std::string text =
        assembleKernel("#if 0\n" + names + "\n#endif\n", KernelTarget::Host, false);
    if (!seen.insert(text).second) {
      continue;
    }
    std::ofstream(source) << text;
    const std::string command =
        "g++ -std=c++17 -fsyntax-only -Wall -Werror -Wno-unused-variable " + source;
    EXPECT_EQ(std::system(command.c_str()), 0) << piece.file << ": " << names;
  }
  std::remove(source.c_str());
}

// ---- What the functions compute, beyond what the Python test compares with torch ----

template <class T>
std::vector<T> runOnHost(const std::string& type, const std::string& body, size_t size) {
  const NvfHostKernel* kernel =
      compileForHost("NVF_KERNEL(k, 32, (" + type + "* out)) {\n" + body + "}\n", "k");
  std::vector<T> out(size);
  T* pointer = out.data();
  void* args[] = {&pointer};
  HostLaunch launch;
  EXPECT_EQ(runHostKernel(*kernel, launch, args), "");
  return out;
}

// Known answers of the Random123 distribution (kat_vectors, philox4x32 with 10 rounds).
TEST(DeviceLibrary, PhiloxKnownAnswers) {
  const auto words = runOnHost<unsigned>(
      "unsigned",
      "auto a = nvf::philox(0, 0, 0);\n"
      "auto b = nvf::philox(~0ull, ~0ull, ~0ull);\n"
      "auto c = nvf::philox(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull);\n"
      "for (int i = 0; i < 4; ++i) { out[i] = a[i]; out[4 + i] = b[i]; out[8 + i] = c[i]; }\n",
      12);
  const std::vector<unsigned> expected = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8,
                                          0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd,
                                          0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  EXPECT_EQ(words, expected);
}

TEST(DeviceLibrary, UniformStaysInItsBounds) {
  const auto values =
      runOnHost<float>("float",
                       "out[0] = nvf::uniformFloat(0);\n"
                       "out[1] = nvf::uniformFloat(~0u);\n"
                       "out[2] = nvf::uniformDouble(~0u, ~0u);\n"
                       "nvf::PhiloxBlock high = {~0u, 0xfffffe00u, 0xff000000u, 0xfe000000u};\n"
                       "out[3] = nvf::uniform<float>(high, 0, 1.0, 3.0);\n"
                       "out[4] = nvf::uniform<float>(high, 1, 1.0, 3.0);\n"
                       "out[5] = nvf::cast<float>(nvf::uniform<__bfloat>(high, 1, 0.0, 1.0));\n"
                       "out[6] = nvf::cast<float>(nvf::uniform<__bfloat>(high, 3, 0.0, 1.0));\n"
                       "out[7] = nvf::cast<float>(nvf::uniform<__half>(high, 0, 0.0, 1.0));\n",
                       8);
  EXPECT_GT(values[0], 0.0f);
  EXPECT_EQ(values[1], 0.0f);
  EXPECT_LT(values[2], 1.0f);
  EXPECT_EQ(values[3], 1.0f); // rounds to the upper bound: becomes the lower one
  EXPECT_LT(values[4], 3.0f);
  EXPECT_EQ(values[5], 0.99609375f); // the largest bfloat16 below 1
  EXPECT_EQ(values[6], 0.9921875f);
  EXPECT_EQ(values[7], 0.0f); // the word that gives the lower bound
}

TEST(DeviceLibrary, NormalHasTheRightMoments) {
  const auto values = runOnHost<float>(
      "float",
      "for (int i = 0; i < 20000; ++i) {\n"
      "  out[2 * i] = nvf::normal<float>(nvf::philox(1, i / 4, 0), i % 4, 1.0, 2.0);\n"
      "  out[2 * i + 1] = nvf::cast<float>(nvf::normal<double>(nvf::philox(1, i / 2, 1), i % 2, "
      "1.0, 2.0));\n"
      "}\n",
      40000);
  for (size_t kind : {0, 1}) {
    double sum = 0, squares = 0;
    for (size_t i = kind; i < values.size(); i += 2) {
      sum += values[i];
      squares += values[i] * values[i];
    }
    const double mean = sum / 20000, variance = squares / 20000 - mean * mean;
    EXPECT_NEAR(mean, 1.0, 0.06);
    EXPECT_NEAR(variance, 4.0, 0.2);
  }
}

TEST(DeviceLibrary, PackedFp4) {
  const auto bytes = runOnHost<unsigned char>(
      "__e2m1",
      "const float values[16] = {0, 0.25f, 0.26f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, 5.1f, "
      "100.0f,\n"
      "                          -0.0f, -0.74f, -6.0f, nvf::quietNan<float>(), "
      "-nvf::infinity<float>()};\n"
      "Array<__e2m1, 16, 16> a;\n"
      "for (int i = 0; i < 16; ++i) a[i] = nvf::cast<__e2m1>(values[i]);\n"
      "nvf::storeFp4<16>(out, 0, &a[0]);\n"
      "for (int i = 0; i < 16; ++i) nvf::storeFp4<1>(out, 16 + i, &a[i]);\n"
      "Array<__e2m1, 16, 16> b;\n"
      "nvf::loadFp4<16>(&b[0], out, 16);\n"
      "for (int i = 0; i < 16; ++i) {\n"
      "  __e2m1 one;\n"
      "  nvf::loadFp4<1>(&one, out, i);\n"
      "  float x = nvf::cast<float>(one);\n"
      "  out[16 + i].bits = x == nvf::cast<float>(b[i]) ? static_cast<unsigned char>(2 * x + 100) "
      ": 0;\n"
      "}\n",
      32);
  // Ties to even: 0.25 -> 0, 0.75 -> 1, 1.25 -> 1, 1.75 -> 2, 2.5 -> 2, 3.5 -> 4, 5 -> 4.
  const std::vector<int> twice = {0, 0, 1, 2, 2, 4, 4, 8, 8, 12, 12, 0, -1, -12, 12, -12};
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(bytes[16 + i], twice[i] + 100) << i;
  }
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(bytes[i], bytes[8 + i]) << i;
  }
}

TEST(DeviceLibrary, IntegerDivisionNeverTraps) {
  const auto values = runOnHost<int>(
      "int",
      "volatile int zero = 0, minus = -1, lowest = -2147483647 - 1;\n"
      "out[0] = nvf::div(7, zero); out[1] = nvf::mod(7, zero); out[2] = nvf::div(lowest, minus);\n"
      "out[3] = nvf::remainder(lowest, minus); out[4] = nvf::remainder(7, zero); out[5] = "
      "nvf::ceilDiv(7, 2);\n"
      "out[6] = nvf::gcd(zero, zero);\n",
      7);
  EXPECT_EQ(values, (std::vector<int>{-1, -1, -2147483647 - 1, 0, -1, 4, 0}));
}

} // namespace
} // namespace nvfuser
