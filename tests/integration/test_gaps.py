"""The ledger of gaps has what was ever lost, skipped or refused, once, in both modes, also where the process is killed."""

from __future__ import annotations

import csv
import io

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from mirror.embedded.broker import Broker
from tests.integration.appliance import RunningAppliance
from tests.integration.ledger import PATIENCE_S, ledger, told
from tests.integration.records import await_replicated, big, create, end_offset, flows, load, rows, write
from tests.integration.test_take_over import positions
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]

MODES = {"at least once": "", "exactly once": "backup.exactly.once.source.support = enabled"}


@pytest.mark.parametrize("mode", MODES)
def test_lost_skipped_repeated_and_refused_records_are_in_the_ledger_once(primary, backup, topic, tmp_path, mode):
    lost, moved, refused = (f"{topic}-{what}" for what in ("lost", "moved", "refused"))
    for name in (lost, moved):
        create(primary, name)
        write(primary, name, rows(40))
    create(primary, refused)
    create(backup, f"primary.{refused}", max_message_bytes="50000")
    write(primary, refused, rows(5))
    running = RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=f"{topic}.*", extra=MODES[mode]
    )
    before = ledger(running)
    with running:
        for name in (lost, moved, refused):
            await_replicated(running, primary, name, f"primary.{name}")
        assert running.stop()[0] == 0
        write(primary, lost, rows(100, start=40))
        delete_before(primary, lost, 75)
        write(primary, moved, rows(60, start=40))
        write(primary, refused, [*big(1, 200_000), *rows(5, start=5)])
        assert positions(running, "set", "--topic", moved, "--to", "60").returncode == 0
        assert positions(running, "set", "--topic", moved, "--to", "50").returncode == 0
        running.start()
        expected = {
            ("lost", lost, 0, 40, 74),
            ("skipped", moved, 0, 40, 59),
            ("repeated", moved, 0, 50, 59),
            ("refused", refused, 0, 5, None),
        }

        def new() -> list[object]:
            return [entry for entry in ledger(running) if entry not in before]

        eventually(lambda: set(new()) == expected, within_s=60, because="the ledger has them all")
        for name in (lost, moved):
            await_replicated(running, primary, name, f"primary.{name}")
        running.kill()
        running.start()
        eventually(lambda: f"{refused}-0 paused" in tail(running), within_s=60, because="it is refused again")
        delete_before(primary, refused, 6)
        eventually(
            lambda: end_offset(backup, f"primary.{refused}", 0) >= 10,
            within_s=90,
            because="what is behind the record that is gone now comes",
        )
        expected |= {("lost", refused, 0, 5, 5)}
        eventually(lambda: set(new()) == expected, within_s=30, because="the record that was refused is lost now")
        assert len(new()) == len(expected), "nothing is there twice"
        eventually(
            lambda: running.served("gap_offsets", effect="lost") == [offsets(running, "lost")],
            within_s=30,
            because="the metrics say the same",
        )
        # The ledger is that of the flow, which other tests run too.
        kept = [entry for entry in ledger(running) if entry[0] == "kept"]
        assert running.served("gaps", effect="kept") == [len(kept)]
        found = list(csv.DictReader(io.StringIO(told(running, "--csv", "--topic", lost))))
        assert [(row["effect"], row["cause"], row["offsets"]) for row in found] == [("lost", "retention", "35")]
        assert "offsets 40 to 74 were deleted by the source's retention" in told(running, "--topic", lost)


def offsets(running: RunningAppliance, effect: str) -> int:
    """How many offsets the ledger's entries of an effect have."""
    return sum(last - first + 1 for each, _, _, first, last in ledger(running) if each == effect and last is not None)


def delete_before(cluster: Broker, topic: str, offset: int, partition: int = 0) -> None:
    where = TopicPartition(topic, partition, offset)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_records([where])[where].result(30)


def tail(running: RunningAppliance) -> str:
    """Return the log since the last start."""
    return running.log.read_text().rpartition("replicating ")[2]


def test_copied_records_without_a_position_are_not_listed_as_lost(primary, backup, topic, tmp_path):
    """The source's retention deletes everything while the process is down, also what it had copied since its last position."""
    create(primary, topic, 2)
    running = RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic)
    with running:
        with load(primary, topic, rate=2000):
            flows(backup, f"primary.{topic}", more=1000, partitions=2)  # they belong to different slots
            running.kill_all()
        write(primary, topic, rows(40), range(2))  # that nobody has copied
        copied = [end_offset(backup, f"primary.{topic}", partition) for partition in range(2)]
        written = [end_offset(primary, topic, partition) for partition in range(2)]
        for partition in range(2):
            delete_before(primary, topic, written[partition], partition)
        write(primary, topic, rows(1), range(2))
        running.start()
        for partition in range(2):
            await_replicated(running, primary, topic, f"primary.{topic}", partition)
        eventually(
            lambda: (
                sorted(entry for entry in ledger(running, topic) if entry[0] != "kept")
                == [("lost", topic, part, copied[part], written[part] - 1) for part in range(2)]
            ),
            within_s=PATIENCE_S,
            because="just what the target lacks is lost",
        )
