"""Topics to read, with one partition each, and the values that a ``read_committed`` reader must
get. A fixture topic is written over the wire, so it can be written on any cluster. The expected
answers are written by hand. Drivers must read the topics (``situations.readers``), and so must
programs that read topics or log directories without a coordinator (``txnsim exam readers``).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.producer import Producer
from txnsim.types import TopicPartition
from txnsim_lab.exam.targets import create_topic
from txnsim_lab.target.cluster import Target

TIMEOUT_MS: Final = 600_000
"""Timeout of transactions that stay open: less than any broker's ``transaction.max.timeout.ms``."""
LARGE: Final = 100_000
"""Bytes of a large value; readers fetch 1 MiB of a partition by default."""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """The expected answer of a reader for a topic."""

    topic: str
    about: str
    values: tuple[str, ...]
    """Values that a ``read_committed`` reader gets, in order; of long values the first two
    letters.
    """
    stable: int
    """The last stable offset: the final position of such a reader, and the end that it sees; its
    lag is then zero.
    """
    end: int
    """The high watermark. No ``read_committed`` reader reaches it while it is greater than
    ``stable``.
    """


class TopicWriter:
    """Writes one fixture topic."""

    def __init__(self, target: Target, cluster: Cluster, topic: str, lasting_ms: int) -> None:
        """Write nothing yet.

        Args:
            target: The cluster.
            cluster: Connections to it.
            topic: Name of the topic, which must exist.
            lasting_ms: Timeout of transactions, some of which stay open.
        """
        self._lasting_ms = lasting_ms
        self.cluster = cluster
        self.place: Final = TopicPartition(topic, 0)
        self._target = target

    async def roll(self) -> None:
        """Roll the segment, at the latest with the next record.

        Raises:
            TargetError: This cluster can't do it.
        """
        await self._target.roll(self.place)

    async def clean(self) -> None:
        """Wait for a run of the log cleaner.

        Raises:
            TargetError: This cluster can't do it.
        """
        await self._target.clean(self.place)

    @contextlib.asynccontextmanager
    async def producers(self, *id_suffixes: str) -> AsyncIterator[list[Producer]]:
        """Open transactional producers; their transactions may stay open."""
        producers = [
            Producer(
                self.cluster,
                transactional_id=f"{self.place.topic}-{id_suffix}",
                transaction_timeout_ms=self._lasting_ms,
            )
            for id_suffix in id_suffixes
        ]
        try:
            for producer in producers:
                await producer.init_transactions()
            yield producers
        finally:
            for producer in producers:
                await producer.close()

    async def put(self, producer: Producer, *values: str, key: str = "") -> None:
        """Send records, each in a batch of its own, and wait for each acknowledgement."""
        for value in values:
            value_bytes = value.encode()
            key_bytes = key.encode() if key else None
            await producer.send(self.place.topic, self.place.partition, value_bytes, key=key_bytes)

    async def transact(
        self, producer: Producer, *values: str, end: str = "commit", key: str = ""
    ) -> None:
        """Make a whole transaction."""
        producer.begin()
        await self.put(producer, *values, key=key)
        await (producer.commit() if end == "commit" else producer.abort())


Write = Callable[[TopicWriter], Awaitable[None]]


class FixtureTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to read, with the expected answer."""

    expected: Expected
    write: Write
    configs: dict[str, str] = {}


def topic_of(
    topic: str,
    description: str,
    values: str,
    stable_offset: int,
    end_offset: int,
    **fixture_fields: Any,
) -> Callable[[Write], FixtureTopic]:
    """Decorate a coroutine function that writes a topic; ``values`` are separated by spaces."""
    expected = Expected(
        topic=topic,
        about=description,
        values=tuple(values.split()),
        stable=stable_offset,
        end=end_offset,
    )
    return lambda write: FixtureTopic(expected=expected, write=write, **fixture_fields)


@topic_of("position-on-marker", "The last record has a marker behind it.", "a b", 3, 3)
async def on_marker(writer: TopicWriter) -> None:
    """Write the offsets: 0 a, 1 b, 2 COMMIT."""
    async with writer.producers("p") as (producer,):
        await writer.transact(producer, "a", "b")


@topic_of("nothing-aborted", "Transactions of two producers overlap. The list of aborted ones is"
          " empty.", "a b c d", 6, 6)  # fmt: skip
async def nothing_aborted(writer: TopicWriter) -> None:
    """Write the offsets: 0 a, 1 b, 2 c, 3 COMMIT, 4 d, 5 COMMIT."""
    async with writer.producers("p", "q") as (committing_producer, open_producer):
        committing_producer.begin()
        open_producer.begin()
        await writer.put(committing_producer, "a")
        await writer.put(open_producer, "b")
        await writer.put(committing_producer, "c")
        await committing_producer.commit()
        await writer.put(open_producer, "d")
        await open_producer.commit()


@topic_of(
    "tail-of-markers", "Behind the last record come aborted ones and markers only.", "a", 8, 8
)
async def tail(writer: TopicWriter) -> None:
    """Write 0 a, 1 COMMIT, then three times a record and its ABORT."""
    async with writer.producers("p") as (p,):
        await writer.transact(p, "a")
        for value in ("lost", "lost", "lost"):
            await writer.transact(p, value, end="abort")


@topic_of("nothing-committed", "There are aborted transactions only.", "", 4, 4)
async def nothing(writer: TopicWriter) -> None:
    """Write twice a record and its ABORT."""
    async with writer.producers("p") as (p,):
        for value in ("lost", "lost"):
            await writer.transact(p, value, end="abort")


@topic_of("overlapping", "Transactions of three producers overlap; some are aborted.",
        "a b c d e", 15, 15)  # fmt: skip
async def overlapping(writer: TopicWriter) -> None:
    """Write aborted transactions that end in another order than they began."""
    async with writer.producers("p", "q", "r") as (p, q, r):
        q.begin()
        await writer.put(q, "lost")  # 0
        r.begin()
        await writer.put(r, "lost")  # 1
        p.begin()
        await writer.put(p, "a")  # 2
        await writer.put(q, "lost")  # 3
        await r.abort()  # 4
        await writer.put(p, "b")  # 5
        await p.commit()  # 6
        await q.abort()  # 7
        await writer.transact(r, "c", "d")  # 8, 9, 10
        await writer.transact(q, "e")  # 11, 12
        p.begin()
        await writer.put(p, "lost")  # 13
        # It is aborted at 14 by the next session of its id.
    async with writer.producers("p"):
        pass


@topic_of("between", "Records outside of transactions lie among aborted ones.", "a b c", 6, 6)
async def between(writer: TopicWriter) -> None:
    """Write the offsets: 0 a, 1 lost, 2 b, 3 lost, 4 ABORT, 5 c."""
    async with Producer(writer.cluster) as plain, writer.producers("q") as (q,):
        await writer.put(plain, "a")
        q.begin()
        await writer.put(q, "lost")
        await writer.put(plain, "b")
        await writer.put(q, "lost")
        await q.abort()
        await writer.put(plain, "c")


@topic_of("open", "A transaction is open, and committed ones lie behind it.", "a", 2, 5)
async def left_open(writer: TopicWriter) -> None:
    """Write 0 a, 1 COMMIT, 2 a record of a transaction that stays open, 3 b, 4 COMMIT: the last
    stable offset is 2.
    """
    async with writer.producers("p", "q") as (p, q):
        await writer.transact(p, "a")
        q.begin()
        await writer.put(q, "open")
        await writer.transact(p, "b")


@topic_of("start-moved", "The log begins in the middle of an aborted transaction.", "b", 6, 6)
async def start_moved(writer: TopicWriter) -> None:
    """Write 0 lost, 1 a, 2 lost (the log begins here), 3 ABORT, 4 b, 5 COMMIT."""
    async with Producer(writer.cluster) as plain, writer.producers("p") as (p,):
        p.begin()
        await writer.put(p, "lost")
        await writer.put(plain, "a")
        await writer.put(p, "lost")
        await p.abort()
        await writer.transact(p, "b")
    await Admin(writer.cluster).delete_records(writer.place, before=2)


@topic_of("compacted", "The cleaner has left a batch without records, and gaps.", "b c", 8, 8,
        configs={"cleanup.policy": "compact"})  # fmt: skip
async def compacted_log(writer: TopicWriter) -> None:
    """Write 0 a record of an idempotent producer (overwritten; its empty batch keeps the sequence),
    1 a (overwritten), 2 COMMIT, 3 lost, 4 ABORT, 5 b, 6 COMMIT, 7 c.
    """
    async with (
        writer.producers("p", "q", "r") as (p, q, r),
        Producer(writer.cluster) as idempotent,
        Producer(writer.cluster) as plain,
    ):
        await writer.put(idempotent, "lost", key="1")
        await writer.transact(p, "a", key="1")
        await writer.transact(q, "lost", key="2", end="abort")
        await writer.transact(r, "b", key="1")
        await writer.roll()
        await writer.put(plain, "c", key="3")
        await writer.clean()


_NUMBERS: Final = tuple(f"{number:02}" for number in range(24))


@topic_of("large", "Batches are so large that an answer is cut in the middle of one.",
        " ".join(_NUMBERS), 38, 38)  # fmt: skip
async def large(writer: TopicWriter) -> None:
    """Write 24 committed records of 100 kB in three transactions, with 8 aborted records between
    them.
    """
    async with writer.producers("p", "q") as (p, q):
        for start in (0, 8, 16):
            await writer.transact(
                p, *(letter * (LARGE // 2) for letter in _NUMBERS[start : start + 8])
            )
            if start < 16:
                lost = ("xx" * (LARGE // 2) for _ in range(4 if start else 5))
                await writer.transact(q, *lost, end="abort")


FIXTURE_TOPICS: Final[tuple[FixtureTopic, ...]] = (
    on_marker, nothing_aborted, tail, nothing, overlapping, between, left_open, start_moved, large,
    compacted_log,
)  # fmt: skip


async def write_fixture(
    target: Target, fixture: FixtureTopic, *, lasting_ms: int = TIMEOUT_MS
) -> str:
    """Create a fixture topic and write its records.

    Args:
        target: The cluster.
        fixture: The fixture topic.
        lasting_ms: Timeout of transactions, some of which stay open.

    Returns:
        The topic's name.

    Raises:
        ClientError: The topic exists already, or a broker refuses.
        TargetError: It can't be written on this cluster.
    """
    topic_name = target.prefix + fixture.expected.topic
    await create_topic(target, topic_name, configs=fixture.configs)
    await fixture.write(TopicWriter(target, (await target.admin()).cluster, topic_name, lasting_ms))
    return topic_name


def short_values(values: Sequence[str]) -> tuple[str, ...]:
    """Shorten long values to their first two letters, as fixture topics have them."""
    return tuple(value if len(value) <= 2 else value[:2] for value in values)
