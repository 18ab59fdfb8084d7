// SPDX-License-Identifier: BSD-3-Clause
// Random numbers: Philox 4x32-10 (J. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC'11) and the conversions that curand makes, which torch's CUDA generator uses.
//
// An element with linear index i takes, in the op's stream (seed, offset), the block
//     nvf::philox(seed, i / 4, offset)     component i % 4     for results up to 32 bits
//     nvf::philox(seed, i / 2, offset)     component i % 2     for double
// and hands both to nvf::uniform<T> or nvf::normal<T>. `offset` counts blocks: a stateful op
// advances the generator's philox offset (which counts 32-bit words) by 4 and passes a quarter of
// what it was.
#pragma once

//@ piece nvf::PhiloxBlock
namespace nvf {
struct PhiloxBlock {
  unsigned int x, y, z, w;

  NVF_FN unsigned int operator[](int i) const {
    return i < 2 ? (i == 0 ? x : y) : (i == 2 ? z : w);
  }
};
} // namespace nvf

//@ piece nvf::philox
namespace nvf {
NVF_FN nvf::PhiloxBlock philoxRound(nvf::PhiloxBlock c, unsigned int key0, unsigned int key1) {
  const unsigned long long a = nvf::multiplyWide(0xD2511F53u, c.x);
  const unsigned long long b = nvf::multiplyWide(0xCD9E8D57u, c.z);
  return {static_cast<unsigned int>(b >> 32) ^ c.y ^ key0, static_cast<unsigned int>(b),
          static_cast<unsigned int>(a >> 32) ^ c.w ^ key1, static_cast<unsigned int>(a)};
}

// The counter is (offset, subsequence), the key the seed, as curand_init sets them.
// An index of 32 bits, which is never negative, leaves the subsequence's upper half 0.
template <class Index>
NVF_FN nvf::PhiloxBlock philox(unsigned long long seed, Index subsequence,
                               unsigned long long offset) {
  unsigned int upper = 0;
  if constexpr (sizeof(Index) > 4) {
    upper = static_cast<unsigned int>(subsequence >> 32);
  }
  nvf::PhiloxBlock counter = {static_cast<unsigned int>(offset),
                              static_cast<unsigned int>(offset >> 32),
                              static_cast<unsigned int>(subsequence), upper};
  unsigned int key0 = static_cast<unsigned int>(seed);
  unsigned int key1 = static_cast<unsigned int>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    counter = philoxRound(counter, key0, key1);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}
} // namespace nvf

//@ piece nvf::uniformFloat
// curand_uniform gives (0, 1]: x * 2^-32 + 2^-33; 1 becomes 0, as in torch.
namespace nvf {
NVF_FN float uniformFloat(unsigned int x) {
  const float u = static_cast<float>(x) * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
  return u == 1.0f ? 0.0f : u;
}
} // namespace nvf

//@ piece nvf::uniformDoubleClosed
// curand's double in (0, 1]: 53 bits of two words, times 2^-53, plus 2^-54.
namespace nvf {
NVF_FN double uniformDoubleClosed(unsigned int x, unsigned int y) {
  const unsigned long long bits = x ^ (static_cast<unsigned long long>(y) << 21);
  return static_cast<double>(bits) * 1.1102230246251565e-16 + 5.5511151231257827e-17;
}
} // namespace nvf

//@ piece nvf::uniformDouble
namespace nvf {
NVF_FN double uniformDouble(unsigned int x, unsigned int y) {
  const double u = nvf::uniformDoubleClosed(x, y);
  return u == 1.0 ? 0.0 : u;
}
} // namespace nvf

//@ piece nvf::normalFloat
// Box-Muller of u and v in (0, 1]; `which` 0 is the sine, 1 the cosine of the pair. curand
// multiplies v by 2 pi before; taking the turns in units of pi needs no range reduction.
namespace nvf {
NVF_FN float normalFloat(unsigned int x, unsigned int y, int which) {
  const float u = static_cast<float>(x) * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
  const float turns = static_cast<float>(y) * 4.656612873077393e-10f + 2.3283064365386963e-10f;
  const float radius = ::sqrtf(-2.0f * nvf::log(u));
  return radius * nvf::sinOrCosPi(turns, which);
}
} // namespace nvf

//@ piece nvf::normalDouble
namespace nvf {
NVF_FN double normalDouble(unsigned int x, unsigned int y, unsigned int z, unsigned int w,
                           int which) {
  const double u = nvf::uniformDoubleClosed(x, y);
  const double turns = 2.0 * nvf::uniformDoubleClosed(z, w);
  const double radius = ::sqrt(-2.0 * nvf::log(u));
  return radius * nvf::sinOrCosPi(turns, which);
}
} // namespace nvf

//@ piece nvf::nextBelow
// The largest number below a small float x.
namespace nvf {
template <class T>
NVF_FN T nextBelow(T x) {
  if (nvf::toFloat(x) > 0) {
    --x.bits;
    return x;
  }
  if (nvf::toFloat(x) == 0) {
    x = nvf::fromFloat<T>(-0.0f);
  }
  ++x.bits;
  return x;
}
} // namespace nvf

//@ piece nvf::uniform
// [low, high) in type T. Where rounding reaches `high`, float and double give `low`, as in torch.
// In 16 bits that would happen to one number in 512 (bfloat), so there the result is the largest
// value below the bound in T: both ends of the interval are reached, and neither too often. (An
// interval with nothing below the bound is its lower end.)
namespace nvf {
template <class T, class L, class H>
NVF_FN T uniform(nvf::PhiloxBlock block, int component, L low, H high) {
  if constexpr (nvf::IsSame<T, double>) {
    const double u = component == 0 ? nvf::uniformDouble(block.x, block.y)
                                    : nvf::uniformDouble(block.z, block.w);
    const double from = nvf::cast<double>(low), to = nvf::cast<double>(high);
    const double value = u * (to - from) + from;
    return value >= to ? from : value;
  } else {
    const float u = nvf::uniformFloat(block[component]);
    const float from = nvf::cast<float>(low), to = nvf::cast<float>(high);
    const float value = u * (to - from) + from;
    if constexpr (nvf::IsSmallFloat<T>) {
      const T rounded = nvf::fromFloat<T>(value), bound = nvf::fromFloat<T>(to);
      if (nvf::toFloat(rounded) < nvf::toFloat(bound)) {
        return rounded;
      }
      const T below = nvf::nextBelow(bound);
      return nvf::toFloat(below) >= from ? below : nvf::fromFloat<T>(from);
    } else {
      return value >= to ? from : value;
    }
  }
}
} // namespace nvf

//@ piece nvf::uniformUnit
// [0, 1): what uniform gives for those bounds, without the scaling and the check of the upper one.
namespace nvf {
template <class T>
NVF_FN T uniformUnit(nvf::PhiloxBlock block, int component) {
  if constexpr (nvf::IsSmallFloat<T>) {
    return nvf::uniform<T>(block, component, 0.0f, 1.0f);
  } else if constexpr (nvf::IsSame<T, double>) {
    return component == 0 ? nvf::uniformDouble(block.x, block.y)
                          : nvf::uniformDouble(block.z, block.w);
  } else {
    return nvf::uniformFloat(block[component]);
  }
}
} // namespace nvf

//@ piece nvf::normal
namespace nvf {
template <class T, class M, class S>
NVF_FN T normal(nvf::PhiloxBlock block, int component, M mean, S standard_deviation) {
  if constexpr (nvf::IsSame<T, double>) {
    const double n = nvf::normalDouble(block.x, block.y, block.z, block.w, component);
    return n * nvf::cast<double>(standard_deviation) + nvf::cast<double>(mean);
  } else {
    const bool first = component < 2;
    const float n =
        nvf::normalFloat(first ? block.x : block.z, first ? block.y : block.w, component & 1);
    return nvf::cast<T>(n * nvf::cast<float>(standard_deviation) + nvf::cast<float>(mean));
  }
}
} // namespace nvf
