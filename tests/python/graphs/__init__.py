"""Random graphs by seed, in mixes of ops.

"pointwise" has elementwise and shape ops, "reduction" also reductions, patterns of normalizations,
scans and lookups, "sizes" also what depends on sizes.
"""

from __future__ import annotations

from graphs.draw import Generator, ReducingGenerator
from graphs.model import Graph
from graphs.sizes import SizesGenerator

MIXES: dict[str, type[Generator]] = {
    "pointwise": Generator,
    "reduction": ReducingGenerator,
    "sizes": SizesGenerator,
}


def generate(seed: int, mix: str = "pointwise") -> Graph:
    return MIXES[mix](seed).build()
