"""Which offsets of consumer groups a flow has set: noted before, known after a restart, forgotten when a reader commits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mirror.flows import set_offsets
from mirror.flows.set_offsets import GroupPlace, SetOffsets, removed
from mirror.kafka.groups import HIDDEN, Group

PLACE = GroupPlace("g", "a.t", 0)


class Topic:
    """The topic of the notes; `records` in the order of their offsets."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes | None, bytes | None]] = []

    async def read(self, options, name, start):
        assert name == "notes"
        begin = start if start <= len(self.records) else 0
        for offset, (key, value) in enumerate(self.records[begin:], begin):
            yield offset, SimpleNamespace(key=key, value=value)

    async def write(self, target, name, records):
        self.records += records


@pytest.fixture
def topic(monkeypatch):
    found = Topic()
    monkeypatch.setattr(set_offsets, "read_topic", found.read)
    monkeypatch.setattr(set_offsets, "write", found.write)
    return found


def group(offset, *, name="g", state="Empty", **more):
    return Group(name, state, {("a.t", 0): offset}, **more)


def read_back() -> SetOffsets:
    """Return the notes as another process reads them."""
    found = SetOffsets("notes")
    asyncio.run(found.refresh({}))
    return found


def test_a_set_offset_is_remembered_after_a_restart_until_a_consumer_commits(topic):
    asyncio.run(SetOffsets("notes").write(None, {PLACE: (8,)}))
    found = read_back()
    assert found.of(group(8)) == {("a.t", 0)}
    assert found.of(group(9)) == found.of(group(8, name="other")) == set()


def test_while_an_offset_is_being_set_the_one_before_counts_if_it_was_set_too(topic):
    notes = SetOffsets("notes")
    first = notes.before(group(3), {("a.t", 0): 8})
    assert first == {PLACE: (8,)}, "a reader has committed 3"
    asyncio.run(notes.write(None, first))
    assert notes.before(group(8), {("a.t", 0): 12}) == {PLACE: (12, 8)}
    assert notes.before(group(8), {("a.t", 0): 8}) == {PLACE: (8,)}
    assert SetOffsets("notes").before(group(3, metadata={("a.t", 0): "mirrored"}), {("a.t", 0): 8}) == {PLACE: (8, 3)}


def test_a_note_is_removed_only_if_its_group_is_known_to_have_another_offset(topic):
    notes = SetOffsets("notes")
    asyncio.run(notes.write(None, {PLACE: (8,)}))
    assert notes.outdated({"g": group(8)}) == notes.outdated({}) == notes.outdated({"g": Group("g", HIDDEN)}) == []
    assert notes.outdated({"g": group(9)}) == notes.outdated({"g": Group("g", "Empty")}) == [PLACE]
    asyncio.run(notes.write(None, removed([PLACE])))
    assert notes.of(group(8)) == read_back().of(group(8)) == set(), "an operator may set it back to that offset"


def test_new_notes_are_returned_once_and_foreign_records_are_skipped(topic):
    asyncio.run(SetOffsets("notes").write(None, {PLACE: (8,)}))
    topic.records += [(None, b"[1]"), (b"[1]", b"[1]"), (b"x", b"[1]"), (b'["g","t",1]', b"7")]
    notes = SetOffsets("notes")
    assert asyncio.run(notes.refresh({})) == {PLACE}
    assert asyncio.run(notes.refresh({})) == set()
    topic.records = [(b'["g","t",1]', b"[7]")]  # the topic was deleted and created again
    assert asyncio.run(notes.refresh({})) == {GroupPlace("g", "t", 1)}
    assert set(notes.offsets) == {GroupPlace("g", "t", 1)}
    topic.records = [(b'["g","t",2]', b"[7]"), (b'["g","t",3]', b"[7]")]
    assert set(notes.read_again()) == {GroupPlace("g", "t", 1)}, "which are written again"
    assert asyncio.run(notes.refresh({})) == {GroupPlace("g", "t", 2), GroupPlace("g", "t", 3)}
