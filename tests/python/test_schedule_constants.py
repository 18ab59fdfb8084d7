# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of the schedulers: few, and each with its unit and source on one page.

A new number needs a row in docs/measurements/schedule_constants.md, and one that is gone leaves it.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/measurements/schedule_constants.md"
CONSTANT = re.compile(r"constexpr (?:int|int64_t|double|size_t|DomainNumber) (k\w+) = ")
MOST = 63  # half of what there was before schedules had a description of the machine


def constants() -> Counter[tuple[str, str]]:
    """(file, name) of each named number in csrc/scheduler/."""
    return Counter(
        (path.name, name)
        for path in sorted((ROOT / "csrc/scheduler").iterdir())
        for name in CONSTANT.findall(path.read_text())
    )


def listed() -> Counter[tuple[str, str]]:
    """Those of the page: a row has one file for all of its names, or one for each."""
    table = PAGE.read_text().split("| number | where | amount | source |")[1].split("\n\n")[0]
    found: Counter[tuple[str, str]] = Counter()
    for row in table.splitlines()[2:]:
        names, files = (re.findall(r"`([\w.]+)`", cell) for cell in row.split("|")[1:3])
        files = files * len(names) if len(files) == 1 else files
        found.update(zip(files, names, strict=True))
    return found


def test_each_number_has_a_row() -> None:
    assert listed() == constants()


def test_there_are_few() -> None:
    assert 0 < sum(constants().values()) <= MOST
