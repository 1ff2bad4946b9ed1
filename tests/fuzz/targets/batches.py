"""Record batches and what is compressed in them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Final

from tests.broker.codec.golden.record import HERE
from tests.fuzz.target import Target, Violation
from txnsim.errors import BadInputError, CorruptBatchError, UnpacksTooLargeError
from txnsim.log.answers import Appended, LogRead
from txnsim.log.config import LogConfig, TimestampType
from txnsim.log.leader_append import append_client, start_verification
from txnsim.log.partition_log import PartitionLog
from txnsim.releases.rules import LATEST_RULES
from txnsim.types import TopicPartition
from txnsim.wire.batch import (
    BatchHeader,
    Record,
    build_batch,
    crc_is_valid,
    iter_batches,
    read_batch_header,
    read_control_record,
    read_records,
)
from txnsim.wire.batch_header import crc_of
from txnsim.wire.batch_rewrite import batch_keys, filtering_batch
from txnsim.wire.codec import run_to_end
from txnsim.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress
from txnsim.wire.control import control_batch

NOW_MS: Final = 1_700_000_000_000
CODECS: Final = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
_LENGTH_AT: Final = 8
_CRC_AT: Final = 17
_LENGTH_FROM: Final = 12
_UNPACKED_MAX: Final = 1 << 20
_CONFIGS: Final = (
    LogConfig(rules=LATEST_RULES),
    LogConfig(rules=LATEST_RULES, is_compacted=True),
    LogConfig(rules=LATEST_RULES, timestamp_type=TimestampType.LOG_APPEND_TIME),
    LogConfig(rules=LATEST_RULES, timestamp_before_max_ms=1_000, codec=ZSTD),
)


def sound_batches() -> Iterator[bytes]:
    """Batches of Kafka's Java classes, and some of ours in every codec."""
    for line in (HERE / "batches.jsonl").read_text().splitlines():
        yield bytes.fromhex(json.loads(line)["hex"])
    records = [
        Record(key=b"k", value=b"v", headers=(("h", b"x"), ("n", None))),
        Record(value=b"value" * 20),
        Record(key=b"k", value=None, timestamp_ms=NOW_MS - 5),
    ]
    for codec in CODECS:
        yield build_batch(
            records,
            timestamp_ms=NOW_MS,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
            compression=codec,
        )
    yield control_batch(
        is_commit=True,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=1,
        timestamp_ms=NOW_MS,
        base_offset=3,
        leader_epoch=1,
    )


def seal_batch(batch: bytes) -> bytes:
    """The batch with a right length and CRC, so that the fuzzer reaches the code behind both
    checks.
    """
    if len(batch) < BatchHeader.SIZE:
        return batch
    length = (len(batch) - _LENGTH_FROM).to_bytes(4, "big")
    fitted = batch[:_LENGTH_AT] + length + batch[_LENGTH_FROM:]
    return fitted[:_CRC_AT] + crc_of(fitted).to_bytes(4, "big") + fitted[_CRC_AT + 4 :]


def _batch_seeds() -> Iterator[bytes]:
    for sound_batch_number, batch in enumerate(sound_batches()):
        yield bytes((1 + 2 * (sound_batch_number % 4),)) + batch
        yield bytes((0,)) + batch


def _play_batch(fuzz_bytes: bytes) -> None:
    if not fuzz_bytes:
        return
    batch = seal_batch(fuzz_bytes[1:]) if fuzz_bytes[0] & 1 else fuzz_bytes[1:]
    for read in _READERS:
        with contextlib.suppress(CorruptBatchError):
            read(batch)
    _append(batch, _CONFIGS[fuzz_bytes[0] >> 1 & 3])


def _read_control(batch: bytes) -> object:
    return read_control_record(batch)


def _rewrite(batch: bytes) -> object:
    header = read_batch_header(batch)
    if len(batch) < header.size:
        return None
    for _ in batch_keys(batch, header):
        pass
    records = read_records(batch)[::2]
    if not records:
        return None
    return run_to_end(filtering_batch(header, records, delete_horizon_ms=None))


_READERS: tuple[Callable[[bytes], object], ...] = (
    lambda batch: list(iter_batches(batch)),
    lambda batch: crc_is_valid(batch, read_batch_header(batch)),
    read_records,
    _read_control,
    _rewrite,
)


def _append(batch: bytes, config: LogConfig) -> None:
    log = PartitionLog(topic_partition=TopicPartition("t", 0), config=config, leader_epoch=0)
    state_before = log.snapshot()
    guard = 0
    with contextlib.suppress(CorruptBatchError):
        header = read_batch_header(batch)
        if header.is_transactional and header.producer_id >= 0:
            verification = start_verification(
                log,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                supports_epoch_bump=True,
                now_ms=NOW_MS,
            )
            guard = verification if isinstance(verification, int) else 0
            state_before = log.snapshot()
    if isinstance(append_client(log, batch, guard=guard, now_ms=NOW_MS), Appended):
        log.advance_high_watermark(log.log_end_offset)
        log.check_invariants()
        log_read = log.read(0, max_bytes=1 << 30)
        assert isinstance(log_read, LogRead)
        read_batch_header(b"".join(log_read.records))
    elif log.snapshot() != state_before:
        raise Violation("a batch that was refused has left a trace")


def _packed_seeds() -> Iterator[bytes]:
    for codec in CODECS:
        for plain_bytes in (b"", b"v", b"value" * 300, bytes(5_000)):
            yield bytes((codec,)) + compress(codec, plain_bytes)
    # One bare block, as librdkafka writes; several gzip members, as Java allows.
    yield bytes((SNAPPY,)) + b"\x05\x10hello"
    yield bytes((GZIP,)) + compress(GZIP, b"a") * 3


def _play_packed(fuzz_bytes: bytes) -> None:
    if not fuzz_bytes:
        return
    codec = fuzz_bytes[0] % 6
    try:
        plain_bytes = decompress(codec, fuzz_bytes[1:], _UNPACKED_MAX)
    except UnpacksTooLargeError:
        return
    except BadInputError:
        return
    if codec in CODECS and decompress(codec, compress(codec, plain_bytes)) != plain_bytes:
        raise Violation(f"codec {codec} does not give back what it was given")


TARGETS: Final = {
    "batches": Target(play=_play_batch, seeds=_batch_seeds),
    "compression": Target(play=_play_packed, seeds=_packed_seeds),
}
