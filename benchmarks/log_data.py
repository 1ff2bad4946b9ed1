"""Log directories to measure the pipeline on, made from a seed: what is in them is known.

A directory holds partitions of ``orders`` full of small batches (90 bytes, one record each) of
transactions that ended, some that hang (their coordinator knows nothing of them) and some that are
alive, and the coordinator's log that tells them apart. Another one holds batches of 64 kB. Both are
made once per change of the code that makes them, below ``.cache``; a half-made one is never used.
"""

from __future__ import annotations

import hashlib
import inspect
import random
import shutil
import struct
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import crc32c
import msgspec
import numpy as np

from benchmarks import log_fill
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.storage.metadata_files import (
    MetaProperties,
    encode_meta_properties,
    encode_partition_metadata,
)
from txnsim.txn.log_format import encode_batch
from txnsim.txn.state import TransactionState, TxnTransition
from txnsim.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
    partition_for,
)
from txnsim.wire.batch import Record, assign, build_batch, read_batch_header
from txnsim.wire.batch_header import BatchHeader
from txnsim_spark.scan import kernel
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import SegmentDamage
from txnsim_spark.scan.walk import batch_rows

CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "benchmarks"
TOPIC: Final = "orders"
LARGE_TOPIC: Final = "parcels"
COORDINATOR_TOPIC: Final = "__transaction_state"
COORDINATOR_PARTITIONS: Final = 4
BEGAN_MS: Final = 1_750_000_000_000
FIRST_PRODUCER: Final = 1_000
FIRST_STRAY_PRODUCER: Final = 900_000
STRAY_BATCHES: Final = 3
LARGE_BATCH_BYTES: Final = 64 << 10
INDEX_INTERVAL_BYTES: Final = 1 << 13
"""Between entries of an index: about a broker's 4 kB and a batch."""

_DESCRIPTION_FILE_NAME: Final = "made.json"
_CRC: Final = struct.Struct(">I")
_LONG: Final = struct.Struct(">q")


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How many partitions, bytes and transactions a log directory has."""

    seed: int = 8
    partitions: int = 8
    segment_bytes: int = 50_000_000
    transactions: int = 100_000
    batches: int = 221
    """Of data, in each transaction: with its marker about 20 kB."""
    producers: int = 1_000
    hanging: int = 25
    alive: int = 40


class UnendedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that no producer ended."""

    partition: int
    producer_id: int
    start_offset: int
    is_hanging: bool


class GeneratedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A generated log directory and what it holds."""

    directory: str
    bytes: int
    """Size of the topic's segments."""
    batches: int
    transactions: int
    strays: tuple[UnendedTransaction, ...] = ()


def make_small_batches_log(scale: Scale) -> GeneratedLog:
    """Generate a log directory of transactions in small batches."""
    scale_json = msgspec.json.encode(scale)
    return _make_once(
        scale_json + _read_source(log_fill),
        lambda directory: _write_small_batches_log(directory, scale),
    )


def make_large_batches_log(size_bytes: int) -> GeneratedLog:
    """Make a log directory of one partition: a segment of about this size, in batches of 64 kB."""
    return _make_once(
        b"large %d" % size_bytes, lambda directory: _write_large_batches_log(directory, size_bytes)
    )


def _make_once(digested_bytes: bytes, write_log: Callable[[Path], GeneratedLog]) -> GeneratedLog:
    digest = hashlib.sha256(digested_bytes + Path(__file__).read_bytes()).hexdigest()[:12]
    directory = CACHE / f"logs-{digest}"
    if not directory.is_dir():
        partial_directory = directory.with_suffix(".partial")
        shutil.rmtree(partial_directory, ignore_errors=True)
        partial_directory.mkdir(parents=True)
        generated_log = write_log(partial_directory)
        write_meta_properties(partial_directory, node_id=1)
        (partial_directory / _DESCRIPTION_FILE_NAME).write_bytes(msgspec.json.encode(generated_log))
        partial_directory.rename(directory)
    generated_log = msgspec.json.decode(
        (directory / _DESCRIPTION_FILE_NAME).read_bytes(), type=GeneratedLog
    )
    return msgspec.structs.replace(generated_log, directory=str(directory))


def _read_source(module: Any) -> bytes:
    return inspect.getsource(module).encode()


# Small batches


def _write_small_batches_log(directory: Path, scale: Scale) -> GeneratedLog:
    random_source = random.Random(scale.seed)
    strays: list[UnendedTransaction] = []
    recovery_points: dict[TopicPartition, int] = {}
    byte_count = batch_count = 0
    transactions_per_partition = scale.transactions // scale.partitions
    for partition in range(scale.partitions):
        stray_batches = _plan_stray_batches(
            scale, partition, transactions_per_partition * scale.batches, random_source
        )
        replica_folder = make_replica_folder(directory, TOPIC, partition)
        for segment_content in _fill_segments(
            scale, partition, transactions_per_partition, stray_batches, random_source
        ):
            recovery_points[TopicPartition(TOPIC, partition)] = _write_segment(
                replica_folder, segment_content
            )
            byte_count += len(segment_content)
        batch_count += transactions_per_partition * (scale.batches + 1) + len(stray_batches)
        strays += _unended_transactions_of(
            partition, stray_batches, transactions_per_partition * scale.batches
        )
    _write_coordinator_log(directory, scale, strays)
    # As of a broker that was killed: flushed up to its last segments.
    (directory / names.FileName.RECOVERY_POINTS).write_text(encode_offsets(recovery_points))
    return GeneratedLog(
        directory="",
        bytes=byte_count,
        batches=batch_count,
        transactions=transactions_per_partition * scale.partitions,
        strays=tuple(strays),
    )


def _plan_stray_batches(
    scale: Scale, partition: int, batch_count: int, random_source: random.Random
) -> Ints:
    """Plan the batches of the transactions that stay open, as ``log_fill.fill_segment`` takes
    them: those that hang begin somewhere, those that are alive at the end.
    """
    batch_rows = []
    for stray_number in range(partition, scale.hanging + scale.alive, scale.partitions):
        is_hanging = stray_number < scale.hanging
        batches_before = (
            random_source.randrange(batch_count * 9 // 10) if is_hanging else batch_count
        )
        batch_rows += [
            [batches_before, FIRST_STRAY_PRODUCER + stray_number, sequence, -1]
            for sequence in range(STRAY_BATCHES)
        ]
    return np.array(sorted(batch_rows), dtype=np.int64).reshape(-1, 4)


def _fill_segments(
    scale: Scale,
    partition: int,
    transaction_count: int,
    stray_batches: Ints,
    random_source: random.Random,
) -> Iterator[bytes]:
    """Fill a buffer with each segment of a partition, one after the other."""
    producer_count = scale.producers // scale.partitions
    assert producer_count >= 4 * log_fill.ACTIVE_SLOTS, (
        "a producer would write two transactions at a time"
    )
    buffer = np.empty(scale.segment_bytes, dtype=np.uint8)
    templates_and_tables = (
        log_fill.make_data_template(),
        log_fill.make_marker_template(),
        log_fill.read_crc_tables(),
    )
    fill_state = np.zeros(log_fill.STATE_COLUMNS, dtype=np.int64)
    fill_state[log_fill.TIMESTAMP_INDEX] = BEGAN_MS
    fill_state[log_fill.CHANCE_INDEX] = random_source.randrange(1 << 31)
    active_slots = np.full((log_fill.ACTIVE_SLOTS, 2), -1, dtype=np.int64)
    next_sequences = np.zeros(producer_count, dtype=np.int64)
    while True:
        segment_size = log_fill.fill_segment(
            buffer,
            *templates_and_tables,
            fill_state,
            active_slots,
            next_sequences,
            FIRST_PRODUCER + partition * producer_count,
            transaction_count,
            scale.batches,
            stray_batches,
        )
        if not segment_size:
            return
        yield buffer[:segment_size].tobytes()


def _unended_transactions_of(
    partition: int, stray_batches: Ints, batch_count: int
) -> list[UnendedTransaction]:
    return [
        UnendedTransaction(
            partition=partition,
            producer_id=int(producer_id),
            start_offset=int(start_offset),
            is_hanging=bool(batches_before < batch_count),
        )
        for batches_before, producer_id, sequence, start_offset in stray_batches
        if sequence == 0
    ]


def _write_segment(replica_folder: Path, segment_content: bytes) -> int:
    """Write a segment with a sparse index; return its base offset."""
    base_offset = int.from_bytes(segment_content[:8])
    segment_path = replica_folder / names.Suffix.LOG.file_name(base_offset)
    segment_path.write_bytes(segment_content)
    index_pieces = []
    for batch_table in batch_rows(segment_path, on_damage=_fail_on_damage):
        batch_positions = batch_table[kernel.POSITION]
        indexed_rows = 1 + np.flatnonzero(np.diff(batch_positions // INDEX_INTERVAL_BYTES))
        index_entries = np.empty((len(indexed_rows), 2), dtype=">i4")
        index_entries[:, 0] = batch_table[kernel.LAST_OFFSET, indexed_rows] - base_offset
        index_entries[:, 1] = batch_positions[indexed_rows]
        index_pieces.append(index_entries.tobytes())
    segment_path.with_suffix(names.Suffix.INDEX).write_bytes(b"".join(index_pieces))
    return base_offset


def _fail_on_damage(damage: SegmentDamage) -> None:
    raise AssertionError(damage)


# The coordinator's log


def _write_coordinator_log(directory: Path, scale: Scale, strays: list[UnendedTransaction]) -> None:
    batches_by_partition: list[list[bytes]] = [[] for _ in range(COORDINATOR_PARTITIONS)]
    for transactional_id, transitions in _make_coordinator_records(scale, strays):
        batches = batches_by_partition[partition_for(transactional_id, COORDINATOR_PARTITIONS)]
        for transition in transitions:
            batch = encode_batch(
                [transition],
                finalized_version=TransactionVersion.TV_1,
                now_ms=transition.last_update_timestamp_ms,
                release_rules=LATEST_RULES,
            )
            batches.append(assign(batch, base_offset=len(batches), leader_epoch=0))
    for partition, batches in enumerate(batches_by_partition):
        replica_folder = make_replica_folder(directory, COORDINATOR_TOPIC, partition)
        _write_segment(replica_folder, b"".join(batches))


def _make_coordinator_records(
    scale: Scale, strays: list[UnendedTransaction]
) -> Iterator[tuple[str, list[TxnTransition]]]:
    transactions_per_partition = scale.transactions // scale.partitions
    producer_count = scale.producers // scale.partitions
    for transaction_number in range(transactions_per_partition):
        for partition in range(scale.partitions):
            producer_number = partition * producer_count + transaction_number % producer_count
            topic_partitions = frozenset({TopicPartition(TOPIC, partition)})
            transactional_id = f"app-{producer_number:05d}"
            is_aborted = transaction_number % log_fill.ABORT_EVERY == 0
            timestamp_ms = BEGAN_MS + transaction_number * scale.batches // 8
            ongoing_state = TransactionState.ONGOING
            if is_aborted:
                end_states = TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT
            else:
                end_states = TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT
            yield (
                transactional_id,
                [
                    make_transaction_record(
                        transactional_id,
                        FIRST_PRODUCER + producer_number,
                        ongoing_state,
                        topic_partitions,
                        timestamp_ms,
                    ),
                    make_transaction_record(
                        transactional_id,
                        FIRST_PRODUCER + producer_number,
                        end_states[0],
                        topic_partitions,
                        timestamp_ms,
                    ),
                    make_transaction_record(
                        transactional_id,
                        FIRST_PRODUCER + producer_number,
                        end_states[1],
                        frozenset(),
                        timestamp_ms,
                    ),
                ],
            )
    for stray in strays:
        transactional_id = f"stray-{stray.producer_id}"
        topic_partitions = frozenset({TopicPartition(TOPIC, stray.partition)})
        if not stray.is_hanging:
            stray_state = TransactionState.ONGOING
        elif stray.producer_id % 2:
            continue  # the coordinator has forgotten the id
        else:
            stray_state, topic_partitions = TransactionState.EMPTY, frozenset()
        yield (
            transactional_id,
            [
                make_transaction_record(
                    transactional_id, stray.producer_id, stray_state, topic_partitions, BEGAN_MS
                )
            ],
        )


# Large batches


def _write_large_batches_log(directory: Path, size_bytes: int) -> GeneratedLog:
    record = Record(value=random.Random(size_bytes).randbytes(1_000))
    records_per_batch = LARGE_BATCH_BYTES // 1_010
    batch_template = bytearray(
        build_batch([record] * records_per_batch, timestamp_ms=BEGAN_MS, producer_id=0,
                    producer_epoch=0, base_sequence=0, is_transactional=True, leader_epoch=0)
    )  # fmt: skip
    record_count = read_batch_header(bytes(batch_template)).records_count
    replica_folder = make_replica_folder(directory, LARGE_TOPIC, 0)
    batch_count = size_bytes // len(batch_template)
    with (replica_folder / names.Suffix.LOG.file_name(0)).open("wb") as segment_file:
        for batch_number in range(batch_count):
            batch_template[:8] = _LONG.pack(batch_number * record_count)
            batch_template[43:51] = _LONG.pack(FIRST_PRODUCER + batch_number % 100)
            batch_template[53:57] = _CRC.pack(batch_number // 100 * record_count)
            batch_template[17 : BatchHeader.CRC_START] = _CRC.pack(
                crc32c.crc32c(memoryview(batch_template)[BatchHeader.CRC_START :])
            )
            segment_file.write(batch_template)
    return GeneratedLog(
        directory="", bytes=batch_count * len(batch_template), batches=batch_count, transactions=0
    )


# What other directories for benchmarks have as well


def write_meta_properties(directory: Path, *, node_id: int) -> None:
    """Write ``meta.properties``, which says whose log directory it is."""
    meta_properties = MetaProperties(cluster_id="benchmarks", node_id=node_id)
    (directory / names.FileName.META_PROPERTIES).write_text(encode_meta_properties(meta_properties))


def make_replica_folder(directory: Path, topic: str, partition: int) -> Path:
    """Make a replica's folder."""
    replica_folder = directory / names.directory_name(TopicPartition(topic, partition))
    replica_folder.mkdir()
    topic_id = uuid.uuid5(uuid.NAMESPACE_URL, topic)
    (replica_folder / names.FileName.PARTITION_METADATA).write_text(
        encode_partition_metadata(topic_id)
    )
    return replica_folder


def make_transaction_record(
    transactional_id: str,
    producer_id: int,
    state: TransactionState,
    partitions: frozenset[TopicPartition],
    timestamp_ms: int,
) -> TxnTransition:
    """Make the record that a coordinator writes about a transaction."""
    return TxnTransition(
        transactional_id=TransactionalId(transactional_id),
        producer_id=ProducerId(producer_id),
        prev_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=ProducerEpoch(0),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        txn_timeout_ms=60_000,
        state=state,
        partitions=partitions,
        start_timestamp_ms=-1 if state is TransactionState.EMPTY else timestamp_ms,
        last_update_timestamp_ms=timestamp_ms,
        client_version=TransactionVersion.TV_0,
    )
