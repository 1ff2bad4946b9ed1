"""Names as clients may choose them, to those who print them."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

LENGTH_MAX: Final = 32_767
"""Of a string on the wire with a length of two bytes."""

HOSTILE_NAMES: Final = (
    "x;touch PWNED #",
    "$(touch PWNED)",
    "`touch PWNED`",
    "'; touch PWNED; '",
    '"; touch PWNED; "',
    "a\ntouch PWNED\nb",
    "a\r\nb",
    "\x1b[2Jx\x1b]0;title\x07",
    "\u202egnp.exe",
    "-h",
    "--yes",
    "--",
    "-",
    "%s%n\\x41\\",
    "!!",
    "!$\x01",
    "-n\x02",
    "~root",
    "*",
    "{a,b}",
    "a=b",
    "#",
    " ",
    "\t",
    "ümläut-日本語-🎲",
    "\u2028line\u2029",
    "x" * LENGTH_MAX,
    "'" * 1_000,
)


def names_from_outside() -> st.SearchStrategy[str]:
    """Names that a shell can pass on: of any characters, and of those that mean something."""
    any_text = st.text(min_size=1, max_size=40)
    sharp_text = st.text("'\"`$();&|<>\\!#*?~{}[]%-=\n\r\t \x1b\x7f\u202e\u200fab", min_size=1)
    return st.one_of(any_text, sharp_text, st.sampled_from(HOSTILE_NAMES)).filter(
        lambda name: "\0" not in name and not name.endswith("\n")
    )
