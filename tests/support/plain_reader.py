"""Segments of Kafka, read field by field with Python's own ``struct`` and stock decompressors: what
the tables ``batches`` and ``records`` are compared with. It imports nothing of txnsim. The layout
is that of Kafka's DefaultRecordBatch and DefaultRecord.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from
from typing import Any, Final

import cramjam

Row = dict[str, Any]

_HEADER: Final = ">qiibIhiqqqhii"
_HEADER_BYTES: Final = 61
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_CONTROLS: Final = (
    *("abort", "commit", "leader_change"),
    *("snapshot_header", "snapshot_footer", "kraft_version", "kraft_voters"),
)
_XERIAL: Final = b"\x82SNAPPY\x00"


def batches_in(log: Path) -> Iterator[tuple[Row, list[Row]]]:
    """Each whole batch of a segment, and its records."""
    file_bytes, position = log.read_bytes(), 0
    while position + _HEADER_BYTES <= len(file_bytes):
        fields = unpack_from(_HEADER, file_bytes, position)
        (
            base,
            length,
            epoch,
            _magic,
            crc,
            bits,
            last_delta,
            first_ms,
            max_ms,
            pid,
            pepoch,
            seq,
            n,
        ) = fields
        if position + 12 + length > len(file_bytes):
            return
        batch: Row = {
            "position": position,
            "size_bytes": 12 + length,
            "base_offset": base,
            "last_offset": base + last_delta,
            "leader_epoch": epoch,
            "crc": crc,
            "codec": _CODECS[bits & 7],
            "timestamp_type": "LogAppendTime" if bits & 8 else "CreateTime",
            "is_transactional": bool(bits & 16),
            "is_control": bool(bits & 32),
            "has_delete_horizon": bool(bits & 64),
            "base_timestamp_ms": first_ms,
            "max_timestamp_ms": max_ms,
            "producer_id": None if pid < 0 else pid,
            "producer_epoch": None if pid < 0 else pepoch,
            "base_sequence": None if seq < 0 else seq,
            "records": n,
        }
        packed_bytes = file_bytes[position + _HEADER_BYTES : position + 12 + length]
        yield batch, list(_records(batch, _decompress(bits & 7, packed_bytes)))
        position += 12 + length


def _decompress(codec: int, packed_bytes: bytes) -> bytes:
    match codec:
        case 1:
            return gzip.decompress(packed_bytes)
        case 2 if packed_bytes.startswith(_XERIAL):
            parts, position = [], 16
            while position < len(packed_bytes):
                (size_bytes,) = unpack_from(">i", packed_bytes, position)
                parts.append(
                    bytes(
                        cramjam.snappy.decompress_raw(
                            packed_bytes[position + 4 : position + 4 + size_bytes]
                        )
                    )
                )
                position += 4 + size_bytes
            return b"".join(parts)
        case 2:
            return bytes(cramjam.snappy.decompress_raw(packed_bytes))
        case 3:
            return bytes(cramjam.lz4.decompress(packed_bytes))
        case 4:
            return bytes(cramjam.zstd.decompress(packed_bytes))
    return packed_bytes


def _records(batch: Row, data: bytes) -> Iterator[Row]:
    position = 0

    def number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return (value >> 1) ^ -(value & 1)

    def some_bytes() -> bytes | None:
        nonlocal position
        size_bytes = number()
        begin, position = position, position + max(size_bytes, 0)
        return None if size_bytes < 0 else data[begin:position]

    for _ in range(batch["records"]):
        number()  # length
        position += 1  # attributes
        time, offset = number(), number()
        key, value = some_bytes(), some_bytes()
        headers = [{"key": (some_bytes() or b"").decode(), "value": some_bytes()}
                   for _ in range(number())]  # fmt: skip
        is_appended, seq = batch["timestamp_type"] == "LogAppendTime", batch["base_sequence"]
        yield {
            "offset": batch["base_offset"] + offset,
            "timestamp_ms": batch["max_timestamp_ms"]
            if is_appended
            else batch["base_timestamp_ms"] + time,
            "key": key,
            "value": value,
            "headers": headers,
            "sequence": None if seq is None else (seq + offset) & 0x7FFF_FFFF,
            "batch_base_offset": batch["base_offset"],
            "batch_position": batch["position"],
        }
    assert position == len(data), "a batch has nothing behind its records"
    if batch["is_control"] and batch["records"]:
        kind, coordinator = unpack_from(">h", key or b"", 2)[0], None
        if kind < 2:
            (coordinator,) = unpack_from(">i", value or b"", 2)
        batch["control_type"], batch["coordinator_epoch"] = _CONTROLS[kind], coordinator
