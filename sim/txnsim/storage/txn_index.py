"""The file of a segment's aborted transactions: ``00000000000000000042.txnindex``.

Entries of 34 bytes, in the order of their markers: int16 version 0, then int64 each of producer id,
first offset, last offset (that of the marker) and last stable offset. Kafka's counterpart:
TransactionIndex, AbortedTxn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.log.txn_index import AbortedTxn

VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size


def encode(entries: Iterable[AbortedTxn]) -> bytes:
    """Encode the file."""
    return b"".join(_ENTRY.pack(VERSION, *msgspec.structs.astuple(entry)) for entry in entries)


def decode(data: bytes, *, place: str) -> Iterator[AbortedTxn]:
    """Yield the entries of the file, up to damage.

    Raises:
        CorruptLogRecordError: After the last valid entry there is another version, an offset that
            does not rise, or a partial entry; the message begins with ``place`` and the position.
    """
    whole_bytes = len(data) - len(data) % ENTRY_BYTES
    previous = -1
    for number, (version, *values) in enumerate(_ENTRY.iter_unpack(data[:whole_bytes])):
        entry = AbortedTxn(*values)
        at_byte = f"{place}, byte {number * ENTRY_BYTES}"
        if version != VERSION:
            raise CorruptLogRecordError(f"{at_byte}: an aborted transaction of version {version}")
        if entry.last_offset <= previous:
            raise CorruptLogRecordError(
                f"{at_byte}: the marker at {entry.last_offset} comes behind that at {previous}"
            )
        previous = entry.last_offset
        yield entry
    if whole_bytes != len(data):
        raise CorruptLogRecordError(
            f"{place}, byte {whole_bytes}: {len(data) - whole_bytes} bytes too many"
        )
