# SPDX-License-Identifier: BSD-3-Clause
"""The README's examples run as they stand, and what it shows is what they give."""

from __future__ import annotations

import re
from pathlib import Path

from nvfuse_direct import FusionDefinition
from processes import run_script

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_examples_run_and_are_right() -> None:
    assert len(EXAMPLES) == 2
    names: dict[str, object] = {}
    for example in EXAMPLES:
        assert "assert_close" in example
        exec(compile(example, "README.md", "exec"), names)


def test_the_kernel_is_that_of_the_first_example() -> None:
    (shown,) = re.findall(r"```cpp\n(.*?)```", README, re.DOTALL)
    script = EXAMPLES[0] + "\nprint(fd.fec.get_cuda_kernel([x, bias]))"
    assert shown in run_script(script, env={"NVFUSER_MACHINE": "h200"}).stdout


def test_operations_that_it_names_exist() -> None:
    (table,) = re.findall(r"\| by torch, in the same plan.*", README)
    row = next(line for line in README.splitlines() if line.endswith(table))
    for name in ("matmul", "linear", "topk", "argsort"):
        assert name in row
    ops = FusionDefinition().ops
    for name in ("matmul", "linear", "grouped_mm", "scaled_mm", "sdpfa_fwd", "topk", "argsort"):
        assert hasattr(ops, name)
