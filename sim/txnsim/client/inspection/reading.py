"""Everything that a topic holds, as two readers see it: one with ``read_committed``, one without.

What only the second one sees belongs to a transaction that was aborted, or that is still open. Our
own client reads, over the wire, so that a test sees no more than any application could.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.fetching import FetchResult, fetch
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.offsets import EARLIEST
from txnsim.client.waiting import Deadline
from txnsim.types import IsolationLevel, TopicPartition

SETTLE_MS: Final = 2_000
"""How long to wait for markers that are on their way: milliseconds, unless something holds them."""


class Fate(StrEnum):
    """The fate of a record."""

    COMMITTED = "committed"
    """A ``read_committed`` reader gets it."""
    ABORTED = "aborted"
    OPEN = "open"
    """Its transaction, or an earlier one of the partition, has not ended: it lies at or above the
    last stable offset.
    """


class ReadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record and its fate."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    fate: Fate


async def read_topic(
    admin: Admin, topic: str, *, settle_ms: int = SETTLE_MS
) -> tuple[ReadRecord, ...]:
    """All records of a topic that readers can be given at all, by partition and offset.

    Args:
        admin: The cluster.
        topic: Whose.
        settle_ms: How long to wait for transactions to end that are open.

    Raises:
        ClientError: There is no such topic, or it can't be read.
    """
    cluster = admin.cluster
    (view,) = (await cluster.refresh((topic,))).topics
    if view.error or not view.partitions:
        raise ClientError(f"topic {topic!r} can't be read: there is none, or it has no leaders")
    deadline = cluster.deadline(settle_ms)
    found: list[ReadRecord] = []
    for partition in sorted(row.partition for row in view.partitions):
        found += await _read_partition(admin, topic, partition, deadline)
    return tuple(found)


async def _read_partition(
    admin: Admin, topic: str, partition: int, deadline: Deadline
) -> list[ReadRecord]:
    last_stable = await _settled(admin, topic, partition, deadline)
    every = await _all(admin, topic, partition, IsolationLevel.READ_UNCOMMITTED)
    committed = {
        record.offset
        for record in await _all(admin, topic, partition, IsolationLevel.READ_COMMITTED)
    }
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
        for record in every
    ]


def _fate(offset: int, committed: set[int], last_stable: int) -> Fate:
    if offset in committed:
        return Fate.COMMITTED
    return Fate.OPEN if offset >= last_stable else Fate.ABORTED


async def _settled(admin: Admin, topic: str, partition: int, deadline: Deadline) -> int:
    """The last stable offset, once everything below the high watermark is decided; or as it stands
    when the time is up.
    """
    backoff = admin.cluster.backoff()
    while True:
        seen = await _fetch(admin, topic, partition, -1, IsolationLevel.READ_COMMITTED)
        if seen.last_stable_offset >= seen.high_watermark or deadline.passed:
            return seen.last_stable_offset
        await backoff.wait(deadline)


async def _all(
    admin: Admin, topic: str, partition: int, isolation: IsolationLevel
) -> list[ConsumedRecord]:
    found: list[ConsumedRecord] = []
    offset = -1
    while True:
        result = await _fetch(admin, topic, partition, offset, isolation)
        found += result.records
        if result.next_offset == offset:
            return found
        offset = result.next_offset


async def _fetch(
    admin: Admin, topic: str, partition: int, offset: int, isolation: IsolationLevel
) -> FetchResult:
    """From an offset on; -1: from the start of the log."""
    if offset < 0:
        offset = await _log_start(admin, topic, partition)
    return await fetch(admin.cluster, topic, partition, offset, isolation=isolation, max_wait_ms=0)


async def _log_start(admin: Admin, topic: str, partition: int) -> int:
    return await admin.offset_of(TopicPartition(topic, partition), EARLIEST)
