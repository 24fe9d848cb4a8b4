"""Logs of the message formats before 0.11, from a broker that has written them, and from one of today that has kept them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mirror.embedded.broker import Broker
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, create, write
from tests.integration.values import values

pytestmark = pytest.mark.kafka

FORMATS = {"v0": "0.9.0", "v1": "0.10.2"}  # of messages: the first version that wrote them, or the last
OLD = {"enable.idempotence": False, "linger.ms": 50}  # there was no idempotence
SETS = [
    ([b"first"], "none"),
    ([b"x" * 200] * 30, "none"),
    ([b"compressed %d" % n for n in range(40)], "gzip"),
    ([b"otherwise %d" % n for n in range(40)], "snappy"),
    ([b"!"], "none"),  # 27 or 35 bytes at the end of the log: less than the header of a batch of today
]
EXPECTED = [value for part, _ in SETS for value in part]


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Broker]:
    """A broker of 2021, the last that writes these formats, with a topic of each."""
    with Broker.start("old", tmp_path / "old", version="2.8.2") as broker:
        for name, version in FORMATS.items():
            create(broker, f"old-{name}", message_format_version=version)
            for part, codec in SETS:
                rows = [(b"key", value, [], 1_700_000_000_000) for value in part]
                write(broker, f"old-{name}", rows, **OLD, **{"compression.type": codec})
        yield broker


def upgraded(old: Broker, folder: Path, stack: ExitStack) -> Broker:
    """Return a broker of today whose topics have the old one's segments, as after upgrades."""
    broker = stack.enter_context(Broker.start("upgraded", folder))
    for name in FORMATS:
        create(broker, f"old-{name}")
    broker.stop()
    for name in FORMATS:
        (segment,) = (old.data_dir / "data" / f"old-{name}-0").glob("*.log")
        log = folder / "data" / f"old-{name}-0"
        for file in [*log.glob("*.index"), *log.glob("*.timeindex"), *log.glob("*.snapshot")]:
            file.unlink()
        (log / segment.name).write_bytes(segment.read_bytes())
    (folder / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)
    broker.restart()
    return broker


def test_records_of_old_formats_are_mirrored_from_old_and_new_brokers(tmp_path: Path, old, backup):
    for name, magic in (("v0", 0), ("v1", 1)):
        (segment,) = (old.data_dir / "data" / f"old-{name}-0").glob("*.log")
        assert segment.read_bytes()[16] == magic, "the broker wrote the format that this is about"
    with ExitStack() as stack:
        new = upgraded(old, tmp_path / "upgraded", stack)
        lines = [
            "clusters = primary, backup, kept",
            f"kept.bootstrap.servers = {new.bootstrap}",
            "kept->backup.enabled = true",
            "kept->backup.topics = old-.*",
        ]
        running = RunningAppliance(
            tmp_path, primary=old.bootstrap, backup=backup.bootstrap, topics="old-.*", extra="\n".join(lines)
        )
        stack.enter_context(running)
        for alias, cluster in (("primary", old), ("kept", new)):
            for name in FORMATS:
                await_replicated(running, cluster, f"old-{name}", f"{alias}.old-{name}")
                assert values(backup, f"{alias}.old-{name}", 0) == EXPECTED
        assert "paused" not in running.log.read_text()
