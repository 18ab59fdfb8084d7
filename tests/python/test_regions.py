# SPDX-License-Identifier: BSD-3-Clause
"""Whole regions of models with their products: a batch of one, against torch one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import DEVICE

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from aten import define, traced
from layers import differing, in_float64
from model_region_cases import MODEL_REGION_LAYERS
from run import relative_error

LOOK = Path(__file__).parents[2] / "benchmarks" / "look.py"


@pytest.mark.machine("h200")
@pytest.mark.parametrize("name", ["conformer_block", "sd3_joint_block", "hiera_block"])
def test_regions(name: str) -> None:
    """Products of odd sizes, operands in parts, masks of lengths, windows."""
    (layer,) = (each for each in MODEL_REGION_LAYERS if each.name == name)
    for graph in traced(name, layer.function, layer.make(torch.device(DEVICE), most=1)):
        got = define(graph).execute(graph.inputs)
        one_by_one = graph.module(*graph.inputs)
        references = in_float64(graph)
        for result, expected, reference in zip(got, one_by_one, references, strict=True):
            error = relative_error if result.is_floating_point() else differing
            assert error(result, reference) <= max(2 * error(expected, reference), 2.0**-6)


@pytest.mark.machine("h200")
@pytest.mark.parametrize("regions", ["regions", "model-regions"])
def test_every_region_is_planned(regions: str) -> None:
    """At the sizes of the models; nothing is run. Some graphs have operations of aten that the
    benchmarks do not write, which differ from version to version of torch."""
    command = [sys.executable, str(LOOK), "--kernels", "--set", regions]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    planned = [line for line in lines if " kernels, " in line]
    reasons = ("'Writer' object has no attribute", "a scatter that adds")
    unwritten = [line for line in lines if any(reason in line for reason in reasons)]
    assert len(planned) > 30
    assert sorted(planned + unwritten) == sorted(lines)
