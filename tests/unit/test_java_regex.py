"""Java regular expressions: what Java matches is matched, what cannot be carried over is refused by name."""

from __future__ import annotations

import pickle
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.policy import java_regex
from mirror.policy.java_regex import RegexError, SlowPattern, compiled, translated
from tests.java_regex import EXAMPLES, generated_table, table

NAMES, MATCHED = table()
REFUSED = {  # what Java takes, and what the refusal names
    r"\Ga": r"\G",
    r"\X": r"\X",
    r"\N{LATIN SMALL LETTER A}": r"\N",
    r"\b{g}a": r"\b{",
    r"\ud835\udc9c": r"\ud835",
    "(?c)a": "(?c)",
    r"\1(a)": "a reference to group 1 before its end",
    r"(a\1)": "a reference to group 1 before its end",
    r"(a)\2": "a reference to group 2",
    r"(?i)(a)\1": "a reference to a group under (?i)",
    ".*(?<=a*)b": '"*" in a look-behind',
    ".*(?<=a+)b": '"+" in a look-behind',
    "(?=a)*a": "a quantifier of an assertion",
    "^*a": "a quantifier of an assertion",
    r"\b+a": "a quantifier of an assertion",
    "[&&a]": 'an "&&" without a left side',
    "[^&&a]": 'an "&&" without a left side',
    "[a&&]": 'an "&&" without a right side',
    "[a&&&b]": 'an "&&" without a right side',
    "a?{2}": 'nothing to repeat by "{"',
    "a{2}{3}": 'nothing to repeat by "{"',
    "{1}": '"{" at 0',
    r"a\Q\E*": 'nothing to repeat by "*"',
}


@pytest.mark.parametrize(("pattern", "names"), [row for row in MATCHED.items() if row[0] not in REFUSED])
def test_what_java_matches_is_matched(pattern, names):
    """Where Java refuses the pattern, so is it here."""
    if names is None:
        with pytest.raises(RegexError, match=r"is not a regular expression|is not supported here"):
            compiled(pattern)
    else:
        expression = compiled(pattern)
        assert [name for name in NAMES if expression.matches(name)] == names


def test_generated_patterns_match_what_java_matches():
    """As Java 17 matched them when the table was written; the nightly run compares others with Java itself."""
    rows = generated_table()
    assert len(rows) > EXAMPLES / 2
    found = {
        pattern: [name for name in names if compiled(pattern).matches(name)] for pattern, (names, _) in rows.items()
    }
    assert found == {pattern: matched for pattern, (_, matched) in rows.items()}


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        *REFUSED.items(),
        ("(?iu)é", '"(?iu)" with a character that is not ASCII'),
        (r"\p{IsEmoji_}", r"\p{IsEmoji_}"),
        ("(?<=(?>a))b", "an atomic group in a look-behind"),
        (r"(?x)[a b]", "a blank or # in a class under (?x)"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_name(pattern, named):
    with pytest.raises(RegexError) as caught:
        compiled(pattern)
    assert named in str(caught.value)
    assert f'"{pattern}"' in str(caught.value)


@given(st.text(string.ascii_letters + string.digits + r"\[](){}?*+|^$.&<>=!:-,#~é" + " ", max_size=20))
def test_any_pattern_compiles_or_is_refused(pattern):
    """Nothing escapes as another exception."""
    message = ""
    try:
        compiled(pattern)
    except RegexError as error:
        message = str(error)
    assert "\n" not in message


def test_a_pattern_that_is_too_deep_is_refused():
    with pytest.raises(RegexError, match="too large"):
        compiled("(" * 5000 + ")" * 5000)


def test_a_match_that_takes_too_long_ends_in_one_line(monkeypatch):
    monkeypatch.setattr(java_regex, "MATCH_S", 0.05)
    slow = compiled(r"((a|aa)+)+\1b")
    with pytest.raises(SlowPattern, match="repetition inside a repetition"):
        slow.matches("a" * 200)


def test_no_flag_is_left_to_the_library():
    assert translated("(?i)a(?-i:b)") == "[aA](?:b)"


def test_an_expression_survives_pickling():
    assert pickle.loads(pickle.dumps(compiled(r"\p{Lower}+"))).matches("ab")
