"""Messages of the formats 0 and 1, which releases before 0.11 wrote: passed over, not read.

They have no producer, so nothing of them matters to transactions but their length and offset. A
real broker still serves segments with such messages. Their CRC-32 is checked, as a flipped bit in a
batch of format 2 must not pass for one of them. Kafka's counterparts: LegacyRecord,
AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final, NamedTuple

from txnsim.wire.batch_header import BatchHeader, Buffer

_FRONT: Final = Struct(">qi").unpack_from
_CRC: Final = Struct(">I").unpack_from
_SIZES_MIN: Final = (14, 22)
"""By format: CRC, format, attributes, a time in format 1, lengths of key and value."""
_CRC_BYTES: Final = 4


class OldMessage(NamedTuple):
    """The front of a message of format 0 or 1."""

    offset: int
    """Of a compressed one, the offset of its last inner message."""
    size: int
    """Bytes of the whole message, as it claims."""

    @classmethod
    def at(cls, front: Buffer) -> OldMessage | None:
        """Parse offset and length of an entry; None for format 2, or a length too small."""
        if len(front) <= BatchHeader.MAGIC_POSITION:
            return None
        magic = front[BatchHeader.MAGIC_POSITION]
        offset, length = _FRONT(front)
        if magic >= BatchHeader.MAGIC or length < _SIZES_MIN[magic]:
            return None
        return cls(offset, BatchHeader.OVERHEAD + length)

    @staticmethod
    def is_sound(message: Buffer) -> bool:
        """Whether the CRC-32 of a whole message is right."""
        stated: int = _CRC(message, BatchHeader.OVERHEAD)[0]
        return zlib.crc32(memoryview(message)[BatchHeader.OVERHEAD + _CRC_BYTES :]) == stated
