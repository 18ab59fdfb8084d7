# SPDX-License-Identifier: BSD-3-Clause
"""Random programs over torch functions: run eagerly, and traced into a fusion at several shapes.

    python -m program_generator --count 100 --seed 0        (in tests/python)

program.py      what a program is: inputs, shapes, layouts, statements, its text
statements.py   draws statements that torch accepts at every shape
templates.py    their kinds
traced.py       torch's tensors over fd.ops
translate.py    runs a program's text on them to define a fusion
shadow.py       the same text in float64 and with rounding noise: how exact a result can be
check.py        one program: the fusion against torch at all its shapes
workers.py      many programs, in processes of their own, so that a crash is a result
"""
