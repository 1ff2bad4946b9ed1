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
LARGE_VALUE_BYTES: Final = 100_000
"""Bytes of a large value; readers fetch 1 MiB of a partition by default."""


class ExpectedReading(msgspec.Struct, frozen=True, kw_only=True):
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
        self.partition: Final = TopicPartition(topic, 0)
        self._target = target

    async def roll(self) -> None:
        """Roll the segment, at the latest with the next record.

        Raises:
            TargetError: This cluster can't do it.
        """
        await self._target.roll(self.partition)

    async def clean(self) -> None:
        """Wait for a run of the log cleaner.

        Raises:
            TargetError: This cluster can't do it.
        """
        await self._target.clean(self.partition)

    @contextlib.asynccontextmanager
    async def producers(self, *id_suffixes: str) -> AsyncIterator[list[Producer]]:
        """Open transactional producers; their transactions may stay open."""
        producers = [
            Producer(
                self.cluster,
                transactional_id=f"{self.partition.topic}-{id_suffix}",
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
            await producer.send(
                self.partition.topic, self.partition.partition, value_bytes, key=key_bytes
            )

    async def transact(
        self, producer: Producer, *values: str, end: str = "commit", key: str = ""
    ) -> None:
        """Begin a transaction, send records, and commit or abort."""
        producer.begin()
        await self.put(producer, *values, key=key)
        await (producer.commit() if end == "commit" else producer.abort())


WriteTopic = Callable[[TopicWriter], Awaitable[None]]


class FixtureTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to read, with the expected answer."""

    expected: ExpectedReading
    write: WriteTopic
    configs: dict[str, str] = {}


def fixture_topic(
    topic: str,
    description: str,
    values: str,
    stable_offset: int,
    end_offset: int,
    **fixture_fields: Any,
) -> Callable[[WriteTopic], FixtureTopic]:
    """Decorate a coroutine function that writes a topic; ``values`` are separated by spaces."""
    expected = ExpectedReading(
        topic=topic,
        about=description,
        values=tuple(values.split()),
        stable=stable_offset,
        end=end_offset,
    )
    return lambda write: FixtureTopic(expected=expected, write=write, **fixture_fields)


@fixture_topic("position-on-marker", "The last record has a marker behind it.", "a b", 3, 3)
async def write_position_on_marker(writer: TopicWriter) -> None:
    """Write the offsets: 0 a, 1 b, 2 COMMIT."""
    async with writer.producers("p") as (producer,):
        await writer.transact(producer, "a", "b")


@fixture_topic("nothing-aborted", "Transactions of two producers overlap. The list of aborted ones"
               " is empty.", "a b c d", 6, 6)  # fmt: skip
async def write_nothing_aborted(writer: TopicWriter) -> None:
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


@fixture_topic(
    "tail-of-markers", "Behind the last record come aborted ones and markers only.", "a", 8, 8
)
async def write_tail_of_markers(writer: TopicWriter) -> None:
    """Write 0 a, 1 COMMIT, then three times a record and its ABORT."""
    async with writer.producers("p") as (producer,):
        await writer.transact(producer, "a")
        for value in ("lost", "lost", "lost"):
            await writer.transact(producer, value, end="abort")


@fixture_topic("nothing-committed", "There are aborted transactions only.", "", 4, 4)
async def write_nothing_committed(writer: TopicWriter) -> None:
    """Write twice a record and its ABORT."""
    async with writer.producers("p") as (producer,):
        for value in ("lost", "lost"):
            await writer.transact(producer, value, end="abort")


@fixture_topic("overlapping", "Transactions of three producers overlap; some are aborted.",
               "a b c d e", 15, 15)  # fmt: skip
async def write_overlapping(writer: TopicWriter) -> None:
    """Write aborted transactions that end in another order than they began."""
    async with writer.producers("p", "q", "r") as (first_producer, second_producer, third_producer):
        second_producer.begin()
        await writer.put(second_producer, "lost")  # 0
        third_producer.begin()
        await writer.put(third_producer, "lost")  # 1
        first_producer.begin()
        await writer.put(first_producer, "a")  # 2
        await writer.put(second_producer, "lost")  # 3
        await third_producer.abort()  # 4
        await writer.put(first_producer, "b")  # 5
        await first_producer.commit()  # 6
        await second_producer.abort()  # 7
        await writer.transact(third_producer, "c", "d")  # 8, 9, 10
        await writer.transact(second_producer, "e")  # 11, 12
        first_producer.begin()
        await writer.put(first_producer, "lost")  # 13
        # It is aborted at 14 by the next session of its id.
    async with writer.producers("p"):
        pass


@fixture_topic("between", "Records outside of transactions lie among aborted ones.", "a b c", 6, 6)
async def write_between(writer: TopicWriter) -> None:
    """Write the offsets: 0 a, 1 lost, 2 b, 3 lost, 4 ABORT, 5 c."""
    async with (
        Producer(writer.cluster) as plain_producer,
        writer.producers("q") as (aborting_producer,),
    ):
        await writer.put(plain_producer, "a")
        aborting_producer.begin()
        await writer.put(aborting_producer, "lost")
        await writer.put(plain_producer, "b")
        await writer.put(aborting_producer, "lost")
        await aborting_producer.abort()
        await writer.put(plain_producer, "c")


@fixture_topic("open", "A transaction is open, and committed ones lie behind it.", "a", 2, 5)
async def write_left_open(writer: TopicWriter) -> None:
    """Write 0 a, 1 COMMIT, 2 a record of a transaction that stays open, 3 b, 4 COMMIT: the last
    stable offset is 2.
    """
    async with writer.producers("p", "q") as (committing_producer, open_producer):
        await writer.transact(committing_producer, "a")
        open_producer.begin()
        await writer.put(open_producer, "open")
        await writer.transact(committing_producer, "b")


@fixture_topic("start-moved", "The log begins in the middle of an aborted transaction.", "b", 6, 6)
async def write_start_moved(writer: TopicWriter) -> None:
    """Write 0 lost, 1 a, 2 lost (the log begins here), 3 ABORT, 4 b, 5 COMMIT."""
    async with Producer(writer.cluster) as plain_producer, writer.producers("p") as (txn_producer,):
        txn_producer.begin()
        await writer.put(txn_producer, "lost")
        await writer.put(plain_producer, "a")
        await writer.put(txn_producer, "lost")
        await txn_producer.abort()
        await writer.transact(txn_producer, "b")
    await Admin(writer.cluster).delete_records(writer.partition, before=2)


@fixture_topic("compacted", "The cleaner has left a batch without records, and gaps.", "b c", 8, 8,
               configs={"cleanup.policy": "compact"})  # fmt: skip
async def write_compacted(writer: TopicWriter) -> None:
    """Write 0 a record of an idempotent producer (overwritten; its empty batch keeps the sequence),
    1 a (overwritten), 2 COMMIT, 3 lost, 4 ABORT, 5 b, 6 COMMIT, 7 c.
    """
    async with (
        writer.producers("p", "q", "r") as (first_producer, aborting_producer, last_producer),
        Producer(writer.cluster) as idempotent_producer,
        Producer(writer.cluster) as plain_producer,
    ):
        await writer.put(idempotent_producer, "lost", key="1")
        await writer.transact(first_producer, "a", key="1")
        await writer.transact(aborting_producer, "lost", key="2", end="abort")
        await writer.transact(last_producer, "b", key="1")
        await writer.roll()
        await writer.put(plain_producer, "c", key="3")
        await writer.clean()


_NUMBER_TEXTS: Final = tuple(f"{value_number:02}" for value_number in range(24))


@fixture_topic("large", "Batches are so large that an answer is cut in the middle of one.",
        " ".join(_NUMBER_TEXTS), 38, 38)  # fmt: skip
async def write_large(writer: TopicWriter) -> None:
    """Write 24 committed records of 100 kB in three transactions, with 8 aborted records between
    them.
    """
    async with writer.producers("p", "q") as (committing_producer, aborting_producer):
        for first_number in (0, 8, 16):
            await writer.transact(
                committing_producer,
                *(
                    number_text * (LARGE_VALUE_BYTES // 2)
                    for number_text in _NUMBER_TEXTS[first_number : first_number + 8]
                ),
            )
            if first_number < 16:
                aborted_values = (
                    "xx" * (LARGE_VALUE_BYTES // 2) for _ in range(4 if first_number else 5)
                )
                await writer.transact(aborting_producer, *aborted_values, end="abort")


FIXTURE_TOPICS: Final[tuple[FixtureTopic, ...]] = (
    write_position_on_marker,
    write_nothing_aborted,
    write_tail_of_markers,
    write_nothing_committed,
    write_overlapping,
    write_between,
    write_left_open,
    write_start_moved,
    write_large,
    write_compacted,
)


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
