"""Transactions through the control port: the coordinators' state, the partitions' state, and where
the two disagree.

The state is read directly and not over the wire: it includes pending transitions, and no fault
delays the answer. ``txnsim txns`` shows what an operator can see from outside.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from heapq import merge
from typing import Final

import msgspec
from starlette.requests import Request

from txnsim.errors import ConfigError
from txnsim.http._topics import replica_log
from txnsim.http.operation import PREFIX, ClusterNoun, Operation, Query
from txnsim.http.replies import Listing, RefusedError, number_of, word_of
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import ProducerEntry
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.server.cluster import SimCluster
from txnsim.server.views.cluster_facts import ClusterFactsReader
from txnsim.server.views.waiting_transactions import WAIT_MS, coordinated_transaction, until_state
from txnsim.shell_text import ShellText
from txnsim.txn.open_txn_verdict import OpenTxnStatus, program_at
from txnsim.txn.state import (
    NO_TIMESTAMP,
    PREPARED_STATES,
    WIRE_NAMES,
    TransactionState,
    TxnMetadata,
)
from txnsim.types import BrokerId, TopicPartition
from txnsim.verdict.facts import ClusterFacts
from txnsim.verdict.judge import OpenTxnVerdict, judge_open_txns

PARTITION_MAX: Final = 2**31 - 1
WAIT_MS_MAX: Final = 300_000


class Place(msgspec.Struct, frozen=True):
    """A partition of a topic."""

    topic: str
    partition: int


class TransactionView(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id as its coordinator knows it."""

    transactional_id: str
    coordinator: int
    state: str
    """The state's name in DescribeTransactions."""
    pending_state: str | None
    """State of the transition whose record is being written, or of the completion that waits for
    markers.
    """
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """When the current transaction started; null if there is none."""
    last_update_ms: int
    open_for_ms: int | None
    """Milliseconds since the start, by the cluster clock."""
    partitions: tuple[Place, ...]
    """If ongoing: all added partitions. If prepared: those that still wait for their marker."""
    markers_owed: int
    """Number of partitions that wait for a marker."""


class ProducerView(msgspec.Struct, frozen=True, kw_only=True):
    """A producer as the leader of a partition knows it."""

    topic: str
    partition: int
    leader: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    """From the last marker; -1 without one."""
    open_since_offset: int | None
    """First offset of its open transaction; null without one."""


class OpenView(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction of a partition, and its coordinator's view."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    verdict: str
    """``hanging``: no marker will ever end it. ``decided``: its marker is owed. ``alive``: still in
    progress.
    """
    reason: str
    transactional_id: str | None
    state: str | None
    command: str | None
    """The command that ends it with the decided marker; null unless it hangs."""


class TransactionRoutes(ClusterNoun):
    """Routes that show transactions and producers of one cluster."""

    def __init__(self, cluster: SimCluster, facts_reader: ClusterFactsReader | None = None) -> None:
        super().__init__(cluster)
        self._facts_reader = facts_reader or ClusterFactsReader(cluster)

    @Operation(
        "get",
        f"{PREFIX}/transactions",
        query=(Query("state", "Only in this state, as Ongoing or PrepareCommit", "string"),),
        refusals=("422",),
    )
    async def transactions(self, request: Request) -> Listing[TransactionView]:
        """Every transactional id as its coordinator knows it, with pending transitions."""
        state = word_of(request, "state", tuple(WIRE_NAMES.values()))
        pace = self._pace()
        hosted_txns = await self._sorted_entries(pace, state)
        return self._listing((self._view(broker_id, txn) for broker_id, txn in hosted_txns), pace)

    @Operation(
        "get", f"{PREFIX}/transactions/{{transactional_id}}", refusals=("404",), takes_slashes=True
    )
    async def transaction(self, request: Request) -> TransactionView:
        """One transactional id as its coordinator knows it."""
        transactional_id = str(request.path_params["transactional_id"])
        coordinated_txn = coordinated_transaction(self._cluster, transactional_id)
        if coordinated_txn is not None:
            return self._view(*coordinated_txn)
        raise RefusedError(
            404,
            f"no coordinator knows transactional id {transactional_id!r}: it was never "
            "initialised, or has "
            f"expired; GET {PREFIX}/transactions lists those that are known",
        )

    @Operation(
        "get",
        f"{PREFIX}/transaction-wait",
        query=(
            Query("transactional_id", "Whose", "string"),
            Query("state", "As CompleteCommit; may be given several times", "string", many=True),
            Query(
                "timeout_ms",
                f"Answer 408 after so long, with what it waits for; {WAIT_MS} unless given",
            ),
        ),
        refusals=("408", "422"),
    )
    async def wait(self, request: Request) -> TransactionView:
        """Answer once a transactional id is in one of the given states."""
        transactional_id = request.query_params.get("transactional_id")
        if not transactional_id:
            raise RefusedError(422, "transactional_id is missing: say whose state to wait for")
        states = tuple(request.query_params.getlist("state"))
        timeout_ms = number_of(
            request, "timeout_ms", default=WAIT_MS, minimum=0, maximum=WAIT_MS_MAX
        )
        try:
            hosted_txn = await until_state(
                self._cluster, transactional_id, states, timeout_ms=timeout_ms
            )
        except ConfigError as error:
            raise RefusedError(422, str(error)) from error
        except TimeoutError as error:
            raise RefusedError(408, str(error)) from error
        return self._view(*hosted_txn)

    @Operation(
        "get",
        f"{PREFIX}/producers",
        query=(
            Query("topic", "Only of this topic", "string"),
            Query("partition", "Only of this partition of the topic"),
        ),
        refusals=("404", "422"),
    )
    async def producers(self, request: Request) -> Listing[ProducerView]:
        """Every producer that the partition leaders know."""
        topic = request.query_params.get("topic")
        partition = number_of(request, "partition", default=-1, minimum=0, maximum=PARTITION_MAX)
        if topic is None and partition >= 0:
            raise RefusedError(422, f"partition {partition} needs a topic")
        if topic is not None:
            self.partition(topic, max(partition, 0))
        return self._listing(
            ProducerView(
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                leader=leader,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp_ms=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                open_since_offset=_txn_start_offset(producer),
            )
            for topic_partition, leader, leader_log in self._leader_logs()
            for producer in leader_log.producers.all_producers()
            if topic in (None, topic_partition.topic)
            and partition in (-1, topic_partition.partition)
        )

    @Operation(
        "get",
        f"{PREFIX}/open-transactions",
        query=(Query("verdict", "Only with this verdict: hanging, decided or alive", "string"),),
        refusals=("422",),
    )
    async def open_transactions(self, request: Request) -> Listing[OpenView]:
        """Open transactions on partitions, however young, with a verdict: alive, decided or
        hanging.
        """
        verdict = word_of(request, "verdict", sorted(OpenTxnStatus))
        program = program_at(self._cluster.bootstrap)
        pace = self._pace()
        facts = await self._facts_reader.read(pace)
        return self._listing(_open_views(facts, program, verdict, pace), pace)

    # What there is

    async def _sorted_entries(
        self, pace: Pace, state: str | None
    ) -> list[tuple[BrokerId, TxnMetadata]]:
        """Every entry (or every one in a state) with its coordinator's broker, sorted by
        transactional id.
        """
        sorted_lists = []
        for broker_id, broker in self._cluster.brokers.items():
            for owned_partition in broker.coordinator.owned_partitions():
                partition_entries = [
                    (broker_id, txn)
                    for txn in owned_partition.entries.values()
                    if state is None or txn.state.wire_name == state
                ]
                sorted_lists.append(sorted(partition_entries, key=_transactional_id_key))
                await rest_where_due(pace, len(owned_partition.entries))
        sorted_txns = []
        for coordinated_txn in merge(*sorted_lists, key=_transactional_id_key):
            sorted_txns.append(coordinated_txn)
            if pace.has_done(1):
                await pace.yield_turn()
        return sorted_txns

    def _leader_logs(self) -> Iterator[tuple[TopicPartition, BrokerId, PartitionLog]]:
        """Every partition with its leader and the leader's log."""
        image = self._cluster.metadata.image
        for topic_name, topic in sorted(image.topics.items()):
            for partition_index, partition in enumerate(topic.partitions):
                topic_partition = TopicPartition(topic_name, partition_index)
                log = replica_log(self._cluster, topic_partition, partition.leader)
                if log is not None:
                    yield topic_partition, partition.leader, log

    def _view(self, broker_id: BrokerId, txn: TxnMetadata) -> TransactionView:
        is_open = txn.start_timestamp_ms != NO_TIMESTAMP and (
            txn.state is TransactionState.ONGOING or txn.state in PREPARED_STATES
        )
        now_ms = self._cluster.environment.clock.now_ms()
        return TransactionView(
            transactional_id=txn.transactional_id,
            coordinator=broker_id,
            state=txn.state.wire_name,
            pending_state=None if txn.pending_state is None else txn.pending_state.wire_name,
            producer_id=txn.producer_id,
            producer_epoch=txn.producer_epoch,
            timeout_ms=txn.txn_timeout_ms,
            start_ms=txn.start_timestamp_ms if is_open else None,
            last_update_ms=txn.last_update_timestamp_ms,
            open_for_ms=now_ms - txn.start_timestamp_ms if is_open else None,
            partitions=tuple(
                Place(partition.topic, partition.partition) for partition in sorted(txn.partitions)
            ),
            markers_owed=len(txn.partitions) if txn.state in PREPARED_STATES else 0,
        )


def _transactional_id_key(hosted_txn: tuple[BrokerId, TxnMetadata]) -> tuple[str, BrokerId]:
    return hosted_txn[1].transactional_id, hosted_txn[0]


def _txn_start_offset(producer: ProducerEntry) -> int | None:
    return producer.txn_first_offset if producer.txn_first_offset >= 0 else None


def _verdict_word(open_txn: OpenTxnVerdict) -> OpenTxnStatus:
    """One of the three words of this route. While no coordinator serves it, it counts as alive: it
    may end yet.
    """
    if open_txn.status is OpenTxnStatus.UNKNOWN:
        return OpenTxnStatus.ALIVE
    return open_txn.status


async def _open_views(
    facts: ClusterFacts, program: ShellText, verdict: str | None, pace: Pace
) -> AsyncGenerator[list[OpenView]]:
    """The open transactions with a verdict (all if None), in lists between which others have had
    their turns.
    """
    open_views: list[OpenView] = []
    for partition, open_txn in judge_open_txns(facts, program=program):
        if verdict in (None, _verdict_word(open_txn)):
            open_views.append(_open_view(partition.partition, open_txn))
        if pace.has_done(1):
            await pace.yield_turn()
            yield open_views
            open_views = []
    yield open_views


def _open_view(partition: TopicPartition, open_txn: OpenTxnVerdict) -> OpenView:
    return OpenView(
        topic=partition.topic,
        partition=partition.partition,
        producer_id=open_txn.producer_id,
        producer_epoch=open_txn.producer_epoch,
        start_offset=open_txn.first_offset,
        verdict=_verdict_word(open_txn).value,
        reason=open_txn.reason,
        transactional_id=open_txn.transactional_id,
        state=open_txn.coordinator_state,
        command=open_txn.ends.command,
    )
