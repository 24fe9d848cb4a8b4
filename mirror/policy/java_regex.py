r"""Read a Java regular expression, and write it for the library `regex` with the same meaning. Pure.

The syntax, as java.util.regex.Pattern reads it without flags (adr/0031):

    expression   sequence ("|" sequence)*
    sequence     ((atom | assertion) quantifier? | "(?" flags ")")*
    atom         character | "." | escape | class | "(" expression ")" | "(?<name>" expression ")"
                 | "(?" flags ":" expression ")" | "(?>" expression ")"
    assertion    "^" | "$" | "\b" | "\B" | "\A" | "\z" | "\Z" | "(?=" | "(?!" | "(?<=" | "(?<!" expression ")"
    quantifier   ("?" | "*" | "+" | "{n}" | "{n,}" | "{n,m}") ("?" | "+")?
    class        "[" "^"? items ("&&" items)* "]"; an item is a character, a range, an escape, a class
    flags        i s m d u x U, after "-" switched off; they hold up to the end of their group

No flag reaches the library: each atom is written as what it matches under the flags that hold there. So Java's ASCII meaning of
`\d`, `\w`, `\s`, `\b` and `(?i)`, and its line terminators, need no mode of the library that comes close to them.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

import regex

from mirror.errors import SettingsError
from mirror.policy.java_characters import CLASS_ESCAPES, CONTROLS, cased, property_class, spelled

MATCH_S = 1.0  # of the processor; a name takes microseconds, unless nested repetitions are tried in all combinations
_HINT = 'Quote literal dots as "\\\\." and lists as a, b.'
_MOST = 2**31 - 1  # the largest count that Java reads

_TERMINATORS = r"\n\r\x85\u2028\u2029"
_NOT_IN_CRLF = r"(?!(?<=\r)\n)"
_AT_LAST = rf"(?:{_NOT_IN_CRLF}(?=(?:\r\n|[{_TERMINATORS}])?\Z))"
_AFTER_LINE = r"(?:(?!\Z)(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n)))"
# By the flags m and d: "$" and "^", and "." without the flag s.
_DOLLAR = {
    "": _AT_LAST,
    "d": r"(?=\n?\Z)",
    "m": rf"(?:{_NOT_IN_CRLF}(?=[{_TERMINATORS}]|\Z))",
    "dm": r"(?=\n|\Z)",
}
_CARET = {"": r"\A", "d": r"\A", "m": _AFTER_LINE, "dm": r"(?:(?!\Z)(?:\A|(?<=\n)))"}
_DOT = {"": rf"[^{_TERMINATORS}]", "d": r"[^\n]"}
_LINE_BREAK = r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"

_FLAGS = regex.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_NAME = regex.compile("<([a-zA-Z][a-zA-Z0-9]*)>")
_COUNT = regex.compile(r"\{([0-9]+)(,([0-9]+)?)?\}")
_FAMILY = regex.compile(r"([a-zA-Z])|\{(?:([a-zA-Z_]+)=)?([a-zA-Z0-9_ -]+)\}")
_CODES = {
    "0": regex.compile("[0-3][0-7]{2}|[0-7]{1,2}"),
    "x": regex.compile(r"[0-9a-fA-F]{2}|\{[0-9a-fA-F]{1,8}\}"),
    "u": regex.compile("[0-9a-fA-F]{4}"),
    "c": regex.compile(r"[\x00-\x7f]"),
}
_BLANKS = tuple(" \t\n\v\f\r")
_BLANK_RANGES = tuple(f"-{blank}" for blank in (*_BLANKS, "#"))
_IGNORED = regex.compile(rf"(?:[ \t\n\x0b\f\r]|#[^{_TERMINATORS}]*)*")
_IGNORED_UNIX = regex.compile(r"(?:[ \t\n\x0b\f\r]|#[^\n]*)*")


class RegexError(ValueError):
    """A pattern Java would refuse, or that cannot be carried over exactly; the message says which and where."""


class SlowPattern(SettingsError):
    """A pattern tries more ways to match a name than is bearable. Java would go on for minutes, or for ever."""


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A Java regular expression, ready to match."""

    java: str
    _regex: regex.Pattern[str]

    def matches(self, name: str) -> bool:
        """Tell whether the expression matches the whole name; raises SlowPattern."""
        return self._within(self._regex.fullmatch, name)

    def find(self, name: str) -> bool:
        """Tell whether the expression matches some part of the name; raises SlowPattern."""
        return self._within(self._regex.search, name)

    def _within(self, match: Callable[..., object], name: str) -> bool:
        try:
            return match(name, timeout=MATCH_S) is not None
        except TimeoutError:
            raise SlowPattern(
                f'"{self.java}" takes more than {MATCH_S:.0f} s to match "{name}". '
                "Write it without a repetition inside a repetition."
            ) from None


@lru_cache(maxsize=256)  # what is paused is compiled each second
def compiled(pattern: str) -> JavaPattern:
    """Compile a Java regular expression.

    Raises:
        RegexError: See the class.
    """
    try:
        return JavaPattern(pattern, regex.compile(translated(pattern), regex.VERSION1))
    except regex.error as error:
        raise RegexError(f'"{pattern}" cannot be carried over ({error}). {_HINT}') from None
    except (OverflowError, RecursionError, MemoryError):
        raise RegexError(f'"{pattern}" is too large a regular expression. Write a shorter one.') from None


def translated(pattern: str) -> str:
    """Return the spelling of a Java regular expression for `regex`, version 1.

    Raises:
        RegexError: See the class.
    """
    return _Reader(pattern).whole()


@dataclass(slots=True)
class _Text:
    """An expression, the place up to which it is read, and the flags that hold there."""

    text: str
    at: int = 0
    flags: frozenset[str] = frozenset()
    quoted_to: int = 0  # the end of the \Q..\E around the place

    def peek(self, *tokens: str) -> bool:
        return self.text.startswith(tokens, self.at)

    def take(self, token: str) -> bool:
        found = self.peek(token)
        self.at += len(token) if found else 0
        return found

    def next(self) -> str:
        self.at += 1
        return self.text[self.at - 1 : self.at]

    def blanks(self) -> int:
        """Pass over what the flag x ignores; return the place."""
        if "x" in self.flags and self.at >= self.quoted_to:
            match = (_IGNORED_UNIX if "d" in self.flags else _IGNORED).match(self.text, self.at)
            self.at = match.end() if match else self.at
        return self.at

    def of_flags(self, wanted: str) -> str:
        return "".join(flag for flag in wanted if flag in self.flags)

    def wrong(self, why: str) -> NoReturn:
        raise RegexError(f'"{self.text}" is not a regular expression ({why}). {_HINT}')

    def refuse(self, at: int, found: str, advice: str) -> NoReturn:
        raise RegexError(f'"{self.text}" holds {found} at {at}, which is not supported here. {advice}')

    def quote(self) -> None:
        end = self.text.find("\\E", self.at)
        self.quoted_to = len(self.text) if end < 0 else end
        if self.at == self.quoted_to:
            self.end_of_quote()

    def end_of_quote(self) -> None:
        self.at = min(self.at + 2, len(self.text))
        self.quoted_to = 0


class _Characters(_Text):
    """Reads what matches one character: escapes and classes."""

    __slots__ = ()

    def cased(self, first: str, last: str) -> str:
        if {"i", "u"} <= self.flags and not (first.isascii() and last.isascii()):
            self.refuse(self.at - 1, '"(?iu)" with a character that is not ASCII', "Write both cases.")
        return cased(first, last, self.flags)

    def class_escape(self) -> tuple[str, str]:
        """Take an escape; return the class that it is, or the character."""
        start = self.at
        self.at += 1
        letter = self.next()
        if not letter:
            self.wrong(f"ends in a backslash at {start}")
        if letter.lower() in CLASS_ESCAPES:
            written = CLASS_ESCAPES[letter.lower()]["U" in self.flags]
            return (written if letter.islower() else f"[^{written}]"), ""
        if letter in "pP":
            written = self.family(start)
            return (written if letter == "p" else f"[^{written}]"), ""
        if letter in CONTROLS:
            return "", CONTROLS[letter]
        if letter in "0xuc":
            match = _CODES[letter].match(self.text, self.at)
            if match is None:
                self.wrong(f'"\\{letter}" at {start} has no such digits')
            self.at = match.end()
            if letter == "c":
                return "", chr(ord(match[0]) ^ 64)
            code = int(match[0].strip("{}"), 8 if letter == "0" else 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                self.refuse(start, f'"\\{letter}{match[0]}"', "Write the character itself.")
            return "", chr(code)
        if letter.isascii() and letter.isalnum():
            self.refuse(start, f'"\\{letter}"', "Write the characters or a class such as [a-z0-9] instead.")
        return "", letter

    def family(self, start: int) -> str:
        r"""Return the class that "\p" names."""
        match = _FAMILY.match(self.text, self.at)
        if match is None:
            self.wrong(f'"\\p" at {start} names no property')
        self.at = match.end()
        key, name = match[2], match[3] or match[1]
        written = property_class((key or "").lower(), name, self.flags)
        if written:
            try:
                regex.compile(written, regex.VERSION1)
            except regex.error:
                written = ""
        if not written:
            self.refuse(start, f'"\\p{match[0]}"', "Write a class such as [a-z0-9] instead.")
        return written

    def character_class(self, start: int) -> str:
        """Return the class whose "[" is read."""
        is_negated = self.take("^")
        written = self.items(start)
        if not self.take("]"):
            self.wrong(f'missing "]" for "[" at {start}')
        return f"[^{written}]" if is_negated else written

    def items(self, start: int) -> str:
        """Return what stands up to the "]" of a class, as one class.

        To the right of "&&" stand classes; from the first item on that is none, all the rest belongs to that side.
        """
        found: list[str] = []
        written = ""
        while self.at < len(self.text) and not (self.peek("]") and self.at >= self.quoted_to and (found or written)):
            if self.peek("&&") and self.at >= self.quoted_to:
                left = written or f"[{''.join(found)}]"
                if left == "[]":
                    self.refuse(self.at, 'an "&&" without a left side', "Write a class on both sides.")
                self.at += 2
                right: list[str] = []
                while self.at < len(self.text) and not self.peek("]", "&"):
                    inner = self.at
                    right.append(self.character_class(inner) if self.take("[") else self.items(start))
                if not right:
                    self.refuse(
                        self.at, 'an "&&" without a right side, or beside "&"', 'Write the character as "\\\\&".'
                    )
                if not self.peek("]", "&&"):
                    self.refuse(self.at, 'an "&" after an "&&"', 'Write the character as "\\\\&".')
                written = f"[{left}&&[{''.join(right)}]]"
                continue
            found.append(self.item())
        return written or f"[{''.join(found)}]"

    def item(self) -> str:
        """Return one item of a class: a class, an escape, a range, a character."""
        if self.at >= self.quoted_to:
            if self.peek("\\Q"):
                self.at += 2
                self.quote()
                return ""
            if self.peek("["):
                self.at += 1
                return self.character_class(self.at - 1)
            if "x" in self.flags and self.peek(*_BLANKS, "#"):
                self.refuse(self.at, "a blank or # in a class under (?x)", "Write it with a backslash.")
        written, first = self.character(is_end=self.peek("\\v-"))
        if written:
            return written
        if self.at >= self.quoted_to and self.peek("-") and not self.peek("-]", "-["):
            if self.peek("-\\Q") or self.at + 1 == len(self.text) or ("x" in self.flags and self.peek(*_BLANK_RANGES)):
                self.refuse(self.at, '"-" before a quotation or a blank', "Write the end of the range.")
            self.at += 1
            written, last = self.character(is_end=True)
            if written or last < first:
                self.wrong(f"a range that goes backwards before {self.at}")
            return self.cased(first, last)
        return self.cased(first, first)

    def character(self, *, is_end: bool) -> tuple[str, str]:
        r"""Take a character of a class, or an escape; return the class that it is, or the character.

        Of a range `\v` is one end, as before Java 8, and elsewhere a class.
        """
        if self.at < self.quoted_to:
            char = self.next()
            if self.at == self.quoted_to:
                self.end_of_quote()
            return "", char
        if is_end and self.take("\\v"):
            return "", "\v"
        return self.class_escape() if self.peek("\\") else ("", self.next())


@dataclass(slots=True)
class _Reader(_Characters):
    """Reads one expression from left to right, and writes it as it goes."""

    groups: int = 0  # opened so far
    names: dict[str, int] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)  # groups that are closed, so that a reference may name them
    behind: int = 0  # look-behinds around the place

    def whole(self) -> str:
        written = self.expression()
        if self.at < len(self.text):
            self.wrong(f'a ")" that closes nothing at {self.at}')
        return written

    def expression(self) -> str:
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        return "|".join(branches)

    def sequence(self) -> str:
        out: list[str] = []
        while self.blanks() < len(self.text) and (self.at < self.quoted_to or not self.peek("|", ")")):
            if self.at >= self.quoted_to and self.take("\\Q"):
                self.quote()
                continue
            if self.at >= self.quoted_to and self.flags_alone():
                continue
            out.append(self.quantified(self.atom()))
        return "".join(out)

    # What stands at one place.

    def atom(self) -> str:
        start = self.at
        if self.at < self.quoted_to:
            return self.quoted()
        char = self.next()
        if char == "(":
            return self.group(start)
        if char == "[":
            return self.character_class(start)
        if char == "\\":
            return self.escape(start)
        if char == ".":
            return "(?s:.)" if "s" in self.flags else _DOT[self.of_flags("d")]
        if char in "^$":
            return self.assertion((_CARET if char == "^" else _DOLLAR)[self.of_flags("dm")])
        if char in "*+?":
            self.wrong(f'nothing to repeat by "{char}" at {start}')
        if char == "{":
            self.wrong(
                f'"{{" at {start} starts no {{n}} that repeats something; a comma separates list entries, so write a{{1,3}} '
                'as aa?a?, and a literal brace as "\\\\{"'
            )
        return self.literal(char)

    def quoted(self) -> str:
        char = self.next()
        if self.at == self.quoted_to:
            self.end_of_quote()
        return self.literal(char)

    def literal(self, char: str) -> str:
        ranges = self.cased(char, char)
        return ranges if ranges == spelled(char) else f"[{ranges}]"

    def escape(self, start: int) -> str:
        r"""Return what the escape whose "\" is read matches, outside a class."""
        letter = self.next()
        if letter and letter in "Az":
            return self.assertion("\\A" if letter == "A" else "\\Z")
        if letter == "Z":
            return self.assertion(_DOLLAR[self.of_flags("d")])
        if letter and letter in "bB":
            if self.peek("{"):
                self.refuse(start, '"\\b{"', "Write a class such as [a-z0-9] instead.")
            word = CLASS_ESCAPES["w"]["U" in self.flags]
            same = letter == "B"
            return self.assertion(
                f"(?:(?<={word})(?{'=' if same else '!'}{word})|(?<!{word})(?{'!' if same else '='}{word}))"
            )
        if letter == "R":
            return _LINE_BREAK
        if letter == "k":
            match = _NAME.match(self.text, self.at)
            if match is None or match[1] not in self.names:
                self.wrong(f'"\\k" at {start} names no group before it')
            self.at = match.end()
            return self.reference(start, self.names[match[1]])
        if letter and letter in "123456789":
            number = int(letter)
            while self.at < len(self.text) and self.text[self.at] in string.digits:
                if number * 10 + int(self.text[self.at]) > self.groups:
                    break
                number = number * 10 + int(self.next())
            return self.reference(start, number)
        self.at = start
        written, char = self.class_escape()
        return written or self.literal(char)

    # Groups.

    def flags_alone(self) -> bool:
        """Take "(?flags)", which holds up to the end of the group around it."""
        match = _FLAGS.match(self.text, self.at)
        if match is None or match[3] != ")":
            return False
        self.at = match.end()
        self.flags = self.with_flags(match)
        return True

    def with_flags(self, match: regex.Match[str]) -> frozenset[str]:
        on, off = match[1], match[2] or ""
        for flag in on + off:
            if flag not in "ismduxU":
                self.refuse(match.start(), f'"{match[0]}"', "Of the flags i, s, m, d, u, x and U work.")
        implied = {"u"} if "U" in on else set()
        return (self.flags | set(on) | implied) - set(off) - ({"u"} if "U" in off else set())

    def group(self, start: int) -> str:
        """Return the group whose "(" is read."""
        if not self.take("?"):
            return self.capturing("")
        for opening in ("?:", "?>"):
            if self.take(opening[1]):
                if opening == "?>" and self.behind:
                    self.refuse(start, "an atomic group in a look-behind", "Write (?:...).")
                return self.enclosed(f"({opening}")
        for opening in ("=", "!"):
            if self.take(opening):
                return self.assertion(self.enclosed(f"(?{opening}"))
        for opening in ("<=", "<!"):
            if self.take(opening):
                self.behind += 1
                written = self.enclosed(f"(?{opening}")
                self.behind -= 1
                return self.assertion(written)
        if match := _NAME.match(self.text, self.at):
            self.at = match.end()
            if match[1] in self.names:
                self.wrong(f'a second group "{match[1]}" at {start}')
            return self.capturing(match[1])
        match = _FLAGS.match(self.text, start)
        if match is None or match[3] != ":":
            self.refuse(start, f'"{self.text[start : start + 4]}"', "Write (?:...) for a group that captures nothing.")
        self.at = match.end()
        return self.enclosed("(?:", self.with_flags(match))

    def capturing(self, name: str) -> str:
        self.groups += 1
        number = self.groups
        if name:
            self.names[name] = number
        written = self.enclosed("(")
        if not self.behind:
            self.known.add(number)
        return written

    def enclosed(self, opening: str, flags: frozenset[str] | None = None) -> str:
        start, around = self.at, self.flags
        self.flags = around if flags is None else flags
        written = self.expression()
        if not self.take(")"):
            self.wrong(f'missing ")" for the group at {start}')
        self.flags = around
        return f"{opening}{written})"

    def reference(self, start: int, number: int) -> str:
        if number not in self.known or self.behind:
            self.refuse(
                start, f"a reference to group {number} before its end, or in a look-behind", "Write the group again."
            )
        if "i" in self.flags:
            self.refuse(start, "a reference to a group under (?i)", "Write the group again.")
        return f"(?:\\{number})"

    # Quantifiers.

    def assertion(self, written: str) -> str:
        """Return an assertion, which nothing may repeat."""
        self.blanks()
        if self.at >= self.quoted_to and self.peek("*", "+", "?", "{"):
            self.refuse(self.at, "a quantifier of an assertion", "Leave it away.")
        return written

    def quantified(self, atom: str) -> str:
        """Return an atom with the quantifier that follows."""
        if self.at < self.quoted_to:
            return atom
        start = self.blanks()
        if self.peek("{"):
            match = _COUNT.match(self.text, self.at)
            if match is None:
                self.atom()  # says what is wrong
                raise AssertionError
            least, most = int(match[1]), int(match[3]) if match[3] else None
            if least > _MOST or (most or 0) > _MOST or (most is not None and most < least):
                self.wrong(f'"{match[0]}" at {start} is no range of counts')
            self.at = match.end()
            count, is_bounded = match[0], match[3] is not None or match[2] is None
        elif self.peek("*", "+", "?"):
            count = self.next()
            is_bounded = count == "?"
        else:
            return atom
        self.blanks()
        kind = self.next() if self.peek("?", "+") else ""
        if self.behind and (not is_bounded or kind == "+"):
            self.refuse(start, f'"{count}{kind}" in a look-behind', "Write a largest count, as in {0,9}.")
        self.blanks()
        if self.peek("*", "+", "?", "{"):
            self.wrong(f'nothing to repeat by "{self.text[self.at]}" at {self.at}')
        opening = "(?>" if kind == "+" else "(?:"  # a possessive quantifier of Java's gives back nothing of any turn
        return f"{opening}{atom}){count}{kind}"
