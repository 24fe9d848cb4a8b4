"""The documents: every link leads somewhere, every file that is named exists, and the index has every page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(
    r"`((?:mirror|metrics|dashboards|app|tests|docs|compose)/[\w./-]+\.(?:py|sh|yml|yaml|json|libsonnet))"
)


def without_code(text: str) -> str:
    """Return a page without blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for link in LINK.findall(without_code(page.read_text())):
        path, _, anchor = link.partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), link
        assert not anchor or anchor in anchors(goal), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_is_named_exists(page):
    if page.name == "CHANGELOG.md" or page.parent.name == "adr":  # they name what was
        return
    for name in NAMED.findall(page.read_text()):
        assert (ROOT / name).exists(), name


def test_the_index_has_every_page():
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall((DOCS / "README.md").read_text())}
    pages = {page for page in DOCS.rglob("*.md") if page.parent.name != "adr" and page.name != "README.md"}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - linked) == []


def test_every_decision_has_its_status_and_its_row():
    index = (DOCS / "adr" / "README.md").read_text()
    for page in sorted((DOCS / "adr").glob("0*.md")):
        number, title = int(page.name[:4]), page.read_text().splitlines()[0]
        assert title.startswith(f"# {number}. "), page.name
        assert re.search(
            r"^Status: (accepted|superseded)\b.*\. Date: \d{4}-\d\d-\d\d\.$", page.read_text(), re.MULTILINE
        ), page.name
        assert f"| [{number}]({page.name}) | {title.partition('. ')[2]} |" in index, page.name
