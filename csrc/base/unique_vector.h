// SPDX-License-Identifier: BSD-3-Clause
// A vector without duplicates: constant-time membership, iteration in the order of insertion (so
// that nothing that is printed depends on addresses).
#pragma once

#include <base/error.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <unordered_set>
#include <vector>

namespace nvfuser {

template <class T, class Hash = std::hash<T>>
class VectorOfUniqueEntries {
 public:
  VectorOfUniqueEntries() = default;
  VectorOfUniqueEntries(std::initializer_list<T> values) {
    for (const T& value : values) {
      pushBack(value);
    }
  }
  template <class Iterator>
  VectorOfUniqueEntries(Iterator first, Iterator last) {
    for (; first != last; ++first) {
      pushBack(*first);
    }
  }

  // True if the entry was not there yet.
  bool pushBack(T value) {
    if (!set_.insert(value).second) {
      return false;
    }
    vector_.push_back(std::move(value));
    return true;
  }
  T popBack() {
    NVF_ERROR(!vector_.empty());
    T value = std::move(vector_.back());
    vector_.pop_back();
    set_.erase(value);
    return value;
  }
  // Linear in the number of entries.
  bool erase(const T& value) {
    if (set_.erase(value) == 0) {
      return false;
    }
    vector_.erase(std::find(vector_.begin(), vector_.end(), value));
    return true;
  }
  void clear() {
    vector_.clear();
    set_.clear();
  }

  bool has(const T& value) const {
    return set_.count(value) != 0;
  }
  bool empty() const {
    return vector_.empty();
  }
  size_t size() const {
    return vector_.size();
  }
  const T& front() const {
    return vector_.front();
  }
  const T& back() const {
    return vector_.back();
  }
  const T& at(size_t i) const {
    return vector_.at(i);
  }
  const T& operator[](size_t i) const {
    return vector_[i];
  }
  const std::vector<T>& vector() const {
    return vector_;
  }
  const std::unordered_set<T, Hash>& set() const {
    return set_;
  }
  auto begin() const {
    return vector_.begin();
  }
  auto end() const {
    return vector_.end();
  }
  bool operator==(const VectorOfUniqueEntries& other) const {
    return vector_ == other.vector_;
  }

 private:
  std::vector<T> vector_;
  std::unordered_set<T, Hash> set_;
};

} // namespace nvfuser
