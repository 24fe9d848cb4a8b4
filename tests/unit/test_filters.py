"""Lists of Java regular expressions on topic names: any of them matches the whole name, exclude wins."""

from __future__ import annotations

import pickle
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.policy.filters import NameFilter, compile_list
from mirror.policy.java_regex import RegexError

topic_names = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=30)


def takes(topics, topic, exclude=()):
    return NameFilter(include=tuple(topics), exclude=tuple(exclude)).matches(topic)


def test_a_pattern_must_match_the_whole_name():
    assert takes(["orders"], "orders")
    assert not takes(["orders"], "orders-eu")
    assert not takes(["orders"], "my-orders")
    assert not takes(["orders"], "orders\n")


def test_any_of_a_list_matches_and_exclude_wins():
    topics, exclude = ["orders.*", "pay"], [".*-tmp", "pay"]
    assert takes(topics, "orders-eu", exclude)
    assert not takes(topics, "orders-tmp", exclude)
    assert not takes(topics, "pay", exclude)
    assert not takes(topics, "other", exclude)


def test_an_empty_list_matches_nothing():
    assert not takes([], "orders")
    assert takes([".*"], "orders", [])


def test_a_group_over_a_comma_means_alternatives_as_in_java():
    """The list is split first and joined with "|" before it is compiled."""
    assert takes(["x(a", "b)y"], "xay")
    assert takes(["x(a", "b)y"], "xby")
    assert not takes(["x(a", "b)y"], "xa")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"a\.b", "a.b", "axb"),
        (r"(?i)orders", "ORDERS", "order"),
        (r"a(?i:b)", "aB", "AB"),
        (r"\w+-\d{3}", "eu-123", "eu-12x"),
        (r"(?<region>eu|us)-x", "eu-x", "ap-x"),
        (r"(?!eu-).*", "us-x", "eu-x"),
        (r".*(?<!-tmp)", "a", "a-tmp"),
        (r"a*+b", "aab", "aa"),
        (r"(?>a|ab)c", "ac", "abc"),
        (r"[a-c&]x", "&x", "dx"),
        (r"[^.]+", "ab", "a.b"),
        (r"\x61\u0062", "ab", "bb"),
        (r"a{2,}", "aaa", "a"),
        (r"[\]\[]", "]", "a"),
        (r"\d", "1", "\u0661"),
        (r"[a||b]", "|", "c"),
    ],
)
def test_shared_constructs_keep_their_meaning(pattern, yes, no):
    assert takes([pattern], yes)
    assert not takes([pattern], no)


@pytest.mark.parametrize(
    "pattern", ["orders.(", "*", "a)", "[a", "a{", "a{,3}", "a\\", "a**", "[z-a]", "a{9999999999999999}"]
)
def test_an_invalid_pattern_is_refused(pattern):
    with pytest.raises(RegexError, match="regular expression"):
        compile_list(["ok", pattern])


def test_a_count_split_by_its_comma_is_explained():
    with pytest.raises(RegexError, match="comma separates list entries"):
        compile_list(["a{1", "3}"])


@given(topic_names)
def test_a_quoted_name_matches_itself_only(name):
    pattern = compile_list([name.replace(".", r"\.")])
    assert pattern is not None
    assert pattern.matches(name)
    assert not pattern.matches(name + "x")


def test_a_filter_survives_pickling():
    chosen = pickle.loads(pickle.dumps(NameFilter(include=("a.*",), exclude=("ab",))))
    assert chosen == NameFilter(include=("a.*",), exclude=("ab",))
    assert (chosen.matches("ac"), chosen.matches("ab")) == (True, False)
