"""The coordinators' logs in the directories, read on the driver: where there is little of them.

Of each partition of ``__transaction_state`` one replica is read, the one whose word counts; another
one where that can't be read to its end. ``coordinator_log_sql`` asks the table ``transactions``
where there is much. Kafka's counterparts: TransactionLog,
TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from txnsim.errors import CorruptBatchError, CorruptLogRecordError, MissingExtraError
from txnsim.pipeline.forensics.coordinator_entries import (
    Coordinators,
    EntryFolder,
    TxnRecord,
    coordinators_of,
)
from txnsim.pipeline.forensics.replica_state import ReplicaState
from txnsim.pipeline.forensics.verdicts import leading
from txnsim.pipeline.scan.log_dirs import OnProblem
from txnsim.pipeline.scan.log_seek import last_batch_of
from txnsim.storage.log_file import StoredBatch, TornTail, read_log_file
from txnsim.txn.log_format import decode_record
from txnsim.txn.state import Tombstone, TxnTransition
from txnsim.types import TRANSACTION_STATE_TOPIC
from txnsim.wire.batch import read_records

SAMPLE: Final = 200
"""Ids per partition that its number among all partitions is guessed from."""


def logs_of(states: Iterable[ReplicaState]) -> dict[int, tuple[ReplicaState, ...]]:
    """Partition of ``__transaction_state`` -> its replicas, the one whose word counts first."""
    found: dict[int, list[ReplicaState]] = {}
    for state in states:
        if state.replica.topic == TRANSACTION_STATE_TOPIC:
            found.setdefault(state.replica.partition, []).append(state)
    return {partition: _ranked(found[partition]) for partition in sorted(found)}


def _ranked(states: Sequence[ReplicaState]) -> tuple[ReplicaState, ...]:
    left = list(states)
    ranked = []
    while left:
        first = leading([state.ends for state in left])
        ranked.append(next(state for state in left if state.ends is first))
        left.remove(ranked[-1])
    return tuple(ranked)


def read_coordinators(
    logs: Mapping[int, Sequence[ReplicaState]], on_problem: OnProblem
) -> Coordinators:
    """Replay them.

    Args:
        logs: Partition -> replicas in the order of their word.
        on_problem: Told of what can't be read.

    Raises:
        OSError: A segment can't be read.
    """
    folders: list[EntryFolder] = []
    damaged = []
    for partition, replicas in logs.items():
        for state in replicas:
            folder, is_sound = _replayed(state, on_problem)
            if is_sound:
                break
        else:
            folder, _ = _replayed(replicas[0], _told_already)
            damaged.append(partition)
        folders.append(folder)
    return coordinators_of(
        (entry for folder in folders for entry in folder.entries),
        forgotten={
            producer_id: name for folder in folders for producer_id, name in folder.gone.items()
        },
        held=logs,
        damaged=damaged,
        newest_timestamp_ms=newest_timestamp_of(logs),
    )


def sample_of(logs: Mapping[int, Sequence[ReplicaState]]) -> set[tuple[str, int]]:
    """Some (transactional id, partition): enough to tell how many partitions there are.

    Raises:
        OSError: A segment can't be read.
    """
    found: set[tuple[str, int]] = set()
    for partition, replicas in logs.items():
        seen: set[str] = set()
        for record in records_of(replicas[0], _told_already, lambda: None):
            seen.add(record.transactional_id)
            if len(seen) >= SAMPLE:
                break
        found.update((name, partition) for name in seen)
    return found


def newest_timestamp_of(logs: Mapping[int, Sequence[ReplicaState]]) -> int:
    """When a coordinator last wrote; -1 where none did.

    Raises:
        OSError: A segment can't be read.
    """
    ends = (last_batch_of(ranked[0].segments[-1]) for ranked in logs.values() if ranked[0].segments)
    return max((one.max_timestamp_ms for one in ends if one is not None), default=-1)


def records_of(
    state: ReplicaState, on_problem: OnProblem, on_damage: Callable[[], object]
) -> Iterator[TxnRecord]:
    """The records of a replica of ``__transaction_state``, in order.

    Args:
        state: The replica.
        on_problem: Told of each place that can't be read.
        on_damage: Called where nothing follows, though no kill explains it: a starting broker would
            not cut the rest off.
    """
    for segment in state.segments:
        torn: list[TornTail] = []
        for stored in read_log_file(
            Path(segment.path), on_torn=torn.append, check_crc=segment.is_recovered
        ):
            if stored.header.is_control:
                continue
            try:
                yield from _decoded(stored, segment.partition)
            except (CorruptBatchError, CorruptLogRecordError, MissingExtraError) as error:
                on_problem(f"{segment.path}, offset {stored.header.base_offset}: {error}")
                on_damage()
                return
        if torn:
            if not segment.is_recovered:
                on_problem(f"{segment.path}, byte {torn[0].position}: {torn[0].reason}")
                on_damage()
            return


def _decoded(stored: StoredBatch, partition: int) -> Iterator[TxnRecord]:
    for record in read_records(stored.data):
        if record.key is None:
            raise CorruptLogRecordError(f"record {record.offset} has no key")
        found = decode_record(record.key, record.value)
        match found:
            case None:  # a version that is not known: coordinators pass it over as well
                continue
            case Tombstone():
                yield TxnRecord(
                    log_partition=partition,
                    offset=record.offset,
                    transactional_id=found.transactional_id,
                    state="",
                )
            case TxnTransition():
                yield _record(found, partition, record.offset)


def _record(found: TxnTransition, partition: int, offset: int) -> TxnRecord:
    return TxnRecord(
        log_partition=partition,
        offset=offset,
        transactional_id=found.transactional_id,
        state=found.state.wire_name,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        previous_producer_id=found.prev_producer_id,
        next_producer_id=found.next_producer_id,
        timeout_ms=found.txn_timeout_ms,
        partitions=found.partitions,
        start_timestamp_ms=found.start_timestamp_ms,
        last_update_timestamp_ms=found.last_update_timestamp_ms,
    )


def _replayed(state: ReplicaState, on_problem: OnProblem) -> tuple[EntryFolder, bool]:
    """The entries as they are at the replica's end, and whether that was come to."""
    folder = EntryFolder()
    damage: list[bool] = []
    for record in records_of(state, on_problem, lambda: damage.append(True)):
        folder.take(record)
    return folder, not damage


def _told_already(_problem: str) -> None:
    """Said before."""
