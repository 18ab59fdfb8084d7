# SPDX-License-Identifier: BSD-3-Clause
"""One graph: its fusion against the reference, value by value within the error bound."""

from __future__ import annotations

import os

import torch

from .model import FLOATS, TORCH, Graph, Tensor, Value

# A kernel that a scheduler promised and lowering refused is replaced by simpler ones; with this
# switch that counts as a failure.
NO_FALLBACKS = bool(os.environ.get("NVFUSER_TEST_NO_FALLBACKS"))


class Mismatch(Exception):
    """The fusion computed something else than torch."""


def check(actual: Tensor, value: Value, what: str) -> None:
    if actual.dtype != TORCH[value.dtype]:
        raise Mismatch(f"{what}: dtype {actual.dtype}, expected {TORCH[value.dtype]}")
    if tuple(actual.shape) != value.sizes:
        raise Mismatch(f"{what}: shape {tuple(actual.shape)}, expected {value.sizes}")
    got = actual.cpu()
    if value.dtype in FLOATS:
        bound = 2 * value.error
        wrong = ~(((got.double() - value.data).abs() <= bound) | (got == value.data))
    elif value.dtype == "ComplexFloat":
        wrong = ~((got.to(torch.complex128) - value.data).abs() <= 4 * value.error)
    else:
        wrong = got != value.data
    if bool(wrong.any()):
        at = tuple(wrong.nonzero()[0].tolist())
        raise Mismatch(
            f"{what}: {int(wrong.sum())} of {wrong.numel()} elements differ, first at {at}: "
            f"{got[at].item()!r}, expected {value.data[at].item()!r}"
        )


def run_graph(graph: Graph, device: torch.device) -> int:
    """Raises `Mismatch`, or whatever the compiler raised. Returns how many kernels were refused."""
    from nvfuse_direct import DataType, FusionDefinition

    scope: dict[str, object] = {"DataType": DataType, "torch": torch}
    exec(graph.definition_text(), scope)
    with FusionDefinition() as fd:
        scope["nvfuser_fusion"](fd)  # type: ignore[operator]
    values = graph.evaluate()
    for repeat in ("first run", "second run"):
        tensors = [each.make(device) for each in graph.inputs]
        copies = [each.clone() for each in tensors]
        outputs = fd.execute([*tensors, *graph.scalars], device=device)
        if NO_FALLBACKS and fd.fec._num_fallbacks:
            notes = [each["note"] for each in fd.fec._most_recent_segment_reports()]
            raise Mismatch(f"{repeat}: a kernel was refused: {notes}")
        if len(outputs) != len(graph.outputs):
            raise Mismatch(f"{len(outputs)} outputs, expected {len(graph.outputs)}")
        for position, (output, number) in enumerate(zip(outputs, graph.outputs, strict=False)):
            check(output, values[number], f"{repeat}: output {position} (t{number})")
        updated = {target: value for value, target in graph.aliases}
        for number, (now, before) in enumerate(zip(tensors, copies, strict=False)):
            if number in updated:
                check(now, values[updated[number]], f"{repeat}: updated input {number}")
            elif not torch.equal(now, before):
                raise Mismatch(f"{repeat}: input {number} was overwritten")
    return fd.fec._num_fallbacks


def failure(graph: Graph, device: torch.device) -> str | None:
    try:
        run_graph(graph, device)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
