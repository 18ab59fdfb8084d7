# SPDX-License-Identifier: BSD-3-Clause
"""Time reductions and normalizations over widths, data types and odd shapes, against their peers.

    python benchmarks/sweep.py --out benchmarks/results   everything
    python benchmarks/sweep.py --families softmax,rmsnorm_bwd --budget 120
    python benchmarks/sweep.py --no-compile --levels 1    no torch.compile, the main widths only

Points come in the order of their importance, so that a run that is cut short by its budget still
covers all families: the main widths, the widths between, widths that are no powers of two, other
data types, and last tall and short shapes. Before anything is timed, processes of their own compile
the points of the first levels side by side, which fills the caches on disk: a torch.compile'd point
costs seconds otherwise. Figures mean what they mean in run.py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report as reports
import torch
from cases import BY_NAME, Case
from line_plot import Panel, Series, line_plot
from run import Runner

FAMILIES = {
    "softmax": "softmax_fwd",
    "rmsnorm": "rmsnorm_fwd",
    "layernorm": "layernorm_fwd",
    "softmax_bwd": "softmax_bwd",
    "rmsnorm_bwd": "rmsnorm_bwd",
    "layernorm_bwd": "layernorm_bwd",
    "reduce_inner": "reduce_inner",
    "reduce_outer": "reduce_outer",
}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.half, "fp32": torch.float}
K = 1024
ELEMENTS = 1 << 27  # of a point whose rows are not given, as in the table of run.py
LEVELS: list[list[tuple[int | None, int, str]]] = [  # rows, width, dtype
    [(None, width * K, "bf16") for width in (4, 16, 64, 1, 256)],
    [(None, width * K, "bf16") for width in (8, 32, 128, 2)],
    [(None, width, "bf16") for width in (5120, 12288, 50257, 3000, 151936)],
    [(None, width * K, dtype) for width in (8, 1, 64) for dtype in ("fp32", "fp16")],
    [
        (rows, width, "bf16")
        for rows, width in ((1 << 20, 64), (1 << 18, 256), (132, 256 * K), (16, 1 << 20), (8, 8192))
    ],
]
# Levels that torch.compile takes part in.
COMPILED_LEVELS = 5
# Part of the budget that may go into compiling ahead.
AHEAD = 0.4


@dataclass(frozen=True)
class Point:
    family: str
    rows: int
    width: int
    dtype: str
    level: int
    # Part of the curve over widths; else a shape of its own.
    on_curve: bool

    def case(self) -> Case:
        return BY_NAME[FAMILIES[self.family]].at((self.rows, self.width), DTYPES[self.dtype])


def points(families: list[str], levels: int, small: bool) -> Iterator[Point]:
    elements = 1 << 14 if small else ELEMENTS
    for level, shapes in enumerate(LEVELS[:levels]):
        for rows, width, dtype in shapes:
            if small:
                rows, width = rows and min(rows, 64), max(width >> 6, 3)
            for family in families:
                yield Point(
                    family, rows or max(elements // width, 1), width, dtype, level, rows is None
                )


class Sweep:
    """Times points until the time is spent."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.device = torch.device(args.device)
        self.peers = [] if args.no_peers else ["eager"] if args.no_compile else ["eager", "compile"]
        self.points = list(points(args.families, args.levels, args.small))

    def compiled_points(self) -> list[Point]:
        return [point for point in self.points if point.level < COMPILED_LEVELS]

    def compile_ahead(self) -> None:
        """Lets processes of their own compile; each takes every n-th point."""
        jobs = min(self.args.jobs, len(self.compiled_points()))
        if "compile" not in self.peers or self.args.small or jobs < 2:
            return
        limit = min(self.args.budget * AHEAD, 600)
        command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
        # The processes compile side by side; none starts a pool of its own.
        environment = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1")
        workers = [
            subprocess.Popen(
                [*command, "--ahead", f"{index}/{jobs}", "--budget", str(limit)],
                env=environment,
                stdout=subprocess.DEVNULL,
            )
            for index in range(jobs)
        ]
        for worker in workers:
            worker.wait()

    def compile_share(self, share: str) -> None:
        """What a process of compile_ahead() does."""
        index, jobs = map(int, share.split("/"))
        deadline = time.monotonic() + self.args.budget
        for point in self.compiled_points()[index::jobs]:
            if time.monotonic() > deadline:
                return
            case = point.case()
            try:
                inputs = case.inputs(self.device, self.args.small)
                for call in Runner.calls(case, inputs, ["ours", "compile"]).values():
                    call()
            except Exception as error:
                print(f"{point}: {reports.one_line(error)}", file=sys.stderr)

    def run(self) -> dict[str, Any]:
        start = time.monotonic()
        self.compile_ahead()
        spent = time.monotonic() - start
        runner = Runner(self.device, self.args.small, self.peers, self.args.budget - spent)
        progress = reports.Progress(len(self.points))
        rows = []
        for point in self.points:
            compiles = point.level < COMPILED_LEVELS
            runner.providers = ["ours", *(p for p in self.peers if compiles or p != "compile")]
            progress.step(f"{point.family} {point.rows}x{point.width} {point.dtype}")
            rows.append(runner.case(point.case()) | vars(point))
        progress.close()
        return {
            "environment": reports.environment(self.device),
            "small": self.args.small,
            "providers": ["ours", *self.peers],
            "copy_gb_per_s": runner.copy_bandwidth / 1e9,
            "seconds": time.monotonic() - start,
            "points": rows,
        }


# ------------------------------------------------------------------------------------------- output


def _cells(row: dict[str, Any], providers: list[str]) -> list[str]:
    cells = [row["family"], row["dtype"], str(row["rows"]), str(row["width"])]
    if "error" in row:
        return [*cells, *["-"] * (2 * len(providers) + 1), row["error"]]
    for provider in providers:
        result = row["results"].get(provider, {})
        cells += [
            reports.number(result.get("gb_per_s"), ".0f"),
            reports.number(result.get("percent_of_copy"), ".1f"),
        ]
    failures = [f"{name}: {r['error']}" for name, r in row["results"].items() if "error" in r]
    return [*cells, reports.number(row["ratio_to_best_peer"], ".2f"), "; ".join(failures)]


def text(report: dict[str, Any]) -> str:
    """The report as plain text: the points by family, then dtype and width."""
    header = ["family", "dtype", "rows", "width"]
    for provider in report["providers"]:
        header += [f"{provider} GB/s", "%cp"]
    header += ["x best peer", ""]
    order = list(FAMILIES)
    rows = sorted(
        report["points"],
        key=lambda row: (order.index(row["family"]), row["dtype"], row["width"], row["rows"]),
    )
    parts = [", ".join(f"{name} {value}" for name, value in report["environment"].items())]
    parts.append(f"Copy bandwidth (read + written): {report['copy_gb_per_s']:.0f} GB/s = 100 %cp")
    parts.append(reports.table(header, [_cells(row, report["providers"]) for row in rows]))
    return "\n\n".join(parts) + "\n"


def plot(report: dict[str, Any]) -> str:
    """Achieved GB/s over the width as SVG: a panel per family, ours in bf16, fp16 and fp32."""
    panels = []
    for family in FAMILIES:
        rows = [
            row
            for row in report["points"]
            if row["family"] == family and row["on_curve"] and "results" in row
        ]
        series = []
        for provider in report["providers"]:
            for dtype in DTYPES:
                values = sorted(
                    (row["width"], row["results"][provider]["gb_per_s"])
                    for row in rows
                    if row["dtype"] == dtype and "gb_per_s" in row["results"].get(provider, {})
                )
                if values and (dtype == "bf16" or provider == "ours"):
                    name = provider if dtype == "bf16" else f"{provider} {dtype}"
                    series.append(Series(name, values, dashed=dtype != "bf16"))
        if series:
            panels.append(Panel(family, series))
    environment = report["environment"]
    title = f"GB/s over the width, {environment['device']}, torch {environment['torch']}"
    return line_plot(title, panels, ceiling=report["copy_gb_per_s"], ceiling_name="copy")


def write(report: dict[str, Any], folder: Path, stem: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{stem}.{suffix}" for suffix in ("json", "txt", "svg")]
    contents = [json.dumps(report, indent=1) + "\n", text(report), plot(report)]
    for file, content in zip(files, contents, strict=True):
        file.write_text(content)
    return files


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", default=",".join(FAMILIES), help="separated by commas")
    parser.add_argument("--levels", type=int, default=len(LEVELS), help="how many, see above")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="tiny sizes and few samples")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-peers", action="store_true", help="only ours")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds for all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling ahead")
    parser.add_argument("--out", type=Path, help="folder for the JSON, text and plot files")
    parser.add_argument("--stem", default="sweep", help="name of those files, without suffix")
    parser.add_argument("--ahead", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.families = args.families.split(",")
    if unknown := set(args.families) - set(FAMILIES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(FAMILIES)}")
    return args


def main() -> int:
    args = arguments()
    sweep = Sweep(args)
    if args.ahead:
        sweep.compile_share(args.ahead)
        return 0
    report = sweep.run()
    print(text(report))
    if args.out:
        for path in write(report, args.out, args.stem):
            print(f"wrote {path}", file=sys.stderr)
    return 1 if any("wrong result" in row.get("error", "") for row in report["points"]) else 0


if __name__ == "__main__":
    sys.exit(main())
