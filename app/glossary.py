"""Page: what each number means, its name in MirrorMaker 2, and a query to copy."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.statuses import MEANING, shown
from metrics.catalogue import CATALOGUE


def page() -> None:
    """Draw the page."""
    st.title("Glossary")
    st.subheader("Statuses", anchor=False)
    for status, meaning in MEANING.items():
        st.write(f"{shown(status)}: {meaning}.")
    st.subheader("Metrics", anchor=False)
    frame = pd.DataFrame(
        [(spec.name, spec.unit, spec.help, spec.mm2 or "-", spec.example) for spec in CATALOGUE],
        columns=["Name", "Unit", "Meaning", "MirrorMaker 2", "Example query"],
    )
    st.dataframe(frame, hide_index=True, alt="Every metric family with its meaning and an example query")
