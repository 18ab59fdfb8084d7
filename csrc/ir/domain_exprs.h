// SPDX-License-Identifier: BSD-3-Clause
// Expressions between IterDomains: what schedules make of dimensions.
#pragma once

#include <ir/domain.h>
#include <ir/expr_base.h>

#include <string>

namespace nvfuser {

// in (extent e) -> outer, inner. With inner_split the factor is inner's extent and outer's is
// ceilDiv(e, factor); otherwise the roles swap. Index: in = outer * extent(inner) + inner.
class Split : public ExprBase<Split, ExprKind::Split> {
 public:
  Split(IrBuilderPasskey, IterDomain* outer, IterDomain* inner, IterDomain* in, Val* factor,
        bool inner_split);
  IterDomain* outer() const {
    return output(0)->as<IterDomain>();
  }
  IterDomain* inner() const {
    return output(1)->as<IterDomain>();
  }
  IterDomain* in() const {
    return input(0)->as<IterDomain>();
  }
  Val* factor() const {
    return factor_;
  }
  bool innerSplit() const {
    return inner_split_;
  }
  // Belongs to the definition of a reshape. (One of a reduced dimension belongs to that of a
  // factored reduction, and leaves a rest like any other.)
  bool isOfReshape() const;
  // True if the factor is known to divide the extent (constants, or made by a reshape).
  bool isDivisible() const;
  static constexpr auto fieldList() {
    return std::tuple{Field{"factor", &Split::factor_}, Field{"inner_split", &Split::inner_split_}};
  }
  std::string opName() const override {
    return "Split";
  }
  using ExprBase::ExprBase;

 private:
  Val* factor_ = nullptr;
  bool inner_split_ = true;
};

// outer, inner -> out of extent outer * inner.
class Merge : public ExprBase<Merge, ExprKind::Merge> {
 public:
  Merge(IrBuilderPasskey, IterDomain* out, IterDomain* outer, IterDomain* inner);
  IterDomain* out() const {
    return output(0)->as<IterDomain>();
  }
  IterDomain* outer() const {
    return input(0)->as<IterDomain>();
  }
  IterDomain* inner() const {
    return input(1)->as<IterDomain>();
  }
  std::string opName() const override {
    return "Merge";
  }
  using ExprBase::ExprBase;
};

// Of one dimension another one.
template <class Derived, ExprKind kKind>
class DomainToDomain : public ExprBase<Derived, kKind> {
 public:
  IterDomain* out() const {
    return this->output(0)->template as<IterDomain>();
  }
  IterDomain* in() const {
    return this->input(0)->template as<IterDomain>();
  }
  using ExprBase<Derived, kKind>::ExprBase;

 protected:
  DomainToDomain(IrBuilderPasskey key, IterDomain* out, IterDomain* in)
      : ExprBase<Derived, kKind>(key) {
    this->addOutput(out);
    this->addInput(in);
  }
};

// Of two dimensions, x and y, two others.
template <class Derived, ExprKind kKind>
class PairToPair : public ExprBase<Derived, kKind> {
 public:
  IterDomain* outX() const {
    return this->output(0)->template as<IterDomain>();
  }
  IterDomain* outY() const {
    return this->output(1)->template as<IterDomain>();
  }
  IterDomain* inX() const {
    return this->input(0)->template as<IterDomain>();
  }
  IterDomain* inY() const {
    return this->input(1)->template as<IterDomain>();
  }
  using ExprBase<Derived, kKind>::ExprBase;

 protected:
  PairToPair(IrBuilderPasskey key, IterDomain* out_x, IterDomain* out_y, IterDomain* in_x,
             IterDomain* in_y)
      : ExprBase<Derived, kKind>(key) {
    this->addOutput(out_x);
    this->addOutput(out_y);
    this->addInput(in_x);
    this->addInput(in_y);
  }
};

// in -> out of extent left + e + right. Index: out = in + left.
class Resize : public DomainToDomain<Resize, ExprKind::Resize> {
 public:
  Resize(IrBuilderPasskey, IterDomain* out, IterDomain* in, Val* left, Val* right);
  Val* left() const {
    return left_;
  }
  Val* right() const {
    return right_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"left", &Resize::left_}, Field{"right", &Resize::right_}};
  }
  std::string opName() const override {
    return "Resize";
  }
  using DomainToDomain::DomainToDomain;

 private:
  Val* left_ = nullptr;
  Val* right_ = nullptr;
};

// (x, y) -> (x', y') with x' = x and y' = x ^ y (XOR) ; its own inverse.
class Swizzle : public PairToPair<Swizzle, ExprKind::Swizzle> {
 public:
  Swizzle(IrBuilderPasskey, IterDomain* out_x, IterDomain* out_y, IterDomain* in_x,
          IterDomain* in_y, SwizzleType type);
  SwizzleType swizzleType() const {
    return type_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"type", &Swizzle::type_}};
  }
  std::string opName() const override {
    return "Swizzle";
  }
  using PairToPair::PairToPair;

 private:
  SwizzleType type_{};
};

// (x, y) -> (x', y') with x' = x and y' = y + (x * stride) % width: row x, whose first element has
// the number x * stride in memory, begins where a vector of `width` elements begins, at or before
// that element. y' has room for what comes before the row and after it, in whole vectors.
class Align : public PairToPair<Align, ExprKind::Align> {
 public:
  Align(IrBuilderPasskey, IterDomain* out_x, IterDomain* out_y, IterDomain* in_x, IterDomain* in_y,
        Val* stride, int64_t width);
  Val* stride() const {
    return stride_;
  }
  int64_t width() const {
    return width_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"stride", &Align::stride_}, Field{"width", &Align::width_}};
  }
  std::string opName() const override {
    return "Align";
  }
  using PairToPair::PairToPair;

 private:
  Val* stride_ = nullptr;
  int64_t width_ = 1;
};

// Rotation of a domain by the device index of a parallel type (multi-device pipelines).
class Swizzle1D : public DomainToDomain<Swizzle1D, ExprKind::Swizzle1D> {
 public:
  Swizzle1D(IrBuilderPasskey, IterDomain* out, IterDomain* in, ParallelType parallel_type);
  ParallelType parallelType() const {
    return parallel_type_;
  }
  static constexpr auto fieldList() {
    return std::tuple{Field{"parallel_type", &Swizzle1D::parallel_type_}};
  }
  std::string opName() const override {
    return "Swizzle1D";
  }
  using DomainToDomain::DomainToDomain;

 private:
  ParallelType parallel_type_{};
};

} // namespace nvfuser
