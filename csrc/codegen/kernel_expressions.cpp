// SPDX-License-Identifier: BSD-3-Clause
// Text of accesses to tensors and of scalar expressions.
#include <base/error.h>
#include <codegen/kernel_printer.h>
#include <codegen/literal.h>
#include <ir/evaluator.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace nvfuser::codegen {

namespace {

bool isIndexType(DataType t) {
  return t == DataType::Index || t == DataType::Int || t == DataType::Int32;
}

bool fitsInt32(const Val* v) {
  return std::in_range<int32_t>(v->intValue());
}

// Extents, of the loops around that run, and constants; scalars of the user may be 0.
bool isNonzeroDivisor(const Val* v) {
  return v->isConstInt() ? v->intValue() != 0 : v->dtype() == DataType::Index;
}

} // namespace

std::string KernelPrinter::tensorName(const TensorView* tv) {
  return "T" + std::to_string(tv->name());
}

std::string KernelPrinter::elementIndex(const TensorIndex* t) {
  const bool was_value = std::exchange(is_value_, false);
  std::string text =
      t->view()->getMemoryType() == MemoryType::Local ? scalar(t->index()).text : named(t->index());
  is_value_ = was_value;
  return text;
}

std::string KernelPrinter::element(const TensorIndex* t) {
  if (single_.count(t->view()) != 0) {
    return tensorName(t->view());
  }
  if (streamed_.count(t->view()) != 0) {
    return tensorName(t->view()) + "_out[" + threadNumber() + "]";
  }
  if (auto it = kernel_->thread_loops.registers.find(t->view());
      it != kernel_->thread_loops.registers.end()) {
    return elementOfThread(t, it->second);
  }
  return tensorName(t->view()) + "[" + elementIndex(t) + "]";
}

std::string KernelPrinter::elementOfThread(const TensorIndex* t, ThreadLoops::Layout layout) {
  const Text index = scalar(t->index());
  const std::string thread = threadNumber();
  const bool is_first = index.text == "0";
  if (layout == ThreadLoops::Layout::ByElement) {
    const std::string before =
        is_first
            ? ""
            : index.operand() + " * " + std::to_string(kernel_->thread_loops.threads()) + " + ";
    return tensorName(t->view()) + "[" + before + thread + "]";
  }
  return tensorName(t->view()) + "[(" + thread + ") * " + std::to_string(sizes_.at(t->view())) +
         (is_first ? "" : " + " + index.text) + "]";
}

std::string KernelPrinter::registerType(const TensorView* tv) const {
  return std::string(kernelTypeName(wide_.holds(tv) ? DataType::Float : tv->dtype()));
}

void KernelPrinter::declare(const TensorView* tv) {
  if (auto it = undeclared_.find(tv); it != undeclared_.end()) {
    const auto& [at, is_zeroed] = it->second;
    lineAt(at, registerType(tv) + " " + tensorName(tv) + (is_zeroed ? " = {};" : ";"));
    undeclared_.erase(it);
  }
}

std::string KernelPrinter::address(const TensorIndex* t) {
  declare(t->view());
  return "&" + element(t);
}

std::string KernelPrinter::access(const TensorIndex* t) {
  const MemoryType memory = t->view()->getMemoryType();
  if (isFloat4(t->dtype()) && memory == MemoryType::Global) {
    return "nvf::fp4At(" + tensorName(t->view()) + ".data, " + elementIndex(t) + ")";
  }
  const std::string text = element(t);
  if (wide_.holds(t->view())) {
    return "nvf::pack<" + std::string(kernelTypeName(t->dtype())) + ">(" + text + ")";
  }
  if (memory == MemoryType::Shared) {
    return "nvf::sharedRead(" + text + ")";
  }
  // The value, where an element is no reference (NVF_ELEMENT).
  const bool is_value = kernel_->thread_loops.exist && t->dtype() == DataType::Bool;
  return is_value && text.back() == ']' ? "bool(" + text + ")" : text;
}

std::string KernelPrinter::named(const Val* v) {
  const Text t = scalar(v);
  return t.compound ? bindName(t, v->dtype()) : t.text;
}

std::string KernelPrinter::bindName(const Text& t, DataType dtype) {
  auto [it, fresh] = scopes_[t.level].named.try_emplace(t.text);
  if (fresh) {
    it->second = "idx" + std::to_string(next_name_++);
    const DataType type = !isIndexType(dtype) ? dtype : t.wide ? DataType::Int : DataType::Index;
    lineAt(t.level,
           "const " + std::string(kernelTypeName(type)) + " " + it->second + " = " + t.text + ";");
  }
  return it->second;
}

Text KernelPrinter::hoisted(Text t, size_t level, DataType dtype) {
  if (t.compound && t.level < level && isIndexType(dtype)) {
    return {bindName(t, dtype), t.level, false, t.wide};
  }
  return t;
}

const Text* KernelPrinter::shortened(const Val* v) const {
  for (const Scope& scope : scopes_) {
    const auto& known = scope.shortened[is_value_ ? 1 : 0];
    if (auto it = known.find(v); it != known.end()) {
      return &it->second;
    }
  }
  return nullptr;
}

Text KernelPrinter::shortened(Text t, const Val* v) {
  constexpr size_t kLongest = 160;
  if (t.text.size() <= kLongest || t.from_element) {
    return t;
  }
  t.text = bindName(t, v->dtype());
  t.compound = false;
  scopes_[t.level].shortened[is_value_ ? 1 : 0].emplace(v, t);
  return t;
}

Text KernelPrinter::scalar(const Val* v) {
  if (const auto* t = tryAs<TensorIndex>(v)) {
    return {access(t), level(), false, false, true};
  }
  if (v->isConst()) {
    const std::string text = literal(v->value(), v->dtype());
    return {text, 0, text.front() == '-', isIndexType(v->dtype()) && !fitsInt32(v)};
  }
  if (const auto* n = tryAs<NamedScalar>(v)) {
    if (auto thread = thread_names_.find(n->text()); thread != thread_names_.end()) {
      auto loop = loop_level_.find(thread->second);
      return {thread->second, loop == loop_level_.end() ? 0 : loop->second, false};
    }
    auto it = loop_level_.find(n->text());
    const bool compound = n->text().find(' ') != std::string::npos;
    return {n->text(), it == loop_level_.end() ? 0 : it->second, compound};
  }
  if (auto it = names_in_indices_.find(v); it != names_in_indices_.end() && !is_value_) {
    return it->second;
  }
  if (auto it = names_.find(v); it != names_.end()) {
    return it->second;
  }
  if (in_piece_ != nullptr) {
    if (auto it = in_piece_->find(v); it != in_piece_->end()) {
      return scalar(it->second);
    }
  }
  if (const auto* copy = tryAs<LoadStoreOp>(v->definition())) {
    return scalar(copy->in());
  }
  const auto* def = tryAs<ElementwiseOp>(v->definition());
  NVF_ERROR(def != nullptr, "the scalar ", v->toInlineString(), " is not known to the kernel");
  const Text* known = shortened(v);
  return known == nullptr ? shortened(elementwise(def), v) : *known;
}

Text KernelPrinter::convertedScalar(const Val* v, DataType dtype) {
  if (v->dtype() == dtype || v->kind() == ValKind::TensorIndex ||
      (isIndexType(v->dtype()) && isIndexType(dtype))) {
    return scalar(v);
  }
  if (v->isConst() && (dtype == DataType::Float || dtype == DataType::Double)) {
    const std::string text = literal(v->value(), dtype);
    return {text, 0, text.front() == '-'};
  }
  return {"nvf::cast<" + std::string(kernelTypeName(dtype)) + ">(" + scalar(v).text + ")", level(),
          false};
}

Text KernelPrinter::asFloat(const Val* v, DataType dtype) {
  if (v->isConst()) {
    const std::string text = literal(convertScalar(v->value(), dtype), DataType::Float);
    return {text, 0, text.front() == '-'};
  }
  const auto* t = tryAs<TensorIndex>(v);
  if (t == nullptr) {
    return {"nvf::cast<float>(" + convertedScalar(v, dtype).text + ")", level(), false};
  }
  const TensorView* tv = t->view();
  if (wide_.holds(tv)) {
    return {element(t), level(), false};
  }
  const bool is_array = tv->getMemoryType() == MemoryType::Local && single_.count(tv) == 0 &&
                        kernel_->thread_loops.registers.count(tv) == 0;
  if (const auto it = long_arrays_.find(tv); is_array && it != long_arrays_.end()) {
    scopes_.at(it->second).narrow.pushBack(tv);
  }
  return {is_array ? "nvf::floatAt(" + tensorName(tv) + ", " + elementIndex(t) + ")"
                   : "nvf::cast<float>(" + access(t) + ")",
          level(), false};
}

std::optional<Text> KernelPrinter::conversion(const ElementwiseOp* op) {
  const auto* in = tryAs<TensorIndex>(op->in(0));
  const auto* out = tryAs<TensorIndex>(op->out());
  if (in == nullptr || out == nullptr) {
    return std::nullopt;
  }
  const DataType from = in->dtype();
  const std::string type(kernelTypeName(out->dtype()));
  const bool is_small = from == DataType::Half || from == DataType::BFloat16;
  if (wide_.holds(out->view())) {
    if (from == DataType::Float && wide_.isExact(in->view(), out->dtype())) {
      return scalar(in);
    }
    const bool is_float = is_small || from == DataType::Float;
    const std::string value = is_small ? asFloat(in, from).text : scalar(in).text;
    return Text{is_float ? "nvf::roundTo<" + type + ">(" + value + ")"
                         : "nvf::cast<float>(nvf::cast<" + type + ">(" + value + "))",
                level(), false};
  }
  if (is_small && out->dtype() == DataType::Float) {
    return asFloat(in, from);
  }
  if (wide_.holds(in->view())) {
    return Text{"nvf::cast<" + type + ">(" + element(in) + ")", level(), false};
  }
  return std::nullopt;
}

std::string KernelPrinter::selection(const std::vector<Text>& in) {
  // The branch that isn't taken must not be evaluated: it may read out of bounds.
  return in[0].operand() + " ? " + in[1].operand() + " : " + in[2].operand();
}

std::optional<Text> KernelPrinter::floatSelection(const ElementwiseOp* op) {
  const auto* out = tryAs<TensorIndex>(op->out());
  const bool is_wide = out != nullptr && wide_.holds(out->view());
  if (!is_wide && !wide_.selectsFloats(op)) {
    return std::nullopt;
  }
  const DataType type = op->out()->dtype();
  const std::string selected =
      selection({scalar(op->in(0)), asFloat(op->in(1), type), asFloat(op->in(2), type)});
  return is_wide ? Text{selected, level(), true}
                 : Text{"nvf::pack<" + std::string(kernelTypeName(type)) + ">(" + selected + ")",
                        level(), false};
}

DataType KernelPrinter::operandType(const ElementwiseOp* op) {
  const size_t first = op->op() == OpType::Where ? 1 : 0;
  for (size_t i = first; i < op->inputs().size(); ++i) {
    if (op->in(i)->kind() == ValKind::TensorIndex) {
      return op->in(i)->dtype();
    }
  }
  if (op->op() == OpType::Where) {
    return op->out()->dtype();
  }
  DataType widest = op->in(0)->dtype();
  for (const Val* v : op->inputs()) {
    if (isComplex(v->dtype()) || (isFloatingPoint(v->dtype()) && !isComplex(widest))) {
      widest = v->dtype() == DataType::Float && widest == DataType::Double ? widest : v->dtype();
    }
  }
  return widest;
}

bool KernelPrinter::widens(DataType from, DataType to) const {
  const bool from_narrow = from == DataType::Int32 ||
                           (from == DataType::Index && kernel_->index_type == DataType::Int32);
  return from_narrow && to == DataType::Int;
}

namespace {

bool isIndexOp(const ElementwiseOp* op) {
  return !op->isTensorExpr() && isIndexType(op->out()->dtype());
}

// Of a quotient by a constant that is neither so small nor so large that its reciprocal is no
// normal number: half an ulp more than the quotient has.
std::optional<double> reciprocalOfDivisor(const ElementwiseOp* op) {
  const bool is_quotient = op->op() == OpType::Div || op->op() == OpType::TrueDiv;
  const Val* divisor = is_quotient ? op->in(1) : nullptr;
  if (divisor == nullptr || !divisor->isScalar() || !divisor->isConst()) {
    return std::nullopt;
  }
  const double value = std::get<double>(convertScalar(divisor->value(), DataType::Double));
  const double magnitude = std::abs(value);
  return magnitude > 0x1p-100 && magnitude < 0x1p100 ? std::optional(1 / value) : std::nullopt;
}

// Sums and products of the same kind read better without parentheses on the left.
bool continues(const ElementwiseOp* op) {
  const Val* left = op->in(0);
  const auto* before = tryAs<ElementwiseOp>(left->definition());
  return (op->op() == OpType::Add || op->op() == OpType::LogicalAnd) && before != nullptr &&
         left->kind() == ValKind::Val && before->op() == op->op();
}

} // namespace

std::vector<Text> KernelPrinter::operandsOf(const ElementwiseOp* op, Text& result) {
  const OpInfo& info = opInfo(op->op());
  std::vector<Text> in;
  for (size_t i = 0; i < op->inputs().size(); ++i) {
    const bool is_condition = op->op() == OpType::Where && i == 0;
    const bool as_is = is_condition || info.arity == 1 || info.rule == TypeRule::LogicalBool ||
                       info.rule == TypeRule::MakeComplex;
    in.push_back(as_is ? scalar(op->in(i)) : convertedScalar(op->in(i), operandType(op)));
    result.level = std::max(result.level, in.back().level);
    result.wide = result.wide || in.back().wide;
    result.from_element = result.from_element || in.back().from_element;
  }
  if (isIndexOp(op) || isBoolean(op->out()->dtype())) {
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = hoisted(in[i], result.level, op->in(i)->dtype());
    }
  }
  return in;
}

Text KernelPrinter::elementwise(const ElementwiseOp* op) {
  std::optional<Text> in_float = op->op() == OpType::Cast    ? conversion(op)
                                 : op->op() == OpType::Where ? floatSelection(op)
                                                             : std::nullopt;
  if (in_float) {
    return *in_float;
  }
  const OpInfo& info = opInfo(op->op());
  const DataType type = operandType(op);
  const DataType out_type = op->out()->dtype();
  const auto* out = tryAs<TensorIndex>(op->output(0));
  const bool is_index = isIndexOp(op);
  Text result; // without its text
  const std::vector<Text> in = operandsOf(op, result);
  const auto made = [&result](std::string text, bool compound) {
    result.text = std::move(text);
    result.compound = compound;
    return result;
  };
  auto call = [&](const std::string& function) {
    std::string text = function + "(";
    for (size_t i = 0; i < in.size(); ++i) {
      text += (i == 0 ? "" : ", ") + in[i].text;
    }
    return made(text + ")", false);
  };
  if (out != nullptr && wide_.isComputedInBFloat16(out->view())) {
    const std::string narrow(kernelTypeName(DataType::BFloat16));
    return call(std::string("nvf::") + info.name + "In<" + narrow + ">");
  }
  switch (op->op()) {
    case OpType::Cast:
      if (isIndexType(op->in(0)->dtype()) && is_index && !widens(op->in(0)->dtype(), out_type)) {
        return in[0];
      }
      result.wide = widens(op->in(0)->dtype(), out_type);
      return call("nvf::cast<" + std::string(kernelTypeName(out_type)) + ">");
    case OpType::BitCast:
      return call("nvf::bitsOf<" + std::string(kernelTypeName(out_type)) + ">");
    case OpType::Where:
      return made(selection(in), true);
    case OpType::Div:
    case OpType::TrueDiv:
    case OpType::Mod:
      // Extents around a running loop are not 0; user data, scalars included, may be. C has no %
      // of floating point.
      if (isFloatingPoint(type) ? op->op() == OpType::Mod
                                : !isComplex(type) && !(is_index && isNonzeroDivisor(op->in(1)))) {
        return call(std::string("nvf::") + info.name);
      }
      if (type == DataType::Float && approximate_.count(op) == 0) {
        return call("nvf::divideFloats");
      }
      break;
    case OpType::Neg:
      if (type == DataType::Int32 && !is_index) {
        return call("nvf::neg"); // see nvf::opaque
      }
      break;
    case OpType::Sub:
      if (out != nullptr && deviations_.count(out->view()) != 0) {
        return call("nvf::subtractRounded");
      }
      if (type == DataType::Int32 && !is_index && op->in(0)->isZeroInt()) {
        return made("nvf::neg(" + in[1].text + ")", false);
      }
      break;
    default:
      break;
  }
  // Low-precision types have no operators of their own.
  const bool is_approximate = approximate_.count(op) != 0;
  if (const auto factor = is_approximate ? reciprocalOfDivisor(op) : std::nullopt) {
    return made(in[0].operand() + " * " + literal(*factor, type), true);
  }
  const bool infix = info.infix[0] != '\0' && !isLowPrecision(type) && !is_approximate &&
                     !(op->op() == OpType::BitwiseNot && isBoolean(type));
  if (!infix) {
    return call(std::string(is_approximate ? "nvf::approx::" : "nvf::") + info.name);
  }
  if (in.size() == 1) {
    return made(info.infix + in[0].operand(), true);
  }
  const std::string left = in[0].compound && continues(op) ? in[0].text : in[0].operand();
  return made(left + " " + info.infix + " " + in[1].operand(), true);
}

} // namespace nvfuser::codegen
