"""The file of a producer snapshot: ``00000000000000000042.snapshot`` has the state of a partition's
producers after all records below offset 42.

Version 1: int16 version, uint32 CRC-32C of everything that follows, then the entries of 46 bytes
each. After a clean shutdown the last snapshot of a partition has each open transaction with its
first offset, so it is the fastest way to find hanging transactions in a log directory. Kafka's
counterparts: ProducerStateManager.readSnapshot and writeSnapshot, ProducerSnapshot.json.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import starmap
from struct import Struct
from typing import Final

import crc32c
import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.log.producer_snapshot import SnapshotEntry

VERSION: Final = 1
_VERSION_AND_CRC: Final = Struct(">hI")
_ENTRY_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


ENTRIES_PER_STEP: Final = 2_000


def encode_in_steps(entries: Sequence[SnapshotEntry]) -> Generator[int, None, bytes]:
    """Encode the entries as the content of a producer snapshot file.

    Yields:
        The number of entries, after every two thousand.
    """
    checksummed_bytes = bytearray(_ENTRY_COUNT.pack(len(entries)))
    for start in range(0, len(entries), ENTRIES_PER_STEP):
        if start:
            yield ENTRIES_PER_STEP
        for entry in entries[start : start + ENTRIES_PER_STEP]:
            checksummed_bytes += _ENTRY.pack(*msgspec.structs.astuple(entry))
    crc: int = crc32c.crc32c(checksummed_bytes)
    return _VERSION_AND_CRC.pack(VERSION, crc) + checksummed_bytes


def decode(data: bytes) -> tuple[SnapshotEntry, ...]:
    """Decode the entries of the file, in its order.

    Raises:
        CorruptLogRecordError: The version is another one, the CRC is wrong, or the file is cut off.
    """
    entries_start = _VERSION_AND_CRC.size + _ENTRY_COUNT.size
    if len(data) < entries_start:
        raise CorruptLogRecordError(f"a producer snapshot of {len(data)} bytes")
    version, crc = _VERSION_AND_CRC.unpack_from(data)
    if version != VERSION:
        raise CorruptLogRecordError(f"a producer snapshot of version {version}")
    computed_crc: int = crc32c.crc32c(memoryview(data)[_VERSION_AND_CRC.size :])
    if computed_crc != crc:
        raise CorruptLogRecordError(f"a producer snapshot with CRC {crc}, computed {computed_crc}")
    (entry_count,) = _ENTRY_COUNT.unpack_from(data, _VERSION_AND_CRC.size)
    if len(data) != entries_start + entry_count * _ENTRY.size:
        raise CorruptLogRecordError(
            f"a producer snapshot of {entry_count} producers, {len(data)} bytes"
        )
    return tuple(starmap(SnapshotEntry, _ENTRY.iter_unpack(data[entries_start:])))
