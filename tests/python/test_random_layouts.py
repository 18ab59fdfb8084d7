# SPDX-License-Identifier: BSD-3-Clause
"""Small random programs over inputs in any order of memory, against torch: the third generator."""

from __future__ import annotations

import pytest
from helpers import DEVICE, LONG
from layout_generator import Writer, check

COUNT = 250 if LONG else 15  # programs of a test


@pytest.mark.parametrize(
    "machine", [pytest.param(m, marks=pytest.mark.machine(m)) for m in ("host", "h200")]
)
@pytest.mark.parametrize("first", range(0, 4000, 500))
def test_programs_equal_torch(first: int, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVFUSER_TEST_NO_FALLBACKS", "1")
    found = {seed: check(seed, str(DEVICE)) for seed in range(first, first + COUNT)}
    assert {seed: wrong for seed, wrong in found.items() if wrong is not None} == {}


def test_the_generator_repeats_itself() -> None:
    for seed in range(20):
        a, b = Writer(seed, str(DEVICE)).write(), Writer(seed, str(DEVICE)).write()
        assert a.steps == b.steps
        assert repr(a.definition) == repr(b.definition)


def test_the_check_finds_an_element_out_of_place(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Writer.write

    def miswritten(self: Writer) -> object:
        program = write(self)
        program.expected[0] = program.expected[0] + 0.25
        return program

    monkeypatch.setattr(Writer, "write", miswritten)
    assert "elements (first call)" in (check(3, str(DEVICE)) or "")
