# SPDX-License-Identifier: BSD-3-Clause
"""Random definitions respelled by exact identities: equal values, kernels and bytes moved."""

from __future__ import annotations

import json
import subprocess

import pytest
from graph_generator import MIXES, generate
from graph_generator.identities import IDENTITIES, Respelling
from helpers import LONG, run_python

COUNTS = {"pointwise": (1200, 40), "reduction": (800, 20), "sizes": (200, 10)}

PROGRAM = """
import sys
from graph_generator.identities import main
sys.argv = ["identities", "--count", "{count}", "--mix", "{mix}"]
sys.exit(main())
"""


def respelled(mix: str, count: int) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(count=count, mix=mix)
    return run_python(program, {"NVFUSER_MACHINE": "h200"}, timeout=7200)


@pytest.mark.parametrize("mix", MIXES)
def test_spelling_makes_no_difference(mix: str) -> None:
    count = COUNTS[mix][0 if LONG else 1]
    result = respelled(mix, count)
    assert result.stdout, result.stderr
    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["count"] == count
    assert not summary["failures"], result.stdout


def test_every_identity_is_used() -> None:
    used = set()
    for seed in range(150):
        respelling = Respelling(generate(seed), seed)
        respelling.text()
        used.update(respelling.used)
    assert used == {*IDENTITIES, "again"}
