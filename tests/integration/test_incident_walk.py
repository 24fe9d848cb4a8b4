"""From the pager to the cause: a real stall, the alert that it fires, and the inspector behind its link, in a real Chromium."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.integration.incident import Watched, watched
from tests.integration.inspector import SOON_MS, launched, needs_chromium, visit

pytestmark = [
    pytest.mark.kafka,
    needs_chromium,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus (Debian: prometheus) is not installed"),
]
STALLED = "payments"


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Iterator[Watched]:
    with watched(tmp_path_factory.mktemp("incident"), pace=60) as scene:
        yield scene


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with launched() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(SOON_MS)
        yield page


def shows(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.get_by_text(text).first).to_be_visible(timeout=SOON_MS)


def test_an_on_call_finds_the_cause_from_the_alert_and_sees_it_end(scene: Watched, page: Page):
    headline = page.get_by_role("heading", level=1)
    visit(page, scene.inspector)
    expect(headline).to_have_text("Both flows are healthy")

    scene.await_end("KafkaMirrorStalled", within_s=60)  # a first window that was slow to end
    shows(page, "All 8 partitions are OK.")
    expect(page.locator(":is(.ill, .warn):not(rect)")).to_have_count(0)  # columns of the last hour are the past
    assert page.get_by_test_id("stMain").evaluate("main => main.scrollHeight <= main.clientHeight"), "one screen"
    scene.refuse(STALLED)
    alert = scene.await_alert("KafkaMirrorStalled", within_s=120)
    assert alert.inspector.startswith(
        f"{scene.inspector}/partitions?source=primary&target=backup&topic=primary.{STALLED}"
    )

    # What is on the wall has turned by itself.
    expect(page.get_by_role("heading", level=1)).to_have_text(
        re.compile(r"^primary->backup is stalled: records are waiting")
    )
    shows(page, re.compile("KafkaMirrorStalled"))

    # The pager's link: the topic's rows, the worst first; the first of them explains itself.
    visit(page, alert.inspector)
    shows(page, re.compile(r"^2 of \d+ rows$"))
    box = page.get_by_test_id("stDataFrame").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 18, box["y"] + 52)  # the table is drawn on a canvas: the first row's box
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Why? Details of the selected partition").click()
    detail = opened.value
    shows(detail, re.compile(rf"primary->backup: {STALLED}-\d"))
    shows(detail, re.compile("MESSAGE_TOO_LARGE. Raise its max.message.bytes"))
    shows(detail, re.compile("The first unreplicated record was written at"))
    shows(detail, re.compile(rf"kafka-configs.sh .* --entity-name primary.{STALLED} --add-config max.message.bytes="))
    expect(detail.get_by_role("link", name="runbook").first).to_have_attribute(
        "href", re.compile("#kafkamirrorstalled$")
    )
    detail.close()

    # Whether one may fail over is answered with what it would cost.
    visit(page, f"{scene.inspector}/failover")
    shows(page, re.compile(r"Planned switch: NOT READY"))
    shows(page, re.compile(r"If primary is lost now: (WITHIN|BEYOND) OBJECTIVE"))

    scene.accept(STALLED)
    visit(page, scene.inspector)
    expect(headline).to_have_text("Both flows are healthy")
    visit(page, f"{scene.inspector}/incidents?back=1+h")
    shows(page, re.compile("KafkaMirrorStalled primary->backup"))
