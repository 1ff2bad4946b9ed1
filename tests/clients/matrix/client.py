"""A client library in the matrix: how its program is made, what it is asked, what its limits are.

Standard library only, as it is read before any environment is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

CORE: Final = (
    "produce",
    "idempotent",
    "commit",
    "abort",
    "read-committed",
    "fence",
    "timeout",
    "transform",
    "rebalance",
)
"""Asked at each level of ``transaction.version``."""

NEWEST_ONLY: Final = ("admin", "sasl", "tls")
"""Asked at the newest level alone."""

CHECKS: Final = (*CORE, *NEWEST_ONLY)

NO_LIMITS: Final[Mapping[str, str]] = MappingProxyType({})


class Client(NamedTuple):
    """One client library at one version."""

    name: str
    """As its users call it; unique in the roster."""
    version: str
    language: str
    command: Callable[[], list[str]]
    """Builds the program on first use and answers its command line, to which checks are added.

    Raises ``ForeignClientError`` or ``ApacheKafkaError`` where a toolchain is missing.
    """
    checks: tuple[str, ...] = CHECKS
    """What the program can be asked, of the list and beyond it."""
    limits: Mapping[str, str] = NO_LIMITS
    """What the library itself can't do: ``check`` or ``check@level`` → why, in a sentence."""
    everywhere: tuple[str, ...] = ()
    """Further checks of its own that are asked at each level, as those of ``CORE`` are."""
