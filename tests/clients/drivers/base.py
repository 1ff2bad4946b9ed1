"""What the checks ask of a client library, so that one list of checks judges all of them.

A driver is synchronous and waits for every answer: a check reads as a story. It adds no retries and
hides no error; what a library raises comes out as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

from tests.clients.drivers.logins import Login
from tests.support.slow_machine import SLOW_S

Headers = tuple[tuple[str, bytes | None], ...]

PATIENCE_S: Final = SLOW_S
"""How long any single answer may take; on a quiet machine it takes milliseconds."""

POLL_MS: Final = 200
"""How long one look for records takes where there are none."""


class Record(NamedTuple):
    """A record to be sent."""

    value: bytes | None
    partition: int = 0
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class ConsumedRecord(NamedTuple):
    """A record as a consumer got it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


MEMBER_SETTINGS: Final = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "isolation_level": "read_committed",
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 300,
}
"""Of a group, by the names of aiokafka and kafka-python."""


def producer_settings(
    transactional_id: str | None, timeout_ms: int, compression: str, *, is_idempotent: bool
) -> dict[str, Any]:
    """Settings of a producer, by the names that kafka-python and aiokafka use."""
    return {
        "acks": "all",
        "enable_idempotence": is_idempotent,
        "transactional_id": transactional_id,
        "transaction_timeout_ms": timeout_ms,
        "compression_type": None if compression == "none" else compression,
        "max_request_size": 2_000_000,
    }


def consumed_record(record: Any) -> ConsumedRecord:
    """The library's record as a ``ConsumedRecord``."""
    headers = tuple(record.headers)
    return ConsumedRecord(
        record.partition, record.offset, record.key, record.value, headers, record.timestamp
    )


class DriverProducer(AbstractContextManager["DriverProducer"], Protocol):
    """A producer of the library, transactional if it has a transactional id."""

    def init(self) -> None:
        """InitProducerId: from here on an older producer of the same id is fenced."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, records: Iterable[Record]) -> list[int]:
        """Send without waiting in between, then wait for all; the offsets in order."""

    def send_offsets(
        self, positions: Mapping[int, int], member: DriverMember, group_metadata: Any
    ) -> None:
        """Put the member's positions into the transaction.

        Args:
            positions: The next offset by partition.
            member: Whose they are.
            group_metadata: ``member.metadata()`` of when the records were polled.
        """

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""


class DriverMember(AbstractContextManager["DriverMember"], Protocol):
    """A consumer of one topic, as a member of a group; its positions are committed by others."""

    topic: str

    def poll(self, record_count: int) -> list[ConsumedRecord]:
        """At most ``record_count`` records; none if none come within ``POLL_MS``."""

    def metadata(self) -> Any:
        """What the library calls the group's metadata: which generation this is."""

    def assigned_partitions(self) -> set[int]:
        """The partitions that the member owns now."""

    def is_asked_to_yield(self) -> bool:
        """The group waits for it to give partitions up. Always false where the library tells it
        only inside ``poll``.
        """

    def end_turn(self) -> None:
        """Note that the last poll is handled, so that the group may revoke partitions."""

    def rewind(self) -> None:
        """Go on where the group's positions are."""


class Driver(Protocol):
    """One client library, pointed at one cluster."""

    def __init__(self, bootstrap: str, login: Login | None = None) -> None: ...

    @property
    def codecs(self) -> Sequence[str]:
        """Compressions that the library can use here; "none" is one."""

    @property
    def can_null_headers(self) -> bool:
        """Sends headers without a value."""

    @property
    def fences_generations(self) -> bool:
        """Sends the group's generation along with positions (KIP-447), so that a member which the
        group has left behind is refused.
        """

    @property
    def mechanisms(self) -> Sequence[str]:
        """The SASL mechanisms of ``logins.USERS`` that the library knows."""

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic with a replica on each broker, three at most."""

    def leaders(self, topic: str) -> list[int]:
        """Broker ids of the leaders, in order of the partitions."""

    def producer(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = 60_000,
        compression: str = "none",
        is_idempotent: bool = True,
    ) -> DriverProducer:
        """A producer that waits for all replicas."""

    def member(self, group: str, topic: str) -> DriverMember:
        """A member of the group, which reads what is committed, from the beginning."""

    def positions(self, group: str, topic: str, partitions: int) -> list[int]:
        """The group's position in each partition, 0 where there is none yet."""

    def read(self, topic: str, *, committed: bool) -> list[ConsumedRecord]:
        """Everything from the beginning to the end that the isolation level shows, by an assigned
        consumer.
        """

    def is_fenced(self, error: Exception) -> bool:
        """Whether the error says that a newer producer has taken over."""

    def is_old_epoch(self, error: Exception) -> bool:
        """This is how it says that a broker took no records from it for that reason."""

    def is_left_behind(self, error: Exception) -> bool:
        """This is how it says that the group has moved on, and positions were not taken."""

    def login_error(self) -> Exception | None:
        """The error that the library gives an application that can't log in; None without one."""

    def is_login_refused(self, error: Exception | None) -> bool:
        """Whether the error says that the password is wrong."""

    def is_topic_exists(self, error: Exception) -> bool:
        """Whether the error says that the topic exists already."""
