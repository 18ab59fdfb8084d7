# SPDX-License-Identifier: BSD-3-Clause
"""Fusion definitions of what torch makes of a function: the graphs of aten operations, forward and
backward, that torch.compile would hand to its code generator.

`traced` records the graphs with torch's own decompositions and its own choice of what the forward
pass saves; `define` writes one as a FusionDefinition, operation by operation. So definitions can be
measured that were spelled by others.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from nvfuse_direct import DataType, FusionDefinition, compute_tensor_descriptor
from torch.fx import GraphModule, Node

DTYPES = {
    torch.float64: DataType.Double,
    torch.float32: DataType.Float,
    torch.float16: DataType.Half,
    torch.bfloat16: DataType.BFloat16,
    torch.int64: DataType.Int,
    torch.int32: DataType.Int32,
    torch.bool: DataType.Bool,
    torch.float8_e4m3fn: DataType.Float8_e4m3fn,
}


@dataclass
class AtenGraph:
    """A graph and tensors that it was called with."""

    name: str
    module: GraphModule
    inputs: list[torch.Tensor]

    @property
    def is_random(self) -> bool:
        return any("rand" in str(node.target) for node in self.module.graph.nodes)

    @property
    def selects(self) -> bool:
        """Positions in the rows of the first input are a result."""
        return any("topk" in str(node.target) for node in self.module.graph.nodes)


def traced(name: str, function: Callable[..., Any], inputs: Sequence[Any]) -> list[AtenGraph]:
    """The forward graph of `function`, and the backward one if an input requires a gradient."""
    from torch._functorch.aot_autograd import aot_function
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    graphs: list[AtenGraph] = []

    def keep(suffix: str) -> Callable[..., Any]:
        def compiler(module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            del example_inputs

            def run(arguments: list[Any]) -> Any:
                graphs.append(AtenGraph(name + suffix, module, [x.detach() for x in arguments]))
                result = module.forward(*arguments)
                arguments.clear()
                return result

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        return compiler

    differentiable = any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
    call = aot_function(
        function,
        keep(""),
        keep(" backward"),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=select_decomp_table(),
    )
    outputs = call(*inputs)
    if differentiable:
        outputs = [y for y in _as_list(outputs) if y.requires_grad]
        generator = torch.Generator(outputs[0].device).manual_seed(1)
        tangents = [
            torch.empty_like(y).normal_(generator=generator) * (1.0 if y.dim() else 0.5)
            for y in outputs
        ]
        torch.autograd.grad(
            outputs, [x for x in inputs if x.requires_grad], tangents, allow_unused=True
        )
    for graph in graphs:
        _drop_passed_through(graph)
    return graphs


def _as_list(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _drop_passed_through(graph: AtenGraph) -> None:
    """Outputs that are inputs, repeated or nothing are dropped, and inputs that nothing reads."""
    nodes = graph.module.graph
    (output,) = [node for node in nodes.nodes if node.op == "output"]
    kept: list[Node] = []
    for each in output.args[0]:
        if isinstance(each, Node) and each.op != "placeholder" and each not in kept:
            kept.append(each)
    output.args = (tuple(kept),)
    nodes.eliminate_dead_code()
    placeholders = [node for node in nodes.nodes if node.op == "placeholder"]
    read = [bool(node.users) for node in placeholders]
    for node, is_read in zip(placeholders, read, strict=True):
        if not is_read:
            nodes.erase_node(node)
    graph.inputs = [x for x, is_read in zip(graph.inputs, read, strict=True) if is_read]
    graph.module.recompile()


# --------------------------------------------------------------------------------- the definition


def define(graph: AtenGraph) -> FusionDefinition:
    """The fusion that computes what the graph does, with its inputs' sizes."""
    inputs = iter(graph.inputs)
    values: dict[Node, Any] = {}
    nodes = graph.module.graph.nodes
    storages = {storage_of(node) for node in nodes if node.op == "placeholder"}
    with FusionDefinition() as fd:
        writer = Writer(fd)
        for node in nodes:
            if node.op == "placeholder":
                values[node] = fd.from_pytorch(next(inputs), static_sizes=True)
            elif node.op == "get_attr":
                constant = getattr(graph.module, node.target)
                dtype = DTYPES[constant.dtype]
                values[node] = fd.ops.full(list(constant.shape), constant.item(), dtype)
            elif node.op == "output":
                for each in node.args[0]:
                    is_view = storage_of(each) in storages
                    fd.add_output(
                        values[each] if is_view else laid_out(fd, values[each], each.meta["val"])
                    )
            else:
                arguments = torch.fx.map_arg(node.args, values.__getitem__)
                named = torch.fx.map_arg(dict(node.kwargs), values.__getitem__)
                values[node] = writer(node, arguments, named)
    return fd


def storage_of(node: Node) -> int:
    """Of the tensor that the graph was traced with. A view of an input shares its, and is returned
    as it lies there: it is not asked for in an order of its own."""
    storage: int = node.meta["val"].untyped_storage()._cdata
    return storage


def laid_out(fd: FusionDefinition, value: Any, like: torch.Tensor) -> Any:
    """With the memory order that the graph gives an output."""
    _, order = compute_tensor_descriptor(list(like.shape), list(like.stride()))
    if order == sorted(order, reverse=True):
        return value
    return fd.ops.stride_order(value, order)


UNARY = {
    name: name
    for name in (
        "neg exp exp2 expm1 log log2 log10 log1p tanh erf sigmoid sqrt rsqrt reciprocal abs relu"
        " sin cos floor ceil round trunc sign logical_not bitwise_not isnan isinf silu"
    ).split()
}
BINARY = {
    name: name
    for name in (
        "add sub mul pow maximum minimum eq ne lt le gt ge logical_and logical_or bitwise_and"
        " bitwise_or bitwise_xor bitwise_right_shift remainder fmod atan2"
    ).split()
} | {"fmax": "maximum"}
REDUCTIONS = {"sum": "sum", "amax": "max", "amin": "min", "prod": "prod"}
SAME = {"alias", "detach", "lift_fresh_copy", "contiguous", "clone"}


class Writer:
    """Writes one node of a graph after the other into a definition."""

    def __init__(self, fd: FusionDefinition) -> None:
        self.fd, self.ops = fd, fd.ops

    def __call__(self, node: Node, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        if node.target is operator.getitem:
            return arguments[0][arguments[1]]
        assert isinstance(node.target, torch._ops.OpOverload), node.target
        name = node.target.name().split("::")[1].split(".")[0].removeprefix("_unsafe_")
        self.meta = node.meta["val"]
        self.operands = [
            a.meta["val"] if isinstance(a, Node) and "val" in a.meta else a for a in node.args
        ]
        base = node.args[0] if node.args else None
        zeros = isinstance(base, Node) and base.target is torch.ops.aten.full.default
        self.adds_to_zeros = zeros and base.args[1] == 0
        result = self._write(name, list(arguments), named)
        if isinstance(self.meta, torch.Tensor):
            return self._typed(result, self.meta.dtype)
        return result

    def _typed(self, value: Any, dtype: torch.dtype) -> Any:
        wanted = DTYPES[dtype]
        return value if value.dtype() == wanted else self.ops.cast(value, wanted)

    def _write(self, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        if name in SAME:
            return arguments[0]
        if name in UNARY:
            return getattr(self.ops, UNARY[name])(arguments[0])
        if name in BINARY:
            return getattr(self.ops, BINARY[name])(*self._scaled(arguments, named))
        if name in REDUCTIONS:
            return self._reduce(REDUCTIONS[name], arguments)
        return getattr(self, f"_{name}")(*arguments, **named)

    def _scaled(self, arguments: list[Any], named: dict[str, Any]) -> list[Any]:
        left, right = arguments[:2]
        if (alpha := named.get("alpha", 1)) != 1:
            right = self.ops.mul(right, alpha)
        return [left, right]

    @property
    def _shape(self) -> list[int]:
        return list(self.meta.shape)

    def _rank(self, position: int = 0) -> int:
        return self.operands[position].dim()

    def _reduce(self, op: str, arguments: list[Any]) -> Any:
        rank = self._rank()
        dims = arguments[1] if len(arguments) > 1 and arguments[1] else range(rank)
        dims = [dims] if isinstance(dims, int) else dims
        keepdim = arguments[2] if len(arguments) > 2 else False
        x = arguments[0]
        if self.operands[0].dtype != self.meta.dtype:
            x = self._typed(x, self.meta.dtype)
        return getattr(self.ops, op)(x, [d % rank for d in dims], keepdim=keepdim)

    def _mean(self, x: Any, dims: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        rank = self._rank()
        dims = [d % rank for d in (dims if dims is not None else range(rank))]
        count = math.prod(self.operands[0].shape[d] for d in dims)
        return self.ops.truediv(self.ops.sum(x, dims, keepdim=keepdim), float(count))

    def _div(self, x: Any, y: Any, rounding_mode: str | None = None) -> Any:
        quotient = self.ops.truediv(x, y)
        return getattr(self.ops, rounding_mode)(quotient) if rounding_mode else quotient

    def _any(self, x: Any, *rest: Any) -> Any:
        return self._reduce("max", [self.ops.cast(x, DataType.Int32), *rest])

    def _max(self, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        return self._extreme("max", x, dim, keepdim)

    def _min(self, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        return self._extreme("min", x, dim, keepdim)

    def _argmax(self, x: Any, dim: int, keepdim: bool = False) -> Any:
        return self._extreme("max", x, dim, keepdim)[1]

    def _argmin(self, x: Any, dim: int, keepdim: bool = False) -> Any:
        return self._extreme("min", x, dim, keepdim)[1]

    def _extreme(self, op: str, x: Any, dim: int | None, keepdim: bool) -> Any:
        """The values, and the first place of each: the least position of those that are equal."""
        shape = list(self.operands[0].shape)
        of = getattr(self.ops, op)
        if dim is None:
            return of(x, list(range(len(shape))))
        dim %= len(shape)
        found = of(x, [dim], keepdim=True)
        places = self.ops.iota(shape[dim], 0, 1, DataType.Int)
        places = self.ops.broadcast(places, [d != dim for d in range(len(shape))])
        places = self.ops.where(self.ops.eq(x, found), places, shape[dim])
        places = self.ops.min(places, [dim], keepdim=True)
        both = [found, places]
        return both if keepdim else [self.ops.squeeze(each, [dim]) for each in both]

    def _var_mean(
        self, x: Any, dims: Any = None, correction: float = 1, keepdim: bool = False
    ) -> Any:
        return self.ops.var_mean(x, [d % self._rank() for d in dims], correction, keepdim)

    def _var(self, x: Any, dims: Any = None, correction: float = 1, keepdim: bool = False) -> Any:
        return self.ops.var(x, [d % self._rank() for d in dims], correction, keepdim)

    def _convert_element_type(self, x: Any, dtype: torch.dtype) -> Any:
        return self.ops.cast(x, DTYPES[dtype])

    def __to_copy(self, x: Any, **named: Any) -> Any:
        return self._typed(x, self.meta.dtype)

    def _square(self, x: Any) -> Any:
        return self.ops.mul(x, x)

    def _where(self, condition: Any, x: Any, y: Any) -> Any:
        return self.ops.where(condition, x, y)

    def _clamp(self, x: Any, low: Any = None, high: Any = None) -> Any:
        x = x if low is None else self.ops.maximum(x, low)
        return x if high is None else self.ops.minimum(x, high)

    _clamp_min = _clamp

    def _clamp_max(self, x: Any, high: Any) -> Any:
        return self.ops.minimum(x, high)

    def _glu(self, x: Any, dim: int = -1) -> Any:
        value, gate = self._split(x, self._shape[dim], dim)
        return self.ops.mul(value, self.ops.sigmoid(gate))

    def _fma(self, x: Any, y: Any, z: Any) -> Any:
        return self.ops.add(self.ops.mul(x, y), z)

    def _lerp(self, x: Any, y: Any, weight: Any) -> Any:
        return self.ops.lerp(x, y, weight)

    def _addcmul(self, x: Any, y: Any, z: Any, value: Any = 1) -> Any:
        return self.ops.addcmul(x, y, z, value)

    def _addcdiv(self, x: Any, y: Any, z: Any, value: Any = 1) -> Any:
        return self.ops.add(x, self.ops.mul(self.ops.truediv(y, z), value))

    # ------------------------------------------------------------------------------------- shapes

    def _view(self, x: Any, shape: Any) -> Any:
        return self.ops.reshape(x, self._shape)

    _reshape = _view

    def _permute(self, x: Any, dims: Sequence[int]) -> Any:
        return self.ops.permute(x, [d % len(dims) for d in dims])

    def _transpose(self, x: Any, a: int, b: int) -> Any:
        dims = list(range(self._rank()))
        dims[a], dims[b] = dims[b], dims[a]
        return self.ops.permute(x, dims)

    def _t(self, x: Any) -> Any:
        return self.ops.permute(x, [1, 0])

    def _unsqueeze(self, x: Any, dim: int) -> Any:
        rank = self._rank() + 1
        return self.ops.broadcast(x, [d == dim % rank for d in range(rank)])

    def _squeeze(self, x: Any, dims: Any = None) -> Any:
        shape = self.operands[0].shape
        dims = range(len(shape)) if dims is None else [dims] if isinstance(dims, int) else dims
        return self.ops.squeeze(x, [d % len(shape) for d in dims if shape[d] == 1])

    def _expand(self, x: Any, shape: Sequence[int], implicit: bool = False) -> Any:
        rank = self._rank()
        if missing := len(shape) - rank:
            x = self.ops.broadcast(x, [d < missing for d in range(len(shape))])
        return self.ops.expand(x, self._shape)

    def _repeat(self, x: Any, counts: Sequence[int]) -> Any:
        """Each axis with one of copies in front of it, then both as one."""
        shape = [1] * (len(counts) - self._rank()) + list(self.operands[0].shape)
        x = self.ops.reshape(x, [n for size in shape for n in (1, size)])
        pairs = zip(counts, shape, strict=True)
        x = self.ops.expand(x, [n for count, size in pairs for n in (count, size)])
        return self.ops.reshape(x, self._shape)

    def _slice(
        self, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
    ) -> Any:
        shape = list(self.operands[0].shape)
        dim %= len(shape)
        begin, stop, _ = slice(start, end).indices(shape[dim])
        return self._sliced(x, dim, begin, stop, shape, step)

    def _sliced(
        self, x: Any, dim: int, begin: int, end: int, shape: Sequence[int], step: int = 1
    ) -> Any:
        if step != 1:
            return self._every(x, dim, begin, end, shape, step)
        begins, ends = [0] * len(shape), list(shape)
        begins[dim], ends[dim] = begin, end
        return self.ops.slice(x, begins, ends)

    def _every(
        self, x: Any, dim: int, begin: int, end: int, shape: Sequence[int], step: int
    ) -> Any:
        """Every `step`-th element by reshapes, as slices of the contract have no steps."""
        assert shape[dim] % step == 0 and begin < step and end == shape[dim], "a slice with steps"
        split = [*shape[:dim], shape[dim] // step, step, *shape[dim + 1 :]]
        part = self._sliced(self.ops.reshape(x, split), dim + 1, begin, begin + 1, split)
        return self.ops.squeeze(part, [dim + 1])

    def _split(self, x: Any, size: int, dim: int = 0) -> list[Any]:
        total = self.operands[0].shape[dim]
        return self._split_with_sizes(
            x, [min(size, total - start) for start in range(0, total, size)], dim
        )

    def _split_with_sizes(self, x: Any, sizes: Sequence[int], dim: int = 0) -> list[Any]:
        shape = list(self.operands[0].shape)
        parts, begin = [], 0
        for size in sizes:
            parts.append(self._sliced(x, dim % len(shape), begin, begin + size, shape))
            begin += size
        return parts

    def _unbind(self, x: Any, dim: int = 0) -> list[Any]:
        return [self._select(x, dim, i) for i in range(self.operands[0].shape[dim])]

    def _select(self, x: Any, dim: int, index: int) -> Any:
        shape = list(self.operands[0].shape)
        dim, index = dim % len(shape), index % shape[dim]
        return self.ops.squeeze(self._sliced(x, dim, index, index + 1, shape), [dim])

    def _cat(self, parts: Sequence[Any], dim: int = 0) -> Any:
        return self.ops.cat(list(parts), dim % len(self._shape))

    def _stack(self, parts: Sequence[Any], dim: int = 0) -> Any:
        rank = len(self._shape)
        flags = [d == dim % rank for d in range(rank)]
        return self.ops.cat([self.ops.broadcast(each, flags) for each in parts], dim % rank)

    def _constant_pad_nd(self, x: Any, widths: Sequence[int], value: Any = 0) -> Any:
        value = float(value) if self.meta.dtype.is_floating_point else value
        return self.ops.pad(x, list(widths), value)

    def _slice_scatter(
        self, x: Any, part: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
    ) -> Any:
        """`part` in place of a slice of x."""
        shape = list(self.operands[0].shape)
        dim %= len(shape)
        begin, stop, _ = slice(start, end).indices(shape[dim])
        if step == 1:
            return self._between(x, part, dim, begin, stop, shape)
        assert shape[dim] % step == 0 and begin < step and stop == shape[dim], "a slice with steps"
        split = [*shape[:dim], shape[dim] // step, step, *shape[dim + 1 :]]
        part = self.ops.broadcast(part, [d == dim + 1 for d in range(len(split))])
        x = self.ops.reshape(x, split)
        return self.ops.reshape(self._between(x, part, dim + 1, begin, begin + 1, split), shape)

    def _select_scatter(self, x: Any, part: Any, dim: int, index: int) -> Any:
        shape = list(self.operands[0].shape)
        dim, index = dim % len(shape), index % shape[dim]
        part = self.ops.broadcast(part, [d == dim for d in range(len(shape))])
        return self._between(x, part, dim, index, index + 1, shape)

    def _between(
        self, x: Any, part: Any, dim: int, begin: int, stop: int, shape: Sequence[int]
    ) -> Any:
        """`part` between what x has before `begin` and from `stop` on."""
        parts = [self._sliced(x, dim, 0, begin, shape)] if begin else []
        parts.append(part)
        if stop < shape[dim]:
            parts.append(self._sliced(x, dim, stop, shape[dim], shape))
        return self.ops.cat(parts, dim) if len(parts) > 1 else part

    def _as_strided(self, x: Any, shape: Any, strides: Any, offset: Any = 0) -> Any:
        """Torch's way to ask for a layout, of contiguous tensors for a shape."""
        before = self.operands[0]
        rows = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        same = before.is_contiguous() and before.numel() == math.prod(shape) and not offset
        assert same and list(strides) == rows, "as_strided that is no reshape"
        return self.ops.reshape(x, self._shape)

    # ------------------------------------------------------------------- creation, indexing, others

    def _full(self, shape: Sequence[int], value: Any, **named: Any) -> Any:
        return self.ops.full(list(shape), value, DTYPES[self.meta.dtype])

    def _full_like(self, x: Any, value: Any, **named: Any) -> Any:
        return self._full(self._shape, value)

    def _scalar_tensor(self, value: Any, **named: Any) -> Any:
        return self._full([], value)

    def _zeros_like(self, x: Any, **named: Any) -> Any:
        return self._full(self._shape, 0)

    def _iota(self, length: int, start: int = 0, step: int = 1, **named: Any) -> Any:
        return self.ops.iota(length, start, step, DTYPES[self.meta.dtype])

    def _rand(self, shape: Sequence[int], **named: Any) -> Any:
        return self.ops.uniform(0.0, 1.0, list(shape), dtype=DTYPES[self.meta.dtype])

    def _embedding(self, weight: Any, index: Any, *rest: Any) -> Any:
        return self.ops.embedding_fwd(index, weight)

    def _gather(self, x: Any, dim: int, index: Any) -> Any:
        return self.ops.gather(x, index, dim % len(self._shape))

    def _scatter(self, x: Any, dim: int, index: Any, source: Any) -> Any:
        return self.ops.scatter(x, index, source, dim % len(self._shape))

    def _scatter_add(self, x: Any, dim: int, index: Any, source: Any) -> Any:
        """Of one place for each line, so that none is added to twice."""
        assert self.operands[2].shape[dim] == 1, "a scatter that adds"
        if not self.adds_to_zeros:
            source = self.ops.add(self.ops.gather(x, index, dim), source)
        return self.ops.scatter(x, index, source, dim)

    def _index(self, x: Any, indices: Sequence[Any]) -> Any:
        """Neighbouring axes at positions of any rank: one axis, at positions of rank 1."""
        dims = [d for d, index in enumerate(indices) if index is not None]
        shape, first, last = list(self.operands[0].shape), dims[0], dims[-1]
        assert dims == list(range(first, last + 1)), "an index that moves an axis"
        chosen = indices[first]
        for dim in dims[1:]:
            chosen = self.ops.add(self.ops.mul(chosen, shape[dim]), indices[dim])
        if len(dims) > 1:
            merged = math.prod(shape[first : last + 1])
            x = self.ops.reshape(x, [*shape[:first], merged, *shape[last + 1 :]])
        rank = len(self._shape) - len(shape) + len(dims)
        if rank == 1:
            return self.ops.index_select(x, chosen, first)
        chosen = self.ops.reshape(chosen, [math.prod(self._shape[first : first + rank])])
        return self.ops.reshape(self.ops.index_select(x, chosen, first), self._shape)

    def _index_put(self, x: Any, indices: Sequence[Any], values: Any, add: bool = False) -> Any:
        (dim,) = [d for d, index in enumerate(indices) if index is not None]
        assert not add and self.operands[2].dim() == len(self._shape), "a scatter that adds"
        shape = list(self.operands[2].shape)
        places = self.ops.broadcast(indices[dim], [d != dim for d in range(len(shape))])
        return self.ops.scatter(x, self.ops.expand(places, shape), values, dim)

    def _index_select(self, x: Any, dim: int, index: Any) -> Any:
        return self.ops.index_select(x, index, dim)

    def _topk(
        self, x: Any, k: int, dim: int = -1, largest: bool = True, in_order: bool = True
    ) -> Any:
        return self.ops.topk(x, k, dim, largest, in_order)

    def _sort(self, x: Any, dim: int = -1, descending: bool = False) -> list[Any]:
        dim %= self._rank()
        places = self.ops.argsort(x, dim, descending)
        return [self.ops.take_along_axis(x, places, dim), places]

    def _cumsum(self, x: Any, dim: int, **named: Any) -> Any:
        return self.ops.cumsum(x, dim)

    def _cumprod(self, x: Any, dim: int, **named: Any) -> Any:
        return self.ops.cumprod(x, dim)

    def _mm(self, x: Any, y: Any) -> Any:
        return self.ops.matmul(x, y)

    _bmm = _mm

    def _addmm(self, bias: Any, x: Any, y: Any) -> Any:
        """A linear layer, whose weight the graph transposes."""
        if self.operands[0].dim() == 1:
            return self.ops.linear(x, self.ops.permute(y, [1, 0]), bias)
        return self.ops.add(self.ops.matmul(x, y), bias)
