"""Requests drawn from bytes: sound in form, strange in content.

Mutated frames mostly end where they are decoded. So an input may also say which API, version and
values it wants, a byte or a few for each choice, and what it leads to is a request that is decoded
and reaches its handler.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from txnsim.errors import ErrorCode
from txnsim.wire import codec
from txnsim.wire._schema import ENTITY, FIXED_WIDTH_CODES, EntityRows, FieldRow, describe
from txnsim.wire.batch import Record, build_batch

TOPICS: Final = ("t", "compacted", "stamped")
WORDS: Final = (
    *TOPICS,
    *("", "app", "app2", "group", "member", "instance", "missing", "__transaction_state"),
    *("__consumer_offsets", "consumer", "range", "uniform", "1", "0", "*", "cleanup.policy"),
    *("min.insync.replicas", "compact", "transaction.version", "User:alice", "PLAIN", "Empty"),
)
_NUMBERS: Final = (0, 1, -1, 2, 3, 5, 1_000, 60_000, -2, -(2**31), 2**31 - 1, 2**63 - 1, -(2**63))
_FIRST_PRODUCER_ID: Final = 0
_DEPTH_MAX: Final = 8
_BYTES_MAX: Final = 64
_TIMES: Final = (0, 1, 500, 30_000, -1, 2**31 - 1)

_describe_entity = cache(describe)


class Draw:
    """Bytes that choices are taken from; zeros once they are used up."""

    def __init__(self, fuzz_bytes: bytes, ids: Sequence[uuid.UUID]) -> None:
        self._data = fuzz_bytes
        self._position = 0
        self._ids = ids

    @property
    def is_spent(self) -> bool:
        return self._position >= len(self._data)

    def byte(self) -> int:
        if self.is_spent:
            return 0
        self._position += 1
        return self._data[self._position - 1]

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes, or fewer at the end."""
        data = self._data[self._position : self._position + size]
        self._position += size
        return data

    # Requests

    def request(self, apis: Sequence[tuple[int, int, int]], correlation_id: int) -> bytes | None:
        """A frame without its size; None where the values don't go into one.

        Args:
            apis: Key, lowest and highest version.
            correlation_id: Its number.
        """
        api_key, lowest_version, highest_version = apis[self.byte() % len(apis)]
        version = lowest_version + self.byte() % (highest_version - lowest_version + 1)
        try:
            message = self._entity(_describe_entity(codec.request_class(api_key, version)), 0)
            return codec.encode_request(api_key, version, correlation_id, "fuzz", message)[4:]
        except (struct.error, OverflowError, ValueError, UnicodeEncodeError):
            return None

    def _entity(self, rows: EntityRows, depth: int) -> Any:
        fields = {row.name: self._field(row, depth) for row in (*rows.plain, *rows.tagged)}
        return codec.build(rows.cls, **fields)

    def _field(self, row: FieldRow, depth: int) -> Any:
        if row.nullable and self.byte() % 8 == 7:
            return None
        if not row.array:
            return self._value(row, depth)
        choice = self.byte()
        count = choice % 3 if choice < 250 else 8
        return tuple(self._value(row, depth) for _ in range(0 if depth > _DEPTH_MAX else count))

    def _value(self, row: FieldRow, depth: int) -> Any:
        match row.kind:
            case kind if kind == ENTITY:
                return self._entity(_describe_entity(row.entity), depth + 1)
            case "string":
                return self._word()
            case "bytes" | "records":
                return self._batch() if self.byte() % 2 else self.take(self.byte() % _BYTES_MAX)
            case "bool":
                return bool(self.byte() % 2)
            case "uuid":
                choice = self.byte()
                ids = [None, *self._ids]
                return ids[choice % len(ids)] if choice < 250 else uuid.UUID(int=choice)
            case "float64":
                return (0.0, 1.0, -1.0, float("inf"), float("nan"), 1e300)[self.byte() % 6]
            case "error_code":
                return ErrorCode.none
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=_TIMES[self.byte() % len(_TIMES)])
            case "datetime_i64":
                return datetime.fromtimestamp(self.byte(), UTC)
            case kind:
                return self._number(kind)

    def _number(self, kind: str) -> int:
        code, size = FIXED_WIDTH_CODES[kind]
        choice = self.byte()
        if choice < 64:
            number = choice
        elif choice < 128:
            number = 1_000 + choice - 64
        elif choice < 240:
            number = _NUMBERS[choice % len(_NUMBERS)]
        else:
            number = int.from_bytes(self.take(size), "big", signed=True)
        bits = 8 * size
        least = 0 if code.isupper() else -(1 << bits - 1)
        return (number - least) % (1 << bits) + least

    def _word(self) -> str:
        choice = self.byte()
        if choice < 240:
            return WORDS[choice % len(WORDS)]
        return self.take(choice - 240).decode("latin-1")

    def _batch(self) -> bytes:
        flags = self.byte()
        producer_id = -1 if flags & 1 else _FIRST_PRODUCER_ID + self.byte() % 8
        records = [Record(key=b"k" if flags & 8 else None, value=b"v")] * (1 + flags // 32)
        return build_batch(
            records,
            timestamp_ms=1_700_000_000_000,
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else self.byte() % 3,
            base_sequence=-1 if producer_id < 0 else self.byte() % 4,
            is_transactional=bool(flags & 2) and producer_id >= 0,
            compression=0 if flags & 4 else self.byte() % 5,
        )
