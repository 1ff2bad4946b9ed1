"""A consumer of assigned partitions: positions, and one long poll per leader.

No groups. Kafka's counterpart is the assigned ``KafkaConsumer``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import msgspec

from txnsim.client.backoff import Deadline
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError, or_raised
from txnsim.client.fetching import FetchOptions, FetchResult, ask_leader
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, list_offsets
from txnsim.errors import CorruptBatchError, ErrorCode, MissingExtraError, TxnsimError
from txnsim.types import IsolationLevel, TopicPartition


class _Poll(msgspec.Struct, eq=False):
    """A Fetch in flight, with its positions."""

    positions: dict[TopicPartition, int]
    task: asyncio.Task[list[FetchResult] | TxnsimError]


class Consumer:
    """Reads assigned partitions from a position on.

    Use it as an asynchronous context manager, or ``close`` it.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        min_bytes: int = 1,
        fetch_wait_ms: int = 500,
    ) -> None:
        """Configure a consumer; nothing is sent yet.

        Args:
            cluster: Connections to use.
            isolation: isolation.level; unlike Kafka's clients read_committed by default.
            min_bytes: fetch.min.bytes.
            fetch_wait_ms: fetch.max.wait.ms.
        """
        self._cluster = cluster
        self._isolation = isolation
        self._min_bytes = min_bytes
        self._fetch_wait_ms = fetch_wait_ms
        self._positions: dict[TopicPartition, int] = {}
        self._polls: list[_Poll] = []
        self.last: dict[TopicPartition, FetchResult] = {}
        """The latest answer of each partition: watermarks, last stable offset, error."""

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Offset of the next record, per partition."""
        return dict(self._positions)

    async def assign(
        self,
        partitions: Mapping[TopicPartition, int] | Iterable[TopicPartition],
        *,
        reset: str = "earliest",
    ) -> None:
        """Read these partitions, and no others, from now on.

        Args:
            partitions: With offsets, or without; then ``reset`` says where to begin.
            reset: ``earliest`` or ``latest`` (the last stable offset with read_committed).

        Raises:
            ClientError: An offset could not be looked up.
        """
        await self.close()
        self.last = {}
        if isinstance(partitions, Mapping):
            self._positions = dict(partitions)
            return
        timestamp = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}[reset]
        offsets = await list_offsets(
            self._cluster,
            dict.fromkeys(partitions, timestamp),
            isolation=self._isolation,
        )
        self._positions = {}
        for partition, found_offset in offsets.items():
            self._positions[partition] = or_raised(found_offset).offset

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the position; records of a Fetch in flight for the old position are dropped."""
        self._positions[partition] = offset

    async def poll(self, max_wait_ms: int = 1_000) -> list[ConsumedRecord]:
        """The next records; an empty list when none came within ``max_wait_ms``.

        Raises:
            ClientError: A partition can't be read; ``error`` says why.
            CorruptBatchError: The fetched bytes are no record batches.
            MissingExtraError: They are compressed in a way that needs a library.
        """
        with self._cluster.trace.trace_call("poll"):
            return await self._poll(max_wait_ms)

    async def _poll(self, max_wait_ms: int) -> list[ConsumedRecord]:
        deadline = self._cluster.deadline(max_wait_ms)
        backoff = self._cluster.backoff()
        while self._positions:
            await self._start_fetches(deadline)
            await asyncio.wait(
                [poll.task for poll in self._polls], return_when=asyncio.FIRST_COMPLETED
            )
            records, has_trouble = self._collect()
            # A Fetch in flight was sent with this deadline or an earlier one: it ends soon.
            if records or (deadline.has_passed and not self._polls):
                return records
            if deadline.has_passed:
                continue
            if has_trouble:
                await backoff.wait(deadline)
        return []

    async def _start_fetches(self, deadline: Deadline) -> None:
        """Send a Fetch to every leader without one in flight."""
        polled_partitions = {partition for poll in self._polls for partition in poll.positions}
        if self._polls and deadline.has_passed:
            return
        positions_by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, offset in self._positions.items():
            if partition not in polled_partitions:
                leader = await self._cluster.leader(partition)
                positions_by_leader.setdefault(leader.leader_id, {})[partition] = offset
        fetch_options = FetchOptions(
            isolation=self._isolation,
            max_wait_ms=min(self._fetch_wait_ms, int(deadline.left_ms)),
            min_bytes=self._min_bytes,
        )
        for broker_id, positions in positions_by_leader.items():
            task = self._cluster.tasks.spawn(
                self._fetch_from_leader(broker_id, positions, fetch_options),
                name=f"fetch from broker {broker_id}",
            )
            self._polls.append(_Poll(positions, task))

    async def _fetch_from_leader(
        self, broker_id: int, positions: dict[TopicPartition, int], fetch_options: FetchOptions
    ) -> list[FetchResult] | TxnsimError:
        """Send a Fetch; a failure is returned, so that the poll that collects it reports it."""
        try:
            return await ask_leader(self._cluster, broker_id, positions, fetch_options)
        except (ClientError, CorruptBatchError, MissingExtraError) as error:
            return error

    def _collect(self) -> tuple[list[ConsumedRecord], bool]:
        """The records of finished Fetches, and whether one had an error that may pass."""
        ended_polls = [poll for poll in self._polls if poll.task.done()]
        self._polls = [poll for poll in self._polls if not poll.task.done()]
        records: list[ConsumedRecord] = []
        refusal: TxnsimError | None = None
        has_troubled_partitions = False
        for poll in ended_polls:
            fetch_results = poll.task.result()
            if isinstance(fetch_results, TxnsimError):
                refusal = fetch_results
                continue
            for fetch_result in fetch_results:
                self.last[fetch_result.partition] = fetch_result
                if (
                    self._positions.get(fetch_result.partition)
                    != poll.positions[fetch_result.partition]
                ):
                    continue
                if fetch_result.error == ErrorCode.none:
                    records.extend(fetch_result.records)
                    self._positions[fetch_result.partition] = fetch_result.next_offset
                elif fetch_result.error.retriable:
                    has_troubled_partitions = True
                else:
                    refusal = ClientError(
                        f"Fetch of {fetch_result.partition}: {fetch_result.error.name.upper()}",
                        error=fetch_result.error,
                    )
        if refusal is not None and not records:
            raise refusal
        return records, has_troubled_partitions

    async def close(self) -> None:
        """Stop requests in flight; connections stay with the cluster."""
        polls, self._polls = self._polls, []
        for poll in polls:
            poll.task.cancel()
        await asyncio.gather(*(poll.task for poll in polls), return_exceptions=True)
