"""The bench on which checks work: a client, a cluster, names, and short ways to look and expect."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.clients.drivers.base import PATIENCE_S, Driver, Seen

TIMEOUT_MS: Final = 3_000


class Secured(NamedTuple):
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
        secured: Secured | None = None,
    ) -> None:
        self.driver = driver
        self.bootstrap = bootstrap
        self.name = name
        self.timeout_ms = timeout_ms
        self.pass_time = pass_time
        self._secured = secured

    @property
    def secured(self) -> Secured:
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

    def until_read(self, topic: str, wanted: Sequence[bytes | None]) -> list[Seen]:
        return until_read(self.driver, topic, wanted)


def create_topic(driver: Driver, name: str, partitions: int) -> None:
    """Create it, and wait until every partition has a leader that clients can find."""
    driver.create_topic(name, partitions)
    until(f"leaders of {name}", lambda: len(driver.leaders(name)) == partitions)


def until(what: str, is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.01)  # the pace of asking


def until_read(driver: Driver, topic: str, wanted: Sequence[bytes | None]) -> list[Seen]:
    """Read with read_committed until so many records are there; they are the wanted ones.

    From transactions v2 on a commit is answered before its markers are written (KIP-890).
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        seen = driver.read(topic, committed=True)
        if len(seen) >= len(wanted) or time.monotonic() > deadline_s:
            break
    expect(f"committed in {topic}", sorted(map(repr, wanted)), sorted(map(repr, values(seen))))
    return seen


def values(seen: Sequence[Seen], *, partition: int | None = None) -> list[Any]:
    """The values, of one partition in order of the offsets, or of all."""
    return [each.value for each in seen if partition in (None, each.partition)]


def expect(what: str, wanted: object, found: object) -> None:
    """They are equal."""
    assert found == wanted, f"{what}: expected {_short(wanted)}, found {_short(found)}"


def refused(action: Callable[[], object]) -> Exception:
    """What the library raises."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - judged by who asks
        return error
    raise AssertionError("expected a refusal, found none")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 400 else f"{text[:400]}…"
