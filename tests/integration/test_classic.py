"""MirrorMaker 1's job on real brokers: two sources into one target, same names, other partition counts, its group's offsets."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from mirror.embedded.broker import Broker
from mirror.model.repartition import place
from tests.integration.appliance import RunningAppliance
from tests.integration.records import commit, create, end_offset, messages, write
from tests.integration.test_checkpoints import stands
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = pytest.mark.kafka


class Classic(RunningAppliance):
    """`kafka-mirror classic` with two consumer files and a producer file."""

    def __init__(self, folder, sources: dict[str, str], target: str, *options: str, own: str = "") -> None:
        super().__init__(folder, primary="none:1", backup="none:1", topics="none")
        arguments = []
        for name, bootstrap in sources.items():
            file = folder / f"{name}.properties"
            file.write_text(
                f"bootstrap.servers = {bootstrap}\ngroup.id = {own or name}\nauto.offset.reset = earliest\n"
            )
            arguments += ["--consumer.config", str(file)]
        (folder / "central.properties").write_text(f"bootstrap.servers = {target}\n")
        self.files = [*arguments, "--producer.config", str(folder / "central.properties")]
        self.arguments = [
            *("classic", *self.files, *options),
            *("--metrics-listen", f"127.0.0.1:{self.port}", "--state-dir", str(folder / "state")),
            *("--window-ms", "2000", "--poll-interval-ms", "500"),
        ]

    def asked(self, *command: str) -> str:
        """Return what a command prints that is given the same files."""
        return kafka_mirror(*command, *self.files, check=True).stdout


def test_two_sources_go_into_one_target_under_the_same_names(primary, backup, topic, tmp_path):
    other = f"{topic}-other"
    with Broker.start("second", tmp_path / "second") as second:
        create(primary, topic, 2)
        create(second, other, 1)
        create(primary, f"{topic}-left-out")
        write(primary, topic, [(b"k", b"first %d" % n, (), n) for n in range(50)], 1)
        write(second, other, [(b"k", b"second %d" % n, (), n) for n in range(50)])
        with Classic(
            tmp_path,
            {"dc1": primary.bootstrap, "dc2": second.bootstrap},
            backup.bootstrap,
            *("--whitelist", f"{topic},{topic}-o.*"),
            *("--abort.on.send.failure", "true"),
        ) as running:
            eventually(lambda: end_offset(backup, other, 0) == 50, within_s=60, because="the second source arrives")
            eventually(lambda: end_offset(backup, topic, 1) == 50, within_s=60, because="the first source arrives")
            eventually(lambda: stands(second, "dc2", other) == 50, within_s=30, because="the group shows the progress")
            rows = [line.split() for line in running.asked("lag", "--include", f"{topic},{topic}-o.*").splitlines()]
            assert ["dc1->target", topic, "1", "50", "50", "0"] in [row[:6] for row in rows]
            assert ["dc2", other, "0", "50", "50", "0"] in [row[:6] for row in rows], "MirrorMaker 1's own group"
            shown = running.asked("positions", "show", "dc2->target", "--include", other)
            assert shown.split()[-7:] == [other, "0", "50", "0", "50", "0", other]
            assert f"{topic}-left-out" not in running.asked("plan", "--include", topic)
            assert "equal" in running.asked("verify", "dc1->target", "--include", topic)
            assert running.stop()[0] == 0
    assert [m.value() for m in messages(backup, topic, 1)] == [b"first %d" % n for n in range(50)]
    assert (
        f"{topic}-left-out" not in AdminClient({"bootstrap.servers": backup.bootstrap}).list_topics(timeout=10).topics
    )
    assert "--abort.on.send.failure has no effect: a record that cannot be written" in running.log.read_text()


def test_classic_resumes_at_the_group_and_spreads_over_other_partition_counts(primary, backup, topic, tmp_path):
    """Partition 0 of the source was mirrored up to 30 by MirrorMaker 1; the target has three partitions for two."""
    keys = [b"k%d" % (n % 11) for n in range(200)]
    create(primary, topic, 2)
    create(backup, topic, 3)
    for partition in range(2):
        records = [(None if n % 10 == 9 else keys[n], b"%d %d" % (partition, n), (), n) for n in range(200)]
        write(primary, topic, records, partition, **{"batch.num.messages": 20})
    group = f"mm1-{topic}"
    commit(primary, group, topic, 30)
    command = ({"dc1": primary.bootstrap}, backup.bootstrap, "--include", topic, "--num.streams", "2")

    def arrived() -> list[tuple[int, bytes | None, bytes]]:
        return [(p, m.key(), m.value()) for p in range(3) for m in messages(backup, topic, p)]

    with Classic(tmp_path, *command, own=group) as running:
        eventually(lambda: len(arrived()) == 370, within_s=60, because="all that was not mirrored arrives")
        eventually(lambda: stands(primary, group, topic, 1) == 200, within_s=30, because="the group shows the progress")
        assert running.stop()[0] == 0
    write(primary, topic, [(b"k1", b"0 200", (), 0)])
    with Classic(tmp_path, *command, own=group) as running:
        eventually(lambda: len(arrived()) == 371, within_s=60, because="a second run goes on")
        assert running.stop()[0] == 0
    found = arrived()
    expected = [b"0 %d" % n for n in range(30, 201)] + [b"1 %d" % n for n in range(200)]
    assert sorted(value for _, _, value in found) == sorted(expected)
    assert all(key is None or place(key, 3) == where for where, key, _ in found)
    for partition in range(2):
        for key in set(keys):
            numbers = [int(v.split()[1]) for _, k, v in found if k == key and v.startswith(b"%d " % partition)]
            assert numbers == sorted(numbers)
    assert {where for where, key, _ in found if key is None} == {0, 1, 2}


def test_a_bad_command_line_is_one_line(tmp_path):
    running = Classic(tmp_path, {"dc1": "h:1"}, "t:1")
    done = kafka_mirror(*running.arguments)
    assert done.returncode == 2
    assert done.stderr == (
        "kafka-mirror: classic: none of them given; expected exactly one of --include (or --whitelist) and --blacklist.\n"
    )
