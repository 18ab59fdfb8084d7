# SPDX-License-Identifier: BSD-3-Clause
"""Random graphs by seed, compared with torch, with an error bound per element.

    python -m graph_generator --count 2000 --device cuda --workers 16        (in tests/python)

The "pointwise" mix has elementwise and shape ops, the "reduction" mix also reductions, patterns of
normalizations, scans and lookups, the "sizes" mix also what depends on sizes.

A graph is data (inputs, nodes, outputs). Its text is a Python definition that is executed to build
the fusion and printed when it fails, so the script is what ran. The reference is evaluated in
float64 together with a bound on the rounding error that a correct kernel may have; ops that jump
(comparisons, floor, casts to int) are only put where that bound is zero.

model.py     what a graph is, its text and its reference
ops.py       the ops: text, reference, error bound
draw.py      draws graphs
sizes.py     and what depends on sizes
mixes.py     the mixes by name
check.py     one graph: the fusion against the reference
shrink.py    smaller graphs that still fail
workers.py   many graphs, in processes of their own, so that a crash is a result
"""

from __future__ import annotations

from .mixes import MIXES, generate
from .shrink import shrink, smaller, without_dead_code
from .workers import run_seeds

__all__ = ["MIXES", "generate", "run_seeds", "shrink", "smaller", "without_dead_code"]
