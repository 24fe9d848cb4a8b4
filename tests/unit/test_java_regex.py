"""Java regular expressions: what Java matches is matched, what cannot be carried over is refused by name."""

from __future__ import annotations

import pickle
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.policy import java_regex
from mirror.policy.java_regex import RegexError, SlowPattern, compiled, translated
from tests.java_regex import EXAMPLES, generated_table, table

NAMES, MATCHED = table()
RARE = re.compile(
    r"""
    \(\?[a-zA-Z]*-?[a-zA-Z]*[dmuxUc]           # flags other than i and s
    | \\[GXNRhHvVkc0-9] | \\b\{ | \\x\{ | \\ud8  # escapes
    | \\[pP]\{(?:[a-z_]+=|java|Is(?:LETTER|Punct|Digit|Control|Hex|Assigned|Join|Title|lower))
    | \\[pP]\{(?:ASCII|Punct|Graph|Print|Blank|Cntrl|XDigit|Space)
    | \[[^\]]*\\Q | \\Q\\E\*                   # a quotation in a class, or of nothing
    | \[\^?&& | &&[^\[] | &&\[[^\]]+\][^\]&]   # an "&&" that does not stand between two classes
    | \(\?i.*\\[pP].*(?:L[ult]|Lower|Upper|case)
    | \(\?<=a[*+]                              # "*" and "+" in a look-behind
    | (?:[\^b)]|\(\?=a\))[*+]a | [?}]\{2|\}\{3 | ^\{1\}$
    | \\d-z
    """,
    re.VERBOSE,
)
REFUSED = {  # what Java takes, and what the refusal names
    r"\Ga": r'"\G" at 0',
    r"\X": r"\X",
    r"\N{LATIN SMALL LETTER A}": r"\N",
    r"\b{g}a": r"\b",
    r"\ud835\udc9c": r"\u",
    r"a\R": r'"\R" at 1',
    r"a\h": r'"\h" at 1',
    r"\0101": r"\0",
    "(?c)a": "(?c)",
    "(?x)a b": '"(?x)" at 0',
    "a(?iu:b)": '"(?iu:" at 1',
    r"(a)\1": r'"\1" at 3',
    "(?P<n>a)": '"(?P<" at 0',
    r"\p{javaLowerCase}": r"\p{javaLowerCase}",
    r"\p{sc=Cyrl}": r"\p",
    r"(?i)\p{Lower}": r'"\p{Lower}" under (?i) at 4',
    r"\p{IsEmoji_}": r"\p{IsEmoji_}",
    ".*(?<=a*)b": '"*" in a look-behind',
    ".*(?<=a+)b": '"+" in a look-behind',
    "(?<=(?>a))b": "an atomic group in a look-behind",
    "(?=a)*a": "a quantifier of an assertion",
    "^*a": "a quantifier of an assertion",
    r"\b+a": "a quantifier of an assertion",
    "[&&a]": 'an "&&" that does not stand between two classes at 1',
    "[a&&]": 'an "&&" that does not stand between two classes',
    "[a-z&&b]": 'an "&&" that does not stand between two classes',
    "[a&&&b]": 'an "&&" that does not stand between two classes',
    r"[\d-z]": "a range from a class",
    r"[\Qa\E]": r'"\Q" at 1',
    "a?{2}": 'nothing to repeat by "{"',
    "a{2}{3}": 'nothing to repeat by "{"',
    "a{1001}": '"{1001}" at 1',
    "{1}": '"{" at 0',
    r"a\Q\E*": 'nothing to repeat by "*"',
}


@pytest.mark.parametrize(("pattern", "names"), MATCHED.items())
def test_a_pattern_matches_what_java_matches(pattern, names):
    """What Java refuses is refused, and of what Java takes, only rare constructs are."""
    try:
        expression = compiled(pattern)
    except RegexError as error:
        assert names is None or RARE.search(pattern)
        assert "is not a regular expression" in str(error) or "is not supported" in str(error)
    else:
        assert [name for name in NAMES if expression.matches(name)] == names


def test_generated_patterns_match_what_java_matches():
    """As Java 17 matched them when the table was written; the nightly run compares others with Java itself."""
    rows = generated_table()
    assert len(rows) > EXAMPLES / 2
    found = {
        pattern: [name for name in names if compiled(pattern).matches(name)] for pattern, (names, _) in rows.items()
    }
    assert found == {pattern: matched for pattern, (_, matched) in rows.items()}


@pytest.mark.parametrize(("pattern", "named"), REFUSED.items())
def test_an_unsupported_construct_is_refused_by_name(pattern, named):
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
    slow = compiled(r"((a|aa)+)+(?<!a)")
    with pytest.raises(SlowPattern, match="repetition inside a repetition"):
        slow.matches("a" * 200)


def test_no_flag_is_left_to_the_library():
    assert translated("(?i)a(?-i:b)") == "[aA](?:b)"


def test_an_expression_survives_pickling():
    assert pickle.loads(pickle.dumps(compiled(r"\p{Lower}+"))).matches("ab")
