"""Keep the topics that an operator paused, as patterns in an offset's metadata."""

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
        """Return one pattern for all paused topics, None if no topic is paused. Compile it once for many topics."""
        return compile_list(self.patterns)

    def text(self) -> str:
        """Return the text for the metadata; raises ValueError if it is too long."""
        text = json.dumps(self.patterns)
        if len(text) > MOST:
            raise ValueError(f"{len(text)} characters of patterns found, at most {MOST} can be kept")
        return text

    @classmethod
    def parse(cls, text: str) -> Paused:
        """Parse the metadata; an invalid text pauses nothing."""
        try:
            found = cls(tuple(map(str, json.loads(text))))
            compile_list(found.patterns)
        except (ValueError, TypeError, RegexError):
            return cls()
        return found
