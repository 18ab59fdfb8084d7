"""Evaluates the operations that a library does better than a generated kernel, with torch.

An operation has a function of its name here, which takes the operands (None where one is left out)
and the attributes of its row in csrc/ir/library_table.cpp and returns a tuple of results. Where
torch can write into a tensor that is there, a second function makes use of it: then the operation
costs a plan what it costs torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import torch

from . import _C_DIRECT, attention
from ._C_DIRECT import Fusion, Val

Results = tuple[torch.Tensor, ...]
# Gets the tensors to write (None for a result that nobody needs) and the operands.
Writer = Callable[..., Any]


def matmul(arg1: torch.Tensor, arg2: torch.Tensor) -> Results:
    return (torch.matmul(arg1, arg2),)


def _matmul_writer() -> Writer:
    return lambda out, a, b: torch.matmul(a, b, out=out)


def linear(arg1: torch.Tensor, arg2: torch.Tensor, bias: torch.Tensor | None) -> Results:
    if arg2.dim() == 2:
        return (torch.nn.functional.linear(arg1, arg2, bias),)
    # A weight for each of several results.
    *batch, columns, depth = arg2.shape
    out = torch.matmul(arg1.reshape(-1, depth), arg2.mT)
    if bias is not None:
        out = out + bias.unsqueeze(-2)
    return (out.reshape(*batch, *arg1.shape[:-1], columns),)


def _write_linear(
    out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> None:
    """The calls that torch's linear() comes down to, each with a tensor to write."""
    if weight.dim() != 2:
        out.copy_(linear(x, weight, bias)[0])
    elif bias is None:
        torch.matmul(x, weight.t(), out=out)
    elif x.dim() == 2:
        torch.addmm(bias, x, weight.t(), out=out)
    elif x.is_contiguous() and out.is_contiguous():
        rows = math.prod(x.shape[:-1])
        columns, depth = weight.shape
        torch.addmm(bias, x.view(rows, depth), weight.t(), out=out.view(rows, columns))
    else:
        out.copy_(linear(x, weight, bias)[0])


def _linear_writer() -> Writer:
    return _write_linear


def topk(arg: torch.Tensor, k: int, *, dim: int, largest: bool, sorted: bool) -> Results:
    return tuple(torch.topk(arg, k, dim, largest, sorted))


def _topk_writer(dim: int, largest: bool, sorted: bool) -> Writer:
    def write(
        values: torch.Tensor | None, indices: torch.Tensor | None, arg: torch.Tensor, k: int
    ) -> None:
        values = arg.new_empty(0) if values is None else values
        indices = arg.new_empty(0, dtype=torch.int64) if indices is None else indices
        torch.topk(arg, k, dim, largest, sorted, out=(values, indices))

    return write


def argsort(arg: torch.Tensor, *, dim: int, descending: bool, stable: bool) -> Results:
    return (torch.argsort(arg, dim=dim, descending=descending, stable=stable),)


def _argsort_writer(dim: int, descending: bool, stable: bool) -> Writer:
    def write(indices: torch.Tensor, arg: torch.Tensor) -> None:
        out = (arg.new_empty(0), indices)
        torch.sort(arg, dim=dim, descending=descending, stable=stable, out=out)

    return write


def _group_parts(offsets: torch.Tensor) -> list[slice]:
    """Reads the ends of the groups back from the device."""
    ends = offsets.tolist()
    return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _has_grouped_kernel(mat1: torch.Tensor, mat2: torch.Tensor) -> bool:
    """Whether torch._grouped_mm has one: Hopper or newer, rows and columns of whole 16 bytes."""
    if not (mat1.is_cuda and mat1.dtype == torch.bfloat16 and hasattr(torch, "_grouped_mm")):
        return False
    if torch.cuda.get_device_capability(mat1.device) < (9, 0):
        return False

    def aligned(x: torch.Tensor) -> bool:
        strides = list(x.stride())
        return (
            x.numel() > 0
            and x.data_ptr() % 16 == 0
            and strides[-2:].count(1) == 1
            and all(stride == 1 or stride % 8 == 0 for stride in strides)
        )

    return aligned(mat1) and aligned(mat2)


def grouped_mm(mat1: torch.Tensor, mat2: torch.Tensor, offsets: torch.Tensor) -> Results:
    """Elements of no group are zero."""
    if _has_grouped_kernel(mat1, mat2):
        return (torch._grouped_mm(mat1, mat2, offs=offsets),)
    rows, columns = mat1.shape[-2], mat2.shape[-1]
    parts = _group_parts(offsets)
    if mat1.dim() == 2 and mat2.dim() == 2:
        products = [mat1[:, part] @ mat2[part] for part in parts]
        return (torch.stack(products) if products else mat1.new_empty(0, rows, columns),)
    out = mat1.new_zeros(rows, columns)
    for group, part in enumerate(parts):
        if mat1.dim() == 3:
            out[:, part] = mat1[group] @ mat2[:, part]
        else:
            out[part] = mat1[part] @ mat2[group]
    return (out,)


_FUNCTIONS: dict[str, Callable[..., Results]] = {
    "matmul": matmul,
    "linear": linear,
    "topk": topk,
    "argsort": argsort,
    "grouped_mm": grouped_mm,
    "sdpfa_fwd": attention.forward,
    "sdpfa_bwd": attention.backward,
}
# Get the attributes.
_WRITERS: dict[str, Callable[..., Writer]] = {
    "matmul": _matmul_writer,
    "linear": _linear_writer,
    "topk": _topk_writer,
    "argsort": _argsort_writer,
}


def compute(op: str, operands: Sequence[Any], attributes: dict[str, Any]) -> Results:
    """The results of an operation. Operands in the order of its row, None where one is left out."""
    return _FUNCTIONS[op](*operands, **attributes)


def _copying_writer(op: str, attributes: dict[str, Any], count: int) -> Writer:
    def write(*arguments: Any) -> None:
        for out, result in zip(
            arguments[:count], compute(op, arguments[count:], attributes), strict=False
        ):
            if out is not None:
                out.copy_(result)

    return write


def _without_autocast(write: Writer, arguments: tuple[Any, ...]) -> None:
    with torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False):
        write(*arguments)


def _position(values: list[Val], value: Val) -> int | None:
    return next((i for i, other in enumerate(values) if other is value), None)


def prepare(segment: Fusion) -> Callable[..., None]:
    """A callable for a fusion with one library operation: it gets the inputs, then the outputs to
    write. What does not depend on them is done here, once."""
    (expr,) = _C_DIRECT._fusion_exprs(segment)
    info = _C_DIRECT._expr_info(expr)
    op, attributes = info["op"], info["attributes"]
    arguments = [*segment.inputs(), *segment.outputs()]
    fixed: list[Any] = [None]
    computed: list[Val] = []
    order: list[int] = []  # among the arguments, then `fixed`, then `computed`

    def place(value: Val | None) -> tuple[str, int]:
        if value is None:
            return "fixed", 0
        position = _position(arguments, value)
        if position is not None:
            return "argument", position
        constant = _C_DIRECT._constant(value)
        if constant is not None:
            fixed.append(constant)
            return "fixed", len(fixed) - 1
        computed.append(value)
        return "computed", len(computed) - 1

    results = [v if _position(arguments, v) is not None else None for v in info["outputs"]]
    places = [place(value) for value in [*results, *info["operands"].values()]]
    start = {
        "argument": 0,
        "fixed": len(arguments),
        "computed": len(arguments) + len(fixed),
    }
    order = [start[kind] + position for kind, position in places]
    if op in _WRITERS:
        write = _WRITERS[op](**attributes)
    else:
        write = _copying_writer(op, attributes, len(results))
    pick = itemgetter(*order)
    constants = tuple(fixed)
    num_inputs = len(segment.inputs())
    autocast = torch.is_autocast_enabled

    def call(*tensors: Any) -> None:
        everything = tensors + constants
        if computed:
            from .reference import Evaluator

            scalars = Evaluator(segment, list(tensors[:num_inputs]))
            everything += tuple(scalars.scalar(v) for v in computed)
        if autocast("cuda") or autocast("cpu"):
            _without_autocast(write, pick(everything))
        else:
            write(*pick(everything))

    return call
