// SPDX-License-Identifier: BSD-3-Clause
// Equivalence classes by union, with the members of each class in a definite order. Sets are shared
// objects: a pointer to one stays valid as long as its class is not merged into a larger one.
#pragma once

#include <base/error.h>
#include <base/unique_vector.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace nvfuser {

template <class T, class Hash = std::hash<T>>
class DisjointSets {
 public:
  using Set = VectorOfUniqueEntries<T, Hash>;
  using SetPtr = std::shared_ptr<Set>;

  DisjointSets() = default;
  DisjointSets(const DisjointSets& other) {
    copyFrom(other);
  }
  DisjointSets(DisjointSets&&) noexcept = default;
  DisjointSets& operator=(const DisjointSets& other) {
    if (this != &other) {
      clear();
      copyFrom(other);
    }
    return *this;
  }
  DisjointSets& operator=(DisjointSets&&) noexcept = default;

  // Makes the entry a class of its own unless it has one; returns its class.
  const SetPtr& initializeSet(const T& entry) {
    auto [it, inserted] = map_.try_emplace(entry);
    if (inserted) {
      it->second = std::make_shared<Set>();
      it->second->pushBack(entry);
      positions_[it->second.get()] = sets_.size();
      sets_.push_back(it->second);
    }
    return it->second;
  }

  // Makes the two equivalent (adding them if they are new). The members of the second's class
  // follow those of the first's, and the joint class takes the first's place.
  void mapEntries(const T& first, const T& second) {
    SetPtr into = initializeSet(first);
    SetPtr from = initializeSet(second);
    if (into == from) {
      return;
    }
    for (const T& entry : *from) {
      into->pushBack(entry);
      map_[entry] = into;
    }
    removeSet(from.get());
  }

  // Both entries must be known.
  bool strictAreMapped(const T& first, const T& second) const {
    return getDisjointSetOf(first).has(second);
  }

  // False if one is unknown.
  bool permissiveAreMapped(const T& first, const T& second) const {
    auto it = map_.find(first);
    return it != map_.end() && it->second->has(second);
  }

  const Set& getDisjointSetOf(const T& entry) const {
    return *setOf(entry);
  }
  const SetPtr& setOf(const T& entry) const {
    auto it = map_.find(entry);
    NVF_ERROR(it != map_.end(), "entry belongs to no class");
    return it->second;
  }

  // In the order in which their first members came; compacts lazily.
  const std::vector<SetPtr>& disjointSets() const {
    compact();
    return sets_;
  }

  std::vector<T> allElements() const {
    std::vector<T> elements;
    elements.reserve(map_.size());
    for (const SetPtr& set : disjointSets()) {
      elements.insert(elements.end(), set->begin(), set->end());
    }
    return elements;
  }

  // Removes the entry; its class goes when it was the last member.
  bool erase(const T& entry) {
    auto it = map_.find(entry);
    if (it == map_.end()) {
      return false;
    }
    SetPtr set = it->second;
    map_.erase(it);
    set->erase(entry);
    if (set->empty()) {
      removeSet(set.get());
    }
    return true;
  }

  void clear() {
    map_.clear();
    sets_.clear();
    positions_.clear();
    holes_ = 0;
  }
  size_t size() const {
    return sets_.size() - holes_;
  }

 private:
  void copyFrom(const DisjointSets& other) {
    for (const SetPtr& set : other.disjointSets()) {
      auto copy = std::make_shared<Set>(*set);
      for (const T& entry : *copy) {
        map_[entry] = copy;
      }
      positions_[copy.get()] = sets_.size();
      sets_.push_back(std::move(copy));
    }
  }

  void removeSet(const Set* set) {
    auto it = positions_.find(set);
    sets_[it->second] = nullptr;
    positions_.erase(it);
    ++holes_;
  }

  void compact() const {
    if (holes_ == 0) {
      return;
    }
    size_t count = 0;
    for (SetPtr& set : sets_) {
      if (set != nullptr) {
        positions_[set.get()] = count;
        sets_[count++] = std::move(set);
      }
    }
    sets_.resize(count);
    holes_ = 0;
  }

  std::unordered_map<T, SetPtr, Hash> map_;
  // Removed classes leave holes until somebody looks at the list, so that a union does not cost a
  // pass over it.
  mutable std::vector<SetPtr> sets_;
  mutable std::unordered_map<const Set*, size_t> positions_;
  mutable size_t holes_ = 0;
};

} // namespace nvfuser
