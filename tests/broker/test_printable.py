"""What a terminal would obey is written out."""

from __future__ import annotations

import unicodedata

import pytest

from txnsim.printable import printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-1 äöü 漢字 😀", "orders-1 äöü 漢字 😀"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\r\nERROR forged", r"a\r\nERROR forged"),
        ("\x9b2J", r"\x9b2J"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("a\u2028b", r"a\u2028b"),
        ("\x7f\x00\ud800", r"\x7f\x00\ud800"),
    ],
)
def test_characters_that_are_orders_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_line_ends_and_tabs_of_a_layout_stay() -> None:
    assert printable_lines("a\tb\nc\x1b[31m\rd") == "a\tb\nc\\x1b[31m\\rd"


def test_none_is_left() -> None:
    every = "".join(map(chr, range(0x3000)))
    left = [c for c in printable(every) if unicodedata.category(c) in ("Cc", "Zl", "Zp")]
    assert left == []
    turns = {"RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI"}
    assert not any(unicodedata.bidirectional(c) in turns for c in printable(every))
