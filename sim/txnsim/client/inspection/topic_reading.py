"""All records of a topic, as two readers see them: one with ``read_committed``, one without.

A record that only the second one sees belongs to an aborted or open transaction. They are read with
our own client over the wire, so that a test sees no more than any application could.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.backoff import Deadline
from txnsim.client.errors import ClientError, only_row
from txnsim.client.fetching import FETCH_BYTES_MAX, FetchResult, RunBesideLoop, fetch
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.offsets import EARLIEST_TIMESTAMP
from txnsim.errors import AnswerTooLargeError
from txnsim.types import IsolationLevel, TopicPartition

SETTLE_MS: Final = 2_000
"""Milliseconds to wait for markers in flight, which arrive in time unless a fault holds them."""


RECORD_BYTES: Final = 400
"""Bytes that a record takes besides its key and value."""

PIECE_BYTES: Final = 65_536
"""Bytes that a bounded reader fetches at a time (at least one batch): compressed records may be
very many.
"""

T = TypeVar("T")


class TopicReader:
    """Reads topics with a limit on the kept records, and may work outside the event loop.

    Args:
        bytes_max: Limit on the kept records in bytes, ``RECORD_BYTES`` included for each; None for
            no limit.
        run_beside_loop: Runs work that may take long; by default it runs in the event loop.
    """

    def __init__(
        self, *, bytes_max: int | None = None, run_beside_loop: RunBesideLoop | None = None
    ) -> None:
        self._bytes_max = bytes_max
        self._kept_bytes = 0
        self.run_beside_loop: Final = run_beside_loop

    async def do(self, call: Callable[[], T]) -> T:
        """Run the work, outside the event loop if possible; returns its result."""
        return call() if self.run_beside_loop is None else await self.run_beside_loop(call)

    async def keep(self, records: Sequence[ConsumedRecord]) -> None:
        """Count records that are kept.

        Raises:
            AnswerTooLargeError: The limit is exceeded.
        """
        if self._bytes_max is None:
            return
        self._kept_bytes += await self.do(partial(_weight, records))
        if self._kept_bytes > self._bytes_max:
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
    """``read_committed`` readers get it."""
    ABORTED = "aborted"
    OPEN = "open"
    """Its transaction, or an earlier one of the partition, has not ended: it is at or above the
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
        """Whether ``read_committed`` readers get the record."""
        return self.fate is Fate.COMMITTED


async def read_topic(
    admin: Admin, topic: str, *, settle_ms: int = SETTLE_MS, reader: TopicReader | None = None
) -> tuple[ReadRecord, ...]:
    """All readable records of a topic, sorted by partition and offset.

    Args:
        admin: The cluster.
        topic: The topic.
        settle_ms: How long to wait for open transactions to end.
        reader: Reads the topic; by default any number of records, all at once.

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
    """The records of a topic that a ``read_committed`` reader gets, sorted by partition and offset,
    in chunks.

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
    topic_view = only_row((await admin.cluster.refresh((topic,))).topics, f"about topic {topic!r}")
    if topic_view.error or not topic_view.partitions:
        raise ClientError(f"topic {topic!r} can't be read: there is none, or it has no leaders")
    return sorted(partition_view.partition for partition_view in topic_view.partitions)


async def _read_partition(
    admin: Admin, topic: str, partition_index: int, deadline: Deadline, reader: TopicReader
) -> list[ReadRecord]:
    last_stable = await _settled_end_offset(admin, topic, partition_index, deadline, reader)
    all_records: list[ConsumedRecord] = []
    async for records in _fetch_all(
        admin, topic, partition_index, IsolationLevel.READ_UNCOMMITTED, reader
    ):
        await reader.keep(records)
        all_records += records
    committed_offsets: set[int] = set()
    async for records in _fetch_all(
        admin, topic, partition_index, IsolationLevel.READ_COMMITTED, reader
    ):
        await reader.do(partial(_note_offsets, records, committed_offsets))
    return await reader.do(
        partial(_judge_records, topic, partition_index, all_records, committed_offsets, last_stable)
    )


def _note_offsets(records: Sequence[ConsumedRecord], offsets: set[int]) -> None:
    offsets.update(record.offset for record in records)


def _judge_records(
    topic: str,
    partition_index: int,
    records: Sequence[ConsumedRecord],
    committed_offsets: set[int],
    last_stable: int,
) -> list[ReadRecord]:
    return [
        ReadRecord(
            topic=topic,
            partition=partition_index,
            offset=record.offset,
            key=record.key,
            value=record.value,
            headers=record.headers,
            fate=_fate(record.offset, committed_offsets, last_stable),
        )
        for record in records
    ]


def _fate(offset: int, committed_offsets: set[int], last_stable: int) -> Fate:
    if offset in committed_offsets:
        return Fate.COMMITTED
    return Fate.OPEN if offset >= last_stable else Fate.ABORTED


async def _settled_end_offset(
    admin: Admin, topic: str, partition_index: int, deadline: Deadline, reader: TopicReader
) -> int:
    """The last stable offset once the high watermark is decided, or at the deadline."""
    backoff = admin.cluster.backoff()
    while True:
        fetch_result = await _fetch_once(
            admin, topic, partition_index, -1, IsolationLevel.READ_COMMITTED, reader.run_beside_loop
        )
        if fetch_result.last_stable_offset >= fetch_result.high_watermark or deadline.has_passed:
            return fetch_result.last_stable_offset
        await backoff.wait(deadline)


async def _fetch_all(
    admin: Admin, topic: str, partition_index: int, isolation: IsolationLevel, reader: TopicReader
) -> AsyncIterator[Sequence[ConsumedRecord]]:
    offset = -1
    while True:
        fetch_result = await _fetch_once(
            admin, topic, partition_index, offset, isolation, reader.run_beside_loop
        )
        yield fetch_result.records
        if fetch_result.next_offset == offset:
            return
        offset = fetch_result.next_offset


async def _fetch_once(
    admin: Admin,
    topic: str,
    partition_index: int,
    offset: int,
    isolation: IsolationLevel,
    run_beside_loop: RunBesideLoop | None = None,
) -> FetchResult:
    """Fetch from an offset on; -1 means the start of the log."""
    if offset < 0:
        offset = await admin.offset_of(TopicPartition(topic, partition_index), EARLIEST_TIMESTAMP)
    return await fetch(
        admin.cluster,
        topic,
        partition_index,
        offset,
        isolation=isolation,
        max_wait_ms=0,
        max_bytes=FETCH_BYTES_MAX if run_beside_loop is None else PIECE_BYTES,
        run_beside_loop=run_beside_loop,
    )
