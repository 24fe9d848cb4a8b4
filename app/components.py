"""Mount custom components from the style sheets and scripts of app/parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

_PARTS = Path(__file__).with_name("parts")


def _read(*names: str) -> str:
    return "\n".join((_PARTS / name).read_text() for name in names)


def _component(name: str, html: str, script: str) -> Any:
    return st.components.v2.component(
        f"kafka_mirror_{name}",
        html=html,
        css=_read("statuses.css", f"{name}.css"),
        js=_read("theme.js", f"{script}.js"),
    )


_ROOT = '<div class="root"></div>'
_flow_bars = _component("flow_bars", _ROOT, "shown_html")
_fleet = _component("fleet", _ROOT, "shown_html")
_heat_map = _component(
    "heat_map",
    '<div class="root"><div class="words"></div><div class="map">'
    '<canvas tabindex="0" role="application"></canvas></div><div class="tip" role="status" hidden></div></div>',
    "heat_map",
)


def flow_bars(html: str) -> None:
    """Show the cards of all flows, from app.flow_bars."""
    _flow_bars(key="flow_bars", data=html)


def fleet(html: str) -> None:
    """Show the flows of several mirrors, from app.fleet_table."""
    _fleet(key="fleet", data=html)


def heat_map(blocks: list[dict[str, Any]], *, legend: str, summary: str) -> None:
    """Show the map of partitions, from app.heat_map."""
    _heat_map(key="heat_map", data={"blocks": blocks, "legend": legend, "summary": summary})
