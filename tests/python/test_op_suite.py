# SPDX-License-Identifier: BSD-3-Clause
"""Every op of `fd.ops` x dtype x shape class equals torch, and refuses what it must (section 2).

The rows are in op_infos.py (elementwise ops) and the files beside it. Samples of one dtype and
shape class share fusions, because a kernel costs more to compile than to run.
"""

from __future__ import annotations

import re

import pytest
import torch
from helpers import LONG, supported_on_device
from nvfuse_direct import FusionDefinition, reference
from op_infos import (
    ALL_DTYPES,
    SHAPES,
    BadCall,
    OpInfo,
    Sample,
    check_samples,
    elementwise_infos,
    mixed_infos,
)
from op_infos_library import library_infos
from op_infos_tensors import tensor_infos

INFOS: list[OpInfo] = [
    *elementwise_infos(),
    *mixed_infos(),
    *tensor_infos(),
    *library_infos(),
]
FAMILIES = tuple(dict.fromkeys(info.family for info in INFOS))
EXISTING = set(dir(FusionDefinition().ops))


def samples_of(family: str, dtype: str, shape: str) -> list[Sample]:
    return [
        sample
        for info in INFOS
        if info.family == family and dtype in info.dtypes
        for sample in info.samples(dtype, shape)
    ]


def declarations(family: str, dtype: str, shape: str) -> list[bool]:
    """Static sizes or not: both for Float and in long mode, where every class is tested.

    Else other dtypes have `matrix` and every second class of elementwise ops (whose dtypes
    test_ops_differential.py has too), every fourth of the others; every other one is static.
    """
    if LONG or dtype == "Float":
        return [False, True]
    number = ALL_DTYPES.index(dtype) + list(SHAPES).index(shape) + FAMILIES.index(family)
    period = 2 if family in ("unary", "broadcasting") else 4
    return [number // period % 2 == 0] if shape == "matrix" or number % period == 0 else []


CASES = [
    (family, dtype, shape)
    for family in FAMILIES
    for dtype in ALL_DTYPES
    for shape in SHAPES
    if supported_on_device(dtype)
    and declarations(family, dtype, shape)
    and samples_of(family, dtype, shape)
]


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is evaluated by torch instead of by a kernel, as nothing of these families may be."""
    texts: list[str] = []

    class Recorder(reference.Evaluator):
        def run(self) -> list[torch.Tensor]:
            texts.append(str(self.fusion))
            return super().run()

    monkeypatch.setattr(reference, "Evaluator", Recorder)
    return texts


@pytest.mark.parametrize(("family", "dtype", "shape"), CASES, ids=str)
def test_equals_torch(family: str, dtype: str, shape: str, evaluated: list[str]) -> None:
    for static in declarations(family, dtype, shape):
        check_samples(samples_of(family, dtype, shape), static)
    assert not evaluated or family.startswith("library"), "no kernel for\n" + "\n".join(evaluated)


def test_every_op_has_a_row() -> None:
    ops = {name for name in EXISTING if not name.startswith("_")}
    assert sorted(ops - {info.name for info in INFOS}) == []


BAD_CALLS = [
    pytest.param(info, bad, id=f"{info.name}: {bad.label}") for info in INFOS for bad in info.errors
]


@pytest.mark.parametrize(("info", "bad"), BAD_CALLS)
def test_refuses(info: OpInfo, bad: BadCall) -> None:
    with FusionDefinition() as fd, pytest.raises(bad.error) as caught:
        bad.build(fd)
    text = str(caught.value)
    assert re.search(bad.message, text), text
    assert not re.search(r"internal|assert|compiler error", text, re.IGNORECASE), text


@pytest.mark.parametrize("info", [info for info in INFOS if info.refused], ids=lambda i: i.name)
def test_refuses_dtypes(info: OpInfo) -> None:
    """Every dtype that the op does not take is refused while defining, by name."""
    accepted = []
    for dtype in info.refused:
        with FusionDefinition() as fd:
            try:
                info.refuse(fd, dtype)
            except RuntimeError as error:
                assert info.name in str(error) or "cast" in str(error), str(error)
            else:
                accepted.append(dtype)
    assert not accepted, f"{info.name} takes {accepted} without a sample"
