"""Messages of the formats 0 and 1, which releases before 0.11 wrote: passed over, not read.

They have no producer, so nothing of them matters to transactions but their length and offset. A
real broker still serves segments with such messages. Their CRC-32 is checked, as a flipped bit in a
batch of format 2 must not pass for one of them. Kafka's counterparts: LegacyRecord,
AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

from txnsim.wire.batch_header import LOG_OVERHEAD, MAGIC, MAGIC_POSITION, Buffer

_FRONT: Final = Struct(">qi").unpack_from
_CRC: Final = Struct(">I").unpack_from
_SIZES_MIN: Final = (14, 22)
"""By format: CRC, format, attributes, a time in format 1, lengths of key and value."""
_CRC_BYTES: Final = 4


def is_old(front: Buffer) -> bool:
    """Whether an entry of a log begins like a message of format 0 or 1."""
    magic = front[MAGIC_POSITION]
    return magic < MAGIC and _FRONT(front)[1] >= _SIZES_MIN[magic]


def size_of(front: Buffer) -> int:
    """Bytes of the whole message, as it claims."""
    length: int = _FRONT(front)[1]
    return LOG_OVERHEAD + length


def offset_of(front: Buffer) -> int:
    """Offset of a message; of a compressed one, the offset of its last inner message."""
    offset: int = _FRONT(front)[0]
    return offset


def is_sound(message: Buffer) -> bool:
    """Whether its CRC-32 is right."""
    stated: int = _CRC(message, LOG_OVERHEAD)[0]
    return zlib.crc32(memoryview(message)[LOG_OVERHEAD + _CRC_BYTES :]) == stated
