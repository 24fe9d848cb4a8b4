"""The lag inspector in a real Chromium: links that lead there, links away, refresh, exports, strangers' ids, axe."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from mirror.config.load import load
from mirror.embedded.ports import free_port
from tests.certificates import identity
from tests.integration.inspector import PAGES, SETTLED, SOON_MS, launched, needs_chromium, serving, visit
from tests.integration.records import commit, create, rows, write
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.kafka, needs_chromium]
HOSTILE = "<img src=x onerror=alert(1)>"
GROUPS = ("shop", "audit", HOSTILE)


def settings_of(folder: Path, primary, backup, extra: str = "") -> Path:
    file = folder / "connect-mirror-maker.properties"
    file.write_text(
        f"clusters = primary, backup\nprimary.bootstrap.servers = {primary.bootstrap}\n"
        f"backup.bootstrap.servers = {backup.bootstrap}\nprimary->backup.enabled = true\n"
        f"primary->backup.topics = browser-.*\nmirror.metrics.listen = 127.0.0.1:{free_port()}\n"
        f"mirror.state.dir = {folder / 'state'}\nmirror.poll.interval.ms = 1000\n{extra}"
    )
    return file


@pytest.fixture(scope="module")
def app(primary, backup, tmp_path_factory) -> Iterator[str]:
    """The inspector over two clusters with topics and groups, and no appliance: everything is behind."""
    folder = tmp_path_factory.mktemp("app")
    for topic, count in (("browser-orders", 40), ("browser-payments", 70)):
        create(primary, topic)
        write(primary, topic, rows(count))
        create(backup, f"primary.{topic}")
    for number, group in enumerate(GROUPS):
        commit(primary, group, "browser-orders", 10 + number)
    file = settings_of(folder, primary, backup)
    with serving(file, folder / "app.log") as address:
        yield address


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def page(chromium) -> Iterator[Page]:
    """A page that may not speak to anybody else, nor open a dialog."""
    context = chromium.new_context(viewport={"width": 1500, "height": 1000}, accept_downloads=True)
    context.set_default_timeout(SOON_MS)
    opened = context.new_page()
    strangers: list[str] = []
    dialogs: list[str] = []
    opened.on("request", lambda asked: strangers.append(asked.url) if _is_outside(asked.url) else None)
    opened.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    yield opened
    context.close()
    assert strangers == []
    assert dialogs == []


def _is_outside(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:"))


def count_of(page: Page) -> str:
    """The line that says how many rows are shown; the table itself is drawn on a canvas."""
    return page.get_by_text(re.compile(r"^[\d,]+ of [\d,]+ rows$")).inner_text()


def shows(page: Page, text: str) -> None:
    """Wait until a page shows a text; a failure has what the page shows instead."""
    try:
        expect(page.get_by_text(text, exact=False).first).to_be_visible()
    except AssertionError as missing:
        raise AssertionError(f'"{text}" is not on {page.url}, which shows:\n{page.inner_text("body")}') from missing


def test_an_address_chooses_and_choosing_changes_the_address(app, page):
    visit(page, f"{app}/partitions?topic=browser-orders&group=shop")
    shows(page, "1 of ")
    expect(page.get_by_role("combobox", name="Topic", exact=True)).to_have_value("browser-orders")
    page.get_by_role("combobox", name="Group", exact=True).click()
    page.get_by_role("option").first.click()  # none
    page.get_by_role("textbox", name="Search", exact=True).fill("audit")  # filters without Enter
    expect(page).to_have_url(re.compile(r"search=audit"))
    expect(page).not_to_have_url(re.compile(r"group=shop"))
    shows(page, "1 of ")


def test_links_of_boards_and_alerts_land_on_their_row(app, page):
    """Boards link with source, target, topic (the name on the target) and partition."""
    visit(page, f"{app}/partitions?source=primary&target=backup&topic=primary.browser-payments&partition=0")
    shows(page, "1 of ")


def test_links_of_earlier_versions_land_on_their_row(app, page):
    visit(page, f"{app}/lag?source=primary&target=backup&topic=primary.browser-payments&partition=0")
    shows(page, "1 of ")
    expect(page).to_have_url(re.compile(r"/partitions\?.*topic=primary.browser-payments"))
    visit(page, f"{app}/topic?group=shop&topic=browser-orders")
    expect(page).to_have_url(re.compile(r"/topics\?"))
    shows(page, "shop: browser-orders on primary")
    visit(page, f"{app}/overview")
    shows(page, "This page is read-only.")
    expect(page.get_by_text("Page not found")).to_have_count(0)


def test_a_group_shows_the_command_that_prints_its_offsets(app, page):
    visit(page, f"{app}/groups?group=shop")
    shows(page, "kafka-mirror translate connect-mirror-maker.properties 'primary->backup' --group shop")


def test_a_partition_explains_its_status(app, page):
    visit(page, f"{app}/partition?group=shop&cluster=primary&topic=browser-orders&partition=0")
    shows(page, "shop: browser-orders-0")
    shows(page, "Why:")
    shows(page, "Marked: the polls")
    page.get_by_role("textbox", name="Group", exact=True).fill("audit")
    page.get_by_role("textbox", name="Group", exact=True).press("Enter")
    shows(page, "audit: browser-orders-0")
    expect(page).to_have_url(re.compile(r"group=audit"))


def test_a_refresh_keeps_filters_and_choice(app, page):
    visit(page, f"{app}/partitions?topic=browser-orders&refresh=2+s")
    shows(page, "rows")
    before = count_of(page)
    table = page.get_by_test_id("stDataFrame")
    box = table.bounding_box()
    page.mouse.click(box["x"] + 18, box["y"] + 52)  # the first row's box
    shows(page, "Why? Details of the selected partition")
    time.sleep(5)  # two refreshes
    shows(page, "Why? Details of the selected partition")
    assert count_of(page) == before


def test_the_exports_hold_what_is_shown(app, page):
    visit(page, f"{app}/partitions?group=shop")
    shows(page, "1 of ")
    found = {}
    for button in ("CSV", "JSON", "Text"):
        with page.expect_download() as download:
            page.get_by_role("button", name=button, exact=True).click()
        found[button] = Path(download.value.path()).read_text()
    (row,) = json.loads(found["JSON"])["rows"]
    assert (row["group"], row["topic"], row["offset"], row["lag"]) == ("shop", "browser-orders", 10, 30)
    assert "shop,primary,browser-orders,0,10,40" in found["CSV"]
    assert found["Text"].splitlines()[1].split() == ["shop", "browser-orders", "0", "10", "40", "30", "none"]


def test_a_strangers_group_id_is_text(app, page):
    visit(page, f"{app}/partitions?search=%3Cimg")
    shows(page, "1 of ")
    visit(page, f"{app}/partition?group=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&topic=browser-orders&partition=0")
    shows(page, HOSTILE)
    assert page.locator("img[src='x']").count() == 0


def test_the_keyboard_reaches_every_filter(app, page):
    visit(page, f"{app}/partitions")
    shows(page, "rows")

    def reached() -> set[str]:
        page.get_by_role("heading", level=1).click()  # where the walk begins
        found = set()
        for _ in range(20):
            page.keyboard.press("Tab")
            found.add(
                page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText")
            )
        return found

    # A busy machine may draw the page again under the walk.
    eventually(
        lambda: {"Group", "Topic", "Partition", "Search"} <= reached(), within_s=30, because="Tab reaches them all"
    )


def faults_of(page: Page) -> list[tuple[str, list[str]]]:
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
    found = Axe().run(page, options=options).response["violations"]
    return [(each["id"], [node["html"][:150] for node in each["nodes"]]) for each in found]


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_fault_of_wcag_a_or_aa(app, chromium, name, scheme):
    context = chromium.new_context(color_scheme=scheme, viewport={"width": 1500, "height": 1000})
    context.set_default_timeout(SOON_MS)
    page = context.new_page()
    query = "&group=shop&topic=browser-orders&partition=0" if name in ("topics", "partition") else ""
    visit(page, f"{app}/{name}?refresh=off{query}")
    page.wait_for_function(SETTLED)
    found = faults_of(page)
    context.close()
    assert found == []


@pytest.mark.usefixtures("app")  # it creates the topics
def test_a_fleet_opens_the_pages_of_each_mirror(chromium, primary, backup, tmp_path):
    """Two settings files of one directory: the first page has both, and a line opens the pages of its file."""
    for name, topics in (("eu", "browser-orders"), ("us", "browser-payments")):
        folder = tmp_path / name
        folder.mkdir()
        file = settings_of(folder, primary, backup)
        (tmp_path / f"{name}.properties").write_text(file.read_text().replace("browser-.*", topics))
    with serving(tmp_path / "eu.properties", tmp_path / "app.log", others=[tmp_path / "us.properties"]) as address:
        page = chromium.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(SOON_MS)
        visit(page, address)
        shows(page, "2 of 2 flows of 2 mirrors")
        visit(page, f"{address}/?refresh=off")  # a refresh would dim the old elements
        page.wait_for_function(SETTLED)
        assert faults_of(page) == []
        page.get_by_role("link", name=re.compile("primary->backup us")).click()
        shows(page, "browser-payments-0")
        expect(page).to_have_url(re.compile(r"/overview\?mirror=us"))
        page.get_by_role("link", name="Partitions").click()
        shows(page, " rows")
        expect(page).to_have_url(re.compile(r"mirror=us"))
        page.close()


def test_polling_begins_with_the_app_and_not_with_its_first_viewer(tmp_path):
    """The first viewer at night needs the results of earlier polls."""
    with socket.create_server(("127.0.0.1", 0)) as cluster:
        cluster.settimeout(PATIENCE * 30)
        silent, gone = (
            SimpleNamespace(bootstrap=f"127.0.0.1:{port}") for port in (cluster.getsockname()[1], free_port())
        )
        with serving(settings_of(tmp_path, silent, gone), tmp_path / "app.log"):
            cluster.accept()[0].close()


def test_a_protected_inspector_shows_nothing_without_the_login_and_follows_its_certificate(
    app, chromium, primary, backup, tmp_path
):
    own = identity("127.0.0.1")
    (tmp_path / "door.pem").write_text(own.pem + own.key_pem)
    file = settings_of(
        tmp_path,
        primary,
        backup,
        f"mirror.http.username = sre\nmirror.http.password = hush\nmirror.http.tls.certificate = {tmp_path / 'door.pem'}\n",
    )
    with serving(file, tmp_path / "app.log") as address:
        for login, is_let_in in (
            ({"username": "sre", "password": "wrong"}, False),
            ({"username": "sre", "password": "hush"}, True),
        ):
            context = chromium.new_context(ignore_https_errors=True, http_credentials=login)
            page = context.new_page()
            answer = page.goto(f"{address}/partitions?topic=browser-orders")
            assert (answer.status == 200) is is_let_in
            if is_let_in:
                visit(page, page.url)  # which loads it again where this machine's addresses change
                shows(page, "of ")  # which comes by the websocket
                assert count_of(page)
            else:
                assert "user name and password required" in page.content()
        other = identity("127.0.0.1")
        (tmp_path / "new.pem").write_text(other.pem + other.key_pem)
        (tmp_path / "new.pem").rename(tmp_path / "door.pem")
        # Only the certificate that is now in the file is trusted.
        access, listener = load(file).mirror.http, address.removeprefix("https://")
        assert access.read(listener, "/_stcore/health", timeout_s=PATIENCE * 10) == "ok"
