"""Say which characters Java's names of classes stand for, in the spelling of `regex`. Pure."""

from __future__ import annotations

from collections.abc import Set

import regex

CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HORIZONTAL = r"[ \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]"
CLASS_ESCAPES = {  # small letter: as it is, and under the flag U
    "d": ("[0-9]", r"\p{Nd}"),
    "w": ("[a-zA-Z0-9_]", r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]"),
    "s": (r"[ \t\n\x0b\f\r]", r"\p{White_Space}"),
    "h": (_HORIZONTAL, _HORIZONTAL),
    "v": (r"[\n\x0b\f\r\x85\u2028\u2029]",) * 2,
}
_POSIX = {  # \p{Name}: as it is, and under the flag U
    "Lower": ("[a-z]", r"\p{Lowercase}"),
    "Upper": ("[A-Z]", r"\p{Uppercase}"),
    "ASCII": (r"[\x00-\x7f]",) * 2,
    "Alpha": ("[a-zA-Z]", r"\p{Alphabetic}"),
    "Digit": ("[0-9]", r"\p{Nd}"),
    "Alnum": ("[a-zA-Z0-9]", r"[\p{Alphabetic}\p{Nd}]"),
    "Punct": (r"[!-/:-@\[-`{-~]", r"\p{P}"),
    "Graph": ("[!-~]", r"[^\p{White_Space}\p{Cc}\p{Cs}\p{Cn}]"),
    "Print": ("[ -~]", r"[[^\p{White_Space}\p{Cc}\p{Cs}\p{Cn}]\p{Zs}]"),
    "Blank": (r"[ \t]", r"[\t\p{Zs}]"),
    "Cntrl": (r"[\x00-\x1f\x7f]", r"\p{Cc}"),
    "XDigit": ("[0-9a-fA-F]", r"[\p{Nd}\p{Hex_Digit}]"),
    "Space": (r"[ \t\n\x0b\f\r]", r"\p{White_Space}"),
}
_JAVA = {  # \p{javaName}: Character.isName
    "LowerCase": r"\p{Lowercase}",
    "UpperCase": r"\p{Uppercase}",
    "TitleCase": r"\p{Lt}",
    "Alphabetic": r"\p{Alphabetic}",
    "Ideographic": r"\p{Ideographic}",
    "Digit": r"\p{Nd}",
    "Letter": r"\p{L}",
    "LetterOrDigit": r"[\p{L}\p{Nd}]",
    "SpaceChar": r"\p{Z}",
    "Whitespace": r"[\t-\r\x1c-\x1f[\p{Z}--[\xa0\u2007\u202f]]]",
    "ISOControl": r"\p{Cc}",
    "Defined": r"\P{Cn}",
    "Mirrored": r"\p{Bidi_Mirrored}",
}
_CATEGORY = regex.compile("L[ultmo]?|M[nec]?|N[dlo]?|Z[slp]?|C[cfons]?|P[dsecoif]?|S[mcko]?")
_BINARY = {  # \p{IsName}, in any case
    "ALPHABETIC": r"\p{Alphabetic}",
    "LETTER": r"\p{L}",
    "IDEOGRAPHIC": r"\p{Ideographic}",
    "LOWERCASE": r"\p{Lowercase}",
    "UPPERCASE": r"\p{Uppercase}",
    "TITLECASE": r"\p{Lt}",
    "WHITE_SPACE": r"\p{White_Space}",
    "HEX_DIGIT": r"[\p{Nd}\p{Hex_Digit}]",
    "ASSIGNED": r"\P{Cn}",
    "PUNCTUATION": r"\p{P}",
    "DIGIT": r"\p{Nd}",
    "CONTROL": r"\p{Cc}",
    "JOIN_CONTROL": r"\p{Join_Control}",
}
_CASED = {"Lu", "Ll", "Lt"}
_OF_ONE_CASE = {"Lower", "Upper", "javaLowerCase", "javaUpperCase", "javaTitleCase"}
_ASCII = [chr(code) for code in range(128)]
_FOLD_TO_ASCII = ["\u0130", "\u0131", "\u017f", "\u212a"]  # all others whose other case is an ASCII letter


def property_class(key: str, name: str, flags: Set[str]) -> str:
    r"""Return what `\p{name}` or `\p{key=name}` matches under flags, "" where it is unknown; `regex` judges scripts, blocks."""
    if key in ("sc", "script"):
        return rf"\p{{Script={name}}}"
    if key in ("blk", "block"):
        return rf"\p{{Block={name}}}"
    if key:
        return _category(name, flags) if key in ("gc", "general_category") else ""
    if "i" in flags and name in ("Lower", "Upper") and "U" not in flags:
        return "[a-zA-Z]"
    if "i" in flags and (name in _OF_ONE_CASE or name.upper() in ("ISLOWERCASE", "ISUPPERCASE", "ISTITLECASE")):
        return r"[\p{Lowercase}\p{Uppercase}\p{Lt}]"
    if name in _POSIX:
        return _POSIX[name]["U" in flags]
    if name.startswith("java"):
        return _JAVA.get(name[4:], "")
    if name.startswith("In"):
        return rf"\p{{Block={name[2:]}}}"
    if name.startswith("Is"):
        return _BINARY.get(name[2:].upper(), "") or _category(name[2:], flags) or rf"\p{{Script={name[2:]}}}"
    return _category(name, flags)


def _category(name: str, flags: Set[str]) -> str:
    if not _CATEGORY.fullmatch(name):
        return ""
    return r"[\p{Lu}\p{Ll}\p{Lt}]" if "i" in flags and name in _CASED else rf"\p{{{name}}}"


def cased(first: str, last: str, flags: Set[str]) -> str:
    """Return a range as it stands in a class, with what it matches besides under (?i). Under (?iu) both ends are ASCII."""
    written = spelled(first) if first == last else f"{spelled(first)}-{spelled(last)}"
    if "i" not in flags:
        return written
    is_unicode = "u" in flags
    if first == last and is_unicode:
        first = last = first.lower()
    also = [
        char
        for char in (_ASCII + _FOLD_TO_ASCII if is_unicode else _ASCII)
        if any(first <= case <= last for case in _cases(char, is_unicode=is_unicode))
    ]
    return written + "".join(spelled(char) for char in also if spelled(char) != written)


def spelled(char: str) -> str:
    """Return a character so that it is one wherever it stands, in a class or outside."""
    return char if char.isascii() and char.isalnum() else f"\\U{ord(char):08x}"


def _cases(char: str, *, is_unicode: bool) -> set[str]:
    """Return the spellings of an ASCII letter, or of one that folds to it, that Java compares under (?i)."""
    upper = char.upper()
    return {char, upper, upper.lower()[0]} if is_unicode else {char, upper, char.lower()}
