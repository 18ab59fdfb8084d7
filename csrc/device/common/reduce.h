// SPDX-License-Identifier: BSD-3-Clause
// What a reduction combines: the operations, and the terms that a kernel hands to nvf::blockReduce,
// nvf::clusterReduce and nvf::gridReduce. An operation has
//     Op::identity<T>()    combined with any value gives that value
//     Op::combine(a, b)    commutative, bit for bit, where kSymmetric<T> says so
#pragma once

//@ piece nvf::SumOp
namespace nvf {
struct SumOp {
  template <class T>
  static constexpr bool kSymmetric = true;
  template <class T>
  static NVF_FN T identity() {
    return nvf::cast<T>(0.0f);
  }
  template <class T>
  static NVF_FN T combine(T a, T b) {
    if constexpr (nvf::IsSmallFloat<T>) {
      return nvf::fromFloat<T>(nvf::toFloat(a) + nvf::toFloat(b));
    } else {
      return static_cast<T>(a + b);
    }
  }
};
} // namespace nvf

//@ piece nvf::ProdOp
namespace nvf {
struct ProdOp {
  template <class T>
  static constexpr bool kSymmetric = !nvf::IsComplex<T>; // contraction makes a difference
  template <class T>
  static NVF_FN T identity() {
    return nvf::cast<T>(1.0f);
  }
  template <class T>
  static NVF_FN T combine(T a, T b) {
    if constexpr (nvf::IsSmallFloat<T>) {
      return nvf::fromFloat<T>(nvf::toFloat(a) * nvf::toFloat(b));
    } else {
      return static_cast<T>(a * b);
    }
  }
};
} // namespace nvf

//@ piece nvf::largest nvf::smallest
// The ends of a type's range: infinity for float types that have it.
namespace nvf {
template <class T>
NVF_FN T largest() {
  if constexpr (nvf::IsFloating<T>) {
    return nvf::infinity<T>();
  } else if constexpr (nvf::IsSmallFloat<T>) {
    return nvf::fromFloat<T>(nvf::infinity<float>());
  } else if constexpr (nvf::IsSame<T, bool>) {
    return true;
  } else {
    constexpr auto kOnes = static_cast<nvf::MakeUnsigned<T>>(-1);
    return static_cast<T>(static_cast<T>(-1) < static_cast<T>(0) ? kOnes / 2 : kOnes);
  }
}
template <class T>
NVF_FN T smallest() {
  if constexpr (nvf::IsFloating<T>) {
    return -nvf::infinity<T>();
  } else if constexpr (nvf::IsSmallFloat<T>) {
    return nvf::fromFloat<T>(-nvf::infinity<float>());
  } else if constexpr (nvf::IsSame<T, bool>) {
    return false;
  } else {
    return static_cast<T>(static_cast<T>(-1) < static_cast<T>(0) ? -nvf::largest<T>() - 1 : 0);
  }
}
} // namespace nvf

//@ piece nvf::MinOp
namespace nvf {
struct MinOp {
  template <class T>
  static constexpr bool kSymmetric = true;
  template <class T>
  static NVF_FN T identity() {
    return nvf::largest<T>();
  }
  template <class T>
  static NVF_FN T combine(T a, T b) {
    return nvf::minimum(a, b);
  }
};
} // namespace nvf

//@ piece nvf::MaxOp
namespace nvf {
struct MaxOp {
  template <class T>
  static constexpr bool kSymmetric = true;
  template <class T>
  static NVF_FN T identity() {
    return nvf::smallest<T>();
  }
  template <class T>
  static NVF_FN T combine(T a, T b) {
    return nvf::maximum(a, b);
  }
};
} // namespace nvf

//@ piece nvf::combineTree
// Combines N (a power of two) parts: short chains of dependent operations.
namespace nvf {
template <class Term, int N>
NVF_FN typename Term::Value combineTree(typename Term::Value* parts) {
  if constexpr (N > 1) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      parts[i] = Term::combine(parts[i], parts[i + N / 2]);
    }
    combineTree<Term, N / 2>(parts);
  }
  return parts[0];
}
} // namespace nvf

//@ piece nvf::ReduceTerm
// N values of every thread, each reduced on its own.
namespace nvf {
template <class Op, class T, int N>
struct ReduceTerm {
  using Value = T;
  static constexpr int kValues = N;
  static constexpr bool kSymmetric = Op::template kSymmetric<T>;
  T* data;

  NVF_FN Value load(int i) const {
    return data[i];
  }
  NVF_FN void store(int i, Value value) const {
    data[i] = value;
  }
  static NVF_FN Value identity() {
    return Op::template identity<T>();
  }
  static NVF_FN Value combine(Value first, Value second) {
    return Op::combine(first, second);
  }
  template <int Parts>
  static NVF_FN Value combineAll(Value* parts) {
    return nvf::combineTree<ReduceTerm, Parts>(parts);
  }
};
} // namespace nvf

//@ piece nvf::WelfordTerm
// N running means, sums of squared differences from the mean, and counts. Combined by the formulas
// of Chan, Golub and LeVeque, "Algorithms for computing the sample variance" (1983), (2.1).
namespace nvf {
template <class T>
struct WelfordValue {
  T average, m2, count;
};

template <class T, int N>
struct WelfordTerm {
  using Value = WelfordValue<T>;
  static constexpr int kValues = N;
  static constexpr bool kSymmetric = false;
  T* average;
  T* m2;
  T* count;

  NVF_FN Value load(int i) const {
    return {average[i], m2[i], count[i]};
  }
  NVF_FN void store(int i, Value value) const {
    average[i] = value.average;
    m2[i] = value.m2;
    count[i] = value.count;
  }
  static NVF_FN Value identity() {
    return {T(0), T(0), T(0)};
  }
  static NVF_FN Value combine(Value first, Value second) {
    const T count = first.count + second.count;
    // Parts without members leave the other one as it is.
    const T share = second.count * nvf::fastReciprocal(count);
    const T weight = first.count == T(0) ? T(1) : share;
    const T delta = second.count == T(0) ? T(0) : second.average - first.average;
    return {first.average + delta * weight,
            first.m2 + second.m2 + delta * delta * (first.count * weight), count};
  }
  // The mean of the means, then the deviations from it: sums, and one division for all parts. All
  // differences are from one of the means, so that large means cost no digits.
  template <int Parts>
  static NVF_FN Value combineAll(Value* parts) {
    T count = 0, base = 0;
#pragma unroll
    for (int i = 0; i < Parts; ++i) {
      count += parts[i].count;
      base = parts[i].count == T(0) ? base : parts[i].average;
    }
    T sum = 0;
#pragma unroll
    for (int i = 0; i < Parts; ++i) {
      parts[i].average = parts[i].count == T(0) ? T(0) : parts[i].average - base;
      sum += parts[i].count * parts[i].average;
    }
    const T mean = count == T(0) ? T(0) : sum * nvf::fastReciprocal(count);
    T m2 = 0;
#pragma unroll
    for (int i = 0; i < Parts; ++i) {
      const T delta = parts[i].average - mean;
      m2 += parts[i].m2 + parts[i].count * (delta * delta);
    }
    return {base + mean, m2, count};
  }
};
} // namespace nvf

//@ piece nvf::SoftmaxTerm
// N maxima and sums of exponentials of differences from them. A part without values has the maximum
// -infinity and the sum 0.
namespace nvf {
template <class T>
struct SoftmaxValue {
  T max, sum;
};

template <class T, int N>
struct SoftmaxTerm {
  using Value = SoftmaxValue<T>;
  static constexpr int kValues = N;
  static constexpr bool kSymmetric = false;
  T* max;
  T* sum;

  NVF_FN Value load(int i) const {
    return {max[i], sum[i]};
  }
  NVF_FN void store(int i, Value value) const {
    max[i] = value.max;
    sum[i] = value.sum;
  }
  static NVF_FN Value identity() {
    return {-nvf::infinity<T>(), T(0)};
  }
  static NVF_FN Value combine(Value first, Value second) {
    const T top = nvf::maximum(first.max, second.max);
    const T base = nvf::softmaxBase(top);
    return {top, first.sum * nvf::softmaxExp(first.max - base) +
                     second.sum * nvf::softmaxExp(second.max - base)};
  }
  template <int Parts>
  static NVF_FN Value combineAll(Value* parts) {
    T top = parts[0].max;
#pragma unroll
    for (int i = 1; i < Parts; ++i) {
      top = nvf::maximum(top, parts[i].max);
    }
    const T base = nvf::softmaxBase(top);
    T total = 0;
#pragma unroll
    for (int i = 0; i < Parts; ++i) {
      total += parts[i].sum * nvf::softmaxExp(parts[i].max - base);
    }
    return {top, total};
  }
};
} // namespace nvf

//@ piece nvf::welfordCombine
// Takes the mean, sum of squared differences and count of a part into running ones.
namespace nvf {
template <class T, class N>
NVF_FN void welfordCombine(T& mean, T& m2, T& count, T part_mean, T part_m2, N part_count) {
  const auto all =
      nvf::WelfordTerm<T, 1>::combine({mean, m2, count}, {part_mean, part_m2, T(part_count)});
  mean = all.average;
  m2 = all.m2;
  count = all.count;
}
} // namespace nvf

//@ piece nvf::valuesOf
// How many values each thread brings.
namespace nvf {
template <class... Terms>
constexpr int valuesOf = (Terms::kValues + ... + 0);
} // namespace nvf
