"""What to say of an unknown name."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    """Name it, the nearest of the known ones, and all of them where they are not too many."""
    names = list(known)
    folded = {name.lower(): name for name in names}
    cutoff = SIMILARITY_OF_SHORT if len(given) <= SHORT_MAX else SIMILARITY
    longer = [name for name in folded if given and name.startswith(given.lower())]
    similar = longer[:1] or difflib.get_close_matches(given.lower(), folded, n=1, cutoff=cutoff)
    if not similar:  # the words may be right and their order not: FENCED_PRODUCER
        folded = {_in_order(name): name for name in names}
        similar = difflib.get_close_matches(_in_order(given), folded, n=1, cutoff=cutoff)
    hint = f"did you mean {folded[similar[0]]}? " if similar else ""
    listed = f"there are: {', '.join(names)}" if len(names) <= LIST_MAX else ""
    return f"no {what} {given!r}; {hint}{listed}".rstrip("; ")


def _in_order(name: str) -> str:
    """Its words by the alphabet."""
    return " ".join(sorted(re.split(r"[-_. ]+", name.lower())))
