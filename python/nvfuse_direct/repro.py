# SPDX-License-Identifier: BSD-3-Clause
"""Scripts that reproduce a fusion (FusionDefinition.repro_script_for)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .definition import FusionDefinition


def _number(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return str(value)


def _is_contiguous(tensor: Any) -> bool:
    expected = 1
    for size, stride in zip(reversed(tensor.size()), reversed(tensor.stride()), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _tensor(tensor: Any) -> str:
    device = f"device='{_device(tensor)}'"
    sizes, strides = tuple(tensor.size()), tuple(tensor.stride())
    if _is_contiguous(tensor) or 0 in sizes:
        return f"torch.testing.make_tensor({sizes}, dtype={tensor.dtype}, {device})"
    length = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        data = f"torch.randn({length}, dtype={tensor.dtype}, {device})"
    else:
        upper = 2 if str(tensor.dtype) == "torch.bool" else 10
        data = f"torch.randint(0, {upper}, ({length},), dtype={tensor.dtype}, {device})"
    return f"{data}.as_strided({sizes}, {strides})"


def _device(tensor: Any) -> str:
    device = tensor.device
    return f"cuda:{device.index or 0}" if device.type == "cuda" else device.type


def repro_script(fd: FusionDefinition, inputs: list[Any] | None) -> str:
    """Definition, and with inputs a list of tensors of the same shapes, and the call."""
    return script_of(repr(fd), inputs)


def script_of(definition: str, inputs: list[Any] | None) -> str:
    """The same for a definition as text. Of tensors size(), stride(), dtype, device are asked."""
    import torch

    lines = ["# CUDA devices:"]
    if torch.cuda.is_available():
        lines += [
            f"#  {i}: {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())
        ]
    lines += [
        f"# torch version: {torch.__version__}",
        f"# cuda version: {torch.version.cuda}",
        "import torch",
        "from nvfuser_direct import FusionDefinition, DataType",
    ]
    text = (
        "\n".join(lines) + f"\n{definition}with FusionDefinition() as fd:\n    nvfuser_fusion(fd)\n"
    )
    if inputs is None:
        return text
    text += "\ninputs = [\n"
    for value in inputs:
        is_tensor = hasattr(value, "stride")
        text += f"    {_tensor(value) if is_tensor else _number(value)},\n"
    return text + "]\nfd.execute(inputs)\n"
