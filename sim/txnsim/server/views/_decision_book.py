"""What coordinators have decided and partitions have as markers, read from the logs of brokers in
memory, for the judge.

Logs are read on from where the last reading ended, so a verdict that is asked for again and again
reads only what is new. For each producer some hundreds of decisions and markers are kept; what
contradicts is remembered until its partition is gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

import msgspec

from txnsim.errors import CorruptBatchError, CorruptLogRecordError
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import ProducerEntry
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import LATEST_RULES
from txnsim.runtime.loop_turns import Pace
from txnsim.server.cluster import SimCluster
from txnsim.txn.log_format import decode_record
from txnsim.txn.marker_payment import (
    AFTER_ALL_MARKERS_MS,
    BEFORE_ALL_MARKERS_MS,
    CoordinatorRecord,
    DueDecisions,
    PartitionMarker,
    PartitionMarkers,
)
from txnsim.txn.past_decision import DecisionEvidence, NewestTxn
from txnsim.txn.state import TxnTransition
from txnsim.types import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC, BrokerId, TopicPartition
from txnsim.verdict.contradictions import ProducerMarker, contradictions
from txnsim.verdict.facts import WrongData
from txnsim.wire.batch import (
    COMMIT,
    BatchHeader,
    read_batch_header,
    read_control_record,
    read_records,
)

KEPT_MAX: Final = 400
"""Markers of a producer that are kept of each partition."""
RECORDS_KEPT_MAX: Final = 3 * KEPT_MAX
"""Records of a producer that are kept of its coordinator's log: each transaction has three or more.
"""
_LogKey = tuple[uuid.UUID, int]


class _ReadLog(msgspec.Struct, kw_only=True, eq=False):
    """What was read of one log."""

    topic_partition: TopicPartition
    leader: tuple[BrokerId, int]
    """Broker and leader epoch of the log that was read."""
    next_offset: int
    complete_since_ms: int
    """Time since which no marker is missing."""
    decisions: dict[int, list[CoordinatorRecord]] = {}
    """Producer id -> its coordinator's records, of a partition of the transaction log."""
    transactional_ids: dict[int, str] = {}
    markers: dict[int, list[ProducerMarker]] = {}
    """Producer id -> its markers."""
    forgotten_until_ms: dict[int, int] = {}
    """Producer id -> time up to which its markers are forgotten."""
    open_producers: set[int] = msgspec.field(default_factory=set)
    """Producers with transactional records behind their last marker."""
    changed_producers: set[int] = msgspec.field(default_factory=set)
    """Producers with new markers, not compared yet."""

    def known_since_ms(self, producer_id: int) -> int:
        """Time since which all markers of a producer are known."""
        return max(
            self.complete_since_ms, self.forgotten_until_ms.get(producer_id, self.complete_since_ms)
        )


class DecisionBook:
    """Decisions and markers of one cluster, as far as they were read."""

    def __init__(self) -> None:
        self._logs: dict[_LogKey, _ReadLog] = {}
        self._log_by_partition: dict[TopicPartition, _ReadLog] = {}
        """The same logs by topic and partition."""
        self._coordinator_logs: tuple[_ReadLog, ...] = ()
        self._wrong_data: dict[tuple[uuid.UUID, TopicPartition, int], WrongData] = {}

    async def read_on(self, cluster: SimCluster, pace: Pace | None) -> None:
        """Read what was written since the last call; in slices if given a pace."""
        image = cluster.metadata.image
        keys = set()
        # Coordinators first: a marker is written behind its decision.
        for topic_name, topic in sorted(
            image.topics.items(), key=lambda item: item[0] != TRANSACTION_STATE_TOPIC
        ):
            if topic_name in INTERNAL_TOPICS and topic_name != TRANSACTION_STATE_TOPIC:
                continue
            for index, partition in enumerate(topic.partitions):
                key = topic.topic_id, index
                keys.add(key)
                broker = cluster.brokers.get(partition.leader)
                topic_partition = TopicPartition(topic_name, index)
                log = None if broker is None else broker.replicas.led.get(topic_partition)
                if log is None:
                    continue
                for _ in self._read_log(key, (partition.leader, partition.leader_epoch), log):
                    if pace is not None and pace.has_done(1):
                        await pace.yield_turn()
        for key in self._logs.keys() - keys:
            del self._logs[key]
        self._log_by_partition = {log.topic_partition: log for log in self._logs.values()}
        self._coordinator_logs = tuple(log for log in self._logs.values() if log.decisions)
        self._compare()

    def wrong_data(self, image: ClusterImage) -> tuple[WrongData, ...]:
        """The contradictions that were found on partitions that are still there."""
        topic_ids = {topic.topic_id for topic in image.topics.values()}
        for key in [key for key in self._wrong_data if key[0] not in topic_ids]:
            del self._wrong_data[key]
        return tuple(self._wrong_data[key] for key in sorted(self._wrong_data, key=_place_of))

    def decided(
        self, topic_partition: TopicPartition, producer: ProducerEntry, newest_txn: NewestTxn | None
    ) -> DecisionEvidence:
        """The past decision about an open transaction that hangs.

        Args:
            topic_partition: The partition.
            producer: Its producer, as the leader has it.
            newest_txn: The newest transaction of its id; None if no coordinator knows it.
        """
        producer_id = producer.producer_id
        due_decisions = DueDecisions.for_partition(
            topic_partition, producer_id, producer.producer_epoch, self._decisions(producer_id)
        )
        read_log = self._log_by_partition.get(topic_partition)
        markers = PartitionMarkers(
            markers=tuple(
                PartitionMarker(
                    offset=marker.offset,
                    producer_epoch=marker.producer_epoch,
                    is_commit=marker.is_commit,
                    timestamp_ms=marker.written_at,
                )
                for marker in (() if read_log is None else read_log.markers.get(producer_id, ()))
                if marker.offset < producer.txn_first_offset
            ),
            complete_since_ms=(
                AFTER_ALL_MARKERS_MS if read_log is None else read_log.complete_since_ms
            ),
        )
        return DecisionEvidence.from_log(
            due_decisions, markers, last_write_ms=producer.last_timestamp
        ) or DecisionEvidence.from_newest_txn(
            producer_id, producer.producer_epoch, producer.last_timestamp, newest_txn
        )

    # Reading

    def _read_log(
        self, key: _LogKey, leader: tuple[BrokerId, int], log: PartitionLog
    ) -> Iterator[None]:
        """Read a log on; yields after each batch."""
        read_log = self._logs.get(key)
        if read_log is None or (
            read_log.leader != leader or log.log_end_offset < read_log.next_offset
        ):
            # Another leader's log may have been cut: what it has is read anew.
            read_log = self._logs[key] = _ReadLog(
                topic_partition=log.topic_partition,
                leader=leader,
                next_offset=log.log_start_offset,
                complete_since_ms=(  # until the first marker tells
                    BEFORE_ALL_MARKERS_MS if log.log_start_offset == 0 else AFTER_ALL_MARKERS_MS
                ),
            )
            self._wrong_data = {
                log_place: contradiction
                for log_place, contradiction in self._wrong_data.items()
                if log_place[:2] != (key[0], log.topic_partition)
                or contradiction.offset < log.log_end_offset
            }
        is_coordinator_log = log.topic_partition.topic == TRANSACTION_STATE_TOPIC
        if read_log.next_offset >= log.log_end_offset:
            return
        for batch in log.batches(max(read_log.next_offset, log.log_start_offset)):
            header = read_batch_header(batch)
            if header.base_offset >= read_log.next_offset:
                if is_coordinator_log:
                    _read_decisions(read_log, batch, header)
                elif header.is_transactional and header.has_producer_id:
                    _read_transactional(read_log, batch, header)
                read_log.next_offset = header.last_offset + 1
            yield

    def _decisions(self, producer_id: int) -> list[CoordinatorRecord]:
        return next(
            (
                log.decisions[producer_id]
                for log in self._coordinator_logs
                if producer_id in log.decisions
            ),
            [],
        )

    def _compare(self) -> None:
        """Compare new markers with the decisions."""
        id_and_decisions_by_producer = {
            producer_id: (log.transactional_ids[producer_id], producer_decisions)
            for log in self._coordinator_logs
            for producer_id, producer_decisions in log.decisions.items()
        }
        for (topic_id, _), log in self._logs.items():
            for producer_id in log.changed_producers & id_and_decisions_by_producer.keys():
                transactional_id, producer_decisions = id_and_decisions_by_producer[producer_id]
                for contradiction in contradictions(
                    log.topic_partition,
                    producer_id,
                    transactional_id,
                    [
                        decision
                        for decision in producer_decisions
                        if decision.start_timestamp_ms >= log.known_since_ms(producer_id)
                    ],
                    log.markers[producer_id],
                ):
                    self._wrong_data[topic_id, log.topic_partition, contradiction.offset] = (
                        contradiction
                    )
            log.changed_producers.clear()


def _place_of(
    log_place: tuple[uuid.UUID, TopicPartition, int],
) -> tuple[TopicPartition, int]:
    return log_place[1:]


def _read_decisions(read_log: _ReadLog, batch: bytes, header: BatchHeader) -> None:
    if header.is_control:
        return
    try:
        transitions = [
            decode_record(record.key, record.value, release_rules=LATEST_RULES)
            for record in read_records(batch, 0)
            if record.key is not None
        ]
    except (CorruptBatchError, CorruptLogRecordError):
        return  # a coordinator that loads ends there, and says so
    for transition in transitions:
        if isinstance(transition, TxnTransition):
            record = CoordinatorRecord.of_transition(transition)
            producer_records = read_log.decisions.setdefault(record.producer_id, [])
            producer_records.append(record)
            if len(producer_records) > RECORDS_KEPT_MAX:
                del producer_records[0]
            read_log.transactional_ids[record.producer_id] = transition.transactional_id


def _read_transactional(read_log: _ReadLog, batch: bytes, header: BatchHeader) -> None:
    producer_id = header.producer_id
    if not header.is_control:
        read_log.open_producers.add(producer_id)
        return
    control = read_control_record(batch)
    if control is None or not control.is_marker:
        return
    if read_log.complete_since_ms == AFTER_ALL_MARKERS_MS:
        read_log.complete_since_ms = header.max_timestamp_ms
    marker = ProducerMarker(
        offset=header.base_offset,
        producer_epoch=header.producer_epoch,
        is_commit=control.type == COMMIT,
        written_at=header.max_timestamp_ms,
        has_ended_records=producer_id in read_log.open_producers,
    )
    read_log.open_producers.discard(producer_id)
    read_log.changed_producers.add(producer_id)
    producer_markers = read_log.markers.setdefault(producer_id, [])
    producer_markers.append(marker)
    if len(producer_markers) > KEPT_MAX:
        read_log.forgotten_until_ms[producer_id] = producer_markers[0].written_at + 1
        del producer_markers[0]
