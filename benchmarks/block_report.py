# SPDX-License-Identifier: BSD-3-Clause
"""Text of a run of blocks: the table, segments of definitions and kernels of calls."""

from __future__ import annotations

from typing import Any

import report as reports

MOST_KERNELS = 40  # lines of a profile


def text(report: dict[str, Any]) -> str:
    parts = [", ".join(f"{name} {value}" for name, value in report["environment"].items())]
    if report["small"]:
        parts.append("Tiny sizes: the figures mean nothing.")
    header = ["block", "kernels", "moved MB", "us", "compile us", "eager us", "x compile"]
    header += [
        "memory MB",
        "estimate MB",
        "compile MB",
        "eager MB",
        "kept MB",
        "compile kept MB",
        "",
    ]
    parts.append(reports.table(header, [_cells(row) for row in report["rows"]]))
    if report["plan"]:
        parts += [_segments(row) for row in report["rows"] if "segments" in row]
    parts += [_profile(row) for row in report["rows"] if "profile" in row]
    return "\n\n".join(parts) + "\n"


def _cells(row: dict[str, Any]) -> list[str]:
    if "error" in row:
        return [row["name"], *["-"] * 12, row["error"]]

    def figure(side: str, what: str) -> float | None:
        value = row.get(side, {}).get(what)
        return value / 1e6 if what == "memory" and value is not None else value

    facts = row.get("compile_graph", {})
    kept = facts.get("kept")
    return [
        row["name"],
        str(row["kernels"]),
        f"{row['bytes_moved'] / 1e6:.0f}",
        *(
            reports.number(figure(side, "microseconds"), ".0f")
            for side in ("ours", "compile", "eager")
        ),
        reports.number(row.get("x_compile"), ".3f"),
        reports.number(figure("ours", "memory"), ".0f"),
        f"{row['estimate'] / 1e6:.0f}",
        *(reports.number(figure(side, "memory"), ".0f") for side in ("compile", "eager")),
        f"{row['kept'] / 1e6:.0f}",
        reports.number(None if kept is None else kept / 1e6, ".0f"),
        facts.get("attention", ""),
    ]


def _segments(row: dict[str, Any]) -> str:
    header = ["segment", "read MB", "written MB", "operations"]
    lines = []
    for segment in row["segments"]:
        names = [
            name
            for name in dict.fromkeys(segment["operations"])
            if segment["scheduler"] == "torch" or name not in ("cast", "mul", "add", "sub", "set")
        ]
        cells = [segment["scheduler"]]
        cells += [f"{segment[key] / 1e6:.1f}" for key in ("read", "written")]
        lines.append([*cells, " ".join(names)])
    return f"{row['name']}\n{reports.table(header, lines)}"


def _profile(row: dict[str, Any]) -> str:
    parts = []
    for side, kernels in row["profile"].items():
        total = sum(each["microseconds"] for each in kernels)
        count = sum(each["count"] for each in kernels)
        lines = [
            [f"{each['microseconds']:.1f}", str(each["count"]), each["kernel"][:100]]
            for each in kernels[:MOST_KERNELS]
        ]
        title = f"{row['name']}, {side}: {count} kernels, {total:.0f} us one after the other"
        parts.append(f"{title}\n{reports.table(['us', 'count', 'kernel'], lines)}")
    return "\n\n".join(parts)
