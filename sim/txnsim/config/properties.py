"""The syntax of Java's property files (``java.util.Properties.load``), with line numbers.

It knows nothing of Kafka. Comments begin with ``#`` or ``!``; a key ends at ``=``, ``:`` or a
blank; a backslash escapes a character or joins the next line; bytes are Latin-1 and anything else
is written ``\\uXXXX``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from txnsim.errors import ConfigError

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX_RE: Final = re.compile(r"[0-9a-fA-F]{4}")


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """One entry and the line on which it begins, counted from 1."""

    line: int
    name: str
    value: str


def parse_properties(data: bytes, *, file: str) -> list[Property]:
    """Every entry in order, repeated ones included.

    Raises:
        ConfigError: A ``\\u`` escape without four hexadecimal digits.
    """
    entries = []
    for line, text in _logical_lines(data.decode("latin-1")):
        key, value = _split(text)
        try:
            entries.append(Property(line=line, name=_unescape(key), value=_unescape(value)))
        except ValueError as error:
            raise ConfigError(f"{file}:{line}: {key}: {error}") from None
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Comments and empty lines removed, continued lines joined."""
    started, joined = 0, ""
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(_BLANKS)
        if not started:
            if not line or line[0] in "#!":
                continue
            started = number
        joined += line
        backslashes = len(joined) - len(joined.rstrip("\\"))
        if backslashes % 2:  # an odd one is no escaped backslash: the entry goes on
            joined = joined[:-1]
            continue
        yield started, joined
        started, joined = 0, ""
    if started:
        yield started, joined


def _split(text: str) -> tuple[str, str]:
    """Key and value, still escaped: the first bare ``=``, ``:`` or blank ends the key."""
    end = 0
    while end < len(text) and text[end] not in "=:" + _BLANKS:
        end += 2 if text[end] == "\\" else 1
    value_text = text[end:].lstrip(_BLANKS)
    if value_text[:1] in ("=", ":"):
        value_text = value_text[1:].lstrip(_BLANKS)
    return text[:end], value_text


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    characters = iter(range(len(text)))
    for index in characters:
        if text[index] != "\\" or index + 1 == len(text):
            out.append(text[index])
            continue
        following = text[next(characters)]
        if following == "u":
            digits = text[index + 2 : index + 6]
            if not _HEX_RE.fullmatch(digits):
                raise ValueError(f"\\u needs four hexadecimal digits, found {digits!r}")
            out.append(chr(int(digits, 16)))
            for _ in range(4):
                next(characters)
        else:
            out.append(_ESCAPES.get(following, following))
    return "".join(out)
