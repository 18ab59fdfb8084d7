// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the executor tests: run a definition through the cache and compare with values
// computed here.
#pragma once

#include <cuda/device_info.h>
#include <executor/fusion_executor_cache.h>
#include <fusion.h>
#include <ops/all_ops.h>
#include <runtime/kernel_executor.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

namespace nvfuser::test {

// The devices that can be tested here: the host always, a GPU if there is one.
inline std::vector<Device> testDevices() {
  std::vector<Device> devices{Device::host()};
  if (cudaAvailable()) {
    devices.push_back(Device::cuda(0));
  }
  return devices;
}

inline Tensor randomTensor(const std::vector<int64_t>& sizes, Device device, uint64_t seed = 0,
                           DataType dtype = DataType::Float) {
  return Tensor::random(sizes, dtype, device, seed);
}

inline void expectValues(const Tensor& actual, const std::vector<double>& expected,
                         double tolerance = 1e-5) {
  const std::vector<double> values = actual.to(Device::host()).toDoubles();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance) << "at element " << i;
  }
}

inline std::vector<int64_t> sizesOf(const Tensor& t) {
  return t.sizes().vec();
}
inline std::vector<int64_t> stridesOf(const Tensor& t) {
  return t.strides().vec();
}

// All elements of `a` under `f`.
inline std::vector<double> mapped(const Tensor& a, const std::function<double(double)>& f) {
  std::vector<double> values = a.to(Device::host()).toDoubles();
  for (double& v : values) {
    v = f(v);
  }
  return values;
}

inline std::vector<double> zipped(const Tensor& a, const Tensor& b,
                                  const std::function<double(double, double)>& f) {
  std::vector<double> values = a.to(Device::host()).toDoubles();
  const std::vector<double> other = b.to(Device::host()).toDoubles();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = f(values[i], other.at(i));
  }
  return values;
}

// Defines a fusion; `define` adds inputs and outputs.
inline std::shared_ptr<Fusion> defineFusion(const std::function<void(Fusion*)>& define) {
  auto fusion = std::make_shared<Fusion>();
  FusionGuard guard(fusion.get());
  define(fusion.get());
  return fusion;
}

inline TensorView* addInput(Fusion* fusion, TensorView* tv) {
  fusion->addInput(tv);
  return tv;
}

} // namespace nvfuser::test
