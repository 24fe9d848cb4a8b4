"""A target of three brokers is restarted, one after the other, under transactions: no committed record is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, create, differences, end_offset, load
from tests.soak.trio import REPLICAS, trio
from tests.waiting import eventually

pytestmark = pytest.mark.kafka

# With the old group coordinator, which takes in the offsets of a transaction some time after it has answered that this ended.
BEFORE_4 = "3.9.1"
SETTINGS = f"""backup.exactly.once.source.support = enabled
replication.factor = {REPLICAS}
"""


@pytest.mark.nightly
def test_a_rolling_restart_of_brokers_before_kafka_4_repeats_no_committed_record(tmp_path: Path, primary, topic):
    create(primary, topic, 2)
    folder = tmp_path / "mirror"
    folder.mkdir()
    with (
        trio("old", tmp_path / "old", version=BEFORE_4) as target,
        RunningAppliance(
            folder, primary=primary.bootstrap, backup=target.bootstrap, topics=topic, extra=SETTINGS
        ) as running,
    ):
        with load(primary, topic):
            for _ in range(2):
                before = end_offset(target, f"primary.{topic}", 0)
                target.restart()
                eventually(
                    lambda before=before: end_offset(target, f"primary.{topic}", 0) > before + 100,  # type: ignore[misc]
                    within_s=90,
                    because="it flows again",
                )
        for partition in (0, 1):
            await_replicated(running, primary, topic, f"primary.{topic}", partition)
        assert differences(primary, target, topic, f"primary.{topic}") == []
