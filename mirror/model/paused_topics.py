"""Keep the topics that an operator paused: patterns in the metadata of an offset on the target."""

from __future__ import annotations

import json
from typing import NamedTuple

from mirror.policy.filters import compile_list
from mirror.policy.java_regex import JavaPattern, RegexError

MOST = 3_500  # brokers refuse metadata above 4,096 characters by default
REASON = "paused by its operator (kafka-mirror positions resume)"


class Paused(NamedTuple):
    """Java regular expressions; a source topic that any of them matches is paused."""

    patterns: tuple[str, ...] = ()

    def pattern(self) -> JavaPattern | None:
        """Return a pattern of all paused topics, None if there is none. Compile it once for many topics."""
        return compile_list(self.patterns)

    def text(self) -> str:
        """Return it for the metadata; ValueError when it is too long for that."""
        text = json.dumps(self.patterns)
        if len(text) > MOST:
            raise ValueError(f"{len(text)} characters of patterns found, at most {MOST} can be kept")
        return text

    @classmethod
    def parse(cls, text: str) -> Paused:
        """Parse it; an invalid text pauses nothing."""
        try:
            found = cls(tuple(map(str, json.loads(text))))
            compile_list(found.patterns)
        except (ValueError, TypeError, RegexError):
            return cls()
        return found
