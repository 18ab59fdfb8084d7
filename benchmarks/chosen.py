# SPDX-License-Identifier: BSD-3-Clause
"""What the schedulers choose for the benchmarks on an H200, without one.

    python benchmarks/chosen.py --out chosen.json            write it
    python benchmarks/chosen.py --compare chosen.json        and say what is no longer the same
    python benchmarks/chosen.py --layers --out chosen.json   of the graphs of layers.py

Covers the cases of run.py, the points of sweep.py, the widths of dynamic_widths.py and a grid of
shapes of all of these. For each kernel: scheduler, parameters, launch and a digest of its text.
Nothing is compiled or run, and tensors have no values.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

# Stands for a C++ compiler: an object that a kernel's symbol names and nobody runs.
COMPILER = """#!/bin/sh
for last; do
  case "$last" in
    *.cpp) symbol=$(basename "$last" .cpp) ;;
    *.so) out="$last" ;;
  esac
done
echo "unsigned $symbol[16] = {ABI, 0, 1024, 0};" | gcc -x c -shared -nostdlib -o "$out" -
"""
ABI_HEADER = Path(__file__).resolve().parent.parent / "csrc" / "device" / "host" / "abi.h"


def _prepare(folder: Path) -> None:
    """Before the package is imported: it reads the environment once."""
    abi = next(
        line.split("=")[1].strip(" ;\n")
        for line in ABI_HEADER.read_text().splitlines()
        if "kNvfHostAbi =" in line
    )
    compiler = folder / "no-compiler"
    compiler.write_text(COMPILER.replace("ABI", abi))
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    os.environ |= {
        "NVFUSER_MACHINE": "h200",
        "NVFUSER_HOST_CXX": str(compiler),
        "NVFUSER_CACHE_DIR": str(folder / "cache"),
        "NVFUSER_STORE_PLANS": "0",
        "CUDA_VISIBLE_DEVICES": "",
    }


_FOLDER = tempfile.TemporaryDirectory()
_prepare(Path(_FOLDER.name))

import argparse  # noqa: E402
import hashlib  # noqa: E402
import itertools  # noqa: E402
import json  # noqa: E402
import re  # noqa: E402
from collections.abc import Callable, Iterable, Iterator  # noqa: E402
from typing import Any  # noqa: E402

import dynamic_widths as widths  # noqa: E402
import torch  # noqa: E402
from aten import AtenGraph, define, traced  # noqa: E402
from cases import BY_NAME, CASES, Case, Tensors, definition_of  # noqa: E402
from layers import SETS  # noqa: E402
from nvfuse_direct import FusionDefinition  # noqa: E402
from sweep import FAMILIES, LEVELS, points  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

Kernels = list[dict[str, str]]


class NoValues(Tensors):
    """Tensors on the meta device."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.device, self.dtype = torch.device("meta"), dtype

    def normal(self, *sizes: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.empty(sizes, dtype=dtype or self.dtype, device=self.device)

    def integers(self, bound: int, *sizes: int) -> torch.Tensor:
        return torch.empty(sizes, dtype=torch.int64, device=self.device)


def untouched(value: Any) -> Any:
    """A CPU tensor like one of the meta device: its memory is never written, so there is none."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)


def reports_of(fd: FusionDefinition, inputs: list[Any]) -> list[dict[str, Any]]:
    """What is planned for such inputs, segment by segment."""
    cache = getattr(fd, "fec", None) or fd._make_executor_cache()
    return cache._segment_reports(inputs)


def kernels_of(fd: FusionDefinition, inputs: list[Any]) -> Kernels:
    found = []
    for report in reports_of(fd, inputs):
        text = report["kernel_text"].replace(report["kernel_name"] or "-", "kernel")
        found.append(
            {
                "scheduler": report["scheduler"],
                "params": report["scheduler_params"],
                "launch": re.sub(r"nvfuser_\w+", "kernel", report["launch"]),
                "text": hashlib.sha256(text.encode()).hexdigest()[:16],
            }
        )
    return found


def of_case(case: Case) -> Kernels:
    inputs = [untouched(each) for each in case.make(NoValues(case.dtype), case.sizes)]
    return kernels_of(definition_of(case.define, inputs), inputs)


def of_widths(name: str) -> Iterator[tuple[str, Kernels]]:
    """Kernels for any width, after some were seen, and those that are made for one."""
    build, kinds, _ = widths.FAMILIES[name]

    def inputs_of(rows: int, width: int) -> list[torch.Tensor]:
        sizes = {"x": (rows, width), "w": (width,), "s": (rows,)}
        return [torch.empty(sizes[kind], dtype=torch.bfloat16) for kind in kinds]

    dynamic = widths.define(build, kinds)
    for width in widths.SEEN:
        kernels_of(dynamic, inputs_of(4096, width))
    for width in (*widths.WIDTHS, 8, 100, 513, 2050, 3000, 30000, 100000, 131072, 151936):
        inputs = inputs_of(max((1 << 26) // width, 1), width)
        yield f"any width/{name}/{width}", kernels_of(dynamic, inputs)
        own = kernels_of(widths.define(build, kinds), inputs)
        yield f"one width/{name}/{width}", own


# A grid around the points of the sweep.
GRID_ROWS = (1, 7, 100, 132, 1000, 5000, 1 << 17)
GRID_WIDTHS = (8, 33, 100, 512, 1000, 2048, 6144, 10000, 24576, 49152, 100000, 200000)
MOST_ELEMENTS = 1 << 28
POINTWISE_SIZES = ((1 << 22, 64), (4096, 100), (333, 1000), (64, 1 << 16), (1, 4096), (8, 12345))


def all_cases() -> Iterator[tuple[str, Case]]:
    for case in CASES:
        yield f"case/{case.name}", case
    for point in points(list(FAMILIES), len(LEVELS), small=False):
        name = f"sweep/{point.family}/{point.rows}x{point.width}/{point.dtype}"
        yield name, point.case()
    for family, (rows, width) in itertools.product(
        FAMILIES.values(), itertools.product(GRID_ROWS, GRID_WIDTHS)
    ):
        if rows * width <= MOST_ELEMENTS:
            case = BY_NAME[family].at((rows, width), torch.bfloat16)
            yield f"grid/{family}/{rows}x{width}", case
    for name, dtype in itertools.product(
        ("pointwise_mul", "bias_gelu", "silu_mul", "transpose_add", "reduce_all"),
        (torch.bfloat16, torch.float),
    ):
        for sizes in POINTWISE_SIZES:
            case = BY_NAME[name].at(sizes, dtype)
            yield f"grid/{name}/{'x'.join(map(str, sizes))}/{dtype}", case
    for sizes in ((8, 64, 8, 8), (256, 64, 56, 56), (32, 2048, 7, 7), (2, 100, 33, 17)):
        case = BY_NAME["batchnorm_channels_last"].at(sizes, torch.bfloat16)
        yield f"grid/batchnorm/{'x'.join(map(str, sizes))}", case


def collect(pattern: str) -> Iterator[tuple[str, Kernels | str]]:
    for name, case in all_cases():
        if re.search(pattern, name):
            try:
                yield name, of_case(case)
            except RuntimeError as error:
                yield name, str(error).splitlines()[0]
    for family in widths.FAMILIES:
        if re.search(pattern, f"any width/{family}"):
            yield from of_widths(family)


def graphs_of(
    sets: Iterable[str], takes: Callable[[str], bool], rows: int = 1 << 62
) -> Iterator[AtenGraph]:
    """Forward and backward graphs of the layers whose name is taken, with untouched inputs."""
    for layer in [layer for name in sets for layer in SETS[name]]:
        if not takes(layer.name):
            continue
        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                graphs = traced(layer.name, layer.function, layer.make(torch.device("cpu"), rows))
        except Exception as error:  # it asks for values
            print(f"{layer.name}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        for graph in graphs:
            graph.inputs = [untouched(each) for each in graph.inputs]
            yield graph


def collect_layers(pattern: str) -> Iterator[tuple[str, Kernels | str]]:
    for graph in graphs_of(SETS, lambda name: bool(re.search(pattern, f"layer/{name}"))):
        try:
            yield f"layer/{graph.name}", kernels_of(define(graph), graph.inputs)
        except Exception as error:
            yield f"layer/{graph.name}", str(error).splitlines()[0]


def differences(name: str, old: Kernels | str, new: Kernels | str) -> Iterator[str]:
    """Parameters are shown where kernels differ: those that say the same need not read the same."""
    if isinstance(old, str) or isinstance(new, str) or len(old) != len(new):
        if old != new:
            yield f"{name}: {old} -> {new}"
        return
    for i, (a, b) in enumerate(zip(old, new, strict=True)):
        if any(a[key] != b[key] for key in ("scheduler", "launch", "text")):
            yield f"{name}, kernel {i}: {a['launch']} -> {b['launch']}\n{a['params']}{b['params']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", default="", help="regular expression of names")
    parser.add_argument("--layers", action="store_true", help="those of layers.py instead")
    args = parser.parse_args()
    before = json.loads(args.compare.read_text()) if args.compare else {}
    found = {}
    changes = 0
    for name, kernels in (collect_layers if args.layers else collect)(args.only):
        found[name] = kernels
        for change in differences(name, before.get(name, kernels), kernels):
            changes += 1
            print(change, flush=True)
    print(f"{len(found)} definitions, {changes} kernels differ")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1))
    sys.exit(changes > 0)


if __name__ == "__main__":
    main()
