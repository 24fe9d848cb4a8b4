"""The soak's oracle: it must see what it is there to see."""

from hypothesis import given
from hypothesis import strategies as st

from tests.soak.oracle import Fate, fate

SENT = [str(n).encode() for n in range(10)]


def test_every_kind_of_harm_is_seen():
    assert fate(SENT, SENT) == Fate(sent=10)
    assert fate(SENT, SENT[:4] + SENT[5:]) == Fate(sent=10, lost=1)
    assert fate(SENT, SENT[:4] + SENT[2:]) == Fate(sent=10, duplicate=2)
    assert fate(SENT, [*SENT[:4], SENT[5], SENT[4], *SENT[6:]]) == Fate(sent=10, reordered=1)
    assert fate(SENT, [*SENT, b"other"]) == Fate(sent=10, foreign=1)


@given(st.lists(st.sampled_from(SENT)))
def test_nothing_is_clean_but_the_same(got):
    assert fate(SENT, got).is_clean == (got == SENT)
