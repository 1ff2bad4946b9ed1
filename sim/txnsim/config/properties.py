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

_BLANK_CHARACTERS: Final = " \t\f"
_CHARACTER_BY_ESCAPE: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX_RE: Final = re.compile(r"[0-9a-fA-F]{4}")


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """One entry and the line on which it begins, counted from 1."""

    line: int
    name: str
    value: str


def parse_properties(file_bytes: bytes, *, file: str) -> list[Property]:
    """Every entry in order, repeated ones included.

    Raises:
        ConfigError: A ``\\u`` escape without four hexadecimal digits.
    """
    file_properties = []
    for line, text in _logical_lines(file_bytes.decode("latin-1")):
        key, value = _split_key_and_value(text)
        try:
            file_properties.append(Property(line=line, name=_unescape(key), value=_unescape(value)))
        except ValueError as error:
            raise ConfigError(f"{file}:{line}: {key}: {error}") from None
    return file_properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Comments and empty lines removed, continued lines joined."""
    start_line, joined_text = 0, ""
    for line_number, natural_line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural_line.lstrip(_BLANK_CHARACTERS)
        if not start_line:
            if not line or line[0] in "#!":
                continue
            start_line = line_number
        joined_text += line
        backslashes = len(joined_text) - len(joined_text.rstrip("\\"))
        if backslashes % 2:  # an odd one is no escaped backslash: the entry goes on
            joined_text = joined_text[:-1]
            continue
        yield start_line, joined_text
        start_line, joined_text = 0, ""
    if start_line:
        yield start_line, joined_text


def _split_key_and_value(text: str) -> tuple[str, str]:
    """Key and value, still escaped: the first bare ``=``, ``:`` or blank ends the key."""
    key_end = 0
    while key_end < len(text) and text[key_end] not in "=:" + _BLANK_CHARACTERS:
        key_end += 2 if text[key_end] == "\\" else 1
    value_text = text[key_end:].lstrip(_BLANK_CHARACTERS)
    if value_text[:1] in ("=", ":"):
        value_text = value_text[1:].lstrip(_BLANK_CHARACTERS)
    return text[:key_end], value_text


def _unescape(escaped_text: str) -> str:
    if "\\" not in escaped_text:
        return escaped_text
    unescaped_parts = []
    characters = iter(range(len(escaped_text)))
    for index in characters:
        if escaped_text[index] != "\\" or index + 1 == len(escaped_text):
            unescaped_parts.append(escaped_text[index])
            continue
        next_character = escaped_text[next(characters)]
        if next_character == "u":
            hex_digits = escaped_text[index + 2 : index + 6]
            if not _HEX_RE.fullmatch(hex_digits):
                raise ValueError(f"\\u needs four hexadecimal digits, found {hex_digits!r}")
            unescaped_parts.append(chr(int(hex_digits, 16)))
            for _ in range(4):
                next(characters)
        else:
            unescaped_parts.append(_CHARACTER_BY_ESCAPE.get(next_character, next_character))
    return "".join(unescaped_parts)
