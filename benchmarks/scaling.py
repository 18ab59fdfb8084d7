# SPDX-License-Identifier: BSD-3-Clause
"""How planning and compiling grow with the number of operations of a definition.

    python benchmarks/scaling.py                                 all families, 25 to 400 operations
    python benchmarks/scaling.py --families chain,rms_norms --sizes 50,100,200
    python benchmarks/scaling.py --no-nvrtc --json scaling.json

All times are CPU times of a process and its children, so that other programs count little; each
point has a process and a kernel cache of its own. A first definition is planned and compiled cold
by the host's C++ compiler (cpp). The same definition is then made again, with its kernels on disk
but no plans, for the time of planning alone, and explained (the least of several, without what a
cached call takes). With NVFUSER_MACHINE=h200 the texts are compiled by NVRTC as well, each kernel
that differs from the others once, as the kernel cache does; that needs no GPU.

The last two columns are the exponents by which a row grows between its smallest and its largest
size, and between the last two sizes.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import multiprocessing
import os
import re
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SIZES = (25, 50, 100, 200, 400)
LAYER_SIZES = (10, 20, 40, 80)
REPETITIONS = 5
ARCHITECTURE = 90
ROWS, COLUMNS = 4, 1000

Define = Callable[[Any, Any, int], None]


def chain(fd: Any, x: Any, n: int) -> None:
    for i in range(n):
        x = fd.ops.sin(x) if i % 2 else fd.ops.mul(x, 1.0 + 1.0 / (i + 1))
    fd.add_output(x)


def tree(fd: Any, x: Any, n: int) -> None:
    level = [fd.ops.mul(x, 1.0 / (i + 1)) for i in range(n // 2)]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        rest = level[-1:] if len(level) % 2 else []
        level = [fd.ops.add(a, b) for a, b in pairs] + rest
    fd.add_output(level[0])


def many_outputs(fd: Any, x: Any, n: int) -> None:
    for _ in range(n // 2):
        x = fd.ops.neg(x)
        fd.add_output(fd.ops.sin(x))


def rms_norms(fd: Any, x: Any, n: int) -> None:
    for _ in range(n):
        squares = fd.ops.sum(fd.ops.mul(x, x), [1], keepdim=True)
        scale = fd.ops.rsqrt(fd.ops.add(fd.ops.mul(squares, 1.0 / COLUMNS), 1e-5))
        x = fd.ops.add(x, fd.ops.mul(x, scale))
    fd.add_output(x)


def layer_norms(fd: Any, x: Any, n: int) -> None:
    for _ in range(n):
        variance, mean = fd.ops.var_mean(x, [1], 0, True)
        scale = fd.ops.rsqrt(fd.ops.add(variance, 1e-5))
        x = fd.ops.add(x, fd.ops.mul(fd.ops.sub(x, mean), scale))
    fd.add_output(x)


def softmaxes(fd: Any, x: Any, n: int) -> None:
    for _ in range(n):
        e = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
        x = fd.ops.add(x, fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True)))
    fd.add_output(x)


def row_sums(fd: Any, x: Any, n: int) -> None:
    total = None
    for i in range(n):
        part = fd.ops.sum(fd.ops.mul(x, 1.0 / (i + 1)), [1])
        total = part if total is None else fd.ops.add(total, part)
    fd.add_output(total)


def column_sums(fd: Any, x: Any, n: int) -> None:
    for i in range(n):
        fd.add_output(fd.ops.sum(fd.ops.mul(x, 1.0 / (i + 1)), [0]))


def slices(fd: Any, x: Any, n: int) -> None:
    for i in range(n // 2):
        x = fd.ops.neg(fd.ops.slice(x, [0, 1], [ROWS, COLUMNS - 1 - i]))
    fd.add_output(x)


def reshapes(fd: Any, x: Any, n: int) -> None:
    for i in range(n // 2):
        shape = [ROWS, COLUMNS] if i % 2 else [COLUMNS // 2, 2 * ROWS]
        x = fd.ops.neg(fd.ops.reshape(x, shape))
    fd.add_output(x)


def pads(fd: Any, x: Any, n: int) -> None:
    for _ in range(n // 2):
        x = fd.ops.neg(fd.ops.pad(x, [1, 0]))
    fd.add_output(x)


def linear_relu(fd: Any, x: Any, n: int) -> None:
    """Layers with weights of their own; torch evaluates the products."""
    import torch

    weight = torch.empty(COLUMNS, COLUMNS)
    for _ in range(n):
        x = fd.ops.relu(fd.ops.linear(x, fd.from_pytorch(weight)))
    fd.add_output(x)


FAMILIES: dict[str, Define] = {
    each.__name__: each
    for each in (
        chain,
        tree,
        many_outputs,
        rms_norms,
        layer_norms,
        softmaxes,
        row_sums,
        column_sums,
        slices,
        reshapes,
        pads,
        linear_relu,
    )
}


@dataclass
class Point:
    """Seconds of CPU time, and what was made."""

    family: str
    size: int
    define: float
    plan: float
    cpp: float
    nvrtc: float
    explain: float
    run: float
    kernels: int
    distinct: int
    text_bytes: int
    largest_text: int


def seconds_of(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def least_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of the fastest of several calls, and what the last one gave."""
    least = math.inf
    result = None
    for _ in range(REPETITIONS):
        gc.collect()
        start = time.process_time()
        result = call()
        least = min(least, time.process_time() - start)
        if least > 10:
            break
    return least, result


def measure(family: str, size: int, nvrtc: bool) -> Point:
    import torch
    from nvfuse_direct import FusionDefinition, explain

    torch.set_num_threads(1)  # threads that wait for work take CPU time as well
    x = torch.linspace(-1, 1, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    weights = [torch.eye(COLUMNS)] * size if family == "linear_relu" else []
    inputs = [x, *weights]

    def made() -> Any:
        with FusionDefinition() as fd:
            FAMILIES[family](fd, fd.from_pytorch(x), size)
        return fd

    def planned() -> Any:
        fd = made()
        fd.execute(inputs)
        return fd

    children = seconds_of(resource.RUSAGE_CHILDREN)
    planned()
    cpp = seconds_of(resource.RUSAGE_CHILDREN) - children
    gc.disable()  # as timeit does: what the collector has to look at is not of one definition
    define, _ = least_seconds(made)
    plan, fd = least_seconds(planned)
    fd.execute(inputs)
    run, _ = least_seconds(lambda: fd.execute(inputs))
    explained, _ = least_seconds(lambda: explain(fd, inputs, measure=False))
    text = fd.fec.get_cuda_kernel(inputs)
    kernels = kernels_of(text)
    distinct = set(kernels)
    return Point(
        family=family,
        size=size,
        define=define,
        plan=plan - define - run,
        cpp=cpp,
        nvrtc=nvrtc_seconds(distinct) if nvrtc and are_for_gpus("cpu") else 0.0,
        explain=explained,
        run=run,
        kernels=len(kernels),
        distinct=len(distinct),
        text_bytes=sum(len(t) for t in kernels),
        largest_text=max(len(t) for t in kernels),
    )


def kernels_of(text: str) -> list[str]:
    """The kernels of a plan, all under one name: equal ones are compiled once."""
    kernels = re.findall(r"^NVF_KERNEL\(.*?^}$", text, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r"^NVF_KERNEL\(\w+", "NVF_KERNEL(kernel", each) for each in kernels]


def are_for_gpus(device: str) -> bool:
    """Whether NVRTC takes the kernels of a device: those for CPU tensors may be for a GPU too."""
    return device != "cpu" or os.environ.get("NVFUSER_MACHINE", "host") != "host"


def nvrtc_seconds(kernels: set[str]) -> float:
    """CPU time of NVRTC for these kernels, one after the other."""
    from nvfuse_direct import _C_DIRECT

    def compiled(text: str) -> None:
        _C_DIRECT._compile_cubin(text, ARCHITECTURE, False)

    compiled(min(kernels, key=len))  # what loading the compiler takes is not of any kernel
    start = time.process_time()
    for each in kernels:
        compiled(each)
    return time.process_time() - start


def measure_apart(family: str, size: int, nvrtc: bool) -> Point:
    """In a process of its own, with an empty kernel cache."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NVFUSER_CACHE_DIR"] = folder
        os.environ["NVFUSER_STORE_PLANS"] = "0"
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(measure, (family, size, nvrtc))


def exponent(first: Point, last: Point, column: str) -> str:
    """Of the growth between two points."""
    a, b = getattr(first, column), getattr(last, column)
    if a <= 0 or b <= 0 or first is last:
        return ""
    return f"n^{math.log(b / a) / math.log(last.size / first.size):.2f}"


def print_family(points: list[Point]) -> None:
    columns = [c for c in asdict(points[0]) if c not in ("family", "size")]
    print(f"\n{points[0].family}")
    print(f"{'':14}" + "".join(f"{p.size:>9}" for p in points) + "   growth    last")
    for column in columns:
        values = [getattr(p, column) for p in points]
        cells = [f"{v:9.4f}" if isinstance(v, float) else f"{v:9d}" for v in values]
        overall = exponent(points[0], points[-1], column)
        last = exponent(points[-2], points[-1], column) if len(points) > 1 else ""
        print(f"  {column:12}" + "".join(cells) + f"   {overall:7}  {last}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--sizes", default="")
    parser.add_argument("--no-nvrtc", action="store_true")
    parser.add_argument(
        "--limit", type=float, default=60, help="seconds for a point; larger sizes are left out"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    points: list[Point] = []
    for family in arguments.families.split(","):
        sizes = LAYER_SIZES if family == "linear_relu" else SIZES
        if arguments.sizes:
            sizes = tuple(int(s) for s in arguments.sizes.split(","))
        row: list[Point] = []
        for size in sizes:
            row.append(measure_apart(family, size, not arguments.no_nvrtc))
            if row[-1].plan + row[-1].cpp + row[-1].nvrtc > arguments.limit:
                break
        print_family(row)
        points += row
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(p) for p in points], indent=1))


if __name__ == "__main__":
    main()
