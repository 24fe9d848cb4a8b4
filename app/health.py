"""Page: what the appliance says of itself."""

from __future__ import annotations

import urllib.request

import pandas as pd
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
    address = settings().mirror.metrics_address
    try:
        frame = _health(address)
    except OSError as error:
        st.warning(f"The appliance does not answer at {plain(address)} ({plain(str(error))}). Lag is read without it.")
        return
    st.dataframe(frame, hide_index=True, alt="What the appliance says of itself, with the meaning of each number")


@st.cache_data(ttl=2, show_spinner=False)
def _health(address: str) -> pd.DataFrame:
    """Return the page's table; for all viewers one request each two seconds."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S) as answer:
        return health_table(answer.read().decode())
