"""What the checks ask of a client library, so that one list of checks judges all of them.

A driver is synchronous and waits for every answer: a check reads as a story. It adds no retries and
hides no error; what a library raises comes out as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Protocol

Headers = tuple[tuple[str, bytes | None], ...]

PATIENCE_S: Final = 20.0
"""How long any single answer may take; on a quiet machine it takes milliseconds."""


class Record(NamedTuple):
    """A record to be sent."""

    value: bytes | None
    partition: int = 0
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Seen(NamedTuple):
    """A record as a consumer got it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class DriverProducer(Protocol):
    """A producer of the library, transactional if it has a transactional id."""

    def __enter__(self) -> DriverProducer: ...

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None: ...

    def init(self) -> None:
        """InitProducerId: from here on an older producer of the same id is fenced."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, records: Iterable[Record]) -> list[int]:
        """Send without waiting in between, then wait for all; the offsets in order."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""


class Driver(Protocol):
    """One client library, pointed at one cluster."""

    def __init__(self, bootstrap: str) -> None: ...

    @property
    def codecs(self) -> Sequence[str]:
        """Compressions that the library can use here; "none" is one."""

    @property
    def can_null_headers(self) -> bool:
        """Sends headers without a value."""

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic with a replica on each of three brokers."""

    def leaders(self, topic: str) -> list[int]:
        """Broker ids of the leaders, in order of the partitions."""

    def producer(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = 60_000,
        compression: str = "none",
    ) -> DriverProducer:
        """An idempotent producer."""

    def read(self, topic: str, *, committed: bool) -> list[Seen]:
        """Everything from the beginning to the end that the isolation level shows, by an assigned
        consumer.
        """

    def is_fenced(self, error: Exception) -> bool:
        """This is how the library says that a newer producer has taken over."""

    def is_old_epoch(self, error: Exception) -> bool:
        """This is how it says that a broker took no records from it for that reason."""

    def is_topic_exists(self, error: Exception) -> bool:
        """This is how it says that there is such a topic already."""
