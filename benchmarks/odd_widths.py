# SPDX-License-Identifier: BSD-3-Clause
"""Time rows that begin within a vector against the next width that is a multiple of 64.

    python benchmarks/odd_widths.py --out odd_widths.json

Rows of an even number of bfloat16 elements that is no multiple of 8 begin at addresses that no
16-byte access may have. Sizes are constants of the definitions; cold second level cache, medians,
the two take turns. Figures are shares of copy bandwidth, and the speed (bytes per second) of the
odd width by that of the wider rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import report as reports
import torch
from dynamic_widths import BYTES, inputs_of, layer_norm, layer_norm_backward, rms_norm, softmax
from nvfuse_direct import DataType, FusionDefinition
from timing import DeviceTimer

WIDTHS = (770, 1538, 2050, 4098, 5002, 11010)


def rms_norm_backward(fd: FusionDefinition, g: Any, x: Any, scale: Any, w: Any) -> list[Any]:
    o = fd.ops
    normal = o.mul(x, scale)
    gw = o.mul(g, w)
    across = o.div(o.sum(o.mul(gw, normal), [1], keepdim=True), x.size(1))
    dx = o.mul(scale, o.sub(gw, o.mul(normal, across)))
    return [dx, o.sum(o.mul(g, normal), [0])]


def softmax_backward(fd: FusionDefinition, g: Any, y: Any) -> list[Any]:
    o = fd.ops
    product = o.mul(g, y)
    return [o.sub(product, o.mul(y, o.sum(product, [1], keepdim=True)))]


def bias_gradient(fd: FusionDefinition, g: Any) -> list[Any]:
    return [fd.ops.sum(g, [0])]


def scale_bias_relu(fd: FusionDefinition, x: Any, w: Any, b: Any) -> list[Any]:
    return [fd.ops.relu(fd.ops.add(fd.ops.mul(x, w), b))]


# As in dynamic_widths.py.
FAMILIES: dict[str, tuple[Callable[..., list[Any]], str, int]] = {
    "rms_norm": (rms_norm, "xw", 2),
    "rms_norm_backward": (rms_norm_backward, "xxsw", 3),
    "layer_norm": (layer_norm, "xww", 2),
    "layer_norm_backward": (layer_norm_backward, "xxssw", 3),
    "softmax": (softmax, "x", 2),
    "softmax_backward": (softmax_backward, "xx", 3),
    "bias_gradient": (bias_gradient, "x", 1),
    "scale_bias_relu": (scale_bias_relu, "xww", 2),
}


def define(
    build: Callable[..., list[Any]], kinds: str, inputs: list[torch.Tensor]
) -> FusionDefinition:
    with FusionDefinition() as fd:
        wide = []
        for kind, given in zip(kinds, inputs, strict=True):
            tv = fd.ops.cast(fd.from_pytorch(given, static_sizes=True), DataType.Float)
            wide.append(tv if kind == "x" else fd.ops.broadcast(tv, [kind == "w", kind == "s"]))
        for out in build(fd, *wide):
            fd.add_output(fd.ops.cast(out, DataType.BFloat16))
    return fd


class Bench:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.device = torch.device(args.device)
        self.timer = DeviceTimer(self.device)
        self.copy_bandwidth = self.timer.copy_bandwidth(args.elements * BYTES, args.samples)

    def call(self, family: str, rows: int, width: int) -> Callable[[], object]:
        build, kinds, _ = FAMILIES[family]
        inputs = inputs_of(kinds, rows, width, self.device)
        fd = define(build, kinds, inputs)
        fd.execute(inputs, device=self.args.device)
        return lambda: fd.execute(inputs, device=self.args.device)

    def point(self, family: str, width: int) -> dict[str, Any]:
        rows = max(self.args.elements // width, 1)
        even = -(-width // 64) * 64
        with ThreadPoolExecutor(2) as pool:
            calls = dict(
                zip(
                    (width, even),
                    pool.map(lambda each: self.call(family, rows, each), (width, even)),
                    strict=True,
                )
            )
        seconds: dict[int, list[float]] = {each: [] for each in calls}
        for _ in range(4):
            for each, call in calls.items():
                seconds[each] += self.timer.samples(call, max(self.args.samples // 4, 1))
        size = FAMILIES[family][2] * rows * BYTES
        speed = {each: size * each / statistics.median(seconds[each]) for each in calls}
        return {
            "family": family,
            "rows": rows,
            "width": width,
            "next": even,
            "percent_of_copy": [100 * speed[each] / self.copy_bandwidth for each in calls],
            "speed": speed[width] / speed[even],
        }

    def run(self) -> dict[str, Any]:
        progress = reports.Progress(len(self.args.families) * len(self.args.widths))
        points = []
        for family in self.args.families:
            for width in self.args.widths:
                progress.step(f"{family} {width}")
                points.append(self.point(family, width))
        progress.close()
        return {
            "environment": reports.environment(self.device),
            "copy_gb_per_s": self.copy_bandwidth / 1e9,
            "points": points,
        }


def text(report: dict[str, Any]) -> str:
    rows = [
        [
            point["family"],
            str(point["rows"]),
            f"{point['width']} / {point['next']}",
            *(f"{each:.1f}" for each in point["percent_of_copy"]),
            f"{point['speed']:.3f}",
        ]
        for point in report["points"]
    ]
    slow = sum(point["speed"] < 0.85 for point in report["points"])
    return (
        f"Copy bandwidth (read + written): {report['copy_gb_per_s']:.0f} GB/s = 100 %cp\n\n"
        + reports.table(["family", "rows", "width", "%cp", "next %cp", "speed"], rows)
        + f"\n{slow} of {len(rows)} below 0.85\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--families", type=lambda s: s.split(","), default=list(FAMILIES))
    parser.add_argument(
        "--widths", type=lambda s: [int(each) for each in s.split(",")], default=list(WIDTHS)
    )
    parser.add_argument("--elements", type=int, default=1 << 25)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", help="file for the figures as JSON")
    args = parser.parse_args()
    report = Bench(args).run()
    print(text(report))
    if args.out:
        with open(args.out, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
