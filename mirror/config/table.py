"""List every setting that is not a client's: one row each.

Loading, checks, `explain`, the options of the command line and docs/configuration.md read this table, as Kafka's programs read
their ConfigDef. Imports little, so that `--help` prints at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from mirror.config import values
from mirror.config.properties import DEFAULT, Entry
from mirror.policy.recreated import OnRecreated

OFFSETS_TOPIC_KEY = "offset.storage.topic"
GROUP_KEY = "group.id"
EXACTLY_ONCE_KEY = "exactly.once.source.support"
RECREATED_KEY = "mirror.recreated.topics"
BIDIRECTIONAL_KEY = "mirror.identity.bidirectional"
TAKEOVER_KEY = "mirror.takeover.connectors"


class Scope(Enum):
    """What a setting belongs to."""

    FILE = "the whole file"
    CLUSTER = "a cluster: A.key, or key for all"
    FLOW = "a flow: A->B.key, or key for all"
    TARGET = "the target of a flow: B.key, or key for all"
    PROCESS = "the process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """The type of a setting: how its value is read and checked."""

    name: str  # in docs/configuration.md
    read: Callable[[Entry], Any]  # raises SettingsError
    metavar: str = ""  # of an option of the command line


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. Its name ends with its unit, if it has one."""

    key: str  # without the cluster or the flow that it is set for
    scope: Scope
    type: Type
    default: str | None  # as a file would write it; None: there is none
    doc: str  # the first sentence is also the help of the option
    shown_default: str = ""  # in the documentation, where that differs from `default`
    has_option: bool = False  # on the command line

    @property
    def documented_default(self) -> str:
        """Return the default as docs/configuration.md shows it."""
        return self.shown_default or (f"`{self.default}`" if self.default else "")

    @property
    def option(self) -> str:
        """Return the name of the option: --window-ms for mirror.window.ms."""
        return f"--{self.key.removeprefix('mirror.').replace('.', '-')}"

    @property
    def help(self) -> str:
        """Return the help of the option."""
        summary = self.doc.partition(". ")[0].rstrip(".").replace("`", "")
        return f"{summary} (default: {self.shown_default or self.default})"

    def read(self, entry: Entry) -> Any:
        """Return a value as its type; raise SettingsError for one that is not of this type."""
        return self.type.read(entry)

    def default_value(self) -> Any:
        """Return the default as its type."""
        return self.read(Entry(key=self.key, value=self.default or "", where=DEFAULT))


def _integer(least: int, most: int = values.INT_MAX) -> Type:
    name = f"integer from {least}" + (f" to {most}" if most != values.INT_MAX else "")
    return Type(name=name, read=partial(values.integer, least=least, most=most), metavar="N")


def _seconds(entry: Entry) -> float:
    return float(values.integer(entry, least=1))


def _ms_as_seconds(entry: Entry) -> float:
    return values.integer(entry, least=1) / 1000


def _side(first: str, second: str) -> Type:
    complaint = f'is neither side. Write "{first}" or "{second}".'
    return Type(name=f"`{first}` or `{second}`", read=partial(values.word, words=(first, second), complaint=complaint))


def _recreated(entry: Entry) -> OnRecreated:
    complaint = f"is no policy. Write one of {', '.join(OnRecreated)}."
    return OnRecreated(values.word(entry, words=tuple(OnRecreated), complaint=complaint))


_BOOLEAN = Type(name="boolean", read=values.boolean, metavar="BOOL")
_TEXT = Type(name="text", read=values.text)
_CLASS = Type(name="class", read=values.text)  # imported by its reader
_PATH = Type(name="path", read=values.text)
_FOLDER = Type(name="path", read=values.folder, metavar="DIR")
_PASSWORD = Type(name="password", read=lambda entry: entry.value)
_URL = Type(name="URL", read=values.url)
_ADDRESS = Type(name="host:port", read=values.host_port, metavar="HOST:PORT")
_ADDRESSES = Type(name="list of host:port", read=values.text)
_NAMES = Type(name="list of names", read=values.names)
_PATTERNS = Type(name="list of regular expressions", read=values.patterns)
_FACTOR = Type(name="-1, or integer from 1", read=values.replication_factor)
_SECONDS = Type(name="integer from 1", read=_seconds)
_MS = Type(name="integer from 1", read=partial(values.integer, least=1), metavar="MS")
_MS_AS_SECONDS = Type(name="integer from 1", read=_ms_as_seconds, metavar="MS")
_RECREATED = Type(name="`restart`, `stop` or `continue`", read=_recreated)
_SUPPORT = Type(
    name="`disabled`, `preparing` or `enabled`",
    read=partial(
        values.word,
        words=("disabled", "preparing", "enabled"),
        complaint='is no such support. Write "disabled", "preparing" or "enabled".',
    ),
)


def _row(scope: Scope, key: str, type_: Type, default: str | None, **more: Any) -> Callable[[str], Setting]:
    """Return the first line of a row; called with its documentation, it returns the whole row."""
    return lambda doc: Setting(key=key, scope=scope, type=type_, default=default, doc=doc, **more)


_file, _cluster, _flow, _target, _process = (partial(_row, scope) for scope in Scope)
_option = partial(_process, has_option=True)

# Defaults of a flow are those of MirrorSourceConfig, MirrorCheckpointConfig, MirrorHeartbeatConfig and MirrorConnectorConfig
# of Kafka 4.1.1.
TABLE = (
    _file("clusters", _NAMES, None, shown_default="required")(
        "Aliases of the clusters. An alias may contain dots; if several aliases fit a key, the longest wins."
    ),
    _cluster("bootstrap.servers", _ADDRESSES, None, shown_default="required")("Brokers of the cluster."),
    _flow("enabled", _BOOLEAN, "false")(
        "Replicate from A to B. The top-level key applies to every pair of clusters that does not set its own, unless "
        "`emit.heartbeats.enabled=false`, as in MirrorMaker."
    ),
    _flow("topics", _PATTERNS, ".*")("A topic is replicated if an expression matches its whole name. Empty: none."),
    _flow("topics.exclude", _PATTERNS, r"mm2.*\.internal, .*\.replica, __.*")(
        "A topic that an expression matches is not replicated, even if `topics` matches it."
    ),
    _flow("groups", _PATTERNS, ".*")("Consumer groups whose offsets are translated."),
    _flow("groups.exclude", _PATTERNS, "console-consumer-.*, connect-.*, __.*")(
        "Offsets of a group that an expression matches are not translated, even if `groups` matches it."
    ),
    _flow("replication.policy.class", _CLASS, "DefaultReplicationPolicy")(
        "`DefaultReplicationPolicy` or `IdentityReplicationPolicy`, with or without the prefix "
        "`org.apache.kafka.connect.mirror.`. The identity policies of Strimzi and AWS "
        "(`io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy`, "
        "`com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy`) are read as Kafka's. Or a Python class derived from "
        "`mirror.policy.naming.ReplicationPolicy`, as `module.Class`."
    ),
    _flow("replication.policy.separator", _TEXT, ".")(
        "Text between the source alias and the topic in the name of a remote topic."
    ),
    _flow("replication.policy.internal.topic.separator.enabled", _BOOLEAN, "true")(
        "Use the separator in the names of the checkpoints and offset-syncs topics too. `false` keeps `.` in these names."
    ),
    _flow("replication.factor", _FACTOR, "2")(
        "Replication factor of topics that kafka-mirror creates on the target, its own topics included. `-1`: the default of "
        "the target's brokers."
    ),
    _flow("tasks.max", _integer(1), "1")(
        "Maximum number of tasks that share the partitions of the flow. A value above `mirror.slots` has no effect."
    ),
    _flow("refresh.topics.enabled", _BOOLEAN, "true")("Look for new topics and partitions."),
    _flow("refresh.topics.interval.seconds", _SECONDS, "600")("How often to look for new topics and partitions."),
    _flow("refresh.groups.enabled", _BOOLEAN, "true")(
        "Translate the offsets of groups that appear later too. Each round of checkpoints looks for them."
    ),
    _flow("sync.topic.configs.enabled", _BOOLEAN, "true")(
        "Copy the settings of source topics to remote topics. A setting that the source topic sets is set; a setting with its "
        "default on the source falls back to the target's default. Only differences are written."
    ),
    _flow("sync.topic.configs.interval.seconds", _SECONDS, "600")(
        "How often to copy topic settings; the first time is at start."
    ),
    _flow("sync.topic.acls.enabled", _BOOLEAN, "true")(
        "Copy the ACLs of source topics to remote topics. ALLOW WRITE is left out, ALLOW ALL becomes ALLOW READ. Only ACLs of "
        "literal names other than `*` are copied; none is removed."
    ),
    _flow("sync.topic.acls.interval.seconds", _SECONDS, "600")("How often to copy ACLs; the first time is at start."),
    _flow(
        "config.properties.exclude",
        _PATTERNS,
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
        r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
        r"min\.insync\.replicas",
    )("Topic settings that are never copied."),
    _flow("use.defaults.from", _side("target", "source"), "target")(
        "With `source`, a topic setting with its default on the source is set to that value on the target."
    ),
    _flow("emit.heartbeats.enabled", _BOOLEAN, "true")("Write heartbeats to the topic `heartbeats` on the target."),
    _flow("emit.heartbeats.interval.seconds", _SECONDS, "1")("How often to write a heartbeat."),
    _flow("heartbeats.topic.replication.factor", _FACTOR, "3")("Replication factor of the heartbeats topic."),
    _flow("heartbeats.replication.enabled", _BOOLEAN, "true")(
        "Replicate the heartbeats topics of the source, whatever `topics` matches. With `false`, `topics` decides."
    ),
    _flow("emit.checkpoints.enabled", _BOOLEAN, "true")(
        "Translate the offsets of groups and write checkpoints ([offsets.md](offsets.md)). `false` also turns off offset syncs "
        "and the sync of group offsets."
    ),
    _flow("emit.checkpoints.interval.seconds", _SECONDS, "60")("How often to write checkpoints."),
    _flow("checkpoints.topic.replication.factor", _FACTOR, "3")(
        "Replication factor of the topic `A.checkpoints.internal`."
    ),
    _flow("sync.group.offsets.enabled", _BOOLEAN, "false")(
        "Commit the translated offsets for idle groups on the target. Offsets never move back."
    ),
    _flow("sync.group.offsets.interval.seconds", _SECONDS, "60")(
        "How often to commit translated offsets. Not more often than checkpoints are written."
    ),
    _flow("emit.offset-syncs.enabled", _BOOLEAN, "true")("Write MirrorMaker's offset syncs, for its tools."),
    _flow("offset-syncs.topic.location", _side("source", "target"), "source")(
        "Cluster that has the offset-syncs topic. `source` needs `CREATE` and `WRITE` on the source."
    ),
    _flow("offset-syncs.topic.replication.factor", _FACTOR, "3")("Replication factor of the offset-syncs topic."),
    _flow("topic.filter.class", _CLASS, "DefaultTopicFilter")(
        "`DefaultTopicFilter`, or a Python class derived from `mirror.policy.filters.NameFilter`, as `module.Class`; the module "
        "must be on `PYTHONPATH`."
    ),
    _flow("group.filter.class", _CLASS, "DefaultGroupFilter")(
        "`DefaultGroupFilter`, or a Python class as for `topic.filter.class`."
    ),
    _flow("config.property.filter.class", _CLASS, "DefaultConfigPropertyFilter")(
        "`DefaultConfigPropertyFilter`, or a Python class derived from `mirror.policy.topic_configs.ConfigSync`."
    ),
    _flow(RECREATED_KEY, _RECREATED, "restart")(
        "What to do when a topic was deleted and created again, which its id shows. On the source, `restart` replicates the new "
        "topic from its start, after the records that the target has; `stop` pauses its partitions until `kafka-mirror "
        "positions` sets a position; `continue` resumes at the old position, or at the log's end. On the target, `restart` "
        "fills the topic again, `continue` replicates new records only, `stop` does not create the topic."
    ),
    _flow(BIDIRECTIONAL_KEY, _BOOLEAN, "false")(
        "Under `IdentityReplicationPolicy`: flows go both ways between two clusters, and each record is replicated once "
        "([both-ways.md](both-ways.md)). Set it for both flows."
    ),
    _flow(TAKEOVER_KEY, _NAMES, "MirrorSourceConnector")(
        "Names of the source connectors whose positions a flow without positions starts at. MirrorMaker's dedicated process "
        "uses the default; in Kafka Connect, operators choose the names."
    ),
    _target(EXACTLY_ONCE_KEY, _SUPPORT, "disabled")(
        "With `enabled`, write to the target in transactions, so that each record is delivered exactly once. `preparing` has no "
        "effect."
    ),
    _target(OFFSETS_TOPIC_KEY, _TEXT, None, shown_default="`mm2-offsets.A.internal`")(
        "Topic on the target that has the positions of a MirrorMaker 2 that ran before."
    ),
    _target(GROUP_KEY, _TEXT, None, shown_default="none")(
        "Group of the Connect workers that ran before. kafka-mirror does not start while the group, or `A-mm2`, has members."
    ),
    _process("mirror.app.grafana.url", _URL, "")(
        "A Grafana with the boards of kafka-mirror; the lag inspector links to them."
    ),
    _process("mirror.app.prometheus.url", _URL, "")(
        "A Prometheus that scrapes kafka-mirror; the lag inspector shows past incidents and firing alerts from it."
    ),
    _process("mirror.http.username", _TEXT, "")(
        "Login (HTTP Basic) of `/metrics` and the lag inspector. Set both username and password, or none. `/ready` needs no "
        "login."
    ),
    _process("mirror.http.password", _PASSWORD, "")(
        "Password of `mirror.http.username`. A config provider may supply it."
    ),
    _process("mirror.http.tls.certificate", _PATH, "")(
        "PEM file; with it, `/metrics` and the lag inspector are served over TLS."
    ),
    _process("mirror.http.tls.key", _PATH, "")("PEM file of the key, unless the certificate's file contains the key."),
    _option("mirror.metrics.listen", _ADDRESS, "127.0.0.1:9404")(
        "Where `/metrics` and `/ready` are served. Port 0: the system chooses. If the key is not set and the port is taken, "
        "kafka-mirror uses the next free port and logs it."
    ),
    _option("mirror.metrics.max.series", _integer(1), "250000")(
        "Maximum number of series of one scrape. Beyond it, the series of partitions fold into one series per topic, from the "
        "last family of [metrics.md](metrics.md) to the first; if that is not enough, series of topics are left out. "
        "`kafka_mirror_dropped_series` shows how many. In OpenMetrics, creation times (`_created`) fill what is left."
    ),
    _option("mirror.metrics.strimzi.names", _BOOLEAN, "false")(
        "Serve MirrorMaker's metrics also under the names of Strimzi's exporter rules. These are "
        "`kafka_connect_mirror_mirrorsourceconnector_*`, `kafka_connect_mirror_mirrorcheckpointconnector_*`, "
        "`kafka_connect_source_task_*` and `kafka_connect_connector_status`, so that boards made for MirrorMaker 2 keep "
        "working."
    ),
    _option("mirror.state.dir", _FOLDER, "state")(
        "Spark's checkpoint location and the plan of one process. The directory contains client properties: keep it private. If "
        "the key is not set and a running mirror uses the directory, kafka-mirror uses `state-2`, `state-3` and so on."
    ),
    _option("mirror.window.ms", _MS, "10000")("Length of a micro-batch."),
    _process("mirror.transaction.ms", _MS, "100")(
        "Maximum length of a transaction with `B.exactly.once.source.support = enabled`, or five times that while more than 1 "
        "MiB waits in a slot. A transaction is committed earlier if no more records wait to be sent. Longer transactions have a "
        "higher throughput, and their records are readable later."
    ),
    _process("mirror.drill.enabled", _BOOLEAN, "false")(
        "Flows with a reverse flow replicate the canary topics of drills (`mirror-drill-A-B`), so that `kafka-mirror drill` can "
        "rehearse a switch."
    ),
    _process("mirror.drill.interval.seconds", _integer(0), "0")(
        "How often the process that leads a flow with canary topics rehearses a switch. 0: only on request. An alert fires if "
        "no drill has passed for two intervals."
    ),
    _process("mirror.heartbeats.all.pairs", _BOOLEAN, "false")(
        "Write heartbeats for every pair of clusters, enabled or not, as MirrorMaker does. Its tools count hops by replicated "
        "heartbeats, so B knows of A only if A has heartbeats."
    ),
    _option("mirror.lanes", _integer(1, 2), "2")("Number of streaming queries that take turns."),
    _option("mirror.slots", _integer(1), str(os.cpu_count() or 1), shown_default="number of processors")(
        "Tasks per window, of all processes together that share the flows. See [deployment.md](deployment.md)."
    ),
    _option("mirror.poll.interval.ms", _MS_AS_SECONDS, "5000")("How often offsets and lag are read."),
    _option("mirror.source.group.enabled", _BOOLEAN, "true")(
        "Commit positions also to the group `mirror.A->B` on the source, for lag tools. Positions are committed at each poll. "
        "This needs `READ` on the group and the topics; without it kafka-mirror logs one warning."
    ),
    _process("mirror.spark.X", _TEXT, None, shown_default="none")("Setting `spark.X` of Spark."),
)
SETTINGS = {setting.key: setting for setting in TABLE}


def keys_of(scope: Scope) -> frozenset[str]:
    """Return the keys of a scope."""
    return frozenset(setting.key for setting in TABLE if setting.scope is scope)


def defaults_of(scope: Scope) -> dict[str, str]:
    """Return the defaults of a scope, as a file would write them."""
    return {setting.key: setting.default for setting in TABLE if setting.scope is scope and setting.default is not None}


FLOW_DEFAULTS, FLOW_KEYS = defaults_of(Scope.FLOW), keys_of(Scope.FLOW)
TARGET_DEFAULTS, TARGET_KEYS = defaults_of(Scope.TARGET), keys_of(Scope.TARGET)
PROCESS_DEFAULTS = defaults_of(Scope.PROCESS)
OPTIONS = tuple(setting for setting in TABLE if setting.has_option)


_PREFIXES = {Scope.CLUSTER: "A.", Scope.TARGET: "B."}


def reference(*scopes: Scope) -> str:
    """Return the table of docs/configuration.md with the settings of some scopes."""
    rows = [
        f"| `{_PREFIXES.get(each.scope, '')}{each.key}` | {each.type.name} | {each.documented_default} | {each.doc} |\n"
        for each in TABLE
        if each.scope in scopes
    ]
    return "".join(("| Key | Type | Default | Meaning |\n|---|---|---|---|\n", *rows))
