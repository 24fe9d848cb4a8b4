"""Match topic names the way MirrorMaker does: lists of Java regular expressions, whole name, exclude wins."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

_SHARED_ESCAPES = frozenset("tnrfadDsSwWAbB")  # letters that Java and Python (re.ASCII) read alike
_COUNT = re.compile(r"\{[0-9]+(,[0-9]*)?\}")
_SHARED_GROUP = re.compile(r"\(\?(:|=|!|<=|<!|>|[ims]*-?[ims]+:)")
_NAMED_GROUP = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_LEADING_FLAGS = re.compile(r"\(\?[ims]+\)")
_HINT = 'Quote literal dots as "\\\\." and lists as a, b.'


class RegexError(ValueError):
    """A pattern Java would refuse, or that Python would read differently; the message says which and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """Which topics or groups a flow takes: any of `include` matches the whole name and none of `exclude` does."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    _included: re.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _excluded: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_included", compile_list(self.include))
        object.__setattr__(self, "_excluded", compile_list(self.exclude))

    def matches(self, name: str) -> bool:
        """Tell whether the filter lets `name` through. Internal topics and cycles are the policy's matter."""
        if self._included is None or self._included.fullmatch(name) is None:
            return False
        return self._excluded is None or self._excluded.fullmatch(name) is None


def compile_list(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Compile a list joined with "|", as MirrorUtils.compilePatternList; None (an empty list) matches nothing.

    Raises:
        RegexError: See the class.
    """
    if not patterns:
        return None
    joined = "|".join(patterns)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # "--" or "||" in a class: literal in both dialects
            return re.compile(translate(joined), re.ASCII)
    except re.error as error:
        at = "" if error.pos is None else f" at {error.pos}"
        raise RegexError(f'"{joined}" is not a regular expression ({error.msg}{at}). {_HINT}') from None
    except (OverflowError, RecursionError):
        raise RegexError(f'"{joined}" is too large a regular expression. Write a shorter one.') from None


def translate(pattern: str) -> str:
    """Return the Python spelling of a Java regular expression with the same meaning on ASCII names.

    Raises:
        RegexError: The construct exists in one dialect only or means something else in the other.
    """
    out: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            piece = _escape(pattern, at)
        elif char == "[":
            piece = _character_class(pattern, at)
        elif char == "{":
            piece = _count(pattern, at)
        elif pattern.startswith("(?", at):
            piece, spelling = _group(pattern, at)
            out.append(spelling)
            at += len(piece)
            continue
        else:
            piece = char
        out.append(piece)
        at += len(piece)
    return "".join(out)


def _refuse(pattern: str, at: int, found: str, advice: str) -> RegexError:
    return RegexError(f'"{pattern}" holds {found} at {at}, which is not supported here. {advice}')


def _escape(pattern: str, at: int, *, in_class: bool = False) -> str:
    """Return the escape that starts at `at`, if both dialects read it alike."""
    letter = pattern[at + 1 : at + 2]
    if not letter:
        raise RegexError(f'"{pattern}" is not a regular expression (ends in a backslash at {at}). {_HINT}')
    found = f'"\\{letter}"'
    if letter in "xu":
        digits = 2 if letter == "x" else 4
        code = pattern[at + 2 : at + 2 + digits]
        if re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", code) is None:
            raise _refuse(pattern, at, found, f"Write \\{letter} with {digits} hexadecimal digits, or the character.")
        return pattern[at : at + 2 + digits]
    if letter in "123456789" and not in_class and not pattern[at + 2 : at + 3].isdigit():
        return pattern[at : at + 2]
    differs = letter not in _SHARED_ESCAPES or (in_class and letter in "AbB") or pattern.startswith("b{", at + 1)
    if letter.isascii() and letter.isalnum() and differs:
        raise _refuse(pattern, at, found, "Write the characters or a class such as [a-z0-9] instead.")
    return pattern[at : at + 2]


def _character_class(pattern: str, start: int) -> str:
    """Return the class that starts at `start`; unions, intersections and a leading "]" differ and are refused."""
    at = start + 1 + pattern.startswith("^", start + 1)
    if pattern.startswith("]", at):
        raise _refuse(pattern, at, 'a "]" that opens a class', 'Write it as "\\\\]".')
    while at < len(pattern):
        if pattern[at] == "]":
            return pattern[start : at + 1]
        if pattern[at] == "\\":
            at += len(_escape(pattern, at, in_class=True))
            continue
        if pattern[at] == "[":
            raise _refuse(
                pattern, at, "a class inside a class", 'Join them into one, or write "\\\\[" for the bracket.'
            )
        if pattern.startswith("&&", at):
            raise _refuse(pattern, at, 'an intersection "&&"', "List the wanted characters.")
        at += 1
    raise RegexError(f'"{pattern}" is not a regular expression (missing "]" for "[" at {start}). {_HINT}')


def _count(pattern: str, at: int) -> str:
    match = _COUNT.match(pattern, at)
    if match is None:
        raise RegexError(
            f'"{pattern}" is not a regular expression ("{{" at {at} starts no {{n}}). '
            'A comma separates list entries, so write a{1,3} as aa?a?; quote a literal brace as "\\\\{".'
        )
    return match[0]


def _group(pattern: str, at: int) -> tuple[str, str]:
    """Return (Java text, Python text) of the special group opening at `at`."""
    if match := _NAMED_GROUP.match(pattern, at):
        return match[0], f"(?P<{match[1]}>"
    if match := _SHARED_GROUP.match(pattern, at):
        return match[0], match[0]
    if at == 0 and (match := _LEADING_FLAGS.match(pattern)):
        return match[0], match[0]
    found = f'"{pattern[at : at + 4]}"'
    raise _refuse(pattern, at, found, "Of the flags only i, m, s work: (?i) first in the list, or (?i:...) anywhere.")
