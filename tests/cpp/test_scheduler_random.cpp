// SPDX-License-Identifier: BSD-3-Clause
// Random graphs of pointwise and shape ops, run through the whole compiler and compared with an
// eager evaluation.
#include "executor_for_test.h"

#include <cmath>
#include <cstdlib>
#include <random>
#include <sstream>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

int64_t count(const Sizes& s) {
  int64_t n = 1;
  for (int64_t e : s) {
    n *= e;
  }
  return n;
}

// A tensor of the definition with its eager value.
struct Eager {
  TensorView* tv = nullptr;
  Sizes sizes;
  std::vector<double> values;
};

// Calls f(index, position) for every element in row-major order.
template <class F>
void forEach(const Sizes& sizes, F&& f) {
  Sizes i(sizes.size(), 0);
  const int64_t n = count(sizes);
  for (int64_t k = 0; k < n; ++k) {
    f(i, k);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++i[d] < sizes[d]) {
        break;
      }
      i[d] = 0;
    }
  }
}

int64_t at(const Sizes& sizes, const Sizes& i) {
  int64_t k = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    k = k * sizes[d] + i[d];
  }
  return k;
}

class Graph {
 public:
  explicit Graph(uint64_t seed) : random_(seed) {}

  void build(Fusion* fusion) {
    const Sizes extents{pick({1, 2, 3, 5, 8, 16, 33}), pick({1, 4, 7, 8, 32}),
                        pick({1, 2, 4, 6, 40, 64})};
    const int64_t num_inputs = below(3) + 1;
    for (int64_t k = 0; k < num_inputs; ++k) {
      Sizes sizes;
      for (int64_t e : extents) {
        if (below(4) > 0 || sizes.empty()) {
          sizes.push_back(below(6) == 0 ? 1 : e);
        }
      }
      Sizes declared = sizes;
      for (int64_t& e : declared) {
        e = e == 1 || below(3) == 0 ? e : -1;
      }
      Eager in{makeContigConcreteTensor(declared), sizes, {}};
      fusion->addInput(in.tv);
      const Tensor value = Tensor::random(sizes, DataType::Float, Device::host(), random_());
      in.values = value.toDoubles();
      args.push(value);
      pool_.push_back(std::move(in));
    }
    const int64_t num_ops = below(9) + 2;
    for (int64_t k = 0; k < num_ops; ++k) {
      step();
    }
    outputs.push_back(pool_.back());
    for (const Eager& e : pool_) {
      if (e.tv->definition() != nullptr && e.tv != outputs[0].tv &&
          (e.tv->uses().empty() || below(6) == 0)) {
        outputs.push_back(e);
      }
    }
    if (outputs[0].tv->isFusionInput()) {
      outputs[0] = unary(outputs[0]);
    }
    for (const Eager& e : outputs) {
      fusion->addOutput(e.tv);
    }
  }

  KernelArgs args;
  std::vector<Eager> outputs;

 private:
  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  int64_t pick(const Sizes& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }
  const Eager& any() {
    // Recent ones are more likely.
    const auto n = static_cast<int64_t>(pool_.size());
    return pool_[static_cast<size_t>(std::max(below(n), below(n)))];
  }

  void step() {
    switch (below(10)) {
      case 0:
      case 1:
        return add_(unary(any()));
      case 2:
      case 3:
      case 4:
        return binary();
      case 5:
        return broadcast_();
      case 6:
        return permute_();
      case 7:
        return slice_();
      case 8:
        return pad_();
      default:
        return reshape_();
    }
  }
  void add_(Eager e) {
    if (count(e.sizes) <= 200000) {
      pool_.push_back(std::move(e));
    }
  }

  Eager unary(const Eager& x) {
    Eager out{sin(x.tv), x.sizes, x.values};
    for (double& v : out.values) {
      v = std::sin(v);
    }
    return out;
  }

  void binary() {
    const Eager& x = any();
    const Eager& y = any();
    // Align at the right; sizes must agree or be 1 by definition.
    const size_t rank = std::max(x.sizes.size(), y.sizes.size());
    Sizes sizes(rank);
    for (size_t d = 0; d < rank; ++d) {
      const auto size = [&](const Eager& e) {
        const size_t skip = rank - e.sizes.size();
        return d < skip ? 1 : e.sizes[d - skip];
      };
      const auto isBroadcast = [&](const Eager& e) {
        const size_t skip = rank - e.sizes.size();
        return d < skip || e.tv->getLogicalDomain()[d - skip]->isBroadcast();
      };
      if (size(x) != size(y) && !(size(x) == 1 && isBroadcast(x)) &&
          !(size(y) == 1 && isBroadcast(y))) {
        return;
      }
      sizes[d] = std::max(size(x), size(y));
    }
    if (count(sizes) > 200000) {
      return;
    }
    Eager out{add(x.tv, y.tv), sizes, std::vector<double>(static_cast<size_t>(count(sizes)))};
    forEach(sizes, [&](const Sizes& i, int64_t k) {
      const auto value = [&](const Eager& e) {
        Sizes own;
        const size_t skip = rank - e.sizes.size();
        for (size_t d = skip; d < rank; ++d) {
          own.push_back(e.sizes[d - skip] == 1 ? 0 : i[d]);
        }
        return e.values[static_cast<size_t>(at(e.sizes, own))];
      };
      out.values[static_cast<size_t>(k)] = value(x) + value(y);
    });
    add_(std::move(out));
  }

  void broadcast_() {
    const Eager& x = any();
    if (x.sizes.size() >= 4) {
      return;
    }
    const int64_t where = below(static_cast<int64_t>(x.sizes.size()) + 1);
    std::vector<bool> flags(x.sizes.size() + 1, false);
    flags[static_cast<size_t>(where)] = true;
    Eager out{broadcast(x.tv, flags), x.sizes, x.values};
    out.sizes.insert(out.sizes.begin() + where, 1);
    add_(std::move(out));
  }

  void permute_() {
    const Eager& x = any();
    Sizes dims(x.sizes.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      dims[d] = static_cast<int64_t>(d);
    }
    std::shuffle(dims.begin(), dims.end(), random_);
    Eager out{permute(x.tv, dims), {}, std::vector<double>(x.values.size())};
    for (int64_t d : dims) {
      out.sizes.push_back(x.sizes[static_cast<size_t>(d)]);
    }
    forEach(out.sizes, [&](const Sizes& i, int64_t k) {
      Sizes from(i.size());
      for (size_t d = 0; d < dims.size(); ++d) {
        from[static_cast<size_t>(dims[d])] = i[d];
      }
      out.values[static_cast<size_t>(k)] = x.values[static_cast<size_t>(at(x.sizes, from))];
    });
    add_(std::move(out));
  }

  void slice_() {
    const Eager& x = any();
    Sizes start;
    Sizes stop;
    for (int64_t e : x.sizes) {
      const int64_t a = below(3) == 0 ? below(e) : 0;
      start.push_back(a);
      stop.push_back(below(2) == 0 ? e : a + 1 + below(e - a));
    }
    Eager out{slice(x.tv, start, stop), {}, {}};
    for (size_t d = 0; d < start.size(); ++d) {
      out.sizes.push_back(stop[d] - start[d]);
    }
    out.values.resize(static_cast<size_t>(count(out.sizes)));
    forEach(out.sizes, [&](const Sizes& i, int64_t k) {
      Sizes from = i;
      for (size_t d = 0; d < i.size(); ++d) {
        from[d] += start[d];
      }
      out.values[static_cast<size_t>(k)] = x.values[static_cast<size_t>(at(x.sizes, from))];
    });
    add_(std::move(out));
  }

  void pad_() {
    const Eager& x = any();
    if (x.sizes.empty()) {
      return;
    }
    const int64_t left = below(3);
    const int64_t right = below(3);
    Eager out{pad(x.tv, Sizes{left, right}), x.sizes, {}};
    out.sizes.back() += left + right;
    out.values.resize(static_cast<size_t>(count(out.sizes)));
    forEach(out.sizes, [&](const Sizes& i, int64_t k) {
      Sizes from = i;
      from.back() -= left;
      const bool inside = from.back() >= 0 && from.back() < x.sizes.back();
      out.values[static_cast<size_t>(k)] =
          inside ? x.values[static_cast<size_t>(at(x.sizes, from))] : 0;
    });
    add_(std::move(out));
  }

  void reshape_() {
    const Eager& x = any();
    const int64_t n = count(x.sizes);
    Sizes divisors;
    for (int64_t d = 1; d <= n; ++d) {
      if (n % d == 0) {
        divisors.push_back(d);
      }
    }
    const int64_t a = pick(divisors);
    Sizes sizes = below(2) == 0 ? Sizes{n} : Sizes{a, n / a};
    add_({reshape(x.tv, sizes), sizes, x.values});
  }

  std::mt19937_64 random_;
  std::vector<Eager> pool_;
};

TEST(SchedulerRandom, GraphsAgreeWithEagerEvaluation) {
  const char* first_text = std::getenv("NVFUSER_TEST_FIRST_SEED");
  const char* count_text = std::getenv("NVFUSER_TEST_SEEDS");
  const uint64_t first = first_text != nullptr ? std::strtoull(first_text, nullptr, 10) : 0;
  const uint64_t num = count_text != nullptr ? std::strtoull(count_text, nullptr, 10) : 30;
  for (uint64_t seed = first; seed < first + num; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph graph(seed);
    std::shared_ptr<Fusion> fusion = defineFusion([&](Fusion* f) { graph.build(f); });
    const std::string math = fusion->printMath();
    KernelArgs out;
    try {
      FusionExecutorCache cache(fusion);
      out = cache.runFusionWithInputs(graph.args);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what() << "\n" << math;
      continue;
    }
    ASSERT_EQ(out.size(), graph.outputs.size());
    for (size_t k = 0; k < out.size(); ++k) {
      const std::vector<double> values = out.tensor(k).contiguous().toDoubles();
      ASSERT_EQ(sizesOf(out.tensor(k)), graph.outputs[k].sizes) << math;
      for (size_t i = 0; i < values.size(); ++i) {
        if (std::abs(values[i] - graph.outputs[k].values[i]) > 1e-4) {
          ADD_FAILURE() << "output " << k << " element " << i << ": " << values[i] << " instead of "
                        << graph.outputs[k].values[i] << "\n"
                        << math;
          break;
        }
      }
    }
  }
}

} // namespace
} // namespace nvfuser::test
