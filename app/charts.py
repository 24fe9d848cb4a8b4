"""Draw charts with a text alternative, which Streamlit's own charts lack."""

from __future__ import annotations

from collections.abc import Mapping

import altair
import pandas as pd
import streamlit as st


def lines(frame: pd.DataFrame, *, x: str, x_title: str, y_title: str, description: str) -> None:
    """Draw every column of `frame` except `x` as a line over `x`.

    `description` is the text alternative.
    """
    long = frame.melt(id_vars=x, var_name="line", value_name="value").dropna(subset=["value"])
    kind = "temporal" if pd.api.types.is_datetime64_any_dtype(frame[x]) else "quantitative"
    chart = (
        altair.Chart(long, description=description)
        .mark_line(aria=False, point={"filled": True, "aria": False})
        .encode(
            x=altair.X(x, type=kind, title=x_title),
            y=altair.Y("value", type="quantitative", title=y_title),
            color=altair.Color("line", type="nominal", title=None),
        )
        .configure_axis(aria=False)
        .configure_legend(aria=False, orient="bottom")
    )
    st.altair_chart(chart)


FEW = 12  # up to this number, bars have a fixed width
# Distinguishable by lightness as well as by hue, on light and dark backgrounds.
WAITS = "#c9772e"  # colour of the time lag
TONES = {
    "ill": "#c8323a",
    "warn": "#e09a1a",
    "unknown": "#8a6fc4",
    "idle": "#8f959e",
    "ok": "#2f9e79",
    "pending": "#e09a1a",
}


LATE = 0.1  # share of the chart's width
MARKS = {"pause": "ill", "resumed": "ok", "leader": "unknown", "restart": "idle", "takeover": "idle", "process": "idle"}


def lag_over_time(
    past: pd.DataFrame, marks: pd.DataFrame, *, window_from: pd.Timestamp | None, rule: str, description: str
) -> None:
    """Draw lag and time lag over time, each on its axis, and events as lines.

    The part from `window_from` on is marked; its tooltip is `rule`, the rule of the status.

    Args:
        past: One row per point: time, lag (records), waits (time lag in seconds); NaN if unknown.
        marks: One row per event: time, kind (a kind of MARKS), what.
        window_from: Start of the marked part, None for none.
        rule: Tooltip of the marked part.
        description: The text alternative.
    """
    layers = []
    if window_from is not None and not past.empty:
        span = pd.DataFrame({"from": [window_from], "to": [past["time"].max()], "rule": [rule]})
        mark = altair.Chart(span).mark_rect(aria=False, opacity=0.15, color=TONES["idle"])
        layers.append(mark.encode(x=altair.X("from", type="temporal", title=None), x2="to", tooltip=["rule"]))
    area = altair.Chart(past.dropna(subset=["lag"])).mark_area(
        aria=False, line=True, opacity=0.25, point={"filled": True, "aria": False, "size": 18}
    )
    layers.append(area.encode(x=_time("time"), y=_own_axis("lag", "lag (records)")))
    if not marks.empty:
        # The name of a late event is written before its line, because the chart ends after it.
        late = past["time"].max() - LATE * (past["time"].max() - past["time"].min())
        layers += _marks(marks.assign(is_late=marks["time"] > late))
    waits = altair.Chart(past.dropna(subset=["waits"])).mark_line(aria=False, strokeDash=[6, 3], color=WAITS)
    right = waits.encode(x=_time("time"), y=_own_axis("waits", "time lag (s, dashed)"))
    chart = altair.layer(altair.layer(*layers), right).resolve_scale(y="independent")
    st.altair_chart(chart.properties(description=description, height=240).configure_axis(aria=False))


def _marks(marks: pd.DataFrame) -> list[altair.Chart]:
    tones = list(MARKS.values())
    colour = altair.Color(
        "kind",
        type="nominal",
        legend=None,
        scale=altair.Scale(domain=list(MARKS), range=[TONES[tone] for tone in tones]),
    )
    base = altair.Chart(marks).encode(x=_time("time"), color=colour, tooltip=["time", "kind", "what"])
    rules = base.mark_rule(aria=False, size=2)
    after = base.transform_filter("!datum.is_late").mark_text(aria=False, align="left", dx=4, y=6, fontSize=11)
    before = base.transform_filter("datum.is_late").mark_text(aria=False, align="right", dx=-4, y=6, fontSize=11)
    return [rules, after.encode(text="kind"), before.encode(text="kind")]


def _time(name: str) -> altair.X:
    is_midnight = "hours(datum.value) + minutes(datum.value) == 0"
    format_of = f"seconds(datum.value) ? ':%S' : {is_midnight} ? '%b %d' : '%H:%M'"  # 10:00, not 10 AM
    label = f"timeFormat(datum.value, {format_of})"
    return altair.X(name, type="temporal", title=None, axis=altair.Axis(labelExpr=label))


def _own_axis(name: str, title: str) -> altair.Y:
    axis = altair.Axis(grid=name == "lag")
    return altair.Y(name, type="quantitative", title=title, axis=axis, scale=altair.Scale(zero=True), stack=None)


def timeline(frame: pd.DataFrame, *, description: str) -> None:
    """Draw a bar for each row, by lane and event.

    The columns are lane, what, state, tone, from, to. Bars of the state "pending" are outlined, others are filled.
    """
    shown = frame.assign(line=frame["lane"] + ": " + frame["what"])
    chart = (
        altair.Chart(shown, description=description)
        .mark_bar(aria=False, cornerRadius=2, height=14, minBandSize=3, stroke=TONES["pending"])
        .encode(
            x=_time("from"),
            x2="to",
            y=altair.Y("line", type="nominal", title=None, sort=list(dict.fromkeys(shown["line"]))),
            color=altair.Color(
                "tone", type="nominal", legend=None, scale=altair.Scale(domain=list(TONES), range=list(TONES.values()))
            ),
            fillOpacity=altair.condition("datum.state === 'pending'", altair.value(0.15), altair.value(1.0)),
            strokeWidth=altair.condition("datum.state === 'pending'", altair.value(1.5), altair.value(0.0)),
            tooltip=["lane", "what", "state", "from", "to"],
        )
        .properties(height={"step": 22})
        .configure_axis(aria=False, labelLimit=360)
    )
    st.altair_chart(chart)


def bars(values: Mapping[int, float], *, x_title: str, y_title: str, description: str) -> None:
    """Draw a bar for each key; `description` is the text alternative."""
    frame = pd.DataFrame({"key": list(values), "value": list(values.values())})
    chart = (
        altair.Chart(frame, description=description)
        .mark_bar(aria=False, width={"band": 0.8} if len(values) > FEW else 48)
        .encode(
            x=altair.X("key", type="ordinal", title=x_title, axis=altair.Axis(labelAngle=0, labelOverlap=True)),
            y=altair.Y("value", type="quantitative", title=y_title),
        )
        .properties(height=240)
        .configure_axis(aria=False)
    )
    st.altair_chart(chart)
