"""Draw a page of the boards without a Grafana, from a real Prometheus' answers, and marked as a preview.

For the pictures in the documents, and to look at a board: an empty panel, a bad legend or an unsuitable unit shows here.
Colours, thresholds, units and axes are Grafana's.
"""

from __future__ import annotations

import html
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from dashboards.boards import boards
from dashboards.grafana import LABELS, STATUSES
from dashboards.panels import COUNT, WIDTH, Board, Panel, Query, Row
from dashboards.queries import flows

RANGE_S = 3600.0
POINTS = 120
LINES = (
    "#73bf69",
    "#f2cc0c",
    "#8ab8ff",
    "#ff780a",
    "#f2495c",
    "#5794f2",
    "#b877d9",
    "#705da0",
)  # Grafana's classic palette
NAMED = {
    "green": "#73bf69",
    "yellow": "#fade2a",
    "orange": "#ff9830",
    "red": "#f2495c",
    "purple": "#b877d9",
    "dark-red": "#c4162a",
    "blue": "#5794f2",
}
SHOWN_IN_LEGEND = 8
STYLE = """
body { font: 14px/1.4 Inter, system-ui, sans-serif; margin: 1rem; color: #ccccdc; background: #111217; }
header, .board > h2 { margin: 0 0 .5rem; } a { color: #6e9fff; }
.note { background: #22252b; padding: .5rem .75rem; border-left: 3px solid #ff9830; }
.grid { display: grid; grid-template-columns: repeat(24, 1fr); gap: 8px; margin-bottom: 2rem; }
.row { grid-column: 1 / -1; font-weight: 600; margin-top: .5rem; }
.panel { background: #181b1f; border: 1px solid #2c3235; border-radius: 3px; padding: .5rem; min-width: 0; overflow: hidden; }
.panel h4 { margin: 0; font-size: 13px; } .panel p { margin: 0 0 .25rem; font-size: 11px; color: #a2a2af; }
.number { font-size: 28px; font-weight: 600; text-align: center; } .empty { color: #a2a2af; font-style: italic; }
table { border-collapse: collapse; font-size: 12px; width: 100%; } th, td { text-align: left; padding: 1px 6px; }
td.value, th.value { text-align: right; font-variant-numeric: tabular-nums; } .table tr:nth-child(even) { background: #1f2228; }
.legend { font-size: 11px; } .legend th { font-weight: 400; color: #a2a2af; } .legend td { color: #ccccdc; }
.plot { display: grid; grid-template-columns: max-content 1fr; column-gap: 6px; }
.values { display: flex; flex-direction: column; justify-content: space-between; text-align: right; }
.values, .times { font-size: 10px; color: #a2a2af; } .times { grid-column: 2; display: flex; justify-content: space-between; }
svg { width: 100%; height: 130px; display: block; } path { vector-effect: non-scaling-stroke; }
td.strip { width: 85%; } .strip svg { height: 14px; }
"""


class Answers(Protocol):
    """What is asked of Prometheus."""

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return an instant query's series."""

    def query_range(self, expr: str, *, start_s: float, end_s: float, step_s: float) -> list[dict[str, Any]]:
        """Return a range query's series."""


def preview(server: Answers, shown: Sequence[Board] | None = None, *, now_s: float | None = None) -> str:
    """Return one HTML page with these boards (all of them), their variables chosen as All, over the last hour."""
    shown = boards() if shown is None else shown
    now_s = time.time() if now_s is None else now_s
    when = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    contents = "".join(
        f'<li><a href="#{board.uid}">{_text(board.title)}</a>: {_text(board.question)}</li>' for board in boards()
    )
    listed = f"<ul>{contents}</ul>" if len(shown) > 1 else ""
    drawn = "".join(_board(server, board, now_s) for board in shown)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Kafka mirror: preview of the boards</title>'
        f"<style>{STYLE}</style></head><body><header><h1>Kafka mirror: the boards</h1>"
        f'<p class="note">Preview, not Grafana: the same queries, asked of Prometheus at {when}, drawn plainly.</p>'
        f"{listed}</header><main>{drawn}</main></body></html>\n"
    )


def filled_in(expr: str, **chosen: str) -> str:
    """Return a query with every variable replaced as Grafana does for the last hour; what is not chosen is All."""
    expr = expr.replace("${flow:raw}", chosen.get("flow", 'source=~".+",target=~".+"'))
    for name in ("source", "target", "topic", "partition", "group", "instance"):
        expr = expr.replace(f"${name}", chosen.get(name, ".+"))
    expr = expr.replace("$job", chosen.get("job", ".*kafka-mirror.*"))
    return expr.replace("$__rate_interval", "1m").replace("$__range", "1h")


def _board(server: Answers, board: Board, now_s: float) -> str:
    rows = "".join(
        f'<div class="row">{_text(row.title)}</div>' + "".join(_panel(server, panel, now_s) for panel in row.panels)
        for each in board.rows
        for row in (_of_each_flow(server, each) if each.each_flow else [each])
    )
    heading = f"<h2>{_text(board.title)}</h2><p>{_text(board.question)}</p>"
    return f'<section class="board" id="{board.uid}">{heading}<div class="grid">{rows}</div></section>'


def _of_each_flow(server: Answers, row: Row) -> list[Row]:
    """Return a row once for each flow, as Grafana repeats it: its name in the title, its matchers in the queries."""
    made = []
    for flow in sorted((each["metric"] for each in server.query(filled_in(flows()))), key=lambda each: each["flow"]):
        matchers = f'source="{flow["source"]}",target="{flow["target"]}"'
        panels = [
            replace(
                panel,
                queries=tuple(replace(query, expr=filled_in(query.expr, flow=matchers)) for query in panel.queries),
            )
            for panel in row.panels
        ]
        made.append(Row(row.title.replace("$flow", flow["flow"]), tuple(panels)))
    return made


def _panel(server: Answers, panel: Panel, now_s: float) -> str:
    draw = {"stat": _number, "table": _table, "heatmap": _heatmap, "statuses": _statuses, "timeline": _statuses}.get(
        panel.kind, _lines
    )
    body = (
        draw(server, panel, now_s)
        or f'<p class="empty">no data{": " + _text(panel.may_be_empty) if panel.may_be_empty else ""}</p>'
    )
    words = f"<h4>{_text(panel.title)}</h4><p>{_text(panel.description)}</p>"
    return f'<div class="panel" style="grid-column: span {min(panel.width, WIDTH)}">{words}{body}</div>'


def _number(server: Answers, panel: Panel, now_s: float) -> str:
    found = server.query(filled_in(panel.queries[0].expr))
    words = {float(value): (word, colour) for value, word, colour in panel.words}
    drawn = []
    for number in [float(series["value"][1]) for series in found[:1]]:
        word, colour = words.get(number) or (_value(number, panel.unit), _step(number, panel.steps))
        drawn.append(f'<div class="number" style="color: {NAMED.get(colour, "inherit")}">{_text(word)}</div>')
    return "".join(drawn)


def _step(number: float, steps: Sequence[tuple[float | None, str]]) -> str:
    """Return the colour of the highest step that a number has reached."""
    return next((colour for start, colour in reversed(steps) if start is None or number >= start), "")


def _table(server: Answers, panel: Panel, now_s: float) -> str:
    rows: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for query in panel.queries:
        for series in server.query(filled_in(query.expr)):
            labels = {name: value for name, value in series["metric"].items() if name != "__name__"}
            rows.setdefault(tuple(sorted(labels.items())), {})[query.column] = float(series["value"][1])
    if not rows:
        return ""
    present = list(dict.fromkeys(name for key in rows for name, _ in key))
    names = [name for name in LABELS if name in present] + [name for name in present if name not in LABELS]
    columns = [query.column for query in panel.queries]
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    head += "".join(f'<th class="value">{_text(name)}</th>' for name in columns)
    ordered = sorted(rows.items(), key=lambda row: -row[1].get(columns[0], 0.0))
    body = "".join(
        "<tr>"
        + "".join(f"<td>{_text(dict(key).get(name, ''))}</td>" for name in names)
        + "".join(f'<td class="value">{_cell(query, values.get(query.column))}</td>' for query in panel.queries)
        + "</tr>"
        for key, values in ordered[:20]
    )
    return f'<table class="table"><tr>{head}</tr>{body}</table>'


def _cell(query: Query, value: float | None) -> str:
    if value is None:
        return ""
    if query.column != "status":
        return _value(value, query.unit)
    word, colour = _verdict(value)
    return f'<span style="color: {NAMED.get(colour, "inherit")}">{_text(word)}</span>'


def _verdict(code: float) -> tuple[str, str]:
    """Return a verdict's word and Grafana's name of its colour."""
    return STATUSES.get(int(code), ("?", ""))


def _over_time(server: Answers, panel: Panel, now_s: float) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return (legend, points) of each series; a point that is no number is left out."""
    found = []
    for query in panel.queries:
        for series in server.query_range(
            filled_in(query.expr), start_s=now_s - RANGE_S, end_s=now_s, step_s=RANGE_S / POINTS
        ):
            legend = query.legend
            for name, value in series["metric"].items():
                legend = legend.replace(f"{{{{{name}}}}}", value)
            points = [
                (float(at), float(value)) for at, value in series["values"] if value not in ("NaN", "+Inf", "-Inf")
            ]
            found.append((legend, points))
    return [(legend, points) for legend, points in found if points]


def _lines(server: Answers, panel: Panel, now_s: float) -> str:
    series = _over_time(server, panel, now_s)
    if not series:
        return ""
    colours = [_colour(name, at) for at, (name, _) in enumerate(series)]
    is_stack = panel.kind == "stack"
    drawn = _stacked(series) if is_stack else [points for _, points in series]
    values = [value for points in drawn for _, value in points]
    bottom, top = min(0.0, *values), max(0.0, *values)  # what is below 0 is drawn there
    top = top if top > bottom else bottom + 1.0
    ends = (bottom, top)
    paths = "".join(  # the highest first: what is stacked covers what is behind it
        f'<path d="{_path(points, now_s, ends, is_filled=is_stack)}" stroke="{colour}" stroke-width="1.5" '
        f'fill="{colour if is_stack else "none"}"/>'
        for colour, points in reversed(list(zip(colours, drawn, strict=True)))
    )
    across = "".join(
        f'<path d="M0 {_height(start, ends):.1f} h600" stroke="{NAMED[colour]}" stroke-width="1" stroke-dasharray="6 4"/>'
        for start, colour in panel.steps
        if start is not None and bottom <= start <= top
    )
    legend = "".join(
        f'<tr><td><span style="color: {colour}">━</span> {_text(name)}</td><td class="value">{_value(points[-1][1], panel.unit)}'
        f'</td><td class="value">{_value(max(value for _, value in points), panel.unit)}</td></tr>'
        for colour, (name, points) in list(zip(colours, series, strict=True))[:SHOWN_IN_LEGEND]
    )
    head = '<tr><th></th><th class="value">Last</th><th class="value">Max</th></tr>'
    more = f"<p>and {len(series) - SHOWN_IN_LEGEND} more</p>" if len(series) > SHOWN_IN_LEGEND else ""
    plot = _plot(
        panel, across + paths, [_value(bottom + (top - bottom) * share / 2, panel.unit) for share in (2, 1, 0)], now_s
    )
    return f'{plot}<table class="legend">{head}{legend}</table>{more}'


def _colour(name: str, at: int) -> str:
    """Return a line's colour: that of the verdict that it is called after, or the next one of the palette."""
    of_verdict = {word.lower(): colour for word, colour in STATUSES.values()}
    return NAMED[of_verdict[name]] if name in of_verdict else LINES[at % len(LINES)]


def _stacked(series: list[tuple[str, list[tuple[float, float]]]]) -> list[list[tuple[float, float]]]:
    """Return the points of each series on top of those before it."""
    below: dict[float, float] = {}
    found = []
    for _, points in series:
        for at, value in points:
            below[at] = below.get(at, 0.0) + value
        found.append([(at, below[at]) for at, _ in points])
    return found


def _plot(panel: Panel, inside: str, values: Sequence[str], now_s: float) -> str:
    """Return a drawing with what its heights and its widths mean."""
    times = "".join(
        f"<span>{datetime.fromtimestamp(now_s - RANGE_S * share / 4, UTC):%H:%M}</span>" for share in (4, 3, 2, 1, 0)
    )
    grid = "".join(f'<path d="M0 {y} h600" stroke="#2c3235" stroke-width="1"/>' for y in (6, 62, 118))
    heights = "".join(f"<span>{_text(value)}</span>" for value in values)
    drawing = _svg(panel, grid + inside)
    return f'<div class="plot"><div class="values">{heights}</div>{drawing}<div class="times">{times}</div></div>'


def _height(value: float, ends: tuple[float, float]) -> float:
    """Return where a value is drawn, from the top; `ends` are the least value of the drawing and the largest."""
    bottom, top = ends
    return 118 - 112 * (value - bottom) / (top - bottom)


def _path(
    points: list[tuple[float, float]], now_s: float, ends: tuple[float, float], *, is_filled: bool = False
) -> str:
    """Return an SVG path; where samples are missing for more than three steps, a gap."""
    drawn = []
    breaks = {after[0] for before, after in pairwise(points) if after[0] - before[0] > 3 * RANGE_S / POINTS}
    for number, (at, value) in enumerate(points):
        x, y = 600 * (1 - (now_s - at) / RANGE_S), _height(value, ends)
        drawn.append(f"{'M' if number == 0 or at in breaks else 'L'}{x:.1f} {y:.1f}")
    if is_filled:
        first, last = (600 * (1 - (now_s - at) / RANGE_S) for at in (points[0][0], points[-1][0]))
        drawn.append(f"L{last:.1f} 118 L{first:.1f} 118 Z")
    return " ".join(drawn) + (" h1" if len(points) == 1 else "")


def _heatmap(server: Answers, panel: Panel, now_s: float) -> str:
    cells = list(_cells(server, panel.queries[0], now_s))
    counted = [cell for cell in cells if cell.rate > 0]
    if not cells:
        return ""
    edges = sorted({cell.edge for cell in cells if not counted or cell.edge <= max(cell.edge for cell in counted)})
    rows = {edge: row for row, edge in enumerate(edges)}
    height, most = 118 / len(edges), max((cell.rate for cell in counted), default=1.0)
    drawn = "".join(
        f'<rect x="{600 * (1 - (now_s - cell.at) / RANGE_S):.1f}" y="{118 - (rows[cell.edge] + 1) * height:.1f}" width="5" '
        f'height="{height:.1f}" fill="#5794f2" fill-opacity="{cell.rate / most:.2f}"/>'
        for cell in counted
    )
    return _plot(panel, drawn, ["∞" if edges[-1] == math.inf else _duration(edges[-1]), "0"], now_s)


class _Cell(NamedTuple):
    """How many a second fell into the bucket that ends at `edge`, at a time."""

    edge: float
    at: float
    rate: float


def _cells(server: Answers, query: Query, now_s: float) -> Iterator[_Cell]:
    """Return a histogram's cells. A classic bucket also counts those below it."""
    found = server.query_range(filled_in(query.expr), start_s=now_s - RANGE_S, end_s=now_s, step_s=RANGE_S / POINTS)
    below: dict[float, float] = {}
    for series in sorted(found, key=lambda each: float(each["metric"]["le"])):
        for at, value in series["values"]:
            yield _Cell(float(series["metric"]["le"]), at, max(0.0, float(value) - below.get(at, 0.0)))
            below[at] = float(value)


def _statuses(server: Answers, panel: Panel, now_s: float) -> str:
    series = _over_time(server, panel, now_s)
    if not series:
        return ""
    rows = []
    for legend, points in series:
        cells = "".join(
            f'<rect x="{600 * (1 - (now_s - at) / RANGE_S):.1f}" y="0" width="5" height="14" '
            f'fill="{NAMED.get(_verdict(value)[1], "none")}"/>'
            for at, value in points
        )
        strip = f'<svg viewBox="0 0 600 14" preserveAspectRatio="none" role="img" aria-label="{_text(legend)}">{cells}</svg>'
        rows.append(
            f'<tr><td>{_text(legend)}</td><td>{_verdict(points[-1][1])[0]}</td><td class="strip">{strip}</td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"


def _svg(panel: Panel, inside: str) -> str:
    return f'<svg viewBox="0 0 600 120" preserveAspectRatio="none" role="img" aria-label="{_text(panel.title)}">{inside}</svg>'


def _value(value: float, unit: str) -> str:
    """Return a number as a person says it, with its unit."""
    if unit == "percentunit":
        return f"{value * 100:.4g} %" if abs(value) < 100 else f"{value * 100:,.0f} %"
    if unit in ("s", "ms"):
        return _duration(value / 1000 if unit == "ms" else value)
    if unit == COUNT:
        return f"{value:,.0f}"
    suffix = {"cps": "/s", "Bps": "B/s", "bytes": "B"}.get(unit, "")
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * scale or (abs(value) >= scale and letter != "k"):
            return f"{value / scale:.3g} {letter}{suffix}"
    return f"{value:.4g} {suffix}".strip()


def _duration(seconds: float) -> str:
    for scale, word in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if abs(seconds) >= 2 * scale:
            return f"{seconds / scale:.3g} {word}"
    return f"{seconds:.3g} s" if abs(seconds) >= 1 or seconds == 0 else f"{seconds * 1000:.3g} ms"


def _text(text: object) -> str:
    return html.escape(str(text))
