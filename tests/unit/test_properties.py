"""Java properties syntax, and errors that name the line but never the value."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.properties import Entry, Properties, is_secret, last_wins, parse, read
from mirror.errors import SettingsError


def pairs(text):
    return [(entry.key, entry.value) for entry in parse(text, "f")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a\tb", [("a", "b")]),
        ("  a  =  b  ", [("a", "b  ")]),
        ("a = = b", [("a", "= b")]),
        ("a : = b", [("a", "= b")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=b", [("", "b")]),
        ("a\\=b\\:c\\ d=e", [("a=b:c d", "e")]),
        ("# c\n! c\n  # c\n\n \t\na=b#c", [("a", "b#c")]),
        ("# c \\\na=b", [("a", "b")]),
        ("a=b,\\\n   c,\\\n\t#d", [("a", "b,c,#d")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\\\\\\nc", [("a", "b\\c")]),
        ("a=b\\\n\nc=d", [("a", "b"), ("c", "d")]),
        ("\\\n# c\na=b", [("a", "b")]),
        ("a=b\\", [("a", "b")]),
        ("a=b\r\nc=d\re=f\n", [("a", "b"), ("c", "d"), ("e", "f")]),
        ('a=\\t\\n\\r\\f\\q\\"\\\\', [("a", '\t\n\r\fq"\\')]),
        ("a=\\u0041\\u00e9\\ud83d\\ude00", [("a", "A\u00e9\U0001f600")]),
        ("A->B.topics = foo\\\\.bar", [("A->B.topics", "foo\\.bar")]),
        ("A -> B = c", [("A", "-> B = c")]),
    ],
)
def test_syntax_is_that_of_java(text, expected):
    assert pairs(text) == expected


def test_an_entry_knows_the_line_its_key_starts_on():
    entries = parse("# one\na=1\\\n 2\n\nb=3\na=4", "f")
    assert [entry.where for entry in entries] == ["f:2", "f:5", "f:6"]


def test_the_last_duplicate_wins_with_its_own_line():
    assert last_wins(parse("a=1\nb=2\na=3", "f"))["a"] == Entry(key="a", value="3", where="f:3")


def java_escape(text):
    special = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    units = text.encode("utf-16-be")
    chars = [chr(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2)]
    return "".join(
        special.get(char)
        or (f"\\{char}" if char in ' \\=:#!"' else char if " " < char <= "~" else f"\\u{ord(char):04X}")
        for char in chars
    )


@given(st.lists(st.tuples(st.text(min_size=1), st.text())))
def test_properties_stored_by_java_are_read_back(stored):
    """Properties.store escapes, parse resolves; keys and values come back whole."""
    text = "".join(f"{java_escape(key)}={java_escape(value)}\n" for key, value in stored)
    assert pairs(text) == stored


@given(st.text())
def test_any_text_parses_or_is_refused_in_one_line(text):
    message = ""
    try:
        parse(text, "f")
    except SettingsError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbfa=b", ":1: starts with a UTF-8 byte order mark"),
        (b"\xff\xfea\0=\0", ":1: starts with a UTF-16 byte order mark"),
        (b"a=b\nc=\0", ":2: holds a NUL byte"),
        (b"", ": holds no property"),
        (b"# only a comment\n", ": holds no property"),
        (b"a=b\nA.ssl.key.password=hunter2\\u12\n", ":2: A.ssl.key.password: holds a bad \\u escape"),
        (b"a\\uXYZW=hunter2", ":1: holds a bad \\u escape"),
        (b"a=hunter2\\ud800", ":1: a: holds half of a surrogate pair"),
    ],
)
def test_a_bad_file_is_refused_by_file_and_line(tmp_path, data, expected):
    path = tmp_path / "m.properties"
    path.write_bytes(data)
    with pytest.raises(SettingsError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}{expected}")
    assert "hunter2" not in message
    assert "\n" not in message


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    with pytest.raises(SettingsError, match="no such file"):
        read(tmp_path / "absent")
    with pytest.raises(SettingsError, match="is a directory"):
        read(tmp_path)


def test_an_unreadable_file_is_refused(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(SettingsError, match="cannot be read"):
        read(loop)


def test_bytes_are_latin_1_as_in_java(tmp_path):
    path = tmp_path / "m.properties"
    path.write_bytes(b"a=\xe9")
    assert read(path)[0].value == "\u00e9"


@pytest.mark.parametrize(
    "key",
    [
        "ssl.key.password",
        "A.sasl.jaas.config",
        "ssl.keystore.key",
        "mirror.spark.hadoop.fs.s3a.secret.key",
        "mirror.spark.hadoop.fs.azure.account.key.x",
        "sasl.oauthbearer.token",
        "client.SECRET",
    ],
)
def test_secret_values_are_never_in_a_repr(key):
    assert is_secret(key)
    assert "hunter2" not in repr(Entry(key=key, value="hunter2", where="f:1"))
    assert repr(Properties({key: "hunter2", "acks": "all"})) == f'{{{key}=***, acks="all"}}'


@pytest.mark.parametrize(
    "key", ["ssl.keystore.location", "ssl.keystore.type", "bootstrap.servers", "key.converter", "a.key.converter.x"]
)
def test_plain_values_are_shown(key):
    assert not is_secret(key)


def test_properties_survive_pickling():
    values = Properties({"a": "1", "b.password": "2"})
    copy = pickle.loads(pickle.dumps(values))
    assert copy == values == {"a": "1", "b.password": "2"}
    assert hash(copy) == hash(values)
