# SPDX-License-Identifier: BSD-3-Clause
"""Spellings of one computation become the same kernels: as many of them, and as many bytes moved.

Schedules are those for an H200, whatever the machine. The families and their spellings are in the
folder `spellings`; each spelling is compared with torch in float64. One more has the inputs and
results of the first spelling in other sizes, as views.
"""

from __future__ import annotations

import functools
import json
import sys

import pytest
from helpers import ON_CUDA, run_python
from spellings import FAMILIES

PROGRAM = """
import json
from spellings.measure import measure
print(json.dumps(measure({family!r}, {device!r})))
"""


@functools.cache
def measured(family: str) -> dict[str, dict[str, object]]:
    """By spelling: kernels, bytes, the error in float64 and the schedulers."""
    program = PROGRAM.format(family=family, device="cuda" if ON_CUDA else "cpu")
    result = run_python(program, {"NVFUSER_MACHINE": "h200"}, timeout=600)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_there_are_enough() -> None:
    assert len(FAMILIES) >= 26
    for family in FAMILIES.values():
        assert len(family.spellings) >= 6, family.name


@pytest.mark.parametrize("family", FAMILIES)
def test_values(family: str) -> None:
    for name, spelling in measured(family).items():
        assert spelling["error"] <= FAMILIES[family].tolerance, (name, spelling)


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_and_bytes(family: str) -> None:
    cost = {name: (s["kernels"], s["bytes"]) for name, s in measured(family).items()}
    first = next(iter(cost.values()))
    different = {name: each for name, each in cost.items() if each != first}
    assert not different, f"the first has {first}, others {different}"


if __name__ == "__main__":
    for each in sys.argv[1:] or FAMILIES:
        for spelling_name, found in measured(each).items():
            print(each, spelling_name, found)
