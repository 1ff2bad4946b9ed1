"""Text of others as people may see it.

An id, a topic or a client can have any name. On a terminal some characters are orders: they set the
title, clear the screen, move the cursor, turn the direction of a line, or begin another line that
looks like one of ours. Whatever is meant for people goes through ``printable``; what programs read
(JSON, exports) stays exact.
"""

from __future__ import annotations

import re
from typing import Final

_ORDERS: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # directions (Unicode TR 9)
    "\u2028\u2029\ufeff\ud800-\udfff]"  # ends of lines, a mark, halves of characters
)
_IN_LAYOUT: Final = "\n\t"
_WORDS: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str) -> str:
    """The text in one line, with escapes instead of characters that are orders."""
    return _ORDERS.sub(_escape, text)


def printable_lines(text: str) -> str:
    """The same for a text whose line ends and tabs are ours."""
    return _ORDERS.sub(lambda found: found[0] if found[0] in _IN_LAYOUT else _escape(found), text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    return _WORDS.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
