"""Placeholders of config providers are replaced as Kafka does it, and what they bring is never shown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config import explain
from mirror.config.load import checked, load, sources
from mirror.config.properties import Entry, Properties
from mirror.config.providers import honoured_keys, resolve
from mirror.config.table import CLIENT_KEYS, FLOW_KEYS
from mirror.errors import SettingsError

PACKAGE = "org.apache.kafka.common.config.provider."
DECLARED = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": f"{PACKAGE}FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}DirectoryConfigProvider",
    "config.providers.env.class": f"{PACKAGE}EnvVarConfigProvider",
}
BASE = """\
clusters = primary, backup
primary.bootstrap.servers = p1:9092
backup.bootstrap.servers = b1:9092
primary->backup.enabled = true
"""


def entries(**values):
    """Entries from keys with "_" for ".", all of a file m."""
    return {
        key.replace("_", "."): Entry(key=key.replace("_", "."), value=value, where="m:1")
        for key, value in values.items()
    }


def resolved(value, variables=None, /, **more):
    """Return the entry of key k with that value, all three providers declared."""
    given = entries(k=value, **{key.replace(".", "_"): text for key, text in (DECLARED | more).items()})
    return resolve(given, variables or {})["k"]


def refusal(value, variables=None, /, **more):
    """Return why a value of key k is refused, after the place and the key."""
    with pytest.raises(SettingsError) as caught:
        resolved(value, variables, **more)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert "hunter2" not in message
    return message.removeprefix("m:1: ").removeprefix("k: ")


@pytest.fixture
def folder(tmp_path):
    """A folder with a properties file, two files that are one value each, and a folder."""
    (tmp_path / "db.properties").write_text(
        "user = al\npw = hunter2\npw = last\\u0021\nodd\\:key = o\nn\u00e4me = \u00fc\n", "utf-8"
    )
    (tmp_path / "token").write_bytes("t\u00f6k\r\nen\n".encode())
    (tmp_path / "other").write_text("${env:A}")
    (tmp_path / "below").mkdir()
    return tmp_path


def test_a_file_a_folder_and_the_environment_in_one_value(folder):
    value = f"<${{file:{folder}/db.properties:user}}|${{dir:{folder}:token}}|${{env:A}}>"
    assert resolved(value, {"A": "1"}) == Entry(key="k", value="<al|t\u00f6k\r\nen\n|1>", where="m:1", is_provided=True)


def test_a_file_is_utf_8_properties_whose_last_duplicate_counts(folder):
    path = f"{folder}/db.properties"
    values = [resolved(f"${{file:{path}:{key}}}").value for key in ("pw", "odd:key", "n\u00e4me")]
    assert values == ["last!", "o", "\u00fc"]


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        "${vault:secret/x:y}",
        "${vault:y}",
        "$env:A}",
        "${env}",
        "${A}",
        "{env:A}",
        "${ env:A}",
        "${${env:A}",
        "$${",
    ],
)
def test_a_placeholder_of_no_declared_provider_stays_literal(value):
    assert resolved(value, {"A": "1"}) == Entry(key="k", value=value, where="m:1")


def test_without_providers_everything_stays_literal():
    given = entries(k="${env:A}")
    assert resolve(given, {"A": "1"}) == given


def test_a_value_from_a_provider_is_not_resolved_again(folder):
    assert resolved(f"${{dir:{folder}:other}}-${{env:A}}", {"A": "${env:B}", "B": "2"}).value == "${env:A}-${env:B}"


def test_the_keys_of_providers_themselves_are_literal():
    pattern = "config.providers.env.param.allowlist.pattern"
    assert resolved("${env:A}", {"A": "1"}, **{pattern: "^[$A]$"}).value == "1"
    given = entries(**{key.replace(".", "_"): text for key, text in DECLARED.items()}, config_providers_x="${env:A}")
    assert resolve(given, {"A": "1"}) == given


@given(st.text(), st.text())
def test_text_around_a_placeholder_is_kept(before, after):
    """Unless it makes another placeholder with it, which takes "${" before or another "}" after."""
    before, after = before.replace("$", ""), after.replace("$", "")
    assert resolved(f"{before}${{env:A}}{after}", {"A": "$1\\1"}).value == f"{before}$1\\1{after}"


@given(st.lists(st.tuples(st.sampled_from(["A", "B", "C"]), st.text(alphabet="xy:/ ")), max_size=5))
def test_several_placeholders_each_get_their_own_value(parts):
    variables = {"A": "1", "B": "", "C": "${env:A}"}
    value = "".join(f"${{env:{name}}}{text}" for name, text in parts)
    assert resolved(value, variables).value == "".join(variables[name] + text for name, text in parts)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "${file:FOLDER/absent:pw}",
            'config provider "file": FOLDER/absent cannot be read (No such file or directory).',
        ),
        ("${file:FOLDER/below:pw}", 'config provider "file": FOLDER/below cannot be read (Is a directory).'),
        ("${file:FOLDER/db.properties:pww}", 'config provider "file": FOLDER/db.properties has no key "pww".'),
        ("${file:pw}", 'config provider "file": the placeholder names no path. Write ${provider:path:key}.'),
        ("${file:FOLDER/a\0b:pw}", 'config provider "file": FOLDER/a\\x00b cannot be read (ValueError).'),
        ("${file:FOLDER/loop:pw}", 'config provider "file": FOLDER/loop cannot be read ('),
        (
            "${file:FOLDER/bad:x}",
            'config provider "file": FOLDER/bad is no Java properties file: it has a bad \\u escape.',
        ),
        ("${file:FOLDER/latin:x}", 'config provider "file": FOLDER/latin is not UTF-8 text. Save it as such.'),
        ("${dir:FOLDER:absent}", 'config provider "dir": FOLDER/absent cannot be read (No such file or directory).'),
        ("${dir:FOLDER:below}", 'config provider "dir": FOLDER/below is not a regular file. Name one.'),
        ("${dir:FOLDER/token:x}", 'config provider "dir": FOLDER/token/x cannot be read (Not a directory).'),
        ("${dir:FOLDER/below:../token}", 'config provider "dir": "../token" is not a file name in FOLDER/below.'),
        ("${dir:FOLDER:..}", 'config provider "dir": ".." is not a file name in FOLDER.'),
        ("${dir:token}", 'config provider "dir": the placeholder names no path.'),
        ("${env:B}", 'config provider "env": the environment has no variable "B". Set it or correct the name.'),
        ("${env:x:A}", 'config provider "env": "x" is a path, and the environment has none. Write ${provider:NAME}.'),
        ("ok ${env:A} ${env:B}", 'config provider "env": the environment has no variable "B".'),
    ],
)
def test_a_value_that_a_provider_does_not_find_is_refused_by_key(folder, value, expected):
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "bad").write_text("hunter2 = \\uZ")
    (folder / "latin").write_bytes(b"hunter2 = \xe9")
    found = refusal(value.replace("FOLDER", str(folder)), {"A": "hunter2"})
    assert found.startswith(expected.replace("FOLDER", str(folder)))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"config.providers": "vault"},
            'config.providers: "vault" has no class. Write config.providers.vault.class = one of org.apache.kafka.',
        ),
        (
            {"config.providers": "env", "config.providers.env.class": "com.x.Vault"},
            'config.providers.env.class: "com.x.Vault" is not a config provider of this program; expected one of org.',
        ),
        (
            {"config.providers.env.param.allowlist.pattern": "A("},
            'config.providers.env.param.allowlist.pattern: "A(" is not a regular expression',
        ),
        (
            {"config.providers.file.param.allowed.paths": "/, x"},
            'config.providers.file.param.allowed.paths: "x" is not an absolute path that exists.',
        ),
        (
            {"config.providers.dir.param.allowed.paths": "/absent/folder"},
            'config.providers.dir.param.allowed.paths: "/absent/folder" is not an absolute path that exists.',
        ),
    ],
)
def test_a_bad_declaration_is_refused_whether_it_is_used_or_not(more, expected):
    assert refusal("no placeholder", **more).startswith(expected)


@pytest.fixture
def inside(folder):
    """An allowed folder beside one that is not; links lead from each into the other."""
    inside, outside = folder / "inside", folder / "inside-not"
    for each in (inside, outside):
        (each / "sub").mkdir(parents=True)
        (each / "f").write_text("x = hunter2")
        (each / "sub" / "f").write_text("x = 1")
    (inside / "link").symlink_to(outside / "f")
    (inside / "linked").symlink_to(outside)
    (outside / "link").symlink_to(inside / "f")
    (inside / "..data").symlink_to(inside / "sub")
    (inside / "mounted").symlink_to("..data/f")
    return inside


def allowed(inside):
    """Return the parameters that allow it, last of two."""
    paths = f"{inside.parent}/below , {inside}"
    return {f"config.providers.{name}.param.allowed.paths": paths for name in ("file", "dir")}


@pytest.mark.parametrize("path", ["f", "sub/f", "sub/../f", "../inside/f", "mounted"])
def test_files_below_an_allowed_path_are_read(inside, path):
    """As a mounted Kubernetes secret, whose files are links to files below the same folder."""
    expected = {"f": "hunter2", "../inside/f": "hunter2", "sub/../f": "hunter2"}.get(path, "1")
    assert resolved(f"${{file:{inside}/{path}:x}}", **allowed(inside)).value == expected


@pytest.mark.parametrize(
    "path", ["../inside-not/f", "link", "linked/f", "linked/sub/../f", "../db.properties", "../absent"]
)
def test_a_file_outside_of_allowed_paths_is_refused(inside, path):
    found = refusal(f"${{file:{inside}/{path}:x}}", **allowed(inside))
    assert found.startswith(
        f'config provider "file": {inside}/{path} lies outside of config.providers.file.param.allowed.paths.'
    )


@pytest.mark.parametrize(("path", "key"), [(".", "link"), ("linked", "f"), ("../inside-not", "link"), ("..", "token")])
def test_a_folder_outside_of_allowed_paths_is_refused(inside, path, key):
    found = refusal(f"${{dir:{inside}/{path}:{key}}}", **allowed(inside))
    assert " lies outside of config.providers.dir.param.allowed.paths. Move it, or" in found


def test_a_folder_below_an_allowed_path_is_read(inside):
    assert resolved(f"${{dir:{inside}:mounted}}", **allowed(inside)).value == "x = 1"


def test_an_allowed_path_may_be_a_link_or_a_file(inside):
    link = inside.parent / "also"
    link.symlink_to(inside)
    for allowed in (link, inside / "sub" / "f"):
        more = {"config.providers.file.param.allowed.paths": str(allowed)}
        assert resolved(f"${{file:{inside}/sub/f:x}}", **more).value == "1"


def test_an_empty_list_of_paths_allows_everything_as_in_kafka(inside):
    assert resolved(f"${{file:{inside}/sub/f:x}}", **{"config.providers.file.param.allowed.paths": ""}).value == "1"


def test_an_allowlist_may_match_any_part_of_a_name_as_in_kafka():
    more = {"config.providers.env.param.allowlist.pattern": "KAFKA_|^X$"}
    variables = {"MY_KAFKA_PW": "1", "X": "2", "XY": "hunter2"}
    assert resolved("${env:MY_KAFKA_PW}${env:X}", variables, **more).value == "12"
    assert refusal("${env:XY}", variables, **more).startswith(
        'config provider "env": config.providers.env.param.allowlist.pattern does not match "XY".'
    )


def test_keys_of_providers_are_honoured_only_where_they_do_something():
    given = entries(
        config_providers="file,env",
        config_providers_file_class=f"{PACKAGE}FileConfigProvider",
        config_providers_file_param_allowed_paths="/",
        config_providers_file_param_allowlist_pattern="x",
        config_providers_env_class=f"{PACKAGE}EnvVarConfigProvider",
        config_providers_vault_class="x",
    )
    assert given.keys() - honoured_keys(given) == {
        "config.providers.file.param.allowlist.pattern",
        "config.providers.vault.class",
    }


@pytest.fixture
def given_file(tmp_path, monkeypatch):
    """Write BASE with the env provider and some lines; return the file. $SECRET is what the test says."""

    def write(*lines, secret="hunter2", base=BASE):
        monkeypatch.setenv("SECRET", secret)
        path = tmp_path / "m.properties"
        providers = ["config.providers = env", f"config.providers.env.class = {PACKAGE}EnvVarConfigProvider"]
        path.write_text(base + "\n".join([*providers, *lines]))
        return path

    return write


def test_load_resolves_file_and_options(given_file):
    path = given_file(
        "primary->backup.topics = ${env:SECRET}.*",
        "primary.consumer.client.id = a-${env:SECRET}",
        "backup.bootstrap.servers = ${env:SECRET}:1",
        "config.providers.vault.class = x",
    )
    loaded = load(path, options={"mirror.state.dir": "/data/${env:SECRET}"})
    [flow] = loaded.flows
    assert flow.topics.include == ("hunter2.*",)
    assert (flow.consumer["client.id"], flow.producer["bootstrap.servers"]) == ("a-hunter2", "hunter2:1")
    assert str(loaded.mirror.state_dir) == "/data/hunter2"
    assert loaded.ignored == ("config.providers.vault.class",)


def test_a_missing_variable_is_refused_with_line_and_key(given_file):
    with pytest.raises(
        SettingsError, match=r'm\.properties:7: backup\.ssl\.key\.password: config provider "env": the env'
    ):
        load(given_file("backup.ssl.key.password = ${env:SECRET_THAT_IS_NOT_SET}"))


def test_an_alias_config_does_not_take_the_providers_keys(given_file):
    path = given_file("config.consumer.client.id = ${env:SECRET}", base=BASE.replace("primary", "config"))
    assert load(path).flows[0].consumer["client.id"] == "hunter2"


def test_clusters_may_be_provided_but_only_if_the_file_names_them_anyway(given_file):
    loaded = load(given_file("clusters = ${env:SECRET}", secret="backup,primary"))
    assert [flow.name for flow in loaded.flows] == ["primary->backup"]
    with pytest.raises(
        SettingsError, match=r"m\.properties:7: clusters: a config provider names a cluster that no"
    ) as caught:
        load(given_file("clusters = ${env:SECRET}", secret="primary, hunter2, hunter2"))
    assert "hunter2" not in str(caught.value)


def test_provided_keys_survive_copies():
    assert repr(Properties(Properties({"a": "hunter2", "b": "1"}, provided=["a"]))) == '{a=***, b="1"}'


PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = (
    "security.protocol = SASL_PLAINTEXT",
    "sasl.mechanism = PLAIN",
    f'sasl.jaas.config = {PLAIN_MODULE} required username="u" password="p";',
)
SSL = ("primary.security.protocol = SSL", "ssl.keystore.type = PEM", "ssl.truststore.type = PEM")
KEYS_OF_CLIENTS = (*CLIENT_KEYS, "fetch.min.bytes", "isolation.level", "acks", "compression.type", "batch.size")
OWN_KEYS = (
    "app.grafana.url",
    "metrics.listen",
    "state.dir",
    "window.ms",
    "lanes",
    "metrics.strimzi.names",
    "spark.x",
    "y",
)
SASL_KEYS = [
    f"{prefix}{key}" for key in KEYS_OF_CLIENTS for prefix in ("", "primary.consumer.", "backup.producer.", "backup.")
]
SSL_KEYS = [f"primary.admin.{key}" for key in KEYS_OF_CLIENTS if key.startswith("ssl.")]
KEYS = [
    *(f"{prefix}{key}" for key in FLOW_KEYS for prefix in ("", "primary->backup.")),
    *SASL_KEYS,
    *(f"mirror.{key}" for key in OWN_KEYS),
]


FOR_CLIENTS = (  # secrets that a client's security settings read, and a plain one
    "hunter2",
    "hunter2LoginModule required;",
    f'{PLAIN_MODULE} required username="u" password="p" hunter2="c";',
    "org.apache.kafka.common.security.scram.ScramLoginModule required username=hunter2 password=x;",
)
SECRETS = (*FOR_CLIENTS, "31415926", "hunter2:9092", "http://hunter2", "hunter2.(", "pathlib.hunter2")


@pytest.mark.parametrize(
    ("secret", "base", "keys"),
    [
        pytest.param(secret, base, keys, id=f"{name} {number}")
        for name, base, keys, secrets in (
            ("plain", (), KEYS, SECRETS),
            ("sasl", SASL, SASL_KEYS, FOR_CLIENTS),
            ("ssl", SSL, SSL_KEYS, FOR_CLIENTS),
        )
        for number, secret in enumerate(secrets)
    ],
)
def test_a_value_from_a_provider_is_never_shown(given_file, secret, base, keys):
    """Whatever key it is the value of: taken, it is in no repr and not explained; refused, it is not in the message."""
    taken = 0
    for key in keys:
        path = given_file(*base, f"{key} = ${{env:SECRET}}", secret=secret)
        try:
            given = sources(path)
            settings = checked(given)
        except SettingsError as error:
            shown = str(error)
        else:
            found = explain.explain(given, settings)
            shown = f"{settings!r}{given.entries!r}{explain.as_text(found)}{explain.as_json(found)}"
            taken += 1
        assert re.search("hunter2|31415926", shown) is None, key
    assert 0 < taken < len(keys)
