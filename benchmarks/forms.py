# SPDX-License-Identifier: BSD-3-Clause
"""Which layers take more kernels or bytes when their tensors come in other forms, without a GPU.

    python benchmarks/forms.py                     all graphs of layers.py, in all forms
    python benchmarks/forms.py --only "norm|rope"  those whose names match
    python benchmarks/forms.py --forms one,first   only in these forms (layer_forms.py)

Kernels of a library do not count. Schedules are those for an H200; nothing is run. Each line has a
graph that differs, with its kernels and megabytes as it is and in the form.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

import torch
from aten import define
from chosen import reports_of, untouched
from layer_cases import LAYERS, Layer
from layer_forms import AS_IT_IS, FORMS, in_form
from torch._subclasses.fake_tensor import FakeTensorMode
from unseen_layer_cases import UNSEEN_LAYERS


def cost(graph: Any) -> tuple[int, float]:
    """Kernels, and the megabytes that they move."""
    reports = reports_of(define(graph), [untouched(each) for each in graph.inputs])
    kernels = [
        report for report in reports if report["kernel_text"] and report["scheduler"] != "expr_eval"
    ]
    moved = sum(report["input_bytes"] + report["output_bytes"] for report in kernels)
    return len(kernels), moved / 1e6


def costs(layer: Layer, names: list[str]) -> dict[str, dict[str, tuple[int, float]]]:
    """By graph and form."""
    found: dict[str, dict[str, tuple[int, float]]] = {}
    for name in (AS_IT_IS, *names):
        with FakeTensorMode(allow_non_fake_inputs=True):
            graphs = in_form(layer, FORMS[name], layer.make(torch.device("cpu")))
        for graph in graphs:
            found.setdefault(graph.name, {})[name] = cost(graph)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a regular expression: names of layers")
    forms = [name for name in FORMS if name != AS_IT_IS]
    parser.add_argument("--forms", default=",".join(forms), help="names of forms, by commas")
    args = parser.parse_args()
    names = args.forms.split(",")
    if unknown := [name for name in names if name not in forms]:
        parser.error(f"no such forms: {', '.join(unknown)}; there are {', '.join(forms)}")
    graphs, differ = 0, 0
    for layer in LAYERS + UNSEEN_LAYERS:
        if not re.search(args.only, layer.name):
            continue
        for graph, found in costs(layer, names).items():
            kernels, moved = found.pop(AS_IT_IS)
            graphs += 1
            more = {
                name: each
                for name, each in found.items()
                if each[0] > kernels or each[1] > 1.02 * moved + 0.02
            }
            differ += bool(more)
            for name, each in more.items():
                print(
                    f"{graph}, {name}: {kernels} kernels and {moved:.1f} MB, "
                    f"{each[0]} and {each[1]:.1f}",
                    flush=True,
                )
    print(f"{differ} of {graphs} graphs differ")


if __name__ == "__main__":
    main()
