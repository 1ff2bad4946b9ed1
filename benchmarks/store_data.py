"""Log directories of brokers over some hours. Each segment holds the batches of one hour, with the
indexes and the snapshot that a broker writes beside it. In every fifth partition one transaction
hangs, and the hour in which it began is known.

``python -m benchmarks.store_data DIR --brokers 50 --partitions 100 --hours 24``
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.log_data import make_replica_folder, make_transaction_record, write_meta_properties
from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names, producer_snapshot
from txnsim.storage._indexes import encode_indexes_in_steps
from txnsim.storage.checkpoints import encode_leader_epochs, encode_offsets
from txnsim.txn.log_format import encode_batch
from txnsim.txn.state import TransactionState
from txnsim.types import TopicPartition, TransactionVersion
from txnsim.wire.batch import Record, assign, build_batch, read_batch_header
from txnsim.wire.codec import run_to_end
from txnsim.wire.control import control_batch

BEGAN_MS: Final = 1_790_000_000_000 // 86_400_000 * 86_400_000
HOUR_MS: Final = 3_600_000
REPLICATION_FACTOR: Final = 3
STRAY_PRODUCER_ID: Final = 900_000
RECORDS_PER_BATCH: Final = 10
HANGING_HOURS: Final = {1: 18, 6: 9}
"""Last digit of a partition -> the hour in which a transaction begins that hangs."""


class LogHours(msgspec.Struct, frozen=True, kw_only=True):
    """How many brokers, partitions, hours and transactions the directories have."""

    brokers: int = 1
    partitions: int = 20
    hours: int = 24
    transactions: int = 10
    """Of an hour."""


def make_directories(directory: Path, log_hours: LogHours) -> int:
    """Make the directories of all brokers.

    Returns:
        How many segments of user topics.
    """
    log_dirs = [directory / f"broker-{broker}" for broker in range(log_hours.brokers)]
    for broker_number, log_dir in enumerate(log_dirs):
        log_dir.mkdir(parents=True)
        write_meta_properties(log_dir, node_id=broker_number)
    replication_factor = min(REPLICATION_FACTOR, log_hours.brokers)
    end_offsets_by_broker: list[dict[TopicPartition, int]] = [{} for _ in log_dirs]
    flushed_offsets_by_broker: list[dict[TopicPartition, int]] = [{} for _ in log_dirs]
    for partition in range(log_hours.partitions):
        topic_partition = TopicPartition("orders", partition)
        content_by_name, flushed_offset, end_offset = _make_replica_files(log_hours, partition)
        for copy_number in range(replication_factor):
            broker = (partition + copy_number) % log_hours.brokers
            _write_replica(log_dirs[broker], topic_partition, content_by_name)
            end_offsets_by_broker[broker][topic_partition] = end_offset
            flushed_offsets_by_broker[broker][topic_partition] = flushed_offset
    topic_partition = TopicPartition("__transaction_state", 0)
    coordinator_log = b"".join(_make_coordinator_batches(log_hours))
    for broker in range(replication_factor):
        _write_replica(
            log_dirs[broker], topic_partition, {names.Suffix.LOG.file_name(0): coordinator_log}
        )
    for log_dir, high_watermarks, recovery_points in zip(
        log_dirs, end_offsets_by_broker, flushed_offsets_by_broker, strict=True
    ):
        (log_dir / names.FileName.HIGH_WATERMARKS).write_text(encode_offsets(high_watermarks))
        (log_dir / names.FileName.RECOVERY_POINTS).write_text(encode_offsets(recovery_points))
    return log_hours.partitions * replication_factor * log_hours.hours


def _write_replica(
    log_dir: Path, partition: TopicPartition, content_by_file_name: dict[str, bytes]
) -> None:
    replica_folder = make_replica_folder(log_dir, partition.topic, partition.partition)
    (replica_folder / names.FileName.LEADER_EPOCHS).write_text(encode_leader_epochs([(0, 0)]))
    for file_name, file_content in content_by_file_name.items():
        (replica_folder / file_name).write_bytes(file_content)


def _make_replica_files(log_hours: LogHours, partition: int) -> tuple[dict[str, bytes], int, int]:
    """Make a partition's log; return (files, base offset of the last segment, log end)."""
    content_by_file_name: dict[str, bytes] = {}
    next_offset = base_offset = 0
    next_sequences: defaultdict[int, int] = defaultdict(int)
    entry_by_producer: dict[int, SnapshotEntry] = {}
    for hour in range(log_hours.hours):
        base_offset = next_offset
        batches: list[bytes] = []
        for batch in _make_batches_of_hour(log_hours, partition, hour, next_sequences):
            batches.append(assign(batch, base_offset=next_offset, leader_epoch=0))
            header = read_batch_header(batches[-1])
            entry_before = entry_by_producer.get(header.producer_id)
            is_open = entry_before is not None and entry_before.txn_first_offset >= 0
            txn_first_offset = (
                entry_before.txn_first_offset
                if is_open and entry_before is not None
                else next_offset
            )
            entry_by_producer[header.producer_id] = SnapshotEntry(
                header.producer_id,
                0,
                *(
                    (
                        entry_before.last_sequence,
                        entry_before.last_offset,
                        entry_before.offset_delta,
                    )
                    if header.is_control and entry_before is not None
                    else (
                        header.last_sequence,
                        header.last_offset,
                        header.last_offset - next_offset,
                    )
                ),
                header.max_timestamp_ms,
                0 if header.is_control else -1,
                -1 if header.is_control else txn_first_offset,
            )
            next_offset = header.last_offset + 1
        index_content, time_index_content = run_to_end(
            encode_indexes_in_steps(batches, base_offset=base_offset, index_interval_bytes=4_096)
        )
        content_by_file_name[names.Suffix.LOG.file_name(base_offset)] = b"".join(batches)
        content_by_file_name[names.Suffix.INDEX.file_name(base_offset)] = index_content
        content_by_file_name[names.Suffix.TIME_INDEX.file_name(base_offset)] = time_index_content
        snapshot_name = names.Suffix.SNAPSHOT.file_name(next_offset)
        if hour + 1 < log_hours.hours:
            content_by_file_name[snapshot_name] = run_to_end(
                producer_snapshot.encode_in_steps(list(entry_by_producer.values()))
            )
    return content_by_file_name, base_offset, next_offset


def _make_batches_of_hour(
    log_hours: LogHours, partition: int, hour: int, next_sequences: defaultdict[int, int]
) -> Iterator[bytes]:
    pause_ms = HOUR_MS // (log_hours.transactions + 1)
    for transaction_number in range(log_hours.transactions):
        began_ms = BEGAN_MS + hour * HOUR_MS + transaction_number * pause_ms
        producer_id = 1_000 + partition * 100 + transaction_number % 3
        yield _make_data_batch(producer_id, next_sequences, began_ms)
        if hour == HANGING_HOURS.get(partition % 10) and not transaction_number:
            yield _make_data_batch(STRAY_PRODUCER_ID + partition, next_sequences, began_ms + 1)
        yield control_batch(
            producer_id=producer_id,
            producer_epoch=0,
            is_commit=transaction_number % 5 > 0,
            coordinator_epoch=0,
            base_offset=0,
            leader_epoch=0,
            timestamp_ms=began_ms + 2,
        )


def _make_data_batch(
    producer_id: int, next_sequences: defaultdict[int, int], timestamp_ms: int
) -> bytes:
    batch = build_batch(
        [Record(key=b"key-%d" % number, value=b"v" * 90) for number in range(RECORDS_PER_BATCH)],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=next_sequences[producer_id],
        is_transactional=True,
    )
    next_sequences[producer_id] += RECORDS_PER_BATCH
    return batch


def _make_coordinator_batches(log_hours: LogHours) -> Iterator[bytes]:
    """Make the coordinator's log: every transaction that ended, and none of those that hang."""
    end_ms = BEGAN_MS + log_hours.hours * HOUR_MS
    for offset in range(log_hours.partitions * 3):
        producer_id = 1_000 + offset // 3 * 100 + offset % 3
        final_state = TransactionState.COMPLETE_COMMIT
        transition = make_transaction_record(
            f"app-{producer_id}", producer_id, final_state, frozenset(), end_ms - 900
        )
        batch = encode_batch(
            [transition],
            finalized_version=TransactionVersion.TV_1,
            now_ms=end_ms - 900,
            release_rules=LATEST_RULES,
        )
        yield assign(batch, base_offset=offset, leader_epoch=0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the log directories, and print the number of segments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store_data")
    parser.add_argument("directory", type=Path)
    default_hours = LogHours()
    for option_name in ("brokers", "partitions", "hours", "transactions"):
        parser.add_argument(
            f"--{option_name}", type=int, default=getattr(default_hours, option_name)
        )
    args = parser.parse_args(arguments)
    log_hours = LogHours(
        brokers=args.brokers,
        partitions=args.partitions,
        hours=args.hours,
        transactions=args.transactions,
    )
    sys.stdout.write(f"{make_directories(args.directory, log_hours)} segments\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
