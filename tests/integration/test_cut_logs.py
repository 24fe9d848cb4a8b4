"""A target that loses the end of its logs in a power cut gets it again, from what the source still has."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mirror.embedded.broker import Broker
from tests.integration.appliance import RunningAppliance
from tests.integration.ledger import ledger
from tests.integration.power_cut import cut
from tests.integration.records import await_replicated, create, differences, flows, load, write
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]

MODES = {"at least once": "", "exactly once": "backup.exactly.once.source.support = enabled"}


@pytest.mark.parametrize("mode", MODES)
def test_records_that_a_power_cut_took_from_the_target_are_copied_again_in_order(primary, topic, tmp_path: Path, mode):
    idle, busy = f"{topic}-idle", f"{topic}-busy"
    now_ms = int(time.time() * 1000)  # older records would share no segment with a marker
    for name in (idle, busy):
        create(primary, name)
        write(primary, name, [(b"", b"%d" % n, [], now_ms + n) for n in range(200)], **{"batch.num.messages": 20})
    with (
        Broker.start("mortal", tmp_path / "mortal") as target,
        RunningAppliance(
            tmp_path, primary=primary.bootstrap, backup=target.bootstrap, topics=f"{topic}.*", extra=MODES[mode]
        ) as running,
    ):
        await_replicated(running, primary, idle, f"primary.{idle}")
        with load(primary, busy, partitions=1):
            flows(target, f"primary.{busy}", more=500)
            target.kill()
            assert cut(target, f"primary.{idle}") > 0
            assert cut(target, f"primary.{busy}") > 0
            target.restart()
            flows(target, f"primary.{busy}", more=500, within_s=120)
        for name in (idle, busy):
            eventually(
                lambda name=name: differences(primary, target, name, f"primary.{name}") == [],
                within_s=90,
                because="the target has everything again, in its order",
            )
        assert [entry for entry in ledger(running) if entry[1] in (idle, busy)] == []
        assert "it was cut; offsets" in running.log.read_text()
