# SPDX-License-Identifier: BSD-3-Clause
"""Time rows that begin within a vector against the next width that is a multiple of 64.

    python benchmarks/odd_widths.py --out odd_widths.json

Rows of an even number of bfloat16 elements that is no multiple of 8 begin at addresses that no
16-byte access may have. Sizes are constants of the definitions; cold second level cache, medians,
the two take turns. Figures are shares of copy bandwidth, and the speed (bytes per second) of the
odd width by that of the wider rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import report as reports
from dynamic_widths import (
    BYTES,
    Bench,
    define,
    inputs_of,
    layer_norm,
    layer_norm_backward,
    main_of,
    rms_norm,
    softmax,
)
from nvfuse_direct import FusionDefinition

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


class OddWidths(Bench):
    def point(self, family: str, width: int) -> dict[str, Any]:
        build, kinds, accesses = FAMILIES[family]
        rows = max(self.args.elements // width, 1)
        even = -(-width // 64) * 64

        def call(columns: int) -> Callable[[], object]:
            inputs = inputs_of(kinds, rows, columns, self.device)
            fd = define(build, kinds, inputs)
            return lambda: fd.execute(inputs, device=self.args.device)

        seconds = self.time({"odd": call(width), "even": call(even)})
        size = accesses * rows * BYTES
        speed = {"odd": size * width / seconds["odd"], "even": size * even / seconds["even"]}
        return {
            "family": family,
            "rows": rows,
            "width": width,
            "next": even,
            "percent_of_copy": [100 * each / self.copy_bandwidth for each in speed.values()],
            "speed": speed["odd"] / speed["even"],
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


if __name__ == "__main__":
    main_of(OddWidths, text, __doc__, FAMILIES, WIDTHS, 1 << 25)
