# SPDX-License-Identifier: BSD-3-Clause
"""What became of the spellings of a family, for test_spellings.py: run in a process of its own."""

from __future__ import annotations

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
    out: dict[str, dict[str, Any]] = {}
    for spelling_name, spelling in family.spellings.items():
        fd = define(spelling, on_device)
        results = fd.execute(on_device)
        segments = explain(fd, on_device, measure=False).segments
        out[spelling_name] = {
            "kernels": len(segments),
            "bytes": sum(s.input_bytes + s.output_bytes for s in segments),
            "error": error_of(results, [e.detach() for e in expected]),
            "schedulers": [s.scheduler for s in segments],
        }
    return out
