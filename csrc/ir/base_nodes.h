// SPDX-License-Identifier: BSD-3-Clause
// Statement, Val and Expr: the three base classes of the IR, and the passkey that lets only
// IrBuilder and IrCloner make nodes.
//
// Ownership: an IrContainer (Fusion, Kernel) owns every node; nodes refer to each other by raw
// pointer and die with it. An Expr is immutable once registered. A Val has at most one definition.
#pragma once

#include <ir/node_kinds.h>
#include <type.h>

#include <complex>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace nvfuser {

class Fusion;
class IrCloner;
class IrContainer;
class Val;
class Expr;

// The value of a constant or evaluated scalar. monostate means "not known".
using ScalarValue = std::variant<std::monostate, bool, int64_t, double, std::complex<double>>;

// What messages call an input of a definition. Copies of the fusion and its pieces keep it.
struct InputLabel {
  int64_t position = -1; // among the inputs of the definition; -1: not known
  std::string name;      // the one that the user gave; may be empty
};

// Key that only the builder and the cloner can make; node constructors ask for it.
class IrBuilderPasskey {
  friend class IrBuilder;
  friend class IrCloner;
  explicit IrBuilderPasskey(IrContainer* container) : container(container) {}

 public:
  IrContainer* const container;
};

class Statement {
 public:
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  virtual ~Statement() = default;

  IrContainer* container() const {
    return container_;
  }
  // The container as a Fusion (every container that users see is one).
  Fusion* fusion() const;

  // Number of the node among its kind, as printed (T3, i5, iS7).
  int name() const {
    return name_;
  }

  virtual bool isVal() const {
    return false;
  }
  virtual bool isExpr() const {
    return false;
  }
  template <class T>
  bool isA() const {
    if constexpr (requires { KindOf<T>::kNumber; }) {
      return kind_number_ == KindOf<T>::kNumber;
    } else {
      return dynamic_cast<const T*>(this) != nullptr;
    }
  }
  // Checked downcast.
  template <class T>
  T* as() {
    checkCast(isA<T>());
    return static_cast<T*>(this);
  }
  template <class T>
  const T* as() const {
    checkCast(isA<T>());
    return static_cast<const T*>(this);
  }

  virtual std::string toString() const = 0;
  // One-line form used inside other nodes.
  virtual std::string toInlineString() const {
    return toString();
  }

 protected:
  Statement(IrContainer* container, int kind_number)
      : container_(container), kind_number_(kind_number) {}
  int kindNumberOfNode() const {
    return kind_number_;
  }

 private:
  void checkCast(bool is_one) const {
    if (!is_one) {
      badCast();
    }
  }
  [[noreturn]] void badCast() const;

  friend class IrContainer;
  friend class Fusion;
  IrContainer* container_ = nullptr;
  int name_ = -1;
  const int kind_number_; // kindNumber()
};

// The node as one of class T; null if it is another one, or null.
template <class T, class Node>
auto tryAs(Node* node) {
  using Result = std::conditional_t<std::is_const_v<Node>, const T, T>;
  return node != nullptr && node->template isA<T>() ? static_cast<Result*>(node) : nullptr;
}

// A scalar when its kind is ValKind::Val: symbolic (no value, no definition), constant (value), or
// computed (definition). Base of all other values.
class Val : public Statement {
 public:
  // Symbolic scalar.
  Val(IrBuilderPasskey, DataType dtype);
  // Constants. The dtype defaults to Bool, Int, Double or ComplexDouble after the C++ type.
  Val(IrBuilderPasskey, bool value, DataType dtype = DataType::Bool);
  Val(IrBuilderPasskey, int value, DataType dtype = DataType::Int);
  Val(IrBuilderPasskey, int64_t value, DataType dtype = DataType::Int);
  Val(IrBuilderPasskey, double value, DataType dtype = DataType::Double);
  Val(IrBuilderPasskey, std::complex<double> value, DataType dtype = DataType::ComplexDouble);
  Val(IrBuilderPasskey, ScalarValue value, DataType dtype);
  Val(const Val* src, IrCloner* cloner);

  ValKind kind() const {
    return valKindOf(kindNumberOfNode());
  }
  DataType dtype() const {
    return dtype_;
  }
  bool isVal() const override {
    return true;
  }
  bool isScalar() const {
    return kind() == ValKind::Val || kind() == ValKind::NamedScalar;
  }
  bool isTensor() const {
    return kind() == ValKind::TensorView;
  }

  // Constant value; monostate unless this is a constant scalar.
  const ScalarValue& value() const {
    return value_;
  }
  bool isConst() const {
    return !std::holds_alternative<std::monostate>(value_);
  }
  bool isConstInt() const {
    return std::holds_alternative<int64_t>(value_);
  }
  // Of an integer constant.
  int64_t intValue() const {
    return std::get<int64_t>(value_);
  }
  // True for the integer constants 0 and 1.
  bool isZeroInt() const {
    return isConstInt() && intValue() == 0;
  }
  bool isOneInt() const {
    return isConstInt() && intValue() == 1;
  }
  // Neither constant nor computed.
  bool isSymbolic() const {
    return !isConst() && definition_ == nullptr;
  }

  Expr* definition() const {
    return definition_;
  }
  // Every registered expression that reads this value, in order of creation.
  const std::vector<Expr*>& uses() const {
    return uses_;
  }
  bool isFusionInput() const {
    return is_fusion_input_;
  }
  bool isFusionOutput() const {
    return is_fusion_output_;
  }

  // Null: not an input that the user defined.
  const InputLabel* inputLabel() const {
    return input_label_.get();
  }
  void setInputLabel(InputLabel label) {
    input_label_ = std::make_shared<const InputLabel>(std::move(label));
  }
  void copyInputLabel(const Val* from) {
    input_label_ = from->input_label_;
  }

  // A copy in the cloner's container, not yet registered.
  virtual std::unique_ptr<Val> copyWith(IrCloner* cloner) const;

  // Structural equality of scalars: same constant, same node, or same definition over equal inputs.
  virtual bool sameAs(const Val* other) const;

  std::string toString() const override;
  std::string toInlineString() const override;

 protected:
  Val(IrBuilderPasskey, ValKind kind, DataType dtype);

  DataType dtype_ = DataType::Null;

 private:
  friend class IrContainer;
  friend class Fusion;
  ScalarValue value_;
  Expr* definition_ = nullptr;
  std::vector<Expr*> uses_;
  bool is_fusion_input_ = false;
  bool is_fusion_output_ = false;
  std::shared_ptr<const InputLabel> input_label_;
};

// The value of an integer constant; nothing for other values, and for none.
inline std::optional<int64_t> constInt(const Val* v) {
  return v != nullptr && v->isConstInt() ? std::optional(v->intValue()) : std::nullopt;
}

// A scalar known to the kernel text by name: threadIdx.x, T0.logical_size[1], a loop index.
class NamedScalar : public Val {
 public:
  NamedScalar(IrBuilderPasskey, std::string text, DataType dtype);
  NamedScalar(const NamedScalar* src, IrCloner* cloner);
  std::unique_ptr<Val> copyWith(IrCloner* cloner) const override;
  const std::string& text() const {
    return text_;
  }
  bool sameAs(const Val* other) const override;
  std::string toString() const override {
    return text_;
  }
  std::string toInlineString() const override {
    return text_;
  }

 private:
  std::string text_;
};

// A field of an expression as those see it who handle any operation alike; enums by their names.
using FieldValue = std::variant<bool, int64_t, std::string, std::vector<bool>, std::vector<int64_t>,
                                Val*, std::vector<Val*>>;
// Whether a field is written down as such, or follows from the name of the op.
enum class Told { AsField, ByOpName };
struct NamedField {
  const char* name;
  FieldValue value;
  Told told;
};

// Base of expressions. Derived classes hold typed fields and implement the virtuals.
class Expr : public Statement {
 public:
  ExprKind kind() const {
    return exprKindOf(kindNumberOfNode());
  }
  bool isExpr() const override {
    return true;
  }
  const std::vector<Val*>& inputs() const {
    return inputs_;
  }
  const std::vector<Val*>& outputs() const {
    return outputs_;
  }
  Val* input(size_t i) const;
  Val* output(size_t i) const;
  // True if the op reads or writes a tensor.
  bool isTensorExpr() const;

  // The same op in another container, with inputs, outputs and fields mapped by `cloner`.
  virtual Expr* shallowCopy(IrCloner* cloner) const = 0;
  // Equality and hash of the typed fields alone (not of inputs and outputs).
  virtual bool sameFields(const Expr* other) const = 0;
  virtual size_t fieldsHash() const = 0;
  // Scalars held in fields rather than as inputs (slice ranges, pad widths, shapes).
  virtual std::vector<Val*> fieldVals() const {
    return {};
  }
  // All typed fields by name, in the order in which the class lists them.
  virtual std::vector<NamedField> fields() const {
    return {};
  }
  // Name of the op as printed in IR.
  virtual std::string opName() const = 0;

  std::string toString() const override;
  // The right-hand side on one line.
  std::string toInlineString() const override;

 protected:
  Expr(IrBuilderPasskey, ExprKind kind);
  void addInput(Val* v);
  void addOutput(Val* v);

 private:
  friend class IrContainer;
  friend class Fusion;
  std::vector<Val*> inputs_;
  std::vector<Val*> outputs_;
};

} // namespace nvfuser
