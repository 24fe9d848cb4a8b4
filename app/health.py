"""Page: what the appliance says of itself."""

from __future__ import annotations

import urllib.error
import urllib.request

import streamlit as st

from app.session import live, plain, settings
from app.tables import health_table
from mirror.lag.rows import Snapshot

TIMEOUT_S = 5.0


def page() -> None:
    """Draw the page."""
    st.title("Is the mirror itself well?")
    live(_draw)


def _draw(_: Snapshot) -> None:
    host, port = settings().mirror.metrics_listen
    address = f"{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104 - compared, not bound
    try:
        text = _metrics(address)
    except OSError as error:
        st.warning(f"The appliance does not answer at {plain(address)} ({plain(str(error))}). Lag is read without it.")
        return
    st.dataframe(
        health_table(text), hide_index=True, alt="What the appliance says of itself, with the meaning of each number"
    )


@st.cache_data(ttl=2, show_spinner=False)
def _metrics(address: str) -> str:
    """Return the exposition text; for all viewers one request each two seconds."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode())
