// SPDX-License-Identifier: BSD-3-Clause
// Text of the IR. Formats are those that users know: T2_l_float[iS4{i0}, bS5{1}], one statement per
// tensor expression with its operands on lines of their own.
#include <ir/printer.h>

#include <base/error.h>
#include <base/string_utils.h>
#include <ir/nodes.h>

#include <algorithm>
#include <limits>
#include <sstream>

namespace nvfuser {

std::ostream& operator<<(std::ostream& os, const Statement* s) {
  return os << (s == nullptr ? std::string("<null>") : s->toString());
}

// ---- Scalars

namespace {

const char* scalarPrefix(DataType t) {
  switch (t) {
    case DataType::Double:
      return "d";
    case DataType::Bool:
      return "b";
    case DataType::ComplexFloat:
    case DataType::ComplexDouble:
      return "c";
    default:
      return isFloatingPoint(t) ? "f" : "i";
  }
}

std::string numberText(double value) {
  std::ostringstream out;
  out.precision(std::numeric_limits<double>::max_digits10 - 1);
  out << value;
  return out.str();
}

// The conversion functions of 16-bit floats by their usual names, C casts otherwise.
std::string castText(DataType from, DataType to) {
  const auto short_name = [](DataType t) {
    return t == DataType::Half ? "half" : t == DataType::BFloat16 ? "bfloat" : nullptr;
  };
  if (to == DataType::Float && short_name(from) != nullptr) {
    return std::string("__") + short_name(from) + "2float";
  }
  if (from == DataType::Float && short_name(to) != nullptr) {
    return std::string("__float2") + short_name(to);
  }
  return "(" + std::string(typeName(to)) + ")";
}

} // namespace

std::string constantText(const ScalarValue& value, DataType dtype) {
  if (const auto* b = std::get_if<bool>(&value)) {
    return *b ? "true" : "false";
  }
  if (const auto* i = std::get_if<int64_t>(&value)) {
    if (dtype == DataType::UInt64) {
      return std::to_string(static_cast<uint64_t>(*i));
    }
    return std::to_string(*i);
  }
  if (const auto* d = std::get_if<double>(&value)) {
    return std::string(typeName(dtype)) + "(" + numberText(*d) + ")";
  }
  if (const auto* c = std::get_if<std::complex<double>>(&value)) {
    return std::string(typeName(dtype)) + "(" + numberText(c->real()) + "," +
           numberText(c->imag()) + ")";
  }
  return "?";
}

std::string Val::toString() const {
  if (isConst()) {
    return constantText(value_, dtype_);
  }
  return scalarPrefix(dtype_) + std::to_string(name());
}

namespace {

// A size of a chain of slices contains the one before several times: as a tree it is exponential.
// What takes more operations than these is shown by its name, and printMath() says how it is
// computed.
constexpr int kMostOperationsOfSize = 24;
// Elsewhere an expression is long before it is of no use any more: the index of a kernel's access.
constexpr int kMostOperations = 256;

// Counted as often as they would be printed, and no further than `most` + 1.
bool takesMoreThan(int most, const Val* v) {
  std::vector<const Val*> stack{v};
  for (int operations = 0; !stack.empty();) {
    const Val* top = stack.back();
    stack.pop_back();
    if (!top->isScalar() || top->definition() == nullptr) {
      continue;
    }
    if (++operations > most) {
      return true;
    }
    stack.insert(stack.end(), top->definition()->inputs().begin(),
                 top->definition()->inputs().end());
  }
  return false;
}

} // namespace

std::string Val::toInlineString() const {
  if (!isScalar() || isConst() || definition_ == nullptr || takesMoreThan(kMostOperations, this)) {
    return toString();
  }
  return "( " + definition_->toInlineString() + " )";
}

bool isShownByName(const Val* size) {
  return size->isScalar() && takesMoreThan(kMostOperationsOfSize, size);
}

std::string sizeText(const Val* size) {
  return isShownByName(size) ? size->toString() : size->toInlineString();
}

// ---- Domains and tensors

std::string IterDomain::toString() const {
  std::ostringstream out;
  out << iterTag(iter_type_) << parallelTag(parallel_type_) << name() << "{" << sizeText(extent_);
  if (expanded_extent_ != nullptr) {
    out << " ex " << sizeText(expanded_extent_);
  }
  out << "}" << (is_rfactor_ ? "rf" : "") << (is_clustered_ ? "_c" : "");
  return out.str();
}

std::string IterDomain::toInlineString() const {
  return toString();
}

std::string TensorDomain::toString() const {
  return "[" + join(loop_) + "]";
}

std::string TensorView::toString() const {
  std::ostringstream out;
  out << "T" << name() << "_" << memoryTag(memory_type_) << "_" << typeName(dtype())
      << domain_->toString();
  if (compute_at_pos_ > 0) {
    out << " ca_pos( " << compute_at_pos_ << " )";
  }
  if (max_producer_pos_ > 0) {
    out << " produce_pos( " << max_producer_pos_ << " )";
  }
  return out.str();
}

std::string TensorView::toInlineString() const {
  return toString();
}

// ---- Expressions

namespace {

// Operands as text: names in statements, whole expressions inline.
struct OperandText {
  bool inlined;
  std::string operator()(const Val* v) const {
    return inlined ? v->toInlineString() : v->toString();
  }
};

std::string listText(const std::vector<Val*>& vals) {
  std::vector<std::string> parts;
  for (const Val* v : vals) {
    parts.push_back(sizeText(v));
  }
  return "{" + join(parts) + "}";
}

std::string flagsText(const std::vector<bool>& flags) {
  std::vector<std::string> parts;
  for (const bool b : flags) {
    parts.push_back(b ? "true" : "false");
  }
  return "{" + join(parts) + "}";
}

// The sizes of a result, as an op that makes a tensor of scalars shows them.
std::string sizesText(const Val* out) {
  if (!out->isTensor()) {
    return "{}";
  }
  std::vector<Val*> sizes;
  for (const IterDomain* id : out->as<TensorView>()->getLogicalDomain()) {
    sizes.push_back(id->getMaybeExpandedExtent());
  }
  return listText(sizes);
}

std::string resizesText(const std::vector<Val*>& a, const std::vector<Val*>& b) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < a.size(); ++i) {
    parts.push_back("{" + sizeText(a[i]) + ", " + sizeText(b[i]) + "}");
  }
  return "{" + join(parts, " ") + "}";
}

// What stands to the right of the equal sign. `break_line` separates the operands of long
// statements.
class RightHandSide {
 public:
  RightHandSide(const Expr* e, bool inlined, std::string break_line)
      : e_(e), text_{inlined}, break_(std::move(break_line)) {}

  std::string operator()() const {
    switch (e_->kind()) {
      case ExprKind::ElementwiseOp:
        return elementwise(*e_->as<ElementwiseOp>());
      case ExprKind::LoadStoreOp:
        return loadStore(*e_->as<LoadStoreOp>());
      case ExprKind::BroadcastOp:
        return "broadcast( " + in(0) +
               ", flags = " + flagsText(e_->as<BroadcastOp>()->isBroadcastDim()) + " )";
      case ExprKind::SqueezeOp:
        return "squeeze( " + in(0) + ", flags = " + flagsText(e_->as<SqueezeOp>()->isSqueezeDim()) +
               " )";
      case ExprKind::ExpandOp:
        return "expand( " + in(0) + ", " + listText(e_->as<ExpandOp>()->shape()) + " )";
      case ExprKind::ReshapeOp:
        return "view( " + in(0) + " )";
      case ExprKind::SliceOp: {
        const auto* op = e_->as<SliceOp>();
        return "slice( " + in(0) + ", " + resizesText(op->starts(), op->stops()) + " )";
      }
      case ExprKind::PadOp: {
        const auto* op = e_->as<PadOp>();
        return "pad( " + in(0) + ", " + resizesText(op->left(), op->right()) + ", " + in(1) + " )";
      }
      case ExprKind::CatOp:
        return "cat( " + allInputs() + ", " + std::to_string(e_->as<CatOp>()->dim()) + " )";
      case ExprKind::FullOp:
        return "full(" + sizesText(e_->output(0)) + ", " + in(0) + ")";
      case ExprKind::IotaOp:
        return "iota(" + allInputs() + ", " + std::string(typeName(e_->output(0)->dtype())) + ")";
      case ExprKind::RngOp:
        return "rng_" + e_->opName() + "(" + sizesText(e_->output(0)) + ", " + allInputs() + ", " +
               std::string(typeName(e_->output(0)->dtype())) + ")";
      case ExprKind::ReductionOp: {
        const auto* op = e_->as<ReductionOp>();
        return "reduction( " + in(0) + ", op = " + opInfo(op->op()).name +
               ", initial value = " + op->init()->toInlineString() + " )";
      }
      case ExprKind::ScanOp: {
        const auto* op = e_->as<ScanOp>();
        return "scan( " + in(0) + ", dim = " + std::to_string(op->dim()) +
               ", op = " + opInfo(op->op()).name +
               ", initial value = " + op->init()->toInlineString() + " )";
      }
      case ExprKind::LibraryOp:
        return library(*e_->as<LibraryOp>());
      default:
        return e_->opName() + "( " + allInputs() + numberFields() + " )";
    }
  }

  // Elementwise statements end with a semicolon.
  bool endsWithSemicolon() const {
    switch (e_->kind()) {
      case ExprKind::ElementwiseOp:
      case ExprKind::FullOp:
      case ExprKind::IotaOp:
      case ExprKind::RngOp:
        return true;
      default:
        return false;
    }
  }

 private:
  std::string in(size_t i) const {
    return text_(e_->input(i));
  }

  std::string allInputs() const {
    std::vector<std::string> parts;
    for (const Val* v : e_->inputs()) {
      parts.push_back(text_(v));
    }
    return join(parts);
  }

  // ", dim = 1"
  std::string numberFields() const {
    std::string out;
    for (const NamedField& field : e_->fields()) {
      if (const auto* number = std::get_if<int64_t>(&field.value)) {
        out += std::string(", ") + field.name + " = " + std::to_string(*number);
      }
    }
    return out;
  }

  // matmul( T0, T1 ); operands that may be left out and attributes with their names.
  std::string library(const LibraryOp& op) const {
    const LibraryOpInfo& row = op.info();
    const std::vector<Val*> operands = op.operands();
    std::vector<std::string> parts;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] != nullptr) {
        const std::string name = std::string(row.operands[i].name) + " = ";
        parts.push_back((row.operands[i].isOptional() ? name : "") + text_(operands[i]));
      }
    }
    for (size_t i = 0; i < row.attributes.size(); ++i) {
      parts.push_back(std::string(row.attributes[i].name) + " = " + attributeText(op, i));
    }
    return op.opName() + "( " + join(parts) + " )";
  }

  static std::string attributeText(const LibraryOp& op, size_t i) {
    const int64_t value = op.attributes()[i];
    switch (op.info().attributes[i].kind) {
      case LibraryAttribute::Kind::Bool:
        return value != 0 ? "true" : "false";
      case LibraryAttribute::Kind::Type:
        return std::string(typeName(static_cast<DataType>(value)));
      case LibraryAttribute::Kind::Int:
        break;
    }
    return std::to_string(value);
  }

  std::string elementwise(const ElementwiseOp& op) const {
    const OpInfo& info = opInfo(op.op());
    const std::string infix = info.infix;
    if (op.op() == OpType::Cast) {
      return castText(op.in(0)->dtype(), op.out()->dtype()) + "(" + in(0) + ")";
    }
    if (info.arity == 1) {
      return infix.empty() ? std::string(info.name) + "(" + in(0) + ")" : infix + in(0);
    }
    if (info.arity == 2 && !infix.empty()) {
      return in(0) + (break_.empty() ? " " : break_ + " ") + infix + " " + in(1);
    }
    std::vector<std::string> parts;
    for (const Val* v : op.inputs()) {
      parts.push_back(text_(v));
    }
    const std::string separator = break_.empty() ? ", " : break_ + ", ";
    return std::string(info.name) + "(" + join(parts, separator) + ")";
  }

  std::string loadStore(const LoadStoreOp& op) const {
    if (op.out()->isTensor() && op.out()->as<TensorView>()->hasRoot()) {
      return op.opName() + ".Permute( " + in(0) + ", cache_op=" + cacheText(op) + " )";
    }
    return op.opName() + "( " + in(0) + ", cache_op=" + cacheText(op) + " )";
  }

  static std::string cacheText(const LoadStoreOp& op) {
    std::ostringstream out;
    out << op.cacheOp();
    return out.str();
  }

  const Expr* e_;
  OperandText text_;
  std::string break_;
};

std::string domainExprText(const Expr& e) {
  std::ostringstream out;
  switch (e.kind()) {
    case ExprKind::Split: {
      const auto& s = *e.as<Split>();
      out << (s.innerSplit() ? "Split: " : "Outer split: ") << s.in() << " by factor "
          << sizeText(s.factor()) << " -> " << s.outer() << ", " << s.inner();
      break;
    }
    case ExprKind::Merge: {
      const auto& m = *e.as<Merge>();
      out << "Merge: " << m.outer() << " and " << m.inner() << " -> " << m.out();
      break;
    }
    case ExprKind::Resize: {
      const auto& r = *e.as<Resize>();
      out << "Resize: " << r.in() << " by " << sizeText(r.left()) << " and " << sizeText(r.right())
          << " -> " << r.out();
      break;
    }
    case ExprKind::Swizzle: {
      const auto& s = *e.as<Swizzle>();
      out << "Swizzle(" << s.swizzleType() << "): " << s.inX() << " and " << s.inY() << " -> "
          << s.outX() << ", " << s.outY();
      break;
    }
    case ExprKind::Align: {
      const auto& a = *e.as<Align>();
      out << "Align: " << a.inY() << " of rows " << a.inX() << " of " << sizeText(a.stride())
          << " to vectors of " << a.width() << " -> " << a.outX() << ", " << a.outY();
      break;
    }
    case ExprKind::Swizzle1D: {
      const auto& s = *e.as<Swizzle1D>();
      out << "Swizzle1D(" << s.parallelType() << "): " << s.in() << " -> " << s.out();
      break;
    }
    default:
      NVF_THROW("not a transform of domains: ", e.opName());
  }
  out << "\n";
  return out.str();
}

bool isDomainExpr(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::Split:
    case ExprKind::Merge:
    case ExprKind::Resize:
    case ExprKind::Swizzle:
    case ExprKind::Align:
    case ExprKind::Swizzle1D:
      return true;
    default:
      return false;
  }
}

} // namespace

std::string Expr::toString() const {
  if (isDomainExpr(*this)) {
    return domainExprText(*this);
  }
  const bool has_tensor_view =
      std::any_of(outputs_.begin(), outputs_.end(), [](const Val* v) { return v->isTensor(); });
  const RightHandSide right(this, /*inlined=*/false, has_tensor_view ? "\n  " : "");
  // The names of tensors are long: the right-hand side gets lines of its own.
  return join(outputs_) + (has_tensor_view ? "\n   = " : " = ") + right() +
         (right.endsWithSemicolon() ? ";\n" : "\n");
}

std::string Expr::toInlineString() const {
  if (isDomainExpr(*this)) {
    std::string text = domainExprText(*this);
    text.pop_back();
    return text;
  }
  return RightHandSide(this, /*inlined=*/true, "")();
}

std::string printTransforms(const TensorView* tv) {
  std::ostringstream out;
  const TensorDomain* domain = tv->domain();
  out << tv << "\n";
  if (domain->hasRoot()) {
    out << " root domain : (" << join(domain->root()) << ")\n";
    for (const Expr* e : transformsBetween(domain->root(), domain->logical())) {
      out << "  " << e;
    }
  }
  out << " logical domain : (" << join(domain->logical()) << ")\n";
  if (domain->hasAllocation()) {
    out << " allocation domain : (" << join(domain->allocation()) << ")\n";
  }
  std::vector<std::string> contiguity;
  for (const auto& flag : domain->contiguity()) {
    contiguity.push_back(!flag ? "n" : *flag ? "t" : "f");
  }
  out << " contiguity: " << join(contiguity, " ") << "\n";
  for (const Expr* e : transformsBetween(domain->logical(), domain->loop())) {
    out << "  " << e;
  }
  out << " loop domain : (" << join(domain->loop()) << ")\n";
  return out.str();
}

} // namespace nvfuser
