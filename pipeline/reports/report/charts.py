"""Charts as SVG without a library, so that the page is self-contained, supports dark mode and fits a phone.

A chart is a <figure>: the drawing, a legend, and a collapsible table of its numbers, also for screen readers. Series
differ by colour, dash and marker. Colours come from the page's style sheet: Okabe and Ito's palette, which is safe for
colour-blind readers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 34
MOST_MARKERS = 60  # of a series; longer ones are lines
DASHES = ("", "7 4", "2 3", "9 3 2 3", "4 2")

Number = Callable[[float], str]


@dataclass(frozen=True)
class Point:
    """error: half of an error bar; low, high: of a band; hollow: whether the marker is; note: the tooltip."""

    x: float
    y: float
    error: float = 0.0
    low: float | None = None
    high: float | None = None
    hollow: bool = False
    note: str = ""


Series = Mapping[str, Sequence[Point]]
"""Points by the name of their series."""


@dataclass(frozen=True)
class Chart:
    """A chart with a title and a sentence or two on how to read it.

    series    lines
    stacks    instead of lines: stacked columns, as series of equal x from bottom to top
    levels    horizontal lines: y by name
    y_from    a number that the y axis includes
    """

    title: str
    about: str
    series: Series = field(default_factory=dict)
    stacks: Series = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    x_name: str = "generation"
    y_name: str = ""
    number: Number = "{:.3g}".format
    y_from: float | None = None

    def html(self) -> str:
        """The figure; empty without points. Series without points, and columns of height 0, are left out."""
        drawn = {name: points for name, points in self.series.items() if points}
        drawn |= {name: points for name, points in self.stacks.items() if any(point.y for point in points)}
        if not drawn:
            return ""
        drawing = _columns(self, drawn) if self.stacks else _lines(self, drawn)
        return (
            f'<figure class="chart"><figcaption><h3>{escape(self.title)}</h3><p>{escape(self.about)}</p></figcaption>'
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title)}, chart; its numbers '
            f'are in the table below it">{drawing}</svg>{_legend(drawn, bool(self.stacks))}'
            f"{_table(self, drawn)}</figure>"
        )


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most` + 1 round numbers from low to high, spaced by 1, 2 or 5 times a power of ten."""
    span = max(high - low, 1e-9)
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= most + 1e-9)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


class _Axes:
    def __init__(self, xs: Sequence[float], low: float, high: float, margin: float) -> None:
        self.x_low, self.x_high = min(xs) - margin, max(xs) + margin
        if self.x_high == self.x_low:
            self.x_low, self.x_high = self.x_low - 0.5, self.x_high + 0.5
        room = (high - low) * 0.06 or max(abs(high) * 0.1, 0.5)
        self.low, self.high = low - room, high + room

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - self.x_low) / (self.x_high - self.x_low)

    def y(self, value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - value) / (self.high - self.low)

    def frame(self, chart: Chart) -> str:
        parts = []
        for value in ticks(self.low, self.high):
            y = self.y(value)
            parts.append(f'<path class="rule" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 5}" y="{y:.1f}">{escape(chart.number(value))}</text>')
        for value in ticks(self.x_low, self.x_high, 7):
            if value == int(value):
                parts.append(f'<text class="tick below" x="{self.x(value):.1f}" y="{HEIGHT - 20}">{int(value)}</text>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text class="tick below" x="{middle:.0f}" y="{HEIGHT - 5}">{escape(chart.x_name)}</text>')
        if chart.y_name:
            parts.append(f'<text class="tick label" x="{LEFT + 4}" y="{TOP + 5}">{escape(chart.y_name)}</text>')
        return "".join(parts)


def _lines(chart: Chart, drawn: Series) -> str:
    points = [point for series in drawn.values() for point in series]
    ys = list(chart.levels.values())
    ys += [end for p in points for end in (p.y - p.error, p.y + p.error, p.low, p.high) if end is not None]
    ys += [chart.y_from] if chart.y_from is not None else []
    axes = _Axes([point.x for point in points], min(ys), max(ys), 0)
    parts = [axes.frame(chart)]
    for name, level in chart.levels.items():
        y = axes.y(level)
        parts.append(f'<path class="level" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="tick label" x="{LEFT + 4}" y="{y - 6:.1f}">{escape(name)}</text>')
    parts += [_line(axes, chart, number, name, series) for number, (name, series) in enumerate(drawn.items())]
    return "".join(parts)


def _line(axes: _Axes, chart: Chart, number: int, name: str, points: Sequence[Point]) -> str:
    parts, style = [], f"s{number % len(DASHES)}"
    places = [(axes.x(point.x), axes.y(point.y)) for point in points]
    band = [(axes.x(p.x), axes.y(p.low), axes.y(p.high)) for p in points if p.low is not None and p.high is not None]
    if len(band) > 1:
        upper = "L".join(f"{x:.1f} {high:.1f}" for x, _, high in band)
        lower = "L".join(f"{x:.1f} {low:.1f}" for x, low, _ in reversed(band))
        parts.append(f'<path class="band {style}" d="M{upper}L{lower}Z"/>')
    bars = "".join(
        f"M{x:.1f} {axes.y(point.y - point.error):.1f}V{axes.y(point.y + point.error):.1f}"
        for point, (x, _) in zip(points, places, strict=True)
        if point.error
    )
    if bars:
        parts.append(f'<path class="bars {style}" d="{bars}"/>')
    if len(places) > 1:
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path class="line {style}" stroke-dasharray="{DASHES[number % len(DASHES)]}" d="M{line}"/>')
    if len(places) <= MOST_MARKERS:
        for point, (x, y) in zip(points, places, strict=True):
            hollow = " hollow" if point.hollow else ""
            tooltip = _tooltip(chart, name, point)
            parts.append(f'<path class="marker {style}{hollow}" d="{_marker(number, x, y)}">{tooltip}</path>')
    return "".join(parts)


def _tooltip(chart: Chart, name: str, point: Point) -> str:
    text = point.note or f"{name}, {chart.x_name} {point.x:g}: {chart.number(point.y)}"
    return f"<title>{escape(text)}</title>"


def _marker(number: int, x: float, y: float, size: float = 3.4) -> str:
    """The path of a circle, square, triangle or diamond, in turn."""
    shape = number % 4
    if shape == 0:
        return f"M{x - size:.1f} {y:.1f}a{size} {size} 0 1 0 {2 * size} 0a{size} {size} 0 1 0 {-2 * size} 0Z"
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
        3: ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    }[shape]
    return "M" + "L".join(f"{x + size * dx:.1f} {y + size * dy:.1f}" for dx, dy in corners) + "Z"


def _columns(chart: Chart, drawn: Series) -> str:
    xs = sorted({point.x for points in drawn.values() for point in points})
    distance = min((b - a for a, b in pairwise(xs)), default=1.0)
    heights = dict.fromkeys(xs, 0.0)
    for points in drawn.values():
        for point in points:
            heights[point.x] += point.y
    axes = _Axes(xs, 0.0, max(heights.values()) or 1.0, distance / 2)
    axes.low = 0.0
    parts = [axes.frame(chart)]
    width = max(0.8 * (axes.x(xs[0] + distance) - axes.x(xs[0])), 0.5)
    base = dict.fromkeys(xs, 0.0)
    for number, (name, points) in enumerate(drawn.items()):
        for point in points:
            bottom, top = axes.y(base[point.x]), axes.y(base[point.x] + point.y)
            base[point.x] += point.y
            if bottom - top < 0.05:
                continue
            parts.append(
                f'<rect class="column s{number % len(DASHES)}" x="{axes.x(point.x) - width / 2:.1f}" y="{top:.1f}" '
                f'width="{width:.1f}" height="{bottom - top:.1f}">{_tooltip(chart, name, point)}</rect>'
            )
    return "".join(parts)


def _legend(drawn: Series, stacked: bool) -> str:
    items = []
    for number, name in enumerate(drawn):
        style, dash = f"s{number % len(DASHES)}", DASHES[number % len(DASHES)]
        key = f'<rect class="column {style}" x="4" y="1" width="16" height="10"/>'
        if not stacked:
            key = f'<path class="line {style}" stroke-dasharray="{dash}" d="M0 6H24"/>'
            key += f'<path class="marker {style}" d="{_marker(number, 12, 6)}"/>'
        items.append(f'<li><svg viewBox="0 0 24 12" aria-hidden="true">{key}</svg>{escape(name)}</li>')
    return f'<ul class="legend">{"".join(items)}</ul>'


def _table(chart: Chart, drawn: Series) -> str:
    xs = sorted({point.x for points in drawn.values() for point in points})
    cells = [{point.x: point for point in points} for points in drawn.values()]
    rows = [(f"{x:g}", *(_cell(chart, of_one.get(x)) for of_one in cells)) for x in xs]
    rows += [(name, chart.number(y), *[""] * (len(drawn) - 1)) for name, y in chart.levels.items()]
    return f"<details><summary>Numbers</summary>{table((chart.x_name, *drawn), rows)}</details>"


def _cell(chart: Chart, point: Point | None) -> str:
    if point is None:
        return "–"
    text = chart.number(point.y)
    if point.error:
        return f"{text} ± {chart.number(point.error)}"
    if point.low is not None and point.high is not None:
        return f"{text} ({chart.number(point.low)} to {chart.number(point.high)})"
    return text


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table of text. The first cell of a row is its heading."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
