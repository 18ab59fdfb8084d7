// SPDX-License-Identifier: BSD-3-Clause
// Text of accesses to tensors and of scalar expressions.
#include <base/error.h>
#include <codegen/kernel_printer.h>
#include <codegen/literal.h>
#include <ir/evaluator.h>

#include <algorithm>

namespace nvfuser::codegen {

namespace {

bool isIndexType(DataType t) {
  return t == DataType::Index || t == DataType::Int || t == DataType::Int32;
}

// Extents, of the loops around that run, and constants; scalars of the user may be 0.
bool isNonzeroDivisor(const Val* v) {
  return v->isConstInt() ? std::get<int64_t>(v->value()) != 0 : v->dtype() == DataType::Index;
}

} // namespace

std::string KernelPrinter::tensorName(const TensorView* tv) {
  return "T" + std::to_string(tv->name());
}

std::string KernelPrinter::elementIndex(const TensorIndex* t) {
  return t->view()->getMemoryType() == MemoryType::Local ? scalar(t->index()).text
                                                         : named(t->index());
}

std::string KernelPrinter::element(const TensorIndex* t) {
  if (single_.count(t->view()) != 0) {
    return tensorName(t->view());
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
  return t.compound ? bindName(t) : t.text;
}

std::string KernelPrinter::bindName(const Text& t) {
  auto [it, fresh] = scopes_[t.level].named.try_emplace(t.text);
  if (fresh) {
    it->second = "idx" + std::to_string(next_name_++);
    lineAt(t.level, "const nvfuser_index_t " + it->second + " = " + t.text + ";");
  }
  return it->second;
}

Text KernelPrinter::hoisted(Text t, size_t level, DataType dtype) {
  if (t.compound && t.level < level && isIndexType(dtype)) {
    return {bindName(t), t.level, false};
  }
  return t;
}

Text KernelPrinter::scalar(const Val* v) {
  if (const auto* t = tryAs<TensorIndex>(v)) {
    return {access(t), level(), false};
  }
  if (v->isConst()) {
    const std::string text = literal(v->value(), v->dtype());
    return {text, 0, text.front() == '-'};
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
  if (auto it = names_.find(v); it != names_.end()) {
    return {it->second, 0, false};
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
  return elementwise(def);
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

Text KernelPrinter::selection(const std::vector<Text>& in, size_t depth) {
  // The branch that isn't taken must not be evaluated: it may read out of bounds.
  return {in[0].operand() + " ? " + in[1].operand() + " : " + in[2].operand(), depth, true};
}

std::optional<Text> KernelPrinter::floatSelection(const ElementwiseOp* op) {
  const auto* out = tryAs<TensorIndex>(op->out());
  const bool is_wide = out != nullptr && wide_.holds(out->view());
  if (!is_wide && !wide_.selectsFloats(op)) {
    return std::nullopt;
  }
  const DataType type = op->out()->dtype();
  const Text selected =
      selection({scalar(op->in(0)), asFloat(op->in(1), type), asFloat(op->in(2), type)}, level());
  return is_wide
             ? selected
             : Text{"nvf::pack<" + std::string(kernelTypeName(type)) + ">(" + selected.text + ")",
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
  const bool is_index = !op->isTensorExpr() && isIndexType(out_type);
  std::vector<Text> in;
  size_t depth = 0;
  for (size_t i = 0; i < op->inputs().size(); ++i) {
    const bool is_condition = op->op() == OpType::Where && i == 0;
    const bool as_is = is_condition || info.arity == 1 || info.rule == TypeRule::LogicalBool ||
                       info.rule == TypeRule::MakeComplex;
    in.push_back(as_is ? scalar(op->in(i)) : convertedScalar(op->in(i), type));
    depth = std::max(depth, in.back().level);
  }
  if (is_index || isBoolean(out_type)) {
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = hoisted(in[i], depth, op->in(i)->dtype());
    }
  }
  auto call = [&](const std::string& function) {
    std::string text = function + "(";
    for (size_t i = 0; i < in.size(); ++i) {
      text += (i == 0 ? "" : ", ") + in[i].text;
    }
    return Text{text + ")", depth, false};
  };
  if (out != nullptr && wide_.isComputedInBFloat16(out->view())) {
    const std::string narrow(kernelTypeName(DataType::BFloat16));
    return call(std::string("nvf::") + info.name + "In<" + narrow + ">");
  }
  switch (op->op()) {
    case OpType::Cast:
      if (isIndexType(op->in(0)->dtype()) && isIndexType(out_type) && is_index) {
        return in[0];
      }
      return call("nvf::cast<" + std::string(kernelTypeName(out_type)) + ">");
    case OpType::BitCast:
      return call("nvf::bitsOf<" + std::string(kernelTypeName(out_type)) + ">");
    case OpType::Where:
      return selection(in, depth);
    case OpType::Div:
    case OpType::TrueDiv:
    case OpType::Mod:
      // Extents around a running loop are not 0; user data, scalars included, may be. C has no %
      // of floating point.
      if (isFloatingPoint(type) ? op->op() == OpType::Mod
                                : !isComplex(type) && !(is_index && isNonzeroDivisor(op->in(1)))) {
        return call(std::string("nvf::") + info.name);
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
        return Text{"nvf::neg(" + in[1].text + ")", depth, false};
      }
      break;
    default:
      break;
  }
  // Low-precision types have no operators of their own.
  const bool is_approximate = approximate_.count(op) != 0;
  const bool infix = info.infix[0] != '\0' && !isLowPrecision(type) && !is_approximate &&
                     !(op->op() == OpType::BitwiseNot && isBoolean(type));
  if (!infix) {
    const std::string space = is_approximate ? "nvf::approx::" : "nvf::";
    return call(space + info.name);
  }
  if (in.size() == 1) {
    return {info.infix + in[0].operand(), depth, true};
  }
  // Sums and products of the same kind read better without parentheses on the left.
  const bool chain = in[0].compound &&
                     (op->op() == OpType::Add || op->op() == OpType::LogicalAnd) &&
                     op->in(0)->definition() != nullptr && op->in(0)->kind() == ValKind::Val &&
                     op->in(0)->definition()->kind() == ExprKind::ElementwiseOp &&
                     static_cast<ElementwiseOp*>(op->in(0)->definition())->op() == op->op();
  return {(chain ? in[0].text : in[0].operand()) + " " + info.infix + " " + in[1].operand(), depth,
          true};
}

} // namespace nvfuser::codegen
