"""Suggestions for unknown names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from txnsim.on_demand import OnDemand

if TYPE_CHECKING:
    import difflib
else:
    difflib = OnDemand("difflib")

SIMILARITY: Final = 0.6
SHORT_MAX: Final = 4
SIMILARITY_OF_SHORT: Final = 0.5
"""Of names of so many letters: ``TV1`` should find ``TV2``."""
LIST_MAX: Final = 40
"""A longer list of names is no help."""


def unknown(what: str, given: str, known: Iterable[str]) -> str:
    """Message with the nearest known name, and all known names if they are few."""
    names = list(known)
    folded = {name.lower(): name for name in names}
    cutoff = SIMILARITY_OF_SHORT if len(given) <= SHORT_MAX else SIMILARITY
    longer = [name for name in folded if given and name.startswith(given.lower())]
    nearest = folded[longer[0]] if longer else _nearest(given, folded, cutoff)
    hint = f"did you mean {nearest}? " if nearest else ""
    listed = f"there are: {', '.join(names)}" if len(names) <= LIST_MAX else ""
    return f"no {what} {given!r}; {hint}{listed}".rstrip("; ")


def _nearest(given: str, folded: Mapping[str, str], cutoff: float) -> str | None:
    """The most similar name; its words may stand in another order: FENCED_PRODUCER."""
    found: list[tuple[float, str]] = []
    for word, known in (
        (given.lower(), folded),
        (_in_order(given), {_in_order(name): name for name in folded.values()}),
    ):
        for name in difflib.get_close_matches(word, known, n=1, cutoff=cutoff):
            ratio = difflib.SequenceMatcher(None, word, name).ratio()
            found.append((-ratio, known[name]))
    return min(found)[1] if found else None


def _in_order(name: str) -> str:
    """The words of a name in alphabetical order."""
    return " ".join(sorted(re.split(r"[-_. ]+", name.lower())))
