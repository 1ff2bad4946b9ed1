"""Suites whose packages hold no tests: they were played from the sources of a tag, and are kept.

They can't be asked from here. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from tests.peers.suite import Outcome, PeerError, Suite, Target


def _by_hand(project: str, _target: Target, _names: Sequence[str]) -> Iterable[Outcome]:
    raise PeerError(f"{project}'s package holds no tests: its sources are needed")


RECORDED: Final[tuple[Suite, ...]] = (
    Suite(
        name="aiokafka",
        project="aiokafka",
        version="0.14.0",
        source="Its distribution holds no tests: `tests` of the sources at the tag v0.14.0, with "
        "the library from its package; the two files about transactions, and `test_admin`, "
        "`test_client`, `test_conn`, `test_consumer`, `test_coordinator`, `test_fetcher`, "
        "`test_pep492`, `test_producer`, `test_rack_awareness`, `test_sender`; without two tests "
        "that want the certificate of their authors' container. Played by hand in November 2026, "
        "and not by `tests.peers.run`.",
        cluster="One broker with the id 0, plain, two partitions per topic. A module `docker` that "
        "starts it is in the place of the one that starts a container.",
        ask=partial(_by_hand, "aiokafka"),
    ),
)
