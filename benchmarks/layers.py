# SPDX-License-Identifier: BSD-3-Clause
"""Time layers and training steps of known models against torch.compile.

    python benchmarks/layers.py                       everything, on the GPU if there is one
    python benchmarks/layers.py --layers norm,rope    those whose names contain one of these
    python benchmarks/layers.py --set unseen          other layers, which nothing was tuned for
    python benchmarks/layers.py --form product        large inputs are results of linear layers
    python benchmarks/layers.py --no-peers            only ours
    python benchmarks/layers.py --workers 12          processes that warm up torch.compile
    python benchmarks/layers.py --plan                no times: kernels, and the bytes they move
    python benchmarks/layers.py --small --device cpu  tiny sizes: does everything run?
    python benchmarks/layers.py --out benchmarks/results --stem h200_layers

Both sides get the same graphs of aten operations (`aten.py`), which no one wrote for this project.
Device times are medians with a cold L2; memory is the most that a call allocates beside its inputs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import math
import multiprocessing
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import report as reports
import torch
from aten import AtenGraph, define
from blind_layer_cases import BLIND_LAYERS
from cases import as_list, bytes_moved
from fresh_layer_cases import FRESH_LAYERS
from further_layer_cases import FURTHER_LAYERS
from layer_cases import LAYERS, Layer
from layer_forms import AS_IT_IS, FORMS, in_form
from loss_layer_cases import LOSS_LAYERS
from model_region_cases import MODEL_REGION_LAYERS
from nvfuse_direct import explain
from patch_layer_cases import PATCH_LAYERS
from region_cases import REGION_LAYERS
from run import relative_error
from timing import Call, Stopwatch
from unseen_layer_cases import UNSEEN_LAYERS

SETS = {
    "known": LAYERS,
    "unseen": UNSEEN_LAYERS,
    "further": FURTHER_LAYERS,
    "blind": BLIND_LAYERS,
    "fresh": FRESH_LAYERS,
    "patches": PATCH_LAYERS,
    "regions": REGION_LAYERS,
    "model-regions": MODEL_REGION_LAYERS,
    "losses": LOSS_LAYERS,
}
SMALL = 4  # rows, images or sequences in a small run
# Of the root mean square or the value.
TOLERANCE = {torch.bfloat16: 2.0**-6, torch.float: 1e-3}
# What no case should be below, of torch.compile's speed.
LEAST = 0.97


def compiled(graph: AtenGraph) -> Call:
    torch.compiler.reset()
    call = torch.compile(graph.module, fullgraph=True, dynamic=False)
    return lambda: call(*graph.inputs)


def compile_ahead(names: Sequence[str], device: str, form: str = AS_IT_IS) -> None:
    """Leaves torch.compile's kernels of these layers in its cache on disk."""
    for layer in [layer for each in SETS.values() for layer in each]:
        if layer.name in names:
            for graph in in_form(layer, FORMS[form], layer.make(torch.device(device))):
                try:
                    compiled(graph)()
                except Exception as error:
                    print(f"{graph.name}: {reports.one_line(error)}", file=sys.stderr)
            torch.cuda.empty_cache()


def fill_cache(
    names: Sequence[str],
    device: str,
    workers: int,
    ahead: Callable[[Sequence[str], str], None] = compile_ahead,
) -> None:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        # One of them at a time, the slowest to compile first.
        jobs = [pool.submit(ahead, [name], device) for name in reversed(names)]
        for job in concurrent.futures.as_completed(jobs):
            job.result()


def differing(a: torch.Tensor, b: torch.Tensor) -> float:
    """The part of the elements."""
    return float((a != b).double().mean())


class Wide(torch.fx.Interpreter):
    """Evaluates a graph without its roundings: floats stay float64."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is torch.ops.prims.convert_element_type.default and args[1].is_floating_point:
            return args[0].double()
        result = super().call_function(target, args, kwargs)
        return tuple(map(wide, result)) if isinstance(result, tuple) else wide(result)


def wide(x: Any) -> Any:
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def in_float64(graph: AtenGraph) -> Sequence[torch.Tensor]:
    return Wide(graph.module).run(*map(wide, graph.inputs))


class LayerRunner(Stopwatch):
    def rows(self, layer: Layer) -> list[dict[str, Any]]:
        """A row for each graph of a layer; what goes wrong is part of the row."""
        inputs = layer.make(self.device, SMALL if self.args.small else 1 << 62)
        rows = []
        graphs = in_form(layer, FORMS[self.args.form], inputs)
        del inputs
        for graph in graphs:
            try:
                rows.append({"name": graph.name} | self.row(graph))
            except Exception as error:
                rows.append({"name": graph.name, "error": reports.one_line(error)})
        return rows

    def row(self, graph: AtenGraph) -> dict[str, Any]:
        fd = define(graph)
        calls: dict[str, Call] = {"ours": lambda: fd.execute(graph.inputs)}
        results = as_list(calls["ours"]())
        size = bytes_moved(graph.inputs, results)
        segments = explain(fd, graph.inputs, measure=False).segments
        row: dict[str, Any] = {
            "bytes": size,
            "kernels": len(segments),
            "bytes_moved": sum(s.input_bytes + s.output_bytes for s in segments),
            "schedulers": [s.scheduler for s in segments],
            "max_error": self.check(graph, results),
        }
        del results
        if self.timer is None:
            return row
        if not self.args.no_peers:
            calls["compile"] = compiled(graph)
        row |= self.measure(calls)
        row["percent_of_copy"] = (
            100 * size / self.copy_bandwidth / (row["ours"]["microseconds"] / 1e6)
        )
        if "compile" in row:
            row["x_compile"] = row["compile"]["microseconds"] / row["ours"]["microseconds"]
        return row

    def check(self, graph: AtenGraph, results: Sequence[torch.Tensor]) -> float:
        """Largest error against float64, where no numbers are drawn. Chains of 16-bit operations
        have large errors: ours may be twice that of torch's operations one by one. So may the part
        of the elements of masks and positions that differ."""
        if graph.is_random:
            return math.nan
        references = in_float64(graph)
        one_by_one = graph.module(*graph.inputs)
        worst = 0.0
        for index, result in enumerate(results):
            reference, expected = references[index], one_by_one[index]
            if not result.is_floating_point():
                is_position = graph.selects and result.dtype == torch.int64
                if is_position and self.args.form != AS_IT_IS:  # of no input
                    continue
                allowed = 2 * differing(expected, reference)
                if is_position:  # which one of equal elements is open
                    result, expected = (graph.inputs[0].gather(-1, x) for x in (result, expected))
                error = differing(result, expected)
            else:
                error = relative_error(result, reference)
                allowed = 2 * relative_error(expected, reference)
                allowed = max(allowed, TOLERANCE.get(result.dtype, 0.0))
            if result.shape != reference.shape or not error <= allowed:
                raise ValueError(f"wrong result: output {index}, error {error:.3g}")
            worst = max(worst, error)
        return worst


def geometric_mean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


# ------------------------------------------------------------------------------------------- output


def text(report: dict[str, Any]) -> str:
    parts = [", ".join(f"{name} {value}" for name, value in report["environment"].items())]
    if report["small"]:
        parts.append("Tiny sizes: the figures mean nothing.")
    if not math.isnan(report["copy_gb_per_s"]):
        parts.append(f"Copy bandwidth: {report['copy_gb_per_s']:.0f} GB/s = 100 %cp")
    header = ["graph", "MB", "kernels", "moved/needed", "us", "%cp", "compile us"]
    header += ["x compile", "memory / compile's", ""]
    parts.append(reports.table(header, [_cells(row) for row in report["rows"]]))
    ratios = {row["name"]: row["x_compile"] for row in report["rows"] if "x_compile" in row}
    if ratios:
        late = sorted((ratio, name) for name, ratio in ratios.items() if ratio < LEAST)
        more = [row["name"] for row in report["rows"] if _more_memory(row)]
        parts.append(
            f"Geometric mean of {len(ratios)}: {geometric_mean(ratios.values()):.2f} x"
            f" torch.compile; {len(late)} below {LEAST}"
        )
        parts.append("\n".join(f"{ratio:.2f} {name}" for ratio, name in late))
        parts.append("More memory than torch.compile: " + (", ".join(more) or "none"))
    return "\n\n".join(parts) + "\n"


def _more_memory(row: dict[str, Any]) -> bool:
    """Beyond what the allocator's rounding makes."""
    return "compile" in row and row["ours"]["memory"] > 1.001 * row["compile"]["memory"] + 4096


def _cells(row: dict[str, Any]) -> list[str]:
    if "error" in row:
        return [row["name"], *["-"] * 8, row["error"]]
    ours, peer = row.get("ours", {}), row.get("compile", {})
    memory = ours["memory"] / peer["memory"] if peer.get("memory") else None
    return [
        row["name"],
        f"{row['bytes'] / 1e6:.0f}",
        str(row["kernels"]),
        f"{row['bytes_moved'] / row['bytes']:.2f}",
        reports.number(ours.get("microseconds"), ".1f"),
        reports.number(row.get("percent_of_copy"), ".0f"),
        reports.number(peer.get("microseconds"), ".1f"),
        reports.number(row.get("x_compile"), ".2f"),
        reports.number(memory, ".2f"),
        "",
    ]


def options(description: str, parts: str, stem: str) -> argparse.ArgumentParser:
    """What runs of layers and of blocks can be asked for; `parts` names what they are made of."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(f"--{parts}", default="", help="parts of names, separated by commas")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--no-peers", action="store_true", help="only ours")
    parser.add_argument("--plan", action="store_true", help="kernels and bytes, no times")
    parser.add_argument("--small", action="store_true", help="tiny sizes, few samples")
    parser.add_argument("--workers", type=int, default=0, help="processes that compile ahead")
    parser.add_argument(
        "--budget", type=float, default=math.inf, help="seconds after which none is started"
    )
    parser.add_argument("--out", type=Path, help="folder for the JSON and text files")
    parser.add_argument("--stem", default=stem, help="name of those files, without suffix")
    return parser


def main() -> int:
    parser = options(__doc__ or "", "layers", "layers")
    parser.add_argument("--set", choices=SETS, default="known", help="which layers")
    parser.add_argument("--form", choices=FORMS, default=AS_IT_IS, help="see layer_forms.py")
    args = parser.parse_args()
    chosen = reports.named(SETS[args.set], args.layers)
    if args.workers and not args.no_peers:
        ahead = functools.partial(compile_ahead, form=args.form)
        fill_cache([layer.name for layer in chosen], args.device, args.workers, ahead)
    return LayerRunner(args).run(chosen, text)


if __name__ == "__main__":
    sys.exit(main())
