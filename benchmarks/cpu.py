# SPDX-License-Identifier: BSD-3-Clause
"""Time this compiler, eager torch and torch.compile on CPU tensors, against the speed of a copy.

    python benchmarks/cpu.py                          14 families x float32, bfloat16, 8M elements
    python benchmarks/cpu.py --more                   16 further definitions, 1K to 100M elements
    python benchmarks/cpu.py --large --no-peers       sums, norms and softmax of 64M elements
    python benchmarks/cpu.py --families softmax,rope --dtypes bfloat16 --sizes 1e6,8388608
    python benchmarks/cpu.py --no-peers               only ours
    python benchmarks/cpu.py --budget 200             starts no case after 200 seconds
    python benchmarks/cpu.py --out benchmarks/results --stem cpu
    python benchmarks/cpu.py --fill benchmarks/results/cpu.json     the pages get its table

Times are the shortest of calls that all three take in turn, on as many cores as torch uses: what
else runs on the machine makes a call longer, never shorter. Calls that take less than 0.2 ms are
timed many at a time. `%cp` is bytes (every input read once, every output written once) over time,
in percent of a copy of 256 MB; with --large, of a copy that takes its turn beside each case, of as
many elements as the case has. Results of up to 10M elements are checked against torch in float64
before they are timed. A case that fails is a line of the report.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report as reports
import torch
from cases import Case, as_list
from cpu_cases import LARGE, MORE, TABLE, Family
from run import Runner
from timing import Call, DeviceTimer

DTYPES = {"float32": torch.float, "bfloat16": torch.bfloat16}
TABLE_SIZES = [1 << 23]
# Far beyond the largest last-level caches.
LARGE_SIZES = [1 << 26]
MORE_SIZES = [10**exponent for exponent in range(3, 9)]
# References in float64 of larger inputs would take more memory than the inputs' peers have.
MOST_CHECKED = 10**7
COPY_BYTES = 1 << 28
SMALL = 1000
PEERS = {"eager": "eager torch", "compile": "torch.compile"}
# What no case should be below, of the better of the peers.
LEAST = 0.9


class CpuTimer(DeviceTimer):
    """Samples calls that take from a microsecond to a second.

    With `copied` bytes each case is measured beside a copy of so many, which takes its turn too:
    other users of the machine's memory slow down both.
    """

    def __init__(self, seconds_per_call: float, least_rounds: int, copied: int = 0) -> None:
        super().__init__(torch.device("cpu"))
        self.seconds_per_call, self.least_rounds = seconds_per_call, least_rounds
        self.source = torch.ones(copied // 4) if copied else None
        self.copy_beside: float | None = None  # bytes per second

    def in_turns(self, calls: dict[str, Call], rounds: int, count: int) -> dict[str, list[float]]:
        if self.source is None:
            return self._seconds(calls)
        source, target = self.source, torch.empty_like(self.source)
        seconds = self._seconds(calls | {"copy": lambda: target.copy_(source)})
        self.copy_beside = 2 * 4 * source.numel() / min(seconds.pop("copy"))
        return seconds

    def _seconds(self, calls: dict[str, Call]) -> dict[str, list[float]]:
        batch = 2e-4
        counts = {}
        for name, call in calls.items():
            self.samples(call, 2)
            once = min(self.samples(call, 3))
            counts[name] = max(math.ceil(batch / once), 1)
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        end = time.perf_counter() + self.seconds_per_call * len(calls)
        done = 0
        while done < self.least_rounds or time.perf_counter() < end:
            for name, call in calls.items():
                # What another library leaves in the caches and its threads awake is not for this.
                call()
                count = counts[name]
                begin = time.perf_counter()
                for _ in range(count):
                    call()
                seconds[name].append((time.perf_counter() - begin) / count)
            done += 1
        return seconds


class CpuRunner(Runner):
    """Takes the shortest of many calls."""

    def __init__(
        self, small: bool, peers: Sequence[str], budget: float, seconds: float, copied: int = 0
    ) -> None:
        super().__init__(torch.device("cpu"), small, peers, budget)
        self.timer = CpuTimer(0.0 if small else seconds, 2 if small else 5, copied)
        if not small:
            self.copy_bandwidth = self.best_copy()

    def best_copy(self) -> float:
        """Bytes per second of the fastest of a few copies."""
        return max(self.timer.copy_bandwidth(COPY_BYTES, 1) for _ in range(7))

    def _figures(self, seconds: list[float], size: int) -> dict[str, float]:
        median = statistics.median(seconds)
        figures = super()._figures([min(seconds)], size) | {"median_microseconds": median * 1e6}
        if (beside := self.timer.copy_beside) is not None:
            figures["percent_of_copy"] = 100 * size / min(seconds) / beside
            self.copy_bandwidth = max(self.copy_bandwidth, beside)
        return figures

    @staticmethod
    def _references(case: Case, inputs: list[Any]) -> list[torch.Tensor]:
        largest = max(each.numel() for each in inputs if isinstance(each, torch.Tensor))
        return case.references(inputs) if largest <= 1.1 * MOST_CHECKED else []

    def _check(
        self,
        name: str,
        case: Case,
        inputs: list[Any],
        call: Call,
        references: list[torch.Tensor],
    ) -> float:
        if not references:
            as_list(call())
            return math.nan
        return super()._check(name, case, inputs, call, references)


@dataclass(frozen=True)
class Point:
    family: Family
    elements: int
    dtype: str

    def case(self) -> Case:
        return self.family.at(self.elements, DTYPES[self.dtype])

    def facts(self) -> dict[str, Any]:
        fixed = self.family.dtype
        dtype = self.dtype if fixed is None else str(fixed).removeprefix("torch.")
        return {"family": self.family.name, "elements": self.elements, "dtype": dtype}


def points(families: Sequence[Family], sizes: Sequence[int], dtypes: Sequence[str]) -> list[Point]:
    """Sizes in turn, so that a run cut short covers all families; fixed dtypes come once."""
    return [
        Point(family, elements, dtype)
        for elements in sizes
        for dtype in dtypes
        for family in families
        if family.dtype is None or dtype == dtypes[0]
    ]


def add_speedups(row: dict[str, Any]) -> dict[str, Any]:
    """How many times as fast ours is as each peer."""
    results = row.get("results", {})
    for peer in PEERS:
        if "microseconds" in results.get(peer, {}):
            row[f"x_{peer}"] = results[peer]["microseconds"] / results["ours"]["microseconds"]
    return row


def processor() -> str:
    """Model and instruction set of this machine's processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    model = re.search(r"model name\s*: (.*)", text)
    vectors = next((name for name in ("avx512f", "avx2", "sse2") if f" {name}" in text), "")
    return f"{model[1] if model else platform.machine()} ({vectors.removesuffix('f')})"


def run(chosen: Sequence[Point], args: argparse.Namespace) -> dict[str, Any]:
    peers = [] if args.no_peers else ["eager"] if args.no_compile else list(PEERS)
    start = time.monotonic()
    copied = 4 * max(args.sizes) if args.large else 0
    runner = CpuRunner(args.small, peers, args.budget, args.seconds, copied)
    progress = reports.Progress(len(chosen))
    rows = []
    for point in chosen:
        facts = point.facts()
        progress.step(f"{facts['family']} {point.elements:.3g} {facts['dtype']}")
        rows.append(add_speedups(runner.case(point.case()) | facts))
    progress.close()
    if not args.small:
        runner.copy_bandwidth = max(runner.copy_bandwidth, runner.best_copy())
    return {
        "environment": reports.environment(torch.device("cpu"))
        | {"device": processor(), "threads": str(torch.get_num_threads())},
        "small": args.small,
        "load": os.getloadavg()[0],
        "providers": ["ours", *peers],
        "copy_gb_per_s": runner.copy_bandwidth / 1e9,
        "seconds": time.monotonic() - start,
        "means": means(rows),
        "points": rows,
    }


def geometric_mean(values: Iterable[float]) -> float | None:
    logarithms = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logarithms)) if logarithms else None


def means(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Geometric means of the speedups: of each dtype, of each size, of all."""
    groups: list[tuple[str, Callable[[dict[str, Any]], bool]]] = []
    for key, shown in (("dtype", str), ("elements", lambda n: f"{n:.3g} elements")):
        values = list(dict.fromkeys(row[key] for row in rows))
        if len(values) > 1:
            groups += [
                (shown(value), lambda row, k=key, v=value: row[k] == v)  # type: ignore[misc]
                for value in values
            ]
    groups.append(("all", lambda row: True))
    return [
        {"of": name}
        | {
            f"x_{peer}": geometric_mean(
                row[f"x_{peer}"] for row in rows if f"x_{peer}" in row and belongs(row)
            )
            for peer in PEERS
        }
        for name, belongs in groups
    ]


def behind(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cases below LEAST of the better of the peers, the worst first."""
    late = [
        row for row in rows if "results" in row and (row["ratio_to_best_peer"] or math.inf) < LEAST
    ]
    return sorted(late, key=lambda row: row["ratio_to_best_peer"])


# ------------------------------------------------------------------------------------------- output


def _cells(row: dict[str, Any], providers: Sequence[str]) -> list[str]:
    cells = [row["family"], row["dtype"], row["sizes"]]
    if "error" in row:
        return [*cells, *["-"] * (len(providers) + 4), row["error"]]
    ours = row["results"]["ours"]
    for provider in providers:
        microseconds = row["results"].get(provider, {}).get("microseconds")
        cells.append(reports.number(microseconds and microseconds / 1e3, ".4g"))
    cells += [f"{ours['gb_per_s']:.1f}", f"{ours['percent_of_copy']:.0f}"]
    cells += [reports.number(row.get(f"x_{peer}"), ".2f") for peer in PEERS]
    failures = [f"{name}: {r['error']}" for name, r in row["results"].items() if "error" in r]
    return [*cells, "; ".join(failures)]


def text(report: dict[str, Any]) -> str:
    """The report as plain text."""
    providers = report["providers"]
    parts = [", ".join(f"{name} {value}" for name, value in report["environment"].items())]
    if report["small"]:
        parts.append("Tiny sizes: the figures mean nothing.")
    parts.append(f"Copy bandwidth (read + written): {report['copy_gb_per_s']:.1f} GB/s = 100 %cp")
    header = ["family", "dtype", "sizes", *(f"{name} ms" for name in providers)]
    header += ["GB/s", "%cp", *(f"x {peer}" for peer in PEERS), ""]
    parts.append(reports.table(header, [_cells(row, providers) for row in report["points"]]))
    rows = [
        [mean["of"], *(reports.number(mean[f"x_{peer}"], ".2f") for peer in PEERS), ""]
        for mean in report["means"]
    ]
    parts.append(reports.table(["geometric mean of", *(f"x {peer}" for peer in PEERS), ""], rows))
    late = behind(report["points"])
    lines = [
        f"{row['ratio_to_best_peer']:.2f} {row['family']} {row['dtype']} {row['sizes']}"
        for row in late
    ]
    parts.append("\n".join([f"{len(late)} below {LEAST} of the better peer", *lines]))
    return "\n\n".join(parts) + "\n"


def _ratio(values: Sequence[float | None]) -> str:
    return " / ".join(reports.number(value, ".2f") for value in values)


def markdown(report: dict[str, Any]) -> str:
    """The table of the pages: a line a family, float32 / bfloat16 in each column."""
    environment = report["environment"]
    dtypes = list(dict.fromkeys(row["dtype"] for row in report["points"]))
    lines = [
        f"On {environment['threads']} cores of {environment['device']} (torch "
        f"{environment['torch']}, {environment['date']}; a copy runs at "
        f"{report['copy_gb_per_s']:.1f} GB/s, all in one run), {' / '.join(dtypes)}:",
        "",
        "| case | ms | share of copy | x eager | x torch.compile |",
        "| --- | --- | --- | --- | --- |",
    ]
    for family in dict.fromkeys(row["family"] for row in report["points"]):
        rows = [row for row in report["points"] if row["family"] == family and "results" in row]
        ours = [row["results"]["ours"] for row in rows]
        cells = [
            f"{family}, {rows[0]['sizes'].replace('x', ' x ')}" if rows else family,
            " / ".join(f"{each['microseconds'] / 1e3:.2f}" for each in ours),
            " / ".join(f"{each['percent_of_copy']:.0f}" for each in ours) + " %",
            *(_ratio([row.get(f"x_{peer}") for row in rows]) for peer in PEERS),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    by_dtype = [mean for mean in report["means"] if mean["of"] in dtypes] or report["means"]
    cells = [_ratio([mean[f"x_{peer}"] for mean in by_dtype]) for peer in PEERS]
    lines.append(f"| geometric mean | | | {' | '.join(cells)} |")
    return "\n".join(lines)


BEGIN, END = "<!-- figures: {} -->", "<!-- end of figures -->"
PAGES = ("README.md", "docs/measurements/cpu.md")


def fill(report_file: Path, root: Path) -> list[Path]:
    """Puts a report's table into the pages that have a place for it."""
    report = json.loads(report_file.read_text())
    more = len({row["elements"] for row in report["points"]}) > 1
    begin = BEGIN.format("cpu, more" if more else "cpu")
    table = summary(report) if more else markdown(report)
    filled = []
    for page in (root / name for name in PAGES):
        before = page.read_text()
        if begin in before:
            head, rest = before.split(begin, 1)
            page.write_text(f"{head}{begin}\n{table}\n{END}{rest.split(END, 1)[1]}")
            filled.append(page)
    return filled


def summary(report: dict[str, Any]) -> str:
    """Geometric means of a run over sizes: a line a definition, a column a size."""
    sizes = list(dict.fromkeys(row["elements"] for row in report["points"]))
    lines = [
        "| x the better of eager and torch.compile | "
        + " | ".join(f"{size:.0e}".replace("e+0", "e") for size in sizes)
        + " |",
        "| --- |" + " --- |" * len(sizes),
    ]
    for family in dict.fromkeys(row["family"] for row in report["points"]):
        by_size = {row["elements"]: row for row in report["points"] if row["family"] == family}
        ratios = [by_size.get(size, {}).get("ratio_to_best_peer") for size in sizes]
        lines.append(f"| {family} | {' | '.join(reports.number(r, '.2f') for r in ratios)} |")
    total = report["means"][-1]
    eager, compiled = (reports.number(total[f"x_{peer}"], ".2f") for peer in PEERS)
    lines += ["", f"Geometric mean of all: {eager} x eager, {compiled} x torch.compile."]
    return "\n".join(lines)


def write(report: dict[str, Any], folder: Path, stem: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{stem}.{suffix}" for suffix in ("json", "txt")]
    files[0].write_text(json.dumps(report, indent=1) + "\n")
    files[1].write_text(text(report))
    return files


# ------------------------------------------------------------------------------------ command line


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--more", action="store_true", help="the further definitions")
    parser.add_argument("--large", action="store_true", help="those that memory should bound")
    parser.add_argument("--families", help="separated by commas; all by default")
    parser.add_argument(
        "--dtypes", help="float32, bfloat16 or both; --more and --large take float32"
    )
    parser.add_argument("--sizes", help="elements, separated by commas")
    parser.add_argument("--small", action="store_true", help="a thousand elements, few samples")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-peers", action="store_true", help="only ours")
    parser.add_argument(
        "--budget", type=float, default=math.inf, help="seconds after which no case is started"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="of timing for each of the three in a case"
    )
    parser.add_argument("--out", type=Path, help="folder for the JSON and text files")
    parser.add_argument("--stem", default="cpu", help="name of those files, without suffix")
    parser.add_argument(
        "--fill", type=Path, help="a report whose table the pages get; runs nothing"
    )
    args = parser.parse_args()
    known = MORE if args.more else LARGE if args.large else TABLE
    args.known = {family.name: family for family in known}
    args.families = args.families.split(",") if args.families else list(args.known)
    default = ["float32"] if args.more or args.large else list(DTYPES)
    args.dtypes = args.dtypes.split(",") if args.dtypes else default
    for given, known in ((args.families, args.known), (args.dtypes, DTYPES)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    if args.small:
        args.sizes = [SMALL]
    elif args.sizes:
        args.sizes = [int(float(size)) for size in args.sizes.split(",")]
    else:
        args.sizes = MORE_SIZES if args.more else LARGE_SIZES if args.large else TABLE_SIZES
    return args


def main() -> int:
    args = arguments()
    if args.fill:
        for page in fill(args.fill, Path(__file__).resolve().parents[1]):
            print(f"filled {page}", file=sys.stderr)
        return 0
    chosen = points([args.known[name] for name in args.families], args.sizes, args.dtypes)
    report = run(chosen, args)
    print(text(report))
    if args.out:
        for path in write(report, args.out, args.stem):
            print(f"wrote {path}", file=sys.stderr)
    return 1 if any("wrong result" in row.get("error", "") for row in report["points"]) else 0


if __name__ == "__main__":
    sys.exit(main())
