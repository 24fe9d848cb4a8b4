"""A page that shows the boards without a Grafana: drawn from a real Prometheus' answers, and marked as a preview.

For people who want to see a board before they install anything, and for us: an empty panel, a bad legend or a unit that
does not suit shows here. It is not Grafana: no colours of its own, no zoom.
"""

from __future__ import annotations

import html
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Protocol

from dashboards.boards import boards
from dashboards.grafana import STATUSES
from dashboards.panels import WIDTH, Board, Panel

RANGE_S = 3600.0
POINTS = 120
COLOURS = ("#1f60c4", "#b3490c", "#2b7a2b", "#8f3bb8", "#b0263c", "#0f7a8a", "#7a5c00", "#5a5a5a")
STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 1rem; color: #1b1f24; background: #f4f5f5; }
header, .board > h2 { margin: 0 0 .5rem; } .note { background: #fff3cd; padding: .5rem .75rem; border: 1px solid #d9b84a; }
.grid { display: grid; grid-template-columns: repeat(24, 1fr); gap: 8px; margin-bottom: 2rem; }
.row { grid-column: 1 / -1; font-weight: 600; margin-top: .5rem; }
.panel { background: #fff; border: 1px solid #d8d9da; padding: .5rem; min-width: 0; overflow: hidden; }
.panel h4 { margin: 0; font-size: 13px; } .panel p { margin: 0 0 .25rem; font-size: 11px; color: #55606c; }
.number { font-size: 28px; font-weight: 600; } .empty { color: #55606c; font-style: italic; }
.legend { font-size: 11px; } .legend span { margin-right: .75em; white-space: nowrap; }
table { border-collapse: collapse; font-size: 12px; width: 100%; } th, td { text-align: left; padding: 1px 6px; }
td.value { text-align: right; font-variant-numeric: tabular-nums; } tr:nth-child(even) { background: #f4f5f5; }
svg { width: 100%; height: 120px; display: block; }
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


def filled_in(expr: str) -> str:
    """Return a query with every variable of the boards replaced as Grafana does for All and the last hour."""
    for name in ("source", "target", "topic", "partition", "group"):
        expr = expr.replace(f"${name}", ".+")
    return expr.replace("$__rate_interval", "1m").replace("$__range", "1h")


def _board(server: Answers, board: Board, now_s: float) -> str:
    rows = "".join(
        f'<div class="row">{_text(row.title)}</div>' + "".join(_panel(server, panel, now_s) for panel in row.panels)
        for row in board.rows
    )
    heading = f"<h2>{_text(board.title)}</h2><p>{_text(board.question)}</p>"
    return f'<section class="board" id="{board.uid}">{heading}<div class="grid">{rows}</div></section>'


def _panel(server: Answers, panel: Panel, now_s: float) -> str:
    draw = {"stat": _number, "table": _table, "heatmap": _heatmap, "statuses": _statuses}.get(panel.kind, _lines)
    body = (
        draw(server, panel, now_s)
        or f'<p class="empty">no data{": " + _text(panel.may_be_empty) if panel.may_be_empty else ""}</p>'
    )
    words = f"<h4>{_text(panel.title)}</h4><p>{_text(panel.description)}</p>"
    return f'<div class="panel" style="grid-column: span {min(panel.width, WIDTH)}">{words}{body}</div>'


def _number(server: Answers, panel: Panel, now_s: float) -> str:
    found = server.query(filled_in(panel.queries[0].expr))
    words = {float(value): word for value, word, _ in panel.words}
    numbers = [float(series["value"][1]) for series in found[:1]]
    return "".join(
        f'<div class="number">{_text(words.get(number) or _value(number, panel.unit))}</div>' for number in numbers
    )


def _table(server: Answers, panel: Panel, now_s: float) -> str:
    rows: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for query in panel.queries:
        for series in server.query(filled_in(query.expr)):
            labels = {
                name: value for name, value in series["metric"].items() if name not in (*panel.hidden, "__name__")
            }
            rows.setdefault(tuple(sorted(labels.items())), {})[query.column] = float(series["value"][1])
    if not rows:
        return ""
    names = list(dict.fromkeys(name for key in rows for name, _ in key))
    columns = [query.column for query in panel.queries]
    head = "".join(f"<th>{_text(name)}</th>" for name in (*names, *columns))
    ordered = sorted(rows.items(), key=lambda row: -row[1].get(columns[0], 0.0))
    body = "".join(
        "<tr>"
        + "".join(f"<td>{_text(dict(key).get(name, ''))}</td>" for name in names)
        + "".join(f'<td class="value">{_cell(column, values.get(column), panel.unit)}</td>' for column in columns)
        + "</tr>"
        for key, values in ordered[:20]
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(column: str, value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return STATUSES.get(int(value), ("?", ""))[0] if column == "status" else _value(value, unit)


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
    top = max((value for _, points in series for _, value in points), default=0.0) or 1.0
    paths = "".join(
        f'<path d="{_path(points, now_s, top)}" fill="none" stroke="{COLOURS[at % len(COLOURS)]}" stroke-width="1.5"/>'
        for at, (_, points) in enumerate(series)
    )
    axis = '<line x1="0" y1="119" x2="600" y2="119" stroke="#c7d0d9"/>'
    legend = "".join(
        f'<span style="color: {COLOURS[at % len(COLOURS)]}">■ {_text(name)}: {_value(points[-1][1], panel.unit)}</span>'
        for at, (name, points) in enumerate(series[:12])
    )
    most = f"<span>up to {_value(top, panel.unit)}</span>"
    return f'{_svg(panel, axis + paths)}<div class="legend">{most}{legend}</div>'


def _path(points: list[tuple[float, float]], now_s: float, top: float) -> str:
    """Return an SVG path; where samples are missing for more than three steps, a gap."""
    drawn = []
    breaks = {after[0] for before, after in pairwise(points) if after[0] - before[0] > 3 * RANGE_S / POINTS}
    for number, (at, value) in enumerate(points):
        x, y = 600 * (1 - (now_s - at) / RANGE_S), 118 - 112 * max(0.0, value) / top
        drawn.append(f"{'M' if number == 0 or at in breaks else 'L'}{x:.1f} {y:.1f}")
    return " ".join(drawn) + (" h1" if len(points) == 1 else "")


def _heatmap(server: Answers, panel: Panel, now_s: float) -> str:
    series = sorted(_over_time(server, panel, now_s), key=lambda each: float(each[0].replace("+Inf", "inf")))
    if not series:
        return ""
    below: dict[float, float] = {}
    cells, most = [], 1e-9
    for row, (_, points) in enumerate(series):
        for at, value in points:
            count = max(0.0, value - below.get(at, 0.0))
            below[at] = value
            most = max(most, count)
            cells.append((row, at, count))
    height = 118 / len(series)
    drawn = "".join(
        f'<rect x="{600 * (1 - (now_s - at) / RANGE_S):.1f}" y="{118 - (row + 1) * height:.1f}" width="5" height="{height:.1f}" '
        f'fill="#1f60c4" fill-opacity="{count / most:.2f}"/>'
        for row, at, count in cells
        if count > 0
    )
    legend = f"<span>buckets from below {_text(series[0][0])} s up to {_text(series[-1][0])}</span>"
    return f'{_svg(panel, drawn)}<div class="legend">{legend}</div>'


def _statuses(server: Answers, panel: Panel, now_s: float) -> str:
    series = _over_time(server, panel, now_s)
    if not series:
        return ""
    words = {code: word for code, (word, _) in STATUSES.items()}
    rows = []
    for legend, points in series:
        cells = "".join(
            f'<rect x="{600 * (1 - (now_s - at) / RANGE_S):.1f}" y="0" width="5" height="14" '
            f'fill="{"#2b7a2b" if value == 1 else "#b0263c"}"/>'
            for at, value in points
        )
        strip = f'<svg viewBox="0 0 600 14" style="height: 14px" role="img" aria-label="{_text(legend)}">{cells}</svg>'
        rows.append(f"<tr><td>{_text(legend)}</td><td>{words.get(int(points[-1][1]), '?')}</td><td>{strip}</td></tr>")
    return f"<table>{''.join(rows)}</table>"


def _svg(panel: Panel, inside: str) -> str:
    return f'<svg viewBox="0 0 600 120" preserveAspectRatio="none" role="img" aria-label="{_text(panel.title)}">{inside}</svg>'


def _value(value: float, unit: str) -> str:
    """Return a number as a person says it, with its unit."""
    if unit == "percentunit":
        return f"{value * 100:.4g} %" if abs(value) < 100 else f"{value * 100:,.0f} %"
    if unit in ("s", "ms"):
        return _duration(value / 1000 if unit == "ms" else value)
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
