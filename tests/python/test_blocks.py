# SPDX-License-Identifier: BSD-3-Clause
"""Transformer blocks, as benchmarks/blocks.py times them, compute what torch does."""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import DEVICE

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))

import block_cases  # noqa: E402
import blocks  # noqa: E402

ON_DEVICE = argparse.Namespace(device=str(DEVICE), small=True)
BY_NAME = {block.name: block for block in block_cases.BLOCKS}


def rows(block: block_cases.Block, **changed: Any) -> list[dict[str, Any]]:
    options = {"device": str(DEVICE), "small": True, "no_peers": True, "plan": False}
    options |= {"recompute": False, "profile": False, "budget": 600.0}
    return blocks.BlockRunner(argparse.Namespace(**options | changed)).rows(block)


@pytest.mark.parametrize("name", BY_NAME)
def test_block_computes_what_torch_does(name: str) -> None:
    """The result and all gradients, with errors like those of eager torch in bf16."""
    forward, backward, both = rows(BY_NAME[name])
    assert list(forward["errors"]) == ["out"]
    assert set(both["errors"]) == {"out", *backward["errors"]}
    assert set(backward["errors"]) == set(blocks.leaves_of(BY_NAME[name]))
    assert both["ours"]["microseconds"] > 0


# Kernels of the forward pass, the backward pass and both, and the MB that torch.compile allocates
# at most on an H100 (docs/measurements/blocks.md).
PLANS = {
    "nanoGPT 768": ((4, 7, 9), (404, 213, 509)),
    "nanoGPT 1600": ((4, 7, 9), (420, 257, 546)),
    "Llama 3 8B": ((6, 6, 10), (571, 554, 857)),
    "Llama 3.2 1B": ((6, 6, 10), (622, 436, 790)),
}


@pytest.mark.skipif(DEVICE.type == "cuda", reason="plans for an H200 are made without one")
@pytest.mark.machine("h200")
@pytest.mark.parametrize("name", BY_NAME)
def test_kernels_and_memory_at_the_sizes_of_the_models(name: str) -> None:
    kernels, most = PLANS[name]
    found = rows(BY_NAME[name], plan=True, small=False)
    assert tuple(row["kernels"] for row in found) == kernels
    for row, megabytes in zip(found, most, strict=True):
        assert row["estimate"] <= (megabytes + 1) * 1e6, row["name"]


def test_results_of_norms_and_activations_are_computed_again() -> None:
    """Then the results of two norms and of an activation are not kept."""
    block = BY_NAME["nanoGPT 768"]
    sizes = block.small
    (*_, row) = rows(block, recompute=True)
    assert "error" not in row, row
    everything = blocks.Ours(block, blocks.tensors_of(block, ON_DEVICE), True, run=False).kept_bytes
    assert everything - row["kept"] == 2 * sizes.batch * sizes.length * (
        2 * sizes.width + sizes.hidden
    )


def test_wrong_results_are_not_timed() -> None:
    def function(tensors: block_cases.Tensors, sizes: Any) -> torch.Tensor:
        x = block_cases.gpt(tensors, sizes)
        return x + 0.05 * x.detach()

    block = BY_NAME["nanoGPT 768"]
    model = dataclasses.replace(block.model, function=function)
    with pytest.raises(ValueError, match="wrong result: out, error"):
        rows(dataclasses.replace(block, model=model))


def test_what_torch_keeps_is_counted() -> None:
    """Nothing is compiled before it is called."""
    block = BY_NAME["Llama 3 8B"]
    calls, facts = blocks.compile_calls(block, blocks.tensors_of(block, ON_DEVICE), True)
    assert set(calls) == {"forward", "backward", "both"}
    assert "attention" in facts["attention"]
    tensor = 2 * block.small.batch * block.small.length * block.small.width
    assert 5 * tensor < facts["kept"] < 40 * tensor


def test_kernels_of_a_block_on_an_h200(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the sizes of the models, with nothing run; written as tables and JSON."""
    monkeypatch.setenv("NVFUSER_MACHINE", "h200")
    command = [sys.executable, FOLDER / "blocks.py", "--plan", "--device", "cpu"]
    command += ["--blocks", "nanoGPT 768", "--out", tmp_path]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    forward, backward, both = json.loads((tmp_path / "blocks.json").read_text())["rows"]
    assert forward["kernels"] == 4
    assert backward["kernels"] <= 8
    assert both["kernels"] < forward["kernels"] + backward["kernels"]
    torch_runs = [s["operations"][-1] for s in forward["segments"] if s["scheduler"] == "torch"]
    assert torch_runs == ["linear", "sdpfa_fwd", "linear", "linear", "linear"]
    assert "nanoGPT 768 backward" in (tmp_path / "blocks.txt").read_text()


def test_tables_of_the_rotation_are_cosine_and_sine() -> None:
    sizes = BY_NAME["Llama 3 8B"].sizes
    tables = block_cases.rope_tables(sizes)
    assert tables["cos"].shape == tables["sin"].shape == (sizes.length, sizes.head)
    squares = tables["cos"].float() ** 2 + tables["sin"].float() ** 2
    torch.testing.assert_close(squares, torch.ones_like(squares), rtol=0.02, atol=0.02)
