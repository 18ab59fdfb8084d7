// SPDX-License-Identifier: BSD-3-Clause
// LRUCache: fusion definitions to their FusionExecutorCaches, the most recently used `max_fusions`
// of them.
#pragma once

#include <executor/fusion_executor_cache.h>
#include <fusion.h>

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace nvfuser {

class LRUCache {
 public:
  // Error: not positive.
  explicit LRUCache(int64_t max_fusions);

  // The cache of an equal definition, or a new one that takes the fusion. On a hit the fusion
  // passed is destroyed. An entry that is dropped lives on as long as somebody holds it.
  std::shared_ptr<FusionExecutorCache> cacheCompile(std::shared_ptr<Fusion> fusion);
  int64_t numFusions() const;
  // Fusions, lookups, hits and evictions as text, one line each.
  std::string stats() const;

 private:
  struct Entry {
    size_t hash;
    std::shared_ptr<FusionExecutorCache> cache;
    int64_t hits = 0;
  };
  using Entries = std::list<Entry>;

  const int64_t max_fusions_;
  mutable std::mutex mutex_;
  Entries entries_; // most recently used first
  std::unordered_multimap<size_t, Entries::iterator> by_hash_;
  int64_t lookups_ = 0;
  int64_t hits_ = 0;
  int64_t compiled_ = 0;
};

} // namespace nvfuser
