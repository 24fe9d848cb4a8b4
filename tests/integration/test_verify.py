"""`kafka-mirror verify` on real clusters: equal while it runs, and the first record that is not the mirror's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, create, rows, write
from tests.waiting import eventually

pytestmark = pytest.mark.kafka


def verify(appliance: RunningAppliance, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mirror.cli", "verify", str(appliance.file), "primary->backup", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=appliance.environment,
    )


def table_of(text: str) -> list[list[str]]:
    """The lines behind the table's head; the JVM may have said something before."""
    lines = [line.split() for line in text.splitlines()]
    return lines[next(n for n, line in enumerate(lines) if line[:2] == ["topic", "partition"]) + 1 :]


@pytest.mark.spark
def test_mirrored_records_are_compared_and_differences_are_found(primary, backup, topic, tmp_path):
    remote = f"primary.{topic}"
    create(primary, topic, 2)
    for partition in (0, 1):
        write(primary, topic, rows(25_000, start=partition), partition, **{"linger.ms": 20})
    with RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic) as appliance:
        for partition in (0, 1):
            await_replicated(appliance, primary, topic, remote, partition)
        done = verify(appliance)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = table_of(done.stdout)
        assert [(line[1], line[2], line[3], line[4], line[-1]) for line in lines] == [
            (str(partition), "25000", "0", "0", "equal") for partition in (0, 1)
        ]
    admin = AdminClient({"bootstrap.servers": backup.bootstrap})
    admin.delete_topics([remote])[remote].result(30)
    eventually(lambda: remote not in admin.list_topics(timeout=10).topics, within_s=30, because="the topic is gone")
    create(backup, remote, 2)
    forged = rows(25_000)
    forged[11_007] = (b"not", b"the mirror's", [], 1)
    write(backup, remote, forged, **{"linger.ms": 20})
    done = verify(appliance, "--last", "20000")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{topic}-0 offset 11007 ({remote} offset 11007): key " in done.stdout
    assert [line[2:5] for line in table_of(done.stdout)[:2]] == [["20000", "1", "0"], ["0", "0", "20000"]]
    assert "is not an enabled flow; expected one of primary->backup" in verify_other(appliance)
    goes_on_comparing(appliance, remote, tmp_path / "verify.log")


def goes_on_comparing(appliance: RunningAppliance, remote: str, log: Path) -> None:
    """Round after round until it has to stop, at a rate; what it finds is a metric."""
    command = [
        *(sys.executable, "-m", "mirror.cli", "verify", str(appliance.file), "primary->backup"),
        *("--every", "1", "--rate", "20000", "--metrics-listen", f"127.0.0.1:{appliance.port}"),
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=appliance.environment)
    try:

        def found(name: str, partition: int) -> float | None:
            try:
                return appliance.value(f"kafka_mirror_{name}", topic=remote, partition=partition)
            except OSError:
                return None

        eventually(
            lambda: (found("verify_differences_total", 0), found("verify_differences_total", 1)) == (1, 25_000),
            within_s=90,
            because="every record is compared",
        )
        assert found("verified_records_total", 0) == 24_999
        assert 'kafka_mirror_verify_waiting_records{source="primary",target="backup"} 0' in appliance.exposition()
    finally:
        process.terminate()
        code = process.wait(180)
    assert code == 1, log.read_text()
    assert log.read_text().count("-0 offset 11007 (") == 1, "what was compared is not compared again"


def verify_other(appliance: RunningAppliance) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mirror.cli", "verify", str(appliance.file), "x->y"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=appliance.environment,
    )
    assert done.returncode == 2
    return done.stderr
