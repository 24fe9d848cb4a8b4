"""The lag that is shown, compared with what is really in flight: the source's log ends minus the target's at that moment."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from statistics import median

import pytest

from mirror.config.load import load as load_settings
from mirror.lag.inspector import Inspector
from tests.integration.appliance import RunningAppliance
from tests.integration.records import create, end_offset, load
from tests.waiting import eventually

pytestmark = pytest.mark.kafka
RATE, PARTITIONS, SAMPLES = 500, 2, 12


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_mirror_that_keeps_pace_shows_the_lag_of_what_is_in_flight(primary, backup, topic, tmp_path: Path, mode):
    """Positions are committed once a second: 500 records that are on the target already must not count as lag."""
    create(primary, topic, PARTITIONS)
    appliance = RunningAppliance(
        tmp_path,
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics=topic,
        extra=f"backup.exactly.once.source.support = {mode}\nmirror.slots = 1",
    )
    remote = f"primary.{topic}"

    def in_flight() -> int:
        """Return the records that are on the source and not on the target; markers on the target count as records."""
        on_target = sum(end_offset(backup, remote, each, read_committed=True) for each in range(PARTITIONS))
        return sum(end_offset(primary, topic, each) for each in range(PARTITIONS)) - on_target

    with appliance, load(primary, topic, partitions=PARTITIONS, rate=RATE, every_s=0.05):
        eventually(
            lambda: len(appliance.served("lag_records", topic=remote)) == PARTITIONS,
            within_s=60,
            because="every partition has a lag",
        )
        with closing(Inspector(load_settings(appliance.file))) as inspector:
            inspector.poll(settles=True)
            shown, inspected, real = [], [], []
            for _ in range(SAMPLES):
                time.sleep(0.5)  # another poll
                if mode == "disabled":
                    real.append(in_flight())
                shown.append(sum(appliance.served("lag_records", topic=remote)))
                inspected.append(sum(row.lag or 0 for row in inspector.poll(settles=True).rows if row.is_flow))
    # What one poll adds at most is what is written in it. The positions of a second would be half of RATE on average.
    allowed = max(real, default=0) + 0.1 * RATE
    assert median(shown) <= allowed, (shown, real)
    assert median(inspected) <= allowed, (inspected, real)
