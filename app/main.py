"""Combine the lag inspector's pages.

`kafka-mirror app FILE...` starts this module, with the files as the last arguments.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import failover, fleet, glossary, groups, health, incidents, overview, partition, partitions, topics
from app.inspection import mirrors
from app.session import REFRESH, choose_mirror, dense

st.set_page_config(
    page_title="kafka-mirror: lag inspector", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide"
)
is_fleet = len(mirrors()) > 1
of_fleet = st.Page(fleet.page, title="Fleet", url_path="fleet", icon=":material/apps:", default=True)
pages = [
    *([of_fleet] if is_fleet else []),
    st.Page(overview.page, title="Overview", url_path="overview", icon=":material/monitoring:", default=not is_fleet),
    st.Page(partitions.page, title="Partitions", url_path="partitions", icon=":material/table_rows:"),
    st.Page(topics.page, title="Topics", url_path="topics", icon=":material/bar_chart:"),
    st.Page(partition.page, title="Partition", url_path="partition", visibility="hidden"),  # links of rows open it
    st.Page(groups.page, title="Groups", url_path="groups", icon=":material/group:"),
    st.Page(failover.page, title="Failover", url_path="failover", icon=":material/swap_horiz:"),
    st.Page(health.page, title="Health", url_path="health", icon=":material/vital_signs:"),
    st.Page(incidents.page, title="Incidents", url_path="incidents", icon=":material/history:"),
    st.Page(glossary.page, title="Glossary", url_path="glossary", icon=":material/menu_book:"),
]
chosen = st.navigation(pages, position="top")
dense()
# The page appears above the interval's selection box, but is drawn after it, because it needs the interval.
body = st.container(gap="xsmall")
if is_fleet and chosen is not of_fleet:
    with body:
        choose_mirror()
st.selectbox("Refresh", list(REFRESH), index=1, key="refresh", bind="query-params", width=140)
with body:
    chosen.run()
