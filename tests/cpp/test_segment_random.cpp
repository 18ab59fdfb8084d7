// SPDX-License-Identifier: BSD-3-Clause
// Random graphs of elementwise and shape ops: as few kernels as the scheduler can make of them give
// the same values as one kernel per op. NVFUSER_TEST_GRAPHS sets how many are tried.
#include "executor_for_test.h"

#include <base/options.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace nvfuser::test {
namespace {

class GraphMaker {
 public:
  GraphMaker(uint64_t seed, bool cut_everywhere) : random_(seed), cut_(cut_everywhere) {}

  std::shared_ptr<Fusion> make() {
    return defineFusion([&](Fusion* f) {
      const int num_inputs = 1 + pick(3);
      for (int i = 0; i < num_inputs; ++i) {
        std::vector<int64_t> shape;
        const int rank = pick(4);
        for (int d = 0; d < rank; ++d) {
          shape.push_back(extents_[pick(std::size(extents_))]);
        }
        addGraphInput(f, shape);
      }
      const int num_ops = 1 + pick(12);
      for (int i = 0; i < num_ops; ++i) {
        addOp();
      }
      const int num_outputs = 1 + pick(3);
      for (int i = 0; i < num_outputs; ++i) {
        f->addOutput(
            values_[values_.size() - 1 - pick(std::min<int>(4, static_cast<int>(values_.size())))]
                .tv);
      }
    });
  }

  KernelArgs arguments(Device device) const {
    KernelArgs args;
    uint64_t seed = 1;
    for (const auto& shape : input_shapes_) {
      args.push(randomTensor(shape, device, seed++));
    }
    return args;
  }

  const std::string& log() const {
    return log_;
  }

 private:
  struct Value {
    TensorView* tv;
    std::vector<int64_t> shape;
  };

  int pick(size_t n) {
    return static_cast<int>(random_() % n);
  }

  void addGraphInput(Fusion* f, const std::vector<int64_t>& shape) {
    // 1 is a broadcast in the definition, everything else symbolic or constant.
    std::vector<int64_t> declared;
    const bool constant = pick(2) == 0;
    for (int64_t n : shape) {
      declared.push_back(n == 1 || constant ? n : -1);
    }
    input_shapes_.push_back(shape);
    values_.push_back({addInput(f, makeContigConcreteTensor(declared)), shape});
    note("input", shape);
  }

  void note(const std::string& op, const std::vector<int64_t>& shape) {
    log_ += op + " [";
    for (int64_t n : shape) {
      log_ += std::to_string(n) + " ";
    }
    log_ += "]\n";
  }

  void push(const std::string& op, TensorView* tv, std::vector<int64_t> shape) {
    note(std::to_string(values_.size()) + " = " + op, shape);
    values_.push_back({cut_ ? segment_set(tv) : tv, std::move(shape)});
  }

  void addOp() {
    const size_t index =
        values_.size() - 1 - pick(std::min<int>(3, static_cast<int>(values_.size())));
    const Value x = values_[index];
    const std::string of = " of " + std::to_string(index);
    const size_t rank = x.shape.size();
    switch (pick(10)) {
      case 0:
        return push("sin" + of, sin(x.tv), x.shape);
      case 1:
        return push("mul" + of, mul(x.tv, IrBuilder::create<Val>(1.25)), x.shape);
      case 2:
        return addBinary(index);
      case 3: {
        std::vector<bool> flags(rank + 1, false);
        const int at = pick(rank + 1);
        flags[at] = true;
        std::vector<int64_t> shape = x.shape;
        shape.insert(shape.begin() + at, 1);
        return push("broadcast" + of, broadcast(x.tv, flags), shape);
      }
      case 4: {
        if (rank < 2) {
          return;
        }
        std::vector<int64_t> order(rank);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        std::vector<int64_t> shape;
        for (int64_t d : order) {
          shape.push_back(x.shape[d]);
        }
        return push("permute" + of, permute(x.tv, order), shape);
      }
      case 5:
        return addReshape(index);
      case 6: {
        if (rank == 0) {
          return;
        }
        std::vector<int64_t> starts(rank, 0);
        std::vector<int64_t> stops = x.shape;
        const int d = pick(rank);
        if (x.shape[d] < 2) {
          return;
        }
        starts[d] = pick(x.shape[d] - 1);
        stops[d] = starts[d] + 1 + pick(x.shape[d] - starts[d]);
        std::vector<int64_t> shape = x.shape;
        shape[d] = stops[d] - starts[d];
        return push("slice" + of, slice(x.tv, starts, stops), shape);
      }
      case 7: {
        if (rank == 0) {
          return;
        }
        const int64_t left = pick(3);
        const int64_t right = pick(3);
        std::vector<int64_t> shape = x.shape;
        shape.back() += left + right;
        return push("pad" + of, pad(x.tv, {left, right}), shape);
      }
      case 8: {
        if (rank == 0) {
          return;
        }
        const int d = pick(rank);
        std::vector<int64_t> shape = x.shape;
        shape[d] *= 2;
        return push("cat with itself" + of, cat({x.tv, neg(x.tv)}, d), shape);
      }
      default: {
        // Expands one dimension of size 1.
        for (size_t d = 0; d < rank; ++d) {
          if (x.shape[d] == 1) {
            std::vector<Val*> sizes;
            std::vector<int64_t> shape = x.shape;
            shape[d] = 3;
            for (int64_t n : shape) {
              sizes.push_back(IrBuilder::index(n));
            }
            return push("expand" + of, mul(expand(x.tv, sizes), IrBuilder::create<Val>(0.5)),
                        shape);
          }
        }
      }
    }
  }

  // With another value of the same rank whose sizes agree or are 1.
  void addBinary(size_t index) {
    const Value x = values_[index];
    for (size_t j = values_.size(); j-- > 0;) {
      const Value& y = values_[j];
      if (y.shape.size() != x.shape.size()) {
        continue;
      }
      std::vector<int64_t> shape;
      bool fits = true;
      for (size_t d = 0; d < shape.size() || d < x.shape.size(); ++d) {
        fits = fits && (x.shape[d] == y.shape[d] || x.shape[d] == 1 || y.shape[d] == 1);
        shape.push_back(x.shape[d] == 1 ? y.shape[d] : x.shape[d]);
      }
      if (fits && (j != index || pick(2) == 0)) {
        return push("add of " + std::to_string(index) + " and " + std::to_string(j),
                    add(x.tv, y.tv), shape);
      }
    }
  }

  void addReshape(size_t index) {
    const Value x = values_[index];
    const int64_t numel =
        std::accumulate(x.shape.begin(), x.shape.end(), int64_t(1), std::multiplies<>());
    std::vector<int64_t> shape;
    int64_t rest = numel;
    for (int64_t factor : {2, 3, 4}) {
      if (rest > 0 && rest % factor == 0 && pick(2) == 0) {
        shape.push_back(factor);
        rest /= factor;
      }
    }
    if (pick(4) == 0) {
      shape.push_back(1);
    }
    shape.insert(shape.begin() + pick(shape.size() + 1), rest);
    push("reshape of " + std::to_string(index), reshape(x.tv, shape), shape);
  }

  static constexpr int64_t extents_[] = {1, 2, 3, 4, 6, 7, 8, 12, 16};
  std::mt19937_64 random_;
  bool cut_;
  std::vector<Value> values_;
  std::vector<std::vector<int64_t>> input_shapes_;
  std::string log_;
};

TEST(SegmentRandom, FusedEqualsOneKernelPerOp) {
  const int64_t count = environmentInt("NVFUSER_TEST_GRAPHS", 25);
  const int64_t first = environmentInt("NVFUSER_TEST_FIRST_GRAPH", 0);
  for (int64_t seed = first; seed < first + count; ++seed) {
    GraphMaker fused(seed, false);
    GraphMaker apart(seed, true);
    try {
      FusionExecutorCache fused_cache(fused.make());
      FusionExecutorCache apart_cache(apart.make());
      const KernelArgs actual =
          fused_cache.runFusionWithInputs(fused.arguments(testDevices().back()));
      const KernelArgs expected = apart_cache.runFusionWithInputs(fused.arguments(Device::host()));
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_EQ(sizesOf(actual.tensor(i)), sizesOf(expected.tensor(i)));
        expectValues(actual.tensor(i), expected.tensor(i).toDoubles(), 1e-4);
        if (::testing::Test::HasFatalFailure()) {
          ADD_FAILURE() << "output " << i << " of graph " << seed << ":\n" << fused.log();
          break;
        }
      }
    } catch (const std::exception& e) {
      ADD_FAILURE() << "graph " << seed << ": " << e.what() << "\n" << fused.log();
    }
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

} // namespace
} // namespace nvfuser::test
