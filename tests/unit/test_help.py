"""`--help`: the samples are what the commands print."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from metrics.lag_row import LagRow
from metrics.partition_status import Status
from mirror.commands import failover_check, import_, lag, plan, positions, translate
from mirror.config.imports.connectors import Item
from mirror.config.settings import NO_TOPICS
from mirror.flows.stored_positions import Position
from mirror.flows.translation import Place
from mirror.kafka.cluster_facts import LogDirs
from mirror.lag.failover import Answer, FailoverReadiness, GroupOffsets, Objective, Planned
from mirror.lag.text import checker_text
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.policy.naming import DefaultReplicationPolicy


def sample(examples: str) -> str:
    """Return the sample of what a command prints, without its indent."""
    lines = examples.partition("prints, for example:\n")[2].splitlines()
    return "\n".join(line[2:] for line in lines if line.startswith("  "))


def row(group: str, offset: int, owner: str) -> LagRow:
    return LagRow(
        group=group,
        cluster="a",
        topic="orders",
        partition=0,
        offset=offset,
        log_end=200,
        owner=owner,
        is_flow=bool(owner),
        remote_topic="",
        lag_seconds=None,
        status=Status.OK,
        reason="",
        records_per_s=None,
        level_in_s=None,
    )


def test_lag():
    printed = checker_text([row("a->b", 200, "127.0.0.1:9404"), row("billing", 150, "")])
    assert printed.strip() == sample(lag.EXAMPLES)


def test_failover_check():
    answer = FailoverReadiness(
        flow="a->b",
        planned=Planned.READY,
        objective=Objective.BEYOND,
        answer=Answer.GO_WITH_LOSS,
        takes_s=17.0,
        records=1234,
        seconds=95.0,
        groups=GroupOffsets(exact=12, rereading=1, reread_records=7),
    )
    assert failover_check.text([answer]).strip() == sample(failover_check.EXAMPLES)


def test_translate():
    assert translate._text([(Place("orders", 0, 150), Place("a.orders", 0, 148))]) == sample(translate.EXAMPLES)


def test_import():
    where = "source.json: my-source"
    refused = Item(found="transforms", where=where, key="primary->backup.transforms")
    items = [
        Item(found="topics", where=where, key="primary->backup.topics"),
        refused.by_hand("is not supported: it changes records"),
    ]
    printed = import_.as_text(Path("mirror.properties"), items, (), ())
    assert printed.partition("\n\nwritten: ")[0].replace("\n\n", "\n") == sample(import_.EXAMPLES)


class Source:
    def start_offsets(self, wanted):
        return dict.fromkeys(wanted, 0)

    def end_offsets(self, wanted, *, read_committed=False):
        return dict.fromkeys(wanted, 200)


def test_positions():
    parts = tuple(PlannedPartition("orders", "a.orders", number, "id") for number in range(2))
    flow = FlowPlan(
        source="a", target="b", tasks_max=1, consumer={"bootstrap.servers": "a:1"}, producer={}, partitions=parts
    )
    found = {("a.orders", 0): Position(200, ""), ("a.orders", 1): Position(150, "")}
    assert positions._text(flow, parts, found, Source()) == sample(positions.EXAMPLES)


def test_plan():
    source_dirs, target_dirs = LogDirs({("orders", 0): int(12.4 * (1 << 30))}, None), LogDirs({}, 310 << 30)
    topic = SimpleNamespace(source=SimpleNamespace(name="orders", partitions=2, is_hidden=False), remote="a.orders")
    state = SimpleNamespace(
        flow=SimpleNamespace(
            name="a->b",
            source=SimpleNamespace(alias="a"),
            target=SimpleNamespace(alias="b"),
            consumer={},
            replication_factor=3,
            policy=DefaultReplicationPolicy(source_alias="a"),
            transforms=(),
            identical_topics=NO_TOPICS,
            sync_configs=SimpleNamespace(enabled=False),
            sync_acls=SimpleNamespace(enabled=False),
        ),
        topics=[topic],
        look_for_loops=lambda: None,
        loops=SimpleNamespace(going_round=set()),
        source=SimpleNamespace(log_dirs=lambda _: source_dirs),
        target=SimpleNamespace(
            log_dirs=lambda _: target_dirs,
            topics=dict,
            committed=lambda group, wanted: {("a.orders", 0): 200},
            create=lambda *_, **__: "",
        ),
    )
    assert plan._flow_text(state).strip() == sample(plan.EXAMPLES)
