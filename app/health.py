"""Page: what the appliance says of itself."""

from __future__ import annotations

import streamlit as st

from app.session import exposition, live, plain, settings
from app.tables import health_table
from mirror.lag.rows import Snapshot


def page() -> None:
    """Draw the page."""
    st.title("Is the mirror itself well?")
    live(_draw)


def _draw(_: Snapshot) -> None:
    address = settings().mirror.metrics_address
    try:
        text = exposition(address)
    except OSError as error:
        st.warning(f"The appliance does not answer at {plain(address)} ({plain(str(error))}). Lag is read without it.")
        return
    st.dataframe(
        health_table(text), hide_index=True, alt="What the appliance says of itself, with the meaning of each number"
    )
