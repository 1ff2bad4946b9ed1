"""Messages of the formats 0 and 1, which releases before 0.11 wrote: they are skipped, not read.

They have no producer, so only their length and offset matter to transactions. A real broker still
serves segments with such messages. Their CRC-32 is checked, because a flipped bit must not turn a
batch of format 2 into one of them. Kafka's counterparts: LegacyRecord, AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final, NamedTuple

from txnsim.wire.batch_header import BatchHeader, Buffer

_READ_FRONT: Final = Struct(">qi").unpack_from
_READ_CRC: Final = Struct(">I").unpack_from
_SIZES_MIN: Final = (14, 22)
"""Smallest size by format: CRC, format, attributes, a timestamp in format 1, lengths of key and
value.
"""
_LENGTH_MAX: Final = BatchHeader.BYTES_MAX - BatchHeader.OVERHEAD
_CRC_BYTES: Final = 4


class OldMessage(NamedTuple):
    """The first fields of a message of format 0 or 1."""

    offset: int
    """Offset of the message; for a compressed one, that of its last inner message."""
    size: int
    """Size of the whole message in bytes, as its length field claims."""

    @classmethod
    def parse(cls, first_bytes: Buffer) -> OldMessage | None:
        """Parse offset and length of an entry; None for format 2, or if no entry has that
        length: a sparse file claims any.
        """
        if len(first_bytes) <= BatchHeader.MAGIC_POSITION:
            return None
        magic = first_bytes[BatchHeader.MAGIC_POSITION]
        offset, length = _READ_FRONT(first_bytes)
        if magic >= BatchHeader.MAGIC or not _SIZES_MIN[magic] <= length <= _LENGTH_MAX:
            return None
        return cls(offset, BatchHeader.OVERHEAD + length)

    @staticmethod
    def is_sound(message: Buffer) -> bool:
        """Whether a whole message has the right CRC-32."""
        stated_crc: int = _READ_CRC(message, BatchHeader.OVERHEAD)[0]
        return zlib.crc32(memoryview(message)[BatchHeader.OVERHEAD + _CRC_BYTES :]) == stated_crc
