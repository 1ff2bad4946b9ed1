"""What to say of a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

SIMILARITY: Final = 0.5
"""Names are short: ``TV1`` should find ``TV2``."""


def unknown(what: str, given: str, known: Iterable[str]) -> str:
    """Name it, the nearest of the known ones, and all of them."""
    names = list(known)
    folded = {name.lower(): name for name in names}
    similar = get_close_matches(given.lower(), folded, n=1, cutoff=SIMILARITY)
    hint = f"did you mean {folded[similar[0]]}? " if similar else ""
    return f"no {what} {given!r}; {hint}there are: {', '.join(names)}"
