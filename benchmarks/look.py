# SPDX-License-Identifier: BSD-3-Clause
"""The kernels that an H200 would get for a graph of layers.py, without one.

    python benchmarks/look.py "GRU cell"             graphs whose name contains this, of all sets
    python benchmarks/look.py "GRU cell" --math      with the operations of each kernel
    python benchmarks/look.py "GRU cell" --text 1    with the text of kernel 1, and its parameters
    python benchmarks/look.py --kernels              a line for each graph: kernels and megabytes

Nothing is compiled or run, and tensors have no values.
"""

from __future__ import annotations

import argparse
from typing import Any

from aten import define
from chosen import graphs_of, reports_of
from layers import SETS


def size_of(report: dict[str, Any]) -> str:
    return f"{report['input_bytes'] / 1e6:.1f} + {report['output_bytes'] / 1e6:.1f} MB"


def show(reports: list[dict[str, Any]], math: bool, text: int | None) -> None:
    for index, report in enumerate(reports):
        launch = report["launch"].removeprefix(report["kernel_name"] + ": ")
        print(f"{index:3} {report['scheduler']:17} {size_of(report):20} {launch}")
        print("    ", ", ".join(report["inputs"]), "->", ", ".join(report["outputs"]))
        if report["note"]:
            print("     why:", report["note"])
        if math:
            for operation in report["operations"]:
                print("       ", operation[1])
        if index == text:
            print(report["scheduler_params"])
            print(report["kernel_text"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", default="", help="part of names, in any case")
    parser.add_argument("--set", choices=SETS, action="append", help="all, if none is named")
    parser.add_argument("--rows", type=int, default=1 << 62, help="the most rows, as in --small")
    parser.add_argument("--kernels", action="store_true", help="a line for each graph")
    parser.add_argument("--math", action="store_true", help="with operations")
    parser.add_argument("--text", type=int, help="with the text of this kernel")
    args = parser.parse_args()
    pattern = args.name.lower()
    layer = pattern.removesuffix(" backward")
    for graph in graphs_of(args.set or SETS, lambda name: layer in name.lower(), args.rows):
        if pattern not in graph.name.lower():
            continue
        try:
            reports = [r for r in reports_of(define(graph), graph.inputs) if r["segment_id"] >= 0]
        except Exception as error:
            print(f"{graph.name}: {str(error).splitlines()[0]}")
            continue
        moved = sum(r["input_bytes"] + r["output_bytes"] for r in reports) / 1e6
        print(f"{graph.name}: {len(reports)} kernels, {moved:.1f} MB", flush=True)
        if not args.kernels:
            show(reports, args.math, args.text)


if __name__ == "__main__":
    main()
