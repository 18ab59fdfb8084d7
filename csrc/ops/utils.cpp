// SPDX-License-Identifier: BSD-3-Clause
// See utils.h.
#include <ops/utils.h>

#include <base/error.h>
#include <ir/describe.h>
#include <ir/evaluator.h>

#include <algorithm>
#include <limits>
#include <sstream>

namespace nvfuser::ops_utils {

void checkOperand(const char* op_name, const Val* v) {
  NVF_CHECK(v != nullptr, op_name, ": an operand is missing.");
  NVF_CHECK(v->container() == IrBuilder::activeContainer(), op_name, ": operand ", describe(v),
            " belongs to another fusion than the active one.");
}

void checkOperands(const char* op_name, const std::vector<Val*>& operands) {
  for (const Val* v : operands) {
    checkOperand(op_name, v);
  }
}

int64_t rank(const TensorView* tv) {
  return static_cast<int64_t>(logicalIds(tv).size());
}

int64_t wrapDim(const char* op_name, int64_t dim, int64_t rank) {
  const int64_t wrapped = dim < 0 ? dim + rank : dim;
  NVF_CHECK(wrapped >= 0 && wrapped < rank, op_name, ": Tried to access out of boundary index ",
            dim, ". total index: ", rank);
  return wrapped;
}

Val* toExtent(const char* op_name, Val* v) {
  checkOperand(op_name, v);
  NVF_CHECK(v->isScalar() && isIntegral(v->dtype()), op_name,
            ": sizes and positions must be integers, but ", describe(v), " is ", v->dtype(), ".");
  if (const auto c = constInt(v)) {
    return v->dtype() == DataType::Index ? v : IrBuilder::index(*c);
  }
  if (v->dtype() == DataType::Int || v->dtype() == DataType::Index) {
    return v;
  }
  return IrBuilder::castExpr(DataType::Index, v);
}

IterType iterTypeOfExtent(const Val* extent) {
  if (!extent->isConstInt()) {
    return IterType::Symbolic;
  }
  return extent->isOneInt() ? IterType::Broadcast : IterType::Iteration;
}

IterDomain* makeDimension(Val* extent, std::optional<IterType> iter_type) {
  const IterType type = iter_type.value_or(iterTypeOfExtent(extent));
  // A broadcast iterates once, whatever the expression of its extent.
  Val* iterations = type == IterType::Broadcast ? extent->container()->oneVal() : extent;
  return IterDomainBuilder(iterations).iterType(type).build();
}

IterDomain* copyDimension(const IterDomain* id) {
  return IterDomainBuilder(id).parallelType(ParallelType::Serial).build();
}

Ids copyDimensions(const Ids& ids) {
  Ids out;
  out.reserve(ids.size());
  for (const IterDomain* id : ids) {
    out.push_back(copyDimension(id));
  }
  return out;
}

TensorView* makeTensor(Ids logical, DataType dtype) {
  auto contiguity = TensorDomain::contiguityFilledWith(logical, true);
  return IrBuilder::create<TensorView>(
      IrBuilder::create<TensorDomain>(std::move(logical), std::move(contiguity)), dtype);
}

TensorView* makeTensor(Ids root, Ids logical, DataType dtype) {
  auto contiguity = TensorDomain::contiguityFilledWith(logical, true);
  Ids loop = logical;
  return IrBuilder::create<TensorView>(
      IrBuilder::create<TensorDomain>(std::move(root), std::move(logical), std::move(loop),
                                      std::move(contiguity)),
      dtype);
}

std::string shapeString(const TensorView* tv) {
  std::ostringstream out;
  out << "[";
  const char* separator = "";
  for (const IterDomain* id : logicalIds(tv)) {
    out << separator << id->getMaybeExpandedExtent()->toInlineString();
    separator = ", ";
  }
  out << "]";
  return out.str();
}

namespace {

// What the operands say about one dimension of the result.
class DimensionMeet {
 public:
  DimensionMeet(const char* op_name, size_t dim) : op_name_(op_name), dim_(dim) {}

  void add(const TensorView* tv, IterDomain* id) {
    if (id->isBroadcast()) {
      if (id->hasExpandedExtent()) {
        checkSize(tv, id->expandedExtent());
        expanded_.push_back(id->expandedExtent());
      }
      return;
    }
    // One whose kind is not known yet turns out to be a broadcast if its size is 1.
    if (!id->isSymbolicType() || !id->extent()->isOneInt()) {
      checkSize(tv, id->extent());
    }
    (id->isSymbolicType() ? symbolic_ : iterations_).push_back(id);
  }

  IterDomain* result() const {
    if (!iterations_.empty()) {
      auto constant = std::find_if(iterations_.begin(), iterations_.end(),
                                   [](const IterDomain* id) { return id->extent()->isConst(); });
      const IterDomain* chosen = constant != iterations_.end() ? *constant : iterations_.front();
      return makeDimension(chosen->extent(), IterType::Iteration);
    }
    if (!symbolic_.empty()) {
      std::vector<Val*> extents;
      for (const IterDomain* id : symbolic_) {
        extents.push_back(id->extent());
      }
      extents.insert(extents.end(), expanded_.begin(), expanded_.end());
      return makeDimension(firstThatIsNotOne(extents), IterType::Symbolic);
    }
    auto constant = std::find_if(expanded_.begin(), expanded_.end(),
                                 [](const Val* extent) { return extent->isConst(); });
    Val* extent = expanded_.empty()             ? nullptr
                  : constant != expanded_.end() ? *constant
                                                : firstThatIsNotOne(expanded_);
    Val* one = IrBuilder::activeContainer()->oneVal();
    return IterDomainBuilder(one).iterType(IterType::Broadcast).expandedExtent(extent).build();
  }

 private:
  // Sizes known at definition must agree.
  void checkSize(const TensorView* tv, const Val* extent) {
    const auto size = constInt(extent);
    if (!size) {
      return;
    }
    if (size_) {
      NVF_CHECK(*size == *size_, op_name_, ": the sizes of dimension ", dim_,
                " do not agree: ", *size_, " in ", shapeString(size_of_), " and ", *size, " in ",
                shapeString(tv), ".");
      return;
    }
    size_ = size;
    size_of_ = tv;
  }

  // Any of the dimensions may turn out to be a broadcast.
  static Val* firstThatIsNotOne(const std::vector<Val*>& candidates) {
    std::vector<Val*> extents;
    for (Val* e : candidates) {
      if (std::none_of(extents.begin(), extents.end(),
                       [&](Val* other) { return other->sameAs(e); })) {
        extents.push_back(e);
      }
    }
    Val* extent = extents.back();
    for (size_t i = extents.size() - 1; i-- > 0;) {
      Val* one = IrBuilder::activeContainer()->oneVal();
      extent = IrBuilder::whereExpr(IrBuilder::eqExpr(extents[i], one), extent, extents[i]);
    }
    return extent;
  }

  const char* op_name_;
  size_t dim_;
  Ids iterations_;
  Ids symbolic_;
  std::vector<Val*> expanded_; // extents
  std::optional<int64_t> size_;
  const TensorView* size_of_ = nullptr;
};

} // namespace

IterDomain* elementwiseDimension(const char* op_name, size_t dim,
                                 const std::vector<TensorView*>& tensors) {
  DimensionMeet meet(op_name, dim);
  for (const TensorView* tv : tensors) {
    meet.add(tv, logicalIds(tv).at(dim));
  }
  return meet.result();
}

IterDomain* meetDimensions(const char* op_name, size_t dim,
                           const std::vector<std::pair<const TensorView*, IterDomain*>>& ids) {
  DimensionMeet meet(op_name, dim);
  for (const auto& [tv, id] : ids) {
    meet.add(tv, id);
  }
  return meet.result();
}

Ids elementwiseDomain(const char* op_name, const std::vector<Val*>& operands) {
  std::vector<TensorView*> tensors;
  std::vector<Ids> domains;
  for (Val* v : operands) {
    if (v->isTensor()) {
      tensors.push_back(v->as<TensorView>());
      domains.push_back(logicalIds(tensors.back()));
    }
  }
  NVF_ERROR(!tensors.empty(), op_name, " has no tensor operand");
  Ids out;
  for (size_t d = 0; d < domains.front().size(); ++d) {
    DimensionMeet meet(op_name, d);
    for (size_t t = 0; t < tensors.size(); ++t) {
      NVF_ERROR(domains[t].size() == domains.front().size(), op_name, ": ranks differ");
      meet.add(tensors[t], domains[t][d]);
    }
    out.push_back(meet.result());
  }
  return out;
}

std::vector<Val*> broadcastToEqualRank(std::vector<Val*> operands) {
  int64_t max_rank = 0;
  for (const Val* v : operands) {
    if (v->isTensor()) {
      max_rank = std::max(max_rank, rank(v->as<TensorView>()));
    }
  }
  for (Val*& v : operands) {
    if (!v->isTensor()) {
      continue;
    }
    auto* tv = v->as<TensorView>();
    const Ids ids = logicalIds(tv);
    const int64_t missing = max_rank - static_cast<int64_t>(ids.size());
    if (missing == 0) {
      continue;
    }
    Ids out;
    std::vector<bool> is_broadcast(static_cast<size_t>(max_rank), false);
    for (int64_t d = 0; d < missing; ++d) {
      is_broadcast[static_cast<size_t>(d)] = true;
      out.push_back(makeDimension(tv->container()->oneVal()));
    }
    for (const IterDomain* id : ids) {
      out.push_back(copyDimension(id));
    }
    auto* broadcast = makeTensor(std::move(out), tv->dtype());
    IrBuilder::create<BroadcastOp>(broadcast, tv, std::move(is_broadcast));
    v = broadcast;
  }
  return operands;
}

TensorView* materializeExpanded(TensorView* tv, const std::vector<bool>& dims) {
  const Ids ids = logicalIds(tv);
  bool any = false;
  for (size_t d = 0; d < ids.size(); ++d) {
    any = any || (dims.at(d) && ids[d]->hasExpandedExtent());
  }
  if (!any) {
    return tv;
  }
  Ids out;
  for (size_t d = 0; d < ids.size(); ++d) {
    const bool materialize = dims[d] && ids[d]->hasExpandedExtent();
    out.push_back(materialize ? makeDimension(ids[d]->expandedExtent(), IterType::Iteration)
                              : copyDimension(ids[d]));
  }
  auto* copy = makeTensor(std::move(out), tv->dtype());
  IrBuilder::create<LoadStoreOp>(LoadStoreOpType::Set, copy, tv);
  return copy;
}

Val* castScalar(Val* v, DataType dtype, bool exact) {
  const auto same_category = [](DataType a, DataType b) {
    return (isFloatingPoint(a) && isFloatingPoint(b)) || (isIntegral(a) && isIntegral(b)) ||
           (isComplex(a) && isComplex(b));
  };
  // Next to an index a constant integer is one: the text of a fusion does not tell them apart.
  const bool becomes_index = v->isConst() && dtype == DataType::Index && isIntegral(v->dtype());
  if (v->dtype() == dtype || (!exact && !becomes_index && same_category(v->dtype(), dtype))) {
    return v;
  }
  if (v->isConst()) {
    return IrBuilder::create<Val>(convertScalar(v->value(), dtype), dtype);
  }
  return IrBuilder::castExpr(dtype, v);
}

ScalarValue boundOf(DataType dtype, bool upper) {
  if (isFloatingPoint(dtype)) {
    const double inf = std::numeric_limits<double>::infinity();
    return upper ? inf : -inf;
  }
  const auto limits = [&]<class T>(T) {
    return static_cast<int64_t>(upper ? std::numeric_limits<T>::max()
                                      : std::numeric_limits<T>::min());
  };
  switch (dtype) {
    case DataType::Bool:
      return upper;
    case DataType::Int32:
      return limits(int32_t{});
    case DataType::UInt64:
      return upper ? int64_t{-1} : int64_t{0};
    default:
      return limits(int64_t{});
  }
}

Val* zeroOf(DataType dtype) {
  return IrBuilder::create<Val>(convertScalar(ScalarValue(int64_t{0}), dtype), dtype);
}

IterDomain* resizeTo(IterDomain* root, Val* left, Val* right, Val* extent, IterType iter_type) {
  Val* iterations = iter_type == IterType::Broadcast ? extent->container()->oneVal() : extent;
  auto* out = IterDomainBuilder(iterations).iterType(iter_type).isRfactor(true).build();
  IrBuilder::create<Resize>(out, root, left, right);
  return out;
}

} // namespace nvfuser::ops_utils
