"""The prose of the project is plain technical English: documents, docstrings, comments and messages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.source_files import ROOT, files, nodes

# Regular expressions to refuse (case is ignored), and what to write instead.
RULES = {
    r"\bappliances?\b": "kafka-mirror, or the process",
    r"\b(some|any|every)body\b|\bwhoever\b|\bnobody\b": "an operator, another process, a consumer; unknown",
    r"\bwh(at|ich)ever\b": "any, each; or the name of the thing",
    r"\b(tells|told|telling|says|said)\b": "reports, returns, logs, prints, shows",
    r"\bbehind\b": "after, beyond; behind means lagging",
    r"\b(is|are|was) level\b": "caught up, lag 0",
    r"\b(go|goes|going|went|gone) on\b": "continues, resumes at",
    r"\b(stands|stood|stand still)\b": "is at offset, is stalled",
    r"\b(takes?|taken|took|taking) in\b": "records, registers, enqueues",
    r"\b(lets?|letting) go\b|\bmend(s|ed|ing)?\b": "releases; fixes",
    r"\bcross(es|ed)?\b": "is replicated, reaches the target",
    r"\bbeside\b": "next to, compared with, in addition to",
    r"\b(is|are) held by\b": "is tested by",
    r"\b(the|its|their|at) begin\b": "start",
    r"\b(as|than) (here|there)\b(?! (is|are|was|were)\b)": "in kafka-mirror, in MirrorMaker",
    r"\bwhat (becomes|became|come) of\b": "result, how X is handled",
    r"\bon (its|their|the) way\b|\bunder way\b": "in flight",
    r"\b(is|are|was|were) (not )?to (be|have)\b|\bshall\b": "must, should, will",
    r"\bof (its|their|our|one's) own\b|\bof ours\b": "own, separate, or nothing",
    r"\bverdicts?\b": "status",
    r"\b(fail|take|hand)-overs?\b": "failover, takeover, handover",
    r"\bbaton\b|\bas the dice fall\b|\bcables?\b": "lease; at random; network partition",
    r"\bthe (flow|way) back\b": "the reverse flow, failback",
    r"\b(is|are) (ill|well)\b": "unhealthy, healthy",
    r"\btopic-partitions?\b": "partition",
    r"(^|[.;:] )Where (?!to\b)[^.?:;]{8,}?, |, where (it|they|that|there) (is|are|has|have)\b": "if, when",
    r"(^|[.;:] )What (is|are|was|has|had|it|they) [^?.,:;]{0,90}? (is|are|was)\b(?![^.?]*\?)": "the actor, verb, object",
    r"\bnone (that|of which|whose)\b": "no X is, no X has",
}
RULE = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in RULES.items()}
# Good uses of such words.
FINE = re.compile(
    r"\b(is|are|was|been?|far|further|fall(s|ing)?|fell|how much|record\w?|s|seconds|minutes|hours|day|days|week|[\d,]+) behind\b"
    r"|\bbehind (the|its) source\b|\b(left|leaves?( \w+){1,2}) behind\b|\blook-behind\b"
    r"|\ball is well\b|\bstands for\b|--fail-over-lag\b",
    re.IGNORECASE,
)
LONGEST_SENTENCE, LONGEST_FIRST_LINE = 35, 15

# Sentences that may stay: (file, fragment, reason).
ALLOWED: tuple[tuple[str, str, str], ...] = ()


class Prose(NamedTuple):
    """One paragraph, table cell, docstring, comment or message."""

    line: int
    text: str
    kind: str


def prose_of_page(page: Path) -> Iterator[Prose]:
    """Yield the paragraphs, list items and table cells of a page, without code."""
    text = re.sub(r"^ *```.*?^ *```", lambda code: "\n" * code[0].count("\n"), page.read_text(), flags=re.S | re.M)
    text = re.sub(r"`[^`]+`", lambda code: "x" + "\n" * code[0].count("\n"), text)
    text = re.sub(r"\]\([^)\s]*\)|https?://\S+|<!--.*?-->", "", text)
    ends = r"\n\s*\n|(?<!\\)\||\n(?=\s*(?:[-*>#]|\d+\.) )|\n(?=\|)|$"
    start = 0
    for end in re.finditer(ends, text):
        block = text[start : end.start()]
        if block.strip():
            lead = len(block) - len(block.lstrip())
            yield Prose(text.count("\n", 0, start + lead) + 1, block.strip(), "page")
        start = end.end()


def prose_of_code(path: Path) -> Iterator[Prose]:
    """Yield the docstrings, comments and messages of a file. Values within a message read "x"."""
    parts, docstrings = set(), set()
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
        elif isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
            text = "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
            yield Prose(node.lineno, text, "message")
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield Prose(node.lineno, node.value, "docstring" if id(node) in docstrings else "message")
    lines = list(tokenize.generate_tokens(io.StringIO(path.read_text()).readline))
    yield from (Prose(token.start[0], token.string, "comment") for token in lines if token.type == tokenize.COMMENT)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, list items and paragraphs apart."""
    return re.split(r"(?<=[.?!:])[)\"*_]*\s+|\n\s*(?:\n|[-*|] |\w+: )|\n(?=.*\S {3,}\S)", text)


def complaints(prose: Prose) -> Iterator[tuple[int, str, str]]:
    """Yield line, fragment and what to write instead, for each fault of a text."""
    flat = FINE.sub(lambda fine: "x" * len(fine[0]), re.sub(r"`[^`]*`", lambda code: "x" * len(code[0]), prose.text))
    flat = flat.replace("\n", " ")
    for rule, instead in RULE.items():
        for found in rule.finditer(flat):
            yield prose.line + prose.text.count("\n", 0, found.start()), found[0].strip(), instead
    if prose.kind == "message" and ("kafka_mirror" in prose.text or "\n" in prose.text):
        return  # a query, or a document
    for sentence in sentences(prose.text):
        if len(sentence.split()) > LONGEST_SENTENCE:
            yield prose.line, sentence, f"two sentences, of {LONGEST_SENTENCE} words at most"
    if prose.kind == "docstring" and len(sentences(prose.text)[0].split()) > LONGEST_FIRST_LINE:
        yield prose.line, sentences(prose.text)[0], f"a first line of {LONGEST_FIRST_LINE} words at most"


def faults(path: Path) -> Iterator[str]:
    """Yield one line for each fault of a file."""
    name, has_partition = str(path.relative_to(ROOT)), path.suffix != ".md"
    for prose in prose_of_page(path) if path.suffix == ".md" else prose_of_code(path):
        if prose.kind == "message" and len(prose.text.split()) < 3:
            continue
        for line, fragment, instead in complaints(prose):
            if instead == "partition" and not has_partition:  # the first use on a page
                has_partition = True
            elif not any(name == file and allowed in prose.text for file, allowed, _ in ALLOWED):
                yield f'{name}:{line}: "{" ".join(fragment.split())}". Write instead: {instead}'


PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))


@pytest.mark.parametrize("path", [*PAGES, *files()], ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_plain(path):
    assert list(faults(path)) == []


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("The appliance tells whoever asks.", ["appliance", "tells", "whoever"]),
        ("The group is behind, the record\nlies behind the position.", ["behind"]),
        ("Where the log is shorter, it goes on.", ["Where the log is shorter,", "goes on"]),
        ("See where the log ends. What is the lag?", []),
        ("What was read is kept.", ["What was read is"]),
        (f"One{' word' * 35}.", [f"One{' word' * 35}."]),
        ("`kafka-mirror tells`: 10,000 records behind.", []),
    ],
)
def test_rules_find_what_they_name(text, fragments):
    assert sorted(found[1] for found in complaints(Prose(1, text, "page"))) == sorted(fragments)
