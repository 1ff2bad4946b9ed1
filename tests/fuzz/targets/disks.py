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
from tests.fuzz.targets.batches import NOW_MS, sealed
from tests.support import metadata_logs as metadata
from tests.support.share_groups import ShareDriver
from tests.support.streams_groups import StreamsDriver
from txnsim.errors import BadInputError, ConfigError, CorruptLogRecordError
from txnsim.group.log_format import decode_record as decode_group_record
from txnsim.group.log_format import encode_record as encode_group_record
from txnsim.group.records import GroupRecord
from txnsim.log.config import LogConfig
from txnsim.log.producer_state import SnapshotEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.releases.rules import LATEST
from txnsim.storage import checkpoints, metadata_files, names, producer_snapshot, txn_index
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.storage.replica_loading import CheckpointedOffsets, load_replica
from txnsim.txn.log_format import decode_record as decode_txn_record
from txnsim.txn.log_reader import read_log
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.control import control_batch
from txnsim.wire.messages import metadata_records as schema
from txnsim_spark._replica_summary import summarize

_SIZE: Final = 2
_COMMITTED: Final = IsolationLevel.READ_COMMITTED


def _folder() -> Path:
    """Below memory where the system has that: a file per input is written."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="txnsim-fuzz-", dir=memory if memory.is_dir() else None))


def _parts(data: bytes, count: int) -> list[bytes]:
    """So many pieces, each behind its size; the last one is what is left."""
    found: list[bytes] = []
    at = 0
    for _ in range(count - 1):
        size = int.from_bytes(data[at : at + _SIZE], "big")
        at += _SIZE
        found.append(data[at : at + size])
        at += size
    return [*found, data[at:]]


def _joined(*parts: bytes) -> bytes:
    sized = (len(one).to_bytes(_SIZE, "big") + one for one in parts[:-1])
    return b"".join(sized) + parts[-1]


def resealed(data: bytes) -> bytes:
    """The batches of a segment, each with a CRC that fits where its length makes sense."""
    found: list[bytes] = []
    at = 0
    while at + 61 <= len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if not at + 61 <= end <= len(data):
            break
        found.append(sealed(data[at:end]))
        at = end
    return b"".join((*found, data[at:]))


# A replica


def _transaction(offset: int, *, committed: bool) -> bytes:
    data = build_batch(
        [Record(key=b"k", value=b"v"), Record(value=b"w")],
        timestamp_ms=NOW_MS,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        base_offset=offset,
        leader_epoch=1,
    )
    marker = control_batch(
        committed=committed,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=1,
        timestamp_ms=NOW_MS,
        base_offset=offset + 2,
        leader_epoch=1,
    )
    return data + marker


_SNAPSHOT: Final = producer_snapshot.encode(
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
_ABORTED: Final = txn_index.encode(
    [AbortedTxn(producer_id=7, first_offset=0, last_offset=2, last_stable_offset=3)]
)
_EPOCHS: Final = checkpoints.encode_leader_epochs([(1, 0)]).encode()
_NAME: Final = "00000000000000000000"


def _replica_seeds() -> Iterator[bytes]:
    for flags in range(16):
        log = _transaction(0, committed=False) + _transaction(3, committed=True)
        second = _transaction(6, committed=True)
        yield bytes((flags,)) + _joined(_ABORTED, _SNAPSHOT, _EPOCHS, second, log)
    yield bytes((1,)) + _joined(b"", b"", b"", b"", _transaction(0, committed=True)[:-3])


def _play_replica(data: bytes) -> None:
    if not data:
        return
    flags = data[0]
    aborted, snapshot, epochs, second, log = _parts(data[1:], 5)
    if flags & 1:
        log, second = resealed(log), resealed(second)
        snapshot = _sealed_snapshot(snapshot)
    folder = _REPLICA
    for name, content in (
        (f"{_NAME}.log", log),
        (f"{_NAME}.txnindex", aborted),
        (f"{_NAME}.index", b""),
        ("00000000000000000006.log", second),
        ("00000000000000000006.snapshot", snapshot),
        (names.FileName.LEADER_EPOCHS, epochs),
    ):
        if content or name.endswith("0.log") or (name.endswith(".index") and flags & 8):
            (folder / name).write_bytes(content)
        else:
            (folder / name).unlink(missing_ok=True)
    replica = names.PartitionDirectory(topic_partition=TopicPartition("t", 0), path=folder)
    noted = CheckpointedOffsets(recovery_point=flags >> 4, cleaned_until=3 if flags & 4 else None)
    with contextlib.suppress(ConfigError):
        loaded = load_replica(
            replica,
            config=LogConfig(rules=LATEST),
            noted=noted,
            was_clean=bool(flags & 2),
            now_ms=NOW_MS,
        )
        loaded.log.read(loaded.log.log_start_offset, max_bytes=1 << 20, isolation=_COMMITTED)
    with contextlib.suppress(BadInputError):
        summarize(replica)


def _sealed_snapshot(data: bytes) -> bytes:
    if len(data) < 6:
        return data
    crc: int = crc32c.crc32c(data[6:])
    return data[:2] + crc.to_bytes(4, "big") + data[6:]


_REPLICA: Final = _folder() / "t-0"
_REPLICA.mkdir()


# Small files, each by its own reader


def _text(read: Callable[..., Any]) -> Callable[[bytes], Any]:
    return lambda data: read(data.decode(errors="replace"), place="file")


_READERS: Final[tuple[Callable[[bytes], Any], ...]] = (
    _text(checkpoints.decode_leader_epochs),
    _text(checkpoints.decode_offsets),
    _text(metadata_files.MetaProperties.decode),
    _text(metadata_files.decode_partition_metadata),
    lambda data: tuple(txn_index.decode(data, place="file")),
    lambda data: producer_snapshot.decode(_sealed_snapshot(data)),
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


def _play_index(data: bytes) -> None:
    if data:
        with contextlib.suppress(CorruptLogRecordError):
            _READERS[data[0] % len(_READERS)](data[1:])


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
    yield _joined(*values, b"")
    for one in values:
        yield _joined(values[0], one, b"")


_METADATA: Final = _folder() / "__cluster_metadata-0"
_METADATA.mkdir()


def _play_metadata(data: bytes) -> None:
    values = [one for one in _parts(data, 12) if one]
    batch = b""
    if values:
        batch = build_batch(
            [Record(value=one) for one in values], timestamp_ms=NOW_MS, leader_epoch=1
        )
    (_METADATA / f"{_NAME}.log").write_bytes(batch)
    with contextlib.suppress(CorruptLogRecordError):
        StoredMetadata.read(_METADATA, cluster_id="c")


# Records of the internal topics


def _record_seeds() -> Iterator[bytes]:
    for line in (HERE / "group_records.jsonl").read_text().splitlines():
        record = json.loads(line)
        yield _joined(bytes.fromhex(record["key"]), bytes.fromhex(record["value"] or ""))
    for written in (*_of_share_groups(), *_of_streams_groups()):
        key, value = encode_group_record(written)
        yield _joined(key, value or b"")


def _of_share_groups() -> Sequence[GroupRecord]:
    driver = ShareDriver()
    driver.beat("m", 0, "t")
    driver.complete_initialization()
    driver.beat("m", 1)
    tombstones = driver.group.tombstones()
    driver.beat("m", -1)
    return (*driver.log, *tombstones)


def _of_streams_groups() -> Sequence[GroupRecord]:
    driver = StreamsDriver()
    driver.join("m", endpoint=("h", 1), client_tags={"zone": "a"})
    tombstones = driver.group.tombstones()
    driver.send("m", -1)
    return (*driver.log, *tombstones)


def _play_record(data: bytes) -> None:
    key, value = _parts(data, 2)
    for content in (value, None):
        with contextlib.suppress(CorruptLogRecordError):
            decode_txn_record(key, content, rules=LATEST)
        with contextlib.suppress(CorruptLogRecordError):
            _check_again(decode_group_record(key, content))
    chunk = build_batch([Record(key=key, value=value)], timestamp_ms=NOW_MS)
    read_log([chunk], rules=LATEST)


def _check_again(record: GroupRecord | None) -> None:
    """What was read is read again from what is written of it."""
    if record is not None and decode_group_record(*encode_group_record(record)) != record:
        raise Violation("what was read is written otherwise")


TARGETS: Final = {
    "segments": Target(play=_play_replica, seeds=_replica_seeds),
    "indexes": Target(play=_play_index, seeds=_index_seeds, length_max=6_000),
    "metadata-log": Target(play=_play_metadata, seeds=_metadata_seeds, length_max=2048),
    "coordinator-logs": Target(play=_play_record, seeds=_record_seeds, length_max=1024),
}
