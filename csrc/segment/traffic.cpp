// SPDX-License-Identifier: BSD-3-Clause
// See traffic.h.
#include <segment/traffic.h>

#include <algorithm>
#include <utility>

namespace nvfuser {

double extentOf(const IterDomain* id) {
  constexpr double kUnknownExtent = 256;
  const Val* extent = id->extent();
  return extent->isConst() ? static_cast<double>(extent->intValue()) : kUnknownExtent;
}

double elementsOf(const Val* tensor) {
  double elements = 1;
  for (const IterDomain* id : tensor->as<TensorView>()->getLogicalDomain()) {
    elements *= id->isBroadcast() || id->isReduction() ? 1 : extentOf(id);
  }
  return elements;
}

double sizeOf(const Val* tensor) {
  return elementsOf(tensor) * static_cast<double>(dataTypeSizeBits(tensor->dtype())) / 8;
}

double bytesOf(const std::vector<Val*>& vals) {
  double bytes = 0;
  for (const Val* v : vals) {
    bytes += v->isTensor() ? sizeOf(v) : 0;
  }
  return bytes;
}

double traffic(const Segment& segment) {
  return bytesOf(segment.inputs) + bytesOf(segment.outputs);
}

namespace {

// What goes from one to the other, or both read.
double sharedWeight(const Segment& a, const Segment& b) {
  double weight = 0;
  for (const Val* in : b.inputs) {
    const bool is_made = std::find(a.outputs.begin(), a.outputs.end(), in) != a.outputs.end();
    const bool is_read = std::find(a.inputs.begin(), a.inputs.end(), in) != a.inputs.end();
    if (in->isTensor() && (is_made || is_read)) {
      weight += (is_made ? 2 : 1) * sizeOf(in);
    }
  }
  return weight;
}

} // namespace

std::vector<size_t> relatedBefore(const std::vector<Segment>& segments, size_t i, size_t most) {
  constexpr size_t kFarthest = 16; // segments
  std::vector<std::pair<double, size_t>> found;
  for (size_t j = i - std::min(i, kFarthest); j < i; ++j) {
    if (const double shared = sharedWeight(segments[j], segments[i]); shared > 0) {
      found.emplace_back(-shared, i - j);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<size_t> out;
  for (const auto& [shared, distance] : found) {
    if (out.size() < most) {
      out.push_back(i - distance);
    }
  }
  return out;
}

} // namespace nvfuser
