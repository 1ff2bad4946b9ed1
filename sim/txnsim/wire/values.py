"""Field values whose Python type differs from their encoding: durations, times, ids, error codes.

The types are kio's (``timedelta``, ``datetime``, ``UUID``, ``ErrorCode``). When a duration or a
time is encoded, an integer of milliseconds is also accepted, which is cheaper and exact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

T = TypeVar("T")

_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UUIDS_MAX: Final = 4096
_uuids: dict[bytes, UUID | None] = {bytes(16): None}
_error_codes: Final = {int(code): code for code in ErrorCode}


class Batches:
    """Consecutive record batches as they are in the log, in place of their joined bytes."""

    __slots__ = ("_size", "pieces")

    def __init__(self, pieces: tuple[bytes, ...], size: int) -> None:
        """``size`` is the total length of the pieces in bytes."""
        self.pieces = pieces
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


class LazyRows:
    """Elements of an array that are made one by one when they are encoded, in place of a tuple that
    would take too much memory.
    """

    __slots__ = ("_make", "_values")

    def __init__(self, make_row: Callable[[T], Any], row_values: Collection[T]) -> None:
        """``make_row`` makes an element of each value."""
        self._make: Callable[[Any], Any] = make_row
        self._values: Collection[Any] = row_values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._values)


def duration_ms(duration: timedelta | int) -> int:
    """Convert a duration to milliseconds."""
    return duration if isinstance(duration, int) else duration // _MILLISECOND


def time_ms(time: datetime | int | None) -> int:
    """Convert a time to milliseconds since the epoch; None is Kafka's -1."""
    if time is None:
        return -1
    return time if isinstance(time, int) else (time - _EPOCH) // _MILLISECOND


def to_duration(ms: int) -> timedelta:
    """Convert milliseconds to a duration; the longest ``timedelta`` if it is out of range."""
    try:
        return timedelta(0, 0, 0, ms)
    except OverflowError:
        return timedelta.max if ms > 0 else timedelta.min


def to_time(ms: int) -> datetime | None:
    """Convert milliseconds since the epoch to a time; None for negative ones, as in Kafka."""
    if ms < 0:
        return None
    try:
        return _EPOCH + timedelta(0, 0, 0, ms)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def to_uuid(data: bytes) -> UUID | None:
    """Convert sixteen bytes to an id; None for zeros (Kafka's ``Uuid.ZERO_UUID``)."""
    uuid = _uuids.get(data, _uuids)
    if isinstance(uuid, dict):
        # The same few topic ids come with every request; a flood of others empties the cache.
        if len(_uuids) >= _UUIDS_MAX:
            _uuids.clear()
            _uuids[bytes(16)] = None
        uuid = _uuids[data] = UUID(bytes=data)
    return uuid


def uuid_bytes(uuid: UUID | None) -> bytes:
    """Convert an id to sixteen bytes; None to zeros."""
    return bytes(16) if uuid is None else uuid.bytes


def to_error_code(number: int) -> ErrorCode:
    """Convert a number to an error code; an unknown number becomes UNKNOWN_SERVER_ERROR, -1
    (``Errors.forCode``).
    """
    return _error_codes.get(number, ErrorCode.unknown_server_error)
