// SPDX-License-Identifier: BSD-3-Clause
// Compiling requests: keys, the modules of this process, the disk cache, the compilers.
#include <runtime/compile.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/options.h>
#include <cuda/module.h>
#include <cuda/nvrtc.h>
#include <host/compiler.h>
#include <host/module.h>
#include <runtime/devices.h>
#include <target/disk_cache.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <fstream>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace nvfuser {

namespace {

using ModulePtr = std::shared_ptr<CompiledModule>;

// Of everything that the binary depends on.
std::string binaryKey(const CompileRequest& request) {
  Sha256 hash;
  hash.updateField("nvfuser kernel 1").updateField(request.symbol);
  if (request.device.isCuda()) {
    hash.updateField("cuda").updateField(std::to_string(nvrtcVersion()));
    for (const std::string& flag : nvrtcFlags(deviceInfo(request.device).arch, request.params)) {
      hash.updateField(flag);
    }
    hash.updateField(std::to_string(request.params.wanted_registers));
  } else {
    hash.updateField("host").updateField(hostCompilerId()).updateField(hostCpuId());
    for (const std::string& flag : hostCompilerFlags()) {
      hash.updateField(flag);
    }
  }
  return hash.updateField(request.text).hex();
}

CompiledBinary compileBinary(const CompileRequest& request) {
  if (request.device.isHost()) {
    return compileToSharedObject(request.text, request.symbol);
  }
  return compileToCubin(request.text, request.symbol, deviceInfo(request.device).arch,
                        request.params);
}

// What NVFUSER_DUMP and NVFUSER_ENABLE=warn_register_spill ask for.
void report(const CompileRequest& request, const CompiledBinary& binary,
            const CompiledModule& module) {
  if (request.device.isHost()) {
    return;
  }
  if (isDumpEnabled(DumpOption::Cubin)) {
    std::ofstream(request.symbol + ".cubin", std::ios::binary) << binary.bytes;
  }
  if (isDumpEnabled(DumpOption::Ptx)) {
    std::cout << compileToPtx(request.text, request.symbol, deviceInfo(request.device).arch,
                              request.params)
              << std::endl;
  }
  if (isDumpEnabled(DumpOption::Sass)) {
    std::cout << disassemble(binary.bytes) << std::endl;
  }
  if (isDumpEnabled(DumpOption::SassToFile)) {
    std::ofstream(request.symbol + ".sass") << disassemble(binary.bytes);
  }
  if (isDumpEnabled(DumpOption::PtxasVerbose) || request.params.enable_ptxas_verbose) {
    std::cout << binary.log << std::endl;
  }
  if (isOptionEnabled(EnableOption::WarnRegisterSpill)) {
    const std::vector<std::string>& arguments = optionArguments(EnableOption::WarnRegisterSpill);
    const int allowed = arguments.empty() ? 0 : std::atoi(arguments.front().c_str());
    const KernelResources& r = module.resources();
    if (r.spill_store_bytes > allowed || r.spill_load_bytes > allowed) {
      std::cerr << "WARNING: kernel " << request.symbol
                << " spills registers: " << r.spill_store_bytes << " bytes stored, "
                << r.spill_load_bytes << " bytes loaded, " << r.registers << " registers per thread"
                << std::endl;
    }
  }
}

ModulePtr loadModule(const std::string& symbol, Device device, const CompiledBinary& binary) {
  if (device.isHost()) {
    return std::make_shared<HostModule>(binary, symbol);
  }
  return std::make_shared<CudaModule>(binary, symbol, device.index);
}

using Milliseconds = std::chrono::duration<double, std::milli>;

ModulePtr build(const CompileRequest& request, const std::string& key) {
  const auto start = std::chrono::steady_clock::now();
  KernelDiskCache& cache = KernelDiskCache::instance();
  std::optional<CompiledBinary> binary = cache.load(key);
  const bool cached = binary.has_value();
  if (!cached) {
    binary = compileBinary(request);
    cache.store(key, *binary);
  }
  ModulePtr module = loadModule(request.symbol, request.device, *binary);
  const Milliseconds elapsed = std::chrono::steady_clock::now() - start;
  module->setOrigin(key, *binary, cached, elapsed.count());
  report(request, *binary, *module);
  return module;
}

// Null if it is not there.
ModulePtr loadFromDisk(const std::string& key, const std::string& symbol, Device device) {
  const auto start = std::chrono::steady_clock::now();
  const std::optional<CompiledBinary> binary = KernelDiskCache::instance().load(key);
  if (!binary.has_value()) {
    return nullptr;
  }
  ModulePtr module = loadModule(symbol, device, *binary);
  const Milliseconds elapsed = std::chrono::steady_clock::now() - start;
  module->setOrigin(key, *binary, /*cached=*/true, elapsed.count());
  return module;
}

// The modules that are alive in this process, and those being made.
class ModuleTable {
 public:
  // Never destroyed: modules may be asked for while the process ends.
  static ModuleTable& instance() {
    static auto* table = new ModuleTable();
    return *table;
  }

  // What several threads ask for at once is built by one of them. Null if that gives null.
  template <class Build>
  ModulePtr getOrBuild(const std::string& key, const Build& build_module) {
    std::promise<ModulePtr> promise;
    std::shared_future<ModulePtr> other;
    {
      const std::lock_guard lock(mutex_);
      Entry& entry = entries_[key];
      if (ModulePtr module = entry.module.lock()) {
        return module;
      }
      if (entry.pending.valid()) {
        other = entry.pending;
      } else {
        entry.pending = promise.get_future().share();
      }
    }
    if (other.valid()) {
      return other.get();
    }
    try {
      ModulePtr module = build_module();
      finish(key, module);
      promise.set_value(module);
      return module;
    } catch (...) {
      finish(key, nullptr);
      promise.set_exception(std::current_exception());
      throw;
    }
  }

 private:
  struct Entry {
    std::weak_ptr<CompiledModule> module;
    std::shared_future<ModulePtr> pending;
  };

  void finish(const std::string& key, const ModulePtr& module) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[key];
    entry.module = module;
    // The future would keep the module alive.
    entry.pending = {};
    if (module == nullptr) {
      entries_.erase(key);
    }
    if (entries_.size() > next_sweep_) {
      std::erase_if(entries_, [](const auto& item) {
        return item.second.module.expired() && !item.second.pending.valid();
      });
      next_sweep_ = 2 * entries_.size() + kSweepAt;
    }
  }

  static constexpr size_t kSweepAt = 256;
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  size_t next_sweep_ = kSweepAt;
};

} // namespace

std::shared_ptr<CompiledModule> compile(const CompileRequest& request) {
  const std::string key = binaryKey(request);
  ModulePtr module;
  while (module == nullptr) { // as when findCompiled() was just looking for it
    module = ModuleTable::instance().getOrBuild(key + request.device.toString(),
                                                [&] { return build(request, key); });
  }
  return module;
}

std::shared_ptr<CompiledModule> findCompiled(const std::string& key, const std::string& symbol,
                                             Device device) {
  return ModuleTable::instance().getOrBuild(key + device.toString(),
                                            [&] { return loadFromDisk(key, symbol, device); });
}

std::vector<CompileOutcome> compileEach(const std::vector<CompileRequest>& requests) {
  std::vector<CompileOutcome> outcomes(requests.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next.fetch_add(1); i < requests.size(); i = next.fetch_add(1)) {
      try {
        outcomes[i].module = compile(requests[i]);
      } catch (...) {
        outcomes[i].error = std::current_exception();
      }
    }
  };
  size_t thread_count = 1;
  if (!isOptionDisabled(DisableOption::ParallelCompile)) {
    const size_t cores = std::max(1U, std::thread::hardware_concurrency());
    thread_count = std::min(requests.size(), cores);
  }
  // This thread takes its share; the others see its options.
  std::vector<std::thread> threads;
  const OptionsSnapshot options = snapshotOptions();
  for (size_t i = 1; i < thread_count; ++i) {
    threads.emplace_back([&] {
      const OptionsGuard guard(options);
      work();
    });
  }
  work();
  for (std::thread& thread : threads) {
    thread.join();
  }
  return outcomes;
}

std::vector<ModulePtr> compileAll(const std::vector<CompileRequest>& requests) {
  std::vector<ModulePtr> modules;
  for (CompileOutcome& outcome : compileEach(requests)) {
    if (outcome.error != nullptr) {
      std::rethrow_exception(outcome.error);
    }
    modules.push_back(std::move(outcome.module));
  }
  return modules;
}

} // namespace nvfuser
