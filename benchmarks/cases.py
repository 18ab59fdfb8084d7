"""The benchmark cases: what is computed, at which size, and how near to copy speed it should come.

Each case has the same computation three times: as a fusion definition, as the torch function that
eager and torch.compile run, and (the same torch function in float32) as the reference that every
result is checked against before it is timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from nvfuse_direct import DataType, FusionDefinition

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One row of the table; `full` and `smoke` are the shapes of its inputs."""

    name: str
    formula: str
    target: float  # percent of copy bandwidth
    full: tuple[Sizes, ...] = ()
    smoke: tuple[Sizes, ...] = ()
    define: Callable[[FusionDefinition, Sequence[torch.Tensor]], None] | None = None
    eager: Callable[..., torch.Tensor] | None = None
    dtype: torch.dtype = field(default=torch.bfloat16)

    @property
    def runnable(self) -> bool:
        return self.define is not None

    def inputs(self, device: torch.device, smoke: bool) -> list[torch.Tensor]:
        generator = torch.Generator(device).manual_seed(1)
        return [
            torch.randn(sizes, dtype=self.dtype, device=device, generator=generator)
            for sizes in (self.smoke if smoke else self.full)
        ]


def bytes_moved(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
    """Every input read once, every output written once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in (*inputs, *outputs))


# -------------------------------------------------------------------------------------- definitions


def define_pointwise_mul(fd: FusionDefinition, inputs: Sequence[torch.Tensor]) -> None:
    a, b = (fd.from_pytorch(tensor) for tensor in inputs)
    fd.add_output(fd.ops.cast(fd.ops.mul(a, b), DataType.BFloat16))


def define_bias_gelu(fd: FusionDefinition, inputs: Sequence[torch.Tensor]) -> None:
    x, bias = (fd.from_pytorch(tensor) for tensor in inputs)
    x = fd.ops.add(x, fd.ops.broadcast(bias, [True, False]))
    cube = fd.ops.mul(fd.ops.mul(x, x), x)
    inner = fd.ops.mul(fd.ops.add(x, fd.ops.mul(cube, 0.044715)), math.sqrt(2 / math.pi))
    gate = fd.ops.mul(fd.ops.add(fd.ops.tanh(inner), 1.0), 0.5)
    fd.add_output(fd.ops.cast(fd.ops.mul(x, gate), DataType.BFloat16))


def eager_bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x + bias, approximate="tanh")


def define_silu_mul(fd: FusionDefinition, inputs: Sequence[torch.Tensor]) -> None:
    gate, up = (fd.ops.cast(fd.from_pytorch(tensor), DataType.Float) for tensor in inputs)
    silu = fd.ops.mul(gate, fd.ops.sigmoid(gate))
    fd.add_output(fd.ops.cast(fd.ops.mul(silu, up), DataType.BFloat16))


def define_transpose_add(fd: FusionDefinition, inputs: Sequence[torch.Tensor]) -> None:
    a, b = (fd.from_pytorch(tensor) for tensor in inputs)
    fd.add_output(fd.ops.cast(fd.ops.add(fd.ops.permute(a, [1, 0]), b), DataType.BFloat16))


def define_rope(fd: FusionDefinition, inputs: Sequence[torch.Tensor]) -> None:
    x, cos, sin = (fd.ops.cast(fd.from_pytorch(tensor), DataType.Float) for tensor in inputs)
    sizes = list(inputs[0].shape)
    half = sizes[-1] // 2
    low = fd.ops.slice(x, [0, 0, 0, 0], [*sizes[:-1], half])
    high = fd.ops.slice(x, [0, 0, 0, half], sizes)
    rotated = fd.ops.cat([fd.ops.neg(high), low], -1)
    wide = [True, True, False, False]
    straight = fd.ops.mul(x, fd.ops.broadcast(cos, wide))
    turned = fd.ops.mul(rotated, fd.ops.broadcast(sin, wide))
    fd.add_output(fd.ops.cast(fd.ops.add(straight, turned), DataType.BFloat16))


def eager_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


# ---------------------------------------------------------------------------------------- the table

WIDE = (16384, 8192)
TINY = (48, 64)

CASES = [
    Case(
        "pointwise_mul",
        "a * b",
        98,
        (WIDE, WIDE),
        (TINY, TINY),
        define_pointwise_mul,
        torch.mul,
    ),
    Case(
        "bias_gelu",
        "gelu_tanh(x + bias)",
        95,
        (WIDE, (8192,)),
        (TINY, (64,)),
        define_bias_gelu,
        eager_bias_gelu,
    ),
    Case(
        "silu_mul",
        "silu(gate) * up",
        98,
        (WIDE, WIDE),
        (TINY, TINY),
        define_silu_mul,
        lambda gate, up: torch.nn.functional.silu(gate) * up,
    ),
    Case(
        "transpose_add",
        "a.T + b",
        96,
        ((8192, 16384), WIDE),
        ((64, 48), TINY),
        define_transpose_add,
        lambda a, b: a.t() + b,
    ),
    Case(
        "rope",
        "x * cos + rotate_half(x) * sin",
        92,
        ((2, 32, 8192, 128), (8192, 128), (8192, 128)),
        ((2, 3, 16, 8), (16, 8), (16, 8)),
        define_rope,
        eager_rope,
    ),
    # These wait for reductions. Their names, formulas and targets stand already, so that the table
    # is whole.
    Case("dropout_add_layernorm", "layer_norm(dropout(x) + residual), 16384x4096", 90),
    Case("layernorm_fwd", "layer_norm(x), 16384x8192", 95),
    Case("rmsnorm_fwd", "rms_norm(x), 16384x8192", 97),
    Case("rmsnorm_fwd_32k", "rms_norm(x), 4096x32768", 95),
    Case("softmax_fwd", "softmax(x), 16384x8192", 95),
    Case("softmax_fwd_128k", "softmax(x), 1024x131072", 93),
    Case("reduce_inner", "sum(x, 1), 16384x8192, float32 out", 95),
    Case("reduce_outer", "sum(x, 0), 16384x8192, float32 out", 93),
    Case("reduce_all", "sum(x), 16384x8192, float32 out", 93),
    Case("batchnorm_channels_last", "relu(batch_norm(x)), train, 64x256x56x56", 62),
    Case("cross_entropy_fwd", "cross_entropy(x, label), 8192x128256, float32 math", 90),
    Case("layernorm_bwd", "dx, dw, db of layer_norm, 16384x8192", 88),
    Case("rmsnorm_bwd", "dx, dw of rms_norm, 16384x8192", 88),
    Case("softmax_bwd", "dx of softmax, 16384x8192", 97),
]
