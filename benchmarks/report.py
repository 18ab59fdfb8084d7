# SPDX-License-Identifier: BSD-3-Clause
"""Text table, JSON and plot of a benchmark run, and its progress bar."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch


def environment(device: torch.device) -> dict[str, str]:
    """What a figure means nothing without."""
    import nvfuse_direct

    facts = {
        "date": datetime.date.today().isoformat(),
        "version": str(nvfuse_direct.version()),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": platform.processor() or platform.machine(),
    }
    if device.type == "cuda":
        facts["device"] = torch.cuda.get_device_name(device)
        facts["cuda"] = str(torch.version.cuda)
        facts["driver"] = _driver_version()
    return facts


def _driver_version() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
        return answer.stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def named(parts: Iterable[Any], names: str) -> list[Any]:
    """Those whose names contain one of these, which commas separate."""
    return [part for part in parts if any(name in part.name for name in names.split(","))]


def one_line(error: Exception) -> str:
    """An error as it fits into a table."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


class Progress:
    """A bar on a terminal, a line for each step elsewhere; on stderr, away from the table."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.live = sys.stderr.isatty()

    def step(self, what: str) -> None:
        """Announces the step that begins."""
        if self.live:
            filled = 30 * self.done // self.total
            bar = "#" * filled + "." * (30 - filled)
            print(f"\r\033[K[{bar}] {what}", end="", file=sys.stderr, flush=True)
        else:
            print(f"[{self.done + 1}/{self.total}] {what}", file=sys.stderr, flush=True)
        self.done += 1

    def close(self) -> None:
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Columns of text; the first and the last are left-aligned."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [
            cell.ljust(w) if i in (0, len(row) - 1) else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def number(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)


def _case_row(case: dict[str, Any], providers: list[str]) -> list[str]:
    if "error" in case:
        return [
            case["name"],
            "-",
            *["-"] * (2 * len(providers)),
            "-",
            f"{case['target']:.0f}",
            case["error"],
        ]
    row = [case["name"], f"{case['bytes'] / 1e6:.0f}"]
    for provider in providers:
        result = case["results"].get(provider, {})
        row += [
            number(result.get("microseconds"), ".1f"),
            number(result.get("percent_of_copy"), ".1f"),
        ]
    ratio = number(case["ratio_to_best_peer"], ".2f")
    failures = [f"{name}: {r['error']}" for name, r in case["results"].items() if "error" in r]
    note = "; ".join(filter(None, [case["verdict"], *failures]))
    return [*row, ratio, f"{case['target']:.0f}", note]


def text(report: dict[str, Any]) -> str:
    """The whole report as plain text."""
    parts = [", ".join(f"{name} {value}" for name, value in report["environment"].items())]
    if report["small"]:
        parts.append("Tiny sizes: the figures mean nothing.")
    if report["cases"]:
        parts.append(
            f"Copy bandwidth (read + written): {report['copy_gb_per_s']:.0f} GB/s = 100 %cp"
        )
        providers = report["providers"]
        header = ["case", "MB"]
        for provider in providers:
            header += [f"{provider} us", "%cp"]
        header += ["x best peer", "target", ""]
        parts.append(table(header, [_case_row(case, providers) for case in report["cases"]]))
    if report["host"]:
        rows = [
            [row["name"], number(row["microseconds"], ".2f"), row["note"]] for row in report["host"]
        ]
        parts.append(table(["host", "us", ""], rows))
    return "\n\n".join(parts) + "\n"


def write(report: dict[str, Any], folder: Path, stem: str) -> list[Path]:
    """Write JSON, text and (with matplotlib) a plot; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{stem}.json", folder / f"{stem}.txt"]
    files[0].write_text(json.dumps(report, indent=1) + "\n")
    files[1].write_text(text(report))
    plot = _plot(report, folder / f"{stem}.png")
    return files + ([plot] if plot else [])


def hand_out(report: dict[str, Any], table: str, folder: Path | None, stem: str) -> None:
    """Print the table, and write it and the JSON if there is a folder for them."""
    print(table)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stem}.json").write_text(json.dumps(report, indent=1) + "\n")
        (folder / f"{stem}.txt").write_text(table)


def _plot(report: dict[str, Any], path: Path) -> Path | None:
    cases = [case for case in report["cases"] if "results" in case]
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return None
    if not cases:
        return None
    figure, axes = pyplot.subplots(figsize=(2 + 0.8 * len(cases), 4.5))
    providers = report["providers"]
    width = 0.8 / len(providers)
    for index, provider in enumerate(providers):
        heights = [case["results"].get(provider, {}).get("percent_of_copy", 0) for case in cases]
        axes.bar([x + index * width for x in range(len(cases))], heights, width, label=provider)
    positions = [x + 0.4 - width / 2 for x in range(len(cases))]
    axes.set_xticks(positions, [case["name"] for case in cases], rotation=30, ha="right")
    axes.axhline(100, color="grey", linewidth=0.8)
    axes.set_ylabel("% of copy bandwidth")
    axes.set_title(f"{report['environment']['device']}, torch {report['environment']['torch']}")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path
