"""Messages of the formats 0 and 1, as releases before 0.11 wrote them."""

from __future__ import annotations

import zlib
from struct import pack


def old_message(magic: int, offset: int, *, stamp_ms: int = 0) -> bytes:
    """One message without a key, its CRC right."""
    record_value = b"of an old release"
    stamp = pack(">q", stamp_ms) if magic else b""
    body = pack(">bb", magic, 0) + stamp + pack(">ii", -1, len(record_value)) + record_value
    message = pack(">I", zlib.crc32(body)) + body
    return pack(">qi", offset, len(message)) + message
