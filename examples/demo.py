# SPDX-License-Identifier: BSD-3-Clause
"""One real fusion, from definition to kernel to checked result: gelu(x + bias) + residual.

Runs on the GPU if torch sees one, on the CPU otherwise. `make demo` runs it.
"""

from __future__ import annotations

import math
import re
import statistics
import sys
import time
from collections.abc import Callable

import torch
from nvfuse_direct import DataType, FusionDefinition

COLOURED = sys.stdout.isatty()
KEYWORDS = re.compile(
    r"\b(for|if|else|const|float|double|int|int64_t|bool|void|__half|__bfloat|Tensor|Array"
    r"|nvfuser_index_t|NVF_KERNEL)\b"
)
COMMENTS = re.compile(r"//.*")


def colour(code: int, text: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOURED else text


def title(text: str) -> None:
    print("\n" + colour(1, text) + "\n" + colour(2, "-" * len(text)))


def highlighted(kernel: str) -> str:
    """The kernel text with keywords and comments coloured."""
    kernel = KEYWORDS.sub(lambda match: colour(36, match[0]), kernel.strip())
    return COMMENTS.sub(lambda match: colour(2, match[0]), kernel)


def define(x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> FusionDefinition:
    with FusionDefinition() as fd:
        t0, t1, t2 = (fd.from_pytorch(tensor) for tensor in (x, bias, residual))
        y = fd.ops.add(t0, fd.ops.broadcast(t1, [True, False]))
        cube = fd.ops.mul(fd.ops.mul(y, y), y)
        inner = fd.ops.mul(fd.ops.add(y, fd.ops.mul(cube, 0.044715)), math.sqrt(2 / math.pi))
        gelu = fd.ops.mul(y, fd.ops.mul(fd.ops.add(fd.ops.tanh(inner), 1.0), 0.5))
        fd.add_output(fd.ops.cast(fd.ops.add(gelu, t2), DataType.BFloat16))
    return fd


def eager(x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x + bias, approximate="tanh") + residual


def milliseconds(call: Callable[[], object], device: str, count: int = 20) -> float:
    """Median time of a call, warm."""
    times = []
    for _ in range(count + 3):
        start = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[3:])


def main() -> int:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "the CPU"
    rows, columns = (16384, 8192) if device == "cuda" else (1024, 2048)
    torch.manual_seed(0)
    x, residual = (torch.randn(rows, columns, device=device).bfloat16() for _ in range(2))
    bias = torch.randn(columns, device=device).bfloat16()
    inputs = [x, bias, residual]

    title(f"gelu(x + bias) + residual on {name}, x is {rows} x {columns} bfloat16")
    fd = define(*inputs)

    title("Definition, as Python that rebuilds it: repr(fd)")
    print(repr(fd).strip())

    start = time.perf_counter()
    (result,) = fd.execute(inputs)
    first = 1e3 * (time.perf_counter() - start)

    title("Fusion IR: fd.fusion.print_math()")
    print(fd.fusion.print_math().strip())

    title("Generated kernel: fd.fec.get_cuda_kernel(inputs)")
    print(highlighted(fd.fec.get_cuda_kernel(inputs)))

    title("Result")
    reference = eager(*[tensor.float() for tensor in inputs])
    error = (result.float() - reference).abs().max().item()
    correct = torch.allclose(result.float(), reference, rtol=2**-7, atol=2**-7)
    verdict = colour(32, "correct") if correct else colour(31, "WRONG")
    print(f"{verdict}: largest difference from float32 torch {error:.4f} (bfloat16 rounding)")

    ours = milliseconds(lambda: fd.execute(inputs), device)
    torch_time = milliseconds(lambda: eager(*inputs), device)
    moved = sum(tensor.nbytes for tensor in [*inputs, result])
    print(f"first call  {first:9.2f} ms   (schedule, compile or load from the cache, run)")
    print(f"this fusion {ours:9.2f} ms   {moved / ours / 1e6:7.1f} GB/s")
    print(f"eager torch {torch_time:9.2f} ms   {moved / torch_time / 1e6:7.1f} GB/s")
    return 0 if correct else 1


if __name__ == "__main__":
    sys.exit(main())
