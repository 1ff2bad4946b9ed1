"""Why a bug is not found, where that is known: no judge looks there, or it is no bug at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNFOUND: Final[Mapping[str, str]] = {
    "markers-without-leader-are-dropped": (
        "brokers of 4.4 drop it by themselves where nobody leads (KAFKA-20734); as 4.2 it is found"
    ),
}
