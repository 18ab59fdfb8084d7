// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the tests of op builders.
#pragma once

#include <base/error.h>
#include <fusion.h>
#include <ir/builder.h>
#include <ops/all_ops.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace nvfuser::testing_utils {

// A fusion that is active as long as the fixture lives.
class OpsTest : public ::testing::Test {
 protected:
  // A tensor with the given sizes (-1 symbolic) as an input.
  TensorView* input(const std::vector<int64_t>& shape, DataType dtype = DataType::Float) {
    TensorView* tv = makeContigConcreteTensor(shape, dtype);
    fusion_.addInput(tv);
    return tv;
  }
  Val* scalarInput(DataType dtype) {
    Val* v = IrBuilder::create<Val>(dtype);
    fusion_.addInput(v);
    return v;
  }
  static Val* constant(int64_t v) {
    return IrBuilder::create<Val>(v);
  }
  static Val* constant(double v) {
    return IrBuilder::create<Val>(v);
  }

  Fusion fusion_;
  FusionGuard guard_{&fusion_};
};

// Iteration types and sizes: "[i 4, b 1, ? i0, b 1 ex 5]".
inline std::string domainText(const TensorView* tv) {
  std::string out = "[";
  for (const IterDomain* id : tv->getLogicalDomain()) {
    out += out.size() > 1 ? ", " : "";
    out += std::string(iterTag(id->iterType())) + " " + id->extent()->toInlineString();
    if (id->hasExpandedExtent()) {
      out += " ex " + id->expandedExtent()->toInlineString();
    }
  }
  return out + "]";
}

// The message of the UserError that `f` throws; empty if it throws none.
inline std::string userError(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

inline ::testing::AssertionResult hasText(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "\"" << part << "\" is not in \"" << text << "\"";
}

} // namespace nvfuser::testing_utils
