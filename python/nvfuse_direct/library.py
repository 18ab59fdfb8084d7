# SPDX-License-Identifier: BSD-3-Clause
"""Evaluates the operations that a library does better than a generated kernel, with torch.

An operation has a function of its name here, which takes the operands (None where one is left out)
and the attributes of its row in csrc/ir/library_table.cpp and returns a tuple of results. Where
torch can write into a tensor that is there, a second function makes use of it: then the operation
costs a plan what it costs torch. So does one whose results torch allocates: the plan takes them as
they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import torch

from . import _C_DIRECT, attention, block_scaled
from ._C_DIRECT import DataType, Fusion, Val
from .pytorch_utils import nvfuser_dtype_to_torch_dtype

Results = tuple[torch.Tensor, ...]
# Gets the tensors to write (None for a result that nobody needs) and the operands.
Writer = Callable[..., Any]


def matmul(arg1: torch.Tensor, arg2: torch.Tensor, alpha: float | None) -> Results:
    if alpha is None:
        return (torch.matmul(arg1, arg2),)
    batch = torch.broadcast_shapes(arg1.shape[:-2], arg2.shape[:-2])
    columns = arg2.shape[-1:] if arg2.dim() > 1 else ()
    out = arg1.new_empty(*batch, *arg1.shape[-2:-1], *columns)
    _write_scaled_matmul(out, arg1, arg2, alpha)
    return (out,)


def _write_matmul(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, alpha: float | None) -> None:
    if alpha is not None:
        _write_scaled_matmul(out, a, b, alpha)
    elif a.dim() == 1 and b.dim() == 2:
        # matmul() would see a result of another rank, and resize it with a warning.
        torch.mm(a.unsqueeze(0), b, out=out.unsqueeze(0))
    else:
        torch.matmul(a, b, out=out)


def _write_scaled_matmul(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, alpha: float) -> None:
    """By the calls that torch's matmul() comes down to, which have an alpha, as it has not."""
    if a.dim() == b.dim() == 2:
        torch.addmm(out, a, b, beta=0, alpha=alpha, out=out)
        return
    if not out.is_contiguous():
        out.copy_(matmul(a, b, alpha)[0])
        return
    a = a.unsqueeze(0) if a.dim() == 1 else a
    b = b.unsqueeze(1) if b.dim() == 1 else b
    rows, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    if b.dim() == 2:  # the rows of all matrices
        whole = out.view(-1, columns)
        torch.addmm(whole, a.reshape(-1, depth), b, beta=0, alpha=alpha, out=whole)
        return
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count = math.prod(batch)
    whole = out.view(count, rows, columns)
    a = a.expand(*batch, rows, depth).reshape(count, rows, depth)
    b = b.expand(*batch, depth, columns).reshape(count, depth, columns)
    torch.baddbmm(whole, a, b, beta=0, alpha=alpha, out=whole)


def _matmul_writer() -> Writer:
    return _write_matmul


def linear(
    arg1: torch.Tensor, arg2: torch.Tensor, bias: torch.Tensor | None, alpha: float | None
) -> Results:
    if arg2.dim() == 2 and alpha is None:
        return (torch.nn.functional.linear(arg1, arg2, bias),)
    # A weight for each of several results.
    *batch, columns, depth = arg2.shape
    (out,) = matmul(arg1.reshape(-1, depth), arg2.mT, alpha)
    if bias is not None:
        out = out + bias.unsqueeze(-2)
    return (out.reshape(*batch, *arg1.shape[:-1], columns),)


def _write_linear(
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    alpha: float | None,
) -> None:
    """The calls that torch's linear() comes down to, each with a tensor to write."""
    scale = 1 if alpha is None else alpha
    if weight.dim() != 2:
        out.copy_(linear(x, weight, bias, alpha)[0])
    elif bias is None:
        _write_matmul(out, x, weight.t(), alpha)
    elif x.dim() == 2:
        torch.addmm(bias, x, weight.t(), alpha=scale, out=out)
    elif x.is_contiguous() and out.is_contiguous():
        rows = math.prod(x.shape[:-1])
        columns, depth = weight.shape
        whole = out.view(rows, columns)
        torch.addmm(bias, x.view(rows, depth), weight.t(), alpha=scale, out=whole)
    else:
        out.copy_(linear(x, weight, bias, alpha)[0])


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


def _is_float8_product(mat1: torch.Tensor, mat2: torch.Tensor, capability: tuple[int, int]) -> bool:
    """Whether torch's float8 kernels take the operands: rows and columns along K, in whole 16."""
    float8 = (torch.float8_e4m3fn, torch.float8_e5m2)
    return (
        mat1.is_cuda
        and torch.cuda.get_device_capability(mat1.device) >= capability
        and mat1.dtype in float8
        and mat2.dtype in float8
        and not mat1.dtype == mat2.dtype == torch.float8_e5m2
        and mat1.numel() > 0
        and mat2.numel() > 0
        and mat1.stride(-1) == 1
        and mat2.stride(-2) == 1
        and mat2.shape[-1] % 16 == 0
        and mat2.shape[-2] % 16 == 0
        and mat1.stride(-2) % 16 == 0
        and mat2.stride(-1) % 16 == 0
        and mat1.data_ptr() % 16 == 0
        and mat2.data_ptr() % 16 == 0
    )


def _has_scaled_kernel(
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
    out_dtype: torch.dtype,
) -> bool:
    if not _is_float8_product(mat1, mat2, (8, 9)):
        return False
    if scale1.dtype != torch.float32 or scale2.dtype != torch.float32:
        return False
    if scale1.numel() == 1 and scale2.numel() == 1:
        return out_dtype in (torch.bfloat16, torch.float16, torch.float32)
    by_rows = (mat1.shape[0], 1), (1, mat2.shape[1])
    return (
        out_dtype == torch.bfloat16
        and (scale1.shape, scale2.shape) == by_rows
        and scale1.is_contiguous()
        and scale2.is_contiguous()
        and torch.cuda.get_device_capability(mat1.device) >= (9, 0)
    )


def scaled_mm(
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
    alpha: torch.Tensor | None,
    bias: torch.Tensor | None,
    beta: torch.Tensor | None,
    *,
    dtype: DataType,
    **_unsupported: Any,  # block-scaled output: refused by the builder
) -> Results:
    out_dtype = nvfuser_dtype_to_torch_dtype(dtype)
    plain = alpha is None and bias is None
    if plain and _has_scaled_kernel(mat1, mat2, scale1, scale2, out_dtype):
        return (torch._scaled_mm(mat1, mat2, scale1, scale2, out_dtype=out_dtype),)
    return (
        block_scaled.scaled_mm(
            mat1, mat2, scale1, scale2, alpha=alpha, bias=bias, beta=beta, out_dtype=out_dtype
        ),
    )


def scaled_grouped_mm(
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    offsets: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
    alpha: torch.Tensor | None,
    bias: torch.Tensor | None,
    beta: torch.Tensor | None,
    *,
    dtype: DataType,
    **_unsupported: Any,
) -> Results:
    out_dtype = nvfuser_dtype_to_torch_dtype(dtype)
    groups_of_rows = mat1.dim() == 2 and mat2.dim() == 3
    scales = (scale1.dtype, scale2.dtype) == (torch.float32, torch.float32)
    if (
        groups_of_rows
        and scales
        and alpha is None
        and bias is None
        and _is_float8_product(mat1, mat2, (9, 0))
    ):
        by_row, by_column = scale1.squeeze(-1).contiguous(), scale2.squeeze(-2).contiguous()
        out = torch._scaled_grouped_mm(
            mat1, mat2, by_row, by_column, offs=offsets, out_dtype=torch.bfloat16
        )
        return (out.to(out_dtype),)
    return (
        block_scaled.scaled_grouped_mm(
            mat1,
            mat2,
            offsets,
            scale1,
            scale2,
            alpha=alpha,
            bias=bias,
            beta=beta,
            out_dtype=out_dtype,
        ),
    )


def cutlass_nvfp4_grouped_mm(*operands: torch.Tensor, dtype: DataType) -> Results:
    out_dtype = nvfuser_dtype_to_torch_dtype(dtype)
    return (block_scaled.nvfp4_grouped_mm(*operands, out_dtype=out_dtype),)


def nv_block_quantize(
    input: torch.Tensor,
    global_scale: torch.Tensor | None,
    *,
    swizzle_block_scales: bool,
    block_size: int,
    dtype: DataType,
) -> Results:
    format = "e2m1" if dtype == DataType.Float4_e2m1fn else "e4m3"
    return block_scaled.block_quantize(
        input, global_scale, block_size=block_size, dtype=format, swizzle=swizzle_block_scales
    )


def nv_grouped_block_quantize(
    input: torch.Tensor,
    input_offsets: torch.Tensor,
    output_offsets: torch.Tensor,
    global_scale: torch.Tensor | None,
    *,
    block_size: int,
    dtype: DataType,  # Float4_e2m1fn
) -> Results:
    return block_scaled.grouped_block_quantize(
        input, input_offsets, output_offsets, global_scale, block_size=block_size
    )


def preprocess_grouped_matmul_input_sf(*operands: torch.Tensor) -> Results:
    return (block_scaled.preprocess_grouped_scales(*operands),)


def view_of_scales(storage: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Swizzled scales as a result of a fusion has them: the logical shape, rows of whole fours, and
    behind them the rest of the storage."""
    strides = [1]
    for size in [-(-shape[-1] // 4) * 4, *reversed(shape[1:-1])][: len(shape) - 1]:
        strides.insert(0, strides[0] * size)
    return storage.reshape(-1).as_strided(shape, strides)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matmul": matmul,
    "linear": linear,
    "topk": topk,
    "argsort": argsort,
    "grouped_mm": grouped_mm,
    "sdpfa_fwd": attention.forward,
    "sdpfa_bwd": attention.backward,
    "scaled_mm": scaled_mm,
    "scaled_grouped_mm": scaled_grouped_mm,
    "cutlass_nvfp4_grouped_mm": cutlass_nvfp4_grouped_mm,
    "nv_block_quantize": nv_block_quantize,
    "nv_grouped_block_quantize": nv_grouped_block_quantize,
    "preprocess_grouped_matmul_input_sf": preprocess_grouped_matmul_input_sf,
}
# Get the attributes. Those of LIBRARY_WRITES (fallback.py).
_WRITERS: dict[str, Callable[..., Writer]] = {
    "matmul": _matmul_writer,
    "linear": _linear_writer,
    "topk": _topk_writer,
    "argsort": _argsort_writer,
}


def compute(op: str, operands: Sequence[Any], attributes: dict[str, Any]) -> Results:
    """The results of an operation. Operands in the order of its row, None where one is left out."""
    return _FUNCTIONS[op](*operands, **attributes)


def copy_results(outs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
    for out, result in zip(outs, results, strict=True):
        # Bits: torch copies few of the small types.
        if out.dtype == result.dtype and out.dtype.itemsize == 1:
            out, result = out.view(torch.uint8), result.view(torch.uint8)
        if out.shape != result.shape:  # swizzled scales are given and wanted as memory
            out, result = out.view(-1), result.reshape(-1)
        out.copy_(result)


def _maker(op: str, attributes: dict[str, Any], outputs: Sequence[int]) -> Callable[..., Results]:
    """Gets the operands and returns these of the results."""
    function = _FUNCTIONS[op]
    if op == "sdpfa_fwd":
        attributes = {"wants_logsumexp": 1 in outputs}

    def make(*operands: Any) -> Results:
        results = function(*operands, **attributes)
        return tuple(results[position] for position in outputs)

    return make


def _without_autocast(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False):
        return function(*arguments)


def _position(values: list[Val], value: Val) -> int | None:
    return next((i for i, other in enumerate(values) if other is value), None)


# A view of a tensor; gets the numbers that it depends on, too.
View = Callable[..., torch.Tensor]


def _view(info: dict[str, Any]) -> tuple[View, list[Val]]:
    """A function for an expression that makes a view of its first input, and the scalars it takes
    after the tensor."""
    kind = info["kind"]
    if kind == "set":
        permutation = info["permutation"]
        return lambda x: x.permute(permutation), []
    if kind == "broadcast":
        new = [dim for dim, is_new in enumerate(info["is_broadcast_dim"]) if is_new]

        def broadcast(x: torch.Tensor) -> torch.Tensor:
            for dim in new:
                x = x.unsqueeze(dim)
            return x

        return broadcast, []
    if kind == "squeeze":
        gone = [dim for dim, is_gone in enumerate(info["is_squeeze_dim"]) if is_gone]

        def squeeze(x: torch.Tensor) -> torch.Tensor:
            for dim in reversed(gone):
                x = x.select(dim, 0)
            return x

        return squeeze, []
    if kind == "reshape":
        return lambda x, *shape: x.reshape(shape), info["new_shape"]
    if kind == "slice":
        rank = len(info["starts"])

        def narrow(x: torch.Tensor, *ends: int) -> torch.Tensor:
            for dim in range(rank):
                start, stop = ends[dim], ends[rank + dim]
                x = x.narrow(dim, start, max(stop - start, 0))
            return x

        return narrow, [*info["starts"], *info["stops"]]
    raise NotImplementedError(f"{kind} is no view")


class _Numbers:
    """Scalars of a segment that are neither inputs nor constants, by the sizes of the inputs."""

    # More than that are not kept: sizes that change all the time would fill the memory.
    _MOST = 256

    def __init__(self, segment: Fusion, scalars: list[Val]) -> None:
        self._segment = segment
        self._scalars = scalars
        self._known: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        key = tuple(x.shape if isinstance(x, torch.Tensor) else x for x in inputs)
        numbers = self._known.get(key)
        if numbers is None:
            from .reference import Evaluator

            evaluator = Evaluator(self._segment, list(inputs))
            numbers = tuple(evaluator.scalar(v) for v in self._scalars)
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known[key] = numbers
        return numbers


class _Places:
    """Where a call finds its values: among its arguments, then constants, then numbers that depend
    on the sizes, then views."""

    def __init__(self, arguments: list[Val]) -> None:
        self.arguments = arguments
        self.fixed: list[Any] = [None]
        self.computed: list[Val] = []
        self.views: list[Val] = []

    def of(self, value: Val | None) -> tuple[str, int]:
        if value is None:
            return "fixed", 0
        for kind, known in (("arguments", self.arguments), ("views", self.views)):
            position = _position(known, value)
            if position is not None:
                return kind, position
        constant = _C_DIRECT._constant(value)
        if constant is not None:
            self.fixed.append(constant)
            return "fixed", len(self.fixed) - 1
        self.computed.append(value)
        return "computed", len(self.computed) - 1

    def number(self, place: tuple[str, int]) -> int:
        """After all places are known."""
        kind, position = place
        start = 0
        for before in ("arguments", "fixed", "computed", "views"):
            if before == kind:
                break
            start += len(getattr(self, before))
        return start + position


def prepare(segment: Fusion) -> Callable[..., Any]:
    """A callable for a fusion of one library operation and views before it: it gets the inputs,
    then the outputs to write; of an operation that has no writer, the inputs alone, and returns the
    outputs. What does not depend on them is done here, once."""
    *view_infos, info = (_C_DIRECT._expr_info(e) for e in _C_DIRECT._fusion_exprs(segment))
    op, attributes = info["op"], info["attributes"]
    makes = op not in _WRITERS
    places = _Places([*segment.inputs(), *([] if makes else segment.outputs())])
    views: list[tuple[View, list[tuple[str, int]]]] = []
    for each in view_infos:
        view, scalars = _view(each)
        views.append((view, [places.of(v) for v in [each["inputs"][0], *scalars]]))
        places.views.append(each["outputs"][0])
    if makes:
        outputs = [
            i for v in segment.outputs() for i, each in enumerate(info["outputs"]) if each is v
        ]
        function, written = _maker(op, attributes, outputs), []
    else:
        function = _WRITERS[op](**attributes)
        written = [
            v if _position(places.arguments, v) is not None else None for v in info["outputs"]
        ]
    operands = [places.of(v) for v in [*written, *info["operands"].values()]]
    steps = [(view, [places.number(place) for place in where]) for view, where in views]
    pick = itemgetter(*(places.number(place) for place in operands))
    constants = tuple(places.fixed)
    numbers = _Numbers(segment, places.computed) if places.computed else None
    num_inputs = len(segment.inputs())
    autocast = torch.is_autocast_enabled

    def call(*tensors: Any) -> Any:
        values = tensors + constants
        if numbers is not None:
            values += numbers(tensors[:num_inputs])
        for view, where in steps:
            values += (view(*(values[i] for i in where)),)
        if autocast("cuda") or autocast("cpu"):
            return _without_autocast(function, pick(values))
        return function(*pick(values))

    return call
