"""Writes log directories that tell of an incident, record by record, with the bytes that Apache
Kafka would have written: what no broker does wrong on demand can be put on a disk.

A ``WrittenCluster`` has two brokers with the same replicas. Producers begin, write, decide and
mark, each step as its broker would write it, also steps that no sound broker takes. Time is
virtual. The logs are those of the simulator (``txnsim.log``), so indexes, snapshots and checkpoints
fit them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.log.replicated import describe_batch
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage.log_dir import ReplicaCut, log_dir_files_in_steps
from txnsim.storage.metadata_files import MetaProperties
from txnsim.txn.log_format import encode_batch
from txnsim.txn.state import TransactionState, TxnTransition
from txnsim.types import (
    NO_PRODUCER_ID,
    TRANSACTION_STATE_TOPIC,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)
from txnsim.wire.batch import Record, assign, build_batch, control_batch
from txnsim.wire.codec import run_to_end
from txnsim_lab.scenario.story_disks import write_stored_files

BEGIN_MS: Final = 1_795_197_566_000
"""When the first record is written: 2026-11-20T18:39:26Z."""
BROKERS: Final = (1, 2)
_CLUSTER_ID: Final = "aW5jaWRlbnQtb24tZGlzaw"
_COORDINATOR: Final = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
_TIMEOUT_MS: Final = 60_000
_STATES: Final = {state.wire_name: state for state in TransactionState}


class WrittenCluster:
    """The logs of a cluster, as they are written."""

    def __init__(self) -> None:
        self.now_ms = BEGIN_MS
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._coordinator_entries: list[tuple[int, TransactionalId, bytes]] = []
        """(offset, transactional id, batch) of the coordinator's log."""
        self._next_producer_id = 1_000

    def producer(self, transactional_id: str, *, is_v2: bool) -> WrittenProducer:
        """A new producer, by the old flow or by transactions v2."""
        self._next_producer_id += 1
        return WrittenProducer(self, transactional_id, self._next_producer_id, is_v2=is_v2)

    def move_leader(self, partition: TopicPartition) -> None:
        """Give a partition a new leader; for ``__transaction_state`` a new coordinator."""
        log = self._log_of(partition)
        log.become_leader(log.leader_epoch + 1)

    def move_coordinator(self) -> None:
        """Move the coordinator of every transactional id."""
        self.move_leader(_COORDINATOR)

    @property
    def coordinator_epoch(self) -> int:
        return self._log_of(_COORDINATOR).leader_epoch

    def append_records(
        self,
        partition: TopicPartition,
        values: Sequence[bytes],
        *,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
    ) -> int:
        """Append a transactional batch; returns its first offset."""
        log = self._log_of(partition)
        base_offset = log.log_end_offset
        batch = build_batch(
            [Record(key=b"%d" % (base_offset + n), value=value) for n, value in enumerate(values)],
            timestamp_ms=self.now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        self._append(log, assign(batch, base_offset=base_offset, leader_epoch=log.leader_epoch))
        return base_offset

    def append_marker(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool,
        coordinator_epoch: int | None = None,
    ) -> int:
        """Append a marker; returns its offset. Unless an epoch is given it is the coordinator's."""
        log = self._log_of(partition)
        epoch = self.coordinator_epoch if coordinator_epoch is None else coordinator_epoch
        marker_offset = log.log_end_offset
        batch = control_batch(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_commit=is_commit,
            coordinator_epoch=epoch,
            base_offset=marker_offset,
            leader_epoch=log.leader_epoch,
            timestamp_ms=self.now_ms,
        )
        self._append(log, batch)
        return marker_offset

    def append_entry(self, transition: TxnTransition) -> int:
        """Append a record to the coordinator's log; returns its offset."""
        log = self._log_of(_COORDINATOR)
        offset = log.log_end_offset
        batch = encode_batch(
            [transition],
            finalized_version=TransactionVersion.TV_2,
            now_ms=self.now_ms,
            release_rules=LATEST_RULES,
        )
        assigned_batch = assign(batch, base_offset=offset, leader_epoch=log.leader_epoch)
        self._append(log, assigned_batch)
        self._coordinator_entries.append((offset, transition.transactional_id, assigned_batch))
        return offset

    def clean_coordinator_log(self) -> None:
        """Compact the coordinator's log: of each transactional id the newest record stays."""
        newest_offsets = {name: offset for offset, name, _ in self._coordinator_entries}
        cleaned_log = _new_log(_COORDINATOR)
        for offset, name, batch in self._coordinator_entries:
            if newest_offsets[name] == offset:
                self._append(cleaned_log, batch)
        cleaned_log.local.cleaned_until = cleaned_log.log_end_offset
        self._logs[_COORDINATOR] = cleaned_log

    def write(self, directory: Path) -> tuple[Path, ...]:
        """Write a directory for each broker, as after a stop in order; returns their paths.

        Raises:
            ConfigError: A file can't be written.
        """
        return tuple(
            self._write_broker(directory / f"broker-{broker}", broker) for broker in BROKERS
        )

    def _write_broker(self, path: Path, broker_id: int) -> Path:
        replicas = [
            ReplicaCut.of_log(log, topic_id=_topic_id(partition.topic))
            for partition, log in sorted(self._logs.items())
        ]
        meta = MetaProperties(
            cluster_id=_CLUSTER_ID,
            node_id=broker_id,
            directory_id=uuid.uuid5(uuid.NAMESPACE_OID, f"broker-{broker_id}"),
        )
        write_stored_files(
            path, run_to_end(log_dir_files_in_steps(replicas, meta, broker_epoch=broker_id))
        )
        return path

    def _log_of(self, partition: TopicPartition) -> PartitionLog:
        if partition not in self._logs:
            self._logs[partition] = _new_log(partition)
        return self._logs[partition]

    def _append(self, log: PartitionLog, batch: bytes) -> None:
        log.append(describe_batch(batch), now_ms=self.now_ms)
        log.advance_high_watermark(log.log_end_offset)


def _new_log(partition: TopicPartition) -> PartitionLog:
    return PartitionLog(
        topic_partition=partition, config=LogConfig(rules=LATEST_RULES), leader_epoch=0
    )


def _topic_id(topic: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, topic)


class WrittenProducer:
    """A transactional producer with its coordinator, step by step. Each step takes some time."""

    def __init__(
        self, cluster: WrittenCluster, transactional_id: str, producer_id: int, *, is_v2: bool
    ) -> None:
        self.transactional_id: Final = transactional_id
        self.producer_id: Final = producer_id
        self.epoch = 0
        """Of its next records."""
        self.marker_epoch = 0
        """Of its last decision."""
        self._is_v2 = is_v2
        self._cluster = cluster
        self._sequence_by_partition: dict[TopicPartition, int] = {}
        self._partitions: set[TopicPartition] = set()
        self._began_ms = -1
        self._is_commit = True
        self._log_state("Empty")

    def write(
        self, partition: TopicPartition, record_count: int = 1, *, is_late: bool = False
    ) -> int:
        """Write records within the transaction, which begins with the first; returns their first
        offset. Late ones do not reach the coordinator.
        """
        self._cluster.now_ms += 10
        if not is_late and partition not in self._partitions:
            if not self._partitions:
                self._began_ms = self._cluster.now_ms
            self._partitions.add(partition)
            self._log_state("Ongoing")
        sequence = self._sequence_by_partition.get(partition, 0)
        self._sequence_by_partition[partition] = sequence + record_count
        return self._cluster.append_records(
            partition,
            [
                b"%s %d" % (self.transactional_id.encode(), sequence + n)
                for n in range(record_count)
            ],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            sequence=sequence,
        )

    def decide(self, *, is_commit: bool) -> int:
        """Let the coordinator decide; returns the offset of the record."""
        self._cluster.now_ms += 10
        self._is_commit = is_commit
        if self._is_v2:
            self.epoch += 1
            self._sequence_by_partition.clear()
        self.marker_epoch = self.epoch
        return self._log_state("PrepareCommit" if is_commit else "PrepareAbort")

    def mark(self, partition: TopicPartition, *, is_commit: bool | None = None) -> int:
        """Let the coordinator's marker be written; returns its offset. ``is_commit`` writes another
        outcome than the decided one.
        """
        self._cluster.now_ms += 2
        return self._cluster.append_marker(
            partition,
            producer_id=self.producer_id,
            producer_epoch=self.marker_epoch,
            is_commit=self._is_commit if is_commit is None else is_commit,
        )

    def complete(self) -> None:
        """Let the coordinator complete the transaction."""
        self._cluster.now_ms += 2
        self._partitions.clear()
        self._log_state("CompleteCommit" if self._is_commit else "CompleteAbort")

    def end(self, *, is_commit: bool = True) -> None:
        """Decide, mark every partition, and complete."""
        self.decide(is_commit=is_commit)
        for partition in sorted(self._partitions):
            self.mark(partition)
        self.complete()

    def run(self, partitions: Sequence[TopicPartition], *, is_commit: bool = True) -> None:
        """One whole transaction, a record on each partition."""
        for partition in partitions:
            self.write(partition)
        self.end(is_commit=is_commit)

    def _log_state(self, state: str) -> int:
        now_ms = self._cluster.now_ms
        is_idle = state in ("Empty", "CompleteCommit", "CompleteAbort")
        txn_transition = TxnTransition(
            transactional_id=TransactionalId(self.transactional_id),
            producer_id=ProducerId(self.producer_id),
            prev_producer_id=NO_PRODUCER_ID,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=ProducerEpoch(self.epoch),
            last_producer_epoch=ProducerEpoch(-1),
            txn_timeout_ms=_TIMEOUT_MS,
            state=_STATES[state],
            partitions=frozenset() if is_idle else frozenset(self._partitions),
            start_timestamp_ms=-1 if state == "Empty" else self._began_ms,
            last_update_timestamp_ms=now_ms,
            client_version=TransactionVersion.TV_2 if self._is_v2 else TransactionVersion.TV_0,
        )
        return self._cluster.append_entry(txn_transition)
