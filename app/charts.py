"""Draw charts with a text alternative, which Streamlit's own charts lack."""

from __future__ import annotations

from collections.abc import Mapping

import altair
import pandas as pd
import streamlit as st


def lines(frame: pd.DataFrame, *, x: str, x_title: str, y_title: str, description: str) -> None:
    """Draw every column of `frame` but `x` as a line over `x`.

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


FEW = 12  # up to this many bars have a fixed width
# Distinguishable by lightness as well as by hue, on light and dark backgrounds.
TONES = {"ill": "#c8323a", "warn": "#e09a1a", "unknown": "#8a6fc4", "idle": "#8f959e", "ok": "#2f9e79"}


def lag_over_time(frame: pd.DataFrame, *, window_from: pd.Timestamp | None, rule: str, description: str) -> None:
    """Draw lag (columns time, lag) over time.

    Mark the part from `window_from` with the rule of the status.
    """
    drawn = (
        altair.Chart(frame)
        .mark_area(aria=False, line=True, opacity=0.25, point={"filled": True, "aria": False, "size": 18})
        .encode(
            x=altair.X("time", type="temporal", title=None),
            y=altair.Y("lag", type="quantitative", title="lag (records)", scale=altair.Scale(zero=True)),
        )
    )
    layers = [drawn]
    if window_from is not None and not frame.empty:
        span = pd.DataFrame({"from": [window_from], "to": [frame["time"].max()], "rule": [rule]})
        mark = altair.Chart(span).mark_rect(aria=False, opacity=0.15, color=TONES["warn"])
        layers.insert(0, mark.encode(x=altair.X("from", type="temporal", title=None), x2="to", tooltip=["rule"]))
    chart = altair.layer(*layers).properties(description=description, height=240).configure_axis(aria=False)
    st.altair_chart(chart)


def timeline(frame: pd.DataFrame, *, description: str) -> None:
    """Draw a bar for each row (lane, what, tone, from, to), by lane and event."""
    shown = frame.assign(line=frame["lane"] + ": " + frame["what"])
    chart = (
        altair.Chart(shown, description=description)
        .mark_bar(aria=False, cornerRadius=2, height=14, minBandSize=3)
        .encode(
            x=altair.X("from", type="temporal", title=None),
            x2="to",
            y=altair.Y("line", type="nominal", title=None, sort=list(dict.fromkeys(shown["line"]))),
            color=altair.Color(
                "tone", type="nominal", legend=None, scale=altair.Scale(domain=list(TONES), range=list(TONES.values()))
            ),
            tooltip=["lane", "what", "from", "to"],
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
