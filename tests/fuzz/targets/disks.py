"""Files of log directories, as `serve --load` reads them."""

from __future__ import annotations

import contextlib
import json
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import crc32c

from tests.broker.codec.golden.record import HERE
from tests.fuzz.target import Target, Violation
from tests.fuzz.targets.batches import NOW_MS, seal_batch
from tests.support import metadata_logs as metadata
from tests.support.share_groups import ShareDriver
from tests.support.streams_groups import StreamsDriver
from txnsim.errors import BadInputError, ConfigError, CorruptLogRecordError
from txnsim.group.log_format import decode_record as decode_group_record
from txnsim.group.log_format import encode_record as encode_group_record
from txnsim.group.records import GroupRecord
from txnsim.log.config import LogConfig
from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import checkpoints, metadata_files, names, producer_snapshot, txn_index
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.storage.replica_loading import CheckpointedOffsets, load_replica
from txnsim.txn.log_format import decode_record as decode_txn_record
from txnsim.txn.log_reader import read_log
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.codec import run_to_end
from txnsim.wire.control import control_batch
from txnsim.wire.messages import metadata_records as schema
from txnsim_spark._replica_summary import summarize

_SIZE: Final = 2
_COMMITTED: Final = IsolationLevel.READ_COMMITTED


def _folder() -> Path:
    """A folder in memory if the system has one, because each input writes a file."""
    memory_file = Path("/dev/shm")
    return Path(
        tempfile.mkdtemp(prefix="txnsim-fuzz-", dir=memory_file if memory_file.is_dir() else None)
    )


def _split_parts(fuzz_bytes: bytes, count: int) -> list[bytes]:
    """Split the input into pieces, each after its size; the last piece is the rest."""
    parts: list[bytes] = []
    position = 0
    for _ in range(count - 1):
        size_bytes = int.from_bytes(fuzz_bytes[position : position + _SIZE], "big")
        position += _SIZE
        parts.append(fuzz_bytes[position : position + size_bytes])
        position += size_bytes
    return [*parts, fuzz_bytes[position:]]


def _join_parts(*parts: bytes) -> bytes:
    sized = (len(part).to_bytes(_SIZE, "big") + part for part in parts[:-1])
    return b"".join(sized) + parts[-1]


def reseal_segment(fuzz_bytes: bytes) -> bytes:
    """The batches of a segment, each with a CRC that fits where its length makes sense."""
    batches: list[bytes] = []
    position = 0
    while position + 61 <= len(fuzz_bytes):
        end = (
            position
            + 12
            + int.from_bytes(fuzz_bytes[position + 8 : position + 12], "big", signed=True)
        )
        if not position + 61 <= end <= len(fuzz_bytes):
            break
        batches.append(seal_batch(fuzz_bytes[position:end]))
        position = end
    return b"".join((*batches, fuzz_bytes[position:]))


# A replica


def _transaction(offset: int, *, committed: bool) -> bytes:
    batch_data = build_batch(
        [Record(key=b"k", value=b"v"), Record(value=b"w")],
        timestamp_ms=NOW_MS,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
        base_offset=offset,
        leader_epoch=1,
    )
    marker = control_batch(
        is_commit=committed,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=1,
        timestamp_ms=NOW_MS,
        base_offset=offset + 2,
        leader_epoch=1,
    )
    return batch_data + marker


_SNAPSHOT: Final = run_to_end(
    producer_snapshot.encode_in_steps(
        [
            SnapshotEntry(
                producer_id=7,
                producer_epoch=0,
                last_sequence=1,
                last_offset=1,
                offset_delta=1,
                timestamp=NOW_MS,
                coordinator_epoch=1,
                txn_first_offset=0,
            )
        ]
    )
)
_ABORTED: Final = txn_index.encode(
    [AbortedTxn(producer_id=7, first_offset=0, last_offset=2, last_stable_offset=3)]
)
_EPOCHS: Final = checkpoints.encode_leader_epochs([(1, 0)]).encode()
_NAME: Final = "00000000000000000000"


def _replica_seeds() -> Iterator[bytes]:
    for flags in range(16):
        log = _transaction(0, committed=False) + _transaction(3, committed=True)
        second_segment = _transaction(6, committed=True)
        yield bytes((flags,)) + _join_parts(_ABORTED, _SNAPSHOT, _EPOCHS, second_segment, log)
    yield bytes((1,)) + _join_parts(b"", b"", b"", b"", _transaction(0, committed=True)[:-3])


def _play_replica(fuzz_bytes: bytes) -> None:
    if not fuzz_bytes:
        return
    flags = fuzz_bytes[0]
    aborted_index, snapshot, epochs, second_segment, log = _split_parts(fuzz_bytes[1:], 5)
    if flags & 1:
        log, second_segment = reseal_segment(log), reseal_segment(second_segment)
        snapshot = _seal_snapshot(snapshot)
    folder = _REPLICA
    for file_name, content in (
        (f"{_NAME}.log", log),
        (f"{_NAME}.txnindex", aborted_index),
        (f"{_NAME}.index", b""),
        ("00000000000000000006.log", second_segment),
        ("00000000000000000006.snapshot", snapshot),
        (names.FileName.LEADER_EPOCHS, epochs),
    ):
        if content or file_name.endswith("0.log") or (file_name.endswith(".index") and flags & 8):
            (folder / file_name).write_bytes(content)
        else:
            (folder / file_name).unlink(missing_ok=True)
    replica = names.PartitionDirectory(topic_partition=TopicPartition("t", 0), path=folder)
    checkpointed = CheckpointedOffsets(
        recovery_point=flags >> 4, cleaned_until=3 if flags & 4 else None
    )
    with contextlib.suppress(ConfigError):
        loaded_replica = load_replica(
            replica,
            config=LogConfig(rules=LATEST_RULES),
            checkpointed_offsets=checkpointed,
            was_clean=bool(flags & 2),
            now_ms=NOW_MS,
        )
        loaded_replica.log.read(
            loaded_replica.log.log_start_offset, max_bytes=1 << 20, isolation=_COMMITTED
        )
    with contextlib.suppress(BadInputError):
        summarize(replica)


def _seal_snapshot(fuzz_bytes: bytes) -> bytes:
    if len(fuzz_bytes) < 6:
        return fuzz_bytes
    crc: int = crc32c.crc32c(fuzz_bytes[6:])
    return fuzz_bytes[:2] + crc.to_bytes(4, "big") + fuzz_bytes[6:]


_REPLICA: Final = _folder() / "t-0"
_REPLICA.mkdir()


# Small files, each by its own reader


def _text_reader(read: Callable[..., Any]) -> Callable[[bytes], Any]:
    return lambda data: read(data.decode(errors="replace"), error_prefix="file")


_READERS: Final[tuple[Callable[[bytes], Any], ...]] = (
    _text_reader(checkpoints.decode_leader_epochs),
    _text_reader(checkpoints.decode_offsets),
    _text_reader(metadata_files.MetaProperties.decode),
    _text_reader(metadata_files.decode_partition_metadata),
    lambda data: tuple(txn_index.decode(data, error_prefix="file")),
    lambda data: producer_snapshot.decode(_seal_snapshot(data)),
)


def _index_seeds() -> Iterator[bytes]:
    meta = metadata_files.MetaProperties(cluster_id="c", node_id=1, directory_id=uuid.UUID(int=9))
    files = (
        _EPOCHS,
        checkpoints.encode_offsets({TopicPartition("t", 0): 6}).encode(),
        metadata_files.encode_meta_properties(meta).encode(),
        metadata_files.encode_partition_metadata(uuid.UUID(int=9)).encode(),
        _ABORTED,
        _SNAPSHOT,
    )
    for kind, content in enumerate(files):
        yield bytes((kind,)) + content


def _play_index(fuzz_bytes: bytes) -> None:
    if fuzz_bytes:
        with contextlib.suppress(CorruptLogRecordError):
            _READERS[fuzz_bytes[0] % len(_READERS)](fuzz_bytes[1:])


# The metadata log


def _metadata_seeds() -> Iterator[bytes]:
    topic_id = uuid.UUID(int=9)
    change = schema.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2, isr=(1, 2))
    values = (
        metadata.topic("t", topic_id),
        metadata.partition(topic_id, replicas=(1, 2)),
        metadata.config("cleanup.policy", "compact", resource_name="t"),
        metadata.encode_value(5, change),
        metadata.feature("transaction.version", 2),
        metadata.producer_ids(1_000),
        metadata.register_broker(1),
        metadata.unregister_broker(1),
        metadata.encode_value(9, schema.RemoveTopicRecord(topic_id=topic_id)),
    )
    yield _join_parts(*values, b"")
    for value in values:
        yield _join_parts(values[0], value, b"")


_METADATA: Final = _folder() / "__cluster_metadata-0"
_METADATA.mkdir()


def _play_metadata(file_bytes: bytes) -> None:
    values = [value for value in _split_parts(file_bytes, 12) if value]
    batch = b""
    if values:
        batch = build_batch(
            [Record(value=value) for value in values], timestamp_ms=NOW_MS, leader_epoch=1
        )
    (_METADATA / f"{_NAME}.log").write_bytes(batch)
    with contextlib.suppress(CorruptLogRecordError):
        StoredMetadata.read(_METADATA, cluster_id="c")


# Records of the internal topics


def _record_seeds() -> Iterator[bytes]:
    for line in (HERE / "group_records.jsonl").read_text().splitlines():
        record = json.loads(line)
        yield _join_parts(bytes.fromhex(record["key"]), bytes.fromhex(record["value"] or ""))
    for group_record in (*_share_group_records(), *_streams_group_records()):
        key, value = encode_group_record(group_record)
        yield _join_parts(key, value or b"")


def _share_group_records() -> Sequence[GroupRecord]:
    driver = ShareDriver()
    driver.beat("m", 0, "t")
    driver.complete_initialization()
    driver.beat("m", 1)
    tombstones = driver.group.tombstones()
    driver.beat("m", -1)
    return (*driver.log, *tombstones)


def _streams_group_records() -> Sequence[GroupRecord]:
    driver = StreamsDriver()
    driver.join("m", endpoint=("h", 1), client_tags={"zone": "a"})
    tombstones = driver.group.tombstones()
    driver.send("m", -1)
    return (*driver.log, *tombstones)


def _play_record(fuzz_bytes: bytes) -> None:
    key, value = _split_parts(fuzz_bytes, 2)
    for content in (value, None):
        with contextlib.suppress(CorruptLogRecordError):
            decode_txn_record(key, content, release_rules=LATEST_RULES)
        with contextlib.suppress(CorruptLogRecordError):
            _check_round_trip(decode_group_record(key, content))
    chunk = build_batch([Record(key=key, value=value)], timestamp_ms=NOW_MS)
    read_log([chunk], release_rules=LATEST_RULES)


def _check_round_trip(record: GroupRecord | None) -> None:
    """Raise ``Violation`` unless the encoded record decodes to the same record."""
    if record is not None and decode_group_record(*encode_group_record(record)) != record:
        raise Violation("what was read is written otherwise")


TARGETS: Final = {
    "segments": Target(play=_play_replica, seeds=_replica_seeds),
    "indexes": Target(play=_play_index, seeds=_index_seeds, length_max=6_000),
    "metadata-log": Target(play=_play_metadata, seeds=_metadata_seeds, length_max=2048),
    "coordinator-logs": Target(play=_play_record, seeds=_record_seeds, length_max=1024),
}
