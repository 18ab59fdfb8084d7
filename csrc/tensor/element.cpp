// SPDX-License-Identifier: BSD-3-Clause
// Single elements of tensors: copied, read and written as doubles.
#include <base/error.h>
#include <tensor/small_float.h>
#include <tensor/tensor.h>

#include <cstring>

namespace nvfuser {

void copyElement(void* to, int64_t to_index, const void* from, int64_t from_index, DataType dtype) {
  if (dtype == DataType::Float4_e2m1fn) {
    const auto* source = static_cast<const uint8_t*>(from);
    auto* target = static_cast<uint8_t*>(to);
    const int value = (source[from_index / 2] >> (from_index % 2 * 4)) & 15;
    uint8_t& byte = target[to_index / 2];
    const int shift = static_cast<int>(to_index % 2 * 4);
    byte = static_cast<uint8_t>((byte & ~(15 << shift)) | (value << shift));
    return;
  }
  const auto size = static_cast<size_t>(dataTypeSizeBytes(dtype));
  std::memcpy(static_cast<char*>(to) + size_t(to_index) * size,
              static_cast<const char*>(from) + size_t(from_index) * size, size);
}

double loadElement(const void* data, int64_t index, DataType dtype) {
  auto get = [&]<class T>(T value) {
    std::memcpy(&value, static_cast<const char*>(data) + index * int64_t(sizeof(T)), sizeof(T));
    return value;
  };
  switch (dtype) {
    case DataType::Double:
      return get(double());
    case DataType::Float:
      return get(float());
    case DataType::Half:
    case DataType::BFloat16:
      return decodeSmallFloat(get(uint16_t()), dtype);
    case DataType::Float8_e4m3fn:
    case DataType::Float8_e5m2:
    case DataType::Float8_e8m0fnu:
      return decodeSmallFloat(get(uint8_t()), dtype);
    case DataType::Float4_e2m1fn: {
      const int byte = static_cast<const uint8_t*>(data)[index / 2];
      return decodeSmallFloat(uint32_t(byte >> (index % 2 * 4)) & 15, dtype);
    }
    case DataType::Int:
      return static_cast<double>(get(int64_t()));
    case DataType::Int32:
      return get(int32_t());
    case DataType::Int16:
      return get(int16_t());
    case DataType::Int8:
      return get(int8_t());
    case DataType::UInt64:
      return static_cast<double>(get(uint64_t()));
    case DataType::UInt32:
      return get(uint32_t());
    case DataType::UInt16:
      return get(uint16_t());
    case DataType::UInt8:
    case DataType::Bool:
      return get(uint8_t());
    case DataType::ComplexFloat:
      return loadElement(data, 2 * index, DataType::Float);
    case DataType::ComplexDouble:
      return loadElement(data, 2 * index, DataType::Double);
    default:
      NVF_THROW("elements of type ", dtype, " have no value as a number");
  }
}

void storeElement(void* data, int64_t index, DataType dtype, double value) {
  auto put = [&]<class T>(T typed) {
    std::memcpy(static_cast<char*>(data) + index * int64_t(sizeof(T)), &typed, sizeof(T));
  };
  switch (dtype) {
    case DataType::Double:
      return put(value);
    case DataType::Float:
      return put(static_cast<float>(value));
    case DataType::Half:
    case DataType::BFloat16:
      return put(static_cast<uint16_t>(encodeSmallFloat(value, dtype)));
    case DataType::Float8_e4m3fn:
    case DataType::Float8_e5m2:
    case DataType::Float8_e8m0fnu:
      return put(static_cast<uint8_t>(encodeSmallFloat(value, dtype)));
    case DataType::Float4_e2m1fn: {
      const uint8_t bits = static_cast<uint8_t>(encodeSmallFloat(value, dtype));
      copyElement(data, index, &bits, 0, dtype);
      return;
    }
    case DataType::Int:
      return put(static_cast<int64_t>(value));
    case DataType::Int32:
      return put(static_cast<int32_t>(value));
    case DataType::Int16:
      return put(static_cast<int16_t>(value));
    case DataType::Int8:
      return put(static_cast<int8_t>(value));
    case DataType::UInt64:
      return put(static_cast<uint64_t>(value));
    case DataType::UInt32:
      return put(static_cast<uint32_t>(value));
    case DataType::UInt16:
      return put(static_cast<uint16_t>(value));
    case DataType::UInt8:
      return put(static_cast<uint8_t>(value));
    case DataType::Bool:
      return put(static_cast<uint8_t>(value != 0));
    case DataType::ComplexFloat:
      storeElement(data, 2 * index, DataType::Float, value);
      return storeElement(data, 2 * index + 1, DataType::Float, 0);
    case DataType::ComplexDouble:
      storeElement(data, 2 * index, DataType::Double, value);
      return storeElement(data, 2 * index + 1, DataType::Double, 0);
    default:
      NVF_THROW("elements of type ", dtype, " have no value as a number");
  }
}

} // namespace nvfuser
