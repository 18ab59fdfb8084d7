# SPDX-License-Identifier: BSD-3-Clause
"""The mixes of ops that graphs are drawn from, by name."""

from __future__ import annotations

from .draw import Generator, ReducingGenerator
from .model import Graph
from .sizes import SizesGenerator

MIXES: dict[str, type[Generator]] = {
    "pointwise": Generator,
    "reduction": ReducingGenerator,
    "sizes": SizesGenerator,
}


def generate(seed: int, mix: str = "pointwise") -> Graph:
    return MIXES[mix](seed).build()
