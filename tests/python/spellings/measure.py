# SPDX-License-Identifier: BSD-3-Clause
"""What became of the spellings of a family, for test_spellings.py: run in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from nvfuse_direct import FusionDefinition, explain

from .family import FAMILIES, TYPES, Math, Spelling, Tensor


def define(spelling: Spelling, inputs: list[Tensor]) -> FusionDefinition:
    with FusionDefinition() as fd:
        tensors = [
            fd.define_tensor(shape=[-1] * x.dim(), contiguity=True, dtype=TYPES[x.dtype])
            for x in inputs
        ]
        outputs = spelling(Math(fd), *tensors)
        for each in outputs if isinstance(outputs, tuple) else (outputs,):
            fd.add_output(each)
    return fd


def seen(sizes: Sequence[int]) -> list[int]:
    """Others that the same memory can have: one dimension more of size 1, the first and the last
    one in two parts if they are even."""
    out = [n for size in sizes[:1] for n in ([2, size // 2] if size % 2 == 0 else [size])]
    out += sizes[1:-1]
    out += [n for size in sizes[1:][-1:] for n in ([size // 2, 2] if size % 2 == 0 else [size])]
    return [1, *out] if sizes else []


def with_views(spelling: Spelling, inputs: list[Tensor], results: list[Tensor]) -> Spelling:
    """The spelling of inputs that are given in other sizes, with results that are returned so."""

    def viewed(m: Math, *tensors: Any) -> tuple[Any, ...]:
        tensors = tuple(m.reshape(t, x.shape) for t, x in zip(tensors, inputs, strict=True))
        outputs = spelling(m, *tensors)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = zip(outputs, results, strict=True)
        return tuple(m.reshape(t, seen(x.shape)) if x.dim() else t for t, x in pairs)

    return viewed


def error_of(outputs: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference, relative to the largest element that is expected; nan if one is."""
    errors = []
    for out, reference in zip(outputs, expected, strict=True):
        difference = out.double().to(reference.device) - reference
        errors.append(difference.abs().max() / reference.abs().max())
    return float(torch.stack(errors).max())


def measure(name: str, device: str) -> dict[str, dict[str, Any]]:
    family = FAMILIES[name]
    inputs = family.inputs()
    expected = family.reference(*(x.double() for x in inputs))
    expected = expected if isinstance(expected, list) else [expected]
    on_device = [x.to(device) for x in inputs]
    expected = [e.detach() for e in expected]
    definitions = [(*each, on_device) for each in family.spellings.items()]
    in_views = with_views(definitions[0][1], on_device, expected)
    definitions.append(("views", in_views, [x.reshape(seen(x.shape)) for x in on_device]))
    out: dict[str, dict[str, Any]] = {}
    for spelling_name, spelling, given in definitions:
        fd = define(spelling, given)
        results = [y.reshape(e.shape) for y, e in zip(fd.execute(given), expected, strict=True)]
        segments = explain(fd, given, measure=False).segments
        out[spelling_name] = {
            "kernels": len(segments),
            "bytes": sum(s.input_bytes + s.output_bytes for s in segments),
            "error": error_of(results, expected),
            "schedulers": [s.scheduler for s in segments],
        }
    return out
