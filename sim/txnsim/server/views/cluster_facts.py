"""What brokers in memory know of their transactions, as facts for the judge (``txnsim.verdict``).

It reads state directly, so no fault delays it. What may be much (partitions, transactional ids) is
walked through in slices first. What the verdict rests on, open transactions and those that
coordinators have not ended, is then taken in one step: a transaction that ends between two looks
would seem to hang. The facts about each of them follow in slices again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from txnsim.broker.broker import Broker
from txnsim.coordinators.txn.service import OwnedPartition
from txnsim.faults.actions import Hold, Reorder, Stall
from txnsim.faults.interception import Crossing
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import ProducerEntry
from txnsim.metadata.image import PartitionImage
from txnsim.node.log_gate import MARKER
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.runtime.peer_call import Unanswered
from txnsim.server.cluster import SimCluster
from txnsim.server.views._decision_book import DecisionBook
from txnsim.share.partition import Phase
from txnsim.txn.markers import SendingAndTarget
from txnsim.txn.past_decision import NewestTxn
from txnsim.txn.state import NO_TIMESTAMP, PREPARED_STATES, TransactionState, TxnMetadata
from txnsim.types import (
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    IsolationLevel,
    TopicPartition,
    TransactionalId,
)
from txnsim.verdict.facts import (
    ClusterFacts,
    MarkerSending,
    OpenTxnFacts,
    OwedMarkerFacts,
    PartitionFacts,
    ShareGroupFacts,
    TransactionFacts,
)

_UNFINISHED_STATES: Final = frozenset({TransactionState.ONGOING, *PREPARED_STATES})
_WRITE_TXN_MARKERS_KEY: Final = 27

_Entry = tuple[OwnedPartition, TransactionalId]


class _PartitionCut(NamedTuple):
    """A partition at one moment."""

    facts: PartitionFacts
    """Without the open transactions."""
    log: PartitionLog | None
    open_producers: tuple[ProducerEntry, ...]


class _ClusterCut(NamedTuple):
    """What the verdict rests on, at one moment. None of it changes later, but for logs."""

    facts: ClusterFacts
    """Without partitions and transactions."""
    partitions: list[_PartitionCut]
    transactions: list[tuple[OwnedPartition, TxnMetadata]]


class ClusterFactsReader:
    """Reads the facts of one cluster; remembers what it has read of the logs."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._book = DecisionBook()

    async def read(self, pace: Pace | None = None) -> ClusterFacts:
        """The facts of the present moment; in slices if given a pace."""
        cluster = self._cluster
        await self._book.read_on(cluster, pace)
        partitions: list[TopicPartition] = []
        for topic_name, topic in sorted(cluster.metadata.image.topics.items()):
            for index in range(len(topic.partitions)):
                topic_partition = TopicPartition(topic_name, index)
                if topic_name not in INTERNAL_TOPICS or self._has_open(topic_partition):
                    partitions.append(topic_partition)
            await rest_where_due(pace, len(topic.partitions))
        owned_txns: list[_Entry] = []
        for broker in tuple(cluster.brokers.values()):
            for owned_partition in broker.coordinator.owned_partitions():
                open_producers = self._open_producers(partitions) if owned_partition.entries else ()
                owned_txns += [
                    (owned_partition, transactional_id)
                    for transactional_id, txn in tuple(owned_partition.entries.items())
                    if txn.state in _UNFINISHED_STATES or txn.producer_id in open_producers
                ]
                walked_count = len(owned_partition.entries) + len(open_producers)
                await rest_where_due(pace, 1 + walked_count // 10)
        cluster_cut = self._cut(partitions, owned_txns)
        return await self._facts_of(cluster_cut, pace)

    # In one step

    def _cut(
        self, partitions: Iterable[TopicPartition], owned_txns: Iterable[_Entry]
    ) -> _ClusterCut:
        cluster = self._cluster
        transactions = [
            (owned_partition, txn)
            for owned_partition, transactional_id in owned_txns
            if (txn := owned_partition.entries.get(transactional_id)) is not None
        ]
        share_groups = self._share_groups()
        return _ClusterCut(
            facts=ClusterFacts(
                now_ms=cluster.environment.clock.now_ms(),
                owed_markers=tuple(self._owed_markers(transactions)),
                unserved_coordinators=self._unserved_coordinators(),
                wrong_data=self._book.wrong_data(cluster.metadata.image),
            ),
            partitions=[
                partition_cut
                for topic_partition in partitions
                if (partition_cut := self._cut_partition(topic_partition, share_groups)) is not None
            ],
            transactions=transactions,
        )

    def _cut_partition(
        self,
        topic_partition: TopicPartition,
        share_groups: Mapping[TopicPartition, tuple[ShareGroupFacts, ...]],
    ) -> _PartitionCut | None:
        partition = self._cluster.metadata.image.partition(topic_partition)
        if partition is None:
            return None
        broker, log = self._leader_log(topic_partition, partition)
        if broker is None or log is None:
            down_facts = PartitionFacts(
                partition=topic_partition,
                leader_id=partition.leader,
                is_leader_up=False,
                replicas=partition.replicas,
                isr=partition.isr,
            )
            return _PartitionCut(down_facts, log, ())
        led_facts = PartitionFacts(
            partition=topic_partition,
            leader_id=partition.leader,
            replicas=partition.replicas,
            isr=partition.isr,
            log_start=log.log_start_offset,
            last_stable_offset=log.last_stable_offset,
            high_watermark=log.high_watermark,
            readers=self._held_readers(topic_partition, partition),
            share_groups=share_groups.get(topic_partition, ()),
        )
        return _PartitionCut(led_facts, log, log.producers.open_producers())

    def _leader_log(
        self, topic_partition: TopicPartition, partition: PartitionImage
    ) -> tuple[Broker | None, PartitionLog | None]:
        broker = self._cluster.brokers.get(partition.leader)
        return broker, None if broker is None else broker.replicas.led.get(topic_partition)

    def _held_readers(
        self, topic_partition: TopicPartition, partition: PartitionImage
    ) -> tuple[str, ...]:
        """Client ids of the consumers that wait at the leader, or at a follower in their rack
        (KIP-392): that one has the transaction open as well.
        """
        client_ids: set[str] = set()
        for broker_id in partition.replicas:
            broker = self._cluster.brokers.get(broker_id)
            log = None if broker is None else broker.replicas.hosted.get(topic_partition)
            if broker is not None and log is not None:
                client_ids.update(broker.fetching.held_readers(log))
        return tuple(sorted(client_ids))

    # In slices, of what was taken

    async def _facts_of(self, cluster_cut: _ClusterCut, pace: Pace | None) -> ClusterFacts:
        txns_by_producer: dict[int, TxnMetadata] = {}
        transactions: list[TransactionFacts] = []
        for owned_partition, txn in cluster_cut.transactions:
            txns_by_producer[txn.producer_id] = txn
            transactions.append(_transaction_facts(owned_partition, txn))
            await rest_where_due(pace, 1)
        partitions: list[PartitionFacts] = []
        for facts, log, open_producers in cluster_cut.partitions:
            open_txns: list[OpenTxnFacts] = []
            for producer in open_producers:
                assert log is not None, "without a log nothing is open"
                txn_now = txns_by_producer.get(producer.producer_id)
                open_txns.append(self._open_txn_facts(log, producer, txn_now))
                await rest_where_due(pace, 1)
            partitions.append(msgspec.structs.replace(facts, open_txns=tuple(open_txns)))
            await rest_where_due(pace, 1)
        return msgspec.structs.replace(
            cluster_cut.facts, partitions=tuple(partitions), transactions=tuple(transactions)
        )

    def _open_txn_facts(
        self, log: PartitionLog, producer: ProducerEntry, txn: TxnMetadata | None
    ) -> OpenTxnFacts:
        return OpenTxnFacts(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            first_offset=producer.txn_first_offset,
            last_write_ms=producer.last_timestamp,
            since_ms=log.batch_timestamp_at(producer.txn_first_offset),
            decided=None
            if _is_listed(txn, log.topic_partition, producer)
            else self._book.decided(
                log.topic_partition, producer, None if txn is None else _newest_txn(txn)
            ),
        )

    def _has_open(self, topic_partition: TopicPartition) -> bool:
        partition = self._cluster.metadata.image.partition(topic_partition)
        log = None if partition is None else self._leader_log(topic_partition, partition)[1]
        return log is not None and bool(log.producers.open_producer_ids())

    def _open_producers(self, partitions: Iterable[TopicPartition]) -> frozenset[int]:
        image = self._cluster.metadata.image
        producer_ids: set[int] = set()
        for topic_partition in partitions:
            partition = image.partition(topic_partition)
            log = None if partition is None else self._leader_log(topic_partition, partition)[1]
            if log is not None:
                producer_ids.update(log.producers.open_producer_ids())
        return frozenset(producer_ids)

    def _unserved_coordinators(self) -> tuple[int, ...]:
        """Partitions of the transaction log that no running broker has loaded."""
        topic = self._cluster.metadata.image.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return ()
        served_partitions = {
            owned_partition.partition
            for broker in self._cluster.brokers.values()
            for owned_partition in broker.coordinator.owned_partitions()
        }
        return tuple(
            index for index in range(len(topic.partitions)) if index not in served_partitions
        )

    def _share_groups(self) -> dict[TopicPartition, tuple[ShareGroupFacts, ...]]:
        """Share groups with read_committed on each partition, as its leader has them."""
        groups_by_partition: dict[TopicPartition, list[ShareGroupFacts]] = {}
        for broker in self._cluster.brokers.values():
            if broker.made_share_fetching is None:
                continue
            shares = broker.made_share_fetching.shares
            for led_share in shares:
                group_id = led_share.share_partition.key.group_id
                if (
                    led_share.share_partition.phase is Phase.ACTIVE
                    and shares.isolation_of(group_id) == IsolationLevel.READ_COMMITTED
                ):
                    groups_by_partition.setdefault(led_share.topic_partition, []).append(
                        ShareGroupFacts(
                            group_id=group_id, start_offset=led_share.share_partition.start_offset
                        )
                    )
        return {
            topic_partition: tuple(sorted(groups, key=lambda group: group.group_id))
            for topic_partition, groups in groups_by_partition.items()
        }

    # Markers

    def _owed_markers(
        self, transactions: Iterable[tuple[OwnedPartition, TxnMetadata]]
    ) -> Iterator[OwedMarkerFacts]:
        cluster = self._cluster
        prepared_txns = [
            (owned_partition, txn)
            for owned_partition, txn in transactions
            if txn.state in PREPARED_STATES and txn.partitions
        ]
        if not prepared_txns:
            return
        unanswered_requests = [
            request
            for request in cluster.environment.network.unanswered_requests()
            if request.api_key == _WRITE_TXN_MARKERS_KEY
        ]
        held_crossings = tuple(self._held_crossings())
        sendings: dict[
            BrokerId, Mapping[TransactionalId, Mapping[TopicPartition, SendingAndTarget]]
        ] = {}
        for owned_partition, txn in prepared_txns:
            broker_id = _broker_of(owned_partition)
            if broker_id not in sendings:
                sendings[broker_id] = cluster.brokers[broker_id].coordinator.sendings()
            queued_markers = sendings[broker_id].get(txn.transactional_id, {})
            for topic_partition in sorted(txn.partitions):
                sending, target_broker = queued_markers.get(
                    topic_partition, (MarkerSending.ABANDONED, None)
                )
                holding_rule, sent_again_ms = None, None
                if sending in (MarkerSending.UNDER_WAY, MarkerSending.RETRIED):
                    holding_rule = _holding_rule(
                        held_crossings,
                        txn.producer_id,
                        topic_partition,
                        source=broker_id,
                        target=target_broker,
                    )
                    sent_again_ms = self._next_attempt_ms(
                        unanswered_requests, broker_id, target_broker
                    )
                if holding_rule is not None:
                    sending = MarkerSending.HELD
                elif sent_again_ms is not None:
                    sending = MarkerSending.RETRIED
                yield OwedMarkerFacts(
                    transactional_id=txn.transactional_id,
                    partition=topic_partition,
                    is_commit=txn.state is TransactionState.PREPARE_COMMIT,
                    sending=sending,
                    held_by=holding_rule,
                    sent_again_ms=None if holding_rule is not None else sent_again_ms,
                )

    def _held_crossings(self) -> Iterator[tuple[str, Crossing]]:
        """Rule and crossing of each marker that a rule holds without a limit."""
        for armed_rule in self._cluster.injector.rules():
            action = armed_rule.rule.action
            if isinstance(action, Hold | Reorder) or (
                isinstance(action, Stall) and action.stall_ms is None
            ):
                for held_crossing in armed_rule.held_crossings.values():
                    crossing = held_crossing.crossing
                    if crossing.api_key == _WRITE_TXN_MARKERS_KEY or crossing.kind == MARKER:
                        yield armed_rule.rule.id, crossing

    def _next_attempt_ms(
        self, unanswered_requests: Iterable[Unanswered], source: BrokerId, target: BrokerId | None
    ) -> int | None:
        """When a lost request is given up and its markers are sent again; None if none is lost."""
        for request in unanswered_requests:
            if (request.source, request.target) == (source, target) and (
                request.is_lost or request.is_cut
            ):
                return self._cluster.environment.clock.now_ms() + request.left_ms
        return None


def _is_listed(
    txn: TxnMetadata | None, topic_partition: TopicPartition, producer: ProducerEntry
) -> bool:
    """Whether a coordinator has the open transaction. The judge needs no past decision then."""
    return (
        txn is not None
        and txn.producer_epoch == producer.producer_epoch
        and topic_partition in txn.partitions
    )


def _broker_of(owned_partition: OwnedPartition) -> BrokerId:
    return BrokerId(int(owned_partition.node.split("/")[1]))


def _newest_txn(txn: TxnMetadata) -> NewestTxn:
    started_ms = txn.start_timestamp_ms
    return NewestTxn(
        state=txn.state.wire_name,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        start_time_ms=None if started_ms == NO_TIMESTAMP else started_ms,
    )


def _transaction_facts(owned_partition: OwnedPartition, txn: TxnMetadata) -> TransactionFacts:
    started_ms = txn.start_timestamp_ms
    return TransactionFacts(
        transactional_id=txn.transactional_id,
        coordinator_id=_broker_of(owned_partition),
        state=txn.state.wire_name,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        partitions=txn.partitions,
        timeout_ms=txn.txn_timeout_ms,
        started_ms=None if started_ms == NO_TIMESTAMP else started_ms,
        is_ending=txn.state is TransactionState.ONGOING
        and (txn.pending_state in PREPARED_STATES or txn.has_failed_epoch_fence),
    )


def _holding_rule(
    held_crossings: Iterable[tuple[str, Crossing]],
    producer_id: int,
    topic_partition: TopicPartition,
    *,
    source: BrokerId,
    target: BrokerId | None,
) -> str | None:
    """The rule that holds a marker, or the request before it to the same broker: one request at a
    time is under way to each. None if no rule does.
    """
    for rule_id, crossing in held_crossings:
        link = f"broker/{source}", f"broker/{target}"
        if (
            crossing.api_key == _WRITE_TXN_MARKERS_KEY
            and (crossing.source, crossing.target) == link
        ):
            return rule_id
        if any(
            subject.producer_id == producer_id and topic_partition in subject.partitions
            for subject in (crossing.subject, *crossing.subject.other_subjects)
        ):
            return rule_id
    return None
