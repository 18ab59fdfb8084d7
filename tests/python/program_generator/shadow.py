# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program's text in its own dtypes, in float64, and in float64 with rounding noise.

The spread of the noisy runs says how far two correct evaluations of the program may lie apart:
where an operation rounds, every element of its operands and of its result moves by a random part of
a unit in the last place of the dtype that the operation is carried out in.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional

NOISY_RUNS = 4
# Noise in units of the rounding error; two correct evaluations may differ by several of these.
AMPLITUDE = 2.0

# What only moves, selects or negates elements.
EXACT = set(
    """
abs abs_ amax amin broadcast_to cat chunk clamp clone conj copy_ cummax cummin detach double
dim eq expand expand_as embedding fill_ flatten frac full_like gather ge gt imag
index_select le logical_and logical_not logical_or lt masked_fill max maximum min minimum
movedim narrow ne neg neg_ numel ones_like pad permute real relu relu_ reshape reshape_as
roll sort topk scatter select sign size split squeeze stack t take_along_dim tensor_split
transpose tril triu unflatten unsqueeze view_as_real where zero_ zeros_like floor ceil round
trunc fmod hardtanh __getitem__ __neg__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __and__
__or__ __xor__ __invert__
""".split()
)

# Each element of the result is rounded many times, in an order that is up to the implementation.
LONG = set(
    """
sum mean var std norm logsumexp prod softmax log_softmax layer_norm rms_norm var_mean cumsum cumprod
matmul linear __matmul__
""".split()
)

# Of those, the ones that subtract a mean first: its error is the same for all elements. Torch
# updates the mean and the sum of squares by one element after the other, whose errors show in
# float64, so that the wide evaluations have formulas of their own.
CENTRED = {"var", "std", "var_mean"}

# Torch multiplies the second operand by a complex 1, which makes NaN of both parts of a number one
# part of which is NaN. Part by part, the other one is a number.
SUMS = set("add sub add_ sub_ __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__".split())

# Those that are roots of sums of squares, which under- and overflow long before the root would.
ROOTS = {"std", "norm"}

_WIDE = {torch.complex64: torch.complex128}
_CASTS = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
}


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype.is_floating_point else _WIDE.get(dtype, dtype)


def unit_roundoff(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2 if dtype.is_floating_point or dtype.is_complex else 0.0


def smallest(dtype: torch.dtype) -> float:
    """Below this a value may round to anything up to this."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    info = torch.finfo(dtype)
    return info.smallest_normal * (info.eps if dtype == torch.float16 else 1.0)


class Shadow:
    """A value of the program in all its evaluations: work, ideal, and the noisy ones."""

    def __init__(self, runs: Runs, tensors: list[torch.Tensor]) -> None:
        self.runs = runs
        self.tensors = tensors

    @property
    def work(self) -> torch.Tensor:
        return self.tensors[0]

    @property
    def shape(self) -> torch.Size:
        return self.work.shape

    def size(self, dim: int | None = None) -> Any:
        return self.work.size() if dim is None else self.work.size(dim)

    def __getattr__(self, name: str) -> Any:
        if name in ("real", "imag"):
            return self.runs.call(name, lambda x: getattr(x, name), (self,), {})
        return lambda *args, **kwargs: self.runs.method(name, (self, *args), kwargs)


def _operator(name: str) -> Any:
    return lambda self, *args: self.runs.method(name, (self, *args), {})


for _name in """
add radd sub rsub mul rmul truediv rtruediv floordiv mod pow rpow neg invert and or xor
lshift rshift matmul eq ne lt le gt ge getitem iadd isub imul""".split():
    setattr(Shadow, f"__{_name}__", _operator(f"__{_name}__"))


class Namespace:
    """Stands for `torch` or `torch.nn.functional` in the text."""

    def __init__(self, runs: Runs, module: Any) -> None:
        self._runs = runs
        self._module = module

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)
        if isinstance(function, torch.dtype):
            return function
        return lambda *args, **kwargs: self._runs.call(name, function, args, kwargs)


class Runs:
    """The evaluations of one program for one set of inputs."""

    def __init__(self, seed: int, noisy_runs: int = NOISY_RUNS) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.count = 2 + noisy_runs
        self.most = math.inf  # what all floating-point dtypes of the program hold

    def lift(self, x: torch.Tensor) -> Shadow:
        wide = wide_dtype(x.dtype)
        self._limit(x)
        return Shadow(self, [x.clone(), *(x.to(wide, copy=True) for _ in range(self.count - 1))])

    def _limit(self, x: Any) -> None:
        if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()):
            self.most = min(self.most, torch.finfo(x.dtype).max)

    def noise(self, x: torch.Tensor, dtype: torch.dtype, steps: float = 1.0) -> torch.Tensor:
        """x moved within `steps` roundings of `dtype`."""
        if x.is_complex():
            parts = torch.view_as_real(x.resolve_conj())
            return torch.view_as_complex(self.noise(parts, dtype, steps).contiguous())
        if not x.is_floating_point():
            return x
        random = self._random(x.shape)
        return x + random * (AMPLITUDE * steps * unit_roundoff(dtype) * x.abs() + smallest(dtype))

    def partial_noise(self, x: torch.Tensor, dtype: torch.dtype, steps: float) -> torch.Tensor:
        """x, a scan, moved within the rounding of its largest element so far, whatever the axis."""
        if not x.is_floating_point() or x.numel() == 0:
            return x
        unit = AMPLITUDE * steps * unit_roundoff(dtype)
        largest = x.abs().nan_to_num(0.0, 0.0, 0.0).max()
        # Equal numbers that are added one after the other are all rounded the same way.
        common = 1 + self._random(torch.Size()) * unit
        return x * common + self._random(x.shape) * (unit * largest)

    def method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name in _CASTS:
            return self.call("to", torch.Tensor.to, (args[0], _CASTS[name]), {})
        return self.call(name, lambda x, *a, **k: getattr(x, name)(*a, **k), args, kwargs)

    def call(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        in_place = name.endswith("_") and not name.endswith("__")
        in_place = in_place or name in ("__iadd__", "__isub__", "__imul__")
        work_args = _map(args, lambda x: x.work)
        operand = next((x for x in _leaves(args) if isinstance(x, Shadow)), None)
        before = operand.work.dtype if operand is not None else None
        work = function(*work_args, **_map(kwargs, lambda x: x.work))
        for each in _leaves(work):
            self._limit(each)
        rounds = name not in EXACT
        if name == "to":
            rounds = _loses(before, work.dtype)
        others = []
        for i in range(1, self.count):
            noisy = rounds and i > 1
            ideal = others[0] if others else None
            others.append(
                self._evaluate(i, name, function, args, kwargs, noisy, in_place, work, ideal)
            )
        if in_place:
            return args[0]
        if isinstance(work, (tuple, list)):
            return [
                Shadow(self, [x, *(other[k] for other in others)])
                if isinstance(x, torch.Tensor)
                else x
                for k, x in enumerate(work)
            ]
        return Shadow(self, [work, *others]) if isinstance(work, torch.Tensor) else work

    def _evaluate(
        self,
        i: int,
        name: str,
        function: Any,
        args: Any,
        kwargs: Any,
        noisy: bool,
        in_place: bool,
        work: Any,
        ideal: Any,
    ) -> Any:
        """Evaluation i of the call, in float64; `ideal` is the first one."""
        length = _length(args[0].work, work) if name in LONG else 1.0
        steps = 1.0 + math.sqrt(length) / 8 if name in LONG else 1.0
        if name in CENTRED:
            steps = max(steps, math.sqrt(length))

        def operand(x: Shadow) -> torch.Tensor:
            value = x.tensors[i]
            if not noisy or (in_place and x is args[0]):
                return value
            if name in SUMS and i % 4 == 3:
                value = value + self._recomputed(x, i)
            return self.noise(value, _computed_in(x.work.dtype), steps)

        if name in CENTRED:
            unit = unit_roundoff(_computed_in(args[0].work.dtype)) if i % 4 == 2 else 0.0
            again = self._recomputed(args[0], i) if noisy and i % 4 == 3 else None
            function = _in_two_passes(name, i % 2 == 0, unit, again)
        if name in SUMS and i > 1 and i % 2 == 0:
            function = _by_parts(function, in_place)
        # Torch compares with a number as the dtype has it, a fusion may do so in float32.
        rounds_numbers = name in EXACT and i % 2 == 1 and isinstance(work, torch.Tensor)
        dtype = work.dtype if rounds_numbers else None
        torch.set_default_dtype(torch.float64)
        try:
            result = function(
                *_map(args, operand, True, dtype), **_map(kwargs, operand, True, dtype)
            )
        finally:
            torch.set_default_dtype(torch.float32)
        if in_place:
            if noisy:
                target = args[0].tensors[i]
                target.copy_(self.noise(target, args[0].work.dtype))
            return None
        if not noisy:
            return result
        if name in ("cumsum", "cumprod"):
            computed_in = _computed_in(work.dtype)
            # What torch's own rounding in float64 adds up to is not seen in evaluations in float64.
            unseen = length / 4 if computed_in == torch.float64 else 0.0
            result = self.partial_noise(result, computed_in, max(steps, unseen))
        if name == "prod" and result.is_floating_point() and i % 2 == 0:
            # In another order, a part of the product may be too large before a factor of zero.
            parts = function(*_map(args, lambda x: x.tensors[i].abs().clamp(min=1), True), **kwargs)
            too_large = parts > torch.finfo(_computed_in(work.dtype)).max
            result = torch.where(too_large, math.nan, result)
        if name in ROOTS:
            result = self._with_lost_squares(result, _computed_in(work.dtype), length)
        if name in ("layer_norm", "gelu", "logsumexp", "log_softmax", "softmax"):
            result = result + self._absolute_noise(i, name, args, kwargs, result)

        def rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
            # One after the other, equal numbers are all rounded the same way: errors add up, which
            # those of the operands, random ones, do not.
            if length > 1:
                x = self.noise(x, _computed_in(dtype), math.sqrt(length))
            if i % 2 == 1 and dtype in (torch.float16, torch.bfloat16):
                # Really rounded: neighbours become equal, or differ by a whole unit.
                return self.noise(x, _computed_in(dtype)).to(dtype).to(x.dtype)
            return self.noise(x, dtype)

        if isinstance(result, (tuple, list)):
            return [rounded(x, w.dtype) for x, w in zip(result, work, strict=True)]
        if not isinstance(result, torch.Tensor):
            return result
        result = rounded(result, work.dtype)
        return self._or_zero(result, ideal) if i % 4 == 0 else result

    @staticmethod
    def _or_zero(x: torch.Tensor, ideal: Any) -> torch.Tensor:
        """x, with 0 for what is nothing but rounding: it may come out as just that.

        (The angle of two equal numbers is that of 1 and 1, but 0 if they are 0.)
        """
        if x.is_complex() or not x.is_floating_point() or not isinstance(ideal, torch.Tensor):
            return x
        return torch.where((x - ideal).abs() > ideal.abs() / 2, 0.0, x)

    def _with_lost_squares(
        self, x: torch.Tensor, dtype: torch.dtype, length: float
    ) -> torch.Tensor:
        """x, a root, with squares below the smallest number of `dtype` taken for anything up to it.

        Those above the largest one are NaN. (Torch computes variances of float32 in float64 on
        CPUs, in float32 on GPUs.)
        """
        x = torch.where(length * x.square() > torch.finfo(dtype).max, math.nan, x)
        lost = length * smallest(dtype)
        moved = (x.square() + self._random(x.shape) * lost).clamp(min=0).sqrt()
        return torch.where(x < 1e5 * math.sqrt(lost), moved, x)

    def _absolute_noise(
        self, i: int, name: str, args: Any, kwargs: Any, result: torch.Tensor
    ) -> torch.Tensor:
        """Errors that do not become less where the result does."""
        x = args[0].tensors[i]
        unit = unit_roundoff(_computed_in(args[0].work.dtype))
        again = self._recomputed(args[0], i) if i % 4 == 3 else torch.zeros(())
        if name in ("logsumexp", "log_softmax"):
            # The sum of exponentials is rounded, and its logarithm may be next to zero.
            steps = AMPLITUDE * (1.0 + math.sqrt(_length(x, result)) / 8)
            noise = self._random(result.shape) * steps * unit
            return noise + self._lost(x, unit) + again if name == "log_softmax" else noise
        if name == "softmax":
            return result * (self._lost(x, unit) + again)
        if name == "gelu":
            # x / 2 * (1 + erf), which is how torch computes it: 1 + erf loses digits in the tail.
            return self._random(x.shape) * unit * x.abs()
        # The error of the mean is that of all elements of a row, and is scaled with them.
        dims = tuple(range(x.dim() - len(args[1]), x.dim()))
        count = math.prod(x.shape[d] for d in dims)
        variance, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
        size = AMPLITUDE * math.sqrt(count) * unit * x.abs().mean(dims, keepdim=True)
        noise = self._random(mean.shape) * size + again
        noise = noise * torch.rsqrt(variance + kwargs.get("eps", 1e-5))
        weight = kwargs.get("weight")
        return noise.expand(x.shape) * (1.0 if weight is None else weight.tensors[i])

    def _lost(self, x: torch.Tensor, unit: float) -> torch.Tensor:
        """What an element may differ from itself by where its maximum is subtracted from it.

        One of the two may be the product that a fused multiply and add does not round.
        """
        return self._random(x.shape) * unit * x.abs()

    def _recomputed(self, x: Shadow, i: int) -> torch.Tensor:
        """What a value differs by from evaluation i where it is computed again, for another use.

        A fused multiply and add may not round there what is rounded elsewhere.
        """
        value = x.tensors[i]
        if not (value.is_floating_point() or value.is_complex()):
            return torch.zeros((), dtype=value.dtype)
        difference = x.tensors[2 + (i - 1) % (len(x.tensors) - 2)] - value
        share = self._random(value.shape) / 2 + 0.5
        return torch.where(difference.isfinite(), difference * share, 0.0)

    def _random(self, shape: torch.Size) -> torch.Tensor:
        """Numbers between -1 and 1."""
        return torch.rand(shape, generator=self.generator, dtype=torch.float64) * 2 - 1


def _in_two_passes(
    name: str, mean_may_be_lost: bool, unit: float, again: torch.Tensor | None
) -> Any:
    """The operation of that name by the mean first, then the deviations from it.

    Updates make infinity or NaN of the mean of a row with an infinite element, by its place. Of
    deviations within some `unit` of the elements nothing is left if the mean is exact. `again` is
    by how much elements whose deviations are taken differ from those that the mean is of.
    """

    def evaluate(
        x: torch.Tensor, dim: Any = None, *, correction: int = 1, keepdim: bool = False
    ) -> Any:
        dims = tuple(range(x.dim())) if dim is None else dim
        mean = x.mean(dims, keepdim=True)
        deviations = x - mean if again is None else x + again - mean
        squares = deviations.abs().square().sum(dims, keepdim=keepdim)
        count = x.numel() // max(mean.numel(), 1)
        if unit and count:
            largest = (AMPLITUDE * unit * math.sqrt(count) * x.abs()).square().amax(dims, keepdim)
            squares = torch.where(squares <= count * largest, 0.0, squares)
        variance = squares / max(count - correction, 0)
        if name == "var_mean":
            mean = x.mean(dims, keepdim=keepdim)
            lost = mean.isinf() & mean_may_be_lost
            return variance, torch.where(lost, math.nan, mean)
        return variance.sqrt() if name == "std" else variance

    return evaluate


def _by_parts(function: Any, in_place: bool) -> Any:
    """The sum or difference of complex numbers, the real and the imaginary parts by themselves."""

    def evaluate(*args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        if kwargs or len(tensors) < 2 or not any(x.is_complex() for x in tensors):
            return function(*args, **kwargs)
        # Copies: in place, the function changes the parts of the first one.
        wide = [
            torch.view_as_real(x.to(torch.complex128, copy=True).resolve_conj()) for x in tensors
        ]
        parts = [function(*(x[..., k] for x in wide)) for k in range(2)]
        result = torch.complex(*parts)
        return args[0].copy_(result) if in_place else result

    return evaluate


def _length(x: torch.Tensor, result: Any) -> float:
    """Over how many elements a result is taken."""
    if x.dim() == 0:
        return 1.0
    out = result[0] if isinstance(result, (tuple, list)) else result
    return max(*x.shape, x.numel() / max(out.numel(), 1))


def _computed_in(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _loses(before: torch.dtype, after: torch.dtype) -> bool:
    """Whether values of one dtype are rounded in the other."""
    if not (after.is_floating_point or after.is_complex):
        return False
    if not (before.is_floating_point or before.is_complex):
        return after in (torch.float16, torch.bfloat16)
    if {before, after} == {torch.float16, torch.bfloat16}:
        return True
    return torch.finfo(after).eps > torch.finfo(before).eps


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for x in value for leaf in _leaves(x)]
    return [value]


def _map(value: Any, tensor: Any, widen: bool = False, dtype: torch.dtype | None = None) -> Any:
    """`value` with `tensor` of each Shadow, wide dtypes, and numbers as `dtype` has them."""
    if isinstance(value, Shadow):
        return tensor(value)
    if isinstance(value, float) and dtype in (torch.float16, torch.bfloat16):
        return torch.tensor(value, dtype=dtype).item()
    if isinstance(value, torch.dtype):
        return wide_dtype(value) if widen else value
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, (tuple, list)):
        return type(value)(_map(x, tensor, widen, dtype) for x in value)
    if isinstance(value, dict):
        return {key: _map(x, tensor, widen, dtype) for key, x in value.items()}
    return value


def namespaces(runs: Runs) -> tuple[Namespace, Namespace]:
    return Namespace(runs, torch), Namespace(runs, torch.nn.functional)
