"""What `kafka-mirror plan` says of disks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror.commands.plan import in_units, space_lines
from mirror.kafka.cluster_facts import joined
from mirror.kafka.errors import BrokerError, ErrorCode

GIB = 1 << 30


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 << 20, "1.5 GiB"), (5000 << 50, "5,000.0 PiB")],
)
def test_bytes_are_written_for_people(count, text):
    assert in_units(count) == text


def test_a_target_without_room_is_warned_of():
    told = space_lines("a", "b", there=10 * GIB, here=GIB, to_come=9 * GIB, free=20 * GIB, replicas=3)
    assert told == [
        "  space: 10.0 GiB on a, 1.0 GiB on b; its brokers have 20.0 GiB free",
        "  WARNING: 27.0 GiB will be copied in 3 replicas, which is more than is free. Make room, or mirror less.",
    ]
    assert len(space_lines("a", "b", there=10 * GIB, here=GIB, to_come=6 * GIB, free=20 * GIB, replicas=3)) == 1
    (unknown,) = space_lines("a", "b", there=GIB, here=0, to_come=GIB, free=None, replicas=1)
    assert unknown.endswith("free space is not known (Kafka before 3.3)")


def answer(*folders: tuple[int, dict[int, int]], code: ErrorCode = ErrorCode.none, **more: Any) -> Any:
    """A broker that has log dirs: free bytes, and sizes of partitions of topic t."""
    results = [
        SimpleNamespace(
            error_code=code,
            total_bytes=100,
            usable_bytes=free,
            topics=[
                SimpleNamespace(
                    name="t",
                    partitions=[SimpleNamespace(partition_index=n, partition_size=s) for n, s in sizes.items()],
                )
            ],
        )
        for free, sizes in folders
    ]
    return SimpleNamespace(results=results, **more)


def test_a_log_is_as_large_as_its_largest_replica_and_a_volume_counts_once():
    found = joined([answer((40, {0: 5, 1: 7}), (40, {2: 1})), answer((30, {0: 6}))])
    assert found.sizes == {("t", 0): 6, ("t", 1): 7, ("t", 2): 1}
    assert found.free == 70


def test_disk_space_that_a_broker_does_not_report_is_unknown():
    assert joined([answer((40, {})), answer((-1, {}))]).free is None
    assert joined([]).free is None
    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        joined([answer((40, {}), code=ErrorCode.cluster_authorization_failed)])
    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        joined([SimpleNamespace(error_code=ErrorCode.cluster_authorization_failed, results=[])])
