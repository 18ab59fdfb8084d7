# SPDX-License-Identifier: BSD-3-Clause
"""Line plots as SVG text, with no library: panels side by side, the x axis in powers of two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 330, 220  # of a panel's axes
LEFT, TOP, GAP = 52, 62, 46
COLUMNS = 4
COLOURS = {"ours": "#0b6e4f", "eager": "#9a9a9a", "compile": "#c8553d"}
OTHER_COLOUR = "#3d5a80"


@dataclass
class Series:
    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False

    @property
    def colour(self) -> str:
        return COLOURS.get(self.name.split()[0], OTHER_COLOUR)


@dataclass
class Panel:
    title: str
    series: Sequence[Series]


def _text(x: float, y: float, content: str, anchor: str = "middle", size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(content)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dash: str = "") -> str:
    style = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}"{style}/>'


def _power(exponent: int) -> str:
    """2 to that power, in K where it is one or more."""
    return f"{1 << (exponent - 10)}K" if exponent >= 10 else str(1 << max(exponent, 0))


class _Axes:
    """Places the points of one panel."""

    def __init__(self, x: float, y: float, low: int, high: int, top: float) -> None:
        self.x, self.y, self.low, self.high, self.top = x, y, low, high, top

    def place(self, point: tuple[float, float]) -> tuple[float, float]:
        across = (math.log2(point[0]) - self.low) / (self.high - self.low)
        return self.x + across * WIDTH, self.y + HEIGHT * (1 - point[1] / self.top)

    def frame(self, title: str) -> list[str]:
        parts = [_text(self.x + WIDTH / 2, self.y - 8, title, size=13)]
        for exponent in range(self.low, self.high + 1):
            x, _ = self.place((2.0**exponent, 0))
            parts.append(_line(x, self.y, x, self.y + HEIGHT, "#eeeeee"))
            parts.append(_text(x, self.y + HEIGHT + 15, _power(exponent)))
        for step in range(6):
            value = self.top * step / 5
            _, y = self.place((2.0**self.low, value))
            parts.append(_line(self.x, y, self.x + WIDTH, y, "#eeeeee"))
            parts.append(_text(self.x - 5, y + 4, f"{value:.4g}", "end"))
        return parts

    def draw(self, series: Series) -> list[str]:
        places = [self.place(point) for point in series.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dash = ' stroke-dasharray="5 3"' if series.dashed else ""
        line = f'<polyline points="{path}" fill="none" stroke="{series.colour}"'
        dots = [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{series.colour}"/>' for x, y in places
        ]
        return [f'{line} stroke-width="1.6"{dash}/>', *dots]


def _round_up(value: float) -> float:
    """The next 1, 2, 2.5, 5 or 10 times a power of ten."""
    unit = 10.0 ** math.floor(math.log10(value))
    return next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= value)


def _legend(panels: Sequence[Panel], y: float) -> list[str]:
    names = {series.name: series for panel in panels for series in panel.series}
    parts, x = [], float(LEFT)
    for name, series in names.items():
        dash = "5 3" if series.dashed else ""
        parts += [_line(x, y, x + 24, y, series.colour, dash), _text(x + 30, y + 4, name, "start")]
        x += 52 + 7 * len(name)
    return parts


def line_plot(
    title: str, panels: Sequence[Panel], ceiling: float = 0.0, ceiling_name: str = ""
) -> str:
    """SVG text; `ceiling` is a line across all panels."""
    every = [point for panel in panels for series in panel.series for point in series.points]
    low = math.floor(math.log2(min((x for x, _ in every), default=1)))
    high = max(math.ceil(math.log2(max((x for x, _ in every), default=2))), low + 1)
    top = _round_up(max([y for _, y in every] + [ceiling, 1e-6]))
    columns = min(max(len(panels), 1), COLUMNS)
    lines = math.ceil(len(panels) / columns)
    total_width = columns * (WIDTH + LEFT + 16)
    total_height = TOP + lines * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width}" height="{total_height}" '
        'font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(LEFT, 18, title, "start", 14),
        *_legend(panels, 34),
    ]
    for index, panel in enumerate(panels):
        x = LEFT + (index % columns) * (WIDTH + LEFT + 16)
        y = TOP + (index // columns) * (HEIGHT + GAP)
        axes = _Axes(x, y, low, high, top)
        parts += axes.frame(panel.title)
        if ceiling:
            start, end = axes.place((2.0**low, ceiling)), axes.place((2.0**high, ceiling))
            parts.append(_line(*start, *end, "#444444", "2 3"))
            parts.append(_text(end[0], end[1] - 4, ceiling_name, "end", 10))
        for series in panel.series:
            parts += axes.draw(series)
    return "\n".join([*parts, "</svg>"]) + "\n"
