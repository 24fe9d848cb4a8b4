"""Draw charts that a screen reader reads as one sentence: the marks of Streamlit's own have no name."""

from __future__ import annotations

from collections.abc import Mapping

import altair
import pandas as pd
import streamlit as st


def lines(frame: pd.DataFrame, *, x: str, x_title: str, y_title: str, description: str) -> None:
    """Draw every column of `frame` but `x` as a line over `x`; `description` is the chart's text alternative."""
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


def bars(values: Mapping[int, float], *, x_title: str, y_title: str, description: str) -> None:
    """Draw a bar for each key; `description` is the chart's text alternative."""
    frame = pd.DataFrame({"key": list(values), "value": list(values.values())})
    chart = (
        altair.Chart(frame, description=description)
        .mark_bar(aria=False)
        .encode(
            x=altair.X("key", type="ordinal", title=x_title), y=altair.Y("value", type="quantitative", title=y_title)
        )
        .configure_axis(aria=False)
    )
    st.altair_chart(chart)
