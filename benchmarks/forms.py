# SPDX-License-Identifier: BSD-3-Clause
"""Which layers take more kernels or bytes when their tensors have other sizes, without a GPU.

    python benchmarks/forms.py                     all graphs of layers.py, in all forms
    python benchmarks/forms.py --only "norm|rope"  those whose names match
    python benchmarks/forms.py --forms one,first   only in these forms

In each form all inputs are given with other sizes and viewed back by the function, and its results
are viewed likewise, as model code does with tokens and heads: with a dimension of size 1 in front
(one), behind (behind) or after the first (second), with the first axis in two parts (first), or
with the last one in parts of 64 (last). Schedules are those for an H200; nothing is run. Each line
has a graph that differs, with its kernels and megabytes as it is and in the form.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

import torch
from aten import define, traced
from chosen import LAYERS, UNSEEN_LAYERS, reports_of, untouched
from layer_cases import Layer, Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

PART = 64


def _first(x: Tensor) -> Tensor:
    divisor = next((d for d in (2, 3, 5, 7) if x.dim() > 1 and x.shape[0] % d == 0), 0)
    is_split = divisor and x.shape[0] > divisor and x.is_contiguous()
    return x.unflatten(0, (divisor, -1)) if is_split else x


def _last(x: Tensor) -> Tensor:
    is_split = x.dim() and x.is_contiguous() and x.shape[-1] > PART and x.shape[-1] % PART == 0
    return x.unflatten(-1, (-1, PART)) if is_split else x


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda x: x,
    "one": lambda x: x.unsqueeze(0),
    "behind": lambda x: x.unsqueeze(-1),
    "second": lambda x: x.unsqueeze(1) if x.dim() > 1 else x,
    "first": _first,
    "last": _last,
}


def in_form(layer: Layer, form: Callable[[Tensor], Tensor], inputs: list[Tensor]) -> list[Any]:
    """The layer's graphs, of inputs like these."""
    given = [form(x).detach().requires_grad_(x.requires_grad) for x in inputs]

    def function(*tensors: Tensor) -> Any:
        pairs = zip(tensors, inputs, strict=True)
        # What is viewed back to the sizes that it has is a new tensor for torch all the same.
        same = [t if t.shape == x.shape else t.reshape(x.shape) for t, x in pairs]
        results = layer.function(*same)
        if isinstance(results, torch.Tensor):
            return form(results)
        return type(results)(form(y) if isinstance(y, torch.Tensor) else y for y in results)

    return traced(layer.name, function, given)


def cost(graph: Any) -> tuple[int, float]:
    """Kernels, and the megabytes that they move."""
    reports = reports_of(define(graph), [untouched(each) for each in graph.inputs])
    kernels = [report for report in reports if report["kernel_text"]]
    moved = sum(report["input_bytes"] + report["output_bytes"] for report in kernels)
    return len(kernels), moved / 1e6


def costs(layer: Layer, names: list[str]) -> dict[str, dict[str, tuple[int, float]]]:
    """By graph and form."""
    found: dict[str, dict[str, tuple[int, float]]] = {}
    for name in ("as it is", *names):
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
    forms = [name for name in FORMS if name != "as it is"]
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
            kernels, moved = found.pop("as it is")
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
