"""Files of aborted transactions."""

from __future__ import annotations

import pytest

from txnsim.errors import CorruptLogRecordError
from txnsim.log.txn_index import AbortedTxn
from txnsim.storage import txn_index


def aborted(last: int) -> AbortedTxn:
    return AbortedTxn(producer_id=7, first_offset=3, last_offset=last, last_stable_offset=last + 1)


def test_entries_are_34_bytes_each_and_read_back() -> None:
    data = txn_index.encode([aborted(9), aborted(12)])
    assert len(data) == 2 * 34
    assert data[:34].hex() == (
        "0000000000000000000700000000000000030000000000000009000000000000000a"
    )
    assert txn_index.decode(data, place="f") == (aborted(9), aborted(12))


def test_damage_is_reported_with_its_place() -> None:
    data = txn_index.encode([aborted(9), aborted(12)])
    with pytest.raises(CorruptLogRecordError, match="f, byte 34: 33 bytes too many"):
        txn_index.decode(data[:-1], place="f")
    with pytest.raises(CorruptLogRecordError, match=r"f, byte 0: .* version 1"):
        txn_index.decode(b"\0\1" + data[2:], place="f")
    with pytest.raises(CorruptLogRecordError, match="f, byte 34: the marker at 9 comes behind"):
        txn_index.decode(data[:34] * 2, place="f")
