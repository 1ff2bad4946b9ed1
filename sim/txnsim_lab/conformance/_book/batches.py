"""Builds record batches, valid or damaged, from a few fields.

The fields: ``values`` (texts), or ``records`` with key, value, time and headers each; ``pid``,
``epoch``, ``seq``, ``transactional``, ``codec`` (a name), ``time``, ``stamped`` (the flag of
LogAppendTime); then changes to its bytes: ``count``, ``last-delta``, ``attributes``,
``base-offset``, ``leader-epoch``, ``magic``, ``length``, ``max-time``, ``crc``, ``at`` ({offset:
hex}), ``cut`` (bytes left), ``tail`` (hex to append), ``times`` (repetitions of the batch). The
checksum is corrected unless ``crc`` is given. ``marker: commit`` makes a control batch.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

import crc32c

from txnsim.wire.batch import Record, build_batch, control_batch
from txnsim.wire.compression import CODEC_NAMES

STAMP_MS: Final = 1_700_000_000_000
"""Time of every record: long ago, so that it differs from times that a broker reads from its
clock.
"""
CODECS: Final = {name: codec for codec, name in CODEC_NAMES.items()}
_HEADER_FIELDS: Final = {
    "base-offset": (0, ">q"),
    "length": (8, ">i"),
    "leader-epoch": (12, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last-delta": (23, ">i"),
    "max-time": (35, ">q"),
    "count": (57, ">i"),
}
"""Field -> its offset in the batch header, and its struct code."""
_CHECKSUM_START: Final = 21
_PLAIN_FIELDS: Final = frozenset({"values", "records", "codec", "time", "stamped"})
_PRODUCER_FIELDS: Final = frozenset({"pid", "epoch", "seq", "transactional"})
_MARKER_FIELDS: Final = frozenset({"marker", "coordinator"})
_PATCH_FIELDS: Final = frozenset({*_HEADER_FIELDS, "crc", "at", "cut", "tail", "times"})


def batch_from(fields: Mapping[str, Any]) -> bytes:
    """Build the bytes of a batch.

    Raises:
        ValueError: A field is unknown.
    """
    unknown_fields = set(fields) - _PLAIN_FIELDS - _PRODUCER_FIELDS - _MARKER_FIELDS - _PATCH_FIELDS
    if unknown_fields:
        raise ValueError(f"a batch has no {', '.join(sorted(unknown_fields))}")
    batch_bytes = bytearray(_marker(fields) if "marker" in fields else _build_from(fields))
    for field_name, (position, struct_code) in _HEADER_FIELDS.items():
        if field_name in fields:
            struct.pack_into(struct_code, batch_bytes, position, fields[field_name])
    for position, hex_digits in fields.get("at", {}).items():
        patch_bytes = bytes.fromhex(hex_digits)
        batch_bytes[int(position) : int(position) + len(patch_bytes)] = patch_bytes
    # The checksum is over what follows it; a batch that was cut has none to speak of.
    crc = (
        fields["crc"]
        if "crc" in fields
        else crc32c.crc32c(memoryview(batch_bytes)[_CHECKSUM_START:])
    )
    struct.pack_into(">I", batch_bytes, 17, crc)
    if "cut" in fields:
        batch_bytes = batch_bytes[: fields["cut"]]
    patched_batch = bytes(batch_bytes) + bytes.fromhex(fields.get("tail", ""))
    repetitions: int = fields.get("times", 1)
    return patched_batch * repetitions


def _build_from(fields: Mapping[str, Any]) -> bytes:
    records = fields.get("records") or [{"value": value} for value in fields.get("values", ["x"])]
    return build_batch(
        [_record(record) for record in records],
        timestamp_ms=fields.get("time", STAMP_MS),
        producer_id=fields.get("pid", -1),
        producer_epoch=fields.get("epoch", -1),
        base_sequence=fields.get("seq", -1),
        is_transactional=fields.get("transactional", False),
        compression=CODECS[fields.get("codec", "none")],
        has_log_append_time=fields.get("stamped", False),
    )


def _record(fields: Mapping[str, Any]) -> Record:
    def encode_text(text: str | None) -> bytes | None:
        return None if text is None else text.encode()

    return Record(
        key=encode_text(fields.get("key", "k")),
        value=encode_text(fields.get("value")),
        timestamp_ms=fields.get("time"),
        headers=tuple(
            (header_name, encode_text(text))
            for header_name, text in fields.get("headers", {}).items()
        ),
    )


def _marker(fields: Mapping[str, Any]) -> bytes:
    return control_batch(
        producer_id=fields.get("pid", -1),
        producer_epoch=fields.get("epoch", -1),
        is_commit=fields["marker"] == "commit",
        coordinator_epoch=fields.get("coordinator", 0),
        base_offset=0,
        leader_epoch=-1,
        timestamp_ms=fields.get("time", STAMP_MS),
    )
