r"""Translate a Java regular expression for the library `regex` (version 1) with the same meaning. Pure.

Groups, look-around, quantifiers and alternation pass unchanged. The following constructs are translated, because they differ:

    . $ \Z             Java has six line terminators
    \d \w \s \b       ASCII, as \p{Alpha} and the like
    [...]             Java has no [:alpha:], --, ~~ and ||; the right side of && must be a class in brackets
    (?i)              ASCII; each letter is written in both cases, so the library sees no flag
    (...)*+           each repetition of a possessive quantifier is final
    \x \u \Q..\E     literal characters

Every other construct of Java is refused; the error names it (adr/0044).
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

import regex

from mirror.errors import SettingsError

MATCH_S = 1.0  # of processor time; a name takes microseconds, unless nested repetitions are tried in all combinations
_HINT = 'Quote literal dots as "\\\\." and lists as a, b.'
_MOST = 1000  # of repetitions: the library spells out the repetitions of a literal in memory

_TERMINATORS = r"\n\r\x85\u2028\u2029"
_AT_LAST = rf"(?:(?!(?<=\r)\n)(?=(?:\r\n|[{_TERMINATORS}])?\Z))"
_WORD = "[a-zA-Z0-9_]"
_ASSERTIONS = {
    "A": r"\A",
    "z": r"\Z",
    "Z": _AT_LAST,
    "b": rf"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    "B": rf"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_CLASSES = {"d": "[0-9]", "w": _WORD, "s": r"[ \t-\r]"}
_POSIX = {"Lower": "[a-z]", "Upper": "[A-Z]", "Alpha": "[a-zA-Z]", "Alnum": "[a-zA-Z0-9]", "Digit": "[0-9]"}
_PLAIN = regex.compile(
    "(?:Is)?(L[ultmo]?|M[nec]?|N[dlo]?|Z[slp]?|C[cfons]?|P[dsecoif]?|S[mcko]?)"
    "|Is(Alphabetic|Ideographic|Lowercase|Uppercase|White_Space)"
)
_OF_ONE_CASE = regex.compile("(?:Is)?(?:Lu|Ll|Lt|Lowercase|Uppercase)|Lower|Upper")
_FAMILY = regex.compile(r"([a-zA-Z])|\{([a-zA-Z0-9_]+)\}")
_CODE = regex.compile(r"\\(?:x([0-9a-fA-F]{2})|u(?![dD][89a-fA-F])([0-9a-fA-F]{4}))")
_FLAGS = regex.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_OPENING = regex.compile(r"\?(?:<?[=!]|>|:|<[a-zA-Z][a-zA-Z0-9]*>)|(?!\?)")
_QUANTIFIER = regex.compile(r"([*+?]|\{([0-9]+)(,([0-9]+)?)?\})([?+]?)")


class RegexError(ValueError):
    """A pattern that Java refuses, or that cannot be translated exactly. The message has the reason."""


class SlowPattern(SettingsError):
    """A pattern backtracks too long over a name. Java would take minutes, or forever."""


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A Java regular expression, ready to match."""

    java: str
    _regex: regex.Pattern[str]

    def matches(self, name: str) -> bool:
        """Return whether the expression matches the whole name; raises SlowPattern."""
        return self._within(self._regex.fullmatch, name)

    def find(self, name: str) -> bool:
        """Return whether the expression matches a part of the name; raises SlowPattern."""
        return self._within(self._regex.search, name)

    def _within(self, match: Callable[..., object], name: str) -> bool:
        try:
            return match(name, timeout=MATCH_S) is not None
        except TimeoutError:
            what = f'"{self.java}" takes more than {MATCH_S:.0f} s to match "{name}".'
            raise SlowPattern(f"{what} Write it without a repetition inside a repetition.") from None


@lru_cache(maxsize=256)  # the patterns of paused topics are compiled each second
def compiled(pattern: str) -> JavaPattern:
    """Compile a Java regular expression; raises RegexError."""
    try:
        return JavaPattern(pattern, regex.compile(translated(pattern), regex.VERSION1))
    except regex.error as error:
        raise RegexError(f'"{pattern}" cannot be carried over ({error}). {_HINT}') from None
    except (OverflowError, RecursionError, MemoryError):
        raise RegexError(f'"{pattern}" is too large a regular expression. Write a shorter one.') from None


def translated(pattern: str) -> str:
    """Return a Java regular expression in the syntax of `regex`, version 1; raises RegexError."""
    reader = _Reader(pattern)
    written = reader.expression()
    if reader.at < len(pattern):
        reader.wrong(f'an unmatched ")" at {reader.at}')
    return written


@dataclass(slots=True)
class _Reader:
    """Parses one expression from left to right, and writes its translation."""

    text: str
    at: int = 0  # the position up to which the expression is read
    flags: frozenset[str] = frozenset()  # flags that apply at the position: i, s
    behind: int = 0  # number of look-behinds around the position

    def wrong(self, why: str) -> NoReturn:
        raise RegexError(f'"{self.text}" is not a regular expression ({why}). {_HINT}')

    def refuse(self, at: int, found: str, advice: str = "Write the characters that it matches.") -> NoReturn:
        raise RegexError(f'"{self.text}" holds {found} at {at}, which is not supported. {advice}')

    def peek(self, *tokens: str) -> bool:
        return self.text.startswith(tokens, self.at)

    def match(self, pattern: regex.Pattern[str]) -> regex.Match[str] | None:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def take(self, token: str) -> bool:
        self.at += len(token) if (found := self.peek(token)) else 0
        return found

    def next(self) -> str:
        self.at += 1
        return self.text[self.at - 1 : self.at]

    def expression(self) -> str:
        """Return the translation up to the end, or to the ")" of the group."""
        out: list[str] = []
        while self.at < len(self.text) and not self.peek(")"):
            if self.take("|"):
                out.append("|")
            elif self.take("\\Q"):
                quoted = self.text[self.at :].partition("\\E")[0]
                self.at = min(self.at + len(quoted) + 2, len(self.text))
                out += [self.literal(char) for char in quoted[:-1]]
                out += [self.quantified(self.literal(char)) for char in quoted[-1:]]
            elif (flags := _FLAGS.match(self.text, self.at)) and flags[3] == ")":
                self.at, self.flags = flags.end(), self.with_flags(flags)
            else:
                out.append(self.quantified(self.atom()))
        return "".join(out)

    def atom(self) -> str:
        start, char = self.at, self.next()
        if char == "(":
            return self.group(start)
        if char == "[":
            return self.character_class(start)
        if char == "\\":
            if self.peek(*_ASSERTIONS) and not self.peek("b{"):
                return self.assertion(_ASSERTIONS[self.next()])
            self.at = start
            written, char = self.class_escape()
            return written or self.literal(char)
        if char == ".":
            return "(?s:.)" if "s" in self.flags else f"[^{_TERMINATORS}]"
        if char in "^$":
            return self.assertion(r"\A" if char == "^" else _AT_LAST)
        if char in "*+?":
            self.wrong(f'nothing to repeat by "{char}" at {start}')
        if char == "{":
            brace = 'a comma separates list entries, so write a{1,3} as aa?a?, and a literal brace as "\\\\{"'
            self.wrong(f'"{{" at {start} is not the start of a quantifier {{n}}; {brace}')
        return self.literal(char)

    def literal(self, char: str) -> str:
        written = self.cased(char, char)
        return written if written == _spelled(char) else f"[{written}]"

    def assertion(self, written: str) -> str:
        if self.peek(*"*+?{"):
            self.refuse(self.at, "a quantifier of an assertion", "Remove the quantifier.")
        return written

    def quantified(self, atom: str) -> str:
        """Return an atom with the quantifier that follows."""
        start = self.at
        if not (found := self.match(_QUANTIFIER)):
            return self.atom() if self.peek("{") else atom  # the error for "{" is raised there
        count, least, is_range, most, kind = found.groups()
        if least and not int(least) <= int(most or least) <= _MOST:
            self.wrong(f'"{count}" at {start} is not a range of counts up to {_MOST}')
        if self.behind and (count in "*+" or (is_range and not most) or kind == "+"):
            self.refuse(start, f'"{found[0]}" in a look-behind', "Write a largest count, as in {0,9}.")
        if self.peek(*"*+?{"):
            self.wrong(f'nothing to repeat by "{self.text[self.at]}" at {self.at}')
        return f"{'(?>' if kind == '+' else '(?:'}{atom}){count}{kind}"

    def with_flags(self, found: regex.Match[str]) -> frozenset[str]:
        on, off = found[1], found[2] or ""
        if set(on + off) - set("is"):
            self.refuse(found.start(), f'"{found[0]}"', "Write it without flags other than i and s.")
        return (self.flags | set(on)) - set(off)

    def group(self, start: int) -> str:
        """Return the group whose "(" was just read. Nothing refers to groups, so none captures."""
        around, opening = self.flags, "?:"
        if found := self.match(_OPENING):
            opening = found[0] or opening
        else:
            self.at = start
            if not (flags := self.match(_FLAGS)):
                self.refuse(start, f'"{self.text[start : start + 4]}"', "Write (...) for a group.")
            self.flags = self.with_flags(flags)
        if (is_named := len(opening) > 3) and f"({opening}" in self.text[:start]:
            self.wrong(f'a second group "({opening}" at {start}')
        if opening == "?>" and self.behind:
            self.refuse(start, "an atomic group in a look-behind", "Write (...).")
        self.behind += opening[:2] == "?<" and not is_named
        written = f"({'?:' if is_named else opening}{self.expression()})"
        self.behind -= opening[:2] == "?<" and not is_named
        if not self.take(")"):
            self.wrong(f'missing ")" for "(" at {start}')
        self.flags = around
        return self.assertion(written) if opening[-1] in "=!" else written

    def character_class(self, start: int) -> str:
        """Return the class whose "[" was just read."""
        opening = "[^" if self.take("^") else "["
        items: list[str] = []
        while not (items and self.take("]")):
            at = self.at
            if at >= len(self.text):
                self.wrong(f'missing "]" for "[" at {start}')
            if self.take("&&"):
                right = self.character_class(self.at - 1) if items and self.take("[") else ""
                if not right or not self.peek("]", "&&"):
                    self.refuse(at, 'an "&&" that does not stand between two classes', "Write it as [a-z&&[^x]].")
                items = [f"[{''.join(items)}]&&{right}"]
            else:
                items.append(self.character_class(at) if self.take("[") else self.item())
        return f"{opening}{''.join(items)}]"

    def item(self) -> str:
        """Return one item of a class: an escape, a range or a character."""
        start = self.at
        written, first = self.class_escape() if self.peek("\\") else ("", self.next())
        if not self.peek("-") or self.peek("-]", "-["):
            return written or self.cased(first, first)
        if written:
            self.refuse(start, "a range from a class", 'Write the "-" first.')
        self.at += 1
        written, last = self.class_escape() if self.peek("\\") else ("", self.next())
        if written or last < first:
            self.wrong(f"a range that goes backwards before {self.at}")
        return self.cased(first, last)

    def class_escape(self) -> tuple[str, str]:
        """Read an escape; return the class that it stands for, or the character."""
        start = self.at
        if code := self.match(_CODE):
            return "", chr(int(code[1] or code[2], 16))
        self.at += 1
        letter = self.next()
        if not letter:
            self.wrong(f"ends in a backslash at {start}")
        if letter.lower() in _CLASSES or letter in "pP":
            written = self.family(start) if letter in "pP" else _CLASSES[letter.lower()]
            return (written if letter.islower() else f"[^{written}]"), ""
        if letter.isascii() and letter.isalnum() and letter not in _CONTROLS:
            self.refuse(start, f'"\\{letter}"')
        return "", _CONTROLS.get(letter, letter)

    def family(self, start: int) -> str:
        r"""Return the class that "\p" names. The library checks names of scripts and blocks."""
        found = self.match(_FAMILY)
        name = (found[1] or found[2]) if found else "unknown"
        if "i" in self.flags and _OF_ONE_CASE.fullmatch(name):
            self.refuse(start, f'"\\p{{{name}}}" under (?i)')
        if plain := _PLAIN.fullmatch(name):
            return rf"\p{{{plain[1] or plain[2]}}}"
        kind = {"Is": "Script", "In": "Block"}.get(name[:2])
        try:
            return _POSIX.get(name) or regex.compile(rf"\p{{{kind}={name[2:]}}}", regex.VERSION1).pattern
        except regex.error:
            self.refuse(start, f'"{self.text[start : max(self.at, start + 2)]}"')

    def cased(self, first: str, last: str) -> str:
        """Return a range for a class; under (?i), include the other case of its letters."""
        written = _spelled(first) if first == last else f"{_spelled(first)}-{_spelled(last)}"
        if "i" in self.flags:
            written += "".join(char.swapcase() for char in string.ascii_letters if first <= char <= last)
        return written


def _spelled(char: str) -> str:
    """Return a character so that it is literal everywhere, inside or outside a class."""
    return char if char.isascii() and char.isalnum() else f"\\U{ord(char):08x}"
