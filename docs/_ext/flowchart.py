"""A small part of Mermaid's flowcharts, drawn as SVG while the site is built: no script and no network.

It knows ``flowchart TD``, nodes ``name["title<br/>more"]`` and chains ``a --> b --> c``. Each node stands one row
below the last that leads to it.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from html import escape
from itertools import pairwise

_NODE = re.compile(r'(\w+)(?:\["(.*?)"\])?')
_WIDTH, _GAP_X, _GAP_Y, _LINE, _PADDING = 176, 14, 30, 15, 9


def draw_flowchart(text: str) -> str:
    """Return the flowchart as an SVG element in the colours of the page."""
    titles, edges = _read(text)
    rows = _rows(titles, edges)
    places = _places(rows, titles)
    width = max(len(row) for row in rows) * (_WIDTH + _GAP_X) - _GAP_X
    height = max(y + _height(titles[name]) for name, (_, y) in places.items())
    arrows = "".join(_arrow(places, titles, start, end) for start, end in edges)
    boxes = "".join(_box(titles[name], *place) for name, place in places.items())
    head = '<marker id="flow-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head += '<path d="M0 0 8 4 0 8z" fill="currentColor"/></marker>'
    return (
        f'<svg class="flowchart" viewBox="-2 -2 {width + 4} {height + 4}" role="img" aria-label="Flowchart">'
        f"<defs>{head}</defs>{arrows}{boxes}</svg>"
    )


def _read(text: str) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Return the lines of each node by its name, and who leads to whom."""
    titles: dict[str, list[str]] = {}
    edges = []
    for line in text.splitlines():
        if "-->" not in line:
            continue
        chain = []
        for part in line.split("-->"):
            found = _NODE.search(part)
            assert found is not None, line
            chain.append(found[1])
            if found[2] or found[1] not in titles:
                titles[found[1]] = (found[2] or found[1]).split("<br/>")
        edges += pairwise(chain)
    return titles, edges


def _rows(titles: dict[str, list[str]], edges: list[tuple[str, str]]) -> list[list[str]]:
    """Return the nodes of each row; those without a predecessor stand just above the first that they lead to."""
    before = {name: {start for start, end in edges if end == name} for name in titles}
    rank: dict[str, int] = {}
    order = list(TopologicalSorter(before).static_order())
    for name in order:
        rank[name] = max((rank[each] + 1 for each in before[name]), default=0)
    for name in reversed(order):
        if not before[name]:
            rank[name] = max(0, min((rank[end] for start, end in edges if start == name), default=1) - 1)
    return [[name for name in titles if rank[name] == row] for row in range(max(rank.values()) + 1)]


def _places(rows: list[list[str]], titles: dict[str, list[str]]) -> dict[str, tuple[float, float]]:
    """Return the upper left corner of each node; rows are centred."""
    widest = max(len(row) for row in rows)
    places, y = {}, 0.0
    for row in rows:
        x = (widest - len(row)) * (_WIDTH + _GAP_X) / 2
        for number, name in enumerate(row):
            places[name] = (x + number * (_WIDTH + _GAP_X), y)
        y += max(_height(titles[name]) for name in row) + _GAP_Y
    return places


def _height(lines: list[str]) -> int:
    return len(lines) * _LINE + 2 * _PADDING


def _box(lines: list[str], x: float, y: float) -> str:
    frame = f'<rect class="flow-box" x="{x}" y="{y:g}" width="{_WIDTH}" height="{_height(lines)}" rx="5"/>'
    words = "".join(
        f'<text class="{"flow-more" if number else "flow-title"}" x="{x + _WIDTH / 2}" '
        f'y="{y + _PADDING + (number + 0.8) * _LINE:g}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return frame + words


def _arrow(places: dict[str, tuple[float, float]], titles: dict[str, list[str]], start: str, end: str) -> str:
    x1, y1 = places[start][0] + _WIDTH / 2, places[start][1] + _height(titles[start])
    x2, y2 = places[end][0] + _WIDTH / 2, places[end][1] - 2
    bend = _GAP_Y * 0.7
    path = f"M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
    return f'<path class="flow-arrow" d="{path}" marker-end="url(#flow-head)"/>'
