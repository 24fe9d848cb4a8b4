"""Match topic names like MirrorMaker: lists of Java regular expressions, whole names, exclude wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mirror.policy.java_regex import JavaPattern, compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """The topics or groups of a flow: `include` matches the whole name, and `exclude` does not."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    _included: JavaPattern | None = field(init=False, repr=False, compare=False)
    _excluded: JavaPattern | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_included", compile_list(self.include))
        object.__setattr__(self, "_excluded", compile_list(self.exclude))

    def matches(self, name: str) -> bool:
        """Return whether the filter selects `name`. The policy handles internal topics and cycles."""
        if self._included is None or not self._included.matches(name):
            return False
        return self._excluded is None or not self._excluded.matches(name)


def compile_list(patterns: Sequence[str]) -> JavaPattern | None:
    """Compile a list joined with "|", like MirrorUtils.compilePatternList; None (an empty list) matches nothing.

    Raises:
        RegexError: Java would refuse a pattern, or a pattern cannot be translated.
    """
    return compiled("|".join(patterns)) if patterns else None
