// SPDX-License-Identifier: BSD-3-Clause
// The cache of fusion definitions.
#include <executor/lru_cache.h>

#include <base/error.h>

#include <sstream>

namespace nvfuser {

LRUCache::LRUCache(int64_t max_fusions) : max_fusions_(max_fusions) {
  NVF_CHECK(max_fusions > 0, "The maximum number of fusions must be positive, but got ",
            max_fusions, ".");
}

std::shared_ptr<FusionExecutorCache> LRUCache::cacheCompile(std::shared_ptr<Fusion> fusion) {
  NVF_CHECK(fusion != nullptr, "A fusion is needed.");
  std::lock_guard lock(mutex_);
  ++lookups_;
  const size_t hash = fusion->definitionHash();
  auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Entries::iterator entry = it->second;
    if (entry->cache->fusion()->sameDefinition(*fusion)) {
      ++hits_;
      ++entry->hits;
      entries_.splice(entries_.begin(), entries_, entry);
      return entry->cache;
    }
  }
  while (static_cast<int64_t>(entries_.size()) >= max_fusions_) {
    const Entries::iterator last = std::prev(entries_.end());
    auto [first_equal, end_equal] = by_hash_.equal_range(last->hash);
    for (auto it = first_equal; it != end_equal; ++it) {
      if (it->second == last) {
        by_hash_.erase(it);
        break;
      }
    }
    entries_.erase(last);
  }
  ++compiled_;
  auto cache = std::make_shared<FusionExecutorCache>(std::move(fusion), lookups_ - 1 - hits_);
  entries_.push_front(Entry{hash, cache});
  by_hash_.emplace(hash, entries_.begin());
  return cache;
}

int64_t LRUCache::numFusions() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

std::string LRUCache::stats() const {
  std::lock_guard lock(mutex_);
  std::ostringstream out;
  out << "Max Fusions Allowed: " << max_fusions_ << "\n";
  if (entries_.empty()) {
    out << "The fusion cache is empty.\n";
    return out.str();
  }
  out << "Total Fusions in Cache: " << entries_.size() << "\n";
  out << "Total Unique Fusions Compiled: " << compiled_ << "\n";
  out << "Cache Hits by LRU ordering:\n";
  int64_t i = 0;
  for (const Entry& entry : entries_) {
    out << "\t" << i++ << " -> " << entry.hits << " hits\n";
  }
  out << "Cache Lookups: " << lookups_ << "\n";
  out << "Cache Hits: " << hits_ << "\n";
  out << "Hit Rate: " << static_cast<double>(hits_) / static_cast<double>(lookups_) * 100.0
      << "%\n";
  return out.str();
}

} // namespace nvfuser
