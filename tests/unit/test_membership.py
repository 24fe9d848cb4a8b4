"""Who serves which slots, as processes tell one another by offsets of the flow's group, which are in memory here."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.load import load
from mirror.config.settings import digest
from mirror.errors import SettingsError
from mirror.handover import membership
from mirror.handover.membership import Membership, Memberships
from mirror.model.flow_plan import FlowPlan
from mirror.model.slot_ownership import Owner, SlotLayout, is_stopped, layout_key, owner_key, stop_key, versioned
from mirror.runtime import state_folder
from mirror.runtime.state_folder import StateFolder
from tests.unit.fakes import FakeGroupOffsets

SLOTS = 4
LAYOUT = SlotLayout(SLOTS, 8, 10_000, 2)
OWNERS = [owner_key(slot) for slot in range(SLOTS)]
PLAN = FlowPlan(source="A", target="B", tasks_max=8, consumer={}, producer={}, partitions=())
FILE = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


class Offsets(FakeGroupOffsets):
    """The group's offsets on the target."""

    def __init__(self) -> None:
        super().__init__(PLAN.group)

    def owner(self, slot: int) -> int:
        return Owner.parse(self.kept.get((PLAN.lease_topic, owner_key(slot)), (0, ""))).run_id

    def was_silent_for(self, run_id: int, seconds: float) -> None:
        """Let what a run said be so old."""
        for place, at in self.kept.items():
            if (owner := Owner.parse(at) if place[1] in OWNERS else None) is not None and owner.run_id == run_id:
                self.kept[place] = owner._replace(renewed_ms=int((time.time() - seconds) * 1000)).encode()


@pytest.fixture
def flow(tmp_path):
    (tmp_path / "f").write_text(FILE)
    return load(tmp_path / "f").flows[0]


class Process:
    """A membership whose group's assignments are made by hand."""

    def __init__(
        self, flow, run_id: int, *, layout: SlotLayout = LAYOUT, gone: tuple[int, ...] = (), settings: str = "s"
    ) -> None:
        self.is_ready = True
        self.member = Membership(
            flow=flow,
            plan=PLAN,
            layout=layout,
            run_id=run_id,
            gone=gone,
            settings=settings,
            is_ready=lambda: self.is_ready,
            hung=lambda: "",
        )

    def is_given(self, *slots: int) -> Process:
        self.member._assigned = set(slots)
        return self

    def looks(self, target: Offsets) -> frozenset[int]:
        asyncio.run(self.member._reconcile(target))  # type: ignore[arg-type]
        assert self.member.owned is not None
        return self.member.owned


def test_slots_change_processes_without_an_unserved_moment(flow):
    target = Offsets()
    first, second = Process(flow, 1).is_given(0, 1, 2, 3), Process(flow, 2)
    assert first.looks(target) == {0, 1, 2, 3}
    assert first.member.leads
    first.is_given(0, 1)
    assert first.looks(target) == {0, 1, 2, 3}, "it goes on until the other one says that it has them"
    assert second.is_given(2, 3).looks(target) == {2, 3}
    assert first.looks(target) == {0, 1}
    assert (first.member.processes, second.member.processes) == (2, 2)
    assert not second.member.leads


def test_a_process_that_is_not_ready_acquires_only_unserved_slots(flow):
    target = Offsets()
    first, second = Process(flow, 1).is_given(0, 1), Process(flow, 2).is_given(1, 2)
    second.is_ready = False
    first.looks(target)
    assert second.looks(target) == {2}
    target.was_silent_for(1, 30)
    assert second.looks(target) == {1, 2}, "who is silent serves nothing"
    first.looks(target)
    second.is_ready = True
    assert second.looks(target) == {1, 2}


def test_a_dead_process_with_a_fast_clock_delays_no_takeover(flow, monkeypatch):
    target, steady_s = Offsets(), [0.0]
    monkeypatch.setattr(
        "mirror.handover.membership.time", SimpleNamespace(time=time.time, monotonic=lambda: steady_s[0])
    )
    Process(flow, 1).is_given(0, 1, 2, 3).looks(target)
    target.was_silent_for(1, -600)
    other = Process(flow, 2, layout=LAYOUT._replace(slots=2)).is_given(0, 1)
    assert other.looks(target) == frozenset()
    steady_s[0] = 19.0
    assert other.looks(target) == frozenset(), "it may work"
    steady_s[0] = 21.0
    assert other.looks(target) == {0, 1}, "it has renewed nothing for 20 s"


def test_the_next_run_of_a_state_folder_inherits_its_slots_before_the_group_assigns(flow):
    target = Offsets()
    Process(flow, 1).is_given(0, 1).looks(target)
    assert Process(flow, 5, gone=(1,)).looks(target) == {0, 1}
    assert Process(flow, 6).looks(target) == frozenset(), "another folder's waits for the group"


def test_a_stopping_process_releases_its_slots_and_stops_only_its_windows(flow):
    target = Offsets()
    first, second = Process(flow, 1).is_given(0, 1), Process(flow, 2).is_given(2, 3)
    first.looks(target), second.looks(target)
    asyncio.run(first.member._leave(target))  # type: ignore[arg-type]
    assert [target.owner(slot) for slot in range(SLOTS)] == [0, 0, 2, 2]
    stops = target.kept[PLAN.lease_topic, stop_key()]
    assert (is_stopped(1, stops), is_stopped(2, stops)) == (True, False)


@pytest.mark.parametrize("metadata", ["", "1732000000000", "a b c", "1 2"])
def test_an_owner_that_another_version_wrote_is_taken_over(flow, metadata):
    target = Offsets()
    target.kept[PLAN.lease_topic, owner_key(0)] = (897648426, metadata)
    assert Process(flow, 1).is_given(0).looks(target) == {0}


def test_processes_with_other_settings_are_logged(flow, caplog):
    target = Offsets()
    Process(flow, 1).is_given(0, 1).looks(target)
    other = Process(flow, 2, settings="other").is_given(2)
    other.looks(target)
    other.looks(target)
    assert other.member.has_conflict
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        "A->B: another process runs it with other settings; compare the output of kafka-mirror explain on both machines"
    ]


@pytest.mark.parametrize(("old", "version"), [("1234", "0.1"), (versioned("0.2.0", "1234"), "0.2.0")])
def test_settings_of_two_versions_are_not_compared(flow, caplog, old, version):
    """A version may add a setting, so its digest of the same file differs."""
    target = Offsets()
    Process(flow, 1, settings=old).is_given(0, 1).looks(target)
    new = Process(flow, 2, settings=versioned("0.3.0", "5678")).is_given(2)
    new.looks(target)
    new.looks(target)
    assert not new.member.has_conflict
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        f"A->B: another process runs version {version}, this one 0.3.0; their settings are not compared"
    ]


def test_a_process_with_another_layout_waits_until_the_others_have_ended(flow):
    target = Offsets()
    Process(flow, 1).is_given(0, 1, 2, 3).looks(target)
    new = Process(flow, 2, layout=LAYOUT._replace(tasks_max=3)).is_given(0, 1, 2, 3)
    assert new.looks(target) == frozenset()
    assert new.member.has_conflict
    target.was_silent_for(1, 30)
    assert new.looks(target) == {0, 1, 2, 3}
    assert not new.member.has_conflict


def test_of_two_kinds_that_began_at_the_same_time_one_gives_way(flow):
    target = Offsets()
    first, other = (
        Process(flow, 1).is_given(0, 1, 2, 3),
        Process(flow, 2, layout=LAYOUT._replace(slots=2)).is_given(0, 1),
    )
    assert first.looks(target) == {0, 1, 2, 3}
    target.kept[PLAN.lease_topic, layout_key()] = (0, other.member.layout.text())  # written at the same time, and last
    target.kept[PLAN.lease_topic, owner_key(1)] = Owner(2, 0, int(time.time() * 1000), "s").encode()
    assert first.looks(target) == frozenset()
    assert [target.owner(slot) for slot in range(SLOTS)] == [0, 2, 0, 0]
    assert other.looks(target) == {0, 1}


def test_a_working_process_renews_its_slots(flow):
    target = Offsets()
    process = Process(flow, 1).is_given(0)
    process.looks(target)
    target.was_silent_for(1, 6)
    before = Owner.parse(target.kept[PLAN.lease_topic, owner_key(0)])
    process.looks(target)
    after = Owner.parse(target.kept[PLAN.lease_topic, owner_key(0)])
    assert after.renewed_ms > before.renewed_ms + 5_000
    assert after.since_ms == before.since_ms


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("deal"), st.lists(st.sampled_from([1, 2, 3]), min_size=SLOTS, max_size=SLOTS)),
            st.tuples(st.just("look"), st.sampled_from([1, 2, 3])),
        ),
        max_size=30,
    ),
    st.lists(st.sampled_from([1, 2, 3]), min_size=SLOTS, max_size=SLOTS),
)
def test_every_slot_ends_with_its_assigned_process(events, last):
    target = Offsets()
    made = type("Flow", (), {"name": "A->B", "source": type("Cluster", (), {"alias": "A"}), "target_admin": {}})
    processes = {run: Process(made, run) for run in (1, 2, 3)}

    def deal(owners: list[int]) -> None:
        for run, process in processes.items():
            process.is_given(*(slot for slot, owner in enumerate(owners) if owner == run))

    for what, argument in events:
        if what == "deal":
            deal(argument)
        else:
            processes[argument].looks(target)
    deal(last)
    for process in processes.values():
        process.looks(target)
    assert [target.owner(slot) for slot in range(SLOTS)] == last
    owned = [process.looks(target) for process in processes.values()]
    assert sum(map(len, owned)) == SLOTS


def test_a_flow_that_waits_for_an_oauth_token_holds_up_no_other(flow, monkeypatch):
    """librdkafka waits for a token when a client is made, and when it is polled."""
    released, polled = threading.Event(), threading.Event()

    class Consumer:
        def __init__(self, options, **_):
            if options["group.id"] == "waits":
                released.wait(30)

        def subscribe(self, *_, **__):
            pass

        def poll(self, _):
            polled.set()

        def close(self):
            pass

    monkeypatch.setattr(membership, "Consumer", Consumer)
    slow, other = Process(flow, 1).member, Process(flow, 2).member
    slow._members = "waits"
    memberships = Memberships()
    memberships.add(slow)
    memberships.add(other)
    memberships.start()
    try:
        assert polled.wait(5)
    finally:
        released.set()
        memberships.end()
        memberships.join()
        memberships._loop.close()


def test_a_state_folder_is_one_process(tmp_path):
    first, second = StateFolder(tmp_path / "state"), StateFolder(tmp_path / "state")
    first.take()
    with pytest.raises(SettingsError, match="belongs to a running mirror"):
        second.take()
    first.leave()
    second.take()
    assert second.gone == {first.run_id}
    assert second.run_id > first.run_id
    second.leave()


def test_a_copied_state_folder_does_not_inherit_the_runs_of_the_original(tmp_path):
    """A copy must not take slots from the original, which may be running."""
    first = StateFolder(tmp_path / "state")
    first.take()
    shutil.copytree(first.path, tmp_path / "copy")
    second = StateFolder(tmp_path / "copy")
    second.take()
    assert second.gone == frozenset()
    assert second.run_id > first.run_id
    first.leave()
    second.leave()
    second.take()
    assert len(second.gone) == 1, "its own earlier run, not that of the original"
    second.leave()


def test_a_state_folder_of_another_machine_does_not_inherit_its_runs(tmp_path, monkeypatch):
    """A cloned disk has the same file numbers; the boots of two machines differ."""
    folder = StateFolder(tmp_path / "state")
    folder.take()
    folder.leave()
    (tmp_path / "boot").write_text("another boot\n")
    monkeypatch.setattr(state_folder, "_BOOT", tmp_path / "boot")
    folder.take()
    assert folder.gone == frozenset()
    folder.leave()


def test_only_its_owner_can_read_the_state_folder(tmp_path):
    before = os.umask(0o022)
    folder = StateFolder(tmp_path / "var" / "state")
    folder.take()
    try:
        (folder.path / "reports").mkdir()
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (folder.path, *folder.path.iterdir())}
    finally:
        folder.leave()
        os.umask(before)
    assert modes == {"state": "0o700", "runs": "0o600", "reports": "0o700"}


def test_a_state_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"mirror\.state\.dir: /.*cannot be written \(Not a directory\)"):
        StateFolder(tmp_path / "file" / "state").take()


def test_a_digest_differs_by_settings_and_not_by_secrets(tmp_path):
    def of(*lines: str) -> str:
        (tmp_path / "f").write_text(FILE + "\n".join(lines))
        return digest(load(tmp_path / "f").flows[0])

    assert of() == of()
    assert of("topics = a") != of()
    password = "B.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='{}';"
    assert of(password.format("one")) == of(password.format("two"))
    here = "B.ssl.truststore.type = PEM\nB.ssl.truststore.location = /{}/ca.pem"
    assert of(here.format("one")) == of(here.format("two")) != of()
