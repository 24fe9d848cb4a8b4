"""Which format a scraper gets."""

from __future__ import annotations

import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.exporter import serve
from metrics.exposition import Format, negotiated

TEXT, OPENMETRICS = Format.TEXT, Format.OPENMETRICS
MESSAGES = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
OPEN = "application/openmetrics-text"


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", TEXT),  # a browser
        ("text/plain", TEXT),
        ("application/json", TEXT),  # nothing that we have: the text, as every exporter does
        # Prometheus 2.42, without and with native histograms, which come in protocol buffers
        (f"{OPEN};version=1.0.0,{OPEN};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPENMETRICS),
        (
            f"{MESSAGES},{OPEN};version=1.0.0;q=0.8,{OPEN};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            OPENMETRICS,
        ),
        # Prometheus 3
        (
            f"{OPEN};version=1.0.0;escaping=allow-utf-8;q=0.6,{OPEN};version=0.0.1;q=0.5,"
            "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            OPENMETRICS,
        ),
        (f"{MESSAGES};q=0.2,text/plain;version=0.0.4;q=0.5,{OPEN};version=1.0.0;q=0.3", TEXT),
        (f"{OPEN};version=1.0.0;q=0.1,*/*;q=0.5", TEXT),
        (f"{OPEN};q=0,text/plain;q=0.1", TEXT),
        (f"{OPEN};version=1.0.0;q=0,*/*", TEXT),
        (f"{MESSAGES};q=0,{OPEN};q=0.001", OPENMETRICS),
        (f"text/plain,{OPEN}", OPENMETRICS),  # wanted alike: what tells more
        (f"{OPEN};version=2.0.0", TEXT),  # a version that we do not write
        (f"{OPEN.upper()} ; Version = 1.0.0 ; Q=1", OPENMETRICS),
        (f'{OPEN};version="1.0.0"', OPENMETRICS),
        (MESSAGES, TEXT),
        (f"{OPEN};q=much", TEXT),
        (f"{OPEN};q=7", TEXT),
        (",;,=", TEXT),
    ],
)
def test_the_accept_header_decides(accept, wanted):
    assert negotiated(accept) is wanted


@given(st.text())
def test_no_header_is_refused(accept):
    assert negotiated(accept) in Format


@pytest.mark.parametrize(("accept", "wanted"), [("*/*", TEXT), (f"{OPEN};version=1.0.0", OPENMETRICS)])
def test_the_response_names_its_format(accept, wanted):
    with serve(lambda asked: asked.name.encode(), "127.0.0.1", 0, is_ready=lambda: True) as port:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
        with urllib.request.urlopen(asked) as answer:
            assert answer.read() == wanted.name.encode()
            assert answer.headers["Content-Type"] == wanted.value
            assert answer.headers["Vary"] == "Accept"
