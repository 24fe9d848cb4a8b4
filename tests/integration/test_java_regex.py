"""What Java's own engine matches, the translated expression matches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.policy.java_regex import RegexError, compiled
from tests.java_regex import java_regex, table

pytestmark = (
    pytest.mark.nightly
)  # starts a JVM; tests/unit/test_java_regex.py compares with a table of what Java matches

# Patterns, each with ten names. Always the same ones, or a run would fail for what nobody changed; others with
# --hypothesis-seed and this at thousands, as after each change of the grammar.
EXAMPLES = 500

characters = st.sampled_from([*"abAB1_.-&k", r"\.", r"\-", r"\x61", r"\t", "é"])
escapes = st.sampled_from(
    [r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\p{Alpha}", r"\p{L}", r"\P{Lu}", r"\p{IsLatin}", r"\p{IsAlphabetic}"]
)
items = st.one_of(
    characters, escapes, st.sampled_from(["a-c", "A-Z", "0-9", "-", "^", "|", "||", "~~", "#", ".", "$", "*", "]a"])
)
sets = st.recursive(
    st.lists(items, min_size=1, max_size=3).map("".join).map("[{}]".format),
    lambda inner: st.one_of(
        st.builds("[{}{}]".format, items, inner),
        st.builds("[^{}]".format, inner),
        st.builds("[{}&&{}]".format, items, inner),
        st.builds("[{}{}&&{}]".format, inner, items, inner),
        st.builds("[^{}&&{}&&{}]".format, items, inner, inner),
    ),
    max_leaves=4,
)
quantifiers = st.builds(
    str.__add__,
    st.sampled_from(["", "", "?", "*", "+", "{2}", "{1,}", "{0,2}", "{0}"]),
    st.sampled_from(["", "", "?", "+"]),
)
groups = st.sampled_from(["(", "(", "(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!", "(?i:", "(?s:", "(?-i:", "(?i-s:"])
assertions = st.sampled_from(["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", "(?i)", "(?s)", "(?-i)", r"\Q.a*\E"])
expressions = st.recursive(
    st.one_of(characters, escapes, sets, st.just("."), assertions),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, quantifiers),
        st.builds("{}{}".format, inner, inner),
        st.builds("{}|{}".format, inner, inner),
        st.builds("{}{}){}".format, groups, inner, quantifiers),
    ),
    max_leaves=8,
)
names = st.text("aabbAB1_.-&k \n\r\t#|é\u0661K\u2028", max_size=6)


@pytest.fixture(scope="module")
def java():
    with java_regex() as matched:
        yield matched


@settings(max_examples=EXAMPLES, derandomize=True)
@given(pattern=expressions, given_names=st.lists(names, min_size=10, max_size=10, unique=True))
def test_every_accepted_pattern_matches_what_java_matches(java, pattern, given_names):
    try:
        ours = compiled(pattern)
    except RegexError:
        return
    if r"\b" in pattern.lower():  # Java's word is of all letters before 19, and of ASCII since
        given_names = [name for name in given_names if name.isascii()]
    assert [name for name in given_names if ours.matches(name)] == java(pattern, given_names)


def test_the_table_has_javas_results(java):
    """The unit tests' table is as old as the patterns in it."""
    names, matched = table()
    assert matched == {pattern: java(pattern, names) for pattern in matched}
