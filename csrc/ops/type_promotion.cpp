// SPDX-License-Identifier: BSD-3-Clause
// See type_promotion.h. Groups and their order follow torch's result_type.
#include <ops/type_promotion.h>

#include <base/error.h>

#include <algorithm>
#include <optional>

namespace nvfuser {
namespace {

bool isFullFloat(DataType t) {
  return t == DataType::Float || t == DataType::Double;
}

// Integers that mix with everything else as C++ arithmetic does.
bool isMixableInteger(DataType t) {
  return t == DataType::Int || t == DataType::Int32 || t == DataType::Index || t == DataType::Bool;
}

DataType upcastLowPrecision(DataType t) {
  return isLowPrecision(t) ? DataType::Float : t;
}

// Rank as the consumer sees it; -1 for a scalar.
int64_t rankOf(const Val* v) {
  if (!v->isTensor()) {
    return -1;
  }
  return static_cast<int64_t>(logicalIds(v).size());
}

// The dtype of a group of higher priority together with one of lower priority.
DataType combineGroups(std::optional<DataType> higher, std::optional<DataType> lower) {
  if (!higher) {
    return lower.value_or(DataType::Null);
  }
  if (!lower || isComplex(*higher)) {
    return *higher;
  }
  if (isComplex(*lower)) {
    return isFloatingPoint(*higher) ? complexTypeOf(*higher) : *lower;
  }
  if (isFloatingPoint(*higher)) {
    return *higher;
  }
  if (isBoolean(*higher) || isFloatingPoint(*lower)) {
    return promoteTypes(*higher, *lower);
  }
  return *higher;
}

std::optional<DataType> foldGroup(const std::vector<Val*>& operands,
                                  bool (*in_group)(int64_t rank)) {
  std::optional<DataType> folded;
  for (const Val* v : operands) {
    if (!in_group(rankOf(v))) {
      continue;
    }
    const DataType t = v->isTensor() ? v->dtype() : upcastLowPrecision(v->dtype());
    folded = folded ? promoteTypes(*folded, t) : t;
  }
  return folded;
}

DataType defaultClass(const std::vector<Val*>& operands) {
  return upcastLowPrecision(commonDtype(operands));
}

DataType floatClass(const std::vector<Val*>& operands) {
  const DataType t = defaultClass(operands);
  return isIntegral(t) || isBoolean(t) ? DataType::Float : t;
}

} // namespace

DataType promoteTypes(DataType a, DataType b) {
  if (a == b) {
    return a;
  }
  if ((a == DataType::Index && (isIntegral(b) || isBoolean(b))) ||
      (b == DataType::Index && (isIntegral(a) || isBoolean(a)))) {
    return DataType::Index;
  }
  if (isComplex(a) || isComplex(b)) {
    const bool mixable =
        (isInexact(a) || isMixableInteger(a)) && (isInexact(b) || isMixableInteger(b));
    NVF_CHECK(mixable, "Data types ", a, " and ", b, " cannot be promoted to a common type.");
    const bool wide = realTypeOf(a) == DataType::Double || realTypeOf(b) == DataType::Double;
    return wide ? DataType::ComplexDouble : DataType::ComplexFloat;
  }
  if (isFloatingPoint(a) && isFloatingPoint(b)) {
    return a == DataType::Double || b == DataType::Double ? DataType::Double : DataType::Float;
  }
  if (isFloatingPoint(a) && isMixableInteger(b)) {
    return a;
  }
  if (isFloatingPoint(b) && isMixableInteger(a)) {
    return b;
  }
  NVF_CHECK(isMixableInteger(a) && isMixableInteger(b), "Data types ", a, " and ", b,
            " cannot be promoted to a common type.");
  return a == DataType::Int || b == DataType::Int ? DataType::Int : DataType::Int32;
}

DataType commonDtype(const std::vector<Val*>& operands) {
  NVF_ERROR(!operands.empty());
  const DataType first = operands.front()->dtype();
  if (std::all_of(operands.begin(), operands.end(), [&](Val* v) { return v->dtype() == first; })) {
    return first;
  }
  const auto tensors = foldGroup(operands, [](int64_t rank) { return rank > 0; });
  const auto scalar_tensors = foldGroup(operands, [](int64_t rank) { return rank == 0; });
  const auto scalars = foldGroup(operands, [](int64_t rank) { return rank < 0; });
  std::optional<DataType> lower;
  if (scalar_tensors || scalars) {
    lower = combineGroups(scalar_tensors, scalars);
  }
  return combineGroups(tensors, lower);
}

bool sameCategory(DataType from, DataType to) {
  return (isFloatingPoint(from) && isFloatingPoint(to)) || (isIntegral(from) && isIntegral(to)) ||
         (isComplex(from) && isComplex(to)) || (isBoolean(from) && isBoolean(to));
}

bool isLegalCast(DataType from, DataType to) {
  if (from == to) {
    return true;
  }
  if (from == DataType::Null || to == DataType::Null || from == DataType::Float4_e2m1fn_x2 ||
      to == DataType::Float4_e2m1fn_x2) {
    return false;
  }
  const auto is_tiny = [](DataType t) { return isFloat8(t) || isFloat4(t); };
  const auto is_wide_float = [&](DataType t) { return isFloatingPoint(t) && !is_tiny(t); };
  if (is_tiny(from)) {
    return is_wide_float(to);
  }
  return !is_tiny(to) || is_wide_float(from);
}

PromotedTypes promoteOperands(TypeRule rule, const char* op_name,
                              const std::vector<Val*>& operands) {
  const size_t n = operands.size();
  const DataType first = operands.at(0)->dtype();
  const auto all = [&](DataType operand, DataType result) {
    return PromotedTypes{std::vector<DataType>(n, operand), result};
  };
  switch (rule) {
    case TypeRule::Same:
      return all(first, first);
    case TypeRule::Abs:
    case TypeRule::RealPart:
      return all(first, realTypeOf(first));
    case TypeRule::Default: {
      const DataType t = defaultClass(operands);
      return all(t, t);
    }
    case TypeRule::Float: {
      const DataType t = floatClass(operands);
      return all(t, t);
    }
    case TypeRule::FullFloat: {
      const DataType t = commonDtype(operands);
      NVF_CHECK(isFullFloat(t), op_name,
                ": operands must promote to Float or Double, but they give ", t, ".");
      return all(t, t);
    }
    case TypeRule::Compare:
      return all(defaultClass(operands), DataType::Bool);
    case TypeRule::LogicalBool:
      return all(DataType::Bool, DataType::Bool);
    case TypeRule::Predicate:
      return all(first, DataType::Bool);
    case TypeRule::Bitwise:
    case TypeRule::BitwiseInt: {
      const DataType t = defaultClass(operands);
      const bool legal = isIntegral(t) || (isBoolean(t) && rule == TypeRule::Bitwise);
      NVF_CHECK(legal, op_name, ": operands must be integers",
                rule == TypeRule::Bitwise ? " or bools" : "", ", but they promote to ", t, ".");
      return all(t, t);
    }
    case TypeRule::ImagPart:
      NVF_CHECK(isComplex(first), op_name, ": the operand must be complex, but it is ", first, ".");
      return all(first, realTypeOf(first));
    case TypeRule::MakeComplex:
      NVF_CHECK(n == 2 && first == operands[1]->dtype() && isFullFloat(first), op_name,
                ": real and imaginary part must both be Float or both be Double, but they are ",
                first, " and ", operands.back()->dtype(), ".");
      return all(first, complexTypeOf(first));
    case TypeRule::Where: {
      NVF_CHECK(first == DataType::Bool, op_name,
                ": Condition should be of DataType Bool, but it is ", first, ".");
      const DataType t = commonDtype({operands.at(1), operands.at(2)});
      return {{DataType::Bool, t, t}, t};
    }
    case TypeRule::LikeFirst:
      return all(first, first);
    case TypeRule::Cast:
      break;
  }
  NVF_THROW(op_name, " has no promotion rule");
}

} // namespace nvfuser
