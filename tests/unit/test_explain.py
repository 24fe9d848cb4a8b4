"""Every effective value with the entry that set it and those it overrode, from the layers that decide."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.cli import main
from mirror.config.explain import as_json, as_text, explain
from mirror.config.keys import Keys
from mirror.config.layers import Pair, assign, effective, merged, ranked
from mirror.config.load import checked, load, sources
from mirror.config.properties import Entry, default_layer
from mirror.config.settings import Mirror
from mirror.config.table import FLOW_DEFAULTS, TARGET_DEFAULTS
from mirror.errors import SettingsError
from mirror.policy.filters import NameFilter
from mirror.policy.topic_configs import DEFAULT_EXCLUDE
from tests.key_stores import DOCUMENTED, STORES

BASE = """\
clusters = primary, backup
primary.bootstrap.servers = p1:9092
backup.bootstrap.servers = b1:9092
primary->backup.enabled = true
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A file in the working folder, so that places are short."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "m.properties"


@pytest.fixture
def explained(path):
    """Explain BASE plus some lines."""

    def read(*lines, base=BASE, options=None, flow="", targets=()):
        path.write_text(base + "\n".join(lines))
        given = sources(path.relative_to(path.parent), options)
        return explain(given, checked(given, targets=targets), flow)

    return read


def value_of(rows, key):
    """Return (value, from, what it overrides as (key, value, from)) of one key."""
    [row] = [row for row in rows if row.key == key]
    shown = [(entry.key, entry.value, entry.where) for entry in (row.entry, *row.overridden)]
    return shown[0][1], shown[0][2], [(old[0], old[1], old[2]) for old in shown[1:]]


def test_all_flow_keys_are_explained_with_their_defaults(explained):
    rows = explained().flows["primary->backup"]["flow keys"]
    assert [row.key for row in rows] == [*FLOW_DEFAULTS, *TARGET_DEFAULTS]
    assert value_of(rows, "enabled") == ("true", "m.properties:4", [])
    for key in FLOW_DEFAULTS.keys() - {"enabled"}:
        assert value_of(rows, key) == (FLOW_DEFAULTS[key], "default", [])


def test_a_flows_own_key_overrides_the_top_level_one_and_both_earlier_duplicates(explained):
    lines = ("topics = a", "primary->backup.topics = b", "topics = c", "primary->backup.topics = d", "groups = g")
    rows = explained(*lines).flows["primary->backup"]["flow keys"]
    assert value_of(rows, "topics") == (
        "d",
        "m.properties:8",
        [
            ("primary->backup.topics", "b", "m.properties:6"),
            ("topics", "c", "m.properties:7"),
            ("topics", "a", "m.properties:5"),
        ],
    )
    assert value_of(rows, "groups") == ("g", "m.properties:9", [])


def test_an_option_overrides_the_file(explained):
    found = explained("mirror.window.ms = 5", "mirror.spark.a = b", options={"mirror.window.ms": "6", "topics": "t"})
    assert value_of(found.program, "mirror.window.ms") == ("6", "option", [("mirror.window.ms", "5", "m.properties:5")])
    assert value_of(found.program, "mirror.lanes") == ("2", "default", [])
    assert value_of(found.program, "mirror.spark.a") == ("b", "m.properties:6", [])
    assert value_of(found.program, "clusters") == ("primary, backup", "m.properties:1", [])
    assert value_of(found.flows["primary->backup"]["flow keys"], "topics") == ("t", "option", [])


CONSUMER = [
    "primary->backup.consumer.fetch.min.bytes = 5",
    "primary.consumer.fetch.min.bytes = 6",
    "primary->backup.source.consumer.fetch.min.bytes = 7",
]


@pytest.mark.parametrize("lines", list(itertools.permutations(CONSUMER)))
def test_consumer_layers_whatever_their_order_in_the_file(explained, lines):
    rows = explained(*lines).flows["primary->backup"]["source consumer"]
    value, where, overridden = value_of(rows, "fetch.min.bytes")
    assert (value, [old[1] for old in overridden]) == ("7", ["6", "5"])
    assert where == f"m.properties:{5 + lines.index(CONSUMER[2])}"


def test_a_common_key_that_is_in_two_layers_is_explained_once(explained):
    rows = explained(
        "bootstrap.servers = x:1",
        "primary->backup.source.cluster.bootstrap.servers = y:1",
        "primary->backup.consumer.bootstrap.servers = z:1",
    ).flows["primary->backup"]["source consumer"]
    value, where, overridden = value_of(rows, "bootstrap.servers")
    assert (value, where) == ("p1:9092", "m.properties:2")
    assert [old[1] for old in overridden] == ["x:1", "z:1", "y:1"]


def test_producers_and_admins_are_kept_apart(explained):
    lines = (
        "backup.producer.batch.size = 1",
        "primary->backup.producer.override.batch.size = 2",
        "primary.producer.batch.size = 3",
        "primary.admin.retry.backoff.ms = 4",
        "primary->backup.target.admin.retry.backoff.ms = 5",
    )
    sections = explained(*lines).flows["primary->backup"]
    assert value_of(sections["target producer"], "batch.size")[0] == "2"
    assert value_of(sections["offset-syncs producer"], "batch.size")[0] == "3"
    assert value_of(sections["source admin"], "retry.backoff.ms")[0] == "4"
    assert value_of(sections["target admin"], "retry.backoff.ms")[0] == "5"
    assert [row.key for row in sections["source consumer"]] == ["bootstrap.servers"]
    at_target = explained(*lines, "offset-syncs.topic.location = target").flows["primary->backup"]
    assert value_of(at_target["offset-syncs producer"], "batch.size")[0] == "1"


def test_explained_client_values_are_those_of_the_flow(explained, path):
    lines = (
        *CONSUMER,
        "backup.producer.acks = all",
        "primary.ssl.key.password = hunter2",
        "backup.admin.client.id =  x ",
    )
    sections = explained(*lines).flows["primary->backup"]
    [flow] = load(path).flows
    names = ("source consumer", "target producer", "source admin", "target admin", "offset-syncs producer")
    java = (flow.consumer, flow.producer, flow.source_admin, flow.target_admin, flow.offset_syncs_producer)
    for name, properties in zip(names, java, strict=True):
        assert {row.key: row.entry.value.strip() for row in sections[name]} == properties


def test_keys_without_effect_are_explained_with_the_reason(explained):
    found = explained("offset.lag.max = 1", "primary.consumer.max.poll.records = 1", "nonsense = x")
    assert found.ignored == {
        "offset.lag.max": "offsets are translated exactly at any lag",
        "primary.consumer.max.poll.records": "",
        "nonsense": "",
    }
    assert [row.key for row in found.flows["primary->backup"]["source consumer"]] == ["bootstrap.servers"]


def test_one_flow_or_all_or_those_into_a_cluster(explained):
    both = "backup->primary.enabled = true"
    assert list(explained(both).flows) == ["primary->backup", "backup->primary"]
    assert list(explained(both, flow="backup->primary").flows) == ["backup->primary"]
    assert list(explained(both, targets=["primary"]).flows) == ["backup->primary"]


def test_an_unknown_flow_is_refused_with_the_known_ones(explained):
    message = 'm.properties: unknown flow "backup->primary"; expected one of primary->backup. Correct it.'
    with pytest.raises(SettingsError) as caught:
        explained(flow="backup->primary")
    assert str(caught.value) == message


SECRETS = (
    "primary.ssl.key.password = hunter2",
    "primary.ssl.key.password = hunter2too",
    'sasl.jaas.config = x.PlainLoginModule required username="a" password="hunter2";',
    "mirror.spark.hadoop.secret.key = hunter2",
)


def test_text(explained):
    found = explained("topics = a", "primary->backup.topics = b", "offset.lag.max = 1", "nonsense = x", *SECRETS)
    text = as_text(found)
    assert "hunter2" not in text
    lines = text.splitlines()
    assert lines[0] == "primary->backup, flow keys"
    at = lines.index("primary->backup, source consumer")
    assert lines[at - 1 : at + 5] == [
        "",
        "primary->backup, source consumer",
        "  sasl.jaas.config   m.properties:11  ***",
        "  bootstrap.servers  m.properties:2   p1:9092",
        "  ssl.key.password   m.properties:10  ***",
        "                                      overrides primary.ssl.key.password=*** (m.properties:9)",
    ]
    wide = len("  replication.policy.internal.topic.separator.enabled  ")
    assert (
        f"{'  topics':<{wide}}m.properties:6  b\n{'':<{wide}}                overrides topics=a (m.properties:5)\n"
        in text
    )
    assert text.endswith("\nwithout effect\n  offset.lag.max  offsets are translated exactly at any lag\n  nonsense\n")


def test_a_secret_without_a_value_is_shown_as_empty(explained):
    lines = [line.split() for line in as_text(explained()).splitlines()]
    assert ["mirror.http.password", "default"] in lines
    assert ["mirror.http.tls.key", "default"] in lines


def test_json_has_the_content_of_the_text(explained):
    found = explained("topics = a", "primary->backup.topics = b", "nonsense = x", *SECRETS)
    text = as_json(found)
    assert "hunter2" not in text
    content = json.loads(text)
    topics = {"key": "topics", "value": "b", "from": "m.properties:6"}
    topics["overrides"] = [{"key": "topics", "value": "a", "from": "m.properties:5"}]
    assert content["flows"]["primary->backup"]["flow keys"][1] == topics
    assert {"key": "mirror.lanes", "value": "2", "from": "default", "overrides": []} in content["program"]
    assert content["without_effect"] == [{"key": "nonsense", "why": None}]
    assert list(content["flows"]["primary->backup"]) == list(found.flows["primary->backup"])


def test_no_line_break_of_a_value_breaks_the_table(explained):
    text = as_text(explained(r"primary.consumer.client.id = a\nb\u0085c"))
    assert "a\\nb\\x85c\n" in text


def test_the_command(path, capsys):
    path.write_text(BASE)
    arguments = ["explain", "m.properties"]
    assert main([*arguments, "--window-ms", "7"]) == 0
    assert "mirror.window.ms option 7" in [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert main([*arguments, "primary->backup", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["flows"]) == ["primary->backup"]
    assert main([*arguments, "a->b"]) == 2
    assert capsys.readouterr().err == (
        'kafka-mirror: m.properties: unknown flow "a->b"; expected one of primary->backup. Correct it.\n'
    )


def test_defaults_are_mirrormakers():
    """Java's types and texts, read from the table that is shown."""
    keys = Keys(default_layer(FLOW_DEFAULTS))
    exclude = (r"mm2.*\.internal", r".*\.replica", "__.*")
    assert keys.names("topics", "topic.filter.class") == NameFilter(include=(".*",), exclude=exclude)
    assert keys.checkpoints().groups.exclude == ("console-consumer-.*", "connect-.*", "__.*")
    assert keys.config_sync().defaults_from_source is False
    assert keys.config_sync().exclude == DEFAULT_EXCLUDE


def test_defaults_of_the_programs_own_keys_are_those_of_its_settings(path):
    path.write_text(BASE + "mirror.slots = 1")
    assert load(path).mirror == Mirror(slots=1)


PARTS = ["", ".", "-", "a", "b", "_", "x.", "->"]
ALIASES = st.lists(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map(lambda parts: f"c{''.join(parts)}c"),
    min_size=2,
    max_size=4,
    unique=True,
)


def from_one_file(*keys):
    return {key: Entry(key=key, value=str(at), where=f"m:{at}") for at, key in enumerate(keys)}


@given(ALIASES.filter(lambda aliases: not any("->" in alias for alias in aliases)), st.data())
def test_keys_of_clusters_and_flows_find_their_owner_whatever_the_aliases(aliases, data):
    """Dots and dashes in them, one the beginning of another: the longest that fits takes the key."""
    source, target = data.draw(st.permutations(aliases))[:2]
    found = assign(from_one_file(f"{source}.consumer.k", f"{source}->{target}.topics", "topics"), aliases)
    assert found.clusters[source]["consumer.k"].where == "m:0"
    assert found.pairs == {Pair(source, target): {"topics": found.pairs[Pair(source, target)]["topics"]}}
    assert merged(found.flow(Pair(source, target)))["topics"].where == "m:1"
    assert merged(found.flow(Pair(target, source)))["topics"].where == "m:2"


def test_an_alias_may_hold_an_arrow():
    found = assign(from_one_file("B->2.consumer.k", "B->2->a.topics", "a->B->2.topics"), ["a", "B->2"])
    assert list(found.clusters["B->2"]) == ["consumer.k"]
    assert {str(pair): list(layer) for pair, layer in found.pairs.items()} == {
        "B->2->a": ["topics"],
        "a->B->2": ["topics"],
    }


def test_an_alias_that_reads_as_a_flow_of_others_leaves_its_keys_to_that_flow():
    found = assign(from_one_file("a->b.topics", "a->b->a.topics"), ["a", "b", "a->b"])
    assert {str(pair): list(layer) for pair, layer in found.pairs.items()} == {
        "a->b": ["topics"],
        "a->b->a": ["topics"],
    }
    assert found.clusters["a->b"] == {}


KEYS = ("bootstrap.servers", "ssl.x", "k")
OWNERS = (
    *("", "a.", "b.", "a.consumer.", "a.producer.", "b.producer."),
    *("a->b.consumer.", "a->b.producer.", "a->b.producer.override."),
    *("a->b.source.cluster.", "a->b.source.consumer.", "a->b.source.producer."),
)


@given(st.lists(st.sampled_from([f"{owner}{key}" for owner in OWNERS for key in KEYS]), unique=True))
def test_the_first_of_the_ranking_is_what_the_client_gets(keys):
    """And nobody is overridden by itself, and everybody who sets the key for the client is in the ranking."""
    found = assign(from_one_file(*keys), ["a", "b"])
    pair = Pair("a", "b")
    for layers in (
        found.source_client(pair, "consumer"),
        found.producer(pair),
        found.offset_syncs_producer(pair, at_source=True),
    ):
        plain = {}
        for layer in layers:
            plain |= {key: entry.value for key, entry in layer.items()}
        assert effective(layers) == plain
        for key, value in plain.items():
            places = [entry.where for entry in ranked(layers, key)]
            assert places[0] == f"m:{value}"
            assert len(places) == len(set(places)) == len({layer[key].where for layer in layers if key in layer})


# The examples of Kafka's documentation, Geo-Replication, with brokers where it has "...".
FIRST = """\
# Basic settings
clusters = primary, secondary
primary.bootstrap.servers = broker3-primary:9092
secondary.bootstrap.servers = broker5-secondary:9092
# Define replication flows
primary->secondary.enabled = true
primary->secondary.topics = foobar-topic, quux-.*
"""
GLOBAL = """\
# Global settings
clusters = us-west, us-east # defines cluster aliases
us-west.bootstrap.servers = broker3-west:9092
us-east.bootstrap.servers = broker5-east:9092
topics = .* # all topics to be replicated by default
# Specific replication flow settings (here: flow from us-west to us-east)
us-west->us-east.enabled = true
us-west->us.east.topics = foo.*, bar.* # override the default above
"""
US = """\
clusters = us-west, us-east
us-west.bootstrap.servers = broker3-west:9092
us-east.bootstrap.servers = broker5-east:9092
us-west->us-east.enabled = true
"""
CLIENTS = """\
# Setting Kafka Connect defaults for MirrorMaker
tasks.max = 5
# us-west custom settings
us-west.offset.storage.topic = my-mirrormaker-offsets
# us-west cluster (from which to consume)
us-west.consumer.isolation.level = read_committed
us-west.admin.bootstrap.servers = broker57-primary:9092
# us-east cluster (to which to produce)
us-east.producer.compression.type = gzip
us-east.producer.buffer.memory = 32768
us-east.admin.bootstrap.servers = broker8-secondary:9092
"""
EXACTLY_ONCE = """\
us-east.exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = true
listeners = http://localhost:8080
us-west.consumer.isolation.level = read_committed
"""
FLOWS = """\
# Custom top-level defaults that apply to all replication flows
topics = .*
groups = consumer-group1, consumer-group2
# Custom settings for specific replication flows
us-west->us-east.topics = foo.*
us-west->us-east.groups = bar.*
us-west->us-east.emit.heartbeats = false
# Defining a custom separator
us-west->us-east.replication.policy.separator = _
"""
SSL = """\
us-east.security.protocol=SSL
us-east.ssl.truststore.location=/path/to/truststore.jks
us-east.ssl.truststore.password=my-secret-password
us-east.ssl.keystore.location=/path/to/keystore.jks
us-east.ssl.keystore.password=my-secret-password
us-east.ssl.key.password=my-secret-password
"""
SIX = """\
# Basic settings
clusters: west-1, west-2, east-1, east-2, north-1, north-2
west-1.bootstrap.servers = ...
west-2.bootstrap.servers = ...
east-1.bootstrap.servers = ...
east-2.bootstrap.servers = ...
north-1.bootstrap.servers = ...
north-2.bootstrap.servers = ...
# Replication flows for Active/Active in West DC
west-1->west-2.enabled = true
west-2->west-1.enabled = true
# Replication flows for Active/Active in East DC
east-1->east-2.enabled = true
east-2->east-1.enabled = true
# Replication flows for Active/Active in North DC
north-1->north-2.enabled = true
north-2->north-1.enabled = true
# Replication flows for XDCR via west-1, east-1, north-1
west-1->east-1.enabled = true
west-1->north-1.enabled = true
east-1->west-1.enabled = true
east-1->north-1.enabled = true
north-1->west-1.enabled = true
north-1->east-1.enabled = true
"""
BOTH_WAYS = """\
# Bidirectional flow (two-way) between us-west and us-east clusters
clusters = us-west, us-east
us-west.bootstrap.servers = broker1-west:9092,broker2-west:9092
Us-east.bootstrap.servers = broker3-east:9092,broker4-east:9092
us-west->us-east.enabled = true
us-east->us-west.enabled = true
"""
ONE_WAY = """\
# Unidirectional flow (one-way) from primary to secondary cluster
primary.bootstrap.servers = broker1-primary:9092
secondary.bootstrap.servers = broker2-secondary:9092
primary->secondary.enabled = true
secondary->primary.enabled = false
primary->secondary.topics = foo.* # only replicate some topics
"""


def brokers(text):
    """Put an address of its own where an example says "..."."""
    return "".join(line.replace("...", f"broker{at}:9092") for at, line in enumerate(text.splitlines(keepends=True)))


def test_documentation_first_example(explained):
    rows = explained(base=FIRST).flows["primary->secondary"]["flow keys"]
    assert value_of(rows, "topics") == ("foobar-topic, quux-.*", "m.properties:7", [])


def test_documentation_client_settings(explained):
    found = explained(base=US + CLIENTS)
    sections = found.flows["us-west->us-east"]
    assert value_of(sections["flow keys"], "tasks.max") == ("5", "m.properties:6", [])
    assert value_of(sections["source consumer"], "isolation.level") == ("read_committed", "m.properties:10", [])
    assert value_of(sections["target producer"], "compression.type") == ("gzip", "m.properties:13", [])
    assert value_of(sections["source admin"], "bootstrap.servers") == (
        "broker57-primary:9092",
        "m.properties:11",
        [("us-west.bootstrap.servers", "broker3-west:9092", "m.properties:2")],
    )
    assert value_of(sections["target admin"], "bootstrap.servers")[0] == "broker8-secondary:9092"
    assert found.ignored == {"us-east.producer.buffer.memory": ""}


def test_documentation_exactly_once(explained):
    found = explained(base=US + EXACTLY_ONCE)
    consumer = found.flows["us-west->us-east"]["source consumer"]
    assert value_of(consumer, "isolation.level") == ("read_committed", "m.properties:8", [])
    keys = found.flows["us-west->us-east"]["flow keys"]
    assert value_of(keys, "exactly.once.source.support") == ("enabled", "m.properties:5", [])
    assert found.ignored == {
        "dedicated.mode.enable.internal.rest": "processes do not call each other over REST",
        "listeners": "",
    }


def test_documentation_flow_settings(explained):
    found = explained(base=US + FLOWS)
    rows = found.flows["us-west->us-east"]["flow keys"]
    assert value_of(rows, "topics") == ("foo.*", "m.properties:9", [("topics", ".*", "m.properties:6")])
    assert value_of(rows, "groups")[2] == [("groups", "consumer-group1, consumer-group2", "m.properties:7")]
    assert value_of(rows, "replication.policy.separator") == ("_", "m.properties:13", [])
    assert list(found.ignored) == ["us-west->us-east.emit.heartbeats"]


def test_documentation_six_clusters(explained):
    found = explained(base=brokers(SIX))
    assert len(found.flows) == 12
    sections = found.flows["north-1->east-1"]
    assert value_of(sections["flow keys"], "enabled") == ("true", "m.properties:24", [])
    assert value_of(sections["source consumer"], "bootstrap.servers")[0] == "broker6:9092"
    assert value_of(sections["target producer"], "bootstrap.servers")[0] == "broker4:9092"
    west = explained(base=brokers(SIX), targets=["west-1", "west-2"])
    assert sorted(west.flows) == ["east-1->west-1", "north-1->west-1", "west-1->west-2", "west-2->west-1"]


def test_documentation_both_ways_with_the_alias_spelt_alike(explained):
    found = explained(base=BOTH_WAYS.replace("Us-east", "us-east"))
    assert list(found.flows) == ["us-west->us-east", "us-east->us-west"]


def test_documentation_one_way_with_clusters_and_a_separate_comment_line(explained):
    found = explained(base=f"clusters = primary, secondary\n{ONE_WAY.replace(' # only', chr(10) + '# only')}")
    assert list(found.flows) == ["primary->secondary"]
    assert value_of(found.flows["primary->secondary"]["flow keys"], "topics")[0] == "foo.*"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            GLOBAL,
            'm.properties:7: us-west->us-east.enabled: unknown alias "us-east", expected one of us-east # defines',
        ),
        (
            GLOBAL.replace(" # defines cluster aliases", ""),
            'm.properties:8: us-west->us.east.topics: unknown alias "us.east"',
        ),
        (SIX, 'm.properties:3: west-1.bootstrap.servers: "..." is not host:port'),
        (BOTH_WAYS, "m.properties: us-east.bootstrap.servers: is not set"),
        (ONE_WAY, "m.properties: clusters: names no cluster"),
        (
            f"clusters = primary, secondary\n{ONE_WAY}",
            'm.properties:7: primary->secondary.topics: "foo.* # only replicate some topics" holds a "#"',
        ),
        (
            US + SSL,
            'm.properties:6: us-east.ssl.truststore.location: "/path/to/truststore.jks" cannot be read (No such file',
        ),
    ],
)
def test_documentation_examples_that_are_refused(explained, text, expected):
    """For what Java would read, too: it has no comments after a value, and aliases are spelt alike everywhere."""
    with pytest.raises(SettingsError) as caught:
        explained(base=text)
    assert str(caught.value).startswith(expected)
    assert "my-secret-password" not in str(caught.value)


def test_documentation_stores_are_read_where_they_are(explained):
    """The page names a JKS by its file alone."""
    found = explained(base=US + SSL.replace("/path/to", str(STORES)))
    assert found.ignored == {}
    rows = found.flows["us-west->us-east"]["target producer"]
    assert value_of(rows, "ssl.keystore.location")[0] == str(STORES / "keystore.jks")
    assert DOCUMENTED not in as_text(found)
    assert DOCUMENTED not in as_json(found)
