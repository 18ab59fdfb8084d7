# SPDX-License-Identifier: BSD-3-Clause
"""Time kernels that take rows of any width against those that are made for one width each.

    python benchmarks/dynamic_widths.py --out dynamic_widths.json

Both come from the same definitions with symbolic sizes: one fusion is executed with
NVFUSER_DISABLE=dynamic_extents, the other one has seen a few widths before. Cold second level
cache, medians, the two take turns. Figures are shares of copy bandwidth, and how fast the shared
kernel is by the one of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import report as reports
import torch
from nvfuse_direct import DataType, FusionDefinition
from timing import DeviceTimer

EPSILON = 1e-5
WIDTHS = (1000, 1024, 4096, 5000, 8192, 10001, 12345, 16384, 20000, 50257)
SEEN = (520, 776, 1288)  # before, by the fusion whose kernels take any width
BYTES = 2  # of an element: bfloat16


def mean(fd: FusionDefinition, x: Any) -> Any:
    return fd.ops.div(fd.ops.sum(x, [1], keepdim=True), x.size(1))


def softmax(fd: FusionDefinition, x: Any) -> list[Any]:
    e = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
    return [fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True))]


def rms_norm(fd: FusionDefinition, x: Any, w: Any) -> list[Any]:
    scale = fd.ops.rsqrt(fd.ops.add(mean(fd, fd.ops.mul(x, x)), EPSILON))
    return [fd.ops.mul(fd.ops.mul(x, scale), w)]


def layer_norm(fd: FusionDefinition, x: Any, w: Any, b: Any) -> list[Any]:
    var, average = fd.ops.var_mean(x, [1], correction=0, keepdim=True)
    normal = fd.ops.mul(fd.ops.sub(x, average), fd.ops.rsqrt(fd.ops.add(var, EPSILON)))
    return [fd.ops.add(fd.ops.mul(normal, w), b)]


def layer_norm_backward(
    fd: FusionDefinition, g: Any, x: Any, average: Any, scale: Any, w: Any
) -> list[Any]:
    o = fd.ops
    normal = o.mul(o.sub(x, average), scale)
    gw = o.mul(g, w)
    across = o.add(mean(fd, gw), o.mul(normal, mean(fd, o.mul(gw, normal))))
    dx = o.mul(scale, o.sub(gw, across))
    return [dx, o.sum(o.mul(g, normal), [0]), o.sum(g, [0])]


def row_sum(fd: FusionDefinition, x: Any) -> list[Any]:
    return [fd.ops.sum(x, [1])]


# The function, its inputs (x: a whole tensor, w: a row that all share, s: a value of each row), and
# how often the elements of a whole tensor are read or written.
FAMILIES: dict[str, tuple[Callable[..., list[Any]], str, int]] = {
    "softmax": (softmax, "x", 2),
    "rms_norm": (rms_norm, "xw", 2),
    "layer_norm": (layer_norm, "xww", 2),
    "layer_norm_backward": (layer_norm_backward, "xxssw", 3),
    "sum": (row_sum, "x", 1),
}


def define(
    build: Callable[..., list[Any]], kinds: str, inputs: list[torch.Tensor] | None = None
) -> FusionDefinition:
    """Of any sizes, or of those of the inputs."""
    with FusionDefinition() as fd:
        wide = []
        for at, kind in enumerate(kinds):
            rank = 2 if kind == "x" else 1
            sizes = [-1] * rank if inputs is None else list(inputs[at].shape)
            tv = fd.define_tensor(shape=sizes, contiguity=[True] * rank, dtype=DataType.BFloat16)
            tv = fd.ops.cast(tv, DataType.Float)
            wide.append(tv if rank == 2 else fd.ops.broadcast(tv, [kind == "w", kind == "s"]))
        for out in build(fd, *wide):
            fd.add_output(fd.ops.cast(out, DataType.BFloat16))
    return fd


def inputs_of(kinds: str, rows: int, width: int, device: torch.device) -> list[torch.Tensor]:
    sizes = {"x": (rows, width), "w": (width,), "s": (rows,)}
    return [torch.randn(sizes[kind], device=device).to(torch.bfloat16) for kind in kinds]


def kernels_of(fd: FusionDefinition, inputs: list[torch.Tensor]) -> list[str]:
    """Which kind of kernel each segment takes."""
    return [
        "any" if getattr(each["params"], "any_extent", False) else "baked"
        for each in fd.fec._segment_reports(inputs)
    ]


class Bench:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.device = torch.device(args.device)
        self.timer = DeviceTimer(self.device)
        self.copy_bandwidth = self.timer.copy_bandwidth(args.elements * BYTES, args.samples)

    def time(self, calls: dict[str, Callable[[], object]]) -> dict[str, float]:
        """Median seconds of each; they take turns."""
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():
            self.timer.samples(call, 2)
        turns = 4
        for _ in range(turns):
            for name, call in calls.items():
                seconds[name] += self.timer.samples(call, max(self.args.samples // turns, 1))
        return {name: statistics.median(each) for name, each in seconds.items()}

    def calls(
        self, baked: FusionDefinition, dynamic: FusionDefinition, inputs: list[torch.Tensor]
    ) -> dict[str, Callable[[], object]]:
        device, off = self.args.device, ["dynamic_extents"]
        return {
            "baked": lambda: baked.execute(inputs, device=device, _disable_options=off),
            "dynamic": lambda: dynamic.execute(inputs, device=device),
        }

    def family(self, name: str) -> list[dict[str, Any]]:
        build, kinds, accesses = FAMILIES[name]
        baked, dynamic = define(build, kinds), define(build, kinds)
        for width in SEEN:
            dynamic.execute(inputs_of(kinds, 4096, width, self.device), device=self.args.device)
        points = []
        for width in self.args.widths:
            rows = max(self.args.elements // width, 1)
            inputs = inputs_of(kinds, rows, width, self.device)
            calls = self.calls(baked, dynamic, inputs)
            results = [call() for call in calls.values()]
            for a, b in zip(*results, strict=True):
                assert torch.allclose(
                    a.float(), b.float(), rtol=5e-2, atol=5e-2 * float(b.abs().max())
                )
            del results, a, b
            seconds = self.time(calls)
            size = accesses * rows * width * BYTES
            points.append(
                {
                    "family": name,
                    "rows": rows,
                    "width": width,
                    "seconds": seconds,
                    "percent_of_copy": {
                        key: 100 * size / value / self.copy_bandwidth
                        for key, value in seconds.items()
                    },
                    "dynamic_by_baked": seconds["baked"] / seconds["dynamic"],
                    "kernels": {"dynamic": kernels_of(dynamic, inputs)},
                    "compiles": {
                        "baked": baked.fec._num_kernels,
                        "dynamic": dynamic.fec._num_kernels,
                    },
                }
            )
        return points

    def run(self) -> dict[str, Any]:
        start = time.monotonic()
        points = [point for name in self.args.families for point in self.family(name)]
        return {
            "environment": reports.environment(self.device),
            "copy_gb_per_s": self.copy_bandwidth / 1e9,
            "seconds": time.monotonic() - start,
            "points": points,
        }


def text(report: dict[str, Any]) -> str:
    rows = [
        [
            point["family"],
            str(point["rows"]),
            str(point["width"]),
            *(f"{point['percent_of_copy'][key]:.1f}" for key in ("baked", "dynamic")),
            f"{point['dynamic_by_baked']:.3f}",
            str(point["compiles"]["dynamic"]),
            " ".join(point["kernels"]["dynamic"]),
        ]
        for point in report["points"]
    ]
    header = ["family", "rows", "width", "baked %cp", "dynamic %cp", "speed", "compiles", "kernels"]
    head = f"Copy bandwidth (read + written): {report['copy_gb_per_s']:.0f} GB/s = 100 %cp"
    return head + "\n\n" + reports.table(header, rows) + "\n"


def main_of(
    bench: type[Bench],
    text: Callable[[dict[str, Any]], str],
    description: str,
    families: Iterable[str],
    widths: Iterable[int],
    elements: int,
) -> None:
    """The command line of a benchmark of such families and widths."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("--families", type=lambda s: s.split(","), default=list(families))
    parser.add_argument(
        "--widths", type=lambda s: [int(each) for each in s.split(",")], default=list(widths)
    )
    parser.add_argument("--elements", type=int, default=elements)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", help="file for the figures as JSON")
    args = parser.parse_args()
    report = bench(args).run()
    print(text(report))
    if args.out:
        with open(args.out, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main_of(Bench, text, __doc__, FAMILIES, WIDTHS, 1 << 26)
