"""A walk over the records of a batch by their lengths: are they as many as the header says, and
which is the newest?

Of each record two varints are read, so that a walk costs a sixth of a microsecond per record, a
tenth of reading them. What lies inside of a record is looked at by ``are_whole``, which takes four
times as long. Kafka's counterpart: the iterator over a DefaultRecordBatch in LogValidator.
"""

from __future__ import annotations

from typing import Final

from sim.wire.records import RECORD_MIN, VARINT_BYTES_MAX, VARLONG_BYTES_MAX, read_signed

_ONE_BYTE_MAX: Final = 0x7F
_SIZE_MIN: Final = RECORD_MIN - 1
_SIZE_MIN_ENCODED: Final = _SIZE_MIN << 1
_NONE: Final = -(1 << 63)


def newest_delta_ms(records: bytes, at: int, count: int) -> int | None:
    """The greatest timestamp delta of ``count`` records.

    Args:
        records: What holds the records, unpacked; they end where it ends.
        at: Where the first one begins.
        count: How many the header states; at least one.

    Returns:
        The delta, or None where the records are not what the header says.

    Raises:
        CorruptBatchError: A varint that never ends.
    """
    newest = _NONE
    try:
        for _ in range(count):
            # Even zig-zag varints are not negative; those of one or two bytes are read here, as a
            # call costs more than all the rest.
            size = records[at]
            if size <= _ONE_BYTE_MAX:
                at += 1
                if size < _SIZE_MIN_ENCODED or size & 1:
                    return None
                size >>= 1
            elif not size & 1 and records[at + 1] <= _ONE_BYTE_MAX:
                size = (size & _ONE_BYTE_MAX | records[at + 1] << 7) >> 1
                at += 2
            else:
                size, at = read_signed(records, at, VARINT_BYTES_MAX)
                if size < _SIZE_MIN:
                    return None
            delta = records[at + 1]
            if delta & 1:
                delta, _at = read_signed(records, at + 1, VARLONG_BYTES_MAX)
            elif delta <= _ONE_BYTE_MAX:
                delta >>= 1
            elif records[at + 2] <= _ONE_BYTE_MAX:
                delta = (delta & _ONE_BYTE_MAX | records[at + 2] << 7) >> 1
            else:
                delta, _at = read_signed(records, at + 1, VARLONG_BYTES_MAX)
            if delta > newest:
                newest = delta
            at += size
    except IndexError:
        return None
    return newest if at == len(records) else None


def are_whole(records: bytes, at: int, count: int) -> bool:
    """Whether key, value and headers of each record fill it exactly (DefaultRecord.readFrom).

    Args:
        records: What holds the records, unpacked; a walk has shown that they are ``count``.
        at: Where the first one begins.
        count: How many there are.

    Raises:
        CorruptBatchError: A varint that never ends.
    """
    try:
        for _ in range(count):
            size, at = _size(records, at)
            end = at + size
            at += 1  # attributes
            while records[at] > _ONE_BYTE_MAX:  # the delta of its timestamp
                at += 1
            at += 1
            while records[at] > _ONE_BYTE_MAX:  # and of its offset
                at += 1
            size, at = _size(records, at + 1)
            if size > 0:
                at += size
            size, at = _size(records, at)
            if size > 0:
                at += size
            headers, at = _size(records, at)
            if headers:
                at = _behind_headers(records, at, headers, end)
            if at != end:
                return False
    except IndexError:
        return False
    return True


def _size(records: bytes, at: int) -> tuple[int, int]:
    """A length, -1 for null, and the position after it."""
    size = records[at]
    if size <= _ONE_BYTE_MAX:
        return (size >> 1) ^ -(size & 1), at + 1
    return read_signed(records, at, VARINT_BYTES_MAX)


def _behind_headers(records: bytes, at: int, count: int, end: int) -> int:
    """The position after the headers; -1 where there can't be so many, or one has no key."""
    if not 0 <= count <= end - at:
        return -1
    for _ in range(count):
        size, at = _size(records, at)
        if size < 0:
            return -1
        size, at = _size(records, at + size)
        if size > 0:
            at += size
    return at
