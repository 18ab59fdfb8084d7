// SPDX-License-Identifier: BSD-3-Clause
// A vector of plain values that needs no heap up to N of them. For sizes and strides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace nvfuser {

template <class T, size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() = default;
  explicit SmallVector(size_t count, T value = T()) {
    resize(count, value);
  }
  SmallVector(std::initializer_list<T> values) {
    assign(values.begin(), values.size());
  }
  SmallVector(std::span<const T> values) {
    assign(values.data(), values.size());
  }
  SmallVector(const std::vector<T>& values) {
    assign(values.data(), values.size());
  }
  SmallVector(const SmallVector& other) {
    assign(other.data(), other.size());
  }
  SmallVector(SmallVector&& other) noexcept
      : size_(other.size_), capacity_(other.capacity_), heap_(std::move(other.heap_)) {
    takeInline(other);
    other.size_ = 0;
    other.capacity_ = N;
  }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) {
      assign(other.data(), other.size());
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      size_ = other.size_;
      capacity_ = other.capacity_;
      heap_ = std::move(other.heap_);
      takeInline(other);
      other.size_ = 0;
      other.capacity_ = N;
    }
    return *this;
  }

  // `values` must not point into this vector.
  void assign(const T* values, size_t count) {
    size_ = 0;
    reserve(count);
    if (count > 0) {
      std::memcpy(data(), values, count * sizeof(T));
    }
    size_ = count;
  }
  void push_back(T value) {
    reserve(size_ + 1);
    data()[size_++] = value;
  }
  void resize(size_t count, T value = T()) {
    reserve(count);
    for (size_t i = size_; i < count; ++i) {
      data()[i] = value;
    }
    size_ = count;
  }
  void reserve(size_t count) {
    if (count <= capacity_) {
      return;
    }
    const size_t capacity = std::max(count, 2 * capacity_);
    std::unique_ptr<T[]> larger(new T[capacity]);
    std::copy_n(data(), size_, larger.get());
    heap_ = std::move(larger);
    capacity_ = capacity;
  }
  void clear() {
    size_ = 0;
  }

  T* data() {
    return heap_ ? heap_.get() : reinterpret_cast<T*>(inline_);
  }
  const T* data() const {
    return heap_ ? heap_.get() : reinterpret_cast<const T*>(inline_);
  }
  size_t size() const {
    return size_;
  }
  bool empty() const {
    return size_ == 0;
  }
  T& operator[](size_t i) {
    return data()[i];
  }
  const T& operator[](size_t i) const {
    return data()[i];
  }
  T& back() {
    return data()[size_ - 1];
  }
  const T& back() const {
    return data()[size_ - 1];
  }
  T* begin() {
    return data();
  }
  T* end() {
    return data() + size_;
  }
  const T* begin() const {
    return data();
  }
  const T* end() const {
    return data() + size_;
  }
  operator std::span<const T>() const {
    return {data(), size_};
  }
  std::vector<T> vec() const {
    return {begin(), end()};
  }
  bool operator==(const SmallVector& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  void takeInline(const SmallVector& other) {
    if (heap_ == nullptr && size_ > 0) {
      std::memcpy(inline_, other.inline_, size_ * sizeof(T));
    }
  }

  size_t size_ = 0;
  size_t capacity_ = N;
  std::unique_ptr<T[]> heap_;
  // Not initialized: a vector that is made for each call costs no more than what is put into it.
  alignas(T) std::byte inline_[N * sizeof(T)];
};

} // namespace nvfuser
