# SPDX-License-Identifier: BSD-3-Clause
"""What NVFUSER_DUMP prints and writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from processes import run_script

_SCRIPT = """
import torch
from nvfuse_direct import FusionDefinition
with FusionDefinition() as fd:
    x = fd.define_tensor([-1, -1], contiguity=True)
    y = fd.ops.sin(x)
    fd.add_output(fd.ops.exp(fd.ops.segment_set(y)))
fd.execute([torch.randn(4, 4)])
"""


def dump(option: str, folder: Path) -> str:
    done = run_script(_SCRIPT, env={"NVFUSER_DUMP": option}, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_segments_as_a_graph(tmp_path: Path) -> None:
    assert "PRINTING: segmented_fusion_0.dot" in dump("draw_segmented_fusion", tmp_path)
    text = (tmp_path / "segmented_fusion_0.dot").read_text()
    assert text.startswith("digraph") and "g0 -> g1" in text and "sin" in text


def test_occupancy(tmp_path: Path) -> None:
    assert "Occupancy of nvfuser_pointwise" in dump("occupancy", tmp_path)


def test_scheduler_params(tmp_path: Path) -> None:
    assert "vectorization_factor" in dump("scheduler_params", tmp_path)


@pytest.mark.machine("hopper")
def test_what_lowering_starts_from_and_makes(tmp_path: Path) -> None:
    text = dump("kernel_ir,index_type,compile_params", tmp_path)
    assert "Compile Parameters: index_type = " in text
    assert "Index type: int" in text
    assert re.search(r"FOR .* extent", text) and re.search(r"T\d+\[.*\] = ", text)
