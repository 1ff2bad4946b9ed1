"""Test suites of other projects, pointed at our brokers: what a suite is, what a test says.

A suite comes from a package registry, unmodified. Where one of its tests can't pass, a reason
stands beside its name; whether a real Kafka would let it pass is asked with ``--target apache``.
Standard library only, as it is read before any environment is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class PeerTarget(StrEnum):
    """The brokers that tests run against."""

    TXNSIM = "txnsim"
    APACHE = "apache"


class PeerResult(StrEnum):
    """The result of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class PeerOutcome(NamedTuple):
    """The outcome of one test of a suite."""

    test: str
    result: PeerResult
    message: str = ""
    """The test's own message when it failed or was skipped, in one line."""


class PeerError(Exception):
    """A suite could not be fetched, built or run to its end."""


NO_REASONS: Final[Mapping[str, str]] = MappingProxyType({})


class Suite(NamedTuple):
    """A suite of one project at one version."""

    name: str
    """The name for ``--suite``: a word or two, unique among all ecosystems."""
    project: str
    version: str
    source: str
    """A sentence on the source of the tests, and on which of them are run."""
    cluster: str
    ask: Callable[[PeerTarget, Sequence[str]], Iterable[PeerOutcome]]
    """Runs the tests of these names, all of them if there are none.

    Raises ``PeerError``, ``ForeignClientError``, ``ApacheKafkaError`` or ``TxnsimServerError``.
    """
    reasons: Mapping[str, str] = NO_REASONS
    """Test → why it does not pass against us, or is skipped. ``Name*`` covers all names with this
    beginning.
    """

    def why(self, test: str) -> str:
        """The most specific reason for a test; empty if there is none."""
        if test in self.reasons:
            return self.reasons[test]
        fitting = [key for key in self.reasons if key.endswith("*") and test.startswith(key[:-1])]
        return self.reasons[max(fitting, key=len)] if fitting else ""
