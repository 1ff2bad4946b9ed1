"""Everything that a topic holds, as two readers see it: one with ``read_committed``, one without.

What only the second one sees belongs to a transaction that was aborted, or that is still open. Our
own client reads, over the wire, so that a test sees no more than any application could.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.backoff import Deadline
from txnsim.client.errors import ClientError
from txnsim.client.fetching import FETCH_BYTES_MAX, Beside, FetchResult, fetch
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.offsets import EARLIEST
from txnsim.errors import AnswerTooLargeError
from txnsim.types import IsolationLevel, TopicPartition

SETTLE_MS: Final = 2_000
"""Milliseconds to wait for markers in flight, unless a fault holds them."""


RECORD_BYTES: Final = 400
"""What a record takes besides its key and value."""

PIECE_BYTES: Final = 65_536
"""What a reader with a bound fetches at a time, or one batch: packed records become very many."""

T = TypeVar("T")


class TopicReader:
    """Reads topics for one question: how much of them, and where the work on it is done.

    Args:
        bytes_max: Of all records that are kept, each with ``RECORD_BYTES`` more; None: any.
        beside: Does what may take long; it is done at once unless given.
    """

    def __init__(self, *, bytes_max: int | None = None, beside: Beside | None = None) -> None:
        self._bytes_max = bytes_max
        self._kept = 0
        self.beside: Final = beside

    async def do(self, work: Callable[[], T]) -> T:
        """What the work returns."""
        return work() if self.beside is None else await self.beside(work)

    async def keep(self, records: Sequence[ConsumedRecord]) -> None:
        """Count records that are kept.

        Raises:
            AnswerTooLargeError: They are too many.
        """
        if self._bytes_max is None:
            return
        self._kept += await self.do(partial(_weight, records))
        if self._kept > self._bytes_max:
            raise AnswerTooLargeError(
                f"the records take more than {self._bytes_max:,} bytes, {RECORD_BYTES} counted for"
                " each besides its key and value"
            )


def _weight(records: Sequence[ConsumedRecord]) -> int:
    return sum(
        len(record.key or b"") + len(record.value or b"") + RECORD_BYTES for record in records
    )


class Fate(StrEnum):
    """The fate of a record."""

    COMMITTED = "committed"
    """A ``read_committed`` reader gets it."""
    ABORTED = "aborted"
    OPEN = "open"
    """Its transaction, or an earlier one of the partition, has not ended: it lies at or above the
    last stable offset.
    """


class ReadRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record and its fate."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    fate: Fate

    @property
    def is_committed(self) -> bool:
        """A ``read_committed`` reader gets it."""
        return self.fate is Fate.COMMITTED


async def read_topic(
    admin: Admin, topic: str, *, settle_ms: int = SETTLE_MS, reader: TopicReader | None = None
) -> tuple[ReadRecord, ...]:
    """All records of a topic that readers can be given at all, by partition and offset.

    Args:
        admin: The cluster.
        topic: Whose.
        settle_ms: How long to wait for transactions to end that are open.
        reader: How to read; any number of records, at once, unless given.

    Raises:
        ClientError: There is no such topic, or it can't be read.
        AnswerTooLargeError: It has more records than the reader may keep.
    """
    reader = reader or TopicReader()
    deadline = admin.cluster.deadline(settle_ms)
    read_records: list[ReadRecord] = []
    for partition in await _partitions(admin, topic):
        read_records += await _read_partition(admin, topic, partition, deadline, reader)
    return tuple(read_records)


async def committed_records(
    admin: Admin, topic: str, *, settle_ms: int = SETTLE_MS, reader: TopicReader
) -> AsyncIterator[Sequence[ConsumedRecord]]:
    """The records of a topic that a ``read_committed`` reader gets, by partition and offset, some
    at a time.

    Raises:
        ClientError: There is no such topic, or it can't be read.
    """
    deadline = admin.cluster.deadline(settle_ms)
    for partition in await _partitions(admin, topic):
        await _settled_end_offset(admin, topic, partition, deadline, reader)
        async for records in _fetch_all(
            admin, topic, partition, IsolationLevel.READ_COMMITTED, reader
        ):
            yield records


async def _partitions(admin: Admin, topic: str) -> list[int]:
    (view,) = (await admin.cluster.refresh((topic,))).topics
    if view.error or not view.partitions:
        raise ClientError(f"topic {topic!r} can't be read: there is none, or it has no leaders")
    return sorted(row.partition for row in view.partitions)


async def _read_partition(
    admin: Admin, topic: str, partition: int, deadline: Deadline, reader: TopicReader
) -> list[ReadRecord]:
    last_stable = await _settled_end_offset(admin, topic, partition, deadline, reader)
    every: list[ConsumedRecord] = []
    async for records in _fetch_all(
        admin, topic, partition, IsolationLevel.READ_UNCOMMITTED, reader
    ):
        await reader.keep(records)
        every += records
    committed: set[int] = set()
    async for records in _fetch_all(admin, topic, partition, IsolationLevel.READ_COMMITTED, reader):
        await reader.do(partial(_note_offsets, records, committed))
    return await reader.do(partial(_judge_records, topic, partition, every, committed, last_stable))


def _note_offsets(records: Sequence[ConsumedRecord], offsets: set[int]) -> None:
    offsets.update(record.offset for record in records)


def _judge_records(
    topic: str,
    partition: int,
    records: Sequence[ConsumedRecord],
    committed: set[int],
    last_stable: int,
) -> list[ReadRecord]:
    return [
        ReadRecord(
            topic=topic,
            partition=partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
            headers=record.headers,
            fate=_fate(record.offset, committed, last_stable),
        )
        for record in records
    ]


def _fate(offset: int, committed: set[int], last_stable: int) -> Fate:
    if offset in committed:
        return Fate.COMMITTED
    return Fate.OPEN if offset >= last_stable else Fate.ABORTED


async def _settled_end_offset(
    admin: Admin, topic: str, partition: int, deadline: Deadline, reader: TopicReader
) -> int:
    """The last stable offset once the high watermark is decided, or at the deadline."""
    backoff = admin.cluster.backoff()
    while True:
        fetched = await _fetch(
            admin, topic, partition, -1, IsolationLevel.READ_COMMITTED, reader.beside
        )
        if fetched.last_stable_offset >= fetched.high_watermark or deadline.has_passed:
            return fetched.last_stable_offset
        await backoff.wait(deadline)


async def _fetch_all(
    admin: Admin, topic: str, partition: int, isolation: IsolationLevel, reader: TopicReader
) -> AsyncIterator[Sequence[ConsumedRecord]]:
    offset = -1
    while True:
        result = await _fetch(admin, topic, partition, offset, isolation, reader.beside)
        yield result.records
        if result.next_offset == offset:
            return
        offset = result.next_offset


async def _fetch(
    admin: Admin,
    topic: str,
    partition: int,
    offset: int,
    isolation: IsolationLevel,
    beside: Beside | None = None,
) -> FetchResult:
    """From an offset on; -1: from the start of the log."""
    if offset < 0:
        offset = await admin.offset_of(TopicPartition(topic, partition), EARLIEST)
    return await fetch(
        admin.cluster,
        topic,
        partition,
        offset,
        isolation=isolation,
        max_wait_ms=0,
        max_bytes=FETCH_BYTES_MAX if beside is None else PIECE_BYTES,
        beside=beside,
    )
