"""Share what every page needs: the watch over the clusters, the refresh interval, banners. The rim to Streamlit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import streamlit as st

from app.tables import link, table
from app.watch import Watch
from mirror.config.given import settings_of
from mirror.config.settings import Settings
from mirror.lag.inspector import Inspector
from mirror.lag.rows import LagRow, Snapshot

NUMBERS = {
    name: st.column_config.NumberColumn(name, format="localized", width=100) for name in ("Lag", "Offset", "Log end")
} | {name: st.column_config.NumberColumn(name, format="%.1f") for name in ("Time lag s", "Records/s")}
TIMEOUT_S = 5.0
REFRESH = {"2 s": 2, "5 s": 5, "15 s": 15, "60 s": 60, "off": None}


@st.cache_resource(show_spinner="Reading the clusters ...")
def settings() -> Settings:
    """Return the settings that the app was started with."""
    return settings_of(sys.argv[1:])


@st.cache_resource(show_spinner="Reading the clusters ...")
def watch() -> Watch:
    """Return the one poller of this process."""
    found = settings()
    return Watch(Inspector(found), every_s=found.mirror.poll_interval_s)


def live(draw: Callable[[Snapshot], None]) -> None:
    """Draw with the newest snapshot now and again at the chosen interval; only this part of the page is drawn again."""
    every = REFRESH[st.session_state.get("refresh") or "5 s"]

    def drawn() -> None:
        snapshot = watch().latest()
        banners(snapshot)
        draw(snapshot)

    st.fragment(drawn, run_every=every)()


@st.cache_data(ttl=2, show_spinner=False)
def exposition(address: str) -> str:
    """Return what an appliance says on /metrics; for all viewers one request each two seconds.

    Raises:
        OSError: it does not answer.
    """
    return settings().mirror.http.read(address, "/metrics", timeout_s=TIMEOUT_S)


def fields(*named: tuple[str, str]) -> None:
    """Draw a text field for each (key, label), its content in the page's address."""
    for column, (key, label) in zip(st.columns(len(named)), named, strict=True):
        column.text_input(label, key=key, bind="query-params")


def field(key: str) -> str:
    """Return what a field holds."""
    return str(st.session_state.get(key) or "")


def explained(rows: Sequence[LagRow], *, alt: str) -> None:
    """Draw rows as a table with a link to the reason for each."""
    frame = table(rows)
    frame.insert(1, "Details", [link("partition", row) for row in rows])
    details = st.column_config.LinkColumn("Details", display_text="why?")
    st.dataframe(frame, hide_index=True, column_config={"Details": details, **NUMBERS}, placeholder="unknown", alt=alt)


def banners(snapshot: Snapshot) -> None:
    """Say how old the numbers are, and what is missing from them."""
    now_s = time.time()
    for sentence in watch().trouble(snapshot, now_s):
        st.warning(plain(sentence), icon=":material/warning:")
    st.caption(f"Read {now_s - snapshot.time_s:.0f} s ago, every {watch().every_s:g} s; this page only reads.")


def plain(text: str) -> str:
    """Return a text that Markdown leaves as it is: ids are chosen by strangers."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]()<>#+-.!|$:~" else char for char in text)
