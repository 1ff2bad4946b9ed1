"""Reads the coordinators' logs in the directories.

Of each partition of ``__transaction_state`` the leading replica is read; if it can't be read to its
end, another one. If there is much to read, Spark's workers do it (``_read_compiled``). Kafka's
counterparts: TransactionLog, TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import CorruptBatchError, CorruptLogRecordError, MissingExtraError
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage.log_file import StoredBatch, TornTail, read_log_file
from txnsim.txn.log_format import decode_record
from txnsim.txn.state import Tombstone, TxnTransition
from txnsim.types import TRANSACTION_STATE_TOPIC, TransactionVersion
from txnsim.wire.batch import BatchHeader, crc_is_valid, only_record
from txnsim.wire.records import iter_records
from txnsim_spark.forensics._coordinator_entries import (
    DECIDED_STATES,
    CoordinatorEntry,
    Coordinators,
    EntryBuilder,
    TxnRecord,
    coordinators_of,
)
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.forensics.verdicts import elected_replica
from txnsim_spark.scan.log_dirs import OnProblem, ignore_problem
from txnsim_spark.scan.log_seek import last_batch_of
from txnsim_spark.scan.segments import SegmentFile

SAMPLE_SIZE: Final = 200
"""Number of ids of a partition that suffices to guess the number of partitions."""


def coordinator_logs_of(
    replica_states: Iterable[ReplicaState],
) -> dict[int, tuple[ReplicaState, ...]]:
    """Partition of ``__transaction_state`` -> its replicas, the most trustworthy first."""
    replicas_by_partition: dict[int, list[ReplicaState]] = {}
    for state in replica_states:
        if state.replica.topic == TRANSACTION_STATE_TOPIC:
            replicas_by_partition.setdefault(state.replica.partition, []).append(state)
    return {
        partition: _rank_replicas(replicas_by_partition[partition])
        for partition in sorted(replicas_by_partition)
    }


def _rank_replicas(replica_states: Sequence[ReplicaState]) -> tuple[ReplicaState, ...]:
    unranked_states = list(replica_states)
    ranked_states = []
    while unranked_states:
        best_ends = elected_replica([state.ends for state in unranked_states])
        ranked_states.append(next(state for state in unranked_states if state.ends is best_ends))
        unranked_states.remove(ranked_states[-1])
    return tuple(ranked_states)


def read_coordinators(
    replicas_by_partition: Mapping[int, Sequence[ReplicaState]],
    on_problem: OnProblem,
    replay_replica: Replay | None = None,
) -> Coordinators:
    """Replay the coordinators' logs.

    Args:
        replicas_by_partition: Partition -> its replicas, the most trustworthy first.
        on_problem: Called with what can't be read.
        replay_replica: Replays one replica; from its segments unless given.
    """
    replay_replica = replay_replica or replay_log
    best_logs: list[ReplayedLog] = []
    damaged_partitions: list[int] = []
    cut_off_by_partition: dict[int, str] = {}
    newest_timestamp_ms = -1
    for partition, replicas in replicas_by_partition.items():
        replayed_logs = [replay_replica(replicas[0], on_problem)]
        newest_timestamp_ms = max(newest_timestamp_ms, replayed_logs[0].newest_timestamp_ms)
        for state in replicas[1:]:
            if replayed_logs[-1].is_sound:
                break
            replayed_logs.append(replay_replica(state, on_problem))
        best_log = next(
            (replayed_log for replayed_log in replayed_logs if replayed_log.is_sound),
            replayed_logs[0],
        )
        best_logs.append(best_log)
        if best_log.is_damaged:
            damaged_partitions.append(partition)
        if best_log.cut_off:
            cut_off_by_partition[partition] = best_log.cut_off
    return coordinators_of(
        (entry for replayed_log in best_logs for entry in replayed_log.entries),
        forgotten_id_by_producer={
            producer_id: transactional_id
            for replayed_log in best_logs
            for producer_id, transactional_id in replayed_log.forgotten_id_by_producer.items()
        },
        partitions_on_disk=replicas_by_partition,
        damaged_partitions=damaged_partitions,
        cut_off_by_partition=cut_off_by_partition,
        newest_timestamp_ms=newest_timestamp_ms,
        decisions_by_producer={
            producer_id: decisions
            for replayed_log in best_logs
            for producer_id, decisions in replayed_log.decisions_by_producer.items()
        },
    )


def _last_batch_of(segment: SegmentFile) -> BatchHeader | None:
    try:
        return last_batch_of(segment)
    except OSError:  # reported where its records are read
        return None


class LogDamage(msgspec.Struct):
    """The damage of a replica of ``__transaction_state``; filled while it is read."""

    is_damaged: bool = False
    """Records can't be read, and an unclean stop does not explain it."""
    cut_off: str = ""
    """The place and the cause, if a starting broker would cut off the log; else empty."""


def records_of(
    state: ReplicaState, on_problem: OnProblem, damage: LogDamage
) -> Iterator[TxnRecord]:
    """The records of a replica of ``__transaction_state``, in order. A batch of a wrong CRC that a
    starting broker would not cut off counts as damage, and is read as coordinators read it.

    Args:
        state: The replica.
        on_problem: Called with each place that can't be read.
        damage: Takes the damage found.
    """
    damage.is_damaged = bool(state.damage)  # reported where the replica was looked at
    for segment in state.segments:
        torn_tails: list[TornTail] = []
        try:
            yield from _records_in(segment, on_problem, damage, torn_tails)
        except OSError as error:
            on_problem(f"{segment.path}: {error.strerror or error}; passed by")
            damage.is_damaged = True
        if torn_tails:
            torn_place = f"{segment.path}, byte {torn_tails[0].position}: {torn_tails[0].reason}"
            if segment.is_recovered:
                damage.cut_off = torn_place
                return
            on_problem(torn_place)
            damage.is_damaged = True


def _records_in(
    segment: SegmentFile, on_problem: OnProblem, damage: LogDamage, torn_tails: list[TornTail]
) -> Iterator[TxnRecord]:
    stored_batches = read_log_file(
        Path(segment.path),
        on_torn=torn_tails.append,
        checks_crc=segment.is_recovered,
        note_old_message=ignore_problem,
    )
    for stored_batch in stored_batches:
        batch_place = f"{segment.path}, offset {stored_batch.header.base_offset}"
        if not segment.is_recovered and not crc_is_valid(
            stored_batch.batch_bytes, stored_batch.header
        ):
            on_problem(
                f"{segment.path}, byte {stored_batch.position}: {stored_batch.header.wrong_crc}"
            )
            damage.is_damaged = True
        if stored_batch.header.is_control:
            continue
        try:
            yield from _decode_records(stored_batch, segment.partition)
        except (CorruptBatchError, CorruptLogRecordError, MissingExtraError) as error:
            on_problem(f"{batch_place}: {error}")
            damage.is_damaged = True


def _decode_records(stored_batch: StoredBatch, partition_index: int) -> Iterator[TxnRecord]:
    single_record = only_record(stored_batch.batch_bytes, stored_batch.header)
    if single_record is not None:
        key, value = single_record
        decoded_entry = decode_record(key, value, release_rules=LATEST_RULES)
        if decoded_entry is not None:
            yield _txn_record(decoded_entry, partition_index, stored_batch.header.base_offset)
        return
    for record in iter_records(stored_batch.batch_bytes):
        if record.key is None:
            raise CorruptLogRecordError(f"record {record.offset} has no key")
        decoded_entry = decode_record(record.key, record.value, release_rules=LATEST_RULES)
        if (
            decoded_entry is not None
        ):  # a version that is not known: coordinators pass it over as well
            yield _txn_record(decoded_entry, partition_index, record.offset)


def _txn_record(
    decoded_entry: TxnTransition | Tombstone, partition_index: int, offset: int
) -> TxnRecord:
    if isinstance(decoded_entry, Tombstone):
        return TxnRecord(
            log_partition=partition_index,
            offset=offset,
            transactional_id=decoded_entry.transactional_id,
            state="",
        )
    return TxnRecord(
        log_partition=partition_index,
        offset=offset,
        transactional_id=decoded_entry.transactional_id,
        state=decoded_entry.state.wire_name,
        producer_id=decoded_entry.producer_id,
        producer_epoch=decoded_entry.producer_epoch,
        previous_producer_id=decoded_entry.prev_producer_id,
        next_producer_id=decoded_entry.next_producer_id,
        timeout_ms=decoded_entry.txn_timeout_ms,
        partitions=decoded_entry.partitions,
        start_timestamp_ms=decoded_entry.start_timestamp_ms,
        last_update_timestamp_ms=decoded_entry.last_update_timestamp_ms,
        is_v2=decoded_entry.client_version >= TransactionVersion.TV_2,
    )


class ReplayedLog(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a coordinator after a replica's whole log."""

    entries: tuple[CoordinatorEntry, ...]
    forgotten_id_by_producer: Mapping[int, str]
    """Producer id -> transactional id that was deleted."""
    decisions_by_producer: Mapping[int, Sequence[TxnRecord]]
    """Producer id -> every decision, in order."""
    newest_timestamp_ms: int
    """Newest record's timestamp; -1 without records."""
    is_damaged: bool
    cut_off: str

    @property
    def is_sound(self) -> bool:
        return not self.is_damaged and not self.cut_off

    def restricted_to(self, producer_ids: Set[int]) -> ReplayedLog:
        """The part that a search needs: entries of some producers, entries that still owe markers,
        and a sample of others.
        """
        entries = tuple(
            entry
            for entry_number, entry in enumerate(self.entries)
            if entry_number < SAMPLE_SIZE
            or entry.newest_record.state in DECIDED_STATES
            or not producer_ids.isdisjoint(entry.newest_record.producer_ids)
        )
        deciding_producer_ids = producer_ids | {
            entry.decision.producer_id for entry in entries if entry.decision
        }
        return msgspec.structs.replace(
            self,
            entries=entries,
            forgotten_id_by_producer={
                producer_id: transactional_id
                for producer_id, transactional_id in self.forgotten_id_by_producer.items()
                if producer_id in producer_ids
            },
            decisions_by_producer={
                producer_id: decisions
                for producer_id, decisions in self.decisions_by_producer.items()
                if producer_id in deciding_producer_ids
            },
        )


def replay_log(state: ReplicaState, on_problem: OnProblem) -> ReplayedLog:
    """Replay the log of one replica.

    Args:
        state: The replica.
        on_problem: Called with what can't be read.
    """
    entry_builder, damage = EntryBuilder(), LogDamage()
    for record in records_of(state, on_problem, damage):
        entry_builder.take_record(record)
    last_batch = _last_batch_of(state.segments[-1]) if state.segments else None
    lost_end_texts = [f"{state.replica.path} {shortcoming}" for shortcoming in state.shortcomings]
    lost_end_texts += [f"{state.replica.path}: {state.lost_end}"] if state.lost_end else []
    return ReplayedLog(
        entries=entry_builder.entries,
        forgotten_id_by_producer=entry_builder.forgotten_id_by_producer,
        decisions_by_producer=entry_builder.decisions_by_producer,
        newest_timestamp_ms=-1 if last_batch is None else last_batch.max_timestamp_ms,
        is_damaged=damage.is_damaged or (bool(lost_end_texts) and not damage.cut_off),
        cut_off=damage.cut_off or next(iter(lost_end_texts), ""),
    )


Replay = Callable[[ReplicaState, OnProblem], ReplayedLog]
