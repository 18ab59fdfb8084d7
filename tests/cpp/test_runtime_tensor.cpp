// SPDX-License-Identifier: BSD-3-Clause
// Tensor: layouts, views, element conversion, DLPack.
#include <gtest/gtest.h>

#include <base/error.h>
#include <tensor/small_float.h>
#include <tensor/tensor.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace nvfuser {
namespace {

using Sizes = std::vector<int64_t>;

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.F);
  return values;
}

TEST(Tensor, EmptyIsAlignedAndContiguous) {
  const Tensor t = Tensor::empty({3, 5}, DataType::Half);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0U);
  EXPECT_TRUE(t.isContiguous());
  EXPECT_EQ(t.strides().vec(), (Sizes{5, 1}));
  EXPECT_EQ(t.spanBytes(), 30U);
  EXPECT_EQ(t.size(-1), 5);
  EXPECT_THROW(t.size(2), UserError);
  EXPECT_EQ(t.toString(), "float16 tensor of sizes [3, 5], strides [5, 1] on cpu");
}

TEST(Tensor, ScalarsEmptiesAndManyDimensions) {
  const Tensor scalar = Tensor::full(Sizes{}, 2.5, DataType::Double);
  EXPECT_EQ(scalar.item<double>(), 2.5);
  const Tensor none = Tensor::zeros(Sizes{4, 0, 3}, DataType::Int);
  EXPECT_EQ(none.numel(), 0);
  EXPECT_EQ(none.spanBytes(), 0U);
  EXPECT_TRUE(none.toVector<int64_t>().empty());
  const Tensor wide = Tensor::zeros(Sizes(12, 2), DataType::Float);
  EXPECT_EQ(wide.numel(), 4096);
  EXPECT_EQ(wide.toVector<float>().size(), 4096U);
}

TEST(Tensor, ViewsShareData) {
  Tensor t = Tensor::fromVector(counting(12), Sizes{3, 4});
  EXPECT_EQ(t.transpose(0, 1).toVector<float>(),
            (std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(t.slice(1, 1, 4, 2).toVector<float>(), (std::vector<float>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(t.slice(0, 1, 2).expand(Sizes{2, 1, 4}).toVector<float>(),
            (std::vector<float>{4, 5, 6, 7, 4, 5, 6, 7}));
  Tensor column = t.slice(1, 0, 1);
  column.fill(-1);
  EXPECT_EQ(t.toVector<float>(), (std::vector<float>{-1, 1, 2, 3, -1, 5, 6, 7, -1, 9, 10, 11}));
  EXPECT_EQ(t.owner(), column.owner());
}

TEST(Tensor, CopyFromRespectsLayouts) {
  const Tensor source = Tensor::fromVector(counting(6), Sizes{2, 3});
  Tensor target = Tensor::zeros(Sizes{3, 2}, DataType::Float).transpose(0, 1);
  target.copyFrom(source);
  EXPECT_EQ(target.toVector<float>(), counting(6));
  EXPECT_THROW(target.copyFrom(source.transpose(0, 1)), UserError);
  EXPECT_TRUE(target.contiguous().isContiguous());
}

TEST(Tensor, PackedFloat4) {
  Tensor packed = Tensor::empty({2, 3}, DataType::Float4_e2m1fn_x2);
  Tensor t = packed.unpackedFloat4();
  EXPECT_EQ(t.sizes().vec(), (Sizes{2, 6}));
  EXPECT_EQ(t.strides().vec(), (Sizes{6, 1}));
  EXPECT_EQ(t.spanBytes(), 6U);
  const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -6, 5};
  for (int64_t i = 0; i < 12; ++i) {
    storeElement(t.data(), i, DataType::Float4_e2m1fn, values[i]);
  }
  EXPECT_EQ(t.toDoubles(), (std::vector<double>{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -6, 4}));
  // The even element is the low half.
  EXPECT_EQ(t.data<uint8_t>()[0], 0x10);
  EXPECT_THROW(t.unpackedFloat4(), UserError);
}

TEST(Tensor, RandomIsRepeatableAndPlausible) {
  const Tensor a = Tensor::random(Sizes{1000}, DataType::BFloat16, Device::host(), 3);
  const Tensor b = Tensor::random(Sizes{1000}, DataType::BFloat16, Device::host(), 3);
  EXPECT_EQ(a.toDoubles(), b.toDoubles());
  double sum = 0;
  double squares = 0;
  for (double value : a.toDoubles()) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 1000, 0, 0.15);
  EXPECT_NEAR(squares / 1000, 1, 0.2);
}

TEST(Tensor, DLPackRoundTripKeepsTheDataAlive) {
  dlpack::DLManagedTensorVersioned* managed = nullptr;
  {
    Tensor t = Tensor::fromVector(counting(6), Sizes{2, 3}).transpose(0, 1);
    managed = t.toDLPack();
  }
  EXPECT_EQ(managed->dl_tensor.ndim, 2);
  const std::shared_ptr<void> owner(managed, [](void* p) {
    auto* m = static_cast<dlpack::DLManagedTensorVersioned*>(p);
    m->deleter(m);
  });
  const Tensor back = Tensor::fromDLTensor(managed->dl_tensor, owner);
  EXPECT_EQ(back.sizes().vec(), (Sizes{3, 2}));
  EXPECT_EQ(back.toVector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Tensor, DLPackTypesRoundTrip) {
  for (int i = 0; i < int(DataType::Null); ++i) {
    const auto dtype = static_cast<DataType>(i);
    if (dtype == DataType::Index || dtype == DataType::Float4_e2m1fn) {
      continue;
    }
    EXPECT_EQ(dataTypeFromDLPack(dataTypeToDLPack(dtype)), dtype) << dtype;
  }
  EXPECT_EQ(dataTypeFromDLPack({dlpack::kFloat, 128, 1}), DataType::Null);
  EXPECT_EQ(dataTypeFromDLPack({dlpack::kFloat, 32, 4}), DataType::Null);
}

// Every pattern decodes to a value that encodes to the same pattern.
TEST(SmallFloat, EveryFiniteValueRoundTrips) {
  const std::pair<DataType, uint32_t> formats[] = {
      {DataType::Half, 1U << 16},   {DataType::BFloat16, 1U << 16},  {DataType::Float8_e4m3fn, 256},
      {DataType::Float8_e5m2, 256}, {DataType::Float8_e8m0fnu, 256}, {DataType::Float4_e2m1fn, 16}};
  for (const auto& [dtype, count] : formats) {
    for (uint32_t bits = 0; bits < count; ++bits) {
      const double value = decodeSmallFloat(bits, dtype);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(decodeSmallFloat(encodeSmallFloat(value, dtype), dtype)));
      } else {
        EXPECT_EQ(encodeSmallFloat(value, dtype), bits) << dtype;
      }
    }
  }
}

TEST(SmallFloat, RoundsToNearestEven) {
  auto through = [](double value, DataType dtype) {
    return decodeSmallFloat(encodeSmallFloat(value, dtype), dtype);
  };
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(through(2049, DataType::Half), 2048);
  EXPECT_EQ(through(2051, DataType::Half), 2052);
  EXPECT_EQ(through(65519, DataType::Half), 65504);
  EXPECT_EQ(through(65520, DataType::Half), inf);
  EXPECT_EQ(through(0x1p-25, DataType::Half), 0);
  EXPECT_EQ(through(0x1.8p-25, DataType::Half), 0x1p-24);
  EXPECT_EQ(through(257, DataType::BFloat16), 256);
  EXPECT_EQ(through(464, DataType::Float8_e4m3fn), 448);
  EXPECT_TRUE(std::isnan(through(465, DataType::Float8_e4m3fn)));
  EXPECT_EQ(through(61440, DataType::Float8_e5m2), inf);
  EXPECT_EQ(through(1e30, DataType::Float4_e2m1fn), 6);
  EXPECT_EQ(through(-2.5, DataType::Float4_e2m1fn), -2);
  EXPECT_EQ(through(3, DataType::Float8_e8m0fnu), 4);
  EXPECT_EQ(through(0, DataType::Float8_e8m0fnu), 0x1p-127);
}

} // namespace
} // namespace nvfuser
