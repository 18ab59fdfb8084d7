// SPDX-License-Identifier: BSD-3-Clause
// A set of plain values, most often few: these are compared one by one and need no heap.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <unordered_set>

namespace nvfuser {

template <class T>
class SmallSet {
 public:
  // Whether it was not there yet.
  bool insert(T value) {
    if (!hashed_.empty()) {
      return hashed_.insert(value).second;
    }
    if (contains(value)) {
      return false;
    }
    if (count_ < few_.size()) {
      few_[count_++] = value;
    } else {
      hashed_.insert(few_.begin(), few_.end());
      hashed_.insert(value);
    }
    return true;
  }
  bool contains(T value) const {
    const auto end = few_.begin() + static_cast<std::ptrdiff_t>(count_);
    return hashed_.empty() ? std::find(few_.begin(), end, value) != end : hashed_.count(value) != 0;
  }

 private:
  std::array<T, 16> few_{};
  size_t count_ = 0;
  std::unordered_set<T> hashed_; // all, as soon as there are more
};

} // namespace nvfuser
