"""Why a bug is not found, where that is known: no judge looks there, or it is no bug at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNFOUND: Final[Mapping[str, str]] = {
    "markers-without-leader-are-dropped": (
        "brokers of 4.4 drop it where nobody leads (KAFKA-20734); seeds as 4.2 find it"
    ),
    "brokers_guard_their_configs": (
        "only the words of a refusal to somebody without rights; clusters of runs have no rights"
    ),
    "longest_timeout_is_never": (
        "a broker must let clients ask for that timeout, and 25 days must pass"
    ),
    "verification_follows_peer_version": (
        "a verifying leader needs a coordinator from before 3.6, where no upgrade of a run begins"
    ),
    "unknown_records_are_skipped": (
        "no broker of ours writes a record of an unknown version: only one of a later Kafka would"
    ),
}
