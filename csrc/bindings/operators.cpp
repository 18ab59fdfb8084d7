// SPDX-License-Identifier: BSD-3-Clause
// Python's operators on handles of scalars and tensors: the ops of the same meaning, as torch has
// them. == and != stay the identity of handles, which sets and dictionaries need; use fd.ops.eq.
#include <bindings/bindings.h>

#include <ir/builder.h>
#include <ops/all_ops.h>

namespace nvfuser::python {

namespace {

// What Python is told if it shall ask the other operand.
py::object notImplemented() {
  return py::reinterpret_borrow<py::object>(Py_NotImplemented);
}

bool isOperand(py::handle object) {
  if (py::isinstance<Val>(object)) {
    const ValKind kind = object.cast<Val*>()->kind();
    return kind == ValKind::Val || kind == ValKind::NamedScalar || kind == ValKind::TensorView;
  }
  return PyBool_Check(object.ptr()) != 0 || PyLong_Check(object.ptr()) != 0 ||
         PyFloat_Check(object.ptr()) != 0 || PyComplex_Check(object.ptr()) != 0 ||
         (PyIndex_Check(object.ptr()) != 0 && PySequence_Check(object.ptr()) == 0);
}

Val* apply(OpType op, Val* a, Val* b) {
  return elementwise(op, {a, b});
}

// The quotient rounded down, as Python and torch have it; a division by zero gives what / gives.
Val* floorDivide(Val* a, Val* b) {
  if (!isFloatingPoint(a->dtype()) && !isFloatingPoint(b->dtype())) {
    // What remains has the sign of b: the rest divides evenly.
    return apply(OpType::Div, apply(OpType::Sub, a, apply(OpType::Remainder, a, b)), b);
  }
  Val* zero = IrBuilder::create<Val>(0.0, DataType::Double);
  Val* one = IrBuilder::create<Val>(1.0, DataType::Double);
  Val* rest = apply(OpType::Fmod, a, b); // has the sign of a, and is a if b is infinite
  Val* toward_zero = apply(OpType::Div, apply(OpType::Sub, a, rest), b);
  Val* other_sign =
      apply(OpType::BitwiseXor, apply(OpType::Lt, b, zero), apply(OpType::Lt, rest, zero));
  Val* down = elementwise(OpType::Where,
                          {apply(OpType::LogicalAnd, apply(OpType::Ne, rest, zero), other_sign),
                           apply(OpType::Sub, toward_zero, one), toward_zero});
  // Both are whole numbers but for rounding errors.
  return elementwise(OpType::Where, {apply(OpType::Eq, b, zero), apply(OpType::Div, a, b),
                                     elementwise(OpType::Round, {down})});
}

using Binary = Val* (*)(Val*, Val*);

template <OpType op>
Val* binary(Val* a, Val* b) {
  return apply(op, a, b);
}

struct Operator {
  const char* name;
  const char* reflected; // null: Python mirrors it itself
  Binary op;
  const char* doc;
};

constexpr Operator kOperators[] = {
    {"__add__", "__radd__", &binary<OpType::Add>, "fd.ops.add"},
    {"__sub__", "__rsub__", &binary<OpType::Sub>, "fd.ops.sub"},
    {"__mul__", "__rmul__", &binary<OpType::Mul>, "fd.ops.mul"},
    {"__truediv__", "__rtruediv__", &binary<OpType::TrueDiv>,
     "fd.ops.truediv: integers give floats."},
    {"__floordiv__", "__rfloordiv__", &floorDivide, "The quotient rounded down."},
    {"__mod__", "__rmod__", &binary<OpType::Remainder>,
     "fd.ops.remainder: has the sign of the divisor."},
    {"__pow__", "__rpow__", &binary<OpType::Pow>, "fd.ops.pow"},
    {"__and__", "__rand__", &binary<OpType::BitwiseAnd>, "fd.ops.bitwise_and"},
    {"__or__", "__ror__", &binary<OpType::BitwiseOr>, "fd.ops.bitwise_or"},
    {"__xor__", "__rxor__", &binary<OpType::BitwiseXor>, "fd.ops.bitwise_xor"},
    {"__lshift__", "__rlshift__", &binary<OpType::BitwiseLeftShift>, "fd.ops.bitwise_left_shift"},
    {"__rshift__", "__rrshift__", &binary<OpType::BitwiseRightShift>, "fd.ops.bitwise_right_shift"},
    {"__lt__", nullptr, &binary<OpType::Lt>, "fd.ops.lt"},
    {"__le__", nullptr, &binary<OpType::Le>, "fd.ops.le"},
    {"__gt__", nullptr, &binary<OpType::Gt>, "fd.ops.gt"},
    {"__ge__", nullptr, &binary<OpType::Ge>, "fd.ops.ge"},
};

// `Self` and `Other` are tensors or scalars; that is what signatures say of the result.
template <class Self, class Other, class Result, class Class>
void bindBinary(Class& type, const Operator& row) {
  const Binary op = row.op;
  const char* name = row.name;
  const auto run = [op, name](py::handle x, py::handle y) -> py::object {
    if (!isOperand(x) || !isOperand(y)) {
      return notImplemented();
    }
    Val* a = toVal(x, name);
    return result(op(a, toVal(y, name)));
  };
  type.def(
      name, [run](const Self& x, const Other& y) { return Result(run(x, y)); }, py::arg("other"),
      row.doc);
  if (row.reflected != nullptr) {
    type.def(
        row.reflected, [run](const Self& x, const PlainNumber& y) { return Self(run(y, x)); },
        py::arg("other"), row.doc);
  }
}

template <class Self, class Result, class Class>
void bindUnary(Class& type) {
  const auto bind = [&](const char* name, OpType op, const char* doc) {
    type.def(
        name,
        [op, name](const Self& x) {
          if (!isOperand(x)) {
            throw py::type_error(std::string(name) + ": expected a tensor or a scalar, got " +
                                 Py_TYPE(x.ptr())->tp_name);
          }
          return Result(py::object(result(elementwise(op, {toVal(x, name)}))));
        },
        doc);
  };
  bind("__neg__", OpType::Neg, "fd.ops.neg");
  bind("__invert__", OpType::BitwiseNot, "fd.ops.bitwise_not");
  bind("__abs__", OpType::Abs, "fd.ops.abs");
}

// `if a < b:` would always be taken: what a comparison gives is not known before the fusion runs.
bool truth(const Val* v) {
  if (v->dtype() == DataType::Bool && v->definition() != nullptr) {
    throw py::type_error(
        "the truth of a value that a fusion computes is not known while it is defined; "
        "fd.ops.where chooses between two values, & and | combine conditions");
  }
  return true;
}

} // namespace

void bindOperators(py::class_<Val, Statement, std::shared_ptr<Val>>& type) {
  for (const Operator& row : kOperators) {
    bindBinary<ScalarResult, Operand, PromotedResult>(type, row);
  }
  bindUnary<ScalarResult, ScalarResult>(type);
  type.def("__bool__", &truth, "TypeError: the result of a comparison or another computed Bool.");
}

void bindOperators(py::class_<TensorView, Val, std::shared_ptr<TensorView>>& type) {
  for (const Operator& row : kOperators) {
    bindBinary<TensorArg, Operand, TensorResult>(type, row);
  }
  bindUnary<TensorArg, TensorResult>(type);
  const auto product = [](py::handle a, py::handle b) -> py::object {
    if (!py::isinstance<TensorView>(a) || !py::isinstance<TensorView>(b)) {
      return notImplemented();
    }
    return result(matmul(a.cast<TensorView*>(), b.cast<TensorView*>()));
  };
  type.def(
      "__matmul__",
      [product](const TensorArg& x, const TensorArg& y) { return TensorResult(product(x, y)); },
      py::arg("other"), "fd.ops.matmul");
}

} // namespace nvfuser::python
