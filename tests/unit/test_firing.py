"""Alerts on the pages: what each is about, and where its links lead."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from app.firing import concerns, line, rows_link, silence_link, strip, subject
from metrics.lag_row import LagRow
from mirror.runtime.prometheus import FiringAlert

ROW = LagRow(group="a->b", cluster="a", topic="t", partition=3, offset=1, log_end=2, is_flow=True, remote_topic="a.t")
OF_TOPIC = {"alertname": "KafkaMirrorStalled", "severity": "critical", "source": "a", "target": "b", "topic": "a.t"}


def alert(labels: dict[str, str], **options: str) -> FiringAlert:
    links = {"runbook": "http://wiki/runbook#x", "board": "", "inspector": "", **options}
    return FiringAlert(
        name=labels["alertname"], labels=labels, since="2026-01-02 03:04:05 UTC", summary="It stands still.", **links
    )


@pytest.mark.parametrize(
    ("labels", "is_about"),
    [
        ({}, True),
        ({"source": "a", "target": "b"}, True),
        ({"source": "b", "target": "a"}, False),
        ({"source": "a", "target": "b", "topic": "a.t"}, True),
        ({"source": "a", "target": "b", "topic": "a.other"}, False),
        ({"source": "a", "target": "b", "topic": "a.t", "partition": "3"}, True),
        ({"source": "a", "target": "b", "topic": "a.t", "partition": "4"}, False),
    ],
)
def test_an_alert_is_about_a_row_when_all_that_it_names_is_the_rows(labels, is_about):
    assert concerns(alert({"alertname": "Some", **labels}), ROW) is is_about


def test_a_firing_alert_is_one_line_with_its_time_and_links():
    text = line(alert(OF_TOPIC), ["http://127.0.0.1:9093"])
    assert text.startswith("**KafkaMirrorStalled** a\\-\\>b a\\.t since 2026")
    assert "[rows](/partitions?source=a&target=b&topic=a.t)" in text
    assert "[runbook](http://wiki/runbook#x)" in text
    assert "[board]" not in text  # the rule names none
    assert "[silence](http://127.0.0.1:9093/#/silences/new?filter=" in text
    assert "[silence]" not in line(alert(OF_TOPIC), [])


def test_a_strip_has_the_number_of_alerts_and_the_worst():
    one, warning = alert(OF_TOPIC), alert({"alertname": "Late", "severity": "warning"})
    assert (
        strip([one])
        == ":red[**1 alert is firing: KafkaMirrorStalled**] a\\-\\>b a\\.t since 2026\\-01\\-02 03\\:04\\:05 UTC"
    )
    assert strip([one, warning]).startswith(":red[**2 alerts are firing. Worst: KafkaMirrorStalled**]")
    assert strip([warning]).startswith(":orange[**1 alert is firing: Late**] since")


def test_a_silence_matches_all_labels_of_the_alert():
    address = silence_link("http://am:9093", alert(OF_TOPIC))
    (found,) = parse_qs(urlsplit(address.partition("#")[2]).query)["filter"]
    assert found == '{alertname="KafkaMirrorStalled",severity="critical",source="a",target="b",topic="a.t"}'
    assert r'group="a\"b"' in unquote(silence_link("http://am:9093", alert({"alertname": "Some", "group": 'a"b'})))


def test_an_alert_that_names_no_row_has_no_rows():
    down = alert({"alertname": "KafkaMirrorDown", "severity": "critical"})
    assert (rows_link(down), subject(down)) == ("", "")


def test_alerts_of_two_slots_have_two_subjects():
    of_slot = {"alertname": "Late", "source": "a", "target": "b", "slot": "1"}
    assert subject(alert(of_slot)) == "a->b slot 1"


def test_an_alert_of_a_group_has_its_rows():
    assert rows_link(alert({"alertname": "Some", "source": "a", "target": "b", "group": "g&h"})).endswith("group=g%26h")


def test_a_name_that_strangers_chose_is_text():
    text = line(alert({"alertname": "Some", "source": "a", "target": "b", "topic": "[x](http://evil)"}), [])
    assert "[x](" not in text
