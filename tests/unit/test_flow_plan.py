"""Windows and slots."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.flow_plan import FlowPlan, PlannedPartition, next_window, slot_of, window_at


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from([1, 2]))
def test_the_next_window_stays_in_its_lane_and_is_never_over(start, now, lanes):
    window = next_window(start, now * 1000 + 1, window_ms=1000, lanes=lanes)
    assert window >= start
    assert window >= now or window == start
    assert (window - start) % lanes == 0
    assert window < max(start, now) + lanes


def test_windows_are_half_open():
    assert (window_at(9_999, 10_000), window_at(10_000, 10_000)) == (0, 1)


@given(st.text(), st.text(), st.integers(0, 1000), st.integers(1, 20), st.integers(1, 8))
def test_a_partition_always_has_one_slot_and_no_more_than_tasks_max_are_used(flow, topic, partition, tasks, slots):
    slot = slot_of(flow, topic, partition, tasks_max=tasks, slots=slots)
    assert 0 <= slot < slots
    used = {slot_of(flow, topic, p, tasks_max=tasks, slots=slots) for p in range(50)}
    assert len(used) == min(tasks, slots)


def test_shares_of_all_slots_are_the_plan():
    assigned = tuple(PlannedPartition(f"t{n % 7}", f"A.t{n % 7}", n, "id") for n in range(50))
    plan = FlowPlan(source="A", target="B", tasks_max=3, consumer={}, producer={}, partitions=assigned)
    shares = plan.shares(4)
    assert sorted(p for share in shares for p in share.partitions) == sorted(assigned)
    assert shares == [plan.of_slots((slot,), slots=4) for slot in range(4)]
    assert sum(bool(share.partitions) for share in shares) == 3


def test_the_plan_file_holds_no_labels():
    plan = FlowPlan(
        source="A",
        target="B",
        tasks_max=1,
        consumer={},
        producer={},
        partitions=(PlannedPartition("t", "A.t", 0, "id"),),
    )
    before = pickle.dumps(plan)
    assert plan.labels == {("t", 0): ("A", "B", "A.t", "0")}
    assert pickle.dumps(plan) == before
    assert pickle.loads(before) == plan
