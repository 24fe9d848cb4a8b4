"""`kafka-mirror import`: what connectors of MirrorMaker 2 do, the file does; what it cannot do is said."""

from __future__ import annotations

import base64
import json
import stat
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mirror.cli import main
from mirror.config.imports import connect_rest
from mirror.config.imports.connect_rest import Access, read_connect
from mirror.config.imports.connectors import Connectors, Item, State
from mirror.config.imports.documents import read_documents
from mirror.config.imports.properties_file import properties_text, tried
from mirror.config.imports.translation import Translation, translate
from mirror.config.layers import Pair, assign
from mirror.config.load import checked, gathered, load
from mirror.config.properties import last_wins, parse
from mirror.errors import ClusterUnavailable, SettingsError

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
V1 = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: mm2}
spec:
  version: 4.1.1
  target:
    alias: backup
    bootstrapServers: backup-kafka:9093
    groupId: mm2-group
    configStorageTopic: mm2-config
    offsetStorageTopic: mm2-offset
    statusStorageTopic: mm2-status
    tls: {trustedCertificates: [{secretName: backup-ca, pattern: "*.crt"}]}
    authentication:
      type: scram-sha-512
      username: mir"ror
      passwordSecret: {secretName: mirror-login, password: password}
    config:
      config.storage.replication.factor: -1
      exactly.once.source.support: enabled
      producer.compression.type: zstd
      consumer.max.poll.records: 50
  mirrors:
    - source:
        alias: primary
        bootstrapServers: primary-kafka:9093
        tls: {trustedCertificates: [{secretName: primary-ca, certificate: ca.crt}]}
        authentication:
          type: tls
          certificateAndKey: {secretName: mirror-user, certificate: user.crt, key: user.key}
      sourceConnector:
        tasksMax: 4
        config:
          replication.factor: -1
          sync.topic.acls.enabled: "false"
          consumer.fetch.min.bytes: 1000
          offset.lag.max: 50
          transforms: mask
          transforms.mask.type: com.example.Mask
      checkpointConnector:
        state: paused
        tasksMax: 1
        config: {sync.group.offsets.enabled: true, refresh.topics.interval.seconds: 5}
      topicsPattern: orders.*, payments
      groupsPattern: billing|search
"""
V1BETA2 = """\
apiVersion: v1
kind: List
items:
  - apiVersion: kafka.strimzi.io/v1beta2
    kind: KafkaMirrorMaker2
    metadata: {name: mm2}
    spec:
      connectCluster: backup
      clusters:
        - {alias: primary, bootstrapServers: "primary-kafka:9092"}
        - alias: backup
          bootstrapServers: backup-kafka:9092
          authentication:
            type: oauth
            clientId: mirror
            clientSecret: {secretName: mirror-oauth, key: secret}
            tokenEndpointUri: https://login/token
            maxTokenExpirySeconds: 300
      rack: {topologyKey: zone}
      mirrors:
        - sourceCluster: primary
          targetCluster: backup
          sourceConnector: {config: {replication.factor: 1}}
          heartbeatConnector: {config: {heartbeats.topic.replication.factor: 1}}
          checkpointConnector: {config: {checkpoints.topic.replication.factor: 1}}
          topicsPattern: .*
          topicsBlacklistPattern: secret.*
"""


def config(kind: str, **settings: object) -> dict[str, object]:
    """Return the settings of a connector; in names `_` is `.`."""
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": "primary",
        "target.cluster.alias": "backup",
        "source.cluster.bootstrap.servers": "p:1",
        "target.cluster.bootstrap.servers": "b:1",
        "key.converter": BYTES,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def imported(*documents: object, offsets_topic: str = "") -> Translation:
    """Return what becomes of connectors."""
    found = sum((read_documents(json.dumps(each), f"{at}.json") for at, each in enumerate(documents)), Connectors())
    translation = translate(found, offsets_topic)
    return Translation(items=tuple(tried(translation.items, Path("m.properties"))), notes=translation.notes)


def lines(translation: Translation) -> dict[str, str]:
    return {item.key: item.value for item in translation.items if item.is_line}


def item(translation: Translation, found: str, where: str = "") -> Item:
    [one] = [item for item in translation.items if item.found == found and where in item.where]
    return one


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder of its own, so that places are short."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("name", "text"), [("v1", V1), ("v1beta2", V1BETA2)])
def test_a_strimzi_resource_becomes_a_file_and_a_table(name, text, here, golden, capsys):
    (here / "mm2.yaml").write_text(text)
    assert main(["import", "mm2.yaml"]) == 1
    golden(f"import/{name}.txt", capsys.readouterr().out)
    golden(f"import/{name}.properties", (here / "mirror.properties").read_text())


def test_the_connectors_of_a_flow_come_together(here):
    source = config("Source", tasks_max=3, topics="orders", replication_factor=1)
    checkpoint = config("Checkpoint", tasks_max=1, topics="orders", groups="billing", sync_group_offsets_enabled=True)
    found = imported({"name": "src", "config": source}, [checkpoint, {"name": "beat", "config": config("Heartbeat")}])
    assert all(item.state is not State.BY_HAND for item in found.items)
    assert lines(found) == {
        "clusters": "primary, backup",
        "primary.bootstrap.servers": "p:1",
        "backup.bootstrap.servers": "b:1",
        "primary->backup.enabled": "true",
        "primary->backup.mirror.takeover.connectors": "src",
        "primary->backup.tasks.max": "3",
        "primary->backup.topics": "orders",
        "primary->backup.replication.factor": "1",
        "primary->backup.groups": "billing",
        "primary->backup.sync.group.offsets.enabled": "true",
    }
    assert item(found, "topics").where == "0.json: src, 1.json"
    assert item(found, "tasks.max", "1.json").why.startswith("a MirrorCheckpointConnector does not read it")
    assert item(found, "key.converter", "src").why == "bytes stay as they are"
    assert [note.split(".")[0] for note in found.notes] == [
        "The import does not see the settings of Connect's worker",
        "If the worker has exactly",
        "Connect's topic of positions is a setting of its worker",
    ]


def test_connectors_that_are_not_there_are_switched_off():
    found = lines(imported(config("Source")))
    assert found["primary->backup.emit.checkpoints.enabled"] == "false"
    assert found["primary->backup.emit.heartbeats.enabled"] == "false"
    alone = imported(
        config("Source", source_cluster_alias="other", source_cluster_bootstrap_servers="o:1"), config("Heartbeat")
    )
    assert lines(alone)["primary->backup.enabled"] == "false"
    assert "nothing is mirrored" in item(alone, "MirrorSourceConnector", "not there").why


def test_connectors_that_disagree_need_a_hand_and_both_are_named_but_no_secret():
    jaas = "source.cluster.sasl.jaas.config"
    found = imported(
        {**config("Source", topics="orders"), jaas: "first-secret"},
        {**config("Checkpoint", topics="orders.*"), jaas: "second-secret"},
    )
    topics = item(found, "topics")
    assert (topics.state, topics.value) == (State.BY_HAND, "orders")
    assert topics.why == '0.json has "orders", 1.json has "orders.*"; the first is written'
    assert item(found, jaas).state is State.BY_HAND
    assert "0.json has ***, 1.json has ***" in item(found, jaas).why
    assert "secret" not in item(found, jaas).why
    assert "secret" not in repr(found)


def test_a_key_that_the_connector_does_not_read_is_not_translated():
    found = imported(config("Source", sync_group_offsets_enabled=True), config("Checkpoint"), config("Heartbeat"))
    assert "primary->backup.sync.group.offsets.enabled" not in lines(found)
    assert item(found, "sync.group.offsets.enabled").why == (
        "a MirrorSourceConnector does not read it; MirrorCheckpointConnector does"
    )


@pytest.mark.parametrize(
    ("settings", "found", "why"),
    [
        ({"transforms": "mask"}, "transforms", "has no type"),
        ({"key_converter": "JsonConverter"}, "key.converter", "is not supported"),
        ({"topics": "orders.("}, "topics", "is not a regular expression"),
        ({"topics_blacklist": "secret"}, "topics.blacklist", "was removed in Kafka 4.0"),
        ({"replication_policy_class": "com.example.Mine"}, "replication.policy.class", "cannot be imported"),
        (
            {"source_cluster_sasl_mechanism": "NTLM", "source_cluster_security_protocol": "SASL_SSL"},
            "source.cluster.sasl.mechanism",
            "NTLM",
        ),
        ({"producer_override_acks": "1"}, "producer.override.acks", "expected all"),
    ],
)
def test_a_setting_that_the_loader_refuses_needs_manual_work_and_stays_refused(settings, found, why, here):
    (here / "c.json").write_text(json.dumps(config("Source", **settings)))
    assert main(["import", "c.json"]) == 1
    translation = imported(config("Source", **settings))
    assert item(translation, found).state is State.BY_HAND
    assert why in item(translation, found).why
    with pytest.raises(SettingsError):
        load(here / "mirror.properties")


def test_security_of_a_cluster_is_carried_over_with_its_references(here, monkeypatch):
    monkeypatch.setenv(
        "LOGIN", 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    )
    security = {
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": "${env:LOGIN}",
        "consumer.ssl.endpoint.identification.algorithm": "",
        "target.cluster.ssl.truststore.location": "${file:/nowhere/worker.properties:store}",
    }
    found = imported({**config("Source"), **security})
    written = lines(found)
    assert written["primary.sasl.jaas.config"] == "${env:LOGIN}"
    assert item(found, "source.cluster.sasl.jaas.config").state is State.TRANSLATED
    assert written["primary->backup.source.consumer.ssl.endpoint.identification.algorithm"] == ""
    assert item(found, "target.cluster.ssl.truststore.location").state is State.BY_HAND
    assert "/nowhere/worker.properties cannot be read" in item(found, "target.cluster.ssl.truststore.location").why
    assert written["config.providers"] == "env, file"
    unknown = imported({**config("Source"), "source.cluster.sasl.jaas.config": "${vault:login}"})
    assert "no config provider of Kafka has this name" in item(unknown, "${vault:...}").why


def test_connects_settings_of_positions_become_those_of_the_target(here):
    asked = {"exactly.once.support": "required", "offsets.storage.topic": "mine"}
    found = lines(imported({**config("Source"), **asked}))
    assert found["backup.exactly.once.source.support"] == "enabled"
    assert found["backup.offset.storage.topic"] == "mine"
    assert lines(imported(config("Source"), offsets_topic="theirs"))["backup.offset.storage.topic"] == "theirs"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_comments_of_a_written_file_are_ascii(here):
    (here / "münchen.json").write_text(json.dumps(config("Source", source_cluster_alias="münchen")))
    assert main(["import", "münchen.json"]) in (0, 1)
    assert b"\\xfc" in (here / "mirror.properties").read_bytes()


@given(TEXTS.filter(bool), TEXTS)
def test_written_properties_are_read_back(key, value):
    text = properties_text([Item(found="x", where="x", key=key, value=value)], "x", "x")
    [entry] = parse(text.encode("ascii").decode("iso-8859-1"), "m")
    assert (entry.key, entry.value) == (key, value)


OF_A_FLOW = {
    "topics": st.sampled_from(["orders", "orders.*, payments", "a|b"]),
    "topics.exclude": st.just("secret.*"),
    "groups": st.sampled_from(["billing", "a, b"]),
    "tasks.max": st.integers(1, 9).map(str),
    "replication.factor": st.sampled_from(["-1", "3"]),
    "replication.policy.class": st.just("org.apache.kafka.connect.mirror.IdentityReplicationPolicy"),
    "replication.policy.separator": st.just("_"),
    "emit.heartbeats.enabled": st.sampled_from(["true", "false"]),
    "emit.checkpoints.interval.seconds": st.integers(1, 99).map(str),
    "sync.group.offsets.enabled": st.just("true"),
    "sync.topic.acls.enabled": st.just("false"),
    "offset-syncs.topic.location": st.just("target"),
    "use.defaults.from": st.just("source"),
    "consumer.fetch.min.bytes": st.integers(1, 99).map(str),
    "source.consumer.fetch.min.bytes": st.integers(1, 99).map(str),
    "consumer.ssl.truststore.type": st.just("PEM"),
    "producer.override.batch.size": st.integers(1, 99).map(str),
    "target.admin.retry.backoff.ms": st.integers(1, 99).map(str),
}
OF_A_SOURCE = {
    "consumer.fetch.min.bytes": st.integers(1, 99).map(str),
    "consumer.isolation.level": st.just("read_committed"),
    "admin.client.id": st.just("me"),
    "ssl.endpoint.identification.algorithm": st.just(""),
}
BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


def connectors_of(text: str) -> list[dict[str, str]]:
    """Return the connectors that MirrorMaker's dedicated process makes of a file."""
    layers = assign(last_wins(parse(text, "m")), ["A", "B"])
    made: dict[str, str] = {"source.cluster.alias": "A", "target.cluster.alias": "B"}
    for alias, side in (("A", "source"), ("B", "target")):
        for key, entry in layers.clusters[alias].items():
            is_client = key.startswith(("consumer.", "producer.", "admin."))
            made[f"{side}.{key}" if is_client else f"{side}.cluster.{key}"] = entry.value
    made |= {key: entry.value for key, entry in layers.pairs[Pair("A", "B")].items()}
    java = "org.apache.kafka.connect.mirror.Mirror"
    return [{**made, "connector.class": f"{java}{kind}Connector"} for kind in ("Source", "Checkpoint", "Heartbeat")]


@given(st.fixed_dictionaries({}, optional=OF_A_FLOW), st.fixed_dictionaries({}, optional=OF_A_SOURCE))
def test_connectors_of_the_dedicated_process_give_the_settings_of_its_file(flow, source):
    text = "\n".join(
        [BASE, *(f"A->B.{key} = {value}" for key, value in flow.items()), *(f"A.{k} = {v}" for k, v in source.items())]
    )
    file = Path("m.properties")
    written = properties_text(imported(*connectors_of(text)).items, "connect", "")
    assert checked(gathered(file, parse(written, "m"))).flows == checked(gathered(file, parse(text, "m"))).flows


class FakeConnect(BaseHTTPRequestHandler):
    """Answers as Connect does, and as others do; the path says which."""

    def do_GET(self):
        login = "Basic " + base64.b64encode(b"admin:pass").decode()
        if self.path.startswith("/private") and self.headers.get("Authorization") != login:
            self.answer(401, b"{}")
        elif self.path.startswith("/moved"):
            self.answer(302, b"", Location="http://127.0.0.1:1/")
        elif self.path.startswith("/web"):
            self.answer(200, b"<html>")
        elif self.path.startswith("/old"):
            self.answer(200, b'["src"]')
        elif self.path.startswith("/slow"):
            self.send_response(200)
            self.end_headers()
            for _ in range(20):
                self.wfile.write(b" ")
                self.server.is_over.wait(0.05)
        else:
            assert self.path.endswith("/connectors?expand=info&expand=status")
            self.answer(200, json.dumps(self.server.connectors).encode())

    def answer(self, code, body, **headers):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Stay silent."""


def running(name: str, settings: dict[str, object], state: str = "RUNNING") -> dict[str, object]:
    return {"info": {"name": name, "config": settings, "tasks": []}, "status": {"connector": {"state": state}}}


@pytest.fixture
def connect(monkeypatch):
    """A fake Connect; its address, with what it runs as `connectors`."""
    monkeypatch.setenv("no_proxy", "*")
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeConnect)
    # Closing waits for its threads: one that fails later would write into the next test's output.
    server.daemon_threads = False
    server.is_over = threading.Event()
    server.connectors = {
        "src": running("src", config("Source", topics="orders")),
        "beat": running("beat", config("Heartbeat"), "PAUSED"),
        "to-third": running(
            "to-third", config("Source", target_cluster_alias="third", target_cluster_bootstrap_servers="t:1")
        ),
        "sink": running("sink", {"connector.class": "org.example.FileSink"}),
    }
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}", server
    server.is_over.set()
    server.shutdown()
    server.server_close()
    serving.join()


def test_a_running_connect_gives_all_its_flows(connect, here, capsys):
    address, _ = connect
    assert main(["import", f"{address}/", "--json", "--offsets-topic", "connect-offsets"]) == 1
    printed = json.loads(capsys.readouterr().out)
    rows = {(row["setting"], row["found_in"]): row for row in printed["settings"]}
    assert rows["sink (org.example.FileSink)", address]["state"] == "left out"
    assert "it is PAUSED" in rows["state", f"{address}: beat"]["why"]
    flows = load(here / "mirror.properties").flows
    assert [flow.takeover_connectors for flow in flows] == [("src",), ("to-third",)]
    assert [(flow.name, flow.connect_offsets_topic) for flow in flows] == [
        ("primary->backup", "connect-offsets"),
        ("primary->third", "connect-offsets"),
    ]


def test_a_login_is_sent_and_its_password_is_never_on_the_command_line(connect, here, monkeypatch, capsys):
    address, _ = connect
    monkeypatch.setenv("KAFKA_MIRROR_CONNECT_PASSWORD", "pass")
    assert main(["import", f"{address}/private", "--user", "admin"]) == 1
    (here / "password").write_text("pass\n")
    monkeypatch.delenv("KAFKA_MIRROR_CONNECT_PASSWORD")
    assert main(["import", f"{address}/private", "--user", "admin", "--password-file", "password", "--force"]) == 1
    capsys.readouterr()
    assert main(["import", f"{address}/private", "--user", "admin", "-o", "new"]) == 2
    assert "is given without a password. Set KAFKA_MIRROR_CONNECT_PASSWORD" in capsys.readouterr().err
    assert main(["import", address.replace("//", "//admin:hush@"), "-o", "new"]) == 2
    told = capsys.readouterr().err
    assert "the address contains a login. Give --user" in told
    assert "hush" not in told


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/private", "refuses the login (HTTP 401). Give --user"),
        ("/moved", "responds to GET /connectors with HTTP 302"),
        ("/web", "responds with something else than JSON"),
        ("/old", "no Kafka Connect since 2.3 responds like that"),
    ],
)
def test_a_url_without_connect_is_refused_in_one_line(path, complaint, connect, here, capsys):
    assert main(["import", f"{connect[0]}{path}"]) == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1
    assert list(here.iterdir()) == []


def test_a_silent_slow_or_plain_connect_is_reported_in_time(connect, here):
    address, _ = connect
    with pytest.raises(ClusterUnavailable, match=r"does not respond \(Connection refused\)"):
        read_connect("http://127.0.0.1:1", Access())
    with pytest.raises(ClusterUnavailable, match=r"not within 0.2 s"):
        read_connect(f"{address}/slow", Access(), bound_s=0.2)
    with pytest.raises(SettingsError, match="TLS is not possible"):
        read_connect(address.replace("http:", "https:"), Access())
    with pytest.raises(SettingsError, match="is not the address of a Connect"):
        read_connect("http://", Access())
    (here / "ca.pem").write_text("nothing")
    with pytest.raises(SettingsError, match=r"--cacert: ca\.pem cannot be used"):
        read_connect(address.replace("http:", "https:"), Access(authorities=Path("ca.pem")))
    assert connect_rest.BOUND_S == 10


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "c.yaml:1: is neither YAML nor JSON"),
        ("kind: Pod", "is a Pod; expected a KafkaMirrorMaker2"),
        ("", "holds no connector"),
        ("just words", "is something else"),
        (
            '{"connector.class": "org.example.Sink", "name": "x"}',
            "no connector of MirrorMaker 2; found x (org.example.Sink)",
        ),
        (
            "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: east}\n---\napiVersion: v1\nkind: Secret",
            "c.yaml: holds no connector (Kafka east, Secret); expected a KafkaMirrorMaker2",
        ),
        ('{"connector.class": "MirrorSourceConnector"}', "has no source.cluster.alias"),
        (V1.split("spec:")[0], "KafkaMirrorMaker2 has no spec"),
        (V1.replace("mirrors:", "mirror:"), "has no connector under spec.mirrors"),
        (V1.replace("    alias: backup\n", "").replace("bootstrapServers: b", "x: b"), "does not match Strimzi's"),
        (
            V1BETA2.replace("targetCluster: backup", "targetCluster: none"),
            'names the cluster "none"; spec.clusters has',
        ),
    ],
)
def test_a_file_without_connectors_is_refused_in_one_line(text, complaint, here, capsys):
    (here / "c.yaml").write_text(text)
    assert main(["import", "c.yaml"]) == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1
    assert not (here / "mirror.properties").exists()


def test_a_mirror_is_imported_from_a_file_with_other_resources_of_kubernetes(here):
    """People keep the Kafka clusters, the users and the mirror in one YAML file."""
    others = [
        "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: east}\nspec: {kafka: {replicas: 3}}\n",
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata: {name: mirror}\n",
    ]
    found = translate(read_documents("---\n".join([others[0], V1, others[1]]), "all.yaml"))
    alone = translate(read_documents(V1, "all.yaml"))
    assert lines(found) == lines(alone)
    assert item(found, "Kafka east").state is State.LEFT_OUT
    assert item(found, "KafkaUser mirror").why == "not a resource of MirrorMaker 2"


def test_the_file_is_private_and_never_overwritten_unasked(here, capsys):
    (here / "c.json").write_text(json.dumps([config("Source"), config("Checkpoint"), config("Heartbeat")]))
    assert main(["import", "c.json"]) == 0
    file = here / "mirror.properties"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("mine")
    assert main(["import", "c.json"]) == 2
    assert file.read_text() == "mine"
    assert main(["import", "c.json", "--force"]) == 0
    assert load(file).flows[0].name == "primary->backup"
    (here / "dangling").symlink_to("nowhere")
    assert main(["import", "c.json", "-o", "dangling"]) == 2
    (here / "dangling").unlink()
    (here / "folder").mkdir()
    assert main(["import", "c.json", "-o", "folder", "--force"]) == 2
    (here / "folder").rmdir()
    assert main(["import", "c.json", "-o", "none/x"]) == 2
    assert main(["import", "missing.json", "-o", "x"]) == 2
    assert sorted(path.name for path in here.iterdir()) == ["c.json", "mirror.properties"]
    assert "cannot be read (No such file or directory)" in capsys.readouterr().err


def test_a_kafka_connector_of_strimzi_is_a_connector(here):
    text = json.dumps(
        {
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaConnector",
            "metadata": {"name": "src"},
            "spec": {
                "class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "tasksMax": 2,
                "config": {key: value for key, value in config("Source").items() if key != "connector.class"}
                | {"source.cluster.sasl.jaas.config": "x ${secrets:space/login:jaas} y"},
            },
        }
    )
    found = translate(read_documents(text, "c.json"))
    assert lines(found)["primary->backup.tasks.max"] == "2"
    assert lines(found)["primary.sasl.jaas.config"] == "x ${directory:/etc/kafka-mirror/secrets/login:jaas} y"
    assert "mount the Secret login" in item(found, "source.cluster.sasl.jaas.config").why


def test_a_key_of_only_another_connector_does_not_change_mirroring():
    said = {
        "topics": "orders",
        "topics_exclude": "mm2.*\\.internal, .*\\.replica, __.*",
        "consumer_client_rack": "here",
    }
    found = imported(
        config("Source"), config("Checkpoint", **said, consumer_ssl_truststore_type="PEM"), config("Heartbeat")
    )
    assert not {key for key in lines(found) if "topics" in key or "consumer" in key}
    assert item(found, "topics").why == (
        "MirrorSourceConnector does not set it, and kafka-mirror applies it to the whole flow; write primary->backup.topics if "
        "you want that"
    )
    assert item(found, "topics.exclude").why == "is the default"
    assert item(found, "consumer.client.rack").state is State.LEFT_OUT
    assert item(found, "consumer.ssl.truststore.type").state is State.BY_HAND


def test_config_providers_of_a_worker_are_kept_and_those_of_kubernetes_replaced(here):
    (here / "secret.properties").write_text("user=me")
    providers = f"""\
      config.providers: mine,secrets,idle
      config.providers.mine.class: org.apache.kafka.common.config.provider.FileConfigProvider
      config.providers.mine.param.allowed.paths: {here}
      config.providers.secrets.class: io.strimzi.kafka.KubernetesSecretConfigProvider
      config.providers.idle.class: com.example.Provider
      exactly.once.source.support: enabled
"""
    text = V1.replace("      exactly.once.source.support: enabled\n", providers).replace(
        "          offset.lag.max: 50\n",
        f"          consumer.client.rack: ${{mine:{here}/secret.properties:user}}\n"
        "          producer.override.client.id: ${secrets:space/ids:id}\n",
    )
    found = Translation(items=tuple(tried(translate(read_documents(text, "mm2.yaml")).items, Path("m.properties"))))
    written = lines(found)
    assert written["config.providers"] == "directory, mine"
    assert written["config.providers.mine.param.allowed.paths"] == str(here)
    assert item(found, "consumer.client.rack").state is State.TRANSLATED
    assert written["primary->backup.producer.override.client.id"] == "${directory:/etc/kafka-mirror/secrets/ids:id}"
    assert item(found, "producer.override.client.id").state is State.BY_HAND
    assert item(found, "config.providers.idle.class").why == "no value refers to it"


def test_unknown_brokers_need_manual_work_and_other_settings_are_checked():
    found = imported(
        config("Source", source_cluster_bootstrap_servers="${env:NOWHERE}", topics=["a", "b("], tasks_max=None)
    )
    by_hand = {item.found for item in found.items if item.state is State.BY_HAND}
    assert by_hand == {"source.cluster.bootstrap.servers", "topics"}
    assert item(found, "topics").value == "a,b("


def test_a_flow_whose_connectors_were_stopped_needs_no_hand_for_that():
    stopped = {
        kind: {"info": {"name": kind, "config": config(kind)}, "status": {"connector": {"state": "STOPPED"}}}
        for kind in ("Source", "Checkpoint", "Heartbeat")
    }
    found = imported(stopped)
    states = [item for item in found.items if item.found == "state"]
    assert [item.state for item in states] == [State.LEFT_OUT] * 3
    assert states[0].why == "it is STOPPED; the flow runs as soon as kafka-mirror run starts"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
DOCUMENTS = [
    yaml.safe_load(V1),
    yaml.safe_load(V1BETA2),
    config("Source", topics="orders"),
    {"name": "src", "config": config("Checkpoint")},
    {"src": running("src", config("Heartbeat"), "PAUSED")},
    {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaConnector",
        "metadata": {"name": "src"},
        "spec": {"class": "MirrorSourceConnector", "tasksMax": 1, "config": {"source.cluster.alias": "a"}},
    },
]


def places(document: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Return the paths to all values in a document."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def replaced(document: object, path: tuple[object, ...], value: object) -> object:
    if not path:
        return value
    copy = document.copy()
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


@given(st.data())
def test_unexpected_values_are_read_or_refused_in_one_line(data):
    document = data.draw(st.sampled_from(DOCUMENTS))
    damaged = replaced(document, data.draw(st.sampled_from(places(document))), data.draw(JSON))
    try:
        found = translate(read_documents(json.dumps(damaged), "damaged.json"))
    except SettingsError as error:
        assert "\n" not in str(error)
        return
    written = properties_text(tried(found.items, Path("m.properties")), "damaged.json", "")
    read_back = {entry.key: entry.value for entry in parse(written, "m")}
    assert read_back.items() <= lines(found).items()


def test_an_alias_with_a_line_break_adds_no_line():
    found = imported(config("Source", source_cluster_alias="a\nmirror.state.dir = /x\n"))
    written = properties_text(found.items, "c.json\nmirror.lanes = 1", "")
    assert {entry.key for entry in parse(written, "m")} == set(lines(found))
