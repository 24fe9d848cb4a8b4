"""Join the lag inspector's pages. Started by `kafka-mirror app FILE`, which hands FILE over as the last argument."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import glossary, groups, health, incidents, lag, overview, partition, topic
from app.session import REFRESH

st.set_page_config(page_title="Kafka mirror: lag", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
pages = [
    st.Page(overview.page, title="Overview", url_path="overview", icon=":material/monitoring:", default=True),
    st.Page(lag.page, title="Lag", url_path="lag", icon=":material/table_rows:"),
    st.Page(topic.page, title="Topic", url_path="topic", icon=":material/bar_chart:"),
    st.Page(partition.page, title="Topic-partition", url_path="partition", icon=":material/search:"),
    st.Page(groups.page, title="Groups and fail-over", url_path="groups", icon=":material/group:"),
    st.Page(health.page, title="Health of the mirror", url_path="health", icon=":material/vital_signs:"),
    st.Page(incidents.page, title="Past incidents", url_path="incidents", icon=":material/history:"),
    st.Page(glossary.page, title="What the numbers mean", url_path="glossary", icon=":material/menu_book:"),
]
chosen = st.navigation(pages)
with st.sidebar:
    st.selectbox("Refresh", list(REFRESH), index=1, key="refresh", bind="query-params")
chosen.run()
