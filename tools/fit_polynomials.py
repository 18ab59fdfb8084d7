# SPDX-License-Identifier: BSD-3-Clause
"""Minimax fits of the polynomials in csrc/device/host (needs mpmath, which comes with torch).

    python tools/fit_polynomials.py [name ...]

For each fit: the coefficients from the lowest power on, as the text of the device library writes
them, and the largest weighted error of the polynomial with those coefficients (in exact arithmetic,
as a power of two). The method is the exchange algorithm of E. Remez (1934) on a grid of Chebyshev
points; then the coefficients are rounded to the format.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpmath import mp, mpf  # type: ignore[import-untyped]

mp.dps = 45
GRID = 500
Function = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """`target(t)` as a sum of c_k t^k over [low, high]; the error counts times `weight(t)`."""

    target: Function
    weight: Function
    low: mpf
    high: mpf
    degree: int
    mantissa: int  # bits of a coefficient: 24 or 53


def exchange(
    points: Sequence[mpf], values: Sequence[mpf], weights: Sequence[mpf], degree: int
) -> list[mpf]:
    """The coefficients of the polynomial with the smallest largest error on the points."""
    n = degree + 1
    last = len(points) - 1
    at = [last * (2 * i + 1) // (2 * (n + 1)) for i in range(n + 1)]
    coefficients: list[mpf] = []
    for _ in range(30):
        matrix = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for row, i in enumerate(at):
            for power in range(n):
                matrix[row, power] = points[i] ** power
            matrix[row, n] = (-1) ** row / weights[i]
            right[row] = values[i]
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[k] for k in range(n)]
        errors = [
            w * (mp.polyval(coefficients[::-1], t) - v)
            for t, v, w in zip(points, values, weights, strict=True)
        ]
        # The largest error of each run of one sign; the outer runs go first if there are too many.
        extremes: list[int] = []
        for i, error in enumerate(errors):
            if extremes and (errors[extremes[-1]] > 0) == (error > 0):
                if abs(error) > abs(errors[extremes[-1]]):
                    extremes[-1] = i
            else:
                extremes.append(i)
        while len(extremes) > n + 1:
            smaller_end = abs(errors[extremes[0]]) < abs(errors[extremes[-1]])
            extremes.pop(0 if smaller_end else -1)
        if len(extremes) < n + 1 or extremes == at:
            break
        at = extremes
    return coefficients


def rounded(value: mpf, mantissa: int) -> mpf:
    if value == 0:
        return value
    unit = mpf(2) ** (mp.floor(mp.log(abs(value), 2)) + 1 - mantissa)
    return mp.nint(value / unit) * unit


def solve(fit: Fit) -> tuple[list[mpf], mpf]:
    middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    points = [middle - half * mp.cos(mp.pi * (i + mpf(1) / 2) / GRID) for i in range(GRID)]
    weights = [abs(fit.weight(t)) for t in points]
    values = [fit.target(t) for t in points]
    exact = exchange(points, values, weights, fit.degree)
    coefficients = [rounded(c, fit.mantissa) for c in exact]
    errors = [
        abs(w * (mp.polyval(coefficients[::-1], t) - v))
        for t, v, w in zip(points, values, weights, strict=True)
    ]
    return coefficients, max(errors)


def divided(f: Function, powers: int, terms: Sequence[mpf] = ()) -> Function:
    """(f(t) - terms) / t^powers, by its value near 0 where the quotient is removable."""

    def quotient(t: mpf) -> mpf:
        with mp.workdps(120):
            near = t if abs(t) > mpf(10) ** -20 else mpf(10) ** -20
            known = sum((c * near**k for k, c in enumerate(terms)), mpf(0))
            return (f(near) - known) / near**powers

    return quotient


def of_square(f: Function) -> Function:
    """g(z) = f(sqrt(z))."""
    return lambda z: f(mp.sqrt(z))


LN2 = mp.log(2)
ROOT = mp.sqrt(2)
THIRD = mpf(1) / 3


def relative(f: Function) -> Function:
    return lambda t: 1 / f(t)


def exponential(
    base: mpf, terms: Sequence[mpf], low: mpf, high: mpf, degree: int, mantissa: int
) -> Fit:
    """exp(base r), without its first terms."""
    f = lambda r: mp.exp(r * base)  # noqa: E731
    powers = len(terms)
    target = divided(f, powers, terms)
    return Fit(target, lambda r: r**powers / f(r), low, high, degree - powers, mantissa)


def odd(f: Function, high: float, degree: int, mantissa: int = 24) -> Fit:
    """f(x) = x + x^3 P(x^2); the error is relative to f."""
    target = of_square(divided(f, 3, [mpf(0), mpf(1)]))
    weight = of_square(lambda x: x**3 / f(x))
    return Fit(target, weight, mpf(10) ** -8, mpf(high) ** 2, degree, mantissa)


def quarter(f: Function, powers: int, degree: int) -> Fit:
    """sin or cos of a quarter turn times t, |t| <= 1/2."""
    target = of_square(divided(f, powers))
    return Fit(target, relative(target), mpf(10) ** -8, mpf("0.2501"), degree, 53)


def log_tail(t: mpf) -> mpf:
    """(log((1 + s) / (1 - s)) - 2 s) / s^3 as a function of s^2."""
    s = mp.sqrt(t)
    return (2 * mp.atanh(s) - 2 * s) / s**3


def scaled_erfc(w: mpf) -> mpf:
    a = 2 * (1 + w) / (1 - w)
    return mp.exp(a * a) * mp.erfc(a)


LOG_END = ((ROOT - 1) / (ROOT + 1)) ** 2

HALF_LN2 = LN2 / 2 * mpf("1.0001")
ONE = mpf(1)

FITS: dict[str, Fit] = {
    # exp(r) without 1 + r, |r| <= ln(2) / 2; 2^r without 1, |r| <= 1/2
    "exp": exponential(ONE, [ONE, ONE], -HALF_LN2, HALF_LN2, 6, 24),
    "exp2": exponential(LN2, [ONE], mpf(-0.5), mpf(0.5), 6, 24),
    "exp2_5": exponential(LN2, [ONE], mpf(-0.5), mpf(0.5), 5, 24),
    # 2^r, 0 <= r <= 1
    "approx_exp2": exponential(LN2, [ONE], mpf(0), mpf(1), 6, 24),
    "approx_exp2_5": exponential(LN2, [ONE], mpf(0), mpf(1), 5, 24),
    "approx_exp2_4": exponential(LN2, [ONE], mpf(0), mpf(1), 4, 24),
    # expm1(r) = r + r^2 P(r)
    "expm1": Fit(
        divided(mp.expm1, 2, [mpf(0), mpf(1)]), lambda r: r * r / mp.expm1(r),
        -LN2 / 2 * mpf("1.001"), LN2 / 2 * mpf("1.001"), 5, 24,
    ),
    # log(1 + f) = f + f^2 P(f), 2/3 <= 1 + f <= 4/3
    "log": Fit(
        divided(mp.log1p, 2, [mpf(0), mpf(1)]), lambda f: f * f / mp.log1p(f), -THIRD, THIRD, 9, 24
    ),
    "log2": Fit(
        divided(lambda f: mp.log1p(f) / LN2 - f, 1), lambda f: f * LN2 / mp.log1p(f),
        -THIRD, THIRD, 9, 24,
    ),
    "log10": Fit(
        divided(lambda f: mp.log1p(f) / mp.log(10), 1), lambda f: f * mp.log(10) / mp.log1p(f),
        -THIRD, THIRD, 9, 24,
    ),
    "tanh": odd(mp.tanh, 0.625, 4),
    # erf(x) = x + x P(x^2); the first coefficient is rounded less without its 1. log2 likewise.
    "erf": Fit(
        of_square(lambda x: mp.erf(x) / x - 1), of_square(lambda x: x / mp.erf(x)),
        mpf(10) ** -8, mpf(0.921875) ** 2, 6, 24,
    ),
    "erf_tail": Fit(
        lambda x: mp.log(mp.erfc(x), 2), lambda x: mp.erfc(x) / mp.erf(x), mpf(0.921875),
        mpf(4), 8, 24,
    ),
    "sin_quarter": quarter(lambda t: mp.sin(mp.pi / 2 * t), 1, 4),
    "cos_quarter": quarter(lambda t: mp.cos(mp.pi / 2 * t), 0, 4),
    "atan": odd(mp.atan, 1.0, 8),
    "asin": odd(mp.asin, 0.5625, 5),
    "sinh": odd(mp.sinh, 1.0, 3),
    # For powers of floats: log2(m) = s P(s^2) with s = (m - 1) / (m + 1), and 2^r
    "pow_log2": Fit(
        of_square(lambda s: 2 * mp.atanh(s) / LN2 / s), of_square(lambda s: s / mp.atanh(s)),
        mpf(10) ** -12, LOG_END, 6, 53,
    ),
    "pow_exp2": exponential(LN2, [ONE], mpf(-0.5), mpf(0.5), 6, 53),
    # exp(a^2) erfc(a), 0 <= a <= 10.1, of (a - 2) / (a + 2)
    "erfc": Fit(scaled_erfc, relative(scaled_erfc), mpf(-1), mpf(8.2) / mpf(12.1), 13, 53),
    # double
    "exp_double": exponential(ONE, [ONE, ONE, ONE / 2], -HALF_LN2, HALF_LN2, 12, 53),
    "expm1_double": Fit(
        divided(mp.expm1, 2, [mpf(0), mpf(1)]), lambda r: r * r / mp.expm1(r), -HALF_LN2, HALF_LN2,
        11, 53,
    ),
    "log_double": Fit(
        log_tail, lambda z: z * mp.sqrt(z) / mp.atanh(mp.sqrt(z)) / 2, mpf(10) ** -8, LOG_END, 6, 53
    ),
}  # fmt: skip


def main(names: Sequence[str]) -> None:
    for name in names or FITS:
        fit = FITS[name]
        coefficients, error = solve(fit)
        digits, suffix = (9, "f") if fit.mantissa == 24 else (17, "")
        numbers = [mp.nstr(c, digits, min_fixed=-4, max_fixed=5) + suffix for c in coefficients]
        print(f"{name}: error 2^{mp.nstr(mp.log(error, 2), 4)}\n    {', '.join(numbers)}")


if __name__ == "__main__":
    main(sys.argv[1:])
