// SPDX-License-Identifier: BSD-3-Clause
// See tolerances.h.
#include <runtime/tolerances.h>

#include <base/error.h>
#include <ir/evaluator.h>
#include <ir/visitor.h>
#include <runtime/bind_inputs.h>
#include <runtime/kernel_executor.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace nvfuser {

namespace {

// Largest errors of sums of so many standard normals in a dtype, against float64 (the table of the
// API's contract).
struct MeasuredError {
  double elements;
  double float_error;
  double half_error;
};
constexpr auto kMeasured = std::to_array<MeasuredError>({
    {4, 1.68222e-6, 0.00390625},    {8, 2.23704e-6, 0.0078125},     {16, 2.95788e-6, 0.0078125},
    {32, 4.4778e-6, 0.0155334},     {64, 6.75395e-6, 0.0156269},    {128, 8.57934e-6, 0.0312042},
    {256, 1.30594e-5, 0.0312548},   {512, 2.19122e-5, 0.0619979},   {1024, 3.3451e-5, 0.0625103},
    {2048, 5.78476e-5, 0.124686},   {4096, 1.08292e-4, 0.12501},    {8192, 1.2207e-4, 0.24945},
    {16384, 1.36882e-4, 0.250049},  {32768, 2.48561e-4, 0.498946},  {65536, 4.07594e-4, 0.500071},
    {131072, 5.00901e-4, 0.985087}, {262144, 9.23019e-4, 1.00006},  {524288, 1.56909e-3, 1.99234},
    {1048576, 2.23107e-3, 2.00032}, {2097152, 3.43043e-3, 3.99073},
});

constexpr Tolerance kFloat{1.68222e-6, 2.23704e-6};
constexpr Tolerance kHalf{0.00390625, 0.0078125};
// bfloat16, fp8 and fp4 have fewer digits than half: one factor for all of them.
constexpr double kCoarserThanHalf = 10;
constexpr double kRelativePart = 0.01;
constexpr double kPastTheTable = 2;

bool isExact(DataType dtype) {
  return isIntegral(dtype) || isBoolean(dtype);
}

bool isAtLeastFloat(DataType dtype) {
  return dtype == DataType::Float || dtype == DataType::Double || isComplex(dtype);
}

double extentOf(const IterDomain* id, ScalarEvaluator& evaluator) {
  const auto extent = evaluator.evaluate(id->getMaybeExpandedExtent());
  if (!extent.has_value()) {
    return 1;
  }
  const auto value = std::get<int64_t>(convertScalar(*extent, DataType::Int));
  return static_cast<double>(std::max<int64_t>(value, 1));
}

double lastExtents(const Val* operand, size_t count, ScalarEvaluator& evaluator) {
  const auto ids = logicalIds(operand);
  double elements = 1;
  for (size_t i = 0; i < count && i < ids.size(); ++i) {
    elements *= extentOf(ids[ids.size() - 1 - i], evaluator);
  }
  return elements;
}

// Products of matrices sum over the last dimension of the first one; attention over that of the
// queries, which the keys have too, and over the keys.
double accumulatedByLibrary(const LibraryOp& op, ScalarEvaluator& evaluator) {
  switch (op.op()) {
    case LibraryOpType::Matmul:
    case LibraryOpType::Linear:
    case LibraryOpType::GroupedMm:
    case LibraryOpType::ScaledGroupedMm:
    case LibraryOpType::ScaledMm:
    case LibraryOpType::CutlassNvfp4GroupedMm:
      return lastExtents(op.operands().at(0), 1, evaluator);
    case LibraryOpType::SdpaFwd:
      return lastExtents(op.operands().at(1), 2, evaluator);
    case LibraryOpType::SdpaBwd:
      return lastExtents(op.operands().at(2), 2, evaluator);
    default:
      return 1;
  }
}

// What one element of the expression's results accumulates of its operands.
double accumulatedBy(const Expr* e, ScalarEvaluator& evaluator) {
  double most = 1;
  for (const TensorView* out : tensorOutputs(e)) {
    double elements = 1;
    for (const IterDomain* id : out->getLogicalDomain()) {
      elements *= id->isReduction() ? extentOf(id, evaluator) : 1;
    }
    most = std::max(most, elements);
  }
  if (e->kind() == ExprKind::ScanOp) {
    const auto ids = logicalIds(e->output(0));
    most *= extentOf(ids.at(static_cast<size_t>(e->as<ScanOp>()->dim())), evaluator);
  }
  if (e->kind() == ExprKind::LibraryOp) {
    most *= accumulatedByLibrary(*e->as<LibraryOp>(), evaluator);
  }
  return most;
}

} // namespace

std::vector<double> accumulatedElements(const Fusion& fusion, std::span<const ArgView> args) {
  checkInputs(&fusion, args, chooseDevice(&fusion, args, defaultDevice()));
  ScalarEvaluator evaluator;
  bindInputs(fusion.inputs(), args, evaluator);
  std::unordered_map<const Val*, double> elements;
  const auto of = [&](const Val* v) {
    const auto it = elements.find(v);
    return it == elements.end() ? 1.0 : it->second;
  };
  for (const Expr* e : fusion.exprs()) {
    double before = 1;
    for (const TensorView* in : tensorInputs(e)) {
      before = std::max(before, of(in));
    }
    const double after = before * accumulatedBy(e, evaluator);
    for (const TensorView* out : tensorOutputs(e)) {
      elements[out] = after;
    }
  }
  std::vector<double> result;
  for (const Val* out : fusion.outputs()) {
    result.push_back(of(out));
  }
  return result;
}

Tolerance toleranceOf(DataType dtype, double elements) {
  if (isExact(dtype)) {
    return {};
  }
  const bool wide = isAtLeastFloat(dtype);
  const double scale = wide || dtype == DataType::Half ? 1 : kCoarserThanHalf;
  if (elements <= 1) {
    const Tolerance& base = wide ? kFloat : kHalf;
    return {base.absolute * scale, base.relative * scale};
  }
  // One entry further than the length asks for: a margin.
  auto entry = std::find_if(kMeasured.begin(), kMeasured.end(),
                            [&](const MeasuredError& e) { return e.elements >= elements; });
  entry = entry == kMeasured.end() ? entry : entry + 1;
  const bool past = entry == kMeasured.end();
  const MeasuredError& measured = past ? kMeasured.back() : *entry;
  const double error =
      (wide ? measured.float_error : measured.half_error) * scale * (past ? kPastTheTable : 1);
  return {error, error * kRelativePart};
}

std::vector<Tolerance> outputTolerances(const Fusion& fusion, std::span<const ArgView> args) {
  const std::vector<double> elements = accumulatedElements(fusion, args);
  std::vector<Tolerance> tolerances;
  for (size_t i = 0; i < elements.size(); ++i) {
    tolerances.push_back(toleranceOf(fusion.outputs()[i]->dtype(), elements[i]));
  }
  return tolerances;
}

} // namespace nvfuser
