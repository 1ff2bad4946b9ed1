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


def encode(aborted_txns: Iterable[AbortedTxn]) -> bytes:
    """Encode the entries as the content of a ``.txnindex`` file."""
    return b"".join(
        _ENTRY.pack(VERSION, *msgspec.structs.astuple(aborted_txn)) for aborted_txn in aborted_txns
    )


def decode(data: bytes, *, error_prefix: str) -> Iterator[AbortedTxn]:
    """Yield the entries of the file, up to damage.

    Raises:
        CorruptLogRecordError: After the last valid entry there is another version, an offset that
            does not rise, or a partial entry; the message begins with ``error_prefix`` and the
            position.
    """
    entries_bytes = len(data) - len(data) % ENTRY_BYTES
    previous_offset = -1
    for entry_index, (version, *entry_fields) in enumerate(
        _ENTRY.iter_unpack(data[:entries_bytes])
    ):
        aborted_txn = AbortedTxn(*entry_fields)
        entry_prefix = f"{error_prefix}, byte {entry_index * ENTRY_BYTES}"
        if version != VERSION:
            raise CorruptLogRecordError(
                f"{entry_prefix}: an aborted transaction of version {version}"
            )
        if aborted_txn.last_offset <= previous_offset:
            raise CorruptLogRecordError(
                f"{entry_prefix}: the marker at {aborted_txn.last_offset} comes behind that at"
                f" {previous_offset}"
            )
        previous_offset = aborted_txn.last_offset
        yield aborted_txn
    if entries_bytes != len(data):
        raise CorruptLogRecordError(
            f"{error_prefix}, byte {entries_bytes}: {len(data) - entries_bytes} bytes too many"
        )
