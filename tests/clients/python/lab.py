"""The bench on which checks work: a client, a cluster, names, and short ways to look and expect."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.clients.drivers.base import PATIENCE_S, ConsumedRecord, Driver

TIMEOUT_MS: Final = 3_000


class SecuredListeners(NamedTuple):
    """The listeners of a cluster that asks for credentials."""

    sasl: str
    tls: str
    directory: Path
    """Certificates and keys."""


class Lab:
    """What one check has.

    Args:
        driver: The client library, pointed at the cluster.
        bootstrap: The cluster.
        name: What every topic, group and transactional id of this check begins with.
        timeout_ms: Of a transaction that is to last too long.
        pass_time: Lets it last too long; unless given, time passes by itself.
        secured: Where to log in, if the check is about that.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        bootstrap: str,
        name: str,
        timeout_ms: int = TIMEOUT_MS,
        pass_time: Callable[[], None] = lambda: None,
        secured: SecuredListeners | None = None,
    ) -> None:
        self.driver = driver
        self.bootstrap = bootstrap
        self.name = name
        self.timeout_ms = timeout_ms
        self.pass_time = pass_time
        self._secured = secured

    @property
    def secured(self) -> SecuredListeners:
        assert self._secured is not None, "no secured listeners are known"
        return self._secured

    @property
    def brokers(self) -> int:
        return self.bootstrap.count(",") + 1

    def topic(self, stem: str, partitions: int = 1) -> str:
        """A fresh topic; every partition has a leader that clients can find."""
        name = f"{self.name}-{stem}"
        create_topic(self.driver, name, partitions)
        return name

    def until_read(self, topic: str, expected: Sequence[bytes | None]) -> list[ConsumedRecord]:
        return until_read(self.driver, topic, expected)


def create_topic(driver: Driver, topic_name: str, partitions: int) -> None:
    """Create a topic, and wait until every partition has a leader that clients can find."""
    driver.create_topic(topic_name, partitions)
    until(f"leaders of {topic_name}", lambda: len(driver.leaders(topic_name)) == partitions)


def until(condition: str, is_met: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_met():
        assert time.monotonic() < deadline_s, f"not within {PATIENCE_S:.0f} s: {condition}"
        time.sleep(0.01)  # the pace of asking


def until_read(
    driver: Driver, topic: str, expected: Sequence[bytes | None]
) -> list[ConsumedRecord]:
    """Read with read_committed until so many records are there; they are the wanted ones.

    From transactions v2 on a commit is answered before its markers are written (KIP-890).
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        records = driver.read(topic, committed=True)
        if len(records) >= len(expected) or time.monotonic() > deadline_s:
            break
    expect(f"committed in {topic}", sorted(map(repr, expected)), sorted(map(repr, values(records))))
    return records


def values(records: Sequence[ConsumedRecord], *, partition: int | None = None) -> list[Any]:
    """The values, of one partition in order of the offsets, or of all."""
    return [record.value for record in records if partition in (None, record.partition)]


def expect(subject: str, expected: object, actual: object) -> None:
    """Raise AssertionError unless both values are equal."""
    assert actual == expected, f"{subject}: expected {_short(expected)}, found {_short(actual)}"


def error_of(action: Callable[[], object]) -> Exception:
    """The exception that the library raises for the action."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - judged by who asks
        return error
    raise AssertionError("expected a refusal, found none")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 400 else f"{text[:400]}…"
