// SPDX-License-Identifier: BSD-3-Clause
// Elementwise ops: one Python function per row of the table (positional only), casts and copies.
#include <bindings/bindings.h>

#include <base/error.h>
#include <ir/elementwise_table.h>
#include <ops/all_ops.h>

namespace nvfuser::python {

namespace {

// "abs(x, /): Absolute value; ..."
std::string docOf(const OpInfo& info) {
  static const char* const kOperands[] = {"x", "x, y", "x, y, z"};
  const char* rule = "";
  switch (info.rule) {
    case TypeRule::Default:
      rule = "Operands are promoted; 16-bit and smaller floats become Float.";
      break;
    case TypeRule::Float:
      rule = "Operands are promoted; integers, bools and 16-bit and smaller floats become Float.";
      break;
    case TypeRule::FullFloat:
      rule = "The promoted dtype must be Float or Double.";
      break;
    case TypeRule::Compare:
    case TypeRule::Predicate:
    case TypeRule::LogicalBool:
      rule = "The result is Bool.";
      break;
    case TypeRule::Bitwise:
    case TypeRule::BitwiseInt:
      rule = "Operands must be integers (or Bool where that makes sense).";
      break;
    case TypeRule::Where:
      rule = "The condition must be Bool; the result has the promoted dtype of the other two.";
      break;
    default:
      rule = "The result has the dtype of the operand.";
  }
  return std::string(info.doc) + "\n\nOperands (" + kOperands[info.arity - 1] +
         "): tensors, scalars or Python numbers; shapes broadcast. " + rule;
}

template <class Other>
void bindTernary(py::module_& ops, OpType op, const char* name, const std::string& doc) {
  ops.def(
      name,
      [op, name](const Operand& x, const Other& y, const Other& z) {
        Val* a = toVal(x, name);
        Val* b = toVal(y, name);
        return result(elementwise(op, {a, b, toVal(z, name)}));
      },
      py::arg("x"), py::arg("y"), py::arg("z"), py::pos_only(), doc.c_str());
}

void bindRow(py::module_& ops, const OpInfo& info) {
  const OpType op = info.op;
  const char* name = info.name;
  const std::string doc = docOf(info);
  switch (info.arity) {
    case 1:
      ops.def(
          name, [op, name](const Operand& x) { return result(elementwise(op, {toVal(x, name)})); },
          py::arg("x"), py::pos_only(), doc.c_str());
      return;
    case 2:
      ops.def(
          name,
          [op, name](const Operand& x, const Operand& y) {
            Val* a = toVal(x, name);
            Val* b = toVal(y, name);
            if (op == OpType::Complex && (!py::isinstance<Val>(x) || !py::isinstance<Val>(y))) {
              throw py::type_error("complex: both parts must be tensors or scalars of a fusion");
            }
            return result(elementwise(op, {a, b}));
          },
          py::arg("x"), py::arg("y"), py::pos_only(), doc.c_str());
      return;
    default:
      break;
  }
  if (op == OpType::Clamp) {
    ops.def(
        name,
        [op, name](const Operand& x, const OptionalNumberArg& y, const OptionalNumberArg& z) {
          Val* a = toVal(x, name);
          return result(elementwise(op, {a, toVal(y, name, true), toVal(z, name, true)}));
        },
        py::arg("x"), py::arg("y"), py::arg("z"), py::pos_only(), doc.c_str());
  } else if (op == OpType::Threshold) {
    bindTernary<NumberArg>(ops, op, name, doc);
  } else {
    bindTernary<Operand>(ops, op, name, doc);
  }
}

bool isTensorHandle(py::handle h) {
  return py::isinstance<TensorView>(h);
}

} // namespace

void bindElementwiseOps(py::module_& ops) {
  for (int i = 0; i < numOps(); ++i) {
    const OpInfo& info = opInfo(static_cast<OpType>(i));
    if (info.rule != TypeRule::Cast && info.op != OpType::CeilDiv && info.op != OpType::Sech2) {
      bindRow(ops, info);
    }
  }
  ops.def(
      "cast",
      [](const Operand& arg, DataType dtype) -> PromotedResult {
        if (isTensorHandle(arg)) {
          return py::object(result(castOp(dtype, arg.cast<TensorView*>())));
        }
        return result(castOp(dtype, toVal(arg, "cast")));
      },
      py::arg("arg"), py::arg("dtype"),
      "Converts to another dtype, rounding to nearest even; equal dtypes give a copy.\n\n"
      "RuntimeError: no such conversion (fp8 and fp4 convert to and from the wider floats only).");
  auto copy = [&](const char* name, auto tensor_op, auto scalar_op, const char* doc) {
    ops.def(
        name,
        [=](const Operand& x) -> PromotedResult {
          if (isTensorHandle(x)) {
            return py::object(result(tensor_op(x.cast<TensorView*>())));
          }
          return result(scalar_op(toVal(x, name)));
        },
        py::arg("x"), py::pos_only(), doc);
  };
  copy("set", static_cast<TensorView* (*)(TensorView*)>(set), static_cast<Val* (*)(Val*)>(set),
       "Copy; may be elided.");
  copy("segment_set", static_cast<TensorView* (*)(TensorView*)>(segment_set),
       static_cast<Val* (*)(Val*)>(segment_set), "Copy that forces a kernel boundary.");
  ops.def(
      "logical_right_shift",
      [](const Operand& x, const Operand& y) {
        Val* a = toVal(x, "logical_right_shift");
        Val* b = toVal(y, "logical_right_shift");
        auto* ta = tryAs<TensorView>(a);
        auto* tb = tryAs<TensorView>(b);
        return result(ta != nullptr && tb != nullptr ? logical_right_shift(ta, tb)
                      : ta != nullptr                ? logical_right_shift(ta, b)
                      : tb != nullptr                ? logical_right_shift(a, tb)
                                                     : logical_right_shift(a, b));
      },
      py::arg("x"), py::arg("y"), py::pos_only(),
      "Shift right that fills with zeros; 0 if y is the bit width or more. Integers only.");
  ops.def(
      "addcmul",
      [](const Operand& a, const Operand& b, const Operand& c, const NumberArg& alpha) {
        const char* name = "addcmul";
        return result(addcmul(toVal(a, name), toVal(b, name), toVal(c, name), toVal(alpha, name)));
      },
      py::arg("a"), py::arg("b"), py::arg("c"), py::arg("alpha"), py::pos_only(),
      "a + b * c * alpha; alpha is a scalar.");
  auto like = [&](const char* name, TensorView* (*op)(TensorView*), const char* doc) {
    ops.def(
        name, [=](const TensorArg& x) { return result(op(toTensor(x, name, "the operand"))); },
        py::arg("x"), py::pos_only(), doc);
  };
  like("rand_like", rand_like, "Uniform numbers in [0, 1) of the shape and floating dtype of x.");
  like("randn_like", randn_like, "Standard normal numbers of the shape and floating dtype of x.");
}

} // namespace nvfuser::python
