"""The next step of the partition page: a command that fits the error or the status, with the names of the partition."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from app.next_step import next_step
from metrics.error_kind import ErrorKind
from metrics.partition_status import Status
from mirror.config.load import load
from tests.unit.test_app import HOSTILE, STALLED, consumer, flow


@pytest.fixture
def a_to_b(tmp_path):
    file = tmp_path / "mirror.properties"
    file.write_text("clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n")
    return load(file).flows[0]


def step_of(row, own, error=None):
    return next_step(row, own, error=error, file="mirror.properties", process="127.0.0.1:9404")


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (
            ErrorKind.RECORD_TOO_LARGE,
            "kafka-configs.sh --bootstrap-server b:1 --alter --entity-type topics --entity-name a.payments "
            "--add-config max.message.bytes=BYTES",
        ),
        (ErrorKind.PAUSED_BY_OPERATOR, "kafka-mirror positions resume mirror.properties 'a->b' --topic payments"),
        (
            ErrorKind.SOURCE_NOT_AUTHORIZED,
            "kafka-acls.sh --bootstrap-server a:1 --add --allow-principal User:MIRROR --operation Read --topic payments",
        ),
        (
            ErrorKind.TARGET_NOT_AUTHORIZED,
            "kafka-acls.sh --bootstrap-server b:1 --add --allow-principal User:MIRROR --operation Write --topic a.payments",
        ),
        (ErrorKind.TARGET_UNAVAILABLE, "kafka-topics.sh --bootstrap-server b:1 --describe --topic a.payments"),
        (ErrorKind.POSITION_REQUIRED, "kafka-mirror positions show mirror.properties 'a->b' --topic payments"),
        (ErrorKind.OFFSETS_DIFFER, "kafka-mirror verify mirror.properties 'a->b' --topic payments"),
        (ErrorKind.OTHER, "curl -s http://127.0.0.1:9404/errors"),
        (None, "curl -s http://127.0.0.1:9404/errors"),
    ],
)
def test_an_error_has_its_command(a_to_b, error, command):
    assert step_of(STALLED, a_to_b, error).command == command


@pytest.mark.parametrize("status", [each for each in Status if each not in (Status.OK, Status.IDLE)])
def test_every_bad_status_has_a_step(a_to_b, status):
    assert step_of(replace(STALLED, status=status, log_end=None), a_to_b) is not None


def test_a_cluster_that_is_unknown_is_the_one_to_check(a_to_b):
    dark = replace(STALLED, status=Status.UNKNOWN)
    assert step_of(replace(dark, log_end=None), a_to_b).command == "kafka-broker-api-versions.sh --bootstrap-server a:1"
    assert step_of(replace(dark, offset=None), a_to_b).command == "kafka-broker-api-versions.sh --bootstrap-server b:1"
    assert step_of(dark, a_to_b) is None  # too few polls


def test_a_healthy_row_has_no_next_step(a_to_b):
    assert step_of(flow(), a_to_b) is None
    assert step_of(replace(flow(), status=Status.IDLE), a_to_b) is None


def test_a_group_is_described_by_kafkas_tool(a_to_b):
    row = replace(consumer(HOSTILE), status=Status.STALL)
    command = step_of(row, a_to_b).command
    assert command.startswith("kafka-consumer-groups.sh --bootstrap-server a:1 --describe --group ")
    assert shlex.split(command)[-1] == HOSTILE
