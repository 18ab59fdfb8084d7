# SPDX-License-Identifier: BSD-3-Clause
"""The segments of a fusion as a picture (SVG): boxes with their operations in rows by dependence,
tensors as arrows between them."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

# In pixels; a character of the monospaced font at that size is about so wide.
_FONT_SIZE = 12
_CHARACTER = 7.3
_LINE = 16
_PADDING = 10
_GAP_X = 40
_GAP_Y = 56
_MARGIN = 16
# More operations than this are counted, not listed.
_MOST_ROWS = 24
_MOST_CHARACTERS = 96

_STYLE = f"""
  text {{ font: {_FONT_SIZE}px monospace; fill: #1b2733; }}
  .title {{ font-weight: bold; }}
  .faint {{ fill: #5c6b7a; }}
  rect {{ fill: #f4f8fb; stroke: #7aa5c7; stroke-width: 1.2; }}
  path {{ fill: none; stroke: #7aa5c7; stroke-width: 1.5; marker-end: url(#arrow); }}
  .head {{ fill: #7aa5c7; }}
"""


@dataclass
class Box:
    title: str
    rows: list[str]
    note: str  # shown when the pointer rests on the box
    inputs: list[str]
    outputs: list[str]
    # Where it is drawn.
    x: float = 0
    y: float = 0

    @property
    def lines(self) -> list[str]:
        rows = self.rows[:_MOST_ROWS]
        if len(self.rows) > _MOST_ROWS:
            rows.append(f"... and {len(self.rows) - _MOST_ROWS} more")
        lines = [f"reads {', '.join(self.inputs)}", *rows, f"writes {', '.join(self.outputs)}"]
        return [
            line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 3] + "..."
            for line in lines
        ]

    @property
    def width(self) -> float:
        longest = max(len(line) for line in [self.title, *self.lines])
        return longest * _CHARACTER + 2 * _PADDING

    @property
    def height(self) -> float:
        return (1 + len(self.lines)) * _LINE + 2 * _PADDING


@dataclass
class Edge:
    """From box to box, by their positions."""

    producer: int
    consumer: int
    label: str
    note: str


def _levels(count: int, edges: list[Edge]) -> list[int]:
    """Of each box how many others are before it on the longest way; producers come first."""
    level = [0] * count
    for edge in sorted(edges, key=lambda edge: edge.producer):
        level[edge.consumer] = max(level[edge.consumer], level[edge.producer] + 1)
    return level


def _place(boxes: list[Box], edges: list[Edge]) -> tuple[float, float]:
    """One row for each level, all centred; the size of the picture."""
    rows: dict[int, list[Box]] = {}
    for box, level in zip(boxes, _levels(len(boxes), edges), strict=True):
        rows.setdefault(level, []).append(box)
    widths = {
        level: sum(box.width for box in row) + _GAP_X * (len(row) - 1)
        for level, row in rows.items()
    }
    total = max(widths.values(), default=0) + 2 * _MARGIN
    y: float = _MARGIN
    for level in sorted(rows):
        x = (total - widths[level]) / 2
        for box in rows[level]:
            box.x, box.y = x, y
            x += box.width + _GAP_X
        y += max(box.height for box in rows[level]) + _GAP_Y
    return total, y - _GAP_Y + _MARGIN if rows else 2 * _MARGIN


def _box(box: Box) -> list[str]:
    out = ["<g>", f"<title>{escape(box.note or box.title)}</title>"]
    out.append(
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}"'
        f' height="{box.height:.1f}" rx="5"/>'
    )
    lines = [box.title, *box.lines]
    for i, line in enumerate(lines):
        kind = "title" if i == 0 else "faint" if i in (1, len(lines) - 1) else "row"
        y = box.y + _PADDING + _LINE * (i + 0.75)
        out.append(
            f'<text class="{kind}" x="{box.x + _PADDING:.1f}" y="{y:.1f}"'
            f' xml:space="preserve">{escape(line)}</text>'
        )
    return [*out, "</g>"]


def _edge(edge: Edge, boxes: list[Box], start: float, end: float) -> list[str]:
    """From the lower side of one box to the upper side of the other; `start` and `end` are where
    along these sides, from 0 to 1."""
    a, b = boxes[edge.producer], boxes[edge.consumer]
    x1, y1 = a.x + a.width * start, a.y + a.height
    x2, y2 = b.x + b.width * end, b.y
    bend = max((y2 - y1) / 2, _GAP_Y / 2)
    return [
        "<g>",
        f"<title>{escape(edge.note or edge.label)}</title>",
        f'<path d="M {x1:.1f} {y1:.1f} C {x1:.1f} {y1 + bend:.1f}, {x2:.1f} {y2 - bend:.1f},'
        f' {x2:.1f} {y2 - 4:.1f}"/>',
        f'<text class="label" x="{(x1 + x2) / 2 + 4:.1f}" y="{(y1 + y2) / 2:.1f}">'
        f"{escape(edge.label)}</text>",
        "</g>",
    ]


def draw(boxes: list[Box], edges: list[Edge]) -> str:
    """The text of an SVG file. Boxes must come in an order of dependence."""
    width, height = _place(boxes, edges)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto"><path class="head" d="M 0 0 L 8 4 L 0 8 z"'
        ' style="marker-end: none; stroke: none"/></marker></defs>',
        '<rect width="100%" height="100%" style="fill: white; stroke: none"/>',
    ]
    # Several arrows at a box start and end side by side.
    leaving = [[e for e in edges if e.producer == i] for i in range(len(boxes))]
    arriving = [[e for e in edges if e.consumer == i] for i in range(len(boxes))]
    for edge in edges:
        starts, ends = leaving[edge.producer], arriving[edge.consumer]
        start = (starts.index(edge) + 1) / (len(starts) + 1)
        end = (ends.index(edge) + 1) / (len(ends) + 1)
        out += _edge(edge, boxes, start, end)
    for box in boxes:
        out += _box(box)
    return "\n".join([*out, "</svg>", ""])
