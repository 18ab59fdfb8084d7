// SPDX-License-Identifier: BSD-3-Clause
// See translate.h. Input declarations come first, then tensor expressions in topological order,
// each preceded by the scalars it needs, then outputs.
#include <definition/translate.h>

#include <base/error.h>
#include <base/string_utils.h>
#include <ir/describe.h>
#include <ir/visitor.h>
#include <ops/reduction_internal.h>
#include <ops/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <unordered_map>

namespace nvfuser {

using namespace ops_utils;

namespace {

// What stands between the quotes of a string literal.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

// Digits of a finite double with a decimal point: 3.00000, 1.00000e-05, 0.30000000000000004.
std::string doubleDigits(double value) {
  char buffer[40];
  for (const int precision : {6, 15, 16, 17}) {
    std::snprintf(buffer, sizeof(buffer), "%#.*g", precision, value);
    if (std::strtod(buffer, nullptr) == value) {
      break;
    }
  }
  return buffer;
}

std::string doubleLiteral(double value) {
  if (std::isnan(value)) {
    return "float(\"nan\")";
  }
  if (std::isinf(value)) {
    return value > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  }
  return doubleDigits(value);
}

std::string complexLiteral(std::complex<double> value) {
  // Python adds the parts of a literal: of that sum a zero loses its sign.
  const auto survives = [](double part) {
    return std::isfinite(part) && (part != 0 || !std::signbit(part));
  };
  if (!survives(value.real()) || !survives(value.imag())) {
    return "complex(" + doubleLiteral(value.real()) + ", " + doubleLiteral(value.imag()) + ")";
  }
  const std::string sign = std::signbit(value.imag()) ? "-" : "+";
  return doubleDigits(value.real()) + sign + doubleDigits(std::abs(value.imag())) + "j";
}

std::string listOf(const std::vector<std::string>& items) {
  return "[" + join(items) + "]";
}

template <class T>
std::string intList(const std::vector<T>& values) {
  return "[" + join(values) + "]";
}

const char* boolLiteral(bool b) {
  return b ? "True" : "False";
}

std::string boolList(const std::vector<bool>& flags) {
  std::vector<std::string> items;
  for (const bool b : flags) {
    items.push_back(boolLiteral(b));
  }
  return listOf(items);
}

std::string dtypeName(DataType t) {
  return "DataType." + std::string(enumName(t));
}

std::string contiguityList(const TensorDomain::Contiguity& contiguity) {
  std::vector<std::string> items;
  for (const auto& flag : contiguity) {
    items.push_back(!flag ? "None" : boolLiteral(*flag));
  }
  return listOf(items);
}

// Per logical dimension the rank of its stride in the allocation domain.
std::vector<int64_t> strideOrderOf(const TensorView* tv) {
  const std::vector<size_t> memory = tv->domain()->memoryOrder();
  NVF_CHECK(memory.size() == tv->getLogicalDomain().size(), "The allocation domain of ",
            describe(tv), " was scheduled; scheduled fusions cannot be translated.");
  std::vector<int64_t> order(memory.size());
  for (size_t i = 0; i < memory.size(); ++i) {
    order[memory[i]] = static_cast<int64_t>(memory.size() - i) - 1;
  }
  return order;
}

class Translator {
 public:
  explicit Translator(Fusion* fusion) : fusion_(fusion) {}

  std::string run() {
    text_ << "def nvfuser_fusion(fd : FusionDefinition) -> None :\n";
    for (const Val* v : fusion_->inputs()) {
      declare(v);
    }
    for (const Expr* e : fusion_->exprs()) {
      translate(e);
    }
    for (size_t i = 0; i < fusion_->outputs().size(); ++i) {
      output(fusion_->outputs()[i], fusion_->outputAliases()[i]);
    }
    if (fusion_->inputs().empty() && fusion_->outputs().empty()) {
      line("pass"); // a function has a statement at least
    }
    return text_.str();
  }

 private:
  void line(const std::string& text) {
    text_ << "    " << text << "\n";
  }
  void assign(const std::string& name, const std::string& right) {
    line(name + " = " + right);
  }

  std::string tensorName(const Val* tv) const {
    const auto source = copies_.find(tv);
    return "tv" + std::to_string((source == copies_.end() ? tv : source->second)->name());
  }
  // Numbered as they appear, so that the text of the rebuilt fusion is the same text.
  std::string scalarName(const Val* v) {
    auto [it, fresh] = scalar_numbers_.try_emplace(v, scalar_numbers_.size());
    return "c" + std::to_string(it->second);
  }

  // ---- Inputs and outputs

  // The name that the user gave an input.
  static std::string nameArgument(const Val* v) {
    const InputLabel* label = v->inputLabel();
    return label == nullptr || label->name.empty() ? std::string()
                                                   : ", name=\"" + escaped(label->name) + "\"";
  }

  void declare(const Val* v) {
    if (!v->isTensor()) {
      assign(scalarName(v),
             "fd.define_scalar(None, dtype=" + dtypeName(v->dtype()) + nameArgument(v) + ")");
      names_[v] = scalarName(v);
      return;
    }
    const auto* tv = v->as<TensorView>();
    std::vector<int64_t> sizes;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      sizes.push_back(constInt(id->getMaybeExpandedExtent()).value_or(-1));
    }
    std::string text = "fd.define_tensor(shape=" + intList(sizes) +
                       ", contiguity=" + contiguityList(tv->getContiguity()) +
                       ", dtype=" + dtypeName(tv->dtype()) +
                       ", is_cpu=" + boolLiteral(tv->isCpuScalar());
    if (tv->domain()->hasAllocation()) {
      text += ", stride_order=" + intList(strideOrderOf(tv));
    }
    assign(tensorName(tv), text + nameArgument(tv) + ")");
    visited(tv);
  }

  void output(const Val* tv, const OutputAlias& alias) {
    if (alias.input == nullptr) {
      line("fd.add_output(" + tensorName(tv) + ")");
      return;
    }
    line("fd.add_output(" + tensorName(tv) + ", " + tensorName(alias.input) + ")");
    if (!alias.hidden) {
      line("fd.add_output(" + tensorName(tv) + ")");
    }
  }

  // From here on the tensor's extents can be had with size().
  void visited(const TensorView* tv) {
    const Ids ids = logicalIds(tv);
    for (size_t d = 0; d < ids.size(); ++d) {
      const Val* extent = ids[d]->getMaybeExpandedExtent();
      if (!extent->isConst()) {
        extents_.emplace(extent, std::pair{tv, d});
      }
    }
  }

  // ---- Scalars

  // The name or literal of a scalar, defining it before if needed. Recursive in the depth of scalar
  // expressions.
  std::string scalar(const Val* v) {
    if (v->isTensor()) {
      return tensorName(v);
    }
    if (const auto known = names_.find(v); known != names_.end()) {
      return known->second;
    }
    if (v->isConst()) {
      return constant(v);
    }
    std::string right;
    if (const auto extent = extents_.find(v); extent != extents_.end()) {
      right = "fd.ops.size(" + tensorName(extent->second.first) +
              ", dim=" + std::to_string(extent->second.second) + ")";
    } else {
      NVF_CHECK(v->definition() != nullptr, "The scalar ", describe(v),
                " is neither an input of the fusion nor computed from its inputs.");
      right = scalarExpr(v->definition());
    }
    // Only now: what it is computed from has been numbered before it.
    const std::string name = scalarName(v);
    assign(name, right);
    names_[v] = name;
    return name;
  }

  // Literals have the dtypes that Python numbers get; other constants are defined.
  std::string constant(const Val* v) {
    switch (v->dtype()) {
      case DataType::Bool:
      case DataType::Int:
      case DataType::Index:
      case DataType::Double:
      case DataType::ComplexDouble:
        return pythonLiteral(v->value());
      default:
        break;
    }
    assign(scalarName(v), "fd.define_scalar(" + pythonLiteral(v->value()) +
                              ", dtype=" + dtypeName(v->dtype()) + ")");
    names_[v] = scalarName(v);
    return scalarName(v);
  }

  // A number for an argument that is converted to the tensor's dtype anyway.
  std::string number(const Val* v) {
    return v->isConst() ? pythonLiteral(v->value()) : scalar(v);
  }

  std::string scalarExpr(const Expr* e) {
    if (e->kind() == ExprKind::LoadStoreOp) {
      return "fd.ops.set(" + scalar(e->input(0)) + ")";
    }
    NVF_CHECK(e->kind() == ExprKind::ElementwiseOp, "The scalar op ", e->opName(),
              " cannot be translated.");
    return elementwise(*e->as<ElementwiseOp>());
  }

  std::vector<std::string> scalars(const std::vector<Val*>& vals) {
    std::vector<std::string> items;
    for (const Val* v : vals) {
      items.push_back(scalar(v));
    }
    return items;
  }

  std::string scalarList(const std::vector<Val*>& vals) {
    return listOf(scalars(vals));
  }

  std::string sizesOf(const TensorView* tv) {
    std::vector<Val*> sizes;
    for (const IterDomain* id : logicalIds(tv)) {
      sizes.push_back(id->getMaybeExpandedExtent());
    }
    return scalarList(sizes);
  }

  // ---- Expressions

  std::string elementwise(const ElementwiseOp& op) {
    const std::vector<std::string> in = scalars(op.inputs());
    if (op.op() == OpType::Cast) {
      return "fd.ops.cast(" + in[0] + ", dtype=" + dtypeName(op.out()->dtype()) + ")";
    }
    if (op.op() == OpType::CeilDiv) {
      // Not an op of the Python API.
      return "fd.ops.div(fd.ops.sub(fd.ops.add(" + in[0] + ", " + in[1] + "), 1), " + in[1] + ")";
    }
    return "fd.ops." + std::string(opInfo(op.op()).name) + "(" + join(in) + ")";
  }

  std::string copy(const LoadStoreOp& op, const TensorView* out) {
    const std::string in = tensorName(op.in());
    if (out->hasRoot()) {
      const Ids& root = out->getRootDomain();
      std::vector<int64_t> dims;
      for (IterDomain* id : out->getLogicalDomain()) {
        const auto position = std::find(root.begin(), root.end(), id);
        NVF_CHECK(position != root.end(), "Scheduled fusions cannot be translated.");
        dims.push_back(position - root.begin());
      }
      return "fd.ops.permute(" + in + ", dims=" + intList(dims) + ")";
    }
    if (out->domain()->isOrderGiven()) {
      return "fd.ops.stride_order(" + in + ", stride_order=" + intList(strideOrderOf(out)) + ")";
    }
    if (op.type() == LoadStoreOpType::SegmenterSet) {
      return "fd.ops.segment_set(" + in + ")";
    }
    return "fd.ops.cast(" + in + ", dtype=" + dtypeName(out->dtype()) + ")";
  }

  // Where the positions have several dimensions, the operation does not exist as one.
  std::string selected(const IndexSelectOp& op, const TensorView* out) {
    if (logicalIds(op.index()).size() == 1) {
      return call(&op);
    }
    return "fd.ops.reshape(fd.ops.index_select(" + tensorName(op.lookup()) + ", fd.ops.reshape(" +
           tensorName(op.index()) + ", [-1]), " + std::to_string(op.dim()) + "), " + sizesOf(out) +
           ")";
  }

  std::string squeezed(const SqueezeOp& op) {
    std::vector<int64_t> dims;
    for (size_t d = 0; d < op.isSqueezeDim().size(); ++d) {
      if (op.isSqueezeDim()[d]) {
        dims.push_back(static_cast<int64_t>(d));
      }
    }
    return "fd.ops.squeeze(" + tensorName(op.input(0)) + ", dims=" + intList(dims) +
           (op.squeezeExpanded() ? ", squeeze_expanded=True)" : ")");
  }

  std::string padded(const PadOp& op) {
    std::vector<std::string> widths;
    for (size_t d = op.left().size(); d-- > 0;) {
      widths.push_back(scalar(op.left()[d]));
      widths.push_back(scalar(op.right()[d]));
    }
    return "fd.ops.pad(" + tensorName(op.in()) + ", pad_widths=" + listOf(widths) +
           ", value=" + number(op.value()) + ")";
  }

  std::string sliced(const SliceOp& op) {
    const std::vector<std::string> strides(op.starts().size(), "1");
    const std::string starts = scalarList(op.starts());
    const std::string stops = scalarList(op.stops());
    return "fd.ops.slice(" + tensorName(op.input(0)) + ", start_indices=" + starts +
           ", end_indices=" + stops + ", strides=" + listOf(strides) +
           ", manual_normalization=True)";
  }

  std::string concatenated(const CatOp& op) {
    return "fd.ops.cat(" + scalarList(op.inputs()) + ", dim=" + std::to_string(op.dim()) +
           ", manual_padding=True)";
  }

  std::string filled(const FullOp& op, const TensorView* out) {
    const std::string sizes = sizesOf(out);
    return "fd.ops.full(shape=" + sizes + ", fill_value=" + number(op.input(0)) +
           ", dtype=" + dtypeName(out->dtype()) + ")";
  }

  std::string counted(const IotaOp& op, const TensorView* out) {
    std::string text = "fd.ops.iota(length=" + scalar(op.length()) +
                       ", start=" + number(op.start()) + ", step=" + number(op.step());
    if (out->dtype() != DataType::Int) {
      text += ", dtype=" + dtypeName(out->dtype());
    }
    return text + ")";
  }

  std::string random(const RngOp& op, const TensorView* out) {
    const std::string a = scalar(op.parameter(0));
    const std::string b = scalar(op.parameter(1));
    std::string text = "fd.ops." + op.opName() + "(" + a + ", " + b + ", " + sizesOf(out);
    if (!op.isStateful()) {
      const std::string seed = seedScalar(op.seed());
      const std::string offset = seedScalar(op.offset());
      text += ", rng_seed=" + seed + ", rng_offset=" + offset;
    }
    if (out->dtype() != DataType::Float) {
      text += ", dtype=" + dtypeName(out->dtype());
    }
    return text + ")";
  }

  // rng_seed and rng_offset take scalars of the fusion, not numbers.
  std::string seedScalar(const Val* v) {
    if (!v->isConst()) {
      return scalar(v);
    }
    return "fd.define_scalar(" + pythonLiteral(v->value()) + ", dtype=" + dtypeName(v->dtype()) +
           ")";
  }

  // Positions of the Reduction axes of a result.
  static std::string reducedDims(const TensorView* out) {
    std::vector<int64_t> dims;
    const Ids& ids = out->getLogicalDomain();
    for (size_t d = 0; d < ids.size(); ++d) {
      if (ids[d]->isReduction()) {
        dims.push_back(static_cast<int64_t>(d));
      }
    }
    return ", dims=" + intList(dims);
  }

  std::string reduced(const ReductionOp& op, const TensorView* out) {
    const bool compares = op.op() == OpType::Minimum || op.op() == OpType::Maximum;
    return "fd.ops." + pythonOpName(&op) + "(" + tensorName(op.in()) + reducedDims(out) +
           (compares ? ")" : ", dtype=" + dtypeName(out->dtype()) + ")");
  }

  std::string scanned(const ScanOp& op) {
    const std::string init = op.init()->value() == identityValue(op.op(), op.init()->dtype())
                                 ? ""
                                 : ", init=" + scalar(op.init());
    return "fd.ops." + pythonOpName(&op) + "(" + tensorName(op.in()) +
           ", dim=" + std::to_string(op.dim()) + init + ")";
  }

  // A call with the operands, then the fields by their keywords.
  std::string call(const Expr* e) {
    std::vector<std::string> arguments = scalars(e->inputs());
    for (const NamedField& field : e->fields()) {
      if (field.told == Told::AsField) {
        arguments.push_back(std::string(field.name) + "=" + fieldText(field.value));
      }
    }
    return "fd.ops." + e->opName() + "(" + join(arguments) + ")";
  }

  std::string fieldText(const FieldValue& value) {
    return std::visit(
        [this](const auto& x) -> std::string {
          using T = std::decay_t<decltype(x)>;
          if constexpr (std::is_same_v<T, bool>) {
            return boolLiteral(x);
          } else if constexpr (std::is_same_v<T, int64_t>) {
            return std::to_string(x);
          } else if constexpr (std::is_same_v<T, std::string>) {
            return x;
          } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
            return boolList(x);
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
            return intList(x);
          } else if constexpr (std::is_same_v<T, Val*>) {
            return scalar(x);
          } else {
            return scalarList(x);
          }
        },
        value);
  }

  // Operands, then attributes; by keyword what may be left out.
  std::string libraryCall(const LibraryOp& op) {
    const LibraryOpInfo& row = op.info();
    const std::vector<Val*> operands = op.operands();
    std::vector<std::string> arguments;
    for (size_t i = 0; i < operands.size(); ++i) {
      const LibraryOperand& operand = row.operands[i];
      if (operand.writing == LibraryOperand::Writing::Positional) {
        arguments.push_back(scalar(operands[i]));
      } else if (operands[i] != nullptr ||
                 operand.writing == LibraryOperand::Writing::AlwaysKeyword) {
        const std::string value = operands[i] == nullptr ? "None" : scalar(operands[i]);
        arguments.push_back(std::string(operand.name) + "=" + value);
      }
    }
    for (size_t i = 0; i < row.attributes.size(); ++i) {
      const LibraryAttribute& attribute = row.attributes[i];
      const int64_t value = op.attributes()[i];
      if (attribute.default_value == value) {
        continue;
      }
      const std::string text =
          attribute.kind == LibraryAttribute::Kind::Type   ? dtypeName(static_cast<DataType>(value))
          : attribute.kind == LibraryAttribute::Kind::Bool ? boolLiteral(value != 0)
                                                           : std::to_string(value);
      arguments.push_back(std::string(attribute.name) + "=" + text);
    }
    return "fd.ops." + std::string(row.python_name) + "(" + join(arguments) + ")";
  }

  std::string rightHandSide(const Expr* e, const TensorView* out) {
    const auto in = [&] { return tensorName(e->input(0)); };
    switch (e->kind()) {
      case ExprKind::ElementwiseOp:
        return elementwise(*e->as<ElementwiseOp>());
      case ExprKind::LoadStoreOp:
        return copy(*e->as<LoadStoreOp>(), out);
      case ExprKind::SqueezeOp:
        return squeezed(*e->as<SqueezeOp>());
      case ExprKind::SliceOp:
        return sliced(*e->as<SliceOp>());
      case ExprKind::PadOp:
        return padded(*e->as<PadOp>());
      case ExprKind::CatOp:
        return concatenated(*e->as<CatOp>());
      case ExprKind::FullOp:
        return filled(*e->as<FullOp>(), out);
      case ExprKind::IotaOp:
        return counted(*e->as<IotaOp>(), out);
      case ExprKind::RngOp:
        return random(*e->as<RngOp>(), out);
      case ExprKind::ReductionOp:
        return reduced(*e->as<ReductionOp>(), out);
      case ExprKind::WelfordOp:
        NVF_CHECK(!e->as<WelfordOp>()->combinesParts(),
                  "A factored Welford reduction cannot be translated.");
        return "fd.ops.welford(" + in() + reducedDims(out) + ")";
      case ExprKind::ScanOp:
        return scanned(*e->as<ScanOp>());
      case ExprKind::IndexSelectOp:
        return selected(*e->as<IndexSelectOp>(), out);
      case ExprKind::EmbeddingFwdOp:
        return "fd.ops.embedding_fwd(" + tensorName(e->input(1)) + ", " + in() + ")";
      case ExprKind::LibraryOp:
        return libraryCall(*e->as<LibraryOp>());
      case ExprKind::OnlineSoftmaxOp:
        NVF_CHECK_FAIL("The op ", e->opName(), " cannot be translated.");
      default:
        return call(e);
    }
  }

  // Of several results those that nothing uses, and those that the op does not have, are called _.
  std::string resultNames(const Expr* e) const {
    const auto* library = tryAs<LibraryOp>(e);
    const size_t count = library == nullptr ? e->outputs().size() : library->info().results.size();
    std::vector<std::string> names;
    for (const Val* v : e->outputs()) {
      const bool used = count == 1 || v->isFusionOutput() || !v->uses().empty();
      names.push_back(used ? tensorName(v) : "_");
    }
    names.resize(count, "_");
    return join(names);
  }

  // A copy with a real dimension in the place of an expanded one: made by an op for itself, which
  // will make it again.
  static bool isMaterialized(const Expr* e) {
    const auto* copy = tryAs<LoadStoreOp>(e);
    const auto* out = copy == nullptr ? nullptr : tryAs<TensorView>(copy->out());
    if (out == nullptr || out->hasRoot() || out->domain()->isOrderGiven()) {
      return false;
    }
    const Ids from = logicalIds(copy->in());
    const Ids to = logicalIds(out);
    for (size_t d = 0; d < to.size(); ++d) {
      if (from[d]->hasExpandedExtent() && !to[d]->isBroadcast()) {
        return true;
      }
    }
    return false;
  }

  // The extents of what is padded for cat: cat pads again.
  static bool isPaddedForCat(const Expr* e) {
    const std::vector<Expr*>& uses = e->output(0)->uses();
    return e->kind() == ExprKind::PadOp && !uses.empty() &&
           std::all_of(uses.begin(), uses.end(),
                       [](const Expr* use) { return use->kind() == ExprKind::CatOp; });
  }

  void translate(const Expr* e) {
    if (isMaterialized(e)) {
      const auto source = copies_.find(e->input(0));
      copies_[e->output(0)] = source == copies_.end() ? e->input(0) : source->second;
      return;
    }
    const std::string right = rightHandSide(e, e->output(0)->as<TensorView>());
    assign(resultNames(e), right);
    for (const Val* v : e->outputs()) {
      const auto* out = v->as<TensorView>();
      // A memory order that was set on the result of another op, or of a permutation.
      const bool ordered_by_op = e->kind() == ExprKind::LoadStoreOp && !out->hasRoot();
      if (out->domain()->isOrderGiven() && !ordered_by_op) {
        orderMemory(out);
      }
      if (!isPaddedForCat(e)) {
        visited(out);
      }
    }
  }

  // The memory order that was set on the result of an op.
  void orderMemory(const TensorView* out) {
    const Ids& logical = out->getLogicalDomain();
    std::vector<std::string> ids;
    std::optional<bool> contiguous;
    for (size_t i = 0; i < out->getMaybeAllocationDomain().size(); ++i) {
      IterDomain* id = out->getMaybeAllocationDomain()[i];
      const auto position = std::find(logical.begin(), logical.end(), id);
      const auto flag = out->getContiguity()[i];
      NVF_CHECK(position != logical.end() && (!flag || !contiguous || *flag == *contiguous),
                "The memory order of ", describe(out), " cannot be translated.");
      contiguous = flag.has_value() ? flag : contiguous;
      ids.push_back(tensorName(out) + ".axis(" + std::to_string(position - logical.begin()) + ")");
    }
    line(tensorName(out) + ".set_allocation_domain(" + listOf(ids) + ", " +
         boolLiteral(contiguous.value_or(true)) + ")");
  }

  Fusion* fusion_;
  // Tensors that are not written down, and what they are copies of.
  std::unordered_map<const Val*, const Val*> copies_;
  std::unordered_map<const Val*, size_t> scalar_numbers_;
  std::ostringstream text_;
  std::unordered_map<const Val*, std::string> names_;
  std::unordered_map<const Val*, std::pair<const TensorView*, size_t>> extents_;
};

} // namespace

std::string pythonLiteral(const ScalarValue& value) {
  if (const auto* b = std::get_if<bool>(&value)) {
    return boolLiteral(*b);
  }
  if (const auto* i = std::get_if<int64_t>(&value)) {
    return std::to_string(*i);
  }
  if (const auto* d = std::get_if<double>(&value)) {
    return doubleLiteral(*d);
  }
  if (const auto* c = std::get_if<std::complex<double>>(&value)) {
    return complexLiteral(*c);
  }
  NVF_THROW("a scalar without a value has no literal");
}

std::string translateFusion(Fusion* fusion) {
  NVF_ERROR(fusion != nullptr);
  return Translator(fusion).run();
}

} // namespace nvfuser
