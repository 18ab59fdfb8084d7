# SPDX-License-Identifier: BSD-3-Clause
"""The elementwise ops of sections 2.1 to 2.3 with torch references, for the differential tests.

A reference gets operands that were already cast to the common dtype of the op (widened: floats to
double, complex to complex128, so that the reference is the better one) and returns the value before
the final cast to the output dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from helpers import (
    COMPLEX,
    EPSILON,
    FLOATS,
    FP8,
    FULL_FLOATS,
    INTS,
    TORCH,
    Operand,
    difference,
    name_of,
    promote,
    widen,
)

Tensor = torch.Tensor

# Short codes for the dtypes an op is tested with.
CATEGORIES: dict[str, tuple[str, ...]] = {
    "d": FULL_FLOATS,
    "f": FLOATS,
    "8": FP8,
    "i": INTS,
    "u": ("UInt64",),
    "b": ("Bool",),
    "c": COMPLEX,
    "h": ("Float8_e8m0fnu",),
}


@dataclass(frozen=True)
class Op:
    """One row: type class, dtypes (codes above), reference, how exact, where it is defined."""

    name: str
    type_class: str  # D, F, S (same), B (Bool), R (real part's dtype), Z (complex of), W (where)
    categories: str
    reference: Callable[..., Tensor]
    exact: bool = False
    # Elements to compare; the others are beyond what the contract defines.
    valid: Callable[..., Tensor] | None = None
    # Multiplies the tolerance of the output dtype.
    slack: float = 1.0
    group: str = ""
    extra: tuple[object, ...] = field(default=())
    # What the op takes besides, with small values only (test_op_suite.py).
    more: str = ""

    def dtypes(self) -> tuple[str, ...]:
        return tuple(name for code in self.categories for name in CATEGORIES[code])

    def all_dtypes(self) -> tuple[str, ...]:
        codes = self.categories + self.more
        return tuple(dict.fromkeys(name for code in codes for name in CATEGORIES[code]))


def finite(*operands: Tensor) -> Tensor:
    mask = torch.isfinite(operands[0])
    for operand in operands[1:]:
        mask = mask & torch.isfinite(operand)
    return mask


def not_nan(*operands: Tensor) -> Tensor:
    mask = ~torch.isnan(operands[0])
    for operand in operands[1:]:
        mask = mask & ~torch.isnan(operand)
    return mask


def _away_from_poles(x: Tensor) -> Tensor:
    return torch.isfinite(x) & ((x > 0) | ((x - torch.round(x)).abs() > 1e-3))


def _moderate(x: Tensor) -> Tensor:
    """Where torch's own reduction of the argument by pi is exact enough to compare with."""
    return torch.isfinite(x) & (x.abs() < 1e4)


def _inner_unit(low: float, high: float) -> Callable[[Tensor], Tensor]:
    return lambda x: (x > low) & (x < high)


def _modulus_not_tiny(x: Tensor) -> Tensor:
    """Complex functions are compared away from their branch points."""
    if not x.is_complex():
        return torch.ones_like(x, dtype=torch.bool)
    near = torch.zeros(x.shape, dtype=torch.bool)
    for point in (0, 1, -1, 1j, -1j):
        near |= (x - point).abs() < 1e-2
    return ~near


def _signbit(x: Tensor) -> Tensor:
    return torch.signbit(x)


def _same(x: Tensor) -> Tensor:
    return x


def _to_bool(x: Tensor) -> Tensor:
    return x != 0


def _bitwise_not(x: Tensor) -> Tensor:
    if x.dtype == torch.uint64:
        return (~x.contiguous().view(torch.int64)).view(torch.uint64)
    return ~x


def _real(x: Tensor) -> Tensor:
    return x.real if x.is_complex() else x


def _frac(x: Tensor) -> Tensor:
    return torch.frac(x) if x.is_floating_point() else torch.zeros_like(x)


def _silu(x: Tensor) -> Tensor:
    x = x if x.is_floating_point() or x.is_complex() else x.double()
    return x * torch.sigmoid(x)


def _unary(
    name: str, type_class: str, categories: str, reference: Callable[..., Tensor], **rest: object
) -> Op:
    return Op(name, type_class, categories, reference, **rest)  # type: ignore[arg-type]


UNARY: list[Op] = [
    _unary("abs", "R", "fic", torch.abs, exact=True, more="bu8h"),
    *(
        _unary(name, "F", "fibc", getattr(torch, name), valid=_modulus_not_tiny, more="u8h")
        for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh")
    ),
    *(
        _unary(name, "F", "fib8c", getattr(torch, name), valid=_moderate, more="uh")
        for name in ("cos", "sin", "tan")
    ),
    *(
        _unary(name, "F", "fibc", getattr(torch, name), more="u8h")
        for name in ("cosh", "sinh", "tanh")
    ),
    _unary("exp", "F", "fib8c", torch.exp, more="uh"),
    *(_unary(name, "F", "fib", getattr(torch, name), more="u8hc") for name in ("exp2", "expm1")),
    *(
        _unary(name, "F", "fib", getattr(torch, name), more="u8h")
        for name in ("erf", "erfc", "erfinv")
    ),
    _unary(
        "erfcinv",
        "F",
        "f",
        lambda x: torch.erfinv(1.0 - x),
        valid=_inner_unit(0.1, 1.9),
        slack=8,
        more="ibu8h",
    ),
    _unary("lgamma", "F", "fib", torch.lgamma, valid=_away_from_poles, slack=16, more="u8h"),
    _unary("log", "F", "fib8c", torch.log, valid=_modulus_not_tiny, more="uh"),
    _unary("log10", "F", "fibc", torch.log10, valid=_modulus_not_tiny, more="u8h"),
    _unary("log1p", "F", "fib", torch.log1p, more="u8h"),
    _unary("log1p", "F", "", torch.log1p, valid=_modulus_not_tiny, more="c"),
    _unary("log2", "F", "fibc", torch.log2, valid=_modulus_not_tiny, more="u8h"),
    _unary("neg", "D", "fi8c", torch.neg, exact=True, more="buh"),
    _unary("logical_not", "B", "fibc", lambda x: ~_to_bool(x), more="u"),
    _unary("bitwise_not", "S", "ibu", _bitwise_not),
    _unary("relu", "S", "fi", torch.relu, exact=True, more="bu8h"),
    _unary("reciprocal", "F", "fi8c", torch.reciprocal, valid=_modulus_not_tiny, more="buh"),
    *(
        _unary(name, "S", "f", getattr(torch, name), exact=True, more="ibu8h")
        for name in ("ceil", "floor", "round", "trunc")
    ),
    _unary("frac", "S", "f", _frac, exact=True, valid=finite, more="ibu8h"),
    _unary("rsqrt", "F", "fib8c", torch.rsqrt, valid=_modulus_not_tiny, more="uh"),
    _unary("sqrt", "F", "fib8c", torch.sqrt, valid=_modulus_not_tiny, more="uh"),
    _unary("sigmoid", "F", "fibc", torch.sigmoid, more="u8h"),
    _unary("silu", "S", "f", _silu, valid=finite, more="ibuc8h"),
    _unary("set", "S", "f8ibuc", _same, exact=True, more="h"),
    _unary("segment_set", "S", "", _same, exact=True, more="f8ibuch"),
    _unary("sign", "S", "fi", torch.sign, exact=True, valid=not_nan, more="bu8h"),
    _unary("signbit", "B", "fi", _signbit, valid=not_nan, more="bu8h"),
    *(
        _unary(name, "B", "fic", getattr(torch, name), more="bu8h")
        for name in ("isfinite", "isinf", "isnan", "isreal")
    ),
    *(
        _unary(name, "B", "d", getattr(torch, name), more="fibu8h")
        for name in ("isneginf", "isposinf")
    ),
    _unary("real", "R", "fibc", _real, exact=True, more="u8h"),
    _unary("imag", "R", "c", torch.imag, exact=True),
]


def _truncating_div(a: Tensor, b: Tensor) -> Tensor:
    if a.is_floating_point() or a.is_complex():
        return a / b
    return torch.div(a, b, rounding_mode="trunc")


def _logical_right_shift(a: Tensor, b: Tensor) -> Tensor:
    width = torch.iinfo(a.dtype).bits
    b = b.to(torch.int64)
    bits = a.to(torch.int64) & (0xFFFFFFFF if width == 32 else -1)
    shifted = bits >> b
    if width == 64:
        # Clear what the arithmetic shift filled in.
        keep = torch.where(b == 0, -1, (torch.ones_like(bits) << (width - b)) - 1)
        shifted = shifted & keep
    return torch.where(b >= width, 0, shifted).to(a.dtype)


def _unsigned(operation: str) -> Callable[..., Tensor]:
    """numpy's version, because torch lacks most ops for uint64."""

    def reference(*operands: Tensor) -> Tensor:
        import numpy

        arrays = [
            operand.contiguous().view(torch.int64).numpy().view("uint64") for operand in operands
        ]
        result = numpy.array(getattr(numpy, operation)(*arrays))
        if result.dtype == numpy.bool_:
            return torch.from_numpy(result)
        return torch.from_numpy(result.view("int64")).view(torch.uint64)

    return reference


def _or_unsigned(torch_function: Callable[..., Tensor], operation: str) -> Callable[..., Tensor]:
    unsigned = _unsigned(operation)

    def reference(*operands: Tensor) -> Tensor:
        if operands[0].dtype == torch.uint64:
            return unsigned(*operands)
        return torch_function(*operands)

    return reference


def _moderate_ratio(a: Tensor, b: Tensor) -> Tensor:
    """torch's vectorized fmod is wrong where the quotient has more digits than the dtype."""
    return (b == 0) | ~((a / b).abs() > 2.0**50)


def _divisible(a: Tensor, b: Tensor) -> Tensor:
    return torch.isfinite(a) & torch.isfinite(b) & (b != 0) & _moderate_ratio(a, b)


# group "count": the second operand of integers is a small count, otherwise a non-zero divisor.
BINARY: list[Op] = [
    Op("add", "D", "fibu8c", _or_unsigned(torch.add, "add"), exact=True, more="h"),
    Op("sub", "D", "fiu8c", _or_unsigned(torch.sub, "subtract"), exact=True, more="bh"),
    Op("mul", "D", "fibu8c", _or_unsigned(torch.mul, "multiply"), exact=True, more="h"),
    Op("div", "D", "fi8c", _truncating_div, more="buh"),
    Op("truediv", "F", "fic", torch.true_divide, more="bu8h"),
    Op("fmod", "D", "fi", torch.fmod, valid=_moderate_ratio, more="bu8h"),
    Op("mod", "D", "i", torch.fmod, more="fbu8h"),
    Op("remainder", "D", "fi", torch.remainder, valid=_divisible, more="bu8h"),
    Op("pow", "D", "fc", torch.pow, slack=4, valid=lambda a, b: _modulus_not_tiny(a), more="8h"),
    Op("pow", "D", "i", torch.pow, group="count", more="bu"),
    Op("minimum", "D", "fibu", _or_unsigned(torch.minimum, "minimum"), exact=True, more="8h"),
    Op("maximum", "D", "fibu", _or_unsigned(torch.maximum, "maximum"), exact=True, more="8h"),
    Op("atan2", "F", "fi", torch.atan2, more="bu8h"),
    Op("nextafter", "S", "d", torch.nextafter, exact=True),
    Op("eq", "B", "fibuc8", _or_unsigned(torch.eq, "equal"), more="h"),
    Op("ne", "B", "fibuc8", _or_unsigned(torch.ne, "not_equal"), more="h"),
    Op("ge", "B", "fibu8", _or_unsigned(torch.ge, "greater_equal"), more="h"),
    Op("gt", "B", "fibu8", _or_unsigned(torch.gt, "greater"), more="h"),
    Op("le", "B", "fibu8", _or_unsigned(torch.le, "less_equal"), more="h"),
    Op("lt", "B", "fibu8", _or_unsigned(torch.lt, "less"), more="h"),
    Op("logical_and", "B", "fibc", lambda a, b: _to_bool(a) & _to_bool(b), more="u"),
    Op("logical_or", "B", "fibc", lambda a, b: _to_bool(a) | _to_bool(b), more="u"),
    Op("bitwise_and", "D", "ibu", _or_unsigned(torch.bitwise_and, "bitwise_and")),
    Op("bitwise_or", "D", "ibu", _or_unsigned(torch.bitwise_or, "bitwise_or")),
    Op("bitwise_xor", "D", "ibu", _or_unsigned(torch.bitwise_xor, "bitwise_xor")),
    Op("bitwise_left_shift", "D", "i", torch.bitwise_left_shift, group="count", more="u"),
    Op("bitwise_right_shift", "D", "i", torch.bitwise_right_shift, group="count", more="u"),
    Op("logical_right_shift", "D", "i", _logical_right_shift, group="count", more="u"),
    Op("gcd", "D", "i", torch.gcd, more="u"),
    Op("complex", "Z", "d", torch.complex, exact=True),
]


def _lerp(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    return a + weight * (b - a)


def _addcmul(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a + b * c * 2


TERNARY: list[Op] = [
    Op("lerp", "D", "fc", _lerp, slack=8, more="ibu8h"),
    Op("addcmul", "D", "fic", _addcmul, slack=8, extra=(2,), more="bu8h"),
]

SCALAR_BOUNDED: list[Op] = [
    Op(
        "clamp",
        "S",
        "f",
        lambda x: torch.clamp(x, -0.5, 1.25),
        extra=(-0.5, 1.25),
        exact=True,
        more="8",
    ),
    Op("clamp", "S", "i", lambda x: torch.clamp(x, -2, 1), extra=(-2, 1)),
    Op(
        "clamp",
        "S",
        "f",
        lambda x: torch.clamp(x, min=0.5),
        extra=(0.5, None),
        exact=True,
        more="8h",
    ),
    Op("clamp", "S", "i", lambda x: torch.clamp(x, max=1), extra=(None, 1), more="bu"),
    Op(
        "threshold",
        "S",
        "f",
        lambda x: torch.threshold(x, 0.5, 2.0),
        extra=(0.5, 2.0),
        exact=True,
        valid=not_nan,
        more="8h",
    ),
    Op("threshold", "S", "i", lambda x: torch.threshold(x, 1, -5), extra=(1, -5)),
    Op("threshold", "S", "", lambda x: torch.where(x <= 1, 0, x), extra=(1, 0), more="bu"),
]


REAL_OF = {"ComplexFloat": "Float", "ComplexDouble": "Double"}
COMPLEX_OF = {"Float": "ComplexFloat", "Double": "ComplexDouble"}


def output_dtype(op: Op, dtypes: Sequence[str]) -> str:
    if op.type_class in "DF":
        return promote([Operand(name) for name in dtypes], op.type_class)
    if op.type_class == "B":
        return "Bool"
    if op.type_class == "R":
        return REAL_OF.get(dtypes[0], dtypes[0])
    if op.type_class == "Z":
        return COMPLEX_OF[dtypes[0]]
    return dtypes[0]


def to_dtype(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if tensor.dtype == dtype:
        return tensor
    if dtype == torch.uint64 and not tensor.is_floating_point():
        return tensor.to(torch.int64).view(dtype)
    return tensor.to(dtype)


def compare_op(op: Op, actual: Tensor, operands: Sequence[Tensor]) -> str | None:
    out = TORCH[output_dtype(op, [name_of(operand.dtype) for operand in operands])]
    if op.type_class in "DF" and not (out.is_floating_point or out.is_complex):
        wide = [operand.cpu().to(out) for operand in operands]
    elif op.name == "nextafter":
        wide = [operand.cpu() for operand in operands]
    else:
        wide = [
            operand.cpu() if operand.dtype == torch.uint64 else widen(operand)
            for operand in operands
        ]
        if op.type_class == "F" and not wide[0].is_complex():
            wide = [operand.double() for operand in wide]
    if operands[0].dtype in (torch.bool, torch.uint64) and name_of(operands[0].dtype) not in (
        op.dtypes()
    ):
        # torch knows few functions of these: as of integers (the values are small).
        wide = [x if x.is_floating_point() else x.to(torch.int64) for x in wide]
    valid = op.valid(*wide) if op.valid is not None else None
    expected = to_dtype(op.reference(*wide), out)
    tolerance = 0.0
    if out in EPSILON and not op.exact:
        # Results of one byte are rounded once from Float, which is exact enough to hit a neighbour.
        factor = 16 if out.is_complex else 1 if out.itemsize == 1 else 8
        tolerance = factor * op.slack * EPSILON[out]
    elif op.exact and wide[0].is_complex() and op.name in ("mul", "abs"):
        tolerance = 8 * EPSILON[out]
    return difference(actual, expected, rtol=tolerance, atol=tolerance, where=valid)
