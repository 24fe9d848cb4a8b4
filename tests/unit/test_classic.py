"""MirrorMaker 1's command line becomes flows."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from mirror.cli import parse as parse_arguments
from mirror.commands.classic import needless_options
from mirror.config.classic import java_patterns
from mirror.config.given import mirrors_of, settings_given
from mirror.errors import SettingsError
from mirror.model import record_batches
from mirror.model.repartition import place, rounds

# Java: Utils.toPositive(Utils.murmur2(key.getBytes())), asked of Kafka 4.1.1's own class
JAVA_HASHES = {b"21": 1173551340, b"foobar": 1357151166, b"a-little-bit-long-string": 1161502112, b"": 275646681}


@pytest.fixture
def asked(tmp_path):
    """Parse a command line for two sources and a target; files hold what is given by name."""

    def parse(
        *options,
        dc1="bootstrap.servers=s1:9092\ngroup.id=mm1",
        dc2="bootstrap.servers=s2:9092",
        target="bootstrap.servers=t:9092",
    ):
        for name, text in {"dc1": dc1, "dc2": dc2, "central": target}.items():
            (tmp_path / f"{name}.properties").write_text(text)
        files = [
            *("--consumer.config", f"{tmp_path}/dc1.properties"),
            *("--consumer.config", f"{tmp_path}/dc2.properties"),
            *("--producer.config", f"{tmp_path}/central.properties"),
        ]
        return parse_arguments(["classic", *files, *options])

    return parse


def test_each_consumer_file_is_a_flow_that_keeps_names(asked):
    settings = settings_given(asked("--whitelist", "orders|pay.*", "--num.streams", "3"), {"mirror.slots": "1"})
    first, second = settings.flows
    assert (first.name, second.name) == ("dc1->target", "dc2->target")
    assert (first.source_group, second.source_group) == ("mm1", "")
    assert first.policy.remote_topic("orders") == "orders"
    assert [first.topics.matches(t) for t in ("orders", "payments", "orders2")] == [True, True, False]
    assert (first.tasks_max, first.grows_topics, first.replication_factor) == (3, False, -1)
    assert first.consumer["auto.offset.reset"] == "latest"
    assert not any(
        [first.checkpoints.enabled, first.heartbeats.enabled, first.sync_configs.enabled, first.sync_acls.enabled]
    )
    assert settings.heartbeat_flows == ()
    assert settings.mirror.slots == 1


def test_client_properties_reach_their_clients(asked):
    settings = settings_given(
        asked(
            "--include",
            "*",
            dc1="bootstrap.servers=s:1\nauto.offset.reset=earliest\nfetch.min.bytes=7\nfoo=1",
            target="bootstrap.servers=t:1\nbatch.size=9\ncompression.type=zstd",
        ),
        {},
    )
    flow = settings.flows[0]
    assert (flow.consumer["auto.offset.reset"], flow.consumer["fetch.min.bytes"]) == ("earliest", "7")
    assert (flow.producer["batch.size"], flow.producer["compression.type"]) == ("9", "zstd")
    assert settings.ignored == ("dc1.consumer.foo",)


def test_a_blacklist_leaves_out_and_internal_topics_stay_out(asked):
    flow = settings_given(asked("--blacklist", "test.*, secret"), {}).flows[0]
    assert [flow.topics.matches(t) for t in ("orders", "test1", "secret", "secrets")] == [True, False, False, True]
    assert flow.policy.is_internal("__consumer_offsets")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*", ".*"),
        ("'*'", ".*"),
        ("a,b", "a,b"),
        (" a , b|c ", "a,b|c"),
        ('"a.*"', "a.*"),
        ("a, *", "a,.*"),
        (".*", ".*"),
    ],
)
def test_patterns_are_read_as_mirrormaker_1_reads_them(text, expected):
    assert java_patterns(text) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "none of them given; expected exactly one of --include"),
        (["--whitelist", "a", "--blacklist", "b"], "--whitelist and --blacklist given; expected exactly one"),
        (["--whitelist", ""], "--whitelist: names no topic"),
        (["--whitelist", "a", "--message.handler", "com.x.Y"], '--message.handler: "com.x.Y" is a Java class'),
        (["--whitelist", "a["], '"a\\[" is not a regular expression'),
        (["--whitelist", "a", "--num.streams", "0"], 'tasks.max: "0" is not an integer of at least 1'),
    ],
)
def test_an_unsupported_option_is_refused_in_one_line(asked, options, expected):
    with pytest.raises(SettingsError, match=expected) as refused:
        settings_given(asked(*options), {})
    assert len(str(refused.value).splitlines()) == 1


def test_files_of_the_old_clients_and_of_one_name_are_refused(asked, tmp_path):
    with pytest.raises(
        SettingsError, match=r"dc1.properties:1: zookeeper.connect: is of the clients that spoke to ZooK"
    ):
        settings_given(asked("--include", "a", dc1="zookeeper.connect=z:2181"), {})
    parsed = asked("--include", "a")
    parsed.consumer_configs = [parsed.consumer_configs[0]] * 2
    with pytest.raises(SettingsError, match="expected files of different names"):
        settings_given(parsed, {})


def test_options_without_effect_are_logged_with_the_reason(asked):
    lines = list(needless_options(asked("--include", "a", "--abort.on.send.failure", "false", "--new.consumer")))
    assert [line.split(" has no effect")[0] for line in lines] == ["--abort.on.send.failure", "--new.consumer"]


@pytest.mark.parametrize(("key", "hashed"), JAVA_HASHES.items())
def test_keys_go_where_kafkas_partitioner_puts_them(key, hashed):
    assert [place(key, partitions) for partitions in (1, 7, 100)] == [hashed % 1, hashed % 7, hashed % 100]


KEYS = st.one_of(st.none(), st.binary(max_size=3))


@given(st.lists(st.lists(KEYS, min_size=1, max_size=12), min_size=1, max_size=4), st.integers(1, 5), st.integers(0, 9))
def test_spread_records_all_arrive_and_each_keys_stay_in_order(found, partitions, position):
    sources, offset, written = [], 0, []
    for keys in found:
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, 1 << 20)
        for number, key in enumerate(keys):
            builder.append(number, 1000 + offset, key, b"%d" % offset, [])
            written.append((key, offset))
            offset += 1
        data = bytearray(builder.build())
        data[0:8] = (offset - len(keys)).to_bytes(8, "big")
        sources += record_batches.batches(bytes(data))
    arrived: dict[int, list] = {}
    made = rounds(sources, position, partitions=partitions, unkeyed=3, codec=None, max_bytes=120)
    assert [one.next_offset for one in made] == [position] * (len(made) - 1) + [offset] * bool(made)
    for one in made:
        for where, batch in one.batches.items():
            assert 0 <= where < partitions
            arrived.setdefault(where, []).extend(
                (record.key, int(record.value)) for record in record_batches.records(memoryview(batch.data))
            )
    everything = [pair for pairs in arrived.values() for pair in pairs]
    assert sorted(everything, key=lambda pair: pair[1]) == [pair for pair in written if pair[1] >= position]
    for where, pairs in arrived.items():
        assert pairs == sorted(pairs, key=lambda pair: pair[1])
        assert all(key is None or place(key, partitions) == where for key, _ in pairs)


def test_every_command_about_a_mirror_takes_what_classic_was_given(asked, tmp_path):
    expected = settings_given(asked("--blacklist", "test.*"))
    files = [
        f"--{role}.config={tmp_path}/{name}.properties" for role, name in (("consumer", "dc1"), ("consumer", "dc2"))
    ]
    files += [f"--producer.config={tmp_path}/central.properties", "--blacklist", "test.*"]
    for command in (
        ["lag"],
        ["plan"],
        ["app"],
        ["verify", "dc1->target"],
        ["positions", "show", "dc1->target"],
    ):
        parsed = parse_arguments([*command, *files])
        assert settings_given(parsed).flows == expected.flows, command
        assert getattr(parsed, "flow", "dc1->target") == "dc1->target"
    (given,) = mirrors_of(parse_arguments(["app", *files]))
    assert (given.file, given.settings.flows) == ("FILE", expected.flows)


@pytest.mark.parametrize("given", [[], ["m.properties", "--producer.config=p"], ["--consumer.config=c"]])
def test_either_a_file_or_those_of_mirrormaker_1(given):
    with pytest.raises(SettingsError, match="expected either FILE, "):
        settings_given(parse_arguments(["lag", *given]))
