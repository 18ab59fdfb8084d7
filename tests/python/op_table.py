"""The elementwise ops of sections 2.1 to 2.3 with torch references, for the differential tests.

A reference gets operands that were already cast to the common dtype of the op (widened: floats to
double, complex to complex128, so that the reference is the better one) and returns the value before
the final cast to the output dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from helpers import COMPLEX, FLOATS, FP8, FULL_FLOATS, INTS

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

    def dtypes(self) -> tuple[str, ...]:
        return tuple(name for code in self.categories for name in CATEGORIES[code])


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


def _unary(
    name: str, type_class: str, categories: str, reference: Callable[..., Tensor], **rest: object
) -> Op:
    return Op(name, type_class, categories, reference, **rest)  # type: ignore[arg-type]


UNARY: list[Op] = [
    _unary("abs", "R", "fic", torch.abs, exact=True),
    *(
        _unary(name, "F", "fibc", getattr(torch, name), valid=_modulus_not_tiny)
        for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh")
    ),
    *(
        _unary(name, "F", "fib8c", getattr(torch, name), valid=_moderate)
        for name in ("cos", "sin", "tan")
    ),
    *(_unary(name, "F", "fibc", getattr(torch, name)) for name in ("cosh", "sinh", "tanh")),
    _unary("exp", "F", "fib8c", torch.exp),
    _unary("exp2", "F", "fib", torch.exp2),
    _unary("expm1", "F", "fib", torch.expm1),
    _unary("erf", "F", "fib", torch.erf),
    _unary("erfc", "F", "fib", torch.erfc),
    _unary("erfinv", "F", "fib", torch.erfinv),
    _unary(
        "erfcinv",
        "F",
        "f",
        lambda x: torch.erfinv(1.0 - x),
        valid=_inner_unit(0.1, 1.9),
        slack=8,
    ),
    _unary("lgamma", "F", "fib", torch.lgamma, valid=_away_from_poles, slack=16),
    _unary("log", "F", "fib8c", torch.log, valid=_modulus_not_tiny),
    _unary("log10", "F", "fibc", torch.log10, valid=_modulus_not_tiny),
    _unary("log1p", "F", "fib", torch.log1p),
    _unary("log2", "F", "fibc", torch.log2, valid=_modulus_not_tiny),
    _unary("neg", "D", "fi8c", torch.neg, exact=True),
    _unary("logical_not", "B", "fibc", lambda x: ~_to_bool(x)),
    _unary("bitwise_not", "S", "ibu", _bitwise_not),
    _unary("relu", "S", "fi", torch.relu, exact=True),
    _unary("reciprocal", "F", "fi8c", torch.reciprocal, valid=_modulus_not_tiny),
    *(
        _unary(name, "S", "f", getattr(torch, name), exact=True)
        for name in ("ceil", "floor", "round", "trunc")
    ),
    _unary("frac", "S", "f", torch.frac, exact=True, valid=finite),
    _unary("rsqrt", "F", "fib8c", torch.rsqrt, valid=_modulus_not_tiny),
    _unary("sqrt", "F", "fib8c", torch.sqrt, valid=_modulus_not_tiny),
    _unary("sigmoid", "F", "fibc", torch.sigmoid),
    _unary("silu", "S", "f", torch.nn.functional.silu, valid=finite),
    _unary("set", "S", "f8ibuc", _same, exact=True),
    _unary("sign", "S", "fi", torch.sign, exact=True, valid=not_nan),
    _unary("signbit", "B", "fi", _signbit, valid=not_nan),
    _unary("isfinite", "B", "fic", torch.isfinite),
    _unary("isinf", "B", "fic", torch.isinf),
    _unary("isnan", "B", "fic", torch.isnan),
    _unary("isneginf", "B", "d", torch.isneginf),
    _unary("isposinf", "B", "d", torch.isposinf),
    _unary("isreal", "B", "fic", torch.isreal),
    _unary("real", "R", "fibc", _real, exact=True),
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
    Op("add", "D", "fibu8c", _or_unsigned(torch.add, "add"), exact=True),
    Op("sub", "D", "fiu8c", _or_unsigned(torch.sub, "subtract"), exact=True),
    Op("mul", "D", "fibu8c", _or_unsigned(torch.mul, "multiply"), exact=True),
    Op("div", "D", "fi8c", _truncating_div),
    Op("truediv", "F", "fic", torch.true_divide),
    Op("fmod", "D", "fi", torch.fmod, valid=_moderate_ratio),
    Op("mod", "D", "i", torch.fmod),
    Op("remainder", "D", "fi", torch.remainder, valid=_divisible),
    Op("pow", "D", "fc", torch.pow, slack=4, valid=lambda a, b: _modulus_not_tiny(a)),
    Op("pow", "D", "i", torch.pow, group="count"),
    Op("minimum", "D", "fibu", _or_unsigned(torch.minimum, "minimum"), exact=True),
    Op("maximum", "D", "fibu", _or_unsigned(torch.maximum, "maximum"), exact=True),
    Op("atan2", "F", "fi", torch.atan2),
    Op("nextafter", "S", "d", torch.nextafter, exact=True),
    Op("eq", "B", "fibuc8", _or_unsigned(torch.eq, "equal")),
    Op("ne", "B", "fibuc8", _or_unsigned(torch.ne, "not_equal")),
    Op("ge", "B", "fibu8", _or_unsigned(torch.ge, "greater_equal")),
    Op("gt", "B", "fibu8", _or_unsigned(torch.gt, "greater")),
    Op("le", "B", "fibu8", _or_unsigned(torch.le, "less_equal")),
    Op("lt", "B", "fibu8", _or_unsigned(torch.lt, "less")),
    Op("logical_and", "B", "fibc", lambda a, b: _to_bool(a) & _to_bool(b)),
    Op("logical_or", "B", "fibc", lambda a, b: _to_bool(a) | _to_bool(b)),
    Op("bitwise_and", "D", "ibu", _or_unsigned(torch.bitwise_and, "bitwise_and")),
    Op("bitwise_or", "D", "ibu", _or_unsigned(torch.bitwise_or, "bitwise_or")),
    Op("bitwise_xor", "D", "ibu", _or_unsigned(torch.bitwise_xor, "bitwise_xor")),
    Op("bitwise_left_shift", "D", "i", torch.bitwise_left_shift, group="count"),
    Op("bitwise_right_shift", "D", "i", torch.bitwise_right_shift, group="count"),
    Op("logical_right_shift", "D", "i", _logical_right_shift, group="count"),
    Op("gcd", "D", "i", torch.gcd),
    Op("complex", "Z", "d", torch.complex, exact=True),
]


def _lerp(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    return a + weight * (b - a)


def _addcmul(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a + b * c * 2


TERNARY: list[Op] = [
    Op("lerp", "D", "fc", _lerp, slack=8),
    Op("addcmul", "D", "fic", _addcmul, slack=8, extra=(2,)),
]

SCALAR_BOUNDED: list[Op] = [
    Op("clamp", "S", "f", lambda x: torch.clamp(x, -0.5, 1.25), extra=(-0.5, 1.25), exact=True),
    Op("clamp", "S", "i", lambda x: torch.clamp(x, -2, 1), extra=(-2, 1)),
    Op("clamp", "S", "f", lambda x: torch.clamp(x, min=0.5), extra=(0.5, None), exact=True),
    Op("clamp", "S", "i", lambda x: torch.clamp(x, max=1), extra=(None, 1)),
    Op(
        "threshold",
        "S",
        "f",
        lambda x: torch.threshold(x, 0.5, 2.0),
        extra=(0.5, 2.0),
        exact=True,
        valid=not_nan,
    ),
    Op("threshold", "S", "i", lambda x: torch.threshold(x, 1, -5), extra=(1, -5)),
]
