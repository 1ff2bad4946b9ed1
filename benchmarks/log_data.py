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
from txnsim.releases.rules import LATEST
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
from txnsim_spark.scan.segments import Damage
from txnsim_spark.scan.walk import batch_rows

CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "benchmarks"
TOPIC: Final = "orders"
LARGE_TOPIC: Final = "parcels"
COORDINATOR: Final = "__transaction_state"
COORDINATOR_PARTITIONS: Final = 4
BEGAN_MS: Final = 1_750_000_000_000
FIRST_PRODUCER: Final = 1_000
FIRST_STRAY: Final = 900_000
STRAY_BATCHES: Final = 3
LARGE_BATCH_BYTES: Final = 64 << 10
INDEX_INTERVAL_BYTES: Final = 1 << 13
"""Between entries of an index: about a broker's 4 kB and a batch."""

_MADE: Final = "made.json"
_CRC: Final = struct.Struct(">I")
_LONG: Final = struct.Struct(">q")


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    seed: int = 8
    partitions: int = 8
    segment_bytes: int = 50_000_000
    transactions: int = 100_000
    batches: int = 221
    """Of data, in each transaction: with its marker about 20 kB."""
    producers: int = 1_000
    hanging: int = 25
    alive: int = 40


class Stray(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that nobody has ended."""

    partition: int
    producer_id: int
    start_offset: int
    is_hanging: bool


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a directory."""

    directory: str
    bytes: int
    """Of the topic's segments."""
    batches: int
    transactions: int
    strays: tuple[Stray, ...] = ()


def small_batches(scale: Scale) -> Made:
    """A log directory of transactions in small batches."""
    text = msgspec.json.encode(scale)
    return _once(text + _source(log_fill), lambda directory: _make_small(directory, scale))


def large_batches(size: int) -> Made:
    """A log directory of one partition with batches of 64 kB, one segment of about ``size``."""
    return _once(b"large %d" % size, lambda directory: _make_large(directory, size))


def _once(text: bytes, make: Callable[[Path], Made]) -> Made:
    digest = hashlib.sha256(text + Path(__file__).read_bytes()).hexdigest()[:12]
    directory = CACHE / f"logs-{digest}"
    if not directory.is_dir():
        fresh = directory.with_suffix(".partial")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        made = make(fresh)
        write_meta(fresh, node_id=1)
        (fresh / _MADE).write_bytes(msgspec.json.encode(made))
        fresh.rename(directory)
    made = msgspec.json.decode((directory / _MADE).read_bytes(), type=Made)
    return msgspec.structs.replace(made, directory=str(directory))


def _source(module: Any) -> bytes:
    return inspect.getsource(module).encode()


# Small batches


def _make_small(directory: Path, scale: Scale) -> Made:
    chance = random.Random(scale.seed)
    strays: list[Stray] = []
    noted: dict[TopicPartition, int] = {}
    size = batches = 0
    each = scale.transactions // scale.partitions
    for partition in range(scale.partitions):
        planned = _planned(scale, partition, each * scale.batches, chance)
        folder = make_replica(directory, TOPIC, partition)
        for data in _filled(scale, partition, each, planned, chance):
            noted[TopicPartition(TOPIC, partition)] = _write_segment(folder, data)
            size += len(data)
        batches += each * (scale.batches + 1) + len(planned)
        strays += _strays(partition, planned, each * scale.batches)
    _write_coordinator(directory, scale, strays)
    # As of a broker that was killed: flushed up to its last segments.
    (directory / names.FileName.RECOVERY_POINTS).write_text(encode_offsets(noted))
    return Made(
        directory="",
        bytes=size,
        batches=batches,
        transactions=each * scale.partitions,
        strays=tuple(strays),
    )


def _planned(scale: Scale, partition: int, batches: int, chance: random.Random) -> Ints:
    """Batches of the transactions that nobody ends, as ``log_fill.fill`` takes them: those that
    hang begin somewhere, those that are alive at the end.
    """
    rows = []
    for stray in range(partition, scale.hanging + scale.alive, scale.partitions):
        is_hanging = stray < scale.hanging
        after = chance.randrange(batches * 9 // 10) if is_hanging else batches
        rows += [[after, FIRST_STRAY + stray, sequence, -1] for sequence in range(STRAY_BATCHES)]
    return np.array(sorted(rows), dtype=np.int64).reshape(-1, 4)


def _filled(
    scale: Scale, partition: int, transactions: int, planned: Ints, chance: random.Random
) -> Iterator[bytes]:
    """The partition's segments."""
    producers = scale.producers // scale.partitions
    assert producers >= 4 * log_fill.ACTIVE, "a producer would write two transactions at a time"
    buffer = np.empty(scale.segment_bytes, dtype=np.uint8)
    templates = log_fill.data_template(), log_fill.marker_template(), log_fill.crc_tables()
    state = np.zeros(log_fill.STATE_COLUMNS, dtype=np.int64)
    state[log_fill.TIMESTAMP] = BEGAN_MS
    state[log_fill.CHANCE] = chance.randrange(1 << 31)
    slots = np.full((log_fill.ACTIVE, 2), -1, dtype=np.int64)
    sequences = np.zeros(producers, dtype=np.int64)
    while True:
        size = log_fill.fill(
            buffer,
            *templates,
            state,
            slots,
            sequences,
            FIRST_PRODUCER + partition * producers,
            transactions,
            scale.batches,
            planned,
        )
        if not size:
            return
        yield buffer[:size].tobytes()


def _strays(partition: int, planned: Ints, batches: int) -> list[Stray]:
    return [
        Stray(
            partition=partition,
            producer_id=int(producer),
            start_offset=int(offset),
            is_hanging=bool(after < batches),
        )
        for after, producer, sequence, offset in planned
        if sequence == 0
    ]


def _write_segment(folder: Path, data: bytes) -> int:
    """A segment with its sparse index; its base offset."""
    first = int.from_bytes(data[:8])
    path = folder / names.Suffix.LOG.at(first)
    path.write_bytes(data)
    entries = []
    for table in batch_rows(path, on_damage=_unexpected):
        positions = table[kernel.POSITION]
        chosen = 1 + np.flatnonzero(np.diff(positions // INDEX_INTERVAL_BYTES))
        pairs = np.empty((len(chosen), 2), dtype=">i4")
        pairs[:, 0] = table[kernel.LAST_OFFSET, chosen] - first
        pairs[:, 1] = positions[chosen]
        entries.append(pairs.tobytes())
    path.with_suffix(names.Suffix.INDEX).write_bytes(b"".join(entries))
    return first


def _unexpected(damage: Damage) -> None:
    raise AssertionError(damage)


# The coordinator's log


def _write_coordinator(directory: Path, scale: Scale, strays: list[Stray]) -> None:
    logs: list[list[bytes]] = [[] for _ in range(COORDINATOR_PARTITIONS)]
    for name, records in _entries(scale, strays):
        log = logs[partition_for(name, COORDINATOR_PARTITIONS)]
        for record in records:
            batch = encode_batch(
                [record],
                level=TransactionVersion.TV_1,
                now_ms=record.last_update_timestamp_ms,
                rules=LATEST,
            )
            log.append(assign(batch, base_offset=len(log), leader_epoch=0))
    for partition, log in enumerate(logs):
        folder = make_replica(directory, COORDINATOR, partition)
        _write_segment(folder, b"".join(log))


def _entries(scale: Scale, strays: list[Stray]) -> Iterator[tuple[str, list[TxnTransition]]]:
    each = scale.transactions // scale.partitions
    producers = scale.producers // scale.partitions
    for number in range(each):
        for partition in range(scale.partitions):
            producer = partition * producers + number % producers
            place = frozenset({TopicPartition(TOPIC, partition)})
            name = f"app-{producer:05d}"
            aborted = number % log_fill.ABORT_EVERY == 0
            at_ms = BEGAN_MS + number * scale.batches // 8
            ongoing = TransactionState.ONGOING
            if aborted:
                ends = TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT
            else:
                ends = TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT
            yield (
                name,
                [
                    entry(name, FIRST_PRODUCER + producer, ongoing, place, at_ms),
                    entry(name, FIRST_PRODUCER + producer, ends[0], place, at_ms),
                    entry(name, FIRST_PRODUCER + producer, ends[1], frozenset(), at_ms),
                ],
            )
    for stray in strays:
        name = f"stray-{stray.producer_id}"
        place = frozenset({TopicPartition(TOPIC, stray.partition)})
        if not stray.is_hanging:
            state = TransactionState.ONGOING
        elif stray.producer_id % 2:
            continue  # the coordinator has forgotten the id
        else:
            state, place = TransactionState.EMPTY, frozenset()
        yield name, [entry(name, stray.producer_id, state, place, BEGAN_MS)]


# Large batches


def _make_large(directory: Path, size: int) -> Made:
    record = Record(value=random.Random(size).randbytes(1_000))
    count = LARGE_BATCH_BYTES // 1_010
    template = bytearray(
        build_batch([record] * count, timestamp_ms=BEGAN_MS, producer_id=0, producer_epoch=0,
                    base_sequence=0, transactional=True, leader_epoch=0)
    )  # fmt: skip
    records = read_batch_header(bytes(template)).records_count
    folder = make_replica(directory, LARGE_TOPIC, 0)
    batches = size // len(template)
    with (folder / names.Suffix.LOG.at(0)).open("wb") as file:
        for number in range(batches):
            template[:8] = _LONG.pack(number * records)
            template[43:51] = _LONG.pack(FIRST_PRODUCER + number % 100)
            template[53:57] = _CRC.pack(number // 100 * records)
            template[17 : BatchHeader.CRC_START] = _CRC.pack(
                crc32c.crc32c(memoryview(template)[BatchHeader.CRC_START :])
            )
            file.write(template)
    return Made(directory="", bytes=batches * len(template), batches=batches, transactions=0)


# What other directories for benchmarks have as well


def write_meta(directory: Path, *, node_id: int) -> None:
    """Say whose log directory it is."""
    meta = MetaProperties(cluster_id="benchmarks", node_id=node_id)
    (directory / names.FileName.META_PROPERTIES).write_text(encode_meta_properties(meta))


def make_replica(directory: Path, topic: str, partition: int) -> Path:
    """Make a replica's folder."""
    folder = directory / names.directory_name(TopicPartition(topic, partition))
    folder.mkdir()
    topic_id = uuid.uuid5(uuid.NAMESPACE_URL, topic)
    (folder / names.FileName.PARTITION_METADATA).write_text(encode_partition_metadata(topic_id))
    return folder


def entry(
    name: str,
    producer: int,
    state: TransactionState,
    partitions: frozenset[TopicPartition],
    at_ms: int,
) -> TxnTransition:
    """What a coordinator notes of a transaction."""
    return TxnTransition(
        transactional_id=TransactionalId(name),
        producer_id=ProducerId(producer),
        prev_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=ProducerEpoch(0),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        txn_timeout_ms=60_000,
        state=state,
        partitions=partitions,
        start_timestamp_ms=-1 if state is TransactionState.EMPTY else at_ms,
        last_update_timestamp_ms=at_ms,
        client_version=TransactionVersion.TV_0,
    )
