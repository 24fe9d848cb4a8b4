"""List every setting: one row each.

Loading, checks, `explain`, the options of the command line and docs/configuration.md read this table, as Kafka's programs read
their ConfigDef. Imports little, so that `--help` prints at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from mirror.config.setting_types import (
    ADDRESS,
    ADDRESSES,
    BOOLEAN,
    CLASS,
    FACTOR,
    FOLDER,
    LEVEL,
    MS,
    MS_AS_SECONDS,
    NAMES,
    PASSWORD,
    PATH,
    PATTERNS,
    PROTOCOL,
    RECREATED,
    SECONDS,
    SUPPORT,
    TEXT,
    URL,
    Scope,
    Setting,
    Type,
    integer,
    one_of,
    side,
)

OFFSETS_TOPIC_KEY = "offset.storage.topic"
GROUP_KEY = "group.id"
EXACTLY_ONCE_KEY = "exactly.once.source.support"
RECREATED_KEY = "mirror.recreated.topics"
RPO_KEY = "mirror.rpo.objective.seconds"
BIDIRECTIONAL_KEY = "mirror.identity.bidirectional"
TAKEOVER_KEY = "mirror.takeover.connectors"
OFFSETS_KEY = "mirror.offsets"
IDENTICAL_KEY = "mirror.offsets.identical.topics"


def _row(scope: Scope, key: str, type_: Type, default: str | None, **more: Any) -> Callable[[str], Setting]:
    """Return the first line of a row. Called with its documentation, it returns the whole row."""
    return lambda doc: Setting(key=key, scope=scope, type=type_, default=default, doc=doc, **more)


_file, _cluster, _flow, _target, _client, _consumer, _producer, _process = (partial(_row, scope) for scope in Scope)
_option = partial(_process, has_option=True)

# Defaults of a flow are those of MirrorSourceConfig, MirrorCheckpointConfig, MirrorHeartbeatConfig and MirrorConnectorConfig
# of Kafka 4.1.1.
TABLE = (
    _file("clusters", NAMES, None, shown_default="required")(
        "Aliases of the clusters. An alias may contain dots; if several aliases fit a key, the longest wins."
    ),
    _cluster("bootstrap.servers", ADDRESSES, None, shown_default="required")("Brokers of the cluster."),
    _flow("enabled", BOOLEAN, "false")(
        "Replicate from A to B. The top-level key applies to every pair of clusters that does not set its own, unless "
        "`emit.heartbeats.enabled=false`, as in MirrorMaker."
    ),
    _flow("topics", PATTERNS, ".*")("A topic is replicated if an expression matches its whole name. Empty: none."),
    _flow("topics.exclude", PATTERNS, r"mm2.*\.internal, .*\.replica, __.*")(
        "A topic that an expression matches is not replicated, even if `topics` matches it."
    ),
    _flow("groups", PATTERNS, ".*")("Consumer groups whose offsets are translated."),
    _flow("groups.exclude", PATTERNS, "console-consumer-.*, connect-.*, __.*")(
        "Offsets of a group that an expression matches are not translated, even if `groups` matches it."
    ),
    _flow("replication.policy.class", CLASS, "DefaultReplicationPolicy")(
        "`DefaultReplicationPolicy` or `IdentityReplicationPolicy`, with or without the prefix "
        "`org.apache.kafka.connect.mirror.`. The identity policies of Strimzi and AWS "
        "(`io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy`, "
        "`com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy`) are read as Kafka's. Or a Python class derived from "
        "`mirror.policy.naming.ReplicationPolicy`, as `module.Class`."
    ),
    _flow("replication.policy.separator", TEXT, ".")(
        "Text between the source alias and the topic in the name of a remote topic."
    ),
    _flow("replication.policy.internal.topic.separator.enabled", BOOLEAN, "true")(
        "Use the separator in the names of the checkpoints and offset-syncs topics too. `false` keeps `.` in these names."
    ),
    _flow("replication.factor", FACTOR, "2")(
        "Replication factor of topics that kafka-mirror creates on the target, its own topics included. `-1`: the default of "
        "the target's brokers."
    ),
    _flow("tasks.max", integer(1), "1")(
        "Maximum number of tasks that share the partitions of the flow. A value above `mirror.slots` has no effect."
    ),
    _flow("refresh.topics.enabled", BOOLEAN, "true")("Look for new topics and partitions."),
    _flow("refresh.topics.interval.seconds", SECONDS, "600")("How often to look for new topics and partitions."),
    _flow("refresh.groups.enabled", BOOLEAN, "true")(
        "Translate the offsets of groups that appear later too. Each round of checkpoints looks for new groups."
    ),
    _flow("sync.topic.configs.enabled", BOOLEAN, "true")(
        "Copy the settings of source topics to remote topics. A setting that the source topic sets is set; a setting with its "
        "default on the source falls back to the target's default. Only differences are written."
    ),
    _flow("sync.topic.configs.interval.seconds", SECONDS, "600")(
        "How often to copy topic settings; the first time is at start."
    ),
    _flow("sync.topic.acls.enabled", BOOLEAN, "true")(
        "Copy the ACLs of source topics to remote topics. ALLOW WRITE is left out, ALLOW ALL becomes ALLOW READ. Only ACLs of "
        "literal names other than `*` are copied; none is removed."
    ),
    _flow("sync.topic.acls.interval.seconds", SECONDS, "600")("How often to copy ACLs; the first time is at start."),
    _flow(
        "config.properties.exclude",
        PATTERNS,
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
        r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
        r"min\.insync\.replicas",
    )("Topic settings that are never copied."),
    _flow("use.defaults.from", side("target", "source"), "target")(
        "With `source`, a topic setting that has its default on the source is set to that default on the target."
    ),
    _flow("emit.heartbeats.enabled", BOOLEAN, "true")("Write heartbeats to the topic `heartbeats` on the target."),
    _flow("emit.heartbeats.interval.seconds", SECONDS, "1")("How often to write a heartbeat."),
    _flow("heartbeats.topic.replication.factor", FACTOR, "3")("Replication factor of the heartbeats topic."),
    _flow("heartbeats.replication.enabled", BOOLEAN, "true")(
        "Replicate the heartbeats topics of the source, even if `topics` does not match them. With `false`, `topics` decides."
    ),
    _flow("emit.checkpoints.enabled", BOOLEAN, "true")(
        "Translate the offsets of groups and write checkpoints ([offsets.md](offsets.md)). `false` also turns off offset syncs "
        "and the sync of group offsets."
    ),
    _flow("emit.checkpoints.interval.seconds", SECONDS, "60")("How often to write checkpoints."),
    _flow("checkpoints.topic.replication.factor", FACTOR, "3")(
        "Replication factor of the topic `A.checkpoints.internal`."
    ),
    _flow("sync.group.offsets.enabled", BOOLEAN, "false")(
        "Commit the translated offsets for idle groups on the target. Offsets never move back."
    ),
    _flow("sync.group.offsets.interval.seconds", SECONDS, "60")(
        "How often to commit translated offsets. Not more often than checkpoints are written."
    ),
    _flow("emit.offset-syncs.enabled", BOOLEAN, "true")("Write MirrorMaker's offset syncs, for its tools."),
    _flow("offset-syncs.topic.location", side("source", "target"), "source")(
        "Cluster that has the offset-syncs topic. `source` needs `CREATE` and `WRITE` on the source."
    ),
    _flow("offset-syncs.topic.replication.factor", FACTOR, "3")("Replication factor of the offset-syncs topic."),
    _flow("topic.filter.class", CLASS, "DefaultTopicFilter")(
        "`DefaultTopicFilter`, or a Python class derived from `mirror.policy.filters.NameFilter`, as `module.Class`; the module "
        "must be on `PYTHONPATH`."
    ),
    _flow("group.filter.class", CLASS, "DefaultGroupFilter")(
        "`DefaultGroupFilter`, or a Python class as for `topic.filter.class`."
    ),
    _flow("config.property.filter.class", CLASS, "DefaultConfigPropertyFilter")(
        "`DefaultConfigPropertyFilter`, or a Python class derived from `mirror.policy.topic_configs.ConfigSync`."
    ),
    _flow(RECREATED_KEY, RECREATED, "restart")(
        "What to do when a topic was deleted and created again, which its id shows. If the source topic was recreated, `restart` "
        "replicates it from its start and appends its records to those on the target. `stop` pauses its partitions until "
        "`kafka-mirror positions` sets a position. `continue` resumes at the old position, or at the log's end. If the remote "
        "topic was deleted or recreated, `restart` fills it again, `continue` replicates new records only, and `stop` does not "
        "create it."
    ),
    _flow(RPO_KEY, integer(1), "60")(
        "Recovery point objective in seconds: for how long a record may wait for the target. The failover check compares this "
        "objective with the longest wait of a record that a loss of the source would lose."
    ),
    _flow(BIDIRECTIONAL_KEY, BOOLEAN, "false")(
        "Under `IdentityReplicationPolicy`: flows go both ways between two clusters, and each record is replicated once "
        "([both-ways.md](both-ways.md)). Set it for both flows."
    ),
    _flow(OFFSETS_KEY, one_of("translated", "identical"), "translated")(
        "With `identical`, each record has the same offset on the target as on the source "
        "([identical-offsets.md](identical-offsets.md)). Not with exactly once, with `mirror.identity.bidirectional`, or with "
        "transforms that drop records."
    ),
    _flow(IDENTICAL_KEY, PATTERNS, None, shown_default="all with `mirror.offsets=identical`, else none")(
        "Topics of the source whose offsets are identical. The offsets of the others are translated."
    ),
    _flow(TAKEOVER_KEY, NAMES, "MirrorSourceConnector")(
        "Names of the source connectors whose positions a flow without positions starts at. MirrorMaker's dedicated process "
        "uses the default; in Kafka Connect, operators choose the names."
    ),
    _target(EXACTLY_ONCE_KEY, SUPPORT, "disabled")(
        "With `enabled`, write to the target in transactions, so that each record is delivered exactly once. `preparing` has no "
        "effect."
    ),
    _target(OFFSETS_TOPIC_KEY, TEXT, None, shown_default="`mm2-offsets.A.internal`")(
        "Topic on the target that has the positions of a MirrorMaker 2 that ran before."
    ),
    _target(GROUP_KEY, TEXT, None, shown_default="none")(
        "Group of the Connect workers that ran before. kafka-mirror does not start while the group, or `A-mm2`, has members."
    ),
    _client("security.protocol", PROTOCOL, "PLAINTEXT")("How clients connect."),
    _client("sasl.mechanism", TEXT, None, shown_default="required with SASL")(
        "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `GSSAPI` (Kerberos) or `AWS_MSK_IAM`. `GSSAPI` and "
        "`AWS_MSK_IAM` need additional packages ([security.md](security.md#kerberos)). With `sasl.jaas.config` and without "
        "this key: `GSSAPI`, as in Java."
    ),
    _client("sasl.jaas.config", TEXT, None, shown_default="required with SASL")(
        "A login module by its full Java name, and its options. `PlainLoginModule` or `ScramLoginModule` "
        '`required username="..." password="...";`. `OAuthBearerLoginModule required clientId="..." clientSecret="...";`, '
        "optionally with `scope` and `extension_X`. For GSSAPI "
        '`com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="..." principal="...";`, '
        "or `useTicketCache=true`, optionally with `ticketCache` and `principal`. For AWS_MSK_IAM "
        "`software.amazon.msk.auth.iam.IAMLoginModule required;`, optionally with `awsProfileName`, or with `awsRoleArn` and "
        "`awsRoleSessionName`."
    ),
    _client("sasl.oauthbearer.client.credentials.client.id", TEXT, None, shown_default="none")(
        "Key of Kafka 4.1 that overrides `clientId` of `sasl.jaas.config`."
    ),
    _client("sasl.oauthbearer.client.credentials.client.secret", TEXT, None, shown_default="none")(
        "Key of Kafka 4.1 that overrides `clientSecret` of `sasl.jaas.config`."
    ),
    _client("sasl.oauthbearer.scope", TEXT, None, shown_default="none")(
        "Key of Kafka 4.1 that overrides `scope` of `sasl.jaas.config`."
    ),
    _client("sasl.oauthbearer.token.endpoint.url", TEXT, None, shown_default="required with OAUTHBEARER")(
        "URL that issues tokens for the client's id and secret: `https`, or `http` on the same host."
    ),
    _client("sasl.kerberos.service.name", TEXT, None, shown_default="required with GSSAPI")(
        "Name of the brokers before the slash: `kafka` for `kafka/host@REALM`. Or set `serviceName` of the login module."
    ),
    _client("sasl.client.callback.handler.class", CLASS, None, shown_default="Amazon's")(
        "For AWS_MSK_IAM. Only Amazon's `IAMClientCallbackHandler` (full Java name) is accepted."
    ),
    _client("sasl.login.callback.handler.class", CLASS, None, shown_default="Kafka's")(
        "For OAUTHBEARER. Only Kafka's `OAuthBearerLoginCallbackHandler` (full Java name) is accepted."
    ),
    _client("ssl.truststore.type", TEXT, None, shown_default="`JKS`, as in Java")(
        "`JKS`, `PKCS12` or `PEM`. As in Java, `JKS` and `PKCS12` both read either type."
    ),
    _client("ssl.truststore.location", PATH, None, shown_default="system authorities")("File of trusted certificates."),
    _client("ssl.truststore.password", TEXT, None, shown_default="none")(
        "Password of a JKS or PKCS12 trust store. Without it, the integrity of a JKS is not checked, as in Java."
    ),
    _client("ssl.truststore.certificates", TEXT, None, shown_default="none")(
        "Trusted certificates as text; type `PEM`."
    ),
    _client("ssl.keystore.type", TEXT, None, shown_default="`JKS`, as in Java")("As `ssl.truststore.type`."),
    _client("ssl.keystore.location", PATH, None, shown_default="none")(
        "File of the client's key and its certificates. It must contain exactly one key."
    ),
    _client("ssl.keystore.password", TEXT, None, shown_default="required with JKS and PKCS12")(
        "Password of the key store."
    ),
    _client("ssl.keystore.key", TEXT, None, shown_default="none")("Key of the client as text; type `PEM`."),
    _client("ssl.keystore.certificate.chain", TEXT, None, shown_default="none")(
        "Certificates of the client as text; type `PEM`."
    ),
    _client("ssl.key.password", TEXT, None, shown_default="`ssl.keystore.password`")(
        "Password of the private key, if the key has its own (JKS) or is encrypted (PEM)."
    ),
    _client("ssl.endpoint.identification.algorithm", TEXT, None, shown_default="`https`")(
        "`https`, or empty: the host name of the broker is not checked."
    ),
    _client("client.id", TEXT, None, shown_default="`kafka-mirror`")(
        "Name of the client in the logs and quotas of the brokers. Without the key, admin clients use `rdkafka`."
    ),
    _client("request.timeout.ms", integer(1), "30000")("Time limit of a request. Admin clients use 300000 at most."),
    _client("metadata.max.age.ms", integer(1), "300000")(
        "How often metadata is read. Admin clients use a day at most."
    ),
    _client("retry.backoff.ms", integer(0), "100")("Wait before a retry, in ms. Admin clients wait at least 1 ms."),
    _client("connections.max.idle.ms", integer(-1), "540000")(
        "An idle connection is closed after this time. `-1`: never."
    ),
    _client("send.buffer.bytes", integer(-1), "-1")("Send buffer of a socket. `-1`: the size that the system chooses."),
    _client("receive.buffer.bytes", integer(-1), "-1")(
        "Receive buffer of a socket. `-1`: the size that the system chooses."
    ),
    _consumer("fetch.min.bytes", integer(0), "1")("A broker responds to a fetch when it has this much data."),
    _consumer("fetch.max.wait.ms", integer(0), "500")(
        "A broker responds to a fetch after this time at the latest. If the file does not set it, a fetch of idle partitions may "
        "take 2000 ms."
    ),
    _consumer("fetch.max.bytes", integer(1), "52428800")("Maximum size of a fetch response."),
    _consumer("max.partition.fetch.bytes", integer(1), "1048576")("Maximum data of one partition in a fetch response."),
    _consumer("isolation.level", one_of("read_uncommitted", "read_committed"), "read_uncommitted")(
        "`read_committed` leaves out the records of aborted transactions."
    ),
    _consumer("auto.offset.reset", one_of("earliest", "latest"), "earliest")(
        "Where a partition without a position starts. A topic or partition that appears after the flow began starts at its "
        "beginning in any case."
    ),
    _consumer("client.rack", TEXT, None, shown_default="none")(
        "Location of kafka-mirror. The source's brokers may name a replica in that location to read from."
    ),
    _producer("acks", TEXT, None, shown_default="`all`")("`all` or `-1`; other values are refused."),
    _producer(
        "compression.type", one_of("none", "gzip", "snappy", "lz4", "zstd"), None, shown_default="codec of each batch"
    )("Codec of all batches. A plain batch that compression would make larger stays plain."),
    _producer("compression.gzip.level", LEVEL, None, shown_default="6")("Level of the codec `gzip`, 1 to 9."),
    _producer("compression.lz4.level", LEVEL, None, shown_default="9")(
        "Level of the codec `lz4`, 1 to 17. As in Kafka, the default is the fast compressor."
    ),
    _producer("compression.zstd.level", LEVEL, None, shown_default="3")("Level of the codec `zstd`, -131072 to 22."),
    # Java's 16 KiB costs a round trip per few records; 1 MiB is the default limit of a broker.
    _producer("batch.size", integer(1), "1048576")("Maximum size of a batch, in bytes. Java's default is 16384."),
    _producer("linger.ms", integer(0), "5")(
        "How long a record may wait at the source for others, in ms. After a small fetch, the next fetch waits for this time. "
        "Its records take one request to the target, and small batches of a partition become one batch. A longer time saves CPU "
        "at low rates; `0` gives the lowest latency. The default is that of Kafka 4.0."
    ),
    _producer("max.request.size", integer(1), "1048576")(
        "Maximum size of a request, in bytes. If the key is set, a larger batch of the source is split until it fits, and a "
        "single record that does not fit pauses its partition, as Java's client refuses it. If the key is not set, a larger "
        "batch is sent alone, and the limits of the target decide."
    ),
    _producer("transaction.timeout.ms", integer(1), "60000")(
        "A broker aborts a transaction that is not ended after this time."
    ),
    _process("mirror.app.grafana.url", URL, "")(
        "A Grafana with the boards of kafka-mirror; the lag inspector links to them."
    ),
    _process("mirror.app.prometheus.url", URL, "")(
        "A Prometheus that scrapes kafka-mirror; the lag inspector shows past incidents and firing alerts from it."
    ),
    _process("mirror.http.username", TEXT, "")(
        "Login (HTTP Basic) of `/metrics` and the lag inspector. Set both username and password, or none. `/ready` needs no "
        "login."
    ),
    _process("mirror.http.password", PASSWORD, "")(
        "Password of `mirror.http.username`. A config provider may supply it."
    ),
    _process("mirror.http.tls.certificate", PATH, "")(
        "PEM file; with it, `/metrics` and the lag inspector are served over TLS."
    ),
    _process("mirror.http.tls.key", PATH, "")("PEM file of the key, unless the certificate's file contains the key."),
    _option("mirror.metrics.listen", ADDRESS, "127.0.0.1:9404")(
        "Where `/metrics` and `/ready` are served. Port 0: the system chooses a port. If the key is not set and the port is "
        "taken, kafka-mirror uses the next free port and logs it."
    ),
    _option("mirror.metrics.max.series", integer(1), "250000")(
        "Maximum number of series of one scrape. Beyond it, the series of partitions fold into one series per topic, from the "
        "last family of [metrics.md](metrics.md) to the first; if that is not enough, series of topics are left out. "
        "`kafka_mirror_dropped_series` shows how many. In OpenMetrics, creation times (`_created`) fill what is left."
    ),
    _option("mirror.metrics.strimzi.names", BOOLEAN, "false")(
        "Serve MirrorMaker's metrics also under the names of Strimzi's exporter rules. These are "
        "`kafka_connect_mirror_mirrorsourceconnector_*`, `kafka_connect_mirror_mirrorcheckpointconnector_*`, "
        "`kafka_connect_source_task_*` and `kafka_connect_connector_status`, so that boards made for MirrorMaker 2 keep "
        "working."
    ),
    _option("mirror.state.dir", FOLDER, "state")(
        "Spark's checkpoint location and the plan of one process. The directory contains client properties: keep it private. If "
        "the key is not set and a running mirror uses the directory, kafka-mirror uses `state-2`, `state-3` and so on."
    ),
    _option("mirror.window.ms", MS, "10000")("Length of a micro-batch."),
    _process("mirror.transaction.ms", MS, "100")(
        "Maximum length of a transaction with `B.exactly.once.source.support = enabled`, or five times that while more than 1 "
        "MiB waits in a slot. A transaction is committed earlier if no more records wait to be sent. Longer transactions have a "
        "higher throughput, and their records are readable later."
    ),
    _process("mirror.drill.enabled", BOOLEAN, "false")(
        "Flows with a reverse flow replicate the canary topics of drills (`mirror-drill-A-B`), so that `kafka-mirror drill` can "
        "rehearse a switch."
    ),
    _process("mirror.drill.interval.seconds", integer(0), "0")(
        "How often the process that leads a flow with canary topics rehearses a switch. 0: only on request. An alert fires if "
        "no drill has passed for two intervals."
    ),
    _process("mirror.heartbeats.all.pairs", BOOLEAN, "false")(
        "Write heartbeats for every pair of clusters, enabled or not, as MirrorMaker does. Its tools count hops by replicated "
        "heartbeats, so B knows of A only if A has heartbeats."
    ),
    _option("mirror.lanes", integer(1, 2), "2")("Number of streaming queries that take turns."),
    _option("mirror.slots", integer(1), str(os.cpu_count() or 1), shown_default="number of processors")(
        "Tasks per window, in total for all processes that share the flows. See [deployment.md](deployment.md)."
    ),
    _option("mirror.poll.interval.ms", MS_AS_SECONDS, "5000")("How often offsets and lag are read."),
    _option("mirror.source.group.enabled", BOOLEAN, "true")(
        "Commit positions also to the group `mirror.A->B` on the source, for lag tools. Positions are committed at each poll. "
        "This needs `READ` on the group and the topics; without it kafka-mirror logs one warning."
    ),
    _process("mirror.spark.X", TEXT, None, shown_default="none")("Setting `spark.X` of Spark."),
)
SETTINGS = {setting.key: setting for setting in TABLE}


def keys_of(scope: Scope) -> frozenset[str]:
    """Return the keys of a scope."""
    return frozenset(setting.key for setting in TABLE if setting.scope is scope)


def defaults_of(scope: Scope) -> dict[str, str]:
    """Return the defaults of a scope, as a file would write them."""
    return {setting.key: setting.default for setting in TABLE if setting.scope is scope and setting.default is not None}


FLOW_DEFAULTS, FLOW_KEYS = defaults_of(Scope.FLOW), keys_of(Scope.FLOW)
CLIENT_KEYS = keys_of(Scope.CLIENT) | {"bootstrap.servers"}
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
