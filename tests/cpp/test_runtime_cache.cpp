// SPDX-License-Identifier: BSD-3-Clause
// The disk cache: what is stored comes back, what was damaged does not, old entries go first.
#include <gtest/gtest.h>

#include <base/hash.h>
#include <base/options.h>
#include <target/disk_cache.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace nvfuser {
namespace {

namespace fs = std::filesystem;

class KernelDiskCacheTest : public ::testing::Test {
 protected:
  KernelDiskCacheTest() {
    std::string name = (fs::temp_directory_path() / "nvfuser-cache-XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~KernelDiskCacheTest() override {
    fs::remove_all(directory_);
  }
  static std::string keyOf(int i) {
    return Sha256().updateField(std::to_string(i)).hex();
  }
  std::string directory_;
};

TEST_F(KernelDiskCacheTest, ReturnsWhatWasStored) {
  KernelDiskCache cache(directory_, 1 << 20);
  EXPECT_FALSE(cache.load(keyOf(1)).has_value());
  CompiledBinary binary{std::string("\x7f\0ELF", 5), "the log", {}};
  cache.store(keyOf(1), binary);
  EXPECT_FALSE(binary.path.empty());
  // Another cache object stands for another process.
  KernelDiskCache other(directory_, 1 << 20);
  const auto loaded = other.load(keyOf(1));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->bytes, binary.bytes);
  EXPECT_EQ(loaded->log, "the log");
  EXPECT_EQ(loaded->path, binary.path);
  EXPECT_FALSE(other.load(keyOf(2)).has_value());
}

TEST_F(KernelDiskCacheTest, EveryDamagedByteIsNoticed) {
  KernelDiskCache cache(directory_, 1 << 20);
  CompiledBinary binary{"binary bytes", "log", {}};
  cache.store(keyOf(1), binary);
  std::ifstream stream(binary.path, std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(stream), {});
  auto write = [&](const std::string& contents) {
    std::ofstream(binary.path, std::ios::binary | std::ios::trunc) << contents;
  };
  for (size_t i = 0; i < good.size(); ++i) {
    if (i >= good.size() - 104 + 12 && i < good.size() - 104 + 16) {
      continue; // reserved
    }
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    write(bad);
    EXPECT_FALSE(cache.load(keyOf(1)).has_value()) << "byte " << i;
    EXPECT_FALSE(fs::exists(binary.path));
  }
  for (size_t size : {size_t(0), size_t(50), good.size() - 1}) {
    write(good.substr(0, size));
    EXPECT_FALSE(cache.load(keyOf(1)).has_value());
  }
  write(good);
  EXPECT_TRUE(cache.load(keyOf(1)).has_value());
  // An entry under another's name is none.
  fs::create_directories(fs::path(cache.entryPath(keyOf(2))).parent_path());
  fs::rename(binary.path, cache.entryPath(keyOf(2)));
  EXPECT_FALSE(cache.load(keyOf(2)).has_value());
}

TEST_F(KernelDiskCacheTest, PruningRemovesTheOldestFirst) {
  KernelDiskCache cache(directory_, 10000);
  for (int i = 0; i < 20; ++i) {
    CompiledBinary binary{std::string(1000, 'x'), "", {}};
    cache.store(keyOf(i), binary);
    fs::last_write_time(binary.path,
                        fs::file_time_type::clock::now() - std::chrono::hours(100 - i));
  }
  EXPECT_TRUE(cache.load(keyOf(0)).has_value()); // now the most recent
  std::ofstream(directory_ + "/unrelated") << std::string(50000, 'x');
  cache.prune();
  EXPECT_TRUE(cache.load(keyOf(0)).has_value());
  EXPECT_TRUE(cache.load(keyOf(19)).has_value());
  EXPECT_FALSE(cache.load(keyOf(1)).has_value());
  EXPECT_TRUE(fs::exists(directory_ + "/unrelated"));
  uint64_t total = 0;
  for (int i = 0; i < 20; ++i) {
    std::error_code ignored;
    const auto size = fs::file_size(cache.entryPath(keyOf(i)), ignored);
    total += ignored ? 0 : size;
  }
  EXPECT_LE(total, 10000U);
  EXPECT_GT(total, 5000U);
}

TEST_F(KernelDiskCacheTest, ManyWritersOfOneEntry) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      KernelDiskCache cache(directory_, 1 << 20);
      for (int i = 0; i < 50; ++i) {
        CompiledBinary binary{std::string(10000, 'b'), "", {}};
        cache.store(keyOf(7), binary);
        const auto loaded = cache.load(keyOf(7));
        wrong += !loaded.has_value() || loaded->bytes != binary.bytes;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(KernelDiskCacheTest, CanBeTurnedOffAndNeedsNoFolder) {
  KernelDiskCache cache(directory_, 1 << 20);
  CompiledBinary binary{"x", "", {}};
  {
    const OptionsGuard guard({}, {"nvrtc_caching"});
    cache.store(keyOf(1), binary);
    EXPECT_TRUE(binary.path.empty());
  }
  EXPECT_TRUE(fs::is_empty(directory_));
  KernelDiskCache nowhere("", 1 << 20);
  nowhere.store(keyOf(1), binary);
  nowhere.prune();
  EXPECT_FALSE(nowhere.load(keyOf(1)).has_value());
  KernelDiskCache unwritable("/proc/nvfuser", 1 << 20);
  unwritable.store(keyOf(1), binary);
  EXPECT_TRUE(binary.path.empty());
}

} // namespace
} // namespace nvfuser
